//! The words of an alarm: what happened, to which device by its path, what it means for the data,
//! and what to do. The volume knows numbers; the configuration knows paths.

use super::alarms::Ends;
use super::backend::ArrayBackend;

use destage_engine::units::PAGE_BYTES;
use destage_served::{Alarm, Cause, Device, Lost};

/// Ranges of the volume that an alarm names.
pub(super) const RANGES_NAMED: usize = 8;

/// Runs of pages of the volume as ranges of bytes, the first ones named.
pub(super) fn byte_ranges(ranges: &[(u64, u64)]) -> String {
    let one = |(first, pages): &(u64, u64)| {
        format!("{} to {}", first * PAGE_BYTES, (first + pages) * PAGE_BYTES - 1)
    };
    if ranges.is_empty() {
        return "no byte of the volume".to_string();
    }
    let named: Vec<String> = ranges.iter().take(RANGES_NAMED).map(one).collect();
    let more = match ranges.len().saturating_sub(RANGES_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more ranges"),
    };
    format!("bytes {} of the volume{more}", named.join(", "))
}

/// What a start found of the devices that the configuration names.
#[derive(Clone, Debug, Default)]
pub struct Absent {
    /// Members and NVS devices that cannot be used, and why.
    pub devices: Vec<(Device, String)>,
    /// Spares that cannot be used, by their names, and why.
    pub spares: Vec<(String, String)>,
}

impl ArrayBackend {
    /// A device with its path.
    pub(super) fn called(&self, device: Device) -> String {
        let (kind, number, names) = match device {
            Device::Member(number) => ("Member", number, &self.config().disks),
            Device::Nvs(number) => ("NVS device", number, &self.config().nvs),
        };
        match names.get(usize::from(number)) {
            Some(path) => format!("{kind} {number} ({path})"),
            None => format!("{kind} {number}"),
        }
    }

    /// The same within a sentence.
    fn called_within(&self, member: u16) -> String {
        self.called(Device::Member(member)).replacen("Member", "member", 1)
    }

    /// How many more failures the array tolerates.
    fn redundancy(&self) -> String {
        let status = self.volume.status();
        if status.stopped {
            return "The array has stopped.".to_string();
        }
        let geometry = self.volume.controller().geometry();
        match geometry.level {
            level if !level.is_redundant() => "The array cannot be served without it.".to_string(),
            level if level.is_mirrored() => {
                let partner = |member: &u16| self.called_within(member ^ 1);
                let partners: Vec<String> = status.failed.iter().map(partner).collect();
                format!(
                    "The array is degraded: if {} fails too, data is lost.",
                    partners.join(" or ")
                )
            }
            level => match usize::from(level.parities()).saturating_sub(status.failed.len()) {
                0 => "The array is degraded: one more failure loses data.".to_string(),
                1 => "The array is degraded: it tolerates one more failure.".to_string(),
                left => format!("The array is degraded: it tolerates {left} more failures."),
            },
        }
    }

    fn replace_member_words(&self, member: u16) -> String {
        if self.volume.status().stopped {
            return "Bring it back, or another that failed, and start again.".to_string();
        }
        match self.spares.is_empty() {
            true => format!("Replace it: destage replace {} {member} /path/of/NEW.", self.name()),
            false => "A spare takes its place.".to_string(),
        }
    }

    fn replace_nvs_words(&self) -> String {
        format!("Replace it: destage replace-nvs {} /path/of/NEW.", self.name())
    }

    fn without_nvs_words(&self) -> String {
        format!(
            "Every write goes to the disks before it is answered. For a cache again: \
             destage stop {} --drain, then create the array again over its data \
             (docs/operations.md).",
            self.name()
        )
    }

