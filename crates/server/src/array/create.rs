//! A new array on its devices.

use super::devices::{DeviceError, DeviceSpec, Devices, Opened};
use destage_engine::array::geometry::{Geometry, GeometryError, Level};
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::{DATA_START, Superblock, SuperblockError, Uuid};
use destage_served::{
    Buffer, Creation, Device, IoError, NoSuperblock, is_spent, prepare_spare, read_superblock,
};
use thiserror::Error;

/// The array to create.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// RAID level.
    pub level: Level,
    /// Members, in their order.
    pub disks: Vec<DeviceSpec>,
    /// NVS devices: none, one or two.
    pub nvs: Vec<DeviceSpec>,
    /// Pages in a strip.
    pub strip_pages: u64,
    /// Stripes in a write group.
    pub group_stripes: u64,
    /// Devices that are ready to replace failed members.
    pub spares: Vec<DeviceSpec>,
    /// The members are all zeros, or in sync for another reason.
    pub assume_clean: bool,
}

/// Why an array or a device could not be created.
#[derive(Debug, Error)]
pub enum CreateError {
    /// A device cannot be used.
    #[error(transparent)]
    Device(DeviceError),
    /// A device failed.
    #[error("{0}: {1}")]
    Io(DeviceSpec, IoError),
    /// A device holds something.
    #[error(
        "{0} holds {1}: if you no longer need it, wipe its first MiB (`dd if=/dev/zero bs=1M \
         count=1 conv=notrunc of={0}`) and retry"
    )]
    NotEmpty(DeviceSpec, String),
    /// A device is too small.
    #[error("{0} has {1} bytes, which is too small")]
    TooSmall(DeviceSpec, u64),
    /// No array can have these sizes.
    #[error(transparent)]
    Geometry(GeometryError),
    /// A device for two places.
    #[error("{0} is given twice: give each member, NVS device and spare a device of its own")]
    Twice(DeviceSpec),
    /// More than two NVS devices.
    #[error("{0} NVS devices: one, or two that mirror each other")]
    Nvs(usize),
    /// The system gives no random numbers.
    #[error("/dev/urandom: {0}")]
    Random(std::io::Error),
}

