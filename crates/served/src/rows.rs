//! Rows of the array from what was read of them: pages of failed or unreadable disks are
//! reconstructed from the others (docs/durability.md, the proof of the write hole).

use crate::Buffer;
use crate::crc::crc32c;
use crate::io::OpId;
use crate::log::RowSums;
use crate::pages::SECTOR;
use crate::store::PAGE;
use destage_engine::array::geometry::{Geometry, Redundancy};
use destage_engine::array::layout::DiskPage;
use destage_engine::array::safe::RowAt;
use destage_engine::units::{DiskId, Page};
use destage_parity::erasure::{missing_strips, parities};
use destage_parity::field::{q_into, xor_into};

/// A run read from a disk.
struct Run {
    disk: DiskId,
    /// First page.
    first: u64,
    /// The operation that read it: they are numbered as they are submitted, and done in any order.
    op: u64,
    bytes: Buffer,
}

impl Run {
    fn page(&self, disk: DiskId, page: u64) -> Option<&[u8]> {
        let at = page.checked_sub(self.first)? as usize * PAGE;
        if self.disk == disk { self.bytes.get(at..at + PAGE) } else { None }
    }
}

/// Runs read from disks.
#[derive(Default)]
pub(crate) struct Pieces {
    runs: Vec<Run>,
    /// First page, pages, and the operation from which on reads of these pages are consistent.
    rows: Vec<(u64, u32, u64)>,
}

impl Pieces {
    pub(crate) fn add(&mut self, disk: DiskId, first: u64, op: OpId, bytes: Buffer) {
        self.runs.push(Run { disk, first, op: op.0, bytes });
    }

    /// All that was read, if it is `count` runs of exactly these pages, each from another disk.
    fn take_all(&mut self, count: usize, first: u64, bytes: usize) -> Option<Vec<Buffer>> {
        let mut disks: Vec<DiskId> = self.runs.iter().map(|run| run.disk).collect();
        disks.sort_unstable();
        disks.dedup();
        let fits = |run: &Run| run.first == first && run.bytes.len() == bytes;
        let complete = self.runs.len() == count && disks.len() == count;
        (complete && self.runs.iter().all(fits))
            .then(|| self.runs.drain(..).map(|run| run.bytes).collect())
    }

    pub(crate) fn clear(&mut self) {
        self.runs.clear();
    }

    /// These pages of the disks are not written any more: reads from operation `from` on are
    /// consistent. Reads before it may be done later.
    pub(crate) fn rows_hold(&mut self, first: u64, pages: u32, from: OpId) {
        self.rows.push((first, pages, from.0));
    }

    /// A page of a disk, if it is consistent with the others of its row.
    fn of_row(&self, disk: DiskId, page: u64) -> Option<&[u8]> {
        let covers = |rows: &&(u64, u32, u64)| (rows.0..rows.0 + u64::from(rows.1)).contains(&page);
        let from = self.rows.iter().find(covers).map_or(0, |rows| rows.2);
        self.newest(disk, page, from)
    }

    /// A page of a disk as it was read.
    pub(crate) fn read(&self, disk: DiskId, page: u64) -> Option<&[u8]> {
        self.newest(disk, page, 0)
    }

    /// A page of a disk as the newest read has it, of those from operation `from` on.
    fn newest(&self, disk: DiskId, page: u64, from: u64) -> Option<&[u8]> {
        let runs = self.runs.iter().filter(|run| run.op >= from);
        let found = runs.filter_map(|run| Some((run.op, run.page(disk, page)?)));
        found.max_by_key(|(op, _)| *op).map(|(_, bytes)| bytes)
    }

    /// A page of a disk, reconstructed from its row if it was not read. If its row was locked, only
    /// reads since then count: it may be written to its disk again.
    pub(crate) fn page(&self, geometry: &Geometry, disk: DiskId, page: u64) -> Option<Vec<u8>> {
        // Of mirrors other pairs have pages of the same number.
        let own = match geometry.level.is_mirrored() {
            true => self.read(disk, page),
            false => self.of_row(disk, page),
        };
        if let Some(bytes) = own {
            return Some(bytes.to_vec());
        }
        match geometry.level.entry().redundancy {
            Redundancy::None => None,
            Redundancy::Mirror => self.read(DiskId(disk.0 ^ 1), page).map(<[u8]>::to_vec),
            Redundancy::Parity { .. } => {
                let (_, at) = geometry.row_of_disk_page(page);
                let row = self.row(geometry, &at)?;
                let strips = 0..geometry.data_strips() as u16;
                for strip in strips {
                    if geometry.data_disk(at.stripe, strip) == disk {
                        return Some(row[usize::from(strip)].clone());
                    }
                }
                let data: Vec<&[u8]> = row.iter().map(Vec::as_slice).collect();
                let (p, q) = parities(&data, geometry.level.parities() > 1);
                if geometry.parity_disk(at.stripe) == disk { Some(p) } else { q }
            }
        }
    }

