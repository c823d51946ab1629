//! Commands for a running server: those of its list (`destage_server::array::control`). The
//! arguments are sent as they are; here is only what the command line adds.

use super::files::{Made, absolute, device};
use super::quantity::bytes;
use super::target::{control, name};
use super::{format, text};
use crate::array_args::OF_NVS;
use crate::failure::Failure;
use crate::progress;
use clap::ArgMatches;
use destage_report::Format;
use destage_report::live::{ArrayStatus, DeviceStatus};
use destage_report::scrub::ScrubStatus;
use destage_report::state::{DeviceKind, DeviceState, ScrubState};
use destage_server::array::control::{
    Argument, AskError, Command as _, Entry, Kind, Status, Stop, ask, ask_to_end, ask_value, check,
    command,
};
use destage_server::array::{DeviceSpec, Resized};
use indicatif::ProgressBar;
use serde_json::{Map, Value};
use std::time::Duration;

/// How often a waiting command asks for the status.
const LOOK: Duration = Duration::from_millis(100);
/// How long `destage stop` waits for the server that agreed to end.
const END_MOST: Duration = Duration::from_secs(600);

/// Runs the command of this name; `None`: there is no such command.
pub fn run(name: &str, matches: &ArgMatches) -> Option<Result<String, Failure>> {
    if let ("nvs", Some((name, matches))) = (name, matches.subcommand()) {
        return run(&format!("{OF_NVS}{name}"), matches);
    }
    let entry = command(name)?;
    Some(match name {
        "status" => status(matches),
        "stop" => stop(matches),
        _ => give(entry, matches),
    })
}

/// The status of the array.
fn now(matches: &ArgMatches) -> Result<ArrayStatus, Failure> {
    let control = control(matches)?;
    ask(&control, name(matches), &Status {}, |_| ()).map_err(Failure::failed)
}

/// Sends a command, and waits until what it began is done.
fn give(entry: &Entry, matches: &ArgMatches) -> Result<String, Failure> {
    let about = &entry.about;
    let control = control(matches)?;
    let makes = about.arguments.iter().any(|argument| argument.kind == Kind::NewDevice);
    if makes {
        // Without a server, no file is made.
        now(matches)?;
    }
    let mut made = Made::default();
    let mut arguments = Map::new();
    for argument in about.arguments {
        if let Some(value) = value(argument, matches, &mut made)? {
            arguments.insert(argument.name.to_string(), value);
        }
    }
    check(entry, arguments.clone()).map_err(Failure::usage)?;
    let bar = progress::bar("dirty pages destaged");
    let answer = ask_value(&control, name(matches), about.name, arguments.clone(), left_on(&bar));
    bar.finish_and_clear();
    made.settle(matches, &answer);
    let reply = answer.map_err(|error| match error {
        AskError::Refused(text) if about.name == "set" => Failure::usage(text),
        error => Failure::failed(error),
    })?;
    let new = || arguments["new"].as_str().unwrap_or_default();
    let given = |flag| matches!(matches.try_get_one(flag), Ok(Some(true)));
    let waits = !given("background") && !given("stop");
    match about.name {
        "replace" if waits => wait_for_member(matches, new()),
        "nvs-replace" if waits => wait_for_nvs(matches, new()),
        "nvs-resize" => resized(matches, reply.reply),
        "scrub" if waits => wait_for_scrub(matches),
        "scrub" if given("stop") => Ok(format!("{}: the scrub ends\n", name(matches))),
        "set" => Ok(settings(&now(matches)?)),
        _ => said(entry, name(matches), &arguments, &reply.reply),
    }
}

/// What the command line prints when a command is done.
fn said(
    entry: &Entry,
    array: &str,
    arguments: &Map<String, Value>,
    reply: &Value,
) -> Result<String, Failure> {
    if !reply.is_null() {
        let text = serde_json::to_string_pretty(reply).map_err(Failure::failed)?;
        return Ok(text + "\n");
    }
    let mut text = entry.about.done.to_string();
    for (name, value) in arguments {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        text = text.replace(&format!("{{{name}}}"), &value);
    }
    Ok(format!("{array}: {text}\n"))
}

/// The value of an argument, as the server takes it.
fn value(
    argument: &Argument,
    matches: &ArgMatches,
    made: &mut Made,
) -> Result<Option<Value>, Failure> {
    if argument.kind == Kind::Flag {
        return Ok(Some(Value::Bool(matches.get_flag(argument.name))));
    }
    let Some(given) = text(matches, argument.name) else { return Ok(None) };
    Ok(Some(match argument.kind {
        Kind::Bytes(_) => Value::from(bytes(given)?),
        Kind::Member if given.parse::<u16>().is_ok() => Value::from(given),
        Kind::Member | Kind::Device => {
            let spec: DeviceSpec = given.parse().map_err(Failure::usage)?;
            Value::from(absolute(&spec))
        }
        Kind::NewDevice => Value::from(device(matches, argument.name, made)?),
        _ => Value::from(given),
    }))
}

/// Shows how many dirty pages are left.
fn left_on(bar: &ProgressBar) -> impl FnMut(u64) + use<> {
    let (bar, mut most) = (bar.clone(), 0);
    move |left| {
        most = most.max(left);
        bar.set_length(most);
        bar.set_position(most - left);
    }
}

fn status(matches: &ArgMatches) -> Result<String, Failure> {
    if matches.get_flag("what-if") {
        return super::monitoring::what_if(matches);
    }
    let status = now(matches)?;
    Ok(match format(matches) {
        Format::Json => {
            let text = serde_json::to_string_pretty(&status).map_err(Failure::failed)?;
            format!("{text}\n")
        }
        other => status.table().render(other),
    })
}

