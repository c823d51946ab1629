//! What a verified load knows about all that it wrote.

use super::load::Load;
use super::stamps::{self, SECTOR};
use std::ops::Range;

const CHUNK: usize = 4096;

/// What is known apart: each sector of a feed, each block of a pattern's connection.
#[derive(Clone, Copy)]
pub(super) struct Units {
    /// Bytes of one.
    pub(super) bytes: u64,
    /// The first, counted from the start of the export.
    pub(super) first: u64,
    /// From one to the next; the others are other connections'.
    pub(super) stride: u64,
}

impl Units {
    pub(super) const SECTORS: Units = Units { bytes: SECTOR as u64, first: 0, stride: 1 };

    /// The blocks of connection `number`.
    pub(super) fn blocks(load: &Load, number: usize) -> Units {
        Units { bytes: load.block, first: number as u64, stride: load.connections as u64 }
    }

    /// Where a unit begins.
    pub(super) fn offset(&self, unit: usize) -> u64 {
        (unit as u64 * self.stride + self.first) * self.bytes
    }

    /// The units of a request.
    fn of(&self, offset: u64, length: u64) -> Range<usize> {
        let (first, end) = (offset / self.bytes, (offset + length).div_ceil(self.bytes));
        let place = |unit: u64| unit.saturating_sub(self.first).div_ceil(self.stride) as usize;
        place(first)..place(end)
    }
}

/// One unit.
#[derive(Clone, Copy, Default)]
struct State {
    /// Last write that was acknowledged; 0 for none.
    acknowledged: u64,
    /// Last write that was issued.
    issued: u64,
    /// Requests in flight on it: reads, or one write.
    users: u32,
}

/// Marks a unit that is being written.
const WRITER: u32 = u32::MAX;

/// The units of an export, in chunks that are there once they are used.
pub(super) struct Known {
    units: Units,
    chunks: Vec<Option<Box<[State; CHUNK]>>>,
}

impl Known {
    pub(super) fn new(units: Units, size: u64) -> Known {
        let chunks = units.of(0, size).end.div_ceil(CHUNK);
        Known { units, chunks: (0..chunks).map(|_| None).collect() }
    }

    fn get(&self, unit: usize) -> State {
        self.chunks[unit / CHUNK].as_ref().map_or(State::default(), |held| held[unit % CHUNK])
    }

    fn at(&mut self, unit: usize) -> &mut State {
        let chunk = &mut self.chunks[unit / CHUNK];
        let held = chunk.get_or_insert_with(|| Box::new([State::default(); CHUNK]));
        &mut held[unit % CHUNK]
    }

    /// Whether a request may start: no write overlaps it, and if it is a write, no read does.
    pub(super) fn free(&self, offset: u64, length: u64, write: bool) -> bool {
        self.units.of(offset, length).all(|unit| match self.get(unit).users {
            WRITER => false,
            readers => readers == 0 || !write,
        })
    }

    pub(super) fn begin_read(&mut self, offset: u64, length: u64) {
        self.units.of(offset, length).for_each(|unit| self.at(unit).users += 1);
    }

    pub(super) fn begin_write(&mut self, offset: u64, length: u64, generation: u64) {
        for unit in self.units.of(offset, length) {
            let unit = self.at(unit);
            (unit.users, unit.issued) = (WRITER, generation);
        }
    }

    pub(super) fn end_read(&mut self, offset: u64, length: u64) {
        self.units.of(offset, length).for_each(|unit| self.at(unit).users -= 1);
    }

    /// After a failed write, the old contents or the new ones may be there.
    pub(super) fn end_write(&mut self, offset: u64, length: u64, acknowledged: Option<u64>) {
        for unit in self.units.of(offset, length) {
            let unit = self.at(unit);
            unit.users = 0;
            unit.acknowledged = acknowledged.unwrap_or(unit.acknowledged);
        }
    }

    /// The first sector that holds none of the writes that it may hold: its offset, the least write
    /// expected, and the one found.
    pub(super) fn wrong(
        &self,
        run: u64,
        offset: u64,
        bytes: &[u8],
    ) -> Option<(u64, u64, Option<u64>)> {
        let units = self.units.of(offset, bytes.len() as u64);
        bytes.chunks(self.units.bytes as usize).zip(units).find_map(|(bytes, unit)| {
            let State { acknowledged, issued, .. } = self.get(unit);
            let at = self.units.offset(unit);
            let wrong = || stamps::first_wrong(bytes, run, at, acknowledged..=issued);
            let (sector, found) = (acknowledged > 0).then(wrong)??;
            Some((sector, acknowledged, found))
        })
    }

