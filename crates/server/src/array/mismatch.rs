//! Rows that a scrub found wrong: which bytes of the volume they hold, and the alarm about them.

use super::alarm_words::byte_ranges;
use super::alarms::{AlarmText, Alarms, ClearedBy};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::array::layout::DiskPage;
use destage_engine::units::DiskId;
use destage_served::{ScrubRange, ScrubStatus, Volume, Wrong};

/// Runs of the volume that are reported for one range of rows; the others are only counted.
const RUNS_MAX: usize = 64;

/// What rows hold of the volume.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Affected {
    /// The first runs: first page, pages.
    pub(super) runs: Vec<(u64, u64)>,
    /// Pages in all.
    pub(super) pages: u64,
}

/// The pages of the volume that are in these rows. Of a row in which one member is wrong, only that
/// member's.
pub(super) fn affected(geometry: &Geometry, range: &ScrubRange) -> Affected {
    let disks = match range.wrong {
        _ if geometry.level.is_mirrored() => range.member..range.member + 1,
        Wrong::Member(member) | Wrong::Unreadable(member) => member..member + 1,
        _ => range.member..range.member + range.members,
    };
    let (strip, end) = (geometry.strip_pages, range.first + range.pages);
    let of = |at: u64, length: u64| {
        let place = move |disk| DiskPage { disk: DiskId(disk), page: at };
        let pages = disks.clone().filter_map(move |disk| geometry.page_at(place(disk)));
        pages.map(move |page| (page.0, length))
    };
    let mut pages: Vec<(u64, u64)> = Vec::new();
    let (mut at, mut count) = (range.first, 0);
    // Which disks have parity comes round after as many stripes as there are disks: what is only
    // counted is counted by such rounds, since a range may be a whole disk.
    let round = strip * u64::from(geometry.disks);
    while at < end {
        let rounds = (end - at) / round;
        if pages.len() >= RUNS_MAX && at.is_multiple_of(strip) && rounds > 0 {
            let stripes = (0..u64::from(geometry.disks)).map(|stripe| at + stripe * strip);
            count += rounds * stripes.flat_map(|at| of(at, strip)).map(|(_, n)| n).sum::<u64>();
            at += rounds * round;
            continue;
        }
        let length = (strip - at % strip).min(end - at);
        for run in of(at, length) {
            count += length;
            pages.push(run);
        }
        at += length;
    }
    pages.truncate(RUNS_MAX);
    pages.sort_unstable();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (first, length) in pages {
        match runs.last_mut() {
            Some((from, pages)) if *from + *pages == first => *pages += length,
            _ => runs.push((first, length)),
        }
    }
    Affected { runs, pages: count }
}

/// What the last scrubs of an array found.
pub(super) struct Mismatches {
    array: String,
    /// Inconsistent and lost rows, of all scrubs that have ended.
    rows: u64,
    /// When the last complete scrub ended, in seconds since 1970.
    completed_unix_s: Option<u64>,
    /// Rows are wrong that no scrub has repaired since.
    left: bool,
    /// The rows that the alarm has named.
    named: Vec<ScrubRange>,
}

/// Whether a scrub found these rows wrong: what a member cannot read is repaired without an alarm.
fn is_wrong(range: &&ScrubRange) -> bool {
    !matches!(range.wrong, Wrong::Unreadable(_))
}

/// The rows of these ranges that are in none of the ranges named.
fn unnamed(ranges: &[ScrubRange], named: &[ScrubRange]) -> Vec<ScrubRange> {
    let mut left: Vec<ScrubRange> = ranges.iter().filter(is_wrong).copied().collect();
    for known in named.iter().filter(is_wrong) {
        let (from, to) = (known.first, known.first + known.pages);
        let without = |range: ScrubRange| {
            let (first, end) = (range.first, range.first + range.pages);
            let part = |first: u64, end: u64| ScrubRange {
                first,
                pages: end.saturating_sub(first),
                ..range
            };
            let other = range.member != known.member;
            let parts = match other {
                true => [range, part(end, end)],
                false => [part(first, end.min(from)), part(first.max(to), end)],
            };
            parts.into_iter().filter(|part| part.pages > 0)
        };
        left = left.into_iter().flat_map(without).collect();
    }
    left
}

fn mismatched(scrub: &ScrubStatus) -> u64 {
    scrub.inconsistent_rows + scrub.lost_rows
}

impl Mismatches {
    pub(super) fn new(array: &str) -> Mismatches {
        let (array, named) = (array.to_string(), Vec::new());
        Mismatches { array, rows: 0, completed_unix_s: None, left: false, named }
    }

