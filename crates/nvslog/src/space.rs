//! Space: where in the ring the next commit goes, which of its records are live, how far the tail
//! may move, and which live records must be moved before the head comes round; and the slots.
//!
//! The log is divided in time into segments, runs of commits of 1/64 of the ring or more; what is
//! live is counted for each.

use super::anchor::Anchor;
use super::record::DATA_BYTES;
use super::slots::Slots;
use super::{COMMIT_BYTES_MAX, RING_BLOCKS_MAX, RING_BLOCKS_MIN};
use alloc::collections::VecDeque;
use core::ops::Range;

const SEGMENTS: u64 = 64;

/// What a commit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Host data, intents: leaves the reserve alone.
    Host,
    /// Live records moved, releases, the opening of an epoch: may use the reserve.
    Housekeeping,
}

/// Where a commit goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Padding to be written before it: its block, its sequence, its blocks.
    pub padding: Option<(u64, u64, u64)>,
    /// First block.
    pub block: u64,
    /// Sequence.
    pub sequence: u64,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    first_block: u64,
    first_sequence: u64,
    blocks: u64,
    live_records: u64,
    /// Last commit that killed a record of this segment.
    killed_by: u64,
}

/// The space of an NVS device.
#[derive(Clone, Debug)]
pub struct LogSpace {
    ring_blocks: u64,
    block_bytes: u32,
    head: u64,
    used: u64,
    next_sequence: u64,
    durable: u64,
    /// Highest sequence that a durable commit, or both anchors, say was durable.
    confirmed: u64,
    segments: VecDeque<Segment>,
    anchor: Anchor,
    /// Where pages are.
    pub slots: Slots,
}

impl LogSpace {
    /// The space of a ring whose log begins where the anchor says and has no commits yet; without
    /// slots.
    ///
    /// # Panics
    /// If the ring is out of limits; the superblock's decoder checks first.
    #[must_use]
    pub fn new(ring_blocks: u64, block_bytes: u32, anchor: Anchor) -> LogSpace {
        assert!((RING_BLOCKS_MIN..=RING_BLOCKS_MAX).contains(&ring_blocks));
        assert!(anchor.tail_block < ring_blocks);
        LogSpace {
            ring_blocks,
            block_bytes,
            head: anchor.tail_block,
            used: 0,
            next_sequence: anchor.tail_sequence,
            durable: anchor.tail_sequence - 1,
            confirmed: anchor.durable_through,
            segments: VecDeque::new(),
            anchor,
            slots: Slots::default(),
        }
    }

    /// Blocks of the ring.
    #[must_use]
    pub fn ring_blocks(&self) -> u64 {
        self.ring_blocks
    }

    /// Blocks of a segment, at least.
    #[must_use]
    pub fn segment_blocks(&self) -> u64 {
        self.ring_blocks / SEGMENTS
    }

    /// Most blocks of a commit.
    #[must_use]
    pub fn commit_blocks_max(&self) -> u64 {
        (self.ring_blocks / 8).min(COMMIT_BYTES_MAX as u64 / u64::from(self.block_bytes))
    }

    /// Blocks kept for housekeeping: two segments as large as they get.
    #[must_use]
    pub fn reserve_blocks(&self) -> u64 {
        2 * (self.segment_blocks() + self.commit_blocks_max())
    }

