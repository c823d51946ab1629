//! The command `destage`.
//!
//! Exit codes: 0 done, 1 failed, 2 bad arguments. Results go to standard output, everything else
//! to standard error; an error is one line.

#[cfg(feature = "plan")]
mod again;
mod args;
#[cfg(feature = "serve")]
mod array_args;
mod commands;
mod failure;
#[cfg(feature = "plan")]
mod our_reports;
#[cfg(feature = "plan")]
mod output;
mod paths;
#[cfg(feature = "plan")]
mod plan_args;
mod progress;
#[cfg(feature = "plan")]
mod run_args;
mod say;
#[cfg(feature = "serve")]
mod server_args;
mod shared_args;
#[cfg(feature = "torture")]
mod torture_args;
#[cfg(feature = "plan")]
mod trace_args;

#[cfg(not(any(feature = "plan", feature = "serve")))]
compile_error!("choose a feature: plan, serve, or both");

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let matches = args::command().get_matches();
    match commands::run(&matches) {
        Ok(text) => print(&text),
        Err(failure) => {
            say::line(&failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Prints a result; a reader that stops early, as `head` does, is not an error.
fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            say::line(format_args!("standard output: {error}"));
            ExitCode::from(1)
        }
        _ => ExitCode::SUCCESS,
    }
}
