//! Members that other servers serve: connections that broke, and what is reported of them.

use super::ArrayBackend;
use crate::Port;
use crate::array::alarms::ClearedBy;
use crate::array::attached::Lost;
use crate::array::reconnect::{self, Tried};
use crate::array::remote::{Event, Identity};
use destage_nvslog::superblock::Uuid;
use destage_served::Device;

impl ArrayBackend {
    /// What a member's device is recognised by when its server comes back.
    pub(super) fn identify(&mut self, member: u16, device: Option<Uuid>, bytes: Option<u64>) {
        let uri = self.setup.path_of(Device::Member(member)).map(str::to_string);
        if let (Some(uri), Some(device), Some(bytes)) = (uri, device, bytes) {
            let array = self.volume.superblock().array;
            let identity = Identity { uri, array, device, bytes, generation: 0, newest: 0 };
            self.devices.identify(member, identity);
        }
    }

    /// Reconnects where a connection broke, and gives up where that took too long.
    pub(super) fn reconnect_lost(&mut self, port: &mut Port) {
        let limit = (self.setup.config().reconnect_seconds() * 1e9) as u64;
        for lost in self.devices.lost_connections(port, limit) {
            let member = lost.member;
            if !self.reconnect(lost) {
                self.devices.give_up(member);
            }
        }
    }

    /// Begins to reconnect; false if that is not possible.
    fn reconnect(&mut self, lost: Lost) -> bool {
        let Lost { member, attached, mut identity, ended } = lost;
        let Some(handle) = self.handle.clone() else { return false };
        let superblock = self.volume.superblock();
        // A change that is being written may not have reached the member.
        let changing = self.volume.is_changing();
        identity.generation = if changing { superblock.base } else { superblock.generation };
        // A change that is sent and not answered may have reached it. While another thread has the
        // devices, it writes generations that the volume does not know.
        identity.newest = if self.is_offline() { u64::MAX } else { superblock.generation };
        reconnect::begin(identity, ended, move |tried| {
            handle.run_now(move |array, port| array.attempted(port, member, attached, tried))
        })
    }

    /// An attempt to reconnect has ended.
    fn attempted(&mut self, port: &mut Port, member: u16, attached: u64, tried: Tried) {
        if !self.devices.is_current(member, attached) {
            return;
        }
        let status = self.volume.status();
        let rebuilt = status.rebuilds.iter().any(|rebuild| rebuild.member == member);
        if status.failed.contains(&member) && !rebuilt {
            // Given up in the meantime: nothing may be written there.
            self.devices.give_up(member);
            return;
        }
        self.devices.attempted(port, member, tried);
    }

    /// Raises alarms about what happened to the connections.
    pub(super) fn report_connections(&mut self) {
        for (member, event) in self.devices.take_events() {
            self.alarms.clear(&ClearedBy::Reconnected(member));
            let alarm = self.words().connection(member, &event);
            let cleared_by = match event {
                Event::Lost(_) | Event::Back { .. } => ClearedBy::Reconnected(member),
                Event::GaveUp(_) => ClearedBy::MemberRebuilt(member),
            };
            self.alarms.raise(alarm, cleared_by);
        }
    }
}
