//! Which connections give way when there are too many, or when they hold too much.

use super::Loop;
use crate::port::Port;
use destage_block::{Backend, Driver};
use destage_engine::units::{Duration, Instant};

/// How often the log says that connections are refused.
const REFUSED_EVERY: Duration = Duration::from_secs(60);

fn ns(time: std::time::Duration) -> Duration {
    Duration(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

impl<B: Backend<Port> + ?Sized> Loop<'_, B> {
    /// Ends an unused connection to make room for a new one: first one that has not opened the
    /// export, then one that never made a request, then one that made none for long. False if all
    /// are in use.
    pub(super) fn make_room(&mut self) -> bool {
        let found = self.oldest_opening().or_else(|| self.longest_unused());
        let Some(slot) = found else {
            let now = self.port.now();
            if self.refused.is_none_or(|at| now >= at + REFUSED_EVERY) {
                self.refused = Some(now);
                tracing::warn!(
                    target: "destage",
                    "All {} connections are in use, so new ones are closed. Allow more with \
                     --connections, or end clients.",
                    self.server.settings.connections_max
                );
            }
            return false;
        };
        tracing::info!(target: "destage", "Closed an unused connection: a new one needs room.");
        self.close(slot);
        true
    }

    fn oldest_opening(&self) -> Option<u32> {
        let current = |(_, slot, generation): &(Instant, u32, u32)| {
            let same = self.port.outputs[*slot as usize].generation == *generation;
            let input = self.inputs[*slot as usize].as_ref();
            (same && input.is_some_and(|input| input.opening() && !input.closed)).then_some(*slot)
        };
        self.opening.iter().find_map(current)
    }

    fn longest_unused(&self) -> Option<u32> {
        let (now, settings) = (self.port.now(), &self.server.settings);
        let rests = self.inputs.iter().zip(0u32..).filter_map(|(input, slot)| {
            let input = input.as_ref().filter(|input| !input.closed && input.rests())?;
            let most = if input.asked { settings.idle_time } else { settings.unused_time };
            let long = now.since(input.heard) >= ns(most);
            (long && self.port.outputs[slot as usize].idle()).then_some((
                input.asked,
                input.heard,
                slot,
            ))
        });
        rests.min().map(|(.., slot)| slot)
    }

    /// Begins requests that waited for room in the total.
    pub(super) fn admit_waiting(&mut self) {
        for (_, slot) in self.port.total.take_waiting() {
            let Some(input) = &mut self.inputs[slot as usize] else { continue };
            if !input.receiving && !input.broken {
                input.resume(&mut self.port, self.backend);
                self.port.touch(slot);
            }
        }
    }

    /// While the total is reached: disconnects clients that take none of their replies, and those
    /// that send nothing of a payload which they announced.
    pub(super) fn look_for_stalled(&mut self, now: Instant) {
        if !self.port.total.exhausted() {
            self.look_at = None;
            return;
        }
        let most = ns(self.server.settings.reply_time);
        let every = Duration((most.0 / 4).clamp(10_000_000, 1_000_000_000));
        if self.look_at.is_some_and(|at| now < at) {
            return;
        }
        self.look_at = Some(now + every);
        let seconds = most.0 / 1_000_000_000;
        for slot in 0..self.inputs.len() {
            let output = &self.port.outputs[slot];
            let Some(input) = self.inputs[slot].as_mut().filter(|input| !input.broken) else {
                continue;
            };
            if output.sending && now.since(output.taken) >= most {
                tracing::warn!(
                    target: "destage",
                    "Closed the connection of a client that has taken none of its replies for \
                     {seconds} s: the replies of all clients reach the limit (--reply-memory)."
                );
            } else if input.assembles() && now.since(input.heard) >= most {
                tracing::warn!(
                    target: "destage",
                    "Closed the connection of a client that announced a WRITE and has sent \
                     nothing of it for {seconds} s: what all clients hold reaches the limit \
                     (--reply-memory)."
                );
            } else {
                continue;
            }
            input.broken = true;
            self.port.touch(slot as u32);
        }
    }
}
