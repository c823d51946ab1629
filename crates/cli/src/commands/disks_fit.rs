//! `destage disks fit`: a spec from a data sheet's numbers, or from what fio measured.

use super::{format, text};
use crate::failure::Failure;
use crate::paths::Paths;
use clap::ArgMatches;
use destage_disk::fit::{DEPTHS, Fit, FitRow, Known};
use destage_report::{Cell, Table};
use serde_json::Value;
use std::path::Path;

/// Fits, writes the spec, and lists what it leaves open.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let out = text(matches, "out").expect("required");
    let files: Vec<&str> =
        matches.get_many::<String>("fio").unwrap_or_default().map(String::as_str).collect();
    Paths::reading(files.iter().copied()).spec(Path::new(out), matches.get_flag("force"))?;
    let mut known = known(matches, out)?;
    for file in files {
        read_fio(file, &mut known)?;
    }
    let fit = known.fit().map_err(Failure::usage)?;
    destage_report::write_file(Path::new(out), written(&fit).as_bytes())?;
    Ok(table(&fit).render(format(matches)))
}

fn known(matches: &ArgMatches, out: &str) -> Result<Known, Failure> {
    let number = |name: &str| matches.get_one::<f64>(name).copied();
    for (name, unit) in [
        ("rpm", "revolutions per minute"),
        ("seek", "ms"),
        ("write-seek", "ms"),
        ("track-seek", "ms"),
        ("full-seek", "ms"),
        ("outer", "MB/s"),
        ("inner", "MB/s"),
    ] {
        if let Some(value) = number(name).filter(|value| !(*value > 0.0 && *value < 1e6)) {
            return Err(Failure::usage(format!(
                "--{name} takes a number of {unit} above 0 and below 1000000, not {value}"
            )));
        }
    }
    let stem = Path::new(out).file_stem().and_then(|stem| stem.to_str()).unwrap_or("disk");
    let heads = matches.get_one::<u64>("heads");
    Ok(Known {
        name: text(matches, "name").unwrap_or(stem).to_string(),
        capacity_bytes: decimal_bytes("capacity", text(matches, "capacity").expect("required"))?,
        rpm: number("rpm").expect("required"),
        sector_bytes: *matches.get_one::<u64>("sector-bytes").expect("default") as u32,
        heads: heads.map(|heads| (*heads).min(1 << 20) as u32),
        seek_ms: number("seek"),
        write_seek_ms: number("write-seek"),
        track_seek_ms: number("track-seek"),
        full_seek_ms: number("full-seek"),
        outer_mb_per_s: number("outer"),
        inner_mb_per_s: number("inner"),
        cache_bytes: text(matches, "cache").map(|text| decimal_bytes("cache", text)).transpose()?,
        reads: Vec::new(),
    })
}

/// Bytes as makers of disks count them: K, M, G and T are powers of 1,000; Ki to Ti of 1,024.
fn decimal_bytes(name: &str, text: &str) -> Result<u64, Failure> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].trim_end_matches('B') {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024f64.powi(2),
        "Gi" => 1024f64.powi(3),
        "Ti" => 1024f64.powi(4),
        _ => f64::NAN,
    };
    let bytes = digits.parse::<f64>().map(|number| number * unit).unwrap_or(f64::NAN);
    match (1.0..1e18).contains(&bytes) {
        true => Ok(bytes.round() as u64),
        false => Err(Failure::usage(format!("--{name} {text}: a size, e.g. 20T, 256M or 900GB"))),
    }
}

/// Share of a drive that is as good as all of it.
const ALL: f64 = 0.9;

/// A job of fio's JSON, and the options that hold of all.
struct Job<'a> {
    file: &'a str,
    job: &'a Value,
    global: &'a Value,
}

