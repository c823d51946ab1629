//! The sequential detector: which pages of a write belong to a sequential stream.

mod streams;

use crate::request::PageRange;
use alloc::vec::Vec;
pub use streams::PageStreams;

/// Most expected next pages remembered.
pub const MOST_STREAMS: usize = 4096;
/// Most (first, last) pairs the `adjacent-groups` option remembers.
pub const MOST_ADJACENT: usize = 64;

/// How a write request was classified: its first `random` pages are random, the rest sequential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classified {
    /// Pages from the start of the request that are random.
    pub random: u32,
    /// Whether any page is sequential.
    pub sequential: bool,
}

/// Which detector a configuration asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DetectorKind {
    /// A table of expected next pages; sequential after a threshold of pages.
    #[default]
    Pages,
    /// Consecutively numbered groups (WOW, section IV-D).
    AdjacentGroups,
}

/// A sequential detector.
pub enum Detector {
    /// Calls every page random: for policies and rates that do not ask.
    Off,
    /// See [`DetectorKind::Pages`].
    Pages(PageStreams),
    /// See [`DetectorKind::AdjacentGroups`].
    AdjacentGroups(AdjacentGroups),
}

impl Detector {
    /// A detector; `threshold` is in pages and concerns the page table only.
    pub fn new(kind: DetectorKind, threshold: u32, pages_per_group: u64) -> Detector {
        match kind {
            DetectorKind::Pages => Detector::Pages(PageStreams::new(threshold)),
            DetectorKind::AdjacentGroups => Detector::AdjacentGroups(AdjacentGroups {
                pages_per_group,
                streams: Vec::with_capacity(MOST_ADJACENT),
            }),
        }
    }

    /// Classifies a write as it arrives.
    #[inline]
    pub fn classify(&mut self, range: PageRange) -> Classified {
        match self {
            Detector::Off => Classified { random: range.pages, sequential: false },
            Detector::Pages(streams) => streams.classify(range),
            Detector::AdjacentGroups(groups) => groups.classify(range),
        }
    }
}

/// The (first, last) groups of the last write streams, newest last.
pub struct AdjacentGroups {
    pages_per_group: u64,
    streams: Vec<(u64, u64)>,
}

impl AdjacentGroups {
    fn classify(&mut self, range: PageRange) -> Classified {
        let first = range.first.0 / self.pages_per_group;
        let last = (range.end().0 - 1) / self.pages_per_group;
        let continued = self.streams.iter().rposition(|&(_, end)| first == end || first == end + 1);
        match continued {
            Some(index) => {
                self.streams.remove(index);
            }
            None if self.streams.len() == MOST_ADJACENT => {
                self.streams.remove(0);
            }
            None => {}
        }
        self.streams.push((first, last));
        match continued {
            Some(_) => Classified { random: 0, sequential: true },
            None => Classified { random: range.pages, sequential: false },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Page;

    fn classify(detector: &mut Detector, first: u64, pages: u32) -> u32 {
        detector.classify(PageRange::new(Page(first), pages)).random
    }

    #[test]
    fn the_first_pages_of_a_stream_are_random() {
        let mut detector = Detector::new(DetectorKind::Pages, 16, 64);
        assert_eq!(classify(&mut detector, 0, 10), 10);
        assert_eq!(classify(&mut detector, 10, 10), 6);
        assert_eq!(classify(&mut detector, 20, 1), 0);
        assert_eq!(classify(&mut detector, 22, 1), 1);
        assert_eq!(classify(&mut detector, 100, 20), 16);
    }

    #[test]
    fn the_oldest_stream_is_forgotten_first() {
        let mut detector = Detector::new(DetectorKind::Pages, 1, 64);
        for stream in 0..MOST_STREAMS as u64 + 1 {
            classify(&mut detector, stream * 1000, 1);
        }
        assert_eq!(classify(&mut detector, 1, 1), 1, "stream 0 was forgotten");
        // Storing page 2 pushed out stream 1; stream 2 is still there.
        assert_eq!(classify(&mut detector, 1001, 1), 1);
        assert_eq!(classify(&mut detector, 3001, 1), 0);
    }

    #[test]
    fn a_stored_page_replaces_what_was_there_as_the_newest() {
        let mut detector = Detector::new(DetectorKind::Pages, 4, 64);
        classify(&mut detector, 0, 8); // expects 8, count 8
        classify(&mut detector, 6, 2); // expects 8, count 2
        assert_eq!(classify(&mut detector, 8, 4), 2);
    }

    #[test]
    fn adjacent_groups_join_streams() {
        let mut detector = Detector::new(DetectorKind::AdjacentGroups, 16, 64);
        assert!(!detector.classify(PageRange::new(Page(0), 64)).sequential);
        assert!(detector.classify(PageRange::new(Page(64), 64)).sequential);
        assert!(detector.classify(PageRange::new(Page(100), 1)).sequential);
        assert!(!detector.classify(PageRange::new(Page(640), 1)).sequential);
    }
}
