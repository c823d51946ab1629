//! The SPC-1-like request streams (v1): which blocks each stream asks for, without when.
//!
//! This is not SPC-1. A business scaling unit (BSU) is eight streams over three application storage
//! units (ASUs) of 45 %, 45 % and 10 % of the space; ASU-3 comes first, then ASU-1, then ASU-2.
//! Blocks are 4 KiB pages. What the description leaves open is decided so:
//!
//! - Each stream of each BSU has a generator, a walk (leaf) and a sequential run of its own.
//! - Every leaf has one counter, shared by the BSUs: the place, 0 to 7, last read in it (0 before
//!   the first). A read of the leaf advances it; the other half of the writes go to where it is.
//! - A leaf is 8 blocks of the stream's region, `levels` is the tree's height in leaves, a walk
//!   starts at a random leaf, and a tree lower than the starting `h` is drawn from entirely.
//! - Style classic: each stream of each BSU places its tree at a random offset in the region.
//!   Style v2: a leaf past the region is drawn again, with `h` climbing on from where it was.
//! - A write is repeated at most once in a row: the repeat does not decide on another.
//! - A sequential stream draws a new start where the next request would end past its run.

use destage_engine::request::{Direction, PageRange};
use destage_engine::units::Page;

use super::pattern::Access;
use crate::random::Seeded;

/// Streams of a BSU.
pub const STREAMS: usize = 8;
/// Their names, in order; a request's tag is `BSU * 8 + stream`.
pub const STREAM_NAMES: [&str; STREAMS] = ["1-1", "1-2", "1-3", "1-4", "2-1", "2-2", "2-3", "3-1"];
/// Share of a BSU's requests that each stream issues.
pub const STREAM_SHARES: [f64; STREAMS] = [0.035, 0.281, 0.070, 0.210, 0.018, 0.070, 0.035, 0.281];
/// Fewest pages that the streams can be laid out on.
pub const PAGES_MIN: u64 = 4096;

const READ_SHARES: [f64; STREAMS] = [0.5, 0.5, 1.0, 0.5, 0.3, 0.3, 1.0, 0.0];
/// Blocks of a leaf.
const LEAF_BLOCKS: u64 = 8;
/// A write goes to a leaf whose number is a multiple of this.
const WRITE_LEAF_STEP: u64 = 8;
/// Chance that the walk looks one level wider.
const CLIMB: f64 = 0.44;
/// Chance that a write takes a random block of its leaf.
const WRITE_RANDOM: f64 = 0.5;
/// Chance that a stream's next write repeats this one.
const WRITE_REPEAT: f64 = 0.15;
/// Lengths in blocks, by the draw of 0..25: 1, 2, 4, 8, 16 in 10, 6, 5, 2, 2 of 25.
const SMIX: [u32; 25] =
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 8, 8, 16, 16];

/// Which form of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `h` from 7; the tree is the largest power of two of leaves, at a random offset.
    Classic,
    /// `h` from 6; the tree is rounded up, leaves past the region are drawn again.
    V2,
}

/// What a stream does, with its region in blocks of the volume.
#[derive(Clone, Copy, Debug)]
enum StreamPattern {
    Uniform { first: u64, blocks: u64 },
    Walk { first: u64, tree: Tree },
    Sequential { first: u64, starts: u64, run: u64 },
}

/// The tree of a walk.
#[derive(Clone, Copy, Debug)]
struct Tree {
    /// Leaves of the region.
    leaves: u64,
    /// Levels above the leaves.
    levels: u32,
    /// Leaves by which the tree may be displaced (0 in style v2).
    slack: u64,
    /// Where `h` starts.
    h_start: u32,
}

/// State of one stream of one BSU.
struct Stream {
    random: Seeded,
    /// Walk: the leaf it is at, in the tree.
    leaf: u64,
    /// Walk: leaves by which this stream's tree is displaced.
    offset: u64,
    /// Walk: the block that the next write repeats, if any.
    repeat: Option<u64>,
    /// Sequential: the next block, and the end of the run.
    position: u64,
    run_end: u64,
}

/// All streams of all BSUs.
pub struct Streams {
    shapes: [StreamPattern; STREAMS],
    streams: Vec<Stream>,
    /// For each stream that walks: the place last read in each leaf, shared by the BSUs.
    counters: [Vec<u8>; STREAMS],
}

impl Streams {
    /// The streams of `bsus` BSUs over `pages` pages, of which there must be [`PAGES_MIN`].
    pub fn new(style: Style, bsus: u32, pages: u64, seed: u64) -> Streams {
        assert!(pages >= PAGES_MIN, "the streams need {PAGES_MIN} pages, not {pages}");
        let shapes = shapes(style, pages);
        let counters = shapes.map(|shape| match shape {
            StreamPattern::Walk { tree, .. } => vec![0; tree.leaves as usize],
            _ => Vec::new(),
        });
        let streams = (0..bsus as usize * STREAMS)
            .map(|index| {
                let (bsu, name) = (index / STREAMS, STREAM_NAMES[index % STREAMS]);
                let random = Seeded::new(seed, &format!("spc1/bsu {bsu}/stream {name}/blocks"));
                Stream::new(random, shapes[index % STREAMS])
            })
            .collect();
        Streams { shapes, streams, counters }
    }

