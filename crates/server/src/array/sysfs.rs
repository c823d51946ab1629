//! The kernel's view of block devices: where it shows one, and of which disk it is.

use std::path::{Path, PathBuf};

/// Where the kernel shows its devices.
pub(super) const ROOT: &str = "/sys";

/// The folder of a block device by its number.
pub(super) fn folder(root: &Path, device: u64) -> Option<PathBuf> {
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    std::fs::canonicalize(root.join("dev/block").join(number)).ok()
}

/// The folder of the disk that a folder is of: of a partition, that around it.
pub(super) fn disk(folder: &Path) -> &Path {
    match (folder.join("partition").exists(), folder.parent()) {
        (true, Some(disk)) => disk,
        _ => folder,
    }
}

/// A tree as the kernel shows it.
#[cfg(test)]
pub(super) struct Tree(tempfile::TempDir);

#[cfg(test)]
impl Tree {
    pub(super) fn new() -> Tree {
        let tree = Tree(tempfile::tempdir().expect("a folder"));
        std::fs::create_dir_all(tree.0.path().join("dev/block")).expect("a folder");
        tree
    }

    pub(super) fn root(&self) -> &Path {
        self.0.path()
    }

    /// A device of this number, in this folder.
    pub(super) fn add(&self, number: &str, folder: &str, files: &[(&str, &str)]) -> &Tree {
        let place = self.0.path().join("devices").join(folder);
        std::fs::create_dir_all(&place).expect("a folder");
        for (name, text) in files {
            let file = place.join(name);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            std::fs::write(file, format!("{text}\n")).expect("written");
        }
        let link = self.0.path().join("dev/block").join(number);
        std::os::unix::fs::symlink(Path::new("../../devices").join(folder), link).expect("a link");
        self
    }

    pub(super) fn slave(&self, of: &str, name: &str, folder: &str) -> &Tree {
        let slaves = self.0.path().join("devices").join(of).join("slaves");
        std::fs::create_dir_all(&slaves).expect("a folder");
        std::os::unix::fs::symlink(self.0.path().join("devices").join(folder), slaves.join(name))
            .expect("a link");
        self
    }
}
