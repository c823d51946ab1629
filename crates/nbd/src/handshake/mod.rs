//! The server's side of the handshake: what it offers, and the state machine.
//!
//! Only the fixed newstyle handshake is spoken (proto.md, "Fixed newstyle negotiation").

mod options;
mod server;

pub use server::{Reason, Server, Step};

use crate::session::{BlockSizes, CONTEXTS_MAX, Mode};
use crate::wire;

/// An export on offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Export {
    /// Name, at most [`wire::STRING_MAX`] bytes.
    pub name: String,
    /// Text for people; empty for none.
    pub description: String,
    /// Size, bytes.
    pub size: u64,
    /// Transmission flags, `NBD_FLAG_*`. `NBD_FLAG_HAS_FLAGS`, `NBD_FLAG_SEND_DF` and
    /// `NBD_FLAG_BLOCK_STATUS_PAYLOAD` are set or cleared by what is negotiated.
    pub flags: u16,
    /// Block size constraints.
    pub block: BlockSizes,
    /// Names of its metadata contexts (`namespace:leaf`), at most [`CONTEXTS_MAX`].
    pub contexts: Vec<String>,
    /// Opened only inside TLS; hidden from LIST outside.
    pub tls_only: bool,
}

impl Export {
    /// The transmission flags that go with a form of messages.
    pub(crate) fn flags(&self, mode: Mode) -> u16 {
        let negotiated = wire::NBD_FLAG_SEND_DF | wire::NBD_FLAG_BLOCK_STATUS_PAYLOAD;
        let mut flags = self.flags & !negotiated | wire::NBD_FLAG_HAS_FLAGS;
        if mode >= Mode::Structured {
            flags |= wire::NBD_FLAG_SEND_DF;
        }
        if mode >= Mode::Extended && !self.contexts.is_empty() {
            flags |= wire::NBD_FLAG_BLOCK_STATUS_PAYLOAD;
        }
        flags
    }
}

/// When the server speaks TLS (proto.md, "TLS support").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// Never (NOTLS).
    Off,
    /// If the client asks, and for exports that are `tls_only` (SELECTIVETLS).
    Offered,
    /// Nothing but STARTTLS and ABORT before it (FORCEDTLS).
    Required,
}

/// Limits on the cost of one client's handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Options before the server hangs up.
    pub options: u32,
    /// Longest option data that is taken, bytes; longer is `NBD_REP_ERR_TOO_BIG`.
    pub option_bytes: u32,
    /// Longest option data that is skipped, bytes; longer ends the connection.
    pub skip_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { options: 1024, option_bytes: 64 << 10, skip_bytes: 1 << 20 }
    }
}

/// What a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The exports.
    pub exports: Vec<Export>,
    /// The export for the empty name, if none has that name.
    pub default_export: Option<usize>,
    /// TLS policy.
    pub tls: Tls,
    /// Best form of messages that may be negotiated.
    pub mode: Mode,
    /// Limits.
    pub limits: Limits,
}

impl Config {
    /// One export, under its name and the empty one; everything offered, no TLS.
    pub fn single(export: Export) -> Config {
        Config {
            exports: vec![export],
            default_export: Some(0),
            tls: Tls::Off,
            mode: Mode::Extended,
            limits: Limits::default(),
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        let named = self.exports.iter().position(|export| export.name == name);
        named.or(self.default_export.filter(|at| name.is_empty() && *at < self.exports.len()))
    }

    /// Panics on a configuration whose messages the protocol would forbid: a caller's mistake.
    pub(crate) fn assert_valid(&self) {
        for export in &self.exports {
            let strings = [&export.name, &export.description];
            for text in strings.into_iter().chain(&export.contexts) {
                assert!(text.len() <= wire::STRING_MAX, "string too long for NBD: {text:.40}…");
            }
            assert!(export.contexts.len() <= CONTEXTS_MAX, "too many metadata contexts");
            let block = export.block;
            assert!(block.minimum.is_power_of_two() && block.preferred.is_power_of_two());
            assert!(block.minimum <= block.preferred && block.preferred <= block.maximum);
            assert!(export.size.is_multiple_of(u64::from(block.minimum)));
        }
    }
}
