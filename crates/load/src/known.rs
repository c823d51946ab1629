//! What a verified feed knows about every sector that it wrote.

use super::stamps::{SECTOR, generation_of};

const CHUNK: usize = 4096;

/// One sector.
#[derive(Clone, Copy, Default)]
struct Sector {
    /// Last write that was acknowledged; 0 for none.
    acknowledged: u64,
    /// Last write that was issued.
    issued: u64,
    /// Requests in flight on it: reads, or one write.
    users: u32,
}

/// Marks a sector that is being written.
const WRITER: u32 = u32::MAX;

/// The sectors of an export, in chunks that are there once they are used.
pub(super) struct Known {
    chunks: Vec<Option<Box<[Sector; CHUNK]>>>,
}

fn sectors(offset: u64, length: u64) -> std::ops::Range<usize> {
    let (first, end) = (offset / SECTOR as u64, (offset + length).div_ceil(SECTOR as u64));
    first as usize..end as usize
}

impl Known {
    pub(super) fn new(size: u64) -> Known {
        let chunks = sectors(0, size).end.div_ceil(CHUNK);
        Known { chunks: (0..chunks).map(|_| None).collect() }
    }

    fn get(&self, sector: usize) -> Sector {
        self.chunks[sector / CHUNK].as_ref().map_or(Sector::default(), |held| held[sector % CHUNK])
    }

    fn at(&mut self, sector: usize) -> &mut Sector {
        let chunk = &mut self.chunks[sector / CHUNK];
        let held = chunk.get_or_insert_with(|| Box::new([Sector::default(); CHUNK]));
        &mut held[sector % CHUNK]
    }

    /// Whether a request may start: no write overlaps it, and if it is a write, no read does.
    pub(super) fn free(&self, offset: u64, length: u64, write: bool) -> bool {
        sectors(offset, length).all(|sector| match self.get(sector).users {
            WRITER => false,
            readers => readers == 0 || !write,
        })
    }

    pub(super) fn begin_read(&mut self, offset: u64, length: u64) {
        sectors(offset, length).for_each(|sector| self.at(sector).users += 1);
    }

    pub(super) fn begin_write(&mut self, offset: u64, length: u64, generation: u64) {
        for sector in sectors(offset, length) {
            let sector = self.at(sector);
            (sector.users, sector.issued) = (WRITER, generation);
        }
    }

    pub(super) fn end_read(&mut self, offset: u64, length: u64) {
        sectors(offset, length).for_each(|sector| self.at(sector).users -= 1);
    }

    /// After a failed write, the old contents or the new ones may be there.
    pub(super) fn end_write(&mut self, offset: u64, length: u64, acknowledged: Option<u64>) {
        for sector in sectors(offset, length) {
            let sector = self.at(sector);
            sector.users = 0;
            sector.acknowledged = acknowledged.unwrap_or(sector.acknowledged);
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
        bytes.chunks_exact(SECTOR).zip(sectors(offset, bytes.len() as u64)).find_map(
            |(sector, number)| {
                let known = self.get(number);
                let at = (number * SECTOR) as u64;
                let found = (known.acknowledged > 0).then(|| generation_of(sector, run, at))?;
                let right =
                    found.is_some_and(|is| (known.acknowledged..=known.issued).contains(&is));
                (!right).then_some((at, known.acknowledged, found))
            },
        )
    }

    /// The next run of sectors from `from` on that hold acknowledged writes, at most `bytes_max`
    /// long: offset and length.
    pub(super) fn run(&self, from: u64, bytes_max: u64) -> Option<(u64, u64)> {
        let (mut sector, end) = ((from / SECTOR as u64) as usize, self.chunks.len() * CHUNK);
        let held = |sector: usize| self.get(sector).acknowledged > 0;
        while sector < end && !held(sector) {
            sector += match &self.chunks[sector / CHUNK] {
                None => CHUNK - sector % CHUNK,
                Some(_) => 1,
            };
        }
        let most = (bytes_max as usize / SECTOR).max(1);
        let count = (sector..end).take(most).take_while(|&at| held(at)).count();
        (count > 0).then_some(((sector * SECTOR) as u64, (count * SECTOR) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamps::stamp;

    #[test]
    fn what_overlaps_waits_and_what_is_wrong_is_found() {
        let mut known = Known::new(64 << 20);
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
        let mut known = Known::new(64 << 20);
        let far = (20 * CHUNK * SECTOR) as u64 - 512;
        for (offset, length, generation) in [(512, 1024, 1), (1536, 512, 2), (far, 1024, 3)] {
            known.begin_write(offset, length, generation);
            known.end_write(offset, length, Some(generation));
        }
        known.begin_write(8192, 512, 4);
        known.end_write(8192, 512, None);
        assert_eq!(known.run(0, 1 << 20), Some((512, 1536)));
        assert_eq!(known.run(0, 1024), Some((512, 1024)));
        assert_eq!(known.run(1536, 1024), Some((1536, 512)));
        assert_eq!(known.run(2048, 1 << 20), Some((far, 1024)));
        assert_eq!(known.run(far + 1024, 1 << 20), None);
    }
}
