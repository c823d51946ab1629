//! Members that fail, spares, and devices that replace a failed member. Other threads open devices
//! and keep the configuration file up to date; the data thread attaches them and has them rebuilt.

use super::{ArrayBackend, ArrayHandle};
use crate::Port;
use crate::array::alarm_words::spare_not_taken;
use crate::array::alarms::{AlarmText, ClearedBy};
use crate::array::config::{check_writable, edit};
use crate::array::create::blank;
use crate::array::device_watch::{Found, Trouble, Watched};
use crate::array::member_cache::MemberCache;
use crate::array::refusal::Refusal;
use crate::array::same_drive::check_drives;
use crate::array::spares::{Spare, known_spare, new_spare};
use destage_block::Driver;
use destage_nvslog::superblock::Superblock;
use destage_served::{Cause, member_bytes};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

/// When a spare is tried again that could not replace a member.
const TAKE_AGAIN: Duration = Duration::from_secs(5);
/// How often, and how many times, a replacement waits for the failure to be recorded.
const RECORD_WAIT: Duration = Duration::from_millis(50);
const RECORD_WAITS: usize = 100;

/// A failed member's place.
struct Place {
    member: u16,
    array: Superblock,
    config: Option<PathBuf>,
    /// The device, if it is a spare already.
    spare: Option<Spare>,
}

/// A device that did not become a member.
struct NotTaken {
    /// It comes back as it was, unless the array has it open already.
    device: Option<Box<Spare>>,
    why: Refusal,
}

/// Puts a device into a failed member's place and has it rebuilt.
pub(in crate::array) fn replace(array: &ArrayHandle, old: &str, new: &str) -> Result<(), Refusal> {
    let Place { member, array: superblock, config, spare } = place_of(array, old, new)?;
    let known = spare.is_some();
    if let Err(why) = check_drive(array, member, new) {
        if let Some(spare) = spare {
            array.run(move |array, _| array.spare_back(spare));
        }
        return Err(why);
    }
    let device = match spare {
        Some(spare) => spare,
        None => {
            check_writable(config.as_deref())?;
            new_spare(new, &superblock)?
        }
    };
    let Err(NotTaken { device, why }) = install(array, config.as_deref(), member, device, known)
    else {
        return Ok(());
    };
    match device {
        Some(device) if known => {
            array.run(move |array, _| array.spare_back(*device));
        }
        Some(mut device) => blank(&mut device.opened),
        None => {}
    }
    Err(why)
}

/// The failed member's place, when its failure is recorded.
fn place_of(array: &ArrayHandle, old: &str, new: &str) -> Result<Place, Refusal> {
    let mut waits = 0;
    loop {
        let (old, new) = (old.to_string(), new.to_string());
        match array.answer(move |array, port| array.member_place(port, &old, &new))? {
            Err(Refusal::FailureNotRecorded) if waits < RECORD_WAITS => {
                waits += 1;
                std::thread::sleep(RECORD_WAIT);
            }
            place => return place,
        }
    }
}

/// Refuses a device that would be a member in the drive of another one.
fn check_drive(array: &ArrayHandle, member: u16, name: &str) -> Result<(), Refusal> {
    let (mut with, level) = array.answer(|array, _| {
        (array.setup.config().clone(), array.volume.superblock().geometry.level)
    })?;
    with.put_member(member, name);
    Ok(check_drives(&with, level)?)
}

/// Refuses a device whose write cache is on where nothing would flush it.
fn check_cache(array: &ArrayHandle, device: &Spare) -> Result<(), Refusal> {
    let choice = array.answer(|array, _| array.setup.config().durability().ok())?;
    let Some(choice) = choice else { return Ok(()) };
    Ok(MemberCache::of(&device.opened).check(&device.name, choice)?)
}

/// Names a device in the configuration, so that the next start finds it, and hands it over. If the
/// file cannot be written, or the array refuses the device, the device comes back, and the file
/// names what the array has. `known`: it is one of the array's spares.
fn install(
    array: &ArrayHandle,
    config: Option<&Path>,
    member: u16,
    device: Spare,
    known: bool,
) -> Result<(), NotTaken> {
    let name = device.name.clone();
    if let Err(why) = check_cache(array, &device) {
        return Err(NotTaken { device: Some(Box::new(device)), why });
    }
    if let Some(path) = config
        && let Err(error) = edit(path, |config| config.put_member(member, &name))
    {
        return Err(NotTaken { device: Some(Box::new(device)), why: error.into() });
    }
    let put = array.answer(move |array, port| array.put_member(port, member, device));
    let refused = match put {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(refused)) => refused,
        Err(why) => NotTaken { device: None, why },
    };
    let now = array.answer(move |array, _| array.member_name(member));
    // Another device may have become the member in the meantime.
    if let (Some(path), Ok(Some(now))) = (config, now) {
        let _ = edit(path, |config| {
            config.put_member(member, &now);
            if known && now != name {
                config.spares.push(name);
            }
        });
    }
    Err(refused)
}

