//! Spares: devices that are ready to replace a failed member.

use super::create::{Uuids, empty_device};
use super::devices::{DeviceError, DeviceSpec, Devices, Opened};
use super::refusal::Refusal;
use destage_nvslog::superblock::{Role, Superblock, Uuid};
use destage_served::{
    Device, NoSuperblock, ReplaceRefusal, member_bytes, prepare_spare, read_superblock,
};
use std::fmt;

/// A spare: its name in the configuration, and the device.
pub struct Spare {
    pub(super) name: String,
    pub(super) opened: Opened,
    pub(super) bytes: u64,
    pub(super) uuid: Uuid,
}

/// The spares of an array.
#[derive(Default)]
pub(super) struct Spares {
    ready: Vec<Spare>,
    /// Names of spares that the configuration has and that cannot be used.
    missing: Vec<String>,
    /// A spare is on its way into a member's place.
    taking: bool,
}

impl Spares {
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.ready.iter().map(|spare| spare.name.clone()).collect()
    }

    pub(super) fn missing(&self) -> &[String] {
        &self.missing
    }

    pub(super) fn add(&mut self, spare: Spare) {
        self.ready.push(spare);
    }

    pub(super) fn add_missing(&mut self, name: String) {
        self.missing.push(name);
    }

    /// A missing spare is added or removed.
    pub(super) fn forget_missing(&mut self, name: &str) {
        self.missing.retain(|missing| missing != name);
    }

    /// Takes the first spare that fits.
    pub(super) fn take(&mut self, fits: impl Fn(&Spare) -> bool) -> Option<Spare> {
        let at = self.ready.iter().position(fits)?;
        Some(self.ready.remove(at))
    }

    pub(super) fn is_taking(&self) -> bool {
        self.taking
    }

    pub(super) fn set_taking(&mut self, taking: bool) {
        self.taking = taking;
    }
}

fn parsed(name: &str) -> Result<DeviceSpec, DeviceError> {
    name.parse()
}

/// Opens an empty device and makes it a spare.
pub(super) fn new_spare(name: &str, array: &Superblock) -> Result<Spare, Refusal> {
    let spec = parsed(name)?;
    let (opened, bytes) = empty_device(&spec)?;
    let needs = member_bytes(&array.geometry);
    if bytes < needs {
        return Err(Refusal::Replace(Some(spec.to_string()), ReplaceRefusal::TooSmall(needs)));
    }
    let uuid = Uuids::new()?.next()?;
    let mut alone = Devices::of(vec![Some(opened)]);
    let prepared = prepare_spare(&mut alone, Device::Member(0), array, uuid);
    prepared.map_err(|error| Refusal::Medium(spec.to_string(), error.to_string()))?;
    let opened = alone.members.remove(0).expect("just opened");
    Ok(Spare { name: name.to_string(), opened, bytes, uuid })
}

/// Opens the spares of a configuration. Returns also the names of those that cannot be used, with
/// the cause.
pub fn open_spares(names: &[String], array: &Superblock) -> (Vec<Spare>, Vec<(String, String)>) {
    let (mut spares, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        match known_spare(name, array) {
            Ok(spare) => spares.push(spare),
            Err(why) => missing.push((name.clone(), why.to_string())),
        }
    }
    (spares, missing)
}

/// Why a device cannot be used as a spare of the array. The words do not name the device.
pub(super) enum Unusable {
    Device(DeviceError),
    Size(std::io::Error),
    Superblock(NoSuperblock),
    OfAnotherArray,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Device(error) => f.write_str(&error.cause()),
            Unusable::Size(error) => error.fmt(f),
            Unusable::Superblock(why) => why.fmt(f),
            Unusable::OfAnotherArray => f.write_str("it is not a spare of this array"),
        }
    }
}

/// Opens a device that is a spare of the array already.
pub(super) fn known_spare(name: &str, array: &Superblock) -> Result<Spare, Unusable> {
    let spec = parsed(name).map_err(Unusable::Device)?;
    let opened = Opened::new(&spec, false).map_err(Unusable::Device)?;
    let bytes = opened.bytes().map_err(Unusable::Size)?;
    let mut alone = Devices::of(vec![Some(opened)]);
    let found = read_superblock(&mut alone, Device::Member(0)).map_err(Unusable::Superblock)?;
    let found = found.superblock;
    if found.role != Role::Spare || found.array != array.array {
        return Err(Unusable::OfAnotherArray);
    }
    let opened = alone.members.remove(0).expect("just opened");
    Ok(Spare { name: name.to_string(), opened, bytes, uuid: found.device })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::tests::{config, created, file};

    #[test]
    fn only_a_spare_of_this_array_is_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let config = config(folder.path());
        let mut devices = created(&config);
        let found = read_superblock(&mut devices, Device::Member(0)).expect("read");
        drop(devices);
        let array = found.superblock;
        let spare = file(folder.path(), "spare", 4 << 20);
        let uuid = new_spare(&spare, &array).expect("a spare").uuid;
        assert_eq!(known_spare(&spare, &array).ok().map(|spare| spare.uuid), Some(uuid));
        let other = Superblock { array: [7; 16], ..array };
        for (name, of) in [(&spare, &other), (&config.disks[0], &array)] {
            let why = known_spare(name, of).err().map(|why| why.to_string());
            assert_eq!(why.as_deref(), Some("it is not a spare of this array"), "{name}");
        }
    }
}
