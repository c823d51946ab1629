//! A new NVS mirror for a served array: the admin's thread opens the device, looks that it is
//! empty, and names it in the configuration; then the data thread has it filled.

use super::admin::Admin;
use super::backend::{ArrayBackend, Disk};
use super::create::{Uuids, empty_nvs, fill_nvs};
use super::devices::{DeviceSpec, Opened};
use super::members::edit;
use super::watch::Watched;
use crate::{Port, Remote};
use destage_block::Driver;
use destage_nvslog::superblock::Uuid;
use destage_report::live::MirrorStatus;
use destage_served::MirrorRefusal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

/// Which device is to be replaced.
#[derive(Clone, Debug)]
pub struct Slot {
    number: u16,
    /// Bytes that the device must have.
    needs: u64,
    /// Bytes of the log's blocks.
    block_bytes: u32,
    /// Where the configuration is.
    config: Option<PathBuf>,
    /// While there is one, no other device is replaced.
    _alone: Arc<()>,
}

/// A device to be filled.
pub struct NewMirror {
    slot: u16,
    /// The device that it replaces, if one was named.
    old: Option<String>,
    name: String,
    opened: Opened,
    bytes: u64,
    uuid: Uuid,
}

/// Opens a device and hands it to the data thread, which begins to fill it.
pub(crate) fn replace(remote: &Remote, old: Option<&str>, new: &str) -> Result<(), String> {
    let (slot, mirror) = prepared(remote, old, new)?;
    install(remote, &slot, mirror)
}

fn gone<E>(_: E) -> String {
    "the server is ending".to_string()
}

/// Opens a device for the place of another, and makes it ready to be filled.
pub(super) fn prepared(
    remote: &Remote,
    old: Option<&str>,
    new: &str,
) -> Result<(Slot, NewMirror), String> {
    let (sender, answer) = channel();
    remote.send(Box::new(Admin::MirrorSlot(old.map(str::to_string), sender)));
    let slot = answer.recv().map_err(gone)??;
    let spec: DeviceSpec =
        new.parse().map_err(|error: super::devices::DeviceError| error.to_string())?;
    if matches!(spec, DeviceSpec::Nbd(_)) {
        return Err(format!("{spec}: an NVS device is a file or a block device"));
    }
    // What cannot be written down is refused before the device is touched.
    slot.config.as_deref().map_or(Ok(()), |path| edit(path, |_| ()))?;
    let (mut opened, bytes) = empty_nvs(&spec).map_err(|error| error.to_string())?;
    if bytes < slot.needs {
        // Before it is written to, and before the one that it replaces is given up.
        return Err(format!("{spec}: {}", MirrorRefusal::TooSmall(slot.needs)));
    }
    if opened.block_bytes() > slot.block_bytes {
        return Err(format!("{spec}: {}", MirrorRefusal::Blocks(slot.block_bytes)));
    }
    fill_nvs(&spec, &mut opened, slot.needs).map_err(|error| error.to_string())?;
    let mut ids = Uuids::new().map_err(|error| format!("/dev/urandom: {error}"))?;
    let uuid = ids.next().map_err(|error| error.to_string())?;
    let (old, name) = (old.map(str::to_string), new.to_string());
    let mirror = NewMirror { slot: slot.number, old, name, opened, bytes, uuid };
    Ok((slot, mirror))
}

/// Names a device in the configuration and hands it over. If it is refused, the file is as before.
pub(super) fn install(remote: &Remote, slot: &Slot, mirror: NewMirror) -> Result<(), String> {
    // Before the superblocks name it: the next start must find it.
    let mut before = Vec::new();
    if let Some(path) = &slot.config {
        edit(path, |config| {
            before.clone_from(&config.nvs);
            put(&mut config.nvs, slot.number, &mirror.name);
        })?;
    }
    let (sender, answer) = channel();
    remote.send(Box::new(Admin::Mirror(Box::new(mirror), sender)));
    let result = answer.recv().map_err(gone)?;
    if let (Err(_), Some(path)) = (&result, &slot.config) {
        let _ = edit(path, |config| config.nvs = before);
    }
    result
}

fn put(names: &mut Vec<String>, slot: u16, name: &str) {
    let slot = usize::from(slot);
    if slot < names.len() {
        names[slot] = name.to_string();
    } else {
        names.push(name.to_string());
    }
}

