//! `destage emulate`: a modelled disk over NBD.

use super::quantity::bytes;
use super::{listener, text};
use crate::failure::Failure;
use crate::paths::Paths;
use crate::say;
use clap::ArgMatches;
use destage_server::backends::{self, Emulated, Emulator, Ram};
use std::path::Path;

/// Serves until a signal comes.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    let spec = text(matches, "spec").expect("required");
    let size = text(matches, "size").map(bytes).transpose()?;
    if spec == "ram" {
        if matches.get_flag("power-cut") {
            return Err(Failure::usage("--power-cut needs a modelled disk; ram has no cache"));
        }
        let export = backends::export("ram", "destage: memory", size.unwrap_or(1 << 30));
        return listener::serve(matches, export, &mut Ram::default());
    }
    let cut = matches.get_flag("power-cut");
    if cut && text(matches, "file").is_none() {
        return Err(Failure::usage("--power-cut needs --file, whose contents it leaves behind"));
    }
    let spec = destage_disk::find(spec)?;
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
            Paths::reading(text(matches, "spec")).apart(Path::new(path))?;
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
            match cut {
                false => Emulated::in_file(disk, open),
                true => Emulated::in_volatile_file(disk, open).map_err(fail)?,
            }
        }
    };
    let text = listener::serve(matches, export, &mut backend)?;
    if cut {
        let lost = backend.power_cut().map_err(|error| Failure::failed(error.to_string()))?;
        say::line(format_args!("the power failed: {lost} bytes that were not flushed are lost"));
    }
    let late = backend.late_ns();
    let at = |share| late.value_at_quantile(share) / 1000;
    let (number, half, most) = (late.len(), at(0.5), at(0.99));
    say::line(format_args!(
        "{number} answers; half at most {half} us late, 99 % at most {most} us"
    ));
    Ok(text)
}
