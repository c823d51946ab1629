//! A new NVS mirror while the array is served: every commit from now on goes to it too, the ring's
//! earlier contents are copied, and the superblocks name it only when all of that is durable
//! (docs/durability.md, "NVS mirrors").

use super::anchors::anchor_bytes;
use super::{ANCHORS, Log, RING};
use crate::Buffer;
use crate::io::{Device, OpKind};
use crate::ops::{LogOp, Ops, Purpose};
use crate::request::Alarm;
use crate::store::PAGE;
use core::ops::Range;
use destage_nvslog::superblock::Uuid;

/// Bytes copied at once; of a small ring an eighth.
const COPY_BYTES: u64 = 256 << 10;

/// Slots copied at once.
const COPY_SLOTS: u32 = 64;

/// Why an NVS mirror is not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorRefusal {
    /// The array has no NVS, or has lost it: there is no log to copy.
    NoLog,
    /// Two devices are in use.
    Mirrored,
    /// A resync is running.
    Running,
    /// The array has stopped.
    Stopped,
    /// The device is smaller than the log, which takes this many bytes.
    TooSmall(u64),
    /// The device's blocks are larger than the log's, which have this many bytes.
    Blocks(u32),
}

impl core::fmt::Display for MirrorRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            MirrorRefusal::NoLog => f.write_str(
                "no NVS device is in use any more, so there is no log to copy. Give the command \
                 again: the device then gets an empty log",
            ),
            MirrorRefusal::Mirrored => f.write_str("both NVS devices are in use"),
            MirrorRefusal::Running => {
                f.write_str("a resync of an NVS device is running; see `destage status`")
            }
            MirrorRefusal::Stopped => f.write_str("the array has stopped; see `destage status`"),
            MirrorRefusal::TooSmall(bytes) => {
                write!(f, "the device is too small: the log needs {bytes} bytes")
            }
            MirrorRefusal::Blocks(bytes) => write!(
                f,
                "the device's blocks are larger than those of the log, which have {bytes} bytes"
            ),
        }
    }
}

impl std::error::Error for MirrorRefusal {}

/// Progress of a resync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorStatus {
    /// The NVS device that is being filled.
    pub copy: u16,
    /// Bytes copied.
    pub bytes: u64,
    /// Bytes to copy.
    pub of: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Commits that went to the good device alone are not durable yet.
    Waits,
    /// A part of the ring is read, or written.
    Reads,
    Writes,
    /// Commits up to this one may still be writing the slots that come next.
    SlotsWait(u64),
    /// Slots are read, or written.
    SlotReads,
    SlotWrites,
    Flushes,
    /// The good device's anchor is being written.
    AnchorInFlight,
    /// Anchor A or B is being written.
    Anchor(usize),
    /// It has everything: the superblocks can name it.
    Filled,
}

/// A mirror that is being filled.
pub(super) struct Mirror {
    /// Distinguishes its operations from those of an earlier one.
    number: u64,
    device: u16,
    uuid: Uuid,
    phase: Phase,
    /// The last commit that did not go to both, and the block behind it.
    before: u64,
    head: u64,
    /// First block to copy, how many there are, and how many are copied.
    tail: u64,
    blocks: u64,
    copied: u64,
    /// Blocks of the copy in flight.
    chunk: u64,
    /// The slots that are being copied; those before them are.
    slots: Range<u32>,
}

impl Mirror {
    fn purpose(&self) -> Purpose {
        Purpose::Log(LogOp::Mirror { number: self.number })
    }
}

/// A device that is to become a mirror.
pub(crate) struct NewMirror {
    pub(crate) device: u16,
    pub(crate) uuid: Uuid,
    pub(crate) bytes: u64,
    pub(crate) block_bytes: u32,
}

