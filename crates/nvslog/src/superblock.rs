//! Superblocks: what a device is, in two copies.

use super::crc::crc32c;
use super::{
    FOUND_MAX, LogId, RING_BLOCKS_MAX, RING_BLOCKS_MIN, SUPERBLOCK_BYTES, field, put, u16_at,
    u32_at, u64_at,
};
use destage_engine::array::geometry::{Geometry, GeometryError, Level};
use destage_engine::units::PAGE_BYTES;

const MAGIC: &[u8; 8] = b"DSTGSUPR";
/// The format version, the only one that is read: those before it were never released.
pub const FORMAT_VERSION: u32 = 4;
/// Features that this program knows, bit by bit. With one that it does not know the bytes elsewhere
/// may mean something else, so it does not use the device at all.
pub const FEATURES: u32 = 0;
/// Features that this program knows and without which it may read a device but not write it.
pub const WRITE_FEATURES: u32 = 0;
/// Most NVS devices in use.
pub const NVS_MAX: usize = 2;
/// Most members of an array.
pub const MEMBERS_MAX: u16 = 1024;
/// Most members that are rebuilt at once.
pub const REBUILDS_MAX: usize = 8;
const FLAGS: usize = 108;
const LOST_PAGES: u32 = 1;
const DOUBTED_ROWS: u32 = 2;
const REBUILDS: usize = 256;
const REBUILD_BYTES: usize = 24;
const NVS_SET: usize = REBUILDS + REBUILDS_MAX * REBUILD_BYTES;
const FEATURE_MASK: usize = NVS_SET + NVS_MAX * 16;
const BASE: usize = FEATURE_MASK + 8;
const JOINED: usize = BASE + 8;
const SLOTS: usize = JOINED + 8;

/// Of a device that is not in use yet: [`Superblock::joined`].
pub const NOT_JOINED: u64 = u64::MAX;

/// First byte of the data of a member, and of the ring of an NVS device.
pub const DATA_START: u64 = 1 << 20;

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
    /// Raised with each start, each clean stop and each change of the set of devices.
    pub generation: u64,
    /// The last generation that all devices in use had when this one was begun.
    pub base: u64,
    /// [`Superblock::identity`] of that one, or 0: of none. Halves of an array that serve apart
    /// give the same numbers.
    pub base_identity: u32,
    /// The generation with which this device came into use, or [`NOT_JOINED`]. Since then every
    /// generation names it.
    pub joined: u64,
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
    /// The NVS devices in use, by their places: exactly these have the log.
    pub nvs: [Option<Uuid>; NVS_MAX],
    /// Bytes in a log block: 512 or 4,096.
    pub block_bytes: u32,
    /// Blocks in the ring.
    pub ring_blocks: u64,
    /// Most dirty pages.
    pub dirty_pages_max: u64,
    /// Slots behind the ring.
    pub slots: u32,
    /// Features that this program does not know and with which it may only read the device.
    pub unknown_write_features: u32,
    /// Failed members, bit i of byte i / 8; those being rebuilt included.
    pub failed: [u8; 128],
    /// Members being rebuilt, and the devices that become them.
    pub rebuilds: [Option<(u16, Uuid)>; REBUILDS_MAX],
    /// Some member's record has lost pages.
    pub lost_pages: bool,
    /// Writes without a log may have been interrupted since the last complete repair: a row may
    /// have several strips that do not fit its parity.
    pub doubted_rows: bool,
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
    /// Of a format from before the first release.
    Older(u32),
    /// It uses features that this program does not know: their bits.
    Features(u32),
    /// A field is out of limits: which.
    Field(&'static str),
    /// The sizes make no array.
    Geometry(GeometryError),
}

