//! Every crash of short scripts on a small array, within stated bounds (docs/proof.md).
//!
//! A state is what a power failure leaves: the durable bytes of all devices, what may be read, and
//! which devices may be out of date. From each the array is started with all devices and without
//! each one, and checked as the torture does. Equal states are checked once.

mod check;
mod place;
mod script;
mod subsets;

use crate::world::Order;
use check::{Off, Setup};
use destage_served::{Defect, Device};
use place::order_name;
pub use place::{Crash, Devices, Place};
pub use script::{SCRIPTS, Script};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
pub use subsets::Bound;
use subsets::{Pending, subsets};

/// What is explored.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Names of scripts.
    pub scripts: &'static [&'static str],
    /// Numbers of NVS devices.
    pub nvs: &'static [u16],
    /// Orders of operations in flight; with the first alone there are second crashes and failures
    /// before a crash.
    pub orders: &'static [Order],
    /// What a crash leaves.
    pub first: Bound,
    /// What the first of two crashes leaves.
    pub between: Bound,
    /// What the second of two crashes leaves.
    pub second: Bound,
    /// What a crash after the failure of a device leaves.
    pub after_failure: Bound,
    /// A device fails before every n-th operation.
    pub failures_every: u64,
}

const FEW: Bound = Bound { all: 2, singles: 0, pairs: 0, runs: 3 };

impl Scope {
    /// Under 20 minutes on two processors.
    pub const FULL: Scope = Scope {
        scripts: &[
            "parts", "stripe", "together", "slots", "start", "late", "wide", "apart", "long",
        ],
        nvs: &[1, 2],
        orders: &[Order::Oldest, Order::Newest, Order::Members, Order::Nvs],
        first: Bound { all: 10, singles: 200, pairs: 20, runs: 6 },
        between: Bound { all: 3, singles: 0, pairs: 0, runs: 4 },
        second: Bound { all: 3, singles: 24, pairs: 0, runs: 3 },
        after_failure: Bound { all: 3, singles: 24, pairs: 0, runs: 3 },
        failures_every: 1,
    };
    /// A minute, without optimisation for speed.
    pub const SHORT: Scope = Scope {
        scripts: &["parts", "stripe", "slots", "start"],
        nvs: &[1, 2],
        orders: &[Order::Oldest],
        first: Bound { all: 3, singles: 20, pairs: 0, runs: 3 },
        between: FEW,
        second: FEW,
        after_failure: FEW,
        failures_every: 8,
    };
}

impl Scope {
    /// The same with one of its scripts.
    ///
    /// # Errors
    /// It is not one of them.
    pub fn only(self, name: &str) -> Result<Scope, String> {
        let at = self.scripts.iter().position(|script| *script == name);
        let at =
            at.ok_or_else(|| format!("{name}: expected one of {}", self.scripts.join(", ")))?;
        Ok(Scope { scripts: &self.scripts[at..=at], ..self })
    }
}

impl core::fmt::Display for Scope {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let orders: Vec<&str> = self.orders.iter().map(|order| order_name(*order)).collect();
        writeln!(f, "Scripts: {}. NVS devices: {:?}.", self.scripts.join(", "), self.nvs)?;
        writeln!(f, "Orders of operations: {}; then the first alone.", orders.join(", "))?;
        writeln!(f, "Subsets after one crash: {}.", self.first)?;
        writeln!(f, "After the first of two: {}.", self.between)?;
        writeln!(f, "After the second: {}.", self.second)?;
        writeln!(f, "After a failure and a crash: {}.", self.after_failure)?;
        write!(f, "Failures: of each device, before every operation number n * {}.", {
            self.failures_every
        })
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Power failures: before an operation of a script or a start.
    pub crashes: u64,
    /// States.
    pub states: u64,
    /// Those that differ.
    pub distinct: u64,
    /// Starts that were checked.
    pub starts: u64,
}

impl core::fmt::Display for Figures {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Figures { crashes, states, distinct, starts } = self;
        write!(f, "{crashes} crashes, {states} states, {distinct} distinct, {starts} starts")
    }
}

/// What went wrong, and where.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The state.
    pub place: Place,
    /// What is wrong.
    pub why: String,
    /// What was counted until then.
    pub figures: Figures,
}

/// What the check of a place found wrong.
type Wrong = Box<(Place, String)>;

#[derive(Default)]
struct Tally {
    crashes: AtomicU64,
    states: AtomicU64,
    distinct: AtomicU64,
    starts: AtomicU64,
}

impl Tally {
    fn figures(&self) -> Figures {
        let [crashes, states, distinct, starts] =
            [&self.crashes, &self.states, &self.distinct, &self.starts].map(|n| n.load(Relaxed));
        Figures { crashes, states, distinct, starts }
    }
}

