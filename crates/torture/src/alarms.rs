//! What the array says by itself: its alarms, and which of them the faults explain.

use super::run::{Run, is_in};
use destage_engine::units::DiskId;
use destage_served::{Alarm, Cause, Device, OnNvsLoss};

impl Run {
    pub(super) fn alarm(&mut self, alarm: &Alarm) -> Result<(), String> {
        if changes_the_set(alarm) {
            self.world.maybe_crash_soon(3);
        }
        match alarm {
            Alarm::MemberFailed(member, cause) => self.note_failed_member(*member, cause)?,
            Alarm::NvsMirrorLost(copy, cause) => {
                self.check_given_up(Device::Nvs(*copy), cause)?;
                self.counts.nvs_failed += 1;
                self.mirrored = false;
            }
            Alarm::NvsLost { pages, copy, cause } => {
                self.check_given_up(Device::Nvs(*copy), cause)?;
                self.note_lost_nvs(*pages);
            }
            Alarm::NvsMirrored(copy) => {
                self.newly_mirrored = Some(*copy);
                self.counts.mirrors += 1;
                self.mirrored = true;
                self.check_new_mirror(*copy)?;
            }
            Alarm::MirrorFailed(_) => {}
            Alarm::DeviceWaits(..) => self.counts.waits += 1,
            Alarm::DeviceAnswers(_) => self.counts.waits_ended += 1,
            Alarm::Repaired { .. } => self.counts.repairs += 1,
            Alarm::MemberRebuilt(member) => {
                self.counts.rebuilt += 1;
                self.failed.remove(DiskId(*member));
                self.failed_lately.insert(DiskId(*member));
            }
            Alarm::RebuildStopped(member, cause) => {
                self.check_given_up(Device::Member(*member), cause)?;
                self.counts.spares_failed += 1;
                // A destage may have been writing to it.
                self.redoes = true;
                self.has_failed_again(*member);
                self.world.members[usize::from(*member)].gone = true;
            }
            Alarm::PagesLost { ranges, .. } => {
                self.check_lost(ranges)?;
                self.reported_lost.extend(ranges);
                self.rows_lost = true;
                self.rewritten.retain(|page, _| !is_in(ranges, *page));
            }
            Alarm::ArrayStopped(_) if self.stopping => self.stopped = true,
            // A row that is not what was written may contradict the checksums of its parity.
            Alarm::PagesKept { ranges, first_page }
                if self.bad_media || self.may_lack_rows() || !self.holes.is_empty() =>
            {
                self.check_kept(ranges)?;
                self.counts.kept += 1;
                // Without NVS, requests that wait for them are refused.
                self.rows_kept = true;
                self.kept_groups.insert(first_page / self.case.geometry.pages_per_group());
            }
            Alarm::PagesDestaged { .. } | Alarm::SuperblockRepaired { .. } => {}
            Alarm::RowsDoubted | Alarm::RowsRepaired => {}
            Alarm::ArrayStopped(_) | Alarm::PagesKept { .. } => {
                let status = self.volume().status();
                return Err(format!("alarm: {alarm:?} {status:?}"));
            }
        }
        Ok(())
    }

    fn note_failed_member(&mut self, member: u16, cause: &Cause) -> Result<(), String> {
        self.check_failure(member, cause)?;
        self.counts.members_failed += 1;
        self.has_failed_again(member);
        self.right_strips.clear();
        self.failed.insert(DiskId(member));
        self.failed_lately.insert(DiskId(member));
        // What is given up is not written any more.
        self.world.members[usize::from(member)].gone = true;
        Ok(())
    }

    /// The last NVS device has failed, with this many pages at risk.
    fn note_lost_nvs(&mut self, pages: u64) {
        self.said_at_risk = Some(pages);
        self.mirrored = false;
        self.stopped |= self.case.settings.on_nvs_loss == OnNvsLoss::Stop;
        self.counts.nvs_failed += 1;
        self.nvs_lost = true;
        self.at_risk = self.volume().dirty_in(0, u64::MAX);
        self.lost_before = self.next_ticket;
        self.press_what_is_at_risk();
    }
}

/// Whether the set of devices in use changes with this.
fn changes_the_set(alarm: &Alarm) -> bool {
    let stopped = matches!(alarm, Alarm::MemberFailed(..) | Alarm::RebuildStopped(..));
    stopped || matches!(alarm, Alarm::NvsMirrorLost(..) | Alarm::NvsMirrored(_))
}
