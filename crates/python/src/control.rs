//! How Python and a run communicate: Ctrl-C and other signals, progress, an exception in a policy.
//! A run checks when it takes its next request.

use destage_engine::units::Instant;
use destage_workload::source::{Mapped, Source, SourceError};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Between two looks at signals.
const EVERY: Duration = Duration::from_millis(50);

/// Requests between two looks at the clock.
const REQUESTS: u64 = 256;

/// Shared by the runs of one call.
#[derive(Default)]
pub struct RunControl {
    stop: AtomicBool,
    raised: Mutex<Option<PyErr>>,
    progress: Option<Py<PyAny>>,
}

impl RunControl {
    /// Calls `progress(requests, virtual_seconds)` about 20 times per second, if given.
    pub fn new(progress: Option<Py<PyAny>>) -> Arc<RunControl> {
        Arc::new(RunControl { progress, ..RunControl::default() })
    }

    /// Every run ends with this exception, or the one before it.
    pub fn fail(&self, error: PyErr) {
        self.raised.lock().expect("no thread panicked").get_or_insert(error);
        self.stop.store(true, Ordering::Release);
    }

    /// Whether the runs are to end.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// The exception that ended the runs, if one did.
    pub fn raised(&self) -> Option<PyErr> {
        self.raised.lock().expect("no thread panicked").take()
    }

    /// A call to Python that ends the runs if it raises.
    pub fn attempt(&self, call: impl FnOnce(Python<'_>) -> PyResult<()>) {
        Python::attach(|py| {
            if let Err(error) = call(py) {
                self.fail(error);
            }
        });
    }

    fn look(&self, requests: u64, now: Instant) {
        self.attempt(|py| {
            py.check_signals()?;
            if let Some(progress) = &self.progress {
                progress.call1(py, (requests, now.0 as f64 / 1e9))?;
            }
            Ok(())
        });
    }
}

/// A source that the control can end. Signals are looked for at once: a run may be over before its
/// first look.
pub fn controlled(
    source: Box<dyn Source + Send>,
    control: &Arc<RunControl>,
) -> Box<dyn Source + Send> {
    control.attempt(|py| py.check_signals());
    let control = Arc::clone(control);
    let (mut requests, mut looked) = (0u64, std::time::Instant::now());
    Box::new(Mapped::new(source, move |request, now| {
        requests += 1;
        if requests.is_multiple_of(REQUESTS) && looked.elapsed() >= EVERY {
            control.look(requests, now);
            looked = std::time::Instant::now();
        }
        match control.stopped() {
            true => Err(SourceError("the run was stopped".into())),
            false => Ok(request),
        }
    }))
}
