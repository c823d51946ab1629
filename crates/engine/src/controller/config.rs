//! What a controller is made of, and why that may be rejected.

use crate::array::disks::ROW_DISKS_MAX;
use crate::array::geometry::Geometry;
use crate::destage::DestageConfig;
use crate::dispatch::Order;
use crate::policy::PolicyChoice;
use crate::rate::RateChoice;
use crate::registry::ChoiceError;
use crate::sequential::DetectorKind;
use crate::units::PageCount;

/// What a controller is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// The array, checked.
    pub geometry: Geometry,
    /// NVS size.
    pub nvs_pages: PageCount,
    /// What to destage.
    pub policy: PolicyChoice,
    /// When to destage.
    pub rate: RateChoice,
    /// How destages are made.
    pub destage: DestageConfig,
    /// Which sequential detector.
    pub detector: DetectorKind,
    /// Pages after which a stream is sequential (T).
    pub sequential_threshold: u32,
    /// Commands a drive sees at once.
    pub window: u32,
    /// Order in which commands enter that window.
    pub order: Order,
}

/// Why a configuration is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// An NVS of no pages.
    NoNvs,
    /// More NVS than array.
    NvsLargerThanArray {
        /// NVS pages asked for.
        nvs_pages: u64,
        /// Pages in the volume.
        volume_pages: u64,
    },
    /// More NVS than the engine's 32-bit slots can number.
    NvsTooLarge,
    /// A stripe memory without parity, or for too many disks.
    StripeMemory,
    /// A queue depth or window of 0.
    Zero(&'static str),
    /// A policy or rate parameter is out of range.
    Choice(ChoiceError),
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ConfigError::NoNvs => write!(f, "the NVS must have at least 1 page"),
            ConfigError::NvsLargerThanArray { nvs_pages, volume_pages } => write!(
                f,
                "an NVS of {nvs_pages} pages is larger than the array's {volume_pages} pages"
            ),
            ConfigError::NvsTooLarge => write!(f, "the NVS must have fewer than 2^32 - 1 pages"),
            ConfigError::StripeMemory => write!(
                f,
                "a stripe memory needs level 4, 5 or 6 and at most {} disks: leave it out",
                ROW_DISKS_MAX
            ),
            ConfigError::Zero(what) => write!(f, "{what} must be at least 1"),
            ConfigError::Choice(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ConfigError {}

impl From<ChoiceError> for ConfigError {
    fn from(error: ChoiceError) -> ConfigError {
        ConfigError::Choice(error)
    }
}

impl Config {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let (nvs_pages, volume_pages) = (self.nvs_pages.0, self.geometry.volume_pages().0);
        if nvs_pages == 0 {
            return Err(ConfigError::NoNvs);
        }
        if nvs_pages > volume_pages {
            return Err(ConfigError::NvsLargerThanArray { nvs_pages, volume_pages });
        }
        if nvs_pages >= u64::from(u32::MAX) {
            return Err(ConfigError::NvsTooLarge);
        }
        let Geometry { level, disks, .. } = self.geometry;
        let fits = level.parities() > 0 && disks <= ROW_DISKS_MAX;
        if self.destage.stripe_memory > 0 && !fits {
            return Err(ConfigError::StripeMemory);
        }
        for (value, what) in
            [(self.destage.queue_depth, "queue depth"), (self.window, "the window")]
        {
            if value == 0 {
                return Err(ConfigError::Zero(what));
            }
        }
        Ok(())
    }
}
