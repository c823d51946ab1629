//! Tests of what a destage does next, of the stripe memory and of kept destages, without an array.

use super::DestagePhase::{
    Data, DataFlush, Held, Intending, Kept, Locked, Parity, ParityFlush, Reading,
};
use super::*;
use crate::array::disks::RowDisks;
use crate::array::geometry::Level;
use crate::conditions::{NoHeads, WaitingReads};
use crate::counters::Counters;
use crate::destage::{DestageConfig, StripeMemoryState};
use crate::dispatch::{Dispatch, Order};
use crate::event::DiskCommand;
use crate::faults::Faults;
use crate::idle::IdleTime;
use crate::limits::Limits;
use crate::nvs::directory::Directory;
use crate::policy::{self, PolicyContext};
use crate::rate;
use crate::readcache::coherent::CoherentCache;
use crate::rebuild::Rebuilds;
use crate::sequential::Detector;
use crate::state::ArrayState;
use crate::units::{DiskId, Instant, PageCount};
use crate::writecache::WriteCache;

const PHASES: [DestagePhase; 9] =
    [Reading, Held, Intending, Kept, Locked, Parity, ParityFlush, Data, DataFlush];

/// What destages work on: level 5 on three disks, groups of two pages, each in one row.
struct Array {
    state: ArrayState,
    cache: WriteCache,
    read_cache: CoherentCache,
    rebuilds: Rebuilds,
    actions: Vec<Action>,
}

impl Array {
    fn new() -> Array {
        let (level, strip_pages, group_stripes, disk_pages) = (Level::Raid5, 1, 1, 64);
        let geometry = Geometry { level, disks: 3, strip_pages, group_stripes, disk_pages };
        let (groups, group_pages) = (geometry.groups(), geometry.pages_per_group());
        let context = PolicyContext {
            nvs_pages: 100,
            groups,
            group_pages,
            disks: 3,
            queue_depth: 8,
            high: 9000,
            low: 8000,
            mirrored: false,
        };
        let policy = policy::choose("lrw").expect("a policy").build(&context).expect("made");
        let directory = Directory::new(PageCount(100), group_pages, groups);
        Array {
            state: ArrayState {
                geometry,
                dispatch: Dispatch::new(3, 8, Order::Arrival, disk_pages),
                faults: Faults::default(),
                idle: IdleTime::new(3),
                counters: Counters::default(),
                now: Instant::ZERO,
                paused: false,
            },
            cache: WriteCache::new(directory, Detector::Off, policy),
            read_cache: CoherentCache::default(),
            rebuilds: Rebuilds::default(),
            actions: Vec::new(),
        }
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut Surroundings<'_>) -> T) -> T {
        work(&mut Surroundings {
            state: &mut self.state,
            cache: &mut self.cache,
            read_cache: &mut self.read_cache,
            rebuilds: &self.rebuilds,
            reads: WaitingReads::default(),
            heads: &NoHeads,
            actions: &mut self.actions,
        })
    }

    /// The disk commands that were issued: disk, first page, pages.
    fn commands(&mut self) -> Vec<(u16, u64, u32)> {
        let command = |action| match action {
            Action::Disk(DiskCommand { disk, first, pages, .. }) => (disk.0, first, pages),
            other => panic!("{other:?}"),
        };
        self.actions.drain(..).map(command).collect()
    }
}

/// A destage of both pages of a group.
fn destage(group: u64, counted: u32, phase: DestagePhase, redo: bool) -> Destage {
    let safe = SafeState { phase, redo, ..SafeState::default() };
    Destage { group: GroupId(group), mask: vec![0b11], counted, safe, ..Destage::default() }
}

/// The destages of an array with this many pages of stripe memory.
fn with_memory(stripe_memory: u64, destages: Vec<Destage>) -> Destager {
    let rate = rate::choose("linear").expect("a rate").build(100).expect("made");
    let protocol = Protocol::Safe;
    let config = DestageConfig { protocol, stripe_memory, ..DestageConfig::default() };
    Destager { destages, ..Destager::new(rate, config) }
}

