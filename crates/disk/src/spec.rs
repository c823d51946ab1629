//! What a disk is: the contents of a `specs/disks/*.toml` file.
//!
//! Every field may be changed after reading, then [`DiskSpec::validate`] says whether the
//! result is still a disk. Times are milliseconds here and integer nanoseconds everywhere else.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A disk drive, as written in its spec file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// Name users type.
    pub name: String,
    /// One line on what drive this is.
    pub summary: String,
    /// Where each group of numbers is from.
    pub source: String,
    /// Bytes in a sector of this drive; disk addresses count these.
    #[serde(default = "default_sector_bytes")]
    pub sector_bytes: u32,
    /// Sectors the drive offers; absent: all that its zones hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors: Option<u64>,
    /// Logical units of the drive, of which this is one; they fail together.
    #[serde(default = "default_one", skip_serializing_if = "is_one")]
    pub units: u32,
    /// Surfaces with data, one head each.
    pub heads: u32,
    /// Revolutions a minute.
    pub rpm: f64,
    /// Time to change to another head of the cylinder, in ms.
    pub head_switch_ms: f64,
    /// Extra time before writing after a seek or head switch, in ms; negative where the seek
    /// curve was measured with reads and writes came sooner. A command that continues the one
    /// before does not pay it.
    #[serde(default)]
    pub write_settle_ms: f64,
    /// Least time of moving the heads when a read follows a write on the medium or a write a
    /// read, in ms: the two elements of a magnetoresistive head are not over the same track.
    #[serde(default, skip_serializing_if = "is_zero_ms")]
    pub jog_ms: f64,
    /// Order in which addresses run over the surfaces.
    #[serde(default)]
    pub order: TrackOrder,
    /// Where the spare sectors are.
    #[serde(default)]
    pub spares_per: SparesPer,
    /// Cylinders that share their spares, for `spares_per = "range"`.
    #[serde(default = "default_one")]
    pub range_cylinders: u32,
    /// Commands the drive chooses among.
    pub window: usize,
    /// How it chooses.
    pub scheduler: Scheduler,
    /// A queued command that has waited this long is served before all others, the oldest first,
    /// in ms; 0: never.
    #[serde(default, skip_serializing_if = "is_zero_ms")]
    pub max_wait_ms: f64,
    /// Reads begin with whatever requested sector comes first under the head, where all of them
    /// lie on one track.
    #[serde(default, skip_serializing_if = "is_false")]
    pub read_on_arrival: bool,
    /// Rate of a host bus whose transfers overlap the medium's to the last sector, in 10^6
    /// bytes/s; absent: never the bottleneck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_mb_per_s: Option<f64>,
    /// A host bus in more detail, in place of `bus_mb_per_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus: Option<BusSpec>,
    /// Time commands cost besides mechanics.
    #[serde(default)]
    pub overhead: Overhead,
    /// What the host that used this drive did.
    #[serde(default)]
    pub host: HostSpec,
    /// Read-ahead segments; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<ReadAhead>,
    /// Write-back cache; absent: writes go to the medium before they are acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_back: Option<WriteBack>,
    /// A reserved stretch of the medium to which scattered writes go first; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_cache: Option<MediaCache>,
    /// Bands of overlapping tracks; absent: every sector can be written alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shingled: Option<Shingled>,
    /// Seek time by distance.
    pub seek: Seek,
    /// Zones from the outermost cylinder inwards.
    pub zones: Zones,
}

fn default_sector_bytes() -> u32 {
    512
}

fn default_one() -> u32 {
    1
}

/// Order in which addresses run over a cylinder's surfaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrackOrder {
    /// From head 0 upwards in every cylinder.
    #[default]
    Forward,
    /// Every other cylinder backwards; the first cylinder of each zone is forward.
    SerpentineByZone,
    /// Every odd cylinder backwards.
    Serpentine,
}

/// Where the spare sectors are: at the end of each of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SparesPer {
    /// Each track.
    Track,
    /// Each cylinder.
    Cylinder,
    /// Each `range_cylinders` cylinders of a zone.
    Range,
    /// Each zone.
    #[default]
    Zone,
}

/// How the drive chooses among the commands in its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// Arrival order.
    Fcfs,
    /// The next address at or after the end of the last command, else the lowest.
    Cscan,
    /// Least overhead + seek + rotation; ties by arrival.
    Sptf,
}

