//! Superblocks: what a device is, in two copies.

use super::crc::crc32c;
use super::{
    LogId, RING_BLOCKS_MAX, RING_BLOCKS_MIN, SLOT_BYTES, field, put, u16_at, u32_at, u64_at,
};
use crate::array::geometry::{Geometry, GeometryError, Level};

const MAGIC: &[u8; 8] = b"DSTGSUPR";
/// The format version that this program writes; it reads version 1 too, which has no rebuilds.
pub const FORMAT_VERSION: u32 = 2;
/// Most members of an array.
pub const MEMBERS_MAX: u16 = 1024;
/// Most members that are rebuilt at once.
pub const REBUILDS_MAX: usize = 8;
const FLAGS: usize = 108;
const LOST_PAGES: u32 = 1;
const REBUILDS: usize = 256;
const REBUILD_BYTES: usize = 24;
const RESERVED_FROM: usize = REBUILDS + REBUILDS_MAX * REBUILD_BYTES;

/// A UUID.
pub type Uuid = [u8; 16];

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Member disk of this number.
    Member(u16),
    /// NVS device of this number, 0 or 1.
    Nvs(u16),
    /// To become a member when one fails.
    Spare,
}

/// What a superblock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Raised with each change of the set of devices.
    pub generation: u64,
    /// UUID of the array.
    pub array: Uuid,
    /// UUID of the device.
    pub device: Uuid,
    /// UUID of the log.
    pub log: LogId,
    /// Member or NVS, and which.
    pub role: Role,
    /// The array, checked.
    pub geometry: Geometry,
    /// NVS devices in use: 0, 1 or 2.
    pub nvs_devices: u16,
    /// Bytes in a log block: 512 or 4,096.
    pub block_bytes: u32,
    /// Blocks in the ring.
    pub ring_blocks: u64,
    /// Most dirty pages.
    pub dirty_pages_max: u64,
    /// Failed members, bit i of byte i / 8; those being rebuilt included.
    pub failed: [u8; 128],
    /// Members being rebuilt, and the devices that become them.
    pub rebuilds: [Option<(u16, Uuid)>; REBUILDS_MAX],
    /// Some member's record has lost pages.
    pub lost_pages: bool,
}

/// Why bytes are no superblock that this program can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuperblockError {
    /// Not ours at all.
    Foreign,
    /// Ours, but torn or damaged: look at the other copy.
    Damaged,
    /// Of a newer format.
    Newer(u32),
    /// A field is out of limits: which.
    Field(&'static str),
    /// The sizes make no array.
    Geometry(GeometryError),
}

