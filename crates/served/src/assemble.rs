//! Reading superblocks, and deciding which devices make an array, or why they do not.

use crate::Buffer;
use crate::assemble_error::{AssembleError, NoSuperblock};
use crate::defect::Defect;
use crate::devices::{SUPERBLOCKS, Since};
use crate::io::{Device, IoError, Media};
use crate::store::PAGE;
use crate::superblock_repairs::Repairs;
use destage_engine::array::disks::DiskSet;
use destage_engine::units::DiskId;
use destage_nvslog::superblock::{
    Chosen, NOT_JOINED, NVS_MAX, Role, Superblock, SuperblockError, Uuid,
};

/// A device and its superblock.
pub type Found = (Device, Result<Chosen, NoSuperblock>);

/// Reads a device's superblock, and compares the device's size with it.
///
/// # Errors
/// See [`NoSuperblock`].
pub fn read_superblock(media: &mut dyn Media, device: Device) -> Result<Chosen, NoSuperblock> {
    let chosen = read_chosen(media, device)?;
    let bytes = media.bytes(device).map_err(NoSuperblock::Io)?;
    let needs = chosen.superblock.device_bytes();
    if bytes < needs {
        return Err(NoSuperblock::Short { bytes, needs });
    }
    Ok(chosen)
}

/// The same, whatever the device's size.
pub(crate) fn read_chosen(media: &mut dyn Media, device: Device) -> Result<Chosen, NoSuperblock> {
    let mut copies = [Buffer::zeroed(PAGE), Buffer::zeroed(PAGE)];
    let mut error = None;
    for (copy, at) in copies.iter_mut().zip(SUPERBLOCKS) {
        if let Err(failed) = media.read(device, at, copy) {
            error = Some(failed);
            // It must not look like one that was never written.
            copy.fill(0xff);
        }
    }
    let [first, second] = copies;
    Superblock::choose(&first, &second)
        .map_err(|why| error.map_or(NoSuperblock::Bytes(why), NoSuperblock::Io))
}

/// What an operator allows a start to accept.
#[derive(Clone, Debug, Default)]
pub struct Allow {
    /// Members, spares and NVS mirrors may be missing or out of date if redundancy is left.
    pub degraded: bool,
    /// These devices are used though they are out of date, or though an NVS mirror differs. What
    /// was written in the meantime is lost.
    pub stale: Vec<Device>,
    /// No NVS device is used, because none that the array needs can be. What only they have is
    /// lost.
    pub without_nvs: bool,
    /// Nothing older may count than this generation, of [`Assembly::built_on`]: a device that
    /// turned out to be unwritable has it.
    pub at_least: u64,
    /// A deliberate fault, for the tests that show that it is caught.
    #[doc(hidden)]
    pub defect: Defect,
}

impl Allow {
    /// Accepts that devices are missing if redundancy is left.
    #[must_use]
    pub fn degraded() -> Allow {
        Allow { degraded: true, ..Allow::default() }
    }
}

/// Devices that make an array.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// The superblock that counts.
    pub superblock: Superblock,
    /// UUIDs of the members; zeros where one is missing.
    pub(crate) members: Vec<Uuid>,
    pub(crate) nvs: Vec<Uuid>,
    /// The identity of the superblock that counts, as it was found.
    pub(crate) identity: u32,
    /// What is found of all devices.
    found: Vec<Chosen>,
    /// The generations with which the devices in use came into use.
    pub(crate) since: Since,
    /// Members that are not used.
    pub failed: Vec<u16>,
    /// Members that were not known to have failed.
    pub newly_failed: Vec<u16>,
    /// NVS devices in use.
    pub copies: Vec<u16>,
    /// Members whose rebuild continues.
    pub rebuilds: Vec<u16>,
    /// Failed members with a spare in their place that no superblock names yet.
    pub spares: Vec<(u16, Uuid)>,
    /// What a start writes again of superblocks before anything newer.
    pub(crate) repairs: Repairs,
    /// Devices that are used though they are out of date.
    pub stale: Vec<Device>,
    /// Devices that the operator insists on, out of date or not.
    insisted: Vec<Device>,
    /// Members that were recorded as failed and are used again.
    revived: Vec<u16>,
    /// The highest generation that any device may have.
    pub(crate) highest: u64,
    /// Something may have been built on the superblock that counts.
    pub(crate) built: bool,
    /// A member that is not used because it is out of date.
    left_out: Option<AssembleError>,
    defect: Defect,
}

