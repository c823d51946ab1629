//! What every byte of the volume may read, after what was written, answered and lost.
//!
//! The volume is cut into segments, each with the writes that it may show. A write that was
//! answered takes out those answered before it was asked for; a read that shows a write takes
//! out what was answered before the read was asked for. Under `--ack flush` what is taken out
//! may come back by a crash until a flush. A flush makes what a read has shown before durable, too,
//! even of a write that was never answered.

use super::device::SECTOR;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// What a write leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Bytes of its own.
    Data,
    /// Zeros.
    Zeros,
    /// Anything.
    Any,
}

/// What a read that shows a write says about older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learn {
    /// Nothing: they may be read again.
    Nothing,
    /// No read shows them again; but a crash may bring them back if the write was never answered.
    UntilCrash,
    /// They are gone.
    Lasting,
}

/// Number of a write.
pub type WriteId = u32;

#[derive(Clone, Copy, Debug)]
struct Write {
    kind: Kind,
    asked: u64,
    /// `u64::MAX`: not answered.
    answered: u64,
    /// Answered with success.
    good: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Segment {
    end: u64,
    /// Writes that it may show.
    now: Vec<WriteId>,
    /// Writes that a crash may bring back.
    past: Vec<Past>,
    /// Writes taken out, and when: reads asked for before may show them.
    gone: Vec<(WriteId, u64)>,
}

/// A write that was taken out, and that a crash may bring back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Past {
    back: WriteId,
    /// What took it out, or may have.
    by: WriteId,
    /// When a read showed that. `u64::MAX`: none did, or a flush does not count for it.
    shown: u64,
}

/// The model.
#[derive(Clone)]
pub struct Model {
    segments: BTreeMap<u64, Segment>,
    writes: Vec<Write>,
    clock: u64,
    /// A crash may lose what was answered since the last flush.
    volatile: bool,
    opened: u64,
    /// Reads in flight, by the time when they were submitted.
    reads: BTreeMap<u64, u32>,
}

/// 8 bytes of a write, of which this is the number in the volume.
#[inline]
fn word(id: WriteId, number: u64) -> [u8; 8] {
    let mut mixed = ((u64::from(id) << 40) ^ number).wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ (mixed >> 31)).to_le_bytes()
}

/// The bytes of a write at a place: every 8 of them say which write and where.
pub fn fill(id: WriteId, offset: u64, into: &mut [u8]) {
    let head = (offset.next_multiple_of(8) - offset) as usize;
    let (head, whole) = into.split_at_mut(head.min(into.len()));
    for (at, byte) in (offset..).zip(head) {
        *byte = word(id, at / 8)[(at % 8) as usize];
    }
    let mut number = offset.div_ceil(8);
    let mut words = whole.chunks_exact_mut(8);
    for bytes in &mut words {
        bytes.copy_from_slice(&word(id, number));
        number += 1;
    }
    let rest = words.into_remainder();
    rest.copy_from_slice(&word(id, number)[..rest.len()]);
}

/// Whether these are the bytes of a write at a place.
fn is_fill(id: WriteId, offset: u64, bytes: &[u8]) -> bool {
    let head = (offset.next_multiple_of(8) - offset) as usize;
    let (head, whole) = bytes.split_at(head.min(bytes.len()));
    let fits = |(at, byte): (u64, &u8)| *byte == word(id, at / 8)[(at % 8) as usize];
    let words = whole.chunks_exact(8);
    let (rest, numbers) = (words.remainder(), offset.div_ceil(8)..);
    let last = word(id, numbers.start + words.len() as u64);
    (offset..).zip(head).all(fits)
        && numbers.zip(words).all(|(number, bytes)| *bytes == word(id, number))
        && *rest == last[..rest.len()]
}

impl Model {
    /// A volume of zeros.
    pub fn new(bytes: u64, volatile: bool) -> Model {
        let zeros = Write { kind: Kind::Zeros, asked: 0, answered: 0, good: true };
        let whole = Segment { end: bytes, now: vec![0], ..Segment::default() };
        Model {
            segments: BTreeMap::from([(0, whole)]),
            writes: vec![zeros],
            clock: 1,
            volatile,
            opened: 0,
            reads: BTreeMap::new(),
        }
    }

