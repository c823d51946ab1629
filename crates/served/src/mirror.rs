//! A new NVS mirror while the array is served: every commit goes to it too from the first on, what
//! the ring held before is copied behind, and only when all of that is durable do the superblocks
//! name it (docs/durability.md, "NVS mirrors").

use crate::Buffer;
use crate::io::{Device, OpKind};
use crate::log::{ANCHORS, RING};
use crate::memory::PAGE;
use crate::ops::Purpose;
use crate::request::{Alarm, Cause};
use crate::volume::Volume;
use destage_engine::units::Instant;
use destage_nvslog::superblock::{NOT_JOINED, Uuid};
use std::sync::Arc;

/// Bytes copied at once.
const COPY_BYTES: u64 = 256 << 10;

/// Why no mirror is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorRefusal {
    /// The array has no NVS, or has lost it: there is no log to copy.
    NoLog,
    /// Two devices are in use.
    Whole,
    /// One is being filled.
    Running,
    /// The array has stopped.
    Stopped,
    /// The device is smaller than the log: bytes it must have.
    TooSmall(u64),
    /// The device's blocks are larger than the log's: bytes of these.
    Blocks(u32),
}

impl core::fmt::Display for MirrorRefusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            MirrorRefusal::NoLog => f.write_str(
                "no NVS device is in use, so there is no log to copy: stop the array with --drain \
                 and create it anew",
            ),
            MirrorRefusal::Whole => f.write_str("both NVS devices are in use"),
            MirrorRefusal::Running => f.write_str("an NVS device is being filled: see the status"),
            MirrorRefusal::Stopped => f.write_str("the array has stopped; see `destage status`"),
            MirrorRefusal::TooSmall(bytes) => {
                write!(f, "the device is too small: the log takes {bytes} bytes")
            }
            MirrorRefusal::Blocks(bytes) => write!(
                f,
                "the device has larger blocks than the log, which has blocks of {bytes} bytes"
            ),
        }
    }
}

impl std::error::Error for MirrorRefusal {}

/// How far a mirror is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorStatus {
    /// The NVS device that is being filled.
    pub copy: u16,
    /// Bytes copied.
    pub bytes: u64,
    /// Of so many.
    pub of: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Commits that went to the good device alone are not durable yet.
    Waits,
    Reads,
    Writes,
    Flushes,
    /// An anchor is being written to the good device.
    Quiet,
    /// Anchor A or B is being written.
    Anchor(usize),
    /// A change of the set of devices must end first.
    Ready,
}

/// A mirror that is being filled.
pub(crate) struct Mirror {
    /// Which of those since the start.
    number: u64,
    copy: u16,
    device: Uuid,
    phase: Phase,
    /// The last commit before the first that went to both, and the block behind it.
    before: u64,
    head: u64,
    /// First block to be copied, how many, and how many are.
    tail: u64,
    blocks: u64,
    copied: u64,
    /// Of the chunk under way.
    chunk: u64,
}

impl Volume {
    /// Has an NVS device filled: number 0 or 1, one that is not in use. Nothing but its first MiB
    /// need be zeros.
    ///
    /// # Errors
    /// See [`MirrorRefusal`].
    pub fn add_mirror(
        &mut self,
        now: Instant,
        copy: u16,
        device: Uuid,
        bytes: u64,
        block_bytes: u32,
    ) -> Result<(), MirrorRefusal> {
        self.ops.set_now(now);
        let superblock = &self.faults.superblock;
        let log_block = superblock.block_bytes;
        let needs = RING + superblock.ring_blocks * u64::from(log_block);
        let refusal = match () {
            () if self.faults.stopped => Some(MirrorRefusal::Stopped),
            () if self.log.lost() => Some(MirrorRefusal::NoLog),
            () if self.mirror.is_some() || self.faults.joined.is_some() => {
                Some(MirrorRefusal::Running)
            }
            () if self.log.copies.len() > 1 || self.log.copies.contains(&copy) || copy > 1 => {
                Some(MirrorRefusal::Whole)
            }
            () if bytes < needs => Some(MirrorRefusal::TooSmall(needs)),
            () if block_bytes > log_block => Some(MirrorRefusal::Blocks(log_block)),
            () => None,
        };
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
        let space = &self.log.space;
        let (before, head) = (space.next_sequence() - 1, space.head());
        self.mirrors += 1;
        self.mirror = Some(Mirror {
            number: self.mirrors,
            copy,
            device,
            phase: Phase::Waits,
            before,
            head,
            tail: 0,
            blocks: 0,
            copied: 0,
            chunk: 0,
        });
        self.log.joining = Some(copy);
        self.log.hold_anchors = true;
        self.mirror_turn();
        Ok(())
    }

    /// The mirror that is being filled.
    #[must_use]
    pub fn mirror_status(&self) -> Option<MirrorStatus> {
        let block = u64::from(self.faults.superblock.block_bytes);
        let of = |mirror: &Mirror| MirrorStatus {
            copy: mirror.copy,
            bytes: mirror.copied * block,
            of: mirror.blocks * block,
        };
        self.mirror.as_ref().map(of)
    }

    /// Whether the superblocks are being written that name a new mirror.
    #[must_use]
    pub fn mirror_joins_now(&self) -> bool {
        self.faults.joined.is_some()
    }

    /// Gives up an NVS device: an operator's word, or something that the driver noticed.
    pub fn give_up_nvs(&mut self, now: Instant, copy: u16, cause: Cause) {
        self.ops.set_now(now);
        self.fail_nvs(copy, None, cause);
        self.after();
    }

    /// Fills no mirror any further: before a stop.
    pub fn end_mirror(&mut self, now: Instant) {
        self.ops.set_now(now);
        self.mirror_failed();
        self.after();
    }

