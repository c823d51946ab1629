//! Encodes requests. It refuses what the server would have to refuse.

use crate::bytes::Put;
use crate::request::{Command, Header, Refusal, Request, Rules};
use crate::session::Session;

/// Encodes requests in the negotiated form.
#[derive(Debug)]
pub struct Encoder {
    rules: Rules,
}

impl Encoder {
    /// An encoder for what was negotiated.
    pub fn new(session: &Session) -> Encoder {
        Encoder { rules: Rules::new(session) }
    }

    /// Appends a request to `out`; for a WRITE, the caller appends its payload next. Appends
    /// nothing where the session does not allow the request.
    pub fn encode(&self, request: &Request, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let mode = self.rules.mode;
        let header = Header::of(request, mode);
        let understood = self.rules.command(&header)?;
        let (Command::BlockStatus { contexts, .. }, Command::BlockStatus { contexts: all, .. }) =
            (request.command, understood)
        else {
            header.put(mode, out);
            return Ok(());
        };
        if contexts == all {
            header.put(mode, out);
            return Ok(());
        }
        if contexts.is_empty() || contexts.0 & !all.0 != 0 || !self.rules.filters() {
            return Err(Refusal::Filter);
        }
        let ids = || {
            let known = self.rules.context_ids.iter().enumerate();
            known.filter(|(position, _)| contexts.contains(*position)).map(|(_, id)| *id)
        };
        let Command::BlockStatus { length, .. } = request.command else { return Ok(()) };
        header.with_payload(8 + 4 * ids().count()).put(mode, out);
        out.put_u64(length);
        for id in ids() {
            out.put_u32(id);
        }
        Ok(())
    }

    /// Appends `NBD_CMD_DISC`, which nothing may follow.
    pub fn disconnect(&self, out: &mut Vec<u8>) {
        Header::disconnect().put(self.rules.mode, out);
    }
}
