//! The driver of the served array: one data thread with an io_uring, its clients and devices.
//!
//! [`Server`] listens and runs the loop. A [`FrontEnd`] speaks with clients, and a
//! [`destage_block::Backend`] serves their requests through its [`Port`]. docs/server.md says what
//! the loop does and what bounds a client.

mod allocator;
pub mod array;
pub mod backends;
mod conn;
mod front;
mod listen;
mod output;
mod port;
mod ring;
mod serve;
mod spare;
mod tls;
mod total;

pub use allocator::give_back_large_buffers;
pub use front::{FrontEnd, FrontEndEntry};
pub use listen::{Listen, ListenError};
pub use port::{Port, Token};
pub use serve::{Remote, Server, Settings};
pub use tls::{TlsError, tls_config};

/// Stops a server on SIGINT and SIGTERM; the second one ends it at once.
///
/// # Errors
/// If the system refuses to have signals handled.
pub fn stop_on_signals(remote: Remote) -> std::io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".to_string()).spawn(move || {
        let mut signals = signals.forever();
        let stopping = signals.next().is_some() && remote.stop();
        if stopping && signals.next().is_some() && remote.hurry() {
            // The data thread may be waiting for a device.
            std::thread::sleep(std::time::Duration::from_secs(5));
            std::process::exit(1);
        }
    })?;
    Ok(())
}
