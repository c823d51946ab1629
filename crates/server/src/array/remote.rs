//! A member that another process serves over NBD, on the data thread: requests go out and
//! replies come in through the ring.

use crate::{Handle, Io, Port, SendPart};
use destage_nbd::Session;
use destage_nbd::client::request::Encoder;
use destage_nbd::client::{Reply, ReplyDecoder};
use destage_nbd::request::{Command, Request};
use destage_volume::{Buffer, IoError, OpId, OpKind};
use std::collections::HashMap;

const INPUT: usize = 256 << 10;
const EIO: u32 = 5;

struct Pending {
    buffer: Option<Buffer>,
    offset: u64,
}

/// What came of an operation.
pub(crate) type Ended = (OpId, Result<Option<Buffer>, IoError>);

/// A remote member.
pub(crate) struct Remote {
    handle: Handle,
    encoder: Encoder,
    decoder: ReplyDecoder,
    out: Vec<SendPart>,
    sending: bool,
    receiving: bool,
    input: Option<Buffer>,
    pending: HashMap<u64, Pending>,
    broken: bool,
    fua: bool,
    /// Writes that are flushed when they are done, since the server has no FUA.
    flush_after: HashMap<u64, u64>,
}

/// Keys of the two operations of a remote: send and receive.
pub(crate) struct Keys {
    pub(crate) send: u64,
    pub(crate) receive: u64,
}

impl Remote {
    pub(crate) fn new(handle: Handle, session: &Session) -> Remote {
        Remote {
            handle,
            encoder: Encoder::new(session),
            decoder: ReplyDecoder::new(session),
            out: Vec::new(),
            sending: false,
            receiving: false,
            input: Some(Buffer::zeroed(INPUT)),
            pending: HashMap::new(),
            broken: false,
            fua: session.has(destage_nbd::wire::NBD_FLAG_SEND_FUA),
            flush_after: HashMap::new(),
        }
    }

    /// Its socket.
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// Puts an operation among what is to be sent.
    pub(crate) fn submit(&mut self, id: OpId, kind: OpKind, ended: &mut Vec<Ended>) {
        let (command, buffer, offset, payload) = match kind {
            OpKind::Read { offset, bytes } => {
                let command = Command::Read { offset, length: bytes as u32, dont_fragment: false };
                (command, Some(Buffer::zeroed(bytes)), offset, None)
            }
            OpKind::Write { offset, buffer, durable } => {
                let fua = durable && self.fua;
                if durable && !self.fua {
                    self.flush_after.insert(id.0, id.0);
                }
                let command = Command::Write { offset, length: buffer.len() as u32, fua };
                (command, None, offset, Some(buffer))
            }
            OpKind::Flush => (Command::Flush, None, 0, None),
        };
        if self.broken || !self.put(id.0, command) {
            ended.push((id, Err(IoError::Gone)));
            return;
        }
        self.out.extend(payload.map(SendPart::Shared));
        self.pending.insert(id.0, Pending { buffer, offset });
    }

    fn put(&mut self, cookie: u64, command: Command) -> bool {
        let request = Request { cookie, command };
        if !matches!(self.out.last(), Some(SendPart::Bytes(_))) {
            self.out.push(SendPart::Bytes(Vec::new()));
        }
        let Some(SendPart::Bytes(bytes)) = self.out.last_mut() else { return false };
        self.encoder.encode(&request, bytes).is_ok() && self.decoder.expect(&request)
    }

    /// Sends what there is and listens for replies.
    pub(crate) fn turn(&mut self, port: &mut Port, keys: &Keys) {
        if !self.sending && !self.out.is_empty() && !self.broken {
            self.sending = true;
            let bytes = core::mem::take(&mut self.out);
            port.submit(keys.send, Io::Send { device: self.handle, bytes });
        }
        if !self.receiving && !self.pending.is_empty() && !self.broken {
            self.receiving = true;
            let mut buffer = self.input.take().unwrap_or_else(|| Buffer::zeroed(INPUT));
            buffer.set_len(INPUT);
            port.submit(keys.receive, Io::Receive { device: self.handle, buffer });
        }
    }

    /// A send is over.
    pub(crate) fn sent(&mut self, result: Result<(), IoError>, ended: &mut Vec<Ended>) {
        self.sending = false;
        if result.is_err() {
            self.give_up(ended);
        }
    }

    /// Something was received.
    pub(crate) fn received(
        &mut self,
        result: Result<(), IoError>,
        buffer: Option<Buffer>,
        ended: &mut Vec<Ended>,
    ) {
        self.receiving = false;
        let (Ok(()), Some(buffer)) = (result, buffer) else {
            self.give_up(ended);
            return;
        };
        let mut at = 0;
        loop {
            let (taken, reply) = self.decoder.next(&buffer[at..]);
            match reply {
                Reply::NeedMore => break,
                Reply::Data { cookie, offset, range } => {
                    let bytes = &buffer[at + range.start..at + range.end];
                    if let Some(Pending { buffer: Some(into), offset: from }) =
                        self.pending.get_mut(&cookie)
                    {
                        let to = (offset - *from) as usize;
                        into[to..to + bytes.len()].copy_from_slice(bytes);
                    }
                }
                // The buffer is zeros already.
                Reply::Hole { .. } | Reply::Extents { .. } | Reply::Error { .. } => {}
                Reply::Done { cookie, errno } => self.finish(cookie, errno, ended),
                Reply::HangUp(_) => {
                    self.give_up(ended);
                    return;
                }
            }
            at += taken;
        }
        self.input = Some(buffer);
    }

    fn finish(&mut self, cookie: u64, errno: Option<u32>, ended: &mut Vec<Ended>) {
        let Some(pending) = self.pending.remove(&cookie) else { return };
        if errno.is_none() && self.flush_after.remove(&cookie).is_some() {
            if self.put(cookie, Command::Flush) {
                self.pending.insert(cookie, Pending { buffer: None, offset: 0 });
                return;
            }
            ended.push((OpId(cookie), Err(IoError::Gone)));
            return;
        }
        let result = match errno {
            None => Ok(pending.buffer),
            Some(EIO) => Err(IoError::Medium),
            Some(_) => Err(IoError::Gone),
        };
        ended.push((OpId(cookie), result));
    }

    fn give_up(&mut self, ended: &mut Vec<Ended>) {
        self.broken = true;
        let mut ids: Vec<u64> = self.pending.drain().map(|(id, _)| id).collect();
        ids.sort_unstable();
        ended.extend(ids.into_iter().map(|id| (OpId(id), Err(IoError::Gone))));
    }
}
