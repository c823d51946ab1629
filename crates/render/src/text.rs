//! Run and comparison reports as text for people, CSV and JSON.

use crate::columns;
use crate::metric::{IN_FIRST_TABLE, Metric, OPTIONAL, shown, stalled};
use destage_report::Format;
use destage_report::model::{
    AtResponse, CompareReport, FaultUse, Latency, MediaUse, Point, ReadCacheUse, RunReport,
    WritePenalty, cumulative, simulated_as,
};
use destage_report::table::{Cell, Table};
use serde::Serialize;
use std::collections::BTreeMap;

/// Columns at which sentences wrap.
const WRAP: usize = 100;

/// One run: sections of figures with units; one CSV row; or the complete report as
/// JSON. Ends in a newline.
pub fn render_run(report: &RunReport, format: Format) -> String {
    match format {
        Format::Table => run_text(report),
        Format::Csv => columns::run_csv(report),
        Format::Json => json(report),
    }
}

/// A comparison: a row per point and what it means; a CSV row per run; or the complete report
/// as JSON. Ends in a newline.
pub fn render_compare(report: &CompareReport, format: Format) -> String {
    match format {
        Format::Table => compare_text(report),
        Format::Csv => columns::compare_csv(report),
        Format::Json => json(report),
    }
}

/// These types hold strings, numbers and maps with text keys: they always serialise.
fn json(report: &impl Serialize) -> String {
    serde_json::to_string_pretty(report).expect("a report is plain data") + "\n"
}

fn run_text(run: &RunReport) -> String {
    let mut out = String::new();
    let label = Cell::text(run.label.as_str()).shown();
    out += &format!("{label}: seed {}, digest {}\n", run.seed, Cell::text(&*run.digest).shown());
    let aim = match run.target_iops {
        Some(target) => format!(", aimed at {} I/O/s", Cell::num(target, 1).shown()),
        None => String::new(),
    };
    let (warm, measured) = (Cell::num(run.warmup_s, 1), Cell::num(run.measured_s, 1));
    out += &format!(
        "measured {} s of virtual time after {} s of warm-up{aim}; {} events\n",
        measured.shown(),
        warm.shown(),
        run.events
    );
    out.extend(simulated_as(&run.options).map(|said| format!("{said}\n")));
    section(&mut out, "Throughput and response", &response_table(run));
    if !run.histogram.is_empty() {
        section(&mut out, "Distribution of response times", &histogram_table(run));
    }
    section(&mut out, "Write cache", &cache_table(run));
    section(&mut out, "Destages", &destage_table(run));
    if run.host_wait.requests > 0 {
        section(&mut out, "Wait at the host, before submission", &host_wait_table(run));
    }
    if let Some(cache) = &run.read_cache {
        section(&mut out, "Read cache", &read_cache_table(cache));
    }
    if let Some(fault) = &run.fault {
        section(&mut out, "Failed disks", &fault_table(fault));
    }
    if let Some(media) = &run.media_cache {
        section(&mut out, "Media caches of the disks, over the entire run", &media_table(media));
    }
    if !run.disks.is_empty() {
        section(&mut out, "Disks", &disk_table(run));
    }
    out += &options_text("Options", &run.options);
    out += &sentences("Warnings", &run.warnings);
    out
}

fn section(out: &mut String, title: &str, table: &Table) {
    *out += &format!("\n{title}\n");
    for line in table.render(Format::Table).lines() {
        *out += format!("  {line}").trim_end();
        out.push('\n');
    }
}

fn response_table(run: &RunReport) -> Table {
    let heads = [
        ("", ""),
        ("requests", ""),
        ("rate", "I/O/s"),
        ("mean", "ms"),
        ("p50", "ms"),
        ("p95", "ms"),
        ("p99", "ms"),
        ("p99.9", "ms"),
        ("max", "ms"),
    ];
    let row = |name: &str, latency: &Latency, rate: f64| {
        let Latency { mean_ms, p50_ms, p95_ms, p99_ms, p999_ms, max_ms, .. } = *latency;
        let times = [mean_ms, p50_ms, p95_ms, p99_ms, p999_ms, max_ms];
        let shown = |time| if latency.count == 0 { Cell::empty() } else { Cell::num(time, 2) };
        let mut cells = vec![Cell::text(name), Cell::int(latency.count), Cell::num(rate, 1)];
        cells.extend(times.map(shown));
        cells
    };
    let rate = |latency: &Latency| latency.count as f64 / run.measured_s;
    let response = &run.response;
    Table::new(&heads)
        .row(row("all", &response.all, run.iops))
        .row(row("reads", &response.reads, rate(&response.reads)))
        .row(row("writes", &response.writes, rate(&response.writes)))
}

