//! Creation and recovery: everything before the first request, one operation at a time
//! (docs/durability.md, "Recovery").

use super::Volume;
use crate::assemble::Assembly;
use crate::assemble_error::NoSuperblock;
use crate::at_risk::AtRisk;
use crate::defect::Defect;
use crate::destages::{Destages, pages_of_group};
use crate::devices::{Devices, SUPERBLOCKS};
use crate::engine::Engine;
use crate::io::{Device, IoError, Media, write_padded};
use crate::log::{self, LogError, Recovered};
use crate::ops::Ops;
use crate::rebuilds::Rebuilds;
use crate::records::MemberRecords;
use crate::request::Alarm;
use crate::requests::Requests;
use crate::scrub::Scrub;
use crate::settings::Settings;
use crate::stripes::Stripes;
use destage_engine::array::geometry::Geometry;
use destage_engine::array::safe::DestagePages;
use destage_engine::controller::{Config, ConfigError, Controller};
use destage_engine::destage::DestageConfig;
use destage_engine::event::Event;
use destage_engine::flushes::Flushes;
use destage_engine::readcache::ReadPolicyError;
use destage_engine::served;
use destage_engine::units::{DiskId, GroupId, Page, PageCount};
use destage_nvslog::LogId;
use destage_nvslog::sizes::Sizes;
use destage_nvslog::superblock::{NOT_JOINED, NVS_MAX, REBUILDS_MAX, Role, Superblock, Uuid};

/// An array to be created.
#[derive(Clone, Debug)]
pub struct Creation {
    /// The array, checked.
    pub geometry: Geometry,
    /// Bytes in a log block: 512 or 4,096.
    pub block_bytes: u32,
    /// How an NVS device is divided, and the most dirty pages.
    pub sizes: Sizes,
    /// UUID of the array.
    pub array: Uuid,
    /// UUID of the log.
    pub log: Uuid,
    /// UUIDs of the members.
    pub members: Vec<Uuid>,
    /// UUIDs of the NVS devices: none, one or two.
    pub nvs: Vec<Uuid>,
}

/// Writes superblocks and an empty log. The members' data is not touched: their redundancy must be
/// consistent already (all zeros is), or be made so by a scrub.
///
/// # Errors
/// The device that failed, and how.
pub fn create(media: &mut dyn Media, creation: &Creation) -> Result<(), (Device, IoError)> {
    let Sizes { ring_blocks, slots, dirty_pages } = creation.sizes;
    let superblock = Superblock {
        generation: 1,
        base: 0,
        base_identity: 0,
        joined: 0,
        array: creation.array,
        device: creation.array,
        log: LogId(creation.log),
        role: Role::Member(0),
        geometry: creation.geometry,
        nvs: core::array::from_fn(|place| creation.nvs.get(place).copied()),
        block_bytes: creation.block_bytes,
        ring_blocks,
        dirty_pages_max: dirty_pages,
        slots,
        unknown_write_features: 0,
        failed: [0; 128],
        rebuilds: [None; REBUILDS_MAX],
        lost_pages: false,
        doubted_rows: false,
    };
    log::create(media, &superblock, 0..creation.nvs.len() as u16)?;
    let devices = Devices::new(superblock, creation.members.clone(), creation.nvs.clone());
    // The members last: without them it is not an array.
    let nvs = (0..creation.nvs.len() as u16).map(Device::Nvs);
    let members = (0..creation.members.len() as u16).map(Device::Member);
    for device in nvs.chain(members) {
        let bytes = devices.superblock_of(device).encode();
        for at in SUPERBLOCKS {
            write_padded(media, device, at, &bytes).map_err(|error| (device, error))?;
            media.flush(device).map_err(|error| (device, error))?;
        }
    }
    Ok(())
}

