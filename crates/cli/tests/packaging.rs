//! Man pages and shell completions are made from the commands, and know all of them; what the
//! package installs with them agrees with the program.

mod common;

use common::{destage, fails, succeeds, top};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The words of a section of `--help`: the first of each line that is indented by two.
fn listed(help: &str, section: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != section).skip(1);
    let entry = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let word = |line: &str| line.split_whitespace().next().map(str::to_string);
    lines.take_while(|line| !line.is_empty()).filter(entry).filter_map(word).collect()
}

/// Every command as its words, from the help texts alone; the top one has no words.
fn commands() -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut next = 0;
    while next < all.len() {
        let words: Vec<String> = all[next].clone();
        let mut asked: Vec<&str> = words.iter().map(String::as_str).collect();
        asked.push("--help");
        for found in listed(&succeeds(&asked), "Commands:") {
            if found != "help" {
                all.push([words.clone(), vec![found]].concat());
            }
        }
        next += 1;
    }
    assert!(all.len() > 30, "{all:?}");
    all
}

/// The long options that a command's help has.
fn options(words: &[String]) -> Vec<String> {
    let mut asked: Vec<&str> = words.iter().map(String::as_str).collect();
    asked.push("--help");
    let help = succeeds(&asked);
    let named = help.lines().filter_map(|line| line.trim_start().split_once("--"));
    let starts = named.filter(|(before, _)| before.is_empty() || *before == "-h, ");
    let name = |rest: &str| {
        rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect::<String>()
    };
    starts.map(|(_, rest)| name(rest)).filter(|name| !name.is_empty()).collect()
}

/// Whether a program is here; says so if not.
fn here(program: &str) -> bool {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|p| p.join(program).is_file()));
    if !found {
        println!("SKIPPED: {program} is not installed");
    }
    found
}

/// Gives a program a text; it must end well and complain of nothing.
fn accepts(program: &str, words: &[&str], text: &str) -> String {
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("runs");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{program} {words:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_command_has_a_man_page_with_its_options() {
    let folder = tempfile::tempdir().expect("a folder");
    succeeds(&["man", folder.path().to_str().expect("text")]);
    let mut wanted = Vec::new();
    for words in commands() {
        let name = format!("{}.1", [vec!["destage".to_string()], words.clone()].concat().join("-"));
        let page = std::fs::read_to_string(folder.path().join(&name))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        // roff writes a hyphen as \-.
        let page = page.replace("\\-", "-");
        for option in options(&words) {
            assert!(page.contains(&format!("--{option}")), "{name} does not know --{option}");
        }
        let group = page.contains("SUBCOMMANDS");
        assert!(page.contains("xample") || group, "{name}: no example");
        if here("groff") {
            accepts("groff", &["-man", "-Tutf8", "-ww", "-z"], &page);
        }
        wanted.push(name);
    }
    let found = std::fs::read_dir(folder.path()).expect("listed").count();
    assert_eq!(found, wanted.len(), "pages of commands that the help does not tell of");
    fails(1, &["man", "/nonexistent/folder"]);
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = succeeds(&["completions", shell]);
        for words in commands().iter().filter(|words| !words.is_empty()) {
            let last = words.last().expect("a word");
            let known = script
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
                .any(|word| word == last);
            assert!(known, "{shell} does not know {words:?}");
        }
        if here(shell) {
            accepts(shell, &["-n"], &script);
        }
    }
}

#[test]
fn bash_completes_commands_and_options() {
    if !here("bash") {
        return;
    }
    let script = succeeds(&["completions", "bash"]);
    let complete = |line: &str| -> Vec<String> {
        let count = line.split(' ').count() - 1;
        let ask = format!(
            "{script}\nset -f\nIFS=' ' COMP_WORDS=({line}) COMP_CWORD={count}\n\
             _destage destage \"${{COMP_WORDS[{count}]}}\" \"${{COMP_WORDS[{}]}}\"\n\
             printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            count.saturating_sub(1)
        );
        accepts("bash", &[], &ask).lines().map(str::to_string).collect()
    };
    let offered = complete("destage ''");
    for words in commands().iter().filter(|words| words.len() == 1) {
        assert!(offered.contains(&words[0]), "{words:?} is not in {offered:?}");
    }
    assert_eq!(complete("destage flus"), ["flush"]);
    assert_eq!(complete("destage serve --ht"), ["--http", "--http-name", "--http-token-file"]);
}

/// The words of the unit's ExecStart, in its continued lines.
fn exec_start() -> Vec<String> {
    let unit = std::fs::read_to_string(top().join("packaging/destage@.service")).expect("the unit");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("ExecStart");
    line.split_whitespace().map(str::to_string).collect()
}

#[test]
fn the_unit_calls_the_program_as_it_is() {
    let words = exec_start();
    assert_eq!(words[0], "/usr/bin/destage");
    assert!(commands().contains(&vec![words[1].clone()]), "{words:?}");
    let known = options(&words[1..2]);
    for option in words.iter().filter_map(|word| word.strip_prefix("--")) {
        assert!(known.contains(&option.to_string()), "{} has no option {option}", words[1]);
    }
    if here("systemd-analyze") && Path::new("/usr/bin/destage").exists() {
        let unit = top().join("packaging/destage@.service");
        accepts("systemd-analyze", &["verify", unit.to_str().expect("text")], "");
    }
}

#[test]
fn the_example_configuration_is_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = std::fs::read_to_string(top().join("packaging/examples/tank.toml")).expect("it");
    std::fs::write(folder.path().join("tank.toml"), &text).expect("written");
    let config = folder.path().to_str().expect("text");
    // It is understood: what is missing is the disks.
    let output = destage(&["recover", "tank", "--inspect", "--config-dir", config]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("ata-EXAMPLE-1") && !error.contains("tank.toml"), "{error}");
    std::fs::write(folder.path().join("tank.toml"), text.replace("policy", "polcy")).expect("it");
    let error = fails(1, &["recover", "tank", "--inspect", "--config-dir", config]);
    assert!(error.contains("tank.toml"), "{error}");
}