/// Explores a scope with this many threads; `progress` gets a line for each part of it.
///
/// # Errors
/// The first state in which something is wrong.
pub fn explore(
    scope: &Scope,
    defect: Defect,
    threads: usize,
    progress: &dyn Fn(&str),
) -> Result<Figures, Box<Failure>> {
    let tally = Tally::default();
    let failure = |wrong: Wrong| {
        let (place, why) = *wrong;
        Box::new(Failure { place, why, figures: tally.figures() })
    };
    for name in scope.scripts {
        let script = Script::named(name).expect("a script of the table");
        for nvs in scope.nvs {
            let explorer = Explorer {
                scope,
                script,
                nvs: *nvs,
                defect,
                threads,
                tally: &tally,
                seen: Mutex::default(),
                expanded: Mutex::default(),
            };
            explorer.all(progress).map_err(failure)?;
        }
    }
    Ok(tally.figures())
}

/// Goes to a state again.
///
/// # Errors
/// What is wrong there.
pub fn replay(place: &Place, defect: Defect) -> Result<(), String> {
    check::replay(place, defect)
}

/// A script with a number of NVS devices.
struct Explorer<'a> {
    scope: &'a Scope,
    script: &'static Script,
    nvs: u16,
    defect: Defect,
    threads: usize,
    tally: &'a Tally,
    /// States that were checked.
    seen: Mutex<HashSet<u64>>,
    /// States from which second crashes were explored.
    expanded: Mutex<HashSet<u64>>,
}

