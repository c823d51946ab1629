//! Creation and recovery: everything before the first request, one operation at a
//! time (docs/durability.md, "Recovery"; docs/nvs-format.md, "Reading the log").

use crate::Buffer;
use crate::assemble::Assembly;
use crate::crc::crc32c;
use crate::defect::Defect;
use crate::faults::{Faults, SUPERBLOCKS};
use crate::io::{Device, IoError, Media};
use crate::log::{ANCHORS, Log, RING, Start};
use crate::memory::{Memory, PAGE};
use crate::rebuild::Rebuild;
use crate::records::Record as MemberRecord;
use crate::request::Alarm;
use crate::settings::Settings;
use crate::volume::Volume;
use destage_engine::array::geometry::Geometry;
use destage_engine::array::safe::is_set;
use destage_engine::controller::{Config, ConfigError, Controller};
use destage_engine::destage::phases::Protocol;
use destage_engine::destage::{Count, DestageConfig, Issue};
use destage_engine::dispatch::Order;
use destage_engine::event::Event;
use destage_engine::readcache::ReadPolicyError;
use destage_engine::sequential::DetectorKind;
use destage_engine::units::{DiskId, GroupId, Page, PageCount};
use destage_nvslog::LogId;
use destage_nvslog::anchor::Anchor;
use destage_nvslog::commit::{self, Claim, Header, Kind};
use destage_nvslog::contents::{Contents, Fragment};
use destage_nvslog::record::Record;
use destage_nvslog::recover::{RecoverError, Recovered, Recovery, Repair};
use destage_nvslog::space::{LogSpace, Purpose};
use destage_nvslog::superblock::{NOT_JOINED, NVS_MAX, REBUILDS_MAX, Role, Superblock, Uuid};

/// Blocks of the ring for so many dirty pages (docs/nvs-format.md, "Bytes written per byte").
#[must_use]
pub fn ring_blocks_of(dirty_pages: u64, block_bytes: u32) -> u64 {
    let per_page = if block_bytes == 512 { 27 } else { 6 };
    // Small logs need room for the reserve: a few commits of an eighth of the ring.
    (dirty_pages * per_page).max(1024)
}

/// Dirty pages that an NVS device of so many bytes can hold; 0: it is too small.
#[must_use]
pub fn dirty_pages_of(device_bytes: u64, block_bytes: u32) -> u64 {
    let blocks = device_bytes.saturating_sub(RING) / u64::from(block_bytes);
    let per_page = if block_bytes == 512 { 27 } else { 6 };
    if blocks < ring_blocks_of(1, block_bytes) { 0 } else { blocks / per_page }
}

/// An array to be created.
#[derive(Clone, Debug)]
pub struct Creation {
    /// The array, checked.
    pub geometry: Geometry,
    /// Bytes in a log block: 512 or 4,096.
    pub block_bytes: u32,
    /// Most dirty pages.
    pub dirty_pages_max: u64,
    /// UUID of the array.
    pub array: Uuid,
    /// UUID of the log.
    pub log: Uuid,
    /// UUIDs of the members.
    pub members: Vec<Uuid>,
    /// UUIDs of the NVS devices: none, one or two.
    pub nvs: Vec<Uuid>,
}

