//! How traces are read: format, order, what is kept, and how several become one.

use super::columns::Columns;
use super::select::Selection;

/// What to do with a time stamp earlier than its predecessors'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeOrder {
    /// Lift it to the latest time if it is within what is normal for the format, else fail.
    #[default]
    Check,
    /// Lift it to the latest time, however early it is.
    Lift,
    /// Leave the record out.
    Skip,
    /// Put records in order, as far as a window of 65,536 records allows.
    Sort,
}

impl TimeOrder {
    /// `check`, `lift`, `skip` or `sort`.
    pub fn from_name(name: &str) -> Option<TimeOrder> {
        Some(match name {
            "check" => TimeOrder::Check,
            "lift" => TimeOrder::Lift,
            "skip" => TimeOrder::Skip,
            "sort" => TimeOrder::Sort,
            _ => return None,
        })
    }
}

/// How to read a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Format as `name:param=value,...`; by content if none.
    pub format: Option<String>,
    /// Which columns hold what, in place of a format that has a name.
    pub columns: Option<Columns>,
    /// Count malformed lines and records instead of failing on the first.
    pub skip_bad: bool,
    /// What to do about disorder.
    pub order: TimeOrder,
    /// What is kept.
    pub select: Selection,
    /// Of several traces: how their times relate.
    pub times: MergeTimes,
    /// Of several traces: what the same device number means.
    pub devices: MergeDevices,
}

/// How the times of several traces relate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergeTimes {
    /// They were recorded by one clock: requests are ordered by their recorded times.
    #[default]
    Clock,
    /// Each trace begins at time 0.
    Start,
}

/// What the same device number means in several traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergeDevices {
    /// Different devices. The first trace keeps its numbers, and trace k of the others, counted
    /// from 0, adds 65,536 k to its own.
    #[default]
    Apart,
    /// One device.
    Shared,
}
