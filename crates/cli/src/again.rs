//! The command that makes a report again.

use clap::ArgMatches;
use clap::parser::ValueSource;
use destage_sim::options::OPTIONS;

/// Options of `compare` and `sim` besides those of a run.
const OF_REPORTS: [&str; 9] =
    ["experiment", "panel", "policies", "sweep", "seeds", "ci", "seeds-max", "at-ms", "title"];

/// `destage compare` or `destage sim`, as it was given but for where its output goes.
pub fn of_runs(command: &str, matches: &ArgMatches) -> String {
    let names = OF_REPORTS.into_iter().chain(OPTIONS.iter().map(|option| option.name));
    command_line(command, matches, names)
}

/// `destage COMMAND` with those of these options that were given, for a shell.
pub fn command_line<'a>(
    command: &str,
    matches: &ArgMatches,
    names: impl IntoIterator<Item = &'a str>,
) -> String {
    let mut line = format!("destage {command}");
    for name in names {
        let known = matches.try_contains_id(name).is_ok();
        if !known || matches.value_source(name) != Some(ValueSource::CommandLine) {
            continue;
        }
        if matches.try_get_one::<bool>(name).is_ok() {
            line.push_str(&format!(" --{name}"));
            continue;
        }
        for value in matches.get_raw(name).into_iter().flatten() {
            line.push_str(&format!(" --{name} {}", quoted(&value.to_string_lossy())));
        }
    }
    line
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:/=%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgAction, Command};

    #[test]
    fn what_was_given_is_there_and_a_shell_reads_it_back() {
        let command = Command::new("destage")
            .arg(Arg::new("policies").long("policies"))
            .arg(Arg::new("grid").long("grid").default_value("grid.toml"))
            .arg(Arg::new("title").long("title").action(ArgAction::Append))
            .arg(Arg::new("quick").long("quick").action(ArgAction::SetTrue))
            .arg(Arg::new("all").long("all").action(ArgAction::SetTrue));
        let given = [
            "destage",
            "--title",
            "it's",
            "--title",
            "",
            "--policies",
            "ebb:held=2,lrw",
            "--quick",
        ];
        let matches = command.get_matches_from(given);
        let names = ["policies", "grid", "title", "absent", "quick", "all"];
        assert_eq!(
            command_line("tournament", &matches, names),
            r"destage tournament --policies ebb:held=2,lrw --title 'it'\''s' --title '' --quick"
        );
    }
}
