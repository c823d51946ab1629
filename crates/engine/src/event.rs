//! What goes into the controller and what comes out of it.

use crate::array::plan::DiskRun;
use crate::request::{HostError, HostRequest, PageRange, RequestId};
use crate::units::{DiskId, GroupId, Page};

/// What a driver tells the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A host request arrived.
    Host(HostRequest),
    /// The host needs these pages no longer. An append as a write is, but without data and
    /// without need for space; what is held of the pages is not destaged any more.
    Discard(RequestId, PageRange),
    /// The append of this write or discard is durable. Appends complete in the order they were
    /// asked for.
    NvsDone(RequestId),
    /// A disk command completed.
    DiskDone(DiskId, Owner),
    /// A disk command failed. If the disk is to be given up, [`Event::DiskFailed`] comes first.
    DiskError(DiskCommand),
    /// A disk is given up: nothing more is asked of it.
    DiskFailed(DiskId),
    /// The disk cannot carry out a command now (it is full): the driver tries it again later, and
    /// meanwhile it takes no place in the disk's window.
    DiskWaits(DiskId),
    /// Such a command is tried again.
    DiskTriesAgain(DiskId),
    /// A spare stands in for a failed disk, under its number: rebuild it. What it has below page
    /// `from`, a checkpoint, is whole. All commands to the disk before it must have come back.
    Rebuild {
        /// The disk.
        disk: DiskId,
        /// First page that is not known to be whole.
        from: u64,
    },
    /// A failed disk is whole again without having been rebuilt here.
    Repaired(DiskId),
    /// The pages of this window of a rebuild are computed: they may be written.
    Regenerated(u32),
    /// The time of [`crate::controller::Controller::deadline`] has come.
    Tick,
    /// The intent of this destage is durable, and its parity computed.
    Intended(u32),
    /// After `Intend`: a row of this destage cannot be computed from what can be read. Its pages
    /// stay in NVS until `TryKept`.
    NotComputable(u32),
    /// Destages that could not be computed are tried again.
    TryKept,
    /// The disks that this destage wrote are flushed; `false`: one of them failed.
    Flushed(u32, bool),
    /// Destage everything at full depth, whatever the rate, until the NVS is empty or a host
    /// write arrives.
    Flush,
    /// Read all rows and compare them (`scrub.rs`); only on levels with redundancy.
    ScrubStart,
    /// So many more pages may be read by the scrub.
    ScrubAllow(u64),
    /// After `ScrubCompare` of a chunk: a run of it is to be written again.
    ScrubRepair(u32, DiskRun),
    /// A chunk is compared.
    ScrubCompared(u32),
    /// No further chunk is read; `ScrubEnded` follows.
    ScrubStop,
}

