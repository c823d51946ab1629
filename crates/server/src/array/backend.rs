//! The array as a backend: requests go to the volume, its operations to the devices.

use super::admin::Admin;
use super::alarms::{self, Alarms, Ends};
use super::config::ArrayConfig;
use super::devices::{Async, Devices, Opened};
use super::ending::Ending;
use super::inline::Backlog;
use super::mapped::Mapped;
use super::members::Spare;
use super::remote::{Ended, Keys, Remote};
use super::watch::{Watch, Watched};
use crate::{Port, Token};
use destage_block::{
    Answer, Backend, Driver, Export, Extent, Handle, Io, Map, Maps, Outcome, Payload, Request,
};
use destage_engine::units::{Instant, PAGE_BYTES};
use destage_nvslog::superblock::{Superblock, Uuid};
use destage_served::{
    Alarm, Answer as Brought, Command, Device, Op, OpId, OpKind, Refusal, Reply, Slab, Volume,
    member_bytes,
};
use hdrhistogram::Histogram;
use std::any::Any;
use std::sync::Arc;

/// Most extents of a reply about dirty pages.
const EXTENTS_MAX: usize = 1 << 16;
/// Keys of operations that are not the volume's: sockets of remote members.
const SOCKET_KEY: u64 = 1 << 63;

pub(super) enum Disk {
    File(Handle),
    Memory(Arc<std::fs::File>),
    Mapped(Mapped, #[expect(dead_code, reason = "holds the lock")] std::fs::File),
    Remote(Box<Remote>),
    None,
}

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
    Flush,
}

struct Waiting {
    token: Token,
    since: Instant,
    kind: Kind,
}

/// Times of requests, in nanoseconds.
pub(crate) struct Times(pub(crate) [Histogram<u64>; 3]);

impl Times {
    fn new() -> Times {
        let histogram = || Histogram::new_with_bounds(1, 1 << 40, 3).expect("bounds that fit");
        Times([histogram(), histogram(), histogram()])
    }
}

/// The served array.
pub struct ArrayBackend {
    name: String,
    pub(super) config: ArrayConfig,
    pub(crate) volume: Volume,
    pub(super) members: Vec<Disk>,
    /// By member: how many devices and connections were attached before this one.
    pub(super) attached: Vec<u64>,
    /// By member: the UUIDs of devices that other servers serve.
    identities: Vec<Option<Uuid>>,
    pub(super) spares: Vec<Spare>,
    /// Names of spares that the configuration has and that cannot be used.
    pub(super) missing_spares: Vec<String>,
    pub(super) watch: Watch,
    pub(super) remote: Option<crate::Remote>,
    /// A spare is on its way into a member's place.
    pub(super) taking: bool,
    pub(super) nvs: Vec<Disk>,
    /// Shared with the command that replaces an NVS device, if there is one.
    pub(super) replacing_nvs: Arc<()>,
    pub(super) config_path: Option<std::path::PathBuf>,
    opening: Option<Devices>,
    waiting: Slab<Waiting>,
    pub(crate) times: Times,
    pub(crate) pace: super::scrub::Pace,
    pub(super) found: super::mismatch::Found,
    pub(super) ending: Ending,
    pub(crate) alarms: Alarms,
    /// Answers to be given when nothing is dirty any more.
    pub(crate) drains: Vec<std::sync::mpsc::Sender<Result<(), String>>>,
    ops: Vec<Op>,
    replies: Vec<Reply>,
    pub(super) ended: Vec<Ended>,
    /// For members on tmpfs.
    backlog: Backlog,
    pub(super) watched: super::observe::Counted,
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
    pub fn new(
        name: &str,
        config: ArrayConfig,
        volume: Volume,
        mut devices: Devices,
    ) -> ArrayBackend {
        ArrayBackend {
            identities: super::reconnect::identities(&mut devices),
            name: name.to_string(),
            config,
            volume,
            members: Vec::new(),
            attached: Vec::new(),
            spares: Vec::new(),
            missing_spares: Vec::new(),
            watch: Watch::default(),
            remote: None,
            taking: false,
            nvs: Vec::new(),
            replacing_nvs: Arc::default(),
            config_path: None,
            opening: Some(devices),
            waiting: Slab::default(),
            times: Times::new(),
            pace: super::scrub::Pace::default(),
            found: super::mismatch::Found::default(),
            ending: Ending::default(),
            alarms: Alarms::default(),
            drains: Vec::new(),
            ops: Vec::new(),
            replies: Vec::new(),
            ended: Vec::new(),
            backlog: Backlog::default(),
            watched: super::observe::Counted::default(),
        }
    }

