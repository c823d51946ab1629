//! One case, carried out: lives that end in crashes, each with recovery, a load and faults; at
//! the end the faults stop, everything must drain, and the disks must hold what they should.

use super::audit;
use super::case::Case;
pub use super::counts::Counts;
use super::device::{Device as Disk, Survivors};
use super::load::{self, Request};
use super::mishaps::Mishaps;
use super::model::{Kind, Model, WriteId};
use super::world::World;
use destage_engine::array::disks::DiskSet;
use destage_engine::array::geometry::Level;
use destage_engine::readcache::coherent::ReadCacheChoice;
use destage_engine::units::{DiskId, Duration, Instant, PAGE_BYTES};
use destage_served::{
    Ack, Alarm, Answer, Cause, Command, Defect, OnNvsLoss, Refusal, Reply, Status, Volume,
};
use destage_workload::random::Seeded;
use std::collections::BTreeMap;
use std::ops::Range;

/// Steps without an answer after which the volume is stuck.
const STEPS_MAX: u64 = 200_000;

/// A request under way.
struct Pending {
    request: Request,
    /// The write in the model, and its range there.
    writes: Vec<(WriteId, Range<u64>)>,
    asked: u64,
}

/// A run.
pub struct Run {
    /// The case.
    pub case: Case,
    /// The devices.
    pub world: World,
    /// What may be read.
    pub model: Model,
    /// What was counted.
    pub counts: Counts,
    /// Members that have failed.
    pub failed: DiskSet,
    /// Groups whose parity nothing vouches for: written through without NVS, and interrupted.
    pub holes: Vec<u64>,
    pub(super) volume: Option<Volume>,
    pub(super) rng: Seeded,
    /// A generator of its own: a run without scrubs is as it was before there were any.
    pub(super) scrub_rng: Seeded,
    /// Likewise for rebuilds.
    pub(super) rebuild_rng: Seeded,
    /// Disks that were replaced, as they were last.
    pub retired: Vec<(u16, Disk)>,
    /// Pages that could not be computed: those of the volume at its end.
    pub(super) lost_pages: Vec<(u16, u64)>,
    /// A rebuild has said that it could not compute a page.
    pub(super) rows_lost: bool,
    /// In this life some destage could not be computed.
    rows_kept: bool,
    /// In this life sectors could not be read while a member had failed.
    pub(super) many_bad: bool,
    /// Pages that could not be destaged: those of the volume at its end.
    pub(super) kept: Vec<u64>,
    /// Ranges that a rebuild said are lost: first page of the volume, pages.
    pub reported_lost: Vec<(u64, u64)>,
    /// Likewise.
    pub(super) cache_rng: Seeded,
    /// Likewise.
    pub(super) mishap_rng: Seeded,
    /// Likewise.
    pub(super) plain_rng: Seeded,
    /// Likewise.
    pub(super) unwritable_rng: Seeded,
    pub(super) mishaps: Mishaps,
    /// The last scrub's result was looked at.
    pub(super) scrub_seen: bool,
    /// Rows that were made wrong: first member and page.
    pub(super) expected: Vec<(u16, u64)>,
    pending: BTreeMap<u64, Pending>,
    next_ticket: u64,
    pub(super) now: Instant,
    /// Pages that the alarm of a lost NVS said a crash would lose.
    pub said_at_risk: Option<u64>,
    /// Pages that were dirty when the last NVS device failed.
    at_risk: Vec<(u64, u64)>,
    pub(super) nvs_lost: bool,
    pub(super) bad_media: bool,
    /// Two NVS devices have the log whole.
    pub(super) mirrored: bool,
    /// More members were made to fail than the level bears.
    pub(super) stopping: bool,
    stopped: bool,
    /// The next starts are without `--degraded`.
    pub plain: bool,
}

/// How a phase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As it should.
    Done,
    /// The power failed.
    Crash,
}

