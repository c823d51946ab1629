//! Every output format on plausible, hostile and degenerate reports.

use destage_render::{
    PLOT_NAMES, PlotFormat, draw, html, parquet_compare, parquet_runs, parquet_series, plotly_js,
    plots, render_compare, render_run, render_trace, trace_html,
};
use destage_report::model::{
    AtResponse, Axis, Destage, DiskUse, Estimate, Hits, Latency, Point, Responses, Series,
    TimeBucket,
};
use destage_report::plot::Marks;
use destage_report::trace::{DeviceHeat, Heat, OverTime, Place, TraceAnalyses, TraceAnalysis};
use destage_report::{CompareReport, Format, PlotSpec, RunReport, Scale};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use std::path::Path;

const HOSTILE: &str = "a,\"b\"\n</script><script>alert(1)</script><!-- & 'x' \u{1}\u{2028}";

fn run(label: &str, seed: u64, mean_ms: f64) -> RunReport {
    let latency = Latency {
        count: 100,
        mean_ms,
        p50_ms: mean_ms / 2.0,
        p95_ms: mean_ms * 3.0,
        p99_ms: mean_ms * 5.0,
        p999_ms: mean_ms * 9.0,
        max_ms: mean_ms * 20.0,
    };
    RunReport {
        schema: 1,
        label: label.to_owned(),
        options: [("high".to_owned(), "90".to_owned()), ("low".to_owned(), "80".to_owned())].into(),
        seed,
        warmup_s: 2.0,
        measured_s: 4.0,
        iops: 900.0 / mean_ms,
        response: Responses { all: latency.clone(), reads: latency.clone(), writes: latency },
        histogram: vec![
            TimeBucket { below_ms: 0.1, reads: 0, writes: 60 },
            TimeBucket { below_ms: mean_ms + 1.0, reads: 30, writes: 0 },
            TimeBucket { below_ms: mean_ms + 9.0, reads: 10, writes: 0 },
        ],
        hits: Hits { write_page: 0.5, ..Hits::default() },
        stalled_share: Some(0.1534),
        destage: Destage { mean_distance_pages: 1234.5, groups: 7, ..Destage::default() },
        disks: vec![
            DiskUse { utilisation: 0.5, seek: 0.3, rotation: 0.2, ..DiskUse::default() };
            5
        ],
        series: Series {
            interval_s: 1.0,
            occupancy: vec![0.1, 0.5, 0.9, 0.85, 0.9, 0.8],
            iops: vec![100.0; 6],
            ..Series::default()
        },
        warnings: vec!["had not settled".to_owned()],
        digest: "0123456789abcdef".to_owned(),
        ..RunReport::default()
    }
}

fn point(variant: &str, value: &str, mean_ms: f64) -> Point {
    Point {
        variant: variant.to_owned(),
        value: value.to_owned(),
        iops: Estimate { mean: 900.0 / mean_ms, half_width: 3.0, seeds: 2 },
        response_ms: Estimate { mean: mean_ms, half_width: 0.2, seeds: 2 },
        runs: vec![run(variant, 1, mean_ms), run(variant, u64::MAX, mean_ms * 1.1)],
    }
}

fn compare(axis: &str, values: &[&str], variants: &[&str]) -> CompareReport {
    let points = variants
        .iter()
        .enumerate()
        .flat_map(|(v, variant)| {
            values
                .iter()
                .enumerate()
                .map(move |(i, value)| point(variant, value, (1 + v) as f64 * (1 + i) as f64))
        })
        .collect();
    let owned = values.iter().map(|&value| value.to_owned()).collect();
    CompareReport {
        schema: 1,
        title: "A title".to_owned(),
        command: "destage compare --policies a,b".to_owned(),
        axis: (!axis.is_empty()).then(|| Axis {
            name: axis.to_owned(),
            unit: "pages".to_owned(),
            values: owned,
        }),
        points,
        at_response: vec![
            AtResponse {
                variant: "lrw".to_owned(),
                response_ms: 20.0,
                iops: Some(814.0),
                ..AtResponse::default()
            },
            AtResponse {
                variant: "stow".to_owned(),
                response_ms: 20.0,
                at_least_iops: Some(1199.0),
                ..AtResponse::default()
            },
        ],
        findings: vec!["stow wins".to_owned()],
        ..CompareReport::default()
    }
}

