//! Reading the log at a start: the records that count, and the pages that only the log has
//! (docs/nvs-format.md, "Reading the log"). Also an empty log, and a new one.

use super::{ANCHORS, Log, RING, Start};
use crate::Buffer;
use crate::crc::crc32c;
use crate::defect::Defect;
use crate::io::{Device, IoError, Media, write_padded};
use crate::pages::DirtyPages;
use crate::settings::PageMemory;
use crate::store::PAGE;
use destage_engine::units::Page;
use destage_nvslog::anchor::Anchor;
use destage_nvslog::commit::{self, Claim, Header, Kind};
use destage_nvslog::contents::{Contents, HeldPage, Stored};
use destage_nvslog::record::{Pages, Record};
use destage_nvslog::recover::{Layout, Part, RecoverError, Recovered as Found, Recovery, Repair};
use destage_nvslog::space::{LogSpace, Purpose};
use destage_nvslog::superblock::Superblock;
use destage_nvslog::{EPOCHS_MAX, HEADER_BYTES, LogId, RANGE_PAGES_MAX};
use std::collections::BTreeSet;

/// The anchor of a log that was never used.
const FIRST_ANCHOR: Anchor =
    Anchor { number: 1, tail_sequence: 1, tail_block: 0, durable_through: 0 };

/// Why the log cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// A device cannot be written.
    Unwritable(Device, IoError),
    /// No anchor of the log is intact.
    NoAnchor,
    /// The log is damaged: a crash leaves nothing like it.
    Damaged(RecoverError),
    /// No device has the bytes of these dirty pages intact: how many there are, and the first.
    LostPages(u64, u64),
    /// The log has this many dirty pages, and memory may have this many.
    TooManyPages(u64, u64),
    /// No device has a part of the ring intact any more that one had just before: its block.
    LostBlock(u64),
    /// The ring has no free block.
    Full,
}

impl core::fmt::Display for LogError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            LogError::Unwritable(device, error) => write!(f, "{device} cannot be written: {error}"),
            LogError::NoAnchor => write!(
                f,
                "no anchor of the NVS log is intact: its dirty pages cannot be found without one. \
                 Nothing was changed. If no copy of the device has one: detach it, then destage \
                 serve ... --without-nvs --accept-loss (without --accept-loss it only says what is \
                 lost)"
            ),
            LogError::Damaged(error) => write!(
                f,
                "{error}. Nothing was changed. `destage recover --inspect` shows what can be read; \
                 to use that and lose the rest: destage serve ... --use-nvs PATH --accept-loss"
            ),
            LogError::LostPages(count, first) => write!(
                f,
                "the bytes of {count} dirty pages are damaged on the NVS (the first is page \
                 {first}), and no mirror has them. Nothing was changed. To give these pages up: \
                 destage serve ... --use-nvs PATH --accept-loss"
            ),
            LogError::TooManyPages(pages, most) => write!(
                f,
                "the NVS has {pages} dirty pages, and max_dirty allows {most}. Nothing was \
                 changed. Set max_dirty = {} in the configuration, or run destage recover",
                *pages * PAGE as u64
            ),
            LogError::Full => f.write_str(
                "the NVS log has no free block to start with. Nothing is lost. \
                 `destage recover --inspect` shows what it has",
            ),
            LogError::LostBlock(block) => {
                write!(f, "no NVS device has block {block} of the log intact any more")
            }
        }
    }
}

impl std::error::Error for LogError {}

/// What to recover.
pub(crate) struct Source<'a> {
    pub(crate) superblock: Superblock,
    /// NVS devices in use; none: the log starts empty.
    pub(crate) devices: &'a [u16],
    /// Most dirty pages that memory may have.
    pub(crate) dirty_pages_max: u64,
    /// The loss of what cannot be read was accepted.
    pub(crate) takes_what_is_left: bool,
    pub(crate) pages: PageMemory,
    pub(crate) defect: Defect,
}

/// What a start takes over from the last run.
pub(crate) struct Recovered {
    pub(crate) log: Log,
    /// The bytes of the pages that only the log has; those of open destages are frozen.
    pub(crate) pages: DirtyPages,
    /// The other ones of these pages, oldest write first.
    pub(crate) dirty: Vec<u64>,
}

