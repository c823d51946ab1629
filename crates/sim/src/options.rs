//! The options of a run, by name: what the command line, experiment files and sweeps set.

use destage_disk::DiskSpec;
use destage_engine::destage::Count;
use destage_engine::destage::phases::Protocol;
use destage_engine::dispatch::Order;
use destage_engine::registry::{Param, nearest_first};
use destage_engine::sequential::DetectorKind;
use destage_engine::served;
use destage_engine::units::{Duration, PAGE_BYTES};
use destage_workload::trace::replay::{ReplayOptions, ReplayPace};
use destage_workload::trace::{
    Columns, MergeDevices, MergeTimes, ReadOptions, Sample, Selection, TimeOrder, select,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// A message of one line that names the option and what it takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OptionError {
    /// The message.
    pub message: String,
    /// The option is well formed, but what it names (a trace, a spec) is not good.
    pub is_input: bool,
}

impl OptionError {
    /// A bad option.
    pub fn usage(message: String) -> OptionError {
        OptionError { message, is_input: false }
    }

    /// Bad input that an option names.
    pub fn input(message: String) -> OptionError {
        OptionError { message, is_input: true }
    }
}

/// Pages as they are written: a number of pages, or bytes with K, M, G or T that make complete
/// pages.
pub fn pages_of(text: &str) -> Option<u64> {
    let shift = match text.chars().last()?.to_ascii_uppercase() {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        'T' => 40,
        _ => return text.parse().ok(),
    };
    let bytes = text[..text.len() - 1].parse::<u64>().ok()?.checked_mul(1 << shift)?;
    bytes.is_multiple_of(PAGE_BYTES).then_some(bytes / PAGE_BYTES)
}

/// What an option takes, its unit after the numbers that the range begins with.
fn with_unit(option: &Param) -> String {
    let (numbers, others) =
        option.range.split_at(option.range.find(',').unwrap_or(option.range.len()));
    let has_unit = !["-", "fraction", "x"].contains(&option.unit);
    match has_unit && numbers.ends_with(|c: char| c.is_ascii_digit()) {
        true => format!("{numbers} {}{others}", option.unit),
        false => option.range.to_string(),
    }
}

const fn option(
    name: &'static str,
    unit: &'static str,
    default: &'static str,
    range: &'static str,
    help: &'static str,
) -> Param {
    Param { name, unit, default, range, help }
}