/// The histogram in steps of a factor of two, with the requests below each bound.
fn histogram_table(run: &RunReport) -> Table {
    let heads = [("below", "ms"), ("reads", ""), ("writes", "")];
    let below = [("reads", "% below"), ("writes", "% below"), ("all", "% below")];
    let mut table = Table::new(&[&heads[..], &below].concat());
    let reads = cumulative(&run.histogram, |bucket| bucket.reads);
    let writes = cumulative(&run.histogram, |bucket| bucket.writes);
    let all = cumulative(&run.histogram, |bucket| bucket.reads + bucket.writes);
    let share =
        |of: &[(f64, f64)], at: usize| Cell::maybe(of.get(at).map(|(_, share)| 100.0 * share), 3);
    let mut counts = (0, 0);
    for (at, bucket) in run.histogram.iter().enumerate() {
        counts = (counts.0 + bucket.reads, counts.1 + bucket.writes);
        let micros = (bucket.below_ms * 1e3).round() as u64;
        if micros.is_power_of_two() || at + 1 == run.histogram.len() {
            table.push(vec![
                Cell::num(bucket.below_ms, 3),
                Cell::int(counts.0),
                Cell::int(counts.1),
                share(&reads, at),
                share(&writes, at),
                share(&all, at),
            ]);
            counts = (0, 0);
        }
    }
    table
}

/// A list of figures, each with its unit.
fn figures(rows: Vec<(&str, Cell, &str)>) -> Table {
    let mut table = Table::new(&[("figure", ""), ("value", ""), ("unit", "")]);
    for (name, value, unit) in rows {
        table.push(vec![Cell::text(name), value, Cell::text(unit)]);
    }
    table
}

fn percent(share: f64) -> Cell {
    Cell::num(100.0 * share, 1)
}

fn cache_table(run: &RunReport) -> Table {
    figures(vec![
        ("occupancy, mean", percent(run.occupancy.mean), "% of NVS"),
        ("occupancy, smallest", percent(run.occupancy.min), "% of NVS"),
        ("occupancy, largest", percent(run.occupancy.max), "% of NVS"),
        ("dirty pages, first", Cell::int(run.balance.dirty_pages_first), "pages"),
        ("dirty pages, last", Cell::int(run.balance.dirty_pages_last), "pages"),
        ("dirtied", Cell::num(run.balance.dirtied_pages_per_s, 1), "pages/s"),
        ("destaged", Cell::num(run.balance.destaged_pages_per_s, 1), "pages/s"),
        ("time full", percent(run.time_full), "% of time"),
        ("stalled writes", Cell::int(run.stalled_writes), "requests"),
        ("stalled writes, share", percent(stalled(run)), "% of writes"),
        ("write hits, pages", percent(run.hits.write_page), "% of pages written"),
        ("write hits, groups", percent(run.hits.write_group), "% of pages written"),
        ("write hits, requests", percent(run.hits.write_request), "% of writes"),
        ("read hits, requests", percent(run.hits.read_request), "% of reads"),
    ])
}

fn host_wait_table(run: &RunReport) -> Table {
    let wait = &run.host_wait;
    let share = wait.requests as f64 / run.response.all.count.max(1) as f64;
    figures(vec![
        ("requests that waited", Cell::int(wait.requests), "requests"),
        ("requests that waited, share", percent(share), "% of requests"),
        ("wait, mean of all requests", Cell::num(wait.mean_ms, 2), "ms"),
        ("wait, p99 of all requests", Cell::num(wait.p99_ms, 2), "ms"),
        ("wait, longest", Cell::num(wait.max_ms, 2), "ms"),
    ])
}

fn read_cache_table(cache: &ReadCacheUse) -> Table {
    figures(vec![
        ("size", Cell::int(cache.pages), "pages"),
        ("pages asked for", Cell::int(cache.requests), "pages"),
        ("found in NVS", percent(cache.nvs_hits), "% of pages"),
        ("found in read cache", percent(cache.hits), "% of pages"),
        ("RGR", Cell::num(cache.rgr, 4), "requests per page"),
        ("weight of lost pages", Cell::maybe(cache.weight, 2), "times others'"),
        ("changes of the weight", Cell::int(cache.weight_changes), ""),
    ])
}

fn fault_table(fault: &FaultUse) -> Table {
    let disks: Vec<String> = fault.failed.iter().map(u16::to_string).collect();
    // These are the disks' names, not how many there are.
    let name = if disks.len() == 1 { "failed disk" } else { "failed disks" };
    let penalty =
        |get: fn(&WritePenalty) -> f64| Cell::maybe(fault.write_penalty.as_ref().map(get), 3);
    figures(vec![
        (name, Cell::text(disks.join(", ")), ""),
        ("rebuilt in", Cell::maybe(fault.rebuild_s, 1), "s"),
        ("rebuilt", percent(fault.rebuilt_share), "% of the disk"),
        ("could not be computed", Cell::int(fault.lost_pages), "pages"),
        ("destages deferred", Cell::int(fault.put_off), "groups"),
        ("write penalty, as in the paper", penalty(|p| p.paper), "requests per page"),
        ("write penalty, exact", penalty(|p| p.exact), "requests per page"),
    ])
}