impl core::fmt::Display for SuperblockError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SuperblockError::Foreign => write!(f, "there is no destage superblock"),
            SuperblockError::Damaged => write!(f, "the superblock is damaged"),
            SuperblockError::Newer(version) => write!(
                f,
                "the superblock has format version {version}; this program knows {FORMAT_VERSION}"
            ),
            SuperblockError::Field(name) => write!(f, "the superblock's {name} is out of limits"),
            SuperblockError::Geometry(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SuperblockError {}

const fn level_code(level: Level) -> u8 {
    match level {
        Level::Single => 1,
        Level::Raid0 => 2,
        Level::Raid10 => 3,
        Level::Raid4 => 4,
        Level::Raid5 => 5,
        Level::Raid6 => 6,
    }
}

const LEVELS_BY_CODE: [Level; 6] =
    [Level::Single, Level::Raid0, Level::Raid10, Level::Raid4, Level::Raid5, Level::Raid6];

impl Superblock {
    /// The superblock's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        let to = &mut bytes[..];
        let (kind, number) = match self.role {
            Role::Member(number) => (1, number),
            Role::Nvs(number) => (2, number),
            Role::Spare => (3, 0),
        };
        put(to, 0, MAGIC);
        put(to, 12, &FORMAT_VERSION.to_le_bytes());
        put(to, 16, &self.generation.to_le_bytes());
        put(to, 24, &self.array);
        put(to, 40, &self.device);
        put(to, 56, &self.log.0);
        put(to, 72, &[kind, level_code(self.geometry.level)]);
        put(to, 74, &number.to_le_bytes());
        put(to, 76, &self.geometry.disks.to_le_bytes());
        put(to, 78, &self.nvs_devices.to_le_bytes());
        put(to, 80, &self.geometry.strip_pages.to_le_bytes());
        put(to, 88, &self.geometry.group_stripes.to_le_bytes());
        put(to, 96, &self.geometry.disk_pages.to_le_bytes());
        put(to, 104, &self.block_bytes.to_le_bytes());
        put(to, 112, &self.ring_blocks.to_le_bytes());
        put(to, 120, &self.dirty_pages_max.to_le_bytes());
        put(to, 128, &self.failed);
        put(to, FLAGS, &(u32::from(self.lost_pages) * LOST_PAGES).to_le_bytes());
        for (i, (member, device)) in
            self.rebuilds.iter().enumerate().filter_map(|(i, r)| r.map(|r| (i, r)))
        {
            put(to, REBUILDS + i * REBUILD_BYTES, &(member + 1).to_le_bytes());
            put(to, REBUILDS + i * REBUILD_BYTES + 8, &device);
        }
        let crc = crc32c(&to[12..]);
        put(to, 8, &crc.to_le_bytes());
        bytes
    }

    /// The superblock in these bytes.
    ///
    /// # Errors
    /// See [`SuperblockError`].
    pub fn decode(bytes: &[u8]) -> Result<Superblock, SuperblockError> {
        let bytes = bytes.get(..SLOT_BYTES).ok_or(SuperblockError::Foreign)?;
        if bytes[..8] != *MAGIC {
            return Err(SuperblockError::Foreign);
        }
        if u32_at(bytes, 8) != crc32c(&bytes[12..]) {
            return Err(SuperblockError::Damaged);
        }
        let version = match u32_at(bytes, 12) {
            0 => return Err(SuperblockError::Field("format version")),
            known @ 1..=FORMAT_VERSION => known,
            newer => return Err(SuperblockError::Newer(newer)),
        };
        let geometry = decode_geometry(bytes)?;
        let number = u16_at(bytes, 74);
        let role = match bytes[72] {
            1 if number < geometry.disks => Role::Member(number),
            2 if number < 2 => Role::Nvs(number),
            3 if number == 0 && version > 1 => Role::Spare,
            _ => return Err(SuperblockError::Field("role")),
        };
        let superblock = Superblock {
            generation: u64_at(bytes, 16),
            array: field(bytes, 24),
            device: field(bytes, 40),
            log: LogId(field(bytes, 56)),
            role,
            geometry,
            nvs_devices: u16_at(bytes, 78),
            block_bytes: u32_at(bytes, 104),
            ring_blocks: u64_at(bytes, 112),
            dirty_pages_max: u64_at(bytes, 120),
            failed: field(bytes, 128),
            rebuilds: decode_rebuilds(bytes, geometry.disks)?,
            lost_pages: u32_at(bytes, FLAGS) == LOST_PAGES,
        };
        superblock.check()?;
        let none = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let reserved = match version {
            1 => none(&bytes[FLAGS..FLAGS + 4]) && none(&bytes[REBUILDS..]),
            _ => u32_at(bytes, FLAGS) <= LOST_PAGES && none(&bytes[RESERVED_FROM..]),
        };
        if reserved { Ok(superblock) } else { Err(SuperblockError::Field("reserved bytes")) }
    }

    /// Whether a member is marked as failed.
    #[must_use]
    pub fn has_failed(&self, member: u16) -> bool {
        self.failed[usize::from(member / 8)] >> (member % 8) & 1 == 1
    }

    /// Marks a member as failed, or as whole.
    pub fn mark(&mut self, member: u16, failed: bool) {
        let (byte, bit) = (&mut self.failed[usize::from(member / 8)], 1 << (member % 8));
        *byte = if failed { *byte | bit } else { *byte & !bit };
    }

    /// The device that becomes a member that is being rebuilt.
    #[must_use]
    pub fn rebuilt_onto(&self, member: u16) -> Option<Uuid> {
        self.rebuilds.iter().flatten().find(|(of, _)| *of == member).map(|(_, device)| *device)
    }

    /// Names the rebuild of a member, or that there is none; whether there is room.
    pub fn set_rebuild(&mut self, member: u16, onto: Option<Uuid>) -> bool {
        for entry in &mut self.rebuilds {
            if entry.is_some_and(|(of, _)| of == member) {
                *entry = None;
            }
        }
        let Some(device) = onto else { return true };
        let free = self.rebuilds.iter_mut().find(|entry| entry.is_none());
        free.map(|entry| *entry = Some((member, device))).is_some()
    }

    fn check(&self) -> Result<(), SuperblockError> {
        let ring = (RING_BLOCKS_MIN..=RING_BLOCKS_MAX).contains(&self.ring_blocks);
        let dirty = (1..u64::from(u32::MAX)).contains(&self.dirty_pages_max);
        for (fits, name) in [
            (self.nvs_devices <= 2, "number of NVS devices"),
            (matches!(self.block_bytes, 512 | 4096), "log block"),
            (ring, "ring"),
            (dirty, "number of dirty pages"),
        ] {
            if !fits {
                return Err(SuperblockError::Field(name));
            }
        }
        Ok(())
    }

    /// The one of a device's two copies that counts: the higher generation, else why there is
    /// none.
    ///
    /// # Errors
    /// See [`SuperblockError`].
    pub fn choose(first: &[u8], second: &[u8]) -> Result<Superblock, SuperblockError> {
        match (Superblock::decode(first), Superblock::decode(second)) {
            (Ok(a), Ok(b)) => Ok(if b.generation > a.generation { b } else { a }),
            // A copy of a newer format counts even if the other is ours: the newer wrote last.
            (Err(SuperblockError::Newer(version)), _)
            | (_, Err(SuperblockError::Newer(version))) => Err(SuperblockError::Newer(version)),
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
            (Err(SuperblockError::Foreign), Err(error)) | (Err(error), Err(_)) => Err(error),
        }
    }
}

