//! From the options of a run to its configuration.

use crate::config::{FaultPlan, SimConfig, Spindles, Warmup};
use crate::faults;
use crate::options::{OptionError, RunOptions};
use crate::prefill::PREFILL;
use destage_disk::DiskSpec;
use destage_engine::array::geometry::{Geometry, LEVELS};
use destage_engine::controller::Config;
use destage_engine::destage::phases::Protocol;
use destage_engine::destage::{Count, DestageConfig, Issue};
use destage_engine::dispatch::Order;
use destage_engine::flushes::{Durability, FlushLimits};
use destage_engine::policy;
use destage_engine::rate;
use destage_engine::sequential::DetectorKind;
use destage_engine::served;
use destage_engine::track::{CleanWrites, TrackCache, TrackConfig};
use destage_engine::units::{Duration, PAGE_BYTES, PageCount};

/// Least warm-up of a generated load.
const WARM_UP: Duration = Duration::from_secs(300);

impl RunOptions {
    /// The array over disks of this model.
    ///
    /// # Errors
    /// Invalid sizes.
    pub fn geometry(&self, spec: &DiskSpec) -> Result<Geometry, OptionError> {
        if self.get("group") == "track" && self.get("level") != "single" {
            let message = "--group track is for one disk: --level single --disks 1";
            return Err(OptionError::usage(message.into()));
        }
        let levels: Vec<(&str, _)> = LEVELS.iter().map(|l| (l.entry.name, l.level)).collect();
        let sectors_per_page = u64::from(spec.sectors_per_page());
        let mut geometry = Geometry {
            level: self.one_of("level", &levels)?,
            disks: self.number("disks", 1..=1024)?,
            strip_pages: self.pages("strip")?,
            group_stripes: self.number("group-stripes", 1..=64)?,
            disk_pages: destage_disk::Disk::new(spec).sectors() / sectors_per_page,
        };
        let is_size = self.get("disk-fraction").ends_with(|c: char| c.is_ascii_alphabetic());
        if is_size && geometry.checked().is_ok() {
            let stripes = self.pages("disk-fraction")?.div_ceil(geometry.stripe_pages());
            let groups = stripes.next_multiple_of(geometry.group_stripes);
            if groups * geometry.strip_pages > geometry.disk_pages {
                return Err(OptionError::usage(
                    "--disk-fraction is more than the disks hold".into(),
                ));
            }
            geometry.disk_pages = groups * geometry.strip_pages;
        } else if !is_size {
            let fraction: f64 = self.number("disk-fraction", f64::MIN_POSITIVE..=1.0)?;
            geometry.disk_pages = (geometry.disk_pages as f64 * fraction) as u64;
        }
        geometry.checked().map_err(|error| OptionError::usage(error.to_string()))
    }

    /// The track cache, if the NVS is to be organised by track.
    fn track(&self, spec: &DiskSpec, config: &Config) -> Result<Option<TrackConfig>, OptionError> {
        let by_track = self.one_of("group", &[("stripes", false), ("track", true)])?;
        let clean = [("span", CleanWrites::Span), ("runs", CleanWrites::Runs)];
        let clean = self.one_of("track-writes", &clean)?;
        if !by_track {
            return Ok(None);
        }
        if !self.on("write-cache")? {
            let message = "--write-cache off is for an array, not for --group track, which is a \
                           write cache: leave out one of them";
            return Err(OptionError::usage(message.into()));
        }
        let zones = destage_disk::zones(spec);
        let [zone] = zones.as_slice() else {
            return Err(OptionError::usage(format!(
                "--group track takes a disk with one zone, as hp97560 and hp-c2200a; {} has {}",
                self.get("disk"),
                zones.len()
            )));
        };
        let sector_bytes = u64::from(spec.sector_bytes);
        let track = TrackConfig {
            sectors: config.nvs_pages.0 * PAGE_BYTES / sector_bytes,
            sectors_per_track: u64::from(zone.sectors_per_track),
            disk_sectors: destage_disk::Disk::new(spec).sectors(),
            sector_bytes,
            policy: config.policy.clone(),
            rate: config.rate.clone(),
            clean,
        };
        TrackCache::new(&track).map_err(OptionError::usage)?;
        Ok(Some(track))
    }

    fn order(&self) -> Result<Order, OptionError> {
        match self.get("order").split_once(':').unwrap_or((self.get("order"), "8")) {
            ("arrival", "8") => Ok(Order::Arrival),
            ("reads-first", bound) => {
                let bound = bound.parse().map_err(|_| self.bad("order"))?;
                Ok(Order::ReadsFirst { bound })
            }
            _ => Err(self.bad("order")),
        }
    }

    /// The rate with its thresholds, which are in the text of the rate or in an option of their
    /// own.
    fn rate_text(&self) -> String {
        let (rate, thresholds) = (self.get("rate"), self.plain("thresholds"));
        match rate.split_once(':') {
            _ if thresholds.is_empty() => rate.to_string(),
            // The default rate has levels, which these replace.
            Some((name, more)) if self.is_given("rate") => format!("{name}:{thresholds},{more}"),
            Some((name, _)) => format!("{name}:{thresholds}"),
            None => format!("{rate}:{thresholds}"),
        }
    }