    /// Destages everything once it runs; the receiver hears when nothing is dirty, or when that
    /// comes no further.
    pub fn drained(&mut self) -> std::sync::mpsc::Receiver<Result<(), String>> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.drains.push(sender);
        self.ending.bounded = true;
        receiver
    }

    /// Pages whose only durable copy is in NVS.
    #[must_use]
    pub fn dirty_pages(&self) -> u64 {
        self.volume.status().dirty_pages
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn config(&self) -> &ArrayConfig {
        &self.config
    }

    pub(crate) fn set_config(&mut self, config: ArrayConfig) {
        self.config = config;
    }

    /// Hands the volume's operations to the devices, and its answers to the clients, until there
    /// are no more.
    fn carry_out(&mut self, port: &mut Port) {
        self.look_at_remotes(port);
        loop {
            let mut ops = core::mem::take(&mut self.ops);
            self.volume.take_ops(&mut ops);
            let none = ops.is_empty();
            for Op { id, device, kind } in ops.drain(..) {
                self.submit(port, id, device, kind);
            }
            self.ops = ops;
            let mut ended = core::mem::take(&mut self.ended);
            let quiet = none && ended.is_empty();
            let now = port.lately();
            for (id, result) in ended.drain(..) {
                self.volume.done(now, id, result);
            }
            self.ended = ended;
            self.volume.take_spent().into_iter().for_each(|buffer| port.recycle(buffer));
            self.answer(port);
            if quiet {
                break;
            }
            self.volume.turn(now);
        }
        for (number, disk) in self.members.iter_mut().enumerate() {
            if let Disk::Remote(remote) = disk {
                remote.turn(port, &keys_of(number, self.attached[number]));
            }
        }
        self.tell_of_remotes();
    }

    fn submit(&mut self, port: &mut Port, id: OpId, device: Device, kind: OpKind) {
        let mut ended = core::mem::take(&mut self.ended);
        let disk = match device {
            Device::Member(number) => &mut self.members[usize::from(number)],
            Device::Nvs(number) => &mut self.nvs[usize::from(number)],
        };
        match disk {
            Disk::Memory(file) => self.backlog.push(id, Arc::clone(file), kind),
            Disk::None => ended.push((id, Err(destage_served::IoError::GONE))),
            Disk::Remote(remote) => remote.submit(port.lately(), id, kind, &mut ended),
            Disk::Mapped(map, _) => ended.push((id, mapped(map, kind))),
            Disk::File(handle) => {
                let io = io_of(port, *handle, kind);
                port.submit(id.0, io);
            }
        }
        self.ended = ended;
    }

    fn answer(&mut self, port: &mut Port) {
        let mut replies = core::mem::take(&mut self.replies);
        self.volume.take_replies(&mut replies);
        let now = if replies.is_empty() { port.lately() } else { port.now() };
        for Reply { ticket, result } in replies.drain(..) {
            let Waiting { token, since, kind } = self.waiting.remove(ticket);
            let ns = now.since(since).0;
            let _ = self.times.0[kind as usize].record(ns.max(1));
            self.watched.latencies[kind as usize].record(ns);
            match result {
                Ok(Brought::Done) => port.reply(token, Answer::Done),
                Ok(Brought::Data { buffer, from, bytes }) => {
                    port.reply(token, Answer::Data(Arc::new(buffer), from..from + bytes));
                }
                Err(refusal) => refuse(port, token, refusal),
            }
        }
        self.replies = replies;
        for alarm in self.volume.take_alarms() {
            // Some are no alarms, but the ends of others.
            let over = match alarm {
                Alarm::NvsMirrored(_) => Ends::NvsMirrored,
                Alarm::MemberRebuilt(member) => Ends::MemberRebuilt(member),
                Alarm::PagesDestaged { first_page } => Ends::PagesDestaged(first_page),
                Alarm::DeviceAnswers(device) => Ends::DeviceAnswers(device),
                _ => {
                    self.told(self.alarm_words(&alarm), alarms::ends(&alarm));
                    continue;
                }
            };
            let text = self.end_words(&alarm);
            tracing::info!(target: "destage", array = self.name, "{text}");
            self.alarms.end(&over);
        }
    }

    /// An alarm in words, and what ends it.
    pub(super) fn told(&mut self, text: String, ends: Ends) {
        let (array, name) = (&self.name, text.split(':').next());
        tracing::warn!(target: "destage", array, alarm = name, "alarm {text}");
        self.watched.raise(&text);
        self.alarms.add(text, ends);
    }

    /// Puts a device into a member's place, or none; the one before is closed.
    pub(super) fn attach(&mut self, port: &mut Port, member: u16, disk: Disk) {
        let place = usize::from(member);
        self.attached[place] += 1;
        match core::mem::replace(&mut self.members[place], disk) {
            Disk::File(handle) => port.close(handle),
            Disk::Remote(remote) => port.close(remote.handle()),
            _ => {}
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
        let end = offset + length;
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

    /// What depends on how full the cache is now.
    fn look(&mut self, port: &mut Port) {
        if !self.drains.is_empty() {
            let status = self.volume.status();
            if status.stopped {
                self.drains.drain(..).for_each(|drain| {
                    let _ = drain.send(Err("the array has stopped".to_string()));
                });
            } else if status.dirty_pages == 0 || status.kept_pages > 0 && self.volume.drained() {
                let result = match status.dirty_pages {
                    0 => Ok(()),
                    pages => Err(format!(
                        "{pages} dirty pages cannot be destaged, since members cannot read what \
                         their parity is computed from. They stay in the NVS, and nothing is \
                         lost: see the alarm pages-kept in `destage status {}`",
                        self.name()
                    )),
                };
                self.drains.drain(..).for_each(|drain| {
                    let _ = drain.send(result.clone());
                });
            } else {
                self.volume.flush_cache(port.now());
            }
        }
        self.look_at_end(port);
        self.carry_out(port);
    }
}

/// Makes a device that was opened one of the data thread's.
pub(super) fn hand_over(port: &mut Port, opened: Opened) -> Disk {
    match opened.into_async() {
        Async::File(file) => Disk::File(port.open(file)),
        Async::Memory(file) => Disk::Memory(Arc::new(file)),
        Async::Mapped(map, file) => Disk::Mapped(map, file),
        Async::Remote(socket, session) => {
            Disk::Remote(Box::new(Remote::new(port.open(socket), &session)))
        }
    }
}

fn keys_of(member: usize, attached: u64) -> Keys {
    let base = SOCKET_KEY | attached << 16 | (member as u64) << 1;
    Keys { send: base, receive: base | 1 }
}

/// Bytes that an NVS device takes.
pub(super) fn nvs_bytes(superblock: &Superblock) -> u64 {
    (1 << 20) + superblock.ring_blocks * u64::from(superblock.block_bytes)
}

fn io_of(port: &mut Port, device: Handle, kind: OpKind) -> Io {
    match kind {
        OpKind::Read { offset, bytes } => Io::Read { device, offset, buffer: port.buffer(bytes) },
        OpKind::Write { offset, buffer, durable } => Io::Write { device, offset, buffer, durable },
        OpKind::Flush => Io::Flush { device },
    }
}

fn mapped(
    map: &mut Mapped,
    kind: OpKind,
) -> Result<Option<destage_served::Buffer>, destage_served::IoError> {
    match kind {
        OpKind::Read { offset, bytes } => {
            let mut buffer = destage_served::Buffer::zeroed(bytes);
            map.read(offset, &mut buffer)?;
            Ok(Some(buffer))
        }
        OpKind::Write { offset, buffer, durable } => {
            map.write(offset, &buffer, durable).map(|()| None)
        }
        OpKind::Flush => map.flush().map(|()| None),
    }
}

fn refuse(port: &mut Port, token: Token, refusal: Refusal) {
    let text = refusal.to_string();
    port.reply(token, Answer::Error { error: refusal.error(), text: &text });
}

impl Backend<Port> for ArrayBackend {
    fn start(&mut self, port: &mut Port) {
        let Some(devices) = self.opening.take() else { return };
        let mut taken =
            |opened: Option<Opened>| opened.map_or(Disk::None, |opened| hand_over(port, opened));
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
        self.attached = vec![0; members.len()];
        let members = members.into_iter().map(&mut taken).collect();
        let nvs = nvs.into_iter().map(&mut taken).collect();
        (self.members, self.nvs) = (members, nvs);
        for (number, bytes) in (0..).zip(bytes) {
            let place = usize::from(number);
            let name = self.config.disks[place].clone();
            self.identify(number, &name, self.identities[place], bytes);
        }
        // What the last run left open is redone before anything is asked.
        self.volume.turn(port.now());
        self.carry_out(port);
        // Who waits for all to be destaged is nobody's request: nothing else would begin it.
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
        let kind = match command {
            Command::Read { .. } => Kind::Read,
            Command::Flush => Kind::Flush,
            _ => Kind::Write,
        };
        self.backlog.requested();
        let since = port.lately();
        self.watched.request(since, &command, payload.bytes().len(), &self.volume);
        let ticket = self.waiting.insert(Waiting { token, since, kind });
        self.volume.submit(since, ticket, command, payload.bytes());
    }

    fn soon(&self, offset: u64) {
        self.volume.soon(offset);
    }

    fn done(&mut self, port: &mut Port, key: u64, outcome: Outcome) {
        let Outcome { result, buffer, .. } = outcome;
        if key & SOCKET_KEY == 0 {
            self.volume.done(port.lately(), OpId(key), result.map(|()| buffer));
            return;
        }
        let member = ((key & 0xffff) >> 1) as usize;
        if (key & !SOCKET_KEY) >> 16 != self.attached[member] {
            // Of a device that was replaced.
            return;
        }
        let mut ended = core::mem::take(&mut self.ended);
        if let Disk::Remote(remote) = &mut self.members[member] {
            if key & 1 == 0 {
                remote.sent(result);
            } else {
                remote.received(result, buffer, port.lately(), &mut ended);
            }
        }
        self.ended = ended;
    }

    fn turn(&mut self, port: &mut Port) {
        self.feed_scrub(port.lately());
        self.look_for_spares();
        self.volume.turn(port.lately());
        self.carry_out(port);
        for _ in 0..self.backlog.due() {
            self.ended.extend(self.backlog.next());
        }
        self.look(port);
    }

    fn deadline(&self) -> Option<Instant> {
        if !self.backlog.is_empty() {
            return Some(Instant(0));
        }
        let ending = self.ending.deadline();
        let remotes = self.members.iter().filter_map(|disk| match disk {
            Disk::Remote(remote) => remote.deadline(),
            _ => None,
        });
        let others = [self.volume.deadline(), self.scrub_deadline(), ending, remotes.min()];
        others.into_iter().flatten().min()
    }

    fn message(&mut self, port: &mut Port, message: Box<dyn Any + Send>) {
        if let Ok(admin) = message.downcast::<Admin>() {
            self.administer(port, *admin);
        }
    }

    fn stop(&mut self, port: &mut Port) {
        self.begin_end(port);
        self.look(port);
    }

    fn hurry(&mut self, _: &mut Port) {
        self.end_now();
    }

    fn stopped(&self) -> bool {
        self.ending.is_over()
    }
}
