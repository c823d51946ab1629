//! What the parameters of a DiskSim disk mean as a [`DiskSpec`].
//!
//! Sparing schemes are those of DiskSim 4: 0 none; 1 entire tracks at the end of the zone; 2 and
//! 4 sectors of each cylinder; 3 of each track; 7 and 10 room for the slipped sectors at the end
//! of the zone (10: besides the spares); 8 of each range of cylinders; 9 of each zone. Remapped
//! defects are left out: they move single sectors.
//!
//! What the keys of the buffer mean follows DiskSim's simulator and the measured drives, which
//! agree, where its manual says otherwise:
//!
//! - `Fast write level` 1 and 2 both acknowledge any write once it is in the buffer. The level
//!   decides only what the arm does after it has written one of several that follow each other.
//! - `Buffer continuous read` 4 reads ahead to the end of the track with the next sector, and to
//!   the end of the track after that only if the segment already reaches back to the track
//!   before. `Maximum read-ahead` does not limit it: a segment shorter than the track then keeps
//!   the last of what passed, and the read that follows a read is a miss.
//! - `Read any free blocks` takes effect where sectors come into the buffer as they pass
//!   (`Immediate buffer read`).
//! - `Read-ahead on idle hit` is not used: the measured drives all read on after a hit.

use super::parse::{Block, Entry, Value, parse};
use super::{ConvertError, Source};
use crate::spec::{
    AheadUntil, BusSpec, DiskSpec, HitOverhead, HostSpec, Overhead, ReadAhead, Scheduler, Seek,
    SeekFit, SeekFormula, SeekTable, SparesPer, StartOf, TrackOrder, WriteBack, ZoneSpec, Zones,
};

/// The files of one drive.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// Geometry and mechanics.
    pub model: Source<'a>,
    /// The measured seek curve, where the model names one.
    pub seek: Option<Source<'a>>,
    /// Overheads, queue and buffer; without it there are none, and the window is 1.
    pub specs: Option<Source<'a>>,
}

/// A block and the file it is from, for messages.
#[derive(Clone, Copy)]
struct In<'a> {
    file: &'a str,
    block: &'a Block,
}

impl<'a> In<'a> {
    fn error<T>(&self, line: usize, message: String) -> Result<T, ConvertError> {
        Err(ConvertError { file: self.file.to_string(), line, message })
    }

    fn entry(&self, key: &str) -> Result<&'a Entry, ConvertError> {
        match self.block.entries.iter().find(|e| e.key == key) {
            Some(entry) => Ok(entry),
            None => self.error(self.block.line, format!("`{}` lacks `{key}`", self.block.kind)),
        }
    }

    fn number(&self, key: &str) -> Result<f64, ConvertError> {
        let entry = self.entry(key)?;
        match entry.value {
            Value::Number(number) if number.is_finite() => Ok(number),
            _ => self.error(entry.line, format!("`{key}` must be a number")),
        }
    }

    fn number_or(&self, key: &str, otherwise: f64) -> Result<f64, ConvertError> {
        match self.block.entries.iter().any(|e| e.key == key) {
            true => self.number(key),
            false => Ok(otherwise),
        }
    }

    fn count(&self, key: &str) -> Result<u32, ConvertError> {
        let number = self.number(key)?;
        if !(0.0..=4e9).contains(&number) {
            return self.error(self.entry(key)?.line, format!("`{key}` must be from 0 to 4e9"));
        }
        Ok(number.round() as u32)
    }

    fn words(&self, key: &str) -> Result<&'a str, ConvertError> {
        let entry = self.entry(key)?;
        match &entry.value {
            Value::Words(words) => Ok(words),
            _ => self.error(entry.line, format!("`{key}` must be a word")),
        }
    }

    fn child(&self, key: &str) -> Result<In<'a>, ConvertError> {
        let entry = self.entry(key)?;
        match &entry.value {
            Value::Block(block) => Ok(In { file: self.file, block }),
            _ => self.error(entry.line, format!("`{key}` must be a block")),
        }
    }

    fn list(&self, key: &str) -> Result<&'a [(Value, usize)], ConvertError> {
        let entry = self.entry(key)?;
        match &entry.value {
            Value::List(list) => Ok(list),
            _ => self.error(entry.line, format!("`{key}` must be a list in brackets")),
        }
    }

    fn numbers(&self, key: &str) -> Result<Vec<f64>, ConvertError> {
        let number = |(value, line): &(Value, usize)| match value {
            Value::Number(number) if number.is_finite() => Ok(*number),
            _ => self.error(*line, format!("`{key}` must hold numbers only")),
        };
        self.list(key)?.iter().map(number).collect()
    }
}

