//! Reads a log back: from the anchor along the commits to the end, as docs/nvs-format.md says
//! under "Reading the log". The caller reads what [`Recovery::want`] asks for and gives the
//! bytes; nothing is written here.

use crate::LogId;
use crate::anchor::Anchor;
use crate::commit::{BadRecord, Claim, Header, Kind};
use crate::contents::{Contents, HeldPage, OpenIntent, Stored};
use crate::crc::crc32c;
use crate::record::{Origin, Pages, Record, RecordError, VERSION_MAX};
use crate::slots::Slots;
use crate::space::LogSpace;
use crate::{EPOCHS_MAX, FOUND_MAX, HEADER_BYTES, RING_BLOCKS_MAX, RING_BLOCKS_MIN};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Ordering;
use destage_engine::units::Page;

/// Blocks looked through at once behind the end of the log.
const SEARCH_BLOCKS: u64 = 256;

/// Pages that a log may hold whatever its size. It never holds as many as four for each slot;
/// without a bound, a few records of zeros would take all memory.
const PAGES_ANYWAY: usize = 1 << 16;

/// Where the log is on its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// UUID of the log.
    pub log: LogId,
    /// Bytes in a block of the ring.
    pub block_bytes: u32,
    /// Blocks in the ring.
    pub ring_blocks: u64,
    /// Slots behind the ring.
    pub slots: u32,
    /// Devices that have it.
    pub copies: usize,
}

/// What is to be read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Of which NVS device, from 0.
    pub copy: usize,
    /// What of it.
    pub part: Part,
}

/// A part of an NVS device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Blocks of the ring, never past its end.
    Ring {
        /// The first.
        block: u64,
        /// How many.
        blocks: u64,
    },
    /// A slot.
    Slot(u32),
}

/// The log is damaged: not what a crash leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoverError {
    /// Where.
    pub block: u64,
    /// The sequence expected there.
    pub sequence: u64,
    /// What is wrong.
    pub damage: Damage,
}

/// What is wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The anchor points out of the ring: a program wrote it so.
    Anchor,
    /// A commit that was durable is not there or not complete.
    Missing(Witness),
    /// No device has the bytes of a page that the log names: the page.
    Slot(Page),
    /// A sequence, version, epoch or number of an anchor is so high that those behind it have no
    /// room.
    Numbers,
    /// It names a page that the array does not have.
    Pages(Page),
    /// It has a destage of this page that is not one of its write group.
    Destage(Page),
    /// No device can read what is here, so nobody knows whether commits end here.
    Unreadable,
    /// The devices have different commits of one epoch and sequence here: they were used apart.
    Diverged,
    /// A commit whose checksum holds has an invalid record: a newer or faulty program wrote it.
    Record {
        /// Its number in the commit.
        index: u32,
        /// Why.
        error: RecordError,
    },
}

/// What says that the missing commit was durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// The anchor.
    Anchor,
    /// A later commit.
    Commit {
        /// Where it is.
        block: u64,
        /// Its sequence.
        sequence: u64,
    },
}

impl core::fmt::Display for RecoverError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let RecoverError { block, sequence, damage } = self;
        write!(f, "the NVS log is damaged at block {block}, commit {sequence}: ")?;
        match damage {
            Damage::Anchor => write!(f, "the anchor names a place outside the ring"),
            Damage::Missing(Witness::Anchor) => {
                write!(f, "the commit is not complete, and the anchor says that it was durable")
            }
            Damage::Missing(Witness::Commit { block, sequence }) => write!(
                f,
                "the commit is not complete, and commit {sequence} at block {block} says that it \
                 was durable"
            ),
            Damage::Unreadable => write!(
                f,
                "it cannot be read (a read error does not end the log), so acknowledged writes \
                 may be behind it"
            ),
            Damage::Diverged => write!(
                f,
                "the two NVS devices have different commits here: they were used apart from each \
                 other"
            ),
            Damage::Slot(page) => {
                write!(f, "no NVS device has the bytes of page {}, which is dirty", page.0)
            }
            Damage::Numbers => write!(f, "its numbers are higher than any array reaches"),
            Damage::Pages(page) => {
                write!(f, "it names page {}, which is behind the end of the array", page.0)
            }
            Damage::Destage(page) => {
                write!(f, "it has a destage of page {} that is not of one write group", page.0)
            }
            Damage::Record { index, error } => write!(f, "record {index}: {error}"),
        }
    }
}