/// Time a command costs besides mechanics, in ms. All are 0 unless given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overhead {
    /// Paid by a command that is submitted when nothing is outstanding.
    pub idle_ms: f64,
    /// Paid by every command unless it continues the one before it: same direction, first
    /// sector right after that one's last.
    pub per_command_ms: f64,
    /// Paid by every read.
    pub read_ms: f64,
    /// Paid by every write.
    pub write_ms: f64,
    /// In place of `read_ms` by a read that follows a write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_after_write_ms: Option<f64>,
    /// In place of `write_ms` by a write that follows a read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_after_read_ms: Option<f64>,
    /// Of commands that the drive's buffer serves, in place of the four above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hit: Option<HitOverhead>,
    /// Paid by every read once its data are transferred.
    #[serde(skip_serializing_if = "is_zero_ms")]
    pub read_done_ms: f64,
    /// Paid by every write once it is on the medium or accepted.
    #[serde(skip_serializing_if = "is_zero_ms")]
    pub write_done_ms: f64,
}

/// Time that commands cost which the drive's buffer serves, in ms, by what came before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HitOverhead {
    /// A read after a read.
    pub read_ms: f64,
    /// A read after a write.
    pub read_after_write_ms: f64,
    /// A write after a write.
    pub write_ms: f64,
    /// A write after a read.
    pub write_after_read_ms: f64,
}

/// A host bus on which a sector follows the medium: a read's last sector crosses it after it was
/// read, a write's first before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusSpec {
    /// Time a sector takes to the host, in ms.
    pub read_sector_ms: f64,
    /// Time a sector takes from the host, in ms.
    pub write_sector_ms: f64,
    /// Share of a read that is in the buffer before its transfer begins; the bus is then held to
    /// the end.
    #[serde(default, skip_serializing_if = "is_zero_ms")]
    pub read_start: f64,
    /// What that is a share of.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_start_of: StartOf,
    /// Time to get the bus back once that much of a read is in the buffer, in ms.
    #[serde(default, skip_serializing_if = "is_zero_ms")]
    pub reselect_ms: f64,
    /// Time before a write's first sector crosses the bus, in ms. The arm moves during this time.
    #[serde(default, skip_serializing_if = "is_zero_ms")]
    pub write_lead_ms: f64,
}

/// What is in the buffer, in part or whole, before a read's transfer begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartOf {
    /// All that is read.
    #[default]
    Request,
    /// What is read of each track.
    Track,
}

/// What the host that used this drive did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostSpec {
    /// How a destage's runs were issued.
    pub issue: Issue,
}

/// How the runs of a destaged group reach the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Issue {
    /// All runs of a group at once.
    #[default]
    Group,
    /// One run after another.
    Runs,
}

/// Read-ahead segments of the drive's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadAhead {
    /// Segments; the least recently used one is given to a new stream.
    pub segments: u32,
    /// Sectors a segment holds.
    pub segment_sectors: u32,
    /// Sectors read past the end of a request while idle; with `until = "next-track"` the track
    /// alone says where it stops.
    pub ahead_sectors: u32,
    /// What reading ahead does not go beyond.
    #[serde(default, skip_serializing_if = "is_default")]
    pub until: AheadUntil,
    /// What passes under the head while it waits for a read's first sector is kept too.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keeps_before: bool,
    /// What went to the host is not kept: it cannot be read from the buffer again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub drops_read: bool,
}

/// Where read-ahead stops, if it has not read its fill before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AheadUntil {
    /// The end of the drive.
    #[default]
    End,
    /// The end of the track on which the request ended.
    Track,
    /// The end of the cylinder on which the request ended.
    Cylinder,
    /// The end of the track with the next sector; if the segment holds sectors of the track
    /// before that one, as after sequential reads, the end of the track after it.
    NextTrack,
}

/// Write-back cache of the drive, which forgets what it holds when the power fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteBack {
    /// Sectors that may be acknowledged before they are on the medium.
    pub capacity_sectors: u32,
    /// Only writes that begin where the write before ended are acknowledged early.
    #[serde(default, skip_serializing_if = "is_false")]
    pub appends_only: bool,
    /// Stretches of sectors that it holds at once; 0: any number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub extents: u32,
    /// It writes the nearest of this many oldest stretches first; 0: of all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub window: u32,
    /// Most sectors that it writes before it looks at the queue again; 0: all of a stretch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub write_sectors: u32,
    /// Time of a FLUSH besides the writes, where anything is to be written, in ms.
    #[serde(default, skip_serializing_if = "is_zero_ms")]
    pub flush_ms: f64,
}

