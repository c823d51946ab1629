//! Active alarms and what clears them, and the last alarms raised.

use destage_served::{Alarm, Device};
use std::collections::VecDeque;
use std::fmt;

/// Active alarms that are kept.
const ACTIVE_MAX: usize = 100;
/// Alarms that are remembered for the monitor.
const RAISED_MAX: usize = 100;

/// An alarm in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AlarmText {
    /// Its name (docs/operations.md).
    pub(super) name: &'static str,
    /// What happened, to which device, what it means for the data, and what to do.
    pub(super) text: String,
}

impl AlarmText {
    pub(super) fn new(name: &'static str, text: String) -> AlarmText {
        AlarmText { name, text }
    }
}

impl fmt::Display for AlarmText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.text)
    }
}

/// What clears an alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClearedBy {
    /// This member is in sync again.
    MemberRebuilt(u16),
    /// The log is mirrored again.
    NvsMirrored,
    /// An NVS device is in use again.
    NvsInUse,
    /// Operations on this device succeed again.
    DeviceAnswers(Device),
    /// The pages of this group are on the disks.
    PagesDestaged(u64),
    /// The next alarm about the connection of this member.
    Reconnected(u16),
    /// A spare has replaced a member.
    SpareTaken,
    /// The spare of this name is added or removed.
    SpareChanged(String),
    /// A complete scrub finds nothing wrong, or has repaired it.
    Scrubbed,
    /// A complete scrub has repaired all rows.
    RowsRepaired,
    /// Nothing while the array is served.
    Nothing,
}

/// What clears a volume's alarm.
pub(super) fn cleared_by(alarm: &Alarm) -> ClearedBy {
    match alarm {
        Alarm::MemberFailed(member, _) | Alarm::RebuildStopped(member, _) => {
            ClearedBy::MemberRebuilt(*member)
        }
        Alarm::NvsMirrorLost(..) | Alarm::MirrorFailed(_) => ClearedBy::NvsMirrored,
        Alarm::NvsLost { .. } => ClearedBy::NvsInUse,
        Alarm::PagesKept { first_page, .. } => ClearedBy::PagesDestaged(*first_page),
        Alarm::DeviceWaits(device, _) => ClearedBy::DeviceAnswers(*device),
        Alarm::RowsDoubted => ClearedBy::RowsRepaired,
        _ => ClearedBy::Nothing,
    }
}

/// What a volume's message clears, if it is not an alarm but the end of one.
pub(super) fn clears(alarm: &Alarm) -> Option<ClearedBy> {
    Some(match alarm {
        Alarm::NvsMirrored(_) => ClearedBy::NvsMirrored,
        Alarm::MemberRebuilt(member) => ClearedBy::MemberRebuilt(*member),
        Alarm::PagesDestaged { first_page } => ClearedBy::PagesDestaged(*first_page),
        Alarm::DeviceAnswers(device) => ClearedBy::DeviceAnswers(*device),
        Alarm::RowsRepaired => ClearedBy::RowsRepaired,
        _ => return None,
    })
}

/// An alarm as it was raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raised {
    /// Its number, from 1.
    pub number: u64,
    /// Its name (docs/operations.md).
    pub name: &'static str,
    /// The alarm in words.
    pub text: String,
}

/// The alarms of an array.
pub(crate) struct Alarms {
    array: String,
    /// Oldest first.
    active: Vec<(AlarmText, ClearedBy)>,
    /// The last ones, oldest first.
    raised: VecDeque<Raised>,
    count: u64,
}

impl Alarms {
    pub(super) fn new(array: &str) -> Alarms {
        let (active, raised) = (Vec::new(), VecDeque::new());
        Alarms { array: array.to_string(), active, raised, count: 0 }
    }

    /// The active alarms, each as `NAME: TEXT`, oldest first.
    pub(super) fn texts(&self) -> Vec<String> {
        self.active.iter().map(|(alarm, _)| alarm.to_string()).collect()
    }

    /// The last alarms raised.
    pub(super) fn raised(&self) -> Vec<Raised> {
        self.raised.iter().cloned().collect()
    }

    /// Whether an active alarm would be cleared by this.
    pub(super) fn any_cleared_by(&self, by: &ClearedBy) -> bool {
        self.active.iter().any(|(_, cleared_by)| cleared_by == by)
    }

    pub(super) fn is_active(&self, alarm: &AlarmText) -> bool {
        self.active.iter().any(|(known, _)| known == alarm)
    }

    /// Raises an alarm. If too many are active, the oldest that nothing clears is dropped; without
    /// any of those, the oldest.
    pub(super) fn raise(&mut self, alarm: AlarmText, cleared_by: ClearedBy) {
        let (array, name) = (&self.array, alarm.name);
        tracing::warn!(target: "destage", array, alarm = name, "alarm {alarm}");
        self.count += 1;
        let text = alarm.text.clone();
        self.raised.push_back(Raised { number: self.count, name, text });
        if self.raised.len() > RAISED_MAX {
            self.raised.pop_front();
        }
        if self.active.len() >= ACTIVE_MAX {
            let lasting = |(_, by): &(AlarmText, ClearedBy)| *by == ClearedBy::Nothing;
            self.active.remove(self.active.iter().position(lasting).unwrap_or(0));
        }
        self.active.push((alarm, cleared_by));
    }

