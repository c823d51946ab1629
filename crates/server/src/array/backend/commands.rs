//! What commands ask of the data thread, but for members and NVS devices.

use super::ArrayBackend;
use crate::array::config::ConfigFileError;
use crate::array::device_watch::DeviceWatch;
use crate::array::ending::Drained;
use crate::array::readcache::ReadCacheChange;
use crate::array::refusal::Refusal;
use destage_engine::units::Instant;
use std::sync::mpsc::Sender;

/// Other settings; what is `None` stays.
pub(in crate::array) struct Change {
    pub(in crate::array) policy: Option<String>,
    pub(in crate::array) rate: Option<String>,
    pub(in crate::array) rebuild: Option<String>,
    pub(in crate::array) read_cache: ReadCacheChange,
}

impl ArrayBackend {
    /// Changes settings. All of them are checked before the first is changed.
    pub(in crate::array) fn change(&mut self, change: Change) -> Result<(), Refusal> {
        let Change { policy, rate, rebuild, read_cache } = change;
        let mut config = self.setup.config().clone();
        let destages = policy.is_some() || rate.is_some();
        let caches = !read_cache.is_empty();
        config.policy = policy.unwrap_or(config.policy);
        config.rate = rate.unwrap_or(config.rate);
        config.rebuild = rebuild.unwrap_or(config.rebuild);
        config.read_cache = config.read_cache.with(read_cache);
        let settings = config.settings()?;
        let invalid = |name, error: &dyn std::fmt::Display| {
            Refusal::Config(ConfigFileError::Value(name, error.to_string()))
        };
        if caches {
            let cache = self.volume.set_read_cache(settings.read_cache);
            cache.map_err(|error| invalid("read-cache", &error))?;
        }
        if destages {
            let changed = self.volume.change(&settings.policy, &settings.rate);
            changed.map_err(|error| invalid("policy", &error))?;
        }
        self.volume.set_rebuild_limits(settings.rebuild);
        self.setup.set_config(config);
        Ok(())
    }

    /// Begins a scrub.
    pub(in crate::array) fn start_scrub(
        &mut self,
        now: Instant,
        repair: bool,
        rate: u64,
    ) -> Result<(), Refusal> {
        if self.relog.is_some() {
            return Err(Refusal::NvsBusy);
        }
        self.scrub.start(&mut self.volume, now, repair, rate)
    }

    /// Ends the running scrub.
    pub(in crate::array) fn stop_scrub(&mut self, now: Instant) -> Result<(), Refusal> {
        if !self.volume.scrub_running() {
            return Err(Refusal::NoScrub);
        }
        self.volume.stop_scrub(now);
        Ok(())
    }

    /// Destages everything; the sender gets the result.
    pub(in crate::array) fn drain(&mut self, result: Sender<Drained>) {
        self.ending.drain(result);
    }

    /// Destages everything before the end; the sender then gets the result.
    pub(in crate::array) fn drain_at_end(&mut self, result: Sender<Drained>) {
        self.ending.drain_at_end(result);
    }

    /// Refuses an end that would lose the only copy of deleted files.
    pub(in crate::array) fn check_end(&self) -> Result<(), Refusal> {
        self.ending.check(&self.setup, &self.watch)
    }

    /// An operator wants the end even if files are lost.
    pub(in crate::array) fn force_end(&mut self) {
        self.ending.force();
    }

    /// What checks the devices, so that another thread can do it now.
    pub(in crate::array) fn device_watch(&self) -> DeviceWatch {
        self.watch.clone()
    }
}