/// Writes superblocks, anchors and the first commit. The members' data is not touched: their
/// redundancy must be right already (all zeros is), or be made so by `scrub`.
///
/// # Errors
/// The device that failed, and how.
pub fn create(media: &mut dyn Media, creation: &Creation) -> Result<(), (Device, IoError)> {
    let log = LogId(creation.log);
    let ring_blocks = ring_blocks_of(creation.dirty_pages_max, creation.block_bytes);
    let superblock = Superblock {
        generation: 1,
        base: 0,
        joined: 0,
        array: creation.array,
        device: creation.array,
        log,
        role: Role::Member(0),
        geometry: creation.geometry,
        nvs: core::array::from_fn(|place| creation.nvs.get(place).copied()),
        block_bytes: creation.block_bytes,
        ring_blocks,
        dirty_pages_max: creation.dirty_pages_max,
        failed: [0; 128],
        rebuilds: [None; REBUILDS_MAX],
        lost_pages: false,
    };
    let anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };
    let mut space = LogSpace::new(ring_blocks, anchor);
    let mut first = Vec::new();
    open_epoch(&mut space, 1, 0, log, creation.block_bytes, &mut first);
    for copy in 0..creation.nvs.len() as u16 {
        let device = Device::Nvs(copy);
        let mut write = |offset, bytes: &[u8]| {
            write_padded(media, device, offset, bytes).map_err(|error| (device, error))
        };
        write(RING, &first)?;
        for at in ANCHORS {
            write(at, &anchor.encode(log))?;
        }
        media.flush(device).map_err(|error| (device, error))?;
    }
    let faults = Faults::new(superblock, creation.members.clone(), creation.nvs.clone());
    // The members last: only they make an array of it.
    let nvs = (0..creation.nvs.len() as u16).map(Device::Nvs);
    let members = (0..creation.members.len() as u16).map(Device::Member);
    for device in nvs.chain(members) {
        let bytes = faults.superblock_of(device).encode();
        for at in SUPERBLOCKS {
            write_padded(media, device, at, &bytes).map_err(|error| (device, error))?;
            media.flush(device).map_err(|error| (device, error))?;
        }
    }
    Ok(())
}

fn write_padded(
    media: &mut dyn Media,
    device: Device,
    offset: u64,
    bytes: &[u8],
) -> Result<(), IoError> {
    let mut buffer = Buffer::zeroed(bytes.len().next_multiple_of(PAGE));
    buffer[..bytes.len()].copy_from_slice(bytes);
    // A commit may be shorter than a page, and what is behind it is the log's.
    let length = if offset < RING { buffer.len() } else { bytes.len() };
    media.write(device, offset, &buffer[..length])
}

/// Appends the bytes of the commit that opens an epoch; its block.
fn open_epoch(
    space: &mut LogSpace,
    epoch: u32,
    last_version: u64,
    log: LogId,
    block_bytes: u32,
    out: &mut Vec<u8>,
) -> u64 {
    let place = space.allocate(1, Purpose::Housekeeping).expect("one block is always free");
    assert!(place.padding.is_none(), "one block needs no padding");
    let durable_through = space.durable();
    let header = Header {
        epoch,
        sequence: place.sequence,
        durable_through,
        block: place.block,
        last_version,
        kind: Kind::Opens,
    };
    commit::encode(&header, &[], log, block_bytes, out);
    place.block
}

/// Why an assembled array cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// A device cannot be written. Nothing was served: assemble again with this device unusable
    /// ([`crate::NoSuperblock::Unwritable`]), from superblocks that are read again.
    Unwritable(Device, IoError),
    /// No anchor of the log is whole.
    NoAnchor,
    /// The log is damaged: not what a crash leaves.
    Log(RecoverError),
    /// The log holds what this program does not write: parts of pages, or more than fits.
    Contents(&'static str),
    /// The settings make no array.
    Config(ConfigError),
    /// The settings make no read cache.
    ReadCache(ReadPolicyError),
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            OpenError::Unwritable(device, error) => {
                write!(f, "{device} cannot be written: {error}")
            }
            OpenError::NoAnchor => write!(
                f,
                "no anchor of the NVS log is whole: see `destage recover --inspect` before \
                 anything else"
            ),
            OpenError::Log(error) => write!(
                f,
                "{error}. Nothing was changed. `destage recover --inspect` shows what can be read; \
                 to use that and lose the rest: destage serve ... --use-nvs PATH --accept-loss"
            ),
            OpenError::Contents(what) => write!(f, "the NVS log holds {what}"),
            OpenError::Config(error) => error.fmt(f),
            OpenError::ReadCache(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

/// Recovers the log and makes the volume that continues it. Interrupted destages are redone by
/// its first operations: serve it when [`Volume::ready`].
///
/// # Errors
/// See [`OpenError`]. Nothing is changed by one but for repairs from an intact NVS device; with
/// [`OpenError::Unwritable`] the others may have what a crash in a start leaves.
pub fn open(
    media: &mut dyn Media,
    assembly: &Assembly,
    settings: Settings,
) -> Result<Volume, OpenError> {
    let superblock = assembly.superblock;
    let controller = Controller::new(&config(&superblock, &settings)).map_err(OpenError::Config)?;
    let (start, memory, pages) = match assembly.copies.is_empty() {
        true => (empty_log(&superblock), Memory::new(settings.pages), Vec::new()),
        false => recover(media, assembly, &settings)?,
    };
    let mut faults = Faults::new(superblock, assembly.members.clone(), assembly.nvs.clone());
    faults.since = assembly.since.clone();
    for member in &assembly.failed {
        faults.superblock.mark(*member, true);
    }
    let mut log = Log::new(start);
    log.defect = settings.defect;
    let mut volume = Volume::from_parts(controller, settings, log, memory, faults);
    volume.set_rebuild_limits(volume.settings.rebuild);
    for member in &assembly.failed {
        let failed = Event::DiskFailed(DiskId(*member));
        volume.controller.step(volume.ops.now(), failed, &mut Vec::new());
    }
    volume.record_devices(media, assembly)?;
    volume.read_records(media, assembly);
    // Destages that were interrupted are redone with what is whole of each member, and only then
    // do windows read rows.
    volume.pause(true);
    volume.resume_rebuilds(assembly);
    volume.take_over(&pages)?;
    let read_cache = volume.settings.read_cache.take();
    volume.set_read_cache(read_cache).map_err(OpenError::ReadCache)?;
    volume.pause(false);
    Ok(volume)
}

/// Makes an empty device a spare of an array, of which it is given any superblock.
///
/// # Errors
/// It failed.
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
        nvs: [None; NVS_MAX],
        device: uuid,
        role: Role::Spare,
        failed: [0; 128],
        rebuilds: [None; REBUILDS_MAX],
        lost_pages: false,
        ..*array
    };
    for at in SUPERBLOCKS {
        write_padded(media, device, at, &spare.encode())?;
        media.flush(device)?;
    }
    Ok(())
}

