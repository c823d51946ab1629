//! fio iolog: version 2 `file action [offset length]`, where `wait` gives the time in us since the
//! previous wait, and version 3 `time_us file action [offset length]`. Bytes.

use destage_engine::registry::Entry;

use super::text::{Names, all_words, number, scaled};
use super::{Bad, Format, LineParser, Op, Parser, TraceRecord};

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "fio",
        summary: "fio iolog, version 2 or 3 (the first line says which)",
        source: "fio documentation, trace file format",
        params: &[],
    },
    endings: &[".fio", ".iolog"],
    has_times: true,
    has_service: false,
    as_bytes: None,
    disorder_ns: 0,
    parser: |_, _| Ok(Parser::Lines(Box::<Fio>::default())),
    sniff: None,
};

/// Files are numbered in order of appearance.
#[derive(Default)]
struct Fio {
    version: Option<u8>,
    time_us: u64,
    files: Names,
}

impl LineParser for Fio {
    fn line(&mut self, line: &[u8]) -> Result<Option<TraceRecord>, Bad> {
        let Some(version) = self.version else {
            self.version = match line {
                b"fio version 2 iolog" => Some(2),
                b"fio version 3 iolog" => Some(3),
                _ => return Err(Bad::new("`fio version 2 iolog` or `fio version 3 iolog`")),
            };
            return Ok(None);
        };
        let mut fields = all_words(line);
        if version == 3 {
            let time_us = fields.next().and_then(number).filter(|us| *us < u64::MAX / 1_000);
            self.time_us = time_us.ok_or(EXPECTED_3)?;
        }
        let expected = if version == 2 { EXPECTED_2 } else { EXPECTED_3 };
        self.event(fields).map_err(|bad| bad.unwrap_or(expected))
    }

    fn has_waits(&self) -> bool {
        self.version == Some(2)
    }
}

const EXPECTED_2: Bad = Bad::new("file action [offset length]");
const EXPECTED_3: Bad = Bad::new("time_us file action [offset length]");

impl Fio {
    /// What follows the time. `None` as an error: the line is not what its version says.
    fn event<'a>(
        &mut self,
        mut fields: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Option<TraceRecord>, Option<Bad>> {
        let file = fields.next().ok_or(None)?;
        let action = fields.next().ok_or(None)?;
        let offset = fields.next();
        let length = fields.next();
        if fields.next().is_some() {
            return Err(None);
        }
        let op = match action {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"wait" => {
                let wait_us = offset.and_then(number).ok_or(None)?;
                let time_us = self.time_us.checked_add(wait_us);
                self.time_us = time_us.filter(|us| *us < u64::MAX / 1_000).ok_or(None)?;
                return Ok(None);
            }
            b"add" | b"open" | b"close" | b"sync" | b"datasync" | b"trim" => return Ok(None),
            _ => return Err(None),
        };
        let offset_bytes = offset.and_then(number).and_then(|n| scaled(n, 1)).ok_or(None)?;
        let length_bytes = length.and_then(number).and_then(|n| scaled(n, 1)).ok_or(None)?;
        let device = self.files.index(file).map_err(Some)?;
        let time_ns = self.time_us * 1_000;
        Ok(Some(TraceRecord { time_ns, device, offset_bytes, length_bytes, op, service: None }))
    }
}
