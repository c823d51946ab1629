//! The configuration file of an array: which devices, and how it is run. What the array *is*
//! stands in the superblocks.

use super::readcache::ReadCacheConfig;
use destage_engine::units::Duration;
use destage_served::{Ack, OnNvsLoss, Settings};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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
    /// When the last NVS device fails: `write-through` or `stop`.
    pub on_nvs_loss: String,
    /// Greatest number of destage writes in flight.
    pub queue_depth: u32,
    /// Commands that a member sees at once.
    pub window: u32,
    /// Seconds after which a device that does not answer has failed.
    pub stall_seconds: u32,
    /// Seconds that a server which is told to end waits for deleted files to be saved.
    #[serde(default = "save_seconds")]
    pub save_seconds: u32,
    /// Limits of rebuilds: `share=50,min=20`.
    #[serde(default)]
    pub rebuild: String,
    /// The read cache.
    #[serde(default)]
    pub read_cache: ReadCacheConfig,
}

/// By default.
fn save_seconds() -> u32 {
    300
}

/// Why there is no configuration to go by.
#[derive(Debug)]
pub enum ConfigFileError {
    /// A name that makes no file name.
    Name(String),
    /// There is none of that name.
    Unknown(String, PathBuf),
    /// There is one already.
    Exists(PathBuf),
    /// The file is no configuration.
    Form(PathBuf, String),
    /// The system refuses.
    Io(PathBuf, std::io::Error),
    /// A value out of range.
    Value(&'static str, String),
}

impl fmt::Display for ConfigFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigFileError::Name(name) => {
                write!(f, "{name:?}: a name is of letters, digits, - and _")
            }
            ConfigFileError::Unknown(name, path) => write!(
                f,
                "there is no array {name} ({} does not exist): create it, or give --config-dir",
                path.display()
            ),
            ConfigFileError::Exists(path) => write!(
                f,
                "{} exists already: choose another name, or remove that file if the array is gone",
                path.display()
            ),
            ConfigFileError::Form(path, error) => write!(f, "{}: {error}", path.display()),
            ConfigFileError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            ConfigFileError::Value(name, error) => write!(f, "{name}: {error}"),
        }
    }
}

impl std::error::Error for ConfigFileError {}

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
    #[must_use]
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
    /// A name that is none.
    pub fn config_of(&self, name: &str) -> Result<PathBuf, ConfigFileError> {
        check_name(name)?;
        Ok(self.config.join(format!("{name}.toml")))
    }

    /// The control socket of an array.
    ///
    /// # Errors
    /// A name that is none.
    pub fn control_of(&self, name: &str) -> Result<PathBuf, ConfigFileError> {
        check_name(name)?;
        Ok(self.run.join(format!("{name}.control")))
    }

    /// Reads the configuration of an array.
    ///
    /// # Errors
    /// See [`ConfigFileError`].
    pub fn read(&self, name: &str) -> Result<ArrayConfig, ConfigFileError> {
        let path = self.config_of(name)?;
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(ConfigFileError::Unknown(name.to_string(), path));
            }
            Err(error) => return Err(ConfigFileError::Io(path, error)),
        };
        let config: ArrayConfig = toml::from_str(&text)
            .map_err(|error| ConfigFileError::Form(path.clone(), error.message().to_string()))?;
        if config.version != 1 {
            let error = format!("version {}; this program knows 1", config.version);
            return Err(ConfigFileError::Form(path, error));
        }
        config.settings()?;
        Ok(config)
    }

    /// Writes the configuration of a new array beside its place.
    ///
    /// # Errors
    /// See [`ConfigFileError`].
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
    /// Puts it in its place.
    ///
    /// # Errors
    /// See [`ConfigFileError`].
    pub fn commit(mut self) -> Result<PathBuf, ConfigFileError> {
        let fail = |error| ConfigFileError::Io(self.path.clone(), error);
        if let Some(new) = &self.new {
            std::fs::rename(new, &self.path).map_err(fail)?;
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

fn check_name(name: &str) -> Result<(), ConfigFileError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        return Err(ConfigFileError::Name(name.to_string()));
    }
    Ok(())
}

impl ArrayConfig {
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
        if self.save_seconds > 100_000 {
            return Err(bad("save_seconds", &"0 to 100000"));
        }
        settings.rebuild = destage_engine::limits::parse_limits(&self.rebuild)
            .map_err(|error| bad("rebuild", &error))?;
        settings.read_cache = self.read_cache.choice()?;
        settings.queue_depth = self.queue_depth;
        settings.window = self.window;
        settings.stall_limit = Duration::from_secs(u64::from(self.stall_seconds));
        Ok(settings)
    }
}
