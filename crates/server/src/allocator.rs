//! The allocator of a server: memory taken for clients goes back to the system.
#![allow(unsafe_code)]

/// Makes glibc map each buffer of 128 KiB and more by itself, so that freeing it gives the memory
/// back to the system. Otherwise glibc raises that limit to the size freed last, up to 32 MiB, and
/// keeps the memory of smaller buffers. With other libraries this does nothing.
pub fn give_back_large_buffers() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number, under the allocator's own lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
    }
}
