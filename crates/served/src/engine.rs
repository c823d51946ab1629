//! The engine with the events that it has not handled yet.

use destage_engine::controller::Controller;
use destage_engine::event::{Action, Event};
use destage_engine::units::{DiskId, Instant};
use std::collections::VecDeque;

/// The engine. Carrying out its actions may raise further events: they wait until it has handled
/// those before them, so the engine is never called while its actions are carried out.
pub(crate) struct Engine {
    controller: Controller,
    events: VecDeque<Event>,
    /// Kept for its capacity.
    actions: Vec<Action>,
    stepping: bool,
}

impl Engine {
    pub(crate) fn new(controller: Controller) -> Engine {
        let (events, actions) = (VecDeque::new(), Vec::new());
        Engine { controller, events, actions, stepping: false }
    }

    pub(crate) fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Whether a member has failed, or is being rebuilt.
    pub(crate) fn failed(&self, member: u16) -> bool {
        self.controller.failed().contains(DiskId(member))
    }

    /// For what changes it outside of `step`: start-up and settings.
    pub(crate) fn controller_mut(&mut self) -> &mut Controller {
        &mut self.controller
    }

    /// Adds an event; whether somebody is already carrying out actions, and will come to it.
    pub(crate) fn raise(&mut self, event: Event) -> bool {
        self.events.push_back(event);
        self.stepping
    }

    /// Handles the next event and returns the actions, which are given back to
    /// [`Engine::acted`]. `None`: all events are handled.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Vec<Action>> {
        let next = self.events.pop_front();
        self.stepping = next.is_some();
        let event = next?;
        let mut actions = core::mem::take(&mut self.actions);
        self.controller.step(now, event, &mut actions);
        Some(actions)
    }

    /// All actions of an event were carried out.
    pub(crate) fn acted(&mut self, actions: Vec<Action>) {
        self.actions = actions;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_engine::array::geometry::{Geometry, Level};
    use destage_engine::controller::Config;
    use destage_engine::units::PageCount;
    use destage_engine::{policy, rate, served};

    fn controller() -> Controller {
        let (level, strip_pages, group_stripes) = (Level::Raid5, 2, 2);
        let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages: 16 };
        let config = Config {
            geometry: geometry.checked().expect("an array"),
            nvs_pages: PageCount(8),
            policy: policy::choose("stow").expect("of the table"),
            rate: rate::choose("linear:90/80").expect("of the table"),
            destage: served::destage(served::QUEUE_DEPTH),
            detector: served::DETECTOR,
            sequential_threshold: served::SEQUENTIAL_THRESHOLD,
            window: served::WINDOW,
            order: served::ORDER,
        };
        Controller::new(&config).expect("a controller")
    }

    /// Whoever raises it must not handle it: what it leads to would overtake the other actions.
    #[test]
    fn an_event_that_an_action_raises_waits_for_the_actions_before_it() {
        let mut engine = Engine::new(controller());
        assert!(!engine.raise(Event::Flush), "nothing is being carried out");
        let actions = engine.next(Instant::ZERO).expect("an event");
        assert!(engine.raise(Event::Flush), "actions are being carried out");
        engine.acted(actions);
        assert!(engine.next(Instant::ZERO).is_some(), "the second event");
        assert!(engine.next(Instant::ZERO).is_none(), "all are handled");
        assert!(!engine.raise(Event::Flush), "nothing is being carried out any more");
    }
}
