//! Checksums of a row's new parity, as records have them.

use destage_engine::units::Page;
use destage_nvslog::contents::ParityRow;
use destage_nvslog::record::{Record, SectorSums, UNKNOWN_SUMS};

/// Checksums of the new parity of a row, sector by sector, as far as it is known: that of a disk
/// that is missing need not be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowSums {
    pub(crate) p: Option<SectorSums>,
    pub(crate) q: Option<SectorSums>,
}

impl RowSums {
    /// Those that were logged.
    pub(super) fn logged(row: &ParityRow) -> RowSums {
        RowSums { p: Some(row.p).filter(|p| *p != UNKNOWN_SUMS), q: row.q }
    }

    /// With those of the other where it lacks some.
    pub(crate) fn or(self, other: RowSums) -> RowSums {
        RowSums { p: self.p.or(other.p), q: self.q.or(other.q) }
    }

    /// Their record.
    pub(super) fn record(self, first: Page, row: u32) -> Record {
        let (p, q) = (self.p.unwrap_or(UNKNOWN_SUMS), self.q);
        Record::Parity { first, row, p, q, moved: false }
    }
}