/// A reserved stretch of the medium, written as a log: scattered writes go there first, and are
/// moved to their places later. It keeps what it holds without power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaCache {
    /// Sectors of the stretch, besides those that the drive offers.
    pub sectors: u64,
    /// Where it is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub place: CachePlace,
    /// Most stretches of sectors that its map holds.
    pub map_entries: u32,
    /// Most sectors that one entry of the log takes; it may take several scattered writes.
    pub entry_sectors: u32,
    /// Time of an entry besides moving the heads and the transfer, in ms.
    #[serde(default, skip_serializing_if = "is_zero_ms")]
    pub entry_ms: f64,
    /// Fewer stretches than this that wait to be written are written in place.
    #[serde(default = "default_one", skip_serializing_if = "is_one")]
    pub min_extents: u32,
    /// The drive begins to move what it holds after this time without a command, in ms; 0: only
    /// when it is full.
    #[serde(default, skip_serializing_if = "is_zero_ms")]
    pub idle_ms: f64,
}

/// Where a media cache is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CachePlace {
    /// On the outermost cylinders, before the first sector.
    #[default]
    Outer,
    /// Behind the last sector.
    Inner,
}

/// Shingled recording that the drive manages: a band can only be written as one, from its first
/// sector on. What does not go to the media cache is a sequential stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shingled {
    /// Tracks whose sectors are a band.
    pub band_tracks: u32,
    /// Sectors written one after the other from which on a stream goes straight to its bands.
    pub stream_sectors: u32,
}

/// Seek time by distance in cylinders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seek {
    /// `a + b sqrt(d) + c d` through three points.
    Fit(SeekFit),
    /// Two formulas, one for short and one for long seeks.
    Formula(SeekFormula),
    /// Measured points, straight lines between them.
    Table(SeekTable),
}

/// Three points that define the curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekFit {
    /// To the next cylinder, in ms.
    pub one_cylinder_ms: f64,
    /// Over a third of the stroke, in ms.
    pub third_ms: f64,
    /// Over the full stroke, in ms.
    pub full_ms: f64,
}

/// `constant + per_sqrt sqrt(d)` up to a distance, `constant + per_cylinder d` beyond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekFormula {
    /// Times for distances 1, 2, ... that replace the formula, in ms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_ms: Vec<f64>,
    /// Greatest distance of a short seek, in cylinders.
    pub short_until: u32,
    /// Constant of short seeks, in ms.
    pub short_ms: f64,
    /// Factor of sqrt(cylinders) of short seeks, in ms.
    pub short_sqrt_ms: f64,
    /// Constant of long seeks, in ms.
    pub long_ms: f64,
    /// Factor of cylinders of long seeks, in ms.
    pub long_cylinder_ms: f64,
}

/// Measured seek times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekTable {
    /// Pairs of distance in cylinders and time in ms, distances ascending.
    pub points: Vec<(u32, f64)>,
}

/// The zones of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Zones {
    /// Zones of equally many cylinders whose track length falls linearly; the number of
    /// cylinders is the least that holds the drive's `sectors`.
    Linear(LinearZones),
    /// Each zone by itself.
    List(Vec<ZoneSpec>),
}

/// Zones of equally many cylinders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearZones {
    /// How many.
    pub count: u32,
    /// Sectors on a track of the outermost.
    pub outer_sectors: u32,
    /// Sectors on a track of the innermost.
    pub inner_sectors: u32,
}

