//! Read cache, failing disks and rebuild of a run: their options, and what they come to.

use crate::options::{OptionError, RunOptions};
use destage_engine::array::disks::DiskSet;
use destage_engine::array::geometry::Geometry;
use destage_engine::limits::Limits;
use destage_engine::readcache::coherent::{OnWrite, ReadCacheChoice};
use destage_engine::readcache::penalty::Penalties;
use destage_engine::readcache::{Vdf, choose};
use destage_engine::request::PageRange;
use destage_engine::units::{DiskId, Duration, Instant};
use destage_report::model::{FaultUse, WritePenalty};

/// What goes wrong in a run, and what helps.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    /// Disks that fail, in order of time.
    pub fails: Vec<(Instant, DiskId)>,
    /// The rebuild of the first of them.
    pub rebuild: Option<RebuildPlan>,
    /// The run ends when the disk is rebuilt.
    pub until_rebuilt: bool,
    /// Groups dear to destage while degraded are put off once.
    pub put_off: bool,
    /// The read cache.
    pub read_cache: Option<ReadCacheChoice>,
}

/// A rebuild to be.
#[derive(Clone, Copy, Debug)]
pub struct RebuildPlan {
    /// When the spare is there.
    pub at: Instant,
    /// How fast it goes.
    pub limits: Limits,
}

impl FaultPlan {
    /// Time until the first disk fails.
    #[must_use]
    pub fn first(&self) -> Option<Duration> {
        self.fails.first().map(|(at, _)| at.since(Instant::ZERO))
    }
}

/// Reads the options.
pub(crate) fn plan(options: &RunOptions, geometry: &Geometry) -> Result<FaultPlan, OptionError> {
    let fails = fails(options, geometry)?;
    let rebuild = rebuild(options, &fails)?;
    let plan = FaultPlan {
        rebuild,
        until_rebuilt: options.get("measure").split(':').next() == Some("rebuild"),
        put_off: options.on("vdf-writes")?,
        read_cache: read_cache(options)?,
        fails,
    };
    let none = plan.fails.is_empty() && plan.read_cache.is_none();
    if options.get("group") == "track" && !none {
        let message = "--group track has neither a read cache nor failing disks";
        return Err(OptionError::usage(message.into()));
    }
    Ok(plan)
}

fn read_cache(options: &RunOptions) -> Result<Option<ReadCacheChoice>, OptionError> {
    let name = options.get("read-cache");
    if name == "off" {
        return Ok(None);
    }
    let usage = |error: &dyn std::fmt::Display| OptionError::usage(error.to_string());
    let mut policy = choose(name).map_err(|error| usage(&error))?;
    if options.get("vdf") != "auto" {
        let vdf = Vdf::parse(options.get("vdf")).ok_or_else(|| options.bad("vdf"))?;
        policy = policy.with_vdf(vdf).map_err(|error| usage(&error))?;
    }
    let pages = options.pages("read-cache-size")?;
    policy.check(pages).map_err(|error| usage(&error))?;
    let on_write = options.one_of("read-cache-writes", &OnWrite::NAMES)?;
    Ok(Some(ReadCacheChoice { policy, pages, on_write }))
}

/// Seconds of the run, to the nanosecond.
fn instant(text: &str) -> Option<Instant> {
    let seconds = text.parse::<f64>().ok().filter(|s| (0.0..=1e9).contains(s))?;
    Some(Instant((seconds * 1e9) as u64))
}

fn fails(options: &RunOptions, geometry: &Geometry) -> Result<Vec<(Instant, DiskId)>, OptionError> {
    let mut fails = Vec::new();
    for text in options.get("fail").split(';').filter(|text| !text.is_empty()) {
        let (mut disk, mut at) = (None, Some(Instant::ZERO));
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("disk", value)) => disk = value.trim().parse::<u16>().ok(),
                Some(("at", value)) => at = instant(value.trim()),
                _ => return Err(options.bad("fail")),
            }
        }
        let disk = disk.filter(|disk| *disk < geometry.disks);
        let (Some(disk), Some(at)) = (disk, at) else { return Err(options.bad("fail")) };
        fails.push((at, DiskId(disk)));
    }
    fails.sort_unstable();
    let all: DiskSet = fails.iter().map(|(_, disk)| *disk).collect();
    if all.iter().count() < fails.len() || !(all.is_empty() || geometry.survives(&all)) {
        return Err(OptionError::usage(format!(
            "--fail: level {} with {} disks does not survive these",
            geometry.level.entry().entry.name,
            geometry.disks
        )));
    }
    Ok(fails)
}

fn rebuild(
    options: &RunOptions,
    fails: &[(Instant, DiskId)],
) -> Result<Option<RebuildPlan>, OptionError> {
    let text = options.get("rebuild");
    let (word, rest) = text.split_once(':').unwrap_or((text, ""));
    let bad = || options.bad("rebuild");
    match (word, fails.first()) {
        ("off", _) if rest.is_empty() => Ok(None),
        ("on", None) => Err(OptionError::usage("--rebuild takes a disk that fails: --fail".into())),
        ("on", Some((failed_at, _))) => {
            let mut plan = RebuildPlan { at: *failed_at, limits: Limits::default() };
            for part in rest.split(',').filter(|part| !part.is_empty()) {
                let (name, value) = part.split_once('=').ok_or_else(bad)?;
                set(&mut plan, name.trim(), value.trim()).ok_or_else(bad)?;
            }
            if plan.at < *failed_at {
                return Err(OptionError::usage("--rebuild begins before the disk fails".into()));
            }
            Ok(Some(plan))
        }
        _ => Err(bad()),
    }
}