/// Every option of a run.
pub const OPTIONS: &[Param] = &[
    option(
        "as",
        "-",
        "papers",
        "papers, served",
        "what is not given is as in the papers' systems, or as in an array that `destage serve` \
         serves (protocol, order, queue depth, window)",
    ),
    option("policy", "-", "stow", "see `destage policies`", "destage policy"),
    option("rate", "-", "linear:90/80", "see `destage policies`", "destage rate"),
    option(
        "thresholds",
        "% of NVS",
        "",
        "high/low",
        "high and low thresholds, overriding those of the rate",
    ),
    option("nvs", "pages", "32768", "pages, or bytes with K, M, G", "NVS size"),
    option(
        "group",
        "-",
        "stripes",
        "stripes, track",
        "unit of destage; track is for a single disk",
    ),
    option("track-writes", "-", "span", "span, runs", "what a track's destage writes"),
    option("level", "-", "5", "single, 0, 10, 4, 5, 6", "RAID level"),
    option("disks", "disks", "5", "1 to 1024", "member disks"),
    option("disk", "-", "stow-ref", "a name or a .toml file", "disk model"),
    option("strip", "pages", "16", "pages, or bytes with K, M, G", "strip (chunk) size per disk"),
    option("group-stripes", "stripes", "1", "1 to 64", "stripes per write group (k)"),
    option(
        "disk-fraction",
        "fraction",
        "1",
        "above 0 to 1, or the volume's size with M, G, T",
        "fraction of each disk used, from the outer edge",
    ),
    option("queue-depth", "destages", "20", "1 to 100000", "destage writes in flight (Q)"),
    option("count", "-", "runs", "runs, groups", "what counts as one destage write"),
    option(
        "issue",
        "-",
        "auto",
        "group, runs, auto",
        "issue the runs of a group at once or in turn",
    ),
    option("detector", "-", "pages", "pages, adjacent-groups", "sequential detector"),
    option(
        "seq-threshold",
        "pages",
        "16",
        "0 to 1000000",
        "pages after which a stream counts as sequential",
    ),
    option(
        "window",
        "commands",
        "auto",
        "1 to 1024, auto",
        "commands a drive sees at once; auto: as many as the disk model chooses from, or 32 with \
         --as served",
    ),
    option("scheduler", "-", "auto", "fcfs, cscan, sptf, auto", "order inside the drive"),
    option(
        "spindles",
        "-",
        "aligned",
        "aligned, free",
        "aligned: the disks turn in phase, so commands at the same place of several disks take the \
         same time; free: each disk begins at an angle of its own, drawn from --seed, as real \
         drives do",
    ),
    option("order", "-", "arrival", "arrival, reads-first[:n]", "order into the drive's window"),
    option(
        "protocol",
        "-",
        "papers",
        "papers, safe",
        "write everything at once, or make parity durable first",
    ),
    option(
        "bridge",
        "pages",
        "auto",
        "0 to 1024, auto",
        "clean pages over which --protocol safe joins two reads of a disk, or two writes of \
         parity; auto: as many as the policy asks for",
    ),
    option(
        "stripe-memory",
        "pages",
        "0",
        "pages, or bytes with K, M, G",
        "memory for old data and parity of destaged rows, with --protocol safe on levels 4, 5, 6",
    ),
    option(
        "durability",
        "-",
        "auto",
        "auto, fua, flush, epochs, off",
        "how a destage becomes durable on disks with a volatile cache, with --protocol safe: FUA \
         writes, a flush as soon as one is wanted, or flushes that many destages share; off: the \
         disks' caches are off. auto: epochs, or off if the disk model has no such cache",
    ),
    option(
        "flush-bound",
        "ms",
        "150",
        "1 to 60000",
        "longest time that a flush of a disk should take, because its reads wait for it; for \
         --durability epochs",
    ),
    option(
        "write-cache",
        "-",
        "on",
        "on, off",
        "off: a write is answered when it is durable on the disks, as in an array without NVS",
    ),
    option("read-cache", "-", "off", "off, see `destage policies`", "read cache next to the NVS"),
    option("read-cache-size", "pages", "32768", "pages, or bytes with K, M, G", "read-cache size"),
    option(
        "vdf",
        "-",
        "auto",
        "off, paper, adaptive[:start=..], auto",
        "failed-disk awareness (VDF); auto: as the policy's name says",
    ),
    option(
        "read-cache-writes",
        "-",
        "invalidate",
        "invalidate, update, keep",
        "cached pages that are written: drop them, refresh them on destage, or also cache newly \
         destaged pages",
    ),
    option("fail", "-", "", "disk=N,at=SECONDS[;...]", "disks that fail during the run"),
    option(
        "rebuild",
        "-",
        "off",
        "off, on[:at=S,window=PAGES,depth=N,share=%,min=MB/S,reads-under=MS]",
        "rebuild the first failed disk onto a spare, within these limits",
    ),
    option(
        "vdf-writes",
        "-",
        "off",
        "on, off",
        "defer, once, groups that are expensive to destage while degraded",
    ),
    option("nvs-latency", "us", "0", "0 to 1000000", "time until an append is durable"),
    option(
        "trace",
        "-",
        "",
        "a file; plain, gzip, zstd or xz",
        "replay this trace instead of a workload",
    ),
    option("trace-format", "-", "auto", "see `destage trace formats`, auto", "trace format"),
    option(
        "trace-columns",
        "-",
        "",
        "time=NAME:us, op=NAME:read=R:write=W, offset=3:sectors, size=4, ...",
        "columns of the trace by name or position; `destage trace info --help` has the grammar",
    ),
    option(
        "trace-mode",
        "-",
        "open",
        "open, closed, closed:n, rate:iops",
        "open (recorded times), closed (n outstanding) or fixed mean rate",
    ),
    option("trace-ops", "-", "all", "all, reads", "operations to replay"),
    option(
        "trace-repeat",
        "-",
        "off",
        "on, off",
        "restart at the end of the trace; not with trace-mode open",
    ),
    option("trace-speed", "x", "1", "above 0", "speed up recorded times by this factor"),
    option(
        "trace-device",
        "-",
        "all",
        "a device number, several as 0+3, all",
        "devices of the trace",
    ),
    option(
        "trace-from",
        "-",
        "",
        "a time as 90s, 10m, 1.5h",
        "only requests from this time on, counted from the first request of the trace",
    ),
    option("trace-until", "-", "", "a time as 90s, 10m, 1.5h", "only requests before this time"),
    option(
        "trace-range",
        "bytes",
        "",
        "FIRST..END with K, M, G, T; either may be left out",
        "only this range of addresses of each device; requests are cut to it",
    ),
    option(
        "trace-sample",
        "-",
        "",
        "SHARE[:block=BYTES][:seed=N], e.g. 0.1 or 1/10",
        "only this share of the blocks (1M) of the trace, chosen by a hash of their address",
    ),
    option(
        "trace-merge",
        "-",
        "clock",
        "clock, start",
        "several traces (A+B): times by one clock, or each from its start",
    ),
    option(
        "trace-devices",
        "-",
        "apart",
        "apart, shared",
        "several traces (A+B): the same device number is another device, or the same",
    ),
    option(
        "trace-layout",
        "-",
        "strides",
        "strides, packed",
        "several devices on one volume: at equal distances, or one close behind the other",
    ),
    option(
        "trace-order",
        "-",
        "auto",
        "auto, check, lift, skip, sort",
        "how to treat times out of order",
    ),
    option("skip-bad", "-", "off", "on, off", "skip malformed lines of the trace, and count them"),
    option("wrap", "-", "off", "on, off", "wrap pages beyond the volume back into it"),
    option("workload", "-", "spc1", "see `destage trace workloads`", "generated load"),
    option(
        "iops",
        "I/O/s",
        "",
        "above 0",
        "rate of an open loop, in place of the load's default rate or threads",
    ),
    option(
        "prefill",
        "-",
        "off",
        "on, off",
        "begin a trace with an NVS that is filled to where destaging begins, as that of an array \
         that has run for long",
    ),
    option(
        "warmup",
        "s",
        "auto",
        "seconds, settled, nvs, fail, auto",
        "time, until dirty pages neither rise nor fall, until one NVS-full was destaged, or until \
         a disk fails; auto: 300 s at least and until settled, traces 0",
    ),
    option(
        "measure",
        "s",
        "auto",
        "seconds, requests:n, rebuild, rebuild:seconds, all, auto",
        "measured window: its length, n answered requests, or until a disk is rebuilt (at most \
         this long); auto 300, traces all",
    ),
    option("requests", "requests", "all", "1 or more, all", "maximum number of host requests"),
    option("interval", "s", "1", "above 0", "interval of the time series"),
    option("seed", "-", "1", "0 to 2^64-1", "seed of all generators"),
];

