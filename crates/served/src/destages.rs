//! Destages in flight with their bytes: what was read for each, the parity that it writes, and
//! whom it waits for.

use crate::Buffer;
use crate::crc::crc32c;
use crate::io::OpId;
use crate::log::RowSums;
use crate::pages::{DirtyPages, copy_sectors};
use crate::recent::Recent;
use crate::rows::{NewPage, Pieces, interrupted_row, modified};
use crate::store::{PAGE, PageMap};
use destage_engine::array::geometry::Geometry;
use destage_engine::array::layout::DiskPage;
use destage_engine::array::safe::{DestagePages, RowAt, SafeMethod, is_set};
use destage_engine::controller::Controller;
use destage_engine::event::DiskCommand;
use destage_engine::flushes::Flushed;
use destage_engine::request::PageRange;
use destage_engine::units::{DiskId, Duration, GroupId, Instant, Page};
use destage_nvslog::record::ALL_SECTORS;
use destage_parity::erasure::parities;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Destages that could not be computed are tried again after this time.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A destage in flight.
struct Destage {
    group: GroupId,
    mask: Vec<u64>,
    /// It writes the pages as they were at this version.
    through: u64,
    /// Taken over from the last run.
    adopted: bool,
    pieces: Pieces,
    /// Some of them are of the stripe memory.
    recalls: bool,
    parity: BTreeMap<(DiskId, u64), Vec<u8>>,
    /// Checksums of the parity that it was first to write, by row.
    sums: BTreeMap<u32, RowSums>,
    /// An alarm says that it cannot be computed.
    kept: bool,
}

/// What is computed of a row: its new parities, and the pages that were completed.
struct NewRow {
    p: Option<Vec<u8>>,
    q: Option<Vec<u8>>,
    completed: Vec<(Page, Vec<u8>)>,
}

/// The write group's pages.
pub(crate) fn pages_of_group(geometry: &Geometry, group: GroupId) -> PageRange {
    let per_group = geometry.pages_per_group();
    PageRange::new(Page(group.0 * per_group), per_group as u32)
}

/// A destage that is on the disks.
pub(crate) struct Released {
    pub(crate) pages: PageRange,
    pub(crate) through: u64,
    /// Those that were written.
    pub(crate) mask: Vec<u64>,
    /// It could not be computed before.
    pub(crate) was_kept: bool,
}

/// What a destage will write, but for what is in memory.
pub(crate) struct Computed {
    /// First page of the group.
    pub(crate) first: Page,
    /// Checksums of new parity that have to be logged, by row.
    pub(crate) sums: Vec<(u32, RowSums)>,
    /// All bytes of pages of which only some sectors were in memory.
    pub(crate) completed: Vec<(Page, Vec<u8>)>,
}

/// Rows of a destage that cannot be computed.
pub(crate) struct Uncomputable {
    pub(crate) group: GroupId,
    /// Its dirty pages in such rows, if they were not reported before.
    pub(crate) report: Option<Vec<u64>>,
}

/// The destages in flight, by the engine's numbers.
#[derive(Default)]
pub(crate) struct Destages {
    destages: Vec<Option<Destage>>,
    /// Groups whose destage the last run left open, and the version that it wrote.
    adopted: PageMap<u64>,
    /// Destages of the last run that are being redone.
    redoing: u32,
    /// When destages that could not be computed are tried again.
    retry_at: Option<Instant>,
    /// What became durable while the set of devices was being changed: intents, and flushes of
    /// destages, each with its success. Flushes also wait for members' records.
    held_intents: Vec<u32>,
    held_flushes: Vec<Flushed>,
    recent: Recent,
}

impl Destages {
    /// The last run left a destage of this group open, which wrote its pages as they were at this
    /// version. The engine begins it again.
    pub(crate) fn adopt(&mut self, group: GroupId, through: u64) {
        self.adopted.insert(group.0, through);
        self.redoing += 1;
    }

    /// The version that the last run's destage of this group wrote, if it left one open.
    pub(crate) fn take_adopted(&mut self, group: GroupId) -> Option<u64> {
        self.adopted.remove(&group.0)
    }

