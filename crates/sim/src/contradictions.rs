//! Options that contradict each other, or that would have no effect: refused, never ignored.

use crate::options::{OPTIONS, OptionError, RunOptions};
use destage_disk::DiskSpec;
use destage_engine::rate::RATES;
use destage_workload::generator;
use std::collections::BTreeMap;

/// Options that make sense only with another: the option, and what it needs.
const NEEDS: &[(&str, &str)] = &[
    ("trace-format", "trace"),
    ("trace-columns", "trace"),
    ("trace-mode", "trace"),
    ("trace-ops", "trace"),
    ("trace-repeat", "trace"),
    ("trace-speed", "trace"),
    ("trace-device", "trace"),
    ("trace-from", "trace"),
    ("trace-until", "trace"),
    ("trace-range", "trace"),
    ("trace-sample", "trace"),
    ("trace-merge", "trace"),
    ("trace-devices", "trace"),
    ("trace-layout", "trace"),
    ("trace-order", "trace"),
    ("skip-bad", "trace"),
    ("wrap", "trace"),
    ("prefill", "trace"),
    ("read-cache-size", "read-cache"),
    ("read-cache-writes", "read-cache"),
    ("vdf", "read-cache"),
    ("vdf-writes", "fail"),
];

/// The first contradiction between the options of one run, as a message.
pub(crate) fn of_run(options: &RunOptions) -> Result<(), OptionError> {
    let refuse = |message: String| Err(OptionError::usage(message));
    let trace = options.get("trace");
    for name in ["workload", "iops"] {
        if !trace.is_empty() && options.is_given(name) {
            return refuse(format!(
                "--{name} is for a generated load, but --trace replays {trace}: leave out one of \
                 them. --trace-mode rate:IOPS replays a trace at a fixed rate."
            ));
        }
    }
    for (name, needed) in NEEDS {
        let alone = !options.is_given(needed) || options.get(needed).is_empty();
        if options.is_given(name) && !is_default(options, name) && alone {
            return refuse(format!(
                "--{name} has no effect without --{needed}: give both, or none"
            ));
        }
    }
    if options.get("track-writes") != "span" && options.get("group") != "track" {
        return refuse(
            "--track-writes has no effect without --group track: give both, or none".into(),
        );
    }
    of_rate(options, "thresholds", options.get("thresholds"))?;
    if !is_default(options, "trace-speed") && options.get("trace-mode") != "open" {
        return refuse(format!(
            "--trace-speed is for --trace-mode open, not for {}: leave out one of them",
            options.get("trace-mode")
        ));
    }
    if options.get("as") == "served" && options.get("group") == "track" {
        return refuse("--as served is for an array, not for --group track: leave it out".into());
    }
    for name in ["requests", "fail", "group"] {
        if options.get("prefill") == "on" && options.is_given(name) {
            return refuse(format!(
                "--prefill does not work with --{name} yet: leave out one of them"
            ));
        }
    }
    let papers = options.get("protocol") == "papers";
    if papers && options.is_given("bridge") && !is_default(options, "bridge") {
        return refuse(
            "--bridge joins commands of --protocol safe only: give that or --as served, or leave \
             it out"
                .into(),
        );
    }
    if papers && options.get("stripe-memory") != "0" {
        return refuse(
            "--stripe-memory needs --protocol safe: give that or --as served, or leave it out"
                .into(),
        );
    }
    if options.get("protocol") == "safe" && options.get("issue") == "runs" {
        return refuse(
            "--protocol safe issues all runs of a group at once: leave out --issue".into(),
        );
    }
    Ok(())
}

impl RunOptions {
    /// What of these options contradicts each other where a user gave them; this program may set
    /// them: `advise` scales a load by its rate.
    ///
    /// # Errors
    /// A load that has its own pace, with a rate.
    pub fn check_given(&self) -> Result<(), OptionError> {
        of_load(self)
    }

    /// Whether thresholds, given by an option of this name, contradict the rate.
    ///
    /// # Errors
    /// The rate names its own, or has no such thresholds.
    pub fn check_thresholds(&self, name: &str, value: &str) -> Result<(), OptionError> {
        of_rate(self, name, value)
    }

    /// Refuses two spellings of one value in a list of values of this option.
    ///
    /// # Errors
    /// A value that is listed twice, e.g. `32768` and `128M` of `nvs`.
    pub fn check_distinct(&self, name: &str, values: &[String]) -> Result<(), OptionError> {
        distinct(self, name, values)
    }
}