/// What `--as served` sets, as the server has it; the window is set where the drive's is known.
static SERVED: LazyLock<[(&str, String); 7]> = LazyLock::new(|| {
    let destage = served::destage(served::QUEUE_DEPTH);
    let order = match served::ORDER {
        Order::Arrival => "arrival".to_string(),
        Order::ReadsFirst { bound } => format!("reads-first:{bound}"),
    };
    let protocol = match destage.protocol {
        Protocol::Papers => "papers",
        Protocol::Safe => "safe",
    };
    let count = match destage.count {
        Count::Runs => "runs",
        Count::Groups => "groups",
    };
    let detector = match served::DETECTOR {
        DetectorKind::Pages => "pages",
        DetectorKind::AdjacentGroups => "adjacent-groups",
    };
    [
        ("queue-depth", destage.queue_depth.to_string()),
        ("order", order),
        ("protocol", protocol.to_string()),
        ("bridge", served::BRIDGE.to_string()),
        ("count", count.to_string()),
        ("detector", detector.to_string()),
        ("seq-threshold", served::SEQUENTIAL_THRESHOLD.to_string()),
    ]
});

/// A text with each of its numbers without needless digits, e.g. `90.0/80.0` as `90/80`.
fn plain_numbers(text: &str) -> String {
    let number = |part: &str| part.parse::<f64>().map_or(part.to_string(), |n| n.to_string());
    let parts = text.split_inclusive(['/', ',', '=', ':']);
    let plain = |part: &str| match part.strip_suffix(['/', ',', '=', ':']) {
        Some(value) => number(value) + &part[value.len()..],
        None => number(part),
    };
    parts.map(plain).collect()
}

