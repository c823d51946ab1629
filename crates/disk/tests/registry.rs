//! Every built-in drive, and specs that are not drives.

mod common;

use common::{Random, small};
use destage_disk::{
    Disk, DiskOp, DiskSpec, Figures, Seek, SeekFormula, SeekTable, SpecError, find, registry,
    seek_curve, zones,
};
use destage_engine::units::Instant;

#[test]
fn every_entry_holds_what_it_says_and_serves_within_bounds() {
    assert!(registry().len() >= 15);
    for entry in registry() {
        let spec = find(entry.name).unwrap();
        assert_eq!((spec.name.as_str(), spec.summary.as_str()), (entry.name, entry.summary));
        assert!(!spec.source.is_empty() && !spec.summary.is_empty());
        let mut disk = Disk::new(&spec);
        let held: u64 = zones(&spec).iter().map(|z| z.sectors).sum();
        assert_eq!(disk.sectors(), spec.sectors.unwrap_or(held));
        assert_eq!(DiskSpec::from_toml(&spec.to_toml()).as_ref(), Ok(&spec));
        battery(&spec, &mut disk);
    }
}

/// Only lists are broken into lines, not texts that look like one.
#[test]
fn a_text_with_brackets_stays_in_its_line() {
    let mut spec = small("", "");
    spec.source = "x = [[1, 2], ".repeat(20);
    assert_eq!(DiskSpec::from_toml(&spec.to_toml()), Ok(spec));
}

fn battery(spec: &DiskSpec, disk: &mut Disk) {
    let curve = seek_curve(spec);
    let longest_seek = curve.iter().map(|p| p.1).fold(spec.head_switch_ms, f64::max);
    let revolution = 60e3 / spec.rpm;
    let costs = &spec.overhead;
    let overhead = costs.idle_ms + costs.per_command_ms + costs.read_ms.max(costs.write_ms);
    let bus =
        spec.bus_mb_per_s.map_or(0.0, |rate| 64.0 * f64::from(spec.sector_bytes) / rate / 1e3);
    // Background writes of a write-back cache come before a command.
    let cached = spec.write_back.map_or(0.0, |_| 400.0);
    let most = overhead + longest_seek + spec.write_settle_ms.max(0.0) + 6.0 * revolution + bus;
    let mut random = Random(5);
    let mut now = Instant::ZERO;
    for tag in 0..1000 {
        let sectors = 1 + random.below(64) as u32;
        let lbn = random.below(disk.sectors() - u64::from(sectors) + 1);
        disk.submit(now, DiskOp { lbn, sectors, write: random.below(2) == 0, tag });
        if random.below(3) == 0 {
            continue;
        }
        let begin = now;
        now = disk.start(now).unwrap();
        let done = disk.finish(now);
        assert_eq!(done.service.total(), now.since(begin), "{}", spec.name);
        let took = done.service.total().as_millis_f64();
        assert!(took <= most + cached, "{}: {took} ms for {:?}", spec.name, done.op);
        let track = zones(spec)[0].sectors_per_track;
        let least = revolution * f64::from(done.op.sectors) / f64::from(track);
        let media = done.service.transfer.as_millis_f64();
        // A read may find its front in the buffer.
        let whole = !done.cache_hit && (done.op.write || spec.read_ahead.is_none());
        assert!(!whole || media + 1e-5 >= least, "{}: {media} ms", spec.name);
    }
}

#[test]
fn the_reference_devices_have_their_figures() {
    let stow = Figures::measure(&find("stow-ref").unwrap());
    assert_eq!((stow.sectors, stow.revolution.0), (143_374_744, 6_000_000));
    assert_eq!(stow.single_track_seek.0, 300_000);
    assert!((9_490_000..=9_500_000).contains(&stow.max_seek.0));
    assert_eq!(stow.zones.len(), 16);
    assert!(stow.zones.windows(2).all(|z| z[0].mb_per_s > z[1].mb_per_s));
    assert!(stow.random_read_iops_16 > 1.5 * stow.random_read_iops_1);
    let hp = Figures::measure(&find("hp97560").unwrap());
    assert_eq!((hp.sectors, hp.revolution.0), (1962 * 19 * 72, 14_992_504));
    let hp = Figures::measure(&find("hp-c2200a").unwrap());
    assert_eq!((hp.sectors, hp.capacity_bytes), (1449 * 8 * 113, 1449 * 8 * 113 * 256));
    assert_eq!(Disk::new(&find("wow-ref").unwrap()).sectors(), 71_132_000);
    assert_eq!(stow, Figures::measure(&find("stow-ref").unwrap()));
}

#[test]
fn an_unknown_name_lists_the_nearest_first() {
    let error = find("stow-rev").unwrap_err().to_string();
    assert!(error.starts_with("unknown disk `stow-rev`; known: stow-ref, wow-ref"), "{error}");
    assert!(!error.contains('\n'));
    let error = find("/nowhere/at.toml").unwrap_err().to_string();
    assert!(error.starts_with("cannot read /nowhere/at.toml: "), "{error}");
}

