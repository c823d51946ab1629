//! `destage trace`: info, analyze, head, convert, generate; tables of formats and workloads.

use super::{format, text};
use crate::failure::Failure;
use crate::paths::Paths;
use crate::progress;
use crate::run_args::{run_options, trace_options};
use clap::ArgMatches;
use destage_engine::registry::Entry;
use destage_engine::units::PAGE_BYTES;
use destage_report::{Cell, Format, Table};
use destage_sim::sources::make_source;
use destage_workload::trace::info::TraceInfo;
use destage_workload::trace::{Op, Reader, TraceRecord, convert};
use std::path::Path;

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<String, Failure> {
    match matches.subcommand() {
        Some(("info", matches)) => info(matches),
        Some(("analyze", matches)) => super::trace_analyze::run(matches),
        Some(("head", matches)) => head(matches),
        Some(("convert", matches)) => convert_trace(matches),
        Some(("generate", matches)) => generate(matches),
        #[cfg(feature = "serve")]
        Some(("record", matches)) => super::monitoring::record(matches),
        Some(("formats", matches)) => {
            Ok(entries(&destage_workload::trace::entries(), format(matches)))
        }
        Some(("workloads", matches)) => {
            Ok(entries(&destage_workload::generator::entries(), format(matches)))
        }
        _ => unreachable!("clap requires a subcommand"),
    }
}

fn entries(entries: &[&'static Entry], format: Format) -> String {
    let mut table = Table::new(&[("name", ""), ("parameters", ""), ("summary", "")]);
    for entry in entries {
        let params: Vec<String> =
            entry.params.iter().map(|p| format!("{}={}", p.name, p.default)).collect();
        table.push(vec![
            Cell::text(entry.name),
            Cell::text(params.join(",")),
            Cell::text(entry.summary),
        ]);
    }
    table.render(format)
}

fn open(matches: &ArgMatches) -> Result<Reader, Failure> {
    let read = trace_options(matches)?;
    let path = text(matches, "file").expect("required");
    Reader::open(Path::new(path), &read).map_err(Failure::failed)
}

fn share(part: u64, whole: u64) -> String {
    format!("{:.2} %", part as f64 * 100.0 / whole.max(1) as f64)
}

fn info(matches: &ArgMatches) -> Result<String, Failure> {
    let reader = open(matches)?;
    let spinner = progress::spinner("reading");
    let info = TraceInfo::of(reader).map_err(Failure::failed)?;
    spinner.finish_and_clear();
    let mut rows: Vec<(&str, String, &str)> = vec![
        ("format", info.format.to_string(), ""),
        ("compression", info.compression.to_string(), ""),
        ("requests", info.requests.to_string(), "requests"),
        ("reads", info.reads.to_string(), "requests"),
        ("writes", info.writes.to_string(), "requests"),
        ("operation unknown", info.unknown.to_string(), "requests"),
        ("write share", share(info.writes, info.requests), ""),
        ("read", info.read_bytes.to_string(), "bytes"),
        ("written", info.written_bytes.to_string(), "bytes"),
        ("largest request", info.request_bytes_max.to_string(), "bytes"),
        ("requests of no bytes", info.empty_requests.to_string(), "requests"),
        ("footprint", info.footprint_blocks.to_string(), "4 KiB blocks"),
        ("read footprint", info.read_footprint_blocks.to_string(), "4 KiB blocks"),
        ("write footprint", info.write_footprint_blocks.to_string(), "4 KiB blocks"),
        ("write footprint", mib(info.write_footprint_blocks), "MiB"),
        ("overwrites", share(info.overwrites, info.block_writes), "of written blocks"),
        ("first reads", share(info.read_footprint_blocks, info.block_reads), "of read blocks"),
        ("first touches", share(info.first_touches, info.block_reads), "of read blocks"),
        ("sequential", format!("{:.2} %", info.sequential_share() * 100.0), "of requests"),
        ("duration", info.duration_ns.map_or("no times".into(), seconds), "s"),
        ("times in order", if info.ordered { "yes" } else { "no" }.to_string(), ""),
        ("times lifted or skipped", info.disordered.to_string(), "requests"),
        ("malformed and skipped", info.bad.to_string(), "lines or records"),
        ("devices", info.devices.len().to_string(), ""),
    ];
    rows.extend(info.doubts.iter().map(|doubt| ("warning", doubt.clone(), "")));
    rows.extend(info.first_bad.as_ref().map(|bad| ("first malformed", bad.clone(), "")));
    let mut table = Table::new(&[("figure", ""), ("value", ""), ("unit", "")]);
    for (name, value, unit) in rows {
        table.push(vec![Cell::text(name), Cell::text(value), Cell::text(unit)]);
    }
    let format = format(matches);
    let devices = devices(&info);
    Ok(match format {
        Format::Table => format!("{}\n{}", table.render(format), devices.render(format)),
        Format::Csv => table.render(format),
        Format::Json => format!(
            "{{\n\"figures\": {},\n\"devices\": {}\n}}\n",
            table.render(format).trim_end(),
            devices.render(format).trim_end()
        ),
    })
}

fn mib(blocks: u64) -> String {
    format!("{:.1}", (blocks * PAGE_BYTES) as f64 / f64::from(1 << 20))
}

fn seconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e9)
}