/// Reports that have broken renderers before, or could.
fn degenerate() -> Vec<CompareReport> {
    let mut list = vec![CompareReport::default()];
    let empty = CompareReport {
        points: vec![
            Point::default(),
            Point { runs: vec![RunReport::default()], ..Point::default() },
        ],
        ..CompareReport::default()
    };
    list.push(empty);
    for axis in ["", "iops", "nvs"] {
        list.push(compare(axis, &[""], &["only"]));
        list.push(compare(axis, &["16", "256", "4096"], &["lrw", "stow"]));
        list.push(compare(axis, &["90/80", "70/40"], &[HOSTILE, ""]));
        list.push(compare(axis, &[HOSTILE, "0", "-1", "NaN"], &["a"]));
        let mut broken = compare(axis, &["0", "0.5", "1"], &["a", "b"]);
        for (i, odd) in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e300].into_iter().enumerate() {
            let point = &mut broken.points[i];
            point.iops.mean = odd;
            point.response_ms = Estimate { mean: odd, half_width: odd, seeds: 1 };
            point.runs[0].response.all.p50_ms = odd;
            point.runs[0].destage.mean_distance_pages = odd;
            point.runs[0].series.occupancy = vec![odd; 3];
            point.runs[0].series.interval_s = odd;
            point.runs[0].disks[0].seek = odd;
            point.runs[0].measured_s = odd;
            point.runs[0].warmup_s = odd;
        }
        broken.points[5].runs.clear();
        broken.at_response[0].response_ms = f64::NAN;
        list.push(broken);
    }
    let many: Vec<String> = (0..25).map(|i| format!("variant with a long name {i}")).collect();
    let names: Vec<&str> = many.iter().map(String::as_str).collect();
    list.push(compare("nvs", &["1", "2"], &names));
    list
}

/// Splits CSV as RFC 4180 says.
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (vec![], vec![], String::new(), false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => field.extend(rest.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(field.is_empty() && row.is_empty() && !quoted);
    rows
}

fn rows(bytes: Vec<u8>) -> Vec<Row> {
    let reader = SerializedFileReader::new(parquet_bytes(bytes)).unwrap();
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

fn parquet_bytes(bytes: Vec<u8>) -> std::fs::File {
    use std::io::Write;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    file
}

fn column<'a>(row: &'a Row, name: &str) -> &'a Field {
    row.get_column_iter().find(|(column, _)| *column == name).unwrap().1
}

#[test]
fn run_csv_survives_hostile_labels() {
    let mut report = run(HOSTILE, 7, 2.0);
    report.options.insert("x".to_owned(), HOSTILE.to_owned());
    let rows = parse_csv(&render_run(&report, Format::Csv));
    assert_eq!(rows.len(), 2);
    let field = |name: &str| &rows[1][rows[0].iter().position(|n| n == name).unwrap()];
    assert_eq!(field("label"), HOSTILE);
    assert_eq!(field("response_mean_ms"), "2");
    assert_eq!(field("target_iops"), "");
    assert_eq!((field("rgr").as_str(), field("rebuild_s").as_str()), ("", ""));
    let options: serde_json::Value = serde_json::from_str(field("options")).unwrap();
    assert_eq!(options["x"], HOSTILE);
}

#[test]
fn compare_csv_has_a_row_per_run_and_no_ragged_ones() {
    let report = compare("nvs", &["16", "32"], &["lrw", HOSTILE]);
    let rows = parse_csv(&render_compare(&report, Format::Csv));
    assert_eq!(rows.len(), 1 + 8);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    assert_eq!(rows[0][..5], ["variant", "axis", "axis_unit", "axis_value", "schema"]);
    assert_eq!(rows[5][..4], [HOSTILE, "nvs", "pages", "16"]);
    let last = rows[0].len() - 1;
    assert_eq!(rows[0][last], "option_nvs");
    assert_eq!((rows[1][last].as_str(), rows[3][last].as_str()), ("16", "32"));
}

#[test]
fn json_comes_back_as_it_was() {
    let report = compare("nvs", &["16"], &["lrw", HOSTILE]);
    let back: CompareReport = serde_json::from_str(&render_compare(&report, Format::Json)).unwrap();
    assert_eq!(back, report);
    let back: RunReport =
        serde_json::from_str(&render_run(&report.points[0].runs[1], Format::Json)).unwrap();
    assert_eq!(back, report.points[0].runs[1]);
}

