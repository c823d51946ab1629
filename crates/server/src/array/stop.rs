//! How a client of the control socket has the server end: whether the server agrees, and how a
//! client that wants everything destaged hears whether that was done.

use super::admin::{Admin, Line, WatchAsked, gone, say, simple, status};
use crate::Remote;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Counts the clients that are still to be told how the server ended.
#[derive(Clone, Default)]
pub(super) struct Saying(Arc<AtomicUsize>);

/// One of them, until it is dropped.
pub(super) struct Says(Saying);

impl Saying {
    pub(super) fn begin(&self) -> Says {
        self.0.fetch_add(1, Ordering::SeqCst);
        Says(self.clone())
    }

    /// Waits until all were told, but not longer than this.
    pub(super) fn wait(&self, most: Duration) {
        let until = Instant::now() + most;
        while self.0.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Says {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Why the server is not to end, if it is not. What has become of the devices is looked at now.
pub(super) fn refusal(remote: &Remote) -> Option<Line> {
    let (sender, answer) = channel();
    remote.send(Box::new(Admin::Watch(sender)));
    let WatchAsked(watch) = answer.recv().ok()?;
    watch.look_now(remote);
    let (sender, answer) = channel();
    remote.send(Box::new(Admin::RefusesEnd(sender)));
    answer.recv().ok()?.map(Line::Error)
}

/// Whether the server may end; with `drain`, when nothing is dirty.
pub(super) fn agrees_to_end(
    remote: &Remote,
    out: &mut UnixStream,
    drain: bool,
    force: bool,
) -> Line {
    if force {
        remote.send(Box::new(Admin::ForceEnd));
    } else if let Some(refusal) = refusal(remote) {
        return refusal;
    }
    if !drain {
        return Line::Done;
    }
    match drained(remote, out) {
        Line::Done if !force => refusal(remote).unwrap_or(Line::Done),
        other => other,
    }
}

/// Waits until nothing is dirty, and says how much is left.
pub(super) fn drained(remote: &Remote, out: &mut UnixStream) -> Line {
    let (sender, answer) = channel();
    remote.send(Box::new(Admin::Drain(sender)));
    waited(remote, out, &answer)
}

/// Ends the server, and waits until what clients have written last is on the disks, too.
pub(super) fn drained_end(remote: &Remote, out: &mut UnixStream) -> Line {
    let (sender, answer) = channel();
    remote.send(Box::new(Admin::DrainAtEnd(sender)));
    remote.stop();
    waited(remote, out, &answer)
}

fn waited(remote: &Remote, out: &mut UnixStream, answer: &Receiver<Result<(), String>>) -> Line {
    loop {
        match answer.recv_timeout(Duration::from_millis(500)) {
            Ok(result) => return simple(Ok::<_, ()>(result)),
            Err(RecvTimeoutError::Disconnected) => return gone(),
            Err(RecvTimeoutError::Timeout) => {
                let Some(status) = status(remote) else { return gone() };
                say(out, &Line::Progress(status.dirty_pages));
            }
        }
    }
}