fn destager(destages: Vec<Destage>) -> Destager {
    with_memory(0, destages)
}

/// What is said of group 7, of which this is the destage: a scrub waits for it, it is kept, it is
/// kept with rows that may be inconsistent, it has such rows, it waits for reads.
fn said(destage: Destage) -> [bool; 5] {
    let all = destager(vec![destage]);
    let of = |group| {
        [
            all.works_on(group),
            all.keeps(group),
            all.is_kept_unsettled(group),
            all.unsettled(group),
            all.waits_for_reads(group),
        ]
    };
    assert_eq!(of(GroupId(8)), [false; 5], "another group");
    of(GroupId(7))
}

#[test]
fn rows_are_unsettled_from_the_first_write_on_and_while_they_are_redone() {
    let unsettled =
        |redo| PHASES.map(|phase| destager(vec![destage(7, 1, phase, redo)]).unsettled(GroupId(7)));
    assert_eq!(unsettled(false), [false, false, false, false, false, true, true, true, true]);
    assert_eq!(unsettled(true), [true; 9]);
}

#[test]
fn what_is_said_of_a_group_depends_on_its_destage_in_flight() {
    let of = |phase, redo| said(destage(7, 1, phase, redo));
    assert_eq!(of(Reading, false), [true, false, false, false, false]);
    assert_eq!(of(Reading, true), [true, false, false, true, false]);
    assert_eq!(of(Locked, false), [true, false, false, false, true]);
    assert_eq!(of(Data, false), [true, false, false, true, false]);
    assert_eq!(of(Kept, false), [false, true, false, false, false]);
    assert_eq!(of(Kept, true), [true, true, true, true, false]);
    for phase in PHASES {
        let none = [false, true].map(|redo| said(destage(7, 0, phase, redo)));
        assert_eq!(none, [[false; 5]; 2], "none is in flight: {phase:?}");
    }
}

#[test]
fn kept_and_planned_destages_are_listed() {
    let held = Destage { held: true, ..destage(4, 1, Reading, false) };
    let all = destager(vec![
        destage(1, 1, Kept, false),
        destage(2, 0, Kept, false),
        destage(3, 2, Kept, true),
        held,
        destage(5, 1, Reading, false),
        destage(6, 0, DataFlush, false),
        destage(7, 1, Data, true),
    ]);
    assert_eq!(all.kept().collect::<Vec<_>>(), [1, 3].map(GroupId));
    assert_eq!(all.planned().collect::<Vec<_>>(), [5, 7].map(GroupId));
    assert_eq!((all.is_redo(2), all.is_redo(4), all.mask(4)), (true, false, &[0b11][..]));
}

#[test]
fn rows_are_in_doubt_that_a_kept_destage_may_have_written_in_part() {
    let in_doubt = |level, doubt: Option<u64>, phase, redo| {
        let mut destage = destage(7, 1, phase, redo);
        destage.mask = vec![0b0001];
        destage.safe.doubt = doubt.map(|pages| vec![pages]);
        let all = destager(vec![destage]);
        let (strip_pages, group_stripes, disk_pages) = (2, 1, 64);
        let geometry = Geometry { level, disks: 4, strip_pages, group_stripes, disk_pages };
        let rows = (0..disk_pages).filter(|page| all.is_in_doubt(&geometry, *page));
        rows.collect::<Vec<u64>>()
    };
    assert_eq!(in_doubt(Level::Raid5, None, Kept, true), [14], "of its page");
    assert_eq!(in_doubt(Level::Raid5, Some(0b1010), Kept, true), [15], "of those of the log");
    assert_eq!(in_doubt(Level::Raid5, Some(0), Kept, true), [0; 0]);
    assert_eq!(in_doubt(Level::Raid5, None, Kept, false), [0; 0], "nothing is written");
    assert_eq!(in_doubt(Level::Raid5, None, Reading, true), [0; 0], "it is not kept");
    assert_eq!(in_doubt(Level::Raid10, None, Kept, true), [0; 0], "rows have no parity");
}

