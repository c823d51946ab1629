//! A disk at work: its queue, its scheduler and the time each command takes.
//!
//! What a command needs of the geometry is worked out once, when it is submitted; choosing
//! among the window then takes a table look-up and a few additions for each candidate.

use std::collections::VecDeque;
use std::sync::Arc;

use destage_engine::units::{Duration, Instant};

use crate::cache::Cache;
use crate::extent::Extent;
use crate::geometry::SectorPlace;
use crate::head::{Approach, DiskOp, Head};
use crate::media::{Media, MediaCounts};
use crate::model::DiskModel;
use crate::spec::{DiskSpec, Scheduler};

/// Where the time of a command went. The sum is completion minus start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Command overhead, and waiting for background writes of the drive's own cache.
    pub overhead: Duration,
    /// Seek with head switch and write settling.
    pub seek: Duration,
    /// Waiting for the first sector, or for a slow bus to bring what is to be written.
    pub rotation: Duration,
    /// From the first sector to completion, with the switches and waits in between.
    pub transfer: Duration,
}

impl Service {
    /// Completion minus start.
    pub fn total(&self) -> Duration {
        self.overhead + self.seek + self.rotation + self.transfer
    }
}

/// A command that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The command.
    pub op: DiskOp,
    /// Where its time went.
    pub service: Service,
    /// The drive's buffer served it.
    pub cache_hit: bool,
}

/// A queued command with all that choosing and serving it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued {
    pub(crate) op: DiskOp,
    since: Instant,
    /// A write that is done only when it is on the medium.
    durable: bool,
    cylinder: u32,
    head: u32,
    /// Angle of its first sector.
    target_ns: u32,
    /// Overhead it pays after a read, and what a write before it adds (wrapping).
    fixed_ns: u32,
    after_write_ns: u32,
    /// Of which for coming to an idle disk.
    idle_ns: u32,
    /// What settling adds to moving the heads.
    settle_ns: i32,
    /// Least time from overhead to first sector that lets a slow bus keep up with a write.
    hold_ns: u32,
    /// From its first sector to its last.
    media_ns: u64,
    /// The part of it on its last track: sectors, and from their first to their last.
    tail: (u32, u32),
    end: SectorPlace,
}

impl Queued {
    /// First sector after the command.
    pub(crate) fn end_lbn(&self) -> u64 {
        self.op.lbn + u64::from(self.op.sectors)
    }
}

#[derive(Clone, Copy, Debug)]
struct InService {
    completed: Completed,
    done: Instant,
}

/// A disk drive in virtual time.
#[derive(Clone, Debug)]
pub struct Disk {
    model: Arc<DiskModel>,
    /// What the scheduler sees, in arrival order.
    window: Vec<Queued>,
    /// What arrived after the window was full.
    waiting: VecDeque<Queued>,
    in_service: Option<InService>,
    head: Head,
    /// The last command wrote.
    after_write: bool,
    cache: Option<Box<Cache>>,
}

impl Disk {
    /// A disk of a valid spec, idle, its heads over the first track.
    pub fn new(spec: &DiskSpec) -> Disk {
        Disk::with_model(DiskModel::new(spec), spec)
    }

    /// The same, with its platters at this angle at time 0, in 2^-32 revolutions.
    pub fn with_phase(spec: &DiskSpec, phase: u32) -> Disk {
        let mut model = DiskModel::new(spec);
        let own = Arc::get_mut(&mut model).expect("nobody else has it yet");
        own.revolution = own.revolution.begun_at(phase);
        Disk::with_model(model, spec)
    }

    /// A disk on a model made before, so that several disks share its tables. Only the
    /// spec's caches are looked at.
    pub fn with_model(model: Arc<DiskModel>, spec: &DiskSpec) -> Disk {
        let place = model.zones[0].place(0);
        Disk {
            window: Vec::with_capacity(model.window.min(1024)),
            waiting: VecDeque::new(),
            in_service: None,
            head: Head { place, next_lbn: u64::MAX, write: false },
            after_write: false,
            cache: Cache::new(spec, &model).map(Box::new),
            model,
        }
    }

    /// Queues a command; does not start it.
    ///
    /// # Panics
    /// If it is empty or passes the end of the disk.
    #[inline]
    pub fn submit(&mut self, now: Instant, op: DiskOp) {
        let queued = Queued { since: now, ..self.prepare(op) };
        self.enqueue(queued);
    }