impl core::error::Error for RecoverError {}

/// What one NVS device lacks of a commit, and another has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The device that lacks it.
    pub copy: usize,
    /// The one that has it.
    pub from: usize,
    /// What.
    pub part: Part,
}

/// What a log held. Before anything else the driver carries out the repairs, flushes the devices,
/// and makes the opening commit of the next epoch durable (D7): `space` takes what was read as
/// durable. The slots of `contents` are still to be read: those of confirmed commits were not.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Pages, open intents and parity checksums.
    pub contents: Contents,
    /// The device's space; its head is where the next commit goes.
    pub space: LogSpace,
    /// Epoch of the last commit: the next start has one more.
    pub epoch: u32,
    /// Commits accepted.
    pub commits: u64,
    /// Blocks behind the end that have the header of a commit which was not finished.
    pub dropped: Vec<u64>,
    /// Whether the last commit opened an epoch and has no records, not even skipped ones.
    pub ends_with_opening: bool,
    /// Blocks behind the end that a device could not read.
    pub unreadable: Vec<u64>,
    /// What is to be copied from one device to another.
    pub repairs: Vec<Repair>,
    /// A loss was accepted: there may have been more.
    pub cut: bool,
}

impl Recovered {
    /// Blocks that are to be overwritten before [`Recovered::make_room`]: those that cannot be
    /// read, since the log may end before one of them at a later start; and what may say that a
    /// commit was durable which `make_room` takes back.
    pub fn to_overwrite(&self) -> impl Iterator<Item = u64> + '_ {
        let dropped = self.dropped.iter().filter(|_| self.ends_with_opening);
        dropped.chain(&self.unreadable).copied()
    }

    /// Frees what the log can do without, before a start appends to it; all that was found must be
    /// durable, and [`Recovered::to_overwrite`] overwritten. If [`LogSpace::anchor`] is another one
    /// then, it is to be written before anything is appended. So starts that end before anything
    /// else is durable never fill the ring.
    pub fn make_room(&mut self) {
        let taken_back = self.ends_with_opening && self.space.take_back();
        match self.space.anchor_due(true, None) {
            Some(anchor) => self.space.anchored(anchor),
            // If the commit that takes its place is torn, all before it must still count.
            None if taken_back => self.space.restated(),
            None => {}
        }
    }

    /// Refuses a log that cannot be continued, or that names what its array does not have: pages
    /// behind its last, or a destage of anything but one write group. The caller knows the array.
    ///
    /// # Errors
    /// [`Damage::Numbers`], [`Damage::Pages`] or [`Damage::Destage`]: a program wrote it so.
    pub fn check(&self, array_pages: u64, group_pages: u64) -> Result<(), RecoverError> {
        let contents = &self.contents;
        let mut held = contents.pages().chain(contents.frozen_pages()).map(|(page, _)| page);
        let room = self.space.next_sequence().max(self.space.anchor().number) < FOUND_MAX
            && contents.last_version() < VERSION_MAX / 2
            && self.epoch < EPOCHS_MAX;
        let numbers = (!room).then_some(Damage::Numbers);
        let beyond = held.find(|page| page.0 >= array_pages).map(Damage::Pages);
        let group = |intent: &OpenIntent| {
            let OpenIntent { pages, .. } = intent;
            pages.end() <= array_pages
                && u64::from(pages.count) == group_pages
                && pages.first.0.is_multiple_of(group_pages)
        };
        let mut intents = contents.intents();
        let no_group = intents.find(|intent| !group(intent)).map(|intent| intent.pages.first);
        let froze = |(page, held): &(Page, HeldPage)| match contents.intent_of(*page) {
            Some(intent) => held.version <= intent.through,
            // It may have been moved to a place behind the end.
            None => self.cut,
        };
        let stray = contents.frozen_pages().find(|frozen| !froze(frozen)).map(|(page, _)| page);
        match numbers.or(beyond).or(no_group.or(stray).map(Damage::Destage)) {
            None => Ok(()),
            Some(damage) => {
                let (block, sequence) = (self.space.head(), self.space.next_sequence());
                Err(RecoverError { block, sequence, damage })
            }
        }
    }

    /// The intents that a log which was cut lacks, to be appended behind the opening commit: those
    /// of destages that froze pages or logged parity here. What they froze is destaged as they
    /// would have done it.
    #[must_use]
    pub fn lacking_intents(&self, array_pages: u64, group_pages: u64) -> Vec<Record> {
        let mut groups = BTreeMap::new();
        for record in self.contents.live_in(&(0..u64::MAX)) {
            let (pages, version) = match record {
                Record::Data { page, version, origin: Origin::Frozen, .. } => {
                    (Pages::new(page, 1), version)
                }
                // Two pages may be of two groups.
                Record::Zero { pages, version, origin: Origin::Frozen } => (pages, version),
                Record::Parity { first, .. } if first.0 < array_pages => (Pages::new(first, 1), 0),
                _ => continue,
            };
            let lacks = |page: &u64| self.contents.intent_of(Page(*page)).is_none();
            for page in (pages.first.0..pages.end()).filter(lacks) {
                let through: &mut u64 = groups.entry(page / group_pages).or_default();
                *through = version.max(*through);
            }
        }
        let pages = |group| Pages::new(Page(group * group_pages), group_pages as u32);
        let intents = groups.into_iter().map(|(group, through)| (pages(group), through));
        intents.map(|(pages, through)| Record::Intent { pages, through, moved: false }).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The first block of the expected commit.
    Header,
    /// All of it.
    Commit(Claim),
    /// A slot of the first commit in doubt: that of its page with this number.
    Slot(usize),
    /// What is behind the end; `offset` blocks were looked through. The next `singly` blocks are
    /// read one by one.
    Search {
        offset: u64,
        singly: u64,
    },
    /// A commit found there that the chunk did not hold completely.
    Candidate {
        claim: Claim,
        block: u64,
        offset: u64,
    },
    Done,
}