impl core::fmt::Display for SuperblockError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            SuperblockError::Foreign => write!(f, "the device has no destage superblock"),
            SuperblockError::Damaged => write!(f, "both copies of the superblock are damaged"),
            SuperblockError::Newer(version) => write!(
                f,
                "the superblock has format version {version}; this program knows only \
                 {FORMAT_VERSION}. Use a newer destage"
            ),
            SuperblockError::Older(version) => write!(
                f,
                "the superblock has format version {version}, from before the first release; this \
                 program reads only version {FORMAT_VERSION}. Copy the data with the program that \
                 wrote it, and create the array again"
            ),
            SuperblockError::Features(bits) => write!(
                f,
                "the superblock uses features that this program does not know (mask {bits:#x}). \
                 Use a newer destage"
            ),
            SuperblockError::Field(name) => write!(f, "the superblock's {name} is out of limits"),
            SuperblockError::Geometry(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SuperblockError {}

impl Superblock {
    /// The superblock's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut bytes = [0; SUPERBLOCK_BYTES];
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
        put(to, 72, &[kind, self.geometry.level.entry().code]);
        put(to, 74, &number.to_le_bytes());
        put(to, 76, &self.geometry.disks.to_le_bytes());
        put(to, 80, &self.geometry.strip_pages.to_le_bytes());
        put(to, 88, &self.geometry.group_stripes.to_le_bytes());
        put(to, 96, &self.geometry.disk_pages.to_le_bytes());
        put(to, 104, &self.block_bytes.to_le_bytes());
        put(to, 112, &self.ring_blocks.to_le_bytes());
        put(to, 120, &self.dirty_pages_max.to_le_bytes());
        put(to, 128, &self.failed);
        let flag = |says: bool, flag: u32| if says { flag } else { 0 };
        let flags = flag(self.lost_pages, LOST_PAGES) | flag(self.doubted_rows, DOUBTED_ROWS);
        put(to, FLAGS, &flags.to_le_bytes());
        for (i, (member, device)) in
            self.rebuilds.iter().enumerate().filter_map(|(i, r)| r.map(|r| (i, r)))
        {
            put(to, REBUILDS + i * REBUILD_BYTES, &(member + 1).to_le_bytes());
            put(to, REBUILDS + i * REBUILD_BYTES + 8, &device);
        }
        for (place, device) in self.nvs.iter().enumerate() {
            put(to, NVS_SET + place * 16, &device.unwrap_or_default());
        }
        put(to, FEATURE_MASK, &FEATURES.to_le_bytes());
        put(to, BASE, &self.base.to_le_bytes());
        put(to, FEATURE_MASK + 4, &(WRITE_FEATURES | self.unknown_write_features).to_le_bytes());
        put(to, JOINED, &self.joined.to_le_bytes());
        put(to, SLOTS, &self.slots.to_le_bytes());
        put(to, SLOTS + 4, &self.base_identity.to_le_bytes());
        let crc = crc32c(&to[12..]);
        put(to, 8, &crc.to_le_bytes());
        bytes
    }

    /// The superblock in these bytes.
    ///
    /// # Errors
    /// See [`SuperblockError`].
    pub fn decode(bytes: &[u8]) -> Result<Superblock, SuperblockError> {
        let bytes = bytes.get(..SUPERBLOCK_BYTES).ok_or(SuperblockError::Foreign)?;
        if bytes[..8] != *MAGIC {
            return Err(SuperblockError::Foreign);
        }
        if u32_at(bytes, 8) != crc32c(&bytes[12..]) {
            return Err(SuperblockError::Damaged);
        }
        match u32_at(bytes, 12) {
            0 => return Err(SuperblockError::Field("format version")),
            FORMAT_VERSION => {}
            older @ 1..FORMAT_VERSION => return Err(SuperblockError::Older(older)),
            newer => return Err(SuperblockError::Newer(newer)),
        }
        match u32_at(bytes, FEATURE_MASK) & !FEATURES {
            0 => {}
            unknown => return Err(SuperblockError::Features(unknown)),
        }
        let geometry = decode_geometry(bytes)?;
        let number = u16_at(bytes, 74);
        let role = match bytes[72] {
            1 if number < geometry.disks => Role::Member(number),
            2 if number < 2 => Role::Nvs(number),
            3 if number == 0 => Role::Spare,
            _ => return Err(SuperblockError::Field("role")),
        };
        let superblock = Superblock {
            generation: u64_at(bytes, 16),
            array: field(bytes, 24),
            device: field(bytes, 40),
            log: LogId(field(bytes, 56)),
            role,
            geometry,
            base: u64_at(bytes, BASE),
            base_identity: u32_at(bytes, SLOTS + 4),
            joined: u64_at(bytes, JOINED),
            nvs: decode_nvs(bytes),
            block_bytes: u32_at(bytes, 104),
            ring_blocks: u64_at(bytes, 112),
            dirty_pages_max: u64_at(bytes, 120),
            slots: u32_at(bytes, SLOTS),
            unknown_write_features: u32_at(bytes, FEATURE_MASK + 4) & !WRITE_FEATURES,
            failed: field(bytes, 128),
            rebuilds: decode_rebuilds(bytes, geometry.disks)?,
            lost_pages: u32_at(bytes, FLAGS) & LOST_PAGES != 0,
            doubted_rows: u32_at(bytes, FLAGS) & DOUBTED_ROWS != 0,
        };
        superblock.check()?;
        let none = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        let reserved = u32_at(bytes, FLAGS) <= LOST_PAGES | DOUBTED_ROWS && none(&bytes[78..80]);
        if reserved { Ok(superblock) } else { Err(SuperblockError::Field("reserved bytes")) }
    }

    /// Whether a member is marked as failed.
    #[must_use]
    pub fn has_failed(&self, member: u16) -> bool {
        self.failed[usize::from(member / 8)] >> (member % 8) & 1 == 1
    }

    /// NVS devices in use: 0, 1 or 2.
    #[must_use]
    pub fn nvs_devices(&self) -> u16 {
        self.nvs.iter().flatten().count() as u16
    }

    /// Whether another superblock says the same of the array, whatever device it is on.
    #[must_use]
    pub fn agrees(&self, other: &Superblock) -> bool {
        let Superblock { role, device, joined, .. } = *other;
        Superblock { role, device, joined, ..*self } == *other
    }

    /// What distinguishes this generation from others of the same number, and what those before it
    /// were: equal on all devices that have it.
    #[must_use]
    pub fn identity(&self) -> u32 {
        if self.base == self.generation {
            // A start that repaired it knew no more of this generation than that.
            return self.base_identity;
        }
        let same = Superblock { role: Role::Member(0), device: [0; 16], joined: 0, ..*self };
        crc32c(&same.encode()[12..]).max(1)
    }

    /// Whether another superblock may be the base of this one.
    #[must_use]
    pub fn is_made_on(&self, other: &Superblock) -> bool {
        let known = self.base_identity == 0 || self.base_identity == other.identity();
        self.base == other.generation && known
    }

    /// Bytes of the ring; the slots are behind it.
    #[must_use]
    pub fn ring_bytes(&self) -> u64 {
        self.ring_blocks.saturating_mul(u64::from(self.block_bytes))
    }

    /// Bytes that its device must have.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        let area = match self.role {
            Role::Nvs(_) => self.ring_bytes() + u64::from(self.slots) * PAGE_BYTES,
            Role::Member(_) | Role::Spare => self.geometry.disk_pages * PAGE_BYTES,
        };
        DATA_START + area
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
            (self.generation < FOUND_MAX, "generation"),
            (self.base <= self.generation, "base"),
            (matches!(self.block_bytes, 512 | 4096), "log block"),
            (ring && self.ring_bytes().is_multiple_of(PAGE_BYTES), "ring"),
            (self.slots < u32::MAX && u64::from(self.slots) > self.dirty_pages_max, "slots"),
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
    pub fn choose(first: &[u8], second: &[u8]) -> Result<Chosen, SuperblockError> {
        let copies = [Superblock::decode(first), Superblock::decode(second)];
        let unknown = |copy: &Result<Superblock, SuperblockError>| match copy {
            Err(error @ (SuperblockError::Newer(_) | SuperblockError::Features(_))) => Some(*error),
            _ => None,
        };
        // A copy of a newer format counts even if the other is ours: the newer wrote last.
        if let Some(error) = copies.iter().find_map(unknown) {
            return Err(error);
        }
        let superblock = match copies {
            [Ok(a), Ok(b)] => {
                if b.generation > a.generation {
                    b
                } else {
                    a
                }
            }
            [Ok(one), Err(_)] | [Err(_), Ok(one)] => one,
            [Err(SuperblockError::Foreign), Err(error)] | [Err(error), Err(_)] => {
                return Err(error);
            }
        };
        // A new device has its first copy before its second.
        let never = second.iter().take(SUPERBLOCK_BYTES).all(|byte| *byte == 0);
        let damaged = [copies[0].is_err(), copies[1].is_err() && !never];
        // Second copies are written when all devices have the first. One that is damaged may have
        // been of this generation.
        let confirmed =
            copies[1].map_or(!never, |second| second.generation == superblock.generation);
        let older = copies[1].ok().filter(|second| second.generation < superblock.generation);
        Ok(Chosen { superblock, confirmed, damaged, older })
    }
}

