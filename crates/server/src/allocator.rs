//! The allocator of a server: what clients made it take goes back to the system.
#![allow(unsafe_code)]

/// Has buffers of 128 KiB and more mapped by themselves for good, and so given back when they are
/// freed. By itself glibc raises that limit to what was freed last, up to 32 MiB, and then keeps
/// the memory of buffers below it. Does nothing with other libraries.
pub fn give_back_large_buffers() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number, under the allocator's own lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}
