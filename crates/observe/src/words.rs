//! In plain words: how an array stands, and what has happened to it.

use destage_report::watch::{Happened, Sample};
use std::collections::VecDeque;

/// Per cent of the NVS from which it is called full: writes wait, or soon will.
const FULL: f64 = 99.0;
/// Seconds after which a full cache is an event.
const FULL_SECONDS: u64 = 3;
/// Events that are remembered.
const EVENTS: usize = 50;

fn busiest(sample: &Sample) -> f64 {
    let members = sample.devices.iter().filter(|device| device.kind == "member");
    members.map(|device| device.busy).fold(0.0, f64::max)
}

/// A count for people: 1,234,567.
#[must_use]
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
#[must_use]
pub fn says(sample: &Sample, full_seconds: u64) -> String {
    let (status, point) = (&sample.status, &sample.point);
    let [low, high] = sample.thresholds;
    match status.state.as_str() {
        "stopped" => {
            return "The array has stopped: too many devices have failed. Nothing is served; what \
                    is dirty stays in NVS."
                .to_string();
        }
        "recovering" => return "Destages of the last run are being redone.".to_string(),
        _ => {}
    }
    let destages = format!(
        "{} destage writes in flight, {} groups/s, busiest disk {:.0} % busy",
        point.in_flight,
        grouped(point.destages),
        busiest(sample)
    );
    let cache = if status.state == "no-nvs" {
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
    let cache = match status.state.as_str() {
        "inconsistent" => format!("The last scrub found rows that are wrong. {cache}"),
        _ => cache,
    };
    let failed = status.devices.iter().filter(|device| device.state == "failed").count();
    match failed {
        0 => cache,
        1 => format!("One device has failed. {cache}"),
        more => format!("{more} devices have failed. {cache}"),
    }
}

/// What has happened, told from one second to the next.
#[derive(Default)]
pub struct Events {
    list: VecDeque<Happened>,
    number: u64,
    full_since: Option<(u64, bool)>,
    last_alarm: u64,
    before: Option<Sample>,
}

impl Events {
    fn push(&mut self, at_ms: u64, level: &str, text: String) {
        self.number += 1;
        match level {
            "warning" => tracing::warn!(target: "destage::event", "{text}"),
            _ => tracing::info!(target: "destage::event", "{text}"),
        }
        let level = level.to_string();
        self.list.push_back(Happened { number: self.number, at_ms, level, text });
        if self.list.len() > EVENTS {
            self.list.pop_front();
        }
    }

    /// An alarm was raised; false if it was told before.
    pub fn alarm(&mut self, number: u64, at_ms: u64, text: &str) -> bool {
        if number <= self.last_alarm {
            return false;
        }
        self.last_alarm = number;
        self.push(at_ms, "alarm", text.to_string());
        true
    }

    /// Looks at the next second; writes what is to be said into it.
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
            (Some((since, told)), true) => {
                let seconds = at.saturating_sub(since) / 1000;
                if !told && seconds >= FULL_SECONDS {
                    self.full_since = Some((since, true));
                    let text = format!(
                        "Cache full for {seconds} s: destage at depth {}, {} groups/s, busiest \
                         disk {:.0} % busy",
                        sample.point.in_flight,
                        grouped(sample.point.destages),
                        busiest(sample)
                    );
                    self.push(at, "warning", text);
                }
            }
            (Some((since, told)), false) => {
                self.full_since = None;
                if told {
                    let seconds = at.saturating_sub(since) / 1000;
                    self.push(at, "note", format!("Cache no longer full, after {seconds} s"));
                }
            }
            (None, false) => {}
        }
    }

    fn changes(&mut self, before: &Sample, now: &Sample, at: u64) {
        let (then, status) = (&before.status, &now.status);
        if then.state != status.state {
            let level = if status.state == "clean" { "note" } else { "warning" };
            let text = format!("The array is {} (it was {})", status.state, then.state);
            self.push(at, level, text);
        }
        for (what, then, now) in
            [("Policy", &then.policy, &status.policy), ("Rate", &then.rate, &status.rate)]
        {
            if then != now {
                self.push(at, "note", format!("{what} {now} (it was {then})"));
            }
        }
        for device in &status.devices {
            let same = |other: &&destage_report::live::DeviceStatus| {
                (&other.kind, other.number) == (&device.kind, device.number)
            };
            let name = if device.kind == "nvs" { "NVS device" } else { "Disk" };
            match then.devices.iter().find(same) {
                Some(earlier) if earlier.state != device.state => {
                    let level = if device.state == "failed" { "warning" } else { "note" };
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
            sample.scrub.as_ref().is_some_and(|scrub| scrub.state == "running")
        };
        match (running(then), running(status)) {
            (false, true) => self.push(at, "note", "A scrub has begun".to_string()),
            (true, false) => {
                let line = status.scrub.as_ref().map(|scrub| scrub.line()).unwrap_or_default();
                self.push(at, "note", format!("Scrub: {line}"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