/// A spec of the drive that the files describe, valid and named `name`.
///
/// # Errors
/// File, line and what is wrong there: bad syntax, a missing or unfit parameter, or a drive
/// that the spec cannot express.
pub fn convert(name: &str, sources: Sources<'_>) -> Result<DiskSpec, ConvertError> {
    let blocks = parse(sources.model)?;
    let block = find(&blocks, sources.model, "dm_disk")?;
    let disk = In { file: sources.model.file, block };
    let mechanics = disk.child("Mechanical Model")?;
    let layout = disk.child("Layout Model")?;
    let heads = disk.count("Number of data surfaces")?;
    let mut spec = DiskSpec {
        name: name.to_string(),
        summary: block.kind.trim_start_matches("dm_disk ").to_string(),
        source: "DiskSim 4.0 parameter set (CMU PDL), converted by `destage disks convert`"
            .to_string(),
        sector_bytes: 512,
        sectors: None,
        units: 1,
        heads,
        rpm: rpm(mechanics)?,
        head_switch_ms: mechanics.number("Head switch time")?,
        write_settle_ms: mechanics.number_or("Add. write settling delay", 0.0)?,
        jog_ms: 0.0,
        order: match layout.count("LBN-to-PBN mapping scheme")? {
            0 => TrackOrder::Forward,
            1 => TrackOrder::SerpentineByZone,
            2 => TrackOrder::Serpentine,
            other => {
                return bad(layout, "LBN-to-PBN mapping scheme", &format!("0 to 2, not {other}"));
            }
        },
        spares_per: spares_per(layout)?,
        range_cylinders: layout.count("Rangesize for sparing")?.max(1),
        window: 1,
        scheduler: Scheduler::Fcfs,
        max_wait_ms: 0.0,
        read_on_arrival: false,
        bus_mb_per_s: None,
        bus: None,
        overhead: Overhead::default(),
        host: HostSpec::default(),
        read_ahead: None,
        write_back: None,
        media_cache: None,
        shingled: None,
        seek: seek(mechanics, sources.seek)?,
        zones: Zones::List(zones(layout, heads)?),
    };
    if let Some(source) = sources.specs {
        controller(&mut spec, source)?;
    }
    finish(spec, disk)
}

/// Caps the drive at its block count and checks the result.
fn finish(mut spec: DiskSpec, disk: In<'_>) -> Result<DiskSpec, ConvertError> {
    let invalid = |error: crate::SpecError| ConvertError {
        file: disk.file.to_string(),
        line: disk.block.line,
        message: error.to_string(),
    };
    spec.validate().map_err(invalid)?;
    let held: u64 = crate::zones(&spec).iter().map(|z| z.sectors).sum();
    let blocks = disk.number_or("Block count", 0.0)?.max(0.0) as u64;
    if (1..held).contains(&blocks) {
        spec.sectors = Some(blocks);
    }
    spec.validate().map_err(invalid)?;
    Ok(spec)
}

fn find<'a>(
    blocks: &'a [Block],
    source: Source<'_>,
    kind: &str,
) -> Result<&'a Block, ConvertError> {
    let is_kind = |b: &&Block| b.kind.split(' ').next() == Some(kind);
    blocks.iter().find(is_kind).ok_or_else(|| ConvertError {
        file: source.file.to_string(),
        line: 1,
        message: format!("no `{kind}` block"),
    })
}

fn bad<T>(block: In<'_>, key: &str, expected: &str) -> Result<T, ConvertError> {
    block.error(block.entry(key)?.line, format!("`{key}` must be {expected}"))
}

fn rpm(mechanics: In<'_>) -> Result<f64, ConvertError> {
    let rpm = mechanics.number("Rotation speed (in rpms)")?;
    Ok(rpm * (1.0 + mechanics.number_or("Percent error in rpms", 0.0)? / 100.0))
}

fn spares_per(layout: In<'_>) -> Result<SparesPer, ConvertError> {
    match layout.count("Sparing scheme used")? {
        0 | 1 | 7 | 9 | 10 => Ok(SparesPer::Zone),
        2 | 4 => Ok(SparesPer::Cylinder),
        3 => Ok(SparesPer::Track),
        8 => Ok(SparesPer::Range),
        other => bad(layout, "Sparing scheme used", &format!("0 to 4 or 7 to 10, not {other}")),
    }
}