    /// Inconsistent and lost rows found since the start.
    pub(super) fn rows(&self, volume: &Volume) -> u64 {
        let running = volume.scrub_status().filter(|_| volume.scrub_running());
        self.rows + running.as_ref().map_or(0, mismatched)
    }

    pub(super) fn completed_unix_s(&self) -> Option<u64> {
        self.completed_unix_s
    }

    /// Whether rows are wrong that no scrub has repaired since.
    pub(super) fn are_left(&self) -> bool {
        self.left
    }

    /// Raises an alarm about what a running check has found so far: it may take days. Returns
    /// whether it found anything.
    pub(super) fn look(&mut self, volume: &Volume, alarms: &mut Alarms) -> bool {
        let Some(scrub) = volume.scrub_status() else { return false };
        let found = mismatched(&scrub) > 0 && !scrub.repair;
        if found {
            self.left = true;
            self.raise(&scrub, volume, alarms);
        }
        found
    }

    /// A scrub has ended: what it found raises an alarm, or clears one.
    pub(super) fn ended(
        &mut self,
        scrub: &ScrubStatus,
        ended_unix_s: Option<u64>,
        volume: &Volume,
        alarms: &mut Alarms,
    ) {
        self.rows += mismatched(scrub);
        let wrong = mismatched(scrub) > 0;
        let known = alarms.any_cleared_by(&ClearedBy::Scrubbed);
        let left = scrub.rows_left() > 0;
        if scrub.whole {
            self.completed_unix_s = ended_unix_s;
            alarms.clear(&ClearedBy::Scrubbed);
            if !wrong {
                self.named.clear();
            }
        }
        self.left = left || self.left && !scrub.whole;
        if wrong && !(known && scrub.whole && !left) {
            self.raise(scrub, volume, alarms);
        } else if wrong {
            // The rows that an alarm named are repaired now: only new ones are reported.
            let named = core::mem::take(&mut self.named);
            let ranges = unnamed(&scrub.ranges, &named);
            let rows: u64 = ranges.iter().map(|range| range.pages).sum();
            let inconsistent_rows = rows + scrub.rows_elsewhere;
            if inconsistent_rows > 0 {
                let repaired_rows = inconsistent_rows + scrub.unreadable_rows;
                let lost_rows = 0;
                let new = ScrubStatus {
                    ranges,
                    inconsistent_rows,
                    repaired_rows,
                    lost_rows,
                    ..scrub.clone()
                };
                self.raise(&new, volume, alarms);
            }
        }
    }

    /// Raises the alarm about these rows, in place of an earlier one.
    fn raise(&mut self, scrub: &ScrubStatus, volume: &Volume, alarms: &mut Alarms) {
        alarms.clear(&ClearedBy::Scrubbed);
        let text = self.words(scrub, volume.controller().geometry());
        alarms.raise(AlarmText::new("scrub-mismatch", text), ClearedBy::Scrubbed);
        if scrub.whole && !scrub.running {
            self.named.clear();
        }
        // A scrub that did not read all rows does not disprove what was named before.
        self.named.extend(&scrub.ranges);
    }

    fn words(&self, scrub: &ScrubStatus, geometry: &Geometry) -> String {
        let wrong = scrub.ranges.iter().filter(is_wrong);
        let (mut places, mut runs, mut pages) = (Vec::new(), Vec::new(), 0);
        for range in wrong {
            let ScrubRange { member, members, first, pages: rows, .. } = range;
            let last = member + members - 1;
            places.push(format!("{rows} from page {first} on of members {member} to {last}"));
            let found = affected(geometry, range);
            pages += found.pages;
            runs.extend(found.runs);
        }
        let listed = places.len();
        places.truncate(4);
        let mut more = String::new();
        if listed > places.len() || scrub.rows_elsewhere > 0 {
            more = ", and more (destage status lists them)".to_string();
        }
        runs.sort_unstable();
        let bytes = match pages {
            0 => "they affect only parity".to_string(),
            _ => format!("they affect {}", byte_ranges(&runs)),
        };
        let lost = match scrub.lost_rows {
            0 => String::new(),
            rows => format!(", {rows} of them cannot be read at all"),
        };
        let wrong = mismatched(scrub);
        format!(
            "A scrub found {wrong} inconsistent {}{lost} (rows: {}{more}); {bytes}. {}",
            if wrong == 1 { "row" } else { "rows" },
            places.join("; "),
            self.advice(scrub, geometry.level)
        )
    }