    /// From the next start on, writes are durable when they are flushed, or when they are answered.
    pub fn set_volatile(&mut self, volatile: bool) {
        self.volatile = volatile;
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn split(&mut self, at: u64) {
        let Some((first, segment)) = self.segments.range_mut(..at).next_back() else { return };
        if *first < at && at < segment.end {
            let behind = segment.clone();
            segment.end = at;
            self.segments.insert(at, behind);
        }
    }

    fn each(&mut self, range: &Range<u64>, mut visit: impl FnMut(&mut Segment, &[Write])) {
        if range.is_empty() {
            return;
        }
        self.split(range.start);
        self.split(range.end);
        for (_, segment) in self.segments.range_mut(range.clone()) {
            visit(segment, &self.writes);
        }
    }

    /// Joins neighbours that may show the same.
    fn join(&mut self, range: &Range<u64>) {
        let oldest = self.reads.keys().next().copied().unwrap_or(u64::MAX);
        let from = self.segments.range(..range.start).next_back().map_or(0, |(first, _)| *first);
        let firsts: Vec<u64> = self.segments.range(from..=range.end).map(|(f, _)| *f).collect();
        let mut last: Option<u64> = None;
        for first in firsts {
            let mut segment = self.segments.remove(&first).expect("listed");
            segment.gone.retain(|(_, when)| *when >= oldest);
            if let Some(before) = last.and_then(|first| self.segments.get_mut(&first)) {
                let end = segment.end;
                segment.end = before.end;
                if *before == segment {
                    before.end = end;
                    continue;
                }
                segment.end = end;
            }
            self.segments.insert(first, segment);
            last = Some(first);
        }
    }

    /// A write is asked for.
    pub fn write(&mut self, kind: Kind, range: &Range<u64>) -> WriteId {
        let asked = self.tick();
        let id = self.writes.len() as WriteId;
        self.writes.push(Write { kind, asked, answered: u64::MAX, good: false });
        self.each(range, |segment, _| segment.now.push(id));
        id
    }

    /// A write is answered; `durable`: a crash cannot take it back.
    pub fn written(&mut self, id: WriteId, range: &Range<u64>, good: bool, durable: bool) {
        let asked = self.done(id, range, good, durable);
        if good && self.volatile && durable {
            self.flushed(asked, false);
        }
        self.join(range);
    }

    /// Returns when it was asked for.
    fn done(&mut self, id: WriteId, range: &Range<u64>, good: bool, durable: bool) -> u64 {
        let when = self.tick();
        let write = &mut self.writes[id as usize];
        (write.answered, write.good) = (when, good);
        let asked = write.asked;
        if good {
            let keep = self.volatile && !durable;
            self.each(range, |segment, writes| {
                let old =
                    |other: &WriteId| *other != id && writes[*other as usize].answered < asked;
                let by: &[WriteId] = if keep { &[id] } else { &[] };
                take_out(segment, &old, when, by, u64::MAX);
            });
        }
        asked
    }

    /// A flush asked for at this time was answered; `reads`: it covers what reads had shown.
    pub fn flushed(&mut self, asked: u64, reads: bool) {
        for segment in self.segments.values_mut() {
            let writes = &self.writes;
            segment.past.retain(|Past { by, shown, .. }| {
                let by = &writes[*by as usize];
                (!by.good || by.answered >= asked) && !(reads && *shown < asked)
            });
        }
    }

    /// A read or a flush is asked for: its time.
    pub fn ask(&mut self) -> u64 {
        self.tick()
    }

    /// A read is asked for: its time.
    pub fn ask_read(&mut self) -> u64 {
        let asked = self.tick();
        *self.reads.entry(asked).or_default() += 1;
        asked
    }

    /// A read ends, with or without bytes.
    pub fn end_read(&mut self, asked: u64) {
        self.reads.remove(&asked);
    }

    /// Checks what a read showed.
    ///
    /// # Errors
    /// What it must not have shown.
    pub fn check(
        &mut self,
        offset: u64,
        bytes: &[u8],
        asked: u64,
        learn: Learn,
    ) -> Result<(), String> {
        let range = offset..offset + bytes.len() as u64;
        self.split(range.start);
        self.split(range.end);
        let firsts: Vec<u64> = self.segments.range(range.clone()).map(|(f, _)| *f).collect();
        for first in firsts {
            let end = self.segments[&first].end;
            let mut at = first;
            while at < end {
                let next = (at / SECTOR as u64 * SECTOR as u64 + SECTOR as u64).min(end);
                let alone = self.segments[&first].now.len() == 1;
                self.check_part(
                    at..next,
                    &bytes[(at - offset) as usize..(next - offset) as usize],
                    asked,
                    if alone { Learn::Nothing } else { learn },
                )?;
                at = next;
            }
        }
        self.join(&range);
        Ok(())
    }

    fn check_part(
        &mut self,
        range: Range<u64>,
        bytes: &[u8],
        asked: u64,
        learn: Learn,
    ) -> Result<(), String> {
        let (_, segment) = self.segments.range(..=range.start).next_back().expect("covered");
        let shows = |id: &WriteId| match self.writes[*id as usize].kind {
            Kind::Any => true,
            Kind::Zeros => *bytes == [0; SECTOR][..bytes.len()],
            Kind::Data => is_fill(*id, range.start, bytes),
        };
        let late: Vec<WriteId> =
            segment.gone.iter().filter(|(_, when)| *when >= asked).map(|(id, _)| *id).collect();
        let shown: Vec<WriteId> = segment.now.iter().copied().filter(shows).collect();
        let shown_late = late.iter().any(shows);
        if shown.is_empty() && !shown_late {
            return Err(self.wrong(range, bytes, segment));
        }
        let any = |id: &WriteId| self.writes[*id as usize].kind == Kind::Any;
        if learn == Learn::Nothing || shown_late || shown.iter().any(any) {
            return Ok(());
        }
        // What it shows is newer than all else that was answered before it was asked for.
        let opened = self.opened;
        let since = shown.iter().any(|id| self.writes[*id as usize].answered > opened);
        let good = |id: &WriteId| self.writes[*id as usize].good;
        let cached = learn == Learn::UntilCrash && !shown.iter().all(good);
        let keep = self.volatile && since || cached;
        let when = self.tick();
        let at = if self.volatile { when } else { u64::MAX };
        self.each(&range, |segment, writes| {
            let old = |id: &WriteId| !shown.contains(id) && writes[*id as usize].answered <= asked;
            // Which of several it was is not known.
            let by = if keep { &*shown } else { &[] };
            take_out(segment, &old, when, by, at);
        });
        Ok(())
    }

    fn wrong(&self, range: Range<u64>, bytes: &[u8], segment: &Segment) -> String {
        let is_data = |id: &WriteId| self.writes[*id as usize].kind == Kind::Data;
        let matching = (0..self.writes.len() as WriteId)
            .find(|id| is_data(id) && is_fill(*id, range.start, bytes));
        let is = match matching {
            Some(id) => format!("write {id}"),
            None if bytes.iter().all(|byte| *byte == 0) => "zeros".to_string(),
            None => "bytes that nobody wrote there".to_string(),
        };
        let (page, byte) = (range.start / 4096, range.start % 4096);
        let facts: Vec<String> = segment
            .now
            .iter()
            .map(|id| {
                let Write { kind, asked, answered, .. } = self.writes[*id as usize];
                let answered = if answered == u64::MAX { 0 } else { answered };
                format!("write {id} {kind:?} {asked}..{answered}")
            })
            .collect();
        format!("page {page} byte {byte}: {is}, in place of {}", facts.join(", "))
    }

    /// The array has crashed: what was not answered may be there or not.
    pub fn crashed(&mut self) {
        let when = self.tick();
        for write in self.writes.iter_mut().filter(|write| write.answered == u64::MAX) {
            write.answered = when;
        }
        for segment in self.segments.values_mut() {
            for Past { back, by, .. } in core::mem::take(&mut segment.past) {
                let durable = !self.volatile && self.writes[by as usize].good;
                if !durable && !segment.now.contains(&back) {
                    segment.now.insert(0, back);
                }
            }
            segment.gone.clear();
        }
        self.reads.clear();
    }

    /// The array is open again: what it shows from now on does not go back before this.
    pub fn opened(&mut self) {
        self.opened = self.tick();
    }

    /// The range may show anything from now on. Nothing else becomes durable with that.
    pub fn wild(&mut self, range: &Range<u64>) {
        let id = self.write(Kind::Any, range);
        self.done(id, range, true, true);
        self.join(range);
    }

    /// Checks that a write which a crash interrupted is there completely or not at all, after all
    /// of it was read.
    ///
    /// # Errors
    /// It is there in part.
    pub fn check_whole(&self, id: WriteId, range: &Range<u64>) -> Result<(), String> {
        let older = |other: &WriteId| {
            self.writes[*other as usize].answered < self.writes[id as usize].asked
        };
        let (mut there, mut missing) = (None, None);
        let begins = self.segments.range(..=range.start).next_back();
        let rest = self.segments.range(range.start + 1..range.end);
        for (first, segment) in begins.into_iter().chain(rest) {
            if segment.now == [id] {
                there = Some(*first);
            } else if !segment.now.contains(&id) && segment.now.iter().all(older) {
                missing = Some(*first);
            }
        }
        let (Some(there), Some(missing)) = (there, missing) else { return Ok(()) };
        Err(format!(
            "write {id} of bytes {range:?} is there in part: at {there}, and not at {missing}"
        ))
    }

    /// A hash of what may be read after a crash.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (first, Segment { end, now, .. }) in &self.segments {
            let kinds: Vec<Kind> = now.iter().map(|id| self.writes[*id as usize].kind).collect();
            (first, end, now, kinds).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Number of segments, to check that the model stays small.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }
}

