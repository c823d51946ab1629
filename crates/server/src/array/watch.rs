//! Looks whether the files of members and spares are still there: of a file that was deleted the
//! open descriptor works on, and all of it is gone when the server ends. Of a disk that was
//! pulled the device node goes the same way.

use super::admin::Admin;
use super::devices::Opened;
use crate::Remote;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often it looks.
const EVERY: Duration = Duration::from_millis(500);

/// Whose file it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// A member's.
    Member(u16),
    /// A spare's, by its name.
    Spare(String),
}

/// The files that are looked at. A thread of its own does it: a file system may not answer.
#[derive(Clone, Default)]
pub(crate) struct Watch {
    files: Arc<Mutex<BTreeMap<Watched, Arc<File>>>>,
}

impl Watch {
    /// Begins to look, and says what is gone until it is removed; it ends when the
    /// data thread has, at the next thing to say, or with the process.
    pub(crate) fn start(&self, remote: Remote) {
        let files = Arc::clone(&self.files);
        let looks = move || {
            loop {
                std::thread::sleep(EVERY);
                let now = files.lock().unwrap_or_else(PoisonError::into_inner).clone();
                for (whose, file) in now {
                    let gone = file.metadata().is_ok_and(|about| about.nlink() == 0);
                    drop(file);
                    if !gone {
                        continue;
                    }
                    if !remote.send(Box::new(Admin::Deleted(whose))) {
                        return;
                    }
                }
            }
        };
        // Without the thread a deleted file is seen at the next start.
        let _ = std::thread::Builder::new().name("watch".to_string()).spawn(looks);
    }

    /// Looks at a device from now on, if it is a file.
    pub(crate) fn add(&self, whose: Watched, opened: &Opened) {
        if let Some(file) = opened.file().and_then(|file| file.try_clone().ok()) {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.insert(whose, Arc::new(file));
        }
    }

    /// Looks at it no longer, and lets go of it.
    pub(crate) fn remove(&self, whose: &Watched) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(whose);
    }
}