    fn controller(&self, spec: &DiskSpec, geometry: Geometry) -> Result<Config, OptionError> {
        let issue = [("group", Issue::Group), ("runs", Issue::Runs)];
        let text =
            |error: destage_engine::registry::ChoiceError| OptionError::usage(error.to_string());
        Ok(Config {
            geometry,
            nvs_pages: PageCount(self.pages("nvs")?),
            policy: policy::choose(self.get("policy")).map_err(text)?,
            rate: rate::choose(&self.rate_text()).map_err(text)?,
            destage: DestageConfig {
                queue_depth: self.number("queue-depth", 1..=100_000)?,
                count: self.one_of("count", &[("runs", Count::Runs), ("groups", Count::Groups)])?,
                issue: match self.get("issue") {
                    _ if self.get("protocol") == "safe" => Issue::Group,
                    "auto" if spec.host.issue == destage_disk::Issue::Runs => Issue::Runs,
                    "auto" => Issue::Group,
                    _ => self.one_of("issue", &issue)?,
                },
                protocol: self.one_of(
                    "protocol",
                    &[("papers", Protocol::Papers), ("safe", Protocol::Safe)],
                )?,
                defer: self.on("vdf-writes")?,
                bridge: match self.get("bridge") {
                    "auto" if self.is_as_served() => Some(served::BRIDGE),
                    "auto" => None,
                    _ => Some(self.number("bridge", 0..=1024)?),
                },
                stripe_memory: self.pages("stripe-memory")?,
            },
            detector: self.one_of(
                "detector",
                &[
                    ("pages", DetectorKind::Pages),
                    ("adjacent-groups", DetectorKind::AdjacentGroups),
                ],
            )?,
            sequential_threshold: self.number("seq-threshold", 0..=1_000_000)?,
            window: match self.get("window") {
                "auto" if self.is_as_served() => served::WINDOW,
                _ => spec.window as u32,
            },
            order: self.order()?,
        })
    }

    /// How long is measured at most, and over how many requests.
    fn window(&self, is_trace: bool) -> Result<(Duration, u64), OptionError> {
        const FOR_EVER: Duration = Duration(u64::MAX);
        let (word, limit) =
            self.get("measure").split_once(':').unwrap_or((self.get("measure"), ""));
        let number = limit.parse::<f64>().ok().filter(|n| (1.0..=1e9).contains(n));
        Ok(match (word, limit, number) {
            ("auto", "", _) if !is_trace => (Duration::from_secs(300), u64::MAX),
            ("auto" | "all" | "rebuild", "", _) => (FOR_EVER, u64::MAX),
            ("rebuild", _, Some(seconds)) => (Duration((seconds * 1e9) as u64), u64::MAX),
            ("requests", _, Some(count)) if count.fract() == 0.0 => (FOR_EVER, count as u64),
            _ => (self.seconds("measure")?, u64::MAX),
        })
    }

    /// How destages become durable. A disk whose cache is off has none.
    fn durability(&self, disk: &mut DiskSpec) -> Result<Durability, OptionError> {
        let given = match self.get("durability") {
            "auto" if disk.write_back.is_some() => Durability::Epochs,
            "auto" => Durability::Off,
            name => Durability::called(name).ok_or_else(|| self.bad("durability"))?,
        };
        if given == Durability::Off {
            disk.write_back = None;
        }
        Ok(given)
    }

    fn spindles(&self) -> Result<Spindles, OptionError> {
        let seed = self.seed()?;
        let choices = [("aligned", Spindles::Aligned), ("free", Spindles::Free { seed })];
        self.one_of("spindles", &choices)
    }

    fn flush_limits(&self) -> Result<FlushLimits, OptionError> {
        let bound = self.number("flush-bound", 1..=60_000)?;
        Ok(FlushLimits { bound: Duration::from_millis(bound), ..FlushLimits::default() })
    }

    /// How long a run warms up; an NVS-full is this many pages.
    fn warm_up(
        &self,
        is_trace: bool,
        faults: &FaultPlan,
        pages: u64,
    ) -> Result<Warmup, OptionError> {
        let warmup = match self.get("warmup") {
            "auto" if is_trace => Warmup::Time(Duration::ZERO),
            "auto" if faults.first().is_some() => Warmup::Time(WARM_UP),
            "auto" => Warmup::Settled(WARM_UP),
            "settled" => Warmup::Settled(Duration::ZERO),
            "fail" => Warmup::Time(faults.first().ok_or_else(|| self.bad("warmup"))?),
            "nvs" => Warmup::Destaged(pages),
            _ => Warmup::Time(self.seconds("warmup")?),
        };
        Ok(match warmup {
            Warmup::Time(time) if self.on("prefill")? => Warmup::Time(time + PREFILL),
            other => other,
        })
    }