/// [`install`] for a spare that the array takes by itself. One that cannot be used is the last that
/// is tried again.
fn install_spare(array: &ArrayHandle, config: Option<&Path>, member: u16, device: Spare) {
    let name = device.name.clone();
    let installed = match check_drive(array, member, &name) {
        Ok(()) => install(array, config, member, device, true),
        Err(why) => Err(NotTaken { device: Some(Box::new(device)), why }),
    };
    let Err(NotTaken { device, why }) = installed else { return };
    let alarm = spare_not_taken(&name, member, &why);
    array.run(move |array, _| {
        device.into_iter().for_each(|device| array.spare_back(*device));
        array.spare_not_taken(alarm);
    });
    std::thread::sleep(TAKE_AGAIN);
    array.run(|array, _| array.take_spares());
}

/// Adds a spare to an array.
pub(in crate::array) fn add_spare(array: &ArrayHandle, name: &str) -> Result<(), Refusal> {
    let asked = name.to_string();
    let (superblock, file, known, missing) = array.answer(move |array, _| {
        let spares = &array.spares;
        let known = spares.names().contains(&asked);
        let missing = spares.missing().contains(&asked);
        let file = array.setup.file().map(Path::to_path_buf);
        (array.volume.superblock(), file, known, missing)
    })?;
    if known && !missing {
        return Err(Refusal::SpareAlready(name.to_string()));
    }
    check_writable(file.as_deref())?;
    let mut spare = if missing {
        let why = |why| Refusal::Medium(name.to_string(), format!("{why}"));
        known_spare(name, &superblock).map_err(why)?
    } else {
        new_spare(name, &superblock)?
    };
    // The configuration names a missing spare already.
    if let Some(path) = file.filter(|_| !missing)
        && let Err(error) = edit(&path, |config| config.spares.push(name.to_string()))
    {
        blank(&mut spare.opened);
        return Err(error.into());
    }
    array.answer(move |array, _| array.spare_added(spare))
}

/// Removes a spare from an array.
pub(in crate::array) fn remove_spare(array: &ArrayHandle, name: &str) -> Result<(), Refusal> {
    let asked = name.to_string();
    let (file, known) = array.answer(move |array, _| {
        let spares = &array.spares;
        let known = spares.names().contains(&asked) || spares.missing().contains(&asked);
        (array.setup.file().map(Path::to_path_buf), known)
    })?;
    if !known {
        return Err(Refusal::NotASpare(name.to_string()));
    }
    if let Some(path) = file {
        edit(&path, |config| config.spares.retain(|spare| spare != name))?;
    }
    let name = name.to_string();
    array.answer(move |array, _| array.spare_removed(&name))
}

impl ArrayBackend {
    fn member_called(&self, name: &str) -> Result<u16, Refusal> {
        let member = self.setup.config().member_called(name);
        member.ok_or_else(|| Refusal::NoSuchMember(name.to_string()))
    }

    /// Gives up a member, or the spare that is to become it.
    pub(in crate::array) fn fail_member(&mut self, name: &str) -> Result<(), Refusal> {
        let member = self.member_called(name)?;
        let status = self.volume.status();
        let rebuilt = status.rebuilds.iter().any(|rebuild| rebuild.member == member);
        if status.stopped {
            return Err(Refusal::Stopped);
        }
        if status.failed.contains(&member) && !rebuilt {
            return Err(Refusal::FailedAlready(member));
        }
        if !rebuilt && !self.volume.survives_without(member) {
            return Err(Refusal::WouldLoseData(member));
        }
        self.volume.give_up_member(member, Cause::Asked);
        Ok(())
    }

    /// The place of a failed member for a new device.
    fn member_place(&mut self, port: &mut Port, old: &str, new: &str) -> Result<Place, Refusal> {
        let member = self.member_called(old)?;
        self.volume.may_replace(member, u64::MAX)?;
        if self.volume.is_changing() {
            return Err(Refusal::FailureNotRecorded);
        }
        let spare = self.take_spare(|spare| spare.name == new);
        // The new device may have the same name.
        self.devices.put_member(port, member, None);
        self.watch.remove(&Watched::Member(member));
        let config = self.setup.file().map(Path::to_path_buf);
        Ok(Place { member, array: self.volume.superblock(), config, spare })
    }