/// Writes an empty log to new devices.
///
/// # Errors
/// The device that cannot be written.
pub(crate) fn create(
    media: &mut dyn Media,
    superblock: &Superblock,
    devices: impl Iterator<Item = u16>,
) -> Result<(), (Device, IoError)> {
    let Superblock { log, block_bytes, ring_blocks, .. } = *superblock;
    let mut space = LogSpace::new(ring_blocks, block_bytes, FIRST_ANCHOR);
    let mut first = Vec::new();
    open_epoch(&mut space, 1, 0, log, block_bytes, &mut first).expect("a new ring is free");
    for device in devices.map(Device::Nvs) {
        let failed = |error| (device, error);
        media.write(device, RING, &Buffer::copy_of(&first)).map_err(failed)?;
        for at in ANCHORS {
            write_padded(media, device, at, &FIRST_ANCHOR.encode(log)).map_err(failed)?;
        }
        media.flush(device).map_err(failed)?;
    }
    Ok(())
}

/// Marks the devices that a start uses.
pub(crate) type Mark<'a> = &'a mut dyn FnMut(&mut dyn Media) -> Result<(), (Device, IoError)>;

/// Recovers the log and makes it ready to continue. Everything is read first, then the devices are
/// marked, and only then is anything written: two starts that are interrupted, each with another
/// one of two devices, must not leave two logs.
///
/// # Errors
/// See [`LogError`]. Nothing is changed then, except with [`LogError::Unwritable`].
pub(crate) fn recover(
    media: &mut dyn Media,
    source: &Source<'_>,
    mark: Mark<'_>,
) -> Result<Recovered, LogError> {
    let unwritable = |(device, error)| LogError::Unwritable(device, error);
    if source.devices.is_empty() {
        mark(media).map_err(unwritable)?;
        return Ok(nothing(source));
    }
    let (found, loaded) = read(media, source)?;
    mark(media).map_err(unwritable)?;
    begin(media, source, found, loaded)
}

/// What the log has. Nothing is written.
fn read(media: &mut dyn Media, source: &Source<'_>) -> Result<(Found, Loaded), LogError> {
    let Superblock { log, block_bytes, ring_blocks, slots, .. } = source.superblock;
    let devices = source.devices;
    let anchor = choose_anchor(media, devices, log).ok_or(LogError::NoAnchor)?;
    let layout = Layout { log, block_bytes, ring_blocks, slots, copies: devices.len() };
    let mut recovery = Recovery::new(layout, anchor).map_err(LogError::Damaged)?;
    recovery.trusts_slots = source.defect.is(Defect::TrustsSlots);
    recovery.trusts_commits = source.defect.is(Defect::TrustsCommits);
    recovery.errors_end_the_log = source.defect.is(Defect::EndsLogAtErrors);
    recovery.takes_what_is_left = source.takes_what_is_left;
    let mut ring = Ring::new(media, devices, &source.superblock);
    while let Some(want) = recovery.want() {
        recovery.give(ring.look_at(want.copy, want.part)).map_err(LogError::Damaged)?;
    }
    let found = recovery.finish();
    let geometry = &source.superblock.geometry;
    let array_pages = geometry.volume_pages().0;
    found.check(array_pages, geometry.pages_per_group()).map_err(LogError::Damaged)?;
    let held = (found.contents.pages_held() + found.contents.pages_frozen()) as u64;
    if held > source.dirty_pages_max {
        return Err(LogError::TooManyPages(held, source.dirty_pages_max));
    }
    let loaded = load_pages(&mut ring, &found.contents, source.pages);
    if let (Some(first), false) = (loaded.lost.first(), source.takes_what_is_left) {
        return Err(LogError::LostPages(loaded.lost.len() as u64, first.0));
    }
    Ok((found, loaded))
}

