//! The devices as the data thread uses them: files over the ring, members on tmpfs done in turn,
//! mapped NVS, and members that other servers serve.

use super::devices::{Async, Opened};
use super::inline::Backlog;
use super::mapped::Mapped;
use super::reconnect::Tried;
use super::remote::{Ended, Event, Identity, Keys, Remote};
use crate::Port;
use destage_block::{Driver, Handle, Io, Outcome};
use destage_engine::units::Instant;
use destage_served::{Buffer, Device, IoError, Op, OpId, OpKind, Volume};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Keys of operations that are not the volume's: sockets of remote members.
const SOCKET_KEY: u64 = 1 << 63;
/// From this bit on an operation's key has the turn of its owner.
pub(super) const TURN_BIT: u32 = 48;
/// After this many turns the first one comes again.
const TURNS: u64 = SOCKET_KEY >> TURN_BIT;

/// The owner of operations on the devices: one at a time.
pub(super) trait Asks {
    /// Takes the operations to be carried out.
    fn take_ops(&mut self, into: &mut Vec<Op>);
    /// An operation is done. A read returns its bytes.
    fn done(&mut self, now: Instant, id: OpId, result: IoResult);
}

/// How an operation ended.
pub(super) type IoResult = Result<Option<Buffer>, IoError>;

impl Asks for Volume {
    fn take_ops(&mut self, into: &mut Vec<Op>) {
        Volume::take_ops(self, into);
    }

    fn done(&mut self, now: Instant, id: OpId, result: IoResult) {
        Volume::done(self, now, id, result);
    }
}

enum Disk {
    File(Handle),
    Memory(Arc<std::fs::File>),
    Mapped(Mapped, #[expect(dead_code, reason = "holds the lock")] std::fs::File),
    Remote(Box<Remote>),
    None,
}

struct Member {
    disk: Disk,
    /// How many devices and connections were attached in this place before.
    attached: u64,
}

/// A member whose connection broke: what is needed to connect again.
pub(super) struct Lost {
    pub(super) member: u16,
    /// Which connection it was.
    pub(super) attached: u64,
    pub(super) identity: Identity,
    /// Set to end the attempts.
    pub(super) ended: Arc<AtomicBool>,
}

/// The devices.
#[derive(Default)]
pub(super) struct Attached {
    members: Vec<Member>,
    nvs: Vec<Disk>,
    /// Operations of members on tmpfs.
    backlog: Backlog,
    ended: Vec<Ended>,
    /// How many owners there were before: what they still had in flight is ignored.
    turn: u64,
    /// Empty; kept for its capacity.
    ops: Vec<Op>,
}

impl Attached {
    /// Takes the members and the NVS devices, in the order of their places.
    pub(super) fn start(
        &mut self,
        port: &mut Port,
        members: Vec<Option<Opened>>,
        nvs: Vec<Option<Opened>>,
    ) {
        let mut disk =
            |opened: Option<Opened>| opened.map_or(Disk::None, |opened| disk_of(port, opened));
        let member = |disk| Member { disk, attached: 0 };
        self.members = members.into_iter().map(|opened| member(disk(opened))).collect();
        self.nvs = nvs.into_iter().map(&mut disk).collect();
    }

    /// Puts a device into a member's place, or none. The one before is closed.
    pub(super) fn put_member(&mut self, port: &mut Port, member: u16, opened: Option<Opened>) {
        let disk = opened.map_or(Disk::None, |opened| disk_of(port, opened));
        let place = &mut self.members[usize::from(member)];
        place.attached += 1;
        close(port, core::mem::replace(&mut place.disk, disk));
    }

    /// Puts a device into the place of an NVS device, or none. The one before is closed.
    pub(super) fn put_nvs(&mut self, port: &mut Port, place: u16, opened: Option<Opened>) {
        let disk = opened.map_or(Disk::None, |opened| disk_of(port, opened));
        let place = usize::from(place);
        while self.nvs.len() <= place {
            self.nvs.push(Disk::None);
        }
        close(port, core::mem::replace(&mut self.nvs[place], disk));
    }

    /// Says what a remote member is recognised by when its server comes back.
    pub(super) fn identify(&mut self, member: u16, identity: Identity) {
        if let Disk::Remote(remote) = &mut self.members[usize::from(member)].disk {
            remote.identify(identity);
        }
    }