impl Run {
    /// A new array.
    ///
    /// # Errors
    /// What went wrong.
    pub fn new(case: Case) -> Result<Run, String> {
        let seed = case.seed;
        let mut world = World::new(case.geometry.disks, case.nvs, seed);
        world.sizes_unknown = case.settings.defect == Defect::IgnoresSizes;
        destage_served::create(&mut world, &case.creation())
            .map_err(|(device, error)| format!("create: {device}: {error}"))?;
        let bytes = case.geometry.volume_pages().0 * PAGE_BYTES;
        Ok(Run {
            model: Model::new(bytes, case.settings.ack == Ack::Flush),
            nvs_lost: case.nvs == 0,
            said_at_risk: None,
            case,
            world,
            counts: Counts::default(),
            failed: DiskSet::default(),
            holes: Vec::new(),
            volume: None,
            rng: Seeded::new(seed, "torture-run"),
            scrub_rng: Seeded::new(seed, "torture-scrubs"),
            rebuild_rng: Seeded::new(seed, "torture-rebuilds"),
            retired: Vec::new(),
            lost_pages: Vec::new(),
            reported_lost: Vec::new(),
            rows_lost: false,
            rows_kept: false,
            many_bad: false,
            kept: Vec::new(),
            cache_rng: Seeded::new(seed, "torture-read-caches"),
            mishap_rng: Seeded::new(seed, "torture-mishaps"),
            plain_rng: Seeded::new(seed, "torture-plain-starts"),
            unwritable_rng: Seeded::new(seed, "torture-unwritable"),
            mishaps: Mishaps::default(),
            scrub_seen: true,
            expected: Vec::new(),
            pending: BTreeMap::new(),
            next_ticket: 0,
            now: Instant::ZERO,
            at_risk: Vec::new(),
            bad_media: false,
            mirrored: false,
            stopping: false,
            stopped: false,
            plain: false,
        })
    }

    /// Bytes of the volume.
    pub fn bytes(&self) -> u64 {
        self.case.geometry.volume_pages().0 * PAGE_BYTES
    }

    pub(super) fn volume(&self) -> &Volume {
        self.volume.as_ref().expect("an open volume")
    }

    pub(super) fn volume_mut(&mut self) -> &mut Volume {
        self.volume.as_mut().expect("an open volume")
    }

    /// The time of the run.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Goes on without new requests until something is so.
    ///
    /// # Errors
    /// It does not come to be so, or a check failed.
    pub fn drive_until(&mut self, so: &dyn Fn(&Run) -> bool) -> Result<End, String> {
        for _ in 0..STEPS_MAX {
            if so(self) {
                return Ok(End::Done);
            }
            self.step()?;
            if self.world.crashed || self.stopped {
                // An array that has stopped is switched off.
                return Ok(End::Crash);
            }
        }
        if self.may_lack_rows() {
            // Pages of lost rows fill the NVS: it is switched off.
            return Ok(End::Crash);
        }
        Err(format!(
            "stuck: {} requests unanswered, {:?}",
            self.pending.len(),
            self.volume().status()
        ))
    }

    /// One batch: operations done, the volume's turn, answers checked.
    ///
    /// # Errors
    /// A check failed.
    pub fn step(&mut self) -> Result<(), String> {
        self.now = Instant(self.now.0 + self.rng.below(2_000_000));
        let mut waits = true;
        for _ in 0..=self.rng.below(4) {
            waits &= !self.world.can_finish();
            let Some((id, result)) = self.world.finish_one() else { continue };
            let now = self.now;
            self.volume_mut().done(now, id, result);
            self.collect()?;
        }
        if self.world.crashed {
            return Ok(());
        }
        if waits && let Some(deadline) = self.volume().deadline() {
            self.now = self.now.max(deadline);
        }
        let now = self.now;
        self.volume_mut().turn(now);
        self.feed_scrub()?;
        self.collect()
    }

    /// Takes operations, alarms and answers from the volume.
    pub(super) fn collect(&mut self) -> Result<(), String> {
        let volume = self.volume.as_mut().expect("an open volume");
        let mut ops = Vec::new();
        volume.take_ops(&mut ops);
        let (mut replies, alarms) = (Vec::new(), volume.take_alarms());
        volume.take_replies(&mut replies);
        self.world.take(&mut ops);
        for alarm in alarms {
            self.alarm(&alarm)?;
        }
        replies.into_iter().try_for_each(|reply| self.answer(reply))
    }