/// Why an assembled array cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// A device cannot be written. Nothing was served: assemble again with this device unusable
    /// ([`crate::NoSuperblock::Unwritable`]), from superblocks that are read again.
    Unwritable(Device, IoError),
    /// Some pages of the array are lost, and which of this member cannot be read: they would read
    /// as zeros. Assemble again with this device unusable
    /// ([`crate::NoSuperblock::LostPagesUnknown`]).
    LostPagesUnknown(Device),
    /// A device is shorter than the array's superblock says; its own may have said less.
    Short {
        /// The device.
        device: Device,
        /// Bytes that it has.
        bytes: u64,
        /// Bytes that the array needs.
        needs: u64,
    },
    /// The log cannot be used.
    Log(LogError),
    /// The array uses features that this program does not know: their bits.
    Features(u32),
    /// The settings make no array.
    Config(ConfigError),
    /// The settings make no read cache.
    ReadCache(ReadPolicyError),
}

impl From<LogError> for OpenError {
    fn from(error: LogError) -> OpenError {
        match error {
            LogError::Unwritable(device, error) => OpenError::Unwritable(device, error),
            error => OpenError::Log(error),
        }
    }
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            OpenError::Unwritable(device, error) => {
                write!(f, "{device} cannot be written: {error}")
            }
            OpenError::LostPagesUnknown(device) => {
                write!(f, "{device}: {}", NoSuperblock::LostPagesUnknown)
            }
            OpenError::Short { device, bytes, needs } => write!(
                f,
                "{device} has {bytes} bytes, and the superblocks of the other devices say {needs}: \
                 they are not of one array, or it was cut short. Nothing was changed"
            ),
            OpenError::Log(error) => error.fmt(f),
            OpenError::Features(bits) => write!(
                f,
                "the array uses features that this program does not know (bits {bits:#x}): it can \
                 be inspected (destage recover --inspect), but not served. Use a newer destage"
            ),
            OpenError::Config(error) => error.fmt(f),
            OpenError::ReadCache(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl OpenError {
    /// The device without which the array may be opened, and why it cannot be used.
    #[must_use]
    pub fn unusable(&self) -> Option<(Device, NoSuperblock)> {
        match self {
            OpenError::Unwritable(device, error) => {
                Some((*device, NoSuperblock::Unwritable(*error)))
            }
            OpenError::LostPagesUnknown(device) => Some((*device, NoSuperblock::LostPagesUnknown)),
            _ => None,
        }
    }
}

/// Recovers the log and makes the volume that continues it. Its first operations redo the
/// destages that were interrupted: serve it when [`Volume::ready`].
///
/// # Errors
/// See [`OpenError`]. Nothing is changed then, except with [`OpenError::Unwritable`]: the other
/// devices may be as a crash in a start leaves them.
pub fn open(
    media: &mut dyn Media,
    assembly: &Assembly,
    settings: Settings,
) -> Result<Volume, OpenError> {
    let superblock = assembly.superblock;
    if superblock.unknown_write_features != 0 {
        return Err(OpenError::Features(superblock.unknown_write_features));
    }
    long_enough(media, assembly)?;
    let controller = Controller::new(&config(&superblock, &settings)).map_err(OpenError::Config)?;
    let source = log::Source {
        superblock,
        devices: &assembly.copies,
        dirty_pages_max: dirty_pages_max(&superblock, &settings),
        takes_what_is_left: assembly.takes_what_is_left(),
        pages: settings.pages,
        defect: settings.defect,
    };
    let devices = Devices::new(superblock, assembly.members.clone(), assembly.nvs.clone());
    let mut devices = devices.joined(assembly.since.clone());
    read_records(media, assembly, &mut devices)?;
    assembly.failed.iter().for_each(|member| devices.mark(*member, true));
    let mut mark = |media: &mut dyn Media| mark(media, assembly, &mut devices, settings.defect);
    let Recovered { log, pages, dirty } = log::recover(media, &source, &mut mark)?;
    let flushes = flushes_of(&settings, &superblock.geometry, &assembly.failed);
    let mut volume = Volume {
        engine: Engine::new(controller),
        settings,
        ops: Ops::default(),
        requests: Requests::default(),
        log,
        pages,
        read_cache: None,
        destages: Destages::default(),
        flushes,
        devices,
        rebuilds: Rebuilds::default(),
        scrub: Scrub::default(),
        stripes: Stripes::default(),
        rows_doubted: false,
        appends_waiting: 0,
        at_risk: AtRisk::default(),
    };
    volume.doubt_rows(superblock.doubted_rows || assembly.doubts_rows());
    volume.set_rebuild_limits(volume.settings.rebuild);
    for member in &assembly.failed {
        let failed = Event::DiskFailed(DiskId(*member));
        volume.engine.controller_mut().step(volume.ops.now(), failed, &mut Vec::new());
    }
    if !volume.settings.defect.is(Defect::KeepsDamagedSuperblocks) {
        for (device, copy) in assembly.damaged() {
            volume.ops.alarm(Alarm::SuperblockRepaired { device, copy });
        }
    }
    // Interrupted destages are redone with what is in sync of each member, and only then do
    // windows of rebuilds read rows.
    volume.pause(true);
    volume.resume_rebuilds(assembly);
    volume.take_over(&dirty);
    let read_cache = volume.settings.read_cache.take();
    volume.set_read_cache(read_cache).map_err(OpenError::ReadCache)?;
    volume.pause(false);
    Ok(volume)
}

/// Reads the records of members. A rebuild without a record begins at its first page. A member that
/// has no lost page gets a record that says so, if its own is damaged or an older one that a crash
/// left: that would count again once a page of any member is lost.
fn read_records(
    media: &mut dyn Media,
    assembly: &Assembly,
    devices: &mut Devices,
) -> Result<(), OpenError> {
    for member in 0..devices.members() {
        if assembly.rebuilds.contains(&member) {
            devices.records.read(media, member);
        } else if may_have_lost(assembly, member)
            && !devices.records.read(media, member)
            && !assembly.insists_on(member)
        {
            return Err(OpenError::LostPagesUnknown(Device::Member(member)));
        }
    }
    let unread = |member: &u16| {
        !assembly.failed.contains(member)
            && !assembly.rebuilds.contains(member)
            && !may_have_lost(assembly, *member)
    };
    for member in (0..devices.members()).filter(unread) {
        devices.records.read_without_lost(media, member);
    }
    Ok(())
}

/// Of a stale member the superblock says nothing: it was written without it.
fn may_have_lost(assembly: &Assembly, member: u16) -> bool {
    let said = assembly.superblock.lost_pages || assembly.stale.contains(&Device::Member(member));
    said && !assembly.failed.contains(&member)
}

/// Whether it can be read which pages of a member are lost. If not, [`open`] refuses, or takes them
/// for zeros if the operator insists on the device.
pub fn knows_lost_pages(media: &mut dyn Media, assembly: &Assembly, member: u16) -> bool {
    let mut records = MemberRecords::new(&assembly.members);
    !may_have_lost(assembly, member) || records.read(media, member)
}

/// Compares the devices in use with the superblock that counts. Each was compared with its own.
fn long_enough(media: &mut dyn Media, assembly: &Assembly) -> Result<(), OpenError> {
    let members = 0..assembly.superblock.geometry.disks;
    let members = members.filter(|member| !assembly.failed.contains(member));
    let members = members.map(|member| (Device::Member(member), Role::Member(member)));
    let nvs = assembly.copies.iter().map(|place| (Device::Nvs(*place), Role::Nvs(*place)));
    for (device, role) in members.chain(nvs) {
        let needs = Superblock { role, ..assembly.superblock }.device_bytes();
        let bytes = media.bytes(device).unwrap_or(needs);
        if bytes < needs {
            return Err(OpenError::Short { device, bytes, needs });
        }
    }
    Ok(())
}

/// Makes an empty device a spare of the array that has this superblock.
///
/// # Errors
/// The device cannot be written.
pub fn prepare_spare(
    media: &mut dyn Media,
    device: Device,
    array: &Superblock,
    uuid: Uuid,
) -> Result<(), IoError> {
    let spare = Superblock {
        generation: 0,
        joined: NOT_JOINED,
        base: 0,
        base_identity: 0,
        nvs: [None; NVS_MAX],
        device: uuid,
        role: Role::Spare,
        failed: [0; 128],
        rebuilds: [None; REBUILDS_MAX],
        lost_pages: false,
        doubted_rows: false,
        ..*array
    };
    for at in SUPERBLOCKS {
        write_padded(media, device, at, &spare.encode())?;
        media.flush(device)?;
    }
    Ok(())
}

/// Most dirty pages: the NVS holds this many, and memory may.
fn dirty_pages_max(superblock: &Superblock, settings: &Settings) -> u64 {
    let most = superblock.dirty_pages_max;
    settings.dirty_pages_max.map_or(most, |wanted| wanted.clamp(1, most))
}

fn config(superblock: &Superblock, settings: &Settings) -> Config {
    Config {
        geometry: superblock.geometry,
        nvs_pages: PageCount(dirty_pages_max(superblock, settings)),
        policy: settings.policy.clone(),
        rate: settings.rate.clone(),
        destage: DestageConfig {
            stripe_memory: settings.stripe_memory,
            ..served::destage(settings.queue_depth)
        },
        detector: served::DETECTOR,
        sequential_threshold: served::SEQUENTIAL_THRESHOLD,
        window: settings.window,
        order: served::ORDER,
    }
}

/// Records which devices are used from now on: the mark of this start.
fn mark(
    media: &mut dyn Media,
    assembly: &Assembly,
    devices: &mut Devices,
    defect: Defect,
) -> Result<(), (Device, IoError)> {
    let nvs = assembly.copies.iter().copied().map(Device::Nvs);
    let used: Vec<Device> = nvs.chain(assembly.written_members()).collect();
    for device in used.iter().copied() {
        // If the last run was killed, what was read may be in the device's cache alone. A power
        // failure must not take back what the next marks are built on.
        media.flush(device).map_err(|error| (device, error))?;
    }
    let keeps = defect.is(Defect::KeepsDamagedSuperblocks);
    if !keeps {
        assembly.repair_superblocks(media)?;
    }
    devices.records.repair(media)?;
    devices.name_nvs(&assembly.copies);
    if assembly.copies.is_empty() || assembly.doubts_rows() {
        devices.doubt_rows(true);
    }
    // A spare that is absent now must not continue from where it was when it is back (D12).
    let named = assembly.superblock.rebuilds.iter().flatten().map(|(member, _)| *member);
    let absent = named.filter(|member| !assembly.rebuilds.contains(member));
    absent.for_each(|member| devices.forget_spare(member));
    let same = devices.superblock().agrees(&assembly.superblock);
    if !(same && defect.is(Defect::IgnoresMarks)) {
        let built = assembly.built || assembly.completes_for_all();
        devices.start_generation(assembly.highest, built.then_some(assembly.identity));
        let skips = |device: Device, copy: usize| {
            keeps && assembly.damaged().any(|damaged| damaged == (device, copy))
        };
        devices.write(media, &used, &skips)?;
    }
    // Only now: a change that was cut short before this start counts on what the records say.
    devices.records.write_over(media)?;
    devices.start_complete();
    Ok(())
}

/// The flushes of the members. Of what replaces a member that has failed nothing is known.
fn flushes_of(settings: &Settings, geometry: &Geometry, failed: &[u16]) -> Flushes {
    let mut flushes = Flushes::new(geometry.disks, settings.flush_limits);
    for (member, how) in (0..geometry.disks).zip(&settings.durability) {
        if !failed.contains(&member) {
            flushes.set(member, *how);
        }
    }
    flushes
}

impl Volume {
    /// Continues the rebuilds of the last run from their checkpoints.
    fn resume_rebuilds(&mut self, assembly: &Assembly) {
        for member in assembly.rebuilds.iter().copied() {
            let from = self.devices.records.below(member);
            self.rebuilds.resume(member, self.devices.member(member));
            self.step(Event::Rebuild { disk: DiskId(member), from });
        }
    }

    /// The pages of an open destage whose rows may have been written: those whose parity was
    /// logged, and full stripes, which need no log. Without parity, all.
    fn maybe_written(&self, group: GroupId, pages: DestagePages<'_>) -> Vec<u64> {
        let geometry = self.controller().geometry();
        if geometry.level.parities() == 0 {
            return pages.dirty.to_vec();
        }
        let first = pages_of_group(geometry, group).first;
        let mut written = vec![0; pages.dirty.len()];
        for at in geometry.rows(group, pages.dirty) {
            let strips = 0..geometry.data_strips() as u16;
            let bits: Vec<u64> = strips.map(|strip| geometry.bit_of(&at, strip)).collect();
            let full = bits.iter().all(|bit| pages.is_dirty(*bit) && !pages.is_incomplete(*bit));
            if full || self.log.parity_of(first, at.row).is_some() {
                let dirty = bits.into_iter().filter(|bit| pages.is_dirty(*bit));
                dirty.for_each(|bit| written[(bit / 64) as usize] |= 1 << (bit % 64));
            }
        }
        written
    }

    /// Takes over the dirty pages of the last run, and redoes the destages that it left open.
    fn take_over(&mut self, dirty: &[u64]) {
        for page in dirty {
            let complete = self.pages.current(*page).is_none_or(|held| held.is_complete());
            self.engine.controller_mut().restore(Page(*page), !complete);
        }
        let per_group = self.controller().geometry().pages_per_group();
        for open in self.log.open_destages() {
            let first = open.pages.first.0;
            let words = per_group.div_ceil(64) as usize;
            let (mut mask, mut incomplete) = (vec![0u64; words], vec![0u64; words]);
            for bit in 0..per_group {
                let Some(held) = self.pages.in_flight(first + bit) else { continue };
                mask[(bit / 64) as usize] |= 1 << (bit % 64);
                incomplete[(bit / 64) as usize] |= u64::from(!held.is_complete()) << (bit % 64);
            }
            if mask.iter().all(|word| *word == 0) {
                self.log.release(open.pages, open.through);
                continue;
            }
            let group = GroupId(first / per_group);
            self.destages.adopt(group, open.through);
            let mut actions = Vec::new();
            let doubt =
                self.maybe_written(group, DestagePages { dirty: &mask, incomplete: &incomplete });
            let pages = (&mask[..], incomplete);
            self.engine.controller_mut().redo(group, pages, doubt, &mut actions);
            actions.into_iter().for_each(|action| self.act(action, None));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_may_be_opened_without_a_device_that_cannot_be_written_or_has_no_record() {
        let device = Device::Member(3);
        let unwritable = OpenError::from(LogError::Unwritable(device, IoError::FULL));
        assert_eq!(unwritable, OpenError::Unwritable(device, IoError::FULL));
        let why = NoSuperblock::Unwritable(IoError::FULL);
        assert_eq!(unwritable.unusable(), Some((device, why)));
        let unknown = OpenError::LostPagesUnknown(device);
        assert_eq!(unknown.unusable(), Some((device, NoSuperblock::LostPagesUnknown)));
        let full = OpenError::from(LogError::Full);
        assert_eq!((&full, full.unusable()), (&OpenError::Log(LogError::Full), None));
    }

    #[test]
    fn an_error_says_which_device_it_is_of_and_why() {
        let device = Device::Member(3);
        for (error, words) in [
            (OpenError::Unwritable(device, IoError::FULL), "member 3 cannot be written: "),
            (OpenError::LostPagesUnknown(device), "member 3: its record of lost pages"),
            (OpenError::Short { device, bytes: 512, needs: 4096 }, "member 3 has 512 bytes"),
            (OpenError::Log(LogError::Full), "no free block"),
            (OpenError::Features(0x14), "bits 0x14"),
            (OpenError::Config(ConfigError::NoNvs), "at least 1 page"),
        ] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
