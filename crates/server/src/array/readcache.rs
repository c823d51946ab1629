//! The configuration of a served array's read cache.

use destage_engine::readcache::coherent::{OnWrite, ReadCacheChoice};
use destage_engine::readcache::{Vdf, choose};
use destage_engine::units::PAGE_BYTES;
use serde::{Deserialize, Serialize};

/// A value that is not valid: its name, and why.
#[derive(Debug)]
pub struct InvalidValue(pub &'static str, pub String);

/// A read cache as the configuration has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReadCacheConfig {
    /// A read-cache policy with its parameters, or `off`.
    pub policy: String,
    /// Bytes of the pages held.
    pub bytes: u64,
    /// Failed-disk awareness (VDF); `auto`: what the policy's name says.
    pub vdf: String,
    /// What happens to a cached page when it is written: `invalidate`, `update` or `keep`.
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

/// What is to change of a read cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadCacheChange {
    /// Policy.
    pub policy: Option<String>,
    /// Bytes.
    pub bytes: Option<u64>,
    /// Failed-disk awareness (VDF).
    pub vdf: Option<String>,
    /// What happens to a cached page when it is written.
    pub writes: Option<String>,
}

impl ReadCacheChange {
    /// Whether nothing is to change.
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

    /// The cache that it makes; `None` if it is off. Its other values are checked all the same.
    ///
    /// # Errors
    /// A value out of range.
    pub fn choice(&self) -> Result<Option<ReadCacheChoice>, InvalidValue> {
        let bad = |name, error: String| InvalidValue(name, error);
        let vdf = match self.vdf.as_str() {
            "auto" => None,
            form => Some(Vdf::parse(form).ok_or_else(|| {
                bad("vdf", format!("`{form}` is not a VDF form; use auto, {}", Vdf::RANGE))
            })?),
        };
        let named = OnWrite::NAMES.into_iter().find(|(name, _)| *name == self.writes);
        let Some((_, on_write)) = named else {
            let names = OnWrite::NAMES.map(|(name, _)| name).join(", ");
            let error = format!("`{}` is not one of {names}", self.writes);
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
            let InvalidValue(name, why) = with(text).expect_err(text);
            let error = format!("{name}: {why}");
            assert!(error.contains(names), "{text}: {error}");
        }
    }
}
