//! The way to a served array from other threads: functions that its data thread runs.

use super::ArrayBackend;
use crate::array::refusal::Refusal;
use crate::{Port, Remote};
use std::sync::mpsc::{Receiver, channel};

/// What another thread has the data thread do. It must not block.
type Work = dyn FnOnce(&mut ArrayBackend, &mut Port) + Send;

/// A message to the data thread.
pub(super) struct Call {
    pub(super) work: Box<Work>,
    /// It is run even while nothing is served because the log is being replaced.
    pub(super) urgent: bool,
}

/// The way to a served array. Cheap to clone.
#[derive(Clone)]
pub struct ArrayHandle(Remote);

impl ArrayHandle {
    /// The way to the array that this server serves.
    pub fn new(remote: Remote) -> ArrayHandle {
        ArrayHandle(remote)
    }

    /// Has the data thread run this; false if the server has ended.
    pub(in crate::array) fn run(
        &self,
        work: impl FnOnce(&mut ArrayBackend, &mut Port) + Send + 'static,
    ) -> bool {
        self.0.send(Box::new(Call { work: Box::new(work), urgent: false }))
    }

    /// The same, also while nothing is served because the log is being replaced.
    pub(in crate::array) fn run_now(
        &self,
        work: impl FnOnce(&mut ArrayBackend, &mut Port) + Send + 'static,
    ) -> bool {
        self.0.send(Box::new(Call { work: Box::new(work), urgent: true }))
    }

    /// As [`ArrayHandle::run`], with a result. The receiver has no sender when the server has
    /// ended.
    pub(in crate::array) fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut ArrayBackend, &mut Port) -> T + Send + 'static,
    ) -> Receiver<T> {
        let (work, result) = with_result(work);
        self.run(work);
        result
    }

    /// The same; waits for the result.
    pub(in crate::array) fn answer<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut ArrayBackend, &mut Port) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        self.ask(work).recv().map_err(|_| Refusal::Ending)
    }

    /// The same, also while nothing is served because the log is being replaced.
    pub(in crate::array) fn answer_now<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut ArrayBackend, &mut Port) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let (work, result) = with_result(work);
        self.run_now(work);
        result.recv().map_err(|_| Refusal::Ending)
    }

    /// Ends the server.
    pub(in crate::array) fn stop(&self) {
        self.0.stop();
    }

    /// Open connections of clients.
    pub(in crate::array) fn connections(&self) -> usize {
        self.0.connections()
    }
}

fn with_result<T: Send + 'static>(
    work: impl FnOnce(&mut ArrayBackend, &mut Port) -> T + Send + 'static,
) -> (impl FnOnce(&mut ArrayBackend, &mut Port) + Send + 'static, Receiver<T>) {
    let (sender, result) = channel();
    let work = move |array: &mut ArrayBackend, port: &mut Port| {
        // The client may have disconnected.
        let _ = sender.send(work(array, port));
    };
    (work, result)
}
