//! A simulated device with contents: what is durable, what a volatile cache still holds, and
//! which sectors of that a power failure leaves.

use destage_nvslog::superblock::DATA_START;
use destage_served::{Buffer, IoError, Op, OpKind};
use destage_workload::random::Seeded;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes that are written completely or not at all.
pub const SECTOR: usize = 512;
/// Bytes of memory that are written completely or not at all.
const WORD: usize = 8;
const PAGE: usize = 4096;
const SECTORS: u64 = (PAGE / SECTOR) as u64;
/// The sectors of the two anchors.
const ANCHORS: [u64; 2] = [8, 16];

/// Which unflushed sectors a crash leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    /// None.
    None,
    /// All.
    All,
    /// Any subset, in any order.
    Random,
    /// Any subset of runs of neighbouring sectors, with the newest bytes of each.
    Runs,
}

/// Sectors of a run that is kept or lost as a whole, about.
const RUN: u64 = 16;

/// A sector in the cache.
#[derive(Clone)]
struct Cached {
    bytes: [u8; SECTOR],
    /// When its write was done; `u64::MAX`: it is still in flight.
    done: u64,
}

/// What becomes of a write that is lost.
#[derive(Clone, Copy)]
pub enum Lost {
    /// Nothing is written.
    Nowhere,
    /// It is made here.
    At(u64),
}

/// A write past the cache.
#[derive(Clone)]
pub struct Durable {
    /// First byte.
    pub offset: u64,
    /// What was there before.
    pub old: Vec<u8>,
    /// What was written.
    pub new: Vec<u8>,
    /// When it was submitted.
    pub asked: u64,
}

/// Up to this many writes past the cache of a life are all kept.
const DURABLY_MIN: usize = 4096;
/// When there are more, this number of the newest ones are.
const NEWEST: usize = 1024;

/// How many of the newest durable writes are known.
pub const RECENT: usize = 8;

/// A device.
#[derive(Clone, Default)]
pub struct Device {
    /// Shared with copies of the device until one of them is written.
    durable: BTreeMap<u64, Arc<[u8; PAGE]>>,
    /// Writes of each sector since it was durable, oldest first.
    cache: BTreeMap<u64, Vec<Cached>>,
    /// Sectors that cannot be read until they are written.
    bad: Vec<u64>,
    /// Sectors that could not be read at some time of this life.
    was_bad: Vec<u64>,
    /// Every operation fails.
    pub gone: bool,
    /// Operations that are submitted from now on never end.
    pub hangs: bool,
    /// Writes find no space.
    pub full: bool,
    /// One has found none in this life, and was tried again later.
    pub was_full: bool,
    /// The next flush fails with this error, and what was not flushed before it is lost.
    pub flush_fails: Option<IoError>,
    /// Number of flushes that succeed before that.
    pub flushes_before: u64,
    /// The next write fails, and nothing of it is written.
    pub write_fails: bool,
    /// The next write of its superblock's second copy fails.
    pub mark_fails: bool,
    /// Writes to these sectors fail.
    pub stuck: Option<core::ops::Range<u64>>,
    /// How many pages became unreadable in this life, and were so when it began.
    pub bad_pages: u32,
    /// The next write through the cache is answered and not made, or made at this byte instead.
    pub loses_write: Option<Lost>,
    /// Its cache is off: a write is durable when it is done.
    pub cache_off: bool,
    /// A power failure takes all that its cache has, and leaves nothing by chance.
    pub drops_cache: bool,
    /// It can be read and not written: an SSD at the end of its life.
    pub unwritable: bool,
    /// The last sectors of the newest writes past the cache behind its first MiB, the newest first.
    last: [u64; RECENT],
    /// The writes past the cache of this life, oldest first, if they are kept. Copies share them.
    durably: Option<Vec<Arc<Durable>>>,
    /// When there are more of them, those are left out that no longer matter.
    durably_max: usize,
    /// Those of the start that is in progress.
    early: Vec<Arc<Durable>>,
    /// Writes behind the first MiB since the last flush.
    waiting: u32,
    /// This many of the next reads and writes find it busy.
    pub busy: u64,
    /// An operation of this life has failed, and not for want of space of a write.
    pub erred: bool,
    /// An operation of this life took long.
    pub was_slow: bool,
    /// It ends here; `None`: it has room for every write.
    len: Option<u64>,
}