    fn take_spare(&mut self, which: impl Fn(&Spare) -> bool) -> Option<Spare> {
        let spare = self.spares.take(which)?;
        self.watch.remove(&Watched::Spare(spare.name.clone()));
        Some(spare)
    }

    /// Puts a device into a failed member's place.
    fn put_member(&mut self, port: &mut Port, member: u16, device: Spare) -> Result<(), NotTaken> {
        self.spares.set_taking(false);
        self.alarms.clear(&ClearedBy::SpareTaken);
        if let Err(refusal) = self.volume.may_replace(member, device.bytes) {
            return Err(NotTaken { device: Some(Box::new(device)), why: refusal.into() });
        }
        let Spare { name, opened, bytes, uuid } = device;
        let mut config = self.setup.config().clone();
        config.put_member(member, &name);
        self.setup.set_config(config);
        let needs = member_bytes(&self.volume.superblock().geometry);
        self.watch.add(Watched::Member(member), &opened, needs);
        self.caches[usize::from(member)] = MemberCache::of(&opened);
        self.devices.put_member(port, member, Some(opened));
        self.identify(member, Some(uuid), Some(bytes));
        tracing::info!(
            target: "destage",
            array = self.setup.name(),
            "Member {member} is being rebuilt onto {name}."
        );
        let result = self.volume.replace(port.now(), member, uuid, bytes);
        self.describe_members();
        result.map_err(|why| NotTaken { device: None, why: why.into() })
    }

    /// A member as the configuration names it now.
    fn member_name(&self, member: u16) -> Option<String> {
        self.setup.config().disks.get(usize::from(member)).cloned()
    }

    /// Takes a spare where a member has failed.
    pub(super) fn look_for_spares(&mut self) {
        if self.spares.is_taking() || self.spares.is_empty() {
            return;
        }
        let Some(member) = self.volume.wants_spare() else { return };
        let Some(handle) = self.handle.clone() else { return };
        let volume = &self.volume;
        let fits = |spare: &Spare| volume.may_replace(member, spare.bytes).is_ok();
        let Some(device) = self.spares.take(fits) else { return };
        self.watch.remove(&Watched::Spare(device.name.clone()));
        let config = self.setup.file().map(Path::to_path_buf);
        // The configuration is a file, and this thread waits for none. The spare is handed over
        // only when there is a thread to take it.
        let (hand, take) = channel();
        let work = move || {
            if let Ok(device) = take.recv() {
                install_spare(&handle, config.as_deref(), member, device);
            }
        };
        match std::thread::Builder::new().name("spare".to_string()).spawn(work) {
            Ok(_) => {
                self.spares.set_taking(true);
                // The thread is there to receive it.
                let _ = hand.send(device);
            }
            Err(error) => {
                let alarm = spare_not_taken(&device.name, member, &error);
                self.spare_back(device);
                self.spare_not_taken(alarm);
            }
        }
    }

    /// A spare is ready, for the first time or again.
    pub(super) fn spare_back(&mut self, spare: Spare) {
        self.watch.add(Watched::Spare(spare.name.clone()), &spare.opened, 0);
        self.spares.add(spare);
    }

    /// Reports why a spare could not replace a member, once.
    pub(in crate::array) fn spare_not_taken(&mut self, alarm: AlarmText) {
        if !self.alarms.is_active(&alarm) {
            self.alarms.raise(alarm, ClearedBy::SpareTaken);
        }
    }

    /// Spares may be taken again.
    fn take_spares(&mut self) {
        self.spares.set_taking(false);
        self.look_for_spares();
    }

    fn spare_added(&mut self, spare: Spare) {
        let name = spare.name.clone();
        self.spare_forgotten(&name);
        let mut config = self.setup.config().clone();
        config.spares.push(name);
        self.setup.set_config(config);
        self.spare_back(spare);
    }

    fn spare_removed(&mut self, name: &str) {
        self.spare_forgotten(name);
        // It may have become a member in the meantime: then it is no longer a spare.
        self.take_spare(|spare| spare.name == name);
    }