    /// Starts the operations that are asked for, and gives back the results that are there.
    /// Returns whether there were none.
    pub(super) fn carry_out(&mut self, port: &mut Port, asks: &mut impl Asks) -> bool {
        let mut ops = core::mem::take(&mut self.ops);
        asks.take_ops(&mut ops);
        let none = ops.is_empty();
        for Op { id, device, kind } in ops.drain(..) {
            self.submit(port, OpId(id.0 | self.turn << TURN_BIT), device, kind);
        }
        self.ops = ops;
        let quiet = none && self.ended.is_empty();
        let now = port.lately();
        for (id, result) in self.ended.drain(..) {
            give_back(asks, self.turn, now, id, result);
        }
        quiet
    }

    /// Operations have another owner from now on. The one before waits for none any more.
    pub(super) fn next_turn(&mut self) {
        self.turn = (self.turn + 1) % TURNS;
    }

    /// Whether an NVS device is a mapped file.
    pub(super) fn is_mapped(&self, place: u16) -> bool {
        matches!(self.nvs.get(usize::from(place)), Some(Disk::Mapped(..)))
    }

    /// A mapped NVS device has this mapping from now on: its file has grown.
    pub(super) fn put_map(&mut self, place: u16, longer: Mapped) {
        if let Some(Disk::Mapped(map, _)) = self.nvs.get_mut(usize::from(place)) {
            *map = longer;
        }
    }

    /// All places.
    pub(super) fn places(&self) -> Vec<Device> {
        let members = (0..self.members.len() as u16).map(Device::Member);
        members.chain((0..self.nvs.len() as u16).map(Device::Nvs)).collect()
    }

    fn submit(&mut self, port: &mut Port, id: OpId, device: Device, kind: OpKind) {
        let disk = match device {
            Device::Member(number) => &mut self.members[usize::from(number)].disk,
            Device::Nvs(number) => &mut self.nvs[usize::from(number)],
        };
        let ended = &mut self.ended;
        match disk {
            Disk::Memory(file) => self.backlog.push(id, Arc::clone(file), kind),
            Disk::None => ended.push((id, Err(IoError::GONE))),
            Disk::Remote(remote) => remote.submit(port.lately(), id, kind, ended),
            Disk::Mapped(map, _) => ended.push((id, mapped(map, kind))),
            Disk::File(handle) => {
                let io = io_of(port, *handle, kind);
                port.submit(id.0, io);
            }
        }
    }

    /// The ring has completed what was submitted under this key.
    pub(super) fn done(
        &mut self,
        port: &mut Port,
        asks: &mut impl Asks,
        key: u64,
        outcome: Outcome,
    ) {
        let Outcome { result, buffer, .. } = outcome;
        if key & SOCKET_KEY == 0 {
            let result = result.map(|()| buffer);
            give_back(asks, self.turn, port.lately(), OpId(key), result);
            return;
        }
        let member = &mut self.members[((key & 0xffff) >> 1) as usize];
        if (key & !SOCKET_KEY) >> 16 != member.attached {
            // Of a device that was replaced.
            return;
        }
        if let Disk::Remote(remote) = &mut member.disk {
            if key & 1 == 0 {
                remote.sent(result);
            } else {
                remote.received(result, buffer, port.lately(), &mut self.ended);
            }
        }
    }

    /// A request of a client has come: its answer goes out before operations on tmpfs.
    pub(super) fn requested(&mut self) {
        self.backlog.requested();
    }

    /// Does the operations on tmpfs that are due in this turn.
    pub(super) fn work_off(&mut self) {
        for _ in 0..self.backlog.due() {
            self.ended.extend(self.backlog.next());
        }
    }

    /// Sends and receives what remote members have.
    pub(super) fn turn_remotes(&mut self, port: &mut Port) {
        for (number, member) in self.members.iter_mut().enumerate() {
            if let Disk::Remote(remote) = &mut member.disk {
                remote.turn(port, &keys_of(number, member.attached));
            }
        }
    }

    /// What has happened to the connections of remote members.
    pub(super) fn take_events(&mut self) -> Vec<(u16, Event)> {
        let mut events = Vec::new();
        for (number, member) in (0..).zip(&mut self.members) {
            if let Disk::Remote(remote) = &mut member.disk {
                events.extend(remote.take_events().into_iter().map(|event| (number, event)));
            }
        }
        events
    }

