//! The words of an alarm: what happened, to which device by its path, what it means for the data,
//! and what to do. The volume knows numbers; the configuration knows paths.

use super::alarms::AlarmText;
use super::remote::Event;
use super::setup::Setup;
use destage_engine::units::PAGE_BYTES;
use destage_nvslog::superblock::DATA_START;
use destage_served::{Alarm, Cause, Device, Lost, Volume};
use std::fmt;

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

/// The words of an array's alarms.
pub(super) struct AlarmWords<'a> {
    pub(super) setup: &'a Setup,
    pub(super) volume: &'a Volume,
    /// A spare is ready to replace a member.
    pub(super) has_spare: bool,
}

impl AlarmWords<'_> {
    fn array(&self) -> &str {
        self.setup.name()
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
                let partner = |member: &u16| self.setup.called_within(member ^ 1);
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
        match self.has_spare {
            false => format!("Replace it: destage replace {} {member} /path/of/NEW.", self.array()),
            true => "A spare takes its place.".to_string(),
        }
    }

    fn replace_nvs_words(&self) -> String {
        format!("Replace it: destage nvs replace {} /path/of/NEW.", self.array())
    }

    fn without_nvs_words(&self) -> String {
        format!(
            "Every write goes to the disks before it is answered. For a cache again: destage nvs \
             replace {} /path/of/NEW.",
            self.array()
        )
    }

    /// A volume's alarm, or the event that clears one.
    pub(super) fn of(&self, alarm: &Alarm) -> AlarmText {
        AlarmText::new(alarm.name(), self.volume_words(alarm))
    }

    fn volume_words(&self, alarm: &Alarm) -> String {
        let array = self.array();
        match alarm {
            Alarm::MemberFailed(member, cause) => format!(
                "{} failed: {cause}. {} {}",
                self.setup.called(Device::Member(*member)),
                self.redundancy(),
                self.replace_member_words(*member)
            ),
            Alarm::MemberRebuilt(member) => {
                format!("{}: rebuild complete.", self.setup.called(Device::Member(*member)))
            }
            Alarm::RebuildStopped(member, cause) => format!(
                "The spare for {} failed: {cause}. {} Give another one: destage replace {array} \
                 {member} /path/of/NEW.",
                self.setup.called_within(*member),
                self.redundancy()
            ),
            Alarm::NvsMirrorLost(copy, cause) => format!(
                "{} failed: {cause}. One NVS device is left: if it fails too, a crash loses what \
                 is dirty. {}",
                self.setup.called(Device::Nvs(*copy)),
                self.replace_nvs_words()
            ),
            Alarm::MirrorFailed(copy) => format!(
                "{}: the resync did not complete. The other NVS device counts as before. Retry \
                 with this device, cleared, or with another one: destage nvs replace {array} \
                 /path/of/NEW.",
                self.setup.called(Device::Nvs(*copy))
            ),
            Alarm::NvsMirrored(copy) => format!(
                "{} is in sync: the log is mirrored.",
                self.setup.called(Device::Nvs(*copy))
            ),
            Alarm::NvsLost { copy, pages, cause } => self.nvs_lost_words(*copy, *pages, cause),
            Alarm::DeviceWaits(device, error) => format!(
                "{}: {error}. Its writes wait and are retried every second; nothing is lost. \
                 Free space for it, or replace it.",
                self.setup.called(*device)
            ),
            Alarm::DeviceAnswers(device) => {
                format!("{} takes writes again.", self.setup.called(*device))
            }
            Alarm::Repaired { member, page, pages } => self.repaired_words(*member, *page, *pages),
            Alarm::SuperblockRepaired { device, copy } => format!(
                "{}: the {} copy of its superblock was damaged and was rewritten from the \
                 other. Nothing is lost. If it happens again, replace the device.",
                self.setup.called(*device),
                if *copy == 0 { "first" } else { "second" }
            ),
            Alarm::PagesLost { member, page, ranges } => {
                self.pages_lost_words(*member, *page, ranges)
            }
            Alarm::PagesKept { ranges, .. } => self.pages_kept_words(ranges),
            Alarm::PagesDestaged { first_page } => format!(
                "The dirty pages from byte {} of the volume are on the disks.",
                first_page * PAGE_BYTES
            ),
            Alarm::ArrayStopped(lost) => self.stopped_words(lost),
            Alarm::RowsDoubted => format!(
                "The array was interrupted while no NVS log was in use, or uses what was left of \
                 a log: parity or copies of rows that were being written may be inconsistent. No \
                 completed write is lost by that while all members are there. Before one fails: \
                 destage scrub {array} --repair."
            ),
            Alarm::RowsRepaired => "A scrub has repaired all rows.".to_string(),
        }
    }

    fn repaired_words(&self, member: u16, page: u64, pages: u32) -> String {
        format!(
            "{} could not read {pages} pages at its byte {}: they were rewritten from the other \
             members, and nothing is lost. Check its SMART values, and scrub: destage scrub {}.",
            self.setup.called(Device::Member(member)),
            DATA_START + page * PAGE_BYTES,
            self.array()
        )
    }

    fn pages_lost_words(&self, member: u16, page: u64, ranges: &[(u64, u64)]) -> String {
        format!(
            "Page {page} of {} cannot be reconstructed: the other members cannot read their part \
             of the row either. Lost: {}. Reads of them fail until they are written. Restore them \
             from a backup, then: destage scrub {}.",
            self.setup.called_within(member),
            byte_ranges(ranges),
            self.array()
        )
    }

    fn pages_kept_words(&self, ranges: &[(u64, u64)]) -> String {
        format!(
            "{} cannot be destaged: members cannot read what their parity is computed from. They \
             stay in the NVS and are retried every 5 seconds. No acknowledged write is lost, and \
             reads of them are correct. Replace the failed member, or the one with read errors: \
             destage status {}.",
            byte_ranges(ranges),
            self.array()
        )
    }

    fn stopped_words(&self, lost: &Lost) -> String {
        format!(
            "Too many members have failed for level {}: the array has stopped. {} Bring one back \
             and start the server again. Dirty pages are in the NVS; nothing was written since.",
            self.volume.controller().geometry().level.entry().entry.name,
            self.lost_words(lost)
        )
    }

    fn lost_words(&self, lost: &Lost) -> String {
        let member = |(member, from): &(u16, u64)| match from {
            0 => self.setup.called_within(*member),
            from => {
                format!("{} (rebuilt below its page {from})", self.setup.called_within(*member))
            }
        };
        let members: Vec<String> = lost.members.iter().map(member).collect();
        let more = if lost.more { " and more" } else { "" };
        format!(
            "{} bytes are unavailable while {} are missing: {}{more}.",
            lost.pages * PAGE_BYTES,
            members.join(", "),
            byte_ranges(&lost.ranges)
        )
    }

    fn nvs_lost_words(&self, copy: u16, pages: u64, cause: &Cause) -> String {
        let device = self.setup.called(Device::Nvs(copy));
        let begin = format!("{device} failed: {cause}. No NVS device is left.");
        if self.setup.config().stops_on_nvs_loss() {
            return format!(
                "{begin} The array has stopped, as on_nvs_loss asks. Bring the device back and \
                 start again."
            );
        }
        let lost = match pages {
            0 => "Nothing was dirty, so nothing is lost.".to_string(),
            pages => format!(
                "{pages} acknowledged pages are only in memory until they are destaged; a crash \
                 before that loses them. Keep the machine up until destage status {} reports 0 \
                 dirty pages.",
                self.array()
            ),
        };
        format!("{begin} {lost} {}", self.without_nvs_words())
    }

    /// A member that the array does not use at its start.
    pub(super) fn absent_member(&self, member: u16, why: Option<&str>, rebuilt: bool) -> AlarmText {
        let redundancy = self.redundancy();
        let called = self.setup.called(Device::Member(member));
        let (name, text) = match why {
            _ if rebuilt => (
                "member-failed",
                format!(
                    "{called} failed before this start and is being rebuilt. {redundancy} For its \
                     progress: destage status {}.",
                    self.array()
                ),
            ),
            Some(why) => (
                "member-missing",
                format!(
                    "{called} cannot be used: {why}. {redundancy} What it holds is out of date \
                     from now on. {}",
                    self.replace_member_words(member)
                ),
            ),
            None => (
                "member-failed",
                format!(
                    "{called} failed before this start, and what it holds is out of date. \
                     {redundancy} {}",
                    self.replace_member_words(member)
                ),
            ),
        };
        AlarmText::new(name, text)
    }

    /// An NVS device that the array does not use at its start, while it has another.
    pub(super) fn absent_mirror(&self, copy: u16, why: Option<&str>) -> AlarmText {
        let text = format!(
            "{} is not used: {}. One NVS device is left: if it fails too, a crash loses dirty \
             pages. {}",
            self.setup.called(Device::Nvs(copy)),
            why.unwrap_or(FAILED_BEFORE),
            self.replace_nvs_words()
        );
        AlarmText::new("nvs-mirror-lost", text)
    }

    /// An NVS device that the array does not use at its start, and it has no other.
    pub(super) fn absent_nvs(&self, copy: u16, why: Option<&str>) -> AlarmText {
        let text = format!(
            "{} is not used: {}. No NVS device is in use. {}",
            self.setup.called(Device::Nvs(copy)),
            why.unwrap_or(FAILED_BEFORE),
            self.without_nvs_words()
        );
        AlarmText::new("nvs-lost", text)
    }

    /// A spare that cannot be used.
    pub(super) fn absent_spare(&self, name: &str, why: &str) -> AlarmText {
        let array = self.array();
        let text = format!(
            "The spare {name} cannot be used: {why}. If a member fails, this spare does not \
             replace it; nothing is lost. Bring it back and add it again (destage spare {array} \
             add {name}), or remove it (destage spare {array} remove {name})."
        );
        AlarmText::new("spare-missing", text)
    }

    /// A member's file that was deleted, and the array continues without it.
    pub(super) fn deleted_member(&self, member: u16) -> AlarmText {
        let text = format!(
            "The file of {} was deleted. The array does not use it any further. {}",
            self.setup.called_within(member),
            self.replace_member_words(member)
        );
        AlarmText::new("file-deleted", text)
    }

    /// A member's file that was deleted, and the array needs it.
    pub(super) fn deleted_needed_member(&self, member: u16) -> AlarmText {
        let text = format!(
            "The file of {} was deleted, and data would be lost without it. The open file works \
             until the server ends; then it is lost. Copy the data off, or wait for a running \
             rebuild, or end the server with SIGTERM, which says how to save the file. `destage \
             stop {}` refuses.",
            self.setup.called_within(member),
            self.array()
        );
        AlarmText::new("file-deleted", text)
    }

    /// The file of the only NVS device that was deleted.
    pub(super) fn deleted_nvs(&self, copy: u16) -> AlarmText {
        let text = format!(
            "{}, the only NVS device, was deleted. The open file works until the server ends; \
             then its dirty pages are lost. Give the array another one now: destage nvs replace \
             {} /path/of/NEW.",
            self.setup.path_of(Device::Nvs(copy)).unwrap_or("The NVS file"),
            self.array()
        );
        AlarmText::new("file-deleted", text)
    }

    /// A spare's file that was deleted.
    pub(super) fn deleted_spare(&self, name: &str) -> AlarmText {
        let text = format!(
            "{name}, a spare, was deleted. Nothing is lost; if a member fails, this spare does not \
             replace it. Add another one: destage spare {} add /path/of/NEW.",
            self.array()
        );
        AlarmText::new("file-deleted", text)
    }

    /// What has happened to the connection of a member that another server serves.
    pub(super) fn connection(&self, member: u16, event: &Event) -> AlarmText {
        let called = self.setup.called(Device::Member(member));
        let (name, text) = match event {
            Event::Lost(error) => (
                "member-disconnected",
                format!(
                    "{called}: the connection broke: {error}. Its reads and writes wait while the \
                     server reconnects, for up to {} s; nothing is lost.",
                    self.setup.config().reconnect_seconds()
                ),
            ),
            Event::Back { away, again } => (
                "member-reconnected",
                format!(
                    "{called} was away for {:.1} s. {again} unflushed writes were sent again; \
                     nothing is lost. Find out why its server ended.",
                    away.0 as f64 / 1e9
                ),
            ),
            Event::GaveUp(why) => (
                "member-not-reconnected",
                format!("{called} is no longer used: {why}. {}", self.replace_member_words(member)),
            ),
        };
        AlarmText::new(name, text)
    }
}

