//! Superblocks read, and devices put together to an array, or refused with the reason.

use crate::Buffer;
use crate::faults::SUPERBLOCKS;
use crate::io::{Device, IoError, Media};
use crate::memory::PAGE;
use destage_engine::array::disks::DiskSet;
use destage_engine::nvs::journal::superblock::{Role, Superblock, SuperblockError, Uuid};
use destage_engine::units::DiskId;

/// Why a device has no superblock to go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSuperblock {
    /// It could not be read.
    Io(IoError),
    /// There is none, or not one that this program can use.
    Bytes(SuperblockError),
}

impl core::fmt::Display for NoSuperblock {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            NoSuperblock::Io(error) => error.fmt(f),
            NoSuperblock::Bytes(error) => error.fmt(f),
        }
    }
}

/// What a device says it is.
pub type Found = (Device, Result<Superblock, NoSuperblock>);

/// Reads a device's superblock.
///
/// # Errors
/// See [`NoSuperblock`].
pub fn read_superblock(media: &mut dyn Media, device: Device) -> Result<Superblock, NoSuperblock> {
    let mut copies = [Buffer::zeroed(PAGE), Buffer::zeroed(PAGE)];
    let mut error = None;
    for (copy, at) in copies.iter_mut().zip(SUPERBLOCKS) {
        if let Err(failed) = media.read(device, at, copy) {
            error = Some(failed);
            copy.fill(0);
        }
    }
    let [first, second] = copies;
    Superblock::choose(&first, &second)
        .map_err(|why| error.map_or(NoSuperblock::Bytes(why), NoSuperblock::Io))
}

/// Why devices make no array. Each names the device by its place; the caller knows its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssembleError {
    /// No member has a superblock.
    NoArray(NoSuperblock),
    /// A device without a superblock that counts.
    Superblock(Device, NoSuperblock),
    /// A device of another array.
    OtherArray(Device),
    /// A device in the wrong place: what it is.
    WrongPlace(Device, Role),
    /// A device that was away while the set of devices changed.
    Stale(Device),
    /// An NVS device whose log the members do not name.
    OtherLog(Device),
    /// Members or NVS devices were given that the array does not have, or too few.
    Count {
        /// Members of the array.
        members: u16,
        /// NVS devices in use.
        nvs: u16,
    },
    /// A member cannot be used; the level would bear it, if that is wanted.
    Degraded(Device, NoSuperblock),
    /// More members are missing than the level bears.
    TooManyMissing,
    /// An NVS device cannot be used, and what it holds may be the only copy.
    NvsMissing(Device, NoSuperblock),
}

impl core::fmt::Display for AssembleError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            AssembleError::NoArray(why) => write!(f, "no member has a superblock: {why}"),
            AssembleError::Superblock(device, why) => write!(f, "{device}: {why}"),
            AssembleError::OtherArray(device) => {
                write!(f, "{device} belongs to another array: give the right device")
            }
            AssembleError::WrongPlace(device, Role::Member(is)) => {
                write!(f, "{device} is member {is} of this array: give the devices in their order")
            }
            AssembleError::WrongPlace(device, Role::Spare) => write!(
                f,
                "{device} is a spare of this array: give the member that belongs there, or, if \
                 it has failed, leave it out (--degraded)"
            ),
            AssembleError::WrongPlace(device, Role::Nvs(is)) => {
                write!(f, "{device} is NVS device {is} of this array: give the devices in order")
            }
            AssembleError::Stale(device) => write!(
                f,
                "{device} was away while the set of devices changed, and is out of date: leave it \
                 out (--degraded), or replace it"
            ),
            AssembleError::OtherLog(device) => {
                write!(f, "{device} holds another log than the members name: give the right NVS")
            }
            AssembleError::Count { members, nvs } => {
                write!(f, "the array has {members} members and {nvs} NVS devices: give all of them")
            }
            AssembleError::Degraded(device, why) => write!(
                f,
                "{device} cannot be used ({why}): bring it back, or start without it (--degraded)"
            ),
            AssembleError::TooManyMissing => {
                write!(f, "more members are missing than the level bears")
            }
            AssembleError::NvsMissing(device, why) => write!(
                f,
                "{device} cannot be used ({why}), and it may hold writes that the disks do not \
                 have: bring it back"
            ),
        }
    }
}