/// What the devices have of the place that is looked at.
#[derive(Default)]
struct Found {
    commit: Option<(Claim, Vec<Record>)>,
    /// The first device that has it intact.
    intact: Option<usize>,
    bad_copies: Vec<usize>,
    /// Devices that could read what was asked for.
    readable: usize,
}

/// A commit that follows, and is not applied yet.
struct Follower {
    claim: Claim,
    records: Vec<Record>,
    repairs: Vec<Repair>,
}

impl Follower {
    /// The slots that must hold what its records say.
    fn slots(&self) -> impl Iterator<Item = Stored> + '_ {
        self.records.iter().filter_map(|record| match *record {
            Record::Data { slot, crc, .. } => Some(Stored { slot, crc }),
            _ => None,
        })
    }
}

/// Recovery in progress.
pub struct Recovery {
    layout: Layout,
    copy: usize,
    state: State,
    found: Found,
    /// Commits that follow, from the first that is not confirmed.
    followers: VecDeque<Follower>,
    /// All commits up to this one were durable.
    confirmed: u64,
    /// Where the next commit is expected, behind the followers: block, sequence, epoch, and the
    /// blocks from the tail to there.
    head: u64,
    sequence: u64,
    epoch: u32,
    used: u64,
    recovered: Recovered,
    /// For tests of tests: what cannot be read counts as not written.
    pub errors_end_the_log: bool,
    /// For tests of tests: commits in doubt count as complete.
    pub trusts_slots: bool,
    /// For tests of tests: the checksums of commits are not looked at.
    pub trusts_commits: bool,
    /// An operator accepts the loss: the log ends where it cannot be read or is damaged, and what
    /// is behind that is not looked for.
    pub takes_what_is_left: bool,
}

