//! The front ends: protocols that clients speak on stream sockets. Each is a folder or file here
//! and one line in the table below (docs/frontends.md).
//!
//! A front end turns bytes into requests and answers into bytes. It has no sockets, no clock and
//! no threads: those are the loop's, as are the limits on what a client may hold.

use destage_block::{Export, Extent, Map, Request, RequestError};

/// Declares the front ends, and one decoder and one encoder type for all of them. These choose by
/// a `match`, so a request or an answer costs no call through a pointer.
macro_rules! front_ends {
    ($($name:ident = $module:ident;)+) => {
        $(mod $module;)+

        /// A front end.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each has its own summary")]
        pub enum FrontEnd { $($name),+ }

        impl FrontEnd {
            /// All front ends.
            pub const ALL: &[FrontEnd] = &[$(FrontEnd::$name),+];

            /// Its table entry.
            pub fn entry(self) -> &'static FrontEndEntry {
                match self { $(FrontEnd::$name => &$module::ENTRY),+ }
            }

            /// The decoder of a new connection; appends what the server says first.
            pub(crate) fn connect(self, offer: &Offer<'_>, greeting: &mut Vec<u8>) -> Decoder {
                match self {
                    $(FrontEnd::$name => Decoder::$name(Decode::new(offer, greeting))),+
                }
            }
        }

        /// What comes in on a connection.
        pub(crate) enum Decoder { $($name($module::Decoder)),+ }

        /// What goes out on a connection.
        #[derive(Debug)]
        pub(crate) enum Encoder { $($name($module::Encoder)),+ }

        impl Decoder {
            pub(crate) fn is_open(&self) -> bool {
                match self { $(Decoder::$name(of) => of.is_open()),+ }
            }

            pub(crate) fn open(
                &mut self,
                input: &[u8],
                out: &mut Vec<u8>,
            ) -> (usize, Opening<Encoder>) {
                match self {
                    $(Decoder::$name(of) => {
                        let (count, opening) = of.open(input, out);
                        (count, opening.map(Encoder::$name))
                    })+
                }
            }

            pub(crate) fn tls_started(&mut self) {
                match self { $(Decoder::$name(of) => of.tls_started()),+ }
            }

            pub(crate) fn next(&mut self, input: &[u8]) -> (usize, Event) {
                match self { $(Decoder::$name(of) => of.next(input)),+ }
            }

            pub(crate) fn payload_left(&self) -> u32 {
                match self { $(Decoder::$name(of) => of.payload_left()),+ }
            }

            pub(crate) fn look_ahead(&self, input: &[u8], show: impl FnMut(u64)) {
                match self { $(Decoder::$name(of) => of.look_ahead(input, show)),+ }
            }
        }

        impl Encode for Encoder {
            fn done(&self, out: &mut Vec<u8>, tag: Tag) {
                match self { $(Encoder::$name(of) => of.done(out, tag)),+ }
            }

            fn read(&self, out: &mut Vec<u8>, tag: Tag, length: u32) {
                match self { $(Encoder::$name(of) => of.read(out, tag, length)),+ }
            }

            fn error(&self, out: &mut Vec<u8>, tag: Tag, error: RequestError, text: &str) {
                match self { $(Encoder::$name(of) => of.error(out, tag, error, text)),+ }
            }

            fn status(&self, out: &mut Vec<u8>, tag: Tag, maps: &[(Map, Vec<Extent>)]) {
                match self { $(Encoder::$name(of) => of.status(out, tag, maps)),+ }
            }
        }
    };
}

// The table. `make check` formats the files by name, since rustfmt does not look in here.
front_ends! {
    Nbd = nbd;
}

/// What the command line and the documents say of a front end.
#[derive(Debug)]
pub struct FrontEndEntry {
    /// Name of the option that listens for it.
    pub name: &'static str,
    /// The protocol, in a few words.
    pub summary: &'static str,
    /// Form of its addresses.
    pub listen: &'static str,
    /// Whether its connections can be encrypted.
    pub tls: bool,
}

/// What the clients of a listener are offered.
pub(crate) struct Offer<'a> {
    pub(crate) export: &'a Export,
    pub(crate) tls: Tls,
}

/// When a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    Off,
    /// If the client asks.
    Offered,
    Required,
}

/// What an answer is matched by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// The client's own number of the request.
    pub(crate) cookie: u64,
    /// The request's offset.
    pub(crate) offset: u64,
}

/// The incoming side of one connection. Bytes arrive in pieces of any length, and from anybody: no
/// input may panic, or take memory that the export's limits do not allow.
pub(crate) trait Decode: Sized {
    /// The other side of the connection.
    type Encoder: Encode;

    /// A new connection; appends what the server says first.
    fn new(offer: &Offer<'_>, greeting: &mut Vec<u8>) -> Self;

    /// Whether the client has opened the export, so that requests come.
    fn is_open(&self) -> bool;

    /// Until then: takes bytes off the front of `input`, appends the answer to `out`, and returns
    /// how many bytes it took.
    fn open(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Opening<Self::Encoder>);

    /// The connection is encrypted from now on.
    fn tls_started(&mut self) {}

    /// From then on: takes bytes off the front of `input`, up to the next event, and returns how
    /// many it took.
    fn next(&mut self, input: &[u8]) -> (usize, Event);

    /// Bytes of a WRITE's payload that are still to come. The loop may receive them into their
    /// buffer and pass them from there.
    fn payload_left(&self) -> u32;

    /// Shows the offsets of the requests in `input`, so that the backend can fetch what it needs
    /// for all of them at once. Only a hint.
    fn look_ahead(&self, input: &[u8], show: impl FnMut(u64)) {
        let _ = (input, show);
    }
}

/// What came of bytes before the export is open.
pub(crate) enum Opening<E> {
    /// More is needed, or more may follow.
    More,
    /// Send the output; all further input is TLS.
    StartTls,
    /// Send the output; the rest of the input is requests.
    Open(E),
    /// The client gave up: send the output, then close.
    End,
    /// Close the connection.
    HangUp,
}

impl<E> Opening<E> {
    fn map<T>(self, to: impl FnOnce(E) -> T) -> Opening<T> {
        match self {
            Opening::Open(encoder) => Opening::Open(to(encoder)),
            Opening::More => Opening::More,
            Opening::StartTls => Opening::StartTls,
            Opening::End => Opening::End,
            Opening::HangUp => Opening::HangUp,
        }
    }
}

/// What came of bytes afterwards.
pub(crate) enum Event {
    /// All input was consumed; more is needed.
    More,
    /// A request, checked against the export, with its cookie. After a WRITE, its payload follows.
    Request(u64, Request),
    /// This many bytes at the front of the input are payload.
    Payload { bytes: usize, last: bool },
    /// A request that gets an error.
    Refused(Tag, RequestError, &'static str),
    /// The client is done: finish what is in flight, then close.
    End,
    /// What came is not the protocol: close the connection.
    HangUp,
}

/// The outgoing side of one connection: appends answers.
pub(crate) trait Encode {
    /// Success of a request without data.
    fn done(&self, out: &mut Vec<u8>, tag: Tag);

    /// Success of a read; the loop appends its `length` bytes.
    fn read(&self, out: &mut Vec<u8>, tag: Tag, length: u32);

    /// Failure; the text is for people.
    fn error(&self, out: &mut Vec<u8>, tag: Tag, error: RequestError, text: &str);

    /// The extents of each map that was asked for.
    fn status(&self, out: &mut Vec<u8>, tag: Tag, maps: &[(Map, Vec<Extent>)]);
}
