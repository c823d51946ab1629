//! What carries out requests.

use crate::{Driver, Outcome, Payload, Request};
use destage_engine::units::Instant;
use std::any::Any;

/// An object of the data thread that serves requests. None of its functions may block.
///
/// In each turn the loop first hands over the requests and completions that have arrived, in any
/// order. It then calls [`Backend::timer`] if that is due, then [`Backend::turn`], and then sends
/// all answers.
pub trait Backend<D: Driver> {
    /// Called once, before anything else: hands over the devices.
    fn start(&mut self, driver: &mut D) {
        let _ = driver;
    }

    /// A request. It is within the export. Its token goes to [`Driver::reply`] now or later.
    fn request(&mut self, driver: &mut D, token: D::Token, request: Request, payload: Payload<'_>);

    /// A request for this byte is likely to follow soon.
    fn soon(&self, offset: u64) {
        let _ = offset;
    }

    /// The next request may have come earlier than it is handed over: its client was at the limit
    /// of what may be in flight.
    fn held_back(&mut self) {}

    /// The clients of these requests are gone: nobody gets the answers. What has not begun of them
    /// must not be carried out once this returns: others may have written the same bytes by then.
    fn withdraw(&mut self, driver: &mut D, gone: &dyn Fn(&D::Token) -> bool) {
        let _ = (driver, gone);
    }

    /// The operation that [`Driver::submit`] got with this key has ended.
    fn done(&mut self, driver: &mut D, key: u64, outcome: Outcome) {
        let _ = (driver, key, outcome);
    }

    /// All requests and completions of this turn have been handed over.
    fn turn(&mut self, driver: &mut D) {
        let _ = driver;
    }

    /// When to call [`Backend::timer`].
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// The deadline has passed.
    fn timer(&mut self, driver: &mut D) {
        let _ = driver;
    }

    /// A message from another thread.
    fn message(&mut self, driver: &mut D, message: Box<dyn Any + Send>) {
        let _ = (driver, message);
    }

    /// The server is stopping: no further requests come. It ends when [`Backend::stopped`] is
    /// true.
    fn stop(&mut self, driver: &mut D) {
        let _ = driver;
    }

    /// After [`Backend::stop`]: the server ends now.
    fn hurry(&mut self, driver: &mut D) {
        let _ = driver;
    }

    /// After [`Backend::stop`]: whether nothing is left to do.
    fn stopped(&self) -> bool {
        true
    }
}
