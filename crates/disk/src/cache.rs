//! The drive's own buffer: read-ahead segments and a write-back cache, in front of the media cache.
//!
//! What the drive does on its own while idle is worked out when the next command starts: the
//! medium's time between then and the last command is filled with read-ahead, or with writing
//! what was acknowledged early.

use destage_engine::units::{Duration, Instant};

use crate::extent::Extent;
use crate::head::{DiskOp, Head};
use crate::media::Media;
use crate::model::DiskModel;
use crate::seek::ns;
use crate::spec::{DiskSpec, ReadAhead, WriteBack};

/// The running read-ahead. It fills the most recently used segment.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    begin: Instant,
    from: u64,
    limit: u64,
}

/// What was acknowledged and is to be written.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    extent: Extent,
    since: Instant,
}

/// The buffer of one drive.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    read: Option<ReadAhead>,
    write: Option<WriteBack>,
    /// Most recently used last.
    segments: Vec<Extent>,
    ahead: Option<Ahead>,
    dirty: Vec<Dirty>,
    /// One past the last sector of the last write.
    last_write_end: Option<u64>,
    /// When the medium is done with the last command or background write.
    medium_free: Instant,
    /// The background write that ends then.
    writing: Vec<Extent>,
    media: Option<Media>,
}

impl Cache {
    /// None if the spec has no kind of it.
    pub(crate) fn new(spec: &DiskSpec, model: &DiskModel) -> Option<Cache> {
        let media = Media::new(spec, model);
        if spec.read_ahead.is_none() && spec.write_back.is_none() && media.is_none() {
            return None;
        }
        Some(Cache {
            read: spec.read_ahead,
            write: spec.write_back,
            segments: Vec::new(),
            ahead: None,
            dirty: Vec::new(),
            last_write_end: None,
            medium_free: Instant::ZERO,
            writing: Vec::new(),
            media,
        })
    }

    pub(crate) fn dirty_sectors(&self) -> u64 {
        self.dirty.iter().map(|d| d.extent.sectors()).sum()
    }

    /// Does the background writes that begin before `now`.
    pub(crate) fn catch_up(&mut self, model: &DiskModel, head: &mut Head, now: Instant) {
        while let Some(since) = self.dirty.iter().map(|d| d.since).min() {
            let begin = since.max(self.medium_free);
            if begin >= now {
                return;
            }
            self.write_nearest(model, head, begin);
        }
        self.move_idle(model, head, now);
    }

    /// Moves what the media cache holds, as far as that begins before `now`.
    fn move_idle(&mut self, model: &DiskModel, head: &mut Head, now: Instant) {
        let Some(from) = self.media.as_ref().and_then(Media::idle_from) else { return };
        loop {
            let begin = from.max(self.medium_free);
            if begin >= now {
                return;
            }
            self.stop_ahead(model, head, begin);
            let moved = self.media.as_mut().and_then(|media| media.step(model, head, begin));
            let Some(end) = moved else { return };
            self.medium_free = end;
            self.writing.clear();
        }
    }

    /// Writes everything; the time it is done.
    pub(crate) fn flush(&mut self, model: &DiskModel, head: &mut Head, now: Instant) -> Instant {
        let overhead_ns = match self.write {
            Some(write) if !self.dirty.is_empty() || self.medium_free > now => ns(write.flush_ms),
            _ => 0,
        };
        while !self.dirty.is_empty() {
            let begin = now.max(self.medium_free);
            self.write_nearest(model, head, begin);
        }
        now.max(self.medium_free) + Duration(u64::from(overhead_ns))
    }

    /// The parts of `from` to `end` that are acknowledged and not on the medium at `now`.
    pub(crate) fn unwritten(&self, now: Instant, from: u64, end: u64) -> Vec<(u64, u64)> {
        let writing = self.writing.iter().filter(|_| self.medium_free > now);
        let extents = self.dirty.iter().map(|d| d.extent).chain(writing.copied());
        let part = |extent: Extent| (extent.first.max(from), extent.end.min(end));
        extents.map(part).filter(|(first, end)| first < end).collect()
    }

