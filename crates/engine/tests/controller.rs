//! The controller under random loads with disks that complete in random order: nothing is lost,
//! nothing destaged twice, occupancy is what is held, every policy drains to empty, waiting
//! requests keep their order. Runs for every entry of the policy, rate and level tables.

use destage_engine::array::geometry::{Geometry, LEVELS};
use destage_engine::controller::{Config, Controller};
use destage_engine::destage::phases::Protocol;
use destage_engine::destage::{Count, DestageConfig, Issue};
use destage_engine::dispatch::Order;
use destage_engine::event::{Action, DiskCommand, Event, Owner};
use destage_engine::policy::{self, POLICIES};
use destage_engine::rate::{self, RATES, Thresholds};
use destage_engine::request::{Direction, HostError, HostRequest, PageRange, RequestId};
use destage_engine::sequential::DetectorKind;
use destage_engine::units::{DiskId, GroupId, Instant, Page, PageCount};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A driver that completes appends in order and disk commands in any order.
struct Driver {
    controller: Controller,
    geometry: Geometry,
    actions: Vec<Action>,
    appends: VecDeque<(RequestId, PageRange)>,
    disks: Vec<DiskCommand>,
    /// Intents and flushes in flight.
    others: Vec<Event>,
    /// Pages acknowledged and not yet released, with how many copies (a page in flight may be
    /// written again).
    held: BTreeMap<u64, u32>,
    unanswered: BTreeSet<u64>,
    replies: Vec<(u64, Result<(), HostError>)>,
    now: u64,
    state: u64,
}

impl Driver {
    fn new(config: &Config, seed: u64) -> Driver {
        Driver {
            controller: Controller::new(config).expect("a valid configuration"),
            geometry: config.geometry,
            actions: Vec::new(),
            appends: VecDeque::new(),
            disks: Vec::new(),
            others: Vec::new(),
            held: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            replies: Vec::new(),
            now: 0,
            state: seed,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) % below
    }

    fn step(&mut self, event: Event) {
        self.now += 1;
        self.controller.step(Instant(self.now), event, &mut self.actions);
        for action in std::mem::take(&mut self.actions) {
            match action {
                Action::NvsAppend { id, range } => self.appends.push_back((id, range)),
                Action::Disk(command) => {
                    assert!(command.pages > 0);
                    let end = command.first + u64::from(command.pages);
                    assert!(end <= self.geometry.disk_pages, "past the end of a disk");
                    self.disks.push(command);
                }
                Action::Reply { id, result } => {
                    assert!(self.unanswered.remove(&id.0), "request {} answered twice", id.0);
                    self.replies.push((id.0, result));
                }
                Action::Intend { index } => self.others.push(Event::Intended(index)),
                Action::FlushDisks { index } => self.others.push(Event::Flushed(index, true)),
                Action::NvsRelease { .. } | Action::Released { .. } | Action::Begin { .. } => {}
                Action::Recall { .. } | Action::Remember { .. } | Action::Forget { .. } => {}
                _ => unreachable!("no disk fails, no read cache, no scrub was begun"),
            }
        }
        let capacity = self.controller.directory().capacity();
        assert!(self.controller.occupancy() <= capacity);
    }

    fn host(&mut self, id: u64, direction: Direction, first: u64, pages: u32) {
        self.unanswered.insert(id);
        let range = PageRange::new(Page(first), pages);
        self.step(Event::Host(HostRequest { id: RequestId(id), direction, range }));
    }

    /// Completes one append or disk command; returns whether there was one.
    fn complete_one(&mut self) -> bool {
        if !self.others.is_empty() && self.random(3) == 0 {
            let index = self.random(self.others.len() as u64) as usize;
            let event = self.others.swap_remove(index);
            self.step(event);
            return true;
        }
        let disk_first = self.random(2) == 0;
        if (disk_first || self.appends.is_empty()) && !self.disks.is_empty() {
            let index = self.random(self.disks.len() as u64) as usize;
            let command = self.disks.swap_remove(index);
            self.step(Event::DiskDone(command.disk, command.owner));
            true
        } else if let Some((id, range)) = self.appends.pop_front() {
            self.step(Event::NvsDone(id));
            for page in range.first.0..range.end().0 {
                *self.held.entry(page).or_default() += 1;
            }
            true
        } else if let Some(event) = self.others.pop() {
            self.step(event);
            true
        } else {
            false
        }
    }