    /// A page of the volume that was read from its own disk, or the mirror of that.
    pub(crate) fn read_directly(&self, geometry: &Geometry, page: Page) -> Option<&[u8]> {
        let DiskPage { disk, page } = geometry.place(page);
        let mirrored = geometry.level.is_mirrored();
        let mirror = || mirrored.then(|| self.read(DiskId(disk.0 ^ 1), page)).flatten();
        self.read(disk, page).or_else(mirror)
    }

    /// A page of the volume for a host, who may get what was read before its row was locked.
    pub(crate) fn of_volume(&self, geometry: &Geometry, page: Page) -> Option<Vec<u8>> {
        let DiskPage { disk, page } = geometry.place(page);
        let early = || self.read(disk, page).map(<[u8]>::to_vec);
        self.page(geometry, disk, page).or_else(early)
    }

    /// All data of a row that is consistent on the disks.
    pub(crate) fn row(&self, geometry: &Geometry, at: &RowAt) -> Option<Vec<Vec<u8>>> {
        let data = self.data_of(geometry, at);
        let [p, q] = self.parities_of(geometry, at);
        let missing = missing_strips(&data, p, q)?;
        Some(fill_in(&data, missing))
    }

    /// The data strips of a row that were read.
    pub(crate) fn data_of(&self, geometry: &Geometry, at: &RowAt) -> Vec<Option<&[u8]>> {
        let strips = 0..geometry.data_strips() as u16;
        strips.map(|strip| self.of_row(geometry.data_disk(at.stripe, strip), at.page)).collect()
    }

    /// P and Q of a row, if they were read.
    pub(crate) fn parities_of(&self, geometry: &Geometry, at: &RowAt) -> [Option<&[u8]>; 2] {
        let mut found = [None; 2];
        for (parity, disk) in geometry.parity_disks(at.stripe).enumerate() {
            found[parity] = self.of_row(disk, at.page);
        }
        found
    }
}

impl Pieces {
    /// The pages of a window of which one run was read from each of the row's other disks: the
    /// exclusive or of them all, and buffers that are no longer needed.
    pub(crate) fn xor_all(
        &mut self,
        geometry: &Geometry,
        first: u64,
        pages: u32,
    ) -> Option<(Buffer, Vec<Buffer>)> {
        let others = match geometry.level.entry().redundancy {
            Redundancy::Mirror => 1,
            Redundancy::Parity { strips: 1, .. } => usize::from(geometry.disks) - 1,
            _ => return None,
        };
        let mut runs = self.take_all(others, first, pages as usize * PAGE)?;
        let mut sum = runs.pop()?;
        runs.iter().for_each(|run| xor_into(&mut sum, run));
        Some((sum, runs))
    }

    /// Reconstructs a page of a disk from the others of its row; whether that was possible.
    pub(crate) fn reconstruct(
        &self,
        geometry: &Geometry,
        disk: DiskId,
        page: u64,
        into: &mut [u8],
    ) -> bool {
        if !geometry.level.is_mirrored() && self.reconstruct_by_xor(geometry, disk, page, into) {
            return true;
        }
        let found = self.page(geometry, disk, page);
        if let Some(bytes) = &found {
            into.copy_from_slice(bytes);
        }
        found.is_some()
    }