/// A load that has a pace of its own, with `--iops`. Only of what a user gave: `advise` scales a
/// load by setting `iops`.
pub(crate) fn of_load(options: &RunOptions) -> Result<(), OptionError> {
    let (workload, iops) = (options.get("workload"), options.get("iops"));
    let own = generator::own_pace(workload);
    match own.first() {
        Some(param) if !iops.is_empty() && options.get("trace").is_empty() => {
            Err(OptionError::usage(format!(
                "--iops {iops} makes an open loop at that rate, but --workload {workload} has its \
                 own {param}: leave out one of them"
            )))
        }
        _ => Ok(()),
    }
}

/// Thresholds, given by this option, next to a rate that names its own, or has none like these.
pub(crate) fn of_rate(options: &RunOptions, name: &str, value: &str) -> Result<(), OptionError> {
    let text = options.get("rate");
    let rate = text.split(':').next().unwrap_or(text);
    let Some(entry) = RATES.iter().map(|rate| &rate.entry).find(|entry| entry.name == rate) else {
        return Ok(());
    };
    let values = value.split(['/', ',']).filter(|value| !value.is_empty()).count();
    if values == 0 {
        return Ok(());
    }
    let is_level = |name: &str| ["high", "low"].contains(&name);
    if options.is_given("rate") && entry.given(text).iter().any(|param| is_level(param)) {
        return Err(OptionError::usage(format!(
            "--rate {text} names its thresholds, and so does --{name} {value}: leave out one of \
             them, e.g. --rate {rate} --{name} {value}"
        )));
    }
    let levels = entry.params.iter().map(|param| param.name).filter(|name| is_level(name));
    let levels: Vec<&str> = levels.collect();
    if values <= levels.len() {
        return Ok(());
    }
    Err(OptionError::usage(match levels.as_slice() {
        [] => {
            format!("--{name} has no effect: --rate {rate} has no thresholds. Leave it out")
        }
        [only] => format!(
            "--{name} {value}: --rate {rate} has the {only} threshold only: give one number, \
             or another rate"
        ),
        _ => format!("--{name} takes high/low, not `{value}`"),
    }))
}

/// Options about the disks' volatile caches that change nothing with this disk.
pub(crate) fn of_disk(options: &RunOptions, disk: &DiskSpec) -> Result<(), OptionError> {
    let refuse = |message: String| Err(OptionError::usage(message));
    let (durability, protocol) = (options.get("durability"), options.get("protocol"));
    let (is_safe, has_cache) = (protocol == "safe", disk.write_back.is_some());
    if durability == "fua" && !has_cache {
        return refuse(format!(
            "--durability fua has no effect: the disk {} has no volatile write cache. Leave it \
             out, or choose a --disk that has one, e.g. ultrastar-hc320",
            options.get("disk")
        ));
    }
    if ["flush", "epochs"].contains(&durability) && !is_safe {
        return refuse(format!(
            "--durability {durability} has no effect with --protocol {protocol}, where no destage \
             waits for a flush: give --protocol safe or --as served, or leave it out"
        ));
    }
    let in_epochs = is_safe && (durability == "epochs" || durability == "auto" && has_cache);
    if options.is_given("flush-bound") && !is_default(options, "flush-bound") && !in_epochs {
        return refuse(
            "--flush-bound has no effect: it bounds the flushes of --durability epochs with \
             --protocol safe. Give both (and a --disk with a volatile write cache), or leave it \
             out"
            .into(),
        );
    }
    Ok(())
}

fn is_default(options: &RunOptions, name: &str) -> bool {
    OPTIONS.iter().any(|option| option.name == name && option.default == options.get(name))
}

/// Axes that contradict the options common to all runs or each other, or have a value twice.
pub(crate) fn of_axes<'a>(
    base: &RunOptions,
    axes: impl IntoIterator<Item = &'a (String, Vec<String>)>,
) -> Result<(), OptionError> {
    let mut seen: Vec<&str> = Vec::new();
    for (name, values) in axes {
        if seen.contains(&name.as_str()) {
            return Err(OptionError::usage(format!(
                "`{name}` is swept twice: list all its values once, as {name}=V1,V2"
            )));
        }
        if base.is_given(name) {
            return Err(OptionError::usage(format!(
                "--{name} {} contradicts the sweep of {name}: leave out one of them",
                base.get(name)
            )));
        }
        seen.push(name);
        distinct(base, name, values)?;
    }
    Ok(())
}

