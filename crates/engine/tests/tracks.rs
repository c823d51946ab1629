//! The write cache by track: without time against a naive model, in time against its promises.

use destage_engine::conditions::NoHeads;
use destage_engine::event::DiskCommand;
use destage_engine::event::{Action, Event};
use destage_engine::policy::{self, POLICIES};
use destage_engine::rate::{self, RATES};
use destage_engine::request::{Direction, HostRequest, PageRange, RequestId};
use destage_engine::track::controller::TrackController;
use destage_engine::track::replay::{TrackEvent, TrackReplay};
use destage_engine::track::{CleanWrites, TrackConfig};
use destage_engine::units::{Instant, Page};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const PER_TRACK: u64 = 10;
const DISK: u64 = 400;

fn config(policy: &str, rate: &str, sectors: u64) -> TrackConfig {
    TrackConfig {
        sectors,
        sectors_per_track: PER_TRACK,
        disk_sectors: DISK,
        sector_bytes: 512,
        policy: policy::choose(policy).expect("a policy"),
        rate: rate::choose(rate).expect("a rate"),
        clean: CleanWrites::Span,
    }
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % n
    }

    /// Mostly a few hot tracks; some requests cross tracks.
    fn range(&mut self) -> PageRange {
        let span = if self.below(3) == 0 { DISK - 30 } else { 60 };
        PageRange::new(Page(self.below(span)), 1 + self.below(25) as u32)
    }
}

/// Tracks with their dirty sectors and recency, and clean ones in the order they were cleaned.
#[derive(Default)]
struct Naive {
    dirty: BTreeMap<u64, (BTreeSet<u64>, u64)>,
    clean: VecDeque<(u64, usize)>,
    counter: u64,
    cleaning: bool,
    events: Vec<TrackEvent>,
}

impl Naive {
    fn dirty_sectors(&self) -> usize {
        self.dirty.values().map(|(sectors, _)| sectors.len()).sum()
    }

    fn clean_one(&mut self, largest: bool) {
        let key = |(track, (sectors, recency)): (&u64, &(BTreeSet<u64>, u64))| {
            (if largest { usize::MAX - sectors.len() } else { 0 }, *recency, *track)
        };
        let track = self.dirty.iter().map(key).min().expect("a dirty track").2;
        let (sectors, _) = self.dirty.remove(&track).expect("it is dirty");
        self.counter += 1;
        self.clean.push_back((track, sectors.len()));
        self.events.push(TrackEvent::Clean { track, sectors: sectors.len() as u64 });
    }

    fn write(&mut self, range: PageRange, largest: bool, size: usize, limits: Option<(f64, f64)>) {
        self.counter += 1;
        let mut stalled = false;
        let tracks: BTreeSet<u64> =
            (range.first.0..range.end().0).map(|sector| sector / PER_TRACK).collect();
        for track in tracks {
            let of_track = |sector: &u64| sector / PER_TRACK == track;
            let segment: Vec<u64> = (range.first.0..range.end().0).filter(of_track).collect();
            loop {
                self.clean.retain(|(cleaned, _)| *cleaned != track);
                let held = |sector: &&u64| {
                    self.dirty.get(&track).is_some_and(|(sectors, _)| sectors.contains(*sector))
                };
                let need = segment.len() - segment.iter().filter(held).count();
                let used = |naive: &Naive| {
                    naive.dirty_sectors() + naive.clean.iter().map(|(_, n)| n).sum::<usize>()
                };
                while used(self) + need > size && self.clean.pop_front().is_some() {}
                if used(self) + need <= size {
                    break;
                }
                stalled = true;
                self.clean_one(largest);
            }
            let entry = self.dirty.entry(track).or_default();
            entry.0.extend(&segment);
            entry.1 = self.counter;
        }
        self.events.push(TrackEvent::Write { stalled });
        let Some((high, low)) = limits else { return };
        let share = |naive: &Naive| naive.dirty_sectors() as f64 / size as f64 * 100.0;
        self.cleaning |= share(self) > high;
        while self.cleaning && share(self) >= low && !self.dirty.is_empty() {
            self.clean_one(largest);
        }
        self.cleaning = false;
    }
}