    fn alarm(&mut self, alarm: &Alarm) -> Result<(), String> {
        match alarm {
            Alarm::MemberFailed(member, _) => {
                self.counts.members_failed += 1;
                self.failed.insert(DiskId(*member));
                // What is given up is not written any more.
                self.world.members[usize::from(*member)].gone = true;
            }
            Alarm::NvsMirrorLost(..) => {
                self.counts.nvs_failed += 1;
                self.mirrored = false;
            }
            Alarm::NvsLost { pages, .. } => {
                self.said_at_risk = Some(*pages);
                self.mirrored = false;
                self.stopped |= self.case.settings.on_nvs_loss == OnNvsLoss::Stop;
                self.counts.nvs_failed += 1;
                self.nvs_lost = true;
                self.at_risk = self.volume().dirty_in(0, u64::MAX);
            }
            Alarm::NvsMirrored(_) => {
                self.counts.mirrors += 1;
                self.mirrored = true;
            }
            Alarm::MirrorFailed(_) => {}
            Alarm::DeviceWaits(..) => self.counts.waits += 1,
            Alarm::DeviceAnswers(_) => self.counts.waits_ended += 1,
            Alarm::Repaired { .. } => self.counts.repairs += 1,
            Alarm::MemberRebuilt(member) => {
                self.counts.rebuilt += 1;
                self.failed.remove(DiskId(*member));
            }
            Alarm::RebuildStopped(member, _) => {
                self.counts.spares_failed += 1;
                self.world.members[usize::from(*member)].gone = true;
            }
            Alarm::PagesLost { ranges, .. } if self.bad_media || self.may_lack_rows() => {
                self.reported_lost.extend(ranges);
                self.rows_lost = true;
            }
            Alarm::ArrayStopped(_) if self.stopping => self.stopped = true,
            Alarm::PagesKept { .. } if self.bad_media || self.may_lack_rows() => {
                self.counts.kept += 1;
                // Without NVS what waits for them is refused.
                self.rows_kept = true;
            }
            Alarm::PagesDestaged { .. } | Alarm::SuperblockRepaired { .. } => {}
            Alarm::ArrayStopped(_) | Alarm::PagesKept { .. } | Alarm::PagesLost { .. } => {
                let status = self.volume().status();
                return Err(format!("alarm: {alarm:?} {status:?}"));
            }
        }
        Ok(())
    }

    /// Gives the volume a request.
    ///
    /// # Errors
    /// A check failed.
    pub fn submit(&mut self, request: Request) -> Result<(), String> {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let mut writes = Vec::new();
        let mut payload = Vec::new();
        let Request { kind, offset, bytes, fua } = request;
        let range = offset..offset + bytes;
        let command = match kind {
            load::Kind::Read => Command::Read { offset, bytes: bytes as usize },
            load::Kind::Write => {
                let id = self.model.write(Kind::Data, &range);
                payload.resize(bytes as usize, 0);
                super::model::fill(id, offset, &mut payload);
                writes.push((id, range));
                Command::Write { offset, fua }
            }
            load::Kind::Zero => {
                writes.push((self.model.write(Kind::Zeros, &range), range));
                Command::Zero { offset, bytes, fua }
            }
            load::Kind::Trim => {
                let pages =
                    offset.next_multiple_of(PAGE_BYTES)..(offset + bytes) / PAGE_BYTES * PAGE_BYTES;
                if !pages.is_empty() {
                    writes.push((self.model.write(Kind::Any, &pages), pages));
                }
                Command::Trim { offset, bytes, fua }
            }
            load::Kind::Flush => Command::Flush,
        };
        let asked = match kind {
            load::Kind::Read => self.model.ask_read(),
            _ => self.model.ask(),
        };
        self.world.note(ticket << 3 | kind as u64);
        self.pending.insert(ticket, Pending { request, writes, asked });
        let now = self.now;
        self.volume_mut().submit(now, ticket, command, &payload);
        self.collect()
    }

    fn answer(&mut self, reply: Reply) -> Result<(), String> {
        let Some(Pending { request, writes, asked }) = self.pending.remove(&reply.ticket) else {
            return Err(format!("request {} was answered twice", reply.ticket));
        };
        self.counts.requests += 1;
        let good = reply.result.is_ok();
        self.counts.unreadable += u64::from(!good);
        self.world.note(reply.ticket << 1 | u64::from(good));
        if let Err(refusal) = &reply.result
            && !self.may_be_unreadable()
            && *refusal != Refusal::Stopped
        {
            return Err(format!("{request:?} was refused: {refusal}"));
        }
        for (id, range) in &writes {
            self.model.written(*id, range, good, request.fua);
        }
        if request.kind == load::Kind::Flush && good {
            self.model.flushed(asked);
        }
        if request.kind == load::Kind::Read {
            let outcome = match &reply.result {
                Ok(Answer::Data { buffer, from, bytes }) => {
                    let learn = !self.nvs_lost;
                    self.world.note(u64::from(crc(&buffer[*from..*from + *bytes])));
                    self.model.check(request.offset, &buffer[*from..*from + *bytes], asked, learn)
                }
                Ok(Answer::Done) => Err("a read without bytes".to_string()),
                Err(_) => Ok(()),
            };
            self.model.end_read(asked);
            return outcome.map_err(|why| format!("{request:?}: {why}"));
        }
        Ok(())
    }

