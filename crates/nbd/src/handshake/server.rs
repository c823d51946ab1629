//! The server's handshake, driven by bytes.

use super::{Config, Tls};
use crate::bytes::{Gather, Put, Reader, skip};
use crate::session::{Context, Mode, Session};
use crate::wire;
use std::sync::Arc;

/// Result of [`Server::feed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// All input is consumed; more is needed.
    NeedMore,
    /// An option was answered: send the output, then feed the rest of the input.
    Option {
        /// `NBD_OPT_*`.
        option: u32,
        /// The last reply, `NBD_REP_*`.
        reply: u32,
    },
    /// Send the output, then do the TLS handshake with all further input; when it is done call
    /// [`Server::tls_started`] and feed what was inside. If it fails, hang up.
    StartTls,
    /// The handshake is over: send the output; the rest of the input is requests.
    Transmission {
        /// Position of the export in [`Config::exports`].
        export: usize,
        /// What was negotiated.
        session: Session,
    },
    /// The client gave up: send the output and close.
    Aborted,
    /// Close the connection.
    HangUp(Reason),
}

/// Why a server must close the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Unknown client flags.
    ClientFlags,
    /// An option that does not begin with `NBD_OPTS_MAGIC`.
    Magic,
    /// An option other than EXPORT_NAME from a client that does not speak fixed newstyle.
    NotFixedNewstyle,
    /// More options than the limit.
    TooManyOptions,
    /// An option too long to skip.
    OptionTooLong,
    /// EXPORT_NAME cannot be answered with an error: no such export, or TLS is needed.
    ExportName,
    /// Fed after the end, or in the clear while TLS was to start.
    Over,
}

#[derive(Debug)]
enum Phase {
    Flags,
    Option,
    /// Data too long to take: skip it, then answer.
    Skip {
        option: u32,
        left: u64,
    },
    Tls,
    Over,
}

/// Contexts that the last SET_META_CONTEXT selected.
#[derive(Debug)]
pub(super) struct Selected {
    pub(super) export: usize,
    pub(super) contexts: Vec<Context>,
}

/// The state machine of one connection.
#[derive(Debug)]
pub struct Server {
    pub(super) config: Arc<Config>,
    pub(super) mode: Mode,
    pub(super) selected: Option<Selected>,
    encrypted: bool,
    no_zeroes: bool,
    fixed: bool,
    options: u32,
    phase: Phase,
    gather: Gather,
}

const FLAGS_SIZE: usize = 4;
const OPTION_HEADER: usize = 16;

impl Server {
    /// Begins: appends the greeting to `out`.
    ///
    /// # Panics
    /// On a configuration with strings or context lists longer than the protocol allows, or block
    /// sizes that are not powers of two in ascending order.
    pub fn new(config: Arc<Config>, out: &mut Vec<u8>) -> Server {
        config.assert_valid();
        out.put_u64(wire::NBD_INIT_MAGIC);
        out.put_u64(wire::NBD_OPTS_MAGIC);
        out.put_u16(wire::NBD_FLAG_FIXED_NEWSTYLE | wire::NBD_FLAG_NO_ZEROES);
        Server {
            config,
            mode: Mode::Simple,
            selected: None,
            encrypted: false,
            no_zeroes: false,
            fixed: false,
            options: 0,
            phase: Phase::Flags,
            gather: Gather::default(),
        }
    }

    /// TLS has started: the server forgets everything negotiated before.
    pub fn tls_started(&mut self) {
        if matches!(self.phase, Phase::Tls) {
            self.encrypted = true;
            self.mode = Mode::Simple;
            self.selected = None;
            self.phase = Phase::Option;
        }
    }

    /// Whether the connection is inside TLS.
    pub fn encrypted(&self) -> bool {
        self.encrypted
    }

