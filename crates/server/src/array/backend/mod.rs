//! The served array as a backend: requests go to the volume, its operations to the devices. This
//! is the coordinator: each part owns its state, and what concerns several parts is here.

pub(super) mod commands;
mod handle;
pub(super) mod members;
pub(super) mod nvs;
mod observation;
mod reconnection;
mod relog;
mod status;

pub use handle::ArrayHandle;
pub use observation::Observation;
pub(super) use relog::Held;

use super::alarm_words::AlarmWords;
use super::alarms::{Alarms, ClearedBy, cleared_by, clears};
use super::attached::Attached;
use super::config::ArrayConfig;
use super::device_watch::{DeviceWatch, Watched};
use super::devices::{Devices, Opened};
use super::ending::{Around, Drained, Ending};
use super::member_cache::MemberCache;
use super::refusal::Unfinished;
use super::requests::Requests;
use super::scrub::Scrub;
use super::setup::Setup;
use super::spares::{Spare, Spares};
use super::tap::Tap;
use crate::{Port, Remote, Token};
use destage_block::{
    Answer, Backend, Driver, Export, Extent, Map, Maps, Outcome, Payload, Request,
};
use destage_engine::units::{Instant, PAGE_BYTES};
use destage_nvslog::superblock::{DATA_START, Superblock};
use destage_served::{
    Answer as VolumeAnswer, Command, Device, Refusal as IoRefusal, Reply, Volume, member_bytes,
};
use handle::Call;
use relog::Relog;
use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// Most extents of a reply about dirty pages.
const EXTENTS_MAX: usize = 1 << 16;

/// What a start found of the devices that the configuration names.
#[derive(Clone, Debug, Default)]
pub struct Absent {
    /// Members and NVS devices that cannot be used, and why.
    pub devices: Vec<(Device, String)>,
    /// Spares that cannot be used, by their names, and why.
    pub spares: Vec<(String, String)>,
}

/// The served array.
pub struct ArrayBackend {
    setup: Setup,
    volume: Volume,
    /// The devices until the data thread starts.
    opening: Option<Devices>,
    devices: Attached,
    /// What is known of the members' caches.
    caches: Vec<MemberCache>,
    requests: Requests,
    /// Empty; kept for its capacity.
    replies: Vec<Reply>,
    alarms: Alarms,
    scrub: Scrub,
    spares: Spares,
    watch: DeviceWatch,
    ending: Ending,
    /// Shared with the command that changes the NVS, if one is running.
    changing_nvs: Arc<()>,
    /// While the log is being replaced.
    relog: Option<Box<Relog>>,
    /// The way here from other threads.
    handle: Option<ArrayHandle>,
}

/// The export of a volume.
#[must_use]
pub fn export(name: &str, description: &str, volume: &Volume) -> Export {
    let mut export = crate::backends::export(name, description, volume.bytes());
    export.fast_zero = true;
    export.maps.push(Map::Dirty);
    export
}

impl ArrayBackend {
    /// A volume on its devices.
    #[must_use]
    pub fn new(name: &str, config: ArrayConfig, volume: Volume, devices: Devices) -> ArrayBackend {
        let known =
            |opened: &Option<Opened>| opened.as_ref().map_or(MemberCache::UNKNOWN, MemberCache::of);
        let mut array = ArrayBackend {
            setup: Setup::new(name, config),
            volume,
            caches: devices.members.iter().map(known).collect(),
            opening: Some(devices),
            devices: Attached::default(),
            requests: Requests::default(),
            replies: Vec::new(),
            alarms: Alarms::new(name),
            scrub: Scrub::new(name),
            spares: Spares::default(),
            watch: DeviceWatch::default(),
            ending: Ending::default(),
            changing_nvs: Arc::default(),
            relog: None,
            handle: None,
        };
        array.describe_members();
        array
    }

    /// Has the volume make destages durable as the members' caches need it, and know how large
    /// their drives are.
    fn describe_members(&mut self) {
        let known = self.caches.iter().map(|member| member.drive_bytes).filter(|bytes| *bytes > 0);
        if let Some(smallest) = known.min() {
            self.volume.set_drive_bytes(smallest);
        }
        let Ok(choice) = self.setup.config().durability() else { return };
        for (member, cache) in (0..).zip(&self.caches) {
            self.volume.set_durability(member, cache.durability(choice));
        }
    }

    /// Copies each request into a queue.
    pub fn tap(&mut self, tap: Tap) {
        self.requests.set_tap(tap);
    }

