//! Sweeps: every combination of options, each a row in a dataset of Parquet files that is never
//! computed twice (docs/sweeps.md).

use crate::compare::{CompareError, RunBy, run_one};
use crate::contradictions;
use crate::options::{OPTIONS, OptionError, RunOptions};
use crate::parallel::in_parallel;
use crate::sources::make_source;
use destage_engine::policy::POLICIES;
use destage_report::model::SCHEMA;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Version of the rule that makes a point's key.
const KEY_VERSION: u32 = 2;

/// Most points of a sweep.
pub const POINTS_MAX: usize = 1_000_000;

/// SHA-256 in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes))
}

fn hex(digest: impl AsRef<[u8]>) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 of a file's contents.
fn digest_of_file(path: &Path) -> Result<String, OptionError> {
    let failed = |why: std::io::Error| {
        OptionError::input(format!("{}: cannot be read: {why}", path.display()))
    };
    let mut hasher = Sha256::new();
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match std::io::Read::read(&mut file, &mut buffer).map_err(failed)? {
            0 => return Ok(hex(hasher.finalize())),
            bytes => hasher.update(&buffer[..bytes]),
        }
    }
}

/// What a sweep runs: the options common to all, and every combination of the axes' values.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// Options common to all runs.
    pub base: RunOptions,
    /// Options and their values, the first varying slowest.
    pub axes: Vec<(String, Vec<String>)>,
    /// Seeds a combination, from the base seed upwards.
    pub seeds: u32,
}

/// One combination and seed.
#[derive(Clone, Debug)]
pub struct SweepPoint {
    /// All its options.
    pub options: RunOptions,
    /// Digest of its inputs, in hex: the name of its row.
    pub key: String,
}

impl Sweep {
    /// All points, checked. `digests` gives the digest of a trace's contents where its name is not
    /// a file; files are read once each. `own` gives those of policies that are in no table.
    ///
    /// # Errors
    /// The first option that does not fit, or a file that cannot be read.
    pub fn points(
        &self,
        digests: &BTreeMap<String, String>,
        own: &BTreeMap<String, String>,
    ) -> Result<Vec<SweepPoint>, OptionError> {
        let combinations = self.axes.iter().map(|(_, values)| values.len());
        let total = combinations.chain([self.seeds.max(1) as usize]).try_fold(1, |total, n| {
            usize::checked_mul(total, n).filter(|total| (1..=POINTS_MAX).contains(total))
        });
        let total = total
            .ok_or_else(|| OptionError::usage(format!("a sweep has 1 to {POINTS_MAX} points")))?;
        contradictions::of_axes(&self.base, &self.axes)?;
        let mut keys = Keys { digests: digests.clone(), own };
        let base_seed = self.base.seed()?;
        let mut points = Vec::with_capacity(total);
        for mut index in 0..total {
            let mut options = self.base.clone();
            let seeds = self.seeds.max(1) as usize;
            let seed = base_seed.wrapping_add((index % seeds) as u64);
            index /= seeds;
            let mut chosen = Vec::new();
            for (name, values) in self.axes.iter().rev() {
                chosen.push((name, &values[index % values.len()]));
                index /= values.len();
            }
            for (name, value) in chosen.into_iter().rev() {
                options.set(name, value)?;
            }
            let seeds_swept = self.axes.iter().any(|(name, _)| name == "seed");
            contradictions::of_swept_seeds(seeds_swept, self.seeds > 1)?;
            if self.seeds > 1 || seeds_swept {
                contradictions::of_seeds(&options, "more than one seed")?;
            }
            if !seeds_swept {
                options.set("seed", &seed.to_string())?;
            }
            options.check_given()?;
            let key = keys.key(&options)?;
            points.push(SweepPoint { options, key });
        }
        Ok(points)
    }
}

/// Makes keys, reading each file once.
struct Keys<'a> {
    digests: BTreeMap<String, String>,
    own: &'a BTreeMap<String, String>,
}

impl Keys<'_> {
    /// The digest of all that a run's result depends on.
    fn key(&mut self, options: &RunOptions) -> Result<String, OptionError> {
        let own = self.own.get(options.get("policy"));
        let config = if own.is_some() { with_own_policy(options) } else { options.clone() };
        let config = config.build()?;
        let mut text = format!(
            "destage row {KEY_VERSION}, version {}, schema {SCHEMA}, behaviour {}\n",
            env!("CARGO_PKG_VERSION"),
            behaviour()?
        );
        for option in OPTIONS {
            let value = options.get(option.name);
            let value = match option.name {
                "policy" => match own {
                    Some(digest) => format!("{value}, not of the table, {digest}"),
                    None => config.controller.policy.choice.describe(),
                },
                "rate" => config.controller.rate.choice.describe(),
                // Rows that were made before there was this option keep their keys.
                "spindles" if value == "aligned" => continue,
                "trace" if !value.is_empty() => self.digest(value)?,
                "disk" if value.ends_with(".toml") => self.digest(value)?,
                _ => options.plain(option.name),
            };
            text.push_str(&format!("{}={value}\n", option.name));
        }
        Ok(sha256_hex(text.as_bytes()))
    }

    fn digest(&mut self, name: &str) -> Result<String, OptionError> {
        if let Some(digest) = self.digests.get(name) {
            return Ok(digest.clone());
        }
        let digest = digest_of_file(Path::new(name))?;
        self.digests.insert(name.to_string(), digest.clone());
        Ok(digest)
    }
}

