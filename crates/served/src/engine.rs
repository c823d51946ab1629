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