fn media_table(media: &MediaUse) -> Table {
    figures(vec![
        ("written", Cell::int(media.pages), "pages"),
        ("to the media cache", Cell::int(media.cached_pages), "pages"),
        ("bands cleaned", Cell::int(media.bands_cleaned), "bands"),
        ("moved to their places", Cell::int(media.moved_pages), "pages"),
        ("write amplification", Cell::num(media.write_amplification, 2), ""),
        ("time spent moving", percent(media.moving_share), "% of the disks' time"),
        ("of which writes waited", percent(media.waited_share), "% of the disks' time"),
    ])
}

fn destage_table(run: &RunReport) -> Table {
    let destage = &run.destage;
    let flushes = destage.flushes as f64;
    figures(vec![
        ("destages", Cell::int(destage.groups), "groups"),
        ("destaged pages", Cell::int(destage.pages), "pages"),
        ("destaged runs", Cell::int(destage.runs), "runs"),
        ("pages per destage", Cell::num(destage.pages_per_destage, 2), "pages"),
        ("runs per destage", Cell::num(destage.runs_per_destage, 2), "runs"),
        ("full-stripe destages", percent(destage.full_stripe_share), "% of stripes"),
        ("mean distance", Cell::num(destage.mean_distance_pages, 0), "pages"),
        ("pages in stripe memory", Cell::int(destage.recalled_pages), "not read"),
        ("in idle time", Cell::int(destage.idle_groups), "groups"),
        ("delayed by them", Cell::int(destage.idle_delayed_reads), "reads of disks"),
        ("flushes of disks", Cell::int(destage.flushes), ""),
        ("flushes per page", Cell::num(flushes / destage.pages.max(1) as f64, 3), ""),
    ])
}

fn disk_table(run: &RunReport) -> Table {
    let heads = [
        ("disk", ""),
        ("reads", ""),
        ("writes", ""),
        ("busy", "%"),
        ("seek", "%"),
        ("rotation", "%"),
        ("transfer", "%"),
        ("overhead", "%"),
    ];
    let mut table = Table::new(&heads);
    for (number, disk) in run.disks.iter().enumerate() {
        let mut cells =
            vec![Cell::int(number as u64), Cell::int(disk.reads), Cell::int(disk.writes)];
        let shares = [disk.utilisation, disk.seek, disk.rotation, disk.transfer, disk.overhead];
        cells.extend(shares.map(percent));
        table.push(cells);
    }
    table
}

fn options_text(title: &str, options: &BTreeMap<String, String>) -> String {
    if options.is_empty() {
        return String::new();
    }
    let longest = options.keys().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut out = format!("\n{title}\n");
    for (name, value) in options {
        let (name, value) = (Cell::text(name).shown(), Cell::text(value).shown());
        out += format!("  {name:longest$}  {value}").trim_end();
        out.push('\n');
    }
    out
}

fn sentences(title: &str, list: &[String]) -> String {
    if list.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{title}\n");
    for sentence in list {
        let mut line = String::from("  -");
        for word in sentence.split_whitespace() {
            if line.chars().count() + 1 + word.chars().count() > WRAP && line.trim() != "-" {
                out += &line;
                out.push('\n');
                line = String::from("   ");
            }
            line += " ";
            line += word;
        }
        out += &line;
        out.push('\n');
    }
    out
}

fn compare_text(report: &CompareReport) -> String {
    let mut out = Cell::text(report.title.as_str()).shown() + "\n";
    out.extend(simulated_as(&report.options).map(|said| format!("{said}\n")));
    if report.points.is_empty() {
        out += "\nno points\n";
    } else {
        let metrics: Vec<&Metric> = shown(&report.points).map(|(_, metric)| metric).collect();
        let (first, rest) = metrics.split_at(IN_FIRST_TABLE);
        let (second, third) = rest.split_at(OPTIONAL - IN_FIRST_TABLE);
        for metrics in [first, second, third].into_iter().filter(|table| !table.is_empty()) {
            out.push('\n');
            out += &points_table(report, metrics).render(Format::Table);
        }
    }
    if !report.at_response.is_empty() {
        out += &format!("\nThroughput at a mean response time\n({BOUNDS})\n\n");
        out += &at_response_table(&report.at_response).render(Format::Table);
    }
    out += &options_text("Options", &report.options);
    out += &sentences("Warnings", &warnings(report));
    out += &sentences("Findings", &report.findings);
    if !report.command.is_empty() {
        out += &format!("\nThis again: {}\n", Cell::text(report.command.as_str()).shown());
    }
    out
}

