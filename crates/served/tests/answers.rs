//! When requests are answered: at once, when the log has what they wrote or show, or when the disks
//! have it; and what a volume says of itself in the meantime.

mod common;

use common::{Devices, Served, opened, settings};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::units::PAGE_BYTES;
use destage_nvslog::sizes::Sizes;
use destage_served::{
    Ack, Alarm, Allow, Answer, Cause, Command, Device, IoError, Op, OpKind, Reply, Settings,
    Ticket, Volume,
};

const PAGE: usize = PAGE_BYTES as usize;

/// Level 5 on three members, with one NVS device of 40 pages.
fn served(ack: Ack) -> Served {
    let (level, strip_pages, group_stripes) = (Level::Raid5, 4, 1);
    let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages: 64 };
    let mut devices = Devices::created(geometry, Sizes::for_pages(40, 512), 512, 1);
    let assembly = devices.assembled(&Allow::default());
    let settings = Settings { ack, ..settings() };
    let volume = opened(&mut devices, &assembly, &settings).expect("it opens");
    let mut served = Served::of(devices, volume);
    served.run();
    served
}

/// The same, when the NVS has failed.
fn without_nvs(ack: Ack) -> Served {
    let mut served = served(ack);
    let now = served.now();
    served.volume.give_up_nvs(now, 0, Cause::Asked);
    served.run();
    served
}

fn read(page: u64) -> Command {
    Command::Read { offset: page * PAGE_BYTES, bytes: PAGE }
}

fn write(page: u64) -> Command {
    Command::Write { offset: page * PAGE_BYTES, fua: false }
}

/// Submits a request, of one page if it is a write; nothing is carried out.
fn submit(served: &mut Served, ticket: Ticket, command: Command, fill: u8) {
    let (now, page) = (served.now(), [fill; PAGE]);
    let bytes = if matches!(command, Command::Write { .. }) { PAGE } else { 0 };
    served.volume.submit(now, ticket, command, &page[..bytes]);
}

/// The answers since the last call, in order: with the first byte of what was read.
fn answers(served: &mut Served) -> Vec<(Ticket, Option<u8>)> {
    let mut replies = Vec::new();
    served.volume.take_replies(&mut replies);
    let first = |answer: Answer| match answer {
        Answer::Data { buffer, from, .. } => Some(buffer[from]),
        Answer::Done => None,
    };
    let answer = |reply: Reply| (reply.ticket, first(reply.result.expect("served")));
    replies.into_iter().map(answer).collect()
}

fn log_bytes(served: &Served) -> u64 {
    served.volume.status().log_bytes_written
}

/// What a client has seen must be there after a crash, too. Other reads do not wait.
#[test]
fn a_read_waits_for_the_log_if_it_shows_what_is_not_durable() {
    let mut served = served(Ack::Nvs);
    served.write(8 * 8, 8, 3);
    served.write(0, 8, 1);
    submit(&mut served, 1, write(8), 2);
    assert_eq!(answers(&mut served), []);
    submit(&mut served, 2, read(0), 0);
    assert_eq!(answers(&mut served), [(2, Some(1))]);
    submit(&mut served, 3, read(8), 0);
    assert_eq!(answers(&mut served), []);
    submit(&mut served, 4, Command::Flush, 0);
    assert_eq!(answers(&mut served), [(4, None)], "what was answered is durable");
    served.run();
    let mut done = answers(&mut served);
    done.sort_unstable();
    assert_eq!(done, [(1, None), (3, Some(2))]);
}

/// Such an array behaves like a disk with a volatile cache.
#[test]
fn a_write_to_memory_is_answered_at_once_and_flush_and_fua_wait_for_the_log() {
    let mut served = served(Ack::Flush);
    submit(&mut served, 1, write(8), 2);
    assert_eq!(answers(&mut served), [(1, None)]);
    submit(&mut served, 2, read(8), 0);
    assert_eq!(answers(&mut served), [(2, Some(2))]);
    submit(&mut served, 3, Command::Flush, 0);
    submit(&mut served, 4, Command::Write { offset: 9 * PAGE_BYTES, fua: true }, 3);
    assert_eq!(answers(&mut served), []);
    served.run();
    let mut done = answers(&mut served);
    done.sort_unstable();
    assert_eq!(done, [(3, None), (4, None)]);
}