fn stop(matches: &ArgMatches) -> Result<String, Failure> {
    let (array, control) = (name(matches), control(matches)?);
    let [drain, force, check] = ["drain", "force", "check"].map(|flag| matches.get_flag(flag));
    let stop = Stop { drain, force, check };
    stop.check().map_err(Failure::usage)?;
    if check {
        ask(&control, array, &stop, |_| ()).map_err(Failure::failed)?;
        return Ok(format!("{array}: the server would stop\n"));
    }
    let bar = progress::bar("dirty pages destaged");
    let ended = ask_to_end(&control, array, &stop, END_MOST, left_on(&bar));
    bar.finish_and_clear();
    if ended.map_err(Failure::failed)? {
        return Ok(format!("{array}: stopped\n"));
    }
    Err(Failure::failed(format!(
        "{array}: the server has not ended within {} s: see `destage status {array}`",
        END_MOST.as_secs()
    )))
}

/// The settings that `destage set` can change.
fn settings(status: &ArrayStatus) -> String {
    let cache = status.read_cache.as_ref();
    let cache = cache.map_or("off".to_string(), |c| format!("{} of {} pages", c.policy, c.pages));
    let limits = match status.rebuild_limits.as_str() {
        "" => "without limits",
        limits => limits,
    };
    let ArrayStatus { name, policy, rate, .. } = status;
    format!("{name}: policy {policy}, rate {rate}, read cache {cache}, rebuilds {limits}\n")
}

/// Whether a device is in use now.
fn in_use(status: &ArrayStatus, kind: DeviceKind, device: &str) -> bool {
    let is = |d: &DeviceStatus| d.kind == kind && d.device == device;
    status.devices.iter().any(|d| is(d) && d.state == DeviceState::InUse)
}

/// Waits until a device has replaced another; `left` is how far it is, while it is not there.
fn wait_for(
    matches: &ArgMatches,
    unit: &str,
    left: impl Fn(&ArrayStatus) -> Option<(u64, u64)>,
) -> Result<ArrayStatus, Failure> {
    let bar = progress::bar(unit);
    loop {
        let status = now(matches)?;
        let Some((done, of)) = left(&status) else {
            bar.finish_and_clear();
            return Ok(status);
        };
        bar.set_length(of);
        bar.set_position(done);
        std::thread::sleep(LOOK);
    }
}

fn wait_for_member(matches: &ArgMatches, new: &str) -> Result<String, Failure> {
    let array = name(matches);
    let status = wait_for(matches, "bytes of the member", |status| {
        let rebuild = status.rebuilds.iter().find(|rebuild| rebuild.device == new)?;
        Some((rebuild.bytes_done, rebuild.bytes))
    })?;
    if in_use(&status, DeviceKind::Member, new) {
        return Ok(format!("{array}: {new}: rebuild complete\n"));
    }
    Err(Failure::failed(format!(
        "{new} was not rebuilt: see the alarms of `destage status {array}`"
    )))
}

fn wait_for_nvs(matches: &ArgMatches, new: &str) -> Result<String, Failure> {
    let array = name(matches);
    let status = wait_for(matches, "bytes of the log", |status| {
        status.mirror.as_ref().map(|mirror| (mirror.bytes_copied, mirror.bytes))
    })?;
    let used = |device: &&DeviceStatus| {
        device.kind == DeviceKind::Nvs && device.state == DeviceState::InUse
    };
    match status.devices.iter().filter(used).count() {
        _ if !in_use(&status, DeviceKind::Nvs, new) => {}
        1 => {
            let pages = status.nvs_pages;
            return Ok(format!("{array}: {new} is in use: room for {pages} dirty pages\n"));
        }
        _ => return Ok(format!("{array}: {new} is in sync: the NVS is mirrored\n")),
    }
    Err(Failure::failed(format!(
        "{new} was not resynced: see the alarms of `destage status {array}`"
    )))
}

/// What the NVS has room for now.
fn resized(matches: &ArgMatches, reply: Value) -> Result<String, Failure> {
    if format(matches) == Format::Json {
        return Ok(format!("{reply:#}\n"));
    }
    let Resized { pages_before, pages, pages_allowed } =
        serde_json::from_value(reply).map_err(Failure::failed)?;
    let limit = match pages_allowed {
        allowed if allowed < pages => format!(", of which max_dirty allows {allowed}"),
        _ => String::new(),
    };
    let array = name(matches);
    Ok(format!(
        "{array}: the NVS has room for {pages} dirty pages{limit} (before: {pages_before})\n"
    ))
}

fn wait_for_scrub(matches: &ArgMatches) -> Result<String, Failure> {
    let array = name(matches);
    let status = wait_for(matches, "rows", |status| {
        let scrub = status.scrub.as_ref()?;
        (scrub.state == ScrubState::Running).then_some((scrub.rows_done, scrub.rows))
    })?;
    let scrub = status
        .scrub
        .ok_or_else(|| Failure::failed("the server restarted while the scrub was running"))?;
    let report = match format(matches) {
        Format::Json => {
            format!("{}\n", serde_json::to_string_pretty(&scrub).map_err(Failure::failed)?)
        }
        other => scrub.table().render(other),
    };
    if scrub.clean() {
        return Ok(report);
    }
    print!("{report}");
    Err(Failure::failed(not_clean(array, &scrub)))
}

fn not_clean(array: &str, scrub: &ScrubStatus) -> String {
    match scrub.rows_left {
        0 => format!("{array}: the scrub ended before all rows were compared: see its alarms"),
        left if scrub.repair => format!("{array}: {left} rows are still inconsistent"),
        left => format!("{array}: {left} rows are inconsistent: `destage scrub {array} --repair`"),
    }
}