    /// Queues a write with FUA: it is done when it is on the medium, past the write-back cache.
    ///
    /// # Panics
    /// If it is empty or passes the end of the disk.
    pub fn submit_durable(&mut self, now: Instant, op: DiskOp) {
        let queued = Queued { since: now, durable: true, ..self.prepare(op) };
        self.enqueue(queued);
    }

    #[inline]
    fn enqueue(&mut self, queued: Queued) {
        assert!(queued.end_lbn() <= self.model.sectors, "bad range: {:?}", queued.op);
        if self.window.len() < self.model.window {
            self.window.push(queued);
        } else {
            self.waiting.push_back(queued);
        }
    }

    /// What choosing and serving a command needs.
    #[inline]
    fn prepare(&self, op: DiskOp) -> Queued {
        let model = &*self.model;
        let end_lbn = op.lbn.saturating_add(u64::from(op.sectors));
        assert!(op.sectors > 0 && end_lbn <= model.all_sectors, "bad range: {op:?}");
        let zone = &model.zones[model.zone_of(op.lbn)];
        let place = zone.place(op.lbn);
        let in_track = u64::from(place.sector) + u64::from(op.sectors) <= zone.track.value;
        let (media_ns, end, tail) = if zone.plain && in_track && end_lbn <= zone.end_lbn {
            let media_ns = zone.pass_ns(place.slot, op.sectors);
            (u64::from(media_ns), place, (op.sectors, media_ns))
        } else {
            let last = model.stream(op.lbn, u64::from(op.sectors)).last();
            last.map_or((0, place, (0, 0)), |stretch| {
                let tail = (stretch.sectors, (stretch.end_ns - stretch.begin_ns) as u32);
                (stretch.end_ns, stretch.place, tail)
            })
        };
        let idle_ns = if self.outstanding() == 0 { model.idle_ns } else { 0 };
        let [after_read_ns, after_write_ns] = model.costs.miss_ns[usize::from(op.write)];
        let hold_ns = if op.write { model.bus.hold_ns(op.sectors, media_ns) } else { 0 };
        Queued {
            op,
            since: Instant::ZERO,
            durable: false,
            cylinder: place.cylinder,
            head: place.head,
            target_ns: zone.angle(place.slot),
            fixed_ns: after_read_ns + idle_ns,
            after_write_ns: after_write_ns.wrapping_sub(after_read_ns),
            idle_ns,
            settle_ns: if op.write { model.write_settle_ns } else { 0 },
            hold_ns,
            media_ns,
            tail,
            end,
        }
    }

    /// Starts a command, chosen by the drive's scheduler among the first `window` queued, and
    /// returns when it will be done. Nothing starts while one is in service.
    #[inline]
    pub fn start(&mut self, now: Instant) -> Option<Instant> {
        if self.in_service.is_some() || self.window.is_empty() {
            return None;
        }
        if self.cache.is_some() {
            return Some(self.start_cached(now));
        }
        let (index, approach) = self.choose(now);
        let queued = self.take(index);
        Some(self.serve(now, now, &queued, approach))
    }

    /// With a cache: a hit first, wherever it is in the window, else the scheduler's choice.
    fn start_cached(&mut self, now: Instant) -> Instant {
        let mut cache = self.cache.take().expect("checked by start");
        cache.catch_up(&self.model, &mut self.head, now);
        let in_order = self.model.scheduler == Scheduler::Fcfs || self.overdue(now);
        let seen = if in_order { 1 } else { self.window.len() };
        let serves = |q: &Queued| !q.durable && cache.serves(&self.model, &q.op, now);
        let hit = (0..seen).find(|&i| serves(&self.window[i]));
        let done = if let Some(index) = hit {
            let queued = self.take(index);
            let write = usize::from(queued.op.write);
            let hit_ns = self.model.costs.hit_ns[write][usize::from(self.after_write)];
            let overhead_ns = queued.idle_ns + hit_ns + self.command_ns(&queued);
            let ready = now + Duration(u64::from(overhead_ns));
            let transferred = cache.serve(&self.model, &mut self.head, &queued.op, ready);
            self.head.next_lbn = queued.end_lbn();
            self.head.write = queued.op.write;
            self.after_write = queued.op.write;
            let done_ns = self.model.costs.done_ns[write];
            let service = Service {
                overhead: Duration(u64::from(overhead_ns + done_ns)),
                transfer: transferred.since(ready),
                ..Service::default()
            };
            let done = now + service.total();
            let completed = Completed { op: queued.op, service, cache_hit: true };
            self.in_service = Some(InService { completed, done });
            done
        } else {
            let begin = cache.release_medium(&self.model, &mut self.head, now);
            self.place_window(&cache);
            let (index, approach) = self.choose(begin);
            let queued = self.take(index);
            self.serve_past(&mut cache, now, begin, &queued, approach)
        };
        self.cache = Some(cache);
        done
    }