/// How a device compares with the newest generation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has it.
    Current,
    /// It has another one, and nothing was built since: a crash interrupted the change.
    Late,
    /// It is older.
    Stale,
}

/// Assembles an array from the superblocks of its devices.
///
/// # Errors
/// See [`AssembleError`].
pub fn assemble(found: &[Found], allow: &Allow) -> Result<Assembly, AssembleError> {
    let counts = newest(found, false);
    let refused = match assemble_from(found, allow, counts) {
        Err(why) if allow.degraded => why,
        assembled => return assembled,
    };
    let assemble_as = |superblock| assemble_from(found, allow, Some(superblock)).ok();
    // Perhaps most of another half is here, which served apart.
    if let Some(assembled) = newest(found, true).and_then(assemble_as) {
        return Ok(assembled);
    }
    let counts = counts.ok_or(refused)?;
    // One that needs no NVS device must not do without any: it may have what nobody else has.
    let keeps_nvs = |assembly: &Assembly| counts.nvs_devices() == 0 || !assembly.copies.is_empty();
    let assembled = tries(found, &counts).into_iter().filter_map(assemble_as).find(keeps_nvs);
    assembled.ok_or(refused)
}

/// The same with this superblock as the one that counts.
fn assemble_from(
    found: &[Found],
    allow: &Allow,
    newest: Option<Superblock>,
) -> Result<Assembly, AssembleError> {
    let members = || found.iter().filter(|(device, _)| matches!(device, Device::Member(_)));
    // Most devices decide which array it is; the newest generation decides its state.
    let Some(first) = members().find_map(|(_, s)| s.ok()) else {
        let why = members().find_map(|(_, s)| s.err());
        let none = NoSuperblock::Bytes(SuperblockError::Foreign);
        return Err(AssembleError::NoArray(why.unwrap_or(none)));
    };
    let array = majority_array(found);
    for (device, said) in found {
        if said.is_ok_and(|s| Some(s.superblock.array) != array) {
            return Err(AssembleError::OtherArray(*device));
        }
    }
    let superblock = newest.unwrap_or(first.superblock);
    let (disks, nvs) = (superblock.geometry.disks, superblock.nvs_devices());
    if members().count() != usize::from(disks) {
        return Err(AssembleError::Count { members: disks, nvs });
    }
    let mut assembly = Assembly {
        superblock,
        identity: superblock.identity(),
        found: found.iter().filter_map(|(_, said)| said.ok()).collect(),
        members: vec![[0; 16]; usize::from(disks)],
        nvs: vec![[0; 16]; 2],
        since: Since { members: vec![NOT_JOINED; usize::from(disks)], nvs: vec![NOT_JOINED; 2] },
        failed: Vec::new(),
        newly_failed: Vec::new(),
        copies: Vec::new(),
        rebuilds: Vec::new(),
        spares: Vec::new(),
        repairs: Repairs::default(),
        stale: Vec::new(),
        insisted: allow.stale.clone(),
        revived: Vec::new(),
        highest: highest(found),
        built: is_built_on(found, &superblock),
        left_out: None,
        defect: allow.defect,
    };
    for (device, said) in found {
        if let Device::Member(number) = device {
            assembly.member(*number, said, allow)?;
        }
    }
    assembly.nvs_devices(found, allow)?;
    if !allow.degraded && allow.stale.is_empty() {
        assembly.used_apart(found)?;
    }
    assembly.note_since(found);
    let all = assembly.found.iter().copied();
    assembly.repairs = Repairs::of(&superblock, &assembly.used(found), all);
    // Only now: until here the devices were compared with what was recorded.
    for member in core::mem::take(&mut assembly.revived) {
        assembly.superblock.mark(member, false);
        assembly.superblock.set_rebuild(member, None);
    }
    let failed: DiskSet = assembly.failed.iter().map(|m| DiskId(*m)).collect();
    let older = allow.stale.is_empty() && assembly.built_on() < allow.at_least;
    if older || !superblock.geometry.survives(&failed) {
        return Err(assembly.left_out.unwrap_or(AssembleError::TooManyMissing));
    }
    Ok(assembly)
}

