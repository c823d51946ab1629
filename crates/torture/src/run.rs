//! One case, carried out: lives that end in crashes, each with recovery, a load and faults; at
//! the end the faults stop, everything must drain, and the disks must hold what they should.

use super::case::Case;
pub use super::counts::Counts;
use super::device::{Device as Disk, Survivors};
use super::draws::Draws;
use super::load::{self, Request};
use super::mishap_state::{Mishaps, RightStrip};
use super::model::{Kind, Learn, Model, WriteId};
use super::starve::Kind as Slow;
use super::world::{Order, World};
use destage_engine::array::disks::DiskSet;
use destage_engine::readcache::coherent::ReadCacheChoice;
use destage_engine::units::{DiskId, Instant, PAGE_BYTES, Page};
use destage_served::{Ack, Answer, Command, Defect, Refusal, Reply, Status, Volume};
use destage_workload::random::Seeded;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Steps without an answer after which the volume is stuck.
const STEPS_MAX: u64 = 200_000;

/// A request that is not answered yet.
pub(super) struct Pending {
    pub(super) request: Request,
    /// The write in the model, and its range there.
    pub(super) writes: Vec<(WriteId, Range<u64>)>,
    one_commit: bool,
    pub(super) asked: u64,
    /// Pages of a read that the NVS had all of.
    pub(super) held: Vec<u64>,
    /// Members that were being rebuilt, or have been in this life, and how many pages they had.
    pub(super) rebuilt: Vec<(DiskId, u64)>,
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
    /// Groups whose parity may be wrong: written through without NVS, and interrupted.
    pub holes: Vec<u64>,
    pub(super) volume: Option<Volume>,
    pub(super) draws: Draws,
    /// Disks that were replaced, as they were last.
    pub retired: Vec<(u16, Disk)>,
    /// Pages that could not be reconstructed, when the run was settled.
    pub(super) lost_pages: Vec<(u16, u64)>,
    /// Members that had lost pages when the last life ended, or were rebuilt in part: their records
    /// say so.
    pub(super) with_records: Vec<u16>,
    /// A rebuild has reported that it could not reconstruct a page.
    pub(super) rows_lost: bool,
    /// Rebuilds of the last lives in which the power was to fail.
    pub(super) rebuilds_cut: u32,
    /// In this life some destage could not be computed.
    pub(super) rows_kept: bool,
    /// The groups of these.
    pub(super) kept_groups: BTreeSet<u64>,
    /// Members that have failed in this life.
    pub(super) failed_lately: DiskSet,
    /// Destages may have been redone in this life: by its start, or since a spare failed.
    pub(super) redoes: bool,
    /// A page that no repair succeeds to write.
    pub(super) stuck: Option<u64>,
    /// The member that has it. If it fails for that as a rebuild ends, a crash may take back both.
    pub(super) was_stuck: Option<usize>,
    /// In this life sectors could not be read while a member had failed.
    pub(super) many_bad: bool,
    /// Pages that could not be destaged, when the run was settled.
    pub(super) kept: Vec<u64>,
    /// Ranges that a rebuild reported as lost: first page of the volume, pages.
    pub reported_lost: Vec<(u64, u64)>,
    /// Pages of members that were lost when this life began.
    pub(super) lost_at_start: Vec<(u16, u64)>,
    /// Pages that were written in this life, and not lost or trimmed since; and when they were.
    pub(super) rewritten: BTreeMap<u64, u64>,
    /// Pages that were trimmed in this life, and when they last were: what was lost is lost again.
    trimmed: BTreeMap<u64, u64>,
    pub(super) mishaps: Mishaps,
    /// The array was about to get another log, and has not started since.
    pub(super) relogging: bool,
    /// The NVS device that became the other's mirror in this life.
    pub(super) newly_mirrored: Option<u16>,
    /// The last crash but one left two different anchors.
    pub(super) anchors_cut: bool,
    /// A copy, on which something is supposed.
    pub(super) is_copy: bool,
    /// The NVS devices that were in use when a life ended in the midst of a change of the set of
    /// devices.
    pub(super) cut_change: Option<Vec<u16>>,
    /// No start was completed since.
    pub(super) change_cut: bool,
    /// Nor since an NVS device's superblock was damaged besides.
    pub(super) change_doubted: bool,
    /// A change or a start's mark was cut short at any time: one device may have it alone.
    pub(super) marks_cut: bool,
    /// A page of a member became wrong since the last scrub began.
    pub(super) wronged_lately: bool,
    /// One became wrong in this life: the stripe memory may have what was to be written there.
    pub(super) wronged_in_memory: bool,
    /// The last start was interrupted after it had written.
    pub(super) cut_start: bool,
    /// The start in progress uses what is left of the log.
    pub(super) accepting: bool,
    /// The last such start was interrupted.
    pub(super) cut_acceptance: bool,
    /// Pages of rows in [`Run::holes`] that a member has lost a write of, or has another's.
    pub(super) wronged: Vec<Page>,
    /// Strips of doubted rows that a repair must leave as they are.
    pub(super) right_strips: Vec<RightStrip>,
    /// The last scrub's result was checked.
    pub(super) scrub_seen: bool,
    /// Rows that were made wrong: first member and page.
    pub(super) expected: Vec<(u16, u64)>,
    pub(super) pending: BTreeMap<u64, Pending>,
    /// Requests of clients that are gone, and not answered.
    pub(super) withdrawn: BTreeSet<u64>,
    /// Writes are answered only when they are on the disks, though there is an NVS.
    pub(super) through: bool,
    /// The last writes of the host, oldest first.
    pub(super) lately: VecDeque<Request>,
    /// The next requests of the host, which writes something once more: what is dirty as the NVS
    /// fails, or what a client wrote that is gone.
    pub(super) writes_again: VecDeque<Request>,
    /// The block behind the last commit.
    pub(super) head: u64,
    /// The array does not know yet that it has lost the NVS while little was dirty.
    pub(super) loses_little: bool,
    /// Writes that the last crash interrupted, each of one commit.
    pub(super) cut_writes: Vec<(WriteId, Range<u64>)>,
    pub(super) next_ticket: u64,
    pub(super) now: Instant,
    /// Pages that the alarm of a lost NVS said a crash would lose.
    pub said_at_risk: Option<u64>,
    /// Pages that were dirty when the last NVS device failed.
    pub(super) at_risk: Vec<(u64, u64)>,
    /// The first request after that.
    pub(super) lost_before: u64,
    pub(super) nvs_lost: bool,
    pub(super) bad_media: bool,
    /// Two NVS devices are in sync.
    pub(super) mirrored: bool,
    /// More members were made to fail than the level tolerates.
    pub(super) stopping: bool,
    pub(super) stopped: bool,
    /// What is slow in this life, and perhaps in the next.
    pub(super) slow: Option<Slow>,
    /// The last life ended in a clean stop: all of the log is confirmed.
    pub(super) stopped_cleanly: bool,
    /// When the last life ended all devices were there and in use, and no start went without one
    /// since.
    pub(super) left_whole: bool,
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
        world.hasty = case.mishaps.then(|| Seeded::new(seed, "torture-hasty"));
        world.slow = case.mishaps.then(|| Seeded::new(seed, "torture-slow"));
        world.room = Some((destage_served::member_bytes(&case.geometry), case.nvs_bytes()));
        world.nvs_is_memory = case.nvs_is_memory;
        world.pressed = case.pressed;
        let bytes = case.geometry.volume_pages().0 * PAGE_BYTES;
        let model = Model::new(bytes, case.settings.ack == Ack::Flush);
        let mut run = Run::of(case, world, model);
        run.maybe_cut_creation()?;
        destage_served::create(&mut run.world, &run.case.creation())
            .map_err(|(device, error)| format!("create: {device}: {error}"))?;
        Ok(run)
    }

    /// An array that has these devices, and shows what the model says.
    pub(super) fn of(case: Case, world: World, model: Model) -> Run {
        Run {
            draws: Draws::new(case.seed),
            model,
            nvs_lost: case.nvs == 0,
            said_at_risk: None,
            case,
            world,
            counts: Counts::default(),
            failed: DiskSet::default(),
            holes: Vec::new(),
            volume: None,
            retired: Vec::new(),
            lost_pages: Vec::new(),
            with_records: Vec::new(),
            reported_lost: Vec::new(),
            lost_at_start: Vec::new(),
            rewritten: BTreeMap::new(),
            trimmed: BTreeMap::new(),
            rows_lost: false,
            rebuilds_cut: 0,
            rows_kept: false,
            kept_groups: BTreeSet::new(),
            failed_lately: DiskSet::default(),
            redoes: false,
            stuck: None,
            was_stuck: None,
            many_bad: false,
            kept: Vec::new(),
            mishaps: Mishaps::default(),
            relogging: false,
            newly_mirrored: None,
            anchors_cut: false,
            is_copy: false,
            cut_change: None,
            change_cut: false,
            change_doubted: false,
            marks_cut: false,
            wronged_lately: false,
            wronged_in_memory: false,
            cut_start: false,
            accepting: false,
            cut_acceptance: false,
            wronged: Vec::new(),
            right_strips: Vec::new(),
            scrub_seen: true,
            expected: Vec::new(),
            pending: BTreeMap::new(),
            withdrawn: BTreeSet::new(),
            through: false,
            lately: VecDeque::new(),
            writes_again: VecDeque::new(),
            head: 0,
            loses_little: false,
            cut_writes: Vec::new(),
            next_ticket: 0,
            now: Instant::ZERO,
            at_risk: Vec::new(),
            lost_before: 0,
            bad_media: false,
            mirrored: false,
            stopping: false,
            stopped: false,
            slow: None,
            stopped_cleanly: false,
            left_whole: false,
            plain: false,
        }
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

    /// Runs without new requests until the predicate holds.
    ///
    /// # Errors
    /// It never holds, or a check failed.
    pub fn drive_until(&mut self, so: &dyn Fn(&Run) -> bool) -> Result<End, String> {
        for _ in 0..STEPS_MAX {
            if so(self) {
                return Ok(End::Done);
            }
            self.step()?;
            if self.world.crashed || self.stopped {
                // An array that has stopped is switched off.
                self.check_still()?;
                return Ok(End::Crash);
            }
        }
        let reads = self.pending.values().any(|pending| pending.request.kind == load::Kind::Read);
        if self.may_lack_rows() && !reads {
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
        self.now = Instant(self.now.0 + self.draws.run.below(2_000_000));
        let mut waits = true;
        let drawn = self.draws.run.below(4);
        let more = if self.world.order == Order::Drawn { drawn } else { 0 };
        for _ in 0..=more {
            waits &= !self.world.can_finish();
            let Some((id, result)) = self.world.finish_one() else { continue };
            self.note_wronged();
            let now = self.now;
            self.volume_mut().done(now, id, result);
            self.collect()?;
        }
        if let Some(beyond) = self.world.beyond.take() {
            return Err(beyond);
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
        self.note_head(&ops);
        self.world.take(&mut ops);
        for alarm in alarms {
            self.alarm(&alarm)?;
        }
        replies.into_iter().try_for_each(|reply| self.answer(reply))
    }

    /// These pages are trimmed: what was lost of them before they were written is lost again.
    fn note_trim(&mut self, pages: Range<u64>) {
        let now = self.model.ask();
        for page in pages {
            self.rewritten.remove(&page);
            self.trimmed.insert(page, now);
        }
    }

    /// Whether all requests are answered.
    pub(super) fn all_answered(&self) -> bool {
        self.pending.is_empty()
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
                    self.note_trim(pages.start / PAGE_BYTES..pages.end / PAGE_BYTES);
                    writes.push((self.model.write(Kind::Any, &pages), pages));
                }
                Command::Trim { offset, bytes, fua }
            }
            load::Kind::Flush => Command::Flush,
        };
        if !matches!(kind, load::Kind::Read | load::Kind::Flush) {
            let pages = offset / PAGE_BYTES..(offset + bytes).div_ceil(PAGE_BYTES);
            self.right_strips.retain(|strip| !pages.contains(&strip.page));
            self.unstick(&pages);
        }
        if kind == load::Kind::Write {
            self.note_lately(request);
        }
        let asked = match kind {
            load::Kind::Read => self.model.ask_read(),
            _ => self.model.ask(),
        };
        self.world.note(ticket << 3 | kind as u64);
        let one_commit = self.is_one_commit(&request);
        let held = self.held_of(&request);
        let rebuilt = self.rebuilt_so_far();
        let pending = Pending { request, writes, one_commit, asked, held, rebuilt };
        self.pending.insert(ticket, pending);
        let now = self.now;
        self.volume_mut().submit(now, ticket, command, &payload);
        self.collect()
    }

    fn answer(&mut self, reply: Reply) -> Result<(), String> {
        if self.withdrawn.remove(&reply.ticket) {
            return Ok(());
        }
        let Some(pending) = self.pending.remove(&reply.ticket) else {
            return Err(format!("request {} was answered twice", reply.ticket));
        };
        self.counts.requests += 1;
        let good = reply.result.is_ok();
        self.counts.unreadable += u64::from(!good);
        self.world.note(reply.ticket << 1 | u64::from(good));
        if let Err(refusal) = &reply.result
            && !(self.stopped && *refusal == Refusal::Stopped)
            && !self.explains_refusal(&pending, reply.ticket < self.lost_before)
        {
            let Pending { request, held, .. } = &pending;
            return Err(format!("{request:?} was refused: {refusal}; the NVS had {held:?}"));
        }
        let Pending { request, writes, asked, one_commit, .. } = pending;
        if good && request.fua && !one_commit && self.case.pressed {
            // All of its commits must be durable.
            self.world.maybe_crash_at_once(4);
        }
        for (id, range) in &writes {
            self.model.written(*id, range, good, request.fua);
        }
        if request.kind == load::Kind::Flush && good {
            if self.nvs_lost && reply.ticket >= self.lost_before {
                // What only the lost NVS had is on the disks now.
                self.at_risk.clear();
            }
            // But for pages that no destage can compute, and of which the writes were refused.
            self.model.flushed(asked, !self.may_lack_rows());
            self.crash_after_a_flush();
        }
        if request.kind == load::Kind::Write && good {
            let Request { offset, bytes, .. } = request;
            let now = self.model.ask();
            let pages = offset.div_ceil(PAGE_BYTES)..(offset + bytes) / PAGE_BYTES;
            let kept = pages.filter(|page| self.trimmed.get(page).is_none_or(|when| *when < asked));
            self.rewritten.extend(kept.map(|page| (page, now)));
            self.maybe_lose_what_is_not_in_the_log();
        }
        if request.kind == load::Kind::Read {
            let outcome = match &reply.result {
                Ok(Answer::Data { buffer, from, bytes }) => {
                    let learn = self.what_reads_show();
                    self.world.note(hash(&buffer[*from..*from + *bytes]));
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

    /// Whether rows may have too little left: more than one member cannot read something, or a
    /// rebuild has reported it.
    pub(super) fn may_lack_rows(&self) -> bool {
        let lost = |volume: &Volume| !volume.lost_pages().is_empty();
        let bad = self.world.members.iter().filter(|disk| disk.has_bad()).count();
        bad > 1
            || self.many_bad
            || self.rows_lost
            || self.rows_kept && (self.writes_through() || !self.holes.is_empty())
            || self.volume.as_ref().is_some_and(|volume| lost(volume) || self.lacks_stuck(volume))
    }

    /// Whether a page that could not be repaired lacks what was being rebuilt then, and has failed.
    fn lacks_stuck(&self, volume: &Volume) -> bool {
        self.was_stuck.is_some()
            && volume.rebuild_status().is_empty()
            && !volume.status().failed.is_empty()
    }

    /// A load of this many requests, with faults if the case has them.
    ///
    /// # Errors
    /// A check failed.
    pub fn load(&mut self, requests: u64) -> Result<End, String> {
        let (mut left, mut rests) = (requests, 0u64);
        for _ in 0..STEPS_MAX {
            if left == 0 || self.world.crashed {
                break;
            }
            if self.stopped {
                // Nothing continues: it is switched off.
                self.check_still()?;
                return Ok(End::Crash);
            }
            rests = rests.saturating_sub(1).max(self.pause_of_host());
            while left > 0
                && rests == 0
                && ((self.pending.len() as u64) < self.case.depth || !self.writes_again.is_empty())
                && self.draws.run.below(3) > 0
            {
                let drawn = load::draw(&self.case, self.bytes(), &mut self.draws.run);
                let request = self.pressed_request().unwrap_or(drawn);
                self.submit(request)?;
                left -= 1;
            }
            if self.case.faults && self.draws.run.below(self.case.fault_steps) == 0 {
                self.fault();
            }
            self.maybe_scrub()?;
            self.maybe_mirror()?;
            self.maybe_replace()?;
            self.maybe_cut_rebuild();
            self.maybe_exchange_cache()?;
            self.maybe_fill_up();
            self.maybe_spoil_degraded();
            self.maybe_spoil_row();
            self.maybe_read_a_row_being_written()?;
            self.maybe_stick();
            self.maybe_error();
            self.maybe_lose_write();
            self.maybe_lose_little();
            self.maybe_withdraw()?;
            self.maybe_write_through()?;
            self.maybe_pad()?;
            if self.draws.run.below(100) == 0 {
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
        // Pages of lost rows may fill the NVS: then nothing continues, and it is switched off.
        Ok(if self.world.crashed || left > 0 { End::Crash } else { End::Done })
    }

    /// Ends a life: the power fails.
    pub fn crash(&mut self, survivors: Survivors) {
        self.end_life(|world, _| world.crash(survivors));
    }

    /// Ends a life: the process is killed, and the devices keep what they have in their caches.
    pub fn killed(&mut self) {
        self.counts.kills += 1;
        self.end_life(World::killed);
    }

    fn end_life(&mut self, how: impl FnOnce(&mut World, &mut Seeded)) {
        let cut = self.volume.as_ref().filter(|volume| volume.is_changing());
        self.cut_change = cut.map(|volume| volume.status().nvs_devices);
        self.change_cut |= self.cut_change.is_some();
        self.marks_cut |= self.change_cut;
        let dirty = self.volume.as_ref().map(|volume| volume.dirty_in(0, u64::MAX));
        if self.volume.is_some() {
            self.left_whole = self.is_whole();
        }
        if let Some(volume) = self.volume.take() {
            let lost = volume.lost_pages().into_iter().map(|lost| lost.0);
            let rebuilds = volume.rebuild_status().into_iter();
            let rebuilt = rebuilds.filter(|rebuild| rebuild.checkpoint > 0).map(|r| r.member);
            self.with_records = lost.chain(rebuilt).collect();
            self.with_records.dedup();
        }
        self.note_cut_writes();
        how(&mut self.world, &mut self.draws.kills);
        self.note_wronged();
        self.wronged_in_memory = false;
        self.end_errors();
        self.make_space();
        self.model.crashed();
        self.counts.crashes += 1;
        if self.cut_change.is_some() && self.nvs_named_by_all() == Some(self.world.nvs.len()) {
            // The failure of the last one is not recorded: what it has counts.
            self.nvs_lost &= self.world.nvs.is_empty();
        }
        if self.nvs_lost {
            self.lost_writes(&dirty.unwrap_or_default());
        }
        // NVS devices are back; the superblocks decide whether they count.
        self.world.nvs.iter_mut().for_each(|disk| disk.gone = false);
        self.at_risk.clear();
        if let Some(member) = self.was_stuck.take() {
            self.world.members[member].gone = false;
        }
        self.through = false;
        self.writes_again.clear();
        self.withdrawn.clear();
        self.loses_little = false;
        (self.rows_kept, self.many_bad, self.stuck) = (false, false, None);
        self.kept_groups.clear();
        self.rewritten.clear();
        self.trimmed.clear();
        self.members_return();
        if self.bad_media {
            self.maybe_heal();
        }
        self.failed_lately = DiskSet::default();
        self.world.members.iter_mut().chain(&mut self.world.nvs).for_each(Disk::forget_healed);
    }

    /// The life ends with these writes unanswered.
    fn note_cut_writes(&mut self) {
        let in_log = !self.writes_through();
        let cut = core::mem::take(&mut self.pending).into_values();
        let cut = cut.filter(|pending| in_log && pending.one_commit);
        self.cut_writes = cut.flat_map(|pending| pending.writes).collect();
    }

    /// Whether all of a request goes into one commit.
    fn is_one_commit(&self, request: &Request) -> bool {
        let Request { kind, offset, bytes, .. } = *request;
        let pages = (offset + bytes).div_ceil(PAGE_BYTES) - offset / PAGE_BYTES;
        let dirty_pages = self.volume().controller().directory().capacity().0;
        let writes = matches!(kind, load::Kind::Write | load::Kind::Zero);
        writes && pages <= self.case.commit_pages(dirty_pages)
    }

    /// After everything was read: a write that the crash interrupted is there, or it is not.
    ///
    /// # Errors
    /// It is there in part.
    pub(super) fn check_cut_writes(&self) -> Result<(), String> {
        if self.nvs_lost || self.may_lack_rows() {
            return Ok(());
        }
        self.cut_writes.iter().try_for_each(|(id, range)| self.model.check_whole(*id, range))
    }

    pub(super) fn writes_through(&self) -> bool {
        self.nvs_lost || self.case.settings.cache_off
    }

    /// What a read says of older writes. What is read before the loss of the last NVS is recorded
    /// may be gone with it. Without NVS, disks that have the same show it, perhaps from their
    /// caches.
    fn what_reads_show(&self) -> Learn {
        let settled = self.case.geometry.level.is_mirrored() && !self.volume().is_changing();
        match self.nvs_lost {
            false => Learn::Lasting,
            true if settled => Learn::UntilCrash,
            true => Learn::Nothing,
        }
    }

    /// Whether the array has no NVS in use.
    pub(super) fn nvs_lost(&self) -> bool {
        self.nvs_lost
    }

    pub(super) fn set_nvs_state(&mut self, lost: bool, mirrored: bool) {
        (self.nvs_lost, self.mirrored) = (lost, mirrored);
    }

    /// Whether two NVS devices are in sync.
    pub fn is_mirrored(&self) -> bool {
        self.mirrored
    }

    /// The state of the volume.
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
            self.counts.idle_destages += counters.idle_destages;
            self.counts.cached += counters.read_pages_cached;
            self.counts.moved += volume.status().records_moved;
        }
    }
}

/// Whether a page is in one of these ranges: first page, pages.
pub(super) fn is_in(ranges: &[(u64, u64)], page: u64) -> bool {
    ranges.iter().any(|(first, pages)| (*first..first + pages).contains(&page))
}

/// A hash of the sectors that were read.
fn hash(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
    words.fold(0, |hash: u64, word| {
        (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    })
}
