//! Contents of a disk in memory. What was never written takes no memory.

use destage_block::Extent;
use std::collections::HashMap;

const CHUNK: u64 = 64 << 10;
/// Most extents in one answer.
const EXTENTS_MAX: usize = 4096;
/// Most bytes that one answer reports on: the data thread has others to serve.
const LOOKED_AT_MAX: u64 = 1 << 30;

/// Bytes by address; what is absent reads as zeros.
#[derive(Debug, Default)]
pub struct Sparse {
    chunks: HashMap<u64, Box<[u8]>>,
}

/// The parts of a range by chunk: number, first byte in it, bytes.
fn parts(offset: u64, length: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let (mut at, end) = (offset, offset + length);
    std::iter::from_fn(move || {
        let (chunk, within) = (at / CHUNK, at % CHUNK);
        let count = (CHUNK - within).min(end - at);
        at += count;
        (count > 0).then_some((chunk, within as usize, count as usize))
    })
}

impl Sparse {
    /// Writes.
    pub fn write(&mut self, offset: u64, mut bytes: &[u8]) {
        for (chunk, within, count) in parts(offset, bytes.len() as u64) {
            let (front, rest) = bytes.split_at(count);
            let chunk = self.chunks.entry(chunk);
            let chunk = chunk.or_insert_with(|| vec![0; CHUNK as usize].into_boxed_slice());
            chunk[within..within + count].copy_from_slice(front);
            bytes = rest;
        }
    }

    /// Calls `out` with the bytes of a range, in consecutive parts.
    pub fn each<'a>(&'a self, offset: u64, length: u64, mut out: impl FnMut(&'a [u8])) {
        static ZEROS: [u8; CHUNK as usize] = [0; CHUNK as usize];
        for (chunk, within, count) in parts(offset, length) {
            let chunk = self.chunks.get(&chunk).map_or(&ZEROS[..], |chunk| &chunk[..]);
            out(&chunk[within..within + count]);
        }
    }

    /// Zeroes a range, and frees the chunks that it covers completely.
    pub fn clear(&mut self, offset: u64, length: u64) {
        let (first, last) = (offset / CHUNK, (offset + length).div_ceil(CHUNK));
        let whole = offset.div_ceil(CHUNK)..(offset + length) / CHUNK;
        if last - first > self.chunks.len() as u64 {
            self.chunks.retain(|chunk, _| !whole.contains(chunk));
        } else {
            whole.clone().for_each(|chunk| drop(self.chunks.remove(&chunk)));
        }
        for number in [first, last.saturating_sub(1)] {
            let Some(chunk) = self.chunks.get_mut(&number) else { continue };
            let start = offset.saturating_sub(number * CHUNK).min(CHUNK) as usize;
            let end = (offset + length).saturating_sub(number * CHUNK).min(CHUNK) as usize;
            chunk[start..end].fill(0);
        }
    }

    /// The extents from `offset` on, with holes marked; perhaps not to the end, and only one extent
    /// if `one`.
    pub fn extents(&self, offset: u64, length: u64, one: bool) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        for (chunk, _, count) in parts(offset, length.min(LOOKED_AT_MAX)) {
            let marked = !self.chunks.contains_key(&chunk);
            let full = one || extents.len() == EXTENTS_MAX;
            match extents.last_mut() {
                Some(last) if last.marked == marked => last.length += count as u64,
                Some(_) if full => break,
                _ => extents.push(Extent { length: count as u64, marked }),
            }
        }
        extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_vector_that_forgets_zeros() {
        let mut sparse = Sparse::default();
        let mut plain = vec![0u8; 400_000];
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for step in 0..2_000 {
            let offset = draw(399_999);
            let length = 1 + draw((400_000 - offset).min(200_000));
            let range = offset as usize..(offset + length) as usize;
            if draw(3) == 0 {
                sparse.clear(offset, length);
                plain[range].fill(0);
            } else {
                plain[range.clone()].fill(step as u8 | 1);
                sparse.write(offset, &plain[range]);
            }
            if step % 50 == 0 {
                let mut all = Vec::new();
                sparse.each(0, 400_000, |part| all.extend_from_slice(part));
                assert!(all == plain, "step {step}");
                let covered: u64 = sparse.extents(0, 400_000, false).iter().map(|e| e.length).sum();
                assert_eq!(covered, 400_000);
            }
        }
        sparse.clear(0, 400_000);
        assert!(sparse.chunks.len() <= 1);
    }
}