    /// Open destages of the last run that are still being redone.
    pub(crate) fn redoing(&self) -> u32 {
        self.redoing
    }

    /// Where the last destages began.
    pub(crate) fn recent(&self) -> &Recent {
        &self.recent
    }

    /// The last destages were these.
    pub(crate) fn remember(&mut self, recent: &Recent) {
        self.recent = recent.clone();
    }

    /// Begins a destage that writes the pages in the mask as they were at this version. `sums`: it
    /// continues one of the last run, which logged these checksums of parity.
    pub(crate) fn begin(
        &mut self,
        index: u32,
        (group, pages): (GroupId, PageRange),
        mask: Vec<u64>,
        through: u64,
        sums: Option<BTreeMap<u32, RowSums>>,
    ) {
        let first = (0..u64::from(pages.pages)).find(|bit| is_set(&mask, *bit));
        self.recent.push(pages.first.0 + first.unwrap_or(0));
        let destage = Destage {
            group,
            mask,
            through,
            adopted: sums.is_some(),
            pieces: Pieces::default(),
            recalls: false,
            parity: BTreeMap::new(),
            sums: sums.unwrap_or_default(),
            kept: false,
        };
        let index = index as usize;
        if self.destages.len() <= index {
            self.destages.resize_with(index + 1, || None);
        }
        self.destages[index] = Some(destage);
    }

    fn get(&mut self, index: u32) -> &mut Destage {
        self.destages[index as usize].as_mut().expect("a destage in flight")
    }

    /// A page of the stripe memory counts as read for a destage.
    pub(crate) fn recall(&mut self, index: u32, disk: DiskId, row: u64, op: OpId, bytes: Buffer) {
        let destage = self.get(index);
        destage.recalls = true;
        destage.pieces.add(disk, row, op, bytes);
    }

    /// What was read for a destage.
    pub(crate) fn pieces(&mut self, index: u32) -> &mut Pieces {
        &mut self.get(index).pieces
    }

    /// The bytes that a command of a destage writes.
    pub(crate) fn bytes_to_write(
        &mut self,
        index: u32,
        command: &DiskCommand,
        geometry: &Geometry,
        pages: &DirtyPages,
    ) -> Buffer {
        let mut bytes = Buffer::zeroed(command.pages as usize * PAGE);
        for (row, into) in (command.first..).zip(bytes.chunks_exact_mut(PAGE)) {
            into.copy_from_slice(self.written(index, command.disk, row, geometry, pages));
        }
        bytes
    }

