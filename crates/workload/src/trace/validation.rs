//! DiskSim validation traces: `R|W label block blocks service_us think_us`, measured with one
//! request outstanding: the next arrival is the completion plus the think time.

use destage_engine::registry::Entry;

use destage_engine::units::SECTOR_BYTES;

use super::text::{decimal, number, op_word, scaled, words};
use super::{Bad, Format, LineParser, Parser, Service, TraceRecord};

pub(super) const FORMAT: Format = Format {
    entry: &Entry {
        name: "validation",
        summary: "DiskSim validation: R|W label block blocks service_us think_us, one outstanding",
        source: "DiskSim 4, validation of disk models",
        params: &[],
    },
    endings: &[],
    has_times: true,
    has_service: true,
    as_bytes: None,
    disorder_ns: 0,
    parser: |_, _| Ok(Parser::Lines(Box::<Validation>::default())),
    sniff: None,
};

#[derive(Default)]
struct Validation {
    next_ns: u64,
}

impl LineParser for Validation {
    fn line(&mut self, line: &[u8]) -> Result<Option<TraceRecord>, Bad> {
        const EXPECTED: Bad = Bad::new("R|W label block blocks service_us think_us");
        let (record, think_ns) = record(line, self.next_ns).ok_or(EXPECTED)?;
        let service_ns = record.service.map_or(0, |service| service.stop_ns);
        let next_ns = self.next_ns.checked_add(service_ns).and_then(|t| t.checked_add(think_ns));
        self.next_ns = next_ns.ok_or(EXPECTED)?;
        Ok(Some(record))
    }
}

fn record(line: &[u8], time_ns: u64) -> Option<(TraceRecord, u64)> {
    let [kind, _label, block, blocks, service, think] = words(line)?;
    let stop_ns = decimal(service, 3)?;
    let service = Service { start_ns: 0, stop_ns, asynchronous: false, synchronous: true };
    let record = TraceRecord {
        time_ns,
        device: 0,
        offset_bytes: scaled(number(block)?, SECTOR_BYTES)?,
        length_bytes: scaled(number(blocks)?, SECTOR_BYTES)?,
        op: op_word(kind)?,
        service: Some(service),
    };
    Some((record, decimal(think, 3)?))
}
