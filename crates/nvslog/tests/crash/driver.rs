//! A small driver over the log, with a naive model of what may be read back after a crash.

use crate::device::{Device, Random, SECTOR};
use destage_engine::units::Page;
use destage_nvslog::LogId;
use destage_nvslog::anchor::Anchor;
use destage_nvslog::commit::{self, Header, Kind};
use destage_nvslog::contents::{Contents, HeldPage, OpenIntent};
use destage_nvslog::crc::crc32c;
use destage_nvslog::record::{ALL_SECTORS, Origin, Pages, Record};
use destage_nvslog::recover::{Layout, Part, RecoverError, Recovered, Recovery};
use destage_nvslog::slots::Slots;
use destage_nvslog::space::{LogSpace, Purpose};
use std::collections::{BTreeSet, VecDeque};

pub const LOG: LogId = LogId([7; 16]);
pub const PAGES: u64 = 8;
/// Few: they are written again soon.
const SLOTS: u32 = 26;
/// Sectors of a page; each write covers complete ones, filled with its stamp.
const SECTORS: usize = 8;
const PAGE: usize = SECTORS * SECTOR;
const ANCHORS: [usize; 2] = [0, 4096];
pub const RING: usize = 8192;
const BLOCK: u32 = SECTOR as u32;

/// A driver that does one thing wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    None,
    /// Takes a commit for durable before the flush.
    AcknowledgesEarly,
    /// Reuses space before the anchors are durable.
    ReusesBeforeAnchor,
    /// Lets the tail pass a record whose killer is not durable.
    TailPassesEarly,
    /// Moves frozen pages as if they were not.
    ForgetsFrozen,
    /// Continues in the old epoch after a crash.
    KeepsEpoch,
    /// Writes a slot again before the commit that freed it is durable.
    ReusesSlotsEarly,
    /// Writes a slot again when that commit is durable, but nothing durable says so.
    ReusesSlotsUnconfirmed,
    /// Logs the next sector instead of the one that was written.
    ShiftsSectors,
}

/// What each sector holds, where that is specified.
pub type Sectors = Vec<Option<u32>>;

/// Of a page that gets its slot when its commit is appended.
const NO_SLOT: u32 = u32::MAX;

fn put_stamp(bytes: &mut [u8], sector: usize, stamp: u32) {
    let to = &mut bytes[sector * SECTOR..][..SECTOR];
    to.chunks_exact_mut(4).for_each(|word| word.copy_from_slice(&stamp.to_le_bytes()));
}

fn stamp_at(bytes: &[u8], sector: usize) -> u32 {
    u32::from_le_bytes(bytes[sector * SECTOR..][..4].try_into().expect("four bytes"))
}

#[derive(Clone)]
struct Snapshot {
    sequence: u64,
    volume: Sectors,
    contents: Contents,
}

#[derive(Clone)]
struct Destaging {
    pages: Pages,
    through: u64,
    /// What the intent froze.
    new: Sectors,
    intent: u64,
    /// The release's commit.
    released: Option<u64>,
}

/// A commit to be appended, and what the volume holds with it.
#[derive(Clone, Default)]
pub struct Batch {
    pub records: Vec<Record>,
    /// Bytes for the slot of each Data record that is not moved, which gets its slot when the
    /// commit is appended.
    pub pages: VecDeque<Vec<u8>>,
    pub volume: Option<Sectors>,
}

pub struct Driver {
    pub devices: Vec<Device>,
    pub random: Random,
    pub ring_blocks: u64,
    pub crashes: u64,
    pub laps: u64,
    pub moved: u64,
    pub reopened: u64,
    pub taken_back: u64,
    pub slots_reused: u64,
    /// The types of the records written.
    pub types: BTreeSet<u8>,
    /// Whether every subset of unflushed sectors is tried.
    pub exhaustive: bool,
    defect: Defect,
    space: LogSpace,
    pub contents: Contents,
    epoch: u32,
    disk: Vec<u32>,
    volume: Sectors,
    snapshots: VecDeque<Snapshot>,
    destaging: Vec<Destaging>,
    acknowledged: u64,
    /// What the last commit's header says was durable.
    says_durable: u64,
    /// Slots given out so far.
    given_out: Vec<bool>,
    last_block: u64,
    stamp: u32,
}

