//! Why devices make no array, in a sentence: which device by its path, the cause that the system
//! gave, and a way out that works.

use destage_nvslog::superblock::{Role, SuperblockError};
use destage_served::{Allow, AssembleError, Device, Found, NoSuperblock, assemble};
use destage_server::array::{ArrayConfig, DeviceError, uuid_text};

/// A device as the configuration names it.
fn path(config: &ArrayConfig, device: Device) -> &str {
    let (names, number) = match device {
        Device::Member(number) => (&config.disks, number),
        Device::Nvs(number) => (&config.nvs, number),
    };
    names.get(usize::from(number)).map_or("?", String::as_str)
}

/// The devices that cannot be used, and why: they could not be opened, or say nothing of an array.
pub(super) fn unusable(
    found: &[Found],
    missing: &[(Device, DeviceError)],
) -> Vec<(Device, String)> {
    let cause = |(device, said): &Found| {
        let why = said.as_ref().err()?;
        let closed = missing.iter().find(|(other, _)| other == device);
        Some((*device, closed.map_or_else(|| why.to_string(), |(_, error)| error.cause())))
    };
    found.iter().filter_map(cause).collect()
}

/// Why these devices make no array, and what to do.
pub(super) fn refusal(
    error: &AssembleError,
    found: &[Found],
    missing: &[(Device, DeviceError)],
    config: &ArrayConfig,
    allow: &Allow,
) -> String {
    let words = Words { found, config, unusable: unusable(found, missing) };
    match error {
        AssembleError::Degraded(..) | AssembleError::Stale { .. } if !allow.degraded => {
            match assemble(found, &Allow { degraded: true, ..allow.clone() }) {
                Ok(_) => words.without(error),
                // The device is not the only one, or the level needs all of them.
                Err(other) => words.other(&other),
            }
        }
        other => words.other(other),
    }
}

struct Words<'a> {
    found: &'a [Found],
    config: &'a ArrayConfig,
    unusable: Vec<(Device, String)>,
}

