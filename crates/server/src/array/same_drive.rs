//! Members that are in one drive, and so fail together: partitions of a disk, and the logical units
//! of a drive with several actuators. A row of an array must not have two of them.
//!
//! Loop and device-mapper devices are not followed: where they are is their operator's choice.

use super::config::ArrayConfig;
use super::sysfs;
use destage_engine::array::geometry::Level;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use thiserror::Error;

/// Two members of a redundant array are in one drive.
#[derive(Debug, Error)]
#[error(
    "{0} and {1} are {2}, which fail together: the array could lose data with that one drive. Use \
     another drive, or accept this with --accept-same-drive (create, serve)"
)]
pub struct SameDrive(String, String, Shared);

/// What two block devices have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shared {
    Disk,
    Wwid,
    Serial,
    Target,
    Controller,
}

impl std::fmt::Display for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Shared::Disk => "the same disk or parts of it",
            Shared::Wwid => "two paths to one drive (same WWID)",
            Shared::Serial => "units of one drive (same serial number)",
            Shared::Target => "logical units of one SCSI target",
            Shared::Controller => "namespaces of one NVMe drive",
        })
    }
}

/// What says in which drive a block device is: each with its value, the surest first.
type Drive = Vec<(Shared, String)>;

/// Refuses two members in one drive, where the level is redundant.
///
/// # Errors
/// The two, what they have in common, and what to do.
pub fn check_drives(config: &ArrayConfig, level: Level) -> Result<(), SameDrive> {
    let number = |name: &str| {
        let about = std::fs::metadata(name).ok()?;
        about.file_type().is_block_device().then(|| about.rdev())
    };
    check(config, level, sysfs::ROOT.as_ref(), &number)
}

/// The same with the kernel's view in a folder, and the numbers of block devices.
fn check(
    config: &ArrayConfig,
    level: Level,
    root: &Path,
    number: &dyn Fn(&str) -> Option<u64>,
) -> Result<(), SameDrive> {
    if config.accept_same_drive || !level.is_redundant() {
        return Ok(());
    }
    let of = |name: &String| number(name).map_or(Drive::new(), |device| drive(root, device));
    match pair(&config.disks.iter().map(of).collect::<Vec<_>>()) {
        Some((one, other, shared)) => {
            Err(SameDrive(config.disks[one].clone(), config.disks[other].clone(), shared))
        }
        None => Ok(()),
    }
}

/// The first two that are in one drive.
fn pair(drives: &[Drive]) -> Option<(usize, usize, Shared)> {
    let shared = |one: &Drive, other: &Drive| one.iter().find(|said| other.contains(said)).cloned();
    let with = |other: usize| {
        let found = |one: usize| Some((one, other, shared(&drives[one], &drives[other])?.0));
        (0..other).find_map(found)
    };
    (1..drives.len()).find_map(with)
}