/// Refuses two spellings of one value, e.g. `32768` and `128M` of `nvs`.
pub(crate) fn distinct(
    base: &RunOptions,
    name: &str,
    values: &[String],
) -> Result<(), OptionError> {
    let mut seen: BTreeMap<String, &String> = BTreeMap::new();
    let mut options = base.clone();
    for value in values {
        options.set(name, value)?;
        if let Some(other) = seen.insert(options.spelling(name), value) {
            return Err(OptionError::usage(match other == value {
                true => format!("{name}={value} is given twice: list each value once"),
                false => format!("{name}={other} and {name}={value} are the same: list it once"),
            }));
        }
    }
    Ok(())
}

/// Refuses several seeds at each value of a sweep of seeds.
pub(crate) fn of_swept_seeds(is_swept: bool, several: bool) -> Result<(), OptionError> {
    match is_swept && several {
        true => Err(OptionError::usage(
            "a sweep of seed and several seeds contradict each other: leave out one of them".into(),
        )),
        false => Ok(()),
    }
}

/// Refuses several seeds of a run that no seed changes.
pub(crate) fn of_seeds(options: &RunOptions, wanted: &str) -> Result<(), OptionError> {
    let at_random = options.get("trace-mode").starts_with("rate:");
    if options.get("trace").is_empty() || at_random || options.get("spindles") == "free" {
        return Ok(());
    }
    Err(OptionError::usage(format!(
        "{wanted} has no effect on a replay with --trace-mode {}, where nothing is random: every \
         seed gives the same run. Leave it out, or use --trace-mode rate:IOPS.",
        options.get("trace-mode")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> RunOptions {
        let mut options = RunOptions::default();
        for (name, value) in pairs {
            options.set(name, value).expect("an option");
        }
        options
    }

    #[test]
    fn seeds_of_a_replay_count_where_they_turn_the_disks() {
        let replay = [("trace", "t.csv"), ("trace-mode", "closed"), ("spindles", "free")];
        assert!(of_seeds(&with(&replay), "more than one seed").is_ok());
        assert!(of_seeds(&with(&replay[..2]), "more than one seed").is_err());
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let refused = |pairs: &[(&str, &str)]| of_run(&with(pairs)).unwrap_err().to_string();
        let trace = ("trace", "t.csv");
        assert!(refused(&[trace, ("iops", "500")]).contains("--iops is for a generated load"));
        assert!(refused(&[trace, ("workload", "spc1")]).contains("replays t.csv"));
        assert!(refused(&[("trace-mode", "closed:8")]).contains("without --trace"));
        assert!(refused(&[("wrap", "on")]).contains("--wrap has no effect"));
        let both = [trace, ("trace-mode", "closed"), ("trace-speed", "2")];
        assert!(refused(&both).contains("--trace-mode open"));
        assert!(refused(&[("read-cache-size", "1G")]).contains("without --read-cache"));
        assert!(refused(&[("protocol", "safe"), ("issue", "runs")]).contains("--issue"));
        let track = refused(&[("track-writes", "runs"), ("group", "stripes")]);
        assert!(track.contains("--track-writes has no effect without --group track"), "{track}");
        assert!(of_run(&with(&[("track-writes", "runs"), ("group", "track")])).is_ok());
        assert!(of_run(&with(&[("trace-mode", "open"), ("workload", "spc1")])).is_ok());
        assert!(of_run(&with(&[trace, ("trace-mode", "closed:8"), ("wrap", "on")])).is_ok());
        assert!(of_run(&with(&[("read-cache", "off"), ("read-cache-size", "1G")])).is_ok());
    }

    #[test]
    fn a_load_has_one_pace() {
        let refused = |workload: &str, iops: &str| {
            let error = of_load(&with(&[("workload", workload), ("iops", iops)])).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            refused("random:threads=4", "500"),
            "--iops 500 makes an open loop at that rate, but --workload random:threads=4 has its \
             own threads: leave out one of them"
        );
        assert!(refused("uniform:iops=300", "500").contains("has its own iops"));
        assert!(refused("hotcold:think=1", "500").contains("has its own think"));
        for workload in ["spc1", "random", "uniform:writes=0.5", "spc1:style=v2,bound=4"] {
            assert!(of_load(&with(&[("workload", workload), ("iops", "500")])).is_ok());
        }
        assert!(of_load(&with(&[("workload", "random:threads=4")])).is_ok());
    }

    #[test]
    fn thresholds_are_given_once_and_to_a_rate_that_has_them() {
        let built = |rate: &str, thresholds: &str| {
            let given: &[(&str, &str)] = if rate.is_empty() { &[] } else { &[("rate", rate)] };
            let options = with(&[given, &[("thresholds", thresholds)][..]].concat());
            options.build().map(|config| config.controller.rate.choice.describe())
        };
        let refused = |rate: &str, thresholds: &str| {
            let error = built(rate, thresholds).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            refused("linear:70/40", "90/80"),
            "--rate linear:70/40 names its thresholds, and so does --thresholds 90/80: leave out \
             one of them, e.g. --rate linear --thresholds 90/80"
        );
        assert!(refused("dual:low=20", "90/10").contains("names its thresholds"));
        assert!(refused("quick", "90/80").contains("--rate quick has no thresholds"));
        assert!(refused("fixed", "90/80").contains("has the low threshold only"));
        assert!(refused("linear", "90/80/20").contains("takes high/low"));
        let built = |rate: &str, thresholds: &str| built(rate, thresholds).expect("a rate");
        assert_eq!(built("", "70/40"), "linear:high=70,low=40,idle=off");
        assert_eq!(built("dual", "70"), "dual:high=70,low=15,idle=off");
        assert_eq!(built("fixed", "70"), "fixed:low=70,idle=off");
        // What else the rate is given stays.
        assert_eq!(built("linear:idle=20", "70/40"), "linear:high=70,low=40,idle=20");
    }

    #[test]
    fn options_about_volatile_caches_need_one() {
        let built = |pairs: &[(&str, &str)]| with(pairs).build().map(|_| ());
        let refused = |pairs: &[(&str, &str)]| built(pairs).unwrap_err().to_string();
        let (drive, safe) = (("disk", "ultrastar-hc320"), ("protocol", "safe"));
        let fua = ("durability", "fua");
        assert!(refused(&[fua, safe]).contains("stow-ref has no volatile write cache"));
        assert!(built(&[fua, safe, drive]).is_ok());
        for how in ["flush", "epochs"] {
            let message = refused(&[("durability", how), drive]);
            assert!(message.contains("no effect with --protocol papers"), "{message}");
            assert!(built(&[("durability", how), ("as", "served")]).is_ok());
        }
        let bound = ("flush-bound", "50");
        for pairs in [&[bound, drive][..], &[bound, safe], &[bound, safe, drive, fua]] {
            assert!(refused(pairs).contains("--flush-bound has no effect"), "{pairs:?}");
        }
        assert!(built(&[bound, safe, drive]).is_ok());
        assert!(built(&[bound, safe, ("durability", "epochs")]).is_ok());
        assert!(built(&[("flush-bound", "150"), ("durability", "off")]).is_ok());
    }

    #[test]
    fn an_axis_has_each_value_once_and_no_rival() {
        let axis = |name: &str, values: &[&str]| {
            (name.to_string(), values.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let refused = |base: &[(&str, &str)], axes: &[(String, Vec<String>)]| {
            of_axes(&with(base), axes).unwrap_err().to_string()
        };
        let sizes = axis("nvs", &["32768", "128M"]);
        assert!(refused(&[], &[sizes]).contains("nvs=32768 and nvs=128M are the same"));
        assert!(refused(&[], &[axis("iops", &["100", "100.0"])]).contains("are the same"));
        assert!(refused(&[], &[axis("policy", &["wow", "wow"])]).contains("given twice"));
        for (name, values) in [
            ("thresholds", ["90/80", "90.0/80.0"]),
            ("rate", ["linear:90/80", "linear:high=90.0"]),
            ("policy", ["wow", "wow:initial-bit=0"]),
            ("workload", ["random", "random:threads=32"]),
            ("stripe-memory", ["64M", "16384"]),
            ("disk-fraction", ["1G", "1024M"]),
        ] {
            let message = refused(&[], &[axis(name, &values)]);
            assert!(message.contains("are the same: list it once"), "{message}");
        }
        let apart = axis("trace", &["/data/1/x.csv", "/data/01/x.csv"]);
        assert!(of_axes(&with(&[]), &[apart, axis("disk-fraction", &["1", "4K"])]).is_ok());
        let twice = [axis("policy", &["wow"]), axis("policy", &["stow"])];
        assert!(refused(&[], &twice).contains("swept twice"));
        assert!(refused(&[("nvs", "1")], &[axis("nvs", &["2"])]).contains("contradicts the sweep"));
        assert!(of_axes(&with(&[]), &[axis("nvs", &["1", "2"]), axis("iops", &["1"])]).is_ok());
    }
}
