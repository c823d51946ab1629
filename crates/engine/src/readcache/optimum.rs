//! What a read cache could do that knows all requests beforehand: Belady's optimum, its
//! fault-aware form, and a bound on the requests to the surviving disks. docs/readcache.md says
//! what each is, and why the bound holds.

use super::Access;
use super::penalty::Penalties;
use super::replay::Tally;
use crate::request::PageRange;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

/// The number of a request that never comes.
const NEVER: u64 = u64::MAX;

/// For each block request, the number of the next one for its block.
fn next_uses(stream: &[u64]) -> Vec<u64> {
    let mut next = Vec::with_capacity(stream.len());
    let mut last: BTreeMap<u64, usize> = BTreeMap::new();
    for block in stream {
        if let Some(before) = last.insert(*block, next.len()) {
            next[before] = next.len() as u64;
        }
        next.push(NEVER);
    }
    next
}

fn blocks_of(ranges: &[PageRange]) -> impl Iterator<Item = u64> + '_ {
    ranges.iter().flat_map(|range| range.first.0..range.end().0)
}

/// A cache that knows the future: of each class the blocks by next use.
struct Clairvoyant<'a> {
    held: BTreeMap<u64, u64>,
    order: [BTreeSet<(u64, u64)>; 2],
    /// By which it takes failed disks into account.
    aware: Option<&'a Penalties>,
}

impl Clairvoyant<'_> {
    fn order_of(&mut self, block: u64) -> &mut BTreeSet<(u64, u64)> {
        &mut self.order[usize::from(self.aware.is_some_and(|fault| fault.is_lost(block)))]
    }

    /// The block to go for request number `now`: asked for latest again, where the time until then
    /// counts a heavy block's penalty less. Of those never asked for again the highest light one.
    fn evict(&mut self, now: u64) -> u64 {
        let [light, heavy] = [0, 1].map(|class| self.order[class].last().copied());
        let penalty = self.aware.map_or(1, Penalties::of_lost);
        let far = |next: u64, times: u64| (next - now).saturating_mul(times);
        let heavy_goes = match (light, heavy) {
            (Some((NEVER, _)), _) | (_, None) => false,
            (None, _) | (_, Some((NEVER, _))) => true,
            (Some((light, _)), Some((heavy, _))) => far(heavy, 1) > far(light, penalty),
        };
        let last = self.order[usize::from(heavy_goes)].pop_last();
        let (_, victim) = last.expect("a full cache holds blocks");
        self.held.remove(&victim);
        victim
    }

    fn access(&mut self, now: u64, block: u64, again: u64, full: usize) -> Access {
        let hit = match self.held.get(&block).copied() {
            Some(next) => self.order_of(block).remove(&(next, block)),
            None => false,
        };
        let evicted = (!hit && self.held.len() == full).then(|| self.evict(now));
        self.held.insert(block, again);
        self.order_of(block).insert((again, block));
        Access { hit, evicted }
    }
}

/// Replays as [`super::replay::replay`] does, with a cache of `blocks`, at least 1, that knows all
/// requests. It is Belady's optimum, or its fault-aware form.
pub fn replay_optimum(
    ranges: &[PageRange],
    blocks: usize,
    aware: bool,
    penalties: &Penalties,
    tally: &mut Tally,
    event: &mut dyn FnMut(u64, Access),
) {
    let stream: Vec<u64> = blocks_of(ranges).collect();
    let order = [BTreeSet::new(), BTreeSet::new()];
    let mut cache = Clairvoyant { held: BTreeMap::new(), order, aware: aware.then_some(penalties) };
    for ((now, again), block) in (0..).zip(next_uses(&stream)).zip(stream) {
        let warm = cache.held.len() == blocks;
        let access = cache.access(now, block, again, blocks);
        tally.count(access.hit, warm, if access.hit { 0 } else { penalties.of(block) });
        event(block, access);
    }
}

/// Fewest misses that any cache of `blocks` can have, of these requests for one block each.
pub fn fewest_misses(stream: &[u64], blocks: usize) -> u64 {
    let order = [BTreeSet::new(), BTreeSet::new()];
    let mut cache = Clairvoyant { held: BTreeMap::new(), order, aware: None };
    let requests = (0..).zip(next_uses(stream)).zip(stream);
    let missed = requests.filter(|((now, next), b)| !cache.access(*now, **b, *next, blocks).hit);
    missed.count() as u64
}

/// The requests before which `blocks` different ones were asked for: no block need go until then.
fn fill(stream: &[u64], blocks: usize) -> u64 {
    let mut seen = BTreeSet::new();
    let full = stream.iter().position(|block| seen.insert(*block) && seen.len() > blocks);
    full.unwrap_or(stream.len()) as u64
}

/// A bound on the penalty by a price for holding one block over one request.
fn priced_bound(stream: &[u64], blocks: usize, penalties: &Penalties) -> u64 {
    let filled = fill(stream, blocks);
    let next = next_uses(stream);
    // Requests over which each block would be held for a hit, after the first, and what that saves.
    let held_for = |now: u64, next: u64| next.max(filled) - (now + 1).max(filled);
    let mut saving = Vec::new();
    let mut cost = 0;
    for ((now, next), block) in (0..).zip(next).zip(stream) {
        cost += u128::from(penalties.of(*block));
        if next != NEVER {
            saving.push((held_for(now, next), penalties.of(*block)));
        }
    }
    // Cheapest first, by requests per penalty saved, up to what the cache has room for next to the
    // block just asked for. The last of them makes the price.
    saving.sort_unstable_by_key(|(time, saved)| (time * (12 << 20) / saved, *time));
    let room = u128::from(stream.len() as u64 - filled) * (blocks as u128 - 1);
    let mut used = 0;
    let last = saving.iter().find(|(time, _)| {
        used += u128::from(*time);
        used > room
    });
    let (price, per) = last.map_or((0, 1), |(time, saved)| (u128::from(*saved), *time));
    let gain = |(time, saved): &(u64, u64)| {
        (u128::from(*saved) * u128::from(per)).saturating_sub(price * u128::from(*time))
    };
    let gained = saving.iter().map(gain).sum::<u128>() + price * room;
    (cost - (gained / u128::from(per)).min(cost)) as u64
}

/// Counts what no cache of `blocks` that loads every missed block can better: hits above, penalty
/// below. Nothing is counted as warm.
pub fn bound(ranges: &[PageRange], blocks: usize, penalties: &Penalties, tally: &mut Tally) {
    let all: Vec<u64> = blocks_of(ranges).collect();
    let lost: Vec<u64> = all.iter().copied().filter(|block| penalties.is_lost(*block)).collect();
    let missed = fewest_misses(&all, blocks);
    let by_misses = missed + (penalties.of_lost() - 1) * fewest_misses(&lost, blocks);
    tally.requests += all.len() as u64;
    tally.hits += all.len() as u64 - missed;
    tally.penalty += by_misses.max(priced_bound(&all, blocks, penalties));
}
