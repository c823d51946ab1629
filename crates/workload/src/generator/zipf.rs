//! Zipf: the k-th most popular place is drawn in proportion to k^-theta.
//!
//! Ranks are drawn by rejection-inversion (Hörmann and Derflinger 1996), which needs no table and
//! little more than one draw a rank, whatever the number of places.

use destage_engine::registry::{Choice, Entry, Param};

use super::common::{self, RequestShape};
use super::pattern::{Access, BoxedPattern, Directions, Pattern};
use super::{Builds, Workload, WorkloadError};
use crate::random::Seeded;

pub(super) const WORKLOAD: Workload = Workload {
    entry: &Entry {
        name: "zipf",
        summary: "the k-th most popular place is drawn in proportion to k^-theta",
        source: "-",
        params: &[
            Param {
                name: "theta",
                unit: "-",
                default: "0.99",
                range: "0..10",
                help: "exponent of popularity; 0 is uniform",
            },
            Param {
                name: "scramble",
                unit: "-",
                default: "1",
                range: "0|1",
                help: "1: popular places are scattered over the span; 0: they are at its start",
            },
            common::iops("1000"),
            common::writes("1"),
            common::pages("1"),
            common::THREADS,
            common::THINK,
            common::REQUESTS,
            common::SPAN,
        ],
    },
    builds: Builds::Pattern(pattern),
};

/// Draws ranks, turns them into places.
struct Zipf {
    random: Seeded,
    directions: Directions,
    ranks: Ranks,
    scatter: Option<Scatter>,
    request_pages: u32,
}

fn pattern(choice: &Choice, volume_pages: u64, seed: u64) -> Result<BoxedPattern, WorkloadError> {
    let theta = choice.number("theta", 0.0, 10.0)?;
    let scramble = choice.number("scramble", 0u8, 1)? == 1;
    let shape = RequestShape::of(choice, volume_pages, 1)?;
    let slots = shape.slots();
    Ok(Box::new(Zipf {
        random: Seeded::new(seed, "zipf/ranks"),
        directions: Directions::new(seed, shape.write_share),
        ranks: Ranks::new(slots, theta),
        scatter: scramble.then(|| Scatter::new(slots, seed)),
        request_pages: shape.request_pages,
    }))
}

impl Pattern for Zipf {
    fn next_access(&mut self) -> Access {
        let rank = self.ranks.draw(&mut self.random) - 1;
        let slot = self.scatter.as_ref().map_or(rank, |scatter| scatter.place(rank));
        self.directions.access(slot * u64::from(self.request_pages), self.request_pages)
    }
}

/// Ranks 1 to n with weights k^-theta.
struct Ranks {
    count: u64,
    theta: f64,
    /// Area under the curve up to half past the last rank.
    area_last: f64,
    /// Area left of the range that draws come from.
    area_first: f64,
    /// A point this close to its rank is accepted without computing the weight.
    squeeze: f64,
}

impl Ranks {
    fn new(count: u64, theta: f64) -> Ranks {
        let area_first = area(1.5, theta) - 1.0;
        let area_last = area(count as f64 + 0.5, theta);
        let squeeze = 2.0 - area_inverse(area(2.5, theta) - weight(2.0, theta), theta);
        Ranks { count, theta, area_last, area_first, squeeze }
    }

    /// A rank from 1.
    fn draw(&self, random: &mut Seeded) -> u64 {
        loop {
            let drawn = self.area_last + random.unit() * (self.area_first - self.area_last);
            let point = area_inverse(drawn, self.theta);
            let rank = ((point + 0.5) as u64).clamp(1, self.count);
            let place = rank as f64;
            if place - point <= self.squeeze
                || drawn >= area(place + 0.5, self.theta) - weight(place, self.theta)
            {
                return rank;
            }
        }
    }
}

/// x^-theta.
fn weight(x: f64, theta: f64) -> f64 {
    libm::exp(-theta * libm::log(x))
}

/// The integral of x^-theta from 1 to x, steady where theta is near 1.
fn area(x: f64, theta: f64) -> f64 {
    let log_x = libm::log(x);
    let scaled = (1.0 - theta) * log_x;
    if scaled.abs() > 1e-8 { libm::expm1(scaled) / (1.0 - theta) } else { log_x }
}

/// The x whose area is `y`.
fn area_inverse(y: f64, theta: f64) -> f64 {
    let scaled = (y * (1.0 - theta)).max(-1.0);
    if scaled.abs() > 1e-8 { libm::exp(libm::log1p(scaled) / (1.0 - theta)) } else { libm::exp(y) }
}

/// A permutation of `0..count`: mixing rounds on the enclosing power of two, repeated until the
/// result falls inside.
struct Scatter {
    count: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 3],
}

impl Scatter {
    fn new(count: u64, seed: u64) -> Scatter {
        let bits = (u64::BITS - (count - 1).leading_zeros()).max(1);
        let mut random = Seeded::new(seed, "zipf/scatter");
        let mask = u64::MAX >> (u64::BITS - bits);
        Scatter { count, mask, shift: bits.div_ceil(2), keys: [(); 3].map(|()| random.bits()) }
    }

    /// Position of `rank`. Each round adds a key, multiplies by an odd number and folds the upper
    /// half in; each of these can be undone, so no two ranks share a place.
    fn place(&self, rank: u64) -> u64 {
        let mut place = rank;
        loop {
            for key in self.keys {
                place = place.wrapping_add(key).wrapping_mul(key | 1) & self.mask;
                place ^= place >> self.shift;
            }
            if place < self.count {
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_their_weights() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.3] {
            let ranks = Ranks::new(1000, theta);
            let mut random = Seeded::new(3, "ranks");
            let mut counts = vec![0u64; 1001];
            for _ in 0..1_000_000 {
                counts[ranks.draw(&mut random) as usize] += 1;
            }
            let total: f64 = (1..=1000).map(|k| f64::from(k).powf(-theta)).sum();
            for rank in [1u32, 2, 3, 10, 100] {
                let expected = 1e6 * f64::from(rank).powf(-theta) / total;
                let seen = counts[rank as usize] as f64;
                assert!((seen - expected).abs() < 5.0 * expected.sqrt(), "{theta} {rank} {seen}");
            }
        }
    }

    #[test]
    fn scattering_is_a_permutation() {
        for count in [1u64, 2, 3, 1000, 4096, 5000] {
            let scatter = Scatter::new(count, 1);
            let mut places: Vec<u64> = (0..count).map(|rank| scatter.place(rank)).collect();
            places.sort_unstable();
            assert!(places.into_iter().eq(0..count), "{count}");
        }
    }
}
