//! Members that fail, spares, and devices that take a failed member's place. The admin's threads
//! open devices and keep the configuration true; the data thread attaches them and has them
//! rebuilt.

use super::admin::{Admin, SparesAsked};
use super::alarms::Ends;
use super::backend::{ArrayBackend, Disk, hand_over};
use super::config::{ArrayConfig, private};
use super::create::{Uuids, blank, empty_device};
use super::devices::{DeviceSpec, Devices, Opened};
use super::watch::{Found, Trouble, Watched};
use crate::{Port, Remote};
use destage_block::Driver;
use destage_nvslog::superblock::{Role, Superblock, Uuid};
use destage_report::live::{LostStatus, MissingMember, RebuildStatus};
use destage_served::{Cause, Device, ReplaceRefusal, member_bytes, prepare_spare, read_superblock};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const PAGE: u64 = 4096;
const CHANGING: &str = "the failure is being written down: ask again in a moment";
/// When a spare is tried again that could not be taken.
const TAKE_AGAIN: Duration = Duration::from_secs(5);

/// A spare: its name in the configuration, and the device.
pub struct Spare {
    name: String,
    opened: Opened,
    bytes: u64,
    uuid: Uuid,
}

/// What is needed to put a device into a failed member's place.
pub struct Place {
    member: u16,
    array: Superblock,
    config: Option<PathBuf>,
    /// The device, if it was a spare already.
    spare: Option<Spare>,
}

/// A device for a failed member's place.
pub struct NewMember {
    member: u16,
    device: Spare,
    answer: Sender<Result<(), NotTaken>>,
}

/// A device that does not become a member.
pub struct NotTaken {
    /// It comes back as it was, unless the array has it open already.
    device: Option<Box<Spare>>,
    why: String,
}

fn gone<E>(_: E) -> String {
    "the server is ending".to_string()
}

/// Opens a device that is empty, and makes it a spare.
fn new_spare(name: &str, array: &Superblock) -> Result<Spare, String> {
    let spec: DeviceSpec =
        name.parse().map_err(|error: super::devices::DeviceError| error.to_string())?;
    let (opened, bytes) = empty_device(&spec).map_err(|error| error.to_string())?;
    let needs = member_bytes(&array.geometry);
    if bytes < needs {
        return Err(format!("{spec}: {}", ReplaceRefusal::TooSmall(needs)));
    }
    let mut ids = Uuids::new().map_err(|error| format!("/dev/urandom: {error}"))?;
    let uuid = ids.next().map_err(|error| error.to_string())?;
    let mut alone = Devices::of(vec![Some(opened)]);
    let prepared = prepare_spare(&mut alone, Device::Member(0), array, uuid);
    prepared.map_err(|error| format!("{spec}: {error}"))?;
    let opened = alone.members.remove(0).expect("just opened");
    Ok(Spare { name: name.to_string(), opened, bytes, uuid })
}

/// Opens the spares of a configuration; and the names of those that cannot be used, with the cause.
#[must_use]
pub fn open_spares(names: &[String], array: &Superblock) -> (Vec<Spare>, Vec<(String, String)>) {
    let (mut spares, mut missing) = (Vec::new(), Vec::new());
    for name in names {
        match known_spare(name, array) {
            Ok(spare) => spares.push(spare),
            Err(why) => missing.push((name.clone(), why)),
        }
    }
    (spares, missing)
}

/// Opens a device that is a spare of the array already; the cause without the name.
fn known_spare(name: &str, array: &Superblock) -> Result<Spare, String> {
    let spec: DeviceSpec =
        name.parse().map_err(|error: super::devices::DeviceError| error.to_string())?;
    let opened = Opened::new(&spec, false).map_err(|error| error.cause())?;
    let bytes = opened.bytes().map_err(|error| error.to_string())?;
    let mut alone = Devices::of(vec![Some(opened)]);
    let said = read_superblock(&mut alone, Device::Member(0)).map_err(|why| why.to_string())?;
    let said = said.superblock;
    if said.role != Role::Spare || said.array != array.array {
        return Err("it is not a spare of this array".to_string());
    }
    let opened = alone.members.remove(0).expect("just opened");
    Ok(Spare { name: name.to_string(), opened, bytes, uuid: said.device })
}

