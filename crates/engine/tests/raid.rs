//! RAID plans against real bytes: random destages on an in-memory array carried out exactly as
//! planned, after each of which the parity of every stripe touched is computed afresh.

use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::array::layout::DiskPage;
use destage_engine::array::plan::{DiskRun, Plan, Planner, RowMethod};
use destage_engine::units::{DiskId, GroupId, Page, StripeId};
use destage_parity::field::{q_into, xor_into};
use std::collections::BTreeMap;

/// Bytes kept of each page: enough to tell pages apart.
const BYTES: usize = 16;
type Block = [u8; BYTES];

struct Array {
    geometry: Geometry,
    disks: Vec<Vec<Block>>,
    /// What the host wrote.
    volume: BTreeMap<u64, Block>,
    state: u64,
}

impl Array {
    fn new(geometry: Geometry) -> Array {
        let disk = vec![[0; BYTES]; geometry.disk_pages as usize];
        let disks = vec![disk; usize::from(geometry.disks)];
        Array { geometry, disks, volume: BTreeMap::new(), state: 42 }
    }

    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.state >> 33
    }

    fn at(&self, place: DiskPage) -> Block {
        self.disks[usize::from(place.disk.0)][place.page as usize]
    }

    /// Writes random data to the masked pages of a group by its plan, using only what it reads.
    fn destage(&mut self, group: GroupId, mask: &[u64], plan: &Plan) {
        let per_group = self.geometry.pages_per_group();
        let first = group.0 * per_group;
        let bits = (0..per_group).filter(|b| mask[(b / 64) as usize] >> (b % 64) & 1 == 1);
        let dirty: Vec<u64> = bits.map(|b| first + b).collect();
        let read: BTreeMap<DiskPage, Block> =
            places(&plan.reads).map(|place| (place, self.at(place))).collect();
        let mut new: BTreeMap<u64, Block> = BTreeMap::new();
        for page in &dirty {
            let data = std::array::from_fn(|_| self.random() as u8);
            new.insert(*page, data);
            self.volume.insert(*page, data);
        }
        let mut to_write = self.contents(&new, &read);
        for place in places(&plan.writes) {
            let data = to_write.remove(&place);
            let data = data.unwrap_or_else(|| panic!("wrote {place:?} twice or for nothing"));
            self.disks[usize::from(place.disk.0)][place.page as usize] = data;
        }
        assert!(to_write.is_empty(), "the plan forgot {to_write:?}");
    }

    /// What must be written where, from new data and what was read.
    fn contents(
        &self,
        new: &BTreeMap<u64, Block>,
        read: &BTreeMap<DiskPage, Block>,
    ) -> BTreeMap<DiskPage, Block> {
        let geometry = &self.geometry;
        let mut contents = BTreeMap::new();
        let mut rows: BTreeMap<(u64, u64), Vec<u16>> = BTreeMap::new();
        for (page, data) in new {
            let place = geometry.place(Page(*page));
            contents.insert(place, *data);
            if geometry.level == Level::Raid10 {
                contents.insert(DiskPage { disk: DiskId(place.disk.0 + 1), ..place }, *data);
            }
            let stripe = page / geometry.stripe_pages();
            let strip = page % geometry.stripe_pages() / geometry.strip_pages;
            let row = page % geometry.strip_pages;
            rows.entry((stripe, row)).or_default().push(strip as u16);
        }
        if geometry.level.parities() > 0 {
            for ((stripe, row), dirty) in rows {
                self.row_parity(StripeId(stripe), row, &dirty, new, read, &mut contents);
            }
        }
        contents
    }

    fn row_parity(
        &self,
        stripe: StripeId,
        row: u64,
        dirty: &[u16],
        new: &BTreeMap<u64, Block>,
        read: &BTreeMap<DiskPage, Block>,
        contents: &mut BTreeMap<DiskPage, Block>,
    ) {
        let geometry = &self.geometry;
        let page = stripe.0 * geometry.strip_pages + row;
        let on = |disk: DiskId| DiskPage { disk, page };
        let old = |disk: DiskId| *read.get(&on(disk)).expect("the plan read what it needs");
        let data_page = |strip: u16| {
            stripe.0 * geometry.stripe_pages() + u64::from(strip) * geometry.strip_pages + row
        };
        let parities = [geometry.parity_disk(stripe), geometry.q_disk(stripe)];
        let parities = &parities[..usize::from(geometry.level.parities())];
        let method = geometry.row_method(dirty.len() as u64);
        for (which, disk) in parities.iter().enumerate() {
            let add = |into: &mut Block, strip: u16, data: &Block| match which {
                0 => xor_into(into, data),
                _ => q_into(into, strip, data),
            };
            let mut parity = [0; BYTES];
            if method == RowMethod::ReadModifyWrite {
                parity = old(*disk);
            }
            for strip in 0..geometry.data_strips() as u16 {
                let data_disk = geometry.data_disk(stripe, strip);
                match (dirty.contains(&strip), method) {
                    (true, RowMethod::ReadModifyWrite) => {
                        add(&mut parity, strip, &old(data_disk));
                        add(&mut parity, strip, &new[&data_page(strip)]);
                    }
                    (true, _) => add(&mut parity, strip, &new[&data_page(strip)]),
                    (false, RowMethod::ReconstructWrite) => {
                        add(&mut parity, strip, &old(data_disk));
                    }
                    (false, _) => {}
                }
            }
            contents.insert(on(*disk), parity);
        }
    }

    /// Every page is where the layout says, every parity right.
    fn check(&self) {
        for (page, data) in &self.volume {
            let place = self.geometry.place(Page(*page));
            assert_eq!(self.at(place), *data, "page {page}");
            if self.geometry.level == Level::Raid10 {
                let mirror = DiskPage { disk: DiskId(place.disk.0 + 1), ..place };
                assert_eq!(self.at(mirror), *data, "mirror of page {page}");
            }
        }
        if self.geometry.level.parities() == 0 {
            return;
        }
        for page in 0..self.geometry.disk_pages {
            let stripe = StripeId(page / self.geometry.strip_pages);
            let (mut p, mut q) = ([0; BYTES], [0; BYTES]);
            for strip in 0..self.geometry.data_strips() as u16 {
                let disk = self.geometry.data_disk(stripe, strip);
                let data = self.at(DiskPage { disk, page });
                xor_into(&mut p, &data);
                q_into(&mut q, strip, &data);
            }
            let disk = self.geometry.parity_disk(stripe);
            assert_eq!(self.at(DiskPage { disk, page }), p, "P of {stripe:?}");
            if self.geometry.level.parities() > 1 {
                let disk = self.geometry.q_disk(stripe);
                assert_eq!(self.at(DiskPage { disk, page }), q, "Q of {stripe:?}");
            }
        }
    }
}

