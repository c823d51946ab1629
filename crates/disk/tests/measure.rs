//! `disks measure` on modelled drives: what it finds without seeing the spec.

use destage_disk::measure::{Command, Kind, Measured, ModelProbe, Probe, measure};
use destage_disk::{Disk, DiskSpec, find, seek_curve};

struct Found {
    spec: DiskSpec,
    commands: u64,
    seconds: f64,
}

fn extract(name: &str) -> Found {
    let spec = find(name).unwrap();
    let sectors = Disk::new(&spec).sectors();
    let mut probe = ModelProbe::new(&spec, 0..sectors);
    let mut measured = Measured::default();
    let mut commands = 0;
    measure(&mut probe, &mut measured, &mut |_| Ok(()), &mut |done| commands = done)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let now = probe.serve(0, Command { lbn: 0, sectors: 1, kind: Kind::Read }).unwrap();
    let found = measured.spec("found", sectors, spec.sector_bytes);
    let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
    Found { spec: found, commands, seconds: now.done_ns as f64 / 1e9 }
}

fn place(disk: &Disk, lbn: u64) -> u32 {
    disk.cylinder_of(lbn)
}

/// Greatest difference of the seek times of two drives between the same addresses, and where.
fn seek_error(truth: &DiskSpec, found: &DiskSpec) -> (f64, u32) {
    let (disk, other) = (Disk::new(truth), Disk::new(found));
    let (curve, others) = (seek_curve(truth), seek_curve(found));
    let time = |curve: &[(u32, f64)], distance: u32| match distance {
        0 => 0.0,
        d => curve[(d as usize - 1).min(curve.len() - 1)].1,
    };
    let sectors = disk.sectors();
    let mut worst = (0.0, 0);
    let steps = sectors.min(20_000);
    let from = sectors / 5000;
    for step in 0..steps {
        let lbn = (u128::from(sectors - 1) * u128::from(step) / u128::from(steps)) as u64;
        let d = place(&disk, lbn).abs_diff(place(&disk, from));
        let e = place(&other, lbn).abs_diff(place(&other, from));
        let off = (time(&curve, d) - time(&others, e)).abs();
        if off > worst.0 {
            worst = (off, d);
        }
    }
    worst
}

fn random_mean(spec: &DiskSpec, seed: u64) -> f64 {
    let sectors = Disk::new(spec).sectors();
    let mut probe = ModelProbe::new(spec, 0..0);
    let mut state = seed;
    let mut sum = 0.0;
    for _ in 0..4000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let lbn = (u128::from(state) * u128::from(sectors / 8) >> 64) as u64 * 8;
        sum += probe.serve(0, Command { lbn, sectors: 8, kind: Kind::Read }).unwrap().service_ns();
    }
    sum / 4000e6
}

#[test]
fn all() {
    for name in [
        "atlas10k", "atlas-iii", "barracuda", "cheetah4lp", "cheetah9lp", "dec-rz26", "hp-c2247a",
        "hp-c2490a", "hp-c3323a", "ibm18es", "st2000dm006", "ultrastar-hc320", "exos-x20",
    ] {
        let truth = find(name).unwrap();
        let found = extract(name);
        let spec = &found.spec;
        let (off, at) = seek_error(&truth, spec);
        let (a, b) = (random_mean(&truth, 7), random_mean(spec, 7));
        let destage_disk::Zones::List(z) = &spec.zones else { panic!() };
        println!(
            "{name}: rpm {:.2} ({:.2}) heads {} ({}) switch {:.3} ({:.3}) zones {} read {:.3} \
             ({:.3}+{:.3}) bus {:?}\n   skew {:?} {:?} cyl {} front {}\n   seek off {off:.3} at {at}; \
             random {a:.3} {b:.3} {:+.2}%; {} cmds {:.0} s",
            spec.rpm, truth.rpm, spec.heads, truth.heads, spec.head_switch_ms,
            truth.head_switch_ms, z.len(), spec.overhead.read_ms, truth.overhead.read_ms,
            truth.overhead.per_command_ms, spec.bus.map(|b| (b.read_sector_ms, b.read_start)),
            z[0].track_skew, z[0].cylinder_skew, z.iter().map(|z| z.cylinders).sum::<u32>(),
            z[0].unused_front,
            (b / a - 1.0) * 100.0, found.commands, found.seconds,
        );
    }
}

#[test]
fn debug() {
    for name in std::env::var("DRIVES").unwrap_or_default().split(',').filter(|n| !n.is_empty()) {
        let truth = find(name).unwrap();
        let sectors = Disk::new(&truth).sectors();
        let mut probe = ModelProbe::new(&truth, 0..sectors);
        let mut measured = Measured::default();
        let mut last = String::new();
        let result = measure(&mut probe, &mut measured, &mut |m| {
            last = format!("{m:?}");
            Ok(())
        }, &mut |_| ());
        println!("{name} {result:?}\n{last}");
        println!("{:?}", destage_disk::zones(&truth));
    }
}
