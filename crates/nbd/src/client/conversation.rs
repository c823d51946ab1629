//! The client's transmission phase: requests out, replies in, kept in step.

use super::request::Encoder;
use super::{Reply, ReplyDecoder};
use crate::request::{Refusal, Request};
use crate::session::Session;

/// What a client says and hears on one connection, once the export is open.
#[derive(Debug)]
pub struct Conversation {
    encoder: Encoder,
    decoder: ReplyDecoder,
}

impl Conversation {
    /// Begins with what was negotiated.
    pub fn new(session: &Session) -> Conversation {
        Conversation { encoder: Encoder::new(session), decoder: ReplyDecoder::new(session) }
    }

    /// Appends a request to `out`; the caller appends a WRITE's payload next. Appends nothing if
    /// the session does not allow the request.
    ///
    /// # Panics
    /// If a request with the same cookie is in flight.
    pub fn ask(&mut self, request: &Request, out: &mut Vec<u8>) -> Result<(), Refusal> {
        self.encoder.encode(request, out)?;
        assert!(self.decoder.expect(request), "each request has a cookie of its own");
        Ok(())
    }

    /// Takes bytes off the front of `input`, up to the next event. Returns how many it took.
    pub fn next(&mut self, input: &[u8]) -> (usize, Reply) {
        self.decoder.next(input)
    }

    /// Requests without a complete reply.
    pub fn in_flight(&self) -> usize {
        self.decoder.in_flight()
    }

    /// Appends `NBD_CMD_DISC`, which nothing may follow.
    pub fn disconnect(&self, out: &mut Vec<u8>) {
        self.encoder.disconnect(out);
    }
}