    /// Whether a request may fail because of media that cannot be read.
    fn may_be_unreadable(&self) -> bool {
        let level = self.case.geometry.level;
        let bare = matches!(level, Level::Single | Level::Raid0) || !self.failing().is_empty();
        self.bad_media && bare || self.may_lack_rows()
    }

    /// Whether rows may have too little left: more than one member cannot read something, or a
    /// rebuild has said so.
    pub(super) fn may_lack_rows(&self) -> bool {
        let lost = |volume: &Volume| !volume.lost_pages().is_empty();
        let bad = self.world.members.iter().filter(|disk| disk.has_bad()).count();
        bad > 1
            || self.many_bad
            || self.rows_lost
            || self.rows_kept && self.writes_through()
            || self.volume.as_ref().is_some_and(lost)
    }

    /// A load of so many requests, with faults if the case has them.
    ///
    /// # Errors
    /// A check failed.
    pub fn load(&mut self, requests: u64) -> Result<End, String> {
        let mut left = requests;
        for _ in 0..STEPS_MAX {
            if left == 0 || self.world.crashed {
                break;
            }
            if self.stopped {
                // Nothing goes on: it is switched off.
                return Ok(End::Crash);
            }
            while left > 0 && (self.pending.len() as u64) < self.case.depth && self.rng.below(3) > 0
            {
                let request = load::draw(&self.case, self.bytes(), &mut self.rng);
                self.submit(request)?;
                left -= 1;
            }
            if self.case.faults && self.rng.below(self.case.fault_steps) == 0 {
                self.fault();
            }
            self.maybe_scrub()?;
            self.maybe_mirror()?;
            self.maybe_replace()?;
            self.maybe_exchange_cache()?;
            self.maybe_fill_up();
            self.maybe_spoil_degraded();
            if self.rng.below(100) == 0 {
                let now = self.now;
                self.volume_mut().flush_cache(now);
            }
            self.collect()?;
            self.step()?;
        }
        let full = self.may_lack_rows();
        if left > 0 && !self.world.crashed && !full {
            return Err(format!("stuck under load: {:?}", self.volume().status()));
        }
        // Pages of lost rows may fill the NVS: then nothing goes on, and it is switched off.
        Ok(if self.world.crashed || left > 0 { End::Crash } else { End::Done })
    }

    /// A device fails, or a medium.
    fn fault(&mut self) {
        let geometry = self.case.geometry;
        let member = self.rng.below(u64::from(geometry.disks)) as u16;
        let mut failed = self.failing();
        failed.insert(DiskId(member));
        let bears = geometry.survives(&failed)
            && !(self.case.nvs > 0 && self.nvs_lost)
            && self.holes.is_empty();
        match self.rng.below(10) {
            0 if bears && !self.bad_media => self.world.members[usize::from(member)].gone = true,
            1 if bears && !self.bad_media => self.world.members[usize::from(member)].hangs = true,
            2 if bears && !self.bad_media => {
                self.volume_mut().give_up_member(member, Cause::Asked);
            }
            3..=6 => {
                let redundant = !matches!(geometry.level, Level::Single | Level::Raid0);
                let mut others =
                    (0..).zip(&self.world.members).filter(|(other, _)| *other != member);
                let alone = !others.any(|(_, disk)| disk.has_bad());
                if redundant && alone && self.failing().is_empty() && self.holes.is_empty() {
                    self.bad_media = true;
                    let first = (1 << 20) / 512 + self.rng.below(geometry.disk_pages * 8);
                    for sector in first..first + 1 + self.rng.below(8) {
                        self.world.members[usize::from(member)].spoil(sector);
                    }
                }
            }
            7 if self.case.nvs == 2 => {
                let copy = self.rng.below(2) as usize;
                let fail = |disk: &mut Disk, hangs: bool| match hangs {
                    true => disk.hangs = true,
                    false => disk.gone = true,
                };
                let hangs = self.rng.below(2) == 0;
                if !self.world.nvs[1 - copy].gone && !self.world.nvs[1 - copy].hangs {
                    fail(&mut self.world.nvs[copy], hangs);
                }
            }
            8 if self.case.nvs > 0 && self.rng.below(8) == 0 => {
                self.world.nvs.iter_mut().for_each(|disk| disk.gone = true);
            }
            9 if !geometry.survives(&failed)
                && self.rng.below(8) == 0
                && !self.nvs_lost
                && self.world.crash_at.is_some() =>
            {
                self.stopping = true;
                self.world.members[usize::from(member)].gone = true;
            }
            _ => {}
        }
    }