    pub(super) fn clear(&mut self, by: &ClearedBy) {
        self.active.retain(|(_, cleared_by)| cleared_by != by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_served::{Cause, IoError};

    fn alarm(text: impl ToString) -> AlarmText {
        AlarmText::new("x", text.to_string())
    }

    fn names(alarms: &Alarms) -> Vec<&str> {
        alarms.active.iter().map(|(alarm, _)| alarm.name).collect()
    }

    #[test]
    fn an_alarm_is_cleared_by_its_own_event_alone() {
        let mut alarms = Alarms::new("tank");
        let volume = [
            Alarm::MemberFailed(1, Cause::Asked),
            Alarm::MemberFailed(11, Cause::Asked),
            Alarm::RebuildStopped(1, Cause::Asked),
            Alarm::NvsMirrorLost(0, Cause::Asked),
            Alarm::MirrorFailed(0),
            Alarm::NvsLost { copy: 0, pages: 7, cause: Cause::Asked },
        ];
        for alarm in &volume {
            alarms.raise(AlarmText::new(alarm.name(), String::new()), cleared_by(alarm));
        }
        let named = |name| AlarmText::new(name, String::new());
        alarms.raise(named("file-deleted"), ClearedBy::MemberRebuilt(1));
        alarms.raise(named("spare-not-taken"), ClearedBy::SpareTaken);
        alarms.clear(&ClearedBy::MemberRebuilt(1));
        let left = ["member-failed", "nvs-mirror-lost", "nvs-mirror-failed", "nvs-lost"];
        assert_eq!(names(&alarms), [&left[..], &["spare-not-taken"]].concat());
        alarms.clear(&ClearedBy::NvsMirrored);
        alarms.clear(&ClearedBy::SpareTaken);
        assert_eq!(names(&alarms), ["member-failed", "nvs-lost"]);
        alarms.clear(&ClearedBy::NvsInUse);
        assert_eq!(names(&alarms), ["member-failed"]);
        (0..ACTIVE_MAX).for_each(|number| alarms.raise(alarm(number), ClearedBy::Nothing));
        assert!(alarms.texts().len() == ACTIVE_MAX && alarms.is_active(&alarm("99")));
    }

    #[test]
    fn the_end_of_an_alarms_cause_clears_it() {
        let (nvs, kept) = (Device::Nvs(1), Alarm::PagesKept { first_page: 8, ranges: Vec::new() });
        let ends = [
            (Alarm::MemberFailed(2, Cause::Asked), Alarm::MemberRebuilt(2)),
            (Alarm::NvsMirrorLost(0, Cause::Asked), Alarm::NvsMirrored(1)),
            (Alarm::DeviceWaits(nvs, IoError::GONE), Alarm::DeviceAnswers(nvs)),
            (kept, Alarm::PagesDestaged { first_page: 8 }),
            (Alarm::RowsDoubted, Alarm::RowsRepaired),
        ];
        for (alarm, end) in ends {
            assert_eq!(clears(&end), Some(cleared_by(&alarm)), "{alarm}");
            assert_eq!(clears(&alarm), None, "{alarm}");
            assert_ne!(cleared_by(&alarm), ClearedBy::Nothing, "{alarm}");
        }
    }

    #[test]
    fn alarms_that_nothing_clears_are_dropped_first() {
        let mut alarms = Alarms::new("tank");
        alarms.raise(alarm("mirror"), ClearedBy::NvsMirrored);
        (0..ACTIVE_MAX).for_each(|number| alarms.raise(alarm(number), ClearedBy::Nothing));
        let is_active = |alarms: &Alarms, text: &str| alarms.is_active(&alarm(text));
        assert!(is_active(&alarms, "mirror") && !is_active(&alarms, "0"));
        assert!(is_active(&alarms, "1"));
        // Alarms that something clears fill the list; the newest is kept, whatever it is.
        (0..ACTIVE_MAX)
            .for_each(|n| alarms.raise(alarm(format!("spare {n}")), ClearedBy::SpareTaken));
        alarms.raise(alarm("last"), ClearedBy::Nothing);
        assert!(alarms.texts().len() == ACTIVE_MAX && is_active(&alarms, "last"));
        assert!(!is_active(&alarms, "spare 0"));
    }

    #[test]
    fn the_last_alarms_are_remembered() {
        let mut alarms = Alarms::new("tank");
        (0..RAISED_MAX + 5).for_each(|n| alarms.raise(alarm(n), ClearedBy::Nothing));
        assert_eq!(alarms.raised().len(), RAISED_MAX);
        assert_eq!(alarms.raised().last().map(|raised| raised.number), Some(RAISED_MAX as u64 + 5));
    }
}
