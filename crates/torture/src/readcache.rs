//! Read caches of tortured arrays are exchanged under load. What they return is checked like all
//! reads.

use super::case::draw_read_cache;
use super::run::Run;

impl Run {
    /// Sometimes switches to another read cache, or to none for a while.
    pub(super) fn maybe_exchange_cache(&mut self) -> Result<(), String> {
        if self.case.settings.read_cache.is_none() || self.draws.read_caches.below(100) > 0 {
            return Ok(());
        }
        let on = self.draws.read_caches.below(3) > 0;
        let cache = on.then(|| draw_read_cache(&mut self.draws.read_caches));
        self.volume_mut().set_read_cache(cache).map_err(|error| format!("no cache: {error}"))
    }
}
