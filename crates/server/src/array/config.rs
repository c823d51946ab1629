//! The configuration file of an array: its devices and its settings. What the array *is* is in the
//! superblocks.

use super::readcache::{InvalidValue, ReadCacheConfig};
use destage_engine::flushes::{Durability, FlushLimits};
use destage_engine::units::{Duration, PAGE_BYTES};
use destage_served::{Ack, OnNvsLoss, Settings};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use thiserror::Error;

/// An array's configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayConfig {
    /// Version of this form.
    pub version: u32,
    /// Members, in their order: paths or NBD URIs.
    pub disks: Vec<String>,
    /// NVS devices: none, one or two paths.
    #[serde(default)]
    pub nvs: Vec<String>,
    /// Devices that become members when some fail.
    #[serde(default)]
    pub spares: Vec<String>,
    /// Destage policy, with its parameters.
    pub policy: String,
    /// Rate scheme, with its parameters.
    pub rate: String,
    /// `nvs` or `flush`.
    pub ack: String,
    /// How destages become durable on the members: `auto`, `fua`, `flush`, `epochs` or `off`.
    #[serde(default = "durability")]
    pub durability: String,
    /// Members may be in one drive, which fail together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_same_drive: bool,
    /// Longest time that a flush of a member should take, in milliseconds.
    #[serde(default = "flush_bound_ms")]
    pub flush_bound_ms: u32,
    /// When the last NVS device fails: `write-through` or `stop`.
    pub on_nvs_loss: String,
    /// Greatest number of destage writes in flight.
    pub queue_depth: u32,
    /// Commands that a member sees at once.
    pub window: u32,
    /// Seconds after which a device that does not answer has failed.
    pub stall_seconds: u32,
    /// Seconds that an ending server waits for deleted files to be saved.
    #[serde(default = "save_seconds")]
    pub save_seconds: u32,
    /// Most bytes of dirty pages, because memory has them too; not given: a quarter of this
    /// machine's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_dirty: Option<u64>,
    /// Bytes of memory for old data and parity of destaged rows; 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stripe_memory: u64,
    /// Limits of rebuilds: `share=50,min=20`.
    #[serde(default)]
    pub rebuild: String,
    /// The read cache.
    #[serde(default)]
    pub read_cache: ReadCacheConfig,
}

/// Fewest bytes of dirty pages: those of a write of the greatest length.
const MAX_DIRTY_MIN: u64 = 1 << 20;

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// By default.
fn save_seconds() -> u32 {
    300
}

/// By default.
fn durability() -> String {
    "auto".to_string()
}

