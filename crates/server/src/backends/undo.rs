//! What a power failure takes back: the old bytes below writes that are acknowledged and not on
//! the modelled medium.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// One write: where, and what was there before.
struct Record {
    offset: u64,
    old: Vec<u8>,
}

/// The old bytes below the writes that a drive's volatile cache holds.
pub(super) struct Undo {
    file: File,
    /// Oldest first.
    records: Vec<Record>,
}

impl Undo {
    pub(super) fn new(file: File) -> Undo {
        Undo { file, records: Vec::new() }
    }

    /// Writes, and keeps what was there.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut old = vec![0; bytes.len()];
        self.file.read_exact_at(&mut old, offset)?;
        self.file.write_all_at(bytes, offset)?;
        self.records.push(Record { offset, old });
        Ok(())
    }

    /// Forgets the writes of which nothing is in the cache any more.
    pub(super) fn settle(&mut self, mut unwritten: impl FnMut(u64, u64) -> Vec<(u64, u64)>) {
        self.records.retain(|it| !unwritten(it.offset, it.old.len() as u64).is_empty());
    }

    /// Puts the old bytes back where the cache held newer ones; the number of bytes.
    pub(super) fn cut(
        &mut self,
        mut unwritten: impl FnMut(u64, u64) -> Vec<(u64, u64)>,
    ) -> io::Result<u64> {
        let mut lost: Vec<(u64, u64)> = Vec::new();
        while let Some(Record { offset, old }) = self.records.pop() {
            for (from, end) in unwritten(offset, old.len() as u64) {
                let part = &old[(from - offset) as usize..(end - offset) as usize];
                self.file.write_all_at(part, from)?;
                lost.push((from, end));
            }
        }
        self.file.sync_data()?;
        Ok(length_of_union(lost))
    }
}

fn length_of_union(mut ranges: Vec<(u64, u64)>) -> u64 {
    ranges.sort_unstable();
    let (mut reached, mut length) = (0, 0);
    for (from, end) in ranges {
        length += end.saturating_sub(from.max(reached));
        reached = reached.max(end);
    }
    length
}