    /// Blocks that may be written.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        self.ring_blocks - self.used
    }

    /// Block of the next commit, without padding.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Blocks to the end of the ring: a commit that fits needs no padding.
    #[must_use]
    pub fn contiguous_blocks(&self) -> u64 {
        self.ring_blocks - self.head
    }

    /// Sequence of the next commit.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Highest sequence known durable, with all before it.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Room for a commit of `blocks`; `None`: wait for the tail, or evacuate. One block always
    /// stays free, so that head and tail differ.
    pub fn allocate(&mut self, blocks: u64, purpose: Purpose) -> Option<Allocation> {
        assert!((1..=self.commit_blocks_max()).contains(&blocks), "a commit out of limits");
        let rest = self.contiguous_blocks();
        let pad = if blocks > rest { rest } else { 0 };
        let kept = if purpose == Purpose::Host { self.reserve_blocks() } else { 1 };
        if self.free_blocks() < pad + blocks + kept {
            return None;
        }
        let padding = (pad > 0).then(|| {
            let padding = (self.head, self.next_sequence, pad);
            self.push(pad);
            padding
        });
        let (block, sequence) = (self.head, self.next_sequence);
        self.push(blocks);
        Some(Allocation { padding, block, sequence })
    }

    /// Takes back the last commit, of one block and without records, so that the next one takes its
    /// place: not if the log begins with it. The next anchor must say less, then. Returns whether
    /// it was taken back.
    pub fn take_back(&mut self) -> bool {
        let sequence = self.next_sequence - 1;
        if sequence <= self.anchor.tail_sequence {
            return false;
        }
        let segment = self.segment_of(sequence);
        segment.blocks -= 1;
        if segment.blocks == 0 {
            self.segments.pop_back();
        }
        self.next_sequence = sequence;
        self.used -= 1;
        self.head = (self.head + self.ring_blocks - 1) % self.ring_blocks;
        self.durable = self.durable.min(sequence - 1);
        self.confirmed = self.confirmed.min(sequence - 1);
        true
    }

    /// A commit of `blocks` at the head, found by recovery: `false` if it does not fit the ring.
    pub fn replay(&mut self, blocks: u64) -> bool {
        let fits = blocks <= self.contiguous_blocks() && self.used + blocks < self.ring_blocks;
        if fits {
            self.push(blocks);
        }
        fits
    }

    fn push(&mut self, blocks: u64) {
        let segment_blocks = self.segment_blocks();
        match self.segments.back_mut() {
            Some(segment) if segment.blocks < segment_blocks => segment.blocks += blocks,
            _ => self.segments.push_back(Segment {
                first_block: self.head,
                first_sequence: self.next_sequence,
                blocks,
                live_records: 0,
                killed_by: 0,
            }),
        }
        self.next_sequence += 1;
        self.used += blocks;
        self.head = (self.head + blocks) % self.ring_blocks;
    }

    fn segment_of(&mut self, sequence: u64) -> &mut Segment {
        let behind = self.segments.partition_point(|s| s.first_sequence <= sequence);
        &mut self.segments[behind - 1]
    }

    /// A record of commit `sequence` is live.
    pub fn born(&mut self, sequence: u64) {
        self.segment_of(sequence).live_records += 1;
    }

    /// A record of commit `sequence` is dead because of a record of commit `killer`; so is the slot
    /// that it named.
    pub fn died(&mut self, sequence: u64, slot: Option<u32>, killer: u64) {
        let segment = self.segment_of(sequence);
        segment.live_records -= 1;
        segment.killed_by = segment.killed_by.max(killer);
        if let Some(slot) = slot {
            self.slots.killed(slot, killer);
        }
    }

    /// All commits up to `sequence` are durable.
    pub fn made_durable(&mut self, sequence: u64) {
        assert!(sequence < self.next_sequence);
        self.durable = self.durable.max(sequence);
    }

    /// Something durable says that all commits up to this one were durable: the slots that they
    /// freed may be written.
    pub fn confirmed(&mut self, through: u64) {
        if through > self.confirmed {
            self.confirmed = through;
            self.slots.confirmed(through);
        }
    }

    /// Segments at the tail that the log can do without (D3); never the last.
    fn passable(&self) -> usize {
        let most = self.segments.len().saturating_sub(1);
        let durable = |s: &Segment| s.killed_by <= self.durable;
        let dead = |s: &&Segment| s.live_records == 0 && durable(s);
        let count = self.segments.iter().take(most).take_while(dead).count();
        // The commit at the tail must itself be durable.
        (0..=count)
            .rev()
            .find(|&n| n == 0 || self.segments[n].first_sequence <= self.durable)
            .unwrap_or(0)
    }

    /// The anchor to be written, if it is worth it: it frees 1/8 of the ring, or `now` says
    /// that an append waits and it frees anything. The blocks from `needed` on are not freed.
    /// Nothing is reused before [`LogSpace::anchored`].
    #[must_use]
    pub fn anchor_due(&self, now: bool, needed: Option<u64>) -> Option<Anchor> {
        // From the present tail: the head may have come round to any other block.
        let (ring, tail) = (self.ring_blocks, self.anchor.tail_block);
        let distance = |block: u64| (block + ring - tail) % ring;
        let frees_no_more = |segment: &Segment| {
            needed.is_none_or(|needed| distance(segment.first_block) <= distance(needed))
        };
        let mut tails = (1..=self.passable()).rev();
        let count = tails.find(|&count| frees_no_more(&self.segments[count]))?;
        let frees: u64 = self.segments.iter().take(count).map(|s| s.blocks).sum();
        let due = now || frees >= self.ring_blocks / 8;
        due.then(|| Anchor {
            number: self.anchor.number + 1,
            tail_sequence: self.segments[count].first_sequence,
            tail_block: self.segments[count].first_block,
            durable_through: self.durable,
        })
    }

    /// Both copies of the anchor are durable: the space before its tail is free.
    pub fn anchored(&mut self, anchor: Anchor) {
        assert!(anchor.number > self.anchor.number, "anchors go up");
        while self.segments[0].first_sequence < anchor.tail_sequence {
            let gone = self.segments.pop_front().expect("a segment before the tail");
            assert_eq!(gone.live_records, 0, "the tail passed live records");
            self.used -= gone.blocks;
        }
        self.anchor = anchor;
        self.confirmed(anchor.durable_through);
    }

    /// Another anchor with the same tail: it says that everything found was durable, and nothing
    /// else.
    pub fn restated(&mut self) {
        let (number, durable_through) = (self.anchor.number + 1, self.next_sequence - 1);
        self.anchor = Anchor { number, durable_through, ..self.anchor };
    }

    /// The last anchor written.
    #[must_use]
    pub fn anchor(&self) -> Anchor {
        self.anchor
    }

    /// Commits whose live records are to be moved to the head, if less than 1/32 of the ring
    /// above the reserve is free, or about to be, or less than a commit of `waiting` blocks needs
    /// with padding.
    #[must_use]
    pub fn evacuate(&self, waiting: u64) -> Option<Range<u64>> {
        let mut free = self.free_blocks();
        let wanted = (self.ring_blocks / 32).max(2 * waiting) + self.reserve_blocks();
        for (index, segment) in self.segments.iter().enumerate() {
            let next = self.segments.get(index + 1)?;
            if free >= wanted {
                return None;
            }
            if segment.live_records > 0 {
                return Some(segment.first_sequence..self.enough_from(index, next.first_sequence));
            }
            free += segment.blocks;
        }
        None
    }

    /// The end of a run of segments whose live records fill a block.
    fn enough_from(&self, first: usize, least: u64) -> u64 {
        let fill = u64::from(self.block_bytes) / DATA_BYTES as u64;
        let (mut records, mut end) = (0, least);
        for (segment, next) in
            self.segments.iter().skip(first).zip(self.segments.iter().skip(first + 1))
        {
            if records >= fill {
                break;
            }
            records += segment.live_records;
            end = next.first_sequence;
        }
        end
    }
}
