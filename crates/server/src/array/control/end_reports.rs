//! The clients that still wait for the result of the server's end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Counts the clients that are still to get the result of the server's end.
#[derive(Clone, Default)]
pub(super) struct EndReports(Arc<AtomicUsize>);

/// One of these clients, until it is dropped.
pub(super) struct EndReport(EndReports);

impl EndReports {
    pub(super) fn begin(&self) -> EndReport {
        self.0.fetch_add(1, Ordering::SeqCst);
        EndReport(self.clone())
    }

    /// Waits until all have their result, but not longer than this.
    pub(super) fn wait(&self, most: Duration) {
        let until = Instant::now() + most;
        while self.0.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for EndReport {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}