    /// Members that have failed, whether the volume knows it or not.
    fn failing(&self) -> DiskSet {
        let mut failing = self.failed.clone();
        for (number, disk) in (0..).zip(&self.world.members) {
            if disk.gone || disk.hangs {
                failing.insert(DiskId(number));
            }
        }
        failing
    }

    /// Ends a life: the power fails.
    pub fn crash(&mut self, survivors: Survivors) {
        let dirty = self.volume.as_ref().map(|volume| volume.dirty_in(0, u64::MAX));
        self.volume = None;
        self.pending.clear();
        self.world.crash(survivors);
        self.make_space();
        self.model.crashed();
        self.counts.crashes += 1;
        if self.nvs_lost {
            self.lost_writes(&dirty.unwrap_or_default());
        }
        // NVS devices are back; whether they count is for the superblocks to say.
        self.world.nvs.iter_mut().for_each(|disk| disk.gone = false);
        self.at_risk.clear();
        (self.rows_kept, self.many_bad) = (false, false);
        self.members_return();
        if self.bad_media {
            self.world.members.iter_mut().for_each(Disk::heal);
            self.bad_media = false;
        }
    }

    /// Members that were gone may be back; if the array knew that they had failed, it must not
    /// use them.
    fn members_return(&mut self) {
        for member in 0..self.world.members.len() {
            if self.stopping || self.rng.below(2) == 0 {
                self.world.members[member].gone = false;
            }
        }
        (self.stopping, self.stopped) = (false, false);
    }

    /// The array was written through without NVS when the power failed.
    fn lost_writes(&mut self, dirty: &[(u64, u64)]) {
        let pages: Vec<u64> =
            dirty.iter().flat_map(|(first, pages)| *first..first + pages).collect();
        let per_group = self.case.geometry.pages_per_group();
        let at_risk: Vec<u64> =
            self.at_risk.iter().flat_map(|(first, pages)| *first..first + pages).collect();
        for page in &pages {
            if at_risk.contains(page) {
                self.model.wild(&(page * PAGE_BYTES..(page + 1) * PAGE_BYTES));
            }
        }
        if self.case.geometry.level.parities() == 0 && self.case.geometry.level != Level::Raid10 {
            return;
        }
        let mut groups: Vec<u64> = pages.iter().map(|page| page / per_group).collect();
        groups.dedup();
        for group in groups {
            // Pages that a rebuild could not compute are as those of a failed member.
            if !self.failing().is_empty() || self.rows_lost {
                let first = group * per_group * PAGE_BYTES;
                self.model.wild(&(first..first + per_group * PAGE_BYTES));
            }
            self.holes.push(group);
        }
    }

    /// Takes a member away while the array is down, if the level bears it.
    pub fn take_member_away(&mut self) {
        let member = self.rng.below(u64::from(self.case.geometry.disks)) as u16;
        if self.may_be_away(member) {
            self.world.members[usize::from(member)].gone = true;
        }
    }

    /// Whether the level bears that a member is away at the next start.
    pub(super) fn may_be_away(&self, member: u16) -> bool {
        let mut failed = self.failing();
        failed.insert(DiskId(member));
        self.case.geometry.survives(&failed) && !self.nvs_lost && self.holes.is_empty()
    }

    /// A bit rots on one of two NVS devices that both have the log.
    pub fn rot(&mut self) {
        // One fault of the log at a time.
        let bad = self.world.nvs.iter().any(Disk::has_bad);
        if bad || self.mishaps.pending() || !core::mem::take(&mut self.mirrored) {
            return;
        }
        let copy = self.rng.below(2) as usize;
        self.mishaps.rotten_log = true;
        for _ in 0..1 + self.rng.below(20) {
            let ring = destage_served::ring_blocks_of(self.case.nvs_pages, self.case.block_bytes);
            let (sector, bit) = self.place_in_log(ring * u64::from(self.case.block_bytes));
            self.counts.rotten += u64::from(self.world.nvs[copy].rot(sector, bit));
        }
    }