/// The highest generation that any device may have. An interrupted start may have written one more
/// into a copy that cannot be read now.
fn highest(found: &[Found]) -> u64 {
    let said = || found.iter().filter_map(|(_, said)| said.as_ref().ok());
    let damaged = said().flat_map(|said| said.damaged).filter(|damaged| *damaged).count() as u64;
    let read = said().map(|said| said.superblock.generation).max().unwrap_or(0);
    read.saturating_add(damaged)
}

/// Whether something may have been built on a superblock: that begins only when all devices in use
/// have it in their second copies, too.
fn is_built_on(found: &[Found], superblock: &Superblock) -> bool {
    let said = found.iter().filter_map(|(_, s)| s.ok());
    let has_it = |s: &Chosen| {
        s.superblock.generation == superblock.generation && s.superblock.agrees(superblock)
    };
    let (mut having, others): (Vec<Chosen>, Vec<Chosen>) = said.partition(has_it);
    let used = |s: &Chosen| match s.superblock.role {
        Role::Member(number) => !superblock.has_failed(number),
        Role::Nvs(_) => superblock.nvs.contains(&Some(s.superblock.device)),
        Role::Spare => false,
    };
    // A start does not write the second copy of a device again that is still being rebuilt.
    if having.iter().any(used) {
        having.retain(|said| used(said) || said.confirmed);
    }
    let others: Vec<Superblock> =
        others.into_iter().filter(used).map(|said| said.superblock).collect();
    // Those that continued from an older one had not seen that all had this one.
    let overtaken =
        |s: &Superblock| s.generation > superblock.generation && s.base < superblock.generation;
    // That others do not have it says more than damage in the second copies of the few that do.
    // They may have given its number themselves while these were absent.
    let older = others.iter().filter(|s| s.generation < superblock.generation).count();
    let other = others.iter().any(|s| s.generation >= superblock.generation);
    let doubtful = having.iter().all(|s| s.damaged[1])
        && (older > 1 || other || having.iter().any(came_alone));
    let confirmed = having.iter().all(|s| s.confirmed) || members_have_it(&having);
    // One that fails as it gets its second copy is left out by the next, which is made on this.
    let made_on = |s: &Superblock| {
        s.generation > superblock.generation && s.base_identity != 0 && s.is_made_on(superblock)
    };
    let confirmed = confirmed || others.iter().any(made_on);
    confirmed && !others.iter().any(overtaken) && !doubtful
}

/// Whether a superblock does not name the device that has the other one.
fn leaves_out(superblock: &Superblock, other: &Superblock) -> bool {
    match other.role {
        Role::Member(number) => superblock.has_failed(number),
        Role::Nvs(number) => superblock.nvs[usize::from(number)] != Some(other.device),
        Role::Spare => false,
    }
}

/// Whether all members that have a generation have it in their second copies: NVS devices have had
/// these before. One that lacks it is an older copy, or has lost the write.
fn members_have_it(having: &[Chosen]) -> bool {
    let mut members = having.iter().filter(|s| matches!(s.superblock.role, Role::Member(_)));
    members.clone().any(|s| !s.damaged[1]) && members.all(|s| s.confirmed)
}

/// An NVS device that was to come into use with this try, and of which it is not certain that the
/// others had the try: it gets it before them.
fn came_alone(said: &Chosen) -> bool {
    let own = &said.superblock;
    said.damaged[1] && own.joined > own.base && matches!(own.role, Role::Nvs(_))
}