impl Log {
    /// Begins to fill a device that is not in use. Only its first MiB must be zeros.
    pub(crate) fn add_mirror(
        &mut self,
        new: &NewMirror,
        ops: &mut Ops,
    ) -> Result<(), MirrorRefusal> {
        let needs = self.offset_of_slot(self.space.slots.count());
        let NewMirror { device, uuid, bytes, block_bytes } = *new;
        let refusal = match () {
            () if self.lost() => Some(MirrorRefusal::NoLog),
            () if self.mirror.is_some() => Some(MirrorRefusal::Running),
            () if self.devices.len() > 1 || self.devices.contains(&device) || device > 1 => {
                Some(MirrorRefusal::Mirrored)
            }
            () if bytes < needs => Some(MirrorRefusal::TooSmall(needs)),
            () if block_bytes > self.block_bytes => Some(MirrorRefusal::Blocks(self.block_bytes)),
            () => None,
        };
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let (before, head) = (self.space.next_sequence() - 1, self.space.head());
        self.mirrors += 1;
        self.mirror = Some(Mirror {
            number: self.mirrors,
            device,
            uuid,
            phase: Phase::Waits,
            before,
            head,
            tail: 0,
            blocks: 0,
            copied: 0,
            chunk: 0,
            slots: 0..0,
        });
        self.joining = Some(device);
        self.hold_anchors = true;
        self.mirror_turn(ops);
        Ok(())
    }

    /// The mirror that is being filled, or that has everything and is not named yet.
    pub(crate) fn mirror_status(&self) -> Option<MirrorStatus> {
        let block = u64::from(self.block_bytes);
        let slots = |slots: u32| u64::from(slots) * PAGE as u64;
        let of = |mirror: &Mirror| MirrorStatus {
            copy: mirror.device,
            bytes: mirror.copied * block + slots(mirror.slots.start),
            of: mirror.blocks * block + slots(self.space.slots.count()),
        };
        self.mirror.as_ref().map(of).or(self.filled)
    }

    /// The device that is being filled.
    pub(crate) fn joining(&self) -> Option<u16> {
        self.joining
    }

    /// Continues where something else had to end first.
    pub(crate) fn mirror_turn(&mut self, ops: &mut Ops) {
        let anchoring = self.anchoring();
        let Some(mirror) = &mut self.mirror else { return };
        match mirror.phase {
            Phase::Waits if self.space.durable() >= mirror.before && !anchoring => {
                // What is behind the present head goes to both.
                let ring = self.space.ring_blocks();
                mirror.tail = self.space.anchor().tail_block;
                mirror.blocks = (mirror.head + ring - mirror.tail) % ring;
                self.hold_anchors = false;
                self.mirror_copy(ops);
            }
            Phase::SlotsWait(last) if self.space.durable() >= last => self.mirror_read_slots(ops),
            Phase::AnchorInFlight if !anchoring => {
                mirror.phase = Phase::Anchor(0);
                self.mirror_anchor(0, ops);
            }
            _ => {}
        }
    }

    /// Reads the next part of the ring, or ends the copy.
    fn mirror_copy(&mut self, ops: &mut Ops) {
        let Some(mirror) = &mut self.mirror else { return };
        let ring_blocks = self.space.ring_blocks();
        let block_bytes = u64::from(self.block_bytes);
        let left = mirror.blocks - mirror.copied;
        if left == 0 {
            self.keep = None;
            self.mirror_next_slots(ops);
            return;
        }
        let first = (mirror.tail + mirror.copied) % ring_blocks;
        self.keep = Some(first);
        let most = (COPY_BYTES / block_bytes).min(ring_blocks / 8);
        mirror.chunk = left.min(most).min(ring_blocks - first);
        mirror.phase = Phase::Reads;
        let kind = OpKind::Read {
            offset: RING + first * block_bytes,
            bytes: (mirror.chunk * block_bytes) as usize,
        };
        ops.push(Device::Nvs(self.devices[0]), mirror.purpose(), kind);
    }

    /// The next slots are given to no commit while they are copied: what a commit writes to others
    /// goes to both devices. Or all are copied.
    fn mirror_next_slots(&mut self, ops: &mut Ops) {
        let Some(mirror) = &mut self.mirror else { return };
        let slots = &mut self.space.slots;
        let first = mirror.slots.end;
        let Some(first) = slots.next_used(first..slots.count()) else {
            mirror.slots = slots.count()..slots.count();
            slots.hold_back(0..0);
            mirror.phase = Phase::Flushes;
            ops.push(Device::Nvs(mirror.device), mirror.purpose(), OpKind::Flush);
            return;
        };
        mirror.slots = first..(first + COPY_SLOTS).min(slots.count());
        slots.hold_back(mirror.slots.clone());
        mirror.phase = Phase::SlotsWait(self.space.next_sequence() - 1);
        self.mirror_turn(ops);
    }

