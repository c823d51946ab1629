//! Byte-addressable NVS: a file on tmpfs or persistent memory, mapped.
#![allow(unsafe_code)]

use super::pages::{PageCopy, settle, stores};
use super::sigbus::Guard;
use destage_served::IoError;
use memmap2::{MmapMut, MmapOptions};
use std::fs::File;

/// A mapped NVS device.
pub struct Mapped {
    /// Dropped before the mapping.
    guard: Guard,
    map: MmapMut,
    copy: PageCopy,
    /// What is written must be synchronised: not on tmpfs, which no power failure outlives.
    sync: bool,
}

impl Mapped {
    /// Maps all of a file.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(file: &File, sync: bool) -> std::io::Result<Mapped> {
        // SAFETY: the file is locked for this process (`devices.rs`), which keeps other programs
        // of ours from changing it. Others may cut it short: `sigbus.rs`.
        // Populated: a page fault costs more than the copy of a page.
        let map = unsafe { MmapOptions::new().populate().map_mut(file)? };
        let guard = Guard::new(map.as_ptr(), map.len())?;
        Ok(Mapped { guard, map, copy: stores(), sync })
    }

    /// The file has become shorter: from then on nothing counts that is read or written.
    fn still_all(&self) -> Result<(), IoError> {
        if self.guard.is_cut() { Err(IoError::SHORT) } else { Ok(()) }
    }

    /// Copies from the device.
    ///
    /// # Errors
    /// Past its end, or if the file was cut short.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        let at = offset as usize;
        let from = self.map.get(at..at + into.len()).ok_or(IoError::SHORT)?;
        into.copy_from_slice(from);
        self.still_all()
    }

    /// Copies to the device, and makes it durable if asked.
    ///
    /// # Errors
    /// Past its end, if the file was cut short, or if it cannot be synchronised.
    pub fn write(&mut self, offset: u64, bytes: &[u8], durable: bool) -> Result<(), IoError> {
        let at = offset as usize;
        let to = self.map.get_mut(at..at + bytes.len()).ok_or(IoError::SHORT)?;
        (self.copy)(to, bytes);
        settle();
        self.still_all()?;
        if durable && self.sync {
            self.map.flush_range(at, bytes.len()).map_err(|error| IoError::from_std(&error))?;
        }
        Ok(())
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// If the file was cut short, or cannot be synchronised.
    pub fn flush(&mut self) -> Result<(), IoError> {
        self.still_all()?;
        if self.sync { self.map.flush().map_err(|error| IoError::from_std(&error)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_cut_short_is_an_error_and_no_signal() {
        let file = tempfile::tempfile_in("/dev/shm").or_else(|_| tempfile::tempfile()).unwrap();
        file.set_len(64 << 10).unwrap();
        let mut mapped = Mapped::new(&file, false).unwrap();
        assert_eq!(mapped.write(32 << 10, &[7; 4096], true), Ok(()));
        let mut bytes = [0; 4096];
        assert_eq!(mapped.read(32 << 10, &mut bytes), Ok(()));
        assert_eq!(bytes, [7; 4096]);
        file.set_len(16 << 10).unwrap();
        assert_eq!(mapped.read(8 << 10, &mut bytes), Ok(()), "this part is there");
        assert_eq!(mapped.read(32 << 10, &mut bytes), Err(IoError::SHORT));
        assert_eq!(mapped.write(60 << 10, &[7; 4096], true), Err(IoError::SHORT));
        assert_eq!(mapped.read(8 << 10, &mut bytes), Err(IoError::SHORT), "nothing counts now");
        assert_eq!(mapped.flush(), Err(IoError::SHORT));
        drop(mapped);
        file.set_len(64 << 10).unwrap();
        let mapped = Mapped::new(&file, false).unwrap();
        assert_eq!(mapped.read(60 << 10, &mut bytes), Ok(()));
    }
}
