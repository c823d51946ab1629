//! Policy and rate of a controller, and how they are made.

use super::Config;
use crate::array::geometry::Geometry;
use crate::policy::{DestagePolicy, PolicyChoice, PolicyContext};
use crate::rate::{RateChoice, RateScheme, Thresholds};
use crate::registry::ChoiceError;
use crate::sequential::{Detector, DetectorKind};
use alloc::boxed::Box;

/// A policy, a rate, and the detector that they need.
pub(super) struct Chosen {
    pub(super) policy: Box<dyn DestagePolicy>,
    pub(super) rate: Box<dyn RateScheme>,
    pub(super) detector: Detector,
}

/// What policies and rates are made with, besides the geometry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    nvs_pages: u64,
    queue_depth: u32,
    detector: DetectorKind,
    sequential_threshold: u32,
}

impl Setup {
    pub(super) fn of(config: &Config) -> Setup {
        Setup {
            nvs_pages: config.nvs_pages.0,
            queue_depth: config.destage.queue_depth,
            detector: config.detector,
            sequential_threshold: config.sequential_threshold,
        }
    }

    /// Makes a policy and a rate.
    pub(super) fn choose(
        &self,
        policy: &PolicyChoice,
        rate: &RateChoice,
        geometry: &Geometry,
    ) -> Result<Chosen, ChoiceError> {
        let rate = rate.build(self.nvs_pages)?;
        let policy = policy.build(&self.context(geometry, rate.thresholds()))?;
        let detector = if policy.needs_detector() || rate.needs_detector() {
            let per_group = geometry.pages_per_group();
            Detector::new(self.detector, self.sequential_threshold, per_group)
        } else {
            Detector::Off
        };
        Ok(Chosen { policy, rate, detector })
    }

    /// What a policy is made with.
    pub(super) fn context(&self, geometry: &Geometry, thresholds: Thresholds) -> PolicyContext {
        PolicyContext {
            nvs_pages: self.nvs_pages,
            groups: geometry.groups(),
            group_pages: geometry.pages_per_group(),
            disks: u64::from(geometry.disks),
            queue_depth: u64::from(self.queue_depth),
            high: thresholds.high,
            low: thresholds.low,
            mirrored: geometry.level.is_mirrored(),
        }
    }

    /// The detector and its threshold, whether or not the running policy needs one.
    pub(super) fn detector_kind(&self) -> (DetectorKind, u32) {
        (self.detector, self.sequential_threshold)
    }
}