/// Repairs what one device lacks, and opens the next epoch.
fn begin(
    media: &mut dyn Media,
    source: &Source<'_>,
    mut found: Found,
    loaded: Loaded,
) -> Result<Recovered, LogError> {
    let Superblock { log, block_bytes, geometry, .. } = source.superblock;
    let Loaded { mut pages, mut dirty, lost, lacking } = loaded;
    let mut ring = Ring::new(media, source.devices, &source.superblock);
    found.repairs.iter().chain(&lacking).try_for_each(|repair| ring.repair(repair))?;
    let zeros = vec![0; block_bytes as usize];
    found.to_overwrite().try_for_each(|block| ring.write(block, &zeros))?;
    let mut records = Vec::new();
    if source.takes_what_is_left {
        // What is behind the end is given up: no later start may take it for part of the log.
        let left = ring.what_is_left(found.epoch);
        found.epoch = left.epoch;
        left.to_clear.iter().try_for_each(|block| ring.write(*block, &zeros))?;
        records = found.lacking_intents(geometry.volume_pages().0, geometry.pages_per_group());
    }
    ring.flush()?;
    // A device may have an older anchor only, whose tail the next commits may overwrite. And where
    // one place has none, the other is not written before: both would be torn.
    ring.anchor(found.space.anchor())?;
    match source.takes_what_is_left {
        true => found.space.restated(),
        false => found.make_room(),
    }
    let Found { contents, mut space, epoch, .. } = found;
    ring.anchor(space.anchor())?;
    let mut first = Vec::new();
    let last_version = contents.last_version();
    let block = open_epoch(&mut space, epoch + 1, last_version, log, block_bytes, &mut first)
        .ok_or(LogError::Full)?;
    ring.write(block, &first)?;
    ring.flush()?;
    space.made_durable(space.next_sequence() - 1);
    let epoch = epoch + 1;
    // No later start may look for what was given up, and nothing of it is left here: an older copy
    // in a destage that ends with that, or a newer one, would be neither in the log nor on a disk.
    for page in &lost {
        pages.drop_current(page.0);
        pages.release(page.0);
    }
    let given_up: BTreeSet<u64> = lost.iter().map(|page| page.0).collect();
    dirty.retain(|page| !given_up.contains(page));
    records.extend(releases(&given_up, last_version));
    let superblock = &source.superblock;
    let mut appending = Appending { ring, contents, space, superblock, epoch };
    appending.append(&records)?;
    let Appending { contents, space, .. } = appending;
    let (devices, defect) = (source.devices.to_vec(), source.defect);
    let spare_slots = spare_slots(superblock);
    let start =
        Start { id: log, block_bytes, devices, space, contents, epoch, defect, spare_slots };
    Ok(Recovered { log: Log::new(start), pages, dirty })
}

/// Releases of these pages, one for each run.
fn releases(pages: &BTreeSet<u64>, through: u64) -> Vec<Record> {
    let mut runs: Vec<Pages> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some(run) if run.end() == *page && run.count < RANGE_PAGES_MAX => run.count += 1,
            _ => runs.push(Pages::new(Page(*page), 1)),
        }
    }
    runs.into_iter().map(|pages| Record::Release { pages, through }).collect()
}

/// A log to which a start appends, behind the opening commit.
struct Appending<'a> {
    ring: Ring<'a>,
    contents: Contents,
    space: LogSpace,
    superblock: &'a Superblock,
    epoch: u32,
}