impl Recovery {
    /// The recovery of a log.
    ///
    /// # Errors
    /// An anchor that points out of the ring.
    pub fn new(layout: Layout, anchor: Anchor) -> Result<Recovery, RecoverError> {
        let ring = (RING_BLOCKS_MIN..=RING_BLOCKS_MAX).contains(&layout.ring_blocks);
        if !ring || anchor.tail_block >= layout.ring_blocks || anchor.tail_sequence == 0 {
            let Anchor { tail_block: block, tail_sequence: sequence, .. } = anchor;
            return Err(RecoverError { block, sequence, damage: Damage::Anchor });
        }
        let recovered = Recovered {
            contents: Contents::default(),
            space: LogSpace::new(layout.ring_blocks, layout.block_bytes, anchor),
            epoch: 0,
            commits: 0,
            dropped: Vec::new(),
            ends_with_opening: false,
            unreadable: Vec::new(),
            repairs: Vec::new(),
            cut: false,
        };
        Ok(Recovery {
            layout,
            copy: 0,
            state: State::Header,
            found: Found::default(),
            followers: VecDeque::new(),
            confirmed: anchor.durable_through,
            head: anchor.tail_block,
            sequence: anchor.tail_sequence,
            epoch: 0,
            used: 0,
            recovered,
            errors_end_the_log: false,
            trusts_slots: false,
            trusts_commits: false,
            takes_what_is_left: false,
        })
    }

    /// What to read next; `None` when done.
    #[must_use]
    pub fn want(&self) -> Option<Want> {
        let copy = self.copy;
        let block_bytes = self.layout.block_bytes;
        let ring = |block, blocks| Some(Want { copy, part: Part::Ring { block, blocks } });
        match self.state {
            State::Header => ring(self.head, 1),
            State::Commit(claim) => ring(self.head, claim.own_blocks(block_bytes)),
            State::Slot(index) => {
                let slot = self.followers.front()?.slots().nth(index)?.slot;
                Some(Want { copy, part: Part::Slot(slot) })
            }
            State::Search { offset, singly } => {
                let block = (self.head + offset) % self.layout.ring_blocks;
                let rest = self.recovered.space.free_blocks() - offset;
                let most = if singly > 0 { 1 } else { SEARCH_BLOCKS };
                ring(block, most.min(rest).min(self.layout.ring_blocks - block))
            }
            State::Candidate { claim, block, .. } => ring(block, claim.own_blocks(block_bytes)),
            State::Done => None,
        }
    }

    /// The bytes wanted; `None` if the device could not read them.
    ///
    /// # Errors
    /// The log is damaged.
    pub fn give(&mut self, bytes: Option<&[u8]>) -> Result<(), RecoverError> {
        match self.state {
            State::Header => {
                self.found.readable += usize::from(bytes.is_some());
                match bytes.and_then(Claim::read).filter(|claim| self.may_follow(claim)) {
                    Some(claim) if claim.own_blocks(self.layout.block_bytes) > 1 => {
                        self.state = State::Commit(claim);
                        Ok(())
                    }
                    Some(claim) => self.commit(claim, bytes),
                    None => self.next_copy(false),
                }
            }
            State::Commit(claim) => {
                // The header could be read; perhaps the rest could not.
                self.found.readable -= usize::from(bytes.is_none());
                self.commit(claim, bytes)
            }
            State::Slot(index) => self.slot(index, bytes),
            State::Search { offset, .. } => {
                let blocks = match self.want() {
                    Some(Want { part: Part::Ring { blocks, .. }, .. }) => blocks,
                    _ => 0,
                };
                match bytes {
                    Some(bytes) => self.search(bytes, offset, blocks),
                    // Block by block: one that cannot be read hides no other.
                    None if blocks > 1 => {
                        self.state = State::Search { offset, singly: blocks };
                        Ok(())
                    }
                    None => {
                        let ring = self.layout.ring_blocks;
                        self.recovered.unreadable.push((self.head + offset) % ring);
                        self.search_on(offset + blocks);
                        Ok(())
                    }
                }
            }
            State::Candidate { claim, block, offset } => {
                let Layout { log, block_bytes, .. } = self.layout;
                if bytes.is_some_and(|bytes| claim.holds(bytes, log, block_bytes)) {
                    return Err(self.witnessed(&claim, block));
                }
                self.search_on(offset);
                Ok(())
            }
            State::Done => panic!("recovery is done and wants nothing"),
        }
    }