#[test]
fn a_failed_disk_invalidates_the_plans_of_destages_that_have_written_nothing() {
    let mut all = destager(PHASES.map(|phase| destage(1, 1, phase, false)).into());
    all.destages.push(destage(1, 0, Reading, false));
    all.disk_failed();
    let invalid: Vec<bool> = all.destages.iter_mut().map(|d| d.safe.take_invalid()).collect();
    assert_eq!(invalid, [true, true, true, true, true, false, false, false, false, false]);
    assert!(all.destages.iter().all(|destage| !destage.safe.invalid), "the marks are taken");
    all.invalidate_plan(7);
    assert!(all.destages[7].safe.take_invalid(), "a write of it failed");
}

#[test]
fn a_destage_is_planned_again_as_a_redo_if_its_intent_may_be_durable() {
    let again = |phase, redo| {
        let mut destage = destage(1, 1, phase, redo);
        destage.safe.invalid = true;
        let (mut all, mut array) = (destager(vec![destage]), Array::new());
        assert!(!array.with(|around| all.next_phase(0, around)), "no space is free");
        assert_eq!(array.actions, [Action::Intend { index: 0 }]);
        (all.is_redo(0), all.destages[0].safe.doubt.clone())
    };
    assert_eq!(again(Reading, false), (false, None));
    assert_eq!(again(Reading, true), (true, None));
    assert_eq!(again(Intending, false), (true, Some(vec![0])), "nothing is written yet");
    assert_eq!(again(Locked, false), (true, Some(vec![0])));
    assert_eq!(again(Intending, true), (true, None));
    assert_eq!(again(Data, false), (true, None));
}

#[test]
fn an_adopted_destage_is_a_redo_if_any_row_may_be_written_in_part() {
    let adopted = |doubt| {
        let (mut all, mut array) = (destager(Vec::new()), Array::new());
        array.with(|around| all.adopt(GroupId(3), &[0b11], vec![doubt], around));
        (all.is_redo(0), all.in_flight(), all.destages[0].safe.doubt.clone())
    };
    assert_eq!(adopted(0), (false, 1, Some(vec![0])));
    assert_eq!(adopted(0b10), (true, 1, Some(vec![0b10])));
}

/// Until then those of the last run are: it is not known which it had written.
#[test]
fn all_rows_of_a_redo_are_in_doubt_once_it_writes() {
    let mut destage = destage(1, 1, Intending, true);
    destage.safe.doubt = Some(vec![0b01]);
    let (mut all, mut array) = (destager(vec![destage]), Array::new());
    array.with(|around| all.next_phase(0, around));
    assert_eq!((all.is_redo(0), &all.destages[0].safe.doubt), (true, &None));
}

/// Parity is on disk 1 in the row of group 1.
#[test]
fn a_full_stripe_is_written_at_once_and_other_parity_before_the_data() {
    let written = |mask: u64| {
        let mut destage = destage(1, 1, Reading, false);
        destage.mask = vec![mask];
        let (mut all, mut array) = (destager(vec![destage]), Array::new());
        array.with(|around| all.plan_safely(0, false, around));
        array.actions.clear();
        all.destages[0].pending = 0;
        all.destages[0].safe.phase = Intending;
        array.with(|around| all.next_phase(0, around));
        (array.commands(), all.destages[0].safe.phase)
    };
    assert_eq!(written(0b11), (vec![(1, 1, 1), (0, 1, 1), (2, 1, 1)], Data));
    assert_eq!(written(0b01), (vec![(1, 1, 1)], Parity));
}