#[test]
fn a_path_to_a_spec_is_a_disk() {
    let path = std::env::temp_dir().join(format!("destage-disk-{}.toml", std::process::id()));
    let name = path.to_str().unwrap();
    std::fs::write(&path, small("", "").to_toml()).unwrap();
    assert_eq!(find(name).unwrap().name, "small");
    std::fs::write(&path, "name = 'x'\nspeed = 3").unwrap();
    let error = find(name).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(error.starts_with(&format!("{name}: line 2: unknown field `speed`")), "{error}");
}

#[test]
fn what_is_no_disk_is_refused_in_one_line_that_names_the_key() {
    let good = small("", "").to_toml();
    for (from, to, named) in [
        ("heads = 3", "heads = 0", "`heads`"),
        ("heads = 3", "heads = 3\nhaeds = 4", "`haeds`"),
        ("heads = 3", "", "`heads`"),
        ("third_ms = 2.0", "third_ms = 2.0\nhalf_ms = 3.0", "`half_ms`"),
        ("third_ms = 2.0", "third_ms = -2.0", "`seek.fit`"),
        ("third_ms = 2.0", "third_ms = nan", "`seek.fit`"),
        ("third_ms = 2.0", "third_ms = 90.0", "a curve that rises"),
        ("idle_ms = 0.0", "idle_ms = 0.0\nidel_ms = 1.0", "`idel_ms`"),
        ("idle_ms = 0.0", "idle_ms = 1e9", "`overhead.idle_ms`"),
        ("issue = \"group\"", "issue = \"all\"", "`all`"),
        ("rpm = 6000.0", "rpm = 0.0", "`rpm`"),
        ("window = 4", "window = 0", "`window`"),
        ("window = 4", "window = -1", "`window`"),
        ("window = 4", "sectors = 100000\nwindow = 4", "`sectors`"),
        ("cylinders = 9", "cylinders = 0", "`cylinders`"),
        ("cylinders = 9", "cylinders = 9\nspare_sectors = 9999", "`spare_sectors`"),
        ("cylinders = 9", "cylinders = 9\nslips = [[1, 1]]", "`slips`"),
        ("cylinders = 10", "cylinders = 10\nfirst_cylinder = 4", "`first_cylinder`"),
        ("sectors_per_track = 24", "sectors_per_track = 0", "`sectors_per_track`"),
        ("scheduler = \"fcfs\"", "scheduler = \"lifo\"", "`lifo`"),
        ("sector_bytes = 512", "sector_bytes = 500", "`sector_bytes`"),
        ("[seek.fit]", "[seek.magic]", "`magic`"),
    ] {
        assert!(good.contains(from), "{from}");
        let error = DiskSpec::from_toml(&good.replacen(from, to, 1)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(named) && !text.contains('\n'), "{to}: {text}");
        assert!(matches!(error, SpecError::Parse { .. } | SpecError::Value { .. }));
    }
}

#[test]
fn a_seek_curve_rises_but_for_noise() {
    let with = |seek: Seek| DiskSpec { seek, ..small("", "") }.validate();
    let table = |points: &[(u32, f64)]| with(Seek::Table(SeekTable { points: points.to_vec() }));
    let error = table(&[(1, 9.0), (1000, 5.0), (6000, 2.0)]).unwrap_err().to_string();
    assert_eq!(
        error,
        "`seek.table.points` must be a curve that rises, but for noise: it falls from 9 ms at \
         distance 1 to 2 ms at 6000. Give the time in ms that each distance in cylinders takes"
    );
    // A fall of few points, and one of few cylinders.
    let rising: Vec<_> = (0..100).map(|i| (1 + 10 * i, 1.0 + f64::from(i) / 20.0)).collect();
    assert!(table(&[&rising[..], &[(5000, 3.0), (6000, 3.5)]].concat()).is_err());
    assert!(table(&[(1, 9.0), (10, 3.0), (6000, 10.0)]).is_err());
    // Noise: one point far too low, and a drive that hardly seeks.
    assert_eq!(table(&rising), Ok(()));
    let mut noisy = rising.clone();
    noisy[50].1 = 0.5;
    assert_eq!(table(&noisy), Ok(()));
    // A few wrong points next to each other; with most of the stroke they are no few.
    noisy[50..55].iter_mut().for_each(|point| point.1 = 0.2);
    assert_eq!(table(&noisy), Ok(()));
    assert!(table(&[&rising[..20], &[(5000, 0.3)]].concat()).is_err());
    let flat: Vec<_> = (1..50).map(|i| (i, if i % 2 == 0 { 0.05 } else { 0.12 })).collect();
    assert_eq!(table(&flat), Ok(()));
    let formula = |first_ms: &[f64], long_cylinder_ms: f64| {
        with(Seek::Formula(SeekFormula {
            first_ms: first_ms.to_vec(),
            short_until: 10,
            short_ms: 3.0,
            short_sqrt_ms: 0.3,
            long_ms: 4.0,
            long_cylinder_ms,
        }))
    };
    assert_eq!(formula(&[], 0.01), Ok(()));
    assert_eq!(formula(&[3.5], 0.01), Ok(()));
    for falling in [formula(&[], -0.1), formula(&[9.0], 0.01)] {
        let error = falling.unwrap_err().to_string();
        assert!(error.starts_with("`seek.formula` must be a curve that rises"), "{error}");
    }
}
