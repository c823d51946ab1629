//! What a trace holds, as tables for people, and as CSV and JSON. docs/traces.md defines every
//! figure.

use destage_report::trace::{
    CacheSize, Hottest, Hour, Place, Reuse, SizeFigures, Totals, TraceAnalyses, TraceAnalysis,
    share,
};
use destage_report::{Cell, Format, Table};

const MIB: f64 = 1_048_576.0;
/// Hours in a table; of a longer trace the busiest ones.
const HOURS: usize = 48;
const HOURS_BUSIEST: usize = 24;
/// Parts of a device in a table.
const PLACES: usize = 16;

/// A table with its heading, and what a reader should know of it.
pub(crate) struct Section {
    pub(crate) heading: String,
    pub(crate) note: String,
    pub(crate) table: Table,
}

/// Traces as text: tables for people; CSV with the figures of each; JSON with everything.
pub fn render_trace(analyses: &TraceAnalyses, format: Format) -> String {
    match format {
        Format::Json => serde_json::to_string_pretty(analyses).expect("plain numbers") + "\n",
        Format::Csv => csv(analyses).render(format),
        Format::Table => {
            let texts: Vec<String> = analyses.traces.iter().map(text).collect();
            texts.join("\n")
        }
    }
}

fn text(trace: &TraceAnalysis) -> String {
    let mut out = format!("{}\n", heading(trace));
    for warning in &trace.warnings {
        out += &format!("Warning: {warning}\n");
    }
    for section in sections(trace) {
        out += &format!("\n{}\n", section.heading);
        if !section.note.is_empty() {
            out += &format!("{}\n", section.note);
        }
        out += &section.table.render(Format::Table);
    }
    out
}

/// The file, what it is, and how long.
pub(crate) fn heading(trace: &TraceAnalysis) -> String {
    let compressed = match trace.compression.as_str() {
        "none" => String::new(),
        name => format!(", {name}"),
    };
    let devices = match (trace.device, trace.devices) {
        (Some(device), _) => format!(", device {device}"),
        (None, 1) => String::new(),
        (None, devices) => format!(", {devices} devices"),
    };
    let duration = match trace.duration_s {
        Some(seconds) => format!(", {seconds:.3} s"),
        None => String::new(),
    };
    let bad = match trace.bad {
        0 => String::new(),
        bad => format!(", {bad} malformed lines or records skipped"),
    };
    let disordered = match trace.disordered {
        0 => String::new(),
        count => format!(", {count} time stamps out of order"),
    };
    let (file, format) = (&trace.file, &trace.format);
    format!("{file}: {format}{compressed}{devices}{duration}{bad}{disordered}")
}

/// Every table of a trace, in the order of docs/traces.md.
pub(crate) fn sections(trace: &TraceAnalysis) -> Vec<Section> {
    let mut found = vec![Section {
        heading: String::from("Figures"),
        note: String::new(),
        table: figures(trace),
    }];
    found.extend(hours(trace));
    found.push(sizes(trace));
    found.extend(working_sets(trace));
    found.push(caches(trace));
    found.push(hottest(trace));
    found.extend(devices(trace));
    found.extend(places(trace));
    found
}