fn locked(set: &Mutex<HashSet<u64>>) -> MutexGuard<'_, HashSet<u64>> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Explorer<'_> {
    fn all(&self, progress: &dyn Fn(&str)) -> Result<(), Wrong> {
        let setup = |order: &Order| Setup::new(self.script, self.nvs, *order, self.defect);
        let report = |part: &str, order: Order| {
            let (name, order, so_far) = (self.script.name, order_name(order), self.tally.figures());
            progress(&format!("{name}, {} NVS, {order}, {part}: {so_far}", self.nvs));
        };
        let orders = if self.script.brief { 1 } else { self.scope.orders.len() };
        for order in &self.scope.orders[..orders] {
            let setup = setup(order);
            self.each(self.operations(&setup)?, &|at| self.first(&setup, at))?;
            report("one crash", *order);
        }
        if self.script.brief {
            return Ok(());
        }
        let order = self.scope.orders[0];
        let setup = setup(&order);
        let operations = self.operations(&setup)?;
        self.each(operations, &|at| self.second(&setup, at))?;
        report("two crashes", order);
        let devices: Vec<Device> = setup.devices().collect();
        let times = operations.div_ceil(self.scope.failures_every);
        self.each(times * devices.len() as u64, &|item| {
            let device = devices[(item / times) as usize];
            // Those of one device with another offset than those of the next.
            let offset = (item / times) % self.scope.failures_every;
            self.failed(&setup, device, item % times * self.scope.failures_every + offset)
        })?;
        report("a failure, then a crash", order);
        Ok(())
    }

    /// Carries out work for each number below `items`, on all threads.
    fn each(
        &self,
        items: u64,
        work: &(dyn Fn(u64) -> Result<(), Wrong> + Sync),
    ) -> Result<(), Wrong> {
        let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let run = || {
            while !stop.load(Relaxed) {
                let item = next.fetch_add(1, Relaxed);
                if item >= items {
                    break;
                }
                if let Err(wrong) = work(item) {
                    stop.store(true, Relaxed);
                    return Err(wrong);
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads.max(1)).map(|_| scope.spawn(run)).collect();
            let ended = threads.into_iter().map(|thread| thread.join().expect("panics are caught"));
            ended.fold(Ok(()), Result::and)
        })
    }

    fn place(&self, setup: &Setup) -> Place {
        Place::first(self.script, self.nvs, setup.order)
    }

    /// Operations of the script, without crashes.
    fn operations(&self, setup: &Setup) -> Result<u64, Wrong> {
        let (mut most, mut step) = (0, 1 << 12);
        while step > 0 {
            let place = self.place(setup);
            if self.crash(setup, &place, None, most + step - 1)?.is_some() {
                most += step;
            } else {
                step /= 2;
            }
        }
        Ok(most)
    }

    fn crash<'a>(
        &self,
        setup: &'a Setup,
        place: &Place,
        fails: Option<(Device, u64)>,
        at: u64,
    ) -> Result<Option<Off<'a>>, Wrong> {
        let crash = Crash { at, kept: Vec::new() };
        let place = Place { fails, crash, ..place.clone() };
        setup.crash(fails, at).map_err(|why| Box::new((place, why)))
    }

    /// The subsets of what a crash may leave whose states are not in `seen` yet.
    fn unseen(
        &self,
        off: &mut Off<'_>,
        bound: &Bound,
        seen: &Mutex<HashSet<u64>>,
    ) -> (u64, Vec<Vec<u8>>) {
        let base = off.hash();
        let pending = off.pending();
        let all = subsets(&pending, bound);
        let (states, mut seen) = (all.len() as u64, locked(seen));
        let new = |kept: &Vec<u8>| seen.insert(base ^ change(&pending, kept));
        (states, all.into_iter().filter(new).collect())
    }

    /// The same for states that are checked.
    fn to_check(&self, off: &mut Off<'_>, bound: &Bound) -> Vec<Vec<u8>> {
        let (states, new) = self.unseen(off, bound, &self.seen);
        self.tally.crashes.fetch_add(1, Relaxed);
        self.tally.states.fetch_add(states, Relaxed);
        self.tally.distinct.fetch_add(new.len() as u64, Relaxed);
        new
    }

    fn check(&self, off: &Off<'_>, place: &Place, away: Devices) -> Result<(), Wrong> {
        self.tally.starts.fetch_add(1, Relaxed);
        off.check(away, place.lost).map_err(|why| {
            let mut place = place.clone();
            match &mut place.again {
                Some((_, then)) => *then = away,
                None => place.away = away,
            }
            Box::new((place, why))
        })
    }

    /// One crash, then a start with all devices, without each one, and with each lost after it.
    fn first(&self, setup: &Setup, at: u64) -> Result<(), Wrong> {
        let place = self.place(setup);
        let Some(mut off) = self.crash(setup, &place, None, at)? else { return Ok(()) };
        for kept in self.to_check(&mut off, &self.scope.first) {
            let left = off.settled(&kept);
            let place = Place { crash: Crash { at, kept }, ..place.clone() };
            self.check(&left, &place, Devices::NONE)?;
            for device in self.dispensable(setup, &left) {
                self.check(&left, &place, device)?;
                self.check(&left, &Place { lost: device, ..place.clone() }, Devices::NONE)?;
            }
        }
        Ok(())
    }

    /// The devices without which the array must start.
    fn dispensable(&self, setup: &Setup, off: &Off<'_>) -> Vec<Devices> {
        let devices = setup.devices().map(Devices::one);
        devices.filter(|device| off.must_start(*device)).collect()
    }

    /// One crash, then one at each operation of the start after it.
    fn second(&self, setup: &Setup, at: u64) -> Result<(), Wrong> {
        let place = self.place(setup);
        let Some(mut off) = self.crash(setup, &place, None, at)? else { return Ok(()) };
        let (_, new) = self.unseen(&mut off, &self.scope.between, &self.expanded);
        for kept in new {
            let left = off.settled(&kept);
            let mut place = Place { crash: Crash { at, kept }, ..place.clone() };
            for away in [vec![Devices::NONE], self.dispensable(setup, &left)].concat() {
                place.away = away;
                self.crash_in_start(setup, &left, &place)?;
            }
        }
        Ok(())
    }

    fn crash_in_start(&self, setup: &Setup, left: &Off<'_>, place: &Place) -> Result<(), Wrong> {
        for at in 0.. {
            let again = |kept| Some((Crash { at, kept }, Devices::NONE));
            let crashed = left.crash_again(place.away, at).map_err(|why| {
                Box::new((Place { again: again(Vec::new()), ..place.clone() }, why))
            })?;
            let Some(mut off) = crashed else { break };
            for kept in self.to_check(&mut off, &self.scope.second) {
                let left = off.settled(&kept);
                let place = Place { again: again(kept), ..place.clone() };
                self.check_out_of_date(setup, &left, &place)?;
            }
        }
        Ok(())
    }

    /// A device fails before an operation, then a crash at each one after it.
    fn failed(&self, setup: &Setup, device: Device, fails_at: u64) -> Result<(), Wrong> {
        if matches!(device, Device::Nvs(_)) && self.nvs < 2 {
            return Ok(());
        }
        let place = Place { fails: Some((device, fails_at)), ..self.place(setup) };
        for at in fails_at + 1.. {
            let Some(mut off) = self.crash(setup, &place, place.fails, at)? else { break };
            for kept in self.to_check(&mut off, &self.scope.after_failure) {
                let left = off.settled(&kept);
                let place = Place { crash: Crash { at, kept }, ..place.clone() };
                self.check_out_of_date(setup, &left, &place)?;
            }
        }
        Ok(())
    }

    /// Checks a state with a device that may be out of date: with and without it, and with it in
    /// the place of the NVS device that is not. Without such a device, with and without each
    /// member.
    fn check_out_of_date(&self, setup: &Setup, left: &Off<'_>, place: &Place) -> Result<(), Wrong> {
        self.check(left, place, Devices::NONE)?;
        if left.stale.is_empty() {
            let members = self.dispensable(setup, left).into_iter().filter(|d| d.count().0 > 0);
            return members.into_iter().try_for_each(|member| self.check(left, place, member));
        }
        self.check(left, place, left.stale)?;
        if left.stale.count().1 > 0 {
            let others = setup.devices().filter(|device| !left.stale.has(*device));
            let other = others.map(Devices::one).find(|device| device.count().1 > 0);
            self.check(left, place, other.unwrap_or_default())?;
        }
        Ok(())
    }
}

fn change(pending: &[Pending], kept: &[u8]) -> u64 {
    let of = |(sector, kept): (&Pending, &u8)| match usize::from(*kept) {
        0 => 0,
        version => sector.changes[version - 1],
    };
    pending.iter().zip(kept).fold(0, |hash, sector| hash ^ of(sector))
}
