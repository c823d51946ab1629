//! The backend of a modelled disk: its moments, and contents in memory or in a file.

use super::ram::{change, read};
use super::{Ask, Emulator, Sparse};
use crate::{Answer, Backend, Handle, Io, Outcome, Payload, Port, Token};
use destage_engine::units::Instant;
use destage_nbd::handshake::Export;
use destage_nbd::request::Command;
use destage_nbd::wire;
use destage_served::Buffer;
use hdrhistogram::Histogram;
use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;

enum Contents {
    Memory(Sparse),
    File { file: Option<File>, handle: Option<Handle> },
}

struct Pending {
    token: Token,
    command: Command,
    /// The bytes of a WRITE.
    bytes: Option<Buffer>,
}

/// The export of a modelled disk: reads, writes and flushes, no more than such drives have.
#[must_use]
pub fn disk_export(name: &str, description: &str, size: u64) -> Export {
    let absent =
        wire::NBD_FLAG_SEND_TRIM | wire::NBD_FLAG_SEND_WRITE_ZEROES | wire::NBD_FLAG_SEND_CACHE;
    let mut export = super::export(name, description, size);
    export.flags = export.flags & !absent | wire::NBD_FLAG_ROTATIONAL;
    export.contexts.clear();
    export
}

/// The backend of `destage emulate`.
pub struct Emulated {
    disk: Emulator,
    contents: Contents,
    pending: HashMap<u64, Pending>,
    /// Operations on the file, and what they answer.
    in_file: HashMap<u64, (Token, u32)>,
    /// How late requests were taken up, in nanoseconds of real time.
    late_ns: Histogram<u64>,
}

impl Emulated {
    /// With contents in memory, all zeros.
    #[must_use]
    pub fn in_memory(disk: Emulator) -> Emulated {
        Emulated::new(disk, Contents::Memory(Sparse::default()))
    }

    /// With contents in a file that is at least as long as the export.
    #[must_use]
    pub fn in_file(disk: Emulator, file: File) -> Emulated {
        Emulated::new(disk, Contents::File { file: Some(file), handle: None })
    }

    fn new(disk: Emulator, contents: Contents) -> Emulated {
        let (pending, in_file) = (HashMap::new(), HashMap::new());
        let late_ns = Histogram::new_with_bounds(100, 60_000_000_000, 3).expect("good bounds");
        Emulated { disk, contents, pending, in_file, late_ns }
    }

    /// How long after their moments requests were taken up, in nanoseconds of real time.
    #[must_use]
    pub fn late_ns(&self) -> &Histogram<u64> {
        &self.late_ns
    }

    /// The moment of a request has come.
    fn complete(&mut self, port: &mut Port, key: u64) {
        let Some(Pending { token, command, bytes }) = self.pending.remove(&key) else { return };
        match &mut self.contents {
            Contents::Memory(contents) => match command {
                Command::Read { offset, length, .. } => read(contents, port, token, offset, length),
                command => {
                    change(contents, &command, bytes.as_deref().unwrap_or(&[]));
                    if let Some(buffer) = bytes {
                        port.recycle(buffer);
                    }
                    port.reply(token, Answer::Done);
                }
            },
            Contents::File { handle, .. } => {
                let device = handle.expect("started");
                let (io, length) = match command {
                    Command::Read { offset, length, .. } => {
                        let buffer = port.buffer(length as usize);
                        (Io::Read { device, offset, buffer }, length)
                    }
                    Command::Flush => (Io::Flush { device }, 0),
                    command => {
                        let buffer = Arc::new(bytes.unwrap_or_else(|| Buffer::zeroed(0)));
                        let offset = command.offset();
                        let durable = matches!(command, Command::Write { fua: true, .. });
                        (Io::Write { device, offset, buffer, durable }, 0)
                    }
                };
                self.in_file.insert(key, (token, length));
                port.submit(key, io);
            }
        }
    }
}

impl Backend for Emulated {
    fn start(&mut self, port: &mut Port) {
        if let Contents::File { file, handle } = &mut self.contents {
            *handle = file.take().map(|file| port.open(file.into()));
        }
    }

    fn request(&mut self, port: &mut Port, token: Token, command: Command, payload: Payload<'_>) {
        let mut bytes = None;
        let ask = match command {
            Command::Read { offset, length, .. } => {
                Ask::Move { offset, length: u64::from(length), write: false, durable: false }
            }
            Command::Write { offset, length, fua } => {
                bytes = Some(payload.into_buffer());
                Ask::Move { offset, length: u64::from(length), write: true, durable: fua }
            }
            Command::Flush => Ask::Flush,
            // Not offered: a drive of the modelled kind has none of them.
            _ => {
                let text = "the modelled disk has no such command";
                return port.reply(token, Answer::Error { errno: wire::NBD_EINVAL, text });
            }
        };
        let key = self.disk.ask(port.now(), ask);
        self.pending.insert(key, Pending { token, command, bytes });
    }

    fn done(&mut self, port: &mut Port, key: u64, outcome: Outcome) {
        let Some((token, length)) = self.in_file.remove(&key) else { return };
        match (outcome.result, outcome.buffer) {
            (Ok(()), Some(buffer)) => {
                port.reply(token, Answer::Data(Arc::new(buffer), 0..length as usize));
            }
            (Ok(()), None) => port.reply(token, Answer::Done),
            (Err(_), _) => {
                let text = "the file cannot be read or written";
                port.reply(token, Answer::Error { errno: wire::NBD_EIO, text });
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.disk.due()
    }

    fn timer(&mut self, port: &mut Port) {
        while let Some((key, at)) = self.disk.done(port.now()) {
            self.late_ns.saturating_record(port.now().since(self.disk.real_time(at)).0);
            self.complete(port, key);
        }
    }

    fn stopped(&self) -> bool {
        self.pending.is_empty() && self.in_file.is_empty()
    }
}
