//! Why a served array does not do what a command asks. This is the one place that has the words.

use super::config::ConfigFileError;
use super::create::CreateError;
use super::devices::DeviceError;
use super::member_cache::CacheIsOn;
use super::same_drive::SameDrive;
use destage_served::{MirrorRefusal, ReplaceRefusal, ScrubRefusal};
use thiserror::Error;

/// Why a command was refused, or could not be done.
#[derive(Debug, Error)]
pub enum Refusal {
    /// The request is not one that the array understands.
    #[error("{0}")]
    Malformed(String),
    /// A change without anything to change.
    #[error(
        "nothing to set: give policy, rate, rebuild, read-cache, read-cache-size, vdf or \
         read-cache-writes"
    )]
    NothingToSet,
    /// Two arguments contradict each other.
    #[error("--{0} and --{1} exclude each other: give one of them")]
    Contradiction(&'static str, &'static str),
    /// The server is ending and answers no more.
    #[error("the server is ending")]
    Ending,
    /// The server would lose the only copy of these deleted files of the array of this name.
    #[error("{}", would_lose_files(.0, .1))]
    WouldLoseFiles(String, Vec<String>),
    /// Dirty pages are left.
    #[error(transparent)]
    Undrained(#[from] Undrained),
    /// No member has this name or number.
    #[error("{0} is not a member of this array: see `destage status`")]
    NoSuchMember(String),
    /// The member has failed already.
    #[error("member {0} has failed already")]
    FailedAlready(u16),
    /// Without the member data would be lost.
    #[error(
        "without member {0} data would be lost: the array would stop. Replace what has failed first"
    )]
    WouldLoseData(u16),
    /// The array has stopped.
    #[error("the array has stopped; see `destage status`")]
    Stopped,
    /// The failure of the member is still being written to the other devices. It will be soon.
    #[error("the failure is still being recorded; try again shortly")]
    FailureNotRecorded,
    /// The device is a spare of the array already.
    #[error("{0} is already a spare of this array")]
    SpareAlready(String),
    /// The device is not a spare of the array.
    #[error("{0} is not a spare of this array")]
    NotASpare(String),
    /// The device of this name cannot become a member.
    #[error("{device}{1}", device = named(.0))]
    Replace(Option<String>, ReplaceRefusal),
    /// The device of this name cannot become an NVS device.
    #[error("{device}{1}", device = named(.0))]
    Mirror(Option<String>, MirrorRefusal),
    /// No NVS device has this name.
    #[error("{0} is not an NVS device of this array")]
    NoSuchNvs(String),
    /// Both NVS devices are in use, and none was named.
    #[error("both NVS devices are in use: name the one to replace (--old)")]
    WhichNvs,
    /// The device is the only NVS device in use.
    #[error("it is the only NVS device in use: add a second one first")]
    OnlyNvs,
    /// The old NVS device, called this way, is given up, and the new one was not added.
    #[error(
        "the new NVS device was not added: {1}. {0} is given up already, so the log has one copy: \
         correct the cause and give the command again"
    )]
    OldNvsGivenUp(String, Box<Refusal>),
    /// Another command changes the NVS.
    #[error("another command is changing the NVS of this array: see `destage status`")]
    NvsBusy,
    /// The array of this name has no NVS.
    #[error("no NVS device is in use: give the array one: destage nvs replace {0} /path/of/NEW")]
    NoNvs(String),
    /// The smallest NVS device would have this many bytes.
    #[error("{0} bytes are too few for an NVS device: use at least 4 MiB")]
    NvsTooSmall(u64),
    /// The block device of this name has only this many bytes.
    #[error("{0} has {1} bytes, and only a file can be made larger: give a smaller --size")]
    NvsTooShort(String, u64),
    /// The log was not replaced.
    #[error("the NVS log was not replaced: {0}. See `destage status`")]
    NotRelogged(String),
    /// A scrub is running.
    #[error("a scrub is running: wait for its end, or end it (destage scrub NAME --stop)")]
    ScrubRuns,
    /// What the last run left open is still being redone.
    #[error("destages of the last run are being repeated: try again shortly")]
    NotReady,
    /// Another NVS device failed while this one was made ready.
    #[error("the NVS devices in use have changed: see `destage status`")]
    NvsChanged,
    /// No scrub can run.
    #[error(transparent)]
    Scrub(#[from] ScrubRefusal),
    /// A scrub slower than this many bytes per second.
    #[error("limit: a scrub reads at least {0} bytes per second")]
    ScrubLimit(u64),
    /// No scrub is running.
    #[error("no scrub is running")]
    NoScrub,
    /// The configuration has a value that is not valid, or cannot be read or written.
    #[error(transparent)]
    Config(#[from] ConfigFileError),
    /// A device cannot be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A device cannot be used as a new one.
    #[error(transparent)]
    NewDevice(#[from] CreateError),
    /// The new member is in the drive of another.
    #[error(transparent)]
    SameDrive(#[from] SameDrive),
    /// The cache of the new member is on, and would never be flushed.
    #[error(transparent)]
    CacheIsOn(#[from] CacheIsOn),
    /// A device of this name cannot be read or written.
    #[error("{0}: {1}")]
    Medium(String, String),
    /// The server follows no shadow policies.
    #[error("no shadow policies are running: serve the array with --what-if")]
    NoShadows,
    /// What a recording met.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

/// Why dirty pages are left.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Undrained {
    /// The array has stopped.
    #[error("the array has stopped")]
    Stopped,
    /// The disks took no writes in time.
    #[error("the disks took no writes in time")]
    Stuck,
    /// The server ends, and this many pages of this array are dirty.
    #[error("{0}: {1} dirty pages were not destaged")]
    Left(String, u64),
    /// This many pages of this array cannot be destaged: the parity of their rows cannot be
    /// computed.
    #[error(
        "{1} dirty pages cannot be destaged, since members cannot read what their parity is \
         computed from. They stay in the NVS, and nothing is lost: see the alarm pages-kept in \
         `destage status {0}`"
    )]
    Kept(String, u64),
    /// What the end of the server left undone.
    #[error(transparent)]
    End(Unfinished),
}

/// What a server leaves undone when it ends.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{array}: {what}")]
pub struct Unfinished {
    /// The array.
    pub array: String,
    /// What, and why.
    pub what: UnfinishedWork,
}

/// What is left undone, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnfinishedWork {
    /// These deleted files were not saved.
    #[error(
        "the server ended before these deleted files were saved, and they are lost: {}. Restore \
         them from a backup",
        .0.join(", ")
    )]
    FilesLost(Vec<String>),
    /// Dirty pages that only the failed NVS devices of these names can have.
    #[error(
        "{0} dirty pages were not destaged. Only the NVS that failed can have them ({1}): bring it \
         back, and start again"
    )]
    OnFailedNvs(u64, String),
    /// Dirty pages that are lost, since the NVS devices of these names had failed before.
    #[error(
        "{0} dirty pages were not destaged and are lost: the NVS ({1}) had failed before. Restore \
         what was written last from a backup"
    )]
    Lost(u64, String),
    /// Dirty pages that are in the NVS devices of these names, and why they are still there.
    #[error(
        "{0} dirty pages were not destaged: {2}. They are in the NVS ({1}), and nothing is lost: \
         start again when the disks are in order"
    )]
    InNvs(u64, String, WhyDirty),
}

