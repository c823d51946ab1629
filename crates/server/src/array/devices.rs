//! The devices of an array: files, block devices, NBD disks; found, locked, read and written one
//! operation at a time before the array is served.

use super::mapped::Mapped;
use destage_client::Client;
use destage_engine::units::PAGE_BYTES;
use destage_nbd::client::Uri;
use destage_nbd::request::Command;
use destage_nbd::{Mode, Session};
use destage_nvslog::superblock::Uuid;
use destage_served::{Device, IoError, Media, read_superblock};
use rustix::fs::{FlockOperation, OFlags};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// Where a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSpec {
    /// A file or a block device.
    Path(PathBuf),
    /// A disk that another machine or process serves.
    Nbd(String),
}

impl FromStr for DeviceSpec {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<DeviceSpec, DeviceError> {
        if text.starts_with("nbd") && text.contains("://") {
            let uri: Result<Uri, _> = text.parse();
            return match uri {
                Ok(_) => Ok(DeviceSpec::Nbd(text.to_string())),
                Err(error) => Err(DeviceError::Uri(text.to_string(), error.to_string())),
            };
        }
        Ok(DeviceSpec::Path(PathBuf::from(text)))
    }
}

impl DeviceSpec {
    /// Whether the names alone show that both are one device.
    pub(super) fn is_same(&self, other: &DeviceSpec) -> bool {
        let export = |text: &str| {
            let uri: Uri = text.parse().ok()?;
            Some((uri.address, uri.export))
        };
        match (self, other) {
            (DeviceSpec::Nbd(one), DeviceSpec::Nbd(other)) => {
                one == other || export(one).is_some_and(|one| export(other) == Some(one))
            }
            _ => self == other,
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceSpec::Path(path) => write!(f, "{}", path.display()),
            DeviceSpec::Nbd(uri) => f.write_str(uri),
        }
    }
}

/// Why a device cannot be used.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// No URI of an NBD disk.
    #[error("{0}: {1}")]
    Uri(String, String),
    /// It cannot be opened.
    #[error("{0}: {1}")]
    Open(DeviceSpec, io::Error),
    /// Another process uses it.
    #[error(
        "{0} is in use by another destage or another program: stop that first (`destage stop NAME`)"
    )]
    InUse(DeviceSpec),
    /// Neither a file nor a block device.
    #[error("{0} is neither a file nor a block device: give one of these")]
    Kind(DeviceSpec),
    /// The disk's server is away, or refuses.
    #[error("{0}: {1}")]
    Remote(DeviceSpec, String),
    /// The disk's server cannot make anything durable.
    #[error("{0}: its server does not offer FLUSH, so nothing there can be made durable")]
    NoFlush(DeviceSpec),
    /// The disk's server takes at most this many bytes in a request, less than a page.
    #[error("{0}: its server takes at most {1} bytes per request: have it take 4096 or more")]
    ShortRequests(DeviceSpec, u32),
    /// An NVS that another machine or process serves.
    #[error("{0}: an NVS device must be on this machine: give a file or a block device")]
    RemoteNvs(DeviceSpec),
}

impl DeviceError {
    /// The cause alone, for a sentence that names the device.
    pub fn cause(&self) -> String {
        let text = match self {
            DeviceError::Uri(_, error) | DeviceError::Remote(_, error) => error.clone(),
            DeviceError::Open(_, error) => error.to_string(),
            DeviceError::InUse(_) => "another destage or another program uses it".to_string(),
            DeviceError::Kind(_) => "it is neither a file nor a block device".to_string(),
            DeviceError::NoFlush(_) => "its server does not offer FLUSH".to_string(),
            DeviceError::ShortRequests(_, most) => short_requests(*most),
            DeviceError::RemoteNvs(_) => "an NVS device must be of this machine".to_string(),
        };
        text.split(" (os error").next().unwrap_or_default().to_string()
    }
}

/// An opened device.
pub(crate) enum Opened {
    /// A file or block device, direct if it can be.
    File(File),
    /// A file on tmpfs: no operation waits for a device.
    Memory(File),
    /// Byte-addressable.
    Mapped(Mapped, File),
    /// Served by another.
    Remote(Box<Client>),
}