#[test]
fn parquet_reads_back_with_the_columns_of_the_csv() {
    let report = compare("nvs", &["16"], &["lrw", HOSTILE]);
    let read = rows(parquet_compare(&report).unwrap());
    let names: Vec<&String> = read[0].get_column_iter().map(|(name, _)| name).collect();
    let csv = parse_csv(&render_compare(&report, Format::Csv));
    assert_eq!(names, csv[0].iter().collect::<Vec<_>>());
    assert_eq!(read.len(), 4);
    assert_eq!(column(&read[1], "seed"), &Field::ULong(u64::MAX));
    assert_eq!(column(&read[2], "variant"), &Field::Str(HOSTILE.to_owned()));
    assert_eq!(column(&read[0], "target_iops"), &Field::Null);
    assert_eq!(column(&read[0], "response_mean_ms"), &Field::Double(1.0));
    assert_eq!(rows(parquet_runs(&[]).unwrap()).len(), 0);
    let alone = rows(parquet_runs(&[&report.points[0].runs[0]]).unwrap());
    assert_eq!(column(&alone[0], "label"), &Field::Str("lrw".to_owned()));
}

#[test]
fn parquet_series_fills_gaps_with_nulls() {
    let read = rows(parquet_series(&[&run("lrw", 1, 2.0), &run("stow", 1, 2.0)]).unwrap());
    assert_eq!(read.len(), 2 * 6);
    assert_eq!(column(&read[2], "time_s"), &Field::Double(3.0));
    assert_eq!(column(&read[2], "occupancy_share"), &Field::Double(0.9));
    assert_eq!(column(&read[2], "response_mean_ms"), &Field::Null);
    assert_eq!(column(&read[11], "label"), &Field::Str("stow".to_owned()));
    assert_eq!(rows(parquet_series(&[&RunReport::default()]).unwrap()).len(), 0);
}

