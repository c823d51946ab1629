//! When to destage: how many destage writes may be in flight. One file a scheme.
//!
//! In every scheme a waiting request forces the full queue depth. The destager does that, so
//! schemes answer only for the case that none waits (docs/simulator.md).

mod adaptive;
mod fixed;
mod idle;
mod linear;
mod quick;
mod threshold;
mod write_behind;

use crate::conditions::Conditions;
use crate::registry::{Choice, ChoiceError, Entry, Param};
use alloc::boxed::Box;

/// Thresholds in hundredths of a per cent of the NVS: compared exactly, never rounded to pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// High threshold.
    pub high: u64,
    /// Low threshold.
    pub low: u64,
}

impl Thresholds {
    /// The papers' 90/80.
    pub const DEFAULT: Thresholds = Thresholds { high: 9000, low: 8000 };

    /// Reads `high` and `low` parameters, in per cent with up to two decimals.
    ///
    /// # Errors
    /// Not a percentage, or high not above low.
    pub fn read(choice: &Choice) -> Result<Thresholds, ChoiceError> {
        let high = hundredths(choice, "high")?;
        let low = hundredths(choice, "low")?;
        if high <= low {
            return Err(ChoiceError::BadValue {
                entry: choice.entry.name,
                param: "high",
                value: choice.text("high").into(),
                expected: alloc::format!("above the low threshold of {}", choice.text("low")),
            });
        }
        Ok(Thresholds { high, low })
    }
}

/// A percentage in hundredths.
fn hundredths(choice: &Choice, param: &'static str) -> Result<u64, ChoiceError> {
    let percent: f64 = choice.number(param, 0.0, 100.0)?;
    Ok((percent * 100.0 + 0.5) as u64)
}

const HIGH: Param = Param {
    name: "high",
    unit: "% of NVS",
    default: "90",
    range: "above low, to 100",
    help: "at or above this occupancy, destage at full depth",
};

const LOW: Param = Param {
    name: "low",
    unit: "% of NVS",
    default: "80",
    range: "0 to below high",
    help: "at or below this occupancy, do not destage",
};

const SEQUENTIAL: Param = Param {
    name: "sequential",
    unit: "-",
    default: "off",
    range: "on or off",
    help: "below low, keep 4 in flight while the last destage and the next are sequential",
};

const IDLE: Param = Param {
    name: "idle",
    unit: "% of NVS",
    default: "off",
    range: "off, or 0 to 100",
    help: "destage down to this occupancy while all disks are idle (docs/idle-time.md)",
};

/// What a scheme may look at to decide.
pub struct RateView<'a> {
    /// Pages occupied.
    pub occupancy: u64,
    /// NVS size in pages.
    pub capacity: u64,
    /// Greatest number of destage writes in flight.
    pub queue_depth: u32,
    /// Whether the last destage and the next candidate are both sequential groups.
    pub in_sequence: &'a dyn Fn() -> bool,
    /// The present moment.
    pub now: &'a Conditions<'a>,
}

/// A destage rate.
pub trait RateScheme: Send {
    /// How many destage writes may be in flight.
    fn allowed(&mut self, view: &RateView<'_>) -> u32;

    /// Occupancy changed.
    fn on_occupancy(&mut self, _occupancy: u64) {}

    /// A group was destaged, completely.
    fn on_destaged(&mut self) {}

    /// Whether the scheme asks if groups are sequential.
    fn needs_detector(&self) -> bool {
        false
    }

    /// Above which occupancy, in hundredths of a per cent of the NVS, idle time is used to destage
    /// although [`RateScheme::allowed`] is 0.
    fn idle_above(&self) -> Option<u64> {
        None
    }

    /// The thresholds that policies see: STOW's hysteresis is bounded by their gap.
    fn thresholds(&self) -> Thresholds {
        Thresholds::DEFAULT
    }
}

/// A scheme, or why it cannot be made.
pub type Made = Result<Box<dyn RateScheme>, ChoiceError>;

/// A table entry.
pub struct RateEntry {
    /// Name, summary, source, parameters.
    pub entry: Entry,
    /// Makes the scheme for an NVS of this many pages.
    pub make: fn(&Choice, u64) -> Made,
}

/// All rate schemes.
pub const RATES: &[RateEntry] = &[
    linear::ENTRY,
    linear::WITH_SEQUENTIAL,
    adaptive::ENTRY,
    fixed::ENTRY,
    quick::ENTRY,
    write_behind::ENTRY,
    threshold::SINGLE,
    threshold::DUAL,
];

/// Parses `name:parameters`, such as `linear:90/80`.
///
/// # Errors
/// An unknown name or parameter, or a value out of range.
pub fn choose(text: &str) -> Result<RateChoice, ChoiceError> {
    let entries: alloc::vec::Vec<&'static Entry> = RATES.iter().map(|r| &r.entry).collect();
    let choice = Choice::parse("rate", &entries, text)?;
    let rate = RATES.iter().find(|r| r.entry.name == choice.entry.name);
    let chosen = RateChoice { choice, make: rate.expect("the entry is in the table").make };
    chosen.build(1024)?;
    Ok(chosen)
}

/// A scheme chosen with its parameters.
#[derive(Clone, Debug)]
pub struct RateChoice {
    /// The entry and values.
    pub choice: Choice,
    make: fn(&Choice, u64) -> Made,
}

impl RateChoice {
    /// Makes the scheme for an NVS of `nvs_pages`.
    ///
    /// # Errors
    /// A value out of range.
    pub fn build(&self, nvs_pages: u64) -> Made {
        idle::with_option(&self.choice, (self.make)(&self.choice, nvs_pages)?)
    }
}

/// Whether a choice's `sequential` parameter is on.
fn sequential_on(choice: &Choice) -> Result<bool, ChoiceError> {
    match choice.text("sequential") {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(ChoiceError::BadValue {
            entry: choice.entry.name,
            param: "sequential",
            value: other.into(),
            expected: "on or off".into(),
        }),
    }
}

/// Destage writes kept in flight below the low threshold by WOW's sequential rule.
const SEQUENTIAL_DEPTH: u32 = 4;

/// 0 at or below low, the full depth at or above high, linear between, rounded up. Occupancy,
/// high and low in one and the same unit.
fn linear_depth(occupancy: u128, high: u128, low: u128, queue_depth: u32) -> u32 {
    if occupancy <= low {
        0
    } else if occupancy >= high {
        queue_depth
    } else {
        (u128::from(queue_depth) * (occupancy - low)).div_ceil(high - low) as u32
    }
}

#[cfg(test)]
mod tests;
