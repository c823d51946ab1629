//! Specs fitted to the figures of drives whose spec is known: how near the fit comes.

use destage_disk::fit::{Fit, FitError, Known};
use destage_disk::{DiskSpec, Figures, find, random_read_iops};

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