fn disk_error(error: &destage_disk::SpecError) -> OptionError {
    let is_input = !matches!(error, destage_disk::SpecError::Unknown { .. });
    OptionError { message: error.to_string(), is_input }
}

/// The options of one run: a value for each of [`OPTIONS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    values: BTreeMap<&'static str, String>,
    /// Those that were set; the others have their defaults.
    given: BTreeSet<&'static str>,
}

impl Default for RunOptions {
    fn default() -> RunOptions {
        let values = OPTIONS.iter().map(|o| (o.name, o.default.to_string())).collect();
        RunOptions { values, given: BTreeSet::new() }
    }
}

impl RunOptions {
    /// Sets an option by name.
    ///
    /// # Errors
    /// No such option; the message lists the nearest.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        match OPTIONS.iter().find(|o| o.name == name) {
            Some(option) => {
                self.values.insert(option.name, value.to_string());
                self.given.insert(option.name);
                if (name, value) == ("group", "track") {
                    for (name, value) in [("level", "single"), ("disks", "1")] {
                        self.values.insert(name, value.into());
                        self.given.insert(name);
                    }
                }
                Ok(())
            }
            None => {
                let known = nearest_first(name, OPTIONS.iter().map(|o| o.name));
                let known = known.join(", ");
                Err(OptionError::usage(format!("unknown option `{name}`; known: {known}")))
            }
        }
    }

    /// The value as written.
    ///
    /// # Panics
    /// If the option is unknown, which is a bug.
    pub fn get(&self, name: &str) -> &str {
        if self.is_as_served() && !self.is_given(name) {
            let served = SERVED.iter().find(|(known, _)| *known == name);
            if let Some((_, value)) = served {
                return value;
            }
        }
        self.values.get(name).unwrap_or_else(|| panic!("no option {name}"))
    }

    /// Whether what is not given is as in a served array.
    pub(crate) fn is_as_served(&self) -> bool {
        self.values.get("as").is_some_and(|value| value == "served")
    }

    /// Whether the option was set, perhaps to its default.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    /// The options that were set, with their values. Set again, they make the same options.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.given.iter().map(|name| (*name, self.get(name)))
    }

    /// The value in one spelling, for keys of sweeps: sizes in pages, numbers without needless
    /// digits.
    pub(crate) fn plain(&self, name: &str) -> String {
        let text = self.get(name).to_string();
        match name {
            "nvs" | "strip" | "read-cache-size" => self.in_pages(name),
            "seed" => text,
            "thresholds" => plain_numbers(&text),
            _ => text.parse::<f64>().map_or(text, |number| number.to_string()),
        }
    }

    /// The value in one spelling, to be compared with others: as [`RunOptions::plain`], and with
    /// all parameters of policies, rates and loads.
    pub(crate) fn spelling(&self, name: &str) -> String {
        let text = self.get(name);
        let choice = match name {
            "policy" => destage_engine::policy::choose(text).map(|policy| policy.choice),
            "rate" => destage_engine::rate::choose(text).map(|rate| rate.choice),
            "workload" => destage_workload::generator::parse(text),
            "stripe-memory" => return self.in_pages(name),
            "trace" => {
                let path = std::fs::canonicalize(text).map(|path| path.display().to_string());
                return path.unwrap_or_else(|_| text.to_string());
            }
            "disk-fraction" if text.ends_with(['M', 'G', 'T']) => return self.in_pages(name),
            _ => return self.plain(name),
        };
        choice.map_or(text.to_string(), |choice| plain_numbers(&choice.describe()))
    }

    /// A size in pages, or the text if it is not a size.
    fn in_pages(&self, name: &str) -> String {
        self.pages(name).map_or(self.get(name).to_string(), |pages| pages.to_string())
    }

    /// All options and values.
    pub fn describe(&self) -> BTreeMap<String, String> {
        let values = self.values.keys().map(|name| (*name, self.get(name)));
        // A replay has no generator.
        let replayed = !self.get("trace").is_empty();
        let shown =
            |name: &str, value: &str| !value.is_empty() && (name != "workload" || !replayed);
        let values = values.filter(|(name, value)| shown(name, value));
        values.map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    pub(crate) fn bad(&self, name: &str) -> OptionError {
        let option = OPTIONS.iter().find(|o| o.name == name).expect("an option");
        let (takes, value) = (with_unit(option), self.get(name));
        OptionError::usage(format!("--{name} takes {takes}, not `{value}`"))
    }

    pub(crate) fn number<T: std::str::FromStr + PartialOrd>(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<T>,
    ) -> Result<T, OptionError> {
        let number = self.get(name).parse::<T>().ok().filter(|n| range.contains(n));
        number.ok_or_else(|| self.bad(name))
    }

    pub(crate) fn seconds(&self, name: &str) -> Result<Duration, OptionError> {
        let seconds: f64 = self.number(name, 0.0..=1e9)?;
        Ok(Duration((seconds * 1e9) as u64))
    }

    /// A size in pages: a number of pages, or bytes with a suffix.
    pub(crate) fn pages(&self, name: &str) -> Result<u64, OptionError> {
        pages_of(self.get(name)).ok_or_else(|| self.bad(name))
    }

    pub(crate) fn one_of<T: Copy>(
        &self,
        name: &str,
        choices: &[(&str, T)],
    ) -> Result<T, OptionError> {
        let found = choices.iter().find(|(text, _)| *text == self.get(name));
        found.map(|(_, value)| *value).ok_or_else(|| self.bad(name))
    }

    /// An option that is on or off.
    ///
    /// # Errors
    /// Neither.
    pub fn on(&self, name: &str) -> Result<bool, OptionError> {
        self.one_of(name, &[("on", true), ("off", false)])
    }

    /// How the trace is read.
    ///
    /// # Errors
    /// An unknown format or order.
    pub fn read_options(&self) -> Result<ReadOptions, OptionError> {
        let format = match self.get("trace-format") {
            "auto" => None,
            name => {
                destage_workload::trace::parse(name)
                    .map_err(|error| OptionError::usage(error.to_string()))?;
                Some(name.to_string())
            }
        };
        let order = match self.get("trace-order") {
            "auto" => TimeOrder::default(),
            name => TimeOrder::from_name(name).ok_or_else(|| self.bad("trace-order"))?,
        };
        let columns = match self.get("trace-columns") {
            "" => None,
            text => {
                let wrong = |why| OptionError::usage(format!("--trace-columns: {why}"));
                Some(Columns::parse(text).map_err(wrong)?)
            }
        };
        if let (Some(format), Some(_)) = (&format, &columns) {
            return Err(OptionError::usage(format!(
                "--trace-columns describes the columns of a trace, and so does --trace-format \
                 {format}: leave out one of them"
            )));
        }
        Ok(ReadOptions {
            format,
            columns,
            skip_bad: self.on("skip-bad")?,
            order,
            select: self.selection()?,
            times: self.one_of(
                "trace-merge",
                &[("clock", MergeTimes::Clock), ("start", MergeTimes::Start)],
            )?,
            devices: self.one_of(
                "trace-devices",
                &[("apart", MergeDevices::Apart), ("shared", MergeDevices::Shared)],
            )?,
        })
    }

    /// What of the trace is kept.
    fn selection(&self) -> Result<Selection, OptionError> {
        let devices = match self.get("trace-device") {
            "all" => Vec::new(),
            text => select::devices(text).ok_or_else(|| self.bad("trace-device"))?,
        };
        let selection = Selection {
            from_ns: self.optional("trace-from", select::time_ns)?,
            until_ns: self.optional("trace-until", select::time_ns)?,
            devices,
            range: self.optional("trace-range", select::byte_range)?,
            sample: self.optional("trace-sample", Sample::parse)?,
        };
        if let (Some(from), Some(until)) = (selection.from_ns, selection.until_ns)
            && from >= until
        {
            return Err(OptionError::usage(format!(
                "--trace-from {} is not before --trace-until {}",
                self.get("trace-from"),
                self.get("trace-until")
            )));
        }
        Ok(selection)
    }

    /// The value of an option that may be left out.
    fn optional<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, OptionError> {
        match self.get(name) {
            "" => Ok(None),
            text => parse(text).map(Some).ok_or_else(|| self.bad(name)),
        }
    }

    /// How the trace is replayed.
    ///
    /// # Errors
    /// An invalid mode, speed or device.
    pub fn replay_options(&self) -> Result<ReplayOptions, OptionError> {
        let pace = match self.get("trace-mode") {
            "open" => ReplayPace::Open { speed: self.number("trace-speed", 1e-9..=1e9)? },
            "closed" => ReplayPace::Closed { outstanding: 1 },
            mode if mode.starts_with("rate:") => {
                let iops = mode["rate:".len()..].parse().ok().filter(|n| (1e-3..=1e9).contains(n));
                let iops = iops.ok_or_else(|| self.bad("trace-mode"))?;
                ReplayPace::Rate { iops, seed: self.seed()? }
            }
            mode => {
                let outstanding = mode.strip_prefix("closed:").and_then(|n| n.parse().ok());
                let outstanding = outstanding.filter(|n| *n > 0);
                ReplayPace::Closed {
                    outstanding: outstanding.ok_or_else(|| self.bad("trace-mode"))?,
                }
            }
        };
        let reads_only = self.one_of("trace-ops", &[("all", false), ("reads", true)])?;
        let repeat = self.on("trace-repeat")?;
        if repeat && matches!(pace, ReplayPace::Open { .. }) {
            let message = "--trace-repeat takes --trace-mode closed:n or rate:iops";
            return Err(OptionError::usage(message.into()));
        }
        let wrap = self.on("wrap")?;
        let packed = self.one_of("trace-layout", &[("strides", false), ("packed", true)])?;
        let plain = ReplayOptions::default();
        Ok(ReplayOptions { pace, packed, wrap, reads_only, repeat, ..plain })
    }

    /// The seed.
    ///
    /// # Errors
    /// Not a number.
    pub fn seed(&self) -> Result<u64, OptionError> {
        self.number("seed", 0..=u64::MAX)
    }

    /// The disk model, with the run's own window and scheduler.
    ///
    /// # Errors
    /// No such model, or a bad spec file.
    pub fn disk(&self) -> Result<DiskSpec, OptionError> {
        let mut spec = destage_disk::find(self.get("disk")).map_err(|error| disk_error(&error))?;
        if self.get("window") != "auto" {
            spec.window = self.number("window", 1..=1024)?;
        }
        if self.get("scheduler") != "auto" {
            spec.scheduler = self.one_of(
                "scheduler",
                &[
                    ("fcfs", destage_disk::Scheduler::Fcfs),
                    ("cscan", destage_disk::Scheduler::Cscan),
                    ("sptf", destage_disk::Scheduler::Sptf),
                ],
            )?;
        }
        Ok(spec)
    }
}