    /// Writes the dirty extent that the head reaches first, or an entry of the media cache.
    fn write_nearest(&mut self, model: &DiskModel, head: &mut Head, begin: Instant) {
        self.stop_ahead(model, head, begin);
        self.writing.clear();
        let oldest = self.dirty.iter().position(|d| d.since <= begin);
        let Some(oldest) = oldest else { return };
        // Only a media cache asks how many wait.
        let ready = match self.media {
            Some(_) => self.dirty.iter().filter(|d| d.since <= begin).count(),
            None => 0,
        };
        let piece = self.piece(oldest, u64::MAX);
        if self.media.as_ref().is_some_and(|media| !media.goes_direct(piece, ready)) {
            self.take_entry(begin);
        } else {
            let in_order = self.media.as_ref().is_some_and(Media::is_shingled);
            let index = if in_order { oldest } else { self.nearest(model, head, begin) };
            let piece = self.piece(index, u64::MAX);
            self.take(index, piece);
        }
        let (begin, target) = match &mut self.media {
            Some(media) => media.place(model, head, begin, &self.writing, ready),
            None => (begin, self.writing[0]),
        };
        self.medium_free = model.pass(head, begin, target, true);
        if let Some(media) = &mut self.media {
            media.active(self.medium_free);
        }
    }

    /// What of a dirty extent one background write takes, at most this many sectors.
    fn piece(&self, index: usize, most: u64) -> Extent {
        let extent = self.dirty[index].extent;
        let most = match self.write.map_or(0, |write| write.write_sectors) {
            0 => most,
            sectors => most.min(u64::from(sectors)),
        };
        Extent { end: extent.end.min(extent.first.saturating_add(most)), ..extent }
    }

    /// The front of a dirty extent is written now.
    fn take(&mut self, index: usize, piece: Extent) {
        self.dirty[index].extent.first = piece.end;
        if self.dirty[index].extent.sectors() == 0 {
            self.dirty.remove(index);
        }
        self.writing.push(piece);
    }

    /// Index of the dirty extent that the head reaches first, of those in the window.
    fn nearest(&self, model: &DiskModel, head: &Head, begin: Instant) -> usize {
        let angle = model.revolution.angle(begin.0);
        let cost = |d: &Dirty| {
            let at = model.position(head, angle, d.extent.first, true);
            at.seek_ns + at.rotation_ns
        };
        let ready = (0..self.dirty.len()).filter(|&i| self.dirty[i].since <= begin);
        let window = self.write.map_or(0, |w| w.window as usize);
        let seen = ready.take(if window == 0 { usize::MAX } else { window });
        seen.min_by_key(|&i| cost(&self.dirty[i])).expect("one of them is ready")
    }

    /// Takes the oldest dirty extents that an entry of the media cache has room for.
    fn take_entry(&mut self, begin: Instant) {
        let Some(media) = &self.media else { return };
        let mut left = media.entry_room();
        let mut room = media.map_room();
        while let Some(index) = self.dirty.iter().position(|d| d.since <= begin) {
            let piece = self.piece(index, left);
            let growth = self.media.as_ref().map_or(0, |media| media.growth(piece));
            let first = self.writing.is_empty();
            if left == 0 || (!first && growth > room) {
                return;
            }
            left -= piece.sectors();
            room -= growth.max(0);
            self.take(index, piece);
        }
    }

    /// Where on the medium the stretches of a command are, or where a write goes; and when its
    /// transfer can begin, since a full media cache is made room in first.
    pub(crate) fn locate(
        &mut self,
        model: &DiskModel,
        head: &mut Head,
        begin: Instant,
        (extent, write): (Extent, bool),
    ) -> (Instant, Vec<Extent>) {
        match &mut self.media {
            None => (begin, vec![extent]),
            Some(media) if write => {
                let (begin, target) = media.place(model, head, begin, &[extent], 1);
                (begin, vec![target])
            }
            Some(media) => (begin, media.pieces(extent)),
        }
    }

