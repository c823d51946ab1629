//! The log of acknowledged writes, and the check that they are still there.

use super::{BenchError, stamps};
use destage_client::{Client, Heard};
use destage_nbd::Mode;
use destage_nbd::client::Uri;
use destage_nbd::request::{Command, Request};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Mutex;

const MAGIC: &[u8; 8] = b"DSTGACK1";
const HEADER: usize = 16;
const RECORD: usize = 24;

/// A log that workers append to: the magic and the run, then for each acknowledged write its
/// offset, length and generation, eight bytes each, little-endian.
pub(super) struct Log(Mutex<File>);

impl Log {
    pub(super) fn create(path: &Path, run: u64) -> io::Result<Log> {
        let mut file = File::create(path)?;
        file.write_all(MAGIC)?;
        file.write_all(&run.to_le_bytes())?;
        Ok(Log(Mutex::new(file)))
    }

    /// Appends without buffering: the server or this process may die at any time.
    pub(super) fn append(&self, records: &mut Vec<u8>) -> io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let result = file.write_all(records);
        records.clear();
        result
    }
}

/// Records in these bytes.
pub(super) fn count(records: &[u8]) -> u64 {
    (records.len() / RECORD) as u64
}

pub(super) fn record(records: &mut Vec<u8>, offset: u64, length: u64, generation: u64) {
    for word in [offset, length, generation] {
        records.extend_from_slice(&word.to_le_bytes());
    }
}

/// The result of a check.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Acknowledged writes in the log.
    pub writes: u64,
    /// Places that they went to. Each must hold its last write.
    pub blocks: u64,
    /// Places where an acknowledged write is lost.
    pub lost: u64,
    /// Places that hold a later write, which was in flight when the server died (or, for a feed,
    /// one to another place that overlaps).
    pub newer: u64,
    /// Bytes that could not be read.
    pub unreadable: u64,
    /// The first lost: its sector, the generation acknowledged, and what is there.
    pub first: Option<(u64, u64, Option<u64>)>,
}

/// The last write of each place: offset and length.
type Blocks = BTreeMap<(u64, u64), u64>;

/// Reads a log: the run, the number of writes, and the last write of each place.
fn load(path: &Path) -> Result<(u64, u64, Blocks), BenchError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_err(|error| BenchError::File(path.to_path_buf(), error))?;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    if bytes.len() < HEADER || bytes[..8] != *MAGIC {
        return Err(BenchError::NoLog(path.to_path_buf()));
    }
    let (mut blocks, mut writes) = (Blocks::new(), 0);
    for record in (HEADER..).step_by(RECORD).take_while(|at| at + RECORD <= bytes.len()) {
        let (offset, length, generation) = (word(record), word(record + 8), word(record + 16));
        let sector = stamps::SECTOR as u64;
        if length == 0 || length > 64 << 20 || !(offset | length).is_multiple_of(sector) {
            return Err(BenchError::NoLog(path.to_path_buf()));
        }
        let last = blocks.entry((offset, length)).or_insert(0);
        // Replies may be recorded in another order than generations.
        *last = generation.max(*last);
        writes += 1;
    }
    Ok((word(8), writes, blocks))
}

/// Reads every place of a log from a server and compares.
///
/// # Errors
/// If the log cannot be read or the server cannot be talked to.
pub fn check(uri: &Uri, path: &Path) -> Result<Checked, BenchError> {
    let (run, writes, blocks) = load(path)?;
    let mut found = Checked { writes, blocks: blocks.len() as u64, ..Checked::default() };
    let mut client = Client::connect(uri, Mode::Structured)?;
    let mut left = (0..).zip(&blocks);
    // By cookie: offset, generation and what is there.
    let mut open: BTreeMap<u64, (u64, u64, Vec<u8>)> = BTreeMap::new();
    loop {
        for (cookie, (&(offset, length), &generation)) in left.by_ref().take(32 - open.len()) {
            let length = length as u32;
            let command = Command::Read { offset, length, dont_fragment: false };
            client.put(&Request { cookie, command }, &[])?;
            open.insert(cookie, (offset, generation, vec![0; length as usize]));
        }
        if open.is_empty() {
            return Ok(found);
        }
        client.pump(None, |heard| match heard {
            Heard::Data(cookie, offset, part) => {
                if let Some((begin, _, bytes)) = open.get_mut(&cookie) {
                    let at = (offset - *begin) as usize;
                    bytes[at..at + part.len()].copy_from_slice(part);
                }
            }
            Heard::Done(cookie, errno) => {
                let Some((offset, generation, bytes)) = open.remove(&cookie) else { return };
                if errno.is_some() {
                    found.unreadable += bytes.len() as u64;
                }
                judge(&mut found, run, (offset, generation), &bytes);
            }
            Heard::Hole(..) => {}
        })?;
    }
}

fn judge(found: &mut Checked, run: u64, (offset, generation): (u64, u64), bytes: &[u8]) {
    match stamps::first_wrong(bytes, run, offset, generation..=u64::MAX) {
        Some((sector, there)) => {
            found.lost += 1;
            found.first.get_or_insert((sector, generation, there));
        }
        None => {
            let same = stamps::first_wrong(bytes, run, offset, generation..=generation).is_none();
            found.newer += u64::from(!same);
        }
    }
}
