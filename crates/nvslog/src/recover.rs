//! Reads a log back: from the anchor along the commits to the end, as docs/nvs-format.md says
//! under "Reading the log". The caller reads what [`Recovery::want`] asks for and gives the
//! bytes; nothing is written here.

use crate::LogId;
use crate::anchor::Anchor;
use crate::commit::{Claim, Kind};
use crate::contents::{Contents, Place};
use crate::crc::crc32c;
use crate::record::{Record, RecordError};
use crate::space::LogSpace;
use crate::{RING_BLOCKS_MAX, RING_BLOCKS_MIN};
use alloc::vec;
use alloc::vec::Vec;

/// Blocks looked through at once behind the end of the log.
const SEARCH_BLOCKS: u64 = 256;

/// What is to be read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Of which NVS device, from 0.
    pub copy: usize,
    /// First block in the ring.
    pub block: u64,
    /// Blocks, never past the ring's end.
    pub blocks: u64,
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
    /// A commit that was durable is not there or not whole.
    Missing(Witness),
    /// No device can read what is here, so nobody knows whether commits end here.
    Unreadable,
    /// The devices have different commits of one epoch and sequence here: they were used apart.
    Diverged,
    /// A record is invalid, though the checksums match: a newer program or a wrong one wrote it.
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
                write!(f, "the commit is not whole, and the anchor says that it was durable")
            }
            Damage::Missing(Witness::Commit { block, sequence }) => write!(
                f,
                "the commit is not whole, and commit {sequence} at block {block} says that it was \
                 durable"
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
            Damage::Record { index, error } => write!(f, "record {index}: {error}"),
        }
    }
}

impl core::error::Error for RecoverError {}

/// A commit that one NVS device lacks, in part at least: its descriptor and each payload are
/// copied from whichever device has them whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The device that lacks it.
    pub copy: usize,
    /// Its sequence.
    pub sequence: u64,
    /// Its first block.
    pub block: u64,
    /// Its blocks.
    pub blocks: u64,
}

/// What a log held. Before anything else the driver carries out the repairs, flushes the devices,
/// and makes the opening commit of the next epoch durable (D7): `space` takes what was read as
/// durable.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Pages, open intents and parity checksums.
    pub contents: Contents,
    /// The ring's space; its head is where the next commit goes.
    pub space: LogSpace,
    /// Epoch of the last commit: the next start has one more.
    pub epoch: u32,
    /// Commits accepted.
    pub commits: u64,
    /// Headers seen behind the end that an unfinished commit left.
    pub dropped: u64,
    /// Blocks behind the end that a device could not read.
    pub unreadable: u64,
    /// Commits to be copied from one device to the other.
    pub repairs: Vec<Repair>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The first block of the expected commit.
    Header,
    /// All of it.
    Commit(Claim),
    /// What is behind the end; `offset` blocks were looked through. The next `singly` blocks are
    /// read one by one.
    Search {
        offset: u64,
        singly: u64,
    },
    /// A descriptor found there that the chunk did not hold whole.
    Candidate {
        claim: Claim,
        block: u64,
        offset: u64,
    },
    Done,
}

/// The expected commit, as far as it is known.
#[derive(Default)]
struct Found {
    commit: Option<(Claim, Vec<Record>)>,
    /// By record: whether its payload was intact on some device.
    whole: Vec<bool>,
    bad_copies: Vec<usize>,
    /// Devices that could read what was asked for.
    readable: usize,
}

/// A recovery in progress.
pub struct Recovery {
    log: LogId,
    block_bytes: u32,
    ring_blocks: u64,
    copies: usize,
    copy: usize,
    state: State,
    found: Found,
    used: u64,
    recovered: Recovered,
    /// For tests of tests: what cannot be read counts as not written.
    pub errors_end_the_log: bool,
    /// An operator accepts the loss: the log ends where it cannot be read or is damaged, and what
    /// is behind that is not looked for.
    pub takes_what_is_left: bool,
}

impl Recovery {
    /// The recovery of a log of `ring_blocks` blocks on `copies` devices.
    ///
    /// # Errors
    /// An anchor that points out of the ring.
    pub fn new(
        log: LogId,
        block_bytes: u32,
        ring_blocks: u64,
        copies: usize,
        anchor: Anchor,
    ) -> Result<Recovery, RecoverError> {
        let ring = (RING_BLOCKS_MIN..=RING_BLOCKS_MAX).contains(&ring_blocks);
        if !ring || anchor.tail_block >= ring_blocks || anchor.tail_sequence == 0 {
            let Anchor { tail_block: block, tail_sequence: sequence, .. } = anchor;
            return Err(RecoverError { block, sequence, damage: Damage::Anchor });
        }
        let recovered = Recovered {
            contents: Contents::default(),
            space: LogSpace::new(ring_blocks, anchor),
            epoch: 0,
            commits: 0,
            dropped: 0,
            unreadable: 0,
            repairs: Vec::new(),
        };
        let (state, found) = (State::Header, Found::default());
        let (copy, used) = (0, 0);
        let errors_end_the_log = false;
        Ok(Recovery {
            log,
            block_bytes,
            ring_blocks,
            copies,
            copy,
            state,
            found,
            used,
            recovered,
            errors_end_the_log,
            takes_what_is_left: false,
        })
    }

