//! Alarms that stand: what was told, and what ends it.

use destage_served::{Alarm, Device};

/// Alarms that are kept.
const KEPT: usize = 100;

/// What ends an alarm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// This member is whole again.
    MemberRebuilt(u16),
    /// There are two NVS devices again.
    NvsMirrored,
    /// Operations on this device succeed again.
    DeviceAnswers(Device),
    /// The pages of this group are on the disks.
    PagesDestaged(u64),
    /// What is told next of this member's connection.
    Reconnected(u16),
    /// A spare has taken a member's place.
    SpareTaken,
    /// The spare of this name is given or taken away.
    SpareChanged(String),
    /// A complete scrub finds nothing wrong, or has repaired it.
    Scrubbed,
    /// Nothing while the array is served.
    Never,
}

/// What ends a volume's alarm.
pub(super) fn ends(alarm: &Alarm) -> Ends {
    match alarm {
        Alarm::MemberFailed(member, _) | Alarm::RebuildStopped(member, _) => {
            Ends::MemberRebuilt(*member)
        }
        Alarm::NvsMirrorLost(..) | Alarm::MirrorFailed(_) => Ends::NvsMirrored,
        Alarm::PagesKept { first_page, .. } => Ends::PagesDestaged(*first_page),
        Alarm::DeviceWaits(device, _) => Ends::DeviceAnswers(*device),
        _ => Ends::Never,
    }
}

/// The alarms that stand, each as `NAME: TEXT`, oldest first.
#[derive(Default)]
pub(crate) struct Alarms(Vec<(String, Ends)>);

impl Alarms {
    pub(crate) fn texts(&self) -> Vec<String> {
        self.0.iter().map(|(text, _)| text.clone()).collect()
    }

    /// Whether one is active that this would end.
    pub(super) fn waits_for(&self, end: &Ends) -> bool {
        self.0.iter().any(|(_, ends)| ends == end)
    }

    pub(super) fn has(&self, text: &str) -> bool {
        self.0.iter().any(|(known, _)| known == text)
    }

    /// Adds one. If there are too many, the oldest that never ends gives way; without any, the
    /// oldest.
    pub(super) fn add(&mut self, text: String, ends: Ends) {
        if self.0.len() >= KEPT {
            let never = |(_, ends): &(String, Ends)| *ends == Ends::Never;
            self.0.remove(self.0.iter().position(never).unwrap_or(0));
        }
        self.0.push((text, ends));
    }

    pub(super) fn end(&mut self, by: &Ends) {
        self.0.retain(|(_, ends)| ends != by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_served::Cause;

    #[test]
    fn what_ends_an_alarm_ends_it_alone() {
        let mut alarms = Alarms::default();
        let volume = [
            Alarm::MemberFailed(1, Cause::Asked),
            Alarm::MemberFailed(11, Cause::Asked),
            Alarm::RebuildStopped(1, Cause::Asked),
            Alarm::NvsMirrorLost(0, Cause::Asked),
            Alarm::MirrorFailed(0),
            Alarm::NvsLost { copy: 0, pages: 7, cause: Cause::Asked },
        ];
        for alarm in &volume {
            alarms.add(alarm.name().to_string(), ends(alarm));
        }
        alarms.add("file-deleted".to_string(), Ends::MemberRebuilt(1));
        alarms.add("spare-not-taken".to_string(), Ends::SpareTaken);
        alarms.end(&Ends::MemberRebuilt(1));
        let left = ["member-failed", "nvs-mirror-lost", "nvs-mirror-failed", "nvs-lost"];
        assert_eq!(alarms.texts(), [&left[..], &["spare-not-taken"]].concat());
        alarms.end(&Ends::NvsMirrored);
        alarms.end(&Ends::SpareTaken);
        assert_eq!(alarms.texts(), ["member-failed", "nvs-lost"]);
        (0..KEPT).for_each(|number| alarms.add(number.to_string(), Ends::Never));
        assert!(alarms.texts().len() == KEPT && alarms.has("99") && !alarms.has("nvs-lost"));
    }
    #[test]
    fn alarms_that_never_end_give_way_first() {
        let mut alarms = Alarms::default();
        alarms.add("nvs-mirror-lost".to_string(), Ends::NvsMirrored);
        (0..KEPT).for_each(|number| alarms.add(number.to_string(), Ends::Never));
        assert!(alarms.has("nvs-mirror-lost") && !alarms.has("0") && alarms.has("1"));
        // Those that end fill the list; the newest one is kept, whatever it is.
        (0..KEPT).for_each(|n| alarms.add(format!("spare {n}"), Ends::SpareTaken));
        alarms.add("last".to_string(), Ends::Never);
        assert!(alarms.texts().len() == KEPT && alarms.has("last") && !alarms.has("spare 0"));
    }
}