    /// The bytes that a destage writes to a page of a disk: data, or parity.
    pub(crate) fn written<'a>(
        &'a self,
        index: u32,
        disk: DiskId,
        page: u64,
        geometry: &Geometry,
        pages: &'a DirtyPages,
    ) -> &'a [u8] {
        match geometry.page_at(DiskPage { disk, page }) {
            Some(page) => pages.destaged(page.0),
            None => {
                let destage = self.destages[index as usize].as_ref();
                &destage.expect("a destage in flight").parity[&(disk, page)]
            }
        }
    }

    /// Computes the new parity of all rows, and completes pages. If any of that cannot be computed,
    /// none is kept. What is returned has to be logged, or put into memory, before anything is
    /// written.
    pub(crate) fn compute(
        &mut self,
        index: u32,
        array: &Computing<'_>,
        now: Instant,
    ) -> Result<Computed, Uncomputable> {
        let Computing { controller, geometry, .. } = array;
        let redo = controller.is_redo(index);
        let destage = self.get(index);
        destage.parity.clear();
        let first = pages_of_group(geometry, destage.group).first;
        let incomplete = controller.incomplete_of(destage.group);
        let pages = DestagePages { dirty: &destage.mask, incomplete };
        let (mut rows, mut completed, mut lacking) = (Vec::new(), Vec::new(), Vec::new());
        for at in geometry.rows(destage.group, &destage.mask) {
            let failed = controller.failed_at(at.page);
            let method = geometry.safe_method(&at, pages, &failed, redo);
            if method == SafeMethod::NoParity {
                continue;
            }
            match destage.new_row(array, &at, method, redo) {
                Some(mut new) => {
                    completed.append(&mut new.completed);
                    rows.push((at, method, new));
                }
                None => {
                    let strips = 0..geometry.data_strips() as u16;
                    let bits = strips.map(|strip| geometry.bit_of(&at, strip));
                    lacking.extend(bits.filter(|bit| pages.is_dirty(*bit)));
                }
            }
        }
        destage.complete_by_themselves(array, &mut completed, &mut lacking);
        destage.keep_other_parity(array);
        destage.pieces.clear();
        if lacking.is_empty() {
            let sums = destage.set_parity(array, rows);
            Ok(Computed { first, sums, completed })
        } else {
            Err(self.keep(index, first, lacking, now))
        }
    }

    /// Pages of a destage, by their numbers in the group, cannot be computed: it waits, and is
    /// tried again later.
    fn keep(
        &mut self,
        index: u32,
        first: Page,
        mut lacking: Vec<u64>,
        now: Instant,
    ) -> Uncomputable {
        self.retry_at.get_or_insert(now + RETRY_AFTER);
        let destage = self.get(index);
        let group = destage.group;
        let known = core::mem::replace(&mut destage.kept, true);
        lacking.sort_unstable();
        lacking.dedup();
        let report = (!known).then(|| lacking.into_iter().map(|bit| first.0 + bit).collect());
        // The start does not wait for it: reads of what cannot be reconstructed fail.
        let adopted = core::mem::take(&mut destage.adopted);
        self.redoing -= u32::from(adopted);
        Uncomputable { group, report }
    }

    /// When destages that could not be computed are tried again.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Whether that is now.
    pub(crate) fn take_retry(&mut self, now: Instant) -> bool {
        self.retry_at.take_if(|at| *at <= now).is_some()
    }

    /// Some still cannot be computed: they are tried again later.
    pub(crate) fn retry_later(&mut self, now: Instant) {
        self.retry_at.get_or_insert(now + RETRY_AFTER);
    }

    /// An intent is durable, but the set of devices is being changed.
    pub(crate) fn hold_intent(&mut self, index: u32) {
        self.held_intents.push(index);
    }

    /// A destage is flushed: it continues when everything is recorded that it builds on.
    pub(crate) fn hold_flushed(&mut self, flushed: Flushed) {
        self.held_flushes.push(flushed);
    }

    /// The change is durable: the intents that were held.
    pub(crate) fn take_held_intents(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.held_intents)
    }

    /// The flushes that were held.
    pub(crate) fn take_held_flushes(&mut self) -> Vec<Flushed> {
        core::mem::take(&mut self.held_flushes)
    }

    /// A destage is on the disks.
    pub(crate) fn release(&mut self, index: u32, geometry: &Geometry, now: Instant) -> Released {
        let destage = self.destages[index as usize].take().expect("a destage in flight");
        let pages = pages_of_group(geometry, destage.group);
        if destage.kept {
            // What could not be read can be read now, and perhaps what others need too.
            self.retry_at = self.retry_at.map(|_| now);
        }
        self.redoing -= u32::from(destage.adopted);
        let Destage { through, mask, kept, .. } = destage;
        Released { pages, through, mask, was_kept: kept }
    }
}

/// What parity is computed from.
pub(crate) struct Computing<'a> {
    pub(crate) controller: &'a Controller,
    pub(crate) geometry: Geometry,
    pub(crate) pages: &'a DirtyPages,
    /// A deliberate fault: rows that cannot be computed are taken for zeros.
    pub(crate) careless: bool,
    /// Another one: no checksums are logged.
    pub(crate) skips_sums: bool,
    /// Another one: the parity of rows that are not destaged becomes zeros.
    pub(crate) zeroes_others: bool,
}