/// Takes writes out of a segment; `by`: a crash may bring them back until these are durable, or
/// what a read showed at this time is.
fn take_out(
    segment: &mut Segment,
    old: &dyn Fn(&WriteId) -> bool,
    when: u64,
    by: &[WriteId],
    shown: u64,
) {
    let gone: Vec<WriteId> = segment.now.iter().copied().filter(|id| old(id)).collect();
    if gone.is_empty() {
        return;
    }
    segment.now.retain(|id| !gone.contains(id));
    for id in gone {
        segment.gone.push((id, when));
        segment.past.extend(by.iter().map(|by| Past { back: id, by: *by, shown }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_a_write_has_the_bytes_of_the_whole() {
        let mut whole = [0; 80];
        fill(7, 800, &mut whole);
        for from in 0..24 {
            for end in from..56 {
                let mut part = vec![0; end - from];
                fill(7, 800 + from as u64, &mut part);
                assert_eq!(part, whole[from..end]);
                assert!(is_fill(7, 800 + from as u64, &part));
                for at in 0..part.len() {
                    part[at] ^= 1;
                    assert!(!is_fill(7, 800 + from as u64, &part), "{from}..{end}: byte {at}");
                    part[at] ^= 1;
                }
            }
        }
        assert!(!is_fill(8, 800, &whole) && !is_fill(7, 808, &whole));
    }

    /// Whether a crash may leave the older of two writes, of which the newer was never answered,
    /// and a read has shown it; `flush`: then or before.
    fn older_may_return(flush: Option<bool>) -> bool {
        let (range, mut model) = (0..SECTOR as u64, Model::new(SECTOR as u64, true));
        let bytes = |id| {
            let mut bytes = [0; SECTOR];
            fill(id, 0, &mut bytes);
            bytes
        };
        let older = model.write(Kind::Data, &range);
        model.written(older, &range, true, true);
        let newer = model.write(Kind::Data, &range);
        let before = model.ask();
        let asked = model.ask_read();
        model.check(0, &bytes(newer), asked, Learn::UntilCrash).expect("it may be shown");
        model.end_read(asked);
        let after = model.ask();
        if let Some(then) = flush {
            model.flushed(if then { after } else { before }, true);
        }
        model.crashed();
        model.opened();
        let asked = model.ask_read();
        model.clone().check(0, &bytes(newer), asked, Learn::Nothing).expect("it may be there");
        model.check(0, &bytes(older), asked, Learn::Nothing).is_ok()
    }

    #[test]
    fn a_flush_makes_durable_what_a_read_has_shown_before_it() {
        assert!(older_may_return(None) && older_may_return(Some(false)));
        assert!(!older_may_return(Some(true)));
    }
}
