//! Sentences and events.

use super::*;
use destage_report::live::DeviceStatus;
use destage_report::sample::DeviceRate;
use destage_report::state::{DeviceKind, DeviceState};

fn device(state: DeviceState) -> DeviceStatus {
    DeviceStatus {
        kind: DeviceKind::Member,
        number: 1,
        device: "/d1".into(),
        state,
        cache: None,
        durability: None,
    }
}

fn second(at: u64, occupancy: f64) -> Sample {
    let mut sample = Sample { thresholds: [80.0, 90.0], ..Sample::default() };
    sample.point.at_ms = at * 1000;
    sample.point.occupancy = occupancy;
    sample.point.destages = 1610.0;
    sample.point.in_flight = 20;
    sample.status.nvs_pages = 1000;
    sample.status.devices = vec![device(DeviceState::InUse)];
    let kind = DeviceKind::Member;
    let (reads, writes, written_bytes) = (0.0, 0.0, 0);
    let busy =
        DeviceRate { kind, number: 1, busy: 97.6, in_flight: 3, reads, writes, written_bytes };
    sample.devices = vec![busy];
    sample
}

fn texts(events: &Events) -> Vec<(&str, &str)> {
    events.list.iter().map(|event| (event.level.name(), event.text.as_str())).collect()
}

#[test]
fn a_full_cache_is_reported_once_and_its_end() {
    let mut events = Events::default();
    for at in 0..6 {
        let mut sample = second(at, 99.5);
        events.look(&mut sample);
        let full = "Cache full for 5 s: writes wait for the disks; 20 destage writes in flight, \
                    1,610 groups/s, busiest disk 98 % busy.";
        assert!(at < 5 || sample.says == full, "{}", sample.says);
    }
    let expected =
        "Cache full for 3 s: destage at depth 20, 1,610 groups/s, busiest disk 98 % busy";
    assert_eq!(texts(&events), [("warning", expected)]);
    events.look(&mut second(6, 85.0));
    assert_eq!(texts(&events)[1], ("note", "Cache no longer full, after 6 s"));
    // A short one is not reported.
    events.look(&mut second(7, 100.0));
    events.look(&mut second(8, 85.0));
    assert_eq!(events.list.len(), 2);
}

#[test]
fn changes_are_reported_in_words() {
    let mut events = Events::default();
    events.look(&mut second(0, 10.0));
    let mut sample = second(1, 10.0);
    sample.status.state = ArrayState::Degraded;
    sample.status.policy = "wow".into();
    sample.status.devices = vec![device(DeviceState::Failed)];
    events.look(&mut sample);
    let expected = [
        ("warning", "The array is degraded (it was clean)"),
        ("note", "Policy wow (it was )"),
        ("warning", "Disk 1 (/d1): failed (it was in use)"),
    ];
    assert_eq!(texts(&events), expected);
    assert!(sample.says.starts_with("One device has failed. Cache 10 % full"), "{}", sample.says);
    assert_eq!(sample.events.len(), 3);
    sample.status.state = ArrayState::Stopped;
    assert!(says(&sample, 0).starts_with("The array has stopped"));
}

#[test]
fn an_alarm_is_reported_once() {
    let mut events = Events::default();
    assert!(events.alarm(1, 5, "member 1 has failed"));
    assert!(!events.alarm(1, 6, "member 1 has failed"));
    assert!(events.alarm(2, 7, "and another"));
    assert_eq!(texts(&events)[0], ("alarm", "member 1 has failed"));
}

#[test]
fn sentences_compare_the_cache_with_its_thresholds() {
    let says = |occupancy| says(&second(0, occupancy), 0);
    assert!(says(95.0).contains("95 % full, above the high threshold"));
    assert!(says(85.0).contains("between the thresholds"));
    assert!(says(20.0).contains("below the low threshold"));
    let mut idle = second(0, 20.0);
    (idle.point.destages, idle.point.in_flight) = (0.0, 0);
    let expected = "Cache 20 % full, below the low threshold: nothing is destaged.";
    assert_eq!(super::says(&idle, 0), expected);
    idle.status.nvs_pages = 0;
    assert!(super::says(&idle, 0).starts_with("There is no NVS"));
    assert_eq!(grouped(1_234_567.4), "1,234,567");
}

#[test]
fn only_the_last_events_are_kept() {
    let mut events = Events::default();
    (0..EVENTS + 9).for_each(|n| events.push(n as u64, EventLevel::Note, n.to_string()));
    assert_eq!((events.list.len(), events.list[0].number), (EVENTS, 10));
}
