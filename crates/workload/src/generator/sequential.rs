//! Sequential: streams that each run through a share of the span, in turn, and start over.

use destage_engine::registry::{Choice, Entry, Param};

use super::common::{self, RequestShape};
use super::pattern::{Access, BoxedPattern, Directions, Pattern};
use super::{Builds, Workload, WorkloadError};

pub(super) const WORKLOAD: Workload = Workload {
    entry: &Entry {
        name: "sequential",
        summary: "streams that run through equal shares of the volume, one request each in turn",
        source: "-",
        params: &[
            Param {
                name: "streams",
                unit: "-",
                default: "1",
                range: "1..100000",
                help: "sequential streams, each in its own equal share of the span",
            },
            common::pages("8"),
            common::writes("1"),
            common::iops("1000"),
            common::THREADS,
            common::THINK,
            common::REQUESTS,
            common::SPAN,
        ],
    },
    builds: Builds::Pattern(pattern),
};

/// Streams in turn.
struct Sequential {
    directions: Directions,
    shape: RequestShape,
    /// The next slot of each stream, counted from the start of its share.
    next_slots: Vec<u64>,
    slots_per_stream: u64,
    turn: usize,
}

fn pattern(choice: &Choice, volume_pages: u64, seed: u64) -> Result<BoxedPattern, WorkloadError> {
    let streams = choice.number("streams", 1u64, 100_000)?;
    let shape = RequestShape::of(choice, volume_pages, streams)?;
    let slots_per_stream = shape.slots() / streams;
    let directions = Directions::new(seed, shape.write_share);
    let next_slots = vec![0; streams as usize];
    Ok(Box::new(Sequential { directions, shape, next_slots, slots_per_stream, turn: 0 }))
}

impl Pattern for Sequential {
    fn next_access(&mut self) -> Access {
        let stream = self.turn;
        self.turn = if stream + 1 == self.next_slots.len() { 0 } else { stream + 1 };
        let next = &mut self.next_slots[stream];
        let slot = stream as u64 * self.slots_per_stream + *next;
        *next = if *next + 1 == self.slots_per_stream { 0 } else { *next + 1 };
        let request_pages = self.shape.request_pages;
        self.directions.access(slot * u64::from(request_pages), request_pages)
    }
}
