//! What to destage: the policy trait and the table of policies. One file per policy.

mod cscan;
mod ebb;
mod history;
mod hybrid;
mod lists;
mod lrw;
mod lst;
mod ordered;
mod scan;
mod sparing;
mod stf;
mod stow;
mod streams;
mod wow;

use crate::conditions::Conditions;
use crate::nvs::directory::{Directory, Slot};
use crate::registry::{Choice, ChoiceError, Entry};
use crate::units::{Duration, GroupId};
use alloc::boxed::Box;
use alloc::sync::Arc;

/// What a policy may know when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyContext {
    /// NVS size in pages.
    pub nvs_pages: u64,
    /// Groups in the volume.
    pub groups: u64,
    /// Pages of a group.
    pub group_pages: u64,
    /// Disks in the array.
    pub disks: u64,
    /// Greatest number of destage writes in flight.
    pub queue_depth: u64,
    /// High threshold in hundredths of a per cent of the NVS.
    pub high: u64,
    /// Low threshold in hundredths of a per cent of the NVS.
    pub low: u64,
    /// Whether the array is mirrored.
    pub mirrored: bool,
}

/// One page written into a group. The directory has it already. It fits two registers.
#[derive(Clone, Copy, Debug)]
pub struct PageWrite {
    /// The group.
    pub group: GroupId,
    /// The group's slot.
    pub slot: Slot,
    flags: u32,
}

/// Properties of a written page.
#[derive(Clone, Copy, Debug)]
pub struct PageFacts {
    /// This page created the group.
    pub created: bool,
    /// The group existed before the request that the page belongs to.
    pub existed: bool,
    /// The page was held already.
    pub page_hit: bool,
    /// The detector calls the page sequential.
    pub sequential: bool,
    /// It is the last page of its group.
    pub last_page: bool,
}

impl PageWrite {
    /// Packs the properties of a page.
    #[inline]
    pub fn new(group: GroupId, slot: Slot, facts: PageFacts) -> PageWrite {
        let flags = u32::from(facts.created)
            | u32::from(facts.existed) << 1
            | u32::from(facts.page_hit) << 2
            | u32::from(facts.sequential) << 3
            | u32::from(facts.last_page) << 4;
        PageWrite { group, slot, flags }
    }

    #[inline]
    fn flag(self, bit: u32) -> bool {
        self.flags >> bit & 1 == 1
    }

    /// See [`PageFacts::created`].
    #[inline]
    pub fn created(self) -> bool {
        self.flag(0)
    }

    /// See [`PageFacts::existed`].
    #[inline]
    pub fn existed(self) -> bool {
        self.flag(1)
    }

    /// See [`PageFacts::page_hit`].
    #[inline]
    pub fn page_hit(self) -> bool {
        self.flag(2)
    }

    /// See [`PageFacts::sequential`].
    #[inline]
    pub fn sequential(self) -> bool {
        self.flag(3)
    }

    /// See [`PageFacts::last_page`].
    #[inline]
    pub fn last_page(self) -> bool {
        self.flag(4)
    }
}

/// A destage order. It keeps its own state by slot, and is called for every page written and every
/// group taken.
pub trait DestagePolicy: Send {
    /// A page was written.
    fn on_write(&mut self, write: PageWrite, now: &Conditions<'_>);

    /// Whether the policy uses [`PageWrite::sequential`]. If neither it nor the rate does, writes
    /// need no detector.
    fn needs_detector(&self) -> bool {
        true
    }

    /// Whether [`DestagePolicy::on_admitted`] must be called after each request and not only
    /// before a pick. Asked at first and after each such call.
    fn needs_each_request(&self) -> bool {
        false
    }

    /// The numbers of random and sequential write requests admitted since the last call. All their
    /// pages were passed to `on_write`. Occupancy is in pages. Called before each pick.
    fn on_admitted(&mut self, _random: u64, _sequential: u64, _occupancy: u64) {}

    /// Chooses a victim, which the policy forgets at once. The directory still holds it. Only
    /// called while some group may be picked; `None` if the policy found none.
    fn pick(&mut self, directory: &Directory, now: &Conditions<'_>) -> Option<Slot>;

    /// All pages of a destage of this group are on the disks. The group left the policy when it was
    /// picked, so most policies do nothing here.
    fn on_destaged(&mut self, _group: GroupId) {}

    /// How reads and destages take turns at each disk; `None`: they keep the array's order.
    fn alternation(&self) -> Option<Alternation> {
        None
    }

    /// Clean pages over which its destages join commands, where the array's settings leave that to
    /// the policy ([`crate::destage::DestageConfig::bridge`]).
    fn bridge(&self) -> u32 {
        0
    }

    /// The next candidate, as far as the policy knows without deciding.
    fn candidate(&self, directory: &Directory) -> Option<Slot>;

    /// Its state, for people to look at.
    fn gauges(&self, directory: &Directory) -> Gauges {
        let next = self.candidate(directory).map(|slot| directory.id(slot));
        Gauges { pointers: [next, None], queues: None }
    }
}

/// The state of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// The group that would be destaged next: of the one queue, or of the random and the
    /// sequential one.
    pub pointers: [Option<GroupId>; 2],
    /// The pages of each queue, if the policy has two.
    pub queues: Option<Queues>,
}

/// The two queues of STOW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// Pages in RanQ.
    pub random_pages: u64,
    /// Pages in SeqQ.
    pub sequential_pages: u64,
    /// DesiredSeqQSize, rounded; `None` before the low threshold was reached, or without it.
    pub desired_pages: Option<u64>,
}