/// By default.
fn flush_bound_ms() -> u32 {
    (FlushLimits::default().bound.0 / 1_000_000) as u32
}

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigFileError {
    /// The name is not a valid file name.
    #[error("{0:?}: array names may contain only letters, digits, '-' and '_'")]
    Name(String),
    /// No array has this name.
    #[error("there is no array {0} ({1} does not exist): create it, or give --config-dir")]
    Unknown(String, PathBuf),
    /// An array of this name exists.
    #[error("{0} exists already: choose another name, or remove that file if the array is gone")]
    Exists(PathBuf),
    /// The file is not a valid configuration.
    #[error("{0}: {1}")]
    Form(PathBuf, String),
    /// The file cannot be read or written.
    #[error("{0}: {1}")]
    Io(PathBuf, std::io::Error),
    /// A value out of range.
    #[error("{0}: {1}")]
    Value(&'static str, String),
}

/// Where configurations and control sockets are.
#[derive(Clone, Debug)]
pub struct Places {
    /// Folder of the configurations.
    pub config: PathBuf,
    /// Folder of the control sockets.
    pub run: PathBuf,
}

impl Places {
    /// The folders given, or `/etc/destage` and `/run/destage` for root, or the user's own.
    pub fn new(config: Option<&Path>, run: Option<&Path>) -> Places {
        let root = rustix::process::geteuid().is_root();
        let home = |variable: &str, below: &str| {
            let own = std::env::var_os(variable).map(PathBuf::from);
            own.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(below)))
                .unwrap_or_else(|| PathBuf::from("."))
                .join("destage")
        };
        let default = |system: &str, variable: &str, below: &str| {
            if root { PathBuf::from(system) } else { home(variable, below) }
        };
        let config = config
            .map_or_else(|| default("/etc/destage", "XDG_CONFIG_HOME", ".config"), PathBuf::from);
        let run =
            run.map_or_else(|| default("/run/destage", "XDG_RUNTIME_DIR", ".cache"), PathBuf::from);
        Places { config, run }
    }

    /// The configuration of an array.
    ///
    /// # Errors
    /// If the name is not valid.
    pub fn config_of(&self, name: &str) -> Result<PathBuf, ConfigFileError> {
        check_name(name)?;
        Ok(self.config.join(format!("{name}.toml")))
    }

    /// The control socket of an array.
    ///
    /// # Errors
    /// If the name is not valid.
    pub fn control_of(&self, name: &str) -> Result<PathBuf, ConfigFileError> {
        check_name(name)?;
        Ok(self.run.join(format!("{name}.control")))
    }

    /// Reads the configuration of an array.
    pub fn read(&self, name: &str) -> Result<ArrayConfig, ConfigFileError> {
        let path = self.config_of(name)?;
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(ConfigFileError::Unknown(name.to_string(), path));
            }
            Err(error) => return Err(ConfigFileError::Io(path, error)),
        };
        ArrayConfig::of_text(&text, path)
    }

    /// Writes the configuration of a new array next to its place.
    pub fn prepare(&self, name: &str, config: &ArrayConfig) -> Result<Prepared, ConfigFileError> {
        let path = self.config_of(name)?;
        let fail = |error| ConfigFileError::Io(path.clone(), error);
        if path.exists() {
            return Err(ConfigFileError::Exists(path));
        }
        std::fs::create_dir_all(&self.config).map_err(fail)?;
        let text = toml::to_string(config)
            .map_err(|error| ConfigFileError::Form(path.clone(), error.to_string()))?;
        let new = path.with_extension("toml.new");
        let prepared = Prepared { new: Some(new.clone()), path: path.clone() };
        let mut file = private(&new).map_err(fail)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(fail)?;
        Ok(prepared)
    }
}

/// A file for its owner alone, empty.
pub(super) fn private(path: &Path) -> std::io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// The configuration of a new array, to be put in its place when the array is there. It goes if
/// this is dropped.
pub struct Prepared {
    new: Option<PathBuf>,
    path: PathBuf,
}

impl Prepared {
    /// Renames it to its place.
    pub fn commit(mut self) -> Result<PathBuf, ConfigFileError> {
        let fail = |error| ConfigFileError::Io(self.path.clone(), error);
        if let Some(new) = &self.new {
            rename_durably(new, &self.path).map_err(fail)?;
        }
        self.new = None;
        Ok(self.path.clone())
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(new) = &self.new {
            let _ = std::fs::remove_file(new);
        }
    }
}

/// Puts a new file in its place. A power failure afterwards leaves it there. After an error, what
/// was there before is there, as far as the system allows: callers then undo what the new one says.
fn rename_durably(from: &Path, to: &Path) -> std::io::Result<()> {
    rename_with(from, to, std::fs::File::sync_all)
}

/// The same; `sync` makes the names in a folder durable.
fn rename_with(
    from: &Path,
    to: &Path,
    sync: impl FnOnce(&std::fs::File) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = std::fs::File::open(folder.unwrap_or(Path::new(".")))?;
    let before = match std::fs::read(to) {
        Ok(text) => Some((text, std::fs::metadata(to)?.permissions())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    std::fs::rename(from, to)?;
    sync(&folder).inspect_err(|_| {
        // The first error is the one to report.
        let _ = match before {
            Some((text, permissions)) => put_back(from, to, &text, permissions),
            None => std::fs::remove_file(to),
        };
    })
}

/// Puts the old text of a file back; `new` is where it is written first.
fn put_back(
    new: &Path,
    path: &Path,
    text: &[u8],
    permissions: std::fs::Permissions,
) -> std::io::Result<()> {
    let mut file = private(new)?;
    file.write_all(text)?;
    file.set_permissions(permissions)?;
    // The folder cannot be made durable either.
    let _ = file.sync_all();
    std::fs::rename(new, path)
}

fn check_name(name: &str) -> Result<(), ConfigFileError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        return Err(ConfigFileError::Name(name.to_string()));
    }
    Ok(())
}

