//! A served volume destages in idle time if its rate has that option (docs/idle-time.md).

mod common;

use common::{Devices, Served, opened, settings};
use destage_engine::units::PAGE_BYTES;
use destage_engine::{policy, rate};
use destage_served::{Allow, Command};

/// An array that was served with this rate from the start, with nothing in its NVS.
fn with_rate(rate: &str) -> Served {
    let text = include_str!("golden/version-4-blocks-512-nvs-1-stop.txt");
    let mut devices = Devices::from_text(text);
    let assembly = devices.assembled(&Allow::default());
    let mut settings = settings();
    settings.rate = rate::choose(rate).expect("of the table");
    let volume = opened(&mut devices, &assembly, &settings).expect("it opens");
    let mut served = Served::of(devices, volume);
    served.flush_cache();
    served
}

/// Pages in the NVS, and destages in idle time, some time after five writes.
fn after_writes(mut served: Served) -> (u64, u64) {
    (0..5).for_each(|n| served.write(n * 16, 8, n as u8 + 1));
    served.run();
    for n in 0..5 {
        let read = Command::Read { offset: n * 2 * PAGE_BYTES, bytes: PAGE_BYTES as usize };
        assert_eq!(served.ask(read, &[])[0], n as u8 + 1);
    }
    let controller = served.volume.controller();
    (controller.occupancy().0, controller.counters().idle_destages)
}

#[test]
fn what_the_rate_leaves_is_destaged_in_idle_time() {
    assert_eq!(after_writes(with_rate("linear:90/80")), (5, 0));
    let (left, destages) = after_writes(with_rate("linear:90/80,idle=0"));
    assert_eq!(left, 0);
    assert!((1..=5).contains(&destages), "{destages}");
}

#[test]
fn another_rate_counts_from_the_change_on() {
    let choose = |text| rate::choose(text).expect("of the table");
    let policy = policy::choose("stow").expect("of the table");
    let mut served = with_rate("linear:90/80");
    served.volume.change(&policy, &choose("linear:90/80,idle=0")).expect("in range");
    assert_eq!(after_writes(served).0, 0);
    let mut served = with_rate("linear:90/80,idle=0");
    served.volume.change(&policy, &choose("linear:90/80")).expect("in range");
    assert_eq!(after_writes(served).0, 5);
}