impl Appending<'_> {
    /// Appends records, and makes them durable.
    fn append(&mut self, mut records: &[Record]) -> Result<(), LogError> {
        while !records.is_empty() {
            self.make_room()?;
            let count = self.commit(records)?;
            records = &records[count..];
            self.make_durable()?;
        }
        Ok(())
    }

    /// Moves live records as the log does while it is used, so that the reserve stays free for
    /// that; at most once round.
    fn make_room(&mut self) -> Result<(), LogError> {
        for _ in 0..self.space.ring_blocks() {
            let Some(commits) = self.space.evacuate(0) else { return Ok(()) };
            self.commit(&self.contents.live_in(&commits))?;
            self.make_durable()?;
        }
        Ok(())
    }

    /// Writes a commit with as many of these records as fit: how many.
    fn commit(&mut self, records: &[Record]) -> Result<usize, LogError> {
        let (space, block_bytes) = (&mut self.space, self.superblock.block_bytes);
        // Without padding: the end of the ring cuts it short.
        let most = space.commit_blocks_max().min(space.contiguous_blocks());
        let most = (most * u64::from(block_bytes)) as usize;
        let mut bytes = HEADER_BYTES;
        let fits = |record: &&Record| {
            bytes += record.encoded_bytes();
            bytes <= most
        };
        let records = &records[..records.iter().take_while(fits).count()];
        let bytes = HEADER_BYTES + records.iter().map(Record::encoded_bytes).sum::<usize>();
        let blocks = (bytes as u64).div_ceil(u64::from(block_bytes));
        let place = space.allocate(blocks, Purpose::Housekeeping).ok_or(LogError::Full)?;
        for record in records {
            let applied = self.contents.apply(record, place.sequence, space);
            applied.expect("of what is held");
        }
        let header = Header {
            epoch: self.epoch,
            sequence: place.sequence,
            durable_through: space.durable(),
            block: place.block,
            last_version: self.contents.last_version(),
            kind: Kind::Plain,
        };
        let mut out = Vec::new();
        commit::encode(&header, records, self.superblock.log, block_bytes, &mut out);
        self.ring.write(place.block, &out)?;
        Ok(records.len())
    }

    /// Makes what was appended durable, and frees what it killed.
    fn make_durable(&mut self) -> Result<(), LogError> {
        self.ring.flush()?;
        self.space.made_durable(self.space.next_sequence() - 1);
        if let Some(anchor) = self.space.anchor_due(true, None) {
            self.ring.anchor(anchor)?;
            self.space.anchored(anchor);
        }
        Ok(())
    }
}

/// What is in the ring besides the log.
struct Left {
    /// The highest of any intact commit that leaves room for the next ones, the log's own included.
    epoch: u32,
    /// Blocks that a device cannot read: they may be readable later, and say something then. What
    /// the log has of them was repaired before. And commits whose epoch leaves no room.
    to_clear: Vec<u64>,
}

/// Slots besides those of the most dirty pages.
fn spare_slots(superblock: &Superblock) -> usize {
    (u64::from(superblock.slots) - superblock.dirty_pages_max) as usize
}

/// A log without devices.
fn nothing(source: &Source<'_>) -> Recovered {
    let Superblock { log, block_bytes, ring_blocks, .. } = source.superblock;
    let log = Log::new(Start {
        id: log,
        block_bytes,
        devices: Vec::new(),
        space: LogSpace::new(ring_blocks, block_bytes, FIRST_ANCHOR),
        contents: Contents::default(),
        epoch: 1,
        defect: source.defect,
        spare_slots: spare_slots(&source.superblock),
    });
    Recovered { log, pages: DirtyPages::new(source.pages), dirty: Vec::new() }
}

/// The pages that only the log has.
struct Loaded {
    pages: DirtyPages,
    /// Without those of open destages; oldest write first.
    dirty: Vec<u64>,
    /// Pages whose bytes no device has intact.
    lost: Vec<Page>,
    /// Slots that one device lacks and another has.
    lacking: Vec<Repair>,
}

/// Loads the pages that only the log has, in the order of slots, from every device.
fn load_pages(ring: &mut Ring<'_>, contents: &Contents, how: PageMemory) -> Loaded {
    let mut loaded = Loaded {
        pages: DirtyPages::new(how),
        dirty: Vec::new(),
        lost: Vec::new(),
        lacking: Vec::new(),
    };
    let slot = |(_, held): &(Page, HeldPage)| held.stored.map(|stored| stored.slot);
    let mut frozen: Vec<_> = contents.frozen_pages().collect();
    frozen.sort_by_key(slot);
    for (page, held) in frozen {
        if ring.load(page, &held, &mut loaded) {
            loaded.pages.freeze(page.0);
        }
    }
    let mut held: Vec<_> = contents.pages().collect();
    held.sort_by_key(slot);
    let mut dirty = Vec::new();
    for (page, held) in held {
        if ring.load(page, &held, &mut loaded) {
            dirty.push((held.version, page.0));
        }
    }
    dirty.sort_unstable();
    loaded.dirty = dirty.into_iter().map(|(_, page)| page).collect();
    loaded
}

pub(super) fn choose_anchor(media: &mut dyn Media, devices: &[u16], log: LogId) -> Option<Anchor> {
    let mut read = Vec::new();
    for number in devices {
        for at in ANCHORS {
            let mut bytes = Buffer::zeroed(PAGE);
            if media.read(Device::Nvs(*number), at, &mut bytes).is_ok() {
                read.push(bytes);
            }
        }
    }
    Anchor::choose(read.iter().map(|bytes| &bytes[..]), log)
}