#[test]
fn text_tables_fit_and_say_everything() {
    let report = compare("nvs", &["16", "32768"], &["lrw", "stow"]);
    let text = render_compare(&report, Format::Table);
    assert!(text.lines().all(|line| line.chars().count() <= 140), "{text}");
    for wanted in
        ["p99.9", "stalled", "15.3", "distance", "full str.", "814.0", "stow wins", "32768"]
    {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
    assert!(text.contains("had not settled (lrw at 16, 32768; stow at 16, 32768)"), "{text}");
    let text = render_run(&report.points[0].runs[0], Format::Table);
    for wanted in ["0123456789abcdef", "% of writes", "rotation", "high", "had not settled"] {
        assert!(text.contains(wanted), "{wanted} in {text}");
    }
}

#[test]
fn degenerate_reports_render_everywhere() {
    for report in degenerate() {
        for format in [Format::Table, Format::Csv, Format::Json] {
            assert!(render_compare(&report, format).ends_with('\n'));
            for run in report.points.iter().flat_map(|point| &point.runs) {
                assert!(render_run(run, format).ends_with('\n'));
            }
        }
        parquet_compare(&report).unwrap();
        assert!(html(&report).ends_with("</html>\n"));
        for (name, plot) in plots(&report) {
            assert!(PLOT_NAMES.contains(&name), "{name}");
            check_svg(&plot);
            assert!(!draw(&plot, PlotFormat::Png).unwrap().is_empty());
        }
    }
}

/// The plot as SVG parses, has only valid numbers, and shows its title, labels and names.
fn check_svg(plot: &PlotSpec) {
    let svg = String::from_utf8(draw(plot, PlotFormat::Svg).unwrap()).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{e}: {svg}"));
    assert!(!svg.contains("NaN") || plot.categories.iter().any(|c| c == "NaN"), "{svg}");
    assert!(!svg.contains("\"inf") && !svg.contains(" inf"), "{svg}");
    let texts: Vec<&str> = document
        .descendants()
        .filter(|n| n.has_tag_name("text"))
        .filter_map(|n| n.text())
        .collect();
    if plot.x_label.len() < 40 && !plot.x_label.is_empty() {
        assert!(texts.contains(&plot.x_label.as_str()), "{texts:?}");
    }
    assert!(texts.contains(&plot.y_label.as_str()), "{texts:?}");
    if let Marks::Lines { series } = &plot.marks {
        for line in series.iter().filter(|s| !s.name.contains('\n') && !s.name.is_empty()) {
            assert!(texts.contains(&line.name.as_str()), "{} in {texts:?}", line.name);
        }
    }
}

#[test]
fn a_png_shows_what_it_should() {
    let plot = PlotSpec::lines("Title", "x (s)", "y (ms)")
        .series("one", vec![(1.0, 1.0), (2.0, f64::NAN), (3.0, 4.0), (4.0, 5.0)])
        .series_with_errors("two", vec![(1.0, 2.0), (4.0, 2.0)], vec![1.0, f64::INFINITY])
        .h_line(3.0, "a level")
        .v_line(2.0, "a moment")
        .x_scale(Scale::Log2);
    check_svg(&plot);
    let image = tiny_skia::Pixmap::decode_png(&draw(&plot, PlotFormat::Png).unwrap()).unwrap();
    assert_eq!(image.width(), 1800);
    let count = |red, green, blue| {
        let same = |p: &&tiny_skia::PremultipliedColorU8| {
            (p.red(), p.green(), p.blue()) == (red, green, blue)
        };
        image.pixels().iter().filter(same).count()
    };
    assert!(count(0x00, 0x72, 0xb2) > 500, "the first line is blue");
    assert!(count(0xd5, 0x5e, 0x00) > 500, "the second is vermilion");
    assert!(count(0x22, 0x22, 0x22) > 200, "letters");
    assert!(count(0xff, 0xff, 0xff) > 1_000_000, "ground");
}

#[test]
fn plots_are_those_the_axis_calls_for() {
    let names = |report: &CompareReport| -> Vec<&str> {
        plots(report).into_iter().map(|(name, _)| name).collect()
    };
    let both = ["distribution-reads", "distribution-writes"];
    let rest = [&both[..], &["occupancy", "hits", "distance", "disk-time"]].concat();
    let load = names(&compare("iops", &["100", "200"], &["a"]));
    assert_eq!(load, [&["response"], &rest[..]].concat());
    let sizes = compare("nvs", &["16", "64", "256"], &["a"]);
    assert_eq!(names(&sizes), [&["throughput", "response"], &rest[..]].concat());
    assert_eq!(plots(&sizes)[0].1.x_scale, Scale::Log2);
    let thresholds = compare("thresholds", &["90/80", "70/40"], &["a"]);
    assert_eq!(plots(&thresholds)[0].1.categories, ["90/80", "70/40"]);
    let occupancy = &plots(&sizes)[4].1;
    let levels: Vec<f64> = occupancy.h_lines.iter().map(|line| line.value).collect();
    assert_eq!(levels, [90.0, 80.0]);
}

/// A write cache answers writes at once: one curve for all would begin at their share.
#[test]
fn response_times_of_reads_and_of_writes_are_drawn_apart() {
    let mut report = compare("iops", &["100", "200"], &["lrw", "stow"]);
    let drawn = |report: &CompareReport, name: &str| {
        let plot = plots(report).into_iter().find(|(own, _)| *own == name)?.1;
        check_svg(&plot);
        let Marks::Lines { series } = plot.marks else { panic!("{name} has no lines") };
        let one: Vec<f64> = series[1].points.iter().map(|at| at.1).collect();
        Some((series.len(), series[1].name.clone(), one))
    };
    let shares = |list: &[f64]| Some((2, "stow".to_owned(), list.to_vec()));
    // Two seeds, whose bounds differ.
    let reads = drawn(&report, "distribution-reads");
    assert_eq!(reads, shares(&[0.0, 37.5, 75.0, 87.5, 100.0]));
    assert_eq!(drawn(&report, "distribution-writes"), shares(&[100.0; 5]));
    let ids = |report: &CompareReport| {
        let page = html(report).replace(plotly_js(), "");
        let data = page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        let point = data["points"][3].clone();
        let has = |id: &str| page.contains(&format!("<div class=\"chart\" id=\"{id}\""));
        (has("distribution-reads"), has("distribution-writes"), point)
    };
    let (has_reads, has_writes, point) = ids(&report);
    assert!(has_reads && has_writes);
    assert_eq!(point["reads"], serde_json::json!([0.0, 37.5, 75.0, 87.5, 100.0]));
    assert_eq!(point["writes"], serde_json::json!([100.0, 100.0, 100.0, 100.0, 100.0]));
    assert_eq!(point["below"].as_array().map(Vec::len), Some(5));
    // A load of writes has no curve of reads.
    for run in report.points.iter_mut().flat_map(|point| &mut point.runs) {
        run.histogram.truncate(1);
    }
    assert_eq!(drawn(&report, "distribution-reads"), None);
    assert_eq!(drawn(&report, "distribution-writes"), shares(&[100.0]));
    let (has_reads, has_writes, point) = ids(&report);
    assert!(!has_reads && has_writes);
    assert_eq!(point["reads"], serde_json::json!([]));
    assert_eq!(point["below"], serde_json::json!([0.1]));
}

#[test]
fn formats_follow_the_extension() {
    assert_eq!(PlotFormat::of_path(Path::new("a/b.SVG")), Ok(PlotFormat::Svg));
    assert_eq!(PlotFormat::of_path(Path::new("b.png")), Ok(PlotFormat::Png));
    let error = PlotFormat::of_path(Path::new("plot")).unwrap_err().to_string();
    assert_eq!(error, "plot: unknown plot format: use .svg or .png");
}

#[test]
fn html_is_complete_offline_and_cannot_be_injected_into() {
    let mut report = compare("iops", &["16", HOSTILE], &["lrw", HOSTILE]);
    report.title = HOSTILE.to_owned();
    report.command = HOSTILE.to_owned();
    report.findings = vec![HOSTILE.to_owned()];
    report.options.insert(HOSTILE.to_owned(), HOSTILE.to_owned());
    report.points[0].runs[0].warnings = vec![HOSTILE.to_owned()];
    report.points[0].runs[0].digest = HOSTILE.to_owned();
    let page = html(&report);
    assert!(plotly_js().contains("plotly.js v") && !plotly_js().contains("</script"));
    assert_eq!(page.matches(plotly_js()).count(), 1);
    let ours = page.replace(plotly_js(), "");
    for load in ["src=", "@import", "url(", "fetch(", "XMLHttpRequest", "<link", "<iframe"] {
        assert!(!ours.contains(load), "{load}");
    }
    let urls: Vec<&str> = ours.match_indices("http").map(|(i, _)| &ours[i..i + 26]).collect();
    assert!(
        urls.iter()
            .all(|u| u.starts_with("http://www.w3.org/2000/svg") || u.starts_with("http-equiv"))
    );
    assert_eq!(ours.matches("<script").count(), 3, "data, plotly.js, page");
    assert_eq!(ours.matches("</script>").count(), 3);
    assert!(!ours.contains("alert(1)</script>") && !ours.contains("<!--"));
    let data = ours.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["variants"][1], HOSTILE);
    assert_eq!(data["points"].as_array().unwrap().len(), 4);
}