    /// With a cache: serves a command from the medium, but for what the buffer holds of its front.
    fn serve_past(
        &mut self,
        cache: &mut Cache,
        now: Instant,
        begin: Instant,
        queued: &Queued,
        approach: Approach,
    ) -> Instant {
        let from = cache.held_front(&queued.op);
        let (mut begin, mut rest, mut approach) = (begin, *queued, approach);
        let mut further = Vec::new();
        if from > queued.op.lbn || cache.media().is_some() {
            let extent = Extent { first: from, end: queued.end_lbn() };
            let wanted = (extent, queued.op.write);
            (begin, further) = cache.locate(&self.model, &mut self.head, begin, wanted);
            let first = further.remove(0);
            let op = DiskOp { lbn: first.first, sectors: first.sectors() as u32, ..queued.op };
            rest = Queued { fixed_ns: queued.fixed_ns, ..self.prepare(op) };
            approach = self.approach(self.model.revolution.angle(begin.0), &rest);
        }
        let done = self.serve(now, begin, &rest, approach);
        let media_ns = self.media_ns(&rest, approach);
        let media_done = begin + Duration(u64::from(approach.total_ns()) + media_ns);
        let done = self.serve_further(done, &further);
        let done = self.cross_bus(&queued.op, begin.since(now), done);
        let before = match from == queued.op.lbn {
            true => self.model.passed_before(from, approach.rotation_ns),
            false => 0,
        };
        cache.on_media(&self.model, &queued.op, before, media_done, done);
        if let Some(in_service) = &mut self.in_service {
            in_service.completed.op = queued.op;
        }
        done
    }

    /// Reads the further stretches of a command in service, those that are elsewhere.
    fn serve_further(&mut self, done: Instant, further: &[Extent]) -> Instant {
        let read = |at, &piece| self.model.pass(&mut self.head, at, piece, false);
        let end = further.iter().fold(done, read);
        if let Some(in_service) = &mut self.in_service {
            in_service.completed.service.transfer += end.since(done);
            in_service.done = end;
        }
        end
    }

    /// Prolongs a read in service whose sectors need longer on the bus than it takes. Those from
    /// the buffer cross from the end of its overhead on, also while it waits for the medium.
    fn cross_bus(&mut self, op: &DiskOp, waited: Duration, done: Instant) -> Instant {
        let Some(in_service) = self.in_service.as_mut().filter(|_| !op.write) else { return done };
        let service = &mut in_service.completed.service;
        let needed_ns = service.overhead.0 - waited.0 + self.model.bus.ns(op.sectors, false);
        let longer = Duration(needed_ns.saturating_sub(service.total().0));
        service.transfer += longer;
        in_service.done += longer;
        done + longer
    }

    /// Looks up where the commands in the window are, of which the media cache may have moved some.
    fn place_window(&mut self, cache: &Cache) {
        let Some(media) = cache.media() else { return };
        for queued in &mut self.window {
            let lbn = media.target(queued.op.extent(), queued.op.write);
            let zone = &self.model.zones[self.model.zone_of(lbn)];
            let place = zone.place(lbn);
            (queued.cylinder, queued.head) = (place.cylinder, place.head);
            queued.target_ns = zone.angle(place.slot);
        }
    }

    /// Puts a command into service whose mechanics begin at `begin`.
    #[inline]
    fn serve(&mut self, now: Instant, begin: Instant, q: &Queued, approach: Approach) -> Instant {
        let mut transfer_ns = self.media_ns(q, approach);
        let mut rotation_ns = approach.rotation_ns;
        if transfer_ns < q.media_ns {
            // Read on arrival: nothing is waited for.
            transfer_ns += u64::from(rotation_ns);
            rotation_ns = 0;
        }
        if !q.op.write {
            transfer_ns = self.model.bus.read_ns(q.op.sectors, transfer_ns, q.tail);
        }
        self.after_write = q.op.write;
        let overhead_ns = approach.overhead_ns + self.model.costs.done_ns[usize::from(q.op.write)];
        let service = Service {
            overhead: begin.since(now) + Duration(u64::from(overhead_ns)),
            seek: Duration(u64::from(approach.seek_ns)),
            rotation: Duration(u64::from(rotation_ns)),
            transfer: Duration(transfer_ns),
        };
        self.head = Head { place: q.end, next_lbn: q.end_lbn(), write: q.op.write };
        let done = now + service.total();
        let completed = Completed { op: q.op, service, cache_hit: false };
        self.in_service = Some(InService { completed, done });
        done
    }

