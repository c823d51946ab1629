//! Why a served array does not do what a command asks. This is the one place that has the words.

use super::config::ConfigFileError;
use super::create::CreateError;
use super::devices::DeviceError;
use destage_served::{MirrorRefusal, ReplaceRefusal, ScrubRefusal};
use std::fmt;

/// Why a command was refused, or could not be done.
#[derive(Debug)]
pub enum Refusal {
    /// The request is not one that the array understands.
    Malformed(String),
    /// A change without anything to change.
    NothingToSet,
    /// Two arguments contradict each other.
    Contradiction(&'static str, &'static str),
    /// The server is ending and answers no more.
    Ending,
    /// The server would lose the only copy of these deleted files of the array of this name.
    WouldLoseFiles(String, Vec<String>),
    /// Dirty pages are left.
    Undrained(Undrained),
    /// No member has this name or number.
    NoSuchMember(String),
    /// The member has failed already.
    FailedAlready(u16),
    /// Without the member data would be lost.
    WouldLoseData(u16),
    /// The array has stopped.
    Stopped,
    /// The failure of the member is still being written to the other devices. It will be soon.
    FailureNotRecorded,
    /// The device is a spare of the array already.
    SpareAlready(String),
    /// The device is not a spare of the array.
    NotASpare(String),
    /// The device of this name cannot become a member.
    Replace(Option<String>, ReplaceRefusal),
    /// The device of this name cannot become an NVS device.
    Mirror(Option<String>, MirrorRefusal),
    /// No NVS device has this name.
    NoSuchNvs(String),
    /// Both NVS devices are in use, and none was named.
    WhichNvs,
    /// The device is the only NVS device in use.
    OnlyNvs,
    /// Another NVS device failed while this one was made ready.
    NvsChanged,
    /// No scrub can run.
    Scrub(ScrubRefusal),
    /// A scrub slower than this many bytes per second.
    ScrubRate(u64),
    /// No scrub is running.
    NoScrub,
    /// The configuration has a value that is not valid, or cannot be read or written.
    Config(ConfigFileError),
    /// A device cannot be opened.
    Device(DeviceError),
    /// A device cannot be used as a new one.
    NewDevice(CreateError),
    /// A device of this name cannot be read or written.
    Medium(String, String),
    /// The server follows no shadow policies.
    NoShadows,
    /// What a recording met.
    Recording(RecordingError),
}

/// Why dirty pages are left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undrained {
    /// The array has stopped.
    Stopped,
    /// The disks took no writes in time.
    Stuck,
    /// The server ends, and this many pages of this array are dirty.
    Left(String, u64),
    /// This many pages of this array cannot be destaged: the parity of their rows cannot be
    /// computed.
    Kept(String, u64),
    /// What the end of the server left undone.
    End(Unfinished),
}

/// What a server leaves undone when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The array.
    pub array: String,
    /// What, and why.
    pub what: UnfinishedWork,
}

/// What is left undone, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnfinishedWork {
    /// These deleted files were not saved.
    FilesLost(Vec<String>),
    /// Dirty pages that only the failed NVS devices of these names can have.
    OnFailedNvs(u64, String),
    /// Dirty pages that are lost, since the NVS devices of these names had failed before.
    Lost(u64, String),
    /// Dirty pages that are in the NVS devices of these names, and why they are still there.
    InNvs(u64, String, WhyDirty),
}

/// Why pages are still dirty at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyDirty {
    /// The array has stopped.
    Stopped,
    /// The disks took no writes in time.
    Stuck,
    /// Members cannot read what parity is computed from.
    NoParity,
    /// The server was asked to end.
    Asked,
}

/// Why there is no recording.
#[derive(Debug)]
pub enum RecordingError {
    /// The path is relative, and the server runs in another folder.
    RelativePath(String),
    /// The duration is not valid.
    Duration(String),
    /// Another recording is running.
    Running,
    /// The file cannot be written.
    File(String),
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed(why) => f.write_str(why),
            Refusal::Contradiction(one, other) => {
                write!(f, "--{one} and --{other} exclude each other: give one of them")
            }
            Refusal::NothingToSet => f.write_str(
                "nothing to set: give policy, rate, rebuild, read-cache, read-cache-size, vdf or \
                 read-cache-writes",
            ),
            Refusal::Ending => f.write_str("the server is ending"),
            Refusal::WouldLoseFiles(array, files) => would_lose_files(f, array, files),
            Refusal::Undrained(why) => why.fmt(f),
            Refusal::Stopped => f.write_str("the array has stopped; see `destage status`"),
            Refusal::Config(error) => error.fmt(f),
            Refusal::Device(error) => error.fmt(f),
            Refusal::NewDevice(error) => error.fmt(f),
            Refusal::Medium(device, why) => write!(f, "{device}: {why}"),
            Refusal::NoShadows => {
                f.write_str("no shadow policies are running: serve the array with --what-if")
            }
            Refusal::Recording(error) => error.fmt(f),
            Refusal::Scrub(refusal) => refusal.fmt(f),
            Refusal::ScrubRate(least) => {
                write!(f, "rate: a scrub reads at least {least} bytes per second")
            }
            Refusal::NoScrub => f.write_str("no scrub is running"),
            of_device => of_device.device_words(f),
        }
    }
}

