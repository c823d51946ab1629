//! Survives a mapped file that is cut short: an access behind its new end is a SIGBUS, which would
//! kill the server. The handler puts zeros of this process in place of what is gone and notes it,
//! so that the copy ends and its caller can report the device as lost.
#![allow(unsafe_code)]

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Mappings that are known at a time. An array has two, and one that is being filled.
const SLOTS: usize = 64;
/// All Linux pages are multiples of it, and a mapping that is larger than asked does no harm.
static PAGE: AtomicUsize = AtomicUsize::new(4096);

/// A mapping: addresses from `start` to before `end`; `end` 0: the slot is free.
struct Slot {
    used: AtomicBool,
    start: AtomicUsize,
    end: AtomicUsize,
    cut: AtomicBool,
}

static KNOWN: [Slot; SLOTS] = [const {
    Slot {
        used: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        cut: AtomicBool::new(false),
    }
}; SLOTS];

/// Whoever handled SIGBUS before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
static READY: OnceLock<Result<(), i32>> = OnceLock::new();

/// A mapping whose faults are survived while this is there.
pub(super) struct Guard(&'static Slot);

impl Guard {
    /// Notes a mapping.
    pub(super) fn new(start: *const u8, bytes: usize) -> io::Result<Guard> {
        READY.get_or_init(install).map_err(io::Error::from_raw_os_error)?;
        let free = |slot: &&Slot| !slot.used.swap(true, Ordering::AcqRel);
        let slot = KNOWN.iter().find(free);
        let slot = slot.ok_or_else(|| io::Error::other("too many mapped devices"))?;
        slot.cut.store(false, Ordering::Release);
        slot.start.store(start as usize, Ordering::Release);
        slot.end.store(start as usize + bytes, Ordering::Release);
        Ok(Guard(slot))
    }

    /// Whether an access has met a part that is gone.
    pub(super) fn is_cut(&self) -> bool {
        self.0.cut.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.end.store(0, Ordering::Release);
        self.0.used.store(false, Ordering::Release);
    }
}

fn install() -> Result<(), i32> {
    let errno = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    PAGE.store(rustix::param::page_size(), Ordering::Release);
    // SAFETY: all zeros is a valid `sigaction`, and both pointers are to such for the calls.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) != 0 {
            return Err(errno());
        }
        // Before the handler can run.
        let _ = BEFORE.set(before);
        let mut ours: libc::sigaction = std::mem::zeroed();
        ours.sa_sigaction = handle as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut ours.sa_mask);
        if libc::sigaction(libc::SIGBUS, &raw const ours, std::ptr::null_mut()) != 0 {
            return Err(errno());
        }
    }
    Ok(())
}

/// Only atomics and system calls: nothing here takes a lock or memory.
extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid `siginfo_t`; for a code above 0 it has an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let inside = |slot: &&Slot| {
        let start = slot.start.load(Ordering::Acquire);
        (start..slot.end.load(Ordering::Acquire)).contains(&address)
    };
    if code > 0
        && let Some(slot) = KNOWN.iter().find(inside)
    {
        slot.cut.store(true, Ordering::Release);
        let page = address & !(PAGE.load(Ordering::Acquire) - 1);
        let bytes = slot.end.load(Ordering::Acquire).saturating_sub(page);
        if replace(page, bytes) {
            return;
        }
    }
    // SAFETY: `before` is what the kernel said; the access, or this raise, meets it.
    unsafe {
        if let Some(before) = BEFORE.get() {
            libc::sigaction(libc::SIGBUS, std::ptr::from_ref(before), std::ptr::null_mut());
        }
        if code <= 0 {
            libc::raise(libc::SIGBUS);
        }
    }
}

/// Maps memory of this process over what is gone: behind the first page that is gone is nothing.
fn replace(page: usize, bytes: usize) -> bool {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let at = page as *mut libc::c_void;
    // SAFETY: the pages are part of a mapping that its `Mapped` owns and keeps, readable and
    // writable before and after; the interrupted code reads `errno` after its own calls only.
    unsafe {
        let errno = *libc::__errno_location();
        let done = libc::mmap(at, bytes, protection, flags, -1, 0) != libc::MAP_FAILED;
        *libc::__errno_location() = errno;
        done
    }
}