    /// From a command's first sector to its last. A read on arrival whose sectors all pass within
    /// a revolution ends with that: its first sector may then not be the first read.
    #[inline]
    fn media_ns(&self, q: &Queued, approach: Approach) -> u64 {
        if !self.model.read_on_arrival || q.op.write || q.tail.0 < q.op.sectors {
            return q.media_ns;
        }
        let revolution_ns = u64::from(self.model.revolution.ns);
        q.media_ns.min(revolution_ns.saturating_sub(u64::from(approach.rotation_ns)))
    }

    /// The scheduler's choice, as an index into the window.
    #[inline]
    fn choose(&self, now: Instant) -> (usize, Approach) {
        let angle = self.model.revolution.angle(now.0);
        let index = match self.model.scheduler {
            _ if self.overdue(now) => 0,
            Scheduler::Sptf => return self.choose_sptf(angle),
            Scheduler::Fcfs => 0,
            Scheduler::Cscan => self.choose_cscan(),
        };
        (index, self.approach(angle, &self.window[index]))
    }

    /// Whether the oldest command has waited as long as the drive lets it.
    #[inline]
    fn overdue(&self, now: Instant) -> bool {
        let limit_ns = self.model.max_wait_ns;
        limit_ns != u64::MAX
            && self.window.first().is_some_and(|q| now.since(q.since).0 >= limit_ns)
    }

    /// Without branches, which a processor could not predict: the least of time and index.
    #[inline]
    fn choose_sptf(&self, angle: u32) -> (usize, Approach) {
        let mut best = u64::MAX;
        for (index, queued) in (0_u64..).zip(&self.window) {
            let total_ns = self.approach(angle, queued).total_ns();
            best = best.min(u64::from(total_ns) << 32 | index);
        }
        let index = (best & 0xffff_ffff) as usize;
        (index, self.approach(angle, &self.window[index]))
    }

    fn choose_cscan(&self) -> usize {
        let from = if self.head.next_lbn == u64::MAX { 0 } else { self.head.next_lbn };
        let key = |q: &Queued| (q.op.lbn < from, q.op.lbn);
        let best = (0..self.window.len()).min_by_key(|&i| key(&self.window[i]));
        best.expect("start checks that the window holds something")
    }

    /// Overhead that a command which continues the one before does not pay.
    #[inline]
    fn command_ns(&self, queued: &Queued) -> u32 {
        if self.continues(queued) { 0 } else { self.model.per_command_ns }
    }

    #[inline]
    fn continues(&self, queued: &Queued) -> bool {
        (queued.op.lbn == self.head.next_lbn) & (queued.op.write == self.head.write)
    }

    /// Time until a queued command's first sector, were it started at this angle.
    #[inline]
    fn approach(&self, angle: u32, queued: &Queued) -> Approach {
        let model = &*self.model;
        let continues = self.continues(queued);
        // Sums instead of choices: this is the scheduler's inner loop.
        let after_write_ns =
            queued.after_write_ns & 0_u32.wrapping_sub(u32::from(self.after_write));
        let fixed_ns = queued.fixed_ns.wrapping_add(after_write_ns);
        let overhead_ns = fixed_ns + if continues { 0 } else { model.per_command_ns };
        let jog_ns = model.jog_ns * u32::from(queued.op.write != self.head.write);
        let moved_ns = model.move_ns(self.head.place, queued.cylinder, queued.head).max(jog_ns);
        let settles = (moved_ns > 0) & !continues;
        let seek_ns = moved_ns.saturating_add_signed(if settles { queued.settle_ns } else { 0 });
        let ready_ns = seek_ns.max(queued.hold_ns);
        let arrival = model.revolution.reduce(angle + overhead_ns + ready_ns);
        let wait_ns = model.revolution.wait(arrival, queued.target_ns);
        Approach { overhead_ns, seek_ns, rotation_ns: wait_ns + (ready_ns - seek_ns) }
    }

