//! What superblocks can say: the devices of an array, and what is found of them.

use destage_engine::array::geometry::{Geometry, Level};
use destage_nvslog::LogId;
use destage_nvslog::superblock::{Chosen, REBUILDS_MAX, Role, Superblock, Uuid};
use destage_served::{Allow, AssembleError, Assembly, Device, Found, IoError, NoSuperblock};
use std::collections::BTreeMap;

pub const MEMBERS: u16 = 4;

pub fn uuid(device: Device) -> Uuid {
    match device {
        Device::Member(number) => [10 + number as u8; 16],
        Device::Nvs(number) => [20 + number as u8; 16],
    }
}

/// What the superblocks of an array of generation 9 say, on this device.
pub fn superblock(device: Device) -> Superblock {
    let role = match device {
        Device::Member(number) => Role::Member(number),
        Device::Nvs(number) => Role::Nvs(number),
    };
    Superblock {
        generation: 9,
        base: 8,
        base_identity: 0,
        joined: 0,
        array: [1; 16],
        device: uuid(device),
        log: LogId([2; 16]),
        role,
        geometry: Geometry {
            level: Level::Raid10,
            disks: MEMBERS,
            strip_pages: 2,
            group_stripes: 2,
            disk_pages: 16,
        },
        nvs: [Some([20; 16]), Some([21; 16])],
        block_bytes: 512,
        ring_blocks: 64,
        dirty_pages_max: 24,
        slots: 536,
        unknown_write_features: 0,
        failed: [0; 128],
        rebuilds: [None; REBUILDS_MAX],
        lost_pages: false,
        doubted_rows: false,
    }
}

/// What is found of a device that is current.
pub fn chosen(device: Device) -> Chosen {
    let superblock = superblock(device);
    Chosen { superblock, confirmed: true, damaged: [false; 2], older: None }
}

/// The devices of an array, and what is found of them.
#[derive(Clone)]
pub struct Array(pub BTreeMap<Device, Result<Chosen, NoSuperblock>>);

impl Array {
    /// All devices are current.
    pub fn current() -> Array {
        let members = (0..MEMBERS).map(Device::Member);
        let all = members.chain([0, 1].map(Device::Nvs));
        Array(all.map(|device| (device, Ok(chosen(device)))).collect())
    }

    /// What a device says, which can be read.
    pub fn said(&mut self, device: Device) -> &mut Chosen {
        self.0.get_mut(&device).expect("a device").as_mut().expect("readable")
    }

    /// Some devices say something else in both copies, or, without `confirmed`, in the first.
    pub fn with(
        mut self,
        devices: &[Device],
        confirmed: bool,
        say: impl Fn(&mut Superblock),
    ) -> Array {
        for device in devices {
            let said = self.said(*device);
            say(&mut said.superblock);
            said.confirmed = confirmed;
        }
        self
    }

    /// A crash left one more try on these devices, in their first copies.
    pub fn with_a_try(mut self, devices: &[Device]) -> Array {
        for device in devices {
            let said = self.said(*device);
            (said.older, said.confirmed) = (Some(said.superblock), false);
            said.superblock.base = said.superblock.generation;
            said.superblock.generation += 1;
        }
        self
    }

    /// The second copy of a device is damaged.
    pub fn damage(&mut self, device: Device) {
        let said = self.said(device);
        said.damaged[1] = true;
    }

    pub fn without(mut self, device: Device) -> Array {
        self.0.insert(device, Err(NoSuperblock::Io(IoError::GONE)));
        self
    }

    pub fn assembled(&self, allow: &Allow) -> Result<Assembly, AssembleError> {
        let found: Vec<Found> = self.0.iter().map(|(device, said)| (*device, *said)).collect();
        destage_served::assemble(&found, allow)
    }
}

/// Of a device that is not there.
pub const GONE: NoSuperblock = NoSuperblock::Io(IoError::GONE);
/// The devices.
pub const M: [Device; 4] =
    [Device::Member(0), Device::Member(1), Device::Member(2), Device::Member(3)];
pub const N: [Device; 2] = [Device::Nvs(0), Device::Nvs(1)];
pub const ALL: [Device; 6] = [M[0], M[1], M[2], M[3], N[0], N[1]];

pub fn degraded() -> Allow {
    Allow::degraded()
}

pub fn stale(device: Device) -> Allow {
    Allow { stale: vec![device], ..Allow::default() }
}

/// What a start uses: members that are left out, and NVS devices.
pub fn used(assembly: &Result<Assembly, AssembleError>) -> Option<(Vec<u16>, Vec<u16>)> {
    assembly.as_ref().ok().map(|assembly| (assembly.failed.clone(), assembly.copies.clone()))
}
