//! Options that contradict each other, or that would have no effect: refused, never ignored.

use crate::options::{OPTIONS, OptionError, RunOptions};
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
        if let Some(other) = seen.insert(options.plain(name), value) {
            return Err(OptionError::usage(match other == value {
                true => format!("{name}={value} is given twice: list each value once"),
                false => format!("{name}={other} and {name}={value} are the same: list it once"),
            }));
        }
    }
    Ok(())
}

/// Refuses several seeds of a run that no seed changes.
pub(crate) fn of_seeds(options: &RunOptions, wanted: &str) -> Result<(), OptionError> {
    if options.get("trace").is_empty() || options.get("trace-mode").starts_with("rate:") {
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
        assert!(of_run(&with(&[("trace-mode", "open"), ("workload", "spc1")])).is_ok());
        assert!(of_run(&with(&[trace, ("trace-mode", "closed:8"), ("wrap", "on")])).is_ok());
        assert!(of_run(&with(&[("read-cache", "off"), ("read-cache-size", "1G")])).is_ok());
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
        let twice = [axis("policy", &["wow"]), axis("policy", &["stow"])];
        assert!(refused(&[], &twice).contains("swept twice"));
        assert!(refused(&[("nvs", "1")], &[axis("nvs", &["2"])]).contains("contradicts the sweep"));
        assert!(of_axes(&with(&[]), &[axis("nvs", &["1", "2"]), axis("iops", &["1"])]).is_ok());
    }
}