/// What the two copies of a device's superblock say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The copy that counts.
    pub superblock: Superblock,
    /// Both copies have it, or it cannot be ruled out: then all devices in use had the first.
    pub confirmed: bool,
    /// By copy: it cannot be read or is not whole.
    pub damaged: [bool; 2],
    /// The second copy, where it has an older generation.
    pub older: Option<Superblock>,
}

fn decode_nvs(bytes: &[u8]) -> [Option<Uuid>; NVS_MAX] {
    core::array::from_fn(|place| {
        let device: Uuid = field(bytes, NVS_SET + place * 16);
        (device != [0; 16]).then_some(device)
    })
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
    let disks = u16_at(bytes, 76);
    let (strip_pages, group_stripes) = (u64_at(bytes, 80), u64_at(bytes, 88));
    let disk_pages = u64_at(bytes, 96);
    // Bounds under which the geometry's own check cannot overflow.
    let small = strip_pages <= 1 << 16 && group_stripes <= 1 << 16 && disk_pages <= 1 << 40;
    let Some(level) = Level::of_code(bytes[73]) else {
        return Err(SuperblockError::Field("level"));
    };
    if disks > MEMBERS_MAX || !small {
        return Err(SuperblockError::Field("geometry"));
    }
    let stored = Geometry { level, disks, strip_pages, group_stripes, disk_pages };
    let checked = stored.checked().map_err(SuperblockError::Geometry)?;
    if checked == stored { Ok(stored) } else { Err(SuperblockError::Field("disk size")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An NVS device's superblock in which each field has a value of its own.
    fn superblock() -> Superblock {
        let (level, strip_pages, group_stripes, disk_pages) = (Level::Raid6, 2, 4, 3200);
        Superblock {
            generation: 0x0102_0304,
            base: 0x0102_0303,
            base_identity: 0x0506_0708,
            joined: 9,
            array: [1; 16],
            device: [2; 16],
            log: LogId([3; 16]),
            role: Role::Nvs(1),
            geometry: Geometry { level, disks: 10, strip_pages, group_stripes, disk_pages },
            nvs: [Some([4; 16]), Some([5; 16])],
            block_bytes: 4096,
            ring_blocks: 96,
            dirty_pages_max: 700,
            slots: 800,
            unknown_write_features: 0x0A00_000B,
            failed: core::array::from_fn(|byte| 1 + byte as u8),
            rebuilds: core::array::from_fn(|place| {
                Some((9 - place as u16, [16 + place as u8; 16]))
            }),
            lost_pages: true,
            doubted_rows: false,
        }
    }

    fn refused(superblock: Superblock) -> Option<SuperblockError> {
        Superblock::decode(&superblock.encode()).err()
    }

    /// As the format page has it.
    #[test]
    fn each_field_has_its_place() {
        let said = superblock();
        let bytes = said.encode();
        let has = |at: usize, field: &[u8]| assert_eq!(bytes[at..at + field.len()], *field, "{at}");
        has(0, b"DSTGSUPR");
        has(8, &crc32c(&bytes[12..]).to_le_bytes());
        has(12, &FORMAT_VERSION.to_le_bytes());
        has(16, &said.generation.to_le_bytes());
        for (at, uuid) in [(24, 1), (40, 2), (56, 3), (448, 4), (464, 5)] {
            has(at, &[uuid; 16]);
        }
        has(72, &[2, 6, 1, 0, 10, 0, 0, 0]);
        has(80, &[2, 4, 3200, 4096 | 1 << 32, 96, 700].map(u64::to_le_bytes).concat());
        has(128, &said.failed);
        for place in 0..8 {
            has(256 + 24 * place, &[10 - place as u8, 0, 0, 0, 0, 0, 0, 0]);
            has(264 + 24 * place, &[16 + place as u8; 16]);
        }
        has(480, &[0; 4]);
        has(484, &said.unknown_write_features.to_le_bytes());
        has(488, &[said.base, said.joined].map(u64::to_le_bytes).concat());
        has(504, &[said.slots, said.base_identity].map(u32::to_le_bytes).concat());
        assert_eq!(Superblock::decode(&bytes), Ok(said));
        for (lost_pages, doubted_rows, flags) in
            [(false, false, 0), (true, false, 1), (false, true, 2), (true, true, 3)]
        {
            let said = Superblock { lost_pages, doubted_rows, ..said };
            assert_eq!(said.encode()[108..112], [flags, 0, 0, 0]);
            assert_eq!(Superblock::decode(&said.encode()), Ok(said));
        }
    }

    /// Each number is refused from its limit on.
    #[test]
    fn numbers_have_limits_of_their_own() {
        let field = |name| Some(SuperblockError::Field(name));
        let role = |role| refused(Superblock { role, ..superblock() });
        let roles = [Role::Nvs(0), Role::Nvs(1), Role::Member(0), Role::Member(9), Role::Spare];
        assert_eq!(roles.map(role), [None; 5]);
        let none = [Role::Nvs(2), Role::Nvs(3), Role::Member(10), Role::Member(11)];
        assert_eq!(none.map(role), [field("role"); 4]);
        let base = |base| refused(Superblock { base, ..superblock() });
        let generation = superblock().generation;
        assert_eq!([0, generation].map(base), [None; 2]);
        assert_eq!(base(generation + 1), field("base"));
        let ring = |block_bytes, ring_blocks| {
            refused(Superblock { block_bytes, ring_blocks, ..superblock() })
        };
        // A ring of smaller blocks has complete pages, too.
        assert_eq!([64, 72, RING_BLOCKS_MAX].map(|blocks| ring(512, blocks)), [None; 3]);
        for blocks in [0, 56, 63, 65, 71, RING_BLOCKS_MAX + 8] {
            assert_eq!(ring(512, blocks), field("ring"), "{blocks}");
        }
        assert_eq!([64, 65, RING_BLOCKS_MAX].map(|blocks| ring(4096, blocks)), [None; 3]);
        assert_eq!([63, RING_BLOCKS_MAX + 1].map(|blocks| ring(4096, blocks)), [field("ring"); 2]);
        assert_eq!(ring(1024, 96), field("log block"));
        let slots =
            |dirty_pages_max, slots| refused(Superblock { dirty_pages_max, slots, ..superblock() });
        assert_eq!([701, 702, u32::MAX - 1].map(|most| slots(700, most)), [None; 3]);
        assert_eq!([0, 699, 700, u32::MAX].map(|most| slots(700, most)), [field("slots"); 4]);
        assert_eq!((slots(1, 2), slots(0, 2)), (None, field("number of dirty pages")));
    }

    #[test]
    fn an_array_has_limits() {
        let of = |geometry| refused(Superblock { geometry, rebuilds: [None; 8], ..superblock() });
        let (level, strip_pages, group_stripes, disk_pages) =
            (Level::Single, 1 << 16, 1 << 16, 1 << 40);
        let largest = Geometry { level, disks: 1, strip_pages, group_stripes, disk_pages };
        let members = Geometry { level: Level::Raid0, disks: 1024, ..superblock().geometry };
        assert_eq!([largest, members].map(of), [None; 2]);
        let beyond = [
            Geometry { strip_pages: strip_pages + 1, ..largest },
            Geometry { group_stripes: group_stripes + 1, ..largest },
            Geometry { disk_pages: disk_pages + 1, ..largest },
            Geometry { disks: 1025, ..members },
        ];
        assert_eq!(beyond.map(of), [Some(SuperblockError::Field("geometry")); 4]);
    }

    /// The ring and the slots of an NVS device, and the disk of a member, are behind the first MiB.
    #[test]
    fn a_device_has_room_for_all_that_its_superblock_describes() {
        let said = superblock();
        assert_eq!(said.ring_bytes(), 393_216);
        let member = 1_048_576 + 13_107_200;
        for (role, bytes) in [
            (Role::Nvs(0), 1_048_576 + 393_216 + 3_276_800),
            (Role::Member(3), member),
            (Role::Spare, member),
        ] {
            assert_eq!(Superblock { role, ..superblock() }.device_bytes(), bytes, "{role:?}");
        }
        let device = Some([7; 16]);
        for (nvs, count) in
            [([None, None], 0), ([None, device], 1), ([device, None], 1), ([device, device], 2)]
        {
            assert_eq!(Superblock { nvs, ..superblock() }.nvs_devices(), count);
        }
    }

    #[test]
    fn a_mark_stays_as_it_is_when_it_is_made_again() {
        let mut said = Superblock { failed: [0; 128], ..superblock() };
        for failed in [true, false] {
            for _ in 0..2 {
                said.mark(9, failed);
                assert_eq!(said.failed[..3], [0, u8::from(failed) << 1, 0]);
                let marks = [8, 9, 10].map(|member| said.has_failed(member));
                assert_eq!(marks, [false, failed, false]);
            }
        }
    }

    #[test]
    fn a_rebuild_that_has_no_room_is_not_named() {
        let (full, new) = (superblock(), [99; 16]);
        let mut said = full;
        assert_eq!((said.rebuilt_onto(9), said.rebuilt_onto(2)), (Some([16; 16]), Some([23; 16])));
        assert!(!said.set_rebuild(1, Some(new)));
        assert_eq!((said, said.rebuilt_onto(1)), (full, None));
        assert!(said.set_rebuild(4, Some(new)), "another device of the same member");
        assert_eq!((said.rebuilt_onto(4), said.rebuilt_onto(5)), (Some(new), Some([20; 16])));
        assert!(said.set_rebuild(5, None) && said.set_rebuild(1, Some(new)));
        assert_eq!((said.rebuilt_onto(5), said.rebuilt_onto(1)), (None, Some(new)));
    }

    /// What differs from device to device is not a part of it. A later superblock is made on the
    /// one whose identity it names.
    #[test]
    fn an_identity_is_of_all_that_devices_agree_on() {
        let said = superblock();
        let common = Superblock { role: Role::Member(0), device: [0; 16], joined: 0, ..said };
        let identity = crc32c(&common.encode()[12..]);
        for same in [
            said,
            Superblock { role: Role::Spare, ..said },
            Superblock { device: [9; 16], ..said },
            Superblock { joined: NOT_JOINED, ..said },
        ] {
            assert_eq!((same.identity(), same.agrees(&said)), (identity, true), "{same:?}");
        }
        for other in [
            Superblock { lost_pages: false, ..said },
            Superblock { base_identity: 1, ..said },
            Superblock { nvs: [said.nvs[0], None], ..said },
            Superblock { unknown_write_features: 0, ..said },
        ] {
            assert!(other.identity() != identity && !other.agrees(&said), "{other:?}");
        }
        let repaired = Superblock { base: said.generation, ..said };
        assert_eq!(repaired.identity(), said.base_identity);
        let next = |base, base_identity| {
            let next = Superblock { generation: said.generation + 1, base, base_identity, ..said };
            next.is_made_on(&said)
        };
        assert!(next(said.generation, identity) && next(said.generation, 0), "not known");
        assert!(!next(said.generation, identity ^ 1) && !next(said.generation - 1, identity));
        assert!(!next(said.generation - 1, 0));
    }

    #[test]
    fn of_two_copies_with_one_number_the_first_counts() {
        let copies = [superblock(), Superblock { lost_pages: false, ..superblock() }];
        for [first, second] in [copies, [copies[1], copies[0]]] {
            let chosen = Superblock::choose(&first.encode(), &second.encode());
            assert_eq!(chosen.map(|own| (own.superblock, own.older)), Ok((first, None)));
        }
    }
}