/// The superblock that counts: the newest, unless it is a try on which nothing was built, and
/// something was built on another one since the try began. Of the same generation one counts on
/// which something was built, then one of which the base was not passed over by another, then that
/// of the newest base, then an NVS device's, then that of a member that does not itself say that it
/// has failed. `apart`: also one that has only the number
/// of what the newest was made on.
fn newest(found: &[Found], apart: bool) -> Option<Superblock> {
    let weight = |s: &Superblock| match s.role {
        Role::Nvs(_) => 2,
        Role::Member(number) => u8::from(!s.has_failed(number)),
        Role::Spare => 0,
    };
    let said = || {
        let said = found.iter().filter_map(|(_, s)| s.ok().map(|s| s.superblock));
        said.filter(|s| s.role != Role::Spare)
    };
    let keeps_its_base = |s: &Superblock| {
        let base = said().find(|base| base.generation == s.base && s.is_made_on(base));
        base.is_none_or(|base| is_built_on(found, &base))
    };
    let key = |s: &Superblock| {
        (s.generation, is_built_on(found, s), keeps_its_base(s), s.base, weight(s))
    };
    let newest = said().max_by_key(key)?;
    if is_built_on(found, &newest) {
        return Some(newest);
    }
    let other = |s: &Superblock| !apart && s.generation == newest.base && !newest.is_made_on(s);
    let built = said().filter(|s| s.generation >= newest.base && !other(s));
    let built = built.filter(|s| is_built_on(found, s));
    Some(built.max_by_key(key).unwrap_or(newest))
}

/// Whether a device that came with a try had less than what was built on last, which the try was
/// made on: a loss was accepted.
fn came_stale(own: &Chosen, built_on: u64) -> bool {
    let had_less = |older: Superblock| (1..built_on).contains(&older.generation);
    own.superblock.joined > own.superblock.base && own.older.is_some_and(had_less)
}

/// Tries on what was built last, the newest first, from any copy. `counts`: the superblock that
/// counts. Their sets of devices are right, but for those that an operator forced.
fn tries(found: &[Found], counts: &Superblock) -> Vec<Superblock> {
    let (number, identity) = match is_built_on(found, counts) {
        true => (counts.generation, counts.identity()),
        false => (counts.base, counts.base_identity),
    };
    let is = |is: u32| is == identity || is == 0 || identity == 0;
    let said = || {
        let said = found.iter().filter_map(|(_, said)| said.ok());
        said.flat_map(|own| [Some(own.superblock), own.older]).flatten()
    };
    // A repaired copy may have the number, and the rest of a try.
    let whole = |s: &Superblock| s.base < s.generation;
    let built = said().find(|s| s.generation == number && whole(s) && is(s.identity()));
    let forced = |s: &Superblock, built: &Superblock| {
        let back = |m: &u16| built.has_failed(*m) && !s.has_failed(*m);
        (0..s.geometry.disks).filter(back).any(|member| built.rebuilt_onto(member).is_none())
    };
    let stale = found.iter().filter_map(|(_, said)| said.as_ref().ok());
    let stale = stale.filter(|own| came_stale(own, number));
    let stale: Vec<u32> = stale.map(|own| own.superblock.identity()).collect();
    let mut tries: Vec<Superblock> = said()
        .filter(|s| !stale.contains(&s.identity()))
        .filter(|s| s.base == number && s.generation > number && is(s.base_identity))
        .filter(|s| s.log == counts.log && !built.is_some_and(|built| forced(s, &built)))
        .collect();
    tries.sort_by_key(|s| (core::cmp::Reverse(s.generation), s.identity()));
    tries.dedup_by_key(|s| s.identity());
    tries
}

/// The array that most of the devices belong to. If several have as many, the one with more NVS
/// devices, since these have what the disks do not have; then the one that is found first.
fn majority_array(found: &[Found]) -> Option<Uuid> {
    let said =
        || found.iter().filter_map(|(device, said)| said.ok().map(|own| (*device, own.superblock)));
    let votes = |array: Uuid| {
        let of = || said().filter(move |(_, own)| own.array == array);
        (of().count(), of().filter(|(device, _)| matches!(device, Device::Nvs(_))).count())
    };
    // `max_by_key` returns the last of the greatest: hence the reverse order.
    let arrays: Vec<Uuid> = said().map(|(_, own)| own.array).collect();
    arrays.into_iter().rev().max_by_key(|array| votes(*array))
}