    fn settle(&mut self) {
        while self.complete_one() {}
    }
}

/// A configuration of one kind or another; every fourth under the safe protocol.
fn config(level: usize, policy: &str, rate: &str, nvs_pages: u64, variant: u64) -> Config {
    let level = &LEVELS[level];
    let geometry = Geometry {
        level: level.level,
        disks: if level.entry.name == "single" { 1 } else { (level.disks_min + 2) & !1 },
        strip_pages: [4, 16, 20][(variant % 3) as usize],
        group_stripes: 1 + variant % 2,
        disk_pages: 16 * 20 * 4,
    };
    let safe = variant % 4 == 2;
    Config {
        geometry: geometry.checked().expect("a valid geometry"),
        nvs_pages: PageCount(nvs_pages),
        policy: policy::choose(policy).expect("a policy"),
        rate: rate::choose(rate).expect("a rate"),
        destage: DestageConfig {
            queue_depth: 1 + (variant % 7) as u32 * 3,
            count: if variant.is_multiple_of(5) { Count::Groups } else { Count::Runs },
            issue: if variant.is_multiple_of(3) && !safe { Issue::Runs } else { Issue::Group },
            protocol: if safe { Protocol::Safe } else { Protocol::Papers },
            defer: false,
            bridge: (variant % 4 != 3).then_some((variant % 4) as u32 * 2),
            stripe_memory: if level.level.parities() > 0 { variant % 3 * 20 } else { 0 },
        },
        detector: match variant % 4 {
            0 => DetectorKind::AdjacentGroups,
            _ => DetectorKind::Pages,
        },
        sequential_threshold: 16,
        window: 1 + (variant % 4) as u32,
        order: if variant.is_multiple_of(2) {
            Order::Arrival
        } else {
            Order::ReadsFirst { bound: 4 }
        },
    }
}

/// Random reads and writes, with completions in between; then drains and checks.
fn exercise(config: &Config, seed: u64, requests: u64) {
    let mut driver = Driver::new(config, seed);
    let volume = config.geometry.volume_pages().0;
    let mut written = BTreeSet::new();
    let mut next_sequential = 0;
    for id in 0..requests {
        let pages = (1 + driver.random(config.nvs_pages.0.min(24))) as u32;
        let first = match driver.random(4) {
            0 => next_sequential,
            1 => driver.random(64),
            _ => driver.random(volume),
        };
        let first = first.min(volume - u64::from(pages));
        next_sequential = (first + u64::from(pages)) % (volume - 64);
        let write = driver.random(4) != 0;
        let direction = if write { Direction::Write } else { Direction::Read };
        if write {
            written.extend(first..first + u64::from(pages));
        }
        driver.host(id, direction, first, pages);
        for _ in 0..driver.random(6) {
            driver.complete_one();
        }
    }
    driver.settle();
    assert!(driver.unanswered.is_empty(), "{} unanswered", driver.unanswered.len());
    check_held(&driver);
    driver.step(Event::Flush);
    driver.settle();
    let directory = driver.controller.directory();
    assert_eq!(driver.controller.occupancy(), PageCount(0), "drained");
    assert_eq!(directory.groups_held(), 0);
    assert_eq!(driver.controller.destages_in_flight(), 0);
    let counters = driver.controller.counters();
    let new_pages = counters.pages_written - counters.page_hits;
    assert_eq!(counters.destaged_pages, new_pages, "each page destaged once");
    assert!(written.len() as u64 <= new_pages);
    assert_eq!(driver.replies.len() as u64, requests);
}