impl Device {
    /// Reads.
    ///
    /// # Errors
    /// A sector cannot be read, or the device ends before it.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        if offset + into.len() as u64 > self.bytes() {
            return Err(IoError::SHORT);
        }
        let (first, count) = (offset / SECTOR as u64, (into.len() / SECTOR) as u64);
        if self.bad.iter().any(|bad| (first..first + count).contains(bad)) {
            return Err(IoError::MEDIUM);
        }
        let (mut sector, mut rest) = (first, &mut *into);
        while !rest.is_empty() {
            let from = (sector % SECTORS) as usize * SECTOR;
            let (now, later) = rest.split_at_mut((PAGE - from).min(rest.len()));
            match self.durable.get(&(sector / SECTORS)) {
                Some(page) => now.copy_from_slice(&page[from..from + now.len()]),
                None => now.fill(0),
            }
            sector += (now.len() / SECTOR) as u64;
            rest = later;
        }
        for (sector, cached) in self.cache.range(first..first + count) {
            let at = (sector - first) as usize * SECTOR;
            let newest = cached.last().expect("no empty lists");
            into[at..at + SECTOR].copy_from_slice(&newest.bytes);
        }
        Ok(())
    }

    /// The sectors of pages that were ever written.
    pub fn written(&self) -> Vec<u64> {
        let sectors = |page: &u64| page * SECTORS..(page + 1) * SECTORS;
        self.durable.keys().flat_map(sectors).collect()
    }

    /// Bytes that it has.
    pub fn bytes(&self) -> u64 {
        self.len.unwrap_or(u64::MAX)
    }

    /// This device after zeros were written up to this byte.
    pub fn wiped(&self, end: u64) -> Device {
        let behind = end / PAGE as u64..;
        let durable = self.durable.range(behind).map(|(page, bytes)| (*page, Arc::clone(bytes)));
        Device { durable: durable.collect(), len: self.len, ..Device::default() }
    }

    /// Cuts off what is behind this byte, like `truncate` of a file.
    pub fn truncate(&mut self, len: u64) {
        self.len = Some(len);
        let first = len / SECTOR as u64;
        self.cache.split_off(&first);
        self.durable.split_off(&first.div_ceil(SECTORS));
        let zeros = [0; SECTOR];
        for sector in first..first.next_multiple_of(SECTORS) {
            if self.durable.contains_key(&(sector / SECTORS)) {
                self.keep(sector, &zeros);
            }
        }
    }

    /// The last sector of one of the newest durable writes behind the first MiB; 0: the newest.
    pub fn last_durable(&self, age: usize) -> u64 {
        self.last[age]
    }

    /// A file grows when something is written behind its end, with a hole between.
    pub fn grow(&mut self, end: u64) {
        self.len = self.len.map(|len| len.max(end));
    }

    /// Puts sectors into the cache; `done` as in [`Device::flush`], `u64::MAX` if the write is
    /// not done by this.
    pub fn write(&mut self, offset: u64, bytes: &[u8], done: u64) {
        self.grow(offset + bytes.len() as u64);
        if self.cache_off && done != u64::MAX {
            let first = offset / SECTOR as u64;
            self.bad.retain(|bad| !(first..).zip(bytes.chunks_exact(SECTOR)).any(|s| s.0 == *bad));
            return self.put(offset, bytes);
        }
        self.waiting += u32::from(offset >= DATA_START);
        let first = offset / SECTOR as u64;
        for (sector, bytes) in (first..).zip(bytes.chunks_exact(SECTOR)) {
            let bytes = bytes.try_into().expect("a sector");
            self.cache.entry(sector).or_default().push(Cached { bytes, done });
            self.bad.retain(|bad| *bad != sector);
        }
    }

    /// Writes past the cache.
    pub fn write_durably(&mut self, offset: u64, bytes: &[u8], asked: u64) {
        let end = offset + bytes.len() as u64;
        self.grow(end);
        let mut old = vec![0; if self.durably.is_some() { bytes.len() } else { 0 }];
        // What cannot be read before was not there.
        let _ = self.read(offset, &mut old);
        if let Some(durably) = &mut self.durably {
            durably.push(Arc::new(Durable { offset, old, new: bytes.to_vec(), asked }));
        }
        if end > 1 << 20 {
            self.last.rotate_right(1);
            self.last[0] = end / SECTOR as u64 - 1;
        }
        let first = offset / SECTOR as u64;
        for (sector, bytes) in (first..).zip(bytes.chunks_exact(SECTOR)) {
            self.cache.remove(&sector);
            self.keep(sector, bytes);
            self.bad.retain(|bad| *bad != sector);
        }
        self.leave_out_overwritten();
    }

    /// A life that takes long must not fill the memory: of its writes past the cache those are kept
    /// that are there still, the newest, and the first of each superblock and anchor.
    fn leave_out_overwritten(&mut self) {
        let Some(durably) = self.durably.take_if(|kept| kept.len() > self.durably_max) else {
            return;
        };
        let newest = durably.len() - NEWEST;
        let mut marks = BTreeSet::new();
        let matters = |(at, write): &(usize, Arc<Durable>)| {
            let mut now = vec![0; write.new.len()];
            let there = self.read(write.offset, &mut now).is_ok() && now == write.new;
            let first = write.offset < DATA_START && marks.insert(write.offset);
            *at >= newest || there || first
        };
        let kept = durably.into_iter().enumerate().filter(matters).map(|(_, write)| write);
        let kept: Vec<Arc<Durable>> = kept.collect();
        self.durably_max = 2 * kept.len();
        self.durably = Some(kept);
    }

    /// A start writes, and flushes it before it is complete.
    pub fn note_early(&mut self, offset: u64, bytes: &[u8], asked: u64) {
        let mut old = vec![0; bytes.len()];
        let _ = self.read(offset, &mut old);
        self.early.push(Arc::new(Durable { offset, old, new: bytes.to_vec(), asked }));
    }

    /// A start begins.
    pub fn begin_start(&mut self) {
        self.early.clear();
    }

    /// What the start of this life wrote, and the writes past the cache since; oldest first.
    pub fn written_durably(&self) -> &[Arc<Durable>] {
        self.durably.as_deref().unwrap_or_default()
    }

    /// Another life begins, whose writes past the cache are kept.
    pub fn begin_life(&mut self) {
        self.durably = Some(core::mem::take(&mut self.early));
        self.durably_max = DURABLY_MIN;
        self.was_full = false;
    }

    /// Puts bytes on the medium, without anybody having written them.
    pub fn put(&mut self, offset: u64, bytes: &[u8]) {
        let first = offset / SECTOR as u64;
        for (sector, bytes) in (first..).zip(bytes.chunks_exact(SECTOR)) {
            self.cache.remove(&sector);
            self.keep(sector, bytes);
        }
    }

    /// Whether the cache has several writes behind the first MiB.
    pub fn caches_several(&self) -> bool {
        self.waiting > 1 && self.caches_data()
    }

    /// Whether the cache has anything behind the first MiB.
    pub fn caches_data(&self) -> bool {
        self.cache.range(DATA_START / SECTOR as u64..).next().is_some()
    }

    /// The error of a flush, if it fails.
    pub fn flush_error(&mut self) -> Option<IoError> {
        if self.flush_fails.is_some() && self.flushes_before > 0 {
            self.flushes_before -= 1;
            return None;
        }
        self.flush_fails.take()
    }

    /// Makes durable what was done by `asked`.
    pub fn flush(&mut self, asked: u64) {
        self.waiting = 0;
        let cache = core::mem::take(&mut self.cache);
        for (sector, mut cached) in cache {
            if let Some(last) = cached.iter().rposition(|c| c.done <= asked) {
                let bytes = cached[last].bytes;
                self.keep(sector, &bytes);
                cached.drain(..=last);
            }
            if !cached.is_empty() {
                self.cache.insert(sector, cached);
            }
        }
    }

    /// Nothing is in flight any more: what parts of writes have reached the cache is there.
    pub fn all_done(&mut self, now: u64) {
        self.parts_done(0..u64::MAX, now);
        self.hangs = false;
    }

    /// The same of these bytes.
    pub fn parts_done(&mut self, bytes: core::ops::Range<u64>, now: u64) {
        let sectors = bytes.start / SECTOR as u64..bytes.end / SECTOR as u64;
        if self.cache_off {
            let parts: Vec<u64> = self.cache.range(sectors).map(|(sector, _)| *sector).collect();
            for sector in parts {
                let cached = self.cache.remove(&sector).unwrap_or_default();
                cached.last().into_iter().for_each(|last| self.keep(sector, &last.bytes));
            }
            return;
        }
        let cached = self.cache.range_mut(sectors).flat_map(|(_, cached)| cached);
        cached.for_each(|cached| cached.done = cached.done.min(now));
    }

    /// What was not flushed is gone, as after a write-back that failed.
    pub fn forget_unflushed(&mut self) {
        self.cache.clear();
    }

    fn keep(&mut self, sector: u64, bytes: &[u8]) {
        let page = self.durable.entry(sector / SECTORS).or_insert_with(|| Arc::new([0; PAGE]));
        let at = (sector % SECTORS) as usize * SECTOR;
        Arc::make_mut(page)[at..at + SECTOR].copy_from_slice(bytes);
    }

    /// The durable bytes of a sector.
    pub fn kept(&self, sector: u64) -> &[u8] {
        let at = (sector % SECTORS) as usize * SECTOR;
        match self.durable.get(&(sector / SECTORS)) {
            Some(page) => &page[at..at + SECTOR],
            None => &[0; SECTOR],
        }
    }

    /// The sectors that are not durable, each with its versions since it was, oldest first. A
    /// version with the bytes of the one before it is left out.
    pub fn unflushed(&mut self) -> Vec<(u64, Vec<[u8; SECTOR]>)> {
        let mut all = Vec::new();
        for (sector, mut cached) in core::mem::take(&mut self.cache) {
            let mut last: [u8; SECTOR] = self.kept(sector).try_into().expect("a sector");
            cached.retain(|version| core::mem::replace(&mut last, version.bytes) != version.bytes);
            if !cached.is_empty() {
                all.push((sector, cached.iter().map(|version| version.bytes).collect()));
                self.cache.insert(sector, cached);
            }
        }
        all
    }

    /// The power fails. `kept` says, of each sector that is not durable and has this many versions,
    /// how many of them reached the medium.
    pub fn lose(&mut self, mut kept: impl FnMut(u64, usize) -> usize) {
        for (sector, cached) in core::mem::take(&mut self.cache) {
            let kept = kept(sector, cached.len());
            if kept > 0 {
                self.keep(sector, &cached[kept - 1].bytes);
            }
        }
        self.hangs = false;
    }

    /// The same, drawn.
    pub fn crash(&mut self, survivors: Survivors, rng: &mut Seeded) {
        let (mut next, mut all) = (0, false);
        let drops_all = self.drops_cache;
        self.lose(|sector, versions| match survivors {
            _ if drops_all => 0,
            Survivors::None => 0,
            Survivors::All => versions,
            Survivors::Random => rng.below(versions as u64 + 1) as usize,
            Survivors::Runs => {
                if sector != core::mem::replace(&mut next, sector + 1) || rng.below(RUN) == 0 {
                    all = rng.below(2) == 0;
                }
                if all { versions } else { 0 }
            }
        });
    }

    /// The same for memory: of a sector any words may be there.
    pub fn tear(&mut self, rng: &mut Seeded) {
        for (sector, cached) in core::mem::take(&mut self.cache) {
            let versions = cached.len() as u64 + 1;
            let mut bytes: [u8; SECTOR] = self.kept(sector).try_into().expect("a sector");
            // Most of what is torn is torn in few places, but anchors, which are short.
            let most = if ANCHORS.contains(&sector) { 4 } else { 64 };
            let (mut newest, stays) = (rng.below(versions), 1 + rng.below(most));
            for at in (0..SECTOR).step_by(WORD) {
                if rng.below(stays) == 0 {
                    newest = rng.below(versions);
                }
                if newest > 0 {
                    let word = at..at + WORD;
                    bytes[word.clone()].copy_from_slice(&cached[newest as usize - 1].bytes[word]);
                }
            }
            self.keep(sector, &bytes);
        }
        self.hangs = false;
    }

    /// What memory has of a copy that ended early, within this many bytes.
    pub fn copied_in_part(
        &mut self,
        offset: u64,
        new: &[u8],
        most: u64,
        rng: &mut Seeded,
    ) -> Buffer {
        let mut bytes = Buffer::copy_of(new);
        let mut before = vec![0; new.len()];
        if self.read(offset, &mut before).is_ok() {
            let end = rng.below(most + 1) as usize;
            bytes[end..].copy_from_slice(&before[end..]);
        }
        bytes
    }

    /// A sector cannot be read from now on.
    pub fn spoil(&mut self, sector: u64) {
        let page = sector / SECTORS;
        self.bad_pages += u32::from(!self.bad.iter().any(|bad| bad / SECTORS == page));
        self.bad.push(sector);
        self.was_bad.push(sector);
    }

    /// Whether an operation writes sectors that cannot be written.
    pub fn is_stuck(&self, op: &Op) -> bool {
        let OpKind::Write { offset, buffer, .. } = &op.kind else { return false };
        let (first, end) = (offset / SECTOR as u64, (offset + buffer.len() as u64) / SECTOR as u64);
        self.stuck.as_ref().is_some_and(|stuck| stuck.start < end && first < stuck.end)
    }

    /// Whether any of these sectors could not be read at some time of this life.
    pub fn was_bad(&self, sectors: core::ops::Range<u64>) -> bool {
        self.was_bad.iter().any(|sector| sectors.contains(sector))
    }

    /// What could be read again does not count from now on.
    pub fn forget_healed(&mut self) {
        (self.erred, self.was_slow) = (false, false);
        self.was_bad = self.bad.clone();
        let pages: BTreeSet<u64> = self.bad.iter().map(|sector| sector / SECTORS).collect();
        self.bad_pages = pages.len() as u32;
    }

    /// Whether its cache has anything.
    pub fn has_cached(&self) -> bool {
        !self.cache.is_empty()
    }

    /// Whether the cache has a superblock, an anchor or a record.
    pub fn caches_marks(&self) -> bool {
        self.cache.range(..DATA_START / SECTOR as u64).next().is_some()
    }

    /// Whether any sector cannot be read.
    pub fn has_bad(&self) -> bool {
        !self.bad.is_empty()
    }

    /// One of these sectors that cannot be read.
    pub fn first_bad(&self, sectors: core::ops::Range<u64>) -> Option<u64> {
        self.bad.iter().copied().find(|bad| sectors.contains(bad))
    }

    /// All sectors can be read again.
    pub fn heal(&mut self) {
        self.bad.clear();
    }

    /// Whether an operation will fail.
    pub fn fails_soon(&self) -> bool {
        self.write_fails || self.mark_fails || self.flush_fails.is_some()
    }

    /// No further operation fails.
    pub fn end_errors(&mut self) {
        (self.write_fails, self.flush_fails, self.loses_write) = (false, None, None);
        (self.stuck, self.busy, self.flushes_before) = (None, 0, 0);
        self.mark_fails = false;
    }

    /// A bit flips in a sector, if that was written; whether it was.
    pub fn rot(&mut self, sector: u64, bit: u64) -> bool {
        let Some(page) = self.durable.get_mut(&(sector / SECTORS)) else { return false };
        let at = (sector % SECTORS) as usize * SECTOR + (bit / 8 % SECTOR as u64) as usize;
        Arc::make_mut(page)[at] ^= 1 << (bit % 8);
        true
    }
}