impl std::error::Error for AssembleError {}

impl AssembleError {
    /// The device it is about.
    #[must_use]
    pub fn device(&self) -> Option<Device> {
        match self {
            AssembleError::NoArray(_)
            | AssembleError::Count { .. }
            | AssembleError::TooManyMissing => None,
            AssembleError::Superblock(device, _)
            | AssembleError::OtherArray(device)
            | AssembleError::WrongPlace(device, _)
            | AssembleError::Stale(device)
            | AssembleError::OtherLog(device)
            | AssembleError::Degraded(device, _)
            | AssembleError::NvsMissing(device, _) => Some(*device),
        }
    }
}

impl core::fmt::Display for Device {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Device::Member(number) => write!(f, "member {number}"),
            Device::Nvs(number) => write!(f, "NVS device {number}"),
        }
    }
}

/// Devices that make an array.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// What they agree on.
    pub superblock: Superblock,
    /// UUIDs of the members; zeros where one is missing.
    pub(crate) members: Vec<Uuid>,
    pub(crate) nvs: Vec<Uuid>,
    /// Members that are not used.
    pub failed: Vec<u16>,
    /// Members that were not known to have failed.
    pub(crate) newly_failed: Vec<u16>,
    /// NVS devices in use.
    pub copies: Vec<u16>,
    /// Members whose rebuild goes on.
    pub rebuilds: Vec<u16>,
    /// Failed members in whose place a spare is that no superblock names yet.
    pub spares: Vec<(u16, Uuid)>,
    /// The last change of the set of devices had not come to all of them.
    pub(crate) unfinished: bool,
}

/// Puts an array together from what its devices say they are.
///
/// # Errors
/// See [`AssembleError`].
pub fn assemble(found: &[Found], allow_degraded: bool) -> Result<Assembly, AssembleError> {
    let members = || found.iter().filter(|(device, _)| matches!(device, Device::Member(_)));
    // The first member's word decides which array it is; the newest generation how it is.
    let Some(first) = members().find_map(|(_, s)| s.ok()) else {
        let why = members().find_map(|(_, s)| s.err());
        let none = NoSuperblock::Bytes(SuperblockError::Foreign);
        return Err(AssembleError::NoArray(why.unwrap_or(none)));
    };
    for (device, superblock) in found {
        if superblock.is_ok_and(|s| s.array != first.array) {
            return Err(AssembleError::OtherArray(*device));
        }
    }
    // Of the same generation an NVS device's counts, if it is in use at all, and that of a member
    // which says itself that it is not whole counts last.
    let weight = |s: &Superblock| match s.role {
        Role::Nvs(_) => 2,
        Role::Member(number) => u8::from(!s.has_failed(number)),
        Role::Spare => 0,
    };
    let said = found.iter().filter_map(|(_, s)| s.ok()).filter(|s| s.role != Role::Spare);
    let superblock = said.max_by_key(|s| (s.generation, weight(s))).unwrap_or(first);
    let (disks, nvs) = (superblock.geometry.disks, superblock.nvs_devices);
    if members().count() != usize::from(disks) {
        return Err(AssembleError::Count { members: disks, nvs });
    }
    let mut assembly = Assembly {
        superblock,
        members: vec![[0; 16]; usize::from(disks)],
        nvs: vec![[0; 16]; 2],
        failed: Vec::new(),
        newly_failed: Vec::new(),
        copies: Vec::new(),
        rebuilds: Vec::new(),
        spares: Vec::new(),
        unfinished: false,
    };
    for (device, said) in found {
        if let Device::Member(number) = device {
            assembly.member(*number, said, allow_degraded)?;
        }
    }
    assembly.nvs_devices(found, allow_degraded)?;
    let failed: DiskSet = assembly.failed.iter().map(|m| DiskId(*m)).collect();
    if !superblock.geometry.survives(&failed) {
        return Err(AssembleError::TooManyMissing);
    }
    Ok(assembly)
}

