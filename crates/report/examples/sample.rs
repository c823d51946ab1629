//! Draws made-up reports in every format into a directory, only to look at how they come out.
//! None of the numbers mean anything.

use destage_report::model::{
    AtResponse, Axis, Destage, DiskUse, Estimate, Hits, Latency, Occupancy, Point, Responses,
    Series,
};
use destage_report::{
    CompareReport, Format, PlotFormat, PlotSpec, RunReport, draw, html, plots, render_compare,
    render_run, write_file,
};
use std::path::Path;

const VARIANTS: [&str; 4] = ["lrw", "cscan", "wow", "stow"];

/// The load at which each variant's response time takes off.
const KNEE: [f64; 4] = [820.0, 640.0, 700.0, 1250.0];

fn latency(count: u64, mean_ms: f64) -> Latency {
    Latency {
        count,
        mean_ms,
        p50_ms: mean_ms * 0.6,
        p99_ms: mean_ms * 7.3,
        p999_ms: mean_ms * 13.1,
        max_ms: mean_ms * 30.0,
    }
}

fn series(variant: usize, load: f64) -> Series {
    let busy = (load / KNEE[variant]).min(1.2);
    let occupancy = |i: usize| -> f64 {
        let t = i as f64;
        let grown = (t / 60.0).min(1.0);
        let wave = match variant {
            0 => 0.99 * busy.min(1.0),
            3 => 0.86 + 0.02 * (t / 9.0).sin(),
            v => 0.9 + 0.1 * (t / (31.0 + 9.0 * v as f64)).sin(),
        };
        (grown * wave).min(1.0)
    };
    let occupancy: Vec<f64> = (0..600).map(occupancy).collect();
    Series {
        interval_s: 1.0,
        occupancy_max: occupancy.iter().map(|o| (o + 0.01).min(1.0)).collect(),
        iops: vec![load; 600],
        response_ms: vec![3.0; 600],
        destaged_pages_per_s: vec![load * 0.4; 600],
        occupancy,
    }
}

