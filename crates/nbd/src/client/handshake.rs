//! The client's handshake: as much as the server offers, then GO.

use crate::bytes::{Gather, Put, Reader};
use crate::session::{BlockSizes, CONTEXTS_MAX, Context, Mode, Session};
use crate::wire;

/// What the client wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Name of the export; empty for the server's default.
    pub export: String,
    /// Use TLS, and fail where the server does not.
    pub tls: bool,
    /// Best form of messages to ask for; the server may know only a lesser one.
    pub mode: Mode,
    /// Metadata contexts to select, where the server has them.
    pub contexts: Vec<String>,
}

impl Options {
    /// The best that the server offers, without TLS, with `base:allocation`.
    pub fn new(export: &str) -> Options {
        Options {
            export: export.to_string(),
            tls: false,
            mode: Mode::Extended,
            contexts: vec![wire::BASE_ALLOCATION.to_string()],
        }
    }
}

/// What a [`Handshake::feed`] came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Send the output. All input is consumed; more is needed.
    NeedMore,
    /// Do the TLS handshake on the connection (the rest of the input belongs to it), then call
    /// [`Handshake::tls_started`] and feed what was inside.
    StartTls,
    /// The handshake is over; the rest of the input is replies.
    Transmission(Session),
    /// Send the output, then close.
    Failed(Failure),
}

/// Why a handshake failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Not an NBD server.
    NotNbd,
    /// An NBD server of the oldstyle handshake.
    Oldstyle,
    /// TLS or a GO is needed, and the server does not speak fixed newstyle.
    NotFixedNewstyle,
    /// The server refused an option without which there is nothing to do.
    Refused {
        /// `NBD_OPT_*`.
        option: u32,
        /// `NBD_REP_ERR_*`.
        error: u32,
        /// The server's text, at most [`wire::STRING_MAX`] bytes.
        text: String,
    },
    /// A reply that the protocol does not have, too long, or one too many.
    Malformed,
    /// A name or query in the options is too long or there are too many.
    Options,
    /// Fed after the end, or in the clear while TLS was to start.
    Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Greeting,
    /// Waits for replies to an option.
    Option(u32),
    ExportName,
    Tls,
    Over,
}

/// The state machine of one connection.
#[derive(Debug)]
pub struct Handshake {
    options: Options,
    phase: Phase,
    gather: Gather,
    no_zeroes: bool,
    mode: Mode,
    replies: u32,
    /// Size and flags, from `NBD_INFO_EXPORT`.
    export: Option<(u64, u16)>,
    block: BlockSizes,
    contexts: Vec<Context>,
}

const GREETING_SIZE: usize = 18;
const REPLY_HEADER: usize = 20;
/// Longest data of an option reply: all of them hold one string and little else.
const REPLY_MAX: usize = 2 * wire::STRING_MAX;
/// Most replies to one option.
const REPLIES_MAX: u32 = 256;

impl Handshake {
    /// Waits for the server's greeting.
    pub fn new(options: Options) -> Handshake {
        Handshake {
            options,
            phase: Phase::Greeting,
            gather: Gather::default(),
            no_zeroes: false,
            mode: Mode::Simple,
            replies: 0,
            export: None,
            block: BlockSizes::default(),
            contexts: Vec::new(),
        }
    }

    /// TLS has started: continues inside, appending the next option to `out`.
    pub fn tls_started(&mut self, out: &mut Vec<u8>) {
        if self.phase == Phase::Tls {
            self.after_tls(out);
        }
    }

