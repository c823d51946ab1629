//! The scripts: three host writes, a flush and a discard each, on a small array.

use crate::case::{Case, Wanted};
use crate::load::{Kind, Request};
use crate::run::{End, Run};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::flushes::Durability;
use destage_engine::units::PAGE_BYTES;
use destage_engine::{policy, rate};
use destage_nvslog::sizes::Sizes;
use destage_served::{Ack, Defect};

/// What the host or the operator does.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Gives the array a request, and waits for nothing.
    Ask(Request),
    /// Waits for all answers.
    Answered,
    /// Begins to destage everything.
    Destage,
    /// Destages everything and waits for it.
    Drained,
    /// Waits until the log has confirmed itself.
    Quiet,
}

/// A script.
#[derive(Debug)]
pub struct Script {
    /// Its name.
    pub name: &'static str,
    /// Members.
    pub disks: u16,
    /// Pages of a strip, and of a member.
    pub pages: (u64, u64),
    /// Stripes of a write group.
    pub group_stripes: u64,
    /// Slots of an NVS device, and most dirty pages.
    pub slots: (u32, u64),
    /// When a write is acknowledged.
    pub ack: Ack,
    /// The power also fails in the start before the steps.
    pub from_start: bool,
    /// One crash alone, and the first order alone.
    pub brief: bool,
    /// Comes first, without crashes, after all pages were written and destaged.
    prepare: &'static [Step],
    /// Where the power fails.
    steps: &'static [Step],
}

const PAGE: u64 = PAGE_BYTES;

const fn ask(kind: Kind, offset: u64, bytes: u64) -> Step {
    Step::Ask(Request { kind, offset, bytes, fua: false })
}

const fn write(offset: u64, bytes: u64) -> Step {
    ask(Kind::Write, offset, bytes)
}

const fn trim(page: u64) -> Step {
    ask(Kind::Trim, page * PAGE, PAGE)
}

const FLUSH: Step = ask(Kind::Flush, 0, 0);

/// A part of a page, a page, and a stripe over the part while that is being destaged.
const PARTS: &[Step] = &[
    write(3 * 512, 512),
    Step::Answered,
    write(2 * PAGE, PAGE),
    FLUSH,
    Step::Answered,
    Step::Destage,
    write(0, 2 * PAGE),
    Step::Answered,
    trim(2),
    Step::Answered,
    Step::Drained,
    Step::Quiet,
];

/// A stripe, bytes of a part of it while it is being destaged, and a page of the other row.
const STRIPE: &[Step] = &[
    write(0, 2 * PAGE),
    Step::Answered,
    Step::Destage,
    write(100, 700),
    Step::Answered,
    trim(1),
    write(3 * PAGE, PAGE),
    FLUSH,
    Step::Answered,
    Step::Drained,
    Step::Quiet,
];

/// All at once.
const TOGETHER: &[Step] = &[
    write(PAGE + 512, 1024),
    write(PAGE, PAGE),
    write(2 * PAGE, 2 * PAGE),
    FLUSH,
    trim(0),
    Step::Answered,
    Step::Drained,
    Step::Quiet,
];

/// The same page again and again, when the next slots are those that it has just left.
const SLOTS: &[Step] = &[
    write(0, PAGE),
    write(5 * 512, 512),
    write(0, 2 * PAGE),
    Step::Answered,
    FLUSH,
    trim(3),
    Step::Answered,
    Step::Drained,
    Step::Quiet,
];

/// A dirty page in the first slot, and one that has just left each of the others but the last two.
const AROUND: &[Step] = &[
    write(0, PAGE),
    Step::Answered,
    write(3 * PAGE, PAGE),
    Step::Answered,
    write(3 * PAGE, PAGE),
    Step::Answered,
    write(3 * PAGE, PAGE),
    Step::Answered,
    write(3 * PAGE, PAGE),
    Step::Answered,
    write(3 * PAGE, PAGE),
    Step::Answered,
];

/// A stripe of ten rows, whose commit has more than one sector.
const LONG: &[Step] = &[
    write(0, 20 * PAGE),
    FLUSH,
    Step::Answered,
    write(3 * PAGE, PAGE),
    write(12 * PAGE + 512, 512),
    trim(7),
    Step::Answered,
    Step::Drained,
    Step::Quiet,
];

