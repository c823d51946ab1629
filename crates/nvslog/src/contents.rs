//! What a log holds: the fragments of each page, what open intents froze, parity checksums.
//! The driver keeps one and applies each record that it appends; recovery applies those it
//! finds. Both so come to the same state (D8).

use super::fragments::Fragments;
use super::record::{Origin, Pages, Record, RecordError, SectorSums};
use super::space::LogSpace;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use destage_engine::units::{PAGE_BYTES, Page};

/// Bytes of a page, in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its number in the order of writes.
    pub version: u64,
    /// The commit it is in.
    pub sequence: u64,
    /// First byte in the page.
    pub offset: u16,
    /// Bytes.
    pub bytes: u16,
    /// Where the bytes are; `None`: they are zeros.
    pub stored: Option<Stored>,
}

/// A payload in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// First block.
    pub block: u64,
    /// Blocks.
    pub blocks: u64,
    /// CRC-32C of the blocks.
    pub crc: u32,
}

impl Fragment {
    pub(super) fn covers(&self, other: &Fragment) -> bool {
        let end = |f: &Fragment| u32::from(f.offset) + u32::from(f.bytes);
        self.offset <= other.offset && end(self) >= end(other)
    }

    fn blocks(&self) -> u64 {
        self.stored.map_or(0, |stored| stored.blocks)
    }

    fn record(&self, page: Page, origin: Origin) -> Record {
        let Fragment { version, offset, bytes, .. } = *self;
        match self.stored {
            Some(Stored { crc, .. }) => Record::Data { page, version, offset, bytes, crc, origin },
            None => Record::Zero { pages: Pages::new(page, 1), version, origin },
        }
    }
}

/// An intent that no release has closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenIntent {
    /// Its pages.
    pub pages: Pages,
    /// It froze what was held up to this version.
    pub through: u64,
    /// The commit it is in.
    pub sequence: u64,
}

/// What an intent writes as the parity of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParityRow {
    /// Checksums of P's sectors.
    pub p: SectorSums,
    /// Checksums of Q's sectors.
    pub q: Option<SectorSums>,
    /// The commit it is in.
    pub sequence: u64,
}

/// A live record to be moved, and where its payload is.
pub type Move = (Record, Option<Stored>);

/// Where a record is: its commit and, for data, the first block of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The commit.
    pub sequence: u64,
    /// First block of the payload.
    pub block: u64,
    /// Blocks of the payload.
    pub blocks: u64,
}

/// What a log holds.
#[derive(Clone, Default)]
pub struct Contents {
    pages: Fragments,
    frozen: Fragments,
    intents: BTreeMap<u64, OpenIntent>,
    parity: BTreeMap<(u64, u32), ParityRow>,
    last_version: u64,
}

impl PartialEq for Contents {
    fn eq(&self, other: &Contents) -> bool {
        let all = |of: &Fragments| -> Vec<(u64, Vec<Fragment>)> {
            of.all().into_iter().map(|page| (page, of.of(page).collect())).collect()
        };
        all(&self.pages) == all(&other.pages)
            && all(&self.frozen) == all(&other.frozen)
            && self.intents == other.intents
            && self.parity == other.parity
            && self.last_version == other.last_version
    }
}

impl core::fmt::Debug for Contents {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (pages, frozen) = (self.pages.pages_held(), self.frozen.pages_held());
        write!(f, "Contents({pages} pages, {frozen} frozen, {} intents)", self.intents.len())
    }
}

impl Contents {
    /// The page's fragments, oldest first, without frozen ones.
    #[must_use]
    pub fn fragments(&self, page: Page) -> Vec<Fragment> {
        self.pages.of(page.0).collect()
    }

    /// Looks at what [`Contents::apply`] of new data of the page will look at, which brings it into
    /// the processor's caches; the value means nothing.
    #[must_use]
    pub fn touch(&self, page: Page) -> Option<u64> {
        self.pages.touch(page.0)
    }

    /// The page's frozen fragments, oldest first: all older than the others.
    #[must_use]
    pub fn frozen(&self, page: Page) -> Vec<Fragment> {
        self.frozen.of(page.0).collect()
    }

