//! One state: the array as a crash has left it, the start after it, and what must hold then.

use super::place::{Crash, Devices, Place};
use super::script::Script;
use super::subsets::{Pending, hash, mix};
use crate::case::Case;
use crate::device::Device as Disk;
use crate::model::Model;
use crate::run::{End, Run};
use crate::world::{Order, World};
use destage_served::{Defect, Device};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An array and the order in which its devices do their operations.
pub(super) struct Setup {
    script: &'static Script,
    pub(super) order: Order,
    case: Case,
}

/// An array without power.
pub(super) struct Off<'a> {
    setup: &'a Setup,
    members: Vec<Disk>,
    nvs: Vec<Disk>,
    model: Model,
    /// Devices that failed or were absent while the array ran: they may be out of date.
    pub(super) stale: Devices,
}

/// Carries out something that may panic, which is a failure too.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(crate::panicked(&*panic)))
}

impl Setup {
    pub(super) fn new(script: &'static Script, nvs: u16, order: Order, defect: Defect) -> Setup {
        Setup { script, order, case: script.case(nvs, defect) }
    }

    pub(super) fn of(place: &Place, defect: Defect) -> Setup {
        Setup::new(place.script, place.nvs, place.order, defect)
    }

    /// The devices of the array.
    pub(super) fn devices(&self) -> impl Iterator<Item = Device> + use<> {
        let members = (0..self.case.geometry.disks).map(Device::Member);
        members.chain((0..self.case.nvs).map(Device::Nvs))
    }

    /// Carries out the script until this many of its operations are done, and the power fails.
    /// `None`: it has fewer.
    pub(super) fn crash(
        &self,
        fails: Option<(Device, u64)>,
        at: u64,
    ) -> Result<Option<Off<'_>>, String> {
        guarded(|| {
            let mut run = Run::new(self.case.clone())?;
            run.world.order = self.order;
            self.script.prepare(&mut run)?;
            if self.script.from_start {
                let mut off = self.off(run, Devices::NONE);
                off.keep(|versions| versions);
                run = off.start(Devices::NONE);
            }
            run.plain &= fails.is_none();
            let begun = run.world.operations;
            run.world.crash_at = Some(begun + at);
            run.world.fails = fails.map(|(device, at)| (begun + at, device));
            let end = match self.script.from_start {
                true => run.open()?,
                false => End::Done,
            };
            let ended = end == End::Done && self.script.carry_out(&mut run)? == End::Done;
            if ended && run.world.operations < begun + at {
                return Ok(None);
            }
            let failed = fails.map_or(Devices::NONE, |(device, _)| Devices::one(device));
            Ok(Some(self.off(run, failed)))
        })
    }

    fn off(&self, run: Run, stale: Devices) -> Off<'_> {
        let Run { mut world, mut model, .. } = run;
        world.power_fails();
        model.crashed();
        for disk in world.members.iter_mut().chain(&mut world.nvs) {
            disk.gone = false;
        }
        Off { setup: self, members: world.members, nvs: world.nvs, model, stale }
    }
}

impl<'a> Off<'a> {
    fn disks(&mut self) -> impl Iterator<Item = &mut Disk> {
        self.members.iter_mut().chain(&mut self.nvs)
    }

    /// The sectors that are not durable.
    pub(super) fn pending(&mut self) -> Vec<Pending> {
        let mut pending = Vec::new();
        for (device, disk) in self.disks().enumerate() {
            for (sector, versions) in disk.unflushed() {
                let before = hash(device, sector, disk.kept(sector));
                let change = |bytes: &[u8; 512]| before ^ hash(device, sector, bytes);
                let changes = versions.iter().map(change).collect();
                pending.push(Pending { device, sector, changes });
            }
        }
        pending
    }