#[test]
fn the_destage_that_waits_for_a_group_continues_when_it_is_unlocked() {
    let locked = |group, counted| destage(group, counted, Locked, false);
    let reads = destage(1, 1, Reading, false);
    let mut all = destager(vec![locked(1, 0), reads, locked(2, 1), locked(1, 1)]);
    let mut array = Array::new();
    array.with(|around| all.on_group_unlocked(GroupId(1), around));
    assert_eq!(array.actions, [Action::FlushDisks { index: 3 }], "it has nothing to write");
}

#[test]
fn the_destage_of_a_group_begins_when_a_scrub_releases_it() {
    let held = |group, counted| destage(group, counted, Held, false);
    let reads = destage(1, 1, Reading, false);
    let mut all = destager(vec![held(1, 0), reads, held(2, 1), held(1, 1)]);
    let mut array = Array::new();
    array.with(|around| all.on_group_released(GroupId(1), around));
    assert_eq!(array.actions, [Action::Intend { index: 3 }], "a full stripe needs no reads");
}

/// The destages that are retried now, of full stripes: they need no reads.
fn retried(all: &mut Destager, array: &mut Array) -> Vec<u32> {
    array.with(|around| all.try_kept(around));
    let intends = |action| match action {
        Action::Intend { index } => index,
        other => panic!("{other:?}"),
    };
    array.actions.drain(..).map(intends).collect()
}

#[test]
fn eight_kept_destages_are_retried_at_once_and_in_turn() {
    let mut all = destager((0..20).map(|group| destage(group, 3, Kept, false)).collect());
    let mut array = Array::new();
    for indexes in [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15]] {
        assert_eq!(retried(&mut all, &mut array), indexes);
        assert_eq!(all.in_flight(), 24);
        indexes.into_iter().for_each(|index| all.keep(index));
        assert_eq!(all.in_flight(), 0, "what is kept does not count");
    }
    assert_eq!(retried(&mut all, &mut array), [16, 17, 18, 19, 0, 1, 2, 3]);
}

#[test]
fn a_kept_destage_is_not_retried_while_a_scrub_has_its_rows() {
    let mut all = destager((0..3).map(|group| destage(group, 1, Kept, false)).collect());
    let mut array = Array::new();
    array.state.faults.locks.hold(GroupId(1));
    assert_eq!(retried(&mut all, &mut array), [0, 2]);
    assert!(all.keeps(GroupId(1)) && all.in_flight() == 2);
    array.state.faults.locks.release(GroupId(1));
    assert_eq!(retried(&mut all, &mut array), [1], "the others are in flight");
}

/// The window has read the row, and would write the page as it was before the destage.
#[test]
fn a_kept_destage_is_not_retried_while_a_rebuild_has_its_rows() {
    let mut all = destager((0..3).map(|group| destage(group, 1, Kept, false)).collect());
    let mut array = Array::new();
    array.rebuilds.set_limits(Limits { window_pages: 2, depth: 1, ..Limits::default() });
    array.rebuilds.begin(DiskId(0), 1, &mut array.state);
    array.rebuilds.pump(&mut array.state, core::iter::empty::<GroupId>, &mut array.actions);
    array.actions.clear();
    assert_eq!(retried(&mut all, &mut array), [0]);
    array.rebuilds.end(DiskId(0), false, &mut array.state, &mut array.actions);
    array.actions.clear();
    assert_eq!(retried(&mut all, &mut array), [1, 2]);
}

#[test]
fn what_cannot_be_read_is_read_page_by_page_and_then_from_the_other_disks() {
    let (mut all, mut array) = (destager(vec![destage(1, 1, Reading, false)]), Array::new());
    let run = DiskRun { disk: DiskId(0), first: 3, pages: 2 };
    array.with(|around| all.read_peers(0, run, around));
    assert_eq!(array.commands(), [(0, 3, 1), (0, 4, 1)]);
    let page = DiskRun { pages: 1, ..run };
    array.with(|around| all.read_peers(0, page, around));
    assert_eq!(array.commands(), [(1, 3, 1), (2, 3, 1)]);
    array.with(|around| all.read_peers(0, page, around));
    assert_eq!((array.commands(), all.destages[0].pending), (vec![], 4), "it is known");
    // A command over pages that the plan does not need: it is planned again with fewer.
    all.destages[0].safe.bridged = true;
    array.with(|around| all.read_peers(0, run, around));
    let safe = &mut all.destages[0].safe;
    assert!(array.actions.is_empty() && safe.invalid && safe.narrow && !safe.bridged);
    // The next destage may join its reads again.
    safe.doubt = Some(vec![1]);
    safe.nothing_written();
    assert_eq!((safe.narrow, &safe.doubt), (false, &None));
}

