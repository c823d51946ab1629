//! Belady's optimum: no cache that loads every missed block has fewer misses. It knows all requests
//! beforehand, so it is a bound and not a policy.

use super::Access;
use super::penalty::Penalties;
use super::replay::Tally;
use crate::request::PageRange;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// The number of a request that never comes.
const NEVER: u64 = u64::MAX;

/// For each block request, the number of the next one for its block.
fn next_uses(ranges: &[PageRange]) -> Vec<u64> {
    let mut next = Vec::new();
    let mut last: BTreeMap<u64, usize> = BTreeMap::new();
    for block in ranges.iter().flat_map(|range| range.first.0..range.end().0) {
        if let Some(before) = last.insert(block, next.len()) {
            next[before] = next.len() as u64;
        }
        next.push(NEVER);
    }
    next
}

/// Replays as [`super::replay::replay`] does, with a cache of `blocks`, at least 1, that always
/// evicts the block asked for latest again; of those never asked for again the highest.
pub fn replay_optimum(
    ranges: &[PageRange],
    blocks: usize,
    penalties: &Penalties,
    tally: &mut Tally,
    event: &mut dyn FnMut(u64, Access),
) {
    let mut next = next_uses(ranges).into_iter();
    let mut held: BTreeMap<u64, u64> = BTreeMap::new();
    let mut order: BTreeSet<(u64, u64)> = BTreeSet::new();
    for block in ranges.iter().flat_map(|range| range.first.0..range.end().0) {
        let again = next.next().expect("one for each request");
        let warm = held.len() == blocks;
        let hit = match held.get(&block) {
            Some(now) => order.remove(&(*now, block)),
            None => false,
        };
        let mut evicted = None;
        if !hit && warm {
            let (_, victim) = order.pop_last().expect("a full cache holds blocks");
            held.remove(&victim);
            evicted = Some(victim);
        }
        held.insert(block, again);
        order.insert((again, block));
        tally.count(hit, warm, if hit { 0 } else { penalties.of(block) });
        event(block, Access { hit, evicted });
    }
}
