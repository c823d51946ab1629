//! A disk in memory that answers at once.

use super::Sparse;
use crate::{Answer, Backend, Payload, Port, Token};
use destage_nbd::request::Command;
use std::sync::Arc;

/// Reads at least this long are gathered in a buffer and sent from there.
const GATHER_MIN: u32 = 16 << 10;

/// The backend `ram`.
#[derive(Debug, Default)]
pub struct Ram {
    contents: Sparse,
}

impl Backend for Ram {
    fn request(&mut self, port: &mut Port, token: Token, command: Command, payload: Payload<'_>) {
        match command {
            Command::Read { offset, length, .. } => {
                read(&self.contents, port, token, offset, length)
            }
            Command::BlockStatus { offset, length, one, .. } => {
                let extents = self.contents.extents(offset, length, one);
                port.reply(token, Answer::Status(&[(0, extents)]));
            }
            command => {
                change(&mut self.contents, &command, payload.bytes());
                if let Payload::Owned(buffer) = payload {
                    port.recycle(buffer);
                }
                port.reply(token, Answer::Done);
            }
        }
    }
}

/// Answers a READ.
pub(super) fn read(contents: &Sparse, port: &mut Port, token: Token, offset: u64, length: u32) {
    if length < GATHER_MIN {
        let mut parts = [&[][..]; 2];
        let mut parts_used = 0;
        contents.each(offset, u64::from(length), |part| {
            parts[parts_used] = part;
            parts_used += 1;
        });
        return port.reply(token, Answer::Parts(&parts[..parts_used]));
    }
    let mut buffer = port.buffer(length as usize);
    let mut at = 0;
    contents.each(offset, u64::from(length), |part| {
        buffer[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    });
    port.reply(token, Answer::Data(Arc::new(buffer), 0..at));
}

/// Carries out what changes the contents.
pub(super) fn change(contents: &mut Sparse, command: &Command, bytes: &[u8]) {
    match *command {
        Command::Write { offset, .. } => contents.write(offset, bytes),
        Command::Trim { offset, length, .. } | Command::WriteZeroes { offset, length, .. } => {
            contents.clear(offset, length);
        }
        _ => {}
    }
}