/// What a destage does of which all is flushed: of a page of group 1, on disk 2. Parity is on disk
/// 1 in its row.
fn done(stripe_memory: u64, failed: Option<DiskId>) -> Vec<Action> {
    let mut destage = destage(1, 1, DataFlush, false);
    destage.mask = vec![0b01];
    let mut all = with_memory(stripe_memory, vec![destage]);
    all.in_flight = 1;
    let mut array = Array::new();
    array.cache.directory.put_in_flight(GroupId(1), &[0b01], Vec::new());
    array.state.faults.failed = failed.into_iter().collect();
    assert!(array.with(|around| all.next_phase(0, around)), "space is free");
    assert_eq!((all.in_flight(), &all.unused[..]), (0, &[0][..]));
    array.actions
}

#[test]
fn a_destage_of_an_intact_array_leaves_its_rows_in_the_stripe_memory() {
    let released = Action::Released { index: 0, group: GroupId(1), pages: 1 };
    let remember = Action::Remember { index: 0, row: 1, disks: RowDisks::of(0b110) };
    assert_eq!(done(8, None), [remember, released]);
    assert_eq!(done(8, Some(DiskId(0))), [released]);
    assert_eq!(done(0, None), [released], "there is no such memory");
}

#[test]
fn what_the_stripe_memory_had_is_read_in_a_redo_and_without_a_disk() {
    let mut array = Array::new();
    let geometry = array.state.geometry;
    let mut page = destage(1, 1, Reading, false);
    page.mask = vec![0b01];
    let mut all = with_memory(8, vec![page]);
    let remember = |all: &mut Destager, array: &mut Array| {
        let rows = geometry.rows(GroupId(1), &[0b01]);
        all.memory.destaged(0, &geometry, rows, &[0b01], &mut array.actions);
        array.actions.clear();
        assert_eq!(all.stripe_memory(), Some(StripeMemoryState { held: 2, pages: 8 }));
    };
    remember(&mut all, &mut array);
    array.with(|around| all.plan_safely(0, false, around));
    let recall = |disk| Action::Recall { index: 0, disk: DiskId(disk), row: 1 };
    assert_eq!(array.actions, [recall(2), recall(1), Action::Intend { index: 0 }]);
    assert_eq!(array.state.counters.recalled_pages, 2);
    array.actions.clear();
    array.with(|around| all.plan_safely(0, true, around));
    assert_eq!(array.actions.remove(0), Action::Forget { row: 1 });
    assert_eq!((array.commands(), array.state.counters.recalled_pages), (vec![(0, 1, 1)], 2));
    // So it is while a disk is failed, with rows that were written otherwise, and after a failure.
    remember(&mut all, &mut array);
    array.state.faults.failed.insert(DiskId(0));
    array.with(|around| all.plan_safely(0, false, around));
    assert_eq!(array.actions.remove(0), Action::Forget { row: 1 });
    assert_eq!(array.commands(), [(1, 1, 1), (2, 1, 1)]);
    remember(&mut all, &mut array);
    all.forget_run(DiskRun { disk: DiskId(0), first: 0, pages: 3 }, &mut array.actions);
    assert_eq!(array.actions, [Action::Forget { row: 1 }]);
    remember(&mut all, &mut array);
    all.forget_rows(&mut array.actions);
    all.forget_rows(&mut array.actions);
    assert_eq!(array.actions, [Action::ForgetAll], "once");
}
