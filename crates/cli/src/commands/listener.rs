//! Servers of any kind: where they listen, and until when they run.

use super::quantity::{bytes, seconds};
use super::text;
use crate::failure::Failure;
use crate::say;
use clap::ArgMatches;
use destage_block::{Backend, Export};
use destage_server::{FrontEnd, Listen, Port, Server, Settings, tls_config};
use std::path::Path;
use std::time::Duration;

/// Fewest bytes of --reply-memory.
const REPLY_MEMORY_MIN: u64 = 1 << 20;

/// Listens and serves until a signal comes.
pub fn serve<B: Backend<Port>>(
    matches: &ArgMatches,
    export: Export,
    backend: &mut B,
) -> Result<String, Failure> {
    destage_server::give_back_large_buffers();
    run(bind(matches, export)?, backend)
}

/// Serves until a signal or `destage stop`.
pub fn run<B: Backend<Port>>(server: Server, backend: &mut B) -> Result<String, Failure> {
    for address in server.addresses() {
        say::line(format_args!("serving on {address}"));
    }
    destage_server::stop_on_signals(server.remote()).map_err(Failure::failed)?;
    // Without systemd this does nothing.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    server.run(backend).map_err(|error| Failure::failed(format!("io_uring: {error}")))?;
    Ok(String::new())
}

/// Asks systemd for more time to stop, if systemd has started this process. A thread of its own
/// does it, because the data thread never waits.
pub fn time_from_systemd() -> impl FnMut(Duration) + Send + 'static {
    let (sender, times) = std::sync::mpsc::channel::<Duration>();
    let ask = move || {
        for time in times {
            let us = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
            let _ = sd_notify::notify(&[sd_notify::NotifyState::ExtendTimeoutUsec(us)]);
        }
    };
    // Without the thread the unit's own time-out applies.
    let _ = std::thread::Builder::new().name("notify".to_string()).spawn(ask);
    move |time| {
        let _ = sender.send(time);
    }
}

/// Limits of the clients.
fn limits(matches: &ArgMatches, settings: &mut Settings) -> Result<(), Failure> {
    if let Some(most) = matches.get_one::<u64>("connections") {
        settings.connections_max = *most as usize;
    }
    if let Some(given) = text(matches, "reply-memory") {
        let most = bytes(given)?;
        if !(REPLY_MEMORY_MIN..=1 << 40).contains(&most) {
            return Err(Failure::usage(format!("--reply-memory {given}: 1M to 1T")));
        }
        settings.total_bytes = most as usize;
    }
    if let Some(time) = text(matches, "reply-timeout") {
        settings.reply_time = seconds("reply-timeout", time)?;
    }
    Ok(())
}

/// A server that listens where the arguments say.
pub fn bind(matches: &ArgMatches, export: Export) -> Result<Server, Failure> {
    let mut listen = Vec::new();
    for front_end in FrontEnd::ALL {
        for text in matches.get_many::<String>(front_end.entry().name).into_iter().flatten() {
            listen.push((*front_end, text.parse::<Listen>().map_err(Failure::usage)?));
        }
    }
    let mut settings = Settings::new(export, listen);
    let path = |name| text(matches, name).map(Path::new);
    if let (Some(certificate), Some(key)) = (path("tls-cert"), path("tls-key")) {
        let config = tls_config(certificate, key, path("tls-client-ca"));
        settings.tls = Some(config.map_err(Failure::failed)?);
    }
    settings.tls_required = matches.get_flag("tls-required");
    if let Some(us) = matches.get_one::<u64>("busy-poll") {
        settings.busy_poll = Duration::from_micros(*us);
    }
    limits(matches, &mut settings)?;
    settings.plain_tcp = matches.get_flag("allow-plain-tcp");
    Server::bind(settings).map_err(|error| match error {
        destage_server::ListenError::Open(_) => Failure::usage(error),
        error => Failure::failed(error),
    })
}
