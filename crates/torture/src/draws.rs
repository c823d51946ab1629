//! What a run draws from.

use destage_workload::random::Seeded;

/// Generators, one for each subject: a run without mishaps is as it was before there were any.
pub(super) struct Draws {
    pub(super) run: Seeded,
    pub(super) scrubs: Seeded,
    pub(super) rebuilds: Seeded,
    pub(super) read_caches: Seeded,
    pub(super) mishaps: Seeded,
    pub(super) plain_starts: Seeded,
    pub(super) unwritable: Seeded,
    pub(super) relogs: Seeded,
    pub(super) kills: Seeded,
    pub(super) errors: Seeded,
    pub(super) deceits: Seeded,
    pub(super) soon: Seeded,
    pub(super) loops: Seeded,
    pub(super) changes: Seeded,
    pub(super) starved: Seeded,
    pub(super) pressed: Seeded,
    pub(super) accepts: Seeded,
    pub(super) supposed: Seeded,
    pub(super) records: Seeded,
    pub(super) clients: Seeded,
    pub(super) sectors: Seeded,
    pub(super) polls: Seeded,
    pub(super) regrets: Seeded,
    pub(super) cuts: Seeded,
    pub(super) latent: Seeded,
    pub(super) stops: Seeded,
    pub(super) sets: Seeded,
}

impl Draws {
    pub(super) fn new(seed: u64) -> Draws {
        Draws {
            run: Seeded::new(seed, "torture-run"),
            scrubs: Seeded::new(seed, "torture-scrubs"),
            rebuilds: Seeded::new(seed, "torture-rebuilds"),
            read_caches: Seeded::new(seed, "torture-read-caches"),
            mishaps: Seeded::new(seed, "torture-mishaps"),
            plain_starts: Seeded::new(seed, "torture-plain-starts"),
            unwritable: Seeded::new(seed, "torture-unwritable"),
            relogs: Seeded::new(seed, "torture-relogs"),
            kills: Seeded::new(seed, "torture-kills"),
            errors: Seeded::new(seed, "torture-errors"),
            deceits: Seeded::new(seed, "torture-deceits"),
            soon: Seeded::new(seed, "torture-soon"),
            loops: Seeded::new(seed, "torture-loops"),
            changes: Seeded::new(seed, "torture-changes"),
            starved: Seeded::new(seed, "torture-starved"),
            pressed: Seeded::new(seed, "torture-pressed"),
            accepts: Seeded::new(seed, "torture-accepts"),
            supposed: Seeded::new(seed, "torture-supposed"),
            records: Seeded::new(seed, "torture-records"),
            clients: Seeded::new(seed, "torture-clients"),
            sectors: Seeded::new(seed, "torture-sectors"),
            polls: Seeded::new(seed, "torture-polls"),
            regrets: Seeded::new(seed, "torture-regrets"),
            cuts: Seeded::new(seed, "torture-cuts"),
            latent: Seeded::new(seed, "torture-latent"),
            stops: Seeded::new(seed, "torture-stops"),
            sets: Seeded::new(seed, "torture-sets"),
        }
    }
}
