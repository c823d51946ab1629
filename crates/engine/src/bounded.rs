//! Vectors that grow by half and never past what the NVS can need, so that metadata stays small.

use alloc::vec::Vec;

/// Makes room for `index` in a per-slot vector of at most `most` entries, filling with `fill`.
pub fn cover<T: Clone>(vec: &mut Vec<T>, index: usize, fill: T, most: usize) {
    if index < vec.len() {
        return;
    }
    let length = index + 1;
    if length > vec.capacity() {
        let wanted = (vec.capacity() + vec.capacity() / 2 + 64).min(most).max(length);
        vec.reserve_exact(wanted - vec.len());
    }
    vec.resize(length, fill);
}