    fn mirror_read_slots(&mut self, ops: &mut Ops) {
        let Some(mirror) = &mut self.mirror else { return };
        mirror.phase = Phase::SlotReads;
        let (first, count) = (mirror.slots.start, mirror.slots.len());
        let purpose = mirror.purpose();
        let kind = OpKind::Read { offset: self.offset_of_slot(first), bytes: count * PAGE };
        ops.push(Device::Nvs(self.devices[0]), purpose, kind);
    }

    fn mirror_anchor(&mut self, which: usize, ops: &mut Ops) {
        let Some(mirror) = &self.mirror else { return };
        let buffer = anchor_bytes(&self.space.anchor(), self.id, self.block_bytes);
        let kind = OpKind::Write { offset: ANCHORS[which], buffer, durable: true };
        ops.push(Device::Nvs(mirror.device), mirror.purpose(), kind);
    }

    /// A step of the copy is done.
    pub(super) fn mirror_done(&mut self, number: u64, bytes: Option<Buffer>, ops: &mut Ops) {
        let Some(mirror) = self.mirror.as_mut().filter(|m| m.number == number) else { return };
        match (mirror.phase, bytes) {
            (Phase::Reads, Some(bytes)) => {
                mirror.phase = Phase::Writes;
                let ring_blocks = self.space.ring_blocks();
                let first = (mirror.tail + mirror.copied) % ring_blocks;
                let offset = RING + first * u64::from(self.block_bytes);
                let kind = OpKind::Write { offset, buffer: bytes.into(), durable: false };
                ops.push(Device::Nvs(mirror.device), mirror.purpose(), kind);
            }
            (Phase::SlotReads, Some(bytes)) => {
                mirror.phase = Phase::SlotWrites;
                let (device, purpose, first) =
                    (mirror.device, mirror.purpose(), mirror.slots.start);
                let offset = self.offset_of_slot(first);
                let kind = OpKind::Write { offset, buffer: bytes.into(), durable: false };
                ops.push(Device::Nvs(device), purpose, kind);
            }
            (Phase::SlotWrites, _) => self.mirror_next_slots(ops),
            (Phase::Writes, _) => {
                mirror.copied += mirror.chunk;
                self.mirror_copy(ops);
            }
            (Phase::Flushes, _) => {
                mirror.phase = Phase::AnchorInFlight;
                self.hold_anchors = true;
                self.mirror_turn(ops);
            }
            (Phase::Anchor(0), _) => {
                mirror.phase = Phase::Anchor(1);
                self.mirror_anchor(1, ops);
            }
            (Phase::Anchor(_), _) => mirror.phase = Phase::Filled,
            _ => {}
        }
    }

    /// A mirror that has everything: it is in use from now on. Until the superblocks name it, and
    /// [`Log::mirror_named`] says so, no anchor is written.
    pub(crate) fn take_filled_mirror(&mut self) -> Option<(u16, Uuid)> {
        let status = self.mirror_status();
        let Mirror { device, uuid, .. } =
            self.mirror.take_if(|mirror| mirror.phase == Phase::Filled)?;
        self.filled = status;
        self.devices.push(device);
        self.devices.sort_unstable();
        (self.joining, self.keep) = (None, None);
        Some((device, uuid))
    }

    /// The superblocks of all devices name the new mirror, or no longer do. Whether the log is
    /// mirrored: the other device may have failed in the meantime.
    pub(crate) fn mirror_named(&mut self, device: u16) -> bool {
        (self.hold_anchors, self.filled) = (false, None);
        self.devices.contains(&device) && self.devices.len() == 2
    }

    /// The mirror is not filled any further: it failed, or the device that it is copied from did.
    pub(crate) fn end_mirror(&mut self, ops: &mut Ops) {
        let Some(mirror) = self.mirror.take() else { return };
        (self.joining, self.keep) = (None, None);
        self.space.slots.hold_back(0..0);
        self.hold_anchors = false;
        for purpose in ops.abandon(Device::Nvs(mirror.device)) {
            if let Purpose::Log(LogOp::Commit { sequence }) = purpose {
                self.commit_done(sequence);
            }
        }
        ops.alarm(Alarm::MirrorFailed(mirror.device));
    }
}