/// What the controller wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make these pages durable in NVS, then tell `NvsDone`.
    NvsAppend {
        /// The write.
        id: RequestId,
        /// Its pages.
        range: PageRange,
    },
    /// A destage begins ([`crate::destage::phases::Protocol::Safe`]);
    /// [`crate::controller::Controller::destage_mask`] says of which pages.
    Begin {
        /// Its number, until it is released.
        index: u32,
        /// The group.
        group: GroupId,
    },
    /// All reads of a destage are done: compute parity, make the intent durable, then tell
    /// `Intended`.
    Intend {
        /// The destage.
        index: u32,
    },
    /// Flush the disks that a destage has written since its last flush, then tell `Flushed`.
    FlushDisks {
        /// The destage.
        index: u32,
    },
    /// As `NvsRelease`, under [`crate::destage::phases::Protocol::Safe`].
    Released {
        /// The destage.
        index: u32,
        /// The group.
        group: GroupId,
        /// How many pages.
        pages: u64,
    },
    /// What was read for this host read is of no use; it will be read again.
    ReadAgain {
        /// The read, as in its commands' owner.
        index: u32,
        /// The request.
        id: RequestId,
    },
    /// From now on nothing writes the rows at these pages of the disks, until this host read
    /// ends: what it reads of them from now on belongs together.
    ReadRows {
        /// The read, as in its commands' owner.
        index: u32,
        /// First page on each disk.
        first: u64,
        /// Pages.
        pages: u32,
    },
    /// This host read, which had to wait, is made now: what is held now of its pages will not be
    /// read from the disks, and may be on them only when it is answered.
    ReadNow {
        /// The request.
        id: RequestId,
        /// First and last of its pages that are not held; `None`: all are.
        missing: Option<(Page, Page)>,
    },
    /// All of a chunk is read that can be: tell what is to be written again, then
    /// `ScrubCompared`.
    ScrubCompare {
        /// The chunk's number, until it is done.
        index: u32,
        /// Its rows.
        chunk: ScrubChunk,
    },
    /// A chunk is read, compared and written again where asked.
    ScrubDone {
        /// The chunk.
        index: u32,
        /// `false`: a disk failed under it.
        whole: bool,
    },
    /// The scrub is over.
    ScrubEnded {
        /// All rows were read.
        whole: bool,
    },
    /// Read or write a disk, then tell `DiskDone`.
    Disk(DiskCommand),
    /// Answer the host.
    Reply {
        /// The request.
        id: RequestId,
        /// Served, or refused.
        result: Result<(), HostError>,
    },
    /// The read cache holds this page from now on, or holds these newer bytes of it.
    Keep {
        /// The page.
        page: Page,
        /// Where its bytes are.
        bytes: Bytes,
    },
    /// The read cache holds this page no longer.
    Drop {
        /// The page.
        page: Page,
    },
    /// All reads of a window of a rebuild are done: compute the disk's pages, then tell
    /// `Regenerated`.
    Regenerate {
        /// The window, as in its commands' owner.
        window: u32,
        /// The disk being rebuilt.
        disk: DiskId,
        /// First page of it.
        first: u64,
        /// Pages.
        pages: u32,
    },
    /// A rebuild has come so far. A driver that keeps checkpoints flushes the disk, then
    /// persists this one.
    Checkpoint {
        /// The disk being rebuilt.
        disk: DiskId,
        /// Its pages below are whole.
        below: u64,
    },
    /// A disk is rebuilt: it is as if it had not failed.
    Rebuilt {
        /// The disk.
        disk: DiskId,
    },
    /// A rebuild is over without success: its disk failed, or too many others did.
    RebuildStopped {
        /// The disk.
        disk: DiskId,
    },
    /// A page of a disk being rebuilt cannot be computed: too much of its row is unreadable. What
    /// the rebuild writes there is not its contents.
    Unrecoverable {
        /// The disk being rebuilt.
        disk: DiskId,
        /// The page of it.
        page: u64,
    },
    /// These pages of a group are on the disks: their NVS space may be used again.
    NvsRelease {
        /// The group.
        group: GroupId,
        /// How many pages.
        pages: u64,
    },
}

/// Whose command it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A host read, by its index.
    HostRead(u32),
    /// A destage plan, by its index.
    Destage(u32),
    /// A window of a rebuild, by its number.
    Rebuild(u32),
    /// A chunk of a scrub, by its index.
    Scrub(u32),
}

/// One command to a member disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskCommand {
    /// The disk.
    pub disk: DiskId,
    /// First 4 KiB page on the disk.
    pub first: u64,
    /// Pages.
    pub pages: u32,
    /// Write or read.
    pub write: bool,
    /// Whose it is.
    pub owner: Owner,
}

/// Where the bytes of a page to be kept are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// They were read for this request, which is answered next.
    Read(RequestId),
    /// They are those of this destage, which is released next.
    Destage(u32),
}

/// Rows that are read together: the same pages of all disks of the array, or of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ScrubChunk {
    /// The write group they are in.
    pub group: GroupId,
    /// First disk.
    pub disk: DiskId,
    /// Disks from there on.
    pub disks: u16,
    /// First page on each.
    pub first: u64,
    /// Pages on each: rows.
    pub pages: u32,
}
