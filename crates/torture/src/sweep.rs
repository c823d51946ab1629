//! The exhaustive sweep: a short scenario, the power failing before its first device operation,
//! before its second, and so on until none is left; and in recovery likewise.

use super::case::{Case, Wanted};
use super::device::Survivors;
use super::load::{Kind, Request};
use super::run::{Counts, End, Run};
use destage_engine::array::geometry::{Geometry, Level};
use destage_engine::flushes::Durability;
use destage_engine::readcache::coherent::{OnWrite, ReadCacheChoice};
use destage_engine::units::PAGE_BYTES;
use destage_engine::{policy, rate, readcache};
use destage_served::{Ack, Defect};

/// What is swept.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// RAID level.
    pub level: Level,
    /// NVS devices.
    pub nvs: u16,
    /// When a write is acknowledged.
    pub ack: Ack,
    /// What a crash leaves.
    pub survivors: Survivors,
    /// Members taken away after the crash.
    pub away: u16,
    /// A deliberate fault of the volume.
    pub defect: Defect,
    /// The power fails at every n-th operation: 1 for all.
    pub every: u64,
}

impl Sweep {
    /// Crashes at each operation of the scenario; `recovery`: at each of the recovery too.
    ///
    /// # Errors
    /// The operations at which the power failed, and what was wrong after it.
    pub fn run(&self, recovery: bool) -> Result<Counts, String> {
        let mut counts = Counts::default();
        let (mut first, fill) = (0, self.writes_to_come_round()?);
        loop {
            let mut second = recovery.then_some(0);
            let fired = loop {
                let (run, fired) = self.crash_at(fill, first, second).map_err(|why| {
                    format!("{self:?}, power failing at {first}, then {second:?}: {why}")
                })?;
                counts.add(&run.counts);
                match &mut second {
                    Some(at) if fired.1 => *at += self.every,
                    _ => break fired.0,
                }
            };
            if !fired {
                return Ok(counts);
            }
            first += self.every;
        }
    }

    fn case(&self) -> Case {
        let wanted = Wanted {
            level: Some(self.level),
            ack: Some(self.ack),
            nvs: Some(self.nvs),
            defect: self.defect,
            ..Wanted::default()
        };
        let mut case = Case::draw(1, &wanted);
        let few = self.level.entry();
        let disks = (few.disks_min + 1 + u16::from(self.level.is_mirrored())).min(few.disks_max);
        let (level, strip_pages, group_stripes) = (self.level, 2, 2);
        let geometry = Geometry { level, disks, strip_pages, group_stripes, disk_pages: 32 };
        case.geometry = geometry.checked().expect("an array");
        (case.nvs_pages, case.block_bytes, case.faults) = (16, 512, false);
        case.scrubs = true;
        case.settings.policy = policy::choose("lrw").expect("of the table");
        // Nothing is destaged before it is asked for.
        case.settings.rate = rate::choose("linear:95/90").expect("of the table");
        (case.settings.queue_depth, case.settings.window) = (3, 3);
        let policy = readcache::choose("vdf-lru").expect("of the table");
        let cache = ReadCacheChoice { policy, pages: 8, on_write: OnWrite::Keep };
        case.settings.read_cache = Some(cache);
        case.settings.durability = vec![Durability::Flush; usize::from(case.geometry.disks)];
        case
    }

    /// How many writes over the same pages it takes until the log comes round: records that still
    /// count are moved then.
    fn writes_to_come_round(&self) -> Result<u32, String> {
        let mut run = Run::new(self.case())?;
        run.open()?;
        prepare(&mut run, 0)?;
        for writes in 1..1000 {
            write_over(&mut run)?;
            if run.volume().status().records_moved > 0 {
                return Ok(writes);
            }
        }
        Err("the log never comes round".into())
    }

    /// The scenario, after `fill` writes, with the power failing at one operation of it, and at
    /// one of the recovery. Whether both fired.
    fn crash_at(
        &self,
        fill: u32,
        first: u64,
        second: Option<u64>,
    ) -> Result<(Run, (bool, bool)), String> {
        let mut run = Run::new(self.case())?;
        run.open()?;
        prepare(&mut run, fill.saturating_sub(2))?;
        run.world.crash_at = Some(run.world.operations + first);
        let fired = scenario(&mut run)? == End::Crash;
        let mut fired_again = false;
        if fired {
            run.note_counts();
            run.crash(self.survivors);
            for member in 0..self.away {
                run.world.members[usize::from(member + (first % 3) as u16)].gone = true;
            }
            run.world.crash_at = second.map(|at| run.world.operations + at);
            fired_again = run.open()? == End::Crash;
            if fired_again {
                run.crash(Survivors::Random);
                run.open()?;
            }
        }
        run.world.crash_at = None;
        run.check_rows()?;
        run.read_all()?;
        run.settle()?;
        Ok((run, (fired, fired_again)))
    }
}

fn request(kind: Kind, offset: u64, bytes: u64) -> Request {
    Request { kind, offset, bytes, fua: false }
}

/// Pages that stay dirty at the tail, then this many writes over the same pages.
fn prepare(run: &mut Run, writes: u32) -> Result<(), String> {
    run.submit(request(Kind::Write, 6 * PAGE_BYTES, 3 * PAGE_BYTES))?;
    run.answered()?;
    (0..writes).try_for_each(|_| write_over(run))
}

fn write_over(run: &mut Run) -> Result<(), String> {
    let write = request(Kind::Write, 20 * PAGE_BYTES, 6 * PAGE_BYTES);
    run.submit(Request { fua: true, ..write })?;
    run.answered()?;
    Ok(())
}

/// Overwrites, parts of pages, zeros, trims, destages in flight, and a log that wraps around.
fn scenario(run: &mut Run) -> Result<End, String> {
    let page = PAGE_BYTES;
    let batches: &[&[Request]] = &[
        &[
            request(Kind::Write, 0, 4 * page),
            request(Kind::Write, 7 * page + 100, 700),
            request(Kind::Zero, 21 * page, 2 * page + 512),
        ],
        &[request(Kind::Trim, 23 * page, page), request(Kind::Write, 2 * page + 512, page)],
        &[request(Kind::Write, 20 * page, 6 * page), request(Kind::Flush, 0, 0)],
        &[request(Kind::Write, 10 * page + 7, 30), request(Kind::Read, 0, 8 * page)],
        &[request(Kind::Write, page, page), request(Kind::Write, 24 * page, 2 * page)],
        &[request(Kind::Write, 0, 2 * page), request(Kind::Write, 12 * page, 4 * page)],
    ];
    for (number, batch) in (0..).zip(batches) {
        for request in *batch {
            run.submit(*request)?;
        }
        if number == 2 || number == 5 {
            run.flush_cache()?;
        }
        if run.answered()? == End::Crash {
            return Ok(End::Crash);
        }
    }
    run.drained()
}