    /// A volume's alarm, as `NAME: TEXT`.
    pub(super) fn alarm_words(&self, alarm: &Alarm) -> String {
        let array = self.name();
        let text = match alarm {
            Alarm::MemberFailed(member, cause) => format!(
                "{} failed: {cause}. {} {}",
                self.called(Device::Member(*member)),
                self.redundancy(),
                self.replace_member_words(*member)
            ),
            Alarm::RebuildStopped(member, cause) => format!(
                "The spare for {} failed: {cause}. {} Give another one: destage replace {array} \
                 {member} /path/of/NEW.",
                self.called_within(*member),
                self.redundancy()
            ),
            Alarm::NvsMirrorLost(copy, cause) => format!(
                "{} failed: {cause}. One NVS device is left: if it fails too, a crash loses what \
                 is dirty. {}",
                self.called(Device::Nvs(*copy)),
                self.replace_nvs_words()
            ),
            Alarm::MirrorFailed(copy) => format!(
                "{}: the resync did not complete. The other NVS device counts as before. Retry \
                 with this device, cleared, or with another one: destage replace-nvs {array} \
                 /path/of/NEW.",
                self.called(Device::Nvs(*copy))
            ),
            Alarm::NvsLost { copy, pages, cause } => self.nvs_lost_words(*copy, *pages, cause),
            Alarm::DeviceWaits(device, error) => format!(
                "{}: {error}. Writes wait and are tried again every second; nothing is lost. \
                 Make space, or replace the device.",
                self.called(*device)
            ),
            Alarm::Repaired { member, page, pages } => format!(
                "{} could not read {pages} pages at its byte {}: they were written again from the \
                 other members, and nothing is lost. Look at its SMART values, and scrub: destage \
                 scrub {array}.",
                self.called(Device::Member(*member)),
                (1 << 20) + page * PAGE_BYTES
            ),
            Alarm::SuperblockRepaired { device, copy } => format!(
                "{}: the {} copy of its superblock was damaged and was written again from the \
                 other. Nothing is lost. If it happens again, replace the device.",
                self.called(*device),
                if *copy == 0 { "first" } else { "second" }
            ),
            lost => self.loss_words(lost),
        };
        format!("{}: {text}", alarm.name())
    }

    /// Alarms of data that is lost; and those of a volume that this file does not know.
    fn loss_words(&self, alarm: &Alarm) -> String {
        let restore = format!(
            "Reads of them fail until they are written. Restore them from a backup, then: destage \
             scrub {}.",
            self.name()
        );
        match alarm {
            Alarm::PagesLost { member, page, ranges } => format!(
                "Page {page} of {} cannot be reconstructed: the other members cannot read their \
                 part either. Lost: {}. {restore}",
                self.called_within(*member),
                byte_ranges(ranges)
            ),
            Alarm::PagesKept { ranges, .. } => format!(
                "{} cannot be destaged: members cannot read what their parity is computed from. \
                 They stay in the NVS and are tried again every 5 seconds; nothing that was \
                 acknowledged is lost, and they read right. Replace the failed member, or the one \
                 with read errors: destage status {}.",
                byte_ranges(ranges),
                self.name()
            ),
            Alarm::ArrayStopped(lost) => format!(
                "Too many members have failed for level {}: the array has stopped. {} Bring one \
                 back and start again: what was dirty is in the NVS, and nothing was written \
                 since.",
                self.volume.controller().geometry().level.entry().entry.name,
                self.lost_words(lost)
            ),
            other => other.to_string(),
        }
    }

    fn lost_words(&self, lost: &Lost) -> String {
        let member = |(member, from): &(u16, u64)| match from {
            0 => self.called_within(*member),
            from => format!("{} (rebuilt below its page {from})", self.called_within(*member)),
        };
        let members: Vec<String> = lost.members.iter().map(member).collect();
        let more = if lost.more { " and more" } else { "" };
        format!(
            "{} bytes are unavailable while {} stay away: {}{more}.",
            lost.pages * PAGE_BYTES,
            members.join(", "),
            byte_ranges(&lost.ranges)
        )
    }

    fn nvs_lost_words(&self, copy: u16, pages: u64, cause: &Cause) -> String {
        let device = self.called(Device::Nvs(copy));
        let begin = format!("{device} failed: {cause}. No NVS device is left.");
        if self.config().on_nvs_loss == "stop" {
            return format!(
                "{begin} The array has stopped, as on_nvs_loss asks. Bring the device back and \
                 start again."
            );
        }
        let lost = match pages {
            0 => "Nothing was dirty, so nothing is lost.".to_string(),
            pages => format!(
                "{pages} acknowledged pages are only in memory until they are destaged, and a \
                 crash before that loses them. Keep the machine up until destage status {} says \
                 0 dirty.",
                self.name()
            ),
        };
        format!("{begin} {lost} {}", self.without_nvs_words())
    }

