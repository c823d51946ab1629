//! Speed of generators and readers:
//! `cargo run --release -p destage-workload --example reading_speed`.

use std::io::Cursor;
use std::time::Instant as Clock;

use destage_engine::units::Instant;
use destage_workload::generator;
use destage_workload::trace::write::{OutputFormat, TraceWriter};
use destage_workload::trace::{Compression, Op, ReadOptions, Reader, TraceRecord};

const REQUESTS: u64 = 5_000_000;
const RECORDS: u64 = 2_000_000;

fn main() {
    for load in [
        "spc1:iops=900",
        "spc1:iops=1250",
        "spc1:iops=900,semi-open",
        "zipf:iops=100000",
        "zipf:iops=0",
        "random",
        "mix:0.7*zipf+0.3*sequential",
    ] {
        let choice = generator::parse(load).expect("a known load");
        let mut source = generator::build(&choice, 17_900_000, 1).expect("a large volume");
        let begun = Clock::now();
        let mut sum = 0u64;
        for step in 0..REQUESTS {
            let at = source.next_at().expect("an endless load");
            let request = source.take(at).expect("generators do not fail");
            sum = sum.wrapping_add(request.range.first.0);
            source.completed(request.tag, Instant(at.0 + step % 2));
        }
        let ns = begun.elapsed().as_nanos() as f64 / REQUESTS as f64;
        println!("{load:34} {ns:6.1} ns a request   (sum {sum})");
    }
    for format in [OutputFormat::Destage { with_service: false }, OutputFormat::Csv] {
        for compression in [Compression::None, Compression::Zstd, Compression::Gzip] {
            read(format, compression);
        }
    }
}

fn read(format: OutputFormat, compression: Compression) {
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::new(&mut bytes, format, compression).expect("memory");
    let begun = Clock::now();
    for n in 0..RECORDS {
        let offset_bytes = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24 & !4095;
        let op = if n % 3 == 0 { Op::Read } else { Op::Write };
        let (time_ns, length_bytes) = (n * 20_011, 4096);
        let record =
            TraceRecord { time_ns, device: 0, offset_bytes, length_bytes, op, service: None };
        writer.write(&record).expect("memory");
    }
    writer.finish().expect("memory");
    let written = RECORDS as f64 / begun.elapsed().as_secs_f64() / 1e6;
    let options = ReadOptions::default();
    let reader = Reader::from_read(Box::new(Cursor::new(bytes)), "t", &options).expect("a trace");
    let begun = Clock::now();
    let count = reader.inspect(|record| assert!(record.is_ok())).count();
    let rate = count as f64 / begun.elapsed().as_secs_f64() / 1e6;
    println!("{format:?} {compression:?}: {rate:.1} M records/s read, {written:.1} M/s written");
}
