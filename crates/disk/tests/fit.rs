//! Specs fitted to the figures of drives whose spec is known: how near the fit comes.

use destage_disk::fit::{Fit, FitError, Known};
use destage_disk::{DiskSpec, Figures, Seek, Zones, find, random_read_iops};

/// Specs with a curve through three points: two references and two modern drives.
const DRIVES: [&str; 4] = ["stow-ref", "wow-ref", "st2000dm006", "ultrastar-hc320"];

/// What a data sheet of a drive would say.
fn sheet(name: &str) -> Known {
    let spec = find(name).unwrap();
    let figures = Figures::measure(&spec);
    let seek_ms = figures.avg_seek.as_millis_f64();
    Known {
        name: name.to_string(),
        capacity_bytes: figures.capacity_bytes,
        rpm: spec.rpm,
        sector_bytes: spec.sector_bytes,
        seek_ms: Some(seek_ms),
        write_seek_ms: Some(seek_ms + spec.write_settle_ms),
        track_seek_ms: Some(figures.single_track_seek.as_millis_f64()),
        full_seek_ms: Some(figures.max_seek.as_millis_f64()),
        outer_mb_per_s: figures.zones.first().map(|zone| zone.mb_per_s),
        inner_mb_per_s: figures.zones.last().map(|zone| zone.mb_per_s),
        ..Known::default()
    }
}

fn iops(spec: &DiskSpec, depth: usize) -> f64 {
    random_read_iops(spec, depth, 5000)
}