/// Ring and slots on all NVS devices.
pub(super) struct Ring<'a> {
    media: &'a mut dyn Media,
    devices: &'a [u16],
    block_bytes: u32,
    ring_blocks: u64,
    /// Behind the last slot, in blocks.
    end_block: u64,
    log: LogId,
    /// By device: blocks read ahead, and the first of them.
    ahead: Vec<Option<(u64, Buffer)>>,
    /// By device: blocks that could not be read ahead. They are read only as they are needed,
    /// because each try may take the device seconds.
    bad: Vec<core::ops::Range<u64>>,
}

/// Bytes read at once.
const AHEAD_BYTES: u64 = 4 << 20;

impl<'a> Ring<'a> {
    pub(super) fn new(media: &'a mut dyn Media, devices: &'a [u16], of: &Superblock) -> Ring<'a> {
        let Superblock { log, block_bytes, ring_blocks, slots, .. } = *of;
        let ahead = devices.iter().map(|_| None).collect();
        let bad = vec![0..0; devices.len()];
        let end_block = ring_blocks + u64::from(slots) * (PAGE as u64 / u64::from(block_bytes));
        Ring { media, devices, block_bytes, ring_blocks, end_block, log, ahead, bad }
    }

    /// A part as one device has it; `None`: it cannot be read.
    pub(super) fn look_at(&mut self, copy: usize, part: Part) -> Option<&[u8]> {
        match part {
            Part::Ring { block, blocks } => self.look(copy, block, blocks),
            Part::Slot(slot) => self.look_at_slot(copy, slot),
        }
    }

    /// Whether one device at least has the bytes of a page.
    pub(super) fn has(&mut self, held: &HeldPage) -> bool {
        let Some(Stored { slot, crc }) = held.stored else { return true };
        (0..self.devices.len())
            .any(|copy| self.look_at_slot(copy, slot).is_some_and(|bytes| crc32c(bytes) == crc))
    }

    fn offset(&self, block: u64) -> u64 {
        RING + block * u64::from(self.block_bytes)
    }

    fn write(&mut self, block: u64, bytes: &[u8]) -> Result<(), LogError> {
        self.forget();
        let offset = self.offset(block);
        let bytes = Buffer::copy_of(bytes);
        for device in self.devices.iter().map(|number| Device::Nvs(*number)) {
            self.media
                .write(device, offset, &bytes)
                .map_err(|error| LogError::Unwritable(device, error))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), LogError> {
        for device in self.devices.iter().map(|number| Device::Nvs(*number)) {
            self.media.flush(device).map_err(|error| LogError::Unwritable(device, error))?;
        }
        Ok(())
    }

    /// Writes the anchor that counts wherever another one is, or none.
    fn anchor(&mut self, anchor: Anchor) -> Result<(), LogError> {
        for at in ANCHORS {
            let mut written = false;
            for device in self.devices.iter().map(|number| Device::Nvs(*number)) {
                let mut bytes = Buffer::zeroed(PAGE);
                let read = self.media.read(device, at, &mut bytes);
                if read.is_ok() && Anchor::decode(&bytes, self.log) == Some(anchor) {
                    continue;
                }
                write_padded(self.media, device, at, &anchor.encode(self.log))
                    .map_err(|error| LogError::Unwritable(device, error))?;
                written = true;
            }
            if written {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.ahead.iter_mut().for_each(|ahead| *ahead = None);
    }

    /// What is in the ring besides the log, whose last epoch this is.
    fn what_is_left(&mut self, epoch: u32) -> Left {
        let (log, block_bytes) = (self.log, self.block_bytes);
        let mut left = Left { epoch, to_clear: Vec::new() };
        for copy in 0..self.devices.len() {
            for block in 0..self.ring_blocks {
                let Some(bytes) = self.look(copy, block, 1) else {
                    left.to_clear.push(block);
                    continue;
                };
                let Some(claim) = Claim::read(bytes) else { continue };
                let blocks = claim.own_blocks(block_bytes);
                let descriptor = (block + blocks <= self.ring_blocks)
                    .then(|| self.look(copy, block, blocks))
                    .flatten();
                if !descriptor.is_some_and(|bytes| claim.holds(bytes, log, block_bytes)) {
                    continue;
                }
                match claim.header.epoch {
                    found if found <= epoch || found < EPOCHS_MAX / 2 => {
                        left.epoch = left.epoch.max(found);
                    }
                    _ => left.to_clear.push(block),
                }
            }
        }
        left
    }

    /// The same, in the buffer that was read ahead.
    fn look(&mut self, copy: usize, block: u64, blocks: u64) -> Option<&[u8]> {
        let bytes = |blocks: u64| (blocks * u64::from(self.block_bytes)) as usize;
        let place = |ahead: &Option<(u64, Buffer)>| {
            let (first, chunk) = ahead.as_ref()?;
            let at = bytes(block.checked_sub(*first)?);
            (at + bytes(blocks) <= chunk.len()).then_some(at..at + bytes(blocks))
        };
        if place(&self.ahead[copy]).is_none() {
            let used = self.ahead[copy].take().map(|(_, chunk)| chunk.full());
            let mut chunk = used.unwrap_or_else(|| Buffer::zeroed(0));
            let bad = &self.bad[copy];
            let end = match block {
                _ if bad.contains(&block) => block,
                _ if block < bad.start => bad.start,
                _ => self.end_block,
            };
            let many = (AHEAD_BYTES / u64::from(self.block_bytes)).min(end - block);
            // If not all of this can be read, perhaps what is needed can.
            let offset = self.offset(block);
            let device = Device::Nvs(self.devices[copy]);
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

    fn look_at_slot(&mut self, copy: usize, slot: u32) -> Option<&[u8]> {
        let blocks = PAGE as u64 / u64::from(self.block_bytes);
        self.look(copy, self.ring_blocks + u64::from(slot) * blocks, blocks)
    }

    /// Copies to one device what it lacks and another has.
    fn repair(&mut self, repair: &Repair) -> Result<(), LogError> {
        let (block, bytes) = match repair.part {
            Part::Ring { block, blocks } => {
                (block, self.look(repair.from, block, blocks).map(Buffer::copy_of))
            }
            Part::Slot(slot) => {
                let blocks = PAGE as u64 / u64::from(self.block_bytes);
                let block = self.ring_blocks + u64::from(slot) * blocks;
                (block, self.look_at_slot(repair.from, slot).map(Buffer::copy_of))
            }
        };
        let bytes = bytes.ok_or(LogError::LostBlock(block))?;
        self.write_to(repair.copy, block, &bytes)
    }

    fn write_to(&mut self, copy: usize, block: u64, bytes: &Buffer) -> Result<(), LogError> {
        self.ahead[copy] = None;
        let device = Device::Nvs(self.devices[copy]);
        let offset = self.offset(block);
        let written = self.media.write(device, offset, bytes);
        written.map_err(|error| LogError::Unwritable(device, error))
    }

    /// Loads a page; whether some device has it intact.
    fn load(&mut self, page: Page, held: &HeldPage, loaded: &mut Loaded) -> bool {
        let Some(Stored { slot, crc }) = held.stored else {
            loaded.pages.put_zeros(page.0, held.version);
            return true;
        };
        let mut from = None;
        let mut lacking = Vec::new();
        for copy in 0..self.devices.len() {
            match self.look_at_slot(copy, slot) {
                Some(bytes) if crc32c(bytes) == crc => {
                    if from.is_none() {
                        from = Some(copy);
                        loaded.pages.put(page.0, held.version, bytes, held.sectors);
                    }
                }
                _ => lacking.push(copy),
            }
        }
        let Some(from) = from else {
            loaded.lost.push(page);
            return false;
        };
        let part = Part::Slot(slot);
        loaded.lacking.extend(lacking.into_iter().map(|copy| Repair { copy, from, part }));
        true
    }
}

/// Appends the bytes of the commit that opens an epoch; returns its block, if one is free.
fn open_epoch(
    space: &mut LogSpace,
    epoch: u32,
    last_version: u64,
    log: LogId,
    block_bytes: u32,
    out: &mut Vec<u8>,
) -> Option<u64> {
    let place = space.allocate(1, Purpose::Housekeeping)?;
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
    Some(place.block)
}

#[cfg(test)]
mod tests;
