//! Tests of how a start reads an NVS device, and of what it finds there besides the log.

use super::*;
use crate::test_superblock;
use core::ops::Range;
use destage_nvslog::superblock::Role;

/// What an NVS device says whose ring has 64 blocks, before 8 slots.
fn superblock() -> Superblock {
    let (role, device) = (Role::Nvs(0), [20; 16]);
    Superblock { role, device, dirty_pages_max: 5, slots: 8, ..test_superblock::superblock() }
}

/// The ring and the slots of that device.
struct Nvs {
    blocks: Vec<[u8; 512]>,
    /// Blocks that cannot be read.
    bad: Range<u64>,
    /// The first block of each read, and how many it was of.
    reads: Vec<(u64, u64)>,
}

impl Nvs {
    /// Each block is filled with its number.
    fn numbered(bad: Range<u64>) -> Nvs {
        Nvs { blocks: (0..128).map(|block| [block; 512]).collect(), bad, reads: Vec::new() }
    }

    /// Writes a commit with this many records.
    fn put(&mut self, block: u64, epoch: u32, records: usize) {
        let (sequence, durable_through, kind) = (block + 1, 0, Kind::Plain);
        let header = Header { epoch, sequence, durable_through, block, last_version: 0, kind };
        let release = Record::Release { pages: Pages::new(Page(0), 1), through: 1 };
        let mut out = Vec::new();
        commit::encode(&header, &vec![release; records], superblock().log, 512, &mut out);
        self.write(Device::Nvs(0), RING + block * 512, &out).expect("written");
    }

    /// The highest epoch, and the blocks to clear, besides a log whose last epoch is this one.
    fn left(&mut self, epoch: u32) -> (u32, Vec<u64>) {
        let left = Ring::new(self, &[0], &superblock()).what_is_left(epoch);
        (left.epoch, left.to_clear)
    }
}

impl Media for Nvs {
    fn bytes(&mut self, _: Device) -> Result<u64, IoError> {
        Ok(RING + 128 * 512)
    }

    fn read(&mut self, _: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        let (first, count) = ((offset - RING) / 512, into.len() as u64 / 512);
        self.reads.push((first, count));
        if first < self.bad.end && self.bad.start < first + count {
            return Err(IoError::MEDIUM);
        }
        let blocks = self.blocks.get(first as usize..(first + count) as usize);
        into.copy_from_slice(&blocks.ok_or(IoError::SHORT)?.concat());
        Ok(())
    }

    fn write(&mut self, _: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        let first = ((offset - RING) / 512) as usize;
        for (block, bytes) in self.blocks[first..].iter_mut().zip(bytes.chunks_exact(512)) {
            block.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn flush(&mut self, _: Device) -> Result<(), IoError> {
        Ok(())
    }
}

/// What is read of the device if these runs of blocks are looked at, one after the other. Those
/// with a bad block are not there.
fn reads(bad: Range<u64>, runs: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut nvs, superblock) = (Nvs::numbered(bad.clone()), superblock());
    let mut ring = Ring::new(&mut nvs, &[0], &superblock);
    for (block, blocks) in runs.iter().copied() {
        let bytes: Vec<u8> = (block..block + blocks).flat_map(|block| [block as u8; 512]).collect();
        let readable = bad.end <= block || block + blocks <= bad.start;
        let found = ring.look_at(0, Part::Ring { block, blocks });
        assert!(found == readable.then_some(&bytes[..]), "block {block}");
    }
    nvs.reads
}

#[test]
fn a_device_is_read_ahead_to_the_end_of_its_slots() {
    assert_eq!(reads(0..0, &[(0, 1), (1, 2), (63, 1), (120, 8)]), [(0, 128)]);
    assert_eq!(reads(0..0, &[(5, 1), (127, 1), (4, 1)]), [(5, 123), (4, 124)]);
}

/// A device may take seconds for each read that fails.
#[test]
fn what_could_not_be_read_ahead_is_read_only_as_it_is_needed() {
    // Something of the blocks 1 to 127. What is before them is another matter.
    let runs = [(1, 1), (2, 1), (20, 1), (22, 2), (0, 1), (21, 1)];
    let singly = [(1, 127), (1, 1), (2, 1), (20, 1), (22, 2), (0, 1), (21, 1)];
    assert_eq!(reads(20..22, &runs), singly);
    // Something from block 10 on: what is before it is read ahead.
    let before = [(10, 118), (10, 1), (0, 10), (10, 1)];
    assert_eq!(reads(20..22, &[(10, 1), (0, 1), (9, 1), (10, 1)]), before);
    assert_eq!(reads(20..22, &[(0, 1), (1, 1)]), [(0, 128), (0, 1), (1, 1)]);
}

#[test]
fn the_next_epoch_is_above_that_of_any_intact_commit_in_the_ring() {
    let mut nvs = Nvs::numbered(0..0);
    assert_eq!(nvs.left(5), (5, vec![]));
    nvs.put(10, 3, 0);
    assert_eq!(nvs.left(5), (5, vec![]), "an older one");
    nvs.put(40, 9, 20);
    assert_eq!(nvs.left(5), (9, vec![]), "of two blocks");
    nvs.put(63, 20, 20);
    assert_eq!(nvs.left(5), (9, vec![]), "it would reach into the slots");
    nvs.put(62, 11, 20);
    assert_eq!(nvs.left(5), (11, vec![]), "up to the end of the ring");
    nvs.put(30, 30, 0);
    nvs.blocks[30][300] ^= 1;
    assert_eq!(nvs.left(5), (11, vec![]), "it is damaged");
}

/// Unless the log itself has come that far.
#[test]
fn a_commit_whose_epoch_leaves_no_room_is_to_be_cleared() {
    let (half, mut nvs) = (EPOCHS_MAX / 2, Nvs::numbered(50..52));
    nvs.put(10, half - 1, 0);
    nvs.put(20, half, 0);
    assert_eq!(nvs.left(5), (half - 1, vec![20, 50, 51]));
    assert_eq!(nvs.left(half), (half, vec![50, 51]));
}

#[test]
fn pages_are_released_in_runs_that_a_record_may_have() {
    let runs = |pages: BTreeSet<u64>| -> Vec<(u64, u32)> {
        let run = |record: Record| match record {
            Record::Release { pages, through: 7 } => (pages.first.0, pages.count),
            _ => panic!("{record:?}"),
        };
        releases(&pages, 7).into_iter().map(run).collect()
    };
    assert_eq!(runs(BTreeSet::new()), []);
    assert_eq!(runs(BTreeSet::from([3, 4, 5, 7, 9, 10])), [(3, 3), (7, 1), (9, 2)]);
    let (first, most) = (5, u64::from(RANGE_PAGES_MAX));
    let long = (first..first + most + 2).collect();
    assert_eq!(runs(long), [(first, RANGE_PAGES_MAX), (first + most, 2)]);
}

#[test]
fn slots_that_no_dirty_page_needs_are_spare() {
    assert_eq!(spare_slots(&superblock()), 3);
}