fn fitted(name: &str, known: &Known) -> Fit {
    known.fit().unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// By which share the fit is off.
fn off(name: &str, fit: &Fit, depth: usize) -> f64 {
    let own = iops(&find(name).unwrap(), depth);
    let off = iops(&fit.spec, depth) / own - 1.0;
    let (least, _, most) = fit.reads[usize::from(depth > 1)];
    println!("{name}, depth {depth}: {own:.1}, fit {:+.1} %, {least:.0} to {most:.0}", 100.0 * off);
    off.abs()
}

#[test]
fn a_data_sheet_gives_the_random_reads_of_the_drive() {
    for name in DRIVES {
        let known = sheet(name);
        assert!(off(name, &fitted(name, &known), 1) < 0.05, "{name}");
        let few = Known { track_seek_ms: None, full_seek_ms: None, inner_mb_per_s: None, ..known };
        let fit = fitted(name, &few);
        assert!(off(name, &fit, 1) < 0.05, "{name}: mean seek and outer rate alone");
        let (least, _, most) = fit.reads[1];
        let own = iops(&find(name).unwrap(), 32);
        assert!((0.95 * least..1.05 * most).contains(&own), "{name}: {least} {own} {most}");
    }
}

#[test]
fn a_range_has_what_the_spec_has_and_each_end_of_what_is_assumed() {
    for measured in [60.0, 82.0, 110.0] {
        let known = Known {
            name: "measured".into(),
            capacity_bytes: 8_000_000_000_000,
            rpm: 7200.0,
            sector_bytes: 512,
            outer_mb_per_s: Some(255.0),
            reads: vec![(1, measured)],
            ..Known::default()
        };
        let fit = fitted("measured", &known);
        for (at, (least, spec, most)) in fit.reads.into_iter().enumerate() {
            let ends = fit.rows.iter().filter_map(|row| row.reads.map(|reads| reads[at]));
            for value in ends.flat_map(|(low, high)| [low, high]).chain([spec]) {
                assert!((least..=most).contains(&value), "{measured}: {least} {value} {most}");
            }
        }
    }
}

#[test]
fn measured_reads_give_them_without_a_data_sheet() {
    for name in DRIVES {
        let spec = find(name).unwrap();
        let reads = [1, 8, 32].map(|depth| (depth, iops(&spec, depth)));
        let without = Known {
            seek_ms: None,
            write_seek_ms: None,
            track_seek_ms: None,
            full_seek_ms: None,
            reads: reads.to_vec(),
            ..sheet(name)
        };
        let fit = fitted(name, &without);
        assert!(off(name, &fit, 1) < 0.02, "{name}");
        assert!(off(name, &fit, 32) < 0.10, "{name}");
        let with = Known { reads: reads.to_vec(), ..sheet(name) };
        assert!(off(name, &fitted(name, &with), 1) < 0.02, "{name}");
    }
}

#[test]
fn rates_of_a_fit_are_those_given() {
    for name in DRIVES {
        let known = sheet(name);
        let figures = Figures::measure(&known.fit().unwrap().spec);
        for (given, zone) in [
            (known.outer_mb_per_s, figures.zones.first()),
            (known.inner_mb_per_s, figures.zones.last()),
        ] {
            let off = zone.unwrap().mb_per_s / given.unwrap() - 1.0;
            assert!(off.abs() < 0.03, "{name}: {off}");
        }
        assert_eq!(figures.sectors * u64::from(known.sector_bytes), known.capacity_bytes);
    }
}

#[test]
fn what_makes_no_disk_is_refused() {
    let refused = |change: &dyn Fn(&mut Known)| {
        let mut known = sheet("exos-x20");
        change(&mut known);
        known.fit().expect_err("refused")
    };
    assert!(matches!(refused(&|k| k.outer_mb_per_s = None), FitError::Missing(..)));
    assert!(matches!(refused(&|k| k.seek_ms = None), FitError::Missing(..)));
    for falls in [
        refused(&|k| k.track_seek_ms = Some(9.0)),
        refused(&|k| k.full_seek_ms = Some(7.0)),
        refused(&|k| k.inner_mb_per_s = Some(500.0)),
        refused(&|k| k.reads = vec![(1, 400.0)]),
    ] {
        assert!(matches!(falls, FitError::Contradiction(_)), "{falls}");
        assert!(!falls.to_string().contains('\n'));
    }
    assert!(matches!(refused(&|k| k.rpm = 5.0), FitError::Spec(_)));
    let slow = |k: &mut Known| (k.seek_ms, k.full_seek_ms) = (Some(80.0), None);
    let slow_writes = |k: &mut Known| k.write_seek_ms = Some(80.0);
    let slow_reads = |k: &mut Known| {
        (k.seek_ms, k.full_seek_ms, k.track_seek_ms, k.reads) = (None, None, None, vec![(1, 10.0)]);
    };
    for error in [refused(&slow), refused(&slow_writes), refused(&slow_reads)] {
        assert!(error.to_string().contains("ms is above 50 ms"), "{error}");
    }
    assert!(refused(&|k| k.heads = Some(0)).to_string().contains("at least one head"));
    let odd = refused(&|k| (k.seek_ms, k.full_seek_ms) = (Some(1.0), Some(15.0)));
    assert!(odd.to_string().contains("seek"), "{odd}");
}

#[test]
fn what_is_given_is_not_assumed() {
    let fit = sheet("exos-x20").fit().unwrap();
    let from = |key: &str| fit.rows.iter().find(|row| row.key == key).expect(key).from;
    assert_eq!(from("heads"), "assumed");
    assert_eq!(from("seek.fit.one_cylinder_ms"), "given");
    assert_eq!(from("write_settle_ms"), "given");
    assert!(fit.reads.iter().all(|(low, middle, high)| low < middle && middle < high));
    let with = Known { heads: Some(20), ..sheet("exos-x20") }.fit().unwrap();
    assert_eq!(with.spec.heads, 20);
    assert!(with.rows.iter().all(|row| row.key != "heads" || row.reads.is_none()));
    // Without a size of the buffer there is no share of it.
    let has_share =
        |fit: &Fit| fit.rows.iter().any(|row| row.key.starts_with("share of the buffer"));
    assert!(!has_share(&fit) && fit.spec.write_back.is_none());
    let buffered = Known { cache_bytes: Some(256_000_000), ..sheet("exos-x20") }.fit().unwrap();
    assert!(has_share(&buffered) && buffered.spec.write_back.is_some());
}

/// The value of a row in the spec; the mean seek is the one behind the curve.
fn in_spec(known: &Known, fit: &Fit, key: &str, seek_ms: f64) -> f64 {
    let spec = &fit.spec;
    let (Seek::Fit(seek), Zones::Linear(zones)) = (&spec.seek, &spec.zones) else {
        panic!("a fit has a curve through three points and linear zones");
    };
    let (outer, inner) = (f64::from(zones.outer_sectors), f64::from(zones.inner_sectors));
    match key {
        "sectors" => spec.sectors.expect("sectors") as f64,
        "rpm" => spec.rpm,
        "seek.fit.third_ms" => seek.third_ms,
        "seek.fit.full_ms" => seek.full_ms,
        "seek.fit.one_cylinder_ms" => seek.one_cylinder_ms,
        "zones.linear.outer_sectors" => outer,
        "zones.linear.inner_sectors" => inner,
        "full stroke / mean seek" => seek.full_ms / seek_ms,
        "inner / outer rate" => inner / outer,
        "heads" => f64::from(spec.heads),
        "head_switch_ms" => spec.head_switch_ms,
        "write_settle_ms" => spec.write_settle_ms,
        "overhead.per_command_ms" => spec.overhead.per_command_ms,
        "window" => spec.window as f64,
        "share of the buffer for writes" => {
            let write = spec.write_back.expect("a write cache");
            let bytes = f64::from(write.capacity_sectors) * f64::from(spec.sector_bytes);
            bytes / known.cache_bytes.expect("a buffer") as f64
        }
        other => panic!("a row of {other}"),
    }
}

/// A drive of 15,000 rpm of which 180 random reads per second were measured.
fn fast() -> Known {
    Known {
        name: "fast".into(),
        capacity_bytes: 600_000_000_000,
        rpm: 15_000.0,
        sector_bytes: 512,
        outer_mb_per_s: Some(200.0),
        reads: vec![(1, 180.0)],
        ..Known::default()
    }
}

/// Mean seek that leaves 180 reads per second at the assumed overhead: half a revolution, 4 KiB at
/// the mean rate, and 0.2 ms.
const FAST_SEEK_MS: f64 = 1e3 / 180.0 - 2.0 - 4.096 / 150.0 - 0.2;

#[test]
fn every_row_is_what_the_spec_has() {
    let sheet = Known { seek_ms: Some(3.3), reads: Vec::new(), ..fast() };
    let more = |known: Known| Known {
        write_seek_ms: Some(4.5),
        full_seek_ms: Some(6.5),
        cache_bytes: Some(2_000_000),
        ..known
    };
    let track = |known: Known| Known { track_seek_ms: Some(0.4), heads: Some(3), ..known };
    let both = Known { seek_ms: Some(3.3), ..fast() };
    for known in [
        fast(),
        more(fast()),
        track(more(fast())),
        sheet.clone(),
        more(sheet.clone()),
        track(sheet),
        more(both),
    ] {
        let fit = known.fit().unwrap_or_else(|error| panic!("{known:?}: {error}"));
        let seek_ms = known.seek_ms.unwrap_or(FAST_SEEK_MS);
        for row in &fit.rows {
            let value = in_spec(&known, &fit, row.key, seek_ms);
            assert!((row.value - value).abs() < 1e-9, "{known:?}: {row:?}, the spec has {value}");
            if let Some((low, high)) = row.range {
                let rounded = 0.01 * high;
                assert!((low - rounded..=high + rounded).contains(&value), "{row:?}: {value}");
            }
        }
    }
}

#[test]
fn figures_next_to_measured_reads_are_compared_with_the_seek_that_these_give() {
    let known = Known { write_seek_ms: Some(4.5), full_seek_ms: Some(6.5), ..fast() };
    let fit = known.fit().unwrap();
    let row = |key: &str| fit.rows.iter().find(|row| row.key == key).expect(key);
    let near = |key: &str, value: f64, from: &str| {
        assert!((row(key).value - value).abs() < 0.001, "{key}: {:?}, not {value}", row(key));
        assert_eq!(row(key).from, from, "{key}");
    };
    near("full stroke / mean seek", 6.5 / FAST_SEEK_MS, "derived");
    near("write_settle_ms", 4.5 - FAST_SEEK_MS, "derived");
    near("seek.fit.one_cylinder_ms", 0.1 * FAST_SEEK_MS, "assumed");
    let (low, high) = row("seek.fit.one_cylinder_ms").range.expect("a range");
    assert!((low / FAST_SEEK_MS - 0.06).abs() < 1e-9 && (high / FAST_SEEK_MS - 0.2).abs() < 1e-9);
}

#[test]
fn a_quarter_of_every_buffer_is_a_write_cache() {
    for bytes in [64 << 10, 2_000_000, 256_000_000] {
        let fit = Known { cache_bytes: Some(bytes), ..sheet("exos-x20") }.fit().unwrap();
        let write = fit.spec.write_back.expect("a write cache");
        let sectors = bytes / 4 / u64::from(fit.spec.sector_bytes);
        assert_eq!(u64::from(write.capacity_sectors), sectors, "{bytes}");
    }
    let small = Known { cache_bytes: Some(65_535), ..sheet("exos-x20") }.fit().unwrap_err();
    assert!(small.to_string().contains("below 64 KiB"), "{small}");
}
