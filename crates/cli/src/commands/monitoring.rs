//! Monitoring of a served array: the page and metrics of `destage serve`, its log,
//! `status --what-if` and `trace record`.

use super::target::{control, name};
use super::{format, text};
use crate::failure::Failure;
#[cfg(feature = "plan")]
use crate::paths::Paths;
#[cfg(feature = "plan")]
use crate::progress;
use crate::say;
use clap::ArgMatches;
use destage_observe::http::{Guard, HttpError, Settings, new_token, read_token, serve};
use destage_observe::{Monitor, Options};
use destage_report::Format;
use destage_report::sample::WhatIf;
use destage_server::array::control::{WhatIf as AskWhatIf, ask};
use destage_server::array::{ArrayBackend, ArrayHandle, tap};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Requests that wait for the monitor: a fifth of a second at 300,000 per second.
const TAP: usize = 1 << 16;

/// The log of a server. When it is dropped, the last lines are written, if that takes no longer
/// than a second.
pub struct Log {
    _writer: WorkerGuard,
}

impl Drop for Log {
    fn drop(&mut self) {
        say::to_log(None);
    }
}

/// Begins the log on standard error; `RUST_LOG` sets its level. A thread of its own writes the
/// lines, and drops those that come while 128,000 wait: the data thread never waits for a terminal
/// that was stopped or a reader that hangs. What the command says goes there too, in order.
pub fn log(json: bool) -> Result<Log, Failure> {
    let wanted = std::env::var("RUST_LOG").unwrap_or_else(|_| "info".to_string());
    let targets: Targets =
        wanted.parse().map_err(|error| Failure::usage(format!("RUST_LOG {wanted:?}: {error}")))?;
    let log = tracing_subscriber::registry().with(targets);
    let (writer, guard) = tracing_appender::non_blocking(std::io::stderr());
    say::to_log(Some(Box::new(writer.clone())));
    let lines = layer().with_ansi(false).with_writer(writer);
    // It would report a line that it cannot write with `eprintln!`, which panics there. Begun once
    // in a process.
    let _ = match json {
        true => log.with(lines.json().log_internal_errors(false)).try_init(),
        false => log.with(lines.log_internal_errors(false)).try_init(),
    };
    Ok(Log { _writer: guard })
}

/// Starts the monitor of an array.
pub fn start(
    matches: &ArgMatches,
    name: &str,
    handle: ArrayHandle,
    backend: &mut ArrayBackend,
) -> Result<Monitor, Failure> {
    let options = Options {
        what_if_one_in: matches.get_one::<u64>("what-if").copied(),
        alarm_command: text(matches, "alarm-command").map(str::to_string),
    };
    let (end, reader) = tap(TAP);
    backend.tap(end);
    Monitor::start(name, options, handle, reader).map_err(Failure::failed)
}

/// Serves the page, if the arguments ask for it.
pub fn http(matches: &ArgMatches, control: &Path, monitor: Monitor) -> Result<(), Failure> {
    let Some(address) = text(matches, "http") else { return Ok(()) };
    let address: SocketAddr = address.parse().map_err(|_| {
        Failure::usage(format!("--http {address}: give an address and a port, e.g. 127.0.0.1:9090"))
    })?;
    let names = matches.get_many::<String>("http-name").unwrap_or_default().cloned().collect();
    let (token, path) = match text(matches, "http-token-file") {
        Some(path) => (read_token(Path::new(path)), PathBuf::from(path)),
        None => {
            let path = control.with_extension("token");
            (new_token(&path), path)
        }
    };
    let token = token.map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
    let guard = Guard::new(token, names);
    let mut settings = Settings::new(address, guard, control.to_path_buf());
    #[cfg(feature = "plan")]
    {
        settings.charting = destage_render::plotly_js;
    }
    settings.allow_remote = matches.get_flag("allow-remote-http");
    let address = serve(settings, monitor).map_err(|error| match error {
        HttpError::Open(_) => Failure::usage(error),
        HttpError::System(..) => Failure::failed(error),
    })?;
    say::line(format_args!("page on http://{address}/, token for changes in {}", path.display()));
    Ok(())
}

/// `destage status --what-if`.
pub fn what_if(matches: &ArgMatches) -> Result<String, Failure> {
    let name = name(matches);
    let command = AskWhatIf {};
    let value = ask(&control(matches)?, name, &command, |_| {}).map_err(Failure::failed)?;
    if format(matches) == Format::Json {
        return serde_json::to_string_pretty(&value)
            .map(|text| text + "\n")
            .map_err(Failure::failed);
    }
    let what_if: WhatIf = serde_json::from_value(value).map_err(Failure::failed)?;
    let table = what_if.table().render(format(matches));
    if format(matches) != Format::Table {
        return Ok(table);
    }
    let WhatIf { seconds, one_in, dropped, trims, settings, .. } = &what_if;
    let first = if *seconds == 0.0 || what_if.running.destages == 0 {
        "Nothing to compare yet: not all policies had to destage.".to_string()
    } else {
        format!("Over {seconds:.0} s, in caches as full as the running one.")
    };
    let mut notes = format!(
        "All have the settings of this array as it is served. For times, record the load with \
         `destage trace record {name} --out load.dtrc.zst --time 10m`, and simulate it on disks \
         like these with `destage compare --trace load.dtrc.zst --disk SPEC {settings}`.\n"
    );
    if *one_in > 1 {
        notes += &format!("One write group in {one_in} was followed.\n");
    }
    if *dropped > 0 {
        notes += &format!("{dropped} requests were missed: the queue to the shadows was full.\n");
    }
    if *trims > 0 {
        notes += &format!("{trims} trims were not followed.\n");
    }
    Ok(format!("{first}\n{table}{notes}"))
}

/// `destage trace record`.
#[cfg(feature = "plan")]
pub fn record(matches: &ArgMatches) -> Result<String, Failure> {
    let name = name(matches);
    let control = control(matches)?;
    let out = Path::new(text(matches, "out").expect("required"));
    let config = super::target::places(matches).read(name);
    let devices = config.iter().flat_map(|array| {
        array.disks.iter().chain(&array.nvs).chain(&array.spares).map(String::as_str)
    });
    Paths::reading(devices).trace(out, matches.get_flag("force"))?;
    let seconds =
        text(matches, "time").map(|time| super::quantity::seconds("time", time)).transpose()?;
    let command = destage_server::array::control::Record {
        out: std::path::absolute(out).map_err(Failure::failed)?,
        seconds: seconds.map(|time| time.as_secs_f64()),
        requests: *matches.get_one("requests").expect("default"),
        one_in: *matches.get_one("one-in").expect("default"),
    };
    let spinner = progress::spinner("requests recorded");
    let value = ask(&control, name, &command, |count| spinner.set_position(count))
        .map_err(Failure::failed)?;
    spinner.finish_and_clear();
    let count = |key: &str| value.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0);
    let mut said = format!("{} requests written to {}", count("requests"), out.display());
    for (key, what) in [
        ("dropped", "did not fit into the queue and are missing"),
        ("trims", "trims left out"),
        (
            "held_back",
            "may have come earlier than recorded, with others behind them: their client was at the \
             limit of what may be in flight (docs/server.md)",
        ),
    ] {
        if count(key) > 0 {
            said += &format!("; {} {what}", count(key));
        }
    }
    Ok(said + "\n")
}