impl Assembly {
    /// The newest generation on which something was built.
    #[must_use]
    pub fn built_on(&self) -> u64 {
        if self.built { self.superblock.generation } else { self.superblock.base }
    }

    /// Whether that is the one of a superblock, or the one of its base.
    fn was_built(&self, number: u64, identity: u32) -> bool {
        let ours = if self.built { self.identity } else { self.superblock.base_identity };
        number == self.built_on() && (identity == ours || identity == 0 || ours == 0)
    }

    /// Whether a superblock is of a try on what was built.
    fn is_a_try(&self, said: &Superblock) -> bool {
        self.was_built(said.base, said.base_identity)
    }

    /// How a device compares with the superblock that counts (docs/durability.md, "Marks").
    fn standing(&self, device: Device, own: &Chosen) -> Result<Standing, AssembleError> {
        let newest = &self.superblock;
        let said = own.superblock;
        if said.generation == newest.generation && said.agrees(newest) {
            let older = self.built && !own.confirmed && matches!(device, Device::Nvs(_));
            return Ok(if older { Standing::Stale } else { Standing::Current });
        }
        if said.generation == newest.generation && self.built && own.confirmed {
            return Err(AssembleError::Disagrees(device));
        }
        Ok(if self.is_late(own) { Standing::Late } else { Standing::Stale })
    }

    /// Whether a device has what was built, or a try on top of that.
    fn is_late(&self, own: &Chosen) -> bool {
        let (base, said) = (self.built_on(), own.superblock);
        if said.generation == base && own.confirmed {
            return self.was_built(base, said.identity());
        }
        // A second copy says that it took a later one for built.
        let taken = match own.confirmed && !own.damaged[1] {
            true => Some(said),
            false if self.is_a_try(&said) => return !came_stale(own, self.built_on()),
            false => own.older.filter(|older| older.generation == said.base),
        };
        let tried = taken.filter(|tried| tried.generation > base && self.is_a_try(tried));
        tried.is_some_and(|tried| !self.is_apart(&tried))
    }

    /// Whether a device with both copies of a try may have served without others which are here.
    /// Nothing was built on it if one that has it has it in the first copy alone, or if one that it
    /// names lacks it, or has continued from before it.
    fn is_apart(&self, tried: &Superblock) -> bool {
        let is_it = |said: &Superblock| said.generation == tried.generation && said.agrees(tried);
        let mut without = false;
        for other in &self.found {
            let own = &other.superblock;
            if is_it(own) && !other.confirmed {
                return false;
            }
            let ours = self.is_a_try(own) || self.was_built(own.generation, own.identity());
            if !ours || own.joined == NOT_JOINED {
                continue;
            }
            let complete = is_it(own) || other.older.is_some_and(|older| is_it(&older));
            let lacks = !complete || own.generation > tried.generation;
            if leaves_out(tried, own) {
                without = true;
            } else if lacks && own.joined <= self.built_on() {
                // One that came later may have the place of another one.
                return false;
            }
        }
        without
    }

    fn is_stale(&self, device: Device, own: &Chosen) -> AssembleError {
        let (said, newest) = (own.superblock.generation, self.superblock.generation);
        // It has that one, but not as the others do; or a try, and had less before.
        let older = own.older.filter(|_| said >= newest);
        AssembleError::Stale { device, has: older.map_or(said, |older| older.generation), newest }
    }

