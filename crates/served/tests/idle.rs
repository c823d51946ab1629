//! A served volume destages in idle time if its rate has that option (docs/idle-time.md).

mod common;

use common::{Devices, Served, opened, settings};
use destage_engine::rate;
use destage_engine::units::PAGE_BYTES;
use destage_served::{Allow, Command};

/// Pages in the NVS, and destages in idle time, some time after five writes.
fn after_writes(rate: &str) -> (u64, u64) {
    let text = include_str!("golden/version-4-blocks-512-nvs-1-stop.txt");
    let mut devices = Devices::from_text(text);
    let assembly = devices.assembled(&Allow::default());
    let mut settings = settings();
    settings.rate = rate::choose(rate).expect("of the table");
    let volume = opened(&mut devices, &assembly, &settings).expect("it opens");
    let mut served = Served::of(devices, volume);
    served.flush_cache();
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
    assert_eq!(after_writes("linear:90/80"), (5, 0));
    let (left, destages) = after_writes("linear:90/80,idle=0");
    assert_eq!(left, 0);
    assert!((1..=5).contains(&destages), "{destages}");
}