/// What the directory says it holds is what was counted page by page.
fn check_held(driver: &Driver) {
    let directory = driver.controller.directory();
    let mut pages = 0;
    for slot in directory.slots() {
        let group = directory.id(slot);
        assert_eq!(directory.find(group), Some(slot));
        let per_group = directory.pages_per_group();
        let held = (0..per_group).filter(|bit| directory.holds(slot, *bit)).count() as u64;
        assert_eq!(held, directory.pages(slot));
        for bit in (0..per_group).filter(|bit| directory.holds(slot, *bit)) {
            let page = directory.first_page(group).offset(bit).0;
            assert!(driver.held.contains_key(&page), "holds page {page} that was never written");
        }
        pages += held;
    }
    assert_eq!(pages, directory.held_pages());
    assert_eq!(directory.held_pages(), driver.controller.occupancy().0);
}

#[test]
fn every_policy_rate_and_level_keeps_the_invariants() {
    for (p, policy) in POLICIES.iter().enumerate() {
        for (r, rate) in RATES.iter().enumerate() {
            for level in 0..LEVELS.len() {
                for (n, nvs_pages) in [24, 100, 640].into_iter().enumerate() {
                    let variant = (p * 7 + r * 5 + level * 3 + n) as u64;
                    let names = (policy.entry.name, rate.entry.name);
                    let config = config(level, names.0, names.1, nvs_pages, variant);
                    exercise(&config, variant + 1, 250);
                }
            }
        }
    }
}

#[test]
fn equal_events_give_equal_actions() {
    for policy in POLICIES {
        let config = config(4, policy.entry.name, "linear:70/40", 200, 1);
        let run = || {
            let mut driver = Driver::new(&config, 9);
            for id in 0..500 {
                let first = driver.random(500);
                driver.host(id, Direction::Write, first, 3);
                driver.complete_one();
            }
            driver.settle();
            (*driver.controller.counters(), driver.replies)
        };
        assert_eq!(run(), run());
    }
}

#[test]
fn a_write_waits_in_line_and_a_full_hit_overtakes() {
    let config = config(0, "lrw", "write-behind", 8, 1);
    let mut driver = Driver::new(&config, 1);
    driver.host(0, Direction::Write, 0, 8);
    driver.complete_one();
    assert_eq!(driver.replies.len(), 1, "admitted: eight pages of eight");
    driver.host(1, Direction::Write, 100, 2);
    driver.host(2, Direction::Write, 200, 1);
    assert_eq!(driver.controller.waiting(), 2);
    // Four of the pages are being destaged now, the other four are held.
    let hit = driver.controller.directory().slots().next();
    let hit = driver.controller.directory().id(hit.expect("something is held")).0;
    driver.host(3, Direction::Write, hit, 1);
    assert_eq!(driver.controller.waiting(), 2, "a request whose pages are all held overtakes");
    driver.settle();
    let order: Vec<u64> = driver.replies.iter().map(|r| r.0).collect();
    assert_eq!(order, [0, 3, 1, 2]);
    assert_eq!(driver.controller.counters().stalled_writes, 2);
}

/// A group of full stripes, then two pages of another one, in two rows.
#[test]
fn what_is_destaged_is_counted() {
    let level = LEVELS.iter().position(|level| level.level.parities() == 1).expect("a level");
    for variant in [0, 2] {
        let config = config(level, "lrw", "linear:90/80", 200, variant);
        let mut driver = Driver::new(&config, 1);
        let (strip, group) = (config.geometry.strip_pages, config.geometry.pages_per_group());
        driver.host(0, Direction::Write, 0, group as u32);
        driver.settle();
        driver.step(Event::Flush);
        driver.settle();
        driver.host(1, Direction::Write, 5 * group + 3, 1);
        driver.host(2, Direction::Write, 5 * group + strip + 1, 1);
        driver.settle();
        driver.step(Event::Flush);
        driver.settle();
        let counters = driver.controller.counters();
        assert_eq!((counters.destages, counters.destaged_pages), (2, group + 2), "{variant}");
        assert_eq!((counters.destaged_runs, counters.destage_distance_pages), (3, 5 * group + 3));
        assert_eq!((counters.rows, counters.rows_without_reads), (strip + 2, strip), "{variant}");
    }
}

