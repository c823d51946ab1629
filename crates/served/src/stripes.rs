//! The bytes of the stripe memory: pages of rows as the last destages left them on the disks
//! (docs/stripe-memory.md). The engine says what is kept.

use crate::store::PageMap;
use destage_engine::units::DiskId;

/// The pages that are kept of a row.
type Row = Vec<(DiskId, Box<[u8]>)>;

/// Rows by their page on the disks.
#[derive(Default)]
pub(crate) struct Stripes(PageMap<Row>);

impl Stripes {
    /// Keeps a page in place of what was kept of it.
    pub(crate) fn keep(&mut self, row: u64, disk: DiskId, bytes: &[u8]) {
        let row = self.0.entry(row).or_default();
        match row.iter_mut().find(|(known, _)| *known == disk) {
            Some((_, kept)) => kept.copy_from_slice(bytes),
            None => row.push((disk, bytes.into())),
        }
    }

    /// A page that is kept.
    pub(crate) fn get(&self, row: u64, disk: DiskId) -> Option<&[u8]> {
        let row = self.0.get(&row)?;
        row.iter().find(|(known, _)| *known == disk).map(|(_, bytes)| &**bytes)
    }

    pub(crate) fn forget(&mut self, row: u64) {
        self.0.remove(&row);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_kept_as_it_was_last_until_its_row_is_forgotten() {
        let (a, b, mut stripes) = (DiskId(0), DiskId(1), Stripes::default());
        stripes.keep(5, a, &[1; 4]);
        stripes.keep(5, b, &[2; 4]);
        stripes.keep(6, a, &[3; 4]);
        stripes.keep(5, b, &[4; 4]);
        assert_eq!(stripes.get(5, a), Some(&[1; 4][..]));
        assert_eq!(stripes.get(5, b), Some(&[4; 4][..]), "the last");
        assert_eq!(stripes.get(5, DiskId(2)), None);
        stripes.forget(5);
        assert_eq!((stripes.get(5, a), stripes.get(5, b)), (None, None));
        assert_eq!(stripes.get(6, a), Some(&[3; 4][..]));
        stripes.clear();
        assert_eq!(stripes.get(6, a), None);
    }
}