impl Destage {
    /// What is written of a row; `None`: too little of the row could be read.
    fn new_row(
        &self,
        array: &Computing<'_>,
        at: &RowAt,
        method: SafeMethod,
        redo: bool,
    ) -> Option<NewRow> {
        let geometry = &array.geometry;
        let new = self.new_pages(array, at);
        let disks = self.pieces.data_of(geometry, at);
        let parity = self.pieces.parities_of(geometry, at);
        // Those that will be written must come of it.
        let failed = array.controller.failed_at(at.page);
        let lost = geometry.parity_disks(at.stripe).map(|disk| failed.contains(disk));
        let all_read = parity.iter().zip(lost).all(|(parity, lost)| lost || parity.is_some());
        let written: Option<Vec<Option<Cow<'_, [u8]>>>> = match redo {
            true => None,
            false => new.iter().zip(&disks).map(|(new, disk)| over(*new, *disk)).collect(),
        };
        let in_place = || -> Option<NewRow> {
            let written = written.as_ref().filter(|_| all_read)?;
            let new_bytes: Vec<Option<&[u8]>> = written.iter().map(Option::as_deref).collect();
            let [p, q] = modified(&disks, &new_bytes, parity)?;
            let completed = self.completed(geometry, at, &new, |strip| new_bytes[strip]);
            Some(NewRow { p, q, completed })
        };
        // With pages of the stripe memory the plan may be the other of the two methods.
        let other = self.recalls && method == SafeMethod::ReconstructWrite;
        if (other || method == SafeMethod::ReadModifyWrite)
            && let Some(new) = in_place()
        {
            return Some(new);
        }
        let of_disks = || -> Option<Vec<Cow<'_, [u8]>>> {
            let strips = written.as_ref()?.iter().zip(&disks);
            strips.map(|(new, disk)| new.clone().or(disk.map(Cow::Borrowed))).collect()
        };
        let others = |row: Vec<Vec<u8>>| row.into_iter().map(Cow::Owned).collect();
        let row: Option<Vec<Cow<'_, [u8]>>> = match redo {
            true => interrupted_row(&new, &disks, parity, self.sums.get(&at.row)).map(others),
            false => {
                of_disks().or_else(|| self.pieces.row(geometry, at).map(|old| with_new(&new, old)))
            }
        };
        let zeros = || with_new(&new, new.iter().map(|_| vec![0; PAGE]).collect());
        // If what is not written cannot be read either, the old parity has it.
        let Some(row) = row.or_else(|| array.careless.then(zeros)) else { return in_place() };
        let data: Vec<&[u8]> = row.iter().map(|page| &**page).collect();
        let (p, q) = parities(&data, geometry.level.parities() > 1);
        let completed = self.completed(geometry, at, &new, |strip| Some(data[strip]));
        Some(NewRow { p: Some(p), q, completed })
    }

    /// What is written of a row's strips, as far as it is in memory.
    fn new_pages<'a>(&self, array: &Computing<'a>, at: &RowAt) -> Vec<Option<NewPage<'a>>> {
        let geometry = &array.geometry;
        let first = pages_of_group(geometry, self.group).first.0;
        let strips = 0..geometry.data_strips() as u16;
        let bits = strips.map(|strip| geometry.bit_of(at, strip));
        let held = |bit| array.pages.destaged_sectors(first + bit);
        bits.map(|bit| is_set(&self.mask, bit).then(|| held(bit))).collect()
    }

    /// The pages of a row that were not complete in memory.
    fn completed<'a>(
        &self,
        geometry: &Geometry,
        at: &RowAt,
        new: &[Option<NewPage<'_>>],
        bytes: impl Fn(usize) -> Option<&'a [u8]>,
    ) -> Vec<(Page, Vec<u8>)> {
        let first = pages_of_group(geometry, self.group).first;
        let strips = new.iter().enumerate();
        let incomplete = strips.filter(|(_, new)| new.is_some_and(|new| new.1 != ALL_SECTORS));
        incomplete
            .filter_map(|(strip, _)| {
                let page = first.offset(geometry.bit_of(at, strip as u16));
                Some((page, bytes(strip)?.to_vec()))
            })
            .collect()
    }

    /// Completes the pages of rows without parity from their own disks, or the mirrors of these.
    fn complete_by_themselves(
        &self,
        array: &Computing<'_>,
        completed: &mut Vec<(Page, Vec<u8>)>,
        lacking: &mut Vec<u64>,
    ) {
        let pages = pages_of_group(&array.geometry, self.group);
        for bit in (0..u64::from(pages.pages)).filter(|bit| is_set(&self.mask, *bit)) {
            let page = pages.first.offset(bit);
            let (bytes, sectors) = array.pages.destaged_sectors(page.0);
            let done = || completed.iter().any(|(of, _)| *of == page) || lacking.contains(&bit);
            if sectors == ALL_SECTORS || done() {
                continue;
            }
            match over(Some((bytes, sectors)), self.pieces.read_directly(&array.geometry, page)) {
                Some(Some(bytes)) => completed.push((page, bytes.into_owned())),
                _ => lacking.push(bit),
            }
        }
    }

    /// Keeps the parity of rows that are not destaged and of which it was read: it may be written
    /// back with that of the rows next to them.
    fn keep_other_parity(&mut self, array: &Computing<'_>) {
        let geometry = &array.geometry;
        if geometry.level.parities() == 0 {
            return;
        }
        let kept = |bytes: &[u8]| if array.zeroes_others { vec![0; PAGE] } else { bytes.to_vec() };
        let rows = geometry.group_stripes * geometry.strip_pages;
        let strips = 0..geometry.data_strips() as u16;
        let destaged =
            |at: &RowAt| strips.clone().any(|strip| is_set(&self.mask, geometry.bit_of(at, strip)));
        let rows = (0..rows as u32).map(|row| geometry.row_at(self.group, row));
        let read = rows.filter(|at| !destaged(at)).flat_map(|at| {
            let parities = self.pieces.parities_of(geometry, &at);
            let read = geometry.parity_disks(at.stripe).zip(parities);
            read.filter_map(move |(disk, bytes)| Some(((disk, at.page), kept(bytes?))))
        });
        self.parity = read.collect();
    }

    /// Takes the new parity to be written; returns the checksums that have to be logged.
    fn set_parity(
        &mut self,
        array: &Computing<'_>,
        rows: Vec<(RowAt, SafeMethod, NewRow)>,
    ) -> Vec<(u32, RowSums)> {
        let mut to_log = Vec::new();
        for (at, method, NewRow { p, q, .. }) in rows {
            // An intent may have become durable without its checksums: then nothing was written.
            // So may one whose plan had not computed the parity of a disk that is back.
            let new = RowSums { p: p.as_deref().map(sums), q: q.as_deref().map(sums) };
            let known = self.sums.get(&at.row).copied();
            let all = known.map_or(new, |known| known.or(new));
            if method != SafeMethod::FullStripe && known != Some(all) && !array.skips_sums {
                to_log.push((at.row, all));
                self.sums.insert(at.row, all);
            }
            for (disk, bytes) in array.geometry.parity_disks(at.stripe).zip([p, q]) {
                if let Some(bytes) = bytes {
                    self.parity.insert((disk, at.page), bytes);
                }
            }
        }
        to_log
    }
}