#[test]
fn a_destage_counts_for_its_runs_or_as_one() {
    let counted = |count, issue| {
        let mut config = config(4, "lrw", "linear:90/80", 200, 1);
        (config.destage.count, config.destage.issue) = (count, issue);
        let mut driver = Driver::new(&config, 1);
        (0..3).for_each(|id| driver.host(id, Direction::Write, 2 * id, 1));
        driver.settle();
        driver.step(Event::Flush);
        driver.controller.destages_in_flight()
    };
    assert_eq!(counted(Count::Runs, Issue::Group), 3);
    assert_eq!(counted(Count::Runs, Issue::Runs), 1, "one run after the other");
    assert_eq!(counted(Count::Groups, Issue::Group), 1);
}

/// Of four pages two are discarded, and one of these is written again. The only page of another
/// group is discarded too.
#[test]
fn what_the_host_has_discarded_is_not_destaged() {
    let config = config(4, "lrw", "linear:90/80", 200, 1);
    let mut driver = Driver::new(&config, 1);
    let other = 5 * config.geometry.pages_per_group();
    driver.host(0, Direction::Write, 0, 4);
    driver.host(1, Direction::Write, other, 1);
    driver.settle();
    for (id, first, pages) in [(2, 1, 2), (3, other, 8)] {
        driver.unanswered.insert(id);
        driver.step(Event::Discard(RequestId(id), PageRange::new(Page(first), pages)));
    }
    driver.settle();
    driver.host(4, Direction::Write, 2, 1);
    driver.settle();
    assert_eq!(driver.controller.occupancy(), PageCount(5));
    driver.step(Event::Flush);
    driver.settle();
    let counters = driver.controller.counters();
    assert_eq!((counters.destages, counters.destaged_pages, counters.destaged_runs), (1, 3, 2));
    assert_eq!((driver.controller.occupancy(), driver.unanswered.len()), (PageCount(0), 0));
}

#[test]
fn another_rate_counts_from_the_next_event_on() {
    let config = config(4, "lrw", "linear:50/20", 200, 1);
    let mut driver = Driver::new(&config, 1);
    driver.host(0, Direction::Write, 0, 1);
    driver.settle();
    let thresholds = |driver: &Driver| {
        let Thresholds { high, low } = driver.controller.thresholds();
        (high, low)
    };
    assert_eq!((thresholds(&driver), driver.controller.destages_in_flight()), ((5000, 2000), 0));
    let (policy, rate) = (policy::choose("lrw").unwrap(), rate::choose("quick").unwrap());
    driver.controller.change(&policy, &rate).expect("in range");
    driver.step(Event::Tick);
    assert_eq!((thresholds(&driver), driver.controller.destages_in_flight()), ((9000, 8000), 1));
}

/// The NVS was full: from then on destages continue below 80 of its 100 pages.
#[test]
fn an_adaptive_rate_hears_of_the_occupancy() {
    let config = config(0, "lrw", "adaptive", 100, 1);
    let mut driver = Driver::new(&config, 1);
    for page in 0..100 {
        write(&mut driver, page, page);
    }
    assert_eq!(driver.controller.occupancy(), PageCount(100));
    driver.settle();
    let left = driver.controller.occupancy().0;
    assert!((65..75).contains(&left), "{left}");
}

/// All reads of its plan are done or failed: it is planned again.
#[test]
fn a_disk_that_fails_while_a_destage_reads_is_left_out_of_it() {
    let config = config(4, "lrw", "linear:90/80", 200, 1);
    let mut driver = Driver::new(&config, 1);
    driver.host(0, Direction::Write, 3, 1);
    driver.settle();
    driver.step(Event::Flush);
    let failed = driver.disks[0].disk;
    driver.step(Event::DiskFailed(failed));
    for command in std::mem::take(&mut driver.disks) {
        driver.step(match command.disk == failed {
            true => Event::DiskError(command),
            false => Event::DiskDone(command.disk, command.owner),
        });
    }
    let reads = |command: &DiskCommand| !command.write && command.disk != failed;
    assert!(!driver.disks.is_empty() && driver.disks.iter().all(reads), "{:?}", driver.disks);
    driver.settle();
    assert_eq!(driver.controller.occupancy(), PageCount(0));
}

