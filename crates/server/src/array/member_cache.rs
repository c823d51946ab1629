//! What is known of the write cache of a member: from the kernel's view of the block devices below
//! it, or from the flags of its NBD server. What is not known counts as volatile.

use super::config::{ArrayConfig, Choice};
use super::devices::{Devices, Opened};
use super::sysfs;
use destage_engine::flushes::Durability;
use destage_nbd::wire;
use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Most layers of loop and device-mapper devices that are followed.
const LAYERS_MAX: u32 = 16;

/// What is known of a write cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// There is none, or it is off.
    Off,
    /// It loses what it has at a power failure.
    Volatile {
        /// Writes with FUA go past it.
        fua: bool,
    },
    /// Nothing is known.
    Unknown,
}

/// A member's cache, and what else matters for how its writes become durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberCache {
    pub(crate) cache: Cache,
    /// What the member is.
    pub(crate) kind: Kind,
    /// Bytes of the drive that it is a part of; 0: not known.
    pub(crate) drive_bytes: u64,
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A block device of this machine.
    Block,
    /// A file: its file system has to write its own data, too.
    File,
    /// A disk that another server serves.
    Remote,
}

impl MemberCache {
    /// Of an opened device.
    pub(crate) fn of(opened: &Opened) -> MemberCache {
        match opened {
            Opened::Remote(client) => {
                let session = client.session();
                MemberCache { drive_bytes: session.size, ..MemberCache::remote(session.flags) }
            }
            other => other.file().map_or(MemberCache::UNKNOWN, MemberCache::local),
        }
    }

    /// Of a member that cannot be looked at.
    pub(crate) const UNKNOWN: MemberCache =
        MemberCache { cache: Cache::Unknown, kind: Kind::File, drive_bytes: 0 };

    fn local(file: &File) -> MemberCache {
        let Ok(about) = file.metadata() else { return MemberCache::UNKNOWN };
        let block = about.file_type().is_block_device();
        let (kind, device) = match block {
            true => (Kind::Block, about.rdev()),
            false => (Kind::File, about.dev()),
        };
        let of_file = |path: &Path| std::fs::metadata(path).ok().map(|about| about.dev());
        MemberCache {
            cache: Sysfs { root: Path::new(sysfs::ROOT), of_file: &of_file }.cache(device),
            kind,
            drive_bytes: sysfs::drive_bytes(Path::new(sysfs::ROOT), device),
        }
    }

    /// An NBD server that takes FLUSH has something to flush.
    fn remote(flags: u16) -> MemberCache {
        let fua = flags & wire::NBD_FLAG_SEND_FUA != 0;
        MemberCache { cache: Cache::Volatile { fua }, kind: Kind::Remote, drive_bytes: 0 }
    }

    /// How destages become durable on it. FUA is chosen where the kernel sends it to the drive; an
    /// NBD server may carry it out as a flush of all. A file is flushed in any case but FUA: only
    /// that makes durable where its data is.
    pub(crate) fn durability(self, choice: Choice) -> Durability {
        match (choice, self.cache, self.kind) {
            (Choice::Auto, Cache::Off, Kind::Block) => Durability::Off,
            (Choice::Auto, Cache::Volatile { fua: true }, Kind::Block) => Durability::Fua,
            (Choice::Given(Durability::Off), _, Kind::File) => Durability::Epochs,
            (Choice::Auto, _, _) => Durability::Epochs,
            (Choice::Given(how), _, _) => how,
        }
    }

    /// Whether a choice contradicts what is known: the cache is on, and would never be flushed.
    fn contradicts(self, choice: Choice) -> bool {
        let volatile = matches!(self.cache, Cache::Volatile { .. }) && self.kind == Kind::Block;
        choice == Choice::Given(Durability::Off) && volatile
    }

    /// Refuses the member of this name where a choice contradicts what is known.
    pub(super) fn check(self, name: &str, choice: Choice) -> Result<(), CacheIsOn> {
        if self.contradicts(choice) {
            return Err(CacheIsOn(name.to_string()));
        }
        Ok(())
    }

    /// In a word, for `destage status`.
    pub(crate) fn word(self) -> &'static str {
        match self.cache {
            Cache::Off => "off",
            Cache::Volatile { fua: true } => "volatile, FUA",
            Cache::Volatile { fua: false } => "volatile",
            Cache::Unknown => "unknown",
        }
    }
}

/// Refuses a configuration that would not flush a cache that is on.
///
/// # Errors
/// The device, and what to do.
pub fn check_caches(config: &ArrayConfig, devices: &Devices) -> Result<(), CacheIsOn> {
    let Ok(choice) = config.durability() else { return Ok(()) };
    for (name, opened) in config.disks.iter().zip(&devices.members) {
        if let Some(opened) = opened {
            MemberCache::of(opened).check(name, choice)?;
        }
    }
    Ok(())
}

/// A member has a volatile cache, and `durability` is `off`.
#[derive(Debug, Error)]
#[error(
    "{0}: durability is off, and the kernel says that this disk's write cache is on: turn it off \
     (hdparm -W0 {0}, or sdparm --clear WCE {0}), or serve with --durability auto"
)]
pub struct CacheIsOn(String);

