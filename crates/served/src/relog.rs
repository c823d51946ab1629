//! Another log: with other sizes on the NVS devices in use, or on the first device of an array that
//! has none. Done while nothing is served, one operation at a time, and only where the old log is
//! empty (docs/durability.md, "Another log").

use crate::assemble::{Assembly, read_chosen};
use crate::defect::Defect;
use crate::devices::{Devices, SUPERBLOCKS};
use crate::io::{Device, IoError, Media, write_padded};
use crate::log;
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::{NOT_JOINED, NVS_MAX, REBUILDS_MAX, Role, Superblock, Uuid};

/// The log that an array gets.
#[derive(Clone, Debug)]
pub struct NewLog {
    /// Its UUID, which no log had before.
    pub log: Uuid,
    /// Bytes in a log block: 512 or 4,096.
    pub block_bytes: u32,
    /// How its devices are divided, and the most dirty pages.
    pub sizes: Sizes,
    /// The NVS devices that have it, by their places: those in use, or new ones if none is.
    pub nvs: [Option<Uuid>; NVS_MAX],
    /// Nothing was interrupted since all rows were consistent, and everything is on the disks.
    pub rows_fit: bool,
    /// A deliberate fault, for the tests that show that it is caught.
    #[doc(hidden)]
    pub defect: Defect,
}

/// Why an array does not get another log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelogError {
    /// The present log cannot be read.
    Damaged,
    /// The present log has this many dirty pages and this many open destages.
    NotEmpty(u64, u64),
    /// An NVS device is in use that would not have the new log.
    LeavesOut(Device),
    /// The log would have room for more pages than the array has, which is this many.
    TooLarge(u64),
    /// The device is too small: the log needs this many bytes.
    TooSmall(Device, u64),
    /// A device cannot be read or written. The array has the old log, the new one, or none.
    Io(Device, IoError),
}

impl core::fmt::Display for RelogError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            RelogError::Damaged => write!(f, "the NVS log cannot be read"),
            RelogError::NotEmpty(pages, destages) => write!(
                f,
                "the NVS log still holds {pages} dirty pages and {destages} open destages"
            ),
            RelogError::LeavesOut(device) => write!(f, "{device} is in use and was left out"),
            RelogError::TooLarge(pages) => {
                write!(f, "the log would be larger than the array, which has {pages} pages")
            }
            RelogError::TooSmall(device, bytes) => {
                write!(f, "{device} is too small: the log needs {bytes} bytes")
            }
            RelogError::Io(device, error) => write!(f, "{device}: {error}"),
        }
    }
}

impl std::error::Error for RelogError {}

/// Gives an array another log. A crash in it leaves the array with the old log, which is empty,
/// with none, or with the new one.
///
/// # Errors
/// See [`RelogError`]. Nothing is changed then, except with [`RelogError::Io`], which leaves what a
/// crash leaves.
pub fn relog(media: &mut dyn Media, assembly: &Assembly, new: &NewLog) -> Result<(), RelogError> {
    check(media, assembly, new)?;
    let failed = |(device, error)| RelogError::Io(device, error);
    assembly.repair_superblocks(media).map_err(failed)?;
    let mut nvs = assembly.nvs.clone();
    nvs.resize(NVS_MAX, [0; 16]);
    let devices = Devices::new(assembly.superblock, assembly.members.clone(), nvs);
    let mut devices = devices.joined(assembly.since.clone());
    assembly.failed.iter().for_each(|member| devices.mark(*member, true));
    let members: Vec<Device> = assembly.written_members().collect();
    let mut highest = assembly.highest;
    let mut built = assembly.built.then_some(assembly.identity);
    if !assembly.copies.is_empty() && !new.defect.is(Defect::OverwritesNamedLog) {
        // From here on nothing relies on what the NVS devices hold.
        devices.name_nvs(&[]);
        devices.start_generation(highest, built);
        devices.write(media, &members, &|_, _| false).map_err(failed)?;
        devices.start_complete();
        let complete = devices.superblock();
        (highest, built) = (complete.generation, Some(complete.identity()));
    }
    devices.set_log(new.log, new.block_bytes, new.sizes);
    devices.set_nvs(&new.nvs);
    let places: Vec<u16> = (0..).zip(&new.nvs).filter_map(|(n, d)| d.map(|_| n)).collect();
    let early = new.defect.is(Defect::NamesLogEarly);
    if !early {
        write_log(media, &devices, &places).map_err(failed)?;
    }
    devices.name_nvs(&places);
    if new.rows_fit {
        devices.doubt_rows(false);
    }
    devices.start_generation(highest, built);
    let all = places.iter().copied().map(Device::Nvs).chain(members);
    devices.write(media, &all.collect::<Vec<_>>(), &|_, _| false).map_err(failed)?;
    if early {
        log::create(media, devices.superblock(), places.into_iter()).map_err(failed)?;
    }
    Ok(())
}