/// In which drive a block device is, as far as the kernel says it.
fn drive(root: &Path, device: u64) -> Drive {
    let Some(folder) = sysfs::folder(root, device) else { return Drive::new() };
    let disk = sysfs::disk(&folder);
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut drive = vec![(Shared::Disk, text(disk))];
    let Ok(unit) = std::fs::canonicalize(disk.join("device")) else { return drive };
    let read = |name: &str| {
        let bytes = std::fs::read(unit.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim().to_string()
    };
    let wwid = read("wwid");
    if !wwid.is_empty() {
        drive.push((Shared::Wwid, wwid));
    }
    // Page 80h of SCSI's vital product data: four bytes, then the serial number.
    let page = std::fs::read(unit.join("vpd_pg80")).unwrap_or_default();
    let serial = String::from_utf8_lossy(page.get(4..).unwrap_or_default()).trim().to_string();
    if serial.bytes().any(|byte| byte.is_ascii_alphanumeric() && byte != b'0') {
        drive.push((Shared::Serial, format!("{} {} {serial}", read("vendor"), read("model"))));
    }
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    if let Some(target) =
        unit.parent().filter(|target| name(target).is_some_and(|name| name.starts_with("target")))
    {
        drive.push((Shared::Target, text(target)));
    }
    if name(&unit).is_some_and(|name| name.starts_with("nvme")) {
        drive.push((Shared::Controller, text(&unit)));
    }
    drive
}

#[cfg(test)]
mod tests {
    use super::super::sysfs::Tree;
    use super::*;
    use Shared::{Controller, Disk, Serial, Target, Wwid};

    /// A SCSI disk at host:channel:target:unit, with a serial number.
    fn scsi(tree: &Tree, number: &str, address: &str, name: &str, about: [&str; 2]) {
        let target = format!("target{}", address.rsplit_once(':').expect("an address").0);
        let unit = format!("host/{target}/{address}");
        let page = format!("\0\u{80}\0\u{8}{}", about[1]);
        let files = [("../../wwid", about[0]), ("../../model", "ST18000NM0092")];
        tree.add(number, &format!("{unit}/block/{name}"), &files);
        let place = tree.root().join("devices").join(&unit);
        // Latin-1, as the drive has it.
        let bytes: Vec<u8> = page.chars().map(|c| c as u8).collect();
        std::fs::write(place.join("vpd_pg80"), bytes).expect("written");
        std::os::unix::fs::symlink(&place, place.join("block").join(name).join("device"))
            .expect("a link");
    }

    fn shared(tree: &Tree, devices: &[(u32, u32)]) -> Option<(usize, usize, Shared)> {
        let of = |&(major, minor): &(u32, u32)| drive(tree.root(), libc::makedev(major, minor));
        pair(&devices.iter().map(of).collect::<Vec<_>>())
    }

    #[test]
    fn units_partitions_and_paths_of_one_drive_are_found() {
        let tree = Tree::new();
        scsi(&tree, "8:0", "0:0:1:0", "sda", ["naa.5000c500a0", "ZAA00001"]);
        scsi(&tree, "8:16", "0:0:1:1", "sdb", ["naa.5000c500a1", ""]);
        scsi(&tree, "8:32", "0:0:2:0", "sdc", ["naa.5000c500b0", "ZAA00002"]);
        scsi(&tree, "8:48", "1:0:7:0", "sdd", ["naa.5000c500b1", "ZAA00002"]);
        scsi(&tree, "8:64", "2:0:0:0", "sde", ["naa.5000c500a0", ""]);
        scsi(&tree, "8:80", "3:0:0:0", "sdf", ["", "00000000"]);
        scsi(&tree, "8:96", "4:0:0:0", "sdg", ["", "00000000"]);
        let part = [("partition", "1")];
        tree.add("8:1", "host/target0:0:1/0:0:1:0/block/sda/sda1", &part);
        tree.add("8:2", "host/target0:0:1/0:0:1:0/block/sda/sda2", &part);
        assert_eq!(shared(&tree, &[(8, 32), (8, 1), (8, 2)]), Some((1, 2, Disk)));
        assert_eq!(shared(&tree, &[(8, 0), (8, 1)]), Some((0, 1, Disk)));
        assert_eq!(shared(&tree, &[(8, 0), (8, 0)]), Some((0, 1, Disk)));
        assert_eq!(shared(&tree, &[(8, 1), (8, 32), (8, 16)]), Some((0, 2, Target)));
        assert_eq!(shared(&tree, &[(8, 32), (8, 48)]), Some((0, 1, Serial)));
        assert_eq!(shared(&tree, &[(8, 0), (8, 64)]), Some((0, 1, Wwid)));
        // Different drives, and drives that say nothing of themselves.
        assert_eq!(shared(&tree, &[(8, 0), (8, 32), (8, 80), (8, 96)]), None);
    }

    #[test]
    fn namespaces_of_one_nvme_drive_are_found_and_loop_devices_are_not() {
        let tree = Tree::new();
        for (minor, name) in [(0, "nvme0/nvme0n1"), (1, "nvme0/nvme0n2"), (2, "nvme1/nvme1n1")] {
            tree.add(&format!("259:{minor}"), &format!("pci/nvme/{name}"), &[]);
            let place = tree.root().join("devices/pci/nvme").join(name);
            let link = place.join("device");
            std::os::unix::fs::symlink(place.parent().expect("a drive"), link).expect("a link");
        }
        for minor in 0..2 {
            let file = [("loop/backing_file", "/srv/a.img")];
            tree.add(&format!("7:{minor}"), &format!("virtual/block/loop{minor}"), &file);
        }
        assert_eq!(shared(&tree, &[(259, 0), (259, 2), (259, 1)]), Some((0, 2, Controller)));
        assert_eq!(shared(&tree, &[(259, 0), (259, 2)]), None);
        assert_eq!(shared(&tree, &[(7, 0), (7, 1), (9, 9), (9, 9)]), None);
    }

    #[test]
    fn redundant_arrays_over_one_drive_are_refused_unless_that_is_accepted() {
        let tree = Tree::new();
        scsi(&tree, "8:0", "0:0:1:0", "sda", ["naa.5000c500a0", ""]);
        scsi(&tree, "8:16", "0:0:1:1", "sdb", ["naa.5000c500a1", ""]);
        let folder = tempfile::tempdir().expect("a folder");
        let mut config = super::super::tests::config(folder.path());
        let number = |name: &str| match name {
            "/dev/sda" => Some(libc::makedev(8, 0)),
            "/dev/sdb" => Some(libc::makedev(8, 16)),
            _ => None,
        };
        let check = |config: &ArrayConfig, level| check(config, level, tree.root(), &number);
        assert!(check(&config, Level::Raid5).is_ok(), "files on one drive are fine");
        config.disks[0] = "/dev/sda".into();
        assert!(check(&config, Level::Raid5).is_ok());
        config.disks[2] = "/dev/sdb".into();
        let error = check(&config, Level::Raid6).expect_err("one target").to_string();
        assert!(error.starts_with("/dev/sda and /dev/sdb are logical units of one SCSI target"));
        assert!(error.contains("--accept-same-drive") && !error.contains('\n'), "{error}");
        assert!(check(&config, Level::Raid0).is_ok());
        config.accept_same_drive = true;
        assert!(check(&config, Level::Raid5).is_ok());
    }
}
