//! `idle=LEVEL`, an option of every rate: idle time is used to destage below its low threshold
//! (docs/idle-time.md).

use super::{Made, RateScheme, RateView, Thresholds, hundredths};
use crate::registry::{Choice, ChoiceError};
use alloc::boxed::Box;
use alloc::format;

/// A scheme as it is, or with the option if it was chosen.
pub(super) fn with_option(choice: &Choice, scheme: Box<dyn RateScheme>) -> Made {
    if choice.text("idle") == "off" {
        return Ok(scheme);
    }
    let above = hundredths(choice, "idle").map_err(|error| match error {
        ChoiceError::BadValue { entry, param, value, expected } => {
            ChoiceError::BadValue { entry, param, value, expected: format!("off, or {expected}") }
        }
        other => other,
    })?;
    Ok(Box::new(WithIdleTime { scheme, above }))
}

struct WithIdleTime {
    scheme: Box<dyn RateScheme>,
    above: u64,
}

impl RateScheme for WithIdleTime {
    fn allowed(&mut self, view: &RateView<'_>) -> u32 {
        self.scheme.allowed(view)
    }

    fn on_occupancy(&mut self, occupancy: u64) {
        self.scheme.on_occupancy(occupancy);
    }

    fn on_destaged(&mut self) {
        self.scheme.on_destaged();
    }

    fn needs_detector(&self) -> bool {
        self.scheme.needs_detector()
    }

    fn idle_above(&self) -> Option<u64> {
        Some(self.above)
    }

    fn thresholds(&self) -> Thresholds {
        self.scheme.thresholds()
    }
}
