//! What an NVS log holds, without changing it: `destage recover --inspect`.

use super::recover::{Ring, choose_anchor};
use crate::assemble::Assembly;
use crate::io::Media;
use crate::lost::runs;
use destage_engine::units::Page;
use destage_nvslog::contents::HeldPage;
use destage_nvslog::recover::{Layout, RecoverError, Recovery};
use destage_nvslog::superblock::Superblock;

/// What was found. Blocks are of the log's block size, pages of 4,096 bytes.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Blocks of the ring, and bytes of a block.
    pub ring: (u64, u32),
    /// The anchor's tail: sequence and block; `None`: no anchor is intact.
    pub tail: Option<(u64, u64)>,
    /// Commits that were read.
    pub commits: u64,
    /// Sequence of the last of them.
    pub last_sequence: u64,
    /// Headers behind the end, left by commits that were not complete.
    pub dropped: u64,
    /// Commits that one NVS device lacks and the other has.
    pub repairs: usize,
    /// Pages that only the log has.
    pub dirty_pages: u64,
    /// These pages, as runs: first page, pages.
    pub ranges: Vec<(u64, u64)>,
    /// Dirty pages whose bytes no device has any more, as runs.
    pub lost: Vec<(u64, u64)>,
    /// Destages that were in flight.
    pub open_intents: u64,
    /// Why the log cannot be used.
    pub damage: Option<RecoverError>,
    /// NVS devices with blocks that could not be read.
    pub unreadable: Vec<u16>,
    /// Blocks behind the end that a device could not read.
    pub unreadable_behind: u64,
}

/// Reads the log of an assembled array.
#[must_use]
pub fn inspect(media: &mut dyn Media, assembly: &Assembly) -> Inspection {
    let Assembly { superblock, copies, .. } = assembly;
    inspect_log(media, superblock, copies, assembly.takes_what_is_left())
}

/// Reads the log that a superblock describes, on these NVS devices.
pub(crate) fn inspect_log(
    media: &mut dyn Media,
    superblock: &Superblock,
    copies: &[u16],
    takes_what_is_left: bool,
) -> Inspection {
    let Superblock { log, block_bytes, ring_blocks, slots, geometry, .. } = *superblock;
    let mut found = Inspection { ring: (ring_blocks, block_bytes), ..Inspection::default() };
    let Some(anchor) = choose_anchor(media, copies, log) else { return found };
    found.tail = Some((anchor.tail_sequence, anchor.tail_block));
    let layout = Layout { log, block_bytes, ring_blocks, slots, copies: copies.len() };
    let recovery = Recovery::new(layout, anchor);
    let mut recovery = match recovery {
        Ok(recovery) => recovery,
        Err(error) => {
            found.damage = Some(error);
            return found;
        }
    };
    recovery.takes_what_is_left = takes_what_is_left;
    let mut ring = Ring::new(media, copies, superblock);
    while let Some(want) = recovery.want() {
        let bytes = ring.look_at(want.copy, want.part);
        let copy = copies[want.copy];
        if bytes.is_none() && !found.unreadable.contains(&copy) {
            found.unreadable.push(copy);
        }
        if let Err(error) = recovery.give(bytes) {
            found.damage = Some(error);
            return found;
        }
    }
    let recovered = recovery.finish();
    let checked = recovered.check(geometry.volume_pages().0, geometry.pages_per_group());
    found.damage = checked.err();
    found.commits = recovered.commits;
    found.last_sequence = recovered.space.next_sequence() - 1;
    found.dropped = recovered.dropped.len() as u64;
    found.unreadable_behind = recovered.unreadable.len() as u64;
    found.repairs = recovered.repairs.len();
    let frozen = recovered.contents.pages_frozen() as u64;
    found.dirty_pages = recovered.contents.pages_held() as u64 + frozen;
    let mut held: Vec<u64> = recovered.contents.pages().map(|(page, _)| page.0).collect();
    held.sort_unstable();
    found.ranges = runs(&held);
    found.open_intents = recovered.contents.intents().count() as u64;
    let (current, frozen) = (recovered.contents.pages(), recovered.contents.frozen_pages());
    let mut all: Vec<(Page, HeldPage)> = current.chain(frozen).collect();
    all.sort_unstable_by_key(|(_, held)| held.stored.map(|stored| stored.slot));
    let mut lost: Vec<u64> =
        all.iter().filter(|(_, held)| !ring.has(held)).map(|(page, _)| page.0).collect();
    lost.sort_unstable();
    found.lost = runs(&lost);
    found
}