/// Puts a device into a failed member's place and has it rebuilt.
pub(crate) fn replace(remote: &Remote, old: &str, new: &str) -> Result<(), String> {
    let mut tries = 0;
    let place = loop {
        let (sender, answer) = channel();
        let ask = Admin::MemberPlace(old.to_string(), new.to_string(), sender);
        remote.send(Box::new(ask));
        match answer.recv().map_err(gone)? {
            // What is being written down soon is.
            Err(refusal) if refusal == CHANGING && tries < 100 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(50));
            }
            place => break *place?,
        }
    };
    let Place { member, array, config, spare } = place;
    let known = spare.is_some();
    let device = match spare {
        Some(spare) => spare,
        None => {
            // What cannot be written down is refused before the device is touched.
            config.as_deref().map_or(Ok(()), |path| edit(path, |_| ()))?;
            new_spare(new, &array)?
        }
    };
    let Err((device, error)) = install(remote, config.as_deref(), member, device, known) else {
        return Ok(());
    };
    match device {
        Some(device) if known => {
            remote.send(Box::new(Admin::SpareBack(device)));
        }
        Some(mut device) => blank(&mut device.opened),
        None => {}
    }
    Err(error)
}

/// Names a device in the configuration, so that the next start finds it, and hands it over. If the
/// file cannot be written, or the array refuses the device, the device comes back, and the file
/// names what the array has. `known`: it is one of the array's spares.
fn install(
    remote: &Remote,
    config: Option<&Path>,
    member: u16,
    device: Spare,
    known: bool,
) -> Result<(), (Option<Box<Spare>>, String)> {
    let name = device.name.clone();
    if let Some(path) = config
        && let Err(error) = edit(path, |config| put(config, member, &name))
    {
        return Err((Some(Box::new(device)), error));
    }
    let (sender, answer) = channel();
    remote.send(Box::new(Admin::Replace(Box::new(NewMember { member, device, answer: sender }))));
    let NotTaken { device, why } = match answer.recv() {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(refused)) => refused,
        Err(_) => NotTaken { device: None, why: gone(()) },
    };
    let (sender, answer) = channel();
    remote.send(Box::new(Admin::MemberName(member, sender)));
    // Another device may have become the member in the meantime.
    if let (Some(path), Ok(Some(now))) = (config, answer.recv()) {
        let _ = edit(path, |config| {
            put(config, member, &now);
            if known && now != name {
                config.spares.push(name);
            }
        });
    }
    Err((device, why))
}

/// [`install`], for a spare that nobody waits for.
fn install_spare(remote: &Remote, config: Option<&Path>, member: u16, device: Spare) {
    let name = device.name.clone();
    let Err((device, error)) = install(remote, config, member, device, true) else { return };
    let text = not_taken(&name, member, &error);
    if let Some(device) = device {
        remote.send(Box::new(Admin::SpareBack(device)));
    }
    remote.send(Box::new(Admin::SpareNotTaken(text)));
    std::thread::sleep(TAKE_AGAIN);
    remote.send(Box::new(Admin::TakeSpares));
}

fn not_taken(name: &str, member: u16, error: &str) -> String {
    format!(
        "spare-not-taken: {name} does not become member {member}, since {error}: put that right; \
         it is tried again"
    )
}

fn put(config: &mut ArrayConfig, member: u16, name: &str) {
    config.spares.retain(|spare| spare != name);
    if let Some(disk) = config.disks.get_mut(usize::from(member)) {
        *disk = name.to_string();
    }
}

/// One change of a configuration file at a time: each is read, changed and replaced.
static EDITS: Mutex<()> = Mutex::new(());

/// Changes a configuration file, which is replaced as a whole.
pub(crate) fn edit(path: &Path, change: impl FnOnce(&mut ArrayConfig)) -> Result<(), String> {
    let _alone = EDITS.lock().unwrap_or_else(PoisonError::into_inner);
    let other = |error: &dyn std::fmt::Display| std::io::Error::other(error.to_string());
    let work = || -> std::io::Result<()> {
        let text = std::fs::read_to_string(path)?;
        let mut config: ArrayConfig = toml::from_str(&text).map_err(|error| other(&error))?;
        change(&mut config);
        let text = toml::to_string(&config).map_err(|error| other(&error))?;
        let new = path.with_extension("toml.new");
        let mut file = private(&new)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(std::fs::metadata(path)?.permissions())?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        std::fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    };
    work().map_err(|error| format!("{}: {error}", path.display()))
}

