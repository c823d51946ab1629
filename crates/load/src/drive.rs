//! Drives in real time, for `destage disks measure`: a block device or file, and an NBD export.

use destage_client::{Client, Heard};
use destage_disk::measure::{Command, Kind, MeasureError, Probe, Timed};
use destage_nbd::client::Uri;
use destage_nbd::request::{self, Request};
use destage_nbd::{Mode, wire};
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The alignment that direct I/O asks for at most.
const ALIGNED: usize = 4096;
/// Before this long it sleeps, in the rest of a wait it looks at the clock.
const AWAKE: Duration = Duration::from_micros(300);
/// Bytes of the longest command: more than a track.
const LONGEST: usize = 32 << 20;

/// Time since the probe was opened.
struct Clock {
    begun: Instant,
    done_ns: u64,
}

impl Clock {
    fn new() -> Clock {
        Clock { begun: Instant::now(), done_ns: 0 }
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Waits until `delay_ns` after the last command was done; returns the time.
    fn wait(&self, delay_ns: u64) -> u64 {
        let until = self.done_ns + delay_ns;
        loop {
            let now = self.now_ns();
            if now >= until {
                return now;
            }
            let left = Duration::from_nanos(until - now);
            match left.checked_sub(AWAKE) {
                Some(sleep) if !sleep.is_zero() => std::thread::sleep(sleep),
                _ => std::hint::spin_loop(),
            }
        }
    }
}

/// A block device or a file, without the kernel's cache.
pub struct FileDrive {
    path: PathBuf,
    file: File,
    /// Opened so that each write is durable when it is done.
    durable: Option<File>,
    buffer: Vec<u8>,
    sectors: u64,
    sector_bytes: u32,
    writable: Range<u64>,
    clock: Clock,
}

impl FileDrive {
    /// Opens it; `writable` are the bytes that may be overwritten. A device that is then in use is
    /// refused.
    ///
    /// # Errors
    /// It cannot be opened, or not past the kernel's cache.
    pub fn open(path: &Path, writable: Range<u64>) -> Result<FileDrive, MeasureError> {
        let failed = |what: &str, error: io::Error| {
            let way_out = match error.kind() {
                io::ErrorKind::PermissionDenied => ". Run as root, or add the user to group disk.",
                io::ErrorKind::ResourceBusy => {
                    ". It is in use: stop what uses it, e.g. unmount it."
                }
                _ => "",
            };
            MeasureError::Device(format!("{}: {what}: {error}{way_out}", path.display()))
        };
        let writes = !writable.is_empty();
        let open = |more: OFlags| {
            let device =
                std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
            let mut flags = OFlags::DIRECT | more;
            if device && writes && more.is_empty() {
                flags |= OFlags::EXCL;
            }
            OpenOptions::new().read(true).write(writes).custom_flags(flags.bits() as i32).open(path)
        };
        let mut file = open(OFlags::empty()).map_err(|error| failed("cannot open", error))?;
        let durable = match writes {
            true => Some(open(OFlags::DSYNC).map_err(|error| failed("cannot open", error))?),
            false => None,
        };
        let bytes = file.seek(SeekFrom::End(0)).map_err(|error| failed("has no size", error))?;
        let mut buffer = vec![0; LONGEST + ALIGNED];
        let small = file.read_at(aligned(&mut buffer, 512), 512);
        let sector_bytes = match small {
            Ok(_) => 512,
            Err(error) if error.raw_os_error() == Some(22) => 4096,
            Err(error) => return Err(failed("cannot read", error)),
        };
        let size = u64::from(sector_bytes);
        Ok(FileDrive {
            path: path.to_path_buf(),
            file,
            durable,
            buffer,
            sectors: bytes / size,
            sector_bytes,
            writable: writable.start.div_ceil(size)..writable.end.min(bytes) / size,
            clock: Clock::new(),
        })
    }

    fn run(&self, command: Command, buffer: &mut [u8]) -> Result<(), MeasureError> {
        let offset = command.lbn * u64::from(self.sector_bytes);
        let bytes = command.sectors as usize * self.sector_bytes as usize;
        let part = aligned(buffer, bytes);
        let result = match (command.kind, &self.durable) {
            (Kind::Read, _) => self.file.read_exact_at(part, offset),
            (Kind::DurableWrite, Some(file)) => file.write_all_at(part, offset),
            _ => self.file.write_all_at(part, offset),
        };
        result.map_err(|error| {
            let what = if command.kind == Kind::Read { "read" } else { "write" };
            let path = self.path.display();
            MeasureError::Device(format!("{path}: cannot {what} at byte {offset}: {error}"))
        })
    }
}

/// A part of a buffer where direct I/O may take place.
fn aligned(buffer: &mut [u8], bytes: usize) -> &mut [u8] {
    let from = buffer.as_ptr().align_offset(ALIGNED);
    &mut buffer[from..from + bytes]
}

impl Probe for FileDrive {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn sector_bytes(&self) -> u32 {
        self.sector_bytes
    }

    fn writable(&self) -> Range<u64> {
        self.writable.clone()
    }

    fn offers_durable(&self) -> bool {
        self.durable.is_some()
    }

    fn serve(&mut self, delay_ns: u64, command: Command) -> Result<Timed, MeasureError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let submitted_ns = self.clock.wait(delay_ns);
        let result = self.run(command, &mut buffer);
        self.clock.done_ns = self.clock.now_ns();
        self.buffer = buffer;
        result.map(|()| Timed { submitted_ns, done_ns: self.clock.done_ns })
    }

