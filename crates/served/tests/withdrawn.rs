//! What clients that go away leave to others.

mod common;

use common::{Devices, Served, opened};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::policy;
use destage_engine::rate;
use destage_engine::units::PAGE_BYTES;
use destage_nvslog::sizes::Sizes;
use destage_served::{Allow, Cause, Command, Settings};
use std::collections::BTreeSet;

/// A volume without a log: a client's write and FLUSH wait for the disks, and another client's
/// write for space. The second client goes away. The others are answered without another request.
#[test]
fn what_waits_for_the_disks_is_answered_when_a_client_goes_away() {
    let (level, strip_pages, group_stripes) = (Level::Raid5, 1, 1);
    let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages: 64 };
    // More write groups than are destaged at once.
    let pages = vec![1; (60 * PAGE_BYTES) as usize];
    let sizes = Sizes::for_pages(64, 512);
    let mut devices = Devices::created(geometry, sizes, 512, 1);
    let assembly = devices.assembled(&Allow::default());
    let policy = policy::choose("lst").expect("of the table");
    let mut settings = Settings::new(policy, rate::choose("linear:90/80").expect("of the table"));
    settings.queue_depth = 2;
    let volume = opened(&mut devices, &assembly, &settings).expect("it opens");
    let mut served = Served::of(devices, volume);
    let now = served.now();
    served.volume.give_up_nvs(now, 0, Cause::Asked);
    served.run();
    let now = served.now();
    served.volume.submit(now, 0, Command::Write { offset: 0, fua: false }, &pages);
    served.volume.submit(now, 1, Command::Flush, &[]);
    served.steps(4);
    let now = served.now();
    let too_many = Command::Write { offset: 100 * PAGE_BYTES, fua: false };
    served.volume.submit(now, 2, too_many, &pages[..8 * PAGE_BYTES as usize]);
    served.volume.withdraw(now, &BTreeSet::from([2]));
    served.run();
    let mut replies = Vec::new();
    served.volume.take_replies(&mut replies);
    let mut done: Vec<(u64, bool)> =
        replies.iter().map(|reply| (reply.ticket, reply.result.is_ok())).collect();
    done.sort_unstable();
    assert_eq!(done, [(0, true), (1, true), (2, false)]);
}
