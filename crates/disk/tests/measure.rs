//! `disks measure` on modelled drives: what it finds without seeing the spec.

use destage_disk::measure::{Check, Measured, ModelProbe, check, measure};
use destage_disk::{Disk, DiskSpec, find, seek_curve};

/// The drives converted from DiskSim, and three new ones.
const DRIVES: [&str; 13] = [
    "atlas10k",
    "atlas-iii",
    "barracuda",
    "cheetah4lp",
    "cheetah9lp",
    "dec-rz26",
    "hp-c2247a",
    "hp-c2490a",
    "hp-c3323a",
    "ibm18es",
    "st2000dm006",
    "ultrastar-hc320",
    "exos-x20",
];

struct Found {
    spec: DiskSpec,
    checks: Vec<Check>,
    commands: u64,
}

fn extract(name: &str, seed: u64) -> Found {
    let spec = find(name).unwrap();
    let sectors = Disk::new(&spec).sectors();
    let mut probe = ModelProbe::new(&spec, 0..sectors);
    let mut measured = Measured::new(seed);
    let mut commands = 0;
    measure(&mut probe, &mut measured, &mut |_| Ok(()), &mut |done| commands = done)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    if std::env::var("DUMP").is_ok() {
        
    }
    if std::env::var("DUMP").is_ok() { println!("{measured:?}"); }
    let found = measured.spec("found").unwrap_or_else(|error| panic!("{name}: {error}"));
    let checks = check(&mut probe, &found, seed, &mut |_| ()).unwrap();
    Found { spec: found, checks, commands }
}

/// The middle address of a cylinder.
fn middle(disk: &Disk, cylinder: u32) -> u64 {
    let first = |cylinder: u32| {
        let (mut low, mut high) = (0, disk.sectors());
        while low < high {
            let at = low.midpoint(high);
            if disk.cylinder_of(at) < cylinder { low = at + 1 } else { high = at }
        }
        low
    };
    first(cylinder).midpoint(first(cylinder + 1))
}

/// Greatest difference of two drives' seek times between the same addresses, in ms, and the
/// distance in cylinders: from near the front to every cylinder, or to 20,000 of them.
fn seek_error(truth: &DiskSpec, found: &DiskSpec) -> (f64, u32) {
    let (disk, other) = (Disk::new(truth), Disk::new(found));
    let (curve, others) = (seek_curve(truth), seek_curve(found));
    let time = |curve: &[(u32, f64)], from: u32, to: u32| match from.abs_diff(to) {
        0 => 0.0,
        d => curve[(d as usize - 1).min(curve.len() - 1)].1,
    };
    let last = disk.cylinder_of(disk.sectors() - 1);
    let first = disk.cylinder_of(0) + 20;
    let from = middle(&disk, first);
    let mut worst = (0.0, 0);
    for step in 1..=(last - first).min(20_000) {
        let cylinder = first + (u64::from(step) * u64::from(last - first)
            / u64::from((last - first).min(20_000))) as u32;
        let lbn = middle(&disk, cylinder);
        if lbn >= disk.sectors() || disk.cylinder_of(lbn) != cylinder {
            continue;
        }
        let is = time(&curve, first, cylinder);
        let off = is - time(&others, other.cylinder_of(from), other.cylinder_of(lbn));
        if off.abs() > 0.3 && std::env::var("DUMP").is_ok() { println!("d {} lbn {lbn} is {is} off {off} e {} {}", cylinder - first, other.cylinder_of(from), other.cylinder_of(lbn)); }
        if off.abs() > worst.0 {
            worst = (off.abs(), cylinder - first);
        }
    }
    worst
}

#[test]
fn all() {
    let only = std::env::var("DRIVES").unwrap_or_default();
    for name in DRIVES {
        if !only.is_empty() && !only.contains(name) {
            continue;
        }
        let truth = find(name).unwrap();
        let found = extract(name, 22);
        let spec = &found.spec;
        let (off, at) = seek_error(&truth, spec);
        let [random, mixed] = &found.checks[..] else { panic!() };
        println!("{name}: seek {off:.3} at {at}; random {:.3} {:.3} {:+.2} % ({:.2} %); mixed {:.3} {:.3} {:+.2} % ({:.2} %) {} commands",
            random.measured_ms, random.predicted_ms, random.error() * 100.0, random.demerit() * 100.0,
            mixed.measured_ms, mixed.predicted_ms, mixed.error() * 100.0, mixed.demerit() * 100.0, found.commands);
        let show = |s: &DiskSpec| println!("    {:.2} {} sw {} set {} jog {} win {} arr {} {:?}\n    {:?}\n    {:?} {:?}", s.rpm, s.heads, s.head_switch_ms, s.write_settle_ms, s.jog_ms, s.window, s.read_on_arrival, s.bus, s.overhead, s.read_ahead, s.write_back);
        if !only.is_empty() { show(&truth);
        show(spec);}
    }
}
