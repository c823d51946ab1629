//! What clients that go away leave to others.

mod common;

use common::{Devices, Served, opened};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::policy;
use destage_engine::rate;
use destage_engine::units::PAGE_BYTES;
use destage_nvslog::sizes::Sizes;
use destage_served::{Allow, Cause, Command, Device, Refusal, Settings};
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

/// A write waits for the rest of the sectors in which it begins and ends, and its client goes away.
/// Nothing is kept of what was read for it: the next write to its last page reads that again.
#[test]
fn what_a_withdrawn_write_was_waiting_for_is_forgotten() {
    let (level, strip_pages, group_stripes) = (Level::Raid5, 1, 1);
    let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages: 64 };
    let mut served = Served::open(Devices::created(geometry, Sizes::for_pages(64, 512), 512, 1));
    served.write(0, 16, 3);
    served.flush_cache();
    let now = served.now();
    let across = Command::Write { offset: 700, fua: false };
    served.volume.submit(now, 1, across, &[4; PAGE_BYTES as usize]);
    served.volume.withdraw(now, &BTreeSet::from([1]));
    served.run();
    assert_eq!(served.answer(), Some(Err(Refusal::Withdrawn)));
    let reads = |served: &Served| -> u64 {
        (0..3).map(|member| served.volume.load(Device::Member(member)).reads).sum()
    };
    let before = reads(&served);
    let within = Command::Write { offset: PAGE_BYTES + 100, fua: false };
    served.ask(within, &[5; 10]);
    assert_eq!(reads(&served), before + 1);
    let bytes = served.ask(Command::Read { offset: PAGE_BYTES, bytes: 512 }, &[]);
    assert_eq!((&bytes[..100], &bytes[100..110]), (&[3; 100][..], &[5; 10][..]));
    assert_eq!(bytes[110..], [3; 402]);
}