fn run(variant: usize, load: f64, scale: f64, seed: u64) -> RunReport {
    let over = (load / KNEE[variant]).powi(6);
    let mean = 2.2 + 1.3 * load / KNEE[variant] + 12.0 * over + 0.1 * seed as f64;
    let v = variant as f64;
    let used = (load / KNEE[variant] * 0.8).min(1.0);
    let disk = |i: u64| DiskUse {
        reads: 90_000 + i,
        writes: 40_000 + i,
        utilisation: used,
        seek: used * (0.42 - 0.05 * v),
        rotation: used * 0.3,
        transfer: used * (0.2 + 0.05 * v),
        overhead: used * 0.08,
    };
    RunReport {
        schema: 1,
        label: VARIANTS[variant].to_owned(),
        options: [
            ("high", "90"),
            ("low", "80"),
            ("policy", VARIANTS[variant]),
            ("disk", "stow-ref"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        seed,
        warmup_s: 300.0,
        measured_s: 300.0,
        target_iops: Some(load),
        iops: load.min(KNEE[variant] * 1.05),
        response: Responses {
            all: latency(300_000, mean),
            reads: latency(120_000, mean * 1.7),
            writes: latency(180_000, mean * 0.5),
        },
        hits: Hits {
            write_page: (0.62 - 0.03 * v) * scale,
            write_group: (0.71 - 0.01 * v) * scale,
            write_request: 0.55 * scale,
            read_request: 0.12,
        },
        stalled_writes: (over * 2000.0) as u64,
        time_full: (over * 0.1).min(0.97),
        occupancy: Occupancy { mean: 0.86, min: 0.79, max: 1.0 },
        destage: Destage {
            groups: 81_234,
            pages: 402_223,
            runs: 120_001,
            pages_per_destage: 4.95 + v,
            runs_per_destage: 1.48,
            full_stripe_share: 0.11,
            mean_distance_pages: if variant == 0 { 2_345_678.0 } else { 310.0 + 120.0 * v },
        },
        service: None,
        read_cache: None,
        fault: None,
        disks: (0..5).map(disk).collect(),
        series: series(variant, load),
        warnings: if over > 2.0 { vec!["had not settled".to_owned()] } else { Vec::new() },
        digest: "00c0ffee00c0ffee".to_owned(),
        events: 12_345_678,
    }
}

fn point(variant: usize, value: &str, load: f64, scale: f64) -> Point {
    let runs: Vec<RunReport> = (1..=3).map(|seed| run(variant, load, scale, seed)).collect();
    let estimate = |mean: f64, half_width: f64| Estimate { mean, half_width, seeds: 3 };
    Point {
        variant: VARIANTS[variant].to_owned(),
        value: value.to_owned(),
        iops: estimate(runs[0].iops, 4.0),
        response_ms: estimate(runs[1].response.all.mean_ms, 0.03 * runs[1].response.all.mean_ms),
        runs,
    }
}

fn report(title: &str, axis: Option<Axis>, loads: &[f64]) -> CompareReport {
    let values = axis.as_ref().map_or(vec![String::new()], |axis| axis.values.clone());
    let mut points = Vec::new();
    for variant in 0..4 {
        for (i, value) in values.iter().enumerate() {
            let scale = 0.5 + 0.5 * i as f64 / values.len() as f64;
            points.push(point(variant, value, loads[i % loads.len()], scale));
        }
    }
    CompareReport {
        schema: 1,
        title: title.to_owned(),
        command: "destage compare --policies lrw,cscan,wow,stow --workload spc1 --disk stow-ref \
                  --level 5 --nvs 32768 --sweep iops=200..1500:100"
            .to_owned(),
        options: [
            ("disk", "stow-ref"),
            ("high", "90"),
            ("level", "5"),
            ("low", "80"),
            ("nvs", "32768 pages"),
            ("workload", "spc1 style=classic open per-bsu=8"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        axis,
        points,
        at_response: Vec::new(),
        findings: vec![
            "MADE-UP DATA: stow sustains 1.52 times the throughput of lrw at 20 ms, and stays \
             within 6 % of its occupancy while cscan and wow swing between empty and full."
                .to_owned(),
            "lrw stalls 4,100 writes a second at 1,300 I/O/s; its destages lie three orders of \
             magnitude further apart than those of the others."
                .to_owned(),
        ],
    }
}

fn load_sweep() -> CompareReport {
    let loads: Vec<f64> = (2..=15).map(|i| f64::from(i) * 100.0).collect();
    let axis = Axis {
        name: "iops".to_owned(),
        unit: "I/O/s".to_owned(),
        values: loads.iter().map(f64::to_string).collect(),
    };
    let mut report = report("Four policies, SPC-1-like load, RAID-5 4+1", Some(axis), &loads);
    for (variant, name) in VARIANTS.iter().enumerate() {
        for response_ms in [10.0, 20.0] {
            let iops = (variant != 1).then_some(KNEE[variant] * response_ms / 21.0);
            report.at_response.push(AtResponse { variant: (*name).to_owned(), response_ms, iops });
        }
    }
    report
}

fn axis(name: &str, unit: &str, values: &[&str]) -> Option<Axis> {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    Some(Axis { name: name.to_owned(), unit: unit.to_owned(), values })
}

fn seek_curve() -> PlotSpec {
    let curve = |d: i32| {
        let d = f64::from(d) * 20.0;
        (d, if d < 383.0 { 3.24 + 0.4 * d.sqrt() } else { 8.0 + 0.008 * d })
    };
    let zones = |i: i32| (f64::from(i) * 120.0, 40.0 - f64::from(i));
    PlotSpec::lines("hp97560: seek curve (sample)", "Distance (cylinders)", "Seek time (ms)")
        .series("seek", (1..98).map(curve).collect())
        .series("zones", (0..16).map(zones).collect())
        .step()
        .h_line(14.99, "one revolution")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "/tmp/destage-sample".to_owned());
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let sizes = ["1024", "2048", "4096", "8192", "16384", "32768", "65536"];
    let reports = [
        ("load", load_sweep()),
        ("plain", report("Four policies, one load", None, &[900.0])),
        (
            "nvs",
            report("NVS sizes", axis("nvs", "pages", &sizes), &[400.0, 500.0, 600.0, 700.0, 750.0]),
        ),
        (
            "thresholds",
            report(
                "Thresholds",
                axis("thresholds", "high/low, %", &["90/80", "80/60", "70/40", "50/20"]),
                &[700.0],
            ),
        ),
        ("empty", CompareReport::default()),
    ];
    for (name, report) in &reports {
        write_file(&folder.join(format!("{name}.html")), html(report).as_bytes())?;
        write_file(
            &folder.join(format!("{name}.csv")),
            render_compare(report, Format::Csv).as_bytes(),
        )?;
        let text = render_compare(report, Format::Table);
        write_file(&folder.join(format!("{name}.txt")), text.as_bytes())?;
        for (plot, spec) in plots(report) {
            for (format, extension) in [(PlotFormat::Svg, "svg"), (PlotFormat::Png, "png")] {
                let file = folder.join(format!("{name}-{plot}.{extension}"));
                write_file(&file, &draw(&spec, format)?)?;
            }
        }
    }
    write_file(&folder.join("seek.png"), &draw(&seek_curve(), PlotFormat::Png)?)?;
    print!("{}", render_compare(&reports[0].1, Format::Table));
    print!("{}", render_run(&reports[0].1.points[0].runs[0], Format::Table));
    Ok(())
}