    pub(crate) fn media(&self) -> Option<&Media> {
        self.media.as_ref()
    }

    /// Whether the buffer can serve a command without the heads being sent for it.
    pub(crate) fn serves(&self, model: &DiskModel, op: &DiskOp, now: Instant) -> bool {
        if op.write {
            let appends = self.last_write_end == Some(op.lbn);
            return self
                .write
                .is_some_and(|w| op.sectors <= w.capacity_sectors && (appends || !w.appends_only));
        }
        let wanted = op.extent();
        self.dirty.iter().any(|d| d.extent.holds(wanted))
            || self.holds_read(model, wanted, now)
            || self.comes_by(model, wanted, now)
    }

    /// Whether a segment holds everything wanted.
    fn holds_read(&self, model: &DiskModel, wanted: Extent, now: Instant) -> bool {
        let newest = self.segments.len().saturating_sub(1);
        let held = self.segments.iter().rposition(|s| s.holds(wanted));
        held.is_some_and(|index| index < newest || self.overwritten(model, now) <= wanted.first)
    }

    /// First address of the newest segment that its read-ahead has not overwritten.
    fn overwritten(&self, model: &DiskModel, now: Instant) -> u64 {
        let (Some(ahead), Some(read)) = (self.ahead, self.read) else { return 0 };
        self.reached(model, ahead, now).saturating_sub(u64::from(read.segment_sectors))
    }

    /// Whether the running read-ahead has, or is about to have, everything wanted.
    fn comes_by(&self, model: &DiskModel, wanted: Extent, now: Instant) -> bool {
        let (Some(ahead), Some(segment)) = (self.ahead, self.segments.last()) else {
            return false;
        };
        let fits = self.read.is_some_and(|r| wanted.sectors() <= u64::from(r.segment_sectors));
        let first = segment.first.max(self.overwritten(model, now));
        let begun = first <= wanted.first && wanted.first < ahead.limit;
        let streaming = || self.reached(model, ahead, now) < ahead.limit;
        fits && begun && (wanted.end <= ahead.limit || streaming())
    }

    /// First address of a read that no segment holds, if one holds its front; else its first.
    pub(crate) fn held_front(&self, op: &DiskOp) -> u64 {
        let holds = |s: &&Extent| !op.write && s.first <= op.lbn && op.lbn < s.end;
        self.segments.iter().rfind(holds).map_or(op.lbn, |s| s.end.min(op.extent().end - 1))
    }

    /// Serves a command that [`Cache::serves`] accepted; `ready` is the time after overhead.
    pub(crate) fn serve(
        &mut self,
        model: &DiskModel,
        head: &mut Head,
        op: &DiskOp,
        ready: Instant,
    ) -> Instant {
        let bus = Duration(model.bus.ns(op.sectors, op.write));
        let done = if op.write {
            self.last_write_end = Some(op.extent().end);
            self.accept(model, head, op, ready) + bus
        } else {
            self.hit(model, op, ready, bus)
        };
        if let Some(media) = &mut self.media {
            media.active(done);
        }
        done
    }

    /// Takes a write in, after making room; the time it is there but for the bus.
    fn accept(
        &mut self,
        model: &DiskModel,
        head: &mut Head,
        op: &DiskOp,
        ready: Instant,
    ) -> Instant {
        let capacity = self.write.map_or(0, |w| u64::from(w.capacity_sectors));
        let mut extent = op.extent();
        let mut at = ready;
        while !self.dirty.is_empty() && (self.dirty_with(extent) > capacity || self.full(extent)) {
            let begin = ready.max(self.medium_free);
            self.write_nearest(model, head, begin);
            at = self.medium_free.max(ready);
        }
        self.forget(model, head, extent, ready);
        for dirty in &self.dirty {
            if dirty.extent.touches(extent) {
                extent.first = extent.first.min(dirty.extent.first);
                extent.end = extent.end.max(dirty.extent.end);
            }
        }
        self.dirty.retain(|d| !extent.holds(d.extent));
        self.dirty.push(Dirty { extent, since: at + Duration(model.bus.ns(op.sectors, true)) });
        at
    }

