//! The NVS devices of a served array: another thread opens a new one, checks that it is empty, has
//! the one that it replaces given up, and names it in the configuration; then the data thread
//! resyncs it. An array without NVS gets an empty log on it. The devices in use get a log with
//! other sizes.

use super::{ArrayBackend, ArrayHandle, nvs_bytes};
use crate::Port;
use crate::array::config::{check_writable, edit};
use crate::array::create::{CreateError, Uuids, empty_nvs, fill_nvs};
use crate::array::device_watch::{DeviceWatch, Watched};
use crate::array::devices::{DeviceError, DeviceSpec, Opened, allocate};
use crate::array::mapped::Mapped;
use crate::array::refusal::Refusal;
use crate::array::relog::{Wanted, replace_log};
use destage_block::Driver;
use destage_engine::units::PAGE_BYTES;
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::{DATA_START, Superblock, Uuid};
use destage_served::{Buffer, Cause, Device, MirrorRefusal};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often, and how many times, a new device waits until it is recorded which ones are in use: a
/// minute, twice the default time after which one that hangs is given up.
const RECORD_WAIT: Duration = Duration::from_millis(50);
const RECORD_WAITS: usize = 1200;

/// The place of the NVS device to replace.
#[derive(Clone, Debug)]
pub(in crate::array) struct Slot {
    number: u16,
    array: Superblock,
    /// The array has no NVS: the device gets an empty log, as large as it is.
    first: bool,
    config: Option<PathBuf>,
    /// While it exists, no other command changes the NVS.
    _alone: Arc<()>,
}

/// A device that is ready to be resynced.
pub(in crate::array) struct NewNvs {
    slot: u16,
    /// The device that it replaces, if one was named.
    old: Option<String>,
    name: String,
    opened: Opened,
    bytes: u64,
    uuid: Uuid,
}

/// The room in the NVS before and after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resized {
    /// Dirty pages that it had room for.
    pub pages_before: u64,
    /// Dirty pages that it has room for.
    pub pages: u64,
    /// Of these, how many memory may have (`max_dirty`).
    pub pages_allowed: u64,
}