/// One change of a configuration file at a time: each is read, changed and replaced.
static EDITS: Mutex<()> = Mutex::new(());

/// Changes a configuration file; the new one replaces it atomically.
pub(super) fn edit(
    path: &Path,
    change: impl FnOnce(&mut ArrayConfig),
) -> Result<(), ConfigFileError> {
    let _alone = EDITS.lock().unwrap_or_else(PoisonError::into_inner);
    let other = |error: &dyn fmt::Display| std::io::Error::other(error.to_string());
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
        rename_durably(&new, path)
    };
    work().map_err(|error| ConfigFileError::Io(path.to_path_buf(), error))
}

/// Refuses a configuration file that cannot be replaced, before anything else is changed.
pub(super) fn check_writable(path: Option<&Path>) -> Result<(), ConfigFileError> {
    path.map_or(Ok(()), |path| edit(path, |_| ()))
}

impl ArrayConfig {
    /// The configuration in the text of a file; the path is for errors.
    ///
    /// # Errors
    /// If it is not a valid configuration, or has a value out of range.
    pub fn of_text(text: &str, path: PathBuf) -> Result<ArrayConfig, ConfigFileError> {
        let config: ArrayConfig = match toml::from_str(text) {
            Ok(config) => config,
            Err(error) => return Err(ConfigFileError::Form(path, error.message().to_string())),
        };
        if config.version != 1 {
            let error = format!("version {}; this program reads version 1", config.version);
            return Err(ConfigFileError::Form(path, error));
        }
        config.settings()?;
        Ok(config)
    }

    /// How destages become durable on the members.
    ///
    /// # Errors
    /// The word is not one of those that are known.
    pub(super) fn durability(&self) -> Result<Choice, ConfigFileError> {
        Choice::called(&self.durability).ok_or_else(|| {
            let error = format!("{:?} is not auto, fua, flush, epochs or off", self.durability);
            ConfigFileError::Value("durability", error)
        })
    }

    /// Whether the array stops when its last NVS device fails.
    pub(super) fn stops_on_nvs_loss(&self) -> bool {
        self.on_nvs_loss == "stop"
    }

    /// How long the server tries to reach the server of a member again: less than the stall limit,
    /// so that the operations which wait do not count as stalled.
    pub(super) fn reconnect_seconds(&self) -> f64 {
        f64::from(self.stall_seconds) * 7.0 / 8.0
    }

    /// A member by its name in the configuration, or by its number.
    pub(super) fn member_called(&self, name: &str) -> Option<u16> {
        let named = self.disks.iter().position(|disk| disk == name);
        let number = || name.parse::<usize>().ok().filter(|number| *number < self.disks.len());
        named.or_else(number).map(|number| number as u16)
    }

    /// Puts a device into the place of a member; if it was a spare, it no longer is.
    pub(super) fn put_member(&mut self, member: u16, name: &str) {
        self.spares.retain(|spare| spare != name);
        if let Some(disk) = self.disks.get_mut(usize::from(member)) {
            *disk = name.to_string();
        }
    }

    /// Puts a device into the place of an NVS device, or behind the last.
    pub(super) fn put_nvs(&mut self, place: u16, name: &str) {
        match self.nvs.get_mut(usize::from(place)) {
            Some(device) => *device = name.to_string(),
            None => self.nvs.push(name.to_string()),
        }
    }

    /// Most dirty pages that memory may take; `None`: unknown, because the system does not say how
    /// much there is.
    #[must_use]
    pub fn dirty_pages_max(&self) -> Option<u64> {
        let bytes = self.max_dirty.or_else(|| Some(super::memory::total()? / 4));
        bytes.map(|bytes| bytes / PAGE_BYTES)
    }

