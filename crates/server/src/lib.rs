//! The driver of the served array: one data thread with an io_uring, its NBD clients and devices.
//!
//! [`Server`] listens and runs the loop; a [`Backend`] serves the requests through its [`Port`].
//! docs/server.md says what the front end does and what bounds a client.

mod allocator;
pub mod array;
mod backend;
pub mod backends;
mod conn;
mod listen;
mod port;
mod ring;
mod serve;
mod tls;
mod total;

pub use allocator::give_back_large_buffers;
pub use backend::{Answer, Backend, Handle, Io, Outcome, Payload, SendPart, Token};
pub use listen::{Listen, ListenError};
pub use port::Port;
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
        let told = signals.next().is_some() && remote.stop();
        if told && signals.next().is_some() && remote.hurry() {
            // The data thread may wait for a device.
            std::thread::sleep(std::time::Duration::from_secs(5));
            std::process::exit(1);
        }
    })?;
    Ok(())
}