    /// What the log held.
    ///
    /// # Panics
    /// If something is still wanted.
    #[must_use]
    pub fn finish(self) -> Recovered {
        assert!(matches!(self.state, State::Done), "recovery is not done");
        self.recovered
    }

    fn may_follow(&self, claim: &Claim) -> bool {
        let header = &claim.header;
        let first = self.recovered.commits == 0 && self.followers.is_empty();
        let epoch = match header.kind {
            _ if first => header.epoch > 0,
            Kind::Opens => header.epoch > self.epoch,
            _ => header.epoch == self.epoch,
        };
        let blocks = claim.blocks(self.layout.block_bytes);
        let rest = self.layout.ring_blocks - self.head;
        let fits = blocks <= rest && self.used + blocks < self.layout.ring_blocks;
        let padded = !matches!(header.kind, Kind::Pads { .. }) || blocks == rest;
        let here = header.block == self.head && header.sequence == self.sequence;
        here && epoch && fits && padded
    }

    /// Checks the expected commit as this device has it.
    fn commit(&mut self, claim: Claim, bytes: Option<&[u8]>) -> Result<(), RecoverError> {
        let Layout { log, block_bytes, .. } = self.layout;
        let trusts = cfg!(feature = "defects") && self.trusts_commits;
        let intact = bytes.filter(|bytes| {
            let holds = trusts || claim.holds(bytes, log, block_bytes);
            Claim::read(bytes) == Some(claim) && holds
        });
        let Some(bytes) = intact else { return self.next_copy(false) };
        let epoch = claim.header.epoch;
        let found = self.found.commit.as_ref();
        match found.map(|(found, _)| (*found == claim, found.header.epoch.cmp(&epoch))) {
            Some((true, _)) => {}
            Some((_, Ordering::Equal)) => return Err(self.error(Damage::Diverged)),
            Some((_, Ordering::Greater)) => return self.next_copy(false),
            // Devices read before have an older commit here, or none that is intact.
            Some((_, Ordering::Less)) | None => {
                self.found.bad_copies = (0..self.copy).collect();
                self.found.intact = Some(self.copy);
                let records = claim.records(bytes);
                let records = records.and_then(|records| self.slots_are_there(records));
                let records = records
                    .map_err(|(index, error)| self.error(Damage::Record { index, error }))?;
                self.found.commit = Some((claim, records));
            }
        }
        self.next_copy(true)
    }

    /// The records of a commit, unless one names a slot that the device does not have: nobody must
    /// read there.
    fn slots_are_there(&self, records: Vec<Record>) -> Result<Vec<Record>, BadRecord> {
        let beyond = |record: &Record| match record {
            Record::Data { slot, .. } => *slot >= self.layout.slots,
            _ => false,
        };
        match records.iter().position(beyond) {
            Some(index) => Err((index as u32, RecordError::Slot)),
            None => Ok(records),
        }
    }

    /// Looks at the next device, or decides on the commit.
    fn next_copy(&mut self, intact: bool) -> Result<(), RecoverError> {
        self.state = State::Header;
        if self.more_copies(intact) {
            return Ok(());
        }
        let found = core::mem::take(&mut self.found);
        match found.commit {
            Some((claim, records)) => {
                let part = Part::Ring {
                    block: self.head,
                    blocks: claim.own_blocks(self.layout.block_bytes),
                };
                let repairs = repairs(&found.bad_copies, found.intact, part);
                self.follow(claim, records, repairs)
            }
            None => self.chain_ends(found.readable == 0),
        }
    }

    /// Whether another device is to be asked for the same.
    fn more_copies(&mut self, intact: bool) -> bool {
        if !intact {
            self.found.bad_copies.push(self.copy);
        }
        self.copy += 1;
        if self.copy < self.layout.copies {
            return true;
        }
        self.copy = 0;
        false
    }

