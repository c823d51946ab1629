//! What an array is called, how it is configured, and what its devices are called.

use super::config::ArrayConfig;
use destage_served::Device;
use std::path::{Path, PathBuf};

/// The name and the configuration of a served array.
pub(crate) struct Setup {
    name: String,
    config: ArrayConfig,
    /// The configuration file, if changes are written down.
    file: Option<PathBuf>,
}

impl Setup {
    pub(super) fn new(name: &str, config: ArrayConfig) -> Setup {
        Setup { name: name.to_string(), config, file: None }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn config(&self) -> &ArrayConfig {
        &self.config
    }

    pub(super) fn set_config(&mut self, config: ArrayConfig) {
        self.config = config;
    }

    pub(super) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    pub(super) fn set_file(&mut self, file: PathBuf) {
        self.file = Some(file);
    }

    /// The path or URI of a device.
    pub(super) fn path_of(&self, device: Device) -> Option<&str> {
        let (names, number) = match device {
            Device::Member(number) => (&self.config.disks, number),
            Device::Nvs(number) => (&self.config.nvs, number),
        };
        names.get(usize::from(number)).map(String::as_str)
    }

    /// A device with its path, at the beginning of a sentence.
    pub(super) fn called(&self, device: Device) -> String {
        let (kind, number) = match device {
            Device::Member(number) => ("Member", number),
            Device::Nvs(number) => ("NVS device", number),
        };
        match self.path_of(device) {
            Some(path) => format!("{kind} {number} ({path})"),
            None => format!("{kind} {number}"),
        }
    }

    /// A member with its path, within a sentence.
    pub(super) fn called_within(&self, member: u16) -> String {
        self.called(Device::Member(member)).replacen("Member", "member", 1)
    }
}
