//! Read caches of tortured arrays: any policy, size and form, exchanged under load. What they give
//! is checked as all reads are.

use super::run::Run;
use destage_engine::readcache::coherent::{OnWrite, ReadCacheChoice};
use destage_engine::readcache::{READ_POLICIES, Vdf, choose};
use destage_workload::random::Seeded;

/// Any read cache; mostly smaller than what is asked for again.
pub fn draw(rng: &mut Seeded) -> ReadCacheChoice {
    let name = READ_POLICIES[rng.below(READ_POLICIES.len() as u64) as usize].plain.name;
    let form = ["off", "paper", "adaptive"][rng.below(3) as usize];
    let vdf = Vdf::parse(form).expect("a form");
    let policy = choose(name).and_then(|policy| policy.with_vdf(vdf)).expect("of the table");
    let most = [4, 40, 400][rng.below(3) as usize];
    let pages = 1 + rng.below(most);
    let on_write = [OnWrite::Invalidate, OnWrite::Update, OnWrite::Keep][rng.below(3) as usize];
    ReadCacheChoice { policy, pages, on_write }
}

impl Run {
    /// Now and then another read cache, or none for a while.
    pub(super) fn maybe_exchange_cache(&mut self) -> Result<(), String> {
        if self.case.settings.read_cache.is_none() || self.cache_rng.below(100) > 0 {
            return Ok(());
        }
        let on = self.cache_rng.below(3) > 0;
        let cache = on.then(|| draw(&mut self.cache_rng));
        self.volume_mut().set_read_cache(cache).map_err(|error| format!("no cache: {error}"))
    }
}
