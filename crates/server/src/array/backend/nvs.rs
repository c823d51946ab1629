//! A new NVS device for a served array: another thread opens the device, checks that it is empty,
//! and names it in the configuration; then the data thread resyncs it.

use super::{ArrayBackend, ArrayHandle, nvs_bytes};
use crate::Port;
use crate::array::config::{check_writable, edit};
use crate::array::create::{Uuids, empty_nvs, fill_nvs};
use crate::array::device_watch::Watched;
use crate::array::devices::{DeviceError, DeviceSpec, Opened};
use crate::array::refusal::Refusal;
use destage_block::Driver;
use destage_nvslog::superblock::Uuid;
use destage_served::{Cause, MirrorRefusal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The place of the NVS device to replace.
#[derive(Clone, Debug)]
pub(in crate::array) struct Slot {
    number: u16,
    /// Bytes that the device must have.
    needs: u64,
    /// Bytes of the log's blocks.
    block_bytes: u32,
    config: Option<PathBuf>,
    /// While it exists, no other NVS device is replaced.
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

/// Opens a device and hands it to the data thread, which begins to resync it.
pub(in crate::array) fn replace(
    array: &ArrayHandle,
    old: Option<&str>,
    new: &str,
) -> Result<(), Refusal> {
    let (slot, device) = prepare(array, old, new)?;
    install(array, &slot, device)
}

/// Opens a device for the place of another, and makes it ready to be resynced.
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
    let (mut opened, bytes) = empty_nvs(&spec)?;
    // Before it is written to, and before the device that it replaces is given up.
    let refused = |why| Err(Refusal::Mirror(Some(spec.to_string()), why));
    if bytes < slot.needs {
        return refused(MirrorRefusal::TooSmall(slot.needs));
    }
    if opened.block_bytes() > slot.block_bytes {
        return refused(MirrorRefusal::Blocks(slot.block_bytes));
    }
    fill_nvs(&spec, &mut opened, slot.needs)?;
    let uuid = Uuids::new()?.next()?;
    let (old, name) = (old.map(str::to_string), new.to_string());
    let device = NewNvs { slot: slot.number, old, name, opened, bytes, uuid };
    Ok((slot, device))
}

/// Names a device in the configuration and hands it over. If the array refuses it, the file is as
/// before.
pub(in crate::array) fn install(
    array: &ArrayHandle,
    slot: &Slot,
    device: NewNvs,
) -> Result<(), Refusal> {
    // Before the superblocks name it: the next start must find it.
    let mut before = Vec::new();
    if let Some(path) = &slot.config {
        edit(path, |config| {
            before.clone_from(&config.nvs);
            config.put_nvs(slot.number, &device.name);
        })?;
    }
    let result = array.answer(move |array, port| array.put_new_nvs(port, device))?;
    if let (Err(_), Some(path)) = (&result, &slot.config) {
        let _ = edit(path, |config| config.nvs = before);
    }
    result
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
        if status.stopped {
            return Err(MirrorRefusal::Stopped.into());
        }
        if used.is_empty() {
            return Err(MirrorRefusal::NoLog.into());
        }
        if self.volume.mirror_status().is_some() || self.volume.mirror_joins_now() {
            return Err(MirrorRefusal::Running.into());
        }
        if used == [number] {
            return Err(Refusal::OnlyNvs);
        }
        Ok(number)
    }

    /// The place of the NVS device that a new one replaces; a failed one is closed.
    fn nvs_slot(&mut self, port: &mut Port, old: Option<&str>) -> Result<Slot, Refusal> {
        let number = self.replaceable_nvs(old)?;
        if Arc::strong_count(&self.replacing_nvs) > 1 {
            return Err(MirrorRefusal::Running.into());
        }
        if !self.volume.status().nvs_devices.contains(&number) {
            self.close_nvs(port, number);
        }
        let superblock = self.volume.superblock();
        let needs = nvs_bytes(&superblock);
        let config = self.setup.file().map(Path::to_path_buf);
        let (block_bytes, alone) = (superblock.block_bytes, Arc::clone(&self.replacing_nvs));
        Ok(Slot { number, needs, block_bytes, config, _alone: alone })
    }

    /// Begins to resync a device.
    fn put_new_nvs(&mut self, port: &mut Port, new: NewNvs) -> Result<(), Refusal> {
        let NewNvs { slot, old, name, opened, bytes, uuid } = new;
        // Filling it with zeros took minutes: another device may have failed in the meantime.
        if self.replaceable_nvs(old.as_deref())? != slot {
            return Err(Refusal::NvsChanged);
        }
        if self.volume.status().nvs_devices.contains(&slot) {
            self.volume.give_up_nvs(port.now(), slot, Cause::Asked);
        }
        let block_bytes = opened.block_bytes();
        self.close_nvs(port, slot);
        let needs = nvs_bytes(&self.volume.superblock());
        self.watch.add(Watched::Nvs(slot), &opened, needs);
        self.devices.put_nvs(port, slot, Some(opened));
        let before = self.setup.config().clone();
        let mut config = before.clone();
        config.put_nvs(slot, &name);
        self.setup.set_config(config);
        let added = self.volume.add_mirror(port.now(), slot, uuid, bytes, block_bytes);
        if added.is_err() {
            self.close_nvs(port, slot);
            self.setup.set_config(before);
        }
        Ok(added?)
    }

    fn close_nvs(&mut self, port: &mut Port, slot: u16) {
        self.watch.remove(&Watched::Nvs(slot));
        self.ending.forget_deleted(&Watched::Nvs(slot));
        self.devices.put_nvs(port, slot, None);
    }
}
