//! Where the last destages began, for monitoring.

/// How many of the last destages are remembered.
pub const RECENT_DESTAGES: usize = 256;

/// The first pages of the last destages.
#[derive(Clone)]
pub(crate) struct Recent {
    pages: [u64; RECENT_DESTAGES],
    count: u64,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { pages: [0; RECENT_DESTAGES], count: 0 }
    }
}

impl Recent {
    pub(crate) fn push(&mut self, page: u64) {
        self.pages[self.count as usize % RECENT_DESTAGES] = page;
        self.count += 1;
    }

    /// Oldest first.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        let first = self.count.saturating_sub(RECENT_DESTAGES as u64);
        (first..self.count).map(|number| self.pages[number as usize % RECENT_DESTAGES])
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_destages_are_remembered() {
        let mut recent = Recent::default();
        (0..RECENT_DESTAGES as u64 + 3).for_each(|page| recent.push(page));
        let pages: Vec<u64> = recent.pages().collect();
        assert_eq!((pages.len(), pages[0]), (RECENT_DESTAGES, 3));
        assert_eq!(pages.last(), Some(&(RECENT_DESTAGES as u64 + 2)));
    }
}
