//! The backend of a modelled disk: the model gives the times; the contents are in memory or in a
//! file.

use super::ram::{change, read};
use super::undo::Undo;
use super::{DiskRequest, Emulator, Sparse};
use destage_block::{
    Answer, Backend, Buffer, Driver, Export, Handle, Io, Outcome, Payload, Request, RequestError,
};
use destage_engine::units::Instant;
use hdrhistogram::Histogram;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

const FILE_FAILED: Answer<'_> =
    Answer::Error { error: RequestError::Io, text: "the file cannot be read or written" };

enum Contents {
    Memory(Sparse),
    /// With the old bytes to put back after a power failure, if there is to be one.
    File {
        file: Option<File>,
        handle: Option<Handle>,
        undo: Option<Undo>,
    },
}

struct Pending<T> {
    token: T,
    request: Request,
    /// The bytes of a WRITE.
    bytes: Option<Buffer>,
}

/// The export of a modelled disk: reads, writes and flushes, as such drives have them.
#[must_use]
pub fn disk_export(name: &str, description: &str, size: u64) -> Export {
    Export {
        discards: false,
        rotational: true,
        maps: Vec::new(),
        ..super::export(name, description, size)
    }
}

/// The backend of `destage emulate`.
pub struct Emulated<T> {
    disk: Emulator,
    contents: Contents,
    pending: HashMap<u64, Pending<T>>,
    /// Operations on the file: the request that each answers, and the bytes of a read.
    in_file: HashMap<u64, (T, u32)>,
    /// How late completions were picked up, in nanoseconds of real time.
    late_ns: Histogram<u64>,
}

impl<T> Emulated<T> {
    /// With contents in memory, all zeros.
    #[must_use]
    pub fn in_memory(disk: Emulator) -> Emulated<T> {
        Emulated::new(disk, Contents::Memory(Sparse::default()))
    }

    /// With contents in a file that is at least as long as the export.
    #[must_use]
    pub fn in_file(disk: Emulator, file: File) -> Emulated<T> {
        Emulated::new(disk, Contents::File { file: Some(file), handle: None, undo: None })
    }

    /// The same, ready for [`Emulated::power_cut`].
    ///
    /// # Errors
    /// The file has no second handle to give.
    pub fn in_volatile_file(disk: Emulator, file: File) -> std::io::Result<Emulated<T>> {
        let undo = Some(Undo::new(file.try_clone()?));
        Ok(Emulated::new(disk, Contents::File { file: Some(file), handle: None, undo }))
    }

    /// The power fails: takes back the writes that are acknowledged and not on the medium. Returns
    /// the number of bytes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn power_cut(&mut self) -> std::io::Result<u64> {
        let Contents::File { undo: Some(undo), .. } = &mut self.contents else { return Ok(0) };
        undo.cut(|offset, length| self.disk.unwritten(offset, length))
    }

    /// Forgets the old bytes below what is on the medium.
    fn settle(&mut self) {
        if let Contents::File { undo: Some(undo), .. } = &mut self.contents {
            undo.settle(|offset, length| self.disk.unwritten(offset, length));
        }
    }

    fn new(disk: Emulator, contents: Contents) -> Emulated<T> {
        let (pending, in_file) = (HashMap::new(), HashMap::new());
        let late_ns = Histogram::new_with_bounds(100, 60_000_000_000, 3).expect("good bounds");
        Emulated { disk, contents, pending, in_file, late_ns }
    }

    /// How late completions were picked up, in nanoseconds of real time.
    #[must_use]
    pub fn late_ns(&self) -> &Histogram<u64> {
        &self.late_ns
    }

    /// The disk is done with a request.
    fn complete<D: Driver<Token = T>>(&mut self, driver: &mut D, key: u64) {
        let Some(Pending { token, request, bytes }) = self.pending.remove(&key) else { return };
        match &mut self.contents {
            Contents::Memory(contents) => match request {
                Request::Read { offset, length } => read(contents, driver, token, offset, length),
                request => {
                    change(contents, &request, bytes.as_deref().unwrap_or(&[]));
                    if let Some(buffer) = bytes {
                        driver.recycle(buffer);
                    }
                    driver.reply(token, Answer::Done);
                }
            },
            Contents::File { undo: Some(undo), .. } if matches!(request, Request::Write { .. }) => {
                let offset = request.offset();
                let written = undo.write(offset, bytes.as_deref().unwrap_or(&[]));
                if let Some(buffer) = bytes {
                    driver.recycle(buffer);
                }
                driver.reply(token, written.map_or(FILE_FAILED, |()| Answer::Done));
            }
            Contents::File { handle, .. } => {
                let device = handle.expect("started");
                let (io, length) = match request {
                    Request::Read { offset, length } => {
                        let buffer = driver.buffer(length as usize);
                        (Io::Read { device, offset, buffer }, length)
                    }
                    Request::Flush => (Io::Flush { device }, 0),
                    request => {
                        let buffer = bytes.unwrap_or_else(|| Buffer::zeroed(0)).into();
                        let offset = request.offset();
                        let durable = matches!(request, Request::Write { fua: true, .. });
                        (Io::Write { device, offset, buffer, durable }, 0)
                    }
                };
                self.in_file.insert(key, (token, length));
                driver.submit(key, io);
            }
        }
    }
}

impl<D: Driver> Backend<D> for Emulated<D::Token> {
    fn start(&mut self, driver: &mut D) {
        if let Contents::File { file, handle, .. } = &mut self.contents {
            *handle = file.take().map(|file| driver.open(file.into()));
        }
    }

    fn request(&mut self, driver: &mut D, token: D::Token, request: Request, payload: Payload<'_>) {
        let mut bytes = None;
        let disk_request = match request {
            Request::Read { offset, length } => DiskRequest::Move {
                offset,
                length: u64::from(length),
                write: false,
                durable: false,
            },
            Request::Write { offset, length, fua } => {
                bytes = Some(payload.into_buffer());
                DiskRequest::Move { offset, length: u64::from(length), write: true, durable: fua }
            }
            Request::Flush => DiskRequest::Flush,
            // Not offered: drives of the modelled kind have none of these.
            _ => {
                let (error, text) =
                    (RequestError::Invalid, "the modelled disk has no such request");
                return driver.reply(token, Answer::Error { error, text });
            }
        };
        let key = self.disk.request(driver.now(), disk_request);
        self.settle();
        self.pending.insert(key, Pending { token, request, bytes });
    }

    fn done(&mut self, driver: &mut D, key: u64, outcome: Outcome) {
        let Some((token, length)) = self.in_file.remove(&key) else { return };
        match (outcome.result, outcome.buffer) {
            (Ok(()), Some(buffer)) => {
                driver.reply(token, Answer::Data(Arc::new(buffer), 0..length as usize));
            }
            (Ok(()), None) => driver.reply(token, Answer::Done),
            (Err(_), _) => {
                driver.reply(token, FILE_FAILED);
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.disk.due()
    }

    fn timer(&mut self, driver: &mut D) {
        while let Some((key, at)) = self.disk.done(driver.now()) {
            self.late_ns.saturating_record(driver.now().since(self.disk.real_time(at)).0);
            self.complete(driver, key);
        }
    }

    fn stopped(&self) -> bool {
        self.pending.is_empty() && self.in_file.is_empty()
    }
}