    /// The connections that broke. Each is to be made again within this many nanoseconds, or given
    /// up with [`Attached::give_up`]; those that waited too long are given up here.
    pub(super) fn lost_connections(&mut self, port: &mut Port, limit: u64) -> Vec<Lost> {
        let now = port.lately();
        let mut lost = Vec::new();
        for (number, member) in (0..).zip(&mut self.members) {
            let Disk::Remote(remote) = &mut member.disk else { continue };
            remote.expire(now, limit, &mut self.ended);
            if !remote.is_cut() {
                continue;
            }
            port.close_socket(remote.handle());
            // What is still in flight on the old socket belongs to no operation.
            member.attached += 1;
            let attached = member.attached;
            match remote.begin_wait(now, limit) {
                Some((identity, ended)) => {
                    lost.push(Lost { member: number, attached, identity, ended });
                }
                None => remote.die(None, &mut self.ended),
            }
        }
        lost
    }

    /// Stops using a remote member: all its operations fail.
    pub(super) fn give_up(&mut self, member: u16) {
        if let Disk::Remote(remote) = &mut self.members[usize::from(member)].disk {
            remote.die(None, &mut self.ended);
        }
    }

    /// Whether a remote member still waits for this connection.
    pub(super) fn is_current(&self, member: u16, attached: u64) -> bool {
        self.members.get(usize::from(member)).is_some_and(|member| member.attached == attached)
    }

    /// An attempt to reach a member's server again has ended.
    pub(super) fn attempted(&mut self, port: &mut Port, member: u16, tried: Tried) {
        let Disk::Remote(remote) = &mut self.members[usize::from(member)].disk else { return };
        match tried {
            Tried::Failed(error) => remote.failed_again(error),
            Tried::Another(text) => remote.refuse(&text, &mut self.ended),
            Tried::Back(socket, session) => {
                if remote.waits() {
                    let handle = port.open(socket);
                    remote.back(handle, &session, port.lately(), &mut self.ended);
                }
            }
        }
    }

    /// When something is to be done here.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if !self.backlog.is_empty() {
            return Some(Instant(0));
        }
        let remotes = self.members.iter().filter_map(|member| match &member.disk {
            Disk::Remote(remote) => remote.deadline(),
            _ => None,
        });
        remotes.min()
    }
}

/// Gives an operation back to its owner.
fn give_back(asks: &mut impl Asks, turn: u64, now: Instant, id: OpId, result: IoResult) {
    if id.0 >> TURN_BIT == turn {
        asks.done(now, OpId(id.0 & ((1 << TURN_BIT) - 1)), result);
    }
}

/// Makes a device that was opened one of the data thread's.
fn disk_of(port: &mut Port, opened: Opened) -> Disk {
    match opened.into_async() {
        Async::File(file) => Disk::File(port.open(file)),
        Async::Memory(file) => Disk::Memory(Arc::new(file)),
        Async::Mapped(map, file) => Disk::Mapped(map, file),
        Async::Remote(socket, session) => {
            Disk::Remote(Box::new(Remote::new(port.open(socket), &session)))
        }
    }
}

fn close(port: &mut Port, disk: Disk) {
    match disk {
        Disk::File(handle) => port.close(handle),
        Disk::Remote(remote) => port.close(remote.handle()),
        Disk::Memory(_) | Disk::Mapped(..) | Disk::None => {}
    }
}

fn keys_of(member: usize, attached: u64) -> Keys {
    let base = SOCKET_KEY | attached << 16 | (member as u64) << 1;
    Keys { send: base, receive: base | 1 }
}

fn io_of(port: &mut Port, device: Handle, kind: OpKind) -> Io {
    match kind {
        OpKind::Read { offset, bytes } => Io::Read { device, offset, buffer: port.buffer(bytes) },
        OpKind::Write { offset, buffer, durable } => Io::Write { device, offset, buffer, durable },
        OpKind::Flush => Io::Flush { device },
    }
}