    /// Takes a command out of the window; the next to arrive moves up.
    #[inline]
    fn take(&mut self, index: usize) -> Queued {
        let queued = self.window.remove(index);
        if let Some(next) = self.waiting.pop_front() {
            self.window.push(next);
        }
        queued
    }

    /// Whether a command is in service.
    pub fn busy(&self) -> bool {
        self.in_service.is_some()
    }

    /// Completes the command in service; `now` is the time that [`Disk::start`] returned.
    ///
    /// # Panics
    /// If none is in service, or it is not done yet.
    #[inline]
    pub fn finish(&mut self, now: Instant) -> Completed {
        let in_service = self.in_service.take().expect("a command in service");
        assert!(now >= in_service.done, "finished before it is done");
        in_service.completed
    }

    /// Commands queued and not in service.
    pub fn queued(&self) -> usize {
        self.window.len() + self.waiting.len()
    }

    /// Commands queued or in service.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.queued() + usize::from(self.busy())
    }

    /// Cylinder of a sector.
    ///
    /// # Panics
    /// If the disk has no such sector.
    pub fn cylinder_of(&self, lbn: u64) -> u32 {
        self.model.zones[self.model.zone_of(lbn)].place(lbn).cylinder
    }

    /// Cylinder of the heads; while a command is in service, where it will leave them.
    pub fn head_cylinder(&self) -> u32 {
        self.head.place.cylinder
    }

    /// Seek and rotation from where the heads are to a sector, if started now.
    ///
    /// # Panics
    /// If the disk has no such sector.
    pub fn positioning_time(&self, now: Instant, lbn: u64, write: bool) -> Duration {
        let angle = self.model.revolution.angle(now.0);
        Duration(u64::from(self.model.position(&self.head, angle, lbn, write).total_ns()))
    }

    /// The least that moving the heads to a cylinder takes: the seek alone, from where they are.
    pub fn least_seek(&self, cylinder: u32) -> Duration {
        let place = self.head.place;
        let seek = self.model.move_ns(place, cylinder, place.head);
        Duration(u64::from(seek.saturating_add_signed(self.model.write_settle_ns.min(0))))
    }

    /// Sectors of the disk, in its own sector size.
    pub fn sectors(&self) -> u64 {
        self.model.sectors
    }

    /// Bytes in a sector.
    pub fn sector_bytes(&self) -> u32 {
        self.model.sector_bytes
    }

    /// Position of a sector: cylinder, head, and sector on the track.
    ///
    /// # Panics
    /// If the disk has no such sector.
    pub fn place_of(&self, lbn: u64) -> (u32, u32, u32) {
        let place = self.model.zones[self.model.zone_of(lbn)].place(lbn);
        (place.cylinder, place.head, place.sector)
    }

    /// When all that the write-back cache holds would be on the medium, if nothing else came;
    /// writes it all. `now` without a write-back cache.
    pub fn flush(&mut self, now: Instant) -> Instant {
        self.catch_up(now);
        match &mut self.cache {
            Some(cache) => cache.flush(&self.model, &mut self.head, now),
            None => now,
        }
    }

    /// Sectors acknowledged that are not on the medium at `now`.
    pub fn dirty_sectors(&mut self, now: Instant) -> u64 {
        self.catch_up(now);
        self.cache.as_ref().map_or(0, |cache| cache.dirty_sectors())
    }

    /// What of some sectors a power failure at `now` would lose: first sector and end of each
    /// stretch that is acknowledged and not on the medium.
    pub fn unwritten(&mut self, now: Instant, lbn: u64, sectors: u64) -> Vec<(u64, u64)> {
        self.catch_up(now);
        self.cache.as_ref().map_or(Vec::new(), |cache| cache.unwritten(now, lbn, lbn + sectors))
    }

    /// What the drive's media cache has done until `now`; none without one.
    pub fn media_counts(&mut self, now: Instant) -> Option<MediaCounts> {
        self.catch_up(now);
        self.cache.as_ref().and_then(|cache| cache.media()).map(Media::counts)
    }

    /// Does what the drive did on its own until `now`.
    fn catch_up(&mut self, now: Instant) {
        if let (Some(cache), None) = (&mut self.cache, &self.in_service) {
            cache.catch_up(&self.model, &mut self.head, now);
        }
    }
}
