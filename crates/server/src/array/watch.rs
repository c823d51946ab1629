//! Looks whether the devices are still there, and still as long as the array needs. Of a file that
//! was deleted the open descriptor works on, and all of it is gone when the server ends. Of a disk
//! that was pulled the device node goes the same way. A file that was cut short would read zeros
//! where a write has grown it again.

use super::admin::Admin;
use super::devices::Opened;
use crate::Remote;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(500);
/// How long a look may take that somebody waits for.
const LOOK: Duration = Duration::from_secs(3);

/// Whose device it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// A member's.
    Member(u16),
    /// An NVS device of this number.
    Nvs(u16),
    /// A spare's, by its name.
    Spare(String),
}

/// What has become of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Its file, or its device node, was deleted.
    Deleted,
    /// It has become shorter than the array needs.
    Shrunk {
        /// Bytes that it has.
        bytes: u64,
        /// Bytes that the array needs.
        needs: u64,
    },
}

/// What a look has found.
#[derive(Clone, Debug)]
pub struct Found {
    pub(super) whose: Watched,
    pub(super) trouble: Trouble,
    /// Which device it was: another one may have its place by now.
    number: u64,
}

/// A device that is looked at.
#[derive(Clone)]
struct Known {
    number: u64,
    file: Arc<File>,
    needs: u64,
}

impl Known {
    fn trouble(&self) -> Option<Trouble> {
        let about = self.file.metadata().ok()?;
        // Of a block device, the metadata has no length.
        let bytes = match about.is_file() {
            true => about.len(),
            false => super::devices::length(&self.file).ok()?,
        };
        if bytes < self.needs {
            return Some(Trouble::Shrunk { bytes, needs: self.needs });
        }
        (about.nlink() == 0).then_some(Trouble::Deleted)
    }
}

/// The devices that are looked at. A thread of its own does it: a file system may not answer.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    devices: Arc<Mutex<BTreeMap<Watched, Known>>>,
    /// How many devices there have been.
    added: Arc<AtomicU64>,
}

impl Watch {
    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<Watched, Known>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wrong now.
    pub(super) fn look(&self) -> Vec<Found> {
        let now = self.known().clone();
        let found = |(whose, known): (Watched, Known)| {
            let trouble = known.trouble()?;
            Some(Found { whose, trouble, number: known.number })
        };
        now.into_iter().filter_map(found).collect()
    }

    /// Whether what was found is of a device that is still looked at. A look takes its time, and
    /// the device may have been replaced in between.
    pub(super) fn is_current(&self, found: &Found) -> bool {
        self.known().get(&found.whose).is_some_and(|known| known.number == found.number)
    }

    /// Begins to look, and says what is wrong until it is removed; it ends when the
    /// data thread has, at the next thing to say, or with the process.
    pub(crate) fn start(&self, remote: Remote) {
        let watch = self.clone();
        let looks = move || {
            loop {
                std::thread::sleep(EVERY);
                for found in watch.look() {
                    if !remote.send(Box::new(Admin::Trouble(found))) {
                        return;
                    }
                }
            }
        };
        // Without the thread a deleted file is seen at the next start.
        let _ = std::thread::Builder::new().name("watch".to_string()).spawn(looks);
    }

    /// Looks now, and has the data thread told before this returns; not longer than it may take.
    pub(crate) fn look_now(&self, remote: &Remote) {
        let (sender, found) = channel();
        let watch = self.clone();
        let look = move || drop(sender.send(watch.look()));
        let thread = std::thread::Builder::new().name("look".to_string()).spawn(look);
        if thread.is_ok()
            && let Ok(found) = found.recv_timeout(LOOK)
        {
            for found in found {
                remote.send(Box::new(Admin::Trouble(found)));
            }
        }
    }

    /// Looks at a device from now on, if it is of this machine; it must have this many bytes.
    pub(crate) fn add(&self, whose: Watched, opened: &Opened, needs: u64) {
        if let Some(file) = opened.file().and_then(|file| file.try_clone().ok()) {
            let number = self.added.fetch_add(1, Ordering::Relaxed);
            self.known().insert(whose, Known { number, file: Arc::new(file), needs });
        }
    }

    /// The file of a device, if it is no block device.
    pub(crate) fn file(&self, whose: &Watched) -> Option<Arc<File>> {
        let known = self.known().get(whose).cloned()?;
        known.file.metadata().is_ok_and(|about| about.is_file()).then_some(known.file)
    }

    /// Looks at it no longer, and lets go of it.
    pub(crate) fn remove(&self, whose: &Watched) {
        self.known().remove(whose);
    }
}