/// One figure: of reads, of writes, and of both.
type Row = (String, [Cell; 3], &'static str);

fn figures(trace: &TraceAnalysis) -> Table {
    let mut table =
        Table::new(&[("figure", ""), ("reads", ""), ("writes", ""), ("all", ""), ("unit", "")]);
    for (name, [reads, writes, all], unit) in rows(trace) {
        table.push(vec![Cell::text(name), reads, writes, all, Cell::text(unit)]);
    }
    table
}

fn csv(analyses: &TraceAnalyses) -> Table {
    let mut table = Table::new(&[
        ("file", ""),
        ("figure", ""),
        ("reads", ""),
        ("writes", ""),
        ("all", ""),
        ("unit", ""),
    ]);
    for trace in &analyses.traces {
        for (name, [reads, writes, all], unit) in rows(trace) {
            let file = Cell::text(trace.file.as_str());
            table.push(vec![file, Cell::text(name), reads, writes, all, Cell::text(unit)]);
        }
    }
    table
}

/// A measurement with more decimals where it is small.
fn measured(value: f64) -> Cell {
    let decimals = match value {
        1.0.. => 2,
        0.01.. => 4,
        _ => 6,
    };
    Cell::num(value, decimals)
}

fn percent(part: u64, all: u64) -> Cell {
    if all == 0 { Cell::empty() } else { Cell::num(share(part, all) * 100.0, 2) }
}

fn rows(trace: &TraceAnalysis) -> Vec<Row> {
    let total = &trace.total;
    let ints = |of: [u64; 3]| of.map(Cell::int);
    let mib = |of: [u64; 3]| of.map(|bytes| Cell::num(bytes as f64 / MIB, 1));
    let requests = [total.reads, total.writes, total.requests()];
    let bytes = [total.read_bytes, total.written_bytes, total.bytes()];
    let of_all = |[a, b, all]: [u64; 3]| [percent(a, all), percent(b, all), percent(all, all)];
    let mut rows: Vec<Row> = vec![
        ("requests".into(), ints(requests), ""),
        ("share of requests".into(), of_all(requests), "%"),
        ("transferred".into(), mib(bytes), "MiB"),
        ("share of bytes".into(), of_all(bytes), "%"),
    ];
    rows.extend(rates(trace));
    rows.extend(size_rows(trace));
    let sequential = &trace.sequential;
    let shares = |reads: u64, writes: u64| {
        let found = [reads, writes, reads + writes];
        std::array::from_fn(|kind| percent(found[kind], requests[kind]))
    };
    let streams = format!("sequential in {} streams", sequential.streams);
    rows.push(("sequential".into(), shares(sequential.reads, sequential.writes), "%"));
    let in_streams = shares(sequential.reads_in_streams, sequential.writes_in_streams);
    rows.push((streams, in_streams, "%"));
    let (reads, writes) = (&trace.read_reuse, &trace.write_reuse);
    let accesses = [reads.accesses, writes.accesses, reads.accesses + writes.accesses];
    let pages = [trace.pages.read, trace.pages.written, trace.pages.all];
    rows.push(("page accesses".into(), ints(accesses), "pages"));
    rows.push(("distinct pages".into(), ints(pages), "pages"));
    rows.push(("distinct pages".into(), mib(pages.map(|p| p * trace.page_bytes)), "MiB"));
    let firsts = std::array::from_fn(|kind| percent(pages[kind], accesses[kind]));
    rows.push(("first touches".into(), firsts, "% of page accesses"));
    rows
}

fn rates(trace: &TraceAnalysis) -> Vec<Row> {
    let (Some(time), Some(seconds)) = (&trace.time, trace.duration_s) else { return Vec::new() };
    let per_s = |total: &Totals, seconds: f64| {
        [total.reads, total.writes, total.requests()].map(|n| measured(n as f64 / seconds))
    };
    let mib_per_s = |total: &Totals, seconds: f64| {
        let bytes = [total.read_bytes, total.written_bytes, total.bytes()];
        bytes.map(|bytes| measured(bytes as f64 / MIB / seconds))
    };
    let mut rows: Vec<Row> = vec![
        ("mean rate".into(), per_s(&trace.total, seconds), "requests per second"),
        ("mean rate".into(), mib_per_s(&trace.total, seconds), "MiB per second"),
    ];
    for (name, peak) in [("minute", time.peak_minute), ("second", time.peak_second)] {
        let Some(peak) = peak else { continue };
        let name = match name == "minute" && peak.length_s < 60.0 {
            true => format!("peak minute, all {} s", peak.length_s),
            false => format!("peak {name}, from {} s", peak.start_s),
        };
        rows.push((name.clone(), per_s(&peak.total, peak.length_s), "requests per second"));
        rows.push((name, mib_per_s(&peak.total, peak.length_s), "MiB per second"));
    }
    rows
}

fn size_rows(trace: &TraceAnalysis) -> Vec<Row> {
    let (reads, writes) = (&trace.sizes.reads, &trace.sizes.writes);
    let requests = trace.total.requests();
    let mean = |of: &Option<SizeFigures>| Cell::maybe(of.map(|figures| figures.mean_bytes), 0);
    let all = Cell::num(trace.total.bytes() as f64 / requests as f64, 0);
    let row = |name: &str, of: fn(&SizeFigures) -> u64| -> Row {
        let cell = |figures: &Option<SizeFigures>| {
            figures.as_ref().map_or_else(Cell::empty, |figures| Cell::int(of(figures)))
        };
        (format!("{name} request size"), [cell(reads), cell(writes), Cell::empty()], "bytes")
    };
    vec![
        ("mean request size".into(), [mean(reads), mean(writes), all], "bytes"),
        row("median", |figures| figures.p50_bytes),
        row("90th percentile", |figures| figures.p90_bytes),
        row("99th percentile", |figures| figures.p99_bytes),
        row("largest", |figures| figures.max_bytes),
    ]
}

fn hours(trace: &TraceAnalysis) -> Option<Section> {
    let hours = &trace.time.as_ref()?.hours;
    let mut shown: Vec<&Hour> = hours.iter().collect();
    let mut note = String::from("Hours with requests, counted from the first request.");
    if shown.len() > HOURS {
        shown.sort_by_key(|hour| (std::cmp::Reverse(hour.total.requests()), hour.hour));
        shown.truncate(HOURS_BUSIEST);
        shown.sort_by_key(|hour| hour.hour);
        note = format!(
            "The busiest {HOURS_BUSIEST} of {} hours with requests, counted from the first \
             request. JSON has all of them.",
            hours.len()
        );
    }
    let mut table = Table::new(&[
        ("hour", ""),
        ("reads", ""),
        ("writes", ""),
        ("writes", "%"),
        ("read", "MiB"),
        ("written", "MiB"),
        ("written", "%"),
    ]);
    for Hour { hour, total } in shown {
        table.push(vec![
            Cell::int(*hour),
            Cell::int(total.reads),
            Cell::int(total.writes),
            percent(total.writes, total.requests()),
            Cell::num(total.read_bytes as f64 / MIB, 1),
            Cell::num(total.written_bytes as f64 / MIB, 1),
            percent(total.written_bytes, total.bytes()),
        ]);
    }
    Some(Section { heading: String::from("Reads and writes by hour"), note, table })
}

/// A size in bytes as people write it.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let fits = |at: &usize| *at == 0 || bytes >= 1 << (10 * at);
    let at = (0..units.len()).rev().find(fits).unwrap_or(0);
    let value = bytes as f64 / (1u64 << (10 * at)) as f64;
    let text = format!("{value:.2}");
    format!("{} {}", text.trim_end_matches('0').trim_end_matches('.'), units[at])
}