/// Gives the array a new NVS device. Returns when it is being resynced, or, if the array had no
/// NVS, when it is in use. `progress` gets the dirty pages that are left before that.
pub(in crate::array) fn replace(
    array: &ArrayHandle,
    old: Option<&str>,
    new: &str,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(), Refusal> {
    let (slot, device) = prepare(array, old, new)?;
    let wanted = slot.first.then(|| first_log(&slot, &device)).transpose()?;
    install(array, &slot, device, wanted, progress)
}

/// Opens a device for the place of another, and makes it ready to be used.
pub(in crate::array) fn prepare(
    array: &ArrayHandle,
    old: Option<&str>,
    new: &str,
) -> Result<(Slot, NewNvs), Refusal> {
    let named = old.map(str::to_string);
    let slot = array.answer(move |array, port| array.nvs_slot(port, named.as_deref()))??;
    let spec: DeviceSpec = new.parse()?;
    if matches!(spec, DeviceSpec::Nbd(_)) {
        return Err(DeviceError::RemoteNvs(spec).into());
    }
    check_writable(slot.config.as_deref())?;
    let (mut opened, bytes) = empty_nvs(&spec, &slot.array)?;
    // Before it is written to, and before the device that it replaces is given up.
    let needs = if slot.first { bytes } else { nvs_bytes(&slot.array) };
    let refused = |why| Err(Refusal::Mirror(Some(spec.to_string()), why));
    if bytes < needs {
        return refused(MirrorRefusal::TooSmall(needs));
    }
    if !slot.first && opened.block_bytes() > slot.array.block_bytes {
        return refused(MirrorRefusal::Blocks(slot.array.block_bytes));
    }
    fill_nvs(&spec, &mut opened, needs)?;
    let uuid = Uuids::new()?.next()?;
    let (old, name) = (old.map(str::to_string), new.to_string());
    let device = NewNvs { slot: slot.number, old, name, opened, bytes, uuid };
    Ok((slot, device))
}

/// The log of an array that had none.
fn first_log(slot: &Slot, device: &NewNvs) -> Result<Wanted, Refusal> {
    let block_bytes = if device.opened.block_bytes() > 512 { 4096 } else { 512 };
    let too_small = || {
        let spec: Result<DeviceSpec, DeviceError> = device.name.parse();
        spec.map_or_else(Refusal::from, |spec| CreateError::TooSmall(spec, device.bytes).into())
    };
    let sizes = sizes_of(device.bytes, block_bytes, &slot.array).ok_or_else(too_small)?;
    Ok(Wanted { block_bytes, sizes, first: Some((device.slot, device.uuid)) })
}

/// How an NVS device of this many bytes is divided.
fn sizes_of(bytes: u64, block_bytes: u32, array: &Superblock) -> Option<Sizes> {
    let mut sizes = Sizes::of_device(bytes, block_bytes).filter(|_| bytes >= 2 * DATA_START)?;
    sizes.dirty_pages = sizes.dirty_pages.min(array.geometry.volume_pages().0);
    Some(sizes)
}

/// Hands a device over, which the configuration then names.
pub(in crate::array) fn install(
    array: &ArrayHandle,
    slot: &Slot,
    device: NewNvs,
    first: Option<Wanted>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<(), Refusal> {
    let Some(wanted) = first else { return add_mirror(array, slot, device) };
    let (number, name) = (slot.number, device.name.clone());
    put_named(array, slot, &name, || {
        let put = array.answer(move |array, port| array.put_first_nvs(port, device))?;
        put.and_then(|names| {
            let replaced = replace_log(array, wanted, progress);
            if replaced.is_err() {
                array.answer(move |array, port| array.take_unused_nvs(port, number, names))?;
            }
            replaced
        })
    })
}

/// Gives up the device that the new one replaces, and has the new one resynced.
fn add_mirror(array: &ArrayHandle, slot: &Slot, device: NewNvs) -> Result<(), Refusal> {
    let (number, name, old) = (slot.number, device.name.clone(), device.old.clone());
    let given_up =
        array.answer(move |array, port| array.give_up_old_nvs(port, number, old.as_deref()))??;
    // As long as superblocks name the old device, a start with a configuration that names the new
    // one would miss it.
    let added = recorded(array).and_then(|()| {
        put_named(array, slot, &name, || {
            array.answer(move |array, port| array.put_new_nvs(port, device))?
        })
    });
    added.map_err(|why| match given_up {
        Some(old) => Refusal::OldNvsGivenUp(old, Box::new(why)),
        None => why,
    })
}

/// Waits until all devices in use have recorded which ones these are.
fn recorded(array: &ArrayHandle) -> Result<(), Refusal> {
    for _ in 0..RECORD_WAITS {
        if !array.answer(|array, _| array.volume.is_changing())? {
            return Ok(());
        }
        std::thread::sleep(RECORD_WAIT);
    }
    Err(Refusal::FailureNotRecorded)
}

/// Names a device in the configuration, and has the array take it. If the array refuses it, the
/// file is as before.
fn put_named(
    array: &ArrayHandle,
    slot: &Slot,
    name: &str,
    put: impl FnOnce() -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    // Before the superblocks name it: the next start must find it.
    let mut before = Vec::new();
    if let Some(path) = &slot.config {
        edit(path, |config| {
            before.clone_from(&config.nvs);
            config.put_nvs(slot.number, name);
        })?;
    }
    let result = put();
    if let (Err(_), Some(path)) = (&result, &slot.config) {
        // The device may be in use after all: then the next start must find it.
        let (number, name) = (slot.number, name.to_string());
        let in_use = array.answer(move |array, _| array.uses_nvs(number, &name))?;
        if !in_use {
            let _ = edit(path, |config| config.nvs = before);
        }
    }
    result
}

/// What a change of sizes begins with.
pub(in crate::array) struct Present {
    array: Superblock,
    /// The NVS devices in use: number and path.
    devices: Vec<(u16, String)>,
    /// Those that are mapped.
    mapped: Vec<u16>,
    watch: DeviceWatch,
    dirty_pages_max: Option<u64>,
    _alone: Arc<()>,
}

/// A device whose part in the log changes.
struct Part {
    number: u16,
    /// Bytes that it has, and those that are to be used.
    has: u64,
    uses: u64,
    /// It is a file, which can become longer or shorter.
    file: Option<Arc<File>>,
}

/// Gives the NVS devices in use a log with other sizes. Without `size` they are used completely.
pub(in crate::array) fn resize(
    array: &ArrayHandle,
    size: Option<u64>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Resized, Refusal> {
    let present = array.answer(|array, _| array.present_nvs())??;
    let parts = present.parts(size)?;
    let Superblock { block_bytes, ring_blocks, slots, dirty_pages_max, .. } = present.array;
    let before = Sizes { ring_blocks, slots, dirty_pages: dirty_pages_max };
    let least = parts.iter().map(|part| part.uses).min().unwrap_or(0);
    let sizes = sizes_of(least, block_bytes, &present.array).ok_or(Refusal::NvsTooSmall(least))?;
    if sizes != before {
        if sizes.bytes(block_bytes) > nvs_bytes(&present.array) {
            parts.iter().try_for_each(|part| present.extend(array, part))?;
        }
        replace_log(array, Wanted { block_bytes, sizes, first: None }, progress)?;
    }
    for part in parts.iter().filter(|part| part.uses < part.has) {
        // The new log is in use and needs no more.
        if let Some(file) = &part.file {
            file.set_len(part.uses).map_err(|error| present.failed(part.number, &error))?;
        }
    }
    let (pages_before, pages) = (before.dirty_pages, sizes.dirty_pages);
    let pages_allowed = present.dirty_pages_max.map_or(pages, |most| most.min(pages));
    Ok(Resized { pages_before, pages, pages_allowed })
}

impl Present {
    fn failed(&self, number: u16, error: &std::io::Error) -> Refusal {
        let path = self.devices.iter().find(|(other, _)| *other == number);
        Refusal::Medium(path.map_or(String::new(), |(_, path)| path.clone()), error.to_string())
    }

    /// What is to be used of each device.
    fn parts(&self, size: Option<u64>) -> Result<Vec<Part>, Refusal> {
        let part = |(number, path): &(u16, String)| {
            let whose = Watched::Nvs(*number);
            let has = self.watch.bytes(&whose).unwrap_or(0);
            let file = self.watch.file(&whose);
            let uses = size.unwrap_or(has);
            if file.is_none() && uses > has {
                return Err(Refusal::NvsTooShort(path.clone(), has));
            }
            Ok(Part { number: *number, has, uses, file })
        };
        self.devices.iter().map(part).collect()
    }

    /// Makes a file long enough, or leaves it as it was.
    fn extend(&self, array: &ArrayHandle, part: &Part) -> Result<(), Refusal> {
        let Some(file) = &part.file else { return Ok(()) };
        self.lengthen(file, part).map_err(|error| {
            // What was allocated before the file system was full is given back.
            let _ = file.set_len(part.has);
            self.failed(part.number, &error)
        })?;
        if self.mapped.contains(&part.number) {
            let map = Mapped::new(file, false).map_err(|error| self.failed(part.number, &error))?;
            let number = part.number;
            // The present log is in the part that both mappings have.
            return array.answer(move |array, _| array.put_map(number, map));
        }
        Ok(())
    }

    /// What the log does not have of the file yet is written now: a block that is written for the
    /// first time costs the file system much more than later.
    fn lengthen(&self, file: &File, part: &Part) -> std::io::Result<()> {
        match allocate(file, part.uses) {
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                file.set_len(part.uses)?;
            }
            allocated => allocated?,
        }
        if self.mapped.contains(&part.number) {
            return Ok(());
        }
        let zeros = Buffer::zeroed(DATA_START as usize);
        let (mut at, end) = (nvs_bytes(&self.array), part.uses / PAGE_BYTES * PAGE_BYTES);
        while at < end {
            let bytes = (end - at).min(zeros.len() as u64);
            file.write_all_at(&zeros[..bytes as usize], at)?;
            at += bytes;
        }
        Ok(())
    }
}

impl ArrayBackend {
    /// The number of the NVS device that a new one may replace now.
    fn replaceable_nvs(&self, old: Option<&str>) -> Result<u16, Refusal> {
        let names = &self.setup.config().nvs;
        let status = self.volume.status();
        let used = status.nvs_devices;
        let number = match old {
            Some(old) => {
                let named = names.iter().position(|name| name == old);
                named.ok_or_else(|| Refusal::NoSuchNvs(old.to_string()))? as u16
            }
            None => (0..2).find(|number| !used.contains(number)).ok_or(Refusal::WhichNvs)?,
        };
        if used.is_empty() {
            self.may_relog()?;
        }
        if status.stopped {
            return Err(MirrorRefusal::Stopped.into());
        }
        if self.relog.is_some() {
            return Err(Refusal::NvsBusy);
        }
        if self.volume.mirror_status().is_some() {
            return Err(MirrorRefusal::Running.into());
        }
        if used == [number] {
            return Err(Refusal::OnlyNvs);
        }
        Ok(number)
    }

    /// While what this returns exists, no other command changes the NVS.
    fn alone_with_nvs(&self) -> Result<Arc<()>, Refusal> {
        if Arc::strong_count(&self.changing_nvs) > 1 {
            return Err(Refusal::NvsBusy);
        }
        Ok(Arc::clone(&self.changing_nvs))
    }

    /// The place of the NVS device that a new one replaces; a failed one is closed.
    fn nvs_slot(&mut self, port: &mut Port, old: Option<&str>) -> Result<Slot, Refusal> {
        let number = self.replaceable_nvs(old)?;
        let _alone = self.alone_with_nvs()?;
        let used = self.volume.status().nvs_devices;
        if !used.contains(&number) {
            self.close_nvs(port, number);
        }
        let config = self.setup.file().map(Path::to_path_buf);
        let (array, first) = (self.volume.superblock(), used.is_empty());
        Ok(Slot { number, array, first, config, _alone })
    }

    /// The NVS devices in use, whose log is to get other sizes.
    fn present_nvs(&self) -> Result<Present, Refusal> {
        self.may_relog()?;
        let used = self.volume.status().nvs_devices;
        if used.is_empty() {
            return Err(Refusal::NoNvs(self.setup.name().to_string()));
        }
        let path = |number: &u16| {
            let path = self.setup.path_of(Device::Nvs(*number)).unwrap_or_default();
            (*number, path.to_string())
        };
        Ok(Present {
            array: self.volume.superblock(),
            devices: used.iter().map(path).collect(),
            mapped: used.iter().copied().filter(|n| self.devices.is_mapped(*n)).collect(),
            watch: self.watch.clone(),
            dirty_pages_max: self.setup.config().dirty_pages_max(),
            _alone: self.alone_with_nvs()?,
        })
    }

    fn put_map(&mut self, number: u16, map: Mapped) {
        self.devices.put_map(number, map);
    }

    /// Attaches a new device.
    fn attach_nvs(&mut self, port: &mut Port, new: NewNvs) {
        let NewNvs { slot, name, opened, .. } = new;
        self.close_nvs(port, slot);
        self.watch.add(Watched::Nvs(slot), &opened, 0);
        self.devices.put_nvs(port, slot, Some(opened));
        let mut config = self.setup.config().clone();
        config.put_nvs(slot, &name);
        self.setup.set_config(config);
    }

    /// Gives up the device in this place if it is in use; what it is called.
    fn give_up_old_nvs(
        &mut self,
        port: &mut Port,
        slot: u16,
        old: Option<&str>,
    ) -> Result<Option<String>, Refusal> {
        // Filling the new one with zeros took minutes: another device may have failed in the
        // meantime.
        if self.replaceable_nvs(old)? != slot {
            return Err(Refusal::NvsChanged);
        }
        if !self.volume.status().nvs_devices.contains(&slot) {
            return Ok(None);
        }
        self.volume.give_up_nvs(port.now(), slot, Cause::Asked);
        Ok(Some(self.setup.called(Device::Nvs(slot))))
    }

    /// Begins to resync a device.
    fn put_new_nvs(&mut self, port: &mut Port, new: NewNvs) -> Result<(), Refusal> {
        let NewNvs { slot, bytes, uuid, .. } = new;
        let used = self.volume.status().nvs_devices.contains(&slot);
        if self.replaceable_nvs(new.old.as_deref())? != slot || used {
            return Err(Refusal::NvsChanged);
        }
        let block_bytes = new.opened.block_bytes();
        let before = self.setup.config().clone();
        self.attach_nvs(port, new);
        self.watch.set_needs(&Watched::Nvs(slot), nvs_bytes(&self.volume.superblock()));
        let added = self.volume.add_mirror(port.now(), slot, uuid, bytes, block_bytes);
        if added.is_err() {
            self.close_nvs(port, slot);
            self.setup.set_config(before);
        }
        Ok(added?)
    }

    /// Attaches the device that gets the log of an array without NVS. Returns what the NVS devices
    /// were called before.
    fn put_first_nvs(&mut self, port: &mut Port, new: NewNvs) -> Result<Vec<String>, Refusal> {
        let none = self.volume.status().nvs_devices.is_empty();
        if self.replaceable_nvs(new.old.as_deref())? != new.slot || !none {
            return Err(Refusal::NvsChanged);
        }
        let names = self.setup.config().nvs.clone();
        self.attach_nvs(port, new);
        Ok(names)
    }

    /// Closes a device if it did not come into use.
    fn take_unused_nvs(&mut self, port: &mut Port, slot: u16, names: Vec<String>) {
        if !self.volume.status().nvs_devices.contains(&slot) {
            self.close_nvs(port, slot);
            let mut config = self.setup.config().clone();
            config.nvs = names;
            self.setup.set_config(config);
        }
    }

    /// Whether the NVS device of this number and name is in use.
    fn uses_nvs(&self, number: u16, name: &str) -> bool {
        let used = self.volume.status().nvs_devices.contains(&number);
        used && self.setup.path_of(Device::Nvs(number)) == Some(name)
    }

    fn close_nvs(&mut self, port: &mut Port, slot: u16) {
        self.watch.remove(&Watched::Nvs(slot));
        self.ending.forget_deleted(&Watched::Nvs(slot));
        self.devices.put_nvs(port, slot, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::tests::{Client, file, with_array};

    /// Gives the array a configuration file.
    fn configured(client: &Client) -> PathBuf {
        let path = client.folder.path().join("tank.toml");
        let config = client.asks(|array, _| array.setup.config().clone());
        std::fs::write(&path, toml::to_string(&config).expect("TOML")).expect("written");
        let place = path.clone();
        client.asks(move |array, _| array.set_config_path(place));
        path
    }

    /// Whether the superblocks of the others name NVS device 1.
    fn name_the_second(client: &Client) -> [bool; 4] {
        ["d0", "d1", "d2", "nvs0"].map(|name| {
            let bytes = std::fs::read(client.path(name)).expect("read");
            Superblock::decode(&bytes).expect("a superblock").nvs[1].is_some()
        })
    }

    #[test]
    fn a_device_is_recorded_as_given_up_before_the_configuration_names_its_successor() {
        with_array(|client| {
            let config = configured(client);
            let (old, new) = (client.path("nvs1"), file(client.folder.path(), "new", 3 << 20));
            let (slot, ready) = prepare(&client.array, Some(&old), &new).expect("ready");
            assert_eq!(name_the_second(client), [true; 4]);
            // Where the new configuration is written first.
            let obstacle = config.with_extension("toml.new");
            std::fs::create_dir(&obstacle).expect("made");
            let refused = install(&client.array, &slot, ready, None, &mut |_| true);
            let refused = refused.expect_err("it cannot be written").to_string();
            let named = refused.contains(&old) && refused.contains("tank.toml: ");
            assert!(named && refused.contains("again") && !refused.contains('\n'), "{refused}");
            // A start with this configuration needs the other device alone.
            let text = |path| std::fs::read_to_string(path).expect("read");
            assert!(text(&config).contains(&old) && !text(&config).contains(&new));
            assert_eq!(name_the_second(client), [false; 4]);
            drop(slot);
            std::fs::remove_dir(&obstacle).expect("removed");
            replace(&client.array, Some(&old), &new, &mut |_| true).expect("as the error says");
            assert!(text(&config).contains(&new) && !text(&config).contains(&old));
        });
    }
}