impl Refusal {
    /// Refusals of a member, a spare or an NVS device.
    fn device_words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |f: &mut fmt::Formatter<'_>, device: &Option<String>| match device {
            Some(device) => write!(f, "{device}: "),
            None => Ok(()),
        };
        match self {
            Refusal::NoSuchMember(name) => {
                write!(f, "{name} is not a member of this array: see `destage status`")
            }
            Refusal::FailedAlready(member) => write!(f, "member {member} has failed already"),
            Refusal::WouldLoseData(member) => write!(
                f,
                "without member {member} data would be lost: the array would stop. Replace what \
                 has failed first"
            ),
            Refusal::FailureNotRecorded => {
                f.write_str("the failure is still being recorded; try again shortly")
            }
            Refusal::SpareAlready(name) => write!(f, "{name} is already a spare of this array"),
            Refusal::NotASpare(name) => write!(f, "{name} is not a spare of this array"),
            Refusal::Replace(device, why) => named(f, device).and_then(|()| write!(f, "{why}")),
            Refusal::Mirror(device, why) => named(f, device).and_then(|()| write!(f, "{why}")),
            Refusal::NoSuchNvs(name) => write!(f, "{name} is not an NVS device of this array"),
            Refusal::WhichNvs => {
                f.write_str("both NVS devices are in use: name the one to replace (--old)")
            }
            Refusal::OnlyNvs => {
                f.write_str("it is the only NVS device in use: add a second one first")
            }
            Refusal::NvsChanged => {
                f.write_str("the NVS devices in use have changed: see `destage status`")
            }
            other => unreachable!("{other:?} is not about a device"),
        }
    }
}

fn would_lose_files(f: &mut fmt::Formatter<'_>, array: &str, files: &[String]) -> fmt::Result {
    let pid = std::process::id();
    let (were, them) = if files.len() == 1 { ("was", "it") } else { ("were", "them") };
    write!(
        f,
        "{array}: {} {were} deleted. The server has the only copy, which is lost when it ends, \
         and the array with it. To save {them}: `kill {pid}` (SIGTERM); the alarm save-files \
         then says how. To lose {them}: destage stop {array} --force",
        files.join(", ")
    )
}

impl fmt::Display for Undrained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undrained::Stopped => f.write_str("the array has stopped"),
            Undrained::Stuck => f.write_str("the disks took no writes in time"),
            Undrained::Left(array, pages) => {
                write!(f, "{array}: {pages} dirty pages were not destaged")
            }
            Undrained::Kept(array, pages) => write!(
                f,
                "{pages} dirty pages cannot be destaged, since members cannot read what their \
                 parity is computed from. They stay in the NVS, and nothing is lost: see the alarm \
                 pages-kept in `destage status {array}`"
            ),
            Undrained::End(unfinished) => unfinished.fmt(f),
        }
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let array = &self.array;
        match &self.what {
            UnfinishedWork::FilesLost(files) => write!(
                f,
                "{array}: the server ended before these deleted files were saved, and they are \
                 lost: {}. Restore them from a backup",
                files.join(", ")
            ),
            UnfinishedWork::OnFailedNvs(dirty, nvs) => write!(
                f,
                "{array}: {dirty} dirty pages were not destaged. Only the NVS that failed can \
                 have them ({nvs}): bring it back, and start again"
            ),
            UnfinishedWork::Lost(dirty, nvs) => write!(
                f,
                "{array}: {dirty} dirty pages were not destaged and are lost: the NVS ({nvs}) \
                 had failed before. Restore what was written last from a backup"
            ),
            UnfinishedWork::InNvs(dirty, nvs, why) => write!(
                f,
                "{array}: {dirty} dirty pages were not destaged: {why}. They are in the NVS \
                 ({nvs}), and nothing is lost: start again when the disks are in order"
            ),
        }
    }
}

impl std::error::Error for Unfinished {}

impl fmt::Display for WhyDirty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WhyDirty::Stopped => "the array has stopped",
            WhyDirty::Stuck => "the disks took no writes in time",
            WhyDirty::NoParity => "members cannot read what their parity is computed from",
            WhyDirty::Asked => "the server was asked to end",
        })
    }
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordingError::RelativePath(path) => {
                write!(f, "{path}: the server takes only absolute paths")
            }
            RecordingError::Duration(why) => write!(f, "seconds: {why}"),
            RecordingError::Running => f.write_str("another recording is running"),
            RecordingError::File(why) => f.write_str(why),
        }
    }
}

macro_rules! from {
    ($($of:ty => $into:expr,)*) => {$(
        impl From<$of> for Refusal {
            fn from(why: $of) -> Refusal {
                $into(why)
            }
        }
    )*};
}

from! {
    ConfigFileError => Refusal::Config,
    DeviceError => Refusal::Device,
    CreateError => Refusal::NewDevice,
    ScrubRefusal => Refusal::Scrub,
    RecordingError => Refusal::Recording,
    Undrained => Refusal::Undrained,
    ReplaceRefusal => |why| Refusal::Replace(None, why),
    MirrorRefusal => |why| Refusal::Mirror(None, why),
}
