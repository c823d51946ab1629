//! `destage emulate`: a modelled disk over NBD.

use super::text;
use crate::failure::Failure;
use clap::ArgMatches;
use destage_nbd::handshake::Export;
use destage_server::backends::{self, Emulated, Emulator, Ram};
use destage_server::{Backend, Listen, Server, Settings, tls_config};
use std::path::Path;

/// Serves until a signal comes.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let spec = text(matches, "spec").expect("required");
    let size = text(matches, "size").map(bytes).transpose()?;
    if spec == "ram" {
        let export = backends::export("ram", "destage: memory", size.unwrap_or(1 << 30));
        return serve(matches, export, &mut Ram::default());
    }
    let spec = destage_disk::find(spec).map_err(Failure::usage)?;
    let speed = *matches.get_one::<f64>("speed").expect("default");
    if !(speed > 0.0 && speed <= 1e6) {
        return Err(Failure::usage("--speed is above 0 and at most 1000000"));
    }
    let disk = Emulator::new(&spec, speed);
    let size = size.unwrap_or(disk.bytes());
    if size == 0 || size > disk.bytes() || !size.is_multiple_of(512) {
        let most = disk.bytes();
        let name = &spec.name;
        return Err(Failure::usage(format!(
            "--size: {name} holds {most} bytes; give a multiple of 512 up to that"
        )));
    }
    let text_of = format!("destage: {} at {speed} x", spec.name);
    let export = backends::disk_export(&spec.name, &text_of, size);
    let mut backend = match text(matches, "file") {
        None => Emulated::in_memory(disk),
        Some(path) => {
            let fail = |error| Failure::failed(format!("{path}: {error}"));
            let open = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)
                .map_err(fail)?;
            let held = open.metadata().map_err(fail)?.len();
            if held < size {
                open.set_len(size).map_err(fail)?;
            }
            Emulated::in_file(disk, open)
        }
    };
    let text = serve(matches, export, &mut backend)?;
    let late = backend.late_ns();
    let at = |share| late.value_at_quantile(share) / 1000;
    let (number, half, most) = (late.len(), at(0.5), at(0.99));
    eprintln!("destage: {number} answers; half at most {half} us late, 99 % at most {most} us");
    Ok(text)
}

fn serve<B: Backend>(
    matches: &ArgMatches,
    export: Export,
    backend: &mut B,
) -> Result<String, Failure> {
    let server = bind(matches, export)?;
    for address in server.addresses() {
        eprintln!("destage: serving on {address}");
    }
    destage_server::stop_on_signals(server.remote()).map_err(Failure::failed)?;
    server.run(backend).map_err(|error| Failure::failed(format!("io_uring: {error}")))?;
    Ok(String::new())
}

/// A server that listens where the arguments say.
fn bind(matches: &ArgMatches, export: Export) -> Result<Server, Failure> {
    let listen = matches.get_many::<String>("nbd").expect("required");
    let listen: Vec<Listen> =
        listen.map(|text| text.parse()).collect::<Result<_, _>>().map_err(Failure::usage)?;
    let mut settings = Settings::new(export, listen);
    let path = |name| text(matches, name).map(Path::new);
    if let (Some(certificate), Some(key)) = (path("tls-cert"), path("tls-key")) {
        let config = tls_config(certificate, key, path("tls-client-ca"));
        settings.tls = Some(config.map_err(Failure::failed)?);
    }
    settings.plain_tcp = matches.get_flag("allow-plain-tcp");
    Server::bind(settings).map_err(|error| match error {
        destage_server::ListenError::Open(_) => Failure::usage(error),
        error => Failure::failed(error),
    })
}

/// A number of bytes, with K, M, G or T.
pub fn bytes(text: &str) -> Result<u64, Failure> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB") {
        "" | "B" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => 64,
    };
    let number = digits.parse::<u64>().ok().filter(|_| shift < 64);
    number
        .and_then(|number| number.checked_mul(1 << (shift % 64)))
        .ok_or_else(|| Failure::usage(format!("{text}: a number of bytes, as 4096, 64K or 16G")))
}
