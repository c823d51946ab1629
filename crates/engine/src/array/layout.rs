//! Where pages and parity are: page of the volume to (disk, page of the disk).

use super::geometry::{Geometry, Redundancy};
use crate::units::{DiskId, Page, StripeId};

/// A page of a member disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskPage {
    /// The disk.
    pub disk: DiskId,
    /// 4 KiB page of the disk.
    pub page: u64,
}

impl Geometry {
    /// Where a page of data is; on a mirrored level its copy on the even disk of the pair. The
    /// other copy is at the same page of the next disk.
    pub fn place(&self, page: Page) -> DiskPage {
        let (strip, row) = (page.0 / self.strip_pages, page.0 % self.strip_pages);
        let width = self.data_strips();
        let (stripe, strip) = (strip / width, (strip % width) as u16);
        DiskPage {
            disk: self.data_disk(StripeId(stripe), strip),
            page: stripe * self.strip_pages + row,
        }
    }

    /// The page of data at this place; `None`: parity is there.
    pub fn page_at(&self, place: DiskPage) -> Option<Page> {
        let (stripe, row) = (place.page / self.strip_pages, place.page % self.strip_pages);
        let strip = match self.level.entry().redundancy {
            Redundancy::None => place.disk.0,
            Redundancy::Mirror => place.disk.0 / 2,
            Redundancy::Parity { strips, .. } => {
                let first_parity = self.parity_disk(StripeId(stripe)).0;
                let after = (place.disk.0 + self.disks - first_parity) % self.disks;
                after.checked_sub(strips)?
            }
        };
        Some(Page((stripe * self.data_strips() + u64::from(strip)) * self.strip_pages + row))
    }

    /// Disk of the first parity strip (P) of a stripe.
    pub fn parity_disk(&self, stripe: StripeId) -> DiskId {
        let last = self.disks - 1;
        match self.level.entry().redundancy {
            Redundancy::Parity { rotates: false, .. } => DiskId(last),
            _ => DiskId(last - (stripe.0 % u64::from(self.disks)) as u16),
        }
    }

    /// Disk of the second parity strip (Q): the one after P.
    pub fn q_disk(&self, stripe: StripeId) -> DiskId {
        DiskId((self.parity_disk(stripe).0 + 1) % self.disks)
    }

    /// Disk of data strip `strip` of a stripe: data follows the parity, wrapping.
    pub fn data_disk(&self, stripe: StripeId, strip: u16) -> DiskId {
        match self.level.entry().redundancy {
            Redundancy::None => DiskId(strip),
            Redundancy::Mirror => DiskId(strip * 2),
            Redundancy::Parity { strips, .. } => {
                DiskId((self.parity_disk(stripe).0 + strips + strip) % self.disks)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::geometry::Level;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    fn geometry(level: Level, disks: u16) -> Geometry {
        let (strip_pages, group_stripes, disk_pages) = (16, 1, 1600);
        Geometry { level, disks, strip_pages, group_stripes, disk_pages }.checked().unwrap()
    }

    #[test]
    fn raid5_is_left_symmetric() {
        let raid5 = geometry(Level::Raid5, 5);
        let parity: Vec<u16> = (0..6).map(|s| raid5.parity_disk(StripeId(s)).0).collect();
        assert_eq!(parity, [4, 3, 2, 1, 0, 4]);
        assert_eq!(raid5.place(Page(0)), DiskPage { disk: DiskId(0), page: 0 });
        // Stripe 1: parity on 3, so data strip 0 (pages 64..) is on disk 4.
        assert_eq!(raid5.place(Page(65)), DiskPage { disk: DiskId(4), page: 17 });
    }

    #[test]
    fn raid6_puts_q_after_p_and_data_after_q() {
        let raid6 = geometry(Level::Raid6, 6);
        assert_eq!(raid6.parity_disk(StripeId(0)), DiskId(5));
        assert_eq!(raid6.q_disk(StripeId(0)), DiskId(0));
        assert_eq!(raid6.data_disk(StripeId(0), 0), DiskId(1));
    }

    #[test]
    fn every_page_has_a_place_of_its_own_clear_of_parity() {
        for (level, disks) in [
            (Level::Single, 1),
            (Level::Raid0, 3),
            (Level::Raid10, 4),
            (Level::Raid4, 4),
            (Level::Raid5, 5),
            (Level::Raid6, 6),
        ] {
            let geometry = geometry(level, disks);
            let mut places = BTreeSet::new();
            for page in 0..geometry.volume_pages().0 {
                let place = geometry.place(Page(page));
                assert!(place.disk.0 < disks && place.page < 1600);
                assert!(places.insert(place), "{level:?} puts two pages at {place:?}");
                assert_eq!(geometry.page_at(place), Some(Page(page)));
                let stripe = StripeId(place.page / 16);
                if level.parities() > 0 {
                    assert_ne!(geometry.parity_disk(stripe), place.disk);
                    let parity = DiskPage { disk: geometry.parity_disk(stripe), ..place };
                    assert_eq!(geometry.page_at(parity), None);
                }
                if level.parities() > 1 {
                    assert_ne!(geometry.q_disk(stripe), place.disk);
                }
            }
        }
    }
}