impl Opened {
    /// Opens and locks a device. `mapped`: it is an NVS, and mapped where that is durable enough
    /// (tmpfs, DAX).
    pub(crate) fn new(spec: &DeviceSpec, mapped: bool) -> Result<Opened, DeviceError> {
        let path = match spec {
            DeviceSpec::Path(path) => path,
            DeviceSpec::Nbd(_) if mapped => return Err(DeviceError::RemoteNvs(spec.clone())),
            DeviceSpec::Nbd(uri) => return Opened::remote(spec, uri),
        };
        let fail = |error| DeviceError::Open(spec.clone(), error);
        let about = std::fs::metadata(path).map_err(fail)?;
        let block = about.file_type().is_block_device();
        if !block && !about.is_file() {
            return Err(DeviceError::Kind(spec.clone()));
        }
        let open = |flags: OFlags| {
            let exclusive = if block { OFlags::EXCL } else { OFlags::empty() };
            let flags = (flags | exclusive).bits() as i32;
            OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
        };
        let file = free(|| match open(OFlags::DIRECT) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open(OFlags::empty()),
            other => other,
        });
        let file = match file {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                return Err(DeviceError::InUse(spec.clone()));
            }
            other => other.map_err(fail)?,
        };
        if !lock(&file) {
            return Err(DeviceError::InUse(spec.clone()));
        }
        // Of a block device this asks about the folder that its node is in: /dev, which is a tmpfs.
        let tmpfs = !block && rustix::fs::fstatfs(&file).is_ok_and(|fs| fs.f_type == TMPFS);
        if mapped && tmpfs {
            let map = Mapped::new(&file, false).map_err(fail)?;
            return Ok(Opened::Mapped(map, file));
        }
        if tmpfs {
            // It refuses or merely pretends direct I/O; without it, small writes are copies.
            return open(OFlags::empty())
                .and_then(|plain| {
                    rustix::fs::flock(&file, FlockOperation::Unlock)?;
                    rustix::fs::flock(&plain, FlockOperation::NonBlockingLockExclusive)?;
                    Ok(Opened::Memory(plain))
                })
                .map_err(fail);
        }
        Ok(Opened::File(file))
    }

    fn remote(spec: &DeviceSpec, uri: &str) -> Result<Opened, DeviceError> {
        let client = connect(uri).map_err(|error| DeviceError::Remote(spec.clone(), error))?;
        if !client.offers_flush() {
            return Err(DeviceError::NoFlush(spec.clone()));
        }
        if let Some(most) = less_than_a_page(client.session()) {
            return Err(DeviceError::ShortRequests(spec.clone(), most));
        }
        Ok(Opened::Remote(Box::new(client)))
    }

    /// Its size in bytes.
    pub(crate) fn bytes(&self) -> io::Result<u64> {
        match self {
            Opened::Remote(client) => Ok(client.session().size),
            Opened::File(file) | Opened::Memory(file) | Opened::Mapped(_, file) => length(file),
        }
    }

    /// What it is on this machine.
    pub(crate) fn file(&self) -> Option<&File> {
        match self {
            Opened::File(file) | Opened::Memory(file) | Opened::Mapped(_, file) => Some(file),
            Opened::Remote(_) => None,
        }
    }

    /// The parts of a file that were ever written, where its file system says so: the rest reads
    /// zeros.
    pub(crate) fn written(&self) -> Option<Vec<std::ops::Range<u64>>> {
        use rustix::fs::{SeekFrom, seek};
        let file = self.file()?;
        let bytes = file.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
        let (mut parts, mut at) = (Vec::new(), 0);
        while at < bytes {
            let from = match seek(file, SeekFrom::Data(at)) {
                Err(rustix::io::Errno::NXIO) => break,
                from => from.ok()?,
            };
            at = seek(file, SeekFrom::Hole(from)).ok()?;
            parts.push(from..at);
        }
        Some(parts)
    }

    /// Smallest part that can be read or written alone.
    pub(crate) fn block_bytes(&self) -> u32 {
        match self {
            Opened::File(file) => match rustix::fs::ioctl_blksszget(file) {
                Ok(bytes) => bytes,
                Err(_) => direct_block_bytes(file),
            },
            Opened::Remote(client) => client.session().block.minimum.max(512),
            Opened::Memory(_) | Opened::Mapped(..) => 512,
        }
    }

    pub(crate) fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        match self {
            Opened::File(file) | Opened::Memory(file) => {
                file.read_exact_at(into, offset).map_err(|e| IoError::from_std(&e))
            }
            Opened::Mapped(map, _) => map.read(offset, into),
            Opened::Remote(client) => {
                let mut offset = offset;
                for part in into.chunks_mut(request_bytes(client.session())) {
                    let length = part.len() as u32;
                    let command = Command::Read { offset, length, dont_fragment: false };
                    let bytes = client.call(command, &[]).map_err(|_| IoError::GONE)?;
                    part.copy_from_slice(&bytes);
                    offset += u64::from(length);
                }
                Ok(())
            }
        }
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        match self {
            Opened::File(file) | Opened::Memory(file) => {
                file.write_all_at(bytes, offset).map_err(|e| IoError::from_std(&e))
            }
            Opened::Mapped(map, _) => map.write(offset, bytes, false),
            Opened::Remote(client) => {
                let mut offset = offset;
                for part in bytes.chunks(request_bytes(client.session())) {
                    let length = part.len() as u32;
                    let command = Command::Write { offset, length, fua: false };
                    client.call(command, part).map_err(|_| IoError::GONE)?;
                    offset += u64::from(length);
                }
                Ok(())
            }
        }
    }

    pub(crate) fn flush(&mut self) -> Result<(), IoError> {
        match self {
            Opened::File(file) | Opened::Memory(file) => {
                file.sync_data().map_err(|e| IoError::from_std(&e))
            }
            Opened::Mapped(map, _) => map.flush(),
            Opened::Remote(client) => {
                client.call(Command::Flush, &[]).map(|_| ()).map_err(|_| IoError::GONE)
            }
        }
    }

    /// The descriptor for asynchronous use, and of a remote disk the session.
    pub(crate) fn into_async(self) -> Async {
        match self {
            Opened::File(file) => Async::File(file.into()),
            Opened::Memory(file) => Async::Memory(file),
            Opened::Mapped(map, file) => Async::Mapped(map, file),
            Opened::Remote(client) => {
                let (socket, session) = client.into_parts();
                Async::Remote(socket, session)
            }
        }
    }
}