    /// Takes bytes off the front of `input`, at most to the end of one option, and appends the
    /// answer to `out`. Returns how many it took.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        let mut rest = input;
        let step = self.advance(&mut rest, out);
        if matches!(step, Step::HangUp(_) | Step::Aborted | Step::Transmission { .. }) {
            self.phase = Phase::Over;
            self.gather.take();
        }
        (input.len() - rest.len(), step)
    }

    fn advance(&mut self, rest: &mut &[u8], out: &mut Vec<u8>) -> Step {
        if let Phase::Flags = self.phase {
            if !self.gather.fill(rest, FLAGS_SIZE) {
                return Step::NeedMore;
            }
            if !self.client_flags() {
                return Step::HangUp(Reason::ClientFlags);
            }
            self.phase = Phase::Option;
        }
        match &mut self.phase {
            Phase::Skip { option, left } => {
                skip(rest, left);
                if *left > 0 {
                    return Step::NeedMore;
                }
                let option = *option;
                self.phase = Phase::Option;
                refuse(out, option, wire::NBD_REP_ERR_TOO_BIG, "the option is too long")
            }
            Phase::Option => self.option(rest, out),
            Phase::Flags | Phase::Tls | Phase::Over => Step::HangUp(Reason::Over),
        }
    }

    fn client_flags(&mut self) -> bool {
        let flags = Reader(self.gather.bytes()).u32().unwrap_or(u32::MAX);
        self.gather.clear();
        self.fixed = flags & wire::NBD_FLAG_C_FIXED_NEWSTYLE != 0;
        self.no_zeroes = flags & wire::NBD_FLAG_C_NO_ZEROES != 0;
        flags & !(wire::NBD_FLAG_C_FIXED_NEWSTYLE | wire::NBD_FLAG_C_NO_ZEROES) == 0
    }

    fn option(&mut self, rest: &mut &[u8], out: &mut Vec<u8>) -> Step {
        if !self.gather.fill(rest, OPTION_HEADER) {
            return Step::NeedMore;
        }
        let mut header = Reader(self.gather.bytes());
        let (Some(magic), Some(option), Some(length)) = (header.u64(), header.u32(), header.u32())
        else {
            return Step::HangUp(Reason::Magic);
        };
        if let Err(reason) = self.check_header(magic, option, length) {
            return Step::HangUp(reason);
        }
        if length > self.config.limits.option_bytes {
            self.gather.clear();
            self.options += 1;
            if option == wire::NBD_OPT_SET_META_CONTEXT {
                self.selected = None;
            }
            self.phase = Phase::Skip { option, left: u64::from(length) };
            return self.advance(rest, out);
        }
        if !self.gather.fill(rest, OPTION_HEADER + length as usize) {
            return Step::NeedMore;
        }
        self.options += 1;
        let message = self.gather.take();
        self.answer(option, &message[OPTION_HEADER..], out)
    }

    fn check_header(&self, magic: u64, option: u32, length: u32) -> Result<(), Reason> {
        let limits = self.config.limits;
        if magic != wire::NBD_OPTS_MAGIC {
            Err(Reason::Magic)
        } else if !self.fixed && option != wire::NBD_OPT_EXPORT_NAME {
            Err(Reason::NotFixedNewstyle)
        } else if self.options >= limits.options {
            Err(Reason::TooManyOptions)
        } else if length > limits.option_bytes && option == wire::NBD_OPT_EXPORT_NAME {
            Err(Reason::ExportName)
        } else if length > limits.skip_bytes.max(limits.option_bytes) {
            Err(Reason::OptionTooLong)
        } else {
            Ok(())
        }
    }

    fn answer(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Step {
        let free = matches!(option, wire::NBD_OPT_ABORT | wire::NBD_OPT_STARTTLS);
        if self.config.tls == Tls::Required && !self.encrypted && !free {
            if option == wire::NBD_OPT_EXPORT_NAME {
                return Step::HangUp(Reason::ExportName);
            }
            return refuse(out, option, wire::NBD_REP_ERR_TLS_REQD, "TLS is required");
        }
        match option {
            wire::NBD_OPT_EXPORT_NAME => self.export_name(data, out),
            wire::NBD_OPT_ABORT => {
                reply(out, option, wire::NBD_REP_ACK, &[]);
                Step::Aborted
            }
            wire::NBD_OPT_STARTTLS => self.start_tls(data, out),
            wire::NBD_OPT_LIST => self.list(data, out),
            wire::NBD_OPT_INFO | wire::NBD_OPT_GO => self.info(option, data, out),
            wire::NBD_OPT_STRUCTURED_REPLY => self.raise(option, Mode::Structured, data, out),
            wire::NBD_OPT_EXTENDED_HEADERS => self.raise(option, Mode::Extended, data, out),
            wire::NBD_OPT_LIST_META_CONTEXT | wire::NBD_OPT_SET_META_CONTEXT => {
                self.meta_context(option, data, out)
            }
            _ => refuse(out, option, wire::NBD_REP_ERR_UNSUP, "unknown option"),
        }
    }

    /// Whether this connection may open or list the export.
    pub(super) fn reachable(&self, export: usize) -> bool {
        self.encrypted || !self.config.exports[export].tls_only
    }

    fn export_name(&mut self, data: &[u8], out: &mut Vec<u8>) -> Step {
        let name = std::str::from_utf8(data).ok().filter(|name| name.len() <= wire::STRING_MAX);
        let found = name.and_then(|name| Some((name, self.config.find(name)?)));
        // A client with extended headers must use GO.
        let (Some((name, export)), true) = (found, self.mode < Mode::Extended) else {
            return Step::HangUp(Reason::ExportName);
        };
        if !self.reachable(export) {
            return Step::HangUp(Reason::ExportName);
        }
        let session = self.session(name, export);
        out.put_u64(session.size);
        out.put_u16(session.flags);
        if !self.no_zeroes {
            out.resize(out.len() + wire::EXPORT_NAME_ZEROES, 0);
        }
        Step::Transmission { export, session }
    }

    fn start_tls(&mut self, data: &[u8], out: &mut Vec<u8>) -> Step {
        let option = wire::NBD_OPT_STARTTLS;
        if self.config.tls == Tls::Off {
            refuse(out, option, wire::NBD_REP_ERR_POLICY, "this server does not offer TLS")
        } else if self.encrypted {
            refuse(out, option, wire::NBD_REP_ERR_INVALID, "TLS is already in use")
        } else if !data.is_empty() {
            refuse(out, option, wire::NBD_REP_ERR_INVALID, "STARTTLS has no data")
        } else {
            reply(out, option, wire::NBD_REP_ACK, &[]);
            self.phase = Phase::Tls;
            Step::StartTls
        }
    }

    /// STRUCTURED_REPLY or EXTENDED_HEADERS.
    fn raise(&mut self, option: u32, to: Mode, data: &[u8], out: &mut Vec<u8>) -> Step {
        if to > self.config.mode {
            refuse(out, option, wire::NBD_REP_ERR_UNSUP, "not offered")
        } else if !data.is_empty() {
            refuse(out, option, wire::NBD_REP_ERR_INVALID, "the option has no data")
        } else if self.mode > to {
            let error = wire::NBD_REP_ERR_EXT_HEADER_REQD;
            refuse(out, option, error, "extended headers are already in use")
        } else if self.mode == to {
            refuse(out, option, wire::NBD_REP_ERR_INVALID, "already negotiated")
        } else {
            self.mode = to;
            acknowledge(out, option)
        }
    }

    pub(super) fn session(&self, name: &str, export: usize) -> Session {
        let offered = &self.config.exports[export];
        let selected = self.selected.as_ref().filter(|selected| selected.export == export);
        Session {
            export: name.to_string(),
            size: offered.size,
            flags: offered.flags(self.mode),
            block: offered.block,
            mode: self.mode,
            contexts: selected.map_or_else(Vec::new, |selected| selected.contexts.clone()),
        }
    }
}

/// Appends an option reply.
pub(super) fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.put_u64(wire::NBD_REP_MAGIC);
    out.put_u32(option);
    out.put_u32(kind);
    out.put_u32(u32::try_from(data.len()).expect("replies are bounded by the configuration"));
    out.extend_from_slice(data);
}

/// Appends an error reply with a text for people.
pub(super) fn refuse(out: &mut Vec<u8>, option: u32, error: u32, text: &str) -> Step {
    reply(out, option, error, text.as_bytes());
    Step::Option { option, reply: error }
}

/// Appends `NBD_REP_ACK`.
pub(super) fn acknowledge(out: &mut Vec<u8>, option: u32) -> Step {
    reply(out, option, wire::NBD_REP_ACK, &[]);
    Step::Option { option, reply: wire::NBD_REP_ACK }
}
