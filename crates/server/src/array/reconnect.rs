//! Connects again to the server of a remote member, on a thread of its own, and looks whether the
//! disk there is still the same. The backend's part: what is told of it.

use super::admin::Admin;
use super::alarms::Ends;
use super::backend::{ArrayBackend, Disk};
use super::devices::{Async, Devices, Opened};
use super::remote::Event;
use crate::{Port, Remote};
use destage_block::Driver;
use destage_client::{Client, ClientError};
use destage_nbd::client::Uri;
use destage_nbd::{Mode, Session};
use destage_nvslog::superblock::{Role, Superblock, Uuid};
use destage_served::{Device, IoError, NoSuperblock, read_superblock};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pauses between attempts: the first, and the longest.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What a remote member is known by.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) uri: String,
    pub(super) array: Uuid,
    pub(super) device: Uuid,
    pub(super) bytes: u64,
    /// The generation that its superblock must have at the least: else it is an older copy.
    pub(super) generation: u64,
}

/// What an attempt brought.
pub enum Tried {
    /// It failed; there will be another.
    Failed(IoError),
    /// The disk there is not the member, and why.
    Another(String),
    /// A connection, and what was negotiated.
    Back(OwnedFd, Box<Session>),
}

/// Of which member, its connection's number, and what an attempt brought.
pub struct Attempt {
    member: u16,
    attached: u64,
    tried: Tried,
}