/// Of six disks one has failed: a page of it needs the four others of its row, and else two.
#[test]
fn expensive_destages_of_a_degraded_array_are_deferred_once() {
    let mut config = config(4, "lrw", "linear:90/80", 200, 1);
    (config.geometry.disks, config.destage.defer) = (6, true);
    let mut driver = Driver::new(&config, 1);
    driver.step(Event::DiskFailed(DiskId(0)));
    let per_group = config.geometry.pages_per_group();
    for (id, group) in [(0, 0), (1, 3)] {
        let on_failed = |page: &u64| config.geometry.place(Page(*page)).disk == DiskId(0);
        let page = (group * per_group..).find(on_failed).expect("a page of the disk");
        assert_eq!(write(&mut driver, id, page), 0);
    }
    assert_eq!(driver.controller.deferrals(), 0);
    driver.step(Event::Flush);
    driver.settle();
    assert_eq!((driver.controller.deferrals(), driver.controller.occupancy()), (2, PageCount(0)));
}

/// Two pages of a strip with one between them: the other page or parity of each row is read.
#[test]
fn reads_of_a_destage_are_joined_over_a_small_gap() {
    let level = LEVELS.iter().position(|level| level.level.parities() == 1).expect("a level");
    for (bridge, commands) in [(0, 4), (1, 2)] {
        let mut config = config(level, "lrw", "linear:90/80", 200, 2);
        config.destage.bridge = Some(bridge);
        let mut driver = Driver::new(&config, 1);
        driver.host(0, Direction::Write, 0, 1);
        driver.host(1, Direction::Write, 2, 1);
        driver.settle();
        driver.step(Event::Flush);
        assert!(driver.disks.iter().all(|command| !command.write));
        assert_eq!(driver.disks.len(), commands, "joined over {bridge} pages");
    }
}

/// Ticks at the controller's deadline, as a driver does.
fn tick(driver: &mut Driver) {
    let deadline = driver.controller.deadline().expect("time will be idle");
    driver.now = deadline.0 - 1;
    driver.step(Event::Tick);
}

#[test]
fn idle_time_destages_one_group_at_a_time_down_to_its_level() {
    let config = config(4, "lrw", "write-behind:idle=50", 8, 1);
    let mut driver = Driver::new(&config, 1);
    let per_group = config.geometry.pages_per_group();
    for id in 0..6 {
        driver.host(id, Direction::Write, id * per_group, 1);
        driver.complete_one();
    }
    assert!(driver.disks.is_empty(), "100 ms have not passed");
    assert_eq!(driver.controller.deadline(), Some(Instant(100_000_000)));
    tick(&mut driver);
    let counted = |driver: &Driver| {
        let counters = driver.controller.counters();
        (counters.destages, counters.idle_destages, counters.idle_delayed_reads)
    };
    assert_eq!(counted(&driver), (1, 1, 0));
    assert_eq!(driver.controller.deadline(), None, "one at a time");
    // A read of a disk that has a command of it is delayed. While it is there, time is not idle.
    let busy = driver.disks[0].disk;
    let page = (0..).find(|page| {
        let at = config.geometry.place(Page(10 * per_group + page));
        at.disk == busy
    });
    driver.host(6, Direction::Read, 10 * per_group + page.expect("a page of that disk"), 1);
    assert_eq!(counted(&driver), (1, 1, 1));
    driver.settle();
    assert_eq!(counted(&driver), (1, 1, 1), "time is not idle directly after a read");
    tick(&mut driver);
    driver.settle();
    assert_eq!(driver.controller.occupancy(), PageCount(4), "half of it");
    assert_eq!((counted(&driver), driver.controller.deadline()), ((2, 2, 1), None));
    driver.controller.pause(true);
    driver.host(7, Direction::Write, 7 * per_group, 1);
    driver.complete_one();
    assert_eq!((driver.controller.deadline(), counted(&driver).0), (None, 2), "paused");
}

