//! Byte-addressable NVS: a file on tmpfs or persistent memory, mapped.
#![allow(unsafe_code)]

use super::pages::{PageCopy, settle, stores};
use destage_volume::IoError;
use memmap2::{MmapMut, MmapOptions};
use std::fs::File;

/// A mapped NVS device.
pub struct Mapped {
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
        // SAFETY: the file is locked for this process (`devices.rs`), which is what keeps others
        // from changing or truncating it.
        // Populated: a page fault costs more than the copy of a page.
        let map = unsafe { MmapOptions::new().populate().map_mut(file)? };
        Ok(Mapped { map, copy: stores(), sync })
    }

    /// Copies from the device.
    ///
    /// # Errors
    /// Past its end.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        let at = offset as usize;
        let from = self.map.get(at..at + into.len()).ok_or(IoError::Gone)?;
        into.copy_from_slice(from);
        Ok(())
    }

    /// Copies to the device, and makes it durable if asked.
    ///
    /// # Errors
    /// Past its end, or if it cannot be synchronised.
    pub fn write(&mut self, offset: u64, bytes: &[u8], durable: bool) -> Result<(), IoError> {
        let at = offset as usize;
        let to = self.map.get_mut(at..at + bytes.len()).ok_or(IoError::Gone)?;
        (self.copy)(to, bytes);
        settle();
        if durable && self.sync {
            self.map.flush_range(at, bytes.len()).map_err(|_| IoError::Gone)?;
        }
        Ok(())
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// If it cannot be synchronised.
    pub fn flush(&mut self) -> Result<(), IoError> {
        if self.sync { self.map.flush().map_err(|_| IoError::Gone) } else { Ok(()) }
    }
}