    /// What to read next; `None` when done.
    #[must_use]
    pub fn want(&self) -> Option<Want> {
        let copy = self.copy;
        let head = self.recovered.space.head();
        let want = |block, blocks| Some(Want { copy, block, blocks });
        match self.state {
            State::Header => want(head, 1),
            State::Commit(claim) => want(head, claim.read_blocks(self.block_bytes)),
            State::Search { offset, singly } => {
                let block = (head + offset) % self.ring_blocks;
                let rest = self.recovered.space.free_blocks() - offset;
                let most = if singly > 0 { 1 } else { SEARCH_BLOCKS };
                want(block, most.min(rest).min(self.ring_blocks - block))
            }
            State::Candidate { claim, block, .. } => {
                want(block, claim.descriptor_blocks(self.block_bytes))
            }
            State::Done => None,
        }
    }

    /// The bytes wanted; `None` if the device could not read them.
    ///
    /// # Errors
    /// The log is damaged.
    pub fn give(&mut self, bytes: Option<&[u8]>) -> Result<(), RecoverError> {
        self.found.readable += usize::from(self.looks_at_commit() && bytes.is_some());
        match (self.state, bytes) {
            (State::Header, Some(bytes)) => match Claim::read(bytes, self.block_bytes) {
                Some(claim) if self.may_follow(&claim) => {
                    self.state = State::Commit(claim);
                    if claim.read_blocks(self.block_bytes) > 1 {
                        Ok(())
                    } else {
                        self.commit(bytes)
                    }
                }
                _ => self.next_copy(true),
            },
            (State::Commit(_), Some(bytes)) => self.commit(bytes),
            (State::Header, None) => self.next_copy(true),
            (State::Commit(_), None) => {
                // The header could be read; the rest could not.
                self.found.readable -= 1;
                self.next_copy(true)
            }
            (State::Search { offset, .. }, bytes) => {
                let blocks = self.want().map_or(0, |want| want.blocks);
                match bytes {
                    Some(bytes) => self.search(bytes, offset, blocks),
                    // Block by block: one that cannot be read hides no other.
                    None if blocks > 1 => {
                        self.state = State::Search { offset, singly: blocks };
                        Ok(())
                    }
                    None => {
                        self.recovered.unreadable += 1;
                        self.search_on(offset + blocks);
                        Ok(())
                    }
                }
            }
            (State::Candidate { claim, block, offset }, bytes) => {
                if bytes.is_some_and(|bytes| claim.holds(bytes, self.log, self.block_bytes)) {
                    return Err(self.witnessed(&claim, block));
                }
                self.search_on(offset);
                Ok(())
            }
            (State::Done, _) => panic!("recovery is done and wants nothing"),
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

    fn looks_at_commit(&self) -> bool {
        matches!(self.state, State::Header)
    }

    fn may_follow(&self, claim: &Claim) -> bool {
        let space = &self.recovered.space;
        let header = &claim.header;
        let first = self.recovered.commits == 0;
        let epoch = match header.kind {
            _ if first => header.epoch > 0,
            Kind::Opens => header.epoch > self.recovered.epoch,
            _ => header.epoch == self.recovered.epoch,
        };
        let blocks = claim.blocks(self.block_bytes);
        let fits = blocks <= space.contiguous_blocks() && self.used + blocks < self.ring_blocks;
        let padded =
            !matches!(header.kind, Kind::Pads { .. }) || blocks == space.contiguous_blocks();
        let here = header.block == space.head() && header.sequence == space.next_sequence();
        here && epoch && fits && padded
    }

    /// Checks the expected commit as this device has it.
    fn commit(&mut self, bytes: &[u8]) -> Result<(), RecoverError> {
        let State::Commit(claim) = self.state else { unreachable!("a commit was wanted") };
        let again = Claim::read(bytes, self.block_bytes);
        if again != Some(claim) || !claim.holds(bytes, self.log, self.block_bytes) {
            return self.next_copy(true);
        }
        let newer = |(found, _): &(Claim, Vec<Record>)| claim.header.epoch > found.header.epoch;
        match &self.found.commit {
            Some(found) if found.0 != claim && found.0.header.epoch == claim.header.epoch => {
                return Err(self.error(Damage::Diverged));
            }
            Some(found) if found.0 != claim && !newer(found) => return self.next_copy(true),
            Some(found) if found.0 == claim => {}
            _ => {
                // Devices read before have an older commit here, or no intact one.
                self.found.bad_copies = (0..self.copy).collect();
                let records = claim
                    .records(bytes, self.block_bytes)
                    .map_err(|(index, error)| self.error(Damage::Record { index, error }))?;
                self.found.whole = vec![false; records.len()];
                self.found.commit = Some((claim, records));
            }
        }
        let Found { commit: Some((_, records)), whole, .. } = &mut self.found else {
            unreachable!("just found")
        };
        let block_bytes = u64::from(self.block_bytes);
        let mut at = claim.descriptor_blocks(self.block_bytes) * block_bytes;
        let mut bad = false;
        for (record, whole) in records.iter().zip(whole) {
            let Record::Data { crc, .. } = record else {
                *whole = true;
                continue;
            };
            let end = at + record.payload_blocks(self.block_bytes) * block_bytes;
            let here = crc32c(&bytes[at as usize..end as usize]) == *crc;
            *whole |= here;
            bad |= !here;
            at = end;
        }
        self.next_copy(bad)
    }

    /// Continues with the next device, or decides on the commit.
    fn next_copy(&mut self, bad: bool) -> Result<(), RecoverError> {
        if bad {
            self.found.bad_copies.push(self.copy);
        }
        self.copy += 1;
        self.state = State::Header;
        if self.copy < self.copies {
            return Ok(());
        }
        self.copy = 0;
        let found = core::mem::take(&mut self.found);
        match found.commit {
            Some((claim, records)) if found.whole.iter().all(|whole| *whole) => {
                self.accept(&claim, &records, &found.bad_copies)
            }
            _ if self.takes_what_is_left => {
                self.state = State::Done;
                Ok(())
            }
            // A read error is not a torn write: whether a commit was here is not known (D9).
            _ if found.readable == 0 && !(cfg!(feature = "defects") && self.errors_end_the_log) => {
                Err(self.error(Damage::Unreadable))
            }
            _ => self.end(),
        }
    }

    fn accept(
        &mut self,
        claim: &Claim,
        records: &[Record],
        bad_copies: &[usize],
    ) -> Result<(), RecoverError> {
        let block = self.recovered.space.head();
        let blocks = claim.blocks(self.block_bytes);
        let header = &claim.header;
        let sequence = header.sequence;
        let repair = |&copy: &usize| Repair { copy, sequence, block, blocks };
        self.recovered.repairs.extend(bad_copies.iter().map(repair));
        let error = |index, error| RecoverError {
            block,
            sequence: header.sequence,
            damage: Damage::Record { index, error },
        };
        let Recovered { contents, space, .. } = &mut self.recovered;
        assert!(space.replay(blocks), "may_follow looked whether it fits");
        let mut at = block + claim.descriptor_blocks(self.block_bytes);
        for (index, record) in records.iter().enumerate() {
            let blocks = record.payload_blocks(self.block_bytes);
            let place = Place { sequence: header.sequence, block: at, blocks };
            contents.apply(record, place, space).map_err(|e| error(index as u32, e))?;
            at += blocks;
        }
        if header.last_version < contents.last_version() {
            return Err(error(records.len() as u32, RecordError::Version));
        }
        contents.raise_version(header.last_version);
        space.made_durable(header.sequence);
        self.recovered.epoch = header.epoch;
        self.recovered.commits += 1;
        self.used += blocks;
        Ok(())
    }

    /// No commit follows: was one lost that had been durable?
    fn end(&mut self) -> Result<(), RecoverError> {
        let space = &self.recovered.space;
        let durable = space.anchor().durable_through >= space.next_sequence();
        if durable || self.recovered.commits == 0 {
            return Err(self.error(Damage::Missing(Witness::Anchor)));
        }
        self.state = State::Search { offset: 0, singly: 0 };
        Ok(())
    }

    fn search(&mut self, bytes: &[u8], offset: u64, blocks: u64) -> Result<(), RecoverError> {
        let expected = self.recovered.space.next_sequence();
        let first = (self.recovered.space.head() + offset) % self.ring_blocks;
        for index in 0..blocks {
            let from = (index * u64::from(self.block_bytes)) as usize;
            let block = first + index;
            let Some(claim) = Claim::read(&bytes[from..], self.block_bytes) else { continue };
            let header = &claim.header;
            let ours = header.block == block && header.epoch >= self.recovered.epoch;
            if !ours || header.sequence < expected {
                continue;
            }
            self.recovered.dropped += 1;
            let descriptor = claim.descriptor_blocks(self.block_bytes);
            if header.durable_through < expected || block + descriptor > self.ring_blocks {
                continue;
            }
            if index + descriptor > blocks {
                let offset = offset + index + 1;
                self.state = State::Candidate { claim, block, offset };
                return Ok(());
            }
            if claim.holds(&bytes[from..], self.log, self.block_bytes) {
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
            if self.copy == self.copies {
                self.state = State::Done;
            }
        }
    }

    fn witnessed(&self, claim: &Claim, block: u64) -> RecoverError {
        let sequence = claim.header.sequence;
        self.error(Damage::Missing(Witness::Commit { block, sequence }))
    }

    fn error(&self, damage: Damage) -> RecoverError {
        let space = &self.recovered.space;
        RecoverError { block: space.head(), sequence: space.next_sequence(), damage }
    }
}
