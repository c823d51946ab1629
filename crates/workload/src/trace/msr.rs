//! MSR Cambridge CSV: time in 100 ns ticks, host, disk, type, offset, size, response time. A line
//! number before the time stamp, as in some excerpts, is passed over.

use destage_engine::registry::Entry;

use super::text::{Names, number, number_32, op_word, scaled, split};
use super::{Bad, Format, LineParser, Op, Parser, SECOND_NS, TraceRecord};

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "msr",
        summary: "MSR Cambridge CSV: ticks,host,disk,Read|Write,offset,size,response",
        source: "SNIA IOTTA, MSR Cambridge",
        params: &[],
    },
    endings: &[],
    has_times: true,
    has_service: false,
    as_bytes: None,
    disorder_ns: SECOND_NS,
    parser: |_, _| Ok(Parser::Lines(Box::<Msr>::default())),
    sniff: None,
};

const EXPECTED: Bad = Bad::new("[line] ticks,host,disk,Read|Write,offset,size,response");
/// A tick of the time stamps.
const TICK_NS: u64 = 100;

#[derive(Default)]
struct Msr {
    hosts: Names,
}

impl LineParser for Msr {
    fn line(&mut self, line: &[u8]) -> Result<Option<TraceRecord>, Bad> {
        let (time_ns, host, disk, op, offset_bytes, length_bytes) = fields(line).ok_or(EXPECTED)?;
        // Several hosts in one file: each has disks of its own.
        let device = self.hosts.index(host)? << 16 | disk;
        Ok(Some(TraceRecord { time_ns, device, offset_bytes, length_bytes, op, service: None }))
    }
}

type Fields<'a> = (u64, &'a [u8], u32, Op, u64, u64);

fn fields(line: &[u8]) -> Option<Fields<'_>> {
    let [time, host, disk, kind, offset, size, response] = split(line, b',')?;
    let time = match time.iter().position(u8::is_ascii_whitespace) {
        None => time,
        Some(at) => {
            number(&time[..at])?;
            time[at..].trim_ascii()
        }
    };
    number(response)?;
    let time_ns = number(time)?.checked_mul(TICK_NS)?;
    let disk = number_32(disk).filter(|disk| *disk < 1 << 16)?;
    Some((
        time_ns,
        host,
        disk,
        op_word(kind)?,
        scaled(number(offset)?, 1)?,
        scaled(number(size)?, 1)?,
    ))
}