impl ArrayBackend {
    /// Says where the configuration is, so that it can be kept true.
    pub fn set_config_path(&mut self, path: PathBuf) {
        self.config_path = Some(path);
    }

    /// The number of the NVS device that a new one may take the place of now.
    fn replaceable_nvs(&self, old: Option<&str>) -> Result<u16, String> {
        let names = &self.config().nvs;
        let status = self.volume.status();
        let used = status.nvs_devices;
        let number = match old {
            Some(old) => {
                let named = names.iter().position(|name| name == old);
                named.ok_or_else(|| format!("{old} is no NVS device of this array"))? as u16
            }
            None => (0..2).find(|number| !used.contains(number)).ok_or_else(|| {
                "both NVS devices are in use: name the one to replace (--old)".to_string()
            })?,
        };
        if status.stopped {
            return Err(MirrorRefusal::Stopped.to_string());
        }
        if used.is_empty() {
            return Err(MirrorRefusal::NoLog.to_string());
        }
        if self.volume.mirror_status().is_some() || self.volume.mirror_joins_now() {
            return Err(MirrorRefusal::Running.to_string());
        }
        if used == [number] {
            return Err("it is the only NVS device in use: add a second one first".to_string());
        }
        Ok(number)
    }

    /// The NVS device that a new one takes the place of; a lost one is closed.
    pub(crate) fn mirror_slot(
        &mut self,
        port: &mut Port,
        old: Option<&str>,
    ) -> Result<Slot, String> {
        let number = self.replaceable_nvs(old)?;
        if Arc::strong_count(&self.replacing_nvs) > 1 {
            return Err(MirrorRefusal::Running.to_string());
        }
        if !self.volume.status().nvs_devices.contains(&number) {
            self.put_nvs(port, number, Disk::None);
        }
        let superblock = self.volume.superblock();
        let needs = super::backend::nvs_bytes(&superblock);
        let (block_bytes, config) = (superblock.block_bytes, self.config_path.clone());
        let alone = Arc::clone(&self.replacing_nvs);
        Ok(Slot { number, needs, block_bytes, config, _alone: alone })
    }

    /// Begins to fill a device.
    pub(crate) fn mirror(&mut self, port: &mut Port, new: NewMirror) -> Result<(), String> {
        let NewMirror { slot, old, name, opened, bytes, uuid } = new;
        // It was written with zeros for minutes: another device may have failed in that time.
        if self.replaceable_nvs(old.as_deref())? != slot {
            return Err("the NVS devices in use have changed: see `destage status`".to_string());
        }
        if self.volume.status().nvs_devices.contains(&slot) {
            self.volume.give_up_nvs(port.now(), slot, destage_served::Cause::Asked);
        }
        let block_bytes = opened.block_bytes();
        self.put_nvs(port, slot, Disk::None);
        let needs = super::backend::nvs_bytes(&self.volume.superblock());
        self.watch.add(Watched::Nvs(slot), &opened, needs);
        let disk = super::backend::hand_over(port, opened);
        self.put_nvs(port, slot, disk);
        let before = self.config().clone();
        let mut config = before.clone();
        put(&mut config.nvs, slot, &name);
        self.set_config(config);
        let added = self.volume.add_mirror(port.now(), slot, uuid, bytes, block_bytes);
        if added.is_err() {
            self.put_nvs(port, slot, Disk::None);
            self.set_config(before);
        }
        added.map_err(|refusal| refusal.to_string())
    }

    fn put_nvs(&mut self, port: &mut Port, slot: u16, disk: Disk) {
        if matches!(disk, Disk::None) {
            self.watch.remove(&Watched::Nvs(slot));
            self.ending.forget(&Watched::Nvs(slot));
        }
        let slot = usize::from(slot);
        while self.nvs.len() <= slot {
            self.nvs.push(Disk::None);
        }
        if let Disk::File(handle) = core::mem::replace(&mut self.nvs[slot], disk) {
            port.close(handle);
        }
    }

    /// How far the device is that is being filled.
    pub(crate) fn mirror_told(&self) -> Option<MirrorStatus> {
        let of = |mirror: destage_served::MirrorStatus| MirrorStatus {
            number: mirror.copy,
            bytes_copied: mirror.bytes,
            bytes: mirror.of,
        };
        self.volume.mirror_status().map(of)
    }
}