    /// The next adjacent units from `from` on that hold acknowledged writes, at most `bytes_max`
    /// long: offset, length, and how many.
    pub(super) fn run(&self, from: u64, bytes_max: u64) -> Option<(u64, u64, u64)> {
        let (mut unit, end) = (self.units.of(0, from).end, self.chunks.len() * CHUNK);
        let held = |unit: usize| self.get(unit).acknowledged > 0;
        while unit < end && !held(unit) {
            unit += match &self.chunks[unit / CHUNK] {
                None => CHUNK - unit % CHUNK,
                Some(_) => 1,
            };
        }
        let adjacent = if self.units.stride == 1 { bytes_max / self.units.bytes } else { 1 };
        let count = (unit..end).take(adjacent.max(1) as usize).take_while(|&at| held(at)).count();
        let count = count as u64;
        (count > 0).then(|| (self.units.offset(unit), count * self.units.bytes, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamps::stamp;

    #[test]
    fn what_overlaps_waits_and_what_is_wrong_is_found() {
        let mut known = Known::new(Units::SECTORS, 64 << 20);
        known.begin_write(4096, 4096, 7);
        assert!(!known.free(7680, 512, false) && !known.free(0, 8192, true));
        assert!(known.free(0, 4096, true) && known.free(8192, 512, true));
        known.end_write(4096, 4096, Some(7));
        known.begin_read(4096, 512);
        known.begin_read(4096, 1024);
        assert!(known.free(4096, 4096, false) && !known.free(4096, 4096, true));
        known.end_read(4096, 512);
        assert!(!known.free(4096, 512, true));
        known.end_read(4096, 1024);
        assert!(known.free(4096, 512, true));
        // Part of it again, and that fails: either may be there.
        known.begin_write(4608, 512, 9);
        known.end_write(4608, 512, None);
        let mut bytes = vec![0; 12_288];
        stamp(&mut bytes[4096..8192], 1, 4096, 7);
        assert_eq!(known.wrong(1, 0, &bytes), None);
        stamp(&mut bytes[4608..5120], 1, 4608, 9);
        assert_eq!(known.wrong(1, 0, &bytes), None);
        stamp(&mut bytes[4608..5120], 1, 4608, 8);
        stamp(&mut bytes[5120..5632], 1, 5120, 6);
        assert_eq!(known.wrong(1, 0, &bytes), Some((5120, 7, Some(6))));
        bytes[4096] ^= 1;
        assert_eq!(known.wrong(1, 0, &bytes), Some((4096, 7, None)));
    }

    #[test]
    fn runs_of_written_sectors_are_found_across_chunks() {
        let mut known = Known::new(Units::SECTORS, 64 << 20);
        let far = (20 * CHUNK * SECTOR) as u64 - 512;
        for (offset, length, generation) in [(512, 1024, 1), (1536, 512, 2), (far, 1024, 3)] {
            known.begin_write(offset, length, generation);
            known.end_write(offset, length, Some(generation));
        }
        known.begin_write(8192, 512, 4);
        known.end_write(8192, 512, None);
        assert_eq!(known.run(0, 1 << 20), Some((512, 1536, 3)));
        assert_eq!(known.run(0, 1024), Some((512, 1024, 2)));
        assert_eq!(known.run(1536, 1024), Some((1536, 512, 1)));
        assert_eq!(known.run(2048, 1 << 20), Some((far, 1024, 2)));
        assert_eq!(known.run(far + 1024, 1 << 20), None);
    }

    #[test]
    fn a_connection_knows_only_its_own_blocks() {
        let units = Units { bytes: 8192, first: 2, stride: 3 };
        let mut known = Known::new(units, 1 << 20);
        for (unit, generation) in [(0, 1), (1, 2), (5, 3)] {
            let offset = units.offset(unit);
            assert_eq!(
                (units.of(offset, 8192), offset),
                (unit..unit + 1, (unit as u64 * 3 + 2) << 13)
            );
            known.begin_write(offset, 8192, generation);
            known.end_write(offset, 8192, Some(generation));
        }
        let (mut from, mut found) = (0, Vec::new());
        while let Some((offset, length, 1)) = known.run(from, 1 << 20) {
            found.push(offset);
            from = offset + length;
        }
        assert_eq!(found, [0, 1, 5].map(|unit| units.offset(unit)));
    }
}