/// Submits the next write and takes the answers.
fn write_next(served: &mut Served, submitted: &mut Ticket, answered: &mut Vec<Ticket>) {
    submit(served, *submitted, write(0), 1);
    *submitted += 1;
    answered.extend(answers(served).into_iter().map(|(ticket, _)| ticket));
}

/// Where the log is far behind, writes wait though they need not be durable, and later ones wait
/// behind them.
#[test]
fn writes_that_wait_for_a_log_that_is_far_behind_are_answered_in_order() {
    let mut served = served(Ack::Flush);
    let (mut submitted, mut answered) = (0, Vec::new());
    while answered.len() as u64 == submitted {
        assert!(submitted < 10_000, "none waits");
        write_next(&mut served, &mut submitted, &mut answered);
    }
    (0..60).for_each(|_| write_next(&mut served, &mut submitted, &mut answered));
    for _ in 0..400 {
        served.steps(4);
        write_next(&mut served, &mut submitted, &mut answered);
    }
    served.run();
    answered.extend(answers(&mut served).into_iter().map(|(ticket, _)| ticket));
    assert_eq!(answered, (0..submitted).collect::<Vec<Ticket>>());
    // The log has everything.
    write_next(&mut served, &mut submitted, &mut answered);
    assert_eq!(answered.len() as u64, submitted, "answered at once");
}

/// With the cache off the disks must have what is answered; when it is on again the log is enough.
#[test]
fn what_waits_for_the_disks_is_answered_when_the_cache_is_on_again() {
    let mut served = served(Ack::Nvs);
    let now = served.now();
    served.volume.write_through(now, true);
    submit(&mut served, 1, write(5), 1);
    served.run_until(u64::MAX, |volume| volume.status().requests == 0);
    assert_eq!(answers(&mut served), [(1, None)]);
    assert_eq!(served.volume.dirty_in(5, 6), [], "the disks have it");
    served.run();
    submit(&mut served, 2, write(6), 1);
    served.run_until(u64::MAX, |volume| volume.status().destages_in_flight > 0);
    assert_eq!(answers(&mut served), []);
    let now = served.now();
    served.volume.write_through(now, false);
    assert_eq!(answers(&mut served), [(2, None)]);
    assert_eq!(served.volume.dirty_in(6, 7), [(6, 1)]);
    served.run();
}

/// What a read has shown must be there after a crash: a destage in flight is not on the disks yet.
#[test]
fn a_read_waits_for_the_disks_if_it_shows_what_is_being_destaged() {
    let mut served = without_nvs(Ack::Nvs);
    submit(&mut served, 1, write(5), 7);
    let writes =
        |op: &Op| matches!((op.device, &op.kind), (Device::Member(_), OpKind::Write { .. }));
    assert!(served.steps_until(writes), "it is destaged");
    submit(&mut served, 2, read(5), 0);
    submit(&mut served, 3, read(9), 0);
    assert_eq!(answers(&mut served), []);
    served.run_until(u64::MAX, |volume| volume.status().requests == 0);
    let mut done = answers(&mut served);
    done.sort_unstable();
    assert_eq!(done, [(1, None), (2, Some(7)), (3, Some(0))]);
}

/// Such a read does not wait where a FLUSH makes durable: then the FLUSH does, though nobody waits
/// for the write any more.
#[test]
fn a_flush_waits_for_the_disks_to_have_what_a_read_has_shown() {
    let mut served = without_nvs(Ack::Flush);
    submit(&mut served, 1, write(5), 7);
    let now = served.now();
    served.volume.withdraw(now, &[1].into());
    submit(&mut served, 2, read(5), 0);
    assert_eq!(answers(&mut served), [(2, Some(7))]);
    submit(&mut served, 3, Command::Flush, 0);
    while served.volume.status().requests > 0 {
        assert_eq!(answers(&mut served), [], "the disks do not have it");
        served.steps(1);
    }
    assert_eq!(served.volume.dirty_in(5, 6), []);
    let tickets: Vec<Ticket> = answers(&mut served).iter().map(|answer| answer.0).collect();
    assert_eq!(tickets, [1, 3]);
    submit(&mut served, 4, Command::Flush, 0);
    assert_eq!(answers(&mut served), [(4, None)], "they have everything");
}