    /// Whether one more stretch is one too many.
    fn full(&self, extent: Extent) -> bool {
        let most = self.write.map_or(0, |w| w.extents as usize);
        let joins = || self.dirty.iter().any(|d| d.extent.touches(extent));
        most > 0 && self.dirty.len() >= most && !joins()
    }

    /// Sectors that would be dirty with one more write.
    fn dirty_with(&self, extent: Extent) -> u64 {
        let shared = |d: &Dirty| {
            let from = d.extent.first.max(extent.first);
            d.extent.end.min(extent.end).saturating_sub(from)
        };
        self.dirty_sectors() + extent.sectors() - self.dirty.iter().map(shared).sum::<u64>()
    }

    /// Serves a read from the buffer.
    fn hit(&mut self, model: &DiskModel, op: &DiskOp, ready: Instant, bus: Duration) -> Instant {
        let wanted = op.extent();
        let mut done = ready + bus;
        if self.dirty.iter().any(|d| d.extent.holds(wanted)) {
            return done;
        }
        let held = self.segments.iter().position(|s| s.holds(wanted));
        let newest = self.segments.len() - 1;
        if let Some(index) = held.filter(|&index| index != newest || self.ahead.is_none()) {
            let segment = self.segments.remove(index);
            self.segments.push(segment);
            if index != newest {
                self.ahead = None;
            }
            self.drop_read(wanted.end);
            return done;
        }
        let Some(mut ahead) = self.ahead else { return done };
        let read = self.read.expect("read-ahead needs its spec");
        let reached = self.reached(model, ahead, ready);
        let limit = model.ahead_limit(self.segments[newest].first, wanted.end, &read);
        if reached >= ahead.limit && limit > ahead.limit {
            ahead = self.resume(model, ahead, ready);
        }
        ahead.limit = ahead.limit.max(limit);
        if wanted.end > ahead.from {
            let follow = Duration(model.bus.follow_ns());
            done = done.max(ahead.begin + self.passed_after(model, ahead, wanted.end) + follow);
        }
        self.ahead = Some(ahead);
        self.trim(wanted.end.max(reached), read);
        self.drop_read(wanted.end);
        done
    }

    /// Forgets what went to the host, up to an address, where the drive does.
    fn drop_read(&mut self, end: u64) {
        if let (Some(segment), true) =
            (self.segments.last_mut(), self.read.is_some_and(|r| r.drops_read))
        {
            segment.first = segment.first.max(end.min(segment.end));
        }
    }

    /// The read-ahead, resumed where it stopped at its limit.
    fn resume(&self, model: &DiskModel, stopped: Ahead, now: Instant) -> Ahead {
        let Some(last) = model.stream(stopped.limit - 1, 1).last() else { return stopped };
        let at = Head { place: last.place, next_lbn: u64::MAX, write: false };
        let limit = stopped.limit.min(model.sectors - 1);
        let approach = model.position(&at, model.revolution.angle(now.0), limit, false);
        let wait = Duration(u64::from(approach.seek_ns + approach.rotation_ns));
        Ahead { begin: now + wait, from: stopped.limit, limit: stopped.limit }
    }

    /// Keeps the newest part of the segment that fits.
    fn trim(&mut self, end: u64, read: ReadAhead) {
        if let Some(segment) = self.segments.last_mut() {
            segment.end = segment.end.max(end);
            let room = u64::from(read.segment_sectors);
            segment.first = segment.first.max(segment.end.saturating_sub(room));
        }
    }