#[test]
fn the_package_has_the_programs_version() {
    let text = std::fs::read_to_string(top().join("packaging/debian/changelog")).expect("it");
    let version = succeeds(&["--version"]);
    let version = version.trim().strip_prefix("destage ").expect("a version");
    assert!(text.starts_with(&format!("destage ({version}-")), "packaging/debian/changelog");
}

/// Runs the package's `prerm remove` on a folder of control sockets, with a `destage` and a
/// `systemctl` that do what these scripts say; and the commands that it ran.
fn removal(destage: &str, systemctl: &str) -> (std::process::Output, Vec<String>) {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let listen = |name: &str| std::os::unix::net::UnixListener::bind(path(name)).expect("bound");
    let _sockets = ["tank.control", "zfs.control"].map(listen);
    let text = std::fs::read_to_string(top().join("packaging/debian/prerm")).expect("prerm");
    let text = text.replace("/run/destage", &path("")).replace("/run/systemd/system", &path(""));
    for (program, script) in [("destage", destage), ("systemctl", systemctl)] {
        let log = path("log");
        let script = format!("#!/bin/sh\necho {program} $* >> {log}\n{script}\n");
        std::fs::write(path(program), script).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path(program), mode).expect("changed");
    }
    let search = format!("{}:{}", path(""), std::env::var("PATH").unwrap_or_default());
    let words = ["-c", &text, "prerm", "remove"];
    let output = Command::new("sh").args(words).env("PATH", search).output().expect("sh runs");
    let ran = std::fs::read_to_string(path("log")).expect("a log");
    (output, ran.lines().map(str::to_string).collect())
}

#[test]
fn the_removal_fails_where_an_array_refuses_to_stop() {
    let script = "[ $1 = status ] && exit 0; [ $3 = tank ] && exit 0\n\
        echo 'zfs: d1 was deleted' >&2; exit 1";
    let (refuses, ran) = removal(script, "exit 0");
    let said = String::from_utf8_lossy(&refuses.stderr).into_owned();
    assert!(!refuses.status.success() && said.contains("d1 was deleted"), "{said}");
    assert!(said.contains("--force"), "{said}");
    // None was stopped, the others neither.
    let asks = |ran: &String| ran.contains(" status ") || ran.contains(" --check ");
    assert!(ran.iter().all(asks), "{ran:?}");
    assert!(removal("exit 0", "exit 0").0.status.success());
    // A socket that a killed server left.
    assert!(removal("exit 1", "exit 0").0.status.success());
    // A unit that does not end.
    assert!(!removal("exit 0", "exit 1").0.status.success());
}

#[test]
fn the_removal_has_systemd_stop_what_depends_on_arrays_first() {
    // What systemd stops is served no longer; the other was started by hand.
    let script = "case \"$*\" in 'status tank') [ ! -e $0.stopped ];; esac";
    let (output, ran) = removal(script, "touch ${0%systemctl}destage.stopped");
    assert!(output.status.success(), "{output:?}");
    let stops: Vec<&String> = ran.iter().filter(|ran| ran.contains(" stop ")).collect();
    let expected = [
        "destage stop --check tank",
        "destage stop --check zfs",
        "systemctl stop destage@*.service",
        "destage stop zfs",
    ];
    assert_eq!(stops, expected, "{ran:?}");
}

#[test]
fn the_unit_leaves_the_time_to_save_files() {
    let unit = std::fs::read_to_string(top().join("packaging/destage@.service")).expect("the unit");
    let time = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).expect("it");
    // Of the configuration's defaults: save_seconds, and stall_seconds before it.
    assert!(time.parse::<u64>().expect("seconds") >= 300 + 30 + 30, "{time}");
}