fn decode_rebuilds(
    bytes: &[u8],
    disks: u16,
) -> Result<[Option<(u16, Uuid)>; REBUILDS_MAX], SuperblockError> {
    let mut rebuilds = [None; REBUILDS_MAX];
    for (i, entry) in rebuilds.iter_mut().enumerate() {
        let at = REBUILDS + i * REBUILD_BYTES;
        let (number, device) = (u16_at(bytes, at), field(bytes, at + 8));
        let reserved = bytes[at + 2..at + 8].iter().all(|byte| *byte == 0);
        match number.checked_sub(1) {
            None if reserved && device == [0; 16] => {}
            Some(member) if reserved && member < disks => *entry = Some((member, device)),
            _ => return Err(SuperblockError::Field("rebuild")),
        }
    }
    Ok(rebuilds)
}

fn decode_geometry(bytes: &[u8]) -> Result<Geometry, SuperblockError> {
    let code = usize::from(bytes[73]);
    let level = code.checked_sub(1).and_then(|index| LEVELS_BY_CODE.get(index));
    let disks = u16_at(bytes, 76);
    let (strip_pages, group_stripes) = (u64_at(bytes, 80), u64_at(bytes, 88));
    let disk_pages = u64_at(bytes, 96);
    // Bounds under which the geometry's own check cannot overflow.
    let small = strip_pages <= 1 << 16 && group_stripes <= 1 << 16 && disk_pages <= 1 << 40;
    let Some(level) = level.copied() else { return Err(SuperblockError::Field("level")) };
    if disks > MEMBERS_MAX || !small {
        return Err(SuperblockError::Field("geometry"));
    }
    let stored = Geometry { level, disks, strip_pages, group_stripes, disk_pages };
    let checked = stored.checked().map_err(SuperblockError::Geometry)?;
    if checked == stored { Ok(stored) } else { Err(SuperblockError::Field("disk size")) }
}