fn places(runs: &[DiskRun]) -> impl Iterator<Item = DiskPage> + '_ {
    runs.iter().flat_map(|run| {
        let pages = run.first..run.first + u64::from(run.pages);
        pages.map(|page| DiskPage { disk: run.disk, page })
    })
}

fn joined(runs: &[DiskRun]) -> bool {
    runs.iter().all(|a| {
        let end = a.first + u64::from(a.pages);
        !runs.iter().any(|b| b.disk == a.disk && b.first == end)
    })
}

#[test]
fn parity_is_right_after_every_destage() {
    use Level::{Raid0, Raid4, Raid5, Raid6, Raid10, Single};
    let arrays = [
        (Single, 1, 16, 1),
        (Raid0, 3, 16, 1),
        (Raid10, 4, 16, 1),
        (Raid4, 4, 16, 1),
        (Raid5, 3, 4, 1),
        (Raid5, 5, 16, 1),
        (Raid5, 5, 16, 3),
        (Raid5, 9, 80, 2),
        (Raid6, 4, 16, 1),
        (Raid6, 8, 16, 2),
    ];
    for (level, disks, strip_pages, group_stripes) in arrays {
        let disk_pages = strip_pages * group_stripes * 12;
        let geometry = Geometry { level, disks, strip_pages, group_stripes, disk_pages };
        let geometry = geometry.checked().expect("a valid geometry");
        let mut array = Array::new(geometry);
        let (mut planner, mut plan) = (Planner::default(), Plan::default());
        let words = geometry.pages_per_group().div_ceil(64) as usize;
        for round in 0..150 {
            let group = GroupId(array.random() % geometry.groups());
            let mut mask = vec![0u64; words];
            for bit in 0..geometry.pages_per_group() {
                let dense = round % 4;
                if round % 10 == 0 || array.random() % 6 <= dense {
                    mask[(bit / 64) as usize] |= 1 << (bit % 64);
                }
            }
            if mask.iter().all(|w| *w == 0) {
                continue;
            }
            geometry.plan(group, &mask, &mut planner, &mut plan);
            assert!(joined(&plan.reads) && joined(&plan.writes), "contiguous rows are one I/O");
            array.destage(group, &mask, &plan);
            array.check();
        }
    }
}