    /// First address that the read-ahead has not read by `now`.
    fn reached(&self, model: &DiskModel, ahead: Ahead, now: Instant) -> u64 {
        let elapsed = now.since(ahead.begin).0;
        let mut reached = ahead.from;
        for stretch in model.stream(ahead.from, ahead.limit - ahead.from) {
            if stretch.end_ns <= elapsed {
                reached = stretch.lbn + u64::from(stretch.sectors);
                continue;
            }
            let (gone, whole) =
                (elapsed.saturating_sub(stretch.begin_ns), stretch.end_ns - stretch.begin_ns);
            return stretch.lbn + gone * u64::from(stretch.sectors) / whole;
        }
        reached
    }

    /// Time from the read-ahead's start until it has read up to an address.
    fn passed_after(&self, model: &DiskModel, ahead: Ahead, end: u64) -> Duration {
        let last = model.stream(ahead.from, end - ahead.from).last();
        Duration(last.map_or(0, |stretch| stretch.end_ns))
    }

    /// Ends the read-ahead: the segment keeps what was read, the head stays there.
    fn stop_ahead(&mut self, model: &DiskModel, head: &mut Head, now: Instant) {
        let Some(ahead) = self.ahead.take() else { return };
        let reached = self.reached(model, ahead, now);
        if reached > ahead.from {
            head.place = model.zones[model.zone_of(reached - 1)].place(reached - 1);
            if let Some(read) = self.read {
                self.trim(reached, read);
            }
        }
    }

    /// Drops segments that a write makes stale.
    fn forget(&mut self, model: &DiskModel, head: &mut Head, written: Extent, now: Instant) {
        let coming =
            self.ahead.is_some_and(|a| Extent { first: a.from, end: a.limit }.overlaps(written));
        let newest = self.segments.last().is_some_and(|s| s.overlaps(written));
        if coming || newest {
            self.stop_ahead(model, head, now);
        }
        self.segments.retain(|s| !s.overlaps(written));
    }

    /// Makes the medium ready for a command: when it can begin.
    pub(crate) fn release_medium(
        &mut self,
        model: &DiskModel,
        head: &mut Head,
        now: Instant,
    ) -> Instant {
        let begin = now.max(self.medium_free);
        self.stop_ahead(model, head, begin);
        begin
    }

    /// Notes a command that the medium serves: its last sector passes at `media_done`, after
    /// `before` sectors that precede its first have passed.
    pub(crate) fn on_media(
        &mut self,
        model: &DiskModel,
        op: &DiskOp,
        before: u64,
        media_done: Instant,
        done: Instant,
    ) {
        let extent = op.extent();
        self.medium_free = done;
        self.writing.clear();
        if let Some(media) = &mut self.media {
            media.active(done);
        }
        if op.write {
            self.segments.retain(|s| !s.overlaps(extent));
            self.drop_dirty(extent);
            self.last_write_end = Some(extent.end);
            return;
        }
        let Some(read) = self.read else { return };
        let stream = self.segments.iter().position(|s| s.touches(extent) && s.end <= extent.end);
        let mut segment = extent;
        if read.keeps_before {
            segment.first -= before;
        }
        if let Some(index) = stream {
            segment.first = self.segments.remove(index).first.min(segment.first);
        } else if self.segments.len() >= read.segments as usize {
            self.segments.remove(0);
        }
        self.segments.push(segment);
        self.trim(extent.end, read);
        self.drop_read(extent.end);
        let first = self.segments[self.segments.len() - 1].first;
        let ahead_sectors = read.ahead_sectors.min(read.segment_sectors);
        let limit = model.ahead_limit(first, extent.end, &ReadAhead { ahead_sectors, ..read });
        self.ahead = Some(Ahead { begin: media_done, from: extent.end, limit });
    }

    /// A write to the medium makes dirty data below it void.
    fn drop_dirty(&mut self, written: Extent) {
        self.dirty.retain(|d| !written.holds(d.extent));
    }
}