impl Job<'_> {
    fn option(&self, name: &str) -> Option<&str> {
        let own = self.job.get("job options").and_then(|options| options.get(name));
        own.or_else(|| self.global.get(name)).and_then(Value::as_str)
    }

    fn wrong(&self, what: &str) -> Failure {
        let name = self.job.get("jobname").and_then(Value::as_str).unwrap_or("without a name");
        Failure::failed(format!("{}: job {name}: {what}", self.file))
    }

    fn count(&self, name: &str) -> Result<u64, Failure> {
        let wrong = |_| self.wrong(&format!("{name} is not a number"));
        self.option(name).map_or(Ok(1), |text| text.parse().map_err(wrong))
    }

    /// What it measured of its reads.
    fn measured(&self, what: &str) -> Result<f64, Failure> {
        let value = self.job.get("read").and_then(|read| read.get(what)).and_then(Value::as_f64);
        value.filter(|value| *value > 0.0).ok_or_else(|| {
            self.wrong(&format!("has no read.{what} above 0. Use fio --output-format=json"))
        })
    }

    /// Adds what the job says of the drive; jobs that do not read say nothing.
    fn add_to(&self, known: &mut Known) -> Result<(), Failure> {
        let kind = self.option("rw").or(self.option("readwrite")).unwrap_or("read");
        if ["read", "randread"].contains(&kind) && self.option("direct") != Some("1") {
            return Err(self.wrong("measures the page cache too. Run it with direct=1"));
        }
        match kind {
            "randread" => {
                self.reads_all_of_the_drive(known.capacity_bytes)?;
                if !matches!(self.option("bs").unwrap_or("4k"), "4k" | "4K" | "4096" | "4ki") {
                    return Err(self.wrong("random reads are needed with bs=4k"));
                }
                let depth = (self.count("iodepth")? * self.count("numjobs")?) as usize;
                if depth == 0 || known.reads.iter().any(|(other, _)| *other == depth) {
                    return Err(self.wrong(&format!("a second measurement at depth {depth}")));
                }
                known.reads.push((depth, self.measured("iops")?));
            }
            "read" => {
                let rate = self.measured("bw_bytes")? / 1e6;
                let share = self.offset_share(known.capacity_bytes)?;
                let (place, given) = match share {
                    s if s < 0.2 => ("outer", &mut known.outer_mb_per_s),
                    s if s >= 0.8 => ("inner", &mut known.inner_mb_per_s),
                    _ => return Err(self.wrong("read sequentially at offset 0, or 90 % and up")),
                };
                if given.replace(rate).is_some() {
                    let twice = format!("the {place} rate is given twice. Leave out --{place}.");
                    return Err(self.wrong(&twice));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Where it begins, as a share of the drive.
    fn offset_share(&self, capacity: u64) -> Result<f64, Failure> {
        Ok(self.share("offset", capacity)?.unwrap_or(0.0))
    }

    /// Seeks over a part of a drive are shorter.
    fn reads_all_of_the_drive(&self, capacity: u64) -> Result<(), Failure> {
        let begins = self.offset_share(capacity)?;
        for name in ["size", "filesize"] {
            let share = self.share(name, capacity)?.unwrap_or(1.0).min(1.0 - begins);
            if share < ALL {
                let percent = 100.0 * share;
                let what = format!(
                    "reads {percent:.1} % of {capacity} bytes. Random reads over the entire drive \
                     are needed: leave out size and offset"
                );
                return Err(self.wrong(&what));
            }
        }
        Ok(())
    }

    /// An option in bytes or per cent, as a share of the drive.
    fn share(&self, name: &str, capacity: u64) -> Result<Option<f64>, Failure> {
        let Some(text) = self.option(name) else { return Ok(None) };
        let wrong = || self.wrong(&format!("{name}={text} is not a size or a share"));
        let share = match text.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().map(|p| p / 100.0).map_err(|_| wrong())?,
            None => super::quantity::bytes(text).map_err(|_| wrong())? as f64 / capacity as f64,
        };
        Ok(Some(share))
    }
}

fn read_fio(file: &str, known: &mut Known) -> Result<(), Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::failed(format!("{file}: cannot read: {error}")))?;
    // fio writes notes before the JSON where it has any.
    let json = text.find('{').map_or("", |at| &text[at..]);
    let all: Value = serde_json::from_str(json).map_err(|error| {
        Failure::failed(format!("{file}: not fio's JSON: {error}. Use --output-format=json"))
    })?;
    let jobs = all.get("jobs").and_then(Value::as_array).filter(|jobs| !jobs.is_empty());
    let jobs = jobs.ok_or_else(|| Failure::failed(format!("{file}: no `jobs` of fio in it")))?;
    let global = all.get("global options").unwrap_or(&Value::Null);
    jobs.iter().try_for_each(|job| Job { file, job, global }.add_to(known))
}

/// The spec, after a comment that says where its numbers are from.
fn written(fit: &Fit) -> String {
    let list = |assumed: bool| {
        let of = fit.rows.iter().filter(|row| (row.from == "assumed") == assumed);
        of.map(|row| row.key).collect::<Vec<_>>().join(", ")
    };
    let text = format!(
        "Made by `destage disks fit`. Given or derived: {}. Assumed: {}, and what is not named.",
        list(false),
        list(true)
    );
    format!("{}\n\n{}", comment(&text), fit.spec.to_toml())
}

/// Text as a comment of a spec.
pub(super) fn comment(text: &str) -> String {
    let mut comment = String::from("#");
    let mut column = 1;
    for word in text.split(' ') {
        if column + word.len() > 95 {
            comment.push_str("\n#");
            column = 1;
        }
        comment.push(' ');
        comment.push_str(word);
        column += word.len() + 1;
    }
    comment
}

fn table(fit: &Fit) -> Table {
    let mut table = Table::new(&[
        ("number", ""),
        ("value", ""),
        ("unit", ""),
        ("from", ""),
        ("low", ""),
        ("high", ""),
        ("QD 1 at low", "IOPS"),
        ("QD 1 at high", "IOPS"),
        ("QD 32 at low", "IOPS"),
        ("QD 32 at high", "IOPS"),
    ]);
    let decimals = |value: f64| if value.fract() == 0.0 { 0 } else { 3 };
    for FitRow { key, unit, value, from, range, reads } in &fit.rows {
        let edge = |value: Option<f64>| Cell::maybe(value, value.map_or(0, decimals));
        let mut cells = vec![
            Cell::text(*key),
            Cell::num(*value, decimals(*value)),
            Cell::text(*unit),
            Cell::text(*from),
            edge(range.map(|range| range.0)),
            edge(range.map(|range| range.1)),
        ];
        let rates = reads.map(|[one, deep]| [one.0, one.1, deep.0, deep.1]);
        cells.extend((0..4).map(|at| Cell::maybe(rates.map(|rates| rates[at]), 1)));
        table.push(cells);
    }
    for (at, (depth, (least, spec, most))) in DEPTHS.iter().zip(fit.reads).enumerate() {
        let mut cells = vec![
            Cell::text(format!("random reads, depth {depth}")),
            Cell::num(spec, 1),
            Cell::text("IOPS"),
            Cell::text("all of the above"),
        ];
        cells.extend((0..6).map(|_| Cell::empty()));
        cells[6 + 2 * at] = Cell::num(least, 1);
        cells[7 + 2 * at] = Cell::num(most, 1);
        table.push(cells);
    }
    table
}