    fn member(
        &mut self,
        number: u16,
        said: &Result<Chosen, NoSuperblock>,
        allow: &Allow,
    ) -> Result<(), AssembleError> {
        let device = Device::Member(number);
        let known = self.superblock.has_failed(number);
        match said {
            // Only a spare that becomes a member says of itself that it has failed.
            Ok(own)
                if own.superblock.role == Role::Member(number)
                    && own.superblock.has_failed(number)
                    && allow.stale.contains(&device)
                    && self.superblock.rebuilt_onto(number) != Some(own.superblock.device) =>
            {
                return Err(AssembleError::RebuiltInPart(device));
            }
            Ok(own) if own.superblock.role == Role::Spare && known => {
                self.spare(number, &own.superblock);
            }
            // In the place of one whose failure was not recorded.
            Ok(own) if own.superblock.role == Role::Spare && allow.degraded => {}
            Ok(own) if own.superblock.role != Role::Member(number) => {
                return Err(AssembleError::WrongPlace(device, own.superblock.role));
            }
            Ok(own)
                if known
                    && allow.stale.contains(&device)
                    && self.superblock.rebuilt_onto(number) != Some(own.superblock.device) =>
            {
                // It was failed, and is as good as any that is out of date.
                self.revived.push(number);
                self.stale.push(device);
                self.members[usize::from(number)] = own.superblock.device;
                return Ok(());
            }
            Ok(own) if known => self.failed_member(number, own),
            Ok(own) => {
                let standing = match self.standing(device, own) {
                    Err(_) if allow.degraded => Standing::Stale,
                    standing => standing?,
                };
                let accepted = standing == Standing::Stale && allow.stale.contains(&device);
                if accepted {
                    self.stale.push(device);
                }
                if accepted || standing != Standing::Stale {
                    self.members[usize::from(number)] = own.superblock.device;
                    return Ok(());
                }
                let stale = self.is_stale(device, own);
                if !allow.degraded {
                    return Err(stale);
                }
                self.left_out = self.left_out.or(Some(stale));
            }
            Err(why) if !known && !allow.degraded || allow.stale.contains(&device) => {
                return Err(AssembleError::Degraded(device, *why));
            }
            Err(_) => {}
        }
        self.failed.push(number);
        if !known {
            self.newly_failed.push(number);
        }
        Ok(())
    }

    /// A device in the place of a failed member: perhaps the one that it is rebuilt onto.
    fn failed_member(&mut self, number: u16, own: &Chosen) {
        // If it had been absent, its entry would be gone, or newer changes would not have it.
        let there = self.standing(Device::Member(number), own);
        let there = there.is_ok_and(|standing| standing != Standing::Stale);
        if there && self.superblock.rebuilt_onto(number) == Some(own.superblock.device) {
            self.resume_rebuild(number, own.superblock.device);
        }
    }

    /// A spare in a failed member's place.
    fn spare(&mut self, number: u16, own: &Superblock) {
        if self.superblock.rebuilt_onto(number) == Some(own.device) {
            // The change that names it had not reached it.
            self.resume_rebuild(number, own.device);
        } else {
            self.spares.push((number, own.device));
        }
    }

    fn resume_rebuild(&mut self, number: u16, device: Uuid) {
        self.members[usize::from(number)] = device;
        self.rebuilds.push(number);
    }

    /// The devices that the superblock names are in use. If nothing was built on it, those of the
    /// previous set are as good.
    fn nvs_devices(&mut self, found: &[Found], allow: &Allow) -> Result<(), AssembleError> {
        let (mut before, mut lacking, mut doubted) = (Vec::new(), None, None);
        for (device, said) in found {
            let Device::Nvs(number) = *device else { continue };
            let wanted = self.superblock.nvs.get(usize::from(number)).copied().flatten();
            let own = match said {
                Ok(own) => own,
                Err(why) if allow.stale.contains(device) => {
                    return Err(AssembleError::NvsMissing(*device, *why));
                }
                Err(why) => {
                    let error = wanted.map(|_| (*device, Err(*why)));
                    lacking = lacking.or(error);
                    continue;
                }
            };
            if own.superblock.role != Role::Nvs(number) {
                return Err(AssembleError::WrongPlace(*device, own.superblock.role));
            }
            // The log was replaced while the device was away, or is about to be.
            let other_log = own.superblock.log != self.superblock.log;
            if other_log && allow.stale.contains(device) {
                return Err(AssembleError::OtherLog(*device));
            }
            let (standing, careless) = self.standing_of_nvs(*device, own, allow)?;
            let uuid = own.superblock.device;
            let named = wanted == Some(uuid) || careless;
            match standing {
                _ if allow.stale.contains(device) => {
                    self.stale.push(*device);
                    self.use_nvs(number, uuid);
                }
                Standing::Current | Standing::Late if named => {
                    self.use_nvs(number, uuid);
                }
                Standing::Late
                    if own.superblock.nvs.get(usize::from(number)) == Some(&Some(uuid))
                        && (own.superblock.base >= self.built_on() || !own.damaged[1]) =>
                {
                    before.push((number, uuid));
                }
                Standing::Stale if named => lacking = lacking.or(Some((*device, Ok(*own)))),
                // It may have what nobody else has.
                _ if !self.built && !other_log && self.may_have_had_base(own) => {
                    doubted = doubted.or(Some((*device, *own)));
                }
                // Failed before: the array does not need it.
                _ => {}
            }
        }
        if allow.stale.iter().any(|device| matches!(device, Device::Nvs(_))) {
            // Only this one: others may differ from it.
            self.copies.retain(|copy| allow.stale.contains(&Device::Nvs(*copy)));
            return Ok(());
        }
        if self.copies.is_empty() && !before.is_empty() {
            before.into_iter().for_each(|(number, device)| self.use_nvs(number, device));
        }
        self.copies.sort_unstable();
        match doubted {
            Some((device, own)) if self.copies.is_empty() && !allow.without_nvs => {
                Err(self.is_stale(device, &own))
            }
            _ => self.enough_nvs(lacking, allow),
        }
    }