/// Connects until it succeeds, the disk is another, or nobody wants it any more.
fn connect_again(identity: &Identity, ended: &AtomicBool, mut tell: impl FnMut(Tried) -> bool) {
    let mut pause = PAUSE;
    while !ended.load(Ordering::Relaxed) {
        let tried = once(identity);
        let again = matches!(tried, Tried::Failed(_));
        if !tell(tried) || !again {
            return;
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

fn once(identity: &Identity) -> Tried {
    let uri: Uri = match identity.uri.parse() {
        Ok(uri) => uri,
        Err(error) => return Tried::Another(format!("{error}")),
    };
    let client = match Client::connect(&uri, Mode::Structured) {
        Ok(client) => client,
        Err(ClientError::Io(error)) => return Tried::Failed(IoError::from_std(&error)),
        // It may be about to start, or to end.
        Err(_) => return Tried::Failed(IoError::from_errno(libc::ECONNRESET)),
    };
    let bytes = client.session().size;
    if bytes != identity.bytes {
        let text = format!("it has {bytes} bytes in place of {}", identity.bytes);
        return Tried::Another(text);
    }
    if !client.offers_flush() {
        return Tried::Another("its server does not offer FLUSH".to_string());
    }
    let mut alone = Devices::of(vec![Some(Opened::Remote(Box::new(client)))]);
    match read_superblock(&mut alone, Device::Member(0)) {
        Ok(said) if !is_same(&said.superblock, identity) => {
            return Tried::Another("its superblock is of another device".to_string());
        }
        // One that is about to become a member is of none.
        Ok(said)
            if said.superblock.generation < identity.generation
                && said.superblock.role != Role::Spare =>
        {
            let text = format!(
                "it is an older copy, of generation {} in place of {}",
                said.superblock.generation, identity.generation
            );
            return Tried::Another(text);
        }
        Ok(_) => {}
        Err(error @ NoSuperblock::Short { .. }) => return Tried::Another(error.to_string()),
        Err(NoSuperblock::Io(error) | NoSuperblock::Unwritable(error)) => {
            return Tried::Failed(error);
        }
        Err(NoSuperblock::Bytes(error)) => return Tried::Another(error.to_string()),
    }
    match alone.members.remove(0).map(Opened::into_async) {
        Some(Async::Remote(socket, session)) => Tried::Back(socket, Box::new(session)),
        _ => Tried::Failed(IoError::GONE),
    }
}

fn is_same(said: &Superblock, identity: &Identity) -> bool {
    said.array == identity.array && said.device == identity.device
}

/// The devices' own UUIDs, of members that other servers serve.
pub(super) fn identities(devices: &mut Devices) -> Vec<Option<Uuid>> {
    let remote = |opened: &Option<Opened>| matches!(opened, Some(Opened::Remote(_)));
    let remotes: Vec<bool> = devices.members.iter().map(remote).collect();
    let said = |(number, remote)| {
        let mut said =
            |device| read_superblock(devices, device).ok().map(|said| said.superblock.device);
        if remote { said(Device::Member(number)) } else { None }
    };
    (0..).zip(remotes).map(said).collect()
}

impl ArrayBackend {
    /// What a member's device is known by when its server comes back.
    pub(super) fn identify(
        &mut self,
        member: u16,
        name: &str,
        device: Option<Uuid>,
        bytes: Option<u64>,
    ) {
        let place = usize::from(member);
        let (array, uri) = (self.volume.superblock().array, name.to_string());
        if let (Disk::Remote(remote), Some(device), Some(bytes)) =
            (&mut self.members[place], device, bytes)
        {
            remote.identify(Identity { uri, array, device, bytes, generation: 0 });
        }
    }

    /// Connects again where a connection broke, and gives up where that took too long.
    pub(super) fn look_at_remotes(&mut self, port: &mut Port) {
        let now = port.lately();
        for member in 0..self.members.len() {
            let Disk::Remote(disk) = &mut self.members[member] else { continue };
            disk.expire(now, &mut self.ended);
            if !disk.is_cut() {
                continue;
            }
            port.close(disk.handle());
            // What is still in flight on the old socket is nobody's.
            self.attached[member] += 1;
            let limit = u64::from(self.config.stall_seconds) * 1_000_000_000 / 8 * 7;
            let attached = self.attached[member];
            let begun = match (disk.begin_wait(now, limit), &self.remote) {
                (Some((mut identity, ended)), Some(remote)) => {
                    let remote = remote.clone();
                    let said = self.volume.superblock();
                    // A change that is being written may not have come to it.
                    let changing = self.volume.is_changing();
                    identity.generation = if changing { said.base } else { said.generation };
                    begin(remote, member as u16, attached, identity, ended)
                }
                _ => false,
            };
            if !begun {
                disk.die(None, &mut self.ended);
            }
        }
    }

    /// An attempt to connect again has ended.
    pub(crate) fn attempted(&mut self, port: &mut Port, attempt: Attempt) {
        let Attempt { member, attached, tried } = attempt;
        let place = usize::from(member);
        if self.attached.get(place) != Some(&attached) {
            return;
        }
        let status = self.volume.status();
        let rebuilt = status.rebuilds.iter().any(|rebuild| rebuild.member == member);
        let Disk::Remote(disk) = &mut self.members[place] else { return };
        if status.failed.contains(&member) && !rebuilt {
            // Given up in the meantime: nothing is to be written there.
            disk.die(None, &mut self.ended);
            return;
        }
        match tried {
            Tried::Failed(error) => disk.failed_again(error),
            Tried::Another(text) => disk.refuse(&text, &mut self.ended),
            Tried::Back(socket, session) => {
                if disk.waits() {
                    let handle = port.open(socket);
                    disk.back(handle, &session, port.lately(), &mut self.ended);
                }
            }
        }
    }

    /// Tells what has happened to the connections.
    pub(super) fn tell_of_remotes(&mut self) {
        for member in 0..self.members.len() {
            let Disk::Remote(disk) = &mut self.members[member] else { continue };
            for event in disk.take_events() {
                self.tell_of_remote(member, &event);
            }
        }
    }

    fn tell_of_remote(&mut self, member: usize, event: &Event) {
        let name = format!("member {member} ({})", self.config.disks[member]);
        let ends = Ends::Reconnected(member as u16);
        self.alarms.end(&ends);
        match event {
            Event::Lost(error) => {
                let text = format!(
                    "member-disconnected: {name}: the connection broke: {error}. Its reads and \
                     writes wait while the server connects again, for up to {} s",
                    u64::from(self.config.stall_seconds) * 7 / 8
                );
                self.told(text, ends);
            }
            Event::Back { away, again } => {
                let text = format!(
                    "member-reconnected: {name} was away for {:.1} s. {again} writes that it had \
                     not flushed were sent again; nothing is lost. Look why its server ended",
                    away.0 as f64 / 1e9
                );
                self.told(text, ends);
            }
            Event::GaveUp(why) => {
                let text = format!(
                    "member-not-reconnected: {name} is not used any further: {why}. Replace it: \
                     destage replace {} {member} NEW",
                    self.name()
                );
                self.told(text, Ends::MemberRebuilt(member as u16));
            }
        }
    }
}

fn begin(
    remote: Remote,
    member: u16,
    attached: u64,
    identity: Identity,
    ended: Arc<AtomicBool>,
) -> bool {
    let work = move || {
        connect_again(&identity, &ended, |tried| {
            remote.send(Box::new(Admin::Attempt(Attempt { member, attached, tried })))
        });
    };
    std::thread::Builder::new().name("reconnect".to_string()).spawn(work).is_ok()
}