/// A digest of what every policy does in a short run: a build that decides or times otherwise, of
/// the same version, makes other keys.
fn behaviour() -> Result<&'static str, OptionError> {
    static BEHAVIOUR: OnceLock<String> = OnceLock::new();
    if BEHAVIOUR.get().is_none() {
        let mut text = String::new();
        for policy in POLICIES {
            let mut options = RunOptions::default();
            let settings = [("policy", policy.entry.name), ("nvs", "1024"), ("iops", "1500")];
            let lengths = [("requests", "2000"), ("warmup", "0"), ("measure", "2")];
            for (name, value) in settings.into_iter().chain(lengths) {
                options.set(name, value)?;
            }
            let report = run_one("probe", &options, &make_source)
                .map_err(|why| OptionError::input(why.to_string()))?;
            text.push_str(&report.digest);
        }
        let _ = BEHAVIOUR.set(sha256_hex(text.as_bytes()));
    }
    Ok(BEHAVIOUR.get().expect("set above"))
}

/// The options of a run whose policy is in no table, as they can be built: the caller then replaces
/// the policy.
pub fn with_own_policy(options: &RunOptions) -> RunOptions {
    let mut options = options.clone();
    options.set("policy", POLICIES[0].entry.name).expect("an option");
    options
}

/// The row of a point as a Parquet file.
///
/// # Errors
/// A run that fails.
pub fn row(point: &SweepPoint, run: &RunBy<'_>) -> Result<Vec<u8>, CompareError> {
    let report = run(point.options.get("policy"), &point.options)?;
    destage_render::parquet_row(&point.key, &report)
        .map_err(|why| CompareError::Option(OptionError::input(why.to_string())))
}

/// A directory of rows: one file `KEY.parquet` each, renamed into place when complete.
#[derive(Clone, Debug)]
pub struct Dataset {
    directory: PathBuf,
}

impl Dataset {
    /// Opens or makes it.
    ///
    /// # Errors
    /// It cannot be made or listed.
    pub fn open(directory: &Path) -> Result<Dataset, OptionError> {
        std::fs::create_dir_all(directory).map_err(|why| {
            OptionError::input(format!("{}: cannot create: {why}", directory.display()))
        })?;
        Ok(Dataset { directory: directory.to_path_buf() })
    }

    /// Where the row of a key is.
    pub fn path(&self, key: &str) -> PathBuf {
        self.directory.join(format!("{key}.parquet"))
    }

    /// The keys that have a complete row. A file without its end mark, as after a power failure,
    /// counts as missing and will be replaced.
    ///
    /// # Errors
    /// The directory cannot be listed.
    pub fn keys(&self) -> Result<HashSet<String>, OptionError> {
        let failed = |why: std::io::Error| {
            OptionError::input(format!("{}: cannot be listed: {why}", self.directory.display()))
        };
        let mut keys = HashSet::new();
        for entry in std::fs::read_dir(&self.directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let is_row = path.extension().is_some_and(|e| e == "parquet");
            if let Some(stem) = path.file_stem().and_then(|s| s.to_str())
                && is_row
                && is_key(stem)
                && is_whole(&path)
            {
                keys.insert(stem.to_string());
            }
        }
        Ok(keys)
    }

    /// Whether the row of a key is there, and complete.
    pub fn has(&self, key: &str) -> bool {
        is_whole(&self.path(key))
    }

    /// Puts a row in place.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn put(&self, key: &str, row: &[u8]) -> Result<(), OptionError> {
        destage_report::write_file(&self.path(key), row)
            .map_err(|why| OptionError::input(why.to_string()))
    }
}

fn is_key(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn is_whole(path: &Path) -> bool {
    let Ok(bytes) = std::fs::read(path) else { return false };
    bytes.len() > 12 && bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1")
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Points whose rows were there.
    pub found: usize,
    /// Points run.
    pub run: usize,
}

/// A point by the options in which the points of its sweep differ.
fn name_of(point: &SweepPoint, points: &[SweepPoint]) -> String {
    let differs =
        |name: &str, value: &str| points.iter().any(|other| other.options.get(name) != value);
    let own = OPTIONS.iter().map(|option| (option.name, point.options.get(option.name)));
    let varying = own.filter(|(name, value)| points.len() == 1 || differs(name, value));
    let set = varying.filter(|(name, _)| point.options.is_given(name));
    set.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// Runs those points whose rows are not there yet; `progress(done, total)` counts all points.
///
/// # Errors
/// The first run that fails, or row that cannot be written; rows written before stay.
pub fn run(
    points: &[SweepPoint],
    dataset: &Dataset,
    threads: usize,
    run: &RunBy<'_>,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Swept, CompareError> {
    let mut seen = dataset.keys()?;
    let found = points.iter().filter(|point| seen.contains(&point.key)).count();
    let missing: Vec<&SweepPoint> =
        points.iter().filter(|point| seen.insert(point.key.clone())).collect();
    let there = points.len() - missing.len();
    progress(there, points.len());
    let work = |point: &&SweepPoint| -> Result<(), CompareError> {
        let row = row(point, run).map_err(|error| error.at(&name_of(point, points)))?;
        Ok(dataset.put(&point.key, &row)?)
    };
    let done = |done: usize| progress(there + done, points.len());
    let results = in_parallel(&missing, threads, &work, Result::is_err, &done);
    results.into_iter().collect::<Result<Vec<()>, CompareError>>()?;
    Ok(Swept { found, run: missing.len() })
}