    fn advice(&self, scrub: &ScrubStatus, level: Level) -> String {
        let name = &self.array;
        let check = "Compare these bytes with a backup, or with the checksums of the file system";
        if scrub.rows_left() == 0 {
            let how = match level.parities() {
                0 => "the first copy was written over the second",
                2 => "a strip that P and Q identify was computed again, otherwise P and Q were",
                _ => "parity was computed from the data",
            };
            return format!(
                "They are repaired: {how}. If the other side was right, the data is now \
                 wrong. {check}. The next scrub without a mismatch clears this alarm: destage \
                 scrub {name}."
            );
        }
        let meaning = match level.parities() {
            0 => "The copies differ, and which one is right is unknown: reads may return either",
            2 => {
                "Where P and Q do not identify one member, it is unknown which strip is wrong; if \
                 a member fails, its bytes there may be reconstructed wrongly"
            }
            _ => {
                "Parity does not match the data, and which of them is wrong is unknown; if a \
                 member fails, its bytes there are reconstructed wrongly"
            }
        };
        format!(
            "They are not repaired. {meaning}. {check}, restore what is wrong, then: destage scrub \
             {name} --repair."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_engine::array::geometry::Level;

    fn geometry(level: Level, disks: u16) -> Geometry {
        let (strip_pages, group_stripes, disk_pages) = (16, 1, 1600);
        Geometry { level, disks, strip_pages, group_stripes, disk_pages }
    }

    #[test]
    fn rows_are_bytes_of_the_volume_and_parity_is_none() {
        let row = ScrubRange { member: 0, members: 3, first: 9, pages: 1, wrong: Wrong::Parity };
        let five = geometry(Level::Raid5, 3);
        assert_eq!(affected(&five, &row), Affected { runs: vec![(9, 1), (25, 1)], pages: 2 });
        // Whole stripes are one run.
        let stripes = ScrubRange { first: 16, pages: 48, ..row };
        assert_eq!(affected(&five, &stripes), Affected { runs: vec![(32, 96)], pages: 96 });
        let one = |wrong| affected(&five, &ScrubRange { wrong, ..row });
        assert_eq!(one(Wrong::Member(1)), Affected { runs: vec![(25, 1)], pages: 1 });
        // The parity of the first stripe.
        assert_eq!(one(Wrong::Member(2)), Affected::default());
        let ten = geometry(Level::Raid10, 4);
        let pair = ScrubRange { member: 2, members: 2, wrong: Wrong::Copies, ..row };
        assert_eq!(affected(&ten, &pair), Affected { runs: vec![(25, 1)], pages: 1 });
    }

    #[test]
    fn rows_that_are_named_are_taken_from_those_found() {
        let range = |member, first, pages| ScrubRange {
            member,
            members: 2,
            first,
            pages,
            wrong: Wrong::Copies,
        };
        let named = [range(0, 10, 5), range(0, 20, 1), range(2, 0, 100)];
        assert_eq!(unnamed(&[range(0, 11, 2), range(2, 50, 50)], &named), []);
        let left = unnamed(&[range(0, 8, 16), range(4, 10, 1)], &named);
        let parts = [range(0, 8, 2), range(0, 15, 5), range(0, 21, 3), range(4, 10, 1)];
        assert_eq!(left, parts);
        let unreadable = ScrubRange { wrong: Wrong::Unreadable(1), ..range(0, 0, 9) };
        assert_eq!(unnamed(&[unreadable], &[]), []);
    }

    #[test]
    fn a_range_of_all_rows_is_counted_and_its_runs_are_bounded() {
        let ten = geometry(Level::Raid10, 4);
        let all = ScrubRange { member: 0, members: 2, first: 0, pages: 1600, wrong: Wrong::Copies };
        let found = affected(&ten, &all);
        assert_eq!((found.runs.len(), found.pages), (RUNS_MAX, 1600));
        // A whole disk of 16 TB is counted as soon.
        let pages = 1 << 32;
        let six = Geometry { disk_pages: pages, ..geometry(Level::Raid6, 4) };
        let wrong = Wrong::Member(1);
        let all = ScrubRange { member: 0, members: 4, first: 5, pages: pages - 5, wrong };
        let found = affected(&six, &all);
        assert!(found.pages.abs_diff(pages / 2) < 64, "half of it is parity: {}", found.pages);
        assert!(found.runs.len() <= RUNS_MAX);
    }
}