/// Writes two groups into an NVS of 100 pages, destages the first, which takes it below the low
/// threshold, and returns what is then left.
fn left_below_the_low_threshold(sequential: [bool; 2]) -> u64 {
    let mut config = config(4, "lrw", "linear-sequential:55/54", 100, 1);
    config.destage.queue_depth = 1;
    let mut driver = Driver::new(&config, 1);
    let per_group = config.geometry.pages_per_group();
    for (number, sequential) in (0..).zip(sequential) {
        for write in 0..28 {
            let step = if sequential { 1 } else { 2 };
            driver.host(
                number * 28 + write,
                Direction::Write,
                2 * number * per_group + step * write,
                1,
            );
            while !driver.appends.is_empty() {
                driver.complete_one();
            }
        }
    }
    driver.settle();
    driver.controller.occupancy().0
}

#[test]
fn below_the_low_threshold_only_a_run_of_sequential_groups_goes_on() {
    assert_eq!(left_below_the_low_threshold([false, false]), 28);
    assert_eq!(left_below_the_low_threshold([false, true]), 28);
    assert_eq!(left_below_the_low_threshold([true, false]), 28);
    assert_eq!(left_below_the_low_threshold([true, true]), 0);
}

/// Pages that are far from each other.
fn far(of: u64) -> u64 {
    of * 7919 % (1 << 20)
}

/// Ebb on a disk with a window of four that has served 1,000 far reads.
fn after_far_reads(rate: &str, nvs_pages: u64, queue_depth: u32) -> Driver {
    let mut config = config(0, "ebb:near=0", rate, nvs_pages, 1);
    config.geometry.disk_pages = 1 << 20;
    (config.window, config.destage.queue_depth) = (4, queue_depth);
    let mut driver = Driver::new(&config, 1);
    for id in 0..1_000 {
        driver.host(id, Direction::Read, far(id), 1);
        driver.settle();
    }
    driver
}

/// Writes a page; the destages that are then in flight.
fn write(driver: &mut Driver, id: u64, page: u64) -> u32 {
    driver.host(id, Direction::Write, page, 1);
    while let Some((id, _)) = driver.appends.pop_front() {
        driver.step(Event::NvsDone(id));
    }
    driver.controller.destages_in_flight()
}

/// Destages of a page each that are in flight when an NVS of `nvs_pages` holds all but two of them,
/// and when it is full and a write waits. 128 may be.
fn in_flight(nvs_pages: u64, rate: &str) -> [u32; 2] {
    let mut driver = after_far_reads(rate, nvs_pages, 128);
    let write = |driver: &mut Driver, id| write(driver, id, far(id));
    let nearly_full = (1..nvs_pages - 1).map(|id| write(&mut driver, 1_000 + id)).max();
    let waits = (0..3).map(|id| write(&mut driver, 1_000 + nvs_pages + id)).max();
    [nearly_full, waits].map(|most| most.expect("there were writes"))
}

#[test]
fn destages_in_flight_hold_a_part_of_the_nvs() {
    assert_eq!(in_flight(200, "linear:90/80"), [40, 80], "what is above the low threshold");
    assert_eq!(in_flight(200, "linear:50/20"), [50, 100], "a quarter");
    assert_eq!(in_flight(60, "linear:90/80"), [20, 24], "twenty at least");
    assert_eq!(in_flight(1000, "linear:90/80"), [128, 128]);
}

/// The destages in flight grow faster than the rate allows from half of the full depth on.
#[test]
fn destages_have_more_to_choose_from_the_more_urgent_they_are() {
    let mut driver = after_far_reads("linear:90/50", 1000, 128);
    let depths: Vec<u32> = (1_001..=1_800).map(|id| write(&mut driver, id, far(id))).collect();
    let at = [500, 501, 660, 700, 725, 750, 800].map(|occupancy| depths[occupancy - 1]);
    assert_eq!(at, [0, 1, 52, 64, 86, 104, 128]);
}

