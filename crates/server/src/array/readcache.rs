//! The read cache of a served array: as it is configured, changed while serving, and told.

use super::backend::ArrayBackend;
use super::config::ConfigFileError;
use destage_engine::counters::Counters;
use destage_engine::readcache::coherent::{OnWrite, ReadCacheChoice};
use destage_engine::readcache::{Vdf, choose};
use destage_engine::units::PAGE_BYTES;
use destage_report::live::{PagesRead, ReadCacheStatus};
use destage_served::Status;
use serde::{Deserialize, Serialize};

/// A read cache as the configuration has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReadCacheConfig {
    /// A read-cache policy with its parameters, or `off`.
    pub policy: String,
    /// Bytes of the pages held.
    pub bytes: u64,
    /// How failed members are heeded; `auto`: as the policy's name says.
    pub vdf: String,
    /// What becomes of cached pages that are written: `invalidate`, `update` or `keep`.
    pub writes: String,
}

impl Default for ReadCacheConfig {
    fn default() -> ReadCacheConfig {
        ReadCacheConfig {
            policy: "off".to_string(),
            bytes: 128 << 20,
            vdf: "auto".to_string(),
            writes: "invalidate".to_string(),
        }
    }
}

/// What is to be another than it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadCacheChange {
    /// Policy.
    pub policy: Option<String>,
    /// Bytes.
    pub bytes: Option<u64>,
    /// How failed members are heeded.
    pub vdf: Option<String>,
    /// What becomes of cached pages that are written.
    pub writes: Option<String>,
}

impl ReadCacheChange {
    /// Whether nothing is to change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == ReadCacheChange::default()
    }
}

impl ReadCacheConfig {
    /// With a change.
    #[must_use]
    pub fn with(mut self, change: ReadCacheChange) -> ReadCacheConfig {
        let ReadCacheChange { policy, bytes, vdf, writes } = change;
        self.policy = policy.unwrap_or(self.policy);
        self.bytes = bytes.unwrap_or(self.bytes);
        self.vdf = vdf.unwrap_or(self.vdf);
        self.writes = writes.unwrap_or(self.writes);
        self
    }

    /// The cache that it makes; none if it is off. Its other values are looked at all the same.
    ///
    /// # Errors
    /// A value out of range.
    pub fn choice(&self) -> Result<Option<ReadCacheChoice>, ConfigFileError> {
        let bad = |name, error: String| ConfigFileError::Value(name, error);
        let vdf =
            match self.vdf.as_str() {
                "auto" => None,
                form => Some(Vdf::parse(form).ok_or_else(|| {
                    bad("vdf", format!("`{form}` is none of auto, {}", Vdf::RANGE))
                })?),
            };
        let named = OnWrite::NAMES.into_iter().find(|(name, _)| *name == self.writes);
        let Some((_, on_write)) = named else {
            let names = OnWrite::NAMES.map(|(name, _)| name).join(", ");
            let error = format!("`{}` is none of {names}", self.writes);
            return Err(bad("read-cache-writes", error));
        };
        if self.policy == "off" {
            return Ok(None);
        }
        let unknown = |error: &dyn std::fmt::Display| bad("read-cache", error.to_string());
        let mut policy = choose(&self.policy).map_err(|error| unknown(&error))?;
        if let Some(vdf) = vdf {
            policy = policy.with_vdf(vdf).map_err(|error| unknown(&error))?;
        }
        let pages = self.bytes / PAGE_BYTES;
        let size = |error: &dyn std::fmt::Display| bad("read-cache-size", error.to_string());
        policy.check(pages).map_err(|error| size(&error))?;
        Ok(Some(ReadCacheChoice { policy, pages, on_write }))
    }
}

impl ArrayBackend {
    /// Goes on with another read cache, which is empty.
    pub(crate) fn change_read_cache(&mut self, change: ReadCacheChange) -> Result<(), String> {
        let mut config = self.config().clone();
        config.read_cache = config.read_cache.with(change);
        let choice = config.read_cache.choice().map_err(|error| error.to_string())?;
        self.volume.set_read_cache(choice).map_err(|error| error.to_string())?;
        self.set_config(config);
        Ok(())
    }

    /// The read cache, for a status.
    pub(crate) fn read_cache_told(&self, status: &Status) -> Option<ReadCacheStatus> {
        let cache = status.read_cache.as_ref()?;
        let zero = Counters::default();
        Some(ReadCacheStatus {
            policy: cache.policy.clone(),
            writes: self.config().read_cache.writes.clone(),
            held_pages: cache.state.held as u64,
            pages: cache.state.pages as u64,
            memory_bytes: cache.memory_bytes,
            weight: cache.state.weight.map(|weight| weight.in_quarters() as f64 / 4.0),
            weight_changes: cache.state.weight_changes,
            since_start: pages_read(&zero, &status.counters),
            since_change: pages_read(&cache.state.before, &status.counters),
        })
    }
}

fn pages_read(before: &Counters, after: &Counters) -> PagesRead {
    PagesRead::new(
        after.read_pages - before.read_pages,
        after.read_pages_nvs - before.read_pages_nvs,
        after.read_pages_cached - before.read_pages_cached,
        after.read_penalty - before.read_penalty,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_without_one_has_none_and_values_are_checked() {
        let config: ReadCacheConfig = toml::from_str("").expect("nothing is fine");
        assert_eq!(config, ReadCacheConfig::default());
        assert!(config.choice().expect("fine").is_none());
        let with = |text: &str| {
            let config: ReadCacheConfig = toml::from_str(text).expect("of this form");
            config.choice()
        };
        let cache = with("policy = 'arc'\nvdf = 'adaptive'\nbytes = 1048576").expect("fine");
        let cache = cache.expect("one");
        assert_eq!((cache.policy.describe().as_str(), cache.pages), ("adaptive-arc", 256));
        for (text, names) in [
            ("policy = 'lro'", "lru"),
            ("policy = 'lru'\nbytes = 4095", "read-cache-size: "),
            ("vdf = 'yes'", "paper"),
            ("writes = 'no'", "read-cache-writes: "),
        ] {
            let error = with(text).expect_err(text).to_string();
            assert!(error.contains(names), "{text}: {error}");
        }
    }
}