    /// The next access of a stream; `index` is `BSU * 8 + stream`.
    #[inline]
    pub fn next_access(&mut self, index: usize) -> Access {
        let kind = index % STREAMS;
        let stream = &mut self.streams[index];
        let reads = READ_SHARES[kind];
        let direction = if reads >= 1.0 || reads > 0.0 && stream.random.chance(reads) {
            Direction::Read
        } else {
            Direction::Write
        };
        let (first, pages) = match self.shapes[kind] {
            StreamPattern::Uniform { first, blocks } => (first + stream.random.below(blocks), 1),
            StreamPattern::Walk { first, tree } => {
                (first + stream.walk(direction, tree, &mut self.counters[kind]), 1)
            }
            StreamPattern::Sequential { first, starts, run } => {
                stream.sequential(first, starts, run)
            }
        };
        Access { direction, range: PageRange::new(Page(first), pages) }
    }
}

impl Stream {
    fn new(mut random: Seeded, shape: StreamPattern) -> Stream {
        let (mut leaf, mut offset) = (0, 0);
        if let StreamPattern::Walk { tree, .. } = shape {
            offset = random.below(tree.slack + 1);
            leaf = random.below(tree.leaves - tree.slack);
        }
        Stream { random, leaf, offset, repeat: None, position: 0, run_end: 0 }
    }

    /// One step of the walk; the block, counted from the start of the region.
    fn walk(&mut self, direction: Direction, tree: Tree, counters: &mut [u8]) -> u64 {
        if direction == Direction::Write
            && let Some(block) = self.repeat.take()
        {
            return block;
        }
        self.leaf = self.next_leaf(tree);
        if direction == Direction::Read {
            let leaf = self.leaf + self.offset;
            let counter = &mut counters[leaf as usize];
            *counter = (*counter + 1) % LEAF_BLOCKS as u8;
            return leaf * LEAF_BLOCKS + u64::from(*counter);
        }
        let leaf = self.leaf / WRITE_LEAF_STEP * WRITE_LEAF_STEP + self.offset;
        let place = if self.random.chance(WRITE_RANDOM) {
            self.random.below(LEAF_BLOCKS)
        } else {
            u64::from(counters[leaf as usize])
        };
        let block = leaf * LEAF_BLOCKS + place;
        self.repeat = self.random.chance(WRITE_REPEAT).then_some(block);
        block
    }

    /// The leaf the walk goes to, inside the region.
    fn next_leaf(&mut self, tree: Tree) -> u64 {
        let mut h = tree.h_start;
        loop {
            while h < tree.levels && self.random.chance(CLIMB) {
                h += 1;
            }
            let leaf = (self.leaf >> h << h) + self.random.below(1 << h);
            if leaf + self.offset < tree.leaves {
                return leaf;
            }
        }
    }

    /// The next request of a sequential stream: first block and blocks.
    fn sequential(&mut self, first: u64, starts: u64, run: u64) -> (u64, u32) {
        let blocks = SMIX[self.random.below(25) as usize];
        if self.position + u64::from(blocks) > self.run_end {
            self.position = first + self.random.below(starts);
            self.run_end = self.position + run;
        }
        let position = self.position;
        self.position += u64::from(blocks);
        (position, blocks)
    }
}

/// The streams' regions on `pages` pages. Fractions of an ASU are rounded down to blocks.
fn shapes(style: Style, pages: u64) -> [StreamPattern; STREAMS] {
    let size_1 = pages * 45 / 100;
    let size_2 = size_1;
    let size_3 = pages / 10;
    let (asu_1, asu_2, asu_3) = (size_3, size_3 + size_1, 0);
    let walk = |asu: u64, size: u64, percent: u64| StreamPattern::Walk {
        first: asu + size * percent / 100,
        tree: tree(style, size / 20 / LEAF_BLOCKS),
    };
    let sequential = |asu: u64, size: u64| StreamPattern::Sequential {
        first: asu + size * 20 / 100,
        starts: size * 40 / 100,
        run: size / 10,
    };
    [
        StreamPattern::Uniform { first: asu_1, blocks: size_1 },
        walk(asu_1, size_1, 15),
        sequential(asu_1, size_1),
        walk(asu_1, size_1, 70),
        StreamPattern::Uniform { first: asu_2, blocks: size_2 },
        walk(asu_2, size_2, 47),
        sequential(asu_2, size_2),
        StreamPattern::Sequential {
            first: asu_3,
            starts: size_3 * 70 / 100,
            run: size_3 * 30 / 100,
        },
    ]
}

fn tree(style: Style, leaves: u64) -> Tree {
    let (levels, slack, h_start) = match style {
        Style::Classic => (leaves.ilog2(), leaves - (1 << leaves.ilog2()), 7),
        Style::V2 => (leaves.next_power_of_two().ilog2(), 0, 6),
    };
    Tree { leaves, levels, slack, h_start: h_start.min(levels) }
}
