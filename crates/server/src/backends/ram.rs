//! A disk in memory that answers at once.

use super::Sparse;
use destage_block::{Answer, Backend, Driver, Map, Payload, Request};
use std::sync::Arc;

/// Reads at least this long are gathered in a buffer and sent from there.
const GATHER_MIN: u32 = 16 << 10;

/// The backend `ram`.
#[derive(Debug, Default)]
pub struct Ram {
    contents: Sparse,
}

impl<D: Driver> Backend<D> for Ram {
    fn request(&mut self, driver: &mut D, token: D::Token, request: Request, payload: Payload<'_>) {
        match request {
            Request::Read { offset, length } => {
                read(&self.contents, driver, token, offset, length);
            }
            Request::Status { offset, length, one, .. } => {
                let extents = self.contents.extents(offset, length, one);
                driver.reply(token, Answer::Status(&[(Map::Holes, extents)]));
            }
            request => {
                change(&mut self.contents, &request, payload.bytes());
                if let Payload::Owned(buffer) = payload {
                    driver.recycle(buffer);
                }
                driver.reply(token, Answer::Done);
            }
        }
    }
}

/// Answers a READ.
pub(super) fn read<D: Driver>(
    contents: &Sparse,
    driver: &mut D,
    token: D::Token,
    offset: u64,
    length: u32,
) {
    if length < GATHER_MIN {
        let mut parts = [&[][..]; 2];
        let mut parts_used = 0;
        contents.each(offset, u64::from(length), |part| {
            parts[parts_used] = part;
            parts_used += 1;
        });
        return driver.reply(token, Answer::Parts(&parts[..parts_used]));
    }
    let mut buffer = driver.buffer(length as usize);
    let mut at = 0;
    contents.each(offset, u64::from(length), |part| {
        buffer[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    });
    driver.reply(token, Answer::Data(Arc::new(buffer), 0..at));
}

/// Carries out a request that changes the contents.
pub(super) fn change(contents: &mut Sparse, request: &Request, bytes: &[u8]) {
    match *request {
        Request::Write { offset, .. } => contents.write(offset, bytes),
        Request::Trim { offset, length, .. } | Request::Zero { offset, length, .. } => {
            contents.clear(offset, length);
        }
        _ => {}
    }
}