fn devices(info: &TraceInfo) -> Table {
    let mut table = Table::new(&[
        ("device", ""),
        ("requests", ""),
        ("reads", ""),
        ("writes", ""),
        ("transferred", "MiB"),
        ("end", "MiB"),
        ("sequential", "%"),
        ("with service time", ""),
        ("mean service", "ms"),
    ]);
    let mib = |bytes: u64| Cell::num(bytes as f64 / f64::from(1 << 20), 1);
    for device in &info.devices {
        table.push(vec![
            Cell::int(u64::from(device.device)),
            Cell::int(device.requests),
            Cell::int(device.reads),
            Cell::int(device.writes),
            mib(device.bytes),
            mib(device.end_bytes),
            Cell::num(device.sequential as f64 * 100.0 / device.requests.max(1) as f64, 1),
            Cell::int(device.serviced),
            Cell::maybe(device.service_ns_mean().map(|ns| ns / 1e6), 3),
        ]);
    }
    table
}

fn head(matches: &ArgMatches) -> Result<String, Failure> {
    let count = *matches.get_one::<u64>("count").expect("default");
    let mut table = Table::new(&[
        ("time", "s"),
        ("device", ""),
        ("op", ""),
        ("offset", "bytes"),
        ("length", "bytes"),
    ]);
    for record in open(matches)?.take(count.try_into().unwrap_or(usize::MAX)) {
        let TraceRecord { time_ns, device, offset_bytes, length_bytes, op, .. } =
            record.map_err(Failure::failed)?;
        let op = match op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Unknown => "unknown",
        };
        table.push(vec![
            Cell::num(time_ns as f64 / 1e9, 6),
            Cell::int(u64::from(device)),
            Cell::text(op),
            Cell::int(offset_bytes),
            Cell::int(length_bytes),
        ]);
    }
    Ok(table.render(format(matches)))
}

fn convert_trace(matches: &ArgMatches) -> Result<String, Failure> {
    let out = Path::new(text(matches, "out").expect("required"));
    let mut reader = open(matches)?;
    Paths::reading(text(matches, "file")).trace(out, matches.get_flag("force"))?;
    let spinner = progress::spinner("converting");
    let requests = convert::convert(&mut reader, out, None).map_err(Failure::failed)?;
    spinner.finish_and_clear();
    Ok(format!("{requests} requests written to {}\n", out.display()))
}

fn generate(matches: &ArgMatches) -> Result<String, Failure> {
    let out = Path::new(text(matches, "out").expect("required"));
    let mut options = run_options(matches)?;
    // None is filled here: the least fits every volume.
    options.set("nvs", "1")?;
    let requests: u64 = match options.get("requests") {
        "all" => return Err(Failure::usage("a generated trace needs --requests N")),
        number => number
            .parse()
            .map_err(|_| Failure::usage(format!("--requests takes a number, not `{number}`")))?,
    };
    let config = options.build()?;
    let mut source = make_source(&options, &config)?;
    Paths::of_run(&options).trace(out, matches.get_flag("force"))?;
    let spinner = progress::spinner("generating");
    /// Time after which a closed load's request counts as completed.
    const SERVICE_NS: u64 = 5_000_000;
    let written = convert::generate(&mut *source, requests, SERVICE_NS, out, None)
        .map_err(Failure::failed)?;
    spinner.finish_and_clear();
    Ok(format!("{written} requests written to {}\n", out.display()))
}
