//! In plain words: the state of an array, and what has happened to it.

use destage_report::sample::{Happened, Sample};
use destage_report::state::{ArrayState, DeviceKind, DeviceState, EventLevel, ScrubState};
use std::collections::VecDeque;

/// Per cent of the NVS from which the cache is called full: writes wait, or soon will.
const FULL: f64 = 99.0;
/// Seconds after which a full cache is an event.
const FULL_SECONDS: u64 = 3;
/// Events that are remembered.
const EVENTS: usize = 50;

fn busiest(sample: &Sample) -> f64 {
    let members = sample.devices.iter().filter(|device| device.kind == DeviceKind::Member);
    members.map(|device| device.busy).fold(0.0, f64::max)
}

/// A count for people: 1,234,567.
pub fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A sentence about the last second.
pub fn says(sample: &Sample, full_seconds: u64) -> String {
    let (status, point) = (&sample.status, &sample.point);
    let [low, high] = sample.thresholds;
    match status.state {
        ArrayState::Stopped => {
            return "The array has stopped: too many devices have failed. It serves nothing. Dirty \
                    pages stay in the NVS."
                .to_string();
        }
        ArrayState::Recovering => return "Redoing destages of the last run.".to_string(),
        _ => {}
    }
    let destages = format!(
        "{} destage writes in flight, {} groups/s, busiest disk {:.0} % busy",
        point.in_flight,
        grouped(point.destages),
        busiest(sample)
    );
    let cache = if status.state == ArrayState::NoNvs {
        format!("No NVS device is left: every write goes to the disks; {destages}.")
    } else if status.nvs_pages == 0 {
        "There is no NVS: every write goes to the disks.".to_string()
    } else if full_seconds > 0 {
        format!("Cache full for {full_seconds} s: writes wait for the disks; {destages}.")
    } else if point.destages == 0.0 && point.in_flight == 0 {
        let why = if point.occupancy <= low { ", below the low threshold" } else { "" };
        format!("Cache {:.0} % full{why}: nothing is destaged.", point.occupancy)
    } else {
        let where_ = match point.occupancy {
            occupancy if occupancy >= high => "above the high threshold",
            occupancy if occupancy > low => "between the thresholds",
            _ => "below the low threshold",
        };
        format!("Cache {:.0} % full, {where_}: {destages}.", point.occupancy)
    };
    let cache = match status.state {
        ArrayState::Inconsistent => format!("The last scrub found inconsistent rows. {cache}"),
        _ => cache,
    };
    let failed = status.devices.iter().filter(|device| device.state == DeviceState::Failed).count();
    match failed {
        0 => cache,
        1 => format!("One device has failed. {cache}"),
        more => format!("{more} devices have failed. {cache}"),
    }
}

/// What has happened, found by comparing each second with the one before.
#[derive(Default)]
pub struct Events {
    list: VecDeque<Happened>,
    number: u64,
    full_since: Option<(u64, bool)>,
    last_alarm: u64,
    before: Option<Sample>,
}

impl Events {
    fn push(&mut self, at_ms: u64, level: EventLevel, text: String) {
        self.number += 1;
        match level {
            EventLevel::Warning => tracing::warn!(target: "destage::event", "{text}"),
            _ => tracing::info!(target: "destage::event", "{text}"),
        }
        self.list.push_back(Happened { number: self.number, at_ms, level, text });
        if self.list.len() > EVENTS {
            self.list.pop_front();
        }
    }

    /// An alarm was raised; returns false if it is known already.
    pub fn alarm(&mut self, number: u64, at_ms: u64, text: &str) -> bool {
        if number <= self.last_alarm {
            return false;
        }
        self.last_alarm = number;
        self.push(at_ms, EventLevel::Alarm, text.to_string());
        true
    }

    /// Compares the next second with the last; writes its sentence and the events into it.
    pub fn look(&mut self, sample: &mut Sample) {
        let at = sample.point.at_ms;
        self.fullness(sample, at);
        if let Some(before) = self.before.take() {
            self.changes(&before, sample, at);
        }
        let full = self.full_since.map_or(0, |(since, _)| at.saturating_sub(since) / 1000);
        sample.says = says(sample, full);
        sample.events = self.list.iter().cloned().collect();
        self.before = Some(sample.clone());
    }

    fn fullness(&mut self, sample: &Sample, at: u64) {
        let nvs = sample.status.nvs_pages > 0;
        let full = nvs && (sample.point.occupancy >= FULL || sample.status.writes_waiting > 0);
        match (self.full_since, full) {
            (None, true) => self.full_since = Some((at, false)),
            (Some((since, reported)), true) => {
                let seconds = at.saturating_sub(since) / 1000;
                if !reported && seconds >= FULL_SECONDS {
                    self.full_since = Some((since, true));
                    let text = format!(
                        "Cache full for {seconds} s: destage at depth {}, {} groups/s, busiest \
                         disk {:.0} % busy",
                        sample.point.in_flight,
                        grouped(sample.point.destages),
                        busiest(sample)
                    );
                    self.push(at, EventLevel::Warning, text);
                }
            }
            (Some((since, reported)), false) => {
                self.full_since = None;
                if reported {
                    let seconds = at.saturating_sub(since) / 1000;
                    self.push(
                        at,
                        EventLevel::Note,
                        format!("Cache no longer full, after {seconds} s"),
                    );
                }
            }
            (None, false) => {}
        }
    }

    fn changes(&mut self, before: &Sample, now: &Sample, at: u64) {
        let (then, status) = (&before.status, &now.status);
        if then.state != status.state {
            let level = if status.state == ArrayState::Clean {
                EventLevel::Note
            } else {
                EventLevel::Warning
            };
            let text = format!("The array is {} (it was {})", status.state, then.state);
            self.push(at, level, text);
        }
        for (what, then, now) in
            [("Policy", &then.policy, &status.policy), ("Rate", &then.rate, &status.rate)]
        {
            if then != now {
                self.push(at, EventLevel::Note, format!("{what} {now} (it was {then})"));
            }
        }
        for device in &status.devices {
            let same = |other: &&destage_report::live::DeviceStatus| {
                (&other.kind, other.number) == (&device.kind, device.number)
            };
            let name = if device.kind == DeviceKind::Nvs { "NVS device" } else { "Disk" };
            match then.devices.iter().find(same) {
                Some(earlier) if earlier.state != device.state => {
                    let level = if device.state == DeviceState::Failed {
                        EventLevel::Warning
                    } else {
                        EventLevel::Note
                    };
                    let text = format!(
                        "{name} {} ({}): {} (it was {})",
                        device.number, device.device, device.state, earlier.state
                    );
                    self.push(at, level, text);
                }
                _ => {}
            }
        }
        let running = |sample: &destage_report::live::ArrayStatus| {
            sample.scrub.as_ref().is_some_and(|scrub| scrub.state == ScrubState::Running)
        };
        match (running(then), running(status)) {
            (false, true) => self.push(at, EventLevel::Note, "A scrub started".to_string()),
            (true, false) => {
                let line = status.scrub.as_ref().map(|scrub| scrub.line()).unwrap_or_default();
                self.push(at, EventLevel::Note, format!("Scrub: {line}"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