/// Whether the array may get the new log.
fn check(media: &mut dyn Media, assembly: &Assembly, new: &NewLog) -> Result<(), RelogError> {
    let named = |copy: &u16| new.nvs.get(usize::from(*copy)).copied().flatten();
    for copy in &assembly.copies {
        if named(copy) != Some(assembly.nvs[usize::from(*copy)]) {
            return Err(RelogError::LeavesOut(Device::Nvs(*copy)));
        }
    }
    let pages = assembly.superblock.geometry.volume_pages().0;
    if new.sizes.dirty_pages > pages {
        return Err(RelogError::TooLarge(pages));
    }
    let needs = new.sizes.bytes(new.block_bytes);
    for device in (0..NVS_MAX as u16).filter(|place| named(place).is_some()).map(Device::Nvs) {
        let bytes = media.bytes(device).map_err(|error| RelogError::Io(device, error))?;
        if bytes < needs {
            return Err(RelogError::TooSmall(device, needs));
        }
    }
    if assembly.copies.is_empty() || new.defect.is(Defect::ReplacesFullLog) {
        return Ok(());
    }
    let held = log::inspect(media, assembly);
    match (held.dirty_pages, held.open_intents) {
        _ if held.damage.is_some() || held.tail.is_none() => Err(RelogError::Damaged),
        (0, 0) => Ok(()),
        (pages, destages) => Err(RelogError::NotEmpty(pages, destages)),
    }
}

/// Writes an empty log that is in no set of devices yet.
fn write_log(
    media: &mut dyn Media,
    devices: &Devices,
    places: &[u16],
) -> Result<(), (Device, IoError)> {
    for device in places.iter().copied().map(Device::Nvs) {
        let superblock = Superblock {
            generation: 0,
            base: 0,
            base_identity: 0,
            joined: NOT_JOINED,
            nvs: [None; NVS_MAX],
            failed: [0; 128],
            rebuilds: [None; REBUILDS_MAX],
            lost_pages: false,
            doubted_rows: false,
            ..devices.superblock_of(device)
        };
        // Until both say so, the old log is left as it is: empty, which can be seen.
        for at in SUPERBLOCKS {
            let written = write_padded(media, device, at, &superblock.encode());
            written.map_err(|error| (device, error))?;
        }
        media.flush(device).map_err(|error| (device, error))?;
    }
    log::create(media, devices.superblock(), places.iter().copied())
}

/// Whether a device is an NVS device of this array that holds nothing: it never came into use, or
/// its log is empty. If the array does not use it, nothing is lost when it is overwritten.
pub fn is_spent(media: &mut dyn Media, device: Device, array: Uuid) -> bool {
    let Ok(own) = read_chosen(media, device) else { return false };
    let (own, Device::Nvs(number)) = (own.superblock, device) else { return false };
    if own.array != array || !matches!(own.role, Role::Nvs(_)) {
        return false;
    }
    if own.joined == NOT_JOINED {
        return true;
    }
    let held = log::inspect_log(media, &own, &[number], false);
    let read = held.damage.is_none() && held.tail.is_some();
    read && held.dirty_pages == 0 && held.open_intents == 0
}