fn set(plan: &mut RebuildPlan, name: &str, value: &str) -> Option<()> {
    match name {
        "at" => plan.at = instant(value)?,
        _ => destage_engine::limits::set_limit(&mut plan.limits, name, value)?,
    }
    Some(())
}

/// What a run has seen of its faults.
#[derive(Clone, Debug, Default)]
pub struct FaultLog {
    /// Disks that failed.
    pub failed: Vec<u16>,
    /// When the rebuild began.
    pub began: Option<Instant>,
    /// How long it took.
    pub rebuilt: Option<Duration>,
    /// How much of it was done at the end.
    pub share: f64,
    /// Pages that could not be computed.
    pub lost_pages: u64,
    penalties: Option<Penalties>,
    /// Pages written while degraded, and what each costs alone, both ways of counting.
    writes: [u64; 3],
}

impl FaultLog {
    /// A disk has failed.
    pub fn fail(&mut self, geometry: &Geometry, disk: DiskId) {
        self.failed.push(disk.0);
        let failed: Vec<u64> = self.failed.iter().map(|disk| u64::from(*disk)).collect();
        let disks = u64::from(geometry.disks);
        self.penalties = Penalties::new(geometry.level, disks, &failed, geometry.strip_pages).ok();
    }

    /// The disk is rebuilt.
    pub fn rebuilt(&mut self, now: Instant) {
        self.rebuilt = self.began.map(|began| now.since(began));
        self.share = 1.0;
        self.penalties = None;
    }

    /// The host writes while a disk is failed.
    pub fn written(&mut self, range: PageRange) {
        let Some(penalties) = &self.penalties else { return };
        for page in range.first.0..range.end().0 {
            let costs = (penalties.write_paper(page), penalties.write_exact(page));
            let (Some(paper), Some(exact)) = costs else { return };
            self.writes[0] += 1;
            self.writes[1] += paper;
            self.writes[2] += exact;
        }
    }

    /// For the report; none where nothing failed.
    #[must_use]
    pub fn report(&self, put_off: u64) -> Option<FaultUse> {
        let [pages, paper, exact] = self.writes.map(|n| n as f64);
        (!self.failed.is_empty()).then(|| FaultUse {
            failed: self.failed.clone(),
            rebuild_s: self.rebuilt.map(Duration::as_secs_f64),
            rebuilt_share: self.share,
            lost_pages: self.lost_pages,
            put_off,
            write_penalty: (pages > 0.0)
                .then(|| WritePenalty { paper: paper / pages, exact: exact / pages }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(pairs: &[(&str, &str)]) -> Result<FaultPlan, String> {
        let mut options = RunOptions::default();
        for (name, value) in pairs {
            options.set(name, value).expect("an option");
        }
        options.build().map(|config| config.faults).map_err(|error| error.to_string())
    }

    #[test]
    fn options_say_what_fails_and_how_it_is_rebuilt() {
        let plan = built(&[
            ("fail", "disk=2,at=1.5"),
            ("rebuild", "on:at=2,window=64,share=50,min=4.096,reads-under=20"),
            ("read-cache", "lru"),
            ("vdf", "adaptive:start=plain"),
            ("read-cache-size", "64M"),
        ])
        .expect("good options");
        assert_eq!(plan.fails, [(Instant(1_500_000_000), DiskId(2))]);
        let rebuild = plan.rebuild.expect("a rebuild");
        assert_eq!(rebuild.at, Instant(2_000_000_000));
        let limits = rebuild.limits;
        assert_eq!((limits.window_pages, limits.share_permille), (64, 500));
        assert_eq!(limits.least_pages_per_s, 1000);
        assert_eq!(limits.reads_under, Some(Duration::from_millis(20)));
        let cache = plan.read_cache.expect("a read cache");
        assert_eq!((cache.pages, cache.policy.describe().as_str()), (16384, "adaptive-lru"));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |pairs: &[(&str, &str)]| built(pairs).unwrap_err();
        assert!(refused(&[("fail", "disk=5,at=1")]).contains("--fail takes"));
        assert!(refused(&[("fail", "disk=0;disk=1")]).contains("does not survive"));
        assert!(refused(&[("fail", "disk=0"), ("level", "0")]).contains("does not survive"));
        assert!(refused(&[("rebuild", "on")]).contains("--fail"));
        assert!(refused(&[("fail", "disk=0,at=9"), ("rebuild", "on:at=3")]).contains("before"));
        assert!(refused(&[("fail", "disk=0"), ("rebuild", "on:share=0")]).contains("--rebuild"));
        assert!(refused(&[("read-cache", "lro")]).contains("lru"));
        assert!(refused(&[("read-cache", "lru"), ("vdf", "yes")]).contains("--vdf"));
        let endless = [("trace", "t"), ("trace-mode", "closed"), ("trace-repeat", "on")];
        assert!(refused(&endless).contains("never ends"));
        assert!(refused(&[("trace", "t"), ("trace-repeat", "on")]).contains("--trace-mode"));
        assert!(refused(&[("measure", "rebuild")]).contains("--measure"));
        for bad in ["requests:0", "requests:1.5", "requests", "rebuild:x", "rebuild:9", "x:1"] {
            assert!(refused(&[("measure", bad)]).contains("--measure takes"), "{bad}");
        }
        assert!(built(&[("fail", "disk=0;disk=1"), ("level", "6")]).is_ok());
    }
}