    /// The configuration no longer names this spare, and it is not missing.
    fn spare_forgotten(&mut self, name: &str) {
        let mut config = self.setup.config().clone();
        config.spares.retain(|known| known != name);
        self.setup.set_config(config);
        self.spares.forget_missing(name);
        self.alarms.clear(&ClearedBy::SpareChanged(name.to_string()));
    }

    /// Something is wrong with a device, or was with the one before it.
    pub(in crate::array) fn trouble(&mut self, port: &mut Port, found: &Found) {
        if !self.watch.is_current(found) {
            return;
        }
        let whose = &found.whose;
        match found.trouble {
            Trouble::Deleted => self.deleted(port, whose),
            Trouble::Shrunk { bytes, needs } => {
                // Given up even if that stops the array: it would serve zeros.
                let cause = Cause::Shrunk { bytes, needs };
                self.give_up(port, whose, cause);
            }
        }
        self.volume.turn(port.now());
    }

    fn give_up(&mut self, port: &mut Port, whose: &Watched, cause: Cause) {
        self.watch.remove(whose);
        self.ending.forget_deleted(whose);
        match whose {
            Watched::Member(member) => self.volume.give_up_member(*member, cause),
            Watched::Nvs(copy) => self.volume.give_up_nvs(port.now(), *copy, cause),
            Watched::Spare(_) => {}
        }
    }

    /// The file of a device was deleted.
    fn deleted(&mut self, port: &mut Port, whose: &Watched) {
        let used = self.volume.status().nvs_devices;
        match whose {
            Watched::Member(member) if self.volume.survives_without(*member) => {
                let alarm = self.words().deleted_member(*member);
                self.alarms.raise(alarm, ClearedBy::MemberRebuilt(*member));
                self.give_up(port, whose, Cause::Deleted);
            }
            // Another one has everything, or this one has failed or is being resynced.
            Watched::Nvs(copy) if used != [*copy] => {
                self.give_up(port, whose, Cause::Deleted);
            }
            // A deleted file still works while it is open: giving it up would lose readable data.
            Watched::Nvs(copy) if self.ending.note_deleted(whose) => {
                let alarm = self.words().deleted_nvs(*copy);
                self.alarms.raise(alarm, ClearedBy::NvsMirrored);
            }
            Watched::Member(member) if self.ending.note_deleted(whose) => {
                let alarm = self.words().deleted_needed_member(*member);
                self.alarms.raise(alarm, ClearedBy::MemberRebuilt(*member));
            }
            Watched::Member(_) | Watched::Nvs(_) => {}
            Watched::Spare(name) => {
                self.take_spare(|spare| spare.name == *name);
                let alarm = self.words().deleted_spare(name);
                self.alarms.raise(alarm, ClearedBy::Nothing);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::control::Fail;
    use crate::array::device_watch::Trouble;
    use crate::array::member_cache::{Cache, Kind};
    use crate::array::tests::{Client, file, with_array};

    /// Replaces member 1; the name of the file that is rebuilt.
    fn replaced(client: &Client) -> String {
        client.gives(&Fail { disk: "1".to_string() }).expect("given up");
        let new = file(client.folder.path(), "new", 4 << 20);
        replace(&client.array, "1", &new).expect("replaced");
        let until = std::time::Instant::now() + Duration::from_secs(20);
        while client.asks(|array, _| !array.volume.status().failed.is_empty()) {
            assert!(std::time::Instant::now() < until, "not rebuilt");
            std::thread::sleep(Duration::from_millis(10));
        }
        new
    }

    #[test]
    fn what_was_known_of_a_cache_is_not_said_of_the_device_that_replaces_the_member() {
        with_array(|client| {
            let off = MemberCache { cache: Cache::Off, kind: Kind::Block, drive_bytes: 7 };
            client.asks(move |array, _| array.caches[1] = off);
            replaced(client);
            let now = client.asks(|array, _| array.caches[1]);
            assert!(now.kind == Kind::File && now.drive_bytes != 7, "{now:?}");
        });
    }

    #[test]
    fn a_device_that_replaced_a_member_and_shrinks_is_seen() {
        with_array(|client| {
            let new = std::fs::OpenOptions::new().write(true).open(replaced(client));
            new.expect("opened").set_len(1 << 20).expect("cut short");
            let found = client.asks(|array, _| array.device_watch()).look_now();
            let [Found { whose: Watched::Member(1), trouble, .. }] = found[..] else {
                panic!("{found:?}")
            };
            assert!(matches!(trouble, Trouble::Shrunk { bytes: 1_048_576, .. }), "{trouble:?}");
        });
    }
}
