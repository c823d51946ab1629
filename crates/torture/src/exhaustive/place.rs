//! The name of a state: every choice that leads to it, in a line that repeats exactly that state.

use super::script::Script;
use crate::world::Order;
use destage_served::Device;
use std::str::FromStr;

/// A set of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Devices(u8);

/// The first bit of the NVS devices.
const NVS: u16 = 6;

impl Devices {
    /// None.
    pub const NONE: Devices = Devices(0);

    /// This one alone.
    pub fn one(device: Device) -> Devices {
        match device {
            Device::Member(number) => Devices(1 << number),
            Device::Nvs(number) => Devices(1 << (NVS + number)),
        }
    }

    /// Those of both.
    pub fn with(self, others: Devices) -> Devices {
        Devices(self.0 | others.0)
    }

    /// Whether it is among them.
    pub fn has(self, device: Device) -> bool {
        self.0 & Devices::one(device).0 != 0
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many members, and how many NVS devices.
    pub fn count(self) -> (u32, u32) {
        ((self.0 & ((1 << NVS) - 1)).count_ones(), (self.0 >> NVS).count_ones())
    }

    /// As bits.
    pub(super) fn bits(self) -> u64 {
        u64::from(self.0)
    }
}

/// A power failure: before which operation, and what it left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crash {
    /// Operations that were done since the script or the start began.
    pub at: u64,
    /// For each sector that was not durable, how many of its versions reached the medium.
    pub kept: Vec<u8>,
}

/// A state.
#[derive(Clone, Debug)]
pub struct Place {
    /// The script.
    pub script: &'static Script,
    /// NVS devices.
    pub nvs: u16,
    /// In which order operations in flight are done.
    pub order: Order,
    /// A device that fails before the crash, and before which operation.
    pub fails: Option<(Device, u64)>,
    /// The crash.
    pub crash: Crash,
    /// Devices that are absent at the start after it.
    pub away: Devices,
    /// A crash in that start, and the devices that are absent at the next one.
    pub again: Option<(Crash, Devices)>,
    /// Devices that fail when the array has started.
    pub lost: Devices,
}

const ORDERS: [(Order, &str); 4] = [
    (Order::Oldest, "oldest"),
    (Order::Newest, "newest"),
    (Order::Members, "members"),
    (Order::Nvs, "nvs"),
];

/// The name of an order.
pub(super) fn order_name(order: Order) -> &'static str {
    ORDERS.iter().find(|(other, _)| *other == order).map_or("drawn", |(_, name)| name)
}

fn all_devices() -> impl Iterator<Item = (Device, String)> {
    let members = (0..NVS).map(|number| (Device::Member(number), format!("m{number}")));
    members.chain((0..2).map(|number| (Device::Nvs(number), format!("n{number}"))))
}

impl core::fmt::Display for Devices {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        all_devices().filter(|(device, _)| self.has(*device)).try_for_each(|(_, n)| f.write_str(&n))
    }
}

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> Result<Devices, String> {
        let named = |devices: Devices, name: &str| {
            let device = all_devices().find(|(_, own)| own == name);
            device.map(|(device, _)| devices.with(Devices::one(device)))
        };
        let mut names = text.as_bytes().chunks(2).map(|name| String::from_utf8_lossy(name));
        names
            .try_fold(Devices::NONE, |devices, name| named(devices, &name))
            .ok_or_else(|| format!("{text}: expected devices, e.g. m0 or m2n1"))
    }
}

impl core::fmt::Display for Crash {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}:", self.at)?;
        self.kept.iter().try_for_each(|kept| write!(f, "{kept:x}"))
    }
}

impl FromStr for Crash {
    type Err = String;

    fn from_str(text: &str) -> Result<Crash, String> {
        let parsed = text.split_once(':').and_then(|(at, kept)| {
            let digits = kept.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8));
            Some(Crash { at: at.parse().ok()?, kept: digits.collect::<Option<_>>()? })
        });
        parsed.ok_or_else(|| format!("{text}: expected a crash, e.g. 17:0110"))
    }
}

impl core::fmt::Display for Place {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let order = order_name(self.order);
        write!(f, "script={},nvs={},order={order}", self.script.name, self.nvs)?;
        if let Some((device, at)) = self.fails {
            write!(f, ",fails={}@{at}", Devices::one(device))?;
        }
        write!(f, ",crash={}", self.crash)?;
        let devices = |f: &mut core::fmt::Formatter<'_>, name: &str, devices: Devices| {
            if devices.is_empty() { Ok(()) } else { write!(f, ",{name}={devices}") }
        };
        devices(f, "away", self.away)?;
        if let Some((crash, away)) = &self.again {
            write!(f, ",again={crash}")?;
            devices(f, "then", *away)?;
        }
        devices(f, "lost", self.lost)
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let bad = |what: &str| format!("{text}: {what}");
        let script = Script::named("parts").expect("of the table");
        let mut place = Place::first(script, 1, Order::Oldest);
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| bad("expected key=value"))?;
            match key {
                "script" => {
                    place.script = Script::named(value).ok_or_else(|| bad("no such script"))?;
                }
                "nvs" => place.nvs = value.parse().map_err(|_| bad("nvs: expected 1 or 2"))?,
                "order" => {
                    let named = ORDERS.iter().find(|(_, name)| *name == value);
                    place.order = named.ok_or_else(|| bad("no such order"))?.0;
                }
                "fails" => {
                    let parsed = value.split_once('@').and_then(|(name, at)| {
                        let (device, _) = all_devices().find(|(_, own)| own == name)?;
                        Some((device, at.parse().ok()?))
                    });
                    place.fails = Some(parsed.ok_or_else(|| bad("expected e.g. fails=m1@7"))?);
                }
                "crash" => place.crash = value.parse()?,
                "away" => place.away = value.parse()?,
                "again" => place.again = Some((value.parse()?, Devices::NONE)),
                "then" => match &mut place.again {
                    Some((_, away)) => *away = value.parse()?,
                    None => return Err(bad("`then` comes after `again`")),
                },
                "lost" => place.lost = value.parse()?,
                _ => return Err(bad("no such key")),
            }
        }
        Ok(place)
    }
}

impl Place {
    /// Before the first operation of a script.
    pub(super) fn first(script: &'static Script, nvs: u16, order: Order) -> Place {
        Place {
            script,
            nvs,
            order,
            fails: None,
            crash: Crash::default(),
            away: Devices::NONE,
            again: None,
            lost: Devices::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_the_same_place() {
        for text in [
            "script=parts,nvs=1,order=oldest,crash=0:",
            "script=stripe,nvs=2,order=newest,fails=n1@3,crash=7:012,away=m0n1,lost=m2",
            "script=slots,nvs=2,order=nvs,crash=7:1,away=n0,again=12:0110,then=m1",
        ] {
            assert_eq!(text.parse::<Place>().map(|place| place.to_string()), Ok(text.to_string()));
        }
        for bad in ["", "script=none", "crash=1", "fails=x", "then=m0", "away=q1", "order=drawn"] {
            assert!(bad.parse::<Place>().is_err(), "{bad}");
        }
    }
}