/// Creates an array; its geometry uses all that its members can hold. `progress` gets the bytes of
/// zeros written so far, and their total.
///
/// # Errors
/// See [`CreateError`]. Devices that hold something are not touched.
pub fn create(
    options: &CreateOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Creation, CreateError> {
    if options.nvs.len() > 2 {
        return Err(CreateError::Nvs(options.nvs.len()));
    }
    if let Some(spec) = given_twice(options) {
        return Err(CreateError::Twice(spec.clone()));
    }
    let (mut devices, missing) =
        Devices::open(&options.disks, &options.nvs).map_err(CreateError::Device)?;
    if let Some((_, error)) = missing.into_iter().next() {
        return Err(CreateError::Device(error));
    }
    let places: Vec<Device> = devices.places().collect();
    for device in &places {
        look_for_contents(&mut devices, *device, spec_of(options, *device))?;
    }
    let creation = shape(options, &mut devices)?;
    let mut spares = empty_spares(options, &creation)?;
    let result = write(options, &creation, &mut devices, &mut spares, progress);
    if result.is_err() {
        // The corrected command must find them empty, as they were.
        let all = devices.members.iter_mut().chain(&mut devices.nvs).flatten();
        all.chain(spares.iter_mut()).for_each(blank);
    }
    result.map(|()| creation)
}

/// A device that would have two places. Over NBD no lock shows that.
fn given_twice(options: &CreateOptions) -> Option<&DeviceSpec> {
    let all = options.disks.iter().chain(&options.nvs).chain(&options.spares);
    let all: Vec<&DeviceSpec> = all.collect();
    let twice = |at: &usize| all[..*at].iter().any(|other| other.is_same(all[*at]));
    (0..all.len()).find(twice).map(|at| all[at])
}

fn write(
    options: &CreateOptions,
    creation: &Creation,
    devices: &mut Devices,
    spares: &mut Vec<Opened>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), CreateError> {
    if !options.assume_clean {
        zero_members(options, creation, devices, progress)?;
    }
    for (opened, spec) in devices.nvs.iter_mut().zip(&options.nvs) {
        if let Some(opened) = opened {
            // A block written for the first time costs the file system much more than later.
            let bytes = opened.bytes().unwrap_or(DATA_START);
            fill(opened, bytes, progress).map_err(|error| CreateError::Io(spec.clone(), error))?;
        }
    }
    destage_served::create(devices, creation)
        .map_err(|(device, error)| CreateError::Io(spec_of(options, device).clone(), error))?;
    for spec in &options.spares {
        let fail = |error| CreateError::Io(spec.clone(), error);
        let array = read_superblock(devices, Device::Member(0));
        let array = array.map_err(|_| fail(IoError::GONE))?;
        let uuid = Uuids::new()?.next()?;
        let mut alone = Devices::of(vec![Some(spares.remove(0))]);
        let prepared = prepare_spare(&mut alone, Device::Member(0), &array.superblock, uuid);
        spares.extend(alone.members.into_iter().flatten());
        prepared.map_err(fail)?;
    }
    Ok(())
}

/// Clears the beginning of a device that was empty before.
pub(super) fn blank(opened: &mut Opened) {
    // A device that fails here keeps its contents: the next try refuses it, with advice.
    let _ = opened.write(0, &Buffer::zeroed(DATA_START as usize)).and_then(|()| opened.flush());
}

/// Clears the devices of an array whose creation is undone.
pub fn undo(options: &CreateOptions, creation: &Creation) {
    let open = |spec: &DeviceSpec| Opened::new(spec, false).ok();
    let all = options.disks.iter().chain(&options.nvs).chain(&options.spares);
    for opened in all.filter_map(open) {
        let mut alone = Devices::of(vec![Some(opened)]);
        let said = read_superblock(&mut alone, Device::Member(0));
        if said.is_ok_and(|said| said.superblock.array == creation.array) {
            alone.members.iter_mut().flatten().for_each(blank);
        }
    }
}

/// The spares, opened; nothing is written yet.
fn empty_spares(options: &CreateOptions, creation: &Creation) -> Result<Vec<Opened>, CreateError> {
    let needs = DATA_START + creation.geometry.disk_pages * 4096;
    let open = |spec: &DeviceSpec| {
        let (opened, bytes) = empty_device(spec)?;
        let large = bytes >= needs;
        large.then_some(opened).ok_or_else(|| CreateError::TooSmall(spec.clone(), bytes))
    };
    options.spares.iter().map(open).collect()
}

/// An empty device for a member; its bytes.
pub(super) fn empty_device(spec: &DeviceSpec) -> Result<(Opened, u64), CreateError> {
    let opened = Opened::new(spec, false).map_err(CreateError::Device)?;
    let mut devices = Devices::of(vec![Some(opened)]);
    look_for_contents(&mut devices, Device::Member(0), spec)?;
    let opened = devices.members.remove(0).expect("just opened");
    let bytes = opened.bytes().unwrap_or(0);
    Ok((opened, bytes))
}

/// A device that may become an NVS device of an array, not written to yet; its bytes. It is empty,
/// or was one of this array and holds nothing any more.
pub(super) fn empty_nvs(
    spec: &DeviceSpec,
    array: &Superblock,
) -> Result<(Opened, u64), CreateError> {
    let opened = Opened::new(spec, true).map_err(CreateError::Device)?;
    let (members, nvs) = (Vec::new(), vec![Some(opened)]);
    let mut devices = Devices { members, nvs };
    match look_for_contents(&mut devices, Device::Nvs(0), spec) {
        Err(CreateError::NotEmpty(..)) if is_spent(&mut devices, Device::Nvs(0), array.array) => {}
        empty => empty?,
    }
    let opened = devices.nvs.remove(0).expect("just opened");
    let bytes = opened.bytes().unwrap_or(0);
    Ok((opened, bytes))
}

/// Writes zeros to this many bytes of a device: a block written for the first time costs the file
/// system much more than later.
pub(super) fn fill_nvs(
    spec: &DeviceSpec,
    opened: &mut Opened,
    bytes: u64,
) -> Result<(), CreateError> {
    fill(opened, bytes, &mut |_, _| {}).map_err(|error| CreateError::Io(spec.clone(), error))
}

fn spec_of(options: &CreateOptions, device: Device) -> &DeviceSpec {
    match device {
        Device::Member(number) => &options.disks[usize::from(number)],
        Device::Nvs(number) => &options.nvs[usize::from(number)],
    }
}

/// Refuses a device that has anything in its first MiB.
fn look_for_contents(
    devices: &mut Devices,
    device: Device,
    spec: &DeviceSpec,
) -> Result<(), CreateError> {
    let fail = |error| CreateError::Io(spec.clone(), error);
    let opened = devices.get(device).expect("all are open");
    let bytes = opened.bytes().map_err(|_| fail(IoError::GONE))?;
    if bytes < 2 * DATA_START {
        return Err(CreateError::TooSmall(spec.clone(), bytes));
    }
    let mut first = Buffer::zeroed(DATA_START as usize);
    opened.read(0, &mut first).map_err(fail)?;
    let what = match read_superblock(devices, device) {
        Ok(found) => {
            format!("a member, NVS or spare of the array {}", uuid_text(&found.superblock.array))
        }
        Err(NoSuperblock::Bytes(SuperblockError::Foreign))
            if first.iter().all(|byte| *byte == 0) =>
        {
            return Ok(());
        }
        Err(NoSuperblock::Bytes(SuperblockError::Foreign)) => "data of another program".to_string(),
        Err(why) => format!("data of destage ({why})"),
    };
    Err(CreateError::NotEmpty(spec.clone(), what))
}

fn shape(options: &CreateOptions, devices: &mut Devices) -> Result<Creation, CreateError> {
    let pages = |opened: &Option<Opened>| {
        let bytes = opened.as_ref().and_then(|opened| opened.bytes().ok()).unwrap_or(0);
        bytes.saturating_sub(DATA_START) / 4096
    };
    let disk_pages = devices.members.iter().map(pages).min().unwrap_or(0).min(1 << 40);
    let geometry = Geometry {
        level: options.level,
        disks: options.disks.len() as u16,
        strip_pages: options.strip_pages,
        group_stripes: options.group_stripes,
        disk_pages,
    };
    let geometry = geometry.checked().map_err(CreateError::Geometry)?;
    let block = devices.nvs.iter().flatten().map(Opened::block_bytes).max().unwrap_or(512);
    let block_bytes = if block > 512 { 4096 } else { 512 };
    let volume_pages = geometry.volume_pages().0.min(1 << 31);
    // Written through without an NVS: memory for the writes in flight.
    let mut sizes = Sizes::for_pages(volume_pages.min(16_384), block_bytes);
    let mut smallest = u64::MAX;
    for (opened, spec) in devices.nvs.iter().zip(&options.nvs) {
        let bytes = opened.as_ref().and_then(|opened| opened.bytes().ok()).unwrap_or(0);
        let of_device = Sizes::of_device(bytes, block_bytes);
        let of_device = of_device.ok_or(CreateError::TooSmall(spec.clone(), bytes))?;
        if bytes < smallest {
            (sizes, smallest) = (of_device, bytes);
        }
    }
    sizes.dirty_pages = sizes.dirty_pages.min(volume_pages);
    let mut ids = Uuids::new()?;
    Ok(Creation {
        geometry,
        block_bytes,
        sizes,
        array: ids.next()?,
        log: ids.next()?,
        members: options.disks.iter().map(|_| ids.next()).collect::<Result<_, _>>()?,
        nvs: options.nvs.iter().map(|_| ids.next()).collect::<Result<_, _>>()?,
    })
}

pub(super) struct Uuids(std::fs::File);

impl Uuids {
    pub(super) fn new() -> Result<Uuids, CreateError> {
        std::fs::File::open("/dev/urandom").map(Uuids).map_err(CreateError::Random)
    }

    /// A random UUID, version 4 (RFC 9562).
    pub(super) fn next(&mut self) -> Result<Uuid, CreateError> {
        let mut uuid = [0; 16];
        std::io::Read::read_exact(&mut self.0, &mut uuid).map_err(CreateError::Random)?;
        uuid[6] = uuid[6] & 0x0f | 0x40;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        Ok(uuid)
    }
}

/// A UUID as people write it.
#[must_use]
pub fn uuid_text(uuid: &Uuid) -> String {
    let mut text = String::new();
    for (index, byte) in uuid.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Makes the members all zeros where they may not be: then parity and mirrors are right.
fn zero_members(
    options: &CreateOptions,
    creation: &Creation,
    devices: &mut Devices,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), CreateError> {
    if !options.level.is_redundant() {
        return Ok(());
    }
    let bytes = DATA_START + creation.geometry.disk_pages * 4096;
    for (opened, spec) in devices.members.iter_mut().zip(&options.disks) {
        let opened = opened.as_mut().expect("all are open");
        let fail = |error| CreateError::Io(spec.clone(), error);
        match opened.written() {
            None => fill(opened, bytes, progress).map_err(fail)?,
            // The rest reads zeros.
            Some(parts) => {
                for part in parts {
                    fill_part(opened, part, bytes, progress).map_err(fail)?;
                }
                opened.flush().map_err(fail)?;
            }
        }
    }
    Ok(())
}

fn fill(
    opened: &mut Opened,
    bytes: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), IoError> {
    fill_part(opened, 0..bytes, bytes, progress)?;
    opened.flush()
}

/// Zeros over a part of a device of this many bytes; not flushed.
fn fill_part(
    opened: &mut Opened,
    part: std::ops::Range<u64>,
    bytes: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), IoError> {
    let zeros = Buffer::zeroed(DATA_START as usize);
    let block = u64::from(opened.block_bytes());
    let mut at = part.start / block * block;
    let end = part.end.next_multiple_of(block).min(bytes);
    while at < end {
        let part = (end - at).min(zeros.len() as u64) / block * block;
        if part == 0 {
            break;
        }
        opened.write(at, &zeros[..part as usize])?;
        at += part;
        progress(at, bytes);
    }
    Ok(())
}