    /// How an NVS device compares, and whether a deliberate fault takes any for named.
    fn standing_of_nvs(
        &self,
        device: Device,
        own: &Chosen,
        allow: &Allow,
    ) -> Result<(Standing, bool), AssembleError> {
        let standing = match self.standing(device, own) {
            Err(_) if allow.degraded || !allow.stale.is_empty() => Standing::Stale,
            standing => standing?,
        };
        let careless = self.defect.is(Defect::IgnoresNvsSet)
            && own.superblock.generation + 1 >= self.superblock.generation;
        Ok(match own.superblock.log == self.superblock.log {
            _ if careless => (Standing::Late, true),
            true => (standing, false),
            false => (Standing::Stale, false),
        })
    }

    /// Whether a device with a damaged second copy may have been in use before the try that counts.
    fn may_have_had_base(&self, own: &Chosen) -> bool {
        own.damaged[1] && own.superblock.generation >= self.superblock.base
    }

    /// Whether the NVS devices that are present suffice. `lacking`: one that is not present.
    fn enough_nvs(
        &self,
        lacking: Option<(Device, Result<Chosen, NoSuperblock>)>,
        allow: &Allow,
    ) -> Result<(), AssembleError> {
        let wanted = self.superblock.nvs_devices();
        if allow.without_nvs {
            let there = self.copies.first().map(|copy| Device::Nvs(*copy));
            return there.map_or(Ok(()), |device| Err(AssembleError::NvsNotLost(device)));
        }
        if self.copies.len() >= usize::from(wanted) {
            return Ok(());
        }
        // The other one has everything that this one had.
        let enough = allow.degraded && !self.copies.is_empty();
        match lacking {
            _ if enough => Ok(()),
            None => {
                Err(AssembleError::Count { members: self.superblock.geometry.disks, nvs: wanted })
            }
            Some((device, Ok(own))) => Err(self.is_stale(device, &own)),
            Some((device, Err(why))) if self.copies.is_empty() => {
                Err(AssembleError::NvsMissing(device, why))
            }
            Some((device, Err(why))) => Err(AssembleError::Degraded(device, why)),
        }
    }

    fn use_nvs(&mut self, number: u16, device: Uuid) {
        self.nvs[usize::from(number)] = device;
        self.copies.push(number);
    }

    /// Whether a member is used though nobody may know which of its pages are lost.
    pub(crate) fn insists_on(&self, member: u16) -> bool {
        self.insisted.contains(&Device::Member(member))
    }

    /// Whether the log is used as far as it can be read, since its loss was accepted.
    pub(crate) fn takes_what_is_left(&self) -> bool {
        self.stale.iter().any(|device| matches!(device, Device::Nvs(_)))
    }