/// Why pages are still dirty at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WhyDirty {
    /// The array has stopped.
    #[error("the array has stopped")]
    Stopped,
    /// The disks took no writes in time.
    #[error("the disks took no writes in time")]
    Stuck,
    /// Members cannot read what parity is computed from.
    #[error("members cannot read what their parity is computed from")]
    NoParity,
    /// The server was asked to end.
    #[error("the server was asked to end")]
    Asked,
}

/// Why there is no recording.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// The path is relative, and the server runs in another folder.
    #[error("{0}: the server takes only absolute paths")]
    RelativePath(String),
    /// The duration is not valid.
    #[error("seconds: {0}")]
    Duration(String),
    /// Another recording is running.
    #[error("another recording is running")]
    Running,
    /// The file cannot be written.
    #[error("{0}")]
    File(String),
}

fn would_lose_files(array: &str, files: &[String]) -> String {
    let pid = std::process::id();
    let (were, them) = if files.len() == 1 { ("was", "it") } else { ("were", "them") };
    format!(
        "{array}: {} {were} deleted. The server has the only copy, which is lost when it ends, \
         and the array with it. To save {them}: `kill {pid}` (SIGTERM); the alarm save-files \
         then says how. To lose {them}: destage stop {array} --force",
        files.join(", ")
    )
}

/// A device and a colon, if it is named.
fn named(device: &Option<String>) -> String {
    device.as_ref().map_or(String::new(), |device| format!("{device}: "))
}

impl From<ReplaceRefusal> for Refusal {
    fn from(why: ReplaceRefusal) -> Refusal {
        Refusal::Replace(None, why)
    }
}

impl From<MirrorRefusal> for Refusal {
    fn from(why: MirrorRefusal) -> Refusal {
        Refusal::Mirror(None, why)
    }
}
