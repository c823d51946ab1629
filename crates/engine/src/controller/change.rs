//! Policy and rate changed while running.

use super::{Config, Controller};
use crate::array::geometry::{Geometry, Level};
use crate::policy::{DestagePolicy, Gauges, PolicyChoice, PolicyContext};
use crate::rate::{RateChoice, RateScheme, Thresholds};
use crate::registry::ChoiceError;
use crate::sequential::{Detector, DetectorKind};

/// What a policy or a rate is made with, beside the geometry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    nvs_pages: u64,
    queue_depth: u32,
    detector: DetectorKind,
    sequential_threshold: u32,
}

impl Shape {
    pub(crate) fn of(config: &Config) -> Shape {
        Shape {
            nvs_pages: config.nvs_pages.0,
            queue_depth: config.queue_depth,
            detector: config.detector,
            sequential_threshold: config.sequential_threshold,
        }
    }

    pub(crate) fn context(&self, geometry: &Geometry, rate: &dyn RateScheme) -> PolicyContext {
        let Thresholds { high, low } = rate.thresholds();
        self.context_at(geometry, high, low)
    }

    fn context_at(&self, geometry: &Geometry, high: u64, low: u64) -> PolicyContext {
        PolicyContext {
            nvs_pages: self.nvs_pages,
            groups: geometry.groups(),
            disks: u64::from(geometry.disks),
            queue_depth: u64::from(self.queue_depth),
            high,
            low,
            mirrored: geometry.level == Level::Raid10,
        }
    }

    pub(crate) fn detector(
        &self,
        geometry: &Geometry,
        policy: &dyn DestagePolicy,
        rate: &dyn RateScheme,
    ) -> Detector {
        if policy.needs_detector() || rate.needs_detector() {
            let per_group = geometry.pages_per_group();
            Detector::new(self.detector, self.sequential_threshold, per_group)
        } else {
            Detector::Off
        }
    }
}

impl Controller {
    /// Goes on with another policy and another rate. The policy hears of all pages held as if they
    /// were written now in the order of their addresses; the detector begins anew.
    ///
    /// # Errors
    /// A parameter out of range; nothing is changed then.
    pub fn change(&mut self, policy: &PolicyChoice, rate: &RateChoice) -> Result<(), ChoiceError> {
        let shape = self.shape;
        let mut rate = rate.build(shape.nvs_pages)?;
        let policy = policy.build(&shape.context(&self.geometry, rate.as_ref()))?;
        let detector = shape.detector(&self.geometry, policy.as_ref(), rate.as_ref());
        rate.on_occupancy(self.cache.directory.occupancy());
        self.destager.set_rate(rate);
        self.cache.set_policy(policy);
        self.cache.set_detector(detector);
        Ok(())
    }

    /// Where the policy stands.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.cache.gauges()
    }

    /// The thresholds of the rate.
    #[must_use]
    pub fn thresholds(&self) -> Thresholds {
        self.destager.thresholds()
    }

    /// What a policy in the place of this one would be made with.
    #[must_use]
    pub fn policy_context(&self) -> PolicyContext {
        let Thresholds { high, low } = self.thresholds();
        self.shape.context_at(&self.geometry, high, low)
    }

    /// A detector as the running policy's, or as it would have if it needed one.
    #[must_use]
    pub fn detector_kind(&self) -> (DetectorKind, u32) {
        (self.shape.detector, self.shape.sequential_threshold)
    }

    /// Begins no destages and no windows of rebuilds until it is told to again.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Whether it begins none.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }
}
