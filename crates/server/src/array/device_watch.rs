//! Checks regularly that the devices are still there, and still as long as the array needs. The
//! open descriptor of a deleted file still works, and its data is gone when the server ends. The
//! device node of a disk that was pulled disappears in the same way. A file that was cut short
//! would read zeros after a write has grown it again.

use super::devices::Opened;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the devices are checked.
const EVERY: Duration = Duration::from_millis(500);
/// How long a check may take that a command waits for.
const LOOK: Duration = Duration::from_secs(3);

/// Which device it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watched {
    /// A member's.
    Member(u16),
    /// An NVS device of this number.
    Nvs(u16),
    /// A spare's, by its name.
    Spare(String),
}

/// What has become of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
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

/// What a check has found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) whose: Watched,
    pub(super) trouble: Trouble,
    /// Which device it was: another one may have its place by now.
    number: u64,
}

/// A device that is checked.
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

/// The devices that are checked. A thread of its own does it, because a file system may hang.
#[derive(Clone, Default)]
pub(super) struct DeviceWatch {
    devices: Arc<Mutex<BTreeMap<Watched, Known>>>,
    /// Devices added so far.
    added: Arc<AtomicU64>,
}

impl DeviceWatch {
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

    /// Whether a finding is about a device that is still there. A check takes time, and the device
    /// may have been replaced in between.
    pub(super) fn is_current(&self, found: &Found) -> bool {
        self.known().get(&found.whose).is_some_and(|known| known.number == found.number)
    }

    /// Begins to check, and reports what is wrong, again and again until the device is removed.
    /// It ends when `report` returns false.
    pub(super) fn start(&self, report: impl Fn(Found) -> bool + Send + 'static) {
        let watch = self.clone();
        let checks = move || {
            loop {
                std::thread::sleep(EVERY);
                for found in watch.look() {
                    if !report(found) {
                        return;
                    }
                }
            }
        };
        // Without the thread a deleted file is seen at the next start.
        let _ = std::thread::Builder::new().name("devices".to_string()).spawn(checks);
    }

    /// Checks now, but not for longer than [`LOOK`].
    pub(super) fn look_now(&self) -> Vec<Found> {
        let (sender, found) = channel();
        let watch = self.clone();
        let look = move || drop(sender.send(watch.look()));
        let thread = std::thread::Builder::new().name("look".to_string()).spawn(look);
        if thread.is_err() {
            return Vec::new();
        }
        found.recv_timeout(LOOK).unwrap_or_default()
    }

    /// Checks a device from now on, if it is local; it must have this many bytes.
    pub(super) fn add(&self, whose: Watched, opened: &Opened, needs: u64) {
        if let Some(file) = opened.file().and_then(|file| file.try_clone().ok()) {
            let number = self.added.fetch_add(1, Ordering::Relaxed);
            self.known().insert(whose, Known { number, file: Arc::new(file), needs });
        }
    }

    /// A device must have this many bytes from now on. What was found before is of the past.
    pub(super) fn set_needs(&self, whose: &Watched, needs: u64) {
        let number = self.added.fetch_add(1, Ordering::Relaxed);
        if let Some(known) = self.known().get_mut(whose) {
            (known.number, known.needs) = (number, needs);
        }
    }

    /// Bytes of a device, if it is local.
    pub(super) fn bytes(&self, whose: &Watched) -> Option<u64> {
        let known = self.known().get(whose).cloned()?;
        super::devices::length(&known.file).ok()
    }

    /// The file of a device, if it is a regular file.
    pub(super) fn file(&self, whose: &Watched) -> Option<Arc<File>> {
        let known = self.known().get(whose).cloned()?;
        known.file.metadata().is_ok_and(|about| about.is_file()).then_some(known.file)
    }

    /// Stops checking a device and closes it.
    pub(super) fn remove(&self, whose: &Watched) {
        self.known().remove(whose);
    }
}