/// Gives an array a spare, or takes one away.
pub(crate) fn spare(remote: &Remote, name: &str, add: bool) -> Result<(), String> {
    let (sender, answer) = channel();
    remote.send(Box::new(Admin::Spares(sender)));
    let SparesAsked { array, names, missing, config } = *answer.recv().map_err(gone)?;
    let known = names.iter().any(|known| known == name);
    let returns = missing.iter().any(|missing| missing == name);
    if known == add && !returns {
        let what = if add { "is a spare of this array already" } else { "is no spare of it" };
        return Err(format!("{name} {what}"));
    }
    config.as_deref().map_or(Ok(()), |path| edit(path, |_| ()))?;
    let mut spare = match (add, returns) {
        (false, _) => None,
        (true, false) => Some(new_spare(name, &array)?),
        (true, true) => Some(known_spare(name, &array).map_err(|why| format!("{name}: {why}"))?),
    };
    if let Some(path) = config.as_ref().filter(|_| !(add && returns)) {
        let written = edit(path, |config| match add {
            true => config.spares.push(name.to_string()),
            false => config.spares.retain(|spare| spare != name),
        });
        if let Err(error) = written {
            spare.iter_mut().for_each(|spare| blank(&mut spare.opened));
            return Err(error);
        }
    }
    let (sender, answer) = channel();
    remote.send(Box::new(Admin::Spare(name.to_string(), spare.map(Box::new), sender)));
    answer.recv().map_err(gone)?
}

impl ArrayBackend {
    /// Gives the backend its spares, and the way to it from other threads: it takes spares by
    /// itself from now on, and looks whether files are still there.
    pub fn set_spares(&mut self, spares: Vec<Spare>, remote: Remote) {
        spares.into_iter().for_each(|spare| self.spare_back(spare));
        self.watch.start(remote.clone());
        self.remote = Some(remote);
    }

    /// A member by its name in the configuration, or its number.
    pub(crate) fn member_called(&self, name: &str) -> Result<u16, String> {
        let disks = &self.config().disks;
        let named = disks.iter().position(|disk| disk == name);
        let number = || name.parse::<usize>().ok().filter(|number| *number < disks.len());
        let unknown = || format!("{name} is no member of this array: see `destage status`");
        named.or_else(number).map(|number| number as u16).ok_or_else(unknown)
    }

    /// Gives up a member, or the spare that is to become it.
    pub(crate) fn fail_member(&mut self, name: &str) -> Result<(), String> {
        let member = self.member_called(name)?;
        let status = self.volume.status();
        let rebuilt = status.rebuilds.iter().any(|rebuild| rebuild.member == member);
        if status.stopped {
            return Err("the array has stopped; see `destage status`".to_string());
        }
        if status.failed.contains(&member) && !rebuilt {
            return Err(format!("member {member} has failed already"));
        }
        if !rebuilt && !self.volume.survives_without(member) {
            return Err(format!(
                "without member {member} data would be lost: the array would stop. Replace what \
                 has failed first"
            ));
        }
        self.volume.give_up_member(member, Cause::Asked);
        Ok(())
    }

    /// The place of a failed member for a new device.
    pub(crate) fn member_place(
        &mut self,
        port: &mut Port,
        old: &str,
        new: &str,
    ) -> Result<Box<Place>, String> {
        let member = self.member_called(old)?;
        self.volume.may_replace(member, u64::MAX).map_err(|refusal| refusal.to_string())?;
        if self.volume.is_changing() {
            return Err(CHANGING.to_string());
        }
        let spare = self.take_spare(|spare| spare.name == new);
        // The new one may have the same name.
        self.attach(port, member, Disk::None);
        self.watch.remove(&Watched::Member(member));
        let (array, config) = (self.volume.superblock(), self.config_path.clone());
        Ok(Box::new(Place { member, array, config, spare }))
    }

    fn take_spare(&mut self, which: impl Fn(&Spare) -> bool) -> Option<Spare> {
        let at = self.spares.iter().position(which)?;
        let spare = self.spares.remove(at);
        self.watch.remove(&Watched::Spare(spare.name.clone()));
        Some(spare)
    }

    /// Puts a device into a failed member's place.
    pub(crate) fn put_member(&mut self, port: &mut Port, new: NewMember) {
        let NewMember { member, device, answer } = new;
        self.taking = false;
        self.alarms.end(&Ends::SpareTaken);
        if let Err(refusal) = self.volume.may_replace(member, device.bytes) {
            let device = Some(Box::new(device));
            // Whoever asked may be gone.
            let _ = answer.send(Err(NotTaken { device, why: refusal.to_string() }));
            return;
        }
        let Spare { name, opened, bytes, uuid } = device;
        let mut config = self.config().clone();
        put(&mut config, member, &name);
        let needs = member_bytes(&self.volume.superblock().geometry);
        self.watch.add(Watched::Member(member), &opened, needs);
        let disk = hand_over(port, opened);
        self.attach(port, member, disk);
        self.identify(member, &name, Some(uuid), Some(bytes));
        eprintln!("destage: member {member} is rebuilt onto {name}");
        self.set_config(config);
        let result = self.volume.replace(port.now(), member, uuid, bytes);
        let refused = |why: ReplaceRefusal| NotTaken { device: None, why: why.to_string() };
        let _ = answer.send(result.map_err(refused));
    }