fn seek(mechanics: In<'_>, file: Option<Source<'_>>) -> Result<Seek, ConvertError> {
    match mechanics.words("Seek type")? {
        "extracted" => match file {
            Some(source) => Ok(Seek::Table(SeekTable { points: seek_points(source)? })),
            None => bad(mechanics, "Full seek curve", "given as a second file"),
        },
        "curve" | "threepoint_curve" => Ok(Seek::Fit(SeekFit {
            one_cylinder_ms: mechanics.number("Single cylinder seek time")?,
            third_ms: mechanics.number("Average seek time")?,
            full_ms: mechanics.number("Full strobe seek time")?,
        })),
        "hpl" => formula(mechanics, Vec::new()),
        "hplplus10" => formula(mechanics, mechanics.numbers("First ten seek times")?),
        _ => bad(mechanics, "Seek type", "extracted, curve, threepoint_curve, hpl or hplplus10"),
    }
}

fn formula(mechanics: In<'_>, mut first_ms: Vec<f64>) -> Result<Seek, ConvertError> {
    let values = mechanics.numbers("HPL seek equation values")?;
    let [threshold, short_ms, short_sqrt_ms, long_ms, long_cylinder_ms, single_ms] = values[..]
    else {
        return bad(mechanics, "HPL seek equation values", "six numbers");
    };
    if !(1.0..=4e6).contains(&threshold) {
        return bad(mechanics, "HPL seek equation values", "a distance first, from 1 to 4e6");
    }
    if first_ms.is_empty() && single_ms >= 0.0 {
        first_ms.push(single_ms);
    }
    let short_until = threshold as u32 - 1;
    let formula =
        SeekFormula { first_ms, short_until, short_ms, short_sqrt_ms, long_ms, long_cylinder_ms };
    Ok(Seek::Formula(formula))
}

/// The lines `distance, ms` of a seek file, and whether they are as many as it says.
fn seek_points(source: Source<'_>) -> Result<Vec<(u32, f64)>, ConvertError> {
    let error = |line: usize, message: &str| ConvertError {
        file: source.file.to_string(),
        line,
        message: message.to_string(),
    };
    let mut promised = None;
    let mut points = Vec::new();
    for (line, text) in (1..).zip(source.text.lines()) {
        let text = text.trim();
        if let Some((what, count)) = text.split_once(':') {
            if what.trim() != "Seek distances measured" {
                return Err(error(line, "expected `Seek distances measured: N`"));
            }
            promised = count.trim().parse().ok();
        } else if !text.is_empty() {
            let pair = text.split_once(',').and_then(|(distance, ms)| {
                Some((distance.trim().parse::<u32>().ok()?, ms.trim().parse::<f64>().ok()?))
            });
            points.push(pair.ok_or_else(|| error(line, "expected `distance, milliseconds`"))?);
        }
    }
    if promised.is_some_and(|n: usize| n != points.len()) {
        return Err(error(1, &format!("says otherwise, but there are {} points", points.len())));
    }
    Ok(points)
}

fn zones(layout: In<'_>, heads: u32) -> Result<Vec<ZoneSpec>, ConvertError> {
    let mut list = Vec::new();
    let mut next = 0;
    for (value, line) in layout.list("Zones")? {
        let Value::Block(block) = value else {
            return layout.error(*line, "`Zones` must hold blocks only".to_string());
        };
        let mut zone = zone(In { file: layout.file, block }, layout, heads)?;
        let first = zone.first_cylinder.unwrap_or(next);
        if first == next {
            zone.first_cylinder = None;
        }
        next = first.saturating_add(zone.cylinders);
        list.push(zone);
    }
    Ok(list)
}

fn zone(zone: In<'_>, layout: In<'_>, heads: u32) -> Result<ZoneSpec, ConvertError> {
    let first = zone.count("First cylinder number")?;
    let last = zone.count("Last cylinder number")?;
    if last < first || last - first > 4_000_000 {
        return bad(zone, "Last cylinder number", "at or after the first, within 4000000");
    }
    let track = zone.count("Blocks per track")?.max(1);
    let spares = zone.count("Number of spares")?;
    let mut slips = Vec::new();
    for number in zone.numbers("slips")? {
        slips.push(number.clamp(0.0, 4e9) as u32);
    }
    slips.sort_unstable();
    slips.dedup();
    let scheme = layout.count("Sparing scheme used")?;
    let stretch = if scheme == 1 { track } else { 1 };
    let mut stretches: Vec<(u32, u32)> =
        slips.iter().map(|s| (s.saturating_mul(stretch), stretch)).collect();
    let slipped = stretches.len() as u32;
    let spare_sectors = match scheme {
        0 => 0,
        1 => spares.saturating_mul(track),
        7 => slipped,
        10 => spares.saturating_add(slipped),
        _ => spares,
    };
    if scheme == 8 {
        // Ranges cut short at the end of a zone have no spares.
        let range = layout.count("Rangesize for sparing")?.max(1);
        let whole = (last - first + 1) / range * range;
        let end = u64::from(whole) * u64::from(heads) * u64::from(track);
        stretches.retain(|s| u64::from(s.0) < end);
    }
    Ok(ZoneSpec {
        first_cylinder: Some(first),
        cylinders: last - first + 1,
        sectors_per_track: track,
        track_skew: Some(zone.count("Skew for track switch")? % track),
        cylinder_skew: Some(zone.count("Skew for cylinder switch")? % track),
        offset_sectors: Some(zone.count("Offset of first block")? % track),
        unused_front: zone.count("Empty space at zone front")?,
        spare_sectors,
        slips: stretches,
    })
}