fn sizes(trace: &TraceAnalysis) -> Section {
    let mut table = Table::new(&[
        ("up to", ""),
        ("reads", ""),
        ("reads", "%"),
        ("writes", ""),
        ("writes", "%"),
    ]);
    for class in &trace.sizes.classes {
        table.push(vec![
            Cell::text(size(class.to_bytes)),
            Cell::int(class.reads),
            percent(class.reads, trace.total.reads),
            Cell::int(class.writes),
            percent(class.writes, trace.total.writes),
        ]);
    }
    Section { heading: String::from("Request sizes"), note: String::new(), table }
}

fn working_sets(trace: &TraceAnalysis) -> Option<Section> {
    let sets = &trace.time.as_ref()?.working_sets;
    if sets.is_empty() {
        return None;
    }
    let mib = |pages: f64| measured(pages * trace.page_bytes as f64 / MIB);
    let mut table = Table::new(&[
        ("window", "s"),
        ("windows", ""),
        ("mean", "MiB"),
        ("read, mean", "MiB"),
        ("written, mean", "MiB"),
        ("most", "MiB"),
        ("read, most", "MiB"),
        ("written, most", "MiB"),
    ]);
    for set in sets {
        table.push(vec![
            Cell::num(set.window_s, 0),
            Cell::int(set.windows),
            mib(set.pages_mean),
            mib(set.read_pages_mean),
            mib(set.written_pages_mean),
            mib(set.pages_max.all as f64),
            mib(set.pages_max.read as f64),
            mib(set.pages_max.written as f64),
        ]);
    }
    let heading = String::from("Working sets by window");
    Some(Section { heading, note: String::from("Distinct pages accessed in a window."), table })
}

/// The cache of a sequence that has this size or the first above the one that holds every page.
fn cache_of(reuse: &Reuse, pages: u64) -> Option<(u64, f64)> {
    let up_to = |cache: &&CacheSize| cache.pages <= pages;
    let reuses = reuse.caches.iter().take_while(up_to).map(|cache| cache.reuses).sum();
    let last = reuse.caches.iter().take_while(up_to).last()?;
    Some((reuses, last.miss_ratio))
}

