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
