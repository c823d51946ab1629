//! A small driver over the log, with a naive model of what may be read back after a crash.

use crate::device::{Device, Random, SECTOR};
use destage_engine::units::Page;
use destage_nvslog::LogId;
use destage_nvslog::anchor::Anchor;
use destage_nvslog::commit::{self, Header, Kind, append_payload, payload_crc};
use destage_nvslog::contents::{Contents, Fragment, OpenIntent, Place};
use destage_nvslog::record::{Origin, Pages, Record};
use destage_nvslog::recover::{RecoverError, Recovered, Recovery};
use destage_nvslog::space::{LogSpace, Purpose};
use std::collections::{BTreeSet, VecDeque};

pub const LOG: LogId = LogId([7; 16]);
pub const PAGES: u64 = 8;
/// Bytes that the model takes as one: each write covers whole units, filled with its stamp.
pub const UNIT: usize = 64;
const UNITS: usize = 4096 / UNIT;
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
}

pub type Units = Vec<Option<u32>>;

#[derive(Clone)]
struct Snapshot {
    sequence: u64,
    volume: Units,
    contents: Contents,
    live_blocks: u64,
}

#[derive(Clone)]
struct Destaging {
    pages: Pages,
    through: u64,
    /// What the intent froze.
    new: Units,
    intent: u64,
    /// The release's commit.
    released: Option<u64>,
}

/// A commit to be appended, and what the volume holds with it.
#[derive(Clone, Default)]
pub struct Batch {
    pub records: Vec<Record>,
    pub payloads: Vec<Vec<u8>>,
    pub volume: Option<Units>,
}

pub struct Driver {
    pub devices: Vec<Device>,
    pub random: Random,
    pub ring_blocks: u64,
    pub crashes: u64,
    pub laps: u64,
    pub moved: u64,
    pub reopened: u64,
    /// The types of the records written.
    pub types: BTreeSet<u8>,
    /// Whether every subset of unflushed sectors is tried.
    pub exhaustive: bool,
    defect: Defect,
    space: LogSpace,
    pub contents: Contents,
    epoch: u32,
    disk: Vec<u32>,
    volume: Units,
    snapshots: VecDeque<Snapshot>,
    destaging: Vec<Destaging>,
    acknowledged: u64,
    stamp: u32,
}

pub fn recover(images: &[Vec<u8>], ring_blocks: u64) -> Result<Recovered, RecoverError> {
    let copies = images.iter().flat_map(|image| ANCHORS.map(|at| &image[at..at + SECTOR]));
    let anchor = Anchor::choose(copies, LOG).expect("an anchor");
    let mut recovery = Recovery::new(LOG, BLOCK, ring_blocks, images.len(), anchor)?;
    while let Some(want) = recovery.want() {
        let from = RING + want.block as usize * SECTOR;
        recovery.give(Some(&images[want.copy][from..from + want.blocks as usize * SECTOR]))?;
    }
    Ok(recovery.finish())
}

fn overlay(units: &mut [u32], covered: &mut [bool], fragments: &[Fragment], images: &[Vec<u8>]) {
    for fragment in fragments {
        let first = usize::from(fragment.offset) / UNIT;
        for unit in 0..usize::from(fragment.bytes) / UNIT {
            units[first + unit] = fragment.stored.map_or(0, |stored| {
                let at = RING + stored.block as usize * SECTOR + unit * UNIT;
                let whole = images.iter().find(|image| {
                    if images.len() == 1 {
                        return true;
                    }
                    let from = RING + stored.block as usize * SECTOR;
                    let payload = &image[from..from + stored.blocks as usize * SECTOR];
                    payload_crc(payload, BLOCK) == stored.crc
                });
                let image = whole.expect("recovery accepted the payload");
                u32::from_le_bytes(image[at..at + 4].try_into().unwrap())
            });
            covered[first + unit] = true;
        }
    }
}