    /// Takes bytes off the front of `input` and appends what is to be sent to `out`. Returns how
    /// many it took.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        let mut rest = input;
        let step = loop {
            match self.advance(&mut rest, out) {
                Ok(Some(step)) => break step,
                Ok(None) => {}
                Err(failure) => break Step::Failed(failure),
            }
        };
        if matches!(step, Step::Transmission(_) | Step::Failed(_)) {
            self.phase = Phase::Over;
            self.gather.take();
        }
        (input.len() - rest.len(), step)
    }

    fn advance(&mut self, rest: &mut &[u8], out: &mut Vec<u8>) -> Result<Option<Step>, Failure> {
        match self.phase {
            Phase::Greeting => self.greeting(rest, out),
            Phase::Option(option) => self.option_reply(option, rest, out),
            Phase::ExportName => self.export_name(rest),
            Phase::Tls | Phase::Over => Err(Failure::Over),
        }
    }

    fn check_options(&self) -> Result<(), Failure> {
        let texts = self.options.contexts.iter().chain([&self.options.export]);
        let fit = texts.map(String::len).all(|length| length <= wire::STRING_MAX);
        if fit && self.options.contexts.len() <= CONTEXTS_MAX {
            Ok(())
        } else {
            Err(Failure::Options)
        }
    }

    fn greeting(&mut self, rest: &mut &[u8], out: &mut Vec<u8>) -> Result<Option<Step>, Failure> {
        self.check_options()?;
        if !self.gather.fill(rest, GREETING_SIZE) {
            return Ok(Some(Step::NeedMore));
        }
        let mut reader = Reader(self.gather.bytes());
        if reader.u64() != Some(wire::NBD_INIT_MAGIC) {
            return Err(Failure::NotNbd);
        }
        if reader.u64() != Some(wire::NBD_OPTS_MAGIC) {
            return Err(Failure::Oldstyle);
        }
        let flags = reader.u16().unwrap_or(0);
        self.gather.clear();
        let fixed = flags & wire::NBD_FLAG_FIXED_NEWSTYLE != 0;
        self.no_zeroes = flags & wire::NBD_FLAG_NO_ZEROES != 0;
        let mut answer = 0;
        if fixed {
            answer |= wire::NBD_FLAG_C_FIXED_NEWSTYLE;
        }
        if self.no_zeroes {
            answer |= wire::NBD_FLAG_C_NO_ZEROES;
        }
        if !fixed && self.options.tls {
            return Err(Failure::NotFixedNewstyle);
        }
        out.put_u32(answer);
        if !fixed {
            self.send_export_name(out);
        } else if self.options.tls {
            self.send(wire::NBD_OPT_STARTTLS, &[], out);
        } else {
            self.after_tls(out);
        }
        Ok(None)
    }

    fn send(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) {
        put_option(option, data, out);
        self.replies = 0;
        self.phase = Phase::Option(option);
    }

    fn send_export_name(&mut self, out: &mut Vec<u8>) {
        put_option(wire::NBD_OPT_EXPORT_NAME, self.options.export.as_bytes(), out);
        self.phase = Phase::ExportName;
    }

    fn after_tls(&mut self, out: &mut Vec<u8>) {
        match self.options.mode {
            Mode::Extended => self.send(wire::NBD_OPT_EXTENDED_HEADERS, &[], out),
            Mode::Structured => self.send(wire::NBD_OPT_STRUCTURED_REPLY, &[], out),
            Mode::Simple => self.send_go(out),
        }
    }

    fn after_mode(&mut self, out: &mut Vec<u8>) {
        if self.mode < Mode::Structured || self.options.contexts.is_empty() {
            return self.send_go(out);
        }
        let mut data = Vec::new();
        data.put_string(&self.options.export);
        data.put_u32(self.options.contexts.len() as u32);
        for context in &self.options.contexts {
            data.put_string(context);
        }
        self.send(wire::NBD_OPT_SET_META_CONTEXT, &data, out);
    }

    fn send_go(&mut self, out: &mut Vec<u8>) {
        let mut data = Vec::new();
        data.put_string(&self.options.export);
        data.put_u16(1);
        data.put_u16(wire::NBD_INFO_BLOCK_SIZE);
        self.send(wire::NBD_OPT_GO, &data, out);
    }

    fn option_reply(
        &mut self,
        option: u32,
        rest: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Step>, Failure> {
        if !self.gather.fill(rest, REPLY_HEADER) {
            return Ok(Some(Step::NeedMore));
        }
        let mut reader = Reader(self.gather.bytes());
        let header = (reader.u64(), reader.u32(), reader.u32(), reader.u32());
        let (Some(wire::NBD_REP_MAGIC), Some(about), Some(kind), Some(length)) = header else {
            return Err(Failure::Malformed);
        };
        let length = length as usize;
        if about != option || length > REPLY_MAX || self.replies >= REPLIES_MAX {
            return Err(Failure::Malformed);
        }
        if !self.gather.fill(rest, REPLY_HEADER + length) {
            return Ok(Some(Step::NeedMore));
        }
        self.replies += 1;
        let message = self.gather.take();
        let data = &message[REPLY_HEADER..];
        match kind {
            wire::NBD_REP_ACK => self.acknowledged(option, data, out),
            _ if kind & wire::REP_ERROR != 0 => self.refused(option, kind, data, out),
            wire::NBD_REP_INFO if option == wire::NBD_OPT_GO => {
                self.info(data).ok_or(Failure::Malformed)?;
                Ok(None)
            }
            wire::NBD_REP_META_CONTEXT if option == wire::NBD_OPT_SET_META_CONTEXT => {
                self.context(data).ok_or(Failure::Malformed)?;
                Ok(None)
            }
            _ => Err(Failure::Malformed),
        }
    }

    fn acknowledged(
        &mut self,
        option: u32,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Step>, Failure> {
        if !data.is_empty() {
            return Err(Failure::Malformed);
        }
        match option {
            wire::NBD_OPT_STARTTLS => {
                self.phase = Phase::Tls;
                return Ok(Some(Step::StartTls));
            }
            wire::NBD_OPT_EXTENDED_HEADERS => self.mode = Mode::Extended,
            wire::NBD_OPT_STRUCTURED_REPLY => self.mode = Mode::Structured,
            wire::NBD_OPT_GO => return self.session().map(|it| Some(Step::Transmission(it))),
            _ => {
                self.send_go(out);
                return Ok(None);
            }
        }
        self.after_mode(out);
        Ok(None)
    }

    fn refused(
        &mut self,
        option: u32,
        error: u32,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Step>, Failure> {
        let unsupported = error == wire::NBD_REP_ERR_UNSUP;
        match option {
            _ if error == wire::NBD_REP_ERR_TLS_REQD => {}
            wire::NBD_OPT_EXTENDED_HEADERS => {
                self.send(wire::NBD_OPT_STRUCTURED_REPLY, &[], out);
                return Ok(None);
            }
            wire::NBD_OPT_STRUCTURED_REPLY => {
                self.after_mode(out);
                return Ok(None);
            }
            wire::NBD_OPT_SET_META_CONTEXT => {
                self.contexts.clear();
                self.send_go(out);
                return Ok(None);
            }
            wire::NBD_OPT_GO if unsupported && self.mode < Mode::Extended => {
                self.contexts.clear();
                self.send_export_name(out);
                return Ok(None);
            }
            _ => {}
        }
        put_option(wire::NBD_OPT_ABORT, &[], out);
        let text = String::from_utf8_lossy(&data[..data.len().min(wire::STRING_MAX)]);
        Err(Failure::Refused { option, error, text: text.into_owned() })
    }

    fn info(&mut self, data: &[u8]) -> Option<()> {
        let mut reader = Reader(data);
        match reader.u16()? {
            wire::NBD_INFO_EXPORT => {
                self.export = Some((reader.u64()?, reader.u16()?));
                reader.0.is_empty().then_some(())
            }
            wire::NBD_INFO_BLOCK_SIZE => {
                let minimum = reader.u32()?;
                let block =
                    BlockSizes { minimum, preferred: reader.u32()?, maximum: reader.u32()? };
                let sound = minimum.is_power_of_two() && minimum <= block.maximum;
                self.block = block;
                (sound && reader.0.is_empty()).then_some(())
            }
            // Not asked for.
            _ => Some(()),
        }
    }

    fn context(&mut self, data: &[u8]) -> Option<()> {
        let mut reader = Reader(data);
        let id = reader.u32()?;
        let name = std::str::from_utf8(reader.0).ok()?;
        let new = self.contexts.iter().all(|known| known.id != id);
        if !new || self.contexts.len() >= CONTEXTS_MAX || name.len() > wire::STRING_MAX {
            return None;
        }
        self.contexts.push(Context { id, name: name.to_string() });
        Some(())
    }

    fn export_name(&mut self, rest: &mut &[u8]) -> Result<Option<Step>, Failure> {
        let size = 10 + if self.no_zeroes { 0 } else { wire::EXPORT_NAME_ZEROES };
        if !self.gather.fill(rest, size) {
            return Ok(Some(Step::NeedMore));
        }
        let mut reader = Reader(self.gather.bytes());
        self.export = reader.u64().zip(reader.u16());
        self.session().map(|session| Some(Step::Transmission(session)))
    }

    fn session(&mut self) -> Result<Session, Failure> {
        let (size, flags) = self.export.ok_or(Failure::Malformed)?;
        Ok(Session {
            export: self.options.export.clone(),
            size,
            flags,
            block: self.block,
            mode: self.mode,
            contexts: std::mem::take(&mut self.contexts),
        })
    }
}

fn put_option(option: u32, data: &[u8], out: &mut Vec<u8>) {
    out.put_u64(wire::NBD_OPTS_MAGIC);
    out.put_u32(option);
    out.put_u32(u32::try_from(data.len()).expect("options are bounded"));
    out.extend_from_slice(data);
}
