//! The command `destage`.
//!
//! Exit codes: 0 done, 1 failed, 2 bad arguments. Results go to standard output, everything else
//! to standard error; an error is one line.

mod args;
mod array_args;
mod commands;
mod failure;
mod output;
mod plan_args;
mod progress;
mod readcache_args;
mod server_args;
mod shared_args;
mod torture_args;

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let matches = args::command().get_matches();
    match commands::run(&matches) {
        Ok(text) => print(&text),
        Err(failure) => {
            eprintln!("destage: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Prints a result; a reader that went away, as `head` does, is no failure.
fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("destage: standard output: {error}");
            ExitCode::from(1)
        }
        _ => ExitCode::SUCCESS,
    }
}