fn config(superblock: &Superblock, settings: &Settings) -> Config {
    Config {
        geometry: superblock.geometry,
        nvs_pages: PageCount(superblock.dirty_pages_max),
        policy: settings.policy.clone(),
        rate: settings.rate.clone(),
        destage: DestageConfig {
            queue_depth: settings.queue_depth,
            count: Count::Runs,
            issue: Issue::Group,
            protocol: Protocol::Safe,
            defer: false,
        },
        detector: DetectorKind::Pages,
        sequential_threshold: 16,
        window: settings.window,
        order: Order::ReadsFirst { bound: 8 },
    }
}

fn empty_log(superblock: &Superblock) -> Start {
    let anchor = Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };
    Start {
        id: superblock.log,
        block_bytes: superblock.block_bytes,
        copies: Vec::new(),
        space: LogSpace::new(superblock.ring_blocks, anchor),
        contents: Contents::default(),
        epoch: 1,
    }
}

/// Pages to be held again, oldest write first.
type Pages = Vec<u64>;

fn recover(
    media: &mut dyn Media,
    assembly: &Assembly,
    settings: &Settings,
) -> Result<(Start, Memory, Pages), OpenError> {
    let Superblock { log, block_bytes, ring_blocks, .. } = assembly.superblock;
    let copies = &assembly.copies;
    let anchor = choose_anchor(media, copies, log).ok_or(OpenError::NoAnchor)?;
    let mut recovery = Recovery::new(log, block_bytes, ring_blocks, copies.len(), anchor)
        .map_err(OpenError::Log)?;
    recovery.errors_end_the_log = settings.defect.is(Defect::EndsLogAtErrors);
    recovery.takes_what_is_left = assembly.takes_what_is_left();
    let ahead = copies.iter().map(|_| None).collect();
    let bad = vec![0..0; copies.len()];
    let mut ring = Ring { media, copies, block_bytes, ring_blocks, log, ahead, bad };
    while let Some(want) = recovery.want() {
        let bytes = ring.look(want.copy, want.block, want.blocks);
        recovery.give(bytes).map_err(OpenError::Log)?;
    }
    let Recovered { contents, mut space, mut epoch, repairs, .. } = recovery.finish();
    for repair in &repairs {
        ring.repair(repair)?;
    }
    ring.flush()?;
    let mut anchor = anchor;
    if assembly.takes_what_is_left() {
        // What is behind the end is given up: no later start may take it for part of the log.
        epoch = epoch.max(ring.highest_epoch());
        let durable_through = space.next_sequence() - 1;
        anchor = Anchor { number: anchor.number + 1, durable_through, ..anchor };
        space.restated(anchor);
    }
    // A device may have an older anchor only, whose tail the next commits may overwrite.
    ring.anchor(anchor)?;
    let mut first = Vec::new();
    let last_version = contents.last_version();
    let block = open_epoch(&mut space, epoch + 1, last_version, log, block_bytes, &mut first);
    ring.write(block, &first)?;
    ring.flush()?;
    space.made_durable(space.next_sequence() - 1);
    let mut memory = Memory::new(settings.pages);
    let mut pages = Vec::new();
    for intent in contents.intents() {
        for page in intent.pages.first.0..intent.pages.end() {
            if ring.load(page, &contents.frozen(Page(page)), &mut memory)?.is_some() {
                memory.freeze(page);
            }
        }
    }
    // In the order of the ring, which is read in long runs.
    let mut held: Vec<_> = contents.pages().collect();
    held.sort_by_key(|(_, fragments)| fragments.first().and_then(|f| f.stored).map(|s| s.block));
    for (page, fragments) in held {
        pages.extend(ring.load(page.0, &fragments, &mut memory)?.map(|version| (version, page.0)));
    }
    pages.sort_unstable();
    let pages = pages.into_iter().map(|(_, page)| page).collect();
    let copies = copies.clone();
    let start = Start { id: log, block_bytes, copies, space, contents, epoch: epoch + 1 };
    Ok((start, memory, pages))
}