/// At which occupancy destages begin, of an NVS of 2,000 pages that hosts have written again and
/// again while its disk was in use. The low threshold is at 1,600.
fn begins(policy: &str) -> Option<u64> {
    let mut config = config(0, policy, "linear:90/80", 2000, 1);
    config.geometry.disk_pages = 1 << 20;
    (config.window, config.destage.queue_depth) = (4, 128);
    let mut driver = Driver::new(&config, 1);
    driver.host(0, Direction::Read, far(0), 1);
    driver.now += 60_000_000_000;
    let most = (1..=1_600).map(|id| write(&mut driver, id, far(id))).max();
    let again = (2_000..4_000).map(|id| write(&mut driver, id, far(1))).max();
    assert_eq!((most, again), (Some(0), Some(0)));
    (1_601..1_801).find(|id| write(&mut driver, *id, far(*id)) > 0)
}

#[test]
fn an_nvs_whose_pages_hosts_write_again_is_held_fuller() {
    assert_eq!(begins("ebb:near=0,keep=off"), Some(1_601));
    assert_eq!(begins("ebb:near=0,keep=on"), Some(1_713));
}

/// Whether a disk's next command is a read when this many come during a burst. Its window is four.
fn reads_end_a_burst(driver: &mut Driver, reads: u64) -> bool {
    (3_000..3_000 + reads).for_each(|id| driver.host(id, Direction::Read, far(id), 1));
    assert_eq!(driver.disks.len(), 4, "a burst");
    let done = driver.disks.remove(0);
    driver.step(Event::DiskDone(done.disk, done.owner));
    matches!(driver.disks.last().expect("a command").owner, Owner::HostRead(_))
}

/// Fills an NVS, lets its destages begin, because of a flush or because a write waits, and returns
/// whether a disk's next command is a read when six wait.
fn six_reads_end_a_burst(write_waits: bool) -> bool {
    let mut driver = after_far_reads("single:100", 64, 64);
    for id in 1_000..1_064 {
        driver.host(id, Direction::Write, far(id), 1);
        driver.complete_one();
    }
    assert!(driver.disks.is_empty(), "the rate allows no destage");
    match write_waits {
        true => driver.host(2_000, Direction::Write, far(2_000), 1),
        false => driver.step(Event::Flush),
    }
    reads_end_a_burst(&mut driver, 6)
}

#[test]
fn more_reads_wait_for_a_burst_while_a_write_waits_than_in_a_flush() {
    assert!(six_reads_end_a_burst(false));
    assert!(!six_reads_end_a_burst(true));
}

/// Half of what is above the high threshold is taken: half again as many reads wait as at it.
#[test]
fn more_reads_wait_for_a_burst_the_fuller_the_nvs_is() {
    let ends = |reads| {
        let mut driver = after_far_reads("linear:50/20", 64, 64);
        for id in 1_001..=1_048 {
            write(&mut driver, id, far(id));
        }
        reads_end_a_burst(&mut driver, reads)
    };
    assert_eq!([6, 7].map(ends), [false, true]);
}

#[test]
fn refusals_change_nothing() {
    let config = config(0, "lrw", "linear", 8, 1);
    let mut driver = Driver::new(&config, 1);
    let volume_pages = config.geometry.volume_pages().0;
    driver.host(0, Direction::Write, 0, 0);
    driver.host(1, Direction::Write, 0, 9);
    driver.host(2, Direction::Read, volume_pages - 1, 2);
    driver.host(3, Direction::Write, u64::MAX, 1);
    let errors: Vec<HostError> = driver.replies.iter().map(|r| r.1.unwrap_err()).collect();
    let beyond = HostError::BeyondVolume { volume_pages };
    let expected = [HostError::Empty, HostError::LargerThanNvs { nvs_pages: 8 }, beyond, beyond];
    assert_eq!(errors, expected);
    assert_eq!(beyond.errno(Direction::Write), 28);
    assert_eq!(beyond.errno(Direction::Read), 22);
    assert_eq!(driver.controller.occupancy(), PageCount(0));
}

