//! The weight of a failed disk's blocks, chosen while running: small caches of the same policy, one
//! per weight, see a sample of the addresses; the weight whose cache causes the fewest requests to
//! the surviving disks is used (docs/readcache.md).

use super::penalty::Penalties;
use super::replay::{Tally, replay};
use super::{Access, ReadCache, Weight};
use crate::mix::mix;
use crate::request::PageRange;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Weights tried: the plain policy's, then the penalty times 1/4, 1/2, 1, 2, 4 and 8.
pub const WEIGHTS: usize = 7;
/// The place of the penalty itself among them.
pub const PAPER: usize = 3;
/// Batches that are compared.
const WINDOW: usize = 64;
/// Fewest batches that are compared.
const WINDOW_MIN: usize = 8;

/// How the weight is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveSettings {
    /// Least number of blocks of a shadow cache, if the cache has as many.
    pub shadow_blocks: usize,
    /// Which of the [`WEIGHTS`] is used from the fault on.
    pub start: usize,
    /// Least gain for which the weight is changed, in thousandths.
    pub gain_permille: u64,
    /// Least gain in tenths of its standard error.
    pub sure_tenths: u64,
}

impl Default for AdaptiveSettings {
    fn default() -> AdaptiveSettings {
        AdaptiveSettings { shadow_blocks: 4096, start: PAPER, gain_permille: 5, sure_tenths: 30 }
    }
}

/// The weight at a place among the [`WEIGHTS`], where a missed block costs `penalty`.
pub fn weight_at(place: usize, penalty: u64) -> Weight {
    match place {
        0 => Weight::PLAIN,
        place => Weight::quarters(penalty << (place - 1)),
    }
}

/// The names of the [`WEIGHTS`]: parts of the penalty.
pub const PLACES: [&str; WEIGHTS] = ["plain", "1/4", "1/2", "1", "2", "4", "8"];

impl AdaptiveSettings {
    /// Reads `start=PLACE,shadow=BLOCKS`, both optional.
    pub fn parse(text: &str) -> Option<AdaptiveSettings> {
        let mut settings = AdaptiveSettings::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            match part.split_once('=')? {
                ("start", place) => {
                    settings.start = PLACES.iter().position(|known| *known == place)?;
                }
                ("shadow", blocks) => {
                    settings.shadow_blocks = blocks.parse().ok().filter(|n| *n >= 64)?;
                }
                ("gain", permille) => settings.gain_permille = permille.parse().ok()?,
                ("sure", tenths) => settings.sure_tenths = tenths.parse().ok()?,
                _ => return None,
            }
        }
        Some(settings)
    }
}

/// Penalties of one batch, by weight.
type Batch = [u64; WEIGHTS];

/// A cache whose weight is chosen while running.
pub struct Adaptive {
    cache: Box<dyn ReadCache>,
    /// One while no disk is failed, then one per weight.
    shadows: Vec<Box<dyn ReadCache>>,
    fault: Option<Penalties>,
    settings: AdaptiveSettings,
    /// One of 2^`skip` blocks is in the sample.
    skip: u32,
    current: usize,
    batch: Batch,
    requests: u64,
    batch_requests: u64,
    window: VecDeque<Batch>,
    changes: u64,
}

/// One of how many blocks is in the sample, as a power of two.
pub fn sampling(blocks: usize, settings: &AdaptiveSettings) -> u32 {
    (blocks / settings.shadow_blocks.max(1)).max(1).ilog2()
}

impl Adaptive {
    /// A cache and, of the same policy, one of [`Adaptive::shadow_blocks`], both empty and
    /// fault-aware.
    pub fn new(
        cache: Box<dyn ReadCache>,
        shadow: Box<dyn ReadCache>,
        settings: AdaptiveSettings,
    ) -> Adaptive {
        let skip = sampling(cache.blocks(), &settings);
        let batch_requests = (shadow.blocks() as u64 / 8).max(64);
        Adaptive {
            cache,
            shadows: alloc::vec![shadow],
            fault: None,
            settings,
            skip,
            current: settings.start,
            batch: [0; WEIGHTS],
            requests: 0,
            batch_requests,
            window: VecDeque::new(),
            changes: 0,
        }
    }

    /// Blocks of the shadow cache next to a cache of `blocks`.
    pub fn shadow_blocks(blocks: usize, settings: &AdaptiveSettings) -> usize {
        blocks >> sampling(blocks, settings)
    }

    fn is_sampled(&self, block: u64) -> bool {
        mix(block).trailing_zeros() >= self.skip
    }

    fn observe(&mut self, block: u64) {
        let Some(fault) = &self.fault else {
            self.shadows[0].access(block);
            return;
        };
        let penalty = fault.of(block);
        for (shadow, sum) in self.shadows.iter_mut().zip(&mut self.batch) {
            *sum += if shadow.access(block).hit { 0 } else { penalty };
        }
        self.requests += 1;
        if self.requests == self.batch_requests {
            self.end_batch();
        }
    }

