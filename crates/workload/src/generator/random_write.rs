//! Random write: uniform 4 KiB writes of 32 threads without think time.

use destage_engine::registry::Entry;

use super::{Builds, Workload, common, uniform};

pub(super) const WORKLOAD: Workload = Workload {
    entry: &Entry {
        name: "random",
        summary: "uniform 4 KiB writes, 32 threads, no think time",
        source: "WOW, section V-B (random write)",
        params: &[
            common::THREADS,
            common::writes("1"),
            common::pages("1"),
            common::THINK,
            common::iops("0"),
            common::REQUESTS,
            common::SPAN,
        ],
    },
    builds: Builds::Pattern(uniform::pattern),
};
