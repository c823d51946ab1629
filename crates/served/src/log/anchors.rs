//! Anchors: where the log begins, in two copies.

use super::{ANCHORS, Log};
use crate::Buffer;
use crate::defect::Defect;
use crate::io::{Device, OpKind};
use crate::ops::{LogOp, Ops, Purpose};
use destage_block::SharedBytes;
use destage_nvslog::LogId;
use destage_nvslog::anchor::Anchor;

/// An anchor that is being written.
pub(super) struct AnchorWrite {
    anchor: Anchor,
    /// 0: A is being written, 1: B.
    copy: usize,
    pending: usize,
}

impl Log {
    /// Whether an anchor is being written.
    pub(super) fn anchoring(&self) -> bool {
        self.anchor.is_some()
    }

    pub(super) fn write_anchor(&mut self, ops: &mut Ops) {
        if self.anchor.is_some() || self.hold_anchors {
            return;
        }
        if let Some(anchor) = self.space.anchor_due(self.waiting_blocks > 0, self.keep) {
            self.anchor = Some(AnchorWrite { anchor, copy: 0, pending: 0 });
            self.send_anchor(ops);
            if self.defect.is(Defect::ReusesSpaceEarly) {
                self.space.anchored(anchor);
            }
        }
    }

    fn send_anchor(&mut self, ops: &mut Ops) {
        let Some(write) = &mut self.anchor else { return };
        let buffer = anchor_bytes(&write.anchor, self.id, self.block_bytes);
        write.pending = self.devices.len();
        for copy in &self.devices {
            let (offset, buffer) = (ANCHORS[write.copy], buffer.clone());
            let kind = OpKind::Write { offset, buffer, durable: true };
            ops.push(Device::Nvs(*copy), Purpose::Log(LogOp::Anchor), kind);
        }
    }

    /// One device has the anchor durable, or is no longer used.
    pub(super) fn anchor_done(&mut self, ops: &mut Ops) {
        let Some(write) = &mut self.anchor else { return };
        write.pending -= 1;
        if write.pending > 0 {
            return;
        }
        if write.copy == 0 {
            write.copy = 1;
            self.send_anchor(ops);
        } else {
            if !self.defect.is(Defect::ReusesSpaceEarly) {
                self.space.anchored(write.anchor);
            }
            self.anchor = None;
        }
    }
}

/// What is written of an anchor: a block.
pub(super) fn anchor_bytes(anchor: &Anchor, log: LogId, block_bytes: u32) -> SharedBytes {
    let mut buffer = Buffer::zeroed(block_bytes as usize);
    let bytes = anchor.encode(log);
    buffer[..bytes.len()].copy_from_slice(&bytes);
    buffer.into()
}
