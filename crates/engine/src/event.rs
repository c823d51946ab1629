//! What goes into the controller and what comes out of it.

use crate::array::disks::RowDisks;
use crate::array::plan::DiskRun;
use crate::request::{HostError, HostRequest, PageRange, RequestId};
use crate::units::{DiskId, GroupId, Page};

/// What a driver reports to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A host request arrived.
    Host(HostRequest),
    /// The host no longer needs these pages. Appended to the log like a write, but it carries no
    /// data and needs no space. What is held of the pages is not destaged any more.
    Discard(RequestId, PageRange),
    /// The append of this write or discard is durable. Appends complete in the order in which they
    /// were requested.
    NvsDone(RequestId),
    /// The same for a write of which the NVS has only some sectors of the first page, or the last:
    /// what else is in these pages is still on the disks.
    NvsDoneInPart {
        /// The write.
        id: RequestId,
        /// The first page is incomplete.
        first: bool,
        /// The last page is; of a write of one page either will do.
        last: bool,
    },
    /// [`crate::controller::Controller::withdraw`] took out writes that waited: those behind them
    /// may begin.
    Withdrawn,
    /// A disk command completed.
    DiskDone(DiskId, Owner),
    /// A disk command failed. If the disk has failed with it, [`Event::DiskFailed`] comes first.
    DiskError(DiskCommand),
    /// A disk has failed: it gets no more commands. Also at a start, for each failed disk.
    DiskFailed(DiskId),
    /// The disk cannot carry out a command now (it is full). The driver retries it later; until
    /// then the command takes no place in the disk's window.
    DiskWaits(DiskId),
    /// Such a command is retried.
    DiskTriesAgain(DiskId),
    /// A spare replaces a failed disk, under its number: rebuild it. Its pages below `from`, a
    /// checkpoint, are rebuilt already. All commands to the old disk must have completed.
    Rebuild {
        /// The disk.
        disk: DiskId,
        /// First page that is not known to be rebuilt.
        from: u64,
    },
    /// A failed disk is in sync again without having been rebuilt here.
    Repaired(DiskId),
    /// The pages of this window of a rebuild are computed: they may be written.
    Regenerated(u32),
    /// The time of [`crate::controller::Controller::deadline`] has come.
    Tick,
    /// The intent of this destage is durable, and its parity computed.
    Intended(u32),
    /// After `Intend`: a row of this destage cannot be computed from what can be read. Its pages
    /// stay in the NVS until `TryKept`.
    NotComputable(u32),
    /// Retry destages that could not be computed.
    TryKept,
    /// The disks that this destage wrote are flushed; `false`: one of them failed.
    Flushed(u32, bool),
    /// Destage everything at full depth, whatever the rate, until the NVS is empty or a host
    /// write arrives.
    Flush,
    /// Read all rows and compare them (`scrub.rs`); only on levels with redundancy.
    ScrubStart,
    /// Grants the scrub this many more pages.
    ScrubAllow(u64),
    /// After `ScrubCompare` of a chunk: a run of it must be rewritten.
    ScrubRepair(u32, DiskRun),
    /// The driver has compared a chunk.
    ScrubCompared(u32),
    /// Read no further chunk; `ScrubEnded` follows.
    ScrubStop,
}