/// Bytes of a file or a block device, whose metadata has no length.
pub(super) fn length(mut file: &File) -> io::Result<u64> {
    io::Seek::seek(&mut file, io::SeekFrom::End(0))
}

/// Gives a new file its size and all of its space.
///
/// # Errors
/// `Unsupported` where its file system cannot; `StorageFull` where it has no room.
pub fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    loop {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
            Err(rustix::io::Errno::INTR) => {}
            result => return result.map_err(io::Error::from),
        }
    }
}

/// Smallest part of a file that can be read or written alone with direct I/O.
fn direct_block_bytes(file: &File) -> u32 {
    use rustix::fs::{AtFlags, StatxFlags, fcntl_getfl, statx};
    if fcntl_getfl(file).is_ok_and(|flags| !flags.contains(OFlags::DIRECT)) {
        return 512;
    }
    if let Ok(about) = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && about.stx_mask & StatxFlags::DIOALIGN.bits() != 0
        && about.stx_dio_offset_align > 0
    {
        return about.stx_dio_offset_align.max(512);
    }
    // Kernels before 6.1 do not say: a read of 512 bytes does.
    let mut buffer = destage_served::Buffer::zeroed(512);
    match file.read_at(&mut buffer, 512) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => 4096,
        _ => 512,
    }
}

/// Opens a block device for this process alone; waits as [`lock`] does.
fn free(open: impl Fn() -> io::Result<File>) -> io::Result<File> {
    for _ in 0..60 {
        match open() {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            other => return other,
        }
    }
    open()
}