/// The bytes that are written of a page: its new sectors over what its disk has. `None`: that is
/// needed, and was not read. `Some(None)`: nothing is written of it.
fn over<'a>(new: Option<NewPage<'a>>, disk: Option<&[u8]>) -> Option<Option<Cow<'a, [u8]>>> {
    match new {
        None => Some(None),
        Some((bytes, ALL_SECTORS)) => Some(Some(Cow::Borrowed(bytes))),
        Some((bytes, sectors)) => {
            let mut merged = disk?.to_vec();
            copy_sectors(bytes, sectors, &mut merged);
            Some(Some(Cow::Owned(merged)))
        }
    }
}

/// The row with its new pages over the others.
fn with_new<'a>(new: &[Option<NewPage<'a>>], others: Vec<Vec<u8>>) -> Vec<Cow<'a, [u8]>> {
    let put = |(new, old): (&Option<NewPage<'a>>, Vec<u8>)| {
        let written = over(*new, Some(&old)).flatten();
        written.unwrap_or(Cow::Owned(old))
    };
    new.iter().zip(others).map(put).collect()
}

fn sums(page: &[u8]) -> [u32; PAGE / 512] {
    let mut sums = [0; PAGE / 512];
    for (sum, sector) in sums.iter_mut().zip(page.chunks_exact(512)) {
        *sum = crc32c(sector);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::PageMemory;
    use destage_engine::array::geometry::Level;
    use destage_engine::controller::Config;
    use destage_engine::units::PageCount;
    use destage_engine::{policy, rate, served};

    #[test]
    fn a_destage_that_cannot_be_computed_is_reported_once_and_tried_again() {
        let (level, strip_pages, group_stripes) = (Level::Raid5, 4, 1);
        let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages: 40 };
        let (group, pages) = (GroupId(3), pages_of_group(&geometry, GroupId(3)));
        assert_eq!(pages, PageRange::new(Page(24), 8));
        let mut destages = Destages::default();
        destages.adopt(group, 9);
        assert_eq!((destages.redoing(), destages.take_adopted(group)), (1, Some(9)));
        assert_eq!(destages.take_adopted(group), None, "it was taken");
        destages.begin(4, (group, pages), vec![0b1010], 9, Some(BTreeMap::new()));
        assert_eq!(destages.recent().pages().collect::<Vec<_>>(), [25]);
        let kept = destages.keep(4, pages.first, vec![3, 1, 3], Instant(5));
        assert_eq!((kept.group, kept.report), (group, Some(vec![25, 27])));
        assert_eq!(destages.redoing(), 0, "the start does not wait for it");
        let again = destages.keep(4, pages.first, vec![3], Instant(6));
        assert_eq!((again.report, destages.redoing()), (None, 0));
        assert_eq!(destages.retry_at(), Some(Instant(5) + RETRY_AFTER));
        let released = destages.release(4, &geometry, Instant(7));
        assert_eq!((released.pages, released.through, released.mask), (pages, 9, vec![0b1010]));
        assert!(released.was_kept);
        assert_eq!(destages.retry_at(), Some(Instant(7)), "others may have waited for the same");
    }

    #[test]
    fn a_destage_of_the_last_run_is_redone_until_it_is_released() {
        let (level, strip_pages, group_stripes) = (Level::Raid5, 4, 1);
        let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages: 40 };
        let (group, pages) = (GroupId(3), pages_of_group(&geometry, GroupId(3)));
        let mut destages = Destages::default();
        destages.adopt(group, 9);
        destages.begin(0, (group, pages), vec![1], 9, Some(BTreeMap::new()));
        destages.begin(1, (GroupId(4), pages_of_group(&geometry, GroupId(4))), vec![1], 12, None);
        destages.release(1, &geometry, Instant(5));
        assert_eq!(destages.redoing(), 1, "the other one is new");
        let released = destages.release(0, &geometry, Instant(6));
        assert_eq!((destages.redoing(), released.through, released.was_kept), (0, 9, false));
        assert_eq!(destages.retry_at(), None, "nothing waits for it");
    }

    /// The parities of the first row of an array of level 5 or 6, whose data are pages of 1, 2, 3,
    /// and parity one of 80: it does not fit. Some of the pages become 8, 9, 10.
    fn new_parities(
        level: Level,
        mask: u64,
        method: SafeMethod,
        recalls: bool,
    ) -> [Option<Vec<u8>>; 2] {
        let (disks, disk_pages) = (3 + level.parities(), 40);
        let geometry = Geometry { level, disks, strip_pages: 1, group_stripes: 1, disk_pages };
        let config = Config {
            geometry,
            nvs_pages: PageCount(16),
            policy: policy::choose("lrw").expect("of the table"),
            rate: rate::choose("linear").expect("of the table"),
            destage: served::destage(8),
            detector: served::DETECTOR,
            sequential_threshold: served::SEQUENTIAL_THRESHOLD,
            window: 8,
            order: served::ORDER,
        };
        let controller = Controller::new(&config).expect("an array");
        let mut pages = DirtyPages::new(PageMemory::default());
        for page in (0..3).filter(|page| is_set(&[mask], *page)) {
            pages.put(page, page + 1, &[8 + page as u8; PAGE], ALL_SECTORS);
            pages.freeze(page);
        }
        let mut destages = Destages::default();
        let group = (GroupId(0), pages_of_group(&geometry, GroupId(0)));
        destages.begin(0, group, vec![mask], 3, None);
        let at = geometry.row_at(GroupId(0), 0);
        let data = (0..3).map(|strip| geometry.data_disk(at.stripe, strip));
        let parity = geometry.parity_disks(at.stripe);
        for (disk, fill) in data.zip([1, 2, 3]).chain(parity.zip([80; 2])) {
            destages.pieces(0).add(disk, 0, OpId(1), Buffer::copy_of(&[fill; PAGE]));
        }
        destages.get(0).recalls = recalls;
        let (careless, skips_sums, zeroes_others) = (false, false, false);
        let (controller, pages) = (&controller, &pages);
        let array = Computing { controller, geometry, pages, careless, skips_sums, zeroes_others };
        let new = destages.get(0).new_row(&array, &at, method, false).expect("all was read");
        assert!(new.completed.is_empty());
        [new.p, new.q]
    }

    /// Old parity counts only where the plan has it read: elsewhere a row that does not fit is
    /// consistent afterwards.
    #[test]
    fn parity_is_computed_from_the_data_of_the_row_unless_it_is_modified() {
        let p_of = |mask, method, recalls| {
            let [p, q] = new_parities(Level::Raid5, mask, method, recalls);
            assert_eq!(q, None);
            let p = p.expect("computed");
            assert!(p == [p[0]; PAGE]);
            p[0]
        };
        let modified = 80 ^ 1 ^ 8;
        for recalls in [false, true] {
            assert_eq!(p_of(1, SafeMethod::ReadModifyWrite, recalls), modified);
            assert_eq!(p_of(1, SafeMethod::Decode, recalls), 8 ^ 2 ^ 3);
            assert_eq!(p_of(7, SafeMethod::FullStripe, recalls), 8 ^ 9 ^ 10);
        }
        assert_eq!(p_of(1, SafeMethod::ReconstructWrite, false), 8 ^ 2 ^ 3);
        // With pages of the stripe memory the plan may have modified it.
        assert_eq!(p_of(1, SafeMethod::ReconstructWrite, true), modified);
        let [p, q] = new_parities(Level::Raid6, 7, SafeMethod::FullStripe, false);
        assert_eq!(p, Some(vec![8 ^ 9 ^ 10; PAGE]));
        assert_eq!(q, parities(&[&[8; PAGE], &[9; PAGE], &[10; PAGE]], true).1);
    }

    #[test]
    fn each_sector_of_a_page_has_its_checksum() {
        let bytes: Vec<u8> = (0..PAGE).map(|at| (at / 100) as u8).collect();
        let each: Vec<u32> = bytes.chunks(512).map(crc32c).collect();
        assert_eq!(sums(&bytes).to_vec(), each);
    }

    #[test]
    fn what_could_not_be_computed_waits_before_it_is_tried_again() {
        let mut destages = Destages::default();
        let at = Instant(5) + RETRY_AFTER;
        destages.retry_later(Instant(5));
        destages.retry_later(Instant(9));
        assert_eq!(destages.retry_at(), Some(at), "the first counts");
        assert!(!destages.take_retry(Instant(at.0 - 1)));
        assert!(destages.take_retry(at));
        assert!(!destages.take_retry(at) && destages.retry_at().is_none());
    }

    #[test]
    fn what_is_held_is_taken_once_and_in_order() {
        let mut destages = Destages::default();
        [5, 2].into_iter().for_each(|index| destages.hold_intent(index));
        assert_eq!(destages.take_held_intents(), [5, 2]);
        assert!(destages.take_held_intents().is_empty());
        let flushed = [(7, true), (3, false)].map(|(index, ok)| Flushed { index, ok });
        flushed.into_iter().for_each(|flushed| destages.hold_flushed(flushed));
        assert_eq!(destages.take_held_flushes(), flushed);
        assert!(destages.take_held_flushes().is_empty());
    }
}