    /// An end of an alarm.
    pub(super) fn end_words(&self, alarm: &Alarm) -> String {
        match alarm {
            Alarm::MemberRebuilt(member) => {
                format!("{}: rebuild complete.", self.called(Device::Member(*member)))
            }
            Alarm::NvsMirrored(copy) => {
                format!("{} is in sync: the log is mirrored.", self.called(Device::Nvs(*copy)))
            }
            Alarm::PagesDestaged { first_page } => format!(
                "The dirty pages from byte {} of the volume are on the disks.",
                first_page * PAGE_BYTES
            ),
            Alarm::DeviceAnswers(device) => format!("{} takes writes again.", self.called(*device)),
            other => other.to_string(),
        }
    }

    /// Raises the alarms of a start: for everything that the configuration names and the array
    /// does not use. Each start does, since each serves with less than it should have.
    pub fn report_absent(&mut self, absent: Absent) {
        let Absent { devices, spares } = absent;
        let why =
            |device| devices.iter().find(|(other, _)| *other == device).map(|(_, why)| why.clone());
        let status = self.volume.status();
        for member in &status.failed {
            let rebuilt = status.rebuilds.iter().any(|rebuild| rebuild.member == *member);
            let text = self.absent_member_words(*member, why(Device::Member(*member)), rebuilt);
            self.told(text, Ends::MemberRebuilt(*member));
        }
        let unused = 0..self.config().nvs.len() as u16;
        let unused: Vec<u16> = unused.filter(|copy| !status.nvs_devices.contains(copy)).collect();
        for copy in unused {
            let why = why(Device::Nvs(copy));
            if status.nvs_devices.is_empty() {
                let text = self.absent_nvs_words(copy, why);
                self.told(text, Ends::Never);
            } else {
                let text = self.absent_mirror_words(copy, why);
                self.told(text, Ends::NvsMirrored);
            }
        }
        for (name, why) in spares {
            let text = format!(
                "spare-missing: The spare {name} cannot be used: {why}. If a member fails, it does \
                 not take its place; nothing is lost. Bring it back and add it again (destage \
                 spare {0} add {name}), or take it out (destage spare {0} remove {name}).",
                self.name()
            );
            self.told(text, Ends::SpareChanged(name.clone()));
            self.missing_spares.push(name);
        }
    }

    fn absent_member_words(&self, member: u16, why: Option<String>, rebuilt: bool) -> String {
        let (called, redundancy) = (self.called(Device::Member(member)), self.redundancy());
        match why {
            _ if rebuilt => format!(
                "member-failed: {called} failed before this start and is being rebuilt. \
                 {redundancy} To see how far it is: destage status {}.",
                self.name()
            ),
            Some(why) => format!(
                "member-missing: {called} cannot be used: {why}. {redundancy} What it holds is out \
                 of date from now on. {}",
                self.replace_member_words(member)
            ),
            None => format!(
                "member-failed: {called} failed before this start, and what it holds is out of \
                 date. {redundancy} {}",
                self.replace_member_words(member)
            ),
        }
    }

    fn absent_mirror_words(&self, copy: u16, why: Option<String>) -> String {
        let why = why.unwrap_or("it failed before this start and is out of date".to_string());
        format!(
            "nvs-mirror-lost: {} is not used: {why}. One NVS device is left: if it fails too, a \
             crash loses what is dirty. {}",
            self.called(Device::Nvs(copy)),
            self.replace_nvs_words()
        )
    }

    fn absent_nvs_words(&self, copy: u16, why: Option<String>) -> String {
        let why = why.unwrap_or("it failed before this start and is out of date".to_string());
        format!(
            "nvs-lost: {} is not used: {why}. No NVS device is in use. {}",
            self.called(Device::Nvs(copy)),
            self.without_nvs_words()
        )
    }
}