/// Overheads, queue, bus and buffer.
fn controller(spec: &mut DiskSpec, source: Source<'_>) -> Result<(), ConvertError> {
    let blocks = parse(source)?;
    let disk = In { file: source.file, block: find(&blocks, source, "disksim_disk")? };
    let caches = disk.number_or("Enable caching in buffer", 0.0)? > 0.0;
    spec.overhead = overhead(disk, caches)?;
    spec.window = disk.number_or("Max queue length", 1.0)?.clamp(1.0, 1e5) as usize;
    spec.read_on_arrival = disk.number_or("Immediate buffer read", 0.0)? > 0.0;
    spec.bus = bus(disk)?;
    if !caches {
        return Ok(());
    }
    let segment_sectors = disk.count("Segment size (in blks)")?;
    let continues = disk.number_or("Buffer continuous read", 0.0)?;
    if continues > 0.0 && segment_sectors > 0 {
        spec.read_ahead = Some(ReadAhead {
            segments: disk.count("Number of buffer segments")?.max(1),
            segment_sectors,
            ahead_sectors: disk.count("Maximum read-ahead (blks)")?,
            until: match continues as u32 {
                1 => AheadUntil::Track,
                2 => AheadUntil::Cylinder,
                4 => AheadUntil::NextTrack,
                _ => AheadUntil::End,
            },
            // What passes before comes into the buffer only where sectors do so as they pass.
            keeps_before: spec.read_on_arrival
                && disk.number_or("Read any free blocks", 0.0)? > 0.0,
            drops_read: false,
        });
    }
    let fast_writes = disk.number_or("Fast write level", 0.0)?;
    if fast_writes > 0.0 && segment_sectors > 0 {
        let segments = disk.count("Maximum number of write segments")?.max(1);
        spec.write_back = Some(WriteBack {
            capacity_sectors: segments.saturating_mul(segment_sectors),
            ..WriteBack::default()
        });
    }
    Ok(())
}

/// What commands cost besides mechanics, by kind and by what came before.
fn overhead(disk: In<'_>, caches: bool) -> Result<Overhead, ConvertError> {
    let scale = disk.number_or("Time scale for overheads", 1.0)?;
    let every_ms = disk.number_or("Per-request overhead time", 0.0)?;
    let scaled = |key: &str| Ok(scale * disk.number_or(key, 0.0)?);
    let over = |key: &str| Ok(every_ms + scaled(key)?);
    let read_ms = over("Read miss over. after read")?;
    let write_ms = over("Write miss over. after write")?;
    let other = |key: &str, same_ms: f64| {
        let given = disk.block.entries.iter().any(|e| e.key == key);
        Ok(if given { Some(over(key)?).filter(|ms| *ms != same_ms) } else { None })
    };
    let hit = HitOverhead {
        read_ms: over("Read hit over. after read")?,
        read_after_write_ms: over("Read hit over. after write")?,
        write_ms: over("Write hit over. after write")?,
        write_after_read_ms: over("Write hit over. after read")?,
    };
    Ok(Overhead {
        read_ms,
        write_ms,
        read_after_write_ms: other("Read miss over. after write", read_ms)?,
        write_after_read_ms: other("Write miss over. after read", write_ms)?,
        hit: caches.then_some(hit),
        read_done_ms: scaled("Read completion overhead")?,
        write_done_ms: scaled("Write completion overhead")?,
        ..Overhead::default()
    })
}

/// The rate at which the drive itself drives the bus; the rate of a slower bus is given elsewhere.
fn bus(disk: In<'_>) -> Result<Option<BusSpec>, ConvertError> {
    let sector_ms = disk.number_or("Bulk sector transfer time", 0.0)?;
    if sector_ms <= 0.0 {
        return Ok(None);
    }
    let held = disk.number_or("Hold bus entire read xfer", 0.0)? > 0.0;
    Ok(Some(BusSpec {
        read_sector_ms: sector_ms,
        write_sector_ms: sector_ms,
        read_start: if held { disk.number_or("High (read) water mark", 0.0)? } else { 0.0 },
        read_start_of: StartOf::Request,
        reselect_ms: 0.0,
        write_lead_ms: 0.0,
    }))
}