    /// A member as the configuration names it now.
    pub(crate) fn member_name(&self, member: u16) -> Option<String> {
        self.config().disks.get(usize::from(member)).cloned()
    }

    /// Takes a spare where a member has failed.
    pub(crate) fn look_for_spares(&mut self) {
        if self.taking || self.spares.is_empty() {
            return;
        }
        let Some(member) = self.volume.wants_spare() else { return };
        let fits = |spare: &Spare| self.volume.may_replace(member, spare.bytes).is_ok();
        let Some(at) = self.spares.iter().position(fits) else { return };
        let Some(remote) = self.remote.clone() else { return };
        let device = self.spares.remove(at);
        self.watch.remove(&Watched::Spare(device.name.clone()));
        let config = self.config_path.clone();
        // The configuration is a file, and this thread waits for none. Who gets no thread to hand
        // the spare to has it still.
        let (hand, take) = channel();
        let work = move || {
            if let Ok(device) = take.recv() {
                install_spare(&remote, config.as_deref(), member, device);
            }
        };
        match std::thread::Builder::new().name("spare".to_string()).spawn(work) {
            Ok(_) => {
                self.taking = true;
                // It is there to receive.
                let _ = hand.send(device);
            }
            Err(error) => {
                let text = not_taken(&device.name, member, &error.to_string());
                self.spare_back(device);
                self.spare_not_taken(text);
            }
        }
    }

    /// A spare that was to become a member is one still.
    pub(crate) fn spare_back(&mut self, spare: Spare) {
        self.watch.add(Watched::Spare(spare.name.clone()), &spare.opened, 0);
        self.spares.push(spare);
    }

    /// Tells why no spare is taken, once.
    pub(crate) fn spare_not_taken(&mut self, text: String) {
        if !self.alarms.has(&text) {
            self.told(text, Ends::SpareTaken);
        }
    }

    /// Spares may be taken again.
    pub(crate) fn take_spares(&mut self) {
        self.taking = false;
        self.look_for_spares();
    }

    /// Something is wrong with a device, or was with the one before it.
    pub(crate) fn trouble(&mut self, port: &mut Port, found: &Found) {
        if !self.watch.is_current(found) {
            return;
        }
        let whose = &found.whose;
        match found.trouble {
            Trouble::Deleted => self.deleted(port, whose),
            Trouble::Shrunk { bytes, needs } => {
                // Given up even if the array stops by it: it would serve zeros.
                let cause = Cause::Shrunk { bytes, needs };
                self.give_up_watched(port, whose, cause);
            }
        }
        self.volume.turn(port.now());
    }

    fn give_up_watched(&mut self, port: &mut Port, whose: &Watched, cause: Cause) {
        self.watch.remove(whose);
        self.ending.forget(whose);
        match whose {
            Watched::Member(member) => self.volume.give_up_member(*member, cause),
            Watched::Nvs(copy) => self.volume.give_up_nvs(port.now(), *copy, cause),
            Watched::Spare(_) => {}
        }
    }