    /// The plain case: all other data of the row was read, and P.
    fn reconstruct_by_xor(
        &self,
        geometry: &Geometry,
        disk: DiskId,
        page: u64,
        into: &mut [u8],
    ) -> bool {
        let (_, at) = geometry.row_of_disk_page(page);
        if geometry.level.parities() > 1 && geometry.q_disk(at.stripe) == disk {
            return false;
        }
        let strips = 0..geometry.data_strips() as u16;
        let data = strips.map(|strip| geometry.data_disk(at.stripe, strip));
        let others = data.chain([geometry.parity_disk(at.stripe)]).filter(|other| *other != disk);
        let mut complete = true;
        for (i, other) in others.enumerate() {
            match (self.read(other, page), i) {
                (Some(bytes), 0) => into.copy_from_slice(bytes),
                (Some(bytes), _) => xor_into(into, bytes),
                (None, _) => complete = false,
            }
        }
        complete
    }
}

fn fill_in(data: &[Option<&[u8]>], missing: Vec<(u16, Vec<u8>)>) -> Vec<Vec<u8>> {
    let mut row: Vec<Vec<u8>> =
        data.iter().map(|strip| strip.map(<[u8]>::to_vec).unwrap_or_default()).collect();
    for (strip, bytes) in missing {
        row[usize::from(strip)] = bytes;
    }
    row
}

/// New parity by read-modify-write; `None` where a parity was not read.
pub(crate) fn modified(
    old: &[Option<&[u8]>],
    new: &[Option<&[u8]>],
    parities: [Option<&[u8]>; 2],
) -> Option<[Option<Vec<u8>>; 2]> {
    let mut changed = [parities[0].map(<[u8]>::to_vec), parities[1].map(<[u8]>::to_vec)];
    for (strip, (old, new)) in old.iter().zip(new).enumerate() {
        let Some(new) = new else { continue };
        let mut difference = (*old)?.to_vec();
        xor_into(&mut difference, new);
        if let Some(p) = &mut changed[0] {
            xor_into(p, &difference);
        }
        if let Some(q) = &mut changed[1] {
            q_into(q, strip as u16, &difference);
        }
    }
    Some(changed)
}

/// New bytes of a page, and which sectors of them count.
pub(crate) type NewPage<'a> = (&'a [u8], u8);

/// The data of a row of which an interrupted destage may have written parts: `new` is what it
/// writes, `disks` and `parities` are what the disks hold now, `logged` has the checksums of the
/// parity that it was to write (docs/durability.md, the cases of the proof). Each sector of the row
/// is a row by itself: a page of which only some sectors are new is clean in the others. `None`:
/// too little is left.
pub(crate) fn interrupted_row(
    new: &[Option<NewPage<'_>>],
    disks: &[Option<&[u8]>],
    parities: [Option<&[u8]>; 2],
    logged: Option<&RowSums>,
) -> Option<Vec<Vec<u8>>> {
    let width = new.len();
    let mut row = vec![vec![0; PAGE]; width];
    for sector in 0..PAGE / SECTOR {
        let part = sector * SECTOR..(sector + 1) * SECTOR;
        let cut = |of: Option<&[u8]>| of.map(|bytes| bytes[part.clone()].to_vec());
        let written = |page: &Option<NewPage<'_>>| {
            cut(page.filter(|(_, sectors)| sectors >> sector & 1 == 1).map(|(bytes, _)| bytes))
        };
        let new: Vec<Option<Vec<u8>>> = new.iter().map(written).collect();
        let before: Vec<Option<Vec<u8>>> = disks.iter().map(|strip| cut(*strip)).collect();
        let after: Vec<Option<Vec<u8>>> = new
            .iter()
            .zip(&before)
            .map(|(new, clean)| new.as_ref().or(clean.as_ref()).cloned())
            .collect();
        for (strip, bytes) in after.iter().enumerate() {
            if let Some(bytes) = bytes {
                row[strip][part.clone()].copy_from_slice(bytes);
            }
        }
        if after.iter().all(Option::is_some) {
            continue;
        }
        let sums = [
            logged.and_then(|r| r.p).map(|p| p[sector]),
            logged.and_then(|r| r.q).map(|q| q[sector]),
        ];
        let there = [cut(parities[0]), cut(parities[1])];
        let is_new = |parity: usize| {
            let bytes = there[parity].as_deref();
            bytes.is_some_and(|bytes| sums[parity] == Some(crc32c(bytes)))
        };
        let fresh = [is_new(0), is_new(1)];
        let found = solve_sector(&after, &before, &new, &there, fresh)?;
        for (strip, bytes) in found {
            let strip = usize::from(strip);
            if after[strip].is_none() {
                row[strip][part.clone()].copy_from_slice(&bytes);
            }
        }
    }
    Some(row)
}