#[test]
fn an_unacknowledged_write_occupies_space_but_is_not_destaged() {
    let config = config(0, "lrw", "quick", 8, 1);
    let mut driver = Driver::new(&config, 1);
    driver.host(0, Direction::Write, 0, 3);
    assert_eq!(driver.controller.occupancy(), PageCount(3));
    assert!(driver.replies.is_empty() && driver.disks.is_empty());
    driver.complete_one();
    assert_eq!(driver.replies.len(), 1);
    assert!(!driver.disks.is_empty());
}

#[test]
fn more_appends_to_a_group_than_are_counted_wait() {
    let config = config(0, "lrw", "write-behind", 100, 1);
    let mut driver = Driver::new(&config, 1);
    driver.host(0, Direction::Write, 0, 1);
    driver.complete_one();
    (1..=300).for_each(|id| driver.host(id, Direction::Write, 0, 1));
    assert_eq!((driver.appends.len(), driver.controller.waiting()), (255, 45));
    driver.settle();
    assert!(driver.unanswered.is_empty(), "{} unanswered", driver.unanswered.len());
    assert_eq!(driver.controller.waiting(), 0);
    check_held(&driver);
}

/// Whether a scrub says that it has read all rows, after a start that may have found a destage to
/// redo, which cannot be computed.
fn scrub_is_complete(redo: bool) -> bool {
    let config = config(4, "lrw", "write-behind", 100, 2);
    let mut controller = Controller::new(&config).expect("a valid configuration");
    let (mut actions, mut events, mut complete) = (Vec::new(), VecDeque::new(), None);
    if redo {
        let mut mask = vec![0; config.geometry.pages_per_group().div_ceil(64) as usize];
        mask[0] = 1;
        controller.redo(GroupId(1), (&mask, Vec::new()), mask.clone(), &mut actions);
    }
    let mut begins = VecDeque::from([Event::ScrubStart, Event::ScrubAllow(1 << 20)]);
    for now in 1..10_000 {
        for action in actions.drain(..) {
            match action {
                Action::Disk(command) => {
                    events.push_back(Event::DiskDone(command.disk, command.owner));
                }
                Action::Intend { index } => events.push_back(Event::NotComputable(index)),
                Action::ScrubCompare { index, .. } => events.push_back(Event::ScrubCompared(index)),
                Action::ScrubEnded { whole } => complete = Some(whole),
                _ => {}
            }
        }
        let Some(event) = events.pop_front().or_else(|| begins.pop_front()) else { break };
        controller.step(Instant(now), event, &mut actions);
    }
    assert_eq!(controller.kept_pages(), u64::from(redo));
    complete.expect("it ends")
}

#[test]
fn a_scrub_that_leaves_out_rows_that_may_be_half_written_is_not_complete() {
    assert!(scrub_is_complete(false));
    assert!(!scrub_is_complete(true));
}

#[test]
fn a_read_of_held_pages_is_answered_at_once_and_others_go_to_disk() {
    let config = config(4, "lrw", "write-behind", 100, 1);
    let mut driver = Driver::new(&config, 1);
    driver.host(0, Direction::Write, 10, 4);
    driver.complete_one();
    driver.host(1, Direction::Read, 11, 2);
    assert_eq!(driver.replies.last(), Some(&(1, Ok(()))));
    driver.host(2, Direction::Read, 8, 4);
    let reads: Vec<(u64, u32)> = driver.disks.iter().map(|c| (c.first, c.pages)).collect();
    assert_eq!(reads, [(8, 2)], "only what is not held is read");
    driver.settle();
    assert_eq!(driver.controller.counters().read_request_hits, 1);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn random_configurations_keep_the_invariants(
        seed in any::<u64>(),
        policy in 0..POLICIES.len(),
        rate in 0..RATES.len(),
        level in 0..LEVELS.len(),
        nvs_pages in 1u64..700,
        variant in 0u64..1000,
    ) {
        let names = (POLICIES[policy].entry.name, RATES[rate].entry.name);
        exercise(&config(level, names.0, names.1, nvs_pages, variant), seed, 150);
    }
}