#[test]
fn pages_about_traces_are_safe_and_complete() {
    let places = vec![Place { reads: 1, writes: 2, pages: 3 }; 3];
    let heat = DeviceHeat { device: 4, accesses: 9, part_pages: 8, parts: places };
    let trace = TraceAnalysis {
        file: HOSTILE.to_owned(),
        format: HOSTILE.to_owned(),
        page_bytes: 4096,
        devices: 3,
        warnings: vec![HOSTILE.to_owned()],
        duration_s: Some(1.5),
        time: Some(OverTime { interval_s: 0.01, ..OverTime::default() }),
        heat: Heat { devices: vec![heat], ..Heat::default() },
        ..TraceAnalysis::default()
    };
    let analyses = TraceAnalyses { schema: 1, traces: vec![trace, TraceAnalysis::default()] };
    for found in [&analyses, &TraceAnalyses::default()] {
        let page = trace_html(found);
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(!page.contains("<script>alert"));
        let data = page.split("id=\"data\">").nth(1).expect("data");
        let data = data.split("</script>").next().expect("its end");
        let back: TraceAnalyses = serde_json::from_str(data).expect("JSON");
        assert_eq!(&back, found);
        assert_eq!(back, serde_json::from_str(&render_trace(found, Format::Json)).expect("JSON"));
    }
    let text = render_trace(&analyses, Format::Table);
    assert!(text.contains("Heat over the addresses of device 4"), "{text}");
    assert!(render_trace(&analyses, Format::Csv).starts_with("file,figure,reads,writes,all,unit"));
}