/// Unknown strips of one sector. `after`: the data with what is being written; `before`: the data
/// as the disks have it.
fn solve_sector(
    after: &[Option<Vec<u8>>],
    before: &[Option<Vec<u8>>],
    new: &[Option<Vec<u8>>],
    parities: &[Option<Vec<u8>>; 2],
    fresh: [bool; 2],
) -> Option<Vec<(u16, Vec<u8>)>> {
    let solve = |data: &[Option<Vec<u8>>], p: Option<&[u8]>, q: Option<&[u8]>| {
        let data: Vec<Option<&[u8]>> = data.iter().map(|strip| strip.as_deref()).collect();
        missing_strips(&data, p, q)
    };
    let [p, q] = [parities[0].as_deref(), parities[1].as_deref()];
    // New parities match the new data.
    let new_p = p.filter(|_| fresh[0]);
    let new_q = q.filter(|_| fresh[1]);
    if let Some(found) = solve(after, new_p, new_q) {
        return Some(found);
    }
    if !fresh[0] && !fresh[1] {
        return solve(before, p, q);
    }
    // One is new, one old: no data was written, so the old one is brought up to date.
    let mut adjusted = [p.map(<[u8]>::to_vec), q.map(<[u8]>::to_vec)];
    for strip in 0..after.len() {
        if new[strip].is_none() {
            continue;
        }
        let mut difference = before[strip].clone()?;
        xor_into(&mut difference, after[strip].as_deref()?);
        if let (false, Some(p)) = (fresh[0], &mut adjusted[0]) {
            xor_into(p, &difference);
        }
        if let (false, Some(q)) = (fresh[1], &mut adjusted[1]) {
            q_into(q, strip as u16, &difference);
        }
    }
    solve(after, adjusted[0].as_deref(), adjusted[1].as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_engine::array::geometry::Level;
    use destage_engine::units::StripeId;

    /// A read that began before its row was locked may be done after reads of the locked row, and
    /// have what was there before.
    #[test]
    fn a_page_is_reconstructed_from_reads_of_the_locked_row_in_whatever_order_they_are_done() {
        let geometry = Geometry {
            level: Level::Raid5,
            disks: 3,
            strip_pages: 1,
            group_stripes: 1,
            disk_pages: 4,
        };
        let row = StripeId(0);
        let [missing, other, parity] =
            [geometry.data_disk(row, 0), geometry.data_disk(row, 1), geometry.parity_disk(row)];
        for late in [false, true] {
            let mut pieces = Pieces::default();
            let old = |pieces: &mut Pieces| {
                pieces.add(other, 0, OpId(7), Buffer::copy_of(&[8; PAGE]));
            };
            pieces.rows_hold(0, 1, OpId(9));
            if !late {
                old(&mut pieces);
            }
            pieces.add(other, 0, OpId(9), Buffer::copy_of(&[1; PAGE]));
            pieces.add(parity, 0, OpId(10), Buffer::copy_of(&[3; PAGE]));
            if late {
                old(&mut pieces);
            }
            assert_eq!(pieces.page(&geometry, missing, 0), Some(vec![2; PAGE]));
            assert_eq!(pieces.read(other, 0), Some(&[1; PAGE][..]), "the newest read");
        }
    }

    /// Of level 6 two pages of a row may be unreadable. One of them could be read before the row
    /// was locked, as the first of two or the second; since then it was written.
    #[test]
    fn what_was_read_before_the_lock_is_not_written_again() {
        let geometry = Geometry {
            level: Level::Raid6,
            disks: 4,
            strip_pages: 2,
            group_stripes: 1,
            disk_pages: 4,
        };
        let row = StripeId(0);
        let (a, b) = (geometry.data_disk(row, 0), geometry.data_disk(row, 1));
        let (p, q) = parities(&[&[2; PAGE], &[3; PAGE]], true);
        for page in [0, 1] {
            let mut pieces = Pieces::default();
            pieces.add(a, page, OpId(5), Buffer::copy_of(&[8; PAGE]));
            pieces.rows_hold(0, 2, OpId(9));
            pieces.add(geometry.parity_disk(row), page, OpId(10), Buffer::copy_of(&p));
            assert_eq!(pieces.page(&geometry, a, page), None, "too little is left");
            let volume_page = geometry.page_at(DiskPage { disk: a, page }).expect("a page");
            assert_eq!(pieces.of_volume(&geometry, volume_page), Some(vec![8; PAGE]));
            let q = q.as_ref().expect("level 6");
            pieces.add(geometry.q_disk(row), page, OpId(11), Buffer::copy_of(q));
            assert_eq!(pieces.page(&geometry, a, page), Some(vec![2; PAGE]));
            assert_eq!(pieces.page(&geometry, b, page), Some(vec![3; PAGE]));
        }
    }

    #[test]
    fn what_was_read_is_forgotten() {
        let mut pieces = Pieces::default();
        pieces.add(DiskId(0), 4, OpId(1), Buffer::copy_of(&[1; PAGE]));
        assert_eq!(pieces.read(DiskId(0), 4), Some(&[1; PAGE][..]));
        pieces.clear();
        assert_eq!(pieces.read(DiskId(0), 4), None);
    }

    /// A window is computed in one go only if each of the other disks was read once, and all of it.
    #[test]
    fn a_window_is_the_exclusive_or_of_one_run_of_each_other_disk() {
        let geometry = Geometry {
            level: Level::Raid5,
            disks: 4,
            strip_pages: 4,
            group_stripes: 1,
            disk_pages: 8,
        };
        let computed = |runs: &[(u16, u64, usize)]| {
            let mut pieces = Pieces::default();
            for (op, (disk, first, pages)) in (0..).zip(runs) {
                let bytes = Buffer::copy_of(&vec![1 << disk; pages * PAGE]);
                pieces.add(DiskId(*disk), *first, OpId(op), bytes);
            }
            let (sum, rest) = pieces.xor_all(&geometry, 4, 2)?;
            assert_eq!((sum.len(), rest.len()), (2 * PAGE, 2));
            Some(sum[PAGE])
        };
        assert_eq!(computed(&[(0, 4, 2), (1, 4, 2), (3, 4, 2)]), Some(0b1011));
        assert_eq!(computed(&[(3, 4, 2), (0, 4, 2), (1, 4, 2)]), Some(0b1011));
        assert_eq!(computed(&[(0, 4, 2), (1, 4, 2)]), None, "a disk is missing");
        assert_eq!(computed(&[(0, 4, 2), (1, 4, 2), (1, 4, 2)]), None, "one was read twice");
        assert_eq!(computed(&[(0, 4, 2), (1, 4, 2), (3, 4, 2), (1, 4, 2)]), None, "in addition");
        assert_eq!(computed(&[(0, 4, 2), (1, 4, 2), (3, 4, 1)]), None, "a page is missing");
        assert_eq!(computed(&[(0, 4, 2), (1, 4, 2), (3, 2, 2)]), None, "other pages");
    }

    /// Whatever disk has which strip: each page from all others of its row, and with two parities
    /// each pair of pages.
    #[test]
    fn each_page_of_a_row_is_reconstructed_from_the_others() {
        for level in [Level::Raid4, Level::Raid5, Level::Raid6] {
            let (disks, strip_pages, group_stripes) = (3 + level.parities(), 2, 1);
            let geometry = Geometry { level, disks, strip_pages, group_stripes, disk_pages: 10 };
            let data: [&[u8]; 3] = [&[1; PAGE], &[2; PAGE], &[7; PAGE]];
            let (p, q) = parities(&data, level == Level::Raid6);
            let strips: Vec<Vec<u8>> =
                data.iter().map(|s| s.to_vec()).chain([p]).chain(q).collect();
            for page in 0..geometry.disk_pages {
                let (_, RowAt { stripe, .. }) = geometry.row_of_disk_page(page);
                let of_data = (0..3).map(|strip| geometry.data_disk(stripe, strip));
                let disks: Vec<DiskId> = of_data.chain(geometry.parity_disks(stripe)).collect();
                let found = |of: usize, missing: &[usize]| {
                    let mut pieces = Pieces::default();
                    for at in (0..disks.len()).filter(|at| !missing.contains(at)) {
                        pieces.add(disks[at], page, OpId(0), Buffer::copy_of(&strips[at]));
                    }
                    let mut bytes = vec![0; PAGE];
                    pieces.reconstruct(&geometry, disks[of], page, &mut bytes).then_some(bytes)
                };
                for (of, strip) in strips.iter().enumerate() {
                    let what = format!("{level:?}: strip {of} of page {page}");
                    assert!(found(of, &[of]).as_ref() == Some(strip), "{what}");
                    let other = (of + 1) % disks.len();
                    let both = found(of, &[of, other]);
                    let right = if level == Level::Raid6 { Some(strip) } else { None };
                    assert!(both.as_ref() == right, "{what}, and strip {other}");
                }
            }
        }
    }

    /// A page each of whose sectors has another byte.
    fn sectors(byte: u8) -> Vec<u8> {
        (0..PAGE).map(|at| byte.wrapping_add(17 * (at / SECTOR) as u8)).collect()
    }

    /// A page with these sectors of the second one.
    fn mixed(first: &[u8], second: &[u8], sectors: u8) -> Vec<u8> {
        let of = |at: usize| if sectors >> (at / SECTOR) & 1 == 1 { second[at] } else { first[at] };
        (0..PAGE).map(of).collect()
    }

    #[test]
    fn on_mirrors_a_page_is_that_of_the_other_disk_of_its_pair() {
        for (disks, disk) in [(2, 0), (2, 1), (4, 0), (4, 1), (4, 2), (4, 3)] {
            let (level, strip_pages, group_stripes) = (Level::Raid10, 2, 1);
            let geometry = Geometry { level, disks, strip_pages, group_stripes, disk_pages: 8 };
            let (disk, other) = (DiskId(disk), DiskId(disk ^ 1));
            let run = [sectors(1), sectors(2)].concat();
            let mut pieces = Pieces::default();
            pieces.add(other, 6, OpId(0), Buffer::copy_of(&run));
            for (page, bytes) in (6..8).zip(run.chunks_exact(PAGE)) {
                let what = format!("page {page} of disk {} of {disks}", disk.0);
                assert!(pieces.page(&geometry, disk, page).as_deref() == Some(bytes), "{what}");
                let mut into = vec![0; PAGE];
                assert!(pieces.reconstruct(&geometry, disk, page, &mut into), "{what}");
                assert!(into == bytes, "{what}");
                let of_volume = geometry.page_at(DiskPage { disk, page }).expect("a page");
                let read = pieces.read_directly(&geometry, of_volume);
                assert!(read == Some(bytes), "{what}");
            }
            assert_eq!(pieces.page(&geometry, disk, 5), None, "it was not read");
            let (sum, rest) = pieces.xor_all(&geometry, 6, 2).expect("one run of the other");
            assert!(sum[..] == run[..] && rest.is_empty());
        }
    }

    #[test]
    fn parity_is_modified_by_what_changes_of_the_data() {
        let old = [1, 2, 7].map(sectors);
        let new = [sectors(40), old[1].clone(), sectors(90)];
        let of = |row: &[Vec<u8>; 3]| {
            let row = row.each_ref().map(Vec::as_slice);
            let (p, q) = parities(&row, true);
            [p, q.expect("level 6")]
        };
        let ([p, q], [new_p, new_q]) = (of(&old), of(&new));
        let written = [Some(&new[0][..]), None, Some(&new[2][..])];
        let [first, _, third] = old.each_ref().map(|strip| Some(&strip[..]));
        let modified = |read: [Option<&[u8]>; 3], parity: [Option<&[u8]>; 2]| {
            modified(&read, &written, parity)
        };
        let all = modified([first, None, third], [Some(&p), Some(&q)]);
        assert!(all == Some([Some(new_p.clone()), Some(new_q.clone())]));
        let with_p = modified([first, None, third], [Some(&p), None]);
        assert!(with_p == Some([Some(new_p), None]));
        let with_q = modified([first, None, third], [None, Some(&q)]);
        assert!(with_q == Some([None, Some(new_q)]));
        let too_few = modified([first, None, None], [Some(&p), Some(&q)]);
        assert!(too_few.is_none(), "the old data of a strip is missing");
    }

    /// What an interrupted destage left of a row of three strips: it writes these sectors of these
    /// strips, and parity before data.
    struct Interrupted {
        old: [Vec<u8>; 3],
        new: [Option<(Vec<u8>, u8)>; 3],
        /// The row as it is to become.
        target: [Vec<u8>; 3],
        /// P and Q, before and after.
        parities: [[Vec<u8>; 2]; 2],
    }

    fn interrupted(written: [u8; 3]) -> Interrupted {
        let old = [1, 2, 7].map(sectors);
        let new = [0, 1, 2].map(|strip: usize| {
            let count = written[strip];
            (count != 0).then(|| (sectors(40 + 50 * strip as u8), count))
        });
        let target = [0, 1, 2].map(|strip: usize| match &new[strip] {
            Some((bytes, count)) => mixed(&old[strip], bytes, *count),
            None => old[strip].clone(),
        });
        let of = |row: &[Vec<u8>; 3]| {
            let (p, q) = parities(&row.each_ref().map(Vec::as_slice), true);
            [p, q.expect("level 6")]
        };
        let parities = [of(&old), of(&target)];
        Interrupted { old, new, target, parities }
    }

    impl Interrupted {
        /// Whether the row becomes what it is to be, from these strips and parities. The disks have
        /// these sectors of the new data, and of the new parities; `None`: they cannot be read.
        fn becomes_new(&self, data: [Option<u8>; 3], read: [Option<u8>; 2], logged: bool) -> bool {
            let Interrupted { old, new, target, parities } = self;
            let disk = |strip: usize| Some(mixed(&old[strip], &target[strip], data[strip]?));
            let parity = |of: usize| Some(mixed(&parities[0][of], &parities[1][of], read[of]?));
            let (disks, there) = ([0, 1, 2].map(disk), [0, 1].map(parity));
            let sums = |page: &[u8]| -> [u32; PAGE / SECTOR] {
                core::array::from_fn(|at| crc32c(&page[at * SECTOR..(at + 1) * SECTOR]))
            };
            let [p, q] = parities[1].each_ref().map(|page| Some(sums(page)));
            let sums = RowSums { p, q };
            let row = interrupted_row(
                &new.each_ref().map(|new| new.as_ref().map(|(bytes, count)| (&bytes[..], *count))),
                &disks.each_ref().map(Option::as_deref),
                there.each_ref().map(Option::as_deref),
                logged.then_some(&sums),
            );
            let right = row.as_ref().is_some_and(|row| row[..] == target[..]);
            assert!(right || row.is_none(), "{data:?}, {read:?}: other bytes");
            right
        }
    }

    /// Each sector is a row by itself, and its parity is old or new.
    #[test]
    fn an_interrupted_row_is_computed_from_what_its_parity_matches() {
        let row = interrupted([0b0110, 0, 0]);
        for parity in [0, 0b0010, 0b0100, 0b0110] {
            for read in [[Some(parity), None], [None, Some(parity)]] {
                assert!(row.becomes_new([Some(0), Some(0), None], read, true), "{read:?}");
                assert!(row.becomes_new([Some(0), None, Some(0)], read, true), "{read:?}");
                assert!(row.becomes_new([None, Some(0), Some(0)], read, true), "{read:?}");
                assert!(!row.becomes_new([Some(0), None, None], read, true), "{read:?}");
            }
        }
        for data in [0, 0b0010, 0b0110] {
            let read = [Some(0b0110), None];
            assert!(row.becomes_new([Some(data), None, Some(0)], read, true), "{data}");
        }
        assert!(row.becomes_new([Some(0b0010), Some(0), Some(0)], [None; 2], false), "all read");
        assert!(!row.becomes_new([Some(0b0010), None, Some(0)], [None; 2], true));
        // Without checksums, the parity is taken for that of what the disks have.
        assert!(row.becomes_new([Some(0), None, Some(0)], [Some(0), None], false));
    }

    /// With P new and Q old, or the other way round, no data was written yet.
    #[test]
    fn an_interrupted_row_is_computed_from_a_new_parity_and_an_old_one() {
        let row = interrupted([0xff, 0, 0]);
        let read = [Some(0b0000_1111), Some(0b0011_0011)];
        for data in [0, 0b0001, 0b0011] {
            assert!(row.becomes_new([Some(data), None, None], read, true), "{data}");
        }
        assert!(!row.becomes_new([None; 3], read, true), "the old data of what is written");
        assert!(row.becomes_new([None, None, Some(0)], read, true));
        // Two strips are written.
        let row = interrupted([0xff, 0, 0xff]);
        assert!(row.becomes_new([Some(0), None, Some(0)], read, true));
        assert!(row.becomes_new([Some(0b0011), None, None], read, true));
    }
}