    /// Goes on where something else had to end first.
    pub(crate) fn mirror_turn(&mut self) {
        let Some(mirror) = &mut self.mirror else { return };
        match mirror.phase {
            Phase::Waits if self.log.space.durable() >= mirror.before && !self.log.anchoring() => {
                // What is behind the head of then goes to both.
                let ring = self.faults.superblock.ring_blocks;
                mirror.tail = self.log.space.anchor().tail_block;
                mirror.blocks = (mirror.head + ring - mirror.tail) % ring;
                self.log.hold_anchors = false;
                self.mirror_copy();
            }
            Phase::Quiet if !self.log.anchoring() => {
                mirror.phase = Phase::Anchor(0);
                self.mirror_anchor(0);
            }
            Phase::Ready if !self.faults.changing() => self.mirror_joins(),
            _ => {}
        }
    }

    /// Reads the next part of the ring, or ends the copy.
    fn mirror_copy(&mut self) {
        let Some(mirror) = &mut self.mirror else { return };
        let ring_blocks = self.faults.superblock.ring_blocks;
        let block_bytes = u64::from(self.faults.superblock.block_bytes);
        self.log.keep = Some((mirror.tail, mirror.copied));
        let left = mirror.blocks - mirror.copied;
        if left == 0 {
            self.log.keep = None;
            mirror.phase = Phase::Flushes;
            let device = Device::Nvs(mirror.copy);
            let number = mirror.number;
            self.ops.push(device, Purpose::Mirror { number }, OpKind::Flush);
            return;
        }
        let first = (mirror.tail + mirror.copied) % ring_blocks;
        mirror.chunk = left.min(COPY_BYTES / block_bytes).min(ring_blocks - first);
        mirror.phase = Phase::Reads;
        let kind = OpKind::Read {
            offset: RING + first * block_bytes,
            bytes: (mirror.chunk * block_bytes) as usize,
        };
        self.ops.push(
            Device::Nvs(self.log.copies[0]),
            Purpose::Mirror { number: mirror.number },
            kind,
        );
    }

    fn mirror_anchor(&mut self, which: usize) {
        let Some(mirror) = &self.mirror else { return };
        let mut bytes = Buffer::zeroed(PAGE);
        let anchor = self.log.space.anchor().encode(self.faults.superblock.log);
        bytes[..anchor.len()].copy_from_slice(&anchor);
        let buffer = Arc::new(bytes);
        let kind = OpKind::Write { offset: ANCHORS[which], buffer, durable: true };
        self.ops.push(Device::Nvs(mirror.copy), Purpose::Mirror { number: mirror.number }, kind);
    }

    /// A step of the copy is done.
    pub(crate) fn mirror_done(&mut self, number: u64, bytes: Option<Buffer>) {
        let Some(mirror) = self.mirror.as_mut().filter(|m| m.number == number) else { return };
        match (mirror.phase, bytes) {
            (Phase::Reads, Some(bytes)) => {
                mirror.phase = Phase::Writes;
                let ring_blocks = self.faults.superblock.ring_blocks;
                let first = (mirror.tail + mirror.copied) % ring_blocks;
                let offset = RING + first * u64::from(self.faults.superblock.block_bytes);
                let buffer = Arc::new(bytes);
                let kind = OpKind::Write { offset, buffer, durable: false };
                self.ops.push(
                    Device::Nvs(mirror.copy),
                    Purpose::Mirror { number: mirror.number },
                    kind,
                );
            }
            (Phase::Writes, _) => {
                mirror.copied += mirror.chunk;
                self.mirror_copy();
            }
            (Phase::Flushes, _) => {
                mirror.phase = Phase::Quiet;
                self.log.hold_anchors = true;
                self.mirror_turn();
            }
            (Phase::Anchor(0), _) => {
                mirror.phase = Phase::Anchor(1);
                self.mirror_anchor(1);
            }
            (Phase::Anchor(_), _) => {
                mirror.phase = Phase::Ready;
                self.mirror_turn();
            }
            _ => {}
        }
    }

    /// It has all: the superblocks are to say so, its own first.
    fn mirror_joins(&mut self) {
        let Some(mirror) = self.mirror.take() else { return };
        self.faults.nvs[usize::from(mirror.copy)] = mirror.device;
        self.faults.since.nvs[usize::from(mirror.copy)] = NOT_JOINED;
        self.log.copies.push(mirror.copy);
        self.log.copies.sort_unstable();
        (self.log.joining, self.log.keep) = (None, None);
        self.name_nvs();
        self.faults.joined = Some(mirror.copy);
        self.change_devices();
    }

    /// The superblocks of all devices say that it counts, or that it does not any more.
    pub(crate) fn mirror_joined(&mut self) {
        let Some(copy) = self.faults.joined.take() else { return };
        self.log.hold_anchors = false;
        // The other may have failed meanwhile: then this one is the only one, not a mirror.
        if self.log.copies.contains(&copy) && self.log.copies.len() == 2 {
            self.alarm(Alarm::NvsMirrored(copy));
        }
    }

    /// It is not filled any further: it failed, or the device did that it is filled from.
    pub(crate) fn mirror_failed(&mut self) {
        let Some(mirror) = self.mirror.take() else { return };
        (self.log.joining, self.log.keep) = (None, None);
        self.log.hold_anchors = false;
        for purpose in self.ops.abandon(Device::Nvs(mirror.copy)) {
            if let Purpose::Commit { sequence } = purpose {
                self.log.commit_done(sequence);
            }
        }
        self.alarm(Alarm::MirrorFailed(mirror.copy));
    }
}