    /// Says where the configuration file is, so that changes are written to it.
    pub fn set_config_path(&mut self, path: PathBuf) {
        self.setup.set_file(path);
    }

    /// Gives the array its spares, and the way to it from other threads. From now on it takes
    /// spares by itself and checks that its devices are still there.
    pub fn set_spares(&mut self, spares: Vec<Spare>, remote: Remote) {
        spares.into_iter().for_each(|spare| self.spare_back(spare));
        let handle = ArrayHandle::new(remote);
        let reports = handle.clone();
        self.watch.start(move |found| reports.run(move |array, port| array.trouble(port, &found)));
        self.handle = Some(handle);
    }

    /// `ask` is called with the time that the end may still take, repeatedly as long as it makes
    /// progress.
    pub fn set_ask_for_time(&mut self, ask: impl FnMut(std::time::Duration) + Send + 'static) {
        self.ending.set_ask_for_time(Box::new(ask));
    }

    /// Destages everything once the array runs. The receiver gets the result when nothing is dirty,
    /// or when there is no progress.
    pub fn drained(&mut self) -> Receiver<Drained> {
        let (sender, receiver) = channel();
        self.ending.drain_bounded(sender);
        receiver
    }

    /// After the server has ended: whether it left something undone. With `all`, dirty pages that
    /// are safe in the NVS count too.
    ///
    /// # Errors
    /// What is lost, or where it still is.
    pub fn ended(&self, all: bool) -> Result<(), Unfinished> {
        self.ending.result(&self.setup, &self.volume, all)
    }

    /// Raises the alarms of a start: for everything that the configuration names and the array
    /// does not use. Each start does, since each serves with less than it should have.
    pub fn report_absent(&mut self, absent: Absent) {
        let Absent { devices, spares } = absent;
        let why = |device| {
            devices.iter().find(|(other, _)| *other == device).map(|(_, why)| why.as_str())
        };
        let status = self.volume.status();
        for member in &status.failed {
            let rebuilt = status.rebuilds.iter().any(|rebuild| rebuild.member == *member);
            let why = why(Device::Member(*member));
            let alarm = self.words().absent_member(*member, why, rebuilt);
            self.alarms.raise(alarm, ClearedBy::MemberRebuilt(*member));
        }
        let named = 0..self.setup.config().nvs.len() as u16;
        for copy in named.filter(|copy| !status.nvs_devices.contains(copy)) {
            let (words, why) = (self.words(), why(Device::Nvs(copy)));
            let (alarm, cleared_by) = match status.nvs_devices.is_empty() {
                true => (words.absent_nvs(copy, why), ClearedBy::NvsInUse),
                false => (words.absent_mirror(copy, why), ClearedBy::NvsMirrored),
            };
            self.alarms.raise(alarm, cleared_by);
        }
        for (name, why) in spares {
            let alarm = self.words().absent_spare(&name, &why);
            self.alarms.raise(alarm, ClearedBy::SpareChanged(name.clone()));
            self.spares.add_missing(name);
        }
    }