    /// Hash of the durable bytes, of what may be read, and of which devices may be out of date.
    pub(super) fn hash(&mut self) -> u64 {
        let mut media = 0;
        for (device, disk) in self.disks().enumerate() {
            for sector in disk.written() {
                media ^= hash(device, sector, disk.kept(sector));
            }
        }
        // Media are hashed by XOR, so that a subset changes what it changes.
        media ^ mix(self.model.fingerprint(), self.stale.bits() + 1)
    }

    fn keep(&mut self, mut kept: impl FnMut(usize) -> usize) {
        self.disks().for_each(|disk| disk.lose(|_, versions| kept(versions)));
    }

    /// The same array after these versions of its pending sectors have reached the media.
    pub(super) fn settled(&self, kept: &[u8]) -> Off<'a> {
        let (members, nvs) = (self.members.clone(), self.nvs.clone());
        let mut off =
            Off { setup: self.setup, members, nvs, model: self.model.clone(), stale: self.stale };
        let mut kept = kept.iter();
        off.keep(|_| kept.next().map_or(0, |kept| usize::from(*kept)));
        off
    }

    /// The array with power again, and without some devices.
    fn start(&self, away: Devices) -> Run {
        let case = self.setup.case.clone();
        let mut world = World::new(0, 0, case.seed);
        (world.members, world.nvs) = (self.members.clone(), self.nvs.clone());
        world.order = self.setup.order;
        gone(&mut world, self.setup.devices(), away);
        let mut run = Run::of(case, world, self.model.clone());
        // With all devices there an operator need not say that any may be missing.
        run.plain = self.stale.is_empty() && away.is_empty();
        run
    }

    /// Whether the array must start without these devices: it does not need them, and those that
    /// may be out of date are not needed either.
    pub(super) fn must_start(&self, away: Devices) -> bool {
        let (members, nvs) = away.with(self.stale).count();
        members <= 1 && nvs < self.nvs.len().max(1) as u32
    }

    /// Starts the array, and fails more devices. Everything acknowledged must be there, rows must
    /// be consistent, and failed members can be rebuilt.
    pub(super) fn check(&self, away: Devices, lost: Devices) -> Result<(), String> {
        guarded(|| {
            let mut run = self.start(away);
            match run.open() {
                Err(_) if !self.must_start(away) => return Ok(()),
                opened => opened?,
            };
            if lost.is_empty() {
                run.check_rows()?;
            }
            gone(&mut run.world, self.setup.devices(), lost);
            run.read_all()?;
            run.settle()
        })
    }

    /// Starts the array until this many operations of the start are done, and the power fails.
    /// `None`: it has fewer.
    pub(super) fn crash_again(&self, away: Devices, at: u64) -> Result<Option<Off<'a>>, String> {
        guarded(|| {
            let mut run = self.start(away);
            run.world.crash_at = Some(at);
            let ended = run.open()? == End::Done;
            let operations = run.world.operations;
            let left = || self.setup.off(run, self.stale.with(away));
            Ok((!ended || operations >= at).then(left))
        })
    }
}

fn gone(world: &mut World, devices: impl Iterator<Item = Device>, these: Devices) {
    for device in devices.filter(|device| these.has(*device)) {
        world.device(device).gone = true;
    }
}

/// Goes to a state again; what is wrong there.
pub(super) fn replay(place: &Place, defect: Defect) -> Result<(), String> {
    let setup = Setup::of(place, defect);
    let mut away = place.away;
    let mut off = left_by(setup.crash(place.fails, place.crash.at)?, &place.crash)?;
    if let Some((crash, then)) = &place.again {
        off = left_by(off.crash_again(away, crash.at)?, crash)?;
        away = *then;
    }
    off.check(away, place.lost)
}

fn left_by<'a>(off: Option<Off<'a>>, crash: &Crash) -> Result<Off<'a>, String> {
    let mut off = off.ok_or_else(|| format!("there is no operation {}", crash.at))?;
    let sectors = off.pending().len();
    if sectors != crash.kept.len() {
        return Err(format!("{sectors} sectors are not durable at operation {}", crash.at));
    }
    Ok(off.settled(&crash.kept))
}