    /// How the volume runs.
    ///
    /// # Errors
    /// A value out of range.
    pub fn settings(&self) -> Result<Settings, ConfigFileError> {
        let bad = |name, error: &dyn fmt::Display| ConfigFileError::Value(name, error.to_string());
        let policy = destage_engine::policy::choose(&self.policy).map_err(|e| bad("policy", &e))?;
        let rate = destage_engine::rate::choose(&self.rate).map_err(|e| bad("rate", &e))?;
        let mut settings = Settings::new(policy, rate);
        settings.pages = super::pages::memory();
        settings.ack = match self.ack.as_str() {
            "nvs" => Ack::Nvs,
            "flush" => Ack::Flush,
            other => return Err(bad("ack", &format!("{other:?} is neither nvs nor flush"))),
        };
        settings.on_nvs_loss = match self.on_nvs_loss.as_str() {
            "write-through" => OnNvsLoss::WriteThrough,
            "stop" => OnNvsLoss::Stop,
            other => {
                let error = format!("{other:?} is neither write-through nor stop");
                return Err(bad("on_nvs_loss", &error));
            }
        };
        for (value, name) in [
            (self.queue_depth, "queue_depth"),
            (self.window, "window"),
            (self.stall_seconds, "stall_seconds"),
        ] {
            if !(1..=100_000).contains(&value) {
                return Err(bad(name, &"1 to 100000"));
            }
        }
        self.durability()?;
        if !(1..=60_000).contains(&self.flush_bound_ms) {
            return Err(bad("flush_bound_ms", &"1 to 60000"));
        }
        settings.flush_limits.bound = Duration::from_millis(u64::from(self.flush_bound_ms));
        if self.save_seconds > 100_000 {
            return Err(bad("save_seconds", &"0 to 100000"));
        }
        if self.max_dirty.is_some_and(|bytes| bytes < MAX_DIRTY_MIN) {
            return Err(bad("max_dirty", &format!("at least {MAX_DIRTY_MIN} bytes")));
        }
        settings.dirty_pages_max = self.dirty_pages_max();
        settings.rebuild = destage_engine::limits::parse_limits(&self.rebuild)
            .map_err(|error| bad("rebuild", &error))?;
        let invalid = |InvalidValue(name, why)| ConfigFileError::Value(name, why);
        settings.read_cache = self.read_cache.choice().map_err(invalid)?;
        settings.queue_depth = self.queue_depth;
        settings.window = self.window;
        settings.stripe_memory = self.stripe_memory / PAGE_BYTES;
        settings.stall_limit = Duration::from_secs(u64::from(self.stall_seconds));
        Ok(settings)
    }
}

/// How destages should become durable: what the configuration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// By what is known of each member.
    Auto,
    /// In one way.
    Given(Durability),
}

impl Choice {
    /// The choice of a name.
    pub(crate) fn called(name: &str) -> Option<Choice> {
        match name {
            "auto" => Some(Choice::Auto),
            _ => Durability::called(name).map(Choice::Given),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_whose_new_name_cannot_be_made_durable_is_as_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, new) = (folder.path().join("tank.toml"), folder.path().join("tank.toml.new"));
        let renamed = |synced: fn() -> std::io::Result<()>| {
            std::fs::write(&new, "the new one").expect("written");
            rename_with(&new, &path, |_| synced())
        };
        let fails = || -> std::io::Result<()> { Err(std::io::Error::from_raw_os_error(libc::EIO)) };
        let error = renamed(fails).expect_err("reported");
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0);
        std::fs::write(&path, "the old one").expect("written");
        let mode = std::fs::Permissions::from_mode(0o640);
        std::fs::set_permissions(&path, mode).expect("set");
        renamed(fails).expect_err("reported");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "the old one");
        let about = std::fs::metadata(&path).expect("a file");
        assert_eq!(about.permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1);
        renamed(|| Ok(())).expect("renamed");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "the new one");
    }

    #[test]
    fn concurrent_changes_of_a_configuration_are_all_kept() {
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
                thread.join().expect("no panic").expect("written");
            }
        });
        let text = std::fs::read_to_string(path).expect("read");
        let config: ArrayConfig = toml::from_str(&text).expect("not torn");
        assert_eq!(config.spares.len(), 80, "{text}");
    }
}