    /// The words of this array's alarms.
    fn words(&self) -> AlarmWords<'_> {
        AlarmWords { setup: &self.setup, volume: &self.volume, has_spare: !self.spares.is_empty() }
    }

    /// Hands the volume's operations to the devices, and its answers to the clients, until there
    /// are no more.
    fn carry_out(&mut self, port: &mut Port) {
        self.reconnect_lost(port);
        loop {
            if let Some(offline) = self.relog.as_mut().and_then(|relog| relog.offline()) {
                match self.devices.carry_out(port, offline) {
                    true => break,
                    false => continue,
                }
            }
            let quiet = self.devices.carry_out(port, &mut self.volume);
            self.volume.take_spent().into_iter().for_each(|buffer| port.recycle(buffer));
            self.answer(port);
            if quiet {
                break;
            }
            self.volume.turn(port.lately());
        }
        self.devices.turn_remotes(port);
        self.report_connections();
    }

    fn answer(&mut self, port: &mut Port) {
        let mut replies = core::mem::take(&mut self.replies);
        self.volume.take_replies(&mut replies);
        let now = if replies.is_empty() { port.lately() } else { port.now() };
        for Reply { ticket, result } in replies.drain(..) {
            let token = self.requests.end(now, ticket);
            match result {
                Ok(VolumeAnswer::Done) => port.reply(token, Answer::Done),
                Ok(VolumeAnswer::Data { buffer, from, bytes }) => {
                    port.reply(token, Answer::Data(Arc::new(buffer), from..from + bytes));
                }
                Err(refusal) => refuse(port, token, refusal),
            }
        }
        self.replies = replies;
        for alarm in self.volume.take_alarms() {
            let words = self.words().of(&alarm);
            if let Some(cleared) = clears(&alarm) {
                tracing::info!(target: "destage", array = self.setup.name(), "{}", words.text);
                self.alarms.clear(&cleared);
            } else {
                self.alarms.raise(words, cleared_by(&alarm));
            }
        }
    }

    fn status_of(
        &self,
        offset: u64,
        length: u64,
        one: bool,
        maps: Maps,
    ) -> Vec<(Map, Vec<Extent>)> {
        let mut status = Vec::new();
        if maps.contains(Map::Holes) {
            status.push((Map::Holes, vec![Extent { length, marked: false }]));
        }
        if maps.contains(Map::Dirty) {
            let most = if one { 1 } else { EXTENTS_MAX };
            status.push((Map::Dirty, self.dirty_extents(offset, length, most)));
        }
        status
    }

    fn dirty_extents(&self, offset: u64, length: u64, most: usize) -> Vec<Extent> {
        let most_bytes = self.volume.looks_at() * PAGE_BYTES - offset % PAGE_BYTES;
        let end = offset + length.min(most_bytes);
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = offset;
        let runs = self.volume.dirty_in(offset / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
        for (first, pages) in runs {
            let from = (first * PAGE_BYTES).max(at);
            let to = ((first + pages) * PAGE_BYTES).min(end);
            if from > at {
                extents.push(Extent { length: from - at, marked: false });
            }
            extents.push(Extent { length: to - from, marked: true });
            at = to;
            if extents.len() >= most {
                extents.truncate(most);
                return extents;
            }
        }
        if at < end {
            extents.push(Extent { length: end - at, marked: false });
        }
        extents.truncate(most);
        extents
    }

    /// Whether the log is being replaced, and nothing is served.
    fn is_offline(&self) -> bool {
        self.relog.as_ref().is_some_and(|relog| relog.is_offline())
    }

    /// Takes the next step of an end, and of waits for all to be destaged.
    fn look(&mut self, port: &mut Port) {
        let now = port.now();
        let ArrayBackend { setup, volume, watch, alarms, ending, .. } = self;
        ending.look_at_drains(now, setup, volume);
        ending.look(now, Around { setup, volume, watch, alarms });
        self.look_at_relog(port);
        self.carry_out(port);
    }
}

/// Bytes that an NVS device needs.
fn nvs_bytes(superblock: &Superblock) -> u64 {
    DATA_START + superblock.ring_bytes() + u64::from(superblock.slots) * PAGE_BYTES
}

fn refuse(port: &mut Port, token: Token, refusal: IoRefusal) {
    let text = refusal.to_string();
    port.reply(token, Answer::Error { error: refusal.error(), text: &text });
}

impl Backend<Port> for ArrayBackend {
    fn start(&mut self, port: &mut Port) {
        let Some(mut devices) = self.opening.take() else { return };
        let identities = devices.identities();
        let Devices { members, nvs } = devices;
        let length = |opened: &Option<Opened>| opened.as_ref()?.bytes().ok();
        let bytes: Vec<Option<u64>> = members.iter().map(length).collect();
        let superblock = self.volume.superblock();
        for (number, opened) in (0..).zip(&members) {
            if let Some(opened) = opened {
                let needs = member_bytes(&superblock.geometry);
                self.watch.add(Watched::Member(number), opened, needs);
            }
        }
        for (number, opened) in (0..).zip(&nvs) {
            if let Some(opened) = opened {
                self.watch.add(Watched::Nvs(number), opened, nvs_bytes(&superblock));
            }
        }
        self.devices.start(port, members, nvs);
        for ((number, bytes), device) in (0..).zip(bytes).zip(identities) {
            self.identify(number, device, bytes);
        }
        // What the last run left open is redone before any request.
        self.volume.turn(port.now());
        self.carry_out(port);
        // A wait for all to be destaged is not a request: nothing else would begin it.
        self.look(port);
    }