    /// Whether rows may not be consistent: the log is lost or used in part, or one of two copies is
    /// older.
    pub(crate) fn doubts_rows(&self) -> bool {
        let older = |device: &Device| matches!(device, Device::Member(_));
        let mirrored = self.superblock.geometry.level.is_mirrored();
        let copies_differ = mirrored && self.stale.iter().any(older);
        let without_log = self.copies.is_empty() && self.superblock.nvs_devices() > 0;
        copies_differ || without_log || self.takes_what_is_left()
    }

    /// The NVS devices in use, by their places.
    #[must_use]
    pub fn nvs_in_use(&self) -> [Option<Uuid>; NVS_MAX] {
        let used = |place: &usize| self.copies.contains(&(*place as u16));
        core::array::from_fn(|place| Some(place).filter(used).map(|place| self.nvs[place]))
    }

    /// The members that get superblocks: those that are being rebuilt come last.
    pub(crate) fn written_members(&self) -> impl Iterator<Item = Device> + '_ {
        let members = 0..self.members.len() as u16;
        let in_sync = members.filter(|member| !self.failed.contains(member));
        in_sync.chain(self.rebuilds.iter().copied()).map(Device::Member)
    }

    /// Repairs superblocks, as a start does before it writes any newer one.
    pub(crate) fn repair_superblocks(
        &self,
        media: &mut dyn Media,
    ) -> Result<(), (Device, IoError)> {
        self.repairs.write(media, self.built_on())
    }

    /// Whether all devices that the superblock names have both copies of it, as soon as this start
    /// has written those that a crash prevented.
    pub(crate) fn completes_for_all(&self) -> bool {
        let nvs = self.copies.len() == usize::from(self.superblock.nvs_devices());
        self.repairs.complete() && nvs && self.newly_failed.is_empty()
    }

    /// Whether a device takes part.
    fn uses(&self, device: Device) -> bool {
        match device {
            Device::Nvs(number) => self.copies.contains(&number),
            Device::Member(number) => !self.failed.contains(&number),
        }
    }

    /// The devices that take part, and what they say.
    fn used(&self, found: &[Found]) -> Vec<(Device, Chosen)> {
        let used = found.iter().filter(|(device, _)| self.uses(*device));
        used.filter_map(|(device, said)| Some((*device, said.ok()?))).collect()
    }

    /// Copies of superblocks that are damaged: the device, and 0 for the first copy or 1.
    pub fn damaged(&self) -> impl Iterator<Item = (Device, usize)> + '_ {
        self.repairs.damaged()
    }

    /// The generations with which the devices that take part came into use. One that is out of date
    /// comes into use with the next.
    fn note_since(&mut self, found: &[Found]) {
        for (device, own) in self.used(found) {
            if !self.stale.contains(&device) {
                *self.since.of(device) = own.superblock.joined;
            }
        }
    }

    /// Refuses a device that is not used now, but was used without one that is, since that one came
    /// into use: each has writes that the other lacks. A try says nothing of that; the generation
    /// that it was made on does.
    fn used_apart(&self, found: &[Found]) -> Result<(), AssembleError> {
        let said = || found.iter().filter_map(|(device, said)| Some((*device, said.ok()?)));
        let apart = |own: &Superblock| {
            let mut used = said().filter(|(device, _)| self.uses(*device));
            used.any(|(_, other)| {
                let other = other.superblock;
                leaves_out(own, &other) && other.joined <= own.generation
            })
        };
        let rebuilt = |device| match device {
            Device::Member(number) => self.rebuilds.contains(&number),
            Device::Nvs(_) => false,
        };
        let built_on = |own: Chosen| match own.confirmed {
            true => Some(own.superblock),
            false => own.older.filter(|older| {
                older.generation == own.superblock.base && older.base < older.generation
            }),
        };
        let others = said().filter(|(device, _)| !self.uses(*device) && !rebuilt(*device));
        let mut others = others.filter_map(|(device, own)| Some((device, built_on(own)?)));
        match others.find(|(_, own)| own.joined != NOT_JOINED && apart(own)) {
            Some((device, _)) => Err(AssembleError::Disagrees(device)),
            None => Ok(()),
        }
    }
}
