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

/// Bytes of the disk that a block device is, or is a part of; 0: not known.
pub(super) fn drive_bytes(root: &Path, device: u64) -> u64 {
    const SECTOR: u64 = 512;
    let size = |folder: PathBuf| std::fs::read_to_string(disk(&folder).join("size")).ok();
    let sectors = folder(root, device).and_then(size).and_then(|text| text.trim().parse().ok());
    sectors.map_or(0, |sectors: u64| sectors.saturating_mul(SECTOR))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_the_size_of_its_disk() {
        let tree = Tree::new();
        tree.add("8:0", "sda", &[("size", "7814037168")])
            .add("8:1", "sda/sda1", &[("partition", "1"), ("size", "2048")])
            .add("8:16", "sdb", &[("size", "many")]);
        let bytes = |minor| drive_bytes(tree.root(), libc::makedev(8, minor));
        assert_eq!([0, 1, 16, 32].map(bytes), [4_000_787_030_016, 4_000_787_030_016, 0, 0]);
    }
}