    fn request(&mut self, port: &mut Port, token: Token, request: Request, payload: Payload<'_>) {
        let command = match request {
            Request::Read { offset, length } => Command::Read { offset, bytes: length as usize },
            Request::Write { offset, fua, .. } => Command::Write { offset, fua },
            Request::Zero { offset, length, fua } => Command::Zero { offset, bytes: length, fua },
            Request::Trim { offset, length, fua } => Command::Trim { offset, bytes: length, fua },
            Request::Flush => Command::Flush,
            Request::Prefetch { .. } => {
                port.reply(token, Answer::Done);
                return;
            }
            Request::Status { offset, length, one, maps } => {
                let status = self.status_of(offset, length, one, maps);
                port.reply(token, Answer::Status(&status));
                return;
            }
        };
        self.devices.requested();
        let (since, bytes) = (port.lately(), payload.bytes());
        let ticket = self.requests.begin(since, token, &command, bytes.len(), &self.volume);
        if let Some(relog) = self.relog.as_mut().filter(|relog| relog.holds()) {
            return relog.hold(ticket, command, bytes);
        }
        self.volume.submit(since, ticket, command, bytes);
    }

    fn withdraw(&mut self, port: &mut Port, gone: &dyn Fn(&Token) -> bool) {
        let tickets = self.requests.tickets_where(gone);
        if tickets.is_empty() {
            return;
        }
        let held = self.relog.as_mut().map(|relog| relog.withdraw(&tickets));
        for ticket in held.into_iter().flatten() {
            let token = self.requests.end(port.lately(), ticket);
            refuse(port, token, IoRefusal::Withdrawn);
        }
        if !self.is_offline() {
            self.volume.withdraw(port.lately(), &tickets);
        }
        self.carry_out(port);
    }

    fn held_back(&mut self) {
        self.requests.held_back();
    }

    fn soon(&self, offset: u64) {
        self.volume.soon(offset);
    }

    fn done(&mut self, port: &mut Port, key: u64, outcome: Outcome) {
        match self.relog.as_mut().and_then(|relog| relog.offline()) {
            Some(offline) => self.devices.done(port, offline, key, outcome),
            None => self.devices.done(port, &mut self.volume, key, outcome),
        }
    }

    fn turn(&mut self, port: &mut Port) {
        if self.is_offline() {
            self.carry_out(port);
            self.devices.work_off();
            return self.carry_out(port);
        }
        self.scrub.feed(&mut self.volume, port.lately(), &mut self.alarms);
        self.look_for_spares();
        self.volume.turn(port.lately());
        self.carry_out(port);
        self.devices.work_off();
        self.look(port);
    }

    fn deadline(&self) -> Option<Instant> {
        if self.is_offline() {
            return self.devices.deadline();
        }
        let volume = self.volume.deadline();
        let scrub = self.scrub.deadline(&self.volume);
        let relog = self.relog.as_ref().and_then(|relog| relog.deadline());
        let all = [volume, scrub, relog, self.ending.deadline(), self.devices.deadline()];
        all.into_iter().flatten().min()
    }

    fn message(&mut self, port: &mut Port, message: Box<dyn Any + Send>) {
        let Ok(call) = message.downcast::<Call>() else { return };
        match &mut self.relog {
            Some(relog) if relog.is_offline() && !call.urgent => relog.put_off(*call),
            _ => (call.work)(self, port),
        }
    }

    fn stop(&mut self, port: &mut Port) {
        if self.stop_relog(port) {
            return;
        }
        self.ending.begin(port.now(), &mut self.volume);
        self.look(port);
    }

    fn hurry(&mut self, _: &mut Port) {
        let ArrayBackend { setup, volume, watch, alarms, ending, .. } = self;
        ending.end_now(&mut Around { setup, volume, watch, alarms });
    }

    fn stopped(&self) -> bool {
        self.ending.is_over()
    }
}

#[cfg(test)]
mod tests {
    use crate::array::tests::with_array;

    /// Far and near are shares of a drive, not of the part of it that a member is.
    #[test]
    fn the_engine_knows_the_smallest_drive_whose_size_is_known() {
        with_array(|client| {
            for (sizes, pages) in [([0, 9, 5], 5 << 18), ([7, 0, 0], 7 << 18)] {
                let known = client.asks(move |array, _| {
                    for (member, gib) in array.caches.iter_mut().zip(sizes) {
                        member.drive_bytes = gib << 30;
                    }
                    array.describe_members();
                    array.volume.controller().drive_pages()
                });
                assert_eq!(known, pages, "{sizes:?} GiB");
            }
        });
    }
}