pub(crate) fn choose_anchor(media: &mut dyn Media, copies: &[u16], log: LogId) -> Option<Anchor> {
    let mut read = Vec::new();
    for copy in copies {
        for at in ANCHORS {
            let mut bytes = Buffer::zeroed(PAGE);
            if media.read(Device::Nvs(*copy), at, &mut bytes).is_ok() {
                read.push(bytes);
            }
        }
    }
    Anchor::choose(read.iter().map(|bytes| &bytes[..]), log)
}

/// The ring on all NVS devices.
struct Ring<'a> {
    media: &'a mut dyn Media,
    copies: &'a [u16],
    block_bytes: u32,
    ring_blocks: u64,
    log: LogId,
    /// By device: blocks read ahead, and the first of them.
    ahead: Vec<Option<(u64, Buffer)>>,
    /// By device: blocks that could not be read ahead. No more of them are read at once than are
    /// asked for: each try may take the device seconds.
    bad: Vec<core::ops::Range<u64>>,
}

/// Bytes read at once.
const AHEAD_BYTES: u64 = 4 << 20;

impl Ring<'_> {
    fn offset(&self, block: u64) -> u64 {
        RING + block * u64::from(self.block_bytes)
    }

    fn write(&mut self, block: u64, bytes: &[u8]) -> Result<(), OpenError> {
        self.forget();
        let offset = self.offset(block);
        let bytes = Buffer::copy_of(bytes);
        for device in self.copies.iter().map(|copy| Device::Nvs(*copy)) {
            self.media
                .write(device, offset, &bytes)
                .map_err(|error| OpenError::Unwritable(device, error))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), OpenError> {
        for device in self.copies.iter().map(|copy| Device::Nvs(*copy)) {
            self.media.flush(device).map_err(|error| OpenError::Unwritable(device, error))?;
        }
        Ok(())
    }

    /// Puts the anchor that counts wherever another is.
    fn anchor(&mut self, anchor: Anchor) -> Result<(), OpenError> {
        for at in ANCHORS {
            for device in self.copies.iter().map(|copy| Device::Nvs(*copy)) {
                let mut bytes = Buffer::zeroed(PAGE);
                let read = self.media.read(device, at, &mut bytes);
                if read.is_ok() && Anchor::decode(&bytes, self.log) == Some(anchor) {
                    continue;
                }
                write_padded(self.media, device, at, &anchor.encode(self.log))
                    .map_err(|error| OpenError::Unwritable(device, error))?;
            }
            self.flush()?;
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.ahead.iter_mut().for_each(|ahead| *ahead = None);
    }

    fn read(&mut self, copy: usize, block: u64, blocks: u64) -> Option<Buffer> {
        self.look(copy, block, blocks).map(Buffer::copy_of)
    }

    /// The highest epoch of any commit that is still in the ring, in the log or not.
    fn highest_epoch(&mut self) -> u32 {
        let (log, block_bytes) = (self.log, self.block_bytes);
        let mut highest = 0;
        for copy in 0..self.copies.len() {
            for block in 0..self.ring_blocks {
                let claim = self.look(copy, block, 1).and_then(|b| Claim::read(b, block_bytes));
                let Some(claim) = claim else { continue };
                let blocks = claim.descriptor_blocks(block_bytes);
                let descriptor = (block + blocks <= self.ring_blocks)
                    .then(|| self.look(copy, block, blocks))
                    .flatten();
                if descriptor.is_some_and(|bytes| claim.holds(bytes, log, block_bytes)) {
                    highest = highest.max(claim.header.epoch);
                }
            }
        }
        highest
    }

    /// The same where it was read ahead to.
    fn look(&mut self, copy: usize, block: u64, blocks: u64) -> Option<&[u8]> {
        let bytes = |blocks: u64| (blocks * u64::from(self.block_bytes)) as usize;
        let place = |ahead: &Option<(u64, Buffer)>| {
            let (first, chunk) = ahead.as_ref()?;
            let at = bytes(block.checked_sub(*first)?);
            (at + bytes(blocks) <= chunk.len()).then_some(at..at + bytes(blocks))
        };
        if place(&self.ahead[copy]).is_none() {
            let used = self.ahead[copy].take().map(|(_, chunk)| chunk.whole());
            let mut chunk = used.unwrap_or_else(|| Buffer::zeroed(0));
            let bad = &self.bad[copy];
            let end = match block {
                _ if bad.contains(&block) => block,
                _ if block < bad.start => bad.start,
                _ => self.ring_blocks,
            };
            let many = (AHEAD_BYTES / u64::from(self.block_bytes)).min(end - block);
            // Where not all of it can be read, what is wanted perhaps can.
            let offset = self.offset(block);
            let device = Device::Nvs(self.copies[copy]);
            let mut read = |length: u64| {
                let length = bytes(length);
                if chunk.capacity() < length {
                    chunk = Buffer::zeroed(length);
                }
                chunk.set_len(length);
                self.media.read(device, offset, &mut chunk).is_ok()
            };
            if many <= blocks || !read(many) {
                if many > blocks {
                    self.bad[copy] = block..block + many;
                }
                if !read(blocks) {
                    return None;
                }
            }
            self.ahead[copy] = Some((block, chunk));
        }
        let at = place(&self.ahead[copy])?;
        self.ahead[copy].as_ref().map(|(_, chunk)| &chunk[at])
    }

    /// A payload from whichever device has it whole.
    fn payload(&mut self, block: u64, blocks: u64, crc: u32) -> Result<Buffer, OpenError> {
        let whole = (0..self.copies.len())
            .filter_map(|copy| self.read(copy, block, blocks))
            .find(|bytes| crc32c(bytes) == crc);
        whole.ok_or(OpenError::Contents("a payload that no device has whole any more"))
    }

    /// Copies what one device lacks of a commit from those that have it.
    fn repair(&mut self, repair: &Repair) -> Result<(), OpenError> {
        self.forget();
        let mut whole: Option<(Claim, Buffer)> = None;
        for copy in 0..self.copies.len() {
            let Some(bytes) = self.read(copy, repair.block, repair.blocks) else { continue };
            let Some(claim) = Claim::read(&bytes, self.block_bytes) else { continue };
            let same = claim.header.sequence == repair.sequence
                && claim.header.block == repair.block
                && claim.holds(&bytes, self.log, self.block_bytes)
                && claim.blocks(self.block_bytes) == repair.blocks;
            let newer =
                whole.as_ref().is_none_or(|(best, _)| claim.header.epoch > best.header.epoch);
            if same && newer {
                whole = Some((claim, bytes));
            }
        }
        let lost = OpenError::Contents("a commit that no device has whole any more");
        let (claim, mut bytes) = whole.ok_or(lost)?;
        let records = claim
            .records(&bytes, self.block_bytes)
            .map_err(|_| OpenError::Contents("a record that is none"))?;
        let mut block = repair.block + claim.descriptor_blocks(self.block_bytes);
        for record in &records {
            let Record::Data { crc, .. } = record else { continue };
            let blocks = record.payload_blocks(self.block_bytes);
            let payload = self.payload(block, blocks, *crc)?;
            let at = ((block - repair.block) * u64::from(self.block_bytes)) as usize;
            bytes[at..at + payload.len()].copy_from_slice(&payload);
            block += blocks;
        }
        let read = claim.read_blocks(self.block_bytes) * u64::from(self.block_bytes);
        let device = Device::Nvs(self.copies[repair.copy]);
        self.media
            .write(device, self.offset(repair.block), &bytes[..read as usize])
            .map_err(|error| OpenError::Unwritable(device, error))
    }

    /// Loads a page into memory; its version, if the log has it.
    fn load(
        &mut self,
        page: u64,
        fragments: &[Fragment],
        memory: &mut Memory,
    ) -> Result<Option<u64>, OpenError> {
        let [fragment] = fragments else {
            return match fragments {
                [] => Ok(None),
                _ => Err(OpenError::Contents("parts of pages, which this program does not write")),
            };
        };
        match fragment.stored {
            None => memory.put_zeros(page, fragment.version),
            Some(stored) if usize::from(fragment.bytes) == PAGE => {
                let bytes = self.payload(stored.block, stored.blocks, stored.crc)?;
                memory.put(page, fragment.version, &bytes[..PAGE]);
            }
            Some(_) => {
                return Err(OpenError::Contents(
                    "parts of pages, which this program does not write",
                ));
            }
        }
        Ok(Some(fragment.version))
    }
}

impl Volume {
    /// Writes down which devices are used from now on: the mark of this start.
    fn record_devices(
        &mut self,
        media: &mut dyn Media,
        assembly: &Assembly,
    ) -> Result<(), OpenError> {
        self.repair_superblocks(media, assembly)?;
        self.name_nvs();
        // A spare that is away now must not go on from where it was when it is back (D12).
        let named = assembly.superblock.rebuilds.iter().flatten().map(|(member, _)| *member);
        let away: Vec<u16> = named.filter(|member| !assembly.rebuilds.contains(member)).collect();
        away.iter().for_each(|member| {
            self.faults.superblock.set_rebuild(*member, None);
        });
        let same = self.faults.superblock.agrees(&assembly.superblock);
        if !self.log.defect.is(Defect::IgnoresMarks) || !same {
            let superblock = &mut self.faults.superblock;
            if assembly.built {
                superblock.base = superblock.generation;
            }
            // A number that a crash left on some device is not used again.
            superblock.generation = assembly.highest + 1;
            self.faults.note_joined();
            self.write_devices(media, assembly)?;
        }
        self.faults.complete = self.faults.superblock.generation;
        Ok(())
    }

    /// Writes damaged copies of superblocks again, before anything newer is written: one that is
    /// newer and damaged would look as if all other devices had been away.
    fn repair_superblocks(
        &mut self,
        media: &mut dyn Media,
        assembly: &Assembly,
    ) -> Result<(), OpenError> {
        if self.log.defect.is(Defect::KeepsDamagedSuperblocks) {
            return Ok(());
        }
        for (device, copy, superblock) in &assembly.damaged {
            let built = assembly.built && superblock.generation == assembly.superblock.generation;
            let mut repaired = *superblock;
            if *copy == 1 && !built {
                // A second copy of a try on which nothing was built would say that something was.
                repaired.generation = superblock.base;
            }
            write_padded(media, *device, SUPERBLOCKS[*copy], &repaired.encode())
                .and_then(|()| media.flush(*device))
                .map_err(|error| OpenError::Unwritable(*device, error))?;
            self.alarms.push(Alarm::SuperblockRepaired { device: *device, copy: *copy });
        }
        Ok(())
    }

    /// The superblock names the NVS devices in use.
    pub(crate) fn name_nvs(&mut self) {
        let faults = &mut self.faults;
        faults.superblock.nvs = core::array::from_fn(|place| {
            let used = self.log.copies.contains(&(place as u16));
            used.then(|| faults.nvs[place])
        });
    }

    /// What members know of themselves, where any may know something.
    fn read_records(&mut self, media: &mut dyn Media, assembly: &Assembly) {
        for member in 0..self.faults.members.len() as u16 {
            let rebuilt = assembly.rebuilds.contains(&member);
            let whole = assembly.superblock.lost_pages && !assembly.failed.contains(&member);
            if rebuilt || whole {
                let device = self.faults.members[usize::from(member)];
                self.records[usize::from(member)] = MemberRecord::read(media, member, device);
            }
        }
    }

    /// Goes on with the rebuilds of the last run, from their checkpoints.
    fn resume_rebuilds(&mut self, assembly: &Assembly) {
        for member in assembly.rebuilds.iter().copied() {
            let place = usize::from(member);
            let (device, from) = (self.faults.members[place], self.records[place].below);
            self.rebuilds.push(Rebuild::resumed(member, device));
            self.step(Event::Rebuild { disk: DiskId(member), from });
        }
    }

    /// First copies on all devices, then second ones: one that has the second says that all have
    /// the first. Members that are rebuilt come last.
    fn write_devices(
        &mut self,
        media: &mut dyn Media,
        assembly: &Assembly,
    ) -> Result<(), OpenError> {
        let failed = self.controller.failed();
        let members =
            (0..self.faults.members.len() as u16).filter(|m| !failed.contains(DiskId(*m)));
        let nvs = self.log.copies.iter().map(|copy| Device::Nvs(*copy));
        let rebuilt = assembly.rebuilds.iter().copied();
        let devices: Vec<Device> = nvs.chain(members.chain(rebuilt).map(Device::Member)).collect();
        for (copy, at) in SUPERBLOCKS.into_iter().enumerate() {
            for device in devices.iter().copied() {
                let keeps = self.log.defect.is(Defect::KeepsDamagedSuperblocks);
                if keeps && assembly.damaged.iter().any(|d| (d.0, d.1) == (device, copy)) {
                    continue;
                }
                let bytes = self.faults.superblock_of(device).encode();
                write_padded(media, device, at, &bytes)
                    .and_then(|()| media.flush(device))
                    .map_err(|error| OpenError::Unwritable(device, error))?;
            }
        }
        Ok(())
    }

    /// The pages of an open intent whose rows may have been written: those whose parity was logged,
    /// and full stripes, which need no log. Where there is no parity, all.
    fn maybe_written(&self, group: GroupId, mask: &[u64]) -> Vec<u64> {
        let geometry = self.controller.geometry();
        if geometry.level.parities() == 0 {
            return mask.to_vec();
        }
        let first = Page(group.0 * geometry.pages_per_group());
        let mut written = vec![0; mask.len()];
        for at in geometry.rows(group, mask) {
            let strips = 0..geometry.data_strips() as u16;
            let bits: Vec<u64> = strips.map(|strip| geometry.bit_of(&at, strip)).collect();
            let full = bits.iter().all(|bit| is_set(mask, *bit));
            if full || self.log.contents.parity(first, at.row).is_some() {
                let dirty = bits.into_iter().filter(|bit| is_set(mask, *bit));
                dirty.for_each(|bit| written[(bit / 64) as usize] |= 1 << (bit % 64));
            }
        }
        written
    }

    /// Holds the pages of the last run again, and redoes the destages that it left open.
    fn take_over(&mut self, pages: &[u64]) -> Result<(), OpenError> {
        let held = pages.len() + self.memory.pages_flying();
        if held as u64 > self.controller.directory().capacity().0 {
            return Err(OpenError::Contents("more pages than the NVS has room for"));
        }
        pages.iter().for_each(|page| self.controller.restore(Page(*page)));
        let per_group = self.controller.geometry().pages_per_group();
        let intents: Vec<_> = self.log.contents.intents().copied().collect();
        for intent in intents {
            let first = intent.pages.first.0;
            let mut mask = vec![0u64; per_group.div_ceil(64) as usize];
            for bit in 0..per_group {
                if self.memory.flying(first + bit).is_some() {
                    mask[(bit / 64) as usize] |= 1 << (bit % 64);
                }
            }
            if mask.iter().all(|word| *word == 0) {
                self.log.release(intent.pages, intent.through);
                continue;
            }
            let group = GroupId(first / per_group);
            self.adopted.insert(group.0, intent.through);
            self.redoing += 1;
            let mut actions = Vec::new();
            let doubt = self.maybe_written(group, &mask);
            self.controller.redo(group, &mask, doubt, &mut actions);
            actions.into_iter().for_each(|action| self.act(action, crate::volume::NO_BYTES));
        }
        Ok(())
    }
}
