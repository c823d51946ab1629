//! SRT 1.3, as HP's I/O adaptor wrote it: a clear-text header that ends with a form feed, then
//! records of 14 big-endian 32-bit integers: size, id, seconds, microseconds, service start and
//! stop (us after arrival), bytes, sector, device, driver type, cylinder, flags, info, queue
//! length.

use std::io::{self, BufRead, Read};

use destage_engine::registry::{Choice, ChoiceError, Entry, Param};

use super::{Bad, Format, Op, Parsed, Parser, RecordParser, Service, TraceRecord};

const WORDS: usize = 14;
const RECORD_BYTES: usize = WORDS * 4;
const HEADER_BYTES_MAX: u64 = 1 << 20;
const MAGIC: &[u8] = b"$$TR_IOREC";

const FLAG_READ: u32 = 1;
const FLAG_ASYNCHRONOUS: u32 = 0x100;
const FLAG_SYNCHRONOUS: u32 = 0x100_0000;

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "srt",
        summary: "HP SRT 1.3 with measured service times (hplajw and its kin)",
        source: "traces of Ruemmler and Wilkes, used by Haining and Long",
        params: &[Param {
            name: "sector",
            unit: "bytes",
            default: "0",
            range: "0..65536",
            help: "sector size; 0: what the header says",
        }],
    },
    endings: &[".srt"],
    has_times: true,
    has_service: true,
    as_bytes: None,
    disorder_ns: 0,
    parser,
    sniff: Some(|head| head.starts_with(MAGIC)),
};

fn parser(choice: &Choice, _name: &str) -> Result<Parser, ChoiceError> {
    let sector_bytes = choice.number("sector", 0, 65_536)?;
    Ok(Parser::Records(Box::new(Srt { sector_bytes })))
}

struct Srt {
    sector_bytes: u64,
}

impl RecordParser for Srt {
    fn header(&mut self, input: &mut dyn BufRead) -> io::Result<Result<u64, Bad>> {
        let mut header = Vec::new();
        let bytes = input.take(HEADER_BYTES_MAX).read_until(0x0c, &mut header)? as u64;
        if !header.starts_with(MAGIC) || !header.ends_with(b"\x0c") {
            return Ok(Err(Bad::new("a header from $$TR_IOREC to a form feed")));
        }
        if self.sector_bytes == 0 {
            match header_sector_bytes(&header) {
                Some(sector_bytes) => self.sector_bytes = sector_bytes,
                None => return Ok(Err(Bad::new("a header with `sectorsize = BYTES`"))),
            }
        }
        Ok(Ok(bytes))
    }

    fn record_bytes(&self) -> usize {
        RECORD_BYTES
    }

    fn record(&mut self, bytes: &[u8]) -> Result<Parsed, Bad> {
        let mut word = [0u32; WORDS];
        for (word, bytes) in word.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        let [size, _, seconds, micros, start_us, stop_us, length, sector, device, _, _, flags, ..] =
            word;
        let negative = [seconds, start_us, stop_us, length, sector].iter().any(|w| *w > 1 << 31);
        if size != RECORD_BYTES as u32 || micros >= 1_000_000 || stop_us < start_us || negative {
            return Err(Bad::new(
                "a record of size 56 with microseconds below a million, stop not before start and \
                 no negative numbers",
            ));
        }
        Ok(Parsed::Request(TraceRecord {
            time_ns: u64::from(seconds) * 1_000_000_000 + u64::from(micros) * 1_000,
            device: (device >> 8) & 0xff,
            offset_bytes: u64::from(sector) * self.sector_bytes,
            length_bytes: u64::from(length),
            op: if flags & FLAG_READ != 0 { Op::Read } else { Op::Write },
            service: Some(Service {
                start_ns: u64::from(start_us) * 1_000,
                stop_ns: u64::from(stop_us) * 1_000,
                asynchronous: flags & FLAG_ASYNCHRONOUS != 0,
                synchronous: flags & FLAG_SYNCHRONOUS != 0,
            }),
        }))
    }
}

/// The number after `sectorsize =`, from the first disk described.
fn header_sector_bytes(header: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(header);
    let (_, rest) = text.split_once("sectorsize")?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|bytes| (1..=65_536).contains(bytes))
}