/// Locks a device for this process. The kernel holds on to the files of a killed server's ring
/// for a moment, so a few seconds are waited.
fn lock(file: &File) -> bool {
    for _ in 0..60 {
        if rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    false
}

/// A device as the data thread uses it.
pub(crate) enum Async {
    File(OwnedFd),
    Memory(File),
    Mapped(Mapped, File),
    Remote(OwnedFd, Session),
}

const TMPFS: i64 = 0x0102_1994;

/// How long a remote disk may take to answer before an array is served.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

fn connect(uri: &str) -> Result<Client, String> {
    let uri: Uri = uri.parse().map_err(|error| format!("{error}"))?;
    Client::connect_within(&uri, Mode::Structured, PATIENCE).map_err(|error| error.to_string())
}

const PAGE: u32 = PAGE_BYTES as u32;

/// Bytes of the longest request to the server of a disk, in complete pages.
pub(super) fn request_bytes(session: &Session) -> usize {
    session.block.longest(PAGE).max(PAGE) as usize
}

/// The most bytes per request of a server that takes no complete page: its disk cannot be a member.
pub(super) fn less_than_a_page(session: &Session) -> Option<u32> {
    (session.block.longest(PAGE) == 0).then_some(session.block.maximum)
}

/// Why a disk cannot be a member whose server takes at most this many bytes per request.
pub(super) fn short_requests(most: u32) -> String {
    format!("its server takes at most {most} bytes per request, and must take 4096")
}

/// All devices of an array, by their places.
pub struct Devices {
    pub(crate) members: Vec<Option<Opened>>,
    pub(crate) nvs: Vec<Option<Opened>>,
}

impl Devices {
    /// Members alone.
    pub(crate) fn of(members: Vec<Option<Opened>>) -> Devices {
        Devices { members, nvs: Vec::new() }
    }

    /// Bytes of a member.
    pub fn member_bytes(&self, member: u16) -> Option<u64> {
        self.members.get(usize::from(member))?.as_ref()?.bytes().ok()
    }

    /// Opens the devices. A member that cannot be opened is left out, and the cause is reported;
    /// a device in use, or no device at all, is an error.
    pub fn open(
        disks: &[DeviceSpec],
        nvs: &[DeviceSpec],
    ) -> Result<(Devices, Vec<(Device, DeviceError)>), DeviceError> {
        let mut missing = Vec::new();
        let mut open = |spec, device, mapped| match Opened::new(spec, mapped) {
            Ok(opened) => Ok(Some(opened)),
            Err(
                error @ (DeviceError::InUse(_) | DeviceError::Kind(_) | DeviceError::RemoteNvs(_)),
            ) => Err(error),
            Err(error) => {
                missing.push((device, error));
                Ok(None)
            }
        };
        let mut devices = Devices { members: Vec::new(), nvs: Vec::new() };
        for (number, spec) in (0..).zip(disks) {
            devices.members.push(open(spec, Device::Member(number), false)?);
        }
        for (number, spec) in (0..).zip(nvs) {
            devices.nvs.push(open(spec, Device::Nvs(number), true)?);
        }
        Ok((devices, missing))
    }

    pub(crate) fn get(&mut self, device: Device) -> Option<&mut Opened> {
        match device {
            Device::Member(number) => self.members.get_mut(usize::from(number))?.as_mut(),
            Device::Nvs(number) => self.nvs.get_mut(usize::from(number))?.as_mut(),
        }
    }

    /// By member: the UUIDs of those that other servers serve.
    pub(super) fn identities(&mut self) -> Vec<Option<Uuid>> {
        let remote = |opened: &Option<Opened>| matches!(opened, Some(Opened::Remote(_)));
        let remotes: Vec<bool> = self.members.iter().map(remote).collect();
        let uuid = |(number, remote)| {
            let mut read = |device| read_superblock(self, device).ok();
            if remote { Some(read(Device::Member(number))?.superblock.device) } else { None }
        };
        (0..).zip(remotes).map(uuid).collect()
    }

    /// All places.
    pub fn places(&self) -> impl Iterator<Item = Device> + use<> {
        let members = (0..self.members.len() as u16).map(Device::Member);
        members.chain((0..self.nvs.len() as u16).map(Device::Nvs))
    }
}

impl Media for Devices {
    fn bytes(&mut self, device: Device) -> Result<u64, IoError> {
        let opened = self.get(device).ok_or(IoError::GONE)?;
        opened.bytes().map_err(|error| IoError::from_std(&error))
    }

    fn read(&mut self, device: Device, offset: u64, into: &mut [u8]) -> Result<(), IoError> {
        self.get(device).ok_or(IoError::GONE)?.read(offset, into)
    }

    fn write(&mut self, device: Device, offset: u64, bytes: &[u8]) -> Result<(), IoError> {
        self.get(device).ok_or(IoError::GONE)?.write(offset, bytes)
    }

    fn flush(&mut self, device: Device) -> Result<(), IoError> {
        self.get(device).ok_or(IoError::GONE)?.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::tests::Nbd;

    fn opened(nbd: &Nbd) -> Result<Opened, DeviceError> {
        let spec: DeviceSpec = nbd.uri.parse()?;
        Opened::new(&spec, false)
    }

    #[test]
    fn more_than_a_server_takes_at_once_is_read_and_written_in_parts() {
        let folder = tempfile::tempdir().expect("a folder");
        let nbd = Nbd::new(folder.path(), 1 << 20, 10_000);
        let mut disk = opened(&nbd).expect("opened");
        let bytes: Vec<u8> = (0..50_000_u32).map(|at| (at / 7) as u8).collect();
        assert_eq!(disk.write(512, &bytes), Ok(()));
        let mut read = vec![0; bytes.len()];
        assert_eq!(disk.read(512, &mut read), Ok(()));
        assert!(read == bytes);
    }

    #[test]
    fn a_server_that_takes_less_than_a_page_at_once_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let nbd = Nbd::new(folder.path(), 1 << 20, 2048);
        let refused = opened(&nbd).err().expect("refused");
        assert!(matches!(refused, DeviceError::ShortRequests(_, 2048)), "{refused}");
    }

    #[test]
    fn a_flush_reaches_the_file() {
        let mut file = Opened::File(tempfile::tempfile().expect("a file"));
        assert_eq!(file.flush(), Ok(()));
        // The kernel refuses to make what is in a pipe durable.
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let writer = File::from(OwnedFd::from(writer));
        for mut pipe in [Opened::Memory(writer.try_clone().expect("cloned")), Opened::File(writer)]
        {
            let error = pipe.flush().expect_err("refused");
            assert_eq!(error.errno, libc::EINVAL);
        }
    }
}