impl Assembly {
    fn member(
        &mut self,
        number: u16,
        said: &Result<Superblock, NoSuperblock>,
        allow_degraded: bool,
    ) -> Result<(), AssembleError> {
        let device = Device::Member(number);
        let known = self.superblock.has_failed(number);
        let why = match said {
            Ok(own) if own.role == Role::Spare && known => {
                self.spare(number, own);
                None
            }
            // In the place of one whose failure was not written down.
            Ok(own) if own.role == Role::Spare && allow_degraded => None,
            Ok(own) if own.role != Role::Member(number) => {
                return Err(AssembleError::WrongPlace(device, own.role));
            }
            Ok(own) if known => {
                // Had it been away, its entry would be gone, or newer changes be without it.
                let there = own.generation + 1 >= self.superblock.generation;
                if there && self.superblock.rebuilt_onto(number) == Some(own.device) {
                    self.unfinished |= own.generation < self.superblock.generation;
                    self.goes_on(number, own.device);
                }
                None
            }
            // Had it been away, the change would have marked it as failed: the change had not
            // come to it when the array went down, and nothing was built on it.
            Ok(own) if own.generation + 1 == self.superblock.generation => {
                self.members[usize::from(number)] = own.device;
                self.unfinished = true;
                return Ok(());
            }
            Ok(own) if own.generation < self.superblock.generation => {
                if !allow_degraded {
                    return Err(AssembleError::Stale(device));
                }
                None
            }
            Ok(own) => {
                self.members[usize::from(number)] = own.device;
                return Ok(());
            }
            Err(why) => Some(*why),
        };
        if let Some(why) = why
            && !known
            && !allow_degraded
        {
            return Err(AssembleError::Degraded(device, why));
        }
        self.failed.push(number);
        if !known {
            self.newly_failed.push(number);
        }
        Ok(())
    }

    /// A spare in a failed member's place.
    fn spare(&mut self, number: u16, own: &Superblock) {
        if self.superblock.rebuilt_onto(number) == Some(own.device) {
            // The change that names it had not come to it.
            self.unfinished = true;
            self.goes_on(number, own.device);
        } else {
            self.spares.push((number, own.device));
        }
    }

    fn goes_on(&mut self, number: u16, device: Uuid) {
        self.members[usize::from(number)] = device;
        self.rebuilds.push(number);
    }

    /// NVS devices that have the newest generation are in use. One that has the generation
    /// before is too, if more must be: the change had not come to it.
    fn nvs_devices(&mut self, found: &[Found], allow_degraded: bool) -> Result<(), AssembleError> {
        let Superblock { generation, log, nvs_devices, geometry, .. } = self.superblock;
        let mut late = Vec::new();
        let mut missing = None;
        for (device, said) in found {
            let Device::Nvs(number) = *device else { continue };
            match said {
                Ok(own) if own.role != Role::Nvs(number) => {
                    return Err(AssembleError::WrongPlace(*device, own.role));
                }
                Ok(own) if own.log != log => return Err(AssembleError::OtherLog(*device)),
                Ok(own) if own.generation == generation => self.use_nvs(number, own.device),
                Ok(own) if own.generation + 1 == generation => late.push((number, own.device)),
                // Given up before: the array does not need it.
                Ok(_) => {}
                Err(why) => missing = missing.or(Some((*device, *why))),
            }
        }
        let wanted = usize::from(nvs_devices);
        // The last one was being given up: nothing was built on that, and it is back.
        let returned = wanted == 0 && self.unfinished;
        if (self.copies.len() < wanted || returned) && !late.is_empty() {
            late.into_iter().for_each(|(number, device)| self.use_nvs(number, device));
            self.unfinished = true;
        }
        self.copies.sort_unstable();
        if self.copies.len() < wanted {
            let (members, nvs) = (geometry.disks, nvs_devices);
            return match missing {
                None => Err(AssembleError::Count { members, nvs }),
                Some((device, why)) if self.copies.is_empty() => {
                    Err(AssembleError::NvsMissing(device, why))
                }
                // The other has all that this one had.
                Some(_) if allow_degraded => Ok(()),
                Some((device, why)) => Err(AssembleError::Degraded(device, why)),
            };
        }
        Ok(())
    }

    fn use_nvs(&mut self, number: u16, device: Uuid) {
        self.nvs[usize::from(number)] = device;
        self.copies.push(number);
    }
}