#[test]
fn without_time_it_is_the_naive_model() {
    let rates = [
        ("write-behind", None),
        ("single:90", Some((90.0, 90.0))),
        ("dual:75/25", Some((75.0, 25.0))),
        ("dual:50/0", Some((50.0, 0.0))),
    ];
    for seed in 0..60 {
        let mut rng = Rng(seed);
        let size = 10 + rng.below(150);
        for (policy, largest) in [("lrw", false), ("lst", true)] {
            for (rate, limits) in rates {
                let mut naive = Naive::default();
                let mut events = Vec::new();
                let mut note = |event| events.push(event);
                let config = config(policy, rate, size);
                let mut replay = TrackReplay::new(&config, &mut note).expect("a cache");
                for _ in 0..200 {
                    let range = rng.range();
                    if rng.below(4) == 0 {
                        replay.read(range);
                        continue;
                    }
                    replay.write(range);
                    naive.write(range, largest, size as usize, limits);
                }
                let stalls = naive.events.contains(&TrackEvent::Write { stalled: true });
                assert!(stalls || rate != "write-behind");
                let first = events.iter().zip(&naive.events).position(|(a, b)| a != b);
                assert_eq!(first, None, "{policy} {rate} {size} seed {seed}: first difference");
                assert_eq!(events.len(), naive.events.len());
            }
        }
    }
}

/// Runs random requests through the controller in time; the disk completes in order, at random.
fn run(policy: &str, rate: &str, clean: CleanWrites, seed: u64) {
    let mut rng = Rng(seed);
    let size = 20 + rng.below(100);
    let config = TrackConfig { clean, ..config(policy, rate, size) };
    let mut controller = TrackController::new(&config, 1 + rng.below(3) as u32).expect("a cache");
    let mut disk: VecDeque<DiskCommand> = VecDeque::new();
    let mut open: BTreeSet<u64> = BTreeSet::new();
    let mut on_disk: BTreeSet<u64> = BTreeSet::new();
    let mut written: BTreeSet<u64> = BTreeSet::new();
    let (mut now, mut next) = (0, 0);
    let mut actions = Vec::new();
    for step in 0..6000 {
        now += rng.below(5);
        let flush = step >= 3000;
        let event = if !flush && (disk.is_empty() || rng.below(3) > 0) && open.len() < 12 {
            let direction = if rng.below(4) == 0 { Direction::Read } else { Direction::Write };
            let range = rng.range();
            if direction == Direction::Write {
                written.extend(range.first.0..range.end().0);
            }
            next += 1;
            open.insert(next);
            Event::Host(HostRequest { id: RequestId(next), direction, range })
        } else if let Some(command) = disk.pop_front() {
            let last = command.first + u64::from(command.pages);
            assert!(last <= DISK, "{command:?} is beyond the disk");
            if command.write {
                on_disk.extend(command.first..last);
            }
            Event::DiskDone(command.disk, command.owner)
        } else {
            Event::Flush
        };
        controller.step_with(Instant(now), event, &NoHeads, &mut actions);
        let mut index = 0;
        while index < actions.len() {
            match actions[index] {
                Action::NvsAppend { id, .. } => {
                    let event = Event::NvsDone(id);
                    controller.step_with(Instant(now), event, &NoHeads, &mut actions);
                }
                Action::Reply { id, result } => {
                    assert_eq!(result, Ok(()));
                    assert!(open.remove(&id.0), "{id:?} was answered twice");
                }
                Action::Disk(command) => disk.push_back(command),
                _ => {}
            }
            index += 1;
        }
        actions.clear();
        assert!(controller.occupancy() <= size);
        assert!(controller.waiting() == 0 || !disk.is_empty(), "a write waits for nothing");
    }
    assert!(open.is_empty(), "{policy} {rate}: requests without an answer");
    assert_eq!(controller.occupancy(), 0, "{policy} {rate} drains");
    assert!(on_disk.is_superset(&written), "what was written reached the disk");
}

#[test]
fn in_time_every_policy_and_rate_keeps_the_promises() {
    for entry in POLICIES {
        for rate in RATES {
            for seed in 0..3 {
                let clean = if seed == 0 { CleanWrites::Runs } else { CleanWrites::Span };
                run(entry.entry.name, rate.entry.name, clean, seed);
            }
        }
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let mut note = |_| {};
    let error = |sectors| {
        let config = config("lrw", "write-behind", sectors);
        TrackReplay::new(&config, &mut |_| {}).err()
    };
    assert!(error(9).is_some_and(|text| text.contains("smaller than a track")));
    assert!(error(401).is_some_and(|text| text.contains("larger than the disk")));
    assert!(TrackReplay::new(&config("lrw", "write-behind", 10), &mut note).is_ok());
}