    fn writes_through(&self) -> bool {
        self.nvs_lost || self.case.settings.cache_off
    }

    /// Whether the array has no NVS in use.
    pub(super) fn nvs_lost(&self) -> bool {
        self.nvs_lost
    }

    pub(super) fn set_nvs_state(&mut self, lost: bool, mirrored: bool) {
        (self.nvs_lost, self.mirrored) = (lost, mirrored);
    }

    /// Whether two NVS devices have the log whole.
    pub fn is_mirrored(&self) -> bool {
        self.mirrored
    }

    /// Waits for all answers.
    ///
    /// # Errors
    /// A check failed.
    pub fn answered(&mut self) -> Result<End, String> {
        self.drive_until(&|run| run.pending.is_empty())
    }

    /// Waits until nothing is under way and the log is confirmed.
    ///
    /// # Errors
    /// A check failed.
    pub fn quiet(&mut self) -> Result<(), String> {
        self.answered()?;
        self.drive_until(&|run| run.volume().idle())?;
        self.now = Instant(self.now.0 + Duration::from_secs(1).0);
        self.step()?;
        self.drive_until(&|run| run.volume().idle()).map(|_| ())
    }

    /// Begins to destage everything.
    ///
    /// # Errors
    /// A check failed.
    pub fn flush_cache(&mut self) -> Result<(), String> {
        let now = self.now;
        self.volume_mut().flush_cache(now);
        self.collect()
    }

    /// Waits for everything to be on the disks.
    ///
    /// # Errors
    /// A check failed.
    pub fn drained(&mut self) -> Result<End, String> {
        self.flush_cache()?;
        self.drive_until(&|run| {
            let volume = run.volume();
            // Pages of rows that are lost stay in NVS.
            let all = volume.drained() && (volume.status().kept_pages == 0 || run.may_lack_rows());
            volume.idle() && all
        })
    }

    /// Reads the whole volume and checks it.
    ///
    /// # Errors
    /// A check failed.
    pub fn read_all(&mut self) -> Result<End, String> {
        let mut offset = 0;
        while offset < self.bytes() {
            let bytes = (64 * PAGE_BYTES).min(self.bytes() - offset);
            self.submit(Request { kind: load::Kind::Read, offset, bytes, fua: false })?;
            offset += bytes;
        }
        self.answered()
    }

    /// The faults stop: everything is answered, everything drains, and the disks are right.
    ///
    /// # Errors
    /// A check failed, or the array has stopped.
    pub fn settle(&mut self) -> Result<(), String> {
        match self.settle_or_stop()? {
            End::Done => Ok(()),
            End::Crash => Err("the array stopped while it was to drain".into()),
        }
    }

    /// The same, of an array that may have stopped because its last NVS device had failed: it
    /// keeps what is dirty, so the disks say nothing yet. Then it has ended as by a crash.
    ///
    /// # Errors
    /// A check failed.
    pub fn settle_or_stop(&mut self) -> Result<End, String> {
        self.world.members.iter_mut().for_each(Disk::heal);
        self.make_space();
        let phases = [
            Run::answered,
            Run::make_whole_if_asked,
            Run::drained,
            Run::read_all,
            Run::end_scrub,
            Run::check_rows,
        ];
        for phase in phases {
            if phase(self)? == End::Crash {
                return Ok(End::Crash);
            }
        }
        let now = Instant(self.now.0 + Duration::from_secs(1).0);
        self.now = now;
        self.volume_mut().confirm(now);
        self.collect()?;
        if self.drive_until(&|run| run.volume().idle())? == End::Crash {
            return Ok(End::Crash);
        }
        self.note_counts();
        self.world.crash(Survivors::None);
        self.lost_pages = self.volume().lost_pages();
        self.kept = self.dirty_pages();
        self.volume = None;
        audit::disks(self)?;
        Ok(End::Done)
    }

    /// How the volume stands.
    pub fn status(&self) -> Status {
        self.volume().status()
    }

    /// Another read cache, or none.
    pub fn exchange_cache(&mut self, cache: Option<ReadCacheChoice>) {
        self.volume_mut().set_read_cache(cache).expect("a cache of some size");
    }

    /// Adds what the volume counted in this life.
    pub fn note_counts(&mut self) {
        if let Some(volume) = &self.volume {
            let counters = volume.status().counters;
            self.counts.destaged += counters.destaged_pages;
            self.counts.cached += counters.read_pages_cached;
            self.counts.moved += volume.status().records_moved;
        }
    }
}

fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
