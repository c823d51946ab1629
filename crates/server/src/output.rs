//! What goes out on a connection: answers, until the socket has taken them.

use crate::front::Encoder;
use crate::total::Share;
use destage_block::Piece;
use destage_engine::units::Instant;
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::io;
use std::os::fd::OwnedFd;

/// Most bytes that are sent outside the ring.
const NOW_MAX: usize = 64 << 10;

/// The outgoing side of a connection.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// Tokens of other generations belong to connections that are gone.
    pub(crate) generation: u32,
    /// Set when the client has opened the export.
    encoder: Option<Encoder>,
    /// Not sent yet; under TLS, not encrypted yet.
    plain: Vec<Piece>,
    plain_bytes: usize,
    /// Bytes of the first piece that were taken.
    taken_of_first: usize,
    /// Goes out before the rest, as it is.
    pub(crate) wire: Vec<Piece>,
    /// A send is in flight.
    pub(crate) sending: bool,
    /// Bytes of that send.
    pub(crate) sending_bytes: usize,
    /// Requests without an answer, and the bytes they count for.
    pub(crate) requests: u32,
    pub(crate) requests_bytes: usize,
    /// Its part of the total.
    pub(crate) share: Share,
    /// When the client last took bytes, or a send to it began.
    pub(crate) taken: Instant,
    pub(crate) dirty: bool,
}

/// Where bytes are appended.
fn tail(plain: &mut Vec<Piece>) -> &mut Vec<u8> {
    if !matches!(plain.last(), Some(Piece::Bytes(_))) {
        plain.push(Piece::Bytes(Vec::with_capacity(512)));
    }
    match plain.last_mut() {
        Some(Piece::Bytes(bytes)) => bytes,
        _ => unreachable!("was pushed"),
    }
}

impl Output {
    /// Appends an answer.
    pub(crate) fn answer(&mut self, write: impl FnOnce(&Encoder, &mut Vec<u8>)) {
        let encoder = self.encoder.as_ref().expect("requests come after the opening");
        let tail = tail(&mut self.plain);
        let before = tail.len();
        write(encoder, tail);
        self.plain_bytes += tail.len() - before;
    }

    /// Appends what is said before the export is open.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let tail = tail(&mut self.plain);
        let before = tail.len();
        write(tail);
        self.plain_bytes += tail.len() - before;
    }

    /// Appends a piece that is sent from where it is.
    pub(crate) fn push(&mut self, piece: Piece) {
        self.plain_bytes += piece.bytes().len();
        self.plain.push(piece);
    }

    /// Bytes that this connection holds on to: requests in flight and what is not sent.
    pub(crate) fn held_bytes(&self) -> usize {
        self.requests_bytes + self.unsent_bytes()
    }

    /// Those of them that are to be sent.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.plain_bytes + self.sending_bytes
    }

    /// Nothing in flight and nothing to send.
    pub(crate) fn idle(&self) -> bool {
        self.requests == 0 && !self.sending && !self.unsent()
    }

    /// There is something to send. When all of `plain` was sent, what is left of it has no bytes,
    /// and its memory is used again.
    pub(crate) fn unsent(&self) -> bool {
        self.plain_bytes > 0 || !self.wire.is_empty()
    }

    /// Takes what is to be sent.
    pub(crate) fn take_plain(&mut self) -> Vec<Piece> {
        self.plain_bytes = 0;
        std::mem::take(&mut self.plain)
    }

    /// Takes at most this many bytes of what is to be sent, and hands them on. Whether that worked.
    pub(crate) fn take_part(
        &mut self,
        most: usize,
        mut to: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut left, mut done) = (most, 0);
        while let Some(piece) = self.plain.get(done).filter(|_| left > 0) {
            let bytes = &piece.bytes()[self.taken_of_first..];
            let part = bytes.len().min(left);
            to(&bytes[..part])?;
            self.plain_bytes -= part;
            left -= part;
            if part < bytes.len() {
                self.taken_of_first += part;
                break;
            }
            (self.taken_of_first, done) = (0, done + 1);
        }
        self.plain.drain(..done);
        Ok(())
    }

    /// Sends short plain answers at once, as far as the socket takes them: a send by the ring
    /// costs one more completion.
    pub(crate) fn send_now(&mut self, socket: &OwnedFd, now: Instant) -> io::Result<()> {
        let ([], [Piece::Bytes(bytes)]) = (&self.wire[..], &mut self.plain[..]) else {
            return Ok(());
        };
        if bytes.is_empty() || bytes.len() > NOW_MAX {
            return Ok(());
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match rustix::net::send(socket, bytes, flags) {
            Ok(sent) => {
                self.plain_bytes -= sent;
                self.taken = now;
                self.share.moved(sent);
                bytes.drain(..sent);
                Ok(())
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What was appended goes out as it is; what follows may be encrypted.
    pub(crate) fn seal(&mut self) {
        let plain = self.take_plain();
        self.wire.extend(plain);
    }

    /// The client has opened the export.
    pub(crate) fn open(&mut self, encoder: Encoder) {
        self.encoder = Some(encoder);
    }

    /// The connection is gone; a send in flight is remembered.
    pub(crate) fn abandon(&mut self) {
        let (generation, sending) = (self.generation.wrapping_add(1), self.sending);
        let (dirty, share) = (self.dirty, self.share);
        *self = Output { generation, sending, dirty, share, ..Output::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_in_parts_is_the_same_and_no_part_is_longer() {
        let all: Vec<u8> = (0..100).collect();
        for most in [1, 7, 30, 100, 1000] {
            let mut output = Output::default();
            for piece in [&all[..30], &all[30..31], &[], &all[31..90]] {
                output.push(Piece::Bytes(piece.to_vec()));
            }
            let (mut got, mut parts) = (Vec::new(), 0);
            while output.unsent() {
                let before = got.len();
                let to = |bytes: &[u8]| {
                    got.extend_from_slice(bytes);
                    Ok(())
                };
                output.take_part(most, to).expect("taken");
                let taken = got.len() - before;
                assert!((1..=most).contains(&taken), "{taken} of {most}");
                if parts == 0 {
                    output.append(|plain| plain.extend_from_slice(&all[90..]));
                }
                parts += 1;
                assert_eq!(output.unsent_bytes(), all.len() - got.len());
            }
            assert!(got == all, "{most}");
            assert_eq!(parts, 1 + (all.len() - most.min(90)).div_ceil(most), "{most}");
        }
        let mut refusing = Output::default();
        refusing.append(|plain| plain.push(1));
        assert!(refusing.take_part(1, |_| Err(io::ErrorKind::Other.into())).is_err());
    }
}
