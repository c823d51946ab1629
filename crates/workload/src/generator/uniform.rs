//! Uniform: every aligned place in the span is as likely as any other.

use destage_engine::registry::{Choice, Entry};

use super::common::{self, RequestShape};
use super::pattern::{Access, BoxedPattern, Directions, Pattern};
use super::{Builds, Workload, WorkloadError};
use crate::random::Seeded;

pub(super) const WORKLOAD: Workload = Workload {
    entry: &Entry {
        name: "uniform",
        summary: "uniform places, open Poisson arrivals",
        source: "-",
        params: &[
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

/// Uniform places.
struct Uniform {
    places: Seeded,
    directions: Directions,
    shape: RequestShape,
}

/// The pattern of a choice that has the common parameters.
pub(super) fn pattern(
    choice: &Choice,
    volume_pages: u64,
    seed: u64,
) -> Result<BoxedPattern, WorkloadError> {
    let shape = RequestShape::of(choice, volume_pages, 1)?;
    let directions = Directions::new(seed, shape.write_share);
    Ok(Box::new(Uniform { places: Seeded::new(seed, "uniform/places"), directions, shape }))
}

impl Pattern for Uniform {
    fn next_access(&mut self) -> Access {
        let slot = self.places.below(self.shape.slots());
        let request_pages = self.shape.request_pages;
        self.directions.access(slot * u64::from(request_pages), request_pages)
    }
}
