//! Fixed cases for `cargo test`: valid inputs, changed by a generator with a fixed seed.

use destage_workload::random::Seeded;

/// Draws the changes.
pub struct Rng(pub Seeded);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        self.0.below(end.max(1) as u64) as usize
    }

    /// One of the seeds with a few changes.
    pub fn changed(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut case = seeds[self.below(seeds.len())].clone();
        for _ in 0..1 + self.below(4) {
            self.change(&mut case, seeds);
        }
        case
    }

    fn change(&mut self, case: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.below(case.len() + 1);
        let some = 1 + self.below(12);
        match self.below(8) {
            0 | 1 if at < case.len() => case[at] ^= 1 << self.below(8),
            2 if at < case.len() => case[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
            3 if at < case.len() => case[at] = self.0.bits() as u8,
            4 if self.below(4) == 0 => case.truncate(at),
            4 => drop(case.drain(at..(at + some).min(case.len()))),
            5 => {
                let other = &seeds[self.below(seeds.len())];
                let from = self.below(other.len());
                let to = (from + 4 * some).min(other.len());
                case.splice(at..at, other[from..to].iter().copied());
            }
            6 => {
                let again = case[at..(at + some).min(case.len())].to_vec();
                case.splice(at..at, again);
            }
            _ => {
                let new: Vec<u8> = (0..some).map(|_| self.0.bits() as u8).collect();
                case.splice(at..at, new);
            }
        }
    }
}
