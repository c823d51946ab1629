//! A scrub of a served array: its progress or result.

use crate::Table;
use crate::state::ScrubState;
use crate::table::Cell;
use serde::{Deserialize, Serialize};

/// Rows one behind the other with the same thing wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScrubRange {
    /// First and last of the members that have these rows.
    pub members: (u16, u16),
    /// First byte on each of them.
    pub first_byte: u64,
    /// Bytes on each.
    pub bytes: u64,
    /// What is wrong, in words.
    pub what: String,
    /// Bytes of the volume that these rows hold: the first ranges, offset and length.
    #[serde(default)]
    pub volume: Vec<(u64, u64)>,
    /// Bytes of the volume that these rows hold, in all.
    #[serde(default)]
    pub volume_bytes: u64,
}

/// Ranges of the volume that are named in a line.
const NAMED: usize = 4;

impl ScrubRange {
    /// The bytes of the volume, in words.
    fn volume_words(&self) -> String {
        let one = |(offset, length): &(u64, u64)| format!("{offset} to {}", offset + length - 1);
        let named: Vec<String> = self.volume.iter().take(NAMED).map(one).collect();
        let named_bytes: u64 = self.volume.iter().take(NAMED).map(|(_, length)| length).sum();
        match (self.volume_bytes, self.volume_bytes.saturating_sub(named_bytes)) {
            (0, _) => "no byte of the volume".to_string(),
            (_, 0) => format!("bytes {} of the volume", named.join(", ")),
            (_, more) => format!("bytes {} of the volume and {more} more", named.join(", ")),
        }
    }
}

/// A scrub. A row is one page of 4,096 bytes of each member (of each of a pair on level 10).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScrubStatus {
    /// How far it is.
    pub state: ScrubState,
    /// Inconsistent rows are repaired.
    pub repair: bool,
    /// Rows compared.
    pub rows_done: u64,
    /// Rows of the array.
    pub rows: u64,
    /// Bytes read of the members.
    pub bytes_read: u64,
    /// MiB read of the members in a second, since it started.
    pub mib_per_s: f64,
    /// Limit of that; the last one given.
    pub limit_mib_per_s: f64,
    /// At this speed.
    pub seconds_to_go: Option<f64>,
    /// Rows whose parity or copies do not fit.
    pub inconsistent_rows: u64,
    /// Rows with unreadable pages that the other members can reconstruct.
    pub unreadable_rows: u64,
    /// Rows of which too little can be read.
    pub lost_rows: u64,
    /// Rows written again.
    pub repaired_rows: u64,
    /// Rows found inconsistent and not repaired.
    pub rows_left: u64,
    /// The first ranges found.
    pub ranges: Vec<ScrubRange>,
    /// Rows found wrong that are in none of the ranges.
    pub rows_elsewhere: u64,
    /// When it ended, in seconds since 1970 by the server's clock.
    pub ended_unix_s: Option<u64>,
}

impl ScrubStatus {
    /// Whether all rows were compared and are right now.
    pub fn clean(&self) -> bool {
        self.state == ScrubState::Complete && self.rows_left == 0
    }

    /// In a line.
    pub fn line(&self) -> String {
        let to_go = self.seconds_to_go.map_or(String::new(), |s| format!(", {s:.0} s to go"));
        format!(
            "{}{}: {} of {} rows, {:.1} MiB/s{to_go}; {} inconsistent, {} unreadable, {} lost; \
             {} repaired",
            if self.repair { "repair, " } else { "check, " },
            self.state,
            self.rows_done,
            self.rows,
            self.mib_per_s,
            self.inconsistent_rows,
            self.unreadable_rows,
            self.lost_rows,
            self.repaired_rows,
        )
    }

    /// The rows that are wrong, in words, one line a range.
    pub fn places(&self) -> Vec<String> {
        let range = |range: &ScrubRange| {
            let ScrubRange { members: (first, last), first_byte, bytes, what, .. } = range;
            let volume = range.volume_words();
            format!(
                "members {first} to {last}, {bytes} bytes from byte {first_byte}: {what}; {volume}"
            )
        };
        let mut places: Vec<String> = self.ranges.iter().map(range).collect();
        if self.rows_elsewhere > 0 {
            places.push(format!("and {} rows elsewhere", self.rows_elsewhere));
        }
        places
    }

    /// As a table of two columns.
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[("what", ""), ("value", "")]);
        let mut row = |name: &str, value: String| {
            table.push(vec![Cell::text(name), Cell::text(value)]);
        };
        row("scrub", if self.repair { "repair" } else { "check" }.to_string());
        row("state", self.state.to_string());
        row("rows", format!("{} of {}", self.rows_done, self.rows));
        let read = self.bytes_read as f64 / 1048576.0;
        row("read", format!("{read:.1} MiB, {:.1} MiB/s", self.mib_per_s));
        row("inconsistent rows", self.inconsistent_rows.to_string());
        row("rows with unreadable pages", self.unreadable_rows.to_string());
        row("rows lost", self.lost_rows.to_string());
        row("rows repaired", self.repaired_rows.to_string());
        row("rows left wrong", self.rows_left.to_string());
        for place in self.places() {
            row("where", place);
        }
        table
    }
}