    /// The configuration of a run.
    ///
    /// # Errors
    /// The first option that does not fit.
    pub fn build(&self) -> Result<SimConfig, OptionError> {
        crate::contradictions::of_run(self)?;
        self.one_of("as", &[("papers", ()), ("served", ())])?;
        let mut disk = self.disk()?;
        crate::contradictions::of_disk(self, &disk)?;
        let durability = self.durability(&mut disk)?;
        let geometry = self.geometry(&disk)?;
        let mut controller = self.controller(&disk, geometry)?;
        let track = self.track(&disk, &controller)?;
        let is_trace = !self.get("trace").is_empty();
        let faults = faults::plan(self, &geometry)?;
        let pages = track.as_ref().map_or(controller.nvs_pages.0, |track| track.sectors);
        let warmup = self.warm_up(is_trace, &faults, pages)?;
        if faults.until_rebuilt && faults.rebuild.is_none() {
            return Err(self.bad("measure"));
        }
        let (measured, answered_max) = self.window(is_trace)?;
        if measured == Duration::ZERO {
            return Err(self.bad("measure"));
        }
        let requests_max = match self.get("requests") {
            "all" => u64::MAX,
            _ => self.number("requests", 1..=u64::MAX)?,
        };
        if is_trace {
            self.replay_options()?;
        }
        let least = measured.0.min(requests_max).min(answered_max);
        let endless = least == u64::MAX && !faults.until_rebuilt;
        if is_trace && endless && self.on("trace-repeat")? {
            let message = "--trace-repeat never ends: give --measure or --requests";
            return Err(OptionError::usage(message.into()));
        }
        let interval = self.seconds("interval")?;
        if interval == Duration::ZERO {
            return Err(self.bad("interval"));
        }
        let nvs_latency = Duration::from_micros(self.number("nvs-latency", 0..=1_000_000)?);
        // Reports what the controller would refuse before anything runs.
        if track.is_none() {
            destage_engine::controller::Controller::new(&controller)
                .map_err(|error| OptionError::usage(error.to_string()))?;
        }
        if let Some(track) = &track {
            controller.nvs_pages = PageCount(track.sectors);
        }
        Ok(SimConfig {
            controller,
            track,
            disk,
            spindles: self.spindles()?,
            durability,
            flush_limits: self.flush_limits()?,
            uncached: !self.on("write-cache")?,
            warmup,
            measured,
            interval,
            nvs_latency,
            requests_max,
            answered_max,
            faults,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_engine::units::{DiskId, Instant};

    fn built(pairs: &[(&str, &str)]) -> Result<FaultPlan, String> {
        let mut options = RunOptions::default();
        for (name, value) in pairs {
            options.set(name, value).expect("an option");
        }
        options.build().map(|config| config.faults).map_err(|error| error.to_string())
    }

    #[test]
    fn an_array_as_served_has_the_settings_of_the_server() {
        let config = |pairs: &[(&str, &str)]| {
            let mut options = RunOptions::default();
            pairs.iter().for_each(|(name, value)| options.set(name, value).expect("an option"));
            options.build().expect("a configuration")
        };
        let (papers, served) = (config(&[]), config(&[("as", "served")]));
        let controller = &served.controller;
        assert_eq!(controller.destage, served::destage(served::QUEUE_DEPTH));
        assert_eq!((controller.order, controller.window), (served::ORDER, served::WINDOW));
        assert_eq!(controller.detector, served::DETECTOR);
        assert_eq!(controller.sequential_threshold, served::SEQUENTIAL_THRESHOLD);
        assert_eq!(served.disk.window, papers.disk.window, "the drive is the same");
        assert_eq!(papers.controller.destage.protocol, Protocol::Papers);
        // What is given counts.
        let given = config(&[("as", "served"), ("queue-depth", "20"), ("order", "arrival")]);
        assert_eq!(given.controller.destage, served::destage(20));
        let bridge = |pairs: &[(&str, &str)]| config(pairs).controller.destage.bridge;
        assert_eq!(bridge(&[("as", "served"), ("bridge", "0")]), Some(0));
        assert_eq!(bridge(&[("as", "served"), ("bridge", "auto")]), Some(served::BRIDGE));
        assert_eq!(bridge(&[("protocol", "safe"), ("bridge", "3")]), Some(3));
        assert_eq!(bridge(&[("protocol", "safe")]), None, "as many as the policy asks for");
        assert_eq!(given.controller.order, Order::Arrival);
    }

    #[test]
    fn faults_and_rebuild_are_read() {
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
    fn bad_combinations_are_refused() {
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
        assert!(refused(&[("bridge", "4")]).contains("--protocol safe"));
        let off = [("group", "track"), ("level", "single"), ("disks", "1"), ("write-cache", "off")];
        assert!(refused(&off).contains("leave out one of them"));
        assert!(refused(&[("measure", "rebuild")]).contains("--measure"));
        let bad = ["requests:0", "requests:1.5", "requests", "rebuild:x", "rebuild:9", "x:1", "0"];
        for bad in bad {
            assert!(refused(&[("measure", bad)]).contains("--measure takes"), "{bad}");
        }
        assert!(built(&[("fail", "disk=0;disk=1"), ("level", "6")]).is_ok());
    }
}
