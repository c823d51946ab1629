//! What a log holds: the newest record of each page, what open intents froze, parity checksums.
//! The driver keeps one and applies each record that it appends; recovery applies those it
//! finds. Both so come to the same state (D8).

use super::held::HeldPages;
use super::record::ALL_SECTORS;
use super::record::{Origin, Pages, Record, RecordError, SectorSums, ZERO_PAGES_MAX};
use super::space::LogSpace;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use destage_engine::units::Page;

/// A page in the log, or some of its sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPage {
    /// Its number in the order of writes.
    pub version: u64,
    /// The commit it is in.
    pub sequence: u64,
    /// Bit i: sector i is here.
    pub sectors: u8,
    /// Where the bytes are; `None`: they are zeros.
    pub stored: Option<Stored>,
}

/// A page's bytes in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The slot.
    pub slot: u32,
    /// CRC-32C of its bytes.
    pub crc: u32,
}

impl HeldPage {
    fn slot(&self) -> Option<u32> {
        self.stored.map(|stored| stored.slot)
    }

    fn record(&self, page: Page, origin: Origin) -> Record {
        let HeldPage { version, sectors, .. } = *self;
        match self.stored {
            Some(Stored { slot, crc }) => {
                Record::Data { page, version, slot, sectors, crc, origin }
            }
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

/// What a log holds.
#[derive(Clone, Default)]
pub struct Contents {
    pages: HeldPages,
    frozen: HeldPages,
    intents: BTreeMap<u64, OpenIntent>,
    parity: BTreeMap<(u64, u32), ParityRow>,
    last_version: u64,
}

impl PartialEq for Contents {
    fn eq(&self, other: &Contents) -> bool {
        self.pages.sorted() == other.pages.sorted()
            && self.frozen.sorted() == other.frozen.sorted()
            && self.intents == other.intents
            && self.parity == other.parity
            && self.last_version == other.last_version
    }
}

impl core::fmt::Debug for Contents {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (pages, frozen) = (self.pages.count(), self.frozen.count());
        write!(f, "Contents({pages} pages, {frozen} frozen, {} intents)", self.intents.len())
    }
}

impl Contents {
    /// What is held of the page, without what is frozen.
    #[must_use]
    pub fn page(&self, page: Page) -> Option<HeldPage> {
        self.pages.get(page.0)
    }

    /// Looks at what [`Contents::apply`] of new data of the page will look at, which brings it into
    /// the processor's caches; the value means nothing.
    #[must_use]
    pub fn touch(&self, page: Page) -> Option<u64> {
        self.pages.touch(page.0)
    }

    /// What an open intent froze of the page.
    #[must_use]
    pub fn frozen(&self, page: Page) -> Option<HeldPage> {
        self.frozen.get(page.0)
    }

    /// All that is held and not frozen, in the order of commits.
    pub fn pages(&self) -> impl Iterator<Item = (Page, HeldPage)> + '_ {
        self.pages.by_commit().map(|(page, held)| (Page(page), held))
    }

    /// All that is frozen, in the order of commits.
    pub fn frozen_pages(&self) -> impl Iterator<Item = (Page, HeldPage)> + '_ {
        self.frozen.by_commit().map(|(page, held)| (Page(page), held))
    }

    /// Pages held that are not frozen.
    #[must_use]
    pub fn pages_held(&self) -> usize {
        self.pages.count()
    }

    /// Pages that open intents froze.
    #[must_use]
    pub fn pages_frozen(&self) -> usize {
        self.frozen.count()
    }