    fn follow(
        &mut self,
        claim: Claim,
        records: Vec<Record>,
        repairs: Vec<Repair>,
    ) -> Result<(), RecoverError> {
        let header = &claim.header;
        let blocks = claim.blocks(self.layout.block_bytes);
        self.confirmed = self.confirmed.max(header.durable_through);
        self.head = (self.head + blocks) % self.layout.ring_blocks;
        (self.sequence, self.epoch) = (header.sequence + 1, header.epoch);
        self.used += blocks;
        self.followers.push_back(Follower { claim, records, repairs });
        while self.front_is_confirmed() {
            self.accept()?;
        }
        Ok(())
    }

    fn front_is_confirmed(&self) -> bool {
        let confirmed = |front: &Follower| front.claim.header.sequence <= self.confirmed;
        self.followers.front().is_some_and(confirmed)
    }

    /// No commit follows. Those in doubt are looked at in their order; then, what is behind.
    fn chain_ends(&mut self, unreadable: bool) -> Result<(), RecoverError> {
        if unreadable && !self.passes_over_errors() {
            // What cannot be read may confirm those in doubt, whose slots may have been written
            // again: their slots say nothing then. And a read error is not a torn write (D9).
            return Err(self.error(Damage::Unreadable));
        }
        self.next_in_doubt()
    }

    fn next_in_doubt(&mut self) -> Result<(), RecoverError> {
        while let Some(front) = self.followers.front() {
            let trusts = cfg!(feature = "defects") && self.trusts_slots;
            if front.slots().next().is_some() && !trusts {
                self.state = State::Slot(0);
                return Ok(());
            }
            self.accept()?;
        }
        self.end()
    }

    /// Checks a slot of the first commit in doubt as this device has it.
    fn slot(&mut self, index: usize, bytes: Option<&[u8]>) -> Result<(), RecoverError> {
        let Some(front) = self.followers.front() else { unreachable!("a slot was wanted") };
        let Some(stored) = front.slots().nth(index) else { unreachable!("a slot was wanted") };
        self.found.readable += usize::from(bytes.is_some());
        let intact = bytes.is_some_and(|bytes| crc32c(bytes) == stored.crc);
        if intact {
            self.found.intact.get_or_insert(self.copy);
        }
        if self.more_copies(intact) {
            return Ok(());
        }
        let found = core::mem::take(&mut self.found);
        let part = Part::Slot(stored.slot);
        if found.intact.is_some() {
            let more = repairs(&found.bad_copies, found.intact, part);
            let Some(front) = self.followers.front_mut() else { unreachable!("looked at") };
            front.repairs.extend(more);
            if front.slots().nth(index + 1).is_some() {
                self.state = State::Slot(index + 1);
                return Ok(());
            }
            self.accept()?;
            return self.next_in_doubt();
        }
        // The commit is not complete: the log ends before it.
        let header = front_header(&self.followers);
        (self.head, self.sequence) = (header.block, header.sequence);
        self.followers.clear();
        if found.readable == 0 && !self.passes_over_errors() {
            // Whether its slot was written is not known.
            return Err(self.error(Damage::Unreadable));
        }
        self.end()
    }

    /// Whether the log ends at what cannot be read.
    fn passes_over_errors(&self) -> bool {
        let defect = cfg!(feature = "defects") && self.errors_end_the_log;
        self.takes_what_is_left || defect
    }

    /// Applies the first follower.
    fn accept(&mut self) -> Result<(), RecoverError> {
        let Some(Follower { claim, records, repairs }) = self.followers.pop_front() else {
            return Ok(());
        };
        let header = &claim.header;
        let (block, sequence) = (header.block, header.sequence);
        let error = |index, error| RecoverError {
            block,
            sequence,
            damage: Damage::Record { index, error },
        };
        let Recovered { contents, space, .. } = &mut self.recovered;
        let fits = space.replay(claim.blocks(self.layout.block_bytes));
        assert!(fits, "may_follow looked whether it fits");
        let most = PAGES_ANYWAY.max(4 * self.layout.slots as usize);
        for (index, record) in records.iter().enumerate() {
            let more =
                if let Record::Zero { pages, .. } = record { pages.count as usize } else { 1 };
            if contents.pages_held() + contents.pages_frozen() + more > most {
                return Err(error(index as u32, RecordError::Pages));
            }
            if record.version().is_some_and(|version| version > header.last_version) {
                return Err(error(index as u32, RecordError::Version));
            }
            contents.apply(record, sequence, space).map_err(|e| error(index as u32, e))?;
        }
        if header.last_version < contents.last_version() {
            return Err(error(records.len() as u32, RecordError::Version));
        }
        contents.raise_version(header.last_version);
        space.made_durable(sequence);
        self.recovered.epoch = header.epoch;
        self.recovered.ends_with_opening =
            header.kind == Kind::Opens && claim.bytes as usize == HEADER_BYTES;
        self.recovered.commits += 1;
        self.recovered.repairs.extend(repairs);
        Ok(())
    }

