//! The requests of a load: reads and writes of any bytes, zeros, trims, flushes.

use super::case::Case;
use destage_engine::units::PAGE_BYTES;
use destage_workload::random::Seeded;

/// What a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Write zeros.
    Zero,
    /// Trim.
    Trim,
    /// Flush.
    Flush,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// What it asks.
    pub kind: Kind,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Durable before it is answered.
    pub fua: bool,
}

impl Request {
    /// A write.
    #[must_use]
    pub fn write(offset: u64, bytes: u64) -> Request {
        Request { kind: Kind::Write, offset, bytes, fua: false }
    }
}

/// The next request.
pub fn draw(case: &Case, volume_bytes: u64, rng: &mut Seeded) -> Request {
    // Some hosts trim a lot of what they have just written.
    let trims = if case.seed.is_multiple_of(5) { 25 } else { 6 };
    let zeros = if case.pressed && case.seed % 5 == 1 { 30 } else { 6 };
    let kind = match rng.below(100) {
        n if n < case.reads => Kind::Read,
        n if n < case.reads + zeros => Kind::Zero,
        n if n < case.reads + zeros + trims => Kind::Trim,
        n if n < case.reads + zeros + trims + 5 => Kind::Flush,
        _ => Kind::Write,
    };
    let fua = !matches!(kind, Kind::Read | Kind::Flush) && rng.below(8) == 0;
    if kind == Kind::Flush {
        return Request { kind, offset: 0, bytes: 0, fua };
    }
    if case.hoards && kind == Kind::Write && rng.below(8) > 0 {
        return hoarded(volume_bytes, fua, rng);
    }
    // Whole pages mostly, then sectors, then any bytes.
    let unit = [PAGE_BYTES, PAGE_BYTES, PAGE_BYTES, 512, 512, 1][rng.below(6) as usize];
    // Zeros over parts of pages and whole ones between.
    let unit = if zeros > 6 && kind == Kind::Zero { unit.min(512) } else { unit };
    let most = match rng.below(10) {
        0 => 40 * PAGE_BYTES,
        1 | 2 => 8 * PAGE_BYTES,
        3..=5 => 2 * PAGE_BYTES,
        _ => PAGE_BYTES,
    };
    let bytes = (1 + rng.below(most / unit)) * unit;
    let bytes = bytes.min(volume_bytes);
    let span = volume_bytes - bytes;
    let span = if rng.below(100) < case.hot { span.min(12 * PAGE_BYTES) } else { span };
    let offset = rng.below(span + 1) / unit * unit;
    Request { kind, offset, bytes, fua }
}

/// One of a few pages again, or many anywhere.
fn hoarded(volume_bytes: u64, fua: bool, rng: &mut Seeded) -> Request {
    let pages = volume_bytes / PAGE_BYTES;
    let (pages, span) = match rng.below(12) {
        0 => ((8 + rng.below(33)).min(pages), pages),
        _ => (1, pages.min(4)),
    };
    let offset = rng.below(span - pages + 1) * PAGE_BYTES;
    Request { kind: Kind::Write, offset, bytes: pages * PAGE_BYTES, fua }
}