    /// The open intent that has the page.
    #[must_use]
    pub fn intent_of(&self, page: Page) -> Option<&OpenIntent> {
        let (_, before) = self.intents.range(..=page.0).next_back()?;
        (page.0 < before.pages.end()).then_some(before)
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

    /// Applies a record of commit `sequence`, and counts in `space` what is live.
    ///
    /// # Errors
    /// A record that no correct program appends; nothing is changed then.
    pub fn apply(
        &mut self,
        record: &Record,
        sequence: u64,
        space: &mut LogSpace,
    ) -> Result<(), RecordError> {
        if let Some(version) = record.new_version() {
            if version <= self.last_version {
                return Err(RecordError::Version);
            }
            self.last_version = version;
        }
        match *record {
            Record::Data { page, version, slot, sectors, crc, origin } => {
                let stored = Some(Stored { slot, crc });
                let held = HeldPage { version, sequence, sectors, stored };
                self.insert(page.0, held, origin, space);
            }
            Record::Zero { pages, version, origin } => {
                let held = HeldPage { version, sequence, sectors: ALL_SECTORS, stored: None };
                for page in pages.first.0..pages.end() {
                    self.insert(page, held, origin, space);
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
                    space.died(old.sequence, None, sequence);
                }
                space.born(sequence);
            }
        }
        Ok(())
    }

    fn insert(&mut self, page: u64, new: HeldPage, origin: Origin, space: &mut LogSpace) {
        let sequence = new.sequence;
        space.born(sequence);
        // A copy of a record leaves the slot to the copy; a completion has one of its own.
        let gone = |old: HeldPage| old.slot().filter(|_| old.slot() != new.slot());
        let mut dies = |old: HeldPage| space.died(old.sequence, gone(old), sequence);
        if origin != Origin::New {
            let same = |old: &HeldPage| old.version == new.version;
            for of in [&mut self.pages, &mut self.frozen] {
                if let Some(old) = of.take_if(page, same) {
                    dies(old);
                }
            }
        }
        let to = if origin == Origin::Frozen { &mut self.frozen } else { &mut self.pages };
        if let Some(old) = to.put(page, new) {
            dies(old);
        }
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
                space.died(intent.sequence, None, sequence);
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
                space.died(parity.sequence, None, sequence);
            }
        }
    }

    fn intend(&mut self, intent: OpenIntent, space: &mut LogSpace) -> Result<(), RecordError> {
        let OpenIntent { pages, through, sequence } = intent;
        let before = self.intents.range(..pages.end()).next_back();
        if let Some((_, open)) = before
            && open.pages.overlaps(pages)
            && (open.pages != pages || open.through != through)
        {
            return Err(RecordError::Intent);
        }
        if let Some(old) = self.intents.insert(pages.first.0, intent) {
            space.died(old.sequence, None, sequence);
        }
        space.born(sequence);
        let bounds = pages.first.0..pages.end();
        let frozen = &mut self.frozen;
        let older = |held: &HeldPage| held.version <= through;
        self.pages.take_range(bounds, older, |page, held| {
            if let Some(old) = frozen.put(page, held) {
                space.died(old.sequence, old.slot(), sequence);
            }
        });
        Ok(())
    }

    /// The live records of some commits, as moved ones in the order in which they are to be
    /// appended. Looks at nothing newer.
    #[must_use]
    pub fn live_in(&self, commits: &Range<u64>) -> Vec<Record> {
        let mut moves: Vec<Record> = Vec::new();
        for intent in self.intents.values().filter(|i| commits.contains(&i.sequence)) {
            let OpenIntent { pages, through, .. } = *intent;
            moves.push(Record::Intent { pages, through, moved: true });
        }
        for ((first, row), parity) in &self.parity {
            if commits.contains(&parity.sequence) {
                let (first, row, ParityRow { p, q, .. }) = (Page(*first), *row, *parity);
                moves.push(Record::Parity { first, row, p, q, moved: true });
            }
        }
        for (of, origin) in [(&self.frozen, Origin::Frozen), (&self.pages, Origin::Moved)] {
            let old = of.by_commit().take_while(|(_, held)| held.sequence < commits.end);
            for (page, held) in old.filter(|(_, held)| held.sequence >= commits.start) {
                if !moves.last_mut().is_some_and(|last| last.takes_zeros(page, &held, origin)) {
                    moves.push(held.record(Page(page), origin));
                }
            }
        }
        moves
    }
}

impl Record {
    /// Whether this record of zeros has been made one of this page, too: both were one before.
    fn takes_zeros(&mut self, page: u64, held: &HeldPage, of: Origin) -> bool {
        let Record::Zero { pages, version, origin } = self else { return false };
        let next = held.stored.is_none() && held.version == *version && *origin == of;
        let takes = next && pages.end() == page && pages.count < ZERO_PAGES_MAX;
        pages.count += u32::from(takes);
        takes
    }
}

/// Drops what is held of some pages up to a version.
fn kill(of: &mut HeldPages, pages: Pages, through: u64, sequence: u64, space: &mut LogSpace) {
    let old = |held: &HeldPage| held.version <= through;
    let dies = |_, gone: HeldPage| space.died(gone.sequence, gone.slot(), sequence);
    of.take_range(pages.first.0..pages.end(), old, dies);
}