/// What the driver must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make these pages durable in the NVS, then report `NvsDone`.
    NvsAppend {
        /// The write.
        id: RequestId,
        /// Its pages.
        range: PageRange,
    },
    /// A destage begins ([`crate::destage::phases::Protocol::Safe`]);
    /// [`crate::controller::Controller::destage_mask`] has its pages.
    Begin {
        /// Its number, until it is released.
        index: u32,
        /// The group.
        group: GroupId,
    },
    /// All reads of a destage are done: compute parity, make the intent durable, then
    /// report `Intended`.
    Intend {
        /// The destage.
        index: u32,
    },
    /// Flush the disks that a destage has written since its last flush, then report `Flushed`.
    FlushDisks {
        /// The destage.
        index: u32,
    },
    /// Like `NvsRelease`, under [`crate::destage::phases::Protocol::Safe`].
    Released {
        /// The destage.
        index: u32,
        /// The group.
        group: GroupId,
        /// How many pages.
        pages: u64,
    },
    /// What was read for this host read is not usable; it will be read again.
    ReadAgain {
        /// The read, as in its commands' owner.
        index: u32,
        /// The request.
        id: RequestId,
    },
    /// From now on nothing writes the rows at these pages of the disks, until this host read ends.
    /// What it reads of them from now on is consistent.
    ReadRows {
        /// The read, as in its commands' owner.
        index: u32,
        /// First page on each disk.
        first: u64,
        /// Pages.
        pages: u32,
    },
    /// This host read, which had to wait, begins now. What is held of its pages now will not be
    /// read from the disks: it may leave the NVS before the read is answered, so keep it.
    ReadNow {
        /// The request.
        id: RequestId,
        /// First and last of its pages that are not held; `None`: all are.
        missing: Option<(Page, Page)>,
    },
    /// After [`Action::ReadNow`]: these pages between its first and its last are held or cached,
    /// and are not read. The engine may forget them in the same step.
    LeftOut {
        /// The request.
        id: RequestId,
        /// The pages.
        range: PageRange,
    },
    /// All of a chunk that can be read is read: report what must be rewritten, then
    /// `ScrubCompared`.
    ScrubCompare {
        /// The chunk's number, until it is done.
        index: u32,
        /// Its rows.
        chunk: ScrubChunk,
    },
    /// A chunk is read, compared, and rewritten where that was requested.
    ScrubDone {
        /// The chunk.
        index: u32,
        /// `false`: a disk failed in the meantime.
        whole: bool,
    },
    /// The scrub is over.
    ScrubEnded {
        /// All rows were read.
        whole: bool,
    },
    /// Read or write a disk, then report `DiskDone`.
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
    /// The read cache no longer holds this page.
    Drop {
        /// The page.
        page: Page,
    },
    /// All reads of a window of a rebuild are done: compute the disk's pages, then
    /// report `Regenerated`.
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
    /// A rebuild has come this far. A driver that keeps checkpoints flushes the disk, then persists
    /// this one.
    Checkpoint {
        /// The disk being rebuilt.
        disk: DiskId,
        /// Its pages below are rebuilt.
        below: u64,
    },
    /// A disk is rebuilt: it is in sync.
    Rebuilt {
        /// The disk.
        disk: DiskId,
    },
    /// A rebuild has failed: its disk failed, or too many others did.
    RebuildStopped {
        /// The disk.
        disk: DiskId,
    },
    /// A page of a disk being rebuilt cannot be computed: too much of its row is unreadable. The
    /// rebuild writes other bytes there.
    Unrecoverable {
        /// The disk being rebuilt.
        disk: DiskId,
        /// The page of it.
        page: u64,
    },
    /// A page of a row that a destage would read is in the stripe memory: it counts as read.
    Recall {
        /// The destage.
        index: u32,
        /// The disk.
        disk: DiskId,
        /// The row: a page of each disk.
        row: u64,
    },
    /// The stripe memory has these pages of a row from now on, as this destage wrote them, besides
    /// those that it has. The destage is released next.
    Remember {
        /// The destage.
        index: u32,
        /// The row: a page of each disk.
        row: u64,
        /// The disks.
        disks: RowDisks,
    },
    /// The stripe memory no longer has this row.
    Forget {
        /// The row: a page of each disk.
        row: u64,
    },
    /// It no longer has any.
    ForgetAll,
    /// These pages of a group are on the disks: their NVS space may be used again.
    NvsRelease {
        /// The group.
        group: GroupId,
        /// How many pages.
        pages: u64,
    },
}

/// What a disk command is for.
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
    /// What it is for.
    pub owner: Owner,
}

/// Where the bytes of a page to be kept are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// They were read for this request, which is answered next.
    Read(RequestId),
    /// They are part of this destage, which is released next.
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