fn mapped(map: &mut Mapped, kind: OpKind) -> Result<Option<Buffer>, IoError> {
    match kind {
        OpKind::Read { offset, bytes } => {
            let mut buffer = Buffer::zeroed(bytes);
            map.read(offset, &mut buffer)?;
            Ok(Some(buffer))
        }
        OpKind::Write { offset, buffer, durable } => {
            map.write(offset, &buffer, durable).map(|()| None)
        }
        OpKind::Flush => map.flush().map(|()| None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use destage_nbd::{BlockSizes, Mode, Session, wire};
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn no_turn_makes_a_key_one_of_a_socket() {
        let mut devices = Attached::default();
        for turn in 0..1 << 16 {
            let key = devices.turn << TURN_BIT;
            assert!(key < SOCKET_KEY, "{turn}: {key:x}");
            let before = devices.turn;
            devices.next_turn();
            assert_ne!(devices.turn, before);
        }
    }

    /// What an owner was given.
    #[derive(Default)]
    struct Owner(Vec<u64>);

    impl Asks for Owner {
        fn take_ops(&mut self, _: &mut Vec<Op>) {}

        fn done(&mut self, _: Instant, id: OpId, _: IoResult) {
            self.0.push(id.0);
        }
    }

    fn outcome(result: Result<(), IoError>) -> Outcome {
        Outcome { result, errno: 0, buffer: None }
    }

    #[test]
    fn an_owner_is_not_given_what_the_one_before_had_in_flight() {
        let mut port = Port::new(1 << 20).expect("a ring");
        let (mut devices, mut owner) = (Attached::default(), Owner::default());
        let late = 5 | devices.turn << TURN_BIT;
        devices.next_turn();
        let own = 6 | devices.turn << TURN_BIT;
        for key in [late, own] {
            devices.done(&mut port, &mut owner, key, outcome(Ok(())));
        }
        assert_eq!(owner.0, [6]);
    }

    /// A member behind this socket, and what was negotiated.
    fn remote_at(port: &mut Port, socket: UnixStream) -> (Attached, Session) {
        let session = Session {
            export: String::new(),
            size: 1 << 20,
            flags: wire::NBD_FLAG_HAS_FLAGS | wire::NBD_FLAG_SEND_FLUSH,
            block: BlockSizes::default(),
            mode: Mode::Structured,
            contexts: Vec::new(),
        };
        let mut remote = Remote::new(port.open(socket.into()), &session);
        let (array, device) = ([1; 16], [2; 16]);
        let (uri, bytes) = (String::new(), session.size);
        remote.identify(Identity { uri, array, device, bytes, generation: 0, newest: 0 });
        let member = Member { disk: Disk::Remote(Box::new(remote)), attached: 0 };
        (Attached { members: vec![member], ..Attached::default() }, session)
    }

    fn broken() -> Outcome {
        outcome(Err(IoError::from_errno(libc::EPIPE)))
    }

    #[test]
    fn a_broken_connection_ends_though_an_operation_is_in_flight_on_it() {
        let mut port = Port::new(1 << 20).expect("a ring");
        let (one, mut other) = UnixStream::pair().expect("sockets");
        let (mut devices, _) = remote_at(&mut port, one);
        let (buffer, keys) = (Buffer::zeroed(4096), keys_of(0, 0));
        port.submit(keys.receive, Io::Receive { device: Handle(0), buffer });
        devices.done(&mut port, &mut Owner::default(), keys.send, broken());
        assert_eq!(devices.lost_connections(&mut port, 1 << 40).len(), 1);
        other.set_read_timeout(Some(std::time::Duration::from_secs(20))).expect("set");
        assert_eq!(other.read(&mut [0]).expect("an end"), 0);
    }

    #[test]
    fn what_ends_late_on_a_broken_connection_does_not_break_the_next_one() {
        let mut port = Port::new(1 << 20).expect("a ring");
        let (one, other) = UnixStream::pair().expect("sockets");
        let (mut devices, session) = remote_at(&mut port, one);
        let old = keys_of(0, 0);
        devices.done(&mut port, &mut Owner::default(), old.send, broken());
        let lost = devices.lost_connections(&mut port, 1 << 40);
        assert_eq!(lost.len(), 1);
        assert!(devices.is_current(0, lost[0].attached));
        devices.attempted(&mut port, 0, Tried::Back(other.into(), Box::new(session)));
        devices.done(&mut port, &mut Owner::default(), old.receive, broken());
        assert!(devices.lost_connections(&mut port, 1 << 40).is_empty());
    }
}
