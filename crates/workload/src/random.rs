//! Seeded randomness: every component draws its own generator from (seed, label).
//!
//! Adding a component therefore never shifts the numbers of another. Only integer arithmetic and
//! `libm` are used, so that a seed gives the same numbers on every machine.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A generator of its own for one component (xoshiro256++, seeded by splitmix64 of the seed mixed
/// with a hash of the component's label).
#[derive(Clone, Debug)]
pub struct Seeded(Xoshiro256PlusPlus);

impl Seeded {
    /// The generator of the component called `label` in a run of this seed.
    pub fn new(seed: u64, label: &str) -> Seeded {
        Seeded(Xoshiro256PlusPlus::seed_from_u64(seed ^ fnv1a(label.as_bytes())))
    }

    /// 64 uniform bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..bound`, 0 if `bound` is 0. The bias is below `bound` in 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in [0, 1), in steps of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True with this probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// An exponential draw of the given mean, rounded to whole nanoseconds.
    #[inline]
    pub fn exponential_ns(&mut self, mean_ns: f64) -> u64 {
        (-libm::log(1.0 - self.unit()) * mean_ns + 0.5) as u64
    }
}

/// FNV-1a over 64 bits.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_give_generators_of_their_own_and_seeds_repeat() {
        assert_eq!(Seeded::new(7, "a").bits(), Seeded::new(7, "a").bits());
        assert_ne!(Seeded::new(7, "a").bits(), Seeded::new(7, "b").bits());
        assert_ne!(Seeded::new(7, "a").bits(), Seeded::new(8, "a").bits());
    }

    #[test]
    fn an_exponential_has_its_mean() {
        let mut random = Seeded::new(1, "mean");
        let sum: u64 = (0..1_000_000).map(|_| random.exponential_ns(20_000.0)).sum();
        let mean_ns = sum as f64 / 1e6;
        assert!((19_900.0..20_100.0).contains(&mean_ns), "{mean_ns}");
    }

    #[test]
    fn below_stays_below() {
        let mut random = Seeded::new(1, "below");
        assert!((0..10_000).all(|_| random.below(7) < 7));
        assert_eq!(random.below(0), 0);
    }
}