    /// A file is not there any more.
    fn deleted(&mut self, port: &mut Port, whose: &Watched) {
        let others = |copy: u16| self.volume.status().nvs_devices.iter().any(|used| *used != copy);
        match whose {
            Watched::Member(member) if self.volume.survives_without(*member) => {
                let name = &self.config().disks[usize::from(*member)];
                let text = format!("file-deleted: {name} was deleted: member {member} is given up");
                self.told(text, Ends::MemberRebuilt(*member));
                self.give_up_watched(port, whose, Cause::Deleted);
            }
            Watched::Nvs(copy) if others(*copy) => {
                self.give_up_watched(port, whose, Cause::Deleted);
            }
            Watched::Nvs(copy) if !self.volume.status().nvs_devices.contains(copy) => {
                // It is lost already, or was being filled.
                self.give_up_watched(port, whose, Cause::Deleted);
            }
            // Open they work on: to give one up would end what can still be read.
            Watched::Nvs(copy) if self.ending.note(whose) => {
                let (array, name) = (self.name(), &self.config().nvs[usize::from(*copy)]);
                let text = format!(
                    "file-deleted: {name}, the only NVS device, was deleted. The open file works \
                     until the server ends; then its dirty pages are lost. Give the array another \
                     one now: destage replace-nvs {array} NEW"
                );
                self.told(text, Ends::NvsMirrored);
            }
            Watched::Member(member) if self.ending.note(whose) => {
                let (array, name) = (self.name(), &self.config().disks[usize::from(*member)]);
                let text = format!(
                    "file-deleted: {name} was deleted, and data would be lost without member \
                     {member}. The open file works until the server ends; then it is lost. Copy \
                     the data off, let a rebuild end, or end the server with SIGTERM, which says \
                     how to save the file. `destage stop {array}` refuses"
                );
                self.told(text, Ends::MemberRebuilt(*member));
            }
            Watched::Member(_) | Watched::Nvs(_) => {}
            Watched::Spare(name) => {
                self.take_spare(|spare| spare.name == *name);
                let text = format!("file-deleted: {name} was deleted: it was a spare");
                self.told(text, Ends::Never);
            }
        }
    }

    /// A spare is given or taken away.
    pub(crate) fn change_spare(
        &mut self,
        name: &str,
        spare: Option<Box<Spare>>,
    ) -> Result<(), String> {
        let mut config = self.config().clone();
        config.spares.retain(|known| known != name);
        self.missing_spares.retain(|missing| missing != name);
        self.alarms.end(&Ends::SpareChanged(name.to_string()));
        if let Some(spare) = spare {
            config.spares.push(name.to_string());
            self.spare_back(*spare);
        } else {
            // It may have been taken meanwhile: then it is none any more.
            self.take_spare(|spare| spare.name == name);
        }
        self.set_config(config);
        Ok(())
    }

    /// The names of the spares at hand.
    pub(crate) fn spare_names(&self) -> Vec<String> {
        self.spares.iter().map(|spare| spare.name.clone()).collect()
    }

    /// The rebuilds, as they are told.
    pub(crate) fn rebuilds_told(&self) -> Vec<RebuildStatus> {
        let seconds = |time: destage_engine::units::Duration| time.0 as f64 / 1e9;
        let of = |rebuild: destage_served::RebuildStatus| {
            let progress = rebuild.progress;
            RebuildStatus {
                member: rebuild.member,
                device: self.config().disks[usize::from(rebuild.member)].clone(),
                bytes_done: progress.done_pages * PAGE,
                bytes: progress.disk_pages * PAGE,
                checkpoint_bytes: rebuild.checkpoint * PAGE,
                elapsed_s: seconds(progress.elapsed),
                to_go_s: progress.to_go.map(seconds),
                lost_pages: rebuild.lost_pages,
            }
        };
        self.volume.rebuild_status().into_iter().map(of).collect()
    }

    /// What is lost while members stay away, if the array has stopped for that.
    pub(crate) fn lost_told(&self) -> Option<LostStatus> {
        let lost = self.volume.lost();
        let missing =
            |(member, from): &(u16, u64)| MissingMember { member: *member, from: from * PAGE };
        (!lost.members.is_empty()).then(|| LostStatus {
            members: lost.members.iter().map(missing).collect(),
            bytes: lost.pages * PAGE,
            ranges: lost.ranges.iter().map(|(first, pages)| (first * PAGE, pages * PAGE)).collect(),
            more: lost.more,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_a_configuration_at_once_all_get_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tank.toml");
        let text = "version = 1\ndisks = ['/dev/a']\npolicy = 'stow'\nrate = 'linear'\n\
                    ack = 'nvs'\non_nvs_loss = 'stop'\nqueue_depth = 128\nwindow = 32\n\
                    stall_seconds = 30\n";
        std::fs::write(&path, text).expect("written");
        let (path, name) = (&path, |thread, n| format!("/dev/{thread}-{n}"));
        let add = |thread| {
            let one = |n| edit(path, |config| config.spares.push(name(thread, n)));
            (0..20).try_for_each(one)
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|thread| scope.spawn(move || add(thread))).collect();
            for thread in threads {
                assert_eq!(thread.join().expect("no panic"), Ok(()));
            }
        });
        let text = std::fs::read_to_string(path).expect("read");
        let config: ArrayConfig = toml::from_str(&text).expect("not torn");
        assert_eq!(config.spares.len(), 80, "{text}");
    }
}