/// The kernel's view of block devices.
struct Sysfs<'a> {
    root: &'a Path,
    /// The device that a file is on.
    of_file: &'a dyn Fn(&Path) -> Option<u64>,
}

impl Sysfs<'_> {
    /// The cache of a device by its number, with all devices below it: one that is volatile is
    /// enough, and all of those must offer FUA.
    fn cache(&self, device: u64) -> Cache {
        sysfs::folder(self.root, device).map_or(Cache::Unknown, |folder| self.of_folder(&folder, 0))
    }

    fn of_folder(&self, folder: &Path, layer: u32) -> Cache {
        if layer > LAYERS_MAX {
            return Cache::Unknown;
        }
        // The queue is that of the disk, also for a partition of it.
        let disk = sysfs::disk(folder);
        let below = self.below(disk);
        let queue = queue(&disk.join("queue"));
        below.into_iter().fold(queue, |sum, place| {
            worse(sum, place.map_or(Cache::Unknown, |place| self.of_folder(&place, layer + 1)))
        })
    }

    /// The devices below a loop or device-mapper device; `None`: one that is not found.
    fn below(&self, disk: &Path) -> Vec<Option<PathBuf>> {
        match std::fs::read(disk.join("loop/backing_file")) {
            Ok(file) => {
                let device = (self.of_file)(Path::new(OsStr::from_bytes(file.trim_ascii_end())));
                return vec![device.and_then(|device| sysfs::folder(self.root, device))];
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return vec![None],
            Err(_) => {}
        }
        match std::fs::read_dir(disk.join("slaves")) {
            Ok(slaves) => {
                slaves.map(|slave| std::fs::canonicalize(slave.ok()?.path()).ok()).collect()
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(_) => vec![None],
        }
    }
}

/// What the queue of a disk says.
fn queue(folder: &Path) -> Cache {
    let said = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    match said("write_cache").trim() {
        "write through" => Cache::Off,
        "write back" => Cache::Volatile { fua: said("fua").trim() == "1" },
        _ => Cache::Unknown,
    }
}

/// The worse of two caches, one of them below the other.
fn worse(one: Cache, other: Cache) -> Cache {
    match (one, other) {
        (Cache::Volatile { fua }, Cache::Volatile { fua: also }) => {
            Cache::Volatile { fua: fua && also }
        }
        // A layer that passes FUA on is of use only if what is below it takes it.
        (volatile @ Cache::Volatile { .. }, Cache::Off)
        | (Cache::Off, volatile @ Cache::Volatile { .. }) => volatile,
        (Cache::Off, Cache::Off) => Cache::Off,
        (Cache::Unknown, _) | (_, Cache::Unknown) => Cache::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sysfs::Tree;
    use super::*;

    fn cache(tree: &Tree, major: u32, minor: u32) -> Cache {
        let of_file = |path: &Path| (path == Path::new("/srv/a.img")).then(|| libc::makedev(8, 1));
        let sysfs = Sysfs { root: tree.root(), of_file: &of_file };
        sysfs.cache(libc::makedev(major, minor))
    }

    fn drive(cache: &'static str, fua: &'static str) -> [(&'static str, &'static str); 2] {
        [("queue/write_cache", cache), ("queue/fua", fua)]
    }

    const VOLATILE: Cache = Cache::Volatile { fua: false };
    const WITH_FUA: Cache = Cache::Volatile { fua: true };

    #[test]
    fn disks_and_partitions_say_what_cache_they_have() {
        let tree = Tree::new();
        tree.add("8:0", "sda", &drive("write back", "0"))
            .add("8:1", "sda/sda1", &[("partition", "1")])
            .add("8:16", "sdb", &drive("write through", "0"))
            .add("8:32", "sdc", &drive("write back", "1"))
            .add("8:48", "sdd", &[("queue/fua", "1")])
            .add("8:64", "sde", &drive("write sideways", "1"));
        assert_eq!((cache(&tree, 8, 0), cache(&tree, 8, 1)), (VOLATILE, VOLATILE));
        assert_eq!((cache(&tree, 8, 16), cache(&tree, 8, 32)), (Cache::Off, WITH_FUA));
        // Missing files, words that nobody knows, and devices that are no block device: the file
        // systems tmpfs and overlay have numbers of their own.
        let unknown = [(8, 48), (8, 64), (0, 25), (9, 9)];
        assert!(
            unknown.iter().all(|(major, minor)| cache(&tree, *major, *minor) == Cache::Unknown)
        );
    }

    #[test]
    fn a_loop_device_has_the_cache_of_the_disk_below_its_file() {
        let tree = Tree::new();
        let through = drive("write through", "0");
        let of = |file| [through[0], through[1], ("loop/backing_file", file)];
        tree.add("8:0", "sda", &drive("write back", "0"))
            .add("8:1", "sda/sda1", &[("partition", "1")])
            .add("7:0", "loop0", &of("/srv/a.img"))
            .add("7:1", "loop1", &of("/srv/gone.img (deleted)"));
        assert_eq!((cache(&tree, 7, 0), cache(&tree, 7, 1)), (VOLATILE, Cache::Unknown));
    }

    #[test]
    fn what_cannot_be_read_of_the_devices_below_is_not_known() {
        let tree = Tree::new();
        let off = drive("write through", "0");
        // What a folder should be is a file, and the other way round.
        tree.add("253:0", "dm-0", &[off[0], off[1], ("slaves", "sda")])
            .add("7:0", "loop0", &off)
            .add("7:1", "loop1", &[off[0], off[1], ("loop/backing_file/a", "b")]);
        assert_eq!(cache(&tree, 253, 0), Cache::Unknown, "nobody knows what is below");
        assert_eq!((cache(&tree, 7, 0), cache(&tree, 7, 1)), (Cache::Off, Cache::Unknown));
        // A name that is not UTF-8 is a name.
        let name: &[u8] = b"/srv/\xff.img";
        tree.add("8:0", "sda", &drive("write back", "0")).add(
            "7:2",
            "loop2",
            &[off[0], off[1], ("loop/backing_file", "")],
        );
        let file = tree.root().join("devices/loop2/loop/backing_file");
        std::fs::write(file, [name, b"\n"].concat()).expect("written");
        let is_it = |path: &Path| path.as_os_str().as_bytes() == name;
        let of_file = |path: &Path| is_it(path).then(|| libc::makedev(8, 0));
        let sysfs = Sysfs { root: tree.root(), of_file: &of_file };
        assert_eq!(sysfs.cache(libc::makedev(7, 2)), VOLATILE);
    }

    #[test]
    fn a_mapped_device_has_the_worst_cache_below_it() {
        let tree = Tree::new();
        tree.add("8:0", "sda", &drive("write back", "1"))
            .add("8:16", "sdb", &drive("write through", "0"))
            .add("8:32", "sdc", &drive("write back", "0"))
            .add("253:0", "dm-0", &drive("write back", "1"))
            .slave("dm-0", "sda", "sda")
            .slave("dm-0", "sdb", "sdb")
            .add("253:1", "dm-1", &drive("write back", "1"))
            .slave("dm-1", "dm-0", "dm-0")
            .slave("dm-1", "sdc", "sdc")
            .add("253:2", "dm-2", &drive("write through", "0"))
            .slave("dm-2", "sdb", "sdb")
            .add("253:3", "dm-3", &drive("write through", "0"))
            .slave("dm-3", "sdz", "sdz")
            .add("253:4", "dm-4", &drive("write through", "0"))
            .slave("dm-4", "dm-4", "dm-4");
        assert_eq!((cache(&tree, 253, 0), cache(&tree, 253, 1)), (WITH_FUA, VOLATILE));
        assert_eq!(cache(&tree, 253, 2), Cache::Off);
        assert_eq!(cache(&tree, 253, 3), Cache::Unknown, "one below is not found");
        assert_eq!(cache(&tree, 253, 4), Cache::Unknown, "below itself");
    }

    #[test]
    fn what_is_known_decides_unless_a_way_is_given() {
        use Durability::{Epochs, Flush, Fua, Off};
        let of = |cache, kind| MemberCache { cache, kind, drive_bytes: 0 };
        let auto = |cache, kind| of(cache, kind).durability(Choice::Auto);
        assert_eq!(auto(Cache::Off, Kind::Block), Off);
        assert_eq!(auto(Cache::Off, Kind::File), Epochs);
        assert_eq!((auto(WITH_FUA, Kind::Block), auto(VOLATILE, Kind::Block)), (Fua, Epochs));
        assert_eq!(auto(Cache::Unknown, Kind::Block), Epochs);
        let fua = MemberCache::remote(wire::NBD_FLAG_SEND_FLUSH | wire::NBD_FLAG_SEND_FUA);
        assert_eq!((fua.cache, fua.durability(Choice::Auto)), (WITH_FUA, Epochs));
        let given = |how, member: MemberCache| member.durability(Choice::Given(how));
        assert_eq!((given(Fua, fua), given(Off, fua)), (Fua, Off));
        assert_eq!(given(Flush, of(Cache::Off, Kind::Block)), Flush);
        let (file, disk) = (of(VOLATILE, Kind::File), of(VOLATILE, Kind::Block));
        assert_eq!(given(Off, file), Epochs, "its file system has to be flushed");
        let off = Choice::called("off").expect("a choice");
        assert!(disk.contradicts(off) && !file.contradicts(off) && !disk.contradicts(Choice::Auto));
        let refused = disk.check("/dev/sdb", off).expect_err("refused").to_string();
        assert!(refused.starts_with("/dev/sdb: durability is off"), "{refused}");
        assert!(disk.check("/dev/sdb", Choice::Auto).is_ok());
        assert!(!of(Cache::Unknown, Kind::Block).contradicts(off), "the operator knows");
        assert_eq!(Choice::called("never"), None);
    }
}