    /// Pages with fragments that are not frozen, in order.
    pub fn pages(&self) -> impl Iterator<Item = (Page, Vec<Fragment>)> + '_ {
        self.pages.all().into_iter().map(|page| (Page(page), self.pages.of(page).collect()))
    }

    /// Pages with fragments that are not frozen.
    #[must_use]
    pub fn pages_held(&self) -> usize {
        self.pages.pages_held()
    }

    /// Intents that no release has closed: their stripes must be redone.
    pub fn intents(&self) -> impl Iterator<Item = &OpenIntent> {
        self.intents.values()
    }

    /// The parity checksums of a row of an intent.
    #[must_use]
    pub fn parity(&self, first: Page, row: u32) -> Option<&ParityRow> {
        self.parity.get(&(first.0, row))
    }

    /// Highest version given out.
    #[must_use]
    pub fn last_version(&self) -> u64 {
        self.last_version
    }

    /// Versions up to this one were given out, as a commit's header says.
    pub fn raise_version(&mut self, last_version: u64) {
        self.last_version = self.last_version.max(last_version);
    }

    /// Applies a record, and counts in `space` what is live.
    ///
    /// # Errors
    /// A record that no correct program appends; nothing is changed then.
    pub fn apply(
        &mut self,
        record: &Record,
        at: Place,
        space: &mut LogSpace,
    ) -> Result<(), RecordError> {
        if let Some(version) = record.new_version() {
            if version <= self.last_version {
                return Err(RecordError::Version);
            }
            self.last_version = version;
        }
        let Place { sequence, block, blocks } = at;
        match *record {
            Record::Data { page, version, offset, bytes, crc, origin } => {
                let stored = Some(Stored { block, blocks, crc });
                let fragment = Fragment { version, sequence, offset, bytes, stored };
                self.insert(page.0, fragment, origin, space);
            }
            Record::Zero { pages, version, origin } => {
                let bytes = PAGE_BYTES as u16;
                let fragment = Fragment { version, sequence, offset: 0, bytes, stored: None };
                for page in pages.first.0..pages.end() {
                    self.insert(page, fragment, origin, space);
                }
            }
            Record::Trim { pages, version } => {
                kill(&mut self.pages, pages, version, sequence, space);
            }
            Record::Release { pages, through } => self.release(pages, through, sequence, space),
            Record::Intent { pages, through, .. } => {
                self.intend(OpenIntent { pages, through, sequence }, space)?;
            }
            Record::Parity { first, row, p, q, .. } => {
                let new = ParityRow { p, q, sequence };
                if let Some(old) = self.parity.insert((first.0, row), new) {
                    space.died(old.sequence, 0, sequence);
                }
                space.born(sequence, 0);
            }
        }
        Ok(())
    }

    fn insert(&mut self, page: u64, new: Fragment, origin: Origin, space: &mut LogSpace) {
        let sequence = new.sequence;
        let mut dies = |old: Fragment| space.died(old.sequence, old.blocks(), sequence);
        if origin == Origin::New {
            self.pages.put_newest(page, new, &mut dies);
            space.born(sequence, new.blocks());
            return;
        }
        let same = |old: &Fragment| old.version == new.version;
        self.pages.take(page, same, &mut dies);
        self.frozen.take(page, same, &mut dies);
        space.born(sequence, new.blocks());
        let to = if origin == Origin::Frozen { &mut self.frozen } else { &mut self.pages };
        to.add(page, new);
    }

    fn release(&mut self, pages: Pages, through: u64, sequence: u64, space: &mut LogSpace) {
        let bounds = pages.first.0..pages.end();
        kill(&mut self.pages, pages, through, sequence, space);
        kill(&mut self.frozen, pages, through, sequence, space);
        let closed: Vec<u64> = self
            .intents
            .range(bounds.clone())
            .filter(|(_, intent)| intent.through <= through && intent.pages.end() <= pages.end())
            .map(|(first, _)| *first)
            .collect();
        for first in closed {
            if let Some(intent) = self.intents.remove(&first) {
                space.died(intent.sequence, 0, sequence);
            }
        }
        // An intent that stays open keeps its parity.
        let rows: Vec<(u64, u32)> = self
            .parity
            .range((bounds.start, 0)..(bounds.end, 0))
            .filter(|((first, _), _)| !self.intents.contains_key(first))
            .map(|(key, _)| *key)
            .collect();
        for row in rows {
            if let Some(parity) = self.parity.remove(&row) {
                space.died(parity.sequence, 0, sequence);
            }
        }
    }

    fn intend(&mut self, intent: OpenIntent, space: &mut LogSpace) -> Result<(), RecordError> {
        let OpenIntent { pages, through, sequence } = intent;
        let before = self.intents.range(..pages.end()).next_back();
        if let Some((first, open)) = before
            && open.pages.overlaps(pages)
            && (*first != pages.first.0 || open.pages != pages || open.through != through)
        {
            return Err(RecordError::Intent);
        }
        if let Some(old) = self.intents.insert(pages.first.0, intent) {
            space.died(old.sequence, 0, sequence);
        }
        space.born(sequence, 0);
        let bounds = pages.first.0..pages.end();
        let frozen = &mut self.frozen;
        let older = |fragment: &Fragment| fragment.version <= through;
        self.pages.take_range(bounds, older, |page, fragment| frozen.add(page, fragment));
        Ok(())
    }

    /// The live records of some commits, as moved ones in the order in which they are to be
    /// appended. Looks at nothing newer.
    #[must_use]
    pub fn live_in(&self, commits: &Range<u64>) -> Vec<Move> {
        let mut moves: Vec<Move> = Vec::new();
        for intent in self.intents.values().filter(|i| commits.contains(&i.sequence)) {
            let OpenIntent { pages, through, .. } = *intent;
            moves.push((Record::Intent { pages, through, moved: true }, None));
        }
        for ((first, row), parity) in &self.parity {
            if commits.contains(&parity.sequence) {
                let (first, row, ParityRow { p, q, .. }) = (Page(*first), *row, *parity);
                moves.push((Record::Parity { first, row, p, q, moved: true }, None));
            }
        }
        for (of, origin) in [(&self.frozen, Origin::Frozen), (&self.pages, Origin::Moved)] {
            let old = of.by_commit().take_while(|(_, f)| f.sequence < commits.end);
            for (page, fragment) in old.filter(|(_, f)| f.sequence >= commits.start) {
                moves.push((fragment.record(Page(page), origin), fragment.stored));
            }
        }
        moves
    }
}

/// Drops fragments up to a version.
fn kill(of: &mut Fragments, pages: Pages, through: u64, sequence: u64, space: &mut LogSpace) {
    let old = |fragment: &Fragment| fragment.version <= through;
    let dies = |_, gone: Fragment| space.died(gone.sequence, gone.blocks(), sequence);
    of.take_range(pages.first.0..pages.end(), old, dies);
}