    fn serve_all(&mut self, depth: usize, commands: &[Command]) -> Result<u64, MeasureError> {
        let begun = self.clock.now_ns();
        let next = AtomicUsize::new(0);
        let longest = commands.iter().map(|command| command.sectors as usize).max().unwrap_or(0);
        let this = &*self;
        let work = || {
            let mut buffer = vec![0; longest * this.sector_bytes as usize + ALIGNED];
            while let Some(command) = commands.get(next.fetch_add(1, Ordering::Relaxed)) {
                this.run(*command, &mut buffer)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..depth).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| {
                let died = || MeasureError::Device("a thread ended early".to_string());
                thread.join().unwrap_or_else(|_| Err(died()))
            })
        })?;
        self.clock.done_ns = self.clock.now_ns();
        Ok(self.clock.done_ns - begun)
    }

    fn flush(&mut self) -> Result<Timed, MeasureError> {
        let submitted_ns = self.clock.now_ns();
        self.file.sync_data().map_err(|error| {
            MeasureError::Device(format!("{}: cannot flush: {error}", self.path.display()))
        })?;
        self.clock.done_ns = self.clock.now_ns();
        Ok(Timed { submitted_ns, done_ns: self.clock.done_ns })
    }
}

/// An NBD export.
pub struct NbdDrive {
    uri: String,
    client: Client,
    zeros: Vec<u8>,
    sectors: u64,
    sector_bytes: u32,
    writable: Range<u64>,
    clock: Clock,
}

impl NbdDrive {
    /// Connects; `writable` are the bytes that may be overwritten.
    ///
    /// # Errors
    /// The server cannot be reached, or lets nobody write.
    pub fn connect(uri: &Uri, writable: Range<u64>) -> Result<NbdDrive, MeasureError> {
        let name = uri.to_string();
        let failed = |text: String| MeasureError::Device(format!("{name}: {text}"));
        let client =
            Client::connect(uri, Mode::Simple).map_err(|error| failed(error.to_string()))?;
        let session = client.session();
        if !writable.is_empty() && session.read_only() {
            return Err(failed("the export is read-only. Leave out --destructive.".to_string()));
        }
        let sector_bytes = session.block.minimum.max(512);
        let size = u64::from(sector_bytes);
        Ok(NbdDrive {
            sectors: session.size / size,
            sector_bytes,
            writable: writable.start.div_ceil(size)..writable.end.min(session.size) / size,
            uri: name,
            client,
            zeros: Vec::new(),
            clock: Clock::new(),
        })
    }

    fn failed(&self, error: impl std::fmt::Display) -> MeasureError {
        MeasureError::Device(format!("{}: {error}", self.uri))
    }

    fn put(&mut self, cookie: u64, command: Command) -> Result<(), MeasureError> {
        let offset = command.lbn * u64::from(self.sector_bytes);
        let length = command.sectors * self.sector_bytes;
        let (asked, payload) = match command.kind {
            Kind::Read => {
                (request::Command::Read { offset, length, dont_fragment: false }, &[][..])
            }
            kind => {
                let fua = kind == Kind::DurableWrite;
                let longer = self.zeros.len().max(length as usize);
                self.zeros.resize(longer, 0);
                (request::Command::Write { offset, length, fua }, &self.zeros[..length as usize])
            }
        };
        let put = self.client.put(&Request { cookie, command: asked }, payload);
        put.map_err(|error| self.failed(error))
    }

    /// Waits until this many are in flight, or fewer.
    fn drain(&mut self, most: usize) -> Result<(), MeasureError> {
        let mut failed = None;
        while self.client.in_flight() > most {
            let pumped = self.client.pump(None, |heard| {
                if let Heard::Done(_, Some(errno)) = heard {
                    failed = Some(errno);
                }
            });
            pumped.map_err(|error| self.failed(error))?;
        }
        match failed {
            Some(errno) => Err(self.failed(io::Error::from_raw_os_error(errno as i32))),
            None => Ok(()),
        }
    }
}

impl Probe for NbdDrive {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn sector_bytes(&self) -> u32 {
        self.sector_bytes
    }

    fn writable(&self) -> Range<u64> {
        self.writable.clone()
    }

    fn offers_durable(&self) -> bool {
        self.client.session().has(wire::NBD_FLAG_SEND_FUA)
    }

    fn serve(&mut self, delay_ns: u64, command: Command) -> Result<Timed, MeasureError> {
        let submitted_ns = self.clock.wait(delay_ns);
        self.put(0, command)?;
        self.drain(0)?;
        self.clock.done_ns = self.clock.now_ns();
        Ok(Timed { submitted_ns, done_ns: self.clock.done_ns })
    }

    fn serve_all(&mut self, depth: usize, commands: &[Command]) -> Result<u64, MeasureError> {
        let begun = self.clock.now_ns();
        for (cookie, command) in (0..).zip(commands) {
            self.drain(depth.max(1) - 1)?;
            self.put(cookie, *command)?;
        }
        self.drain(0)?;
        self.clock.done_ns = self.clock.now_ns();
        Ok(self.clock.done_ns - begun)
    }

    fn flush(&mut self) -> Result<Timed, MeasureError> {
        let submitted_ns = self.clock.now_ns();
        if self.client.offers_flush() {
            let request = Request { cookie: 0, command: request::Command::Flush };
            self.client.put(&request, &[]).map_err(|error| self.failed(error))?;
            self.drain(0)?;
        }
        self.clock.done_ns = self.clock.now_ns();
        Ok(Timed { submitted_ns, done_ns: self.clock.done_ns })
    }
}