/// A page and a part of a page in rows of four data pages, then a stripe.
const WIDE: &[Step] = &[
    write(PAGE, PAGE),
    write(5 * PAGE + 512, 512),
    Step::Answered,
    Step::Destage,
    write(0, 4 * PAGE),
    FLUSH,
    Step::Answered,
    trim(6),
    Step::Answered,
    Step::Drained,
    Step::Quiet,
];

/// Two pages with a clean row between them, whose parity is written back with theirs.
const APART: &[Step] = &[
    write(0, PAGE),
    write(2 * PAGE, PAGE),
    FLUSH,
    trim(4),
    Step::Answered,
    Step::Drained,
    Step::Quiet,
];

const SMALL: Script = Script {
    name: "parts",
    disks: 3,
    pages: (1, 2),
    group_stripes: 1,
    slots: (8, 4),
    ack: Ack::Nvs,
    from_start: false,
    brief: false,
    prepare: &[],
    steps: PARTS,
};

/// All scripts.
pub const SCRIPTS: &[Script] = &[
    SMALL,
    Script { name: "stripe", steps: STRIPE, ..SMALL },
    Script { name: "together", group_stripes: 2, steps: TOGETHER, ..SMALL },
    Script { name: "slots", pages: (1, 3), slots: (7, 6), prepare: AROUND, steps: SLOTS, ..SMALL },
    Script {
        name: "start",
        from_start: true,
        prepare: &[write(PAGE, PAGE), write(3 * PAGE + 512, 512), Step::Answered],
        steps: &[write(0, PAGE), Step::Answered],
        ..SMALL
    },
    Script { name: "late", ack: Ack::Flush, ..SMALL },
    Script { name: "wide", disks: 5, slots: (14, 8), steps: WIDE, ..SMALL },
    Script {
        name: "apart",
        disks: 5,
        pages: (3, 3),
        slots: (20, 12),
        brief: true,
        steps: APART,
        ..SMALL
    },
    Script { name: "long", pages: (10, 10), slots: (44, 20), brief: true, steps: LONG, ..SMALL },
];

impl Script {
    /// The script of this name.
    pub fn named(name: &str) -> Option<&'static Script> {
        SCRIPTS.iter().find(|script| script.name == name)
    }

    /// Its array.
    pub(super) fn case(&self, nvs: u16, defect: Defect) -> Case {
        let wanted = Wanted {
            level: Some(Level::Raid5),
            ack: Some(self.ack),
            nvs: Some(nvs),
            read_cache: Some(false),
            rebuilds: true,
            scrubs: true,
            defect,
            ..Wanted::default()
        };
        let mut case = Case::draw(1, &wanted);
        let Script { disks, pages: (strip_pages, disk_pages), group_stripes, .. } = *self;
        let level = Level::Raid5;
        let geometry = Geometry { level, disks, strip_pages, group_stripes, disk_pages };
        case.geometry = geometry.checked().expect("an array");
        (case.block_bytes, case.faults) = (512, false);
        let (slots, dirty_pages) = self.slots;
        case.nvs_sizes = Some(Sizes { ring_blocks: 64, slots, dirty_pages });
        let settings = &mut case.settings;
        settings.policy = policy::choose("lrw").expect("of the table");
        // Little is destaged before it is asked for.
        settings.rate = rate::choose("linear:95/90").expect("of the table");
        (settings.queue_depth, settings.window, settings.cache_off) = (3, 3, false);
        settings.durability = vec![Durability::Flush; usize::from(disks)];
        case
    }

    /// Everything before the steps.
    pub(super) fn prepare(&self, run: &mut Run) -> Result<(), String> {
        run.open()?;
        let bytes = run.bytes();
        carry_out(run, &[write(0, bytes), Step::Answered, Step::Drained, Step::Quiet])?;
        carry_out(run, self.prepare).map(|_| ())
    }

    /// The steps.
    pub(super) fn carry_out(&self, run: &mut Run) -> Result<End, String> {
        carry_out(run, self.steps)
    }
}

fn carry_out(run: &mut Run, steps: &[Step]) -> Result<End, String> {
    for step in steps {
        let end = match step {
            Step::Ask(request) => run.submit(*request).map(|()| End::Done),
            Step::Answered => run.answered(),
            Step::Destage => run.flush_cache().map(|()| End::Done),
            Step::Drained => run.drained(),
            Step::Quiet => run.quiet().map(|()| End::Done),
        };
        if end? == End::Crash || run.world.crashed {
            return Ok(End::Crash);
        }
    }
    Ok(End::Done)
}