impl Driver {
    pub fn new(seed: u64, ring_blocks: u64, copies: usize, defect: Defect) -> Driver {
        let anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };
        let mut device = Device::new(RING / SECTOR + ring_blocks as usize);
        for at in ANCHORS {
            device.write(at, &anchor.encode(LOG));
        }
        device.flush();
        let mut driver = Driver {
            devices: vec![device; copies],
            random: Random(seed),
            ring_blocks,
            crashes: 0,
            laps: 0,
            moved: 0,
            reopened: 0,
            types: BTreeSet::new(),
            exhaustive: false,
            defect: Defect::None,
            space: LogSpace::new(ring_blocks, anchor),
            contents: Contents::default(),
            epoch: 1,
            disk: vec![0; PAGES as usize * UNITS],
            volume: vec![Some(0); PAGES as usize * UNITS],
            snapshots: VecDeque::new(),
            destaging: Vec::new(),
            acknowledged: 0,
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
            let range = page as usize * UNITS..(page as usize + 1) * UNITS;
            let mut units = self.disk[range.clone()].to_vec();
            let mut covered = vec![false; UNITS];
            overlay(&mut units, &mut covered, &recovered.contents.frozen(Page(page)), images);
            let destaging = self.destaging.iter().find(|d| {
                let open = d.intent <= last && d.released.is_none_or(|commit| commit > last);
                open && d.pages.overlaps(Pages::new(Page(page), 1))
            });
            if let Some(d) = destaging {
                let from = (page - d.pages.first.0) as usize * UNITS;
                for (unit, new) in d.new[from..from + UNITS].iter().enumerate() {
                    if new.is_some_and(|new| !covered[unit] || units[unit] != new) {
                        return Err(format!("page {page}: what an open intent froze is gone"));
                    }
                }
            }
            overlay(&mut units, &mut covered, &recovered.contents.fragments(Page(page)), images);
            for (unit, expected) in at.volume[range].iter().enumerate() {
                if expected.is_some_and(|expected| expected != units[unit]) {
                    let found = units[unit];
                    return Err(format!("page {page} unit {unit}: {found}, not {expected:?}"));
                }
            }
        }
        if recovered.contents != at.contents || recovered.space.live_blocks() != at.live_blocks {
            return Err(format!("contents differ after commit {last}"));
        }
        Ok(recovered)
    }

    /// Appends a commit, with padding if need be; `false`: no room.
    pub fn append(&mut self, kind: Kind, batch: Batch, to: Purpose) -> Result<bool, String> {
        let blocks = commit::commit_blocks(&batch.records, BLOCK);
        let Some(place) = self.space.allocate(blocks, to) else { return Ok(false) };
        if let Some((block, sequence, blocks)) = place.padding {
            self.laps += 1;
            let kind = Kind::Pads { blocks: blocks as u32 - 1 };
            self.write_commit(kind, block, sequence, Batch::default())?;
        }
        self.write_commit(kind, place.block, place.sequence, batch)?;
        Ok(true)
    }

    fn write_commit(
        &mut self,
        kind: Kind,
        block: u64,
        sequence: u64,
        batch: Batch,
    ) -> Result<(), String> {
        let Batch { records, payloads, volume } = batch;
        let mut at = block + commit::descriptor_blocks(&records, BLOCK);
        for record in &records {
            let blocks = record.payload_blocks(BLOCK);
            let place = Place { sequence, block: at, blocks };
            let applied = self.contents.apply(record, place, &mut self.space);
            applied.map_err(|error| error.to_string())?;
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            self.types.insert(bytes[0]);
            at += blocks;
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
        let mut bytes = Vec::new();
        commit::encode(&header, &records, LOG, BLOCK, &mut bytes);
        payloads.iter().for_each(|payload| append_payload(payload, BLOCK, &mut bytes));
        self.snapshots.push_back(Snapshot {
            sequence,
            volume: self.volume.clone(),
            contents: self.contents.clone(),
            live_blocks: self.space.live_blocks(),
        });
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
        }
        Err("no room in the log".into())
    }

    fn anchor(&mut self, now: bool) -> Result<(), String> {
        let mut due = self.space.anchor_due(now);
        if self.defect == Defect::TailPassesEarly {
            let mut space = self.space.clone();
            space.made_durable(space.next_sequence() - 1);
            let durable_through = self.space.durable();
            due = space.anchor_due(now).map(|anchor| Anchor { durable_through, ..anchor });
        }
        let Some(anchor) = due else { return Ok(()) };
        if self.defect != Defect::ReusesBeforeAnchor {
            for at in ANCHORS {
                self.write_all(at, &anchor.encode(LOG))?;
                self.flush()?;
            }
        }
        self.space.anchored(anchor);
        Ok(())
    }

    /// Moves live records out of the oldest segments, and the tail.
    fn housekeeping(&mut self, waiting: u64) -> Result<(), String> {
        for _ in 0..32 {
            self.anchor(false)?;
            let Some(commits) = self.space.evacuate(waiting) else { return Ok(()) };
            let mut batch = Batch::default();
            for (mut record, stored) in self.contents.live_in(&commits) {
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
                if let Some(stored) = stored {
                    let at = RING + stored.block as usize * SECTOR;
                    let payload = self.devices[0].read(at, stored.blocks as usize * SECTOR);
                    batch.payloads.push(payload);
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

    /// Adds a write of whole units to a batch.
    pub fn write(&mut self, batch: &mut Batch, page: u64, unit: usize, units: usize) {
        self.stamp += 1;
        let payload = self.stamp.to_le_bytes().repeat(units * UNIT / 4);
        let version = self.next_version(batch);
        batch.records.push(Record::Data {
            page: Page(page),
            version,
            offset: (unit * UNIT) as u16,
            bytes: (units * UNIT) as u16,
            crc: payload_crc(&payload, BLOCK),
            origin: Origin::New,
        });
        batch.payloads.push(payload);
        let from = page as usize * UNITS + unit;
        self.fill(batch, from, units, Some(self.stamp));
    }

    pub fn zero_or_trim(&mut self, batch: &mut Batch, pages: Pages, zero: bool) {
        let version = self.next_version(batch);
        batch.records.push(match zero {
            true => Record::Zero { pages, version, origin: Origin::New },
            false => Record::Trim { pages, version },
        });
        let (from, units) = (pages.first.0 as usize * UNITS, pages.count as usize * UNITS);
        self.fill(batch, from, units, zero.then_some(0));
    }

    fn next_version(&self, batch: &Batch) -> u64 {
        let last = batch.records.iter().rev().find_map(Record::new_version);
        last.unwrap_or(self.contents.last_version()) + 1
    }

    fn fill(&self, batch: &mut Batch, from: usize, units: usize, value: Option<u32>) {
        let volume = batch.volume.get_or_insert_with(|| self.volume.clone());
        volume[from..from + units].fill(value);
    }

    /// Begins the destage of two pages, if the log holds something of them (D4).
    pub fn intend(&mut self, first: u64) -> Result<(), String> {
        let pages = Pages::new(Page(first), 2);
        let busy = self.destaging.iter().any(|d| d.released.is_none() && d.pages.overlaps(pages));
        let mut covered = [false; 2 * UNITS];
        for (index, page) in [first, first + 1].into_iter().enumerate() {
            for fragment in self.contents.fragments(Page(page)) {
                let from = index * UNITS + usize::from(fragment.offset) / UNIT;
                covered[from..from + usize::from(fragment.bytes) / UNIT].fill(true);
            }
        }
        if busy || !covered.contains(&true) {
            return Ok(());
        }
        let volume = &self.volume[first as usize * UNITS..];
        let new = covered.iter().zip(volume).map(|(c, value)| value.filter(|_| *c)).collect();
        let through = self.contents.last_version();
        let mut batch = Batch::default();
        batch.records.push(Record::Intent { pages, through, moved: false });
        for row in 0..self.random.below(3) as u32 {
            let p = [row + 1; 8];
            let q = (self.random.below(2) == 0).then_some([row + 2; 8]);
            batch.records.push(Record::Parity { first: Page(first), row, p, q, moved: false });
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
        let from = destaging.pages.first.0 as usize * UNITS;
        for (unit, new) in destaging.new.iter().enumerate() {
            self.disk[from + unit] = new.unwrap_or(self.disk[from + unit]);
        }
        self.crash_point()?;
        let Destaging { pages, through, .. } = destaging;
        let records = vec![Record::Release { pages, through }];
        // Known late: anything from the next commit on may hold the release.
        self.destaging[index].released = Some(self.space.next_sequence());
        self.host(Batch { records, ..Batch::default() })
    }

    /// Crashes for good, recovers, and continues from there in a new epoch (D7).
    pub fn reopen(&mut self) -> Result<(), String> {
        let images = self.crash_images();
        let recovered = self.check(&images)?;
        self.reopened += 1;
        let last = recovered.space.next_sequence() - 1;
        for (device, image) in self.devices.iter_mut().zip(&images) {
            (device.durable, device.cached) = (image.clone(), Vec::new());
        }
        if !recovered.repairs.is_empty() {
            self.repair(&recovered, &images);
        }
        self.snapshots.retain(|snapshot| snapshot.sequence == last);
        self.volume = self.snapshots[0].volume.clone();
        self.destaging.retain(|d| {
            let same = |open: &OpenIntent| open.pages == d.pages && open.through == d.through;
            recovered.contents.intents().any(same)
        });
        self.destaging.iter_mut().for_each(|d| d.released = None);
        self.contents = recovered.contents;
        self.space = recovered.space;
        self.acknowledged = last;
        let kind = if self.defect == Defect::KeepsEpoch {
            Kind::Plain
        } else {
            self.epoch = recovered.epoch + 1;
            Kind::Opens
        };
        if !self.append(kind, Batch::default(), Purpose::Housekeeping)? {
            return Err("no room to open an epoch".into());
        }
        self.flush()
    }

    /// Copies what one device lacks from the other, by payload.
    fn repair(&mut self, recovered: &Recovered, images: &[Vec<u8>]) {
        for repair in &recovered.repairs {
            let at = RING + repair.block as usize * SECTOR;
            let whole = |image: &&Vec<u8>| {
                let claim = commit::Claim::read(&image[at..], BLOCK);
                claim.filter(|claim| {
                    claim.header.block == repair.block
                        && claim.header.sequence == repair.sequence
                        && claim.holds(&image[at..], LOG, BLOCK)
                        && claim.blocks(BLOCK) == repair.blocks
                })
            };
            let (claim, source) = images
                .iter()
                .filter_map(|image| whole(&image).map(|claim| (claim, image)))
                .max_by_key(|(claim, _)| claim.header.epoch)
                .expect("a whole descriptor");
            let mut end = at + claim.descriptor_blocks(BLOCK) as usize * SECTOR;
            let target = &mut self.devices[repair.copy].durable;
            target[at..end].copy_from_slice(&source[at..end]);
            for record in claim.records(&source[at..], BLOCK).expect("records") {
                let Record::Data { crc, .. } = record else { continue };
                let payload = end..end + record.payload_blocks(BLOCK) as usize * SECTOR;
                let good = |image: &&Vec<u8>| payload_crc(&image[payload.clone()], BLOCK) == crc;
                let from = images.iter().find(good).expect("a whole payload");
                target[payload.clone()].copy_from_slice(&from[payload.clone()]);
                end = payload.end;
            }
        }
    }

    /// Whether only destages should continue.
    pub fn is_full(&self) -> bool {
        self.space.live_blocks() > self.ring_blocks / 4
    }

    /// One random step.
    pub fn step(&mut self) -> Result<(), String> {
        match self.random.below(if self.is_full() { 40 } else { 100 }) {
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
                    let (unit, units) = match self.random_below(3) {
                        0 => (0, UNITS),
                        _ => {
                            let unit = self.random_below(UNITS as u64);
                            let most = (UNITS as u64 - unit).min(10);
                            (unit as usize, 1 + self.random_below(most) as usize)
                        }
                    };
                    self.write(&mut batch, page, unit, units);
                }
                self.host(batch)
            }
        }
    }

    fn random_below(&mut self, below: u64) -> u64 {
        self.random.below(below)
    }
}