/// Clean pages over which reads and writes of parity are joined: on disks of 10,000 rpm a distance
/// of more than these gains nothing (docs/simulator.md), and each costs the bytes of its transfer.
pub const BRIDGE: u32 = 8;

/// How host reads and destages take turns at each disk.
///
/// While host reads wait for a disk only they enter its drive. When few are left, destage commands
/// enter it, nearest to the last place first, until reads have waited too long or too many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternation {
    /// As many windows of reads may wait for the end of a burst when destages are urgent, twice as
    /// many when the NVS is full.
    pub held: u32,
    /// How long the oldest of them may wait when destages are urgent; twice that when it is full.
    pub longest: Duration,
    /// Mean distance of reads from the last place, in thousandths of the drive, below which no
    /// read is held, and disks keep the array's order while destages are urgent: the drive's own
    /// queue is good enough for short seeks. Below 1 GiB it is near on any drive; 0: never.
    pub near: u64,
    /// Whether the NVS is held fuller than the rate's thresholds say while hosts use much of it
    /// again.
    pub keep: bool,
}

/// A policy, or why it cannot be made.
pub type Made = Result<Box<dyn DestagePolicy>, ChoiceError>;

/// A table entry: what the policy is and how to make one.
pub struct PolicyEntry {
    /// Name, summary, source, parameters.
    pub entry: Entry,
    /// Makes the policy.
    pub make: fn(&Choice, &PolicyContext) -> Made,
}

/// All destage policies.
pub const POLICIES: &[PolicyEntry] = &[
    lrw::ENTRY,
    cscan::ENTRY,
    wow::ENTRY,
    stow::ENTRY,
    stow::SEQRAN,
    lst::ENTRY,
    stf::ENTRY,
    hybrid::ENTRY,
    ebb::ENTRY,
];

/// Parses `name:parameters`.
///
/// # Errors
/// An unknown name or parameter, or a value out of range.
pub fn choose(text: &str) -> Result<PolicyChoice, ChoiceError> {
    let entries: alloc::vec::Vec<&'static Entry> = POLICIES.iter().map(|p| &p.entry).collect();
    let choice = Choice::parse("policy", &entries, text)?;
    let policy = POLICIES.iter().find(|p| p.entry.name == choice.entry.name);
    let make = Make(Arc::new(policy.expect("the entry is in the table").make));
    let chosen = PolicyChoice { choice, make };
    // Values are checked now, not when the array is known.
    let context = PolicyContext {
        nvs_pages: 1024,
        groups: 1024,
        group_pages: 64,
        disks: 1,
        queue_depth: 20,
        high: 9000,
        low: 8000,
        mirrored: false,
    };
    chosen.build(&context)?;
    Ok(chosen)
}

/// What makes a policy.
type MakePolicy = dyn Fn(&Choice, &PolicyContext) -> Made + Send + Sync;

#[derive(Clone)]
struct Make(Arc<MakePolicy>);

impl core::fmt::Debug for Make {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Make")
    }
}

/// A policy chosen with its parameters.
#[derive(Clone, Debug)]
pub struct PolicyChoice {
    /// The entry and values.
    pub choice: Choice,
    make: Make,
}

impl PolicyChoice {
    /// A policy of the driver that is in no table, such as one written in Python.
    ///
    /// # Errors
    /// The text does not fit the entry.
    pub fn own(
        entry: &'static Entry,
        text: &str,
        make: impl Fn(&Choice, &PolicyContext) -> Made + Send + Sync + 'static,
    ) -> Result<PolicyChoice, ChoiceError> {
        let choice = Choice::parse("policy", &[entry], text)?;
        Ok(PolicyChoice { choice, make: Make(Arc::new(make)) })
    }

    /// Makes the policy.
    ///
    /// # Errors
    /// A value out of range.
    pub fn build(&self, context: &PolicyContext) -> Made {
        (self.make.0)(&self.choice, context)
    }
}