fn caches(trace: &TraceAnalysis) -> Section {
    let mut table = Table::new(&[
        ("cache", "pages"),
        ("cache", ""),
        ("reads reused", "%"),
        ("reads missed", "%"),
        ("writes reused", "%"),
        ("writes missed", "%"),
    ]);
    let kinds = [&trace.read_reuse, &trace.write_reuse];
    let last = kinds.iter().filter_map(|kind| kind.caches.last()).map(|cache| cache.pages).max();
    let mut pages = 1;
    loop {
        let mut cells = vec![Cell::int(pages), Cell::text(size(pages * trace.page_bytes))];
        for kind in kinds {
            let found = cache_of(kind, pages);
            let reused = found.map(|(reuses, _)| share(reuses, kind.accesses) * 100.0);
            cells.push(Cell::maybe(reused, 2));
            cells.push(Cell::maybe(found.map(|(_, ratio)| ratio * 100.0), 2));
        }
        table.push(cells);
        if last.is_none_or(|last| pages >= last) {
            break;
        }
        pages *= 4;
    }
    let heading = String::from("Reuse distances and LRU miss ratios");
    let note = String::from(
        "Of page accesses: those whose reuse distance is below the size of the cache, and those \
         that an LRU cache of that size misses.",
    );
    Section { heading, note, table }
}

fn hottest(trace: &TraceAnalysis) -> Section {
    let mut table =
        Table::new(&[("hottest pages", "%"), ("all", "%"), ("reads", "%"), ("writes", "%")]);
    let heat = &trace.heat;
    for (at, hottest) in heat.all.iter().enumerate() {
        let of =
            |list: &[Hottest]| Cell::maybe(list.get(at).map(|hottest| hottest.share * 100.0), 2);
        table.push(vec![
            Cell::num(hottest.pages_percent, 1),
            of(&heat.all),
            of(&heat.reads),
            of(&heat.writes),
        ]);
    }
    let heading = String::from("Accesses on the hottest pages");
    Section { heading, note: String::from("Share of page accesses."), table }
}

fn devices(trace: &TraceAnalysis) -> Option<Section> {
    if trace.devices < 2 {
        return None;
    }
    let all = trace.read_reuse.accesses + trace.write_reuse.accesses;
    let mut table = Table::new(&[("device", ""), ("page accesses", ""), ("share", "%")]);
    for device in &trace.heat.devices {
        let number = Cell::int(u64::from(device.device));
        table.push(vec![number, Cell::int(device.accesses), percent(device.accesses, all)]);
    }
    let heading = String::from("Busiest devices");
    let note = match trace.devices as usize - trace.heat.devices.len() {
        0 => String::new(),
        others => format!("{others} more devices are not shown."),
    };
    Some(Section { heading, note, table })
}

fn places(trace: &TraceAnalysis) -> Option<Section> {
    let device = trace.heat.devices.first()?;
    let mut table = Table::new(&[
        ("from", "MiB"),
        ("to", "MiB"),
        ("reads", "%"),
        ("writes", "%"),
        ("touched", "% of pages"),
    ]);
    let sum = |of: fn(&Place) -> u64| device.parts.iter().map(of).sum();
    let (reads, writes): (u64, u64) = (sum(|part| part.reads), sum(|part| part.writes));
    let together = device.parts.len().div_ceil(PLACES).max(1);
    let part_mib = (device.part_pages * trace.page_bytes) as f64 / MIB;
    for (at, parts) in device.parts.chunks(together).enumerate() {
        let first = (at * together) as f64 * part_mib;
        let sum = |of: fn(&Place) -> u64| parts.iter().map(of).sum::<u64>();
        table.push(vec![
            Cell::num(first, 1),
            Cell::num(first + parts.len() as f64 * part_mib, 1),
            percent(sum(|part| part.reads), reads),
            percent(sum(|part| part.writes), writes),
            percent(sum(|part| part.pages), parts.len() as u64 * device.part_pages),
        ]);
    }
    let heading = format!("Heat over the addresses of device {}", device.device);
    Some(Section { heading, note: String::from("Share of page accesses."), table })
}
