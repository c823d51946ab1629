//! The modelled heads of the simulated disks, for policies that ask where they are.

use destage_disk::Disk;
use destage_engine::array::geometry::Geometry;
use destage_engine::conditions::Heads;
use destage_engine::units::{GroupId, Instant, PAGE_BYTES, Page};

/// How groups are laid out on the disks.
#[derive(Clone, Copy)]
pub enum DiskLayout<'a> {
    /// Write groups of an array.
    Array(&'a Geometry),
    /// Tracks of this many sectors on the only disk.
    Tracks(u64),
}

/// The heads at one moment.
pub struct DiskHeads<'a> {
    /// The disks.
    pub disks: &'a [Disk],
    /// When each disk's command in service completes; [`Instant::NEVER`] if it is idle.
    pub completes: &'a [Instant],
    /// The moment.
    pub now: Instant,
    /// How groups are laid out on the disks.
    pub places: DiskLayout<'a>,
}

impl DiskHeads<'_> {
    fn groups(&self) -> u64 {
        match self.places {
            DiskLayout::Array(geometry) => geometry.groups(),
            DiskLayout::Tracks(sectors) => self.disks[0].sectors().div_ceil(sectors),
        }
    }

    fn sectors_per_page(&self) -> u64 {
        PAGE_BYTES / u64::from(self.disks[0].sector_bytes())
    }

    /// First and last sector of a group on each disk that it touches.
    fn span(&self, group: GroupId) -> (u64, u64) {
        match self.places {
            DiskLayout::Array(geometry) => {
                let per_group = geometry.pages_per_group();
                let first = geometry.place(Page(group.0 * per_group)).page;
                // A group is part of one strip, or one or more stripes.
                let pages = match per_group / geometry.stripe_pages() {
                    0 => per_group,
                    _ => per_group / geometry.data_strips(),
                };
                let sectors = self.sectors_per_page();
                (first * sectors, (first + pages) * sectors - 1)
            }
            DiskLayout::Tracks(sectors) => {
                let last = (group.0 + 1) * sectors - 1;
                (group.0 * sectors, last.min(self.disks[0].sectors() - 1))
            }
        }
    }
}

impl Heads for DiskHeads<'_> {
    fn count(&self) -> usize {
        self.disks.len()
    }

    fn over(&self, head: usize) -> GroupId {
        let cylinder = self.disks[head].head_cylinder();
        let (mut low, mut high) = (0, self.groups() - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.disks[head].cylinder_of(self.span(GroupId(middle)).1) < cylinder {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        GroupId(low)
    }

    fn floor(&self, head: usize, group: GroupId) -> u64 {
        let disk = &self.disks[head];
        let (first, last) = self.span(group);
        let (first, last) = (disk.cylinder_of(first), disk.cylinder_of(last));
        disk.least_seek(disk.head_cylinder().clamp(first, last)).0
    }

    fn cost(&self, group: GroupId, first_page: u64) -> u64 {
        let (disk, sector) = match self.places {
            DiskLayout::Array(geometry) => {
                let page = group.0 * geometry.pages_per_group() + first_page;
                let place = geometry.place(Page(page));
                (usize::from(place.disk.0), place.page * self.sectors_per_page())
            }
            DiskLayout::Tracks(sectors) => (0, group.0 * sectors + first_page),
        };
        // A disk that is busy begins when it is done with what it has in service.
        let start = match self.completes[disk] {
            Instant::NEVER => self.now,
            done => done.max(self.now),
        };
        self.disks[disk].positioning_time(start, sector, true).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_disk::DiskOp;
    use destage_engine::array::geometry::Level;

    /// The nearest by brute force is what a search outward with floors may stop at: no group
    /// beyond a floor costs less than it.
    #[test]
    fn floors_are_lower_bounds_and_grow_away_from_the_head() {
        let spec = destage_disk::find("hp-c2200a").expect("a disk");
        let mut disks = vec![Disk::new(&spec)];
        let op = DiskOp { lbn: 500_000, sectors: 8, write: true, tag: 0 };
        disks[0].submit(Instant::ZERO, op);
        let completes = [disks[0].start(Instant::ZERO).expect("it starts")];
        let places = DiskLayout::Tracks(113);
        let heads = DiskHeads { disks: &disks, completes: &completes, now: Instant::ZERO, places };
        check(&heads);
    }

    #[test]
    fn floors_hold_on_an_array_of_groups() {
        let spec = destage_disk::find("stow-ref").expect("a disk");
        let disks: Vec<Disk> = (0..5).map(|_| Disk::new(&spec)).collect();
        for level in [Level::Raid5, Level::Raid0, Level::Single] {
            let geometry = Geometry {
                level,
                disks: if level == Level::Single { 1 } else { 5 },
                strip_pages: 16,
                group_stripes: 1,
                disk_pages: 1_000_000,
            };
            let geometry = geometry.checked().expect("an array");
            let count = usize::from(geometry.disks);
            let heads = DiskHeads {
                disks: &disks[..count],
                completes: &[Instant::NEVER; 5][..count],
                now: Instant(7_654_321),
                places: DiskLayout::Array(&geometry),
            };
            check(&heads);
        }
    }

    fn check(heads: &DiskHeads<'_>) {
        let groups = heads.groups();
        for head in 0..heads.count() {
            let over = heads.over(head).0;
            assert_eq!(heads.floor(head, GroupId(over)), 0, "the head is over the group");
            let mut last = 0;
            for group in (over..groups).step_by((groups / 500) as usize) {
                let floor = heads.floor(head, GroupId(group));
                assert!(floor >= last, "group {group}: {floor} after {last}");
                last = floor;
                if heads.count() == 1 {
                    assert!(heads.cost(GroupId(group), 0) >= floor);
                }
            }
        }
    }
}