/// One zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// Its first cylinder; absent: the one after the previous zone's last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_cylinder: Option<u32>,
    /// Cylinders.
    pub cylinders: u32,
    /// Sectors on a track.
    pub sectors_per_track: u32,
    /// Sectors by which each track of a cylinder starts later than the one before it;
    /// absent: the fewest that cover a head switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track_skew: Option<u32>,
    /// The same for the first track of a cylinder; absent: the fewest that cover the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cylinder_skew: Option<u32>,
    /// Where the zone's first sector is, in sectors after the index; absent: where the head
    /// is when it comes from the end of the zone before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_sectors: Option<u32>,
    /// Sectors at the zone's front that hold no data.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unused_front: u32,
    /// Spare sectors at the end of each unit that `spares_per` names.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spare_sectors: u32,
    /// Defective stretches skipped: first sector counted from the zone's start, and length.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<(u32, u32)>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature serde asks for
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature serde asks for
fn is_one(number: &u32) -> bool {
    *number == 1
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature serde asks for
fn is_zero_ms(number: &f64) -> bool {
    *number == 0.0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature serde asks for
fn is_false(flag: &bool) -> bool {
    !*flag
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Why a spec is not a disk.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// The text is not TOML, lacks a key or has one that nobody knows.
    #[error("{}{message}", in_line(*line))]
    Parse {
        /// Line, counted from 1; 0 if it concerns the entire file.
        line: usize,
        /// What is wrong, in one line.
        message: String,
    },
    /// A value, or a combination, cannot be.
    #[error("`{key}` must be {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// What it must be.
        expected: String,
    },
    /// No built-in disk of that name; the known ones follow, nearest first.
    #[error(
        "unknown disk `{name}`; known: {}; or give the path of a .toml file",
        .known.join(", ")
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<&'static str>,
    },
    /// The spec file cannot be read.
    #[error("cannot read {path}: {message}")]
    File {
        /// Its path.
        path: String,
        /// Why not.
        message: String,
    },
    /// The spec file can be read but is not a disk.
    #[error("{path}: {error}")]
    InFile {
        /// Its path.
        path: String,
        /// What is wrong with it.
        error: Box<SpecError>,
    },
}

/// The line and a colon; empty for the entire file.
fn in_line(line: usize) -> String {
    if line == 0 { String::new() } else { format!("line {line}: ") }
}

impl DiskSpec {
    /// Reads and validates the text of a spec file.
    ///
    /// # Errors
    /// [`SpecError::Parse`] for bad TOML and unknown or missing keys, [`SpecError::Value`] for
    /// values that cannot be.
    pub fn from_toml(text: &str) -> Result<DiskSpec, SpecError> {
        let spec: DiskSpec = toml::from_str(text).map_err(|error| parse_error(text, &error))?;
        spec.validate()?;
        Ok(spec)
    }

    /// The spec as the text of a spec file, which [`DiskSpec::from_toml`] reads back.
    ///
    /// # Panics
    /// Never: every spec has a TOML form.
    pub fn to_toml(&self) -> String {
        let plain = toml::to_string(self).expect("every field has a TOML form");
        let laid_out = self.laid_out(&plain);
        // A text that looks like a list, or has blank lines, must stay as it is.
        let same = toml::from_str::<DiskSpec>(&laid_out).is_ok_and(|read| read == *self);
        if same { laid_out } else { plain }
    }

    /// This TOML form with lists of zones and of pairs in the form that people read.
    fn laid_out(&self, plain: &str) -> String {
        let form = "every field has a TOML form";
        let Zones::List(list) = &self.zones else {
            return wrap_pairs(plain);
        };
        let without = DiskSpec { zones: Zones::List(Vec::new()), ..self.clone() };
        let mut text = toml::to_string(&without).expect(form).replace("[zones]\nlist = []\n", "");
        for zone in list {
            text.push_str("\n[[zones.list]]\n");
            text.push_str(&toml::to_string(zone).expect(form));
        }
        wrap_pairs(&text.replace("\n\n\n", "\n\n"))
    }

    /// Pages of 4 KiB as sectors of this drive.
    pub fn sectors_per_page(&self) -> u32 {
        4096 / self.sector_bytes
    }
}

/// Breaks long lists of pairs into lines of at most 100 columns.
fn wrap_pairs(text: &str) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for line in text.lines() {
        let mut column = 0;
        let is_list = line.split_once(" = ").is_some_and(|(_, value)| value.starts_with('['));
        for part in line.split_inclusive("], ") {
            if is_list && column > 0 && column + part.len() > 100 {
                wrapped.truncate(wrapped.trim_end().len());
                wrapped.push_str("\n    ");
                column = 4;
            }
            wrapped.push_str(part);
            column += part.len();
        }
        wrapped.push('\n');
    }
    wrapped
}

/// The error in one line, with its line number and the key written there.
fn parse_error(text: &str, error: &toml::de::Error) -> SpecError {
    let message = error.message().lines().collect::<Vec<_>>().join(" ");
    let Some(span) = error.span() else { return SpecError::Parse { line: 0, message } };
    let before = text.get(..span.start).unwrap_or(text);
    let line = 1 + before.matches('\n').count();
    let key = text.lines().nth(line - 1).and_then(|written| written.split_once('='));
    let message = match key.map(|(key, _)| format!("`{}`", key.trim())) {
        Some(key) if error.message().starts_with("invalid") => format!("{key}: {message}"),
        _ => message,
    };
    SpecError::Parse { line, message }
}