fn layout(ring_blocks: u64, copies: usize) -> Layout {
    Layout { log: LOG, block_bytes: BLOCK, ring_blocks, slots: SLOTS, copies }
}

/// Bytes of a part of a device.
pub fn part_bytes(part: Part, ring_blocks: u64) -> std::ops::Range<usize> {
    match part {
        Part::Ring { block, blocks } => {
            let from = RING + block as usize * SECTOR;
            from..from + blocks as usize * SECTOR
        }
        Part::Slot(slot) => {
            let from = RING + ring_blocks as usize * SECTOR + slot as usize * PAGE;
            from..from + PAGE
        }
    }
}

pub fn recover(images: &[Vec<u8>], ring_blocks: u64) -> Result<Recovered, RecoverError> {
    let copies = images.iter().flat_map(|image| ANCHORS.map(|at| &image[at..at + SECTOR]));
    let anchor = Anchor::choose(copies, LOG).expect("an anchor");
    let mut recovery = Recovery::new(layout(ring_blocks, images.len()), anchor)?;
    while let Some(want) = recovery.want() {
        recovery.give(Some(&images[want.copy][part_bytes(want.part, ring_blocks)]))?;
    }
    Ok(recovery.finish())
}

impl Driver {
    pub fn new(seed: u64, ring_blocks: u64, copies: usize, defect: Defect) -> Driver {
        let anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };
        let sectors = RING / SECTOR + ring_blocks as usize + SLOTS as usize * SECTORS;
        let mut device = Device::new(sectors);
        for at in ANCHORS {
            device.write(at, &anchor.encode(LOG));
        }
        device.flush();
        let mut space = LogSpace::new(ring_blocks, BLOCK, anchor);
        space.slots = Slots::new(SLOTS);
        let mut driver = Driver {
            devices: vec![device; copies],
            random: Random(seed),
            ring_blocks,
            crashes: 0,
            laps: 0,
            moved: 0,
            reopened: 0,
            taken_back: 0,
            slots_reused: 0,
            types: BTreeSet::new(),
            exhaustive: false,
            defect: Defect::None,
            space,
            contents: Contents::default(),
            epoch: 1,
            disk: vec![0; PAGES as usize * SECTORS],
            volume: vec![Some(0); PAGES as usize * SECTORS],
            snapshots: VecDeque::new(),
            destaging: Vec::new(),
            acknowledged: 0,
            says_durable: 0,
            given_out: vec![false; SLOTS as usize],
            last_block: 0,
            stamp: 0,
        };
        // The log exists once its first commit is durable: only then is anything checked.
        driver.append(Kind::Opens, Batch::default(), Purpose::Housekeeping).expect("no check yet");
        driver.flush().expect("no check yet");
        driver.defect = defect;
        driver
    }

    fn write_all(&mut self, at: usize, bytes: &[u8]) -> Result<(), String> {
        for device in 0..self.devices.len() {
            self.devices[device].write(at, bytes);
            if self.acknowledged > 0 {
                self.crash_point()?;
            }
        }
        Ok(())
    }

    pub fn flush(&mut self) -> Result<(), String> {
        for device in 0..self.devices.len() {
            self.devices[device].flush();
            if self.acknowledged > 0 && self.devices.len() > 1 {
                self.crash_point()?;
            }
        }
        self.durable();
        Ok(())
    }

    fn durable(&mut self) {
        let last = self.space.next_sequence() - 1;
        self.space.made_durable(last);
        let confirmed = match self.defect {
            Defect::ReusesSlotsUnconfirmed => last,
            _ => self.says_durable,
        };
        self.space.confirmed(confirmed);
        self.acknowledged = last;
        self.snapshots.retain(|snapshot| snapshot.sequence >= last);
        self.destaging.retain(|d| d.released.is_none_or(|released| released > last));
    }

    /// Crashes here in one or all ways, recovers, and looks at what is there.
    fn crash_point(&mut self) -> Result<(), String> {
        if self.exhaustive {
            let cached = self.devices[0].cached.len();
            assert!(self.devices.len() == 1 && cached <= 12, "{cached} sectors unflushed");
            for subset in 0u32..1 << cached {
                let survivors: Vec<usize> = (0..cached).filter(|i| subset >> i & 1 == 1).collect();
                let image = self.devices[0].after_crash(&survivors);
                self.check(&[image])?;
            }
            return Ok(());
        }
        let images = self.crash_images();
        self.check(&images).map(|_| ())
    }

    fn crash_images(&mut self) -> Vec<Vec<u8>> {
        let random = &mut self.random;
        self.devices.iter().map(|d| d.after_crash(&d.survivors(random))).collect()
    }

    /// D10, D8, D6: recovers and compares with the state after the same number of commits.
    pub fn check(&mut self, images: &[Vec<u8>]) -> Result<Recovered, String> {
        self.crashes += 1;
        let recovered = recover(images, self.ring_blocks).map_err(|error| error.to_string())?;
        let last = recovered.space.next_sequence() - 1;
        if last < self.acknowledged {
            return Err(format!("commits to {last} of {} acknowledged", self.acknowledged));
        }
        let Some(at) = self.snapshots.iter().find(|s| s.sequence == last) else {
            return Err(format!("commit {last} was never appended"));
        };
        for page in 0..PAGES {
            let range = page as usize * SECTORS..(page as usize + 1) * SECTORS;
            let mut found = self.disk[range.clone()].to_vec();
            let mut covered = 0;
            let mut overlay = |held: Option<HeldPage>| self.overlay(&mut found, held, images);
            covered |= overlay(recovered.contents.frozen(Page(page)))?;
            let destaging = self.destaging.iter().find(|d| {
                let open = d.intent <= last && d.released.is_none_or(|commit| commit > last);
                open && d.pages.overlaps(Pages::new(Page(page), 1))
            });
            if let Some(d) = destaging {
                let from = (page - d.pages.first.0) as usize * SECTORS;
                for (sector, new) in d.new[from..from + SECTORS].iter().enumerate() {
                    let lost = covered >> sector & 1 == 0 || Some(found[sector]) != *new;
                    if new.is_some() && lost {
                        return Err(format!("page {page}: what an open intent froze is gone"));
                    }
                }
            }
            self.overlay(&mut found, recovered.contents.page(Page(page)), images)?;
            for (sector, expected) in at.volume[range].iter().enumerate() {
                if expected.is_some_and(|expected| expected != found[sector]) {
                    let found = found[sector];
                    return Err(format!("page {page} sector {sector}: {found}, not {expected:?}"));
                }
            }
        }
        if recovered.contents != at.contents {
            return Err(format!("contents differ after commit {last}"));
        }
        Ok(recovered)
    }

    /// Lays what the log has of a page over what is below it; the sectors that it has.
    fn overlay(
        &self,
        found: &mut [u32],
        held: Option<HeldPage>,
        images: &[Vec<u8>],
    ) -> Result<u8, String> {
        let Some(held) = held else { return Ok(0) };
        let bytes = match held.stored {
            None => &[0; PAGE][..],
            Some(stored) => {
                let range = part_bytes(Part::Slot(stored.slot), self.ring_blocks);
                let mut copies = images.iter().map(|image| &image[range.clone()]);
                let intact = copies.find(|bytes| crc32c(bytes) == stored.crc);
                intact.ok_or_else(|| format!("slot {} has something else", stored.slot))?
            }
        };
        for (sector, found) in found.iter_mut().enumerate() {
            if held.sectors >> sector & 1 == 1 {
                *found = stamp_at(bytes, sector);
            }
        }
        Ok(held.sectors)
    }

    /// Appends a commit, with padding if need be; `false`: no room.
    pub fn append(&mut self, kind: Kind, mut batch: Batch, to: Purpose) -> Result<bool, String> {
        let mut slots = Vec::new();
        if self.defect == Defect::ReusesSlotsEarly {
            self.space.slots.confirmed(u64::MAX);
        }
        if !self.space.slots.take(batch.pages.len(), &mut slots) {
            return Ok(false);
        }
        let blocks = commit::commit_blocks(&batch.records, BLOCK);
        let Some(place) = self.space.allocate(blocks, to) else {
            // As if they had been named and killed: they come back with the next confirmation.
            slots.into_iter().for_each(|slot| self.space.slots.killed(slot, 0));
            return Ok(false);
        };
        let mut to_write = Vec::new();
        let mut given = slots.into_iter();
        for record in &mut batch.records {
            let moved = record.moved();
            let Record::Data { slot, crc, sectors, .. } = record else { continue };
            if moved && *slot != NO_SLOT {
                continue;
            }
            let bytes = batch.pages.pop_front().expect("bytes of each new page");
            (*slot, *crc) = (given.next().expect("one for each page"), crc32c(&bytes));
            if self.defect == Defect::ShiftsSectors {
                *sectors = sectors.rotate_left(1);
            }
            let before = std::mem::replace(&mut self.given_out[*slot as usize], true);
            self.slots_reused += u64::from(before);
            to_write.push((*slot, bytes));
        }
        if let Some((block, sequence, blocks)) = place.padding {
            let kind = Kind::Pads { blocks: blocks as u32 - 1 };
            self.write_commit(kind, block, sequence, Batch::default(), Vec::new())?;
        }
        self.laps += u64::from(place.block < self.last_block);
        self.last_block = place.block;
        self.write_commit(kind, place.block, place.sequence, batch, to_write)?;
        Ok(true)
    }

    fn write_commit(
        &mut self,
        kind: Kind,
        block: u64,
        sequence: u64,
        batch: Batch,
        pages: Vec<(u32, Vec<u8>)>,
    ) -> Result<(), String> {
        let Batch { records, volume, .. } = batch;
        for record in &records {
            let applied = self.contents.apply(record, sequence, &mut self.space);
            applied.map_err(|error| error.to_string())?;
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            self.types.insert(bytes[0]);
        }
        self.volume = volume.unwrap_or_else(|| self.volume.clone());
        let header = Header {
            epoch: self.epoch,
            sequence,
            durable_through: self.space.durable(),
            block,
            last_version: self.contents.last_version(),
            kind,
        };
        self.says_durable = header.durable_through;
        let mut bytes = Vec::new();
        commit::encode(&header, &records, LOG, BLOCK, &mut bytes);
        self.snapshots.push_back(Snapshot {
            sequence,
            volume: self.volume.clone(),
            contents: self.contents.clone(),
        });
        for (slot, page) in &pages {
            let at = part_bytes(Part::Slot(*slot), self.ring_blocks).start;
            self.write_all(at, page)?;
        }
        self.write_all(RING + block as usize * SECTOR, &bytes)?;
        if self.defect == Defect::AcknowledgesEarly {
            self.durable();
            self.crash_point()?;
        }
        Ok(())
    }

    /// Appends host records, making room first if there is none.
    pub fn host(&mut self, batch: Batch) -> Result<(), String> {
        for _ in 0..40 {
            if self.append(Kind::Plain, batch.clone(), Purpose::Host)? {
                return self.housekeeping(0);
            }
            self.flush()?;
            self.anchor(true)?;
            self.housekeeping(commit::commit_blocks(&batch.records, BLOCK))?;
            if !self.space.slots.clone().take(batch.pages.len(), &mut Vec::new()) {
                // Confirms the commits that freed slots.
                self.append(Kind::Plain, Batch::default(), Purpose::Housekeeping)?;
                self.flush()?;
            }
        }
        Err("no room in the log".into())
    }

    fn anchor(&mut self, now: bool) -> Result<(), String> {
        let mut due = self.space.anchor_due(now, None);
        if self.defect == Defect::TailPassesEarly {
            let mut space = self.space.clone();
            space.made_durable(space.next_sequence() - 1);
            let durable_through = self.space.durable();
            due = space.anchor_due(now, None).map(|anchor| Anchor { durable_through, ..anchor });
        }
        let Some(anchor) = due else { return Ok(()) };
        if self.defect != Defect::ReusesBeforeAnchor {
            self.write_anchor(&anchor)?;
        }
        self.space.anchored(anchor);
        Ok(())
    }

    fn write_anchor(&mut self, anchor: &Anchor) -> Result<(), String> {
        for at in ANCHORS {
            self.write_all(at, &anchor.encode(LOG))?;
            self.flush()?;
        }
        Ok(())
    }

    /// Moves live records out of the oldest segments, and the tail.
    fn housekeeping(&mut self, waiting: u64) -> Result<(), String> {
        for _ in 0..32 {
            self.anchor(false)?;
            let Some(commits) = self.space.evacuate(waiting) else { return Ok(()) };
            let mut batch = Batch::default();
            for mut record in self.contents.live_in(&commits) {
                self.moved += 1;
                if let (Defect::ForgetsFrozen, Record::Data { origin, .. }) =
                    (self.defect, &mut record)
                {
                    *origin = Origin::Moved;
                }
                batch.records.push(record);
                if commit::commit_blocks(&batch.records, BLOCK) > self.space.commit_blocks_max() {
                    batch.records.pop();
                    self.append_moved(std::mem::take(&mut batch))?;
                    batch.records.push(record);
                }
            }
            self.append_moved(batch)?;
        }
        Ok(())
    }

    fn append_moved(&mut self, batch: Batch) -> Result<(), String> {
        if self.exhaustive {
            // Keeps the number of subsets small.
            self.flush()?;
        }
        for _ in 0..4 {
            if self.append(Kind::Plain, batch.clone(), Purpose::Housekeeping)? {
                return Ok(());
            }
            self.flush()?;
            self.anchor(true)?;
        }
        Err("no room to move live records".into())
    }

    /// Adds a write of complete sectors to a batch.
    pub fn write(&mut self, batch: &mut Batch, page: u64, first: usize, sectors: usize) {
        self.stamp += 1;
        let version = self.next_version(batch);
        let (mut mask, mut bytes) = self.newest(batch, page);
        for sector in first..first + sectors {
            mask |= 1 << sector;
            put_stamp(&mut bytes, sector, self.stamp);
        }
        batch.records.push(Record::Data {
            page: Page(page),
            version,
            slot: NO_SLOT,
            sectors: mask,
            crc: 0,
            origin: Origin::New,
        });
        batch.pages.push_back(bytes);
        let from = page as usize * SECTORS + first;
        self.fill(batch, from, sectors, Some(self.stamp));
    }

    /// The sectors of a page that the log has, with the batch.
    fn newest(&self, batch: &Batch, page: u64) -> (u8, Vec<u8>) {
        let mut bytes = vec![0; PAGE];
        let mut of_batch = batch.pages.iter();
        let mut newest: Option<(u8, &[u8])> = None;
        for record in &batch.records {
            match record {
                Record::Data { page: Page(of), sectors, .. } => {
                    let written = of_batch.next().expect("bytes of each new page");
                    if *of == page {
                        newest = Some((*sectors, written));
                    }
                }
                Record::Zero { pages, .. } if pages.overlaps(Pages::new(Page(page), 1)) => {
                    newest = Some((ALL_SECTORS, &[0; PAGE]));
                }
                Record::Trim { pages, .. } if pages.overlaps(Pages::new(Page(page), 1)) => {
                    newest = Some((0, &[0; PAGE]));
                }
                _ => {}
            }
        }
        if let Some((mask, written)) = newest {
            bytes.copy_from_slice(written);
            return (mask, bytes);
        }
        let held = self.contents.page(Page(page)).or(self.contents.frozen(Page(page)));
        let Some(held) = held else { return (0, bytes) };
        if let Some(stored) = held.stored {
            let range = part_bytes(Part::Slot(stored.slot), self.ring_blocks);
            bytes = self.devices[0].read(range.start, PAGE);
        }
        (held.sectors, bytes)
    }

    pub fn zero_or_trim(&mut self, batch: &mut Batch, pages: Pages, zero: bool) {
        let version = self.next_version(batch);
        batch.records.push(match zero {
            true => Record::Zero { pages, version, origin: Origin::New },
            false => Record::Trim { pages, version },
        });
        let (from, count) = (pages.first.0 as usize * SECTORS, pages.count as usize * SECTORS);
        self.fill(batch, from, count, zero.then_some(0));
    }

    fn next_version(&self, batch: &Batch) -> u64 {
        let last = batch.records.iter().rev().find_map(Record::new_version);
        last.unwrap_or(self.contents.last_version()) + 1
    }

    fn fill(&self, batch: &mut Batch, from: usize, count: usize, value: Option<u32>) {
        let volume = batch.volume.get_or_insert_with(|| self.volume.clone());
        volume[from..from + count].fill(value);
    }

    /// Begins the destage of two pages, if the log holds something of them (D4).
    pub fn intend(&mut self, first: u64) -> Result<(), String> {
        let pages = Pages::new(Page(first), 2);
        let busy = self.destaging.iter().any(|d| d.released.is_none() && d.pages.overlaps(pages));
        let held = [first, first + 1].map(|page| self.contents.page(Page(page)));
        if busy || held.iter().all(Option::is_none) {
            return Ok(());
        }
        let mut new: Sectors = Vec::new();
        let mut completions = Vec::new();
        for (page, held) in (first..).zip(held) {
            let from = page as usize * SECTORS;
            let mut sectors = held.map_or(0, |held| held.sectors);
            if let Some(held) = held
                && held.stored.is_some()
                && sectors != ALL_SECTORS
                && (completions.is_empty() || !self.exhaustive)
                && self.random.below(2) == 0
            {
                let (_, mut bytes) = self.newest(&Batch::default(), page);
                let missing = (0..SECTORS).filter(|sector| held.sectors >> sector & 1 == 0);
                missing.for_each(|sector| put_stamp(&mut bytes, sector, self.below(page, sector)));
                completions.push((page, held.version, bytes));
                sectors = ALL_SECTORS;
            }
            let of = |sector: usize| match held.is_some_and(|h| h.sectors >> sector & 1 == 1) {
                true => self.volume[from + sector],
                false => Some(self.below(page, sector)),
            };
            new.extend((0..SECTORS).map(|s| of(s).filter(|_| sectors >> s & 1 == 1)));
        }
        let through = self.contents.last_version();
        let mut batch = Batch::default();
        batch.records.push(Record::Intent { pages, through, moved: false });
        for row in 0..self.random.below(3) as u32 {
            let p = [row + 1; 8];
            let q = (self.random.below(2) == 0).then_some([row + 2; 8]);
            batch.records.push(Record::Parity { first: Page(first), row, p, q, moved: false });
        }
        for (page, version, bytes) in completions {
            let (page, origin) = (Page(page), Origin::Frozen);
            let (slot, sectors, crc) = (NO_SLOT, ALL_SECTORS, 0);
            batch.records.push(Record::Data { page, version, slot, sectors, crc, origin });
            batch.pages.push_back(bytes);
        }
        self.host(batch)?;
        let open = self.contents.intents().find(|open| open.pages == pages);
        let intent = open.expect("just appended").sequence;
        self.destaging.push(Destaging { pages, through, new, intent, released: None });
        self.flush()
    }

    /// Writes what an open intent froze to the disk, and releases it (D2).
    pub fn release(&mut self, index: usize) -> Result<(), String> {
        let Some(destaging) = self.destaging.get(index).cloned() else { return Ok(()) };
        if destaging.released.is_some() {
            return Ok(());
        }
        let from = destaging.pages.first.0 as usize * SECTORS;
        for (sector, new) in destaging.new.iter().enumerate() {
            self.disk[from + sector] = new.unwrap_or(self.disk[from + sector]);
        }
        self.crash_point()?;
        let Destaging { pages, through, .. } = destaging;
        let records = vec![Record::Release { pages, through }];
        // Known late: anything from the next commit on may hold the release.
        self.destaging[index].released = Some(self.space.next_sequence());
        self.host(Batch { records, ..Batch::default() })
    }

    /// Crashes for good, recovers, and continues from there in a new epoch (D7); sometimes again
    /// and again.
    pub fn reopen(&mut self) -> Result<(), String> {
        self.start()?;
        let more = if self.random.below(32) == 0 { 70 } else { self.random.below(2) };
        (0..more).try_for_each(|_| self.start())
    }

    fn start(&mut self) -> Result<(), String> {
        let images = self.crash_images();
        let mut recovered = self.check(&images)?;
        self.reopened += 1;
        let last = recovered.space.next_sequence() - 1;
        for (device, image) in self.devices.iter_mut().zip(&images) {
            (device.durable, device.cached) = (image.clone(), Vec::new());
        }
        self.repair(&recovered, &images);
        self.snapshots.retain(|snapshot| snapshot.sequence == last);
        self.volume = self.snapshots[0].volume.clone();
        self.destaging.retain(|d| {
            let same = |open: &OpenIntent| open.pages == d.pages && open.through == d.through;
            recovered.contents.intents().any(same)
        });
        self.destaging.iter_mut().for_each(|d| d.released = None);
        let anchor = recovered.space.anchor();
        for block in recovered.to_overwrite() {
            let at = RING + block as usize * SECTOR;
            self.devices.iter_mut().for_each(|d| d.durable[at..at + SECTOR].fill(0));
        }
        recovered.make_room();
        self.contents = recovered.contents;
        self.space = recovered.space;
        self.acknowledged = self.space.next_sequence() - 1;
        if self.acknowledged < last {
            self.taken_back += 1;
            let sequence = self.acknowledged;
            self.snapshots.push_front(Snapshot { sequence, ..self.snapshots[0].clone() });
        }
        if self.space.anchor() != anchor && self.defect != Defect::ReusesBeforeAnchor {
            let anchor = self.space.anchor();
            self.write_anchor(&anchor)?;
        }
        let kind = if self.defect == Defect::KeepsEpoch {
            Kind::Plain
        } else {
            self.epoch = recovered.epoch + 1;
            Kind::Opens
        };
        if !self.append(kind, Batch::default(), Purpose::Housekeeping)? {
            return Err("no room to open an epoch".into());
        }
        self.check_torn_opening()?;
        self.flush()
    }

    /// Memory that is addressed by bytes may tear any write: then the commit that opens an epoch is
    /// not there, nor one in whose place it is.
    fn check_torn_opening(&mut self) -> Result<(), String> {
        let block = (self.space.head() + self.ring_blocks - 1) % self.ring_blocks;
        let middle = RING + block as usize * SECTOR + 8 + self.random.below(48) as usize;
        let mut images: Vec<Vec<u8>> = self.devices.iter().map(|d| d.durable.clone()).collect();
        images.iter_mut().for_each(|image| image[middle] ^= 1);
        self.check(&images).map(|_| ())
    }

    /// Copies what one device lacks from the other; then what the slots lack.
    fn repair(&mut self, recovered: &Recovered, images: &[Vec<u8>]) {
        for repair in &recovered.repairs {
            let range = part_bytes(repair.part, self.ring_blocks);
            let from = &images[repair.from][range.clone()];
            self.devices[repair.copy].durable[range].copy_from_slice(from);
        }
        let contents = &recovered.contents;
        for (_, held) in contents.pages().chain(contents.frozen_pages()) {
            let Some(stored) = held.stored else { continue };
            let range = part_bytes(Part::Slot(stored.slot), self.ring_blocks);
            let intact = images.iter().find(|image| crc32c(&image[range.clone()]) == stored.crc);
            let intact = intact.expect("checked before");
            for device in &mut self.devices {
                device.durable[range.clone()].copy_from_slice(&intact[range.clone()]);
            }
        }
    }

    /// What is below what the log holds newest of a page.
    fn below(&self, page: u64, sector: usize) -> u32 {
        self.disk[page as usize * SECTORS + sector]
    }

    /// One random step.
    pub fn step(&mut self) -> Result<(), String> {
        match self.random.below(100) {
            0..12 => {
                let group = self.random_below(PAGES / 2);
                self.intend(2 * group)
            }
            12..32 => {
                let index = self.random_below(self.destaging.len().max(1) as u64) as usize;
                self.release(index)
            }
            32..38 => self.flush(),
            38..40 => self.reopen(),
            40..50 => {
                let mut batch = Batch::default();
                let first = self.random_below(PAGES);
                let count = 1 + self.random_below(3.min(PAGES - first)) as u32;
                let zero = self.random_below(2) == 0;
                self.zero_or_trim(&mut batch, Pages::new(Page(first), count), zero);
                self.host(batch)
            }
            50..54 => self.host(Batch::default()),
            _ => {
                let mut batch = Batch::default();
                for _ in 0..=self.random_below(3) {
                    let page = self.random_below(PAGES);
                    let (first, sectors) = match self.random_below(3) {
                        0 => (0, SECTORS),
                        _ => {
                            let first = self.random_below(SECTORS as u64);
                            let most = SECTORS as u64 - first;
                            (first as usize, 1 + self.random_below(most) as usize)
                        }
                    };
                    self.write(&mut batch, page, first, sectors);
                }
                self.host(batch)
            }
        }
    }

    fn random_below(&mut self, below: u64) -> u64 {
        self.random.below(below)
    }
}