/// A row per point, under the variant and, in a sweep, the axis value.
fn points_table(report: &CompareReport, metrics: &[&Metric]) -> Table {
    let axis = report.axis.as_ref();
    let mut heads = vec![("variant", "")];
    heads.extend(axis.map(|axis| (axis.name.as_str(), axis.unit.as_str())));
    let keys = heads.len();
    heads.extend(metrics.iter().map(|metric| (metric.name, metric.unit)));
    let mut table = Table::new(&heads);
    for (i, metric) in metrics.iter().enumerate() {
        table = table.group(keys + i, 1, metric.group);
    }
    for point in &report.points {
        table.push(point_row(point, axis.is_some(), metrics));
    }
    table
}

fn point_row(point: &Point, swept: bool, metrics: &[&Metric]) -> Vec<Cell> {
    let mut cells = vec![Cell::text(point.variant.as_str())];
    if swept {
        cells.push(Cell::written(point.value.as_str()));
    }
    cells.extend(metrics.iter().map(|m| Cell::maybe(m.value(point), m.decimals)));
    cells
}

/// How bounds are shown where a sweep does not cross a response time.
pub(crate) const BOUNDS: &str = "> if it is below that to the end of the sweep, < if it is above \
                                 it at every point, A to B if points are far apart";

/// The throughput at a response time, or the bound that the sweep gives.
fn served(at: &AtResponse) -> Cell {
    let bound =
        |sign: &str, iops: f64| Cell::text(format!("{sign} {}", Cell::num(iops, 1).shown()));
    match (at.at_least_iops, at.below_iops) {
        (Some(iops), _) => bound(">", iops),
        (_, Some(iops)) => bound("<", iops),
        _ => at.coarse().map_or_else(
            || Cell::maybe(at.iops, 1),
            |bounds| Cell::text(bounds.map(|iops| Cell::num(iops, 1).shown()).join(" to ")),
        ),
    }
}

/// A row per variant, a column per response time, in order of appearance.
pub(crate) fn at_response_table(list: &[AtResponse]) -> Table {
    let mut variants: Vec<&str> = Vec::new();
    let mut levels: Vec<f64> = Vec::new();
    for entry in list {
        if !variants.contains(&entry.variant.as_str()) {
            variants.push(&entry.variant);
        }
        if !levels.iter().any(|level| level.to_bits() == entry.response_ms.to_bits()) {
            levels.push(entry.response_ms);
        }
    }
    let names: Vec<String> = levels.iter().map(|level| format!("at {level} ms")).collect();
    let mut heads = vec![("variant", "")];
    heads.extend(names.iter().map(|name| (name.as_str(), "I/O/s")));
    let mut table = Table::new(&heads);
    for variant in variants {
        let at = |level: &f64| {
            let same = |e: &&AtResponse| {
                e.variant == variant && e.response_ms.to_bits() == level.to_bits()
            };
            list.iter().find(same).map_or_else(Cell::empty, served)
        };
        let mut cells = vec![Cell::text(variant)];
        cells.extend(levels.iter().map(at));
        table.push(cells);
    }
    table
}

/// The warnings of all runs, each once, with the points it holds for.
pub(crate) fn warnings(report: &CompareReport) -> Vec<String> {
    let mut texts: Vec<&str> = Vec::new();
    for warning in report.points.iter().flat_map(|p| &p.runs).flat_map(|run| &run.warnings) {
        if !texts.contains(&warning.as_str()) {
            texts.push(warning);
        }
    }
    texts.into_iter().map(|text| format!("{text} ({})", places(report, text))).collect()
}

/// The points with a run that has this warning, as in `wow at 900, 1000; stow at 1500`.
fn places(report: &CompareReport, warning: &str) -> String {
    let mut places: Vec<(&str, Vec<&str>)> = Vec::new();
    for point in &report.points {
        if !point.runs.iter().any(|run| run.warnings.iter().any(|w| w == warning)) {
            continue;
        }
        match places.iter_mut().find(|(variant, _)| *variant == point.variant) {
            Some((_, values)) => values.push(&point.value),
            None => places.push((&point.variant, vec![&point.value])),
        }
    }
    let place = |(variant, values): (&str, Vec<&str>)| match values.join(", ") {
        empty if empty.is_empty() => variant.to_owned(),
        values => format!("{variant} at {values}"),
    };
    places.into_iter().map(place).collect::<Vec<_>>().join("; ")
}