/// Why a device is not used that can be opened.
const FAILED_BEFORE: &str = "it failed before this start and is out of date";

/// A spare that could not replace a member.
pub(super) fn spare_not_taken(spare: &str, member: u16, why: &dyn fmt::Display) -> AlarmText {
    let text = format!(
        "{spare} cannot replace member {member}: {why}. Nothing is lost. Correct the cause; the \
         server tries again every 5 s."
    );
    AlarmText::new("spare-not-taken", text)
}

/// An array that could not be opened again while its log was replaced.
pub(super) fn halted_words(array: &str, why: &str) -> AlarmText {
    let text = format!(
        "The NVS log was being replaced, and the array cannot be opened again: {why}. Nothing is \
         lost: everything is on the disks. Correct the cause, then restart the server of {array}."
    );
    AlarmText::new("array-stopped", text)
}

/// Deleted files that a server which ends waits for.
pub(super) fn save_files(array: &str, seconds: u32, commands: &[String]) -> AlarmText {
    let text = format!(
        "The server of {array} ends in {seconds} s, and the only copy of deleted files with it. \
         Save them now: {}. The server ends by itself when they are saved; then start it again. A \
         second SIGTERM ends it at once.",
        commands.join(" and ")
    );
    AlarmText::new("save-files", text)
}