/// Nothing makes space, so nothing is in flight; the volume has a request all the same.
#[test]
fn while_it_is_paused_a_volume_destages_nothing_and_a_write_waits_for_space() {
    let mut served = served(Ack::Nvs);
    assert_eq!(served.volume.status().nvs_pages, 40);
    served.volume.pause(true);
    served.write(0, 40 * 8, 1);
    submit(&mut served, 1, write(50), 2);
    served.flush_cache();
    assert_eq!(answers(&mut served), []);
    let status = served.volume.status();
    assert_eq!((status.occupancy_pages, status.dirty_pages), (40, 40));
    assert_eq!((status.writes_waiting, status.requests), (1, 1));
    assert!(served.volume.quiet() && !served.volume.idle());
    served.volume.pause(false);
    served.flush_cache();
    assert_eq!(answers(&mut served), [(1, None)]);
    assert!(served.volume.quiet() && served.volume.idle());
}

#[test]
fn a_volume_is_idle_when_nothing_is_in_flight_and_the_log_has_everything() {
    let mut served = served(Ack::Nvs);
    served.write(0, 8, 1);
    assert!(served.volume.idle() && served.volume.quiet());
    let now = served.now();
    served.volume.flush_cache(now);
    assert_eq!(served.volume.status().requests, 0);
    assert!(!served.volume.idle() && !served.volume.quiet(), "a destage has begun");
    served.run_until(u64::MAX, Volume::drained);
    assert!(served.volume.drained());
    assert!(!served.volume.idle() && !served.volume.quiet(), "its release is not in the log");
    served.run();
    assert!(served.volume.idle() && served.volume.quiet());
}

#[test]
fn a_volume_is_ready_when_the_destages_that_a_crash_left_open_are_redone() {
    let text = include_str!("golden/version-4-blocks-512-nvs-1-crash.txt");
    let mut devices = Devices::from_text(text);
    let assembly = devices.assembled(&Allow::default());
    let volume = opened(&mut devices, &assembly, &settings()).expect("it opens");
    let mut served = Served::of(devices, volume);
    assert!(served.volume.status().redoing > 0 && !served.volume.ready());
    served.run();
    assert!(served.volume.status().redoing == 0 && served.volume.ready());
}

#[test]
fn the_log_is_confirmed_at_once_when_a_stop_asks_for_it() {
    let mut served = served(Ack::Nvs);
    submit(&mut served, 1, write(0), 1);
    served.run_until(u64::MAX, |volume| volume.status().requests == 0);
    let before = log_bytes(&served);
    let now = served.now();
    served.volume.confirm(now);
    assert!(log_bytes(&served) > before && !served.volume.quiet());
    served.run();
    let confirmed = log_bytes(&served);
    let now = served.now();
    served.volume.confirm(now);
    assert_eq!(log_bytes(&served), confirmed, "nothing was written since");
    assert!(served.volume.quiet());
}

/// Not only a write shows that a device that was busy is not any more.
#[test]
fn a_read_of_a_busy_member_is_tried_again_and_its_success_ends_the_alarm() {
    let mut served = served(Ack::Nvs);
    assert_eq!(served.volume.take_alarms(), []);
    submit(&mut served, 1, read(0), 0);
    let mut ops = Vec::new();
    served.volume.take_ops(&mut ops);
    assert_eq!(ops.len(), 1);
    let (id, device) = (ops[0].id, ops[0].device);
    let now = served.now();
    served.volume.done(now, id, Err(IoError::FULL));
    assert_eq!(served.volume.take_alarms(), [Alarm::DeviceWaits(device, IoError::FULL)]);
    assert!(!served.volume.quiet(), "it is tried again later");
    served.run();
    assert_eq!(served.volume.take_alarms(), [Alarm::DeviceAnswers(device)]);
    assert_eq!(answers(&mut served), [(1, Some(0))]);
}
