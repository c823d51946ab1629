//! Opening a trace: plain, gzip, zstd or xz, detected by the first bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use super::error::TraceError;
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

/// Bytes read to detect the format.
const HEAD_BYTES: usize = 16 * 1024;
/// Bytes read at once.
const BUFFER_BYTES: usize = 128 * 1024;

/// A decompressed stream whose first bytes were looked at.
pub(super) type Input = BufReader<io::Chain<Cursor<Vec<u8>>, Tail>>;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, of one or more members.
    Gzip,
    /// Zstandard, of one or more frames.
    Zstd,
    /// xz, of one or more streams.
    Xz,
}

impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Xz => "xz",
        })
    }
}

impl Compression {
    /// What the first bytes say.
    pub fn of_magic(head: &[u8]) -> Compression {
        match head {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            _ => Compression::None,
        }
    }

    /// What the end of a file's name says, and the name without it.
    pub fn of_name(name: &str) -> (Compression, &str) {
        for (ending, compression) in
            [(".gz", Compression::Gzip), (".zst", Compression::Zstd), (".xz", Compression::Xz)]
        {
            if let Some(stem) = name.strip_suffix(ending) {
                return (compression, stem);
            }
        }
        (Compression::None, name)
    }
}

/// What some programs write before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The members of a gzip file, one after the other. Zeros behind the last one, as tapes leave them,
/// are no data.
struct Members {
    member: flate2::bufread::GzDecoder<Box<dyn BufRead + Send>>,
    ended: bool,
}

impl Members {
    fn new(source: Box<dyn BufRead + Send>) -> Members {
        Members { member: flate2::bufread::GzDecoder::new(source), ended: false }
    }

    /// Begins the next member, if there is one.
    fn next(&mut self) -> io::Result<()> {
        let source = self.member.get_mut();
        let mut zeros = false;
        loop {
            let there = source.fill_buf()?;
            match there.first() {
                None => self.ended = true,
                Some(0) => {
                    let count = there.iter().take_while(|byte| **byte == 0).count();
                    source.consume(count);
                    zeros = true;
                    continue;
                }
                Some(0x1f) if !zeros => {
                    let source = std::mem::replace(source, Box::new(io::empty()));
                    self.member = flate2::bufread::GzDecoder::new(source);
                }
                Some(_) => {
                    let what = "something that is not gzip follows the compressed data";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
            }
            return Ok(());
        }
    }
}

impl Read for Members {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !buffer.is_empty() {
            match self.member.read(buffer)? {
                0 => self.next()?,
                count => return Ok(count),
            }
        }
        Ok(0)
    }
}

/// What comes after the head: first the error met while looking ahead, if any, then the rest.
pub(super) struct Tail {
    error: Option<io::Error>,
    rest: Box<dyn Read + Send>,
}

impl Read for Tail {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.rest.read(buffer),
        }
    }
}

/// The first bytes of a trace, decompressed, and its file's name in lower case without what the
/// compression added.
pub(super) struct Head {
    /// At most 16 KiB.
    pub bytes: Vec<u8>,
    /// Whether that is the entire trace.
    pub complete: bool,
    /// Last part of the path.
    pub name: String,
}

impl Head {
    /// Whether it begins with the byte order mark of UTF-16. Binary formats may begin with the same
    /// bytes.
    pub(super) fn is_utf_16(&self) -> bool {
        self.bytes.starts_with(b"\xff\xfe") || self.bytes.starts_with(b"\xfe\xff")
    }
}

/// Opens a file.
pub(super) fn open(path: &Path) -> Result<(Head, Input, Compression), TraceError> {
    let file = path.display().to_string();
    let io_error = |error: io::Error| TraceError::Io { file: file.clone(), why: error.to_string() };
    let opened = File::open(path).map_err(io_error)?;
    if opened.metadata().is_ok_and(|m| m.is_dir()) {
        return Err(TraceError::Io { file, why: String::from("is a directory, not a trace") });
    }
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    from_read(Box::new(opened), &name).map_err(io_error)
}

/// The most memory that xz may take, in bytes: a file names the size of its dictionary, up to
/// 4 GiB. `xz -9` has 64 MiB.
const XZ_MEMORY: u64 = 256 << 20;

/// xz, whose library does not say what to do about a limit.
struct Xz<R>(XzDecoder<R>);

impl<R: BufRead> Read for Xz<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
            match inner {
                Some(liblzma::stream::Error::MemLimit) => io::Error::other(
                    "xz needs more than 256 MiB of memory for it: unpack it with `xz -d` first",
                ),
                _ => error,
            }
        })
    }
}

/// Wraps any stream of bytes. `name` serves as a hint to the format.
pub(super) fn from_read(
    source: Box<dyn Read + Send>,
    name: &str,
) -> io::Result<(Head, Input, Compression)> {
    let mut source = BufReader::with_capacity(BUFFER_BYTES, source);
    let mut magic = Vec::new();
    source.by_ref().take(6).read_to_end(&mut magic)?;
    let compression = Compression::of_magic(&magic);
    let source = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(magic).chain(source));
    let mut rest: Box<dyn Read + Send> = match compression {
        Compression::None => Box::new(source),
        Compression::Gzip => Box::new(Members::new(Box::new(source))),
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(source)?),
        Compression::Xz => {
            let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)?;
            Box::new(Xz(XzDecoder::new_stream(source, stream)))
        }
    };
    let mut bytes = Vec::with_capacity(HEAD_BYTES);
    let error = rest.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut bytes).err();
    let complete = error.is_none() && bytes.len() < HEAD_BYTES;
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    let name = Compression::of_name(&name.to_ascii_lowercase()).1.to_string();
    let input = Cursor::new(bytes.clone()).chain(Tail { error, rest });
    let head = Head { bytes, complete, name };
    Ok((head, BufReader::with_capacity(BUFFER_BYTES, input), compression))
}
