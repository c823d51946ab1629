//! Hot and cold: a share of the accesses goes to a small share of the space.

use destage_engine::registry::{Choice, Entry, Param};

use super::common::{self, RequestShape};
use super::pattern::{Access, BoxedPattern, Directions, Pattern};
use super::{Builds, Workload, WorkloadError};
use crate::random::Seeded;

pub(super) const WORKLOAD: Workload = Workload {
    entry: &Entry {
        name: "hotcold",
        summary: "most accesses go to a small area at the start of the volume, uniform in each",
        source: "-",
        params: &[
            Param {
                name: "hot-space",
                unit: "share",
                default: "0.1",
                range: "0..1",
                help: "share of the span that is hot, from its start",
            },
            Param {
                name: "hot-accesses",
                unit: "share",
                default: "0.9",
                range: "0..1",
                help: "share of the requests that go there",
            },
            common::iops("1000"),
            common::writes("1"),
            common::pages("1"),
            common::THREADS,
            common::THINK,
            common::REQUESTS,
            common::SPAN,
        ],
    },
    builds: Builds::Pattern(pattern),
};

/// Uniform in the hot slots or in the cold ones.
struct HotCold {
    random: Seeded,
    directions: Directions,
    shape: RequestShape,
    hot_slots: u64,
    hot_accesses: f64,
}

fn pattern(choice: &Choice, volume_pages: u64, seed: u64) -> Result<BoxedPattern, WorkloadError> {
    let hot_space = choice.number("hot-space", 0.0, 1.0)?;
    let hot_accesses = choice.number("hot-accesses", 0.0, 1.0)?;
    let shape = RequestShape::of(choice, volume_pages, 2)?;
    let slots = shape.slots();
    let hot_slots = ((slots as f64 * hot_space + 0.5) as u64).clamp(1, slots - 1);
    let directions = Directions::new(seed, shape.write_share);
    let random = Seeded::new(seed, "hotcold/places");
    Ok(Box::new(HotCold { random, directions, shape, hot_slots, hot_accesses }))
}

impl Pattern for HotCold {
    fn next_access(&mut self) -> Access {
        let slot = if self.random.chance(self.hot_accesses) {
            self.random.below(self.hot_slots)
        } else {
            self.hot_slots + self.random.below(self.shape.slots() - self.hot_slots)
        };
        let request_pages = self.shape.request_pages;
        self.directions.access(slot * u64::from(request_pages), request_pages)
    }
}