impl Words<'_> {
    /// A start without the device is possible.
    fn without(&self, error: &AssembleError) -> String {
        let (device, why) = match error {
            AssembleError::Degraded(device, why) => (*device, self.cause(*device, *why)),
            AssembleError::Stale { device, has, newest } => (*device, stale(*has, *newest)),
            other => return self.other(other),
        };
        let first = format!("{}: {why}", path(self.config, device));
        let first = match (error, self.unusable.len()) {
            (AssembleError::Degraded(..), 2..) => self.list(false),
            _ => first,
        };
        // A device that is there cannot be brought back.
        let there = match error {
            AssembleError::Degraded(
                _,
                NoSuperblock::Unwritable(_) | NoSuperblock::LostPagesUnknown,
            ) => self.unusable.len() == 1,
            error => matches!(error, AssembleError::Stale { .. }),
        };
        let back = if there { "" } else { "bring it back, or " };
        format!("{first}: {back}start without it (--degraded), and replace it then")
    }

    fn other(&self, error: &AssembleError) -> String {
        let path = |device: &Device| path(self.config, *device);
        match error {
            AssembleError::NoArray(_) => format!(
                "no member can be used: {}: bring them back, or name the right devices in the \
                 configuration",
                self.list(false)
            ),
            AssembleError::Degraded(device, why) => {
                format!("{}: {}: bring it back", path(device), self.cause(*device, *why))
            }
            AssembleError::Stale { device, has, newest } => format!(
                "{}: {}. Attach the right device; or, to use it as it is and lose what it lacks: \
                 destage serve ... {} {} --accept-loss (without --accept-loss it only says what is \
                 lost)",
                path(device),
                stale(*has, *newest),
                match device {
                    Device::Nvs(_) => "--use-nvs",
                    Device::Member(_) => "--use-disk",
                },
                path(device)
            ),
            AssembleError::Disagrees(device) => format!(
                "{}: it contradicts the other devices, though it is as new as they are: it was \
                 used apart from them. Attach the right device, or start without it (--degraded), \
                 where redundancy is left",
                path(device)
            ),
            AssembleError::OtherArray(device) => {
                let own = self.found.iter().find(|(other, _)| other == device);
                let own = own.and_then(|(_, said)| said.as_ref().ok());
                let own = own.map_or(String::new(), |own| {
                    format!(" ({})", uuid_text(&own.superblock.array))
                });
                format!(
                    "{}: it belongs to another array{own} than the other devices: put the right \
                     device into this place of the configuration",
                    path(device)
                )
            }
            AssembleError::WrongPlace(device, role) => self.wrong_place(*device, *role),
            AssembleError::OtherLog(device) => format!(
                "{}: it belongs to another log than the members record: name the matching NVS \
                 device in the configuration",
                path(device)
            ),
            AssembleError::Count { members, nvs } => format!(
                "the array has {members} members and {nvs} NVS devices, and the configuration \
                 names {} and {}: name all of them, in their order",
                self.config.disks.len(),
                self.config.nvs.len()
            ),
            AssembleError::TooManyMissing => self.too_many(),
            AssembleError::NvsMissing(device, why) => format!(
                "{}: {}: it may hold writes that the disks do not have: bring it back. If it is \
                 lost for good: destage serve ... --without-nvs --accept-loss (without \
                 --accept-loss it only says what is lost)",
                path(device),
                self.cause(*device, *why)
            ),
            AssembleError::RebuiltInPart(device) => rebuilt_in_part(path(device)),
            AssembleError::NvsNotLost(device) => {
                format!("{}: it can be used: start without --without-nvs", path(device))
            }
        }
    }

    fn too_many(&self) -> String {
        let level = self.found.iter().find_map(|(_, said)| said.as_ref().ok());
        let level = level.map_or("?", |known| known.superblock.geometry.level.entry().entry.name);
        let list = match self.list(true) {
            list if list.is_empty() => "members failed earlier and are out of date".to_string(),
            list => list,
        };
        let unknown = |(device, said): &Found| {
            (said.err() == Some(NoSuperblock::LostPagesUnknown)).then_some(*device)
        };
        let as_it_is = self.found.iter().find_map(unknown).map_or(String::new(), |device| {
            let path = path(self.config, device);
            format!(
                ". Or use {path} as it is, with zeros for its lost pages: destage serve ... \
                 --degraded --use-disk {path} --accept-loss"
            )
        });
        format!(
            "too many members are missing for level {level}: {list}: bring back at least one of \
             them; the array cannot be served without{as_it_is}"
        )
    }

    fn wrong_place(&self, device: Device, role: Role) -> String {
        let path = path(self.config, device);
        match role {
            Role::Member(is) => format!(
                "{path}: it is member {is} of this array: name the disks in their order in the \
                 configuration"
            ),
            Role::Nvs(is) => format!(
                "{path}: it is NVS device {is} of this array: name the NVS devices in their order \
                 in the configuration"
            ),
            Role::Spare => format!(
                "{path}: it is a spare of this array: name the member that belongs there{}",
                match assemble(self.found, &Allow::degraded()) {
                    Ok(_) => ", or, if that has failed, start without it (--degraded)",
                    Err(_) => "",
                }
            ),
        }
    }

    /// Why a device cannot be used: the system's words, if it could not be opened.
    fn cause(&self, device: Device, why: NoSuperblock) -> String {
        let known = self.unusable.iter().find(|(other, _)| *other == device);
        let cause = known.map_or_else(|| why.to_string(), |(_, cause)| cause.clone());
        match why {
            NoSuperblock::Bytes(SuperblockError::Foreign) => {
                format!("{cause}, so it is not a device of this array, or it was overwritten")
            }
            _ => cause,
        }
    }

    /// The devices that cannot be used, and why each.
    fn list(&self, members: bool) -> String {
        let wanted =
            |(device, _): &&(Device, String)| !members || matches!(device, Device::Member(_));
        let one =
            |(device, why): &(Device, String)| format!("{}: {why}", path(self.config, *device));
        let all: Vec<String> = self.unusable.iter().filter(wanted).map(one).collect();
        all.join("; ")
    }
}

/// It never had all of the member.
fn rebuilt_in_part(path: &str) -> String {
    format!(
        "{path}: it was only rebuilt in part when the array last used it, and has other bytes in \
         the rest: name the disk that it was to replace in the configuration, if that can be read"
    )
}

fn stale(has: u64, newest: u64) -> String {
    format!(
        "it is out of date: it is of generation {has}, the array of {newest}. It was absent, or \
         restored from an older copy, and lacks what was written since"
    )
}
