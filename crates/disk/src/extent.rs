//! Stretches of sectors.

/// Addresses from `first` up to, not including, `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) first: u64,
    pub(crate) end: u64,
}

impl Extent {
    pub(crate) fn sectors(self) -> u64 {
        self.end - self.first
    }

    pub(crate) fn holds(self, other: Extent) -> bool {
        self.first <= other.first && other.end <= self.end
    }

    pub(crate) fn touches(self, other: Extent) -> bool {
        self.first <= other.end && other.first <= self.end
    }

    pub(crate) fn overlaps(self, other: Extent) -> bool {
        self.first < other.end && other.first < self.end
    }

    /// What both have in common, if they overlap.
    pub(crate) fn common(self, other: Extent) -> Extent {
        Extent { first: self.first.max(other.first), end: self.end.min(other.end) }
    }
}
