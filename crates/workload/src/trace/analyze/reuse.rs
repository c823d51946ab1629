//! Reuse distances in classes whose bounds are sizes of caches, so that the miss ratio of each of
//! those sizes is exact.

use destage_report::trace::{CacheSize, Reuse, share};

/// Reuse distances of a sequence of page accesses.
#[derive(Default)]
pub(super) struct Distances {
    first_touches: u64,
    /// Accesses of each class.
    classes: Vec<u64>,
}

/// The class of a reuse distance: the first size of a cache that is larger.
fn class_of(distance: u64) -> usize {
    if distance < 8 {
        return distance as usize;
    }
    let power = distance.ilog2();
    let quarter = (distance >> (power - 2)) & 3;
    8 + (power as usize - 3) * 4 + quarter as usize
}

/// The size in pages: 1 to 8, and then four for each power of two.
fn size_of(class: usize) -> u64 {
    match class {
        0..8 => class as u64 + 1,
        _ => (5 + (class as u64 & 3)) << ((class - 8) / 4 + 1),
    }
}

impl Distances {
    pub(super) fn add(&mut self, distance: Option<u64>) {
        let Some(distance) = distance else {
            self.first_touches += 1;
            return;
        };
        let class = class_of(distance);
        if class >= self.classes.len() {
            self.classes.resize(class + 1, 0);
        }
        self.classes[class] += 1;
    }

    pub(super) fn finish(self) -> Reuse {
        let accesses = self.first_touches + self.classes.iter().sum::<u64>();
        let mut caches = Vec::new();
        let mut hits = 0;
        for class in 0.. {
            if accesses == 0 {
                break;
            }
            let (pages, reuses) = (size_of(class), self.classes.get(class).copied().unwrap_or(0));
            hits += reuses;
            caches.push(CacheSize { pages, reuses, miss_ratio: share(accesses - hits, accesses) });
            if pages >= self.first_touches {
                break;
            }
        }
        Reuse { accesses, first_touches: self.first_touches, caches }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_hits_what_is_nearer_than_its_size() {
        for distance in (0..70_000).chain([u64::from(u32::MAX), 1 << 40]) {
            let class = class_of(distance);
            assert!(distance < size_of(class), "{distance}");
            assert!(class == 0 || distance >= size_of(class - 1), "{distance}");
        }
        let sizes: Vec<u64> = (6..14).map(size_of).collect();
        assert_eq!(sizes, [7, 8, 10, 12, 14, 16, 20, 24]);
    }
}