    /// No commit follows: was one lost that had been durable?
    fn end(&mut self) -> Result<(), RecoverError> {
        let Recovered { contents, space, .. } = &mut self.recovered;
        let mut slots = Slots::new(self.layout.slots);
        let held = contents.pages().chain(contents.frozen_pages());
        let twice =
            held.filter_map(|(_, held)| held.stored).any(|stored| !slots.found(stored.slot));
        space.slots = slots;
        if twice {
            let (index, error) = (0, RecordError::Slot);
            return Err(self.error(Damage::Record { index, error }));
        }
        if self.takes_what_is_left {
            self.recovered.cut = true;
            self.state = State::Done;
            return Ok(());
        }
        if self.confirmed >= self.sequence || self.recovered.commits == 0 {
            return Err(self.error(Damage::Missing(Witness::Anchor)));
        }
        self.state = State::Search { offset: 0, singly: 0 };
        Ok(())
    }

    fn search(&mut self, bytes: &[u8], offset: u64, blocks: u64) -> Result<(), RecoverError> {
        let expected = self.sequence;
        let Layout { log, block_bytes, ring_blocks, .. } = self.layout;
        let first = (self.head + offset) % ring_blocks;
        for index in 0..blocks {
            let from = (index * u64::from(block_bytes)) as usize;
            let block = first + index;
            let Some(claim) = Claim::read(&bytes[from..]) else { continue };
            let header = &claim.header;
            let ours = header.block == block && header.epoch >= self.recovered.epoch;
            if !ours || header.sequence < expected {
                continue;
            }
            self.recovered.dropped.push(block);
            let own = claim.own_blocks(block_bytes);
            // An epoch has other commits only when its opening is durable.
            let opened = header.epoch > self.recovered.epoch && header.kind != Kind::Opens;
            let witness = header.durable_through >= expected || opened;
            if !witness || block + own > ring_blocks {
                continue;
            }
            if index + own > blocks {
                let offset = offset + index + 1;
                self.state = State::Candidate { claim, block, offset };
                return Ok(());
            }
            if claim.holds(&bytes[from..], log, block_bytes) {
                return Err(self.witnessed(&claim, block));
            }
        }
        self.search_on(offset + blocks);
        Ok(())
    }

    fn search_on(&mut self, offset: u64) {
        let singly = match self.state {
            State::Search { offset: from, singly } => singly.saturating_sub(offset - from),
            _ => 0,
        };
        self.state = State::Search { offset, singly };
        if offset >= self.recovered.space.free_blocks() {
            self.copy += 1;
            self.state = State::Search { offset: 0, singly: 0 };
            if self.copy == self.layout.copies {
                self.state = State::Done;
            }
        }
    }

    fn witnessed(&self, claim: &Claim, block: u64) -> RecoverError {
        let sequence = claim.header.sequence;
        self.error(Damage::Missing(Witness::Commit { block, sequence }))
    }

    fn error(&self, damage: Damage) -> RecoverError {
        RecoverError { block: self.head, sequence: self.sequence, damage }
    }
}

fn front_header(followers: &VecDeque<Follower>) -> Header {
    followers.front().map(|front| front.claim.header).unwrap_or_else(|| unreachable!("looked at"))
}

fn repairs(bad_copies: &[usize], from: Option<usize>, part: Part) -> Vec<Repair> {
    let repair = |from| bad_copies.iter().map(move |&copy| Repair { copy, from, part });
    from.into_iter().flat_map(repair).collect()
}