    fn end_batch(&mut self) {
        self.requests = 0;
        self.window.push_back(core::mem::take(&mut self.batch));
        if self.window.len() > WINDOW {
            self.window.pop_front();
        }
        if self.window.len() < WINDOW_MIN {
            return;
        }
        let best = (0..WEIGHTS).filter(|place| self.is_better(*place)).max_by_key(|place| {
            let gain: i64 = self.gains(*place).sum();
            // Of equals the one that departs least from the plain policy.
            (gain, core::cmp::Reverse(*place))
        });
        if let Some(best) = best {
            self.use_weight(best);
            self.changes += 1;
        }
    }

    /// By how much each batch would have cost less.
    fn gains(&self, place: usize) -> impl Iterator<Item = i64> + '_ {
        self.window.iter().map(move |batch| batch[self.current] as i64 - batch[place] as i64)
    }

    /// Whether a weight gains over the present one: beyond noise, but for the one it began with.
    fn is_better(&self, place: usize) -> bool {
        let count = self.window.len() as i128;
        let gain: i128 = self.gains(place).map(i128::from).sum();
        let now: i128 = self.window.iter().map(|batch| i128::from(batch[self.current])).sum();
        if gain <= 0 {
            return false;
        }
        // Where it began is right until the evidence is strong: a return needs none.
        if place == self.settings.start {
            return true;
        }
        if gain * 1000 < now * i128::from(self.settings.gain_permille) {
            return false;
        }
        let squares: i128 = self.gains(place).map(|g| i128::from(g) * i128::from(g)).sum();
        // The sum's variance is count times that of a batch; all times count - 1.
        let spread = count * squares - gain * gain;
        let sure = i128::from(self.settings.sure_tenths);
        gain * gain * (count - 1) * 100 >= sure * sure * spread
    }

    fn use_weight(&mut self, place: usize) {
        self.current = place;
        let penalty = self.fault.as_ref().map_or(1, Penalties::of_lost);
        self.cache.set_weight(Some(weight_at(place, penalty)));
    }

    /// The place of the weight in use among the [`WEIGHTS`].
    pub fn current(&self) -> usize {
        self.current
    }
}

impl ReadCache for Adaptive {
    fn access(&mut self, block: u64) -> Access {
        if self.is_sampled(block) {
            self.observe(block);
        }
        self.cache.access(block)
    }

    fn run(&mut self, ranges: &[PageRange], penalties: &Penalties, tally: &mut Tally) {
        replay(self, ranges, penalties, tally, &mut |_, _| {});
    }

    fn holds(&self, block: u64) -> bool {
        self.cache.holds(block)
    }

    fn held(&self) -> usize {
        self.cache.held()
    }

    fn blocks(&self) -> usize {
        self.cache.blocks()
    }

    fn evict(&mut self) -> Option<u64> {
        self.cache.evict()
    }

    fn forget(&mut self, block: u64) -> bool {
        if self.is_sampled(block) {
            for shadow in &mut self.shadows {
                shadow.forget(block);
            }
        }
        self.cache.forget(block)
    }

    fn set_fault(&mut self, fault: Option<Penalties>) {
        let had = self.fault.as_ref().map(Penalties::of_lost);
        let penalty = fault.as_ref().map(Penalties::of_lost);
        if penalty.is_none() {
            // The shadow of the weight in use is the likest to the cache.
            let kept = if had.is_some() { self.current } else { 0 };
            self.shadows.swap(0, kept);
            self.shadows.truncate(1);
            self.shadows[0].set_weight(None);
            self.cache.set_weight(None);
        }
        self.cache.set_fault(fault.clone());
        self.shadows.iter_mut().for_each(|shadow| shadow.set_fault(fault.clone()));
        self.fault = fault;
        let Some(penalty) = penalty else { return };
        if had.is_none() {
            while self.shadows.len() < WEIGHTS {
                let copy = self.shadows[0].copy().expect("a cache of the table");
                self.shadows.push(copy);
            }
            self.window.clear();
            (self.batch, self.requests) = ([0; WEIGHTS], 0);
            self.current = self.settings.start;
        }
        for (place, shadow) in self.shadows.iter_mut().enumerate() {
            shadow.set_weight(Some(weight_at(place, penalty)));
        }
        self.use_weight(self.current);
    }

    /// It chooses its weight itself.
    fn set_weight(&mut self, _weight: Option<Weight>) {}

    fn weight(&self) -> Option<Weight> {
        self.fault.as_ref().map(|fault| weight_at(self.current, fault.of_lost()))
    }

    fn weight_changes(&self) -> u64 {
        self.changes
    }

    fn memory_bytes(&self) -> usize {
        let shadows = self.shadows.iter().map(|shadow| shadow.memory_bytes());
        self.cache.memory_bytes() + shadows.sum::<usize>()
    }

    fn copy(&self) -> Option<Box<dyn ReadCache>> {
        let shadows: Option<Vec<_>> = self.shadows.iter().map(|shadow| shadow.copy()).collect();
        Some(Box::new(Adaptive {
            cache: self.cache.copy()?,
            shadows: shadows?,
            fault: self.fault.clone(),
            window: self.window.clone(),
            ..*self
        }))
    }
}
