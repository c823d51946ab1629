//! Every service time against a slow model in floating point, written from the description.

mod common;

use common::{Random, small};
use destage_disk::{Disk, DiskOp, DiskSpec, Seek, TrackOrder, find, seek_curve, zones};
use destage_engine::units::Instant;

/// The slow model: plain divisions, angles as f64, one sector at a time.
struct Reference {
    spec: DiskSpec,
    curve_ns: Vec<f64>,
    revolution: f64,
    /// First address, first cylinder, sectors a track, the two skews, angle of the first slot.
    zones: Vec<(u64, u64, u64, u64, u64, f64)>,
    at: (u64, u64),
    next: Option<(u64, bool)>,
}

impl Reference {
    fn new(spec: &DiskSpec) -> Reference {
        let mut curve_ns = vec![0.0];
        curve_ns.extend(seek_curve(spec).iter().map(|p| (p.1 * 1e6).round()));
        let revolution = (60e9 / spec.rpm).round();
        let mut reference = Reference {
            spec: spec.clone(),
            curve_ns,
            revolution,
            zones: Vec::new(),
            at: (0, 0),
            next: None,
        };
        for zone in zones(spec) {
            let track = u64::from(zone.sectors_per_track);
            let skews = (u64::from(zone.track_skew), u64::from(zone.cylinder_skew));
            let mut laid =
                (zone.first_lbn, u64::from(zone.first_cylinder), track, skews.0, skews.1, 0.0);
            if zone.first_lbn > 0 {
                let (cylinder, head, angle, sector) = reference.place(zone.first_lbn - 1);
                reference.zones.push(laid);
                let (to_cylinder, to_head, _, _) = reference.place(zone.first_lbn);
                reference.zones.pop();
                let travel = reference.travel((cylinder, head), (to_cylinder, to_head));
                laid.5 = (angle + sector + travel).floor() % revolution;
            }
            reference.zones.push(laid);
        }
        reference
    }

    /// Cylinder, head, angle at which the sector begins, and how long it takes.
    fn place(&self, lbn: u64) -> (u64, u64, f64, f64) {
        let zone = self.zones.iter().rfind(|z| z.0 <= lbn).expect("a zone");
        let heads = u64::from(self.spec.heads);
        let (track, sector) = ((lbn - zone.0) / zone.2, (lbn - zone.0) % zone.2);
        let (cylinder, turn) = (track / heads, track % heads);
        let skew = cylinder * ((heads - 1) * zone.3 + zone.4) + turn * zone.3;
        let time = self.revolution / zone.2 as f64;
        let angle = (zone.5 + ((skew + sector) % zone.2) as f64 * time) % self.revolution;
        let backwards = self.spec.order == TrackOrder::SerpentineByZone && cylinder % 2 == 1;
        let head = if backwards { heads - 1 - turn } else { turn };
        (zone.1 + cylinder, head, angle, time)
    }

    fn travel(&self, from: (u64, u64), to: (u64, u64)) -> f64 {
        let seek = self.curve_ns[from.0.abs_diff(to.0) as usize];
        if from.1 == to.1 { seek } else { seek.max(self.spec.head_switch_ms * 1e6) }
    }

    /// Overhead, seek, rotation and transfer of a command that starts at `now` and was
    /// submitted to an idle disk.
    fn serve(&mut self, now: u64, op: DiskOp) -> [f64; 4] {
        let continues = self.next == Some((op.lbn, op.write));
        let costs = &self.spec.overhead;
        let per_command = if continues { 0.0 } else { costs.per_command_ms };
        let fixed = if op.write { costs.write_ms } else { costs.read_ms };
        let overhead = (costs.idle_ms + per_command + fixed) * 1e6;
        let (cylinder, head, angle, _) = self.place(op.lbn);
        let mut seek = self.travel(self.at, (cylinder, head));
        if op.write && seek > 0.0 && !continues {
            seek += self.spec.write_settle_ms * 1e6;
        }
        let arrival = now as f64 + overhead + seek;
        let rotation = (angle - arrival).rem_euclid(self.revolution);
        let begin = arrival + rotation;
        let mut time = begin;
        self.at = (cylinder, head);
        for lbn in op.lbn..op.lbn + u64::from(op.sectors) {
            let (cylinder, head, angle, sector) = self.place(lbn);
            if (cylinder, head) != self.at {
                time += self.travel(self.at, (cylinder, head));
                self.at = (cylinder, head);
                // Half a sector of slack, as skew leaves no doubt larger than that.
                let wait = (angle - time).rem_euclid(self.revolution);
                time += if wait > self.revolution - 4.0 { 0.0 } else { wait };
            }
            time += sector;
        }
        self.next = Some((op.lbn + u64::from(op.sectors), op.write));
        let mut transfer = time - begin;
        if let Some(rate) = self.spec.bus_mb_per_s.filter(|_| !op.write) {
            let bytes = f64::from(op.sectors) * f64::from(self.spec.sector_bytes);
            transfer = transfer.max(bytes * 1e3 / rate);
        }
        [overhead, seek, rotation, transfer]
    }
}

fn agrees(mut spec: DiskSpec, operations: u64, longest: u64) {
    (spec.read_ahead, spec.write_back) = (None, None);
    let mut reference = Reference::new(&spec);
    let mut disk = Disk::new(&spec);
    let mut random = Random(7);
    let mut now = Instant(random.below(1 << 40));
    for i in 0..operations {
        let sectors = 1 + random.below(longest);
        let lbn = random.below(disk.sectors() - sectors);
        let write = random.below(3) == 0 && spec.bus_mb_per_s.is_none();
        let op = DiskOp { lbn, sectors: sectors as u32, write, tag: i };
        let expected = reference.serve(now.0, op);
        let service = common::serve(&mut disk, &mut now, op).service;
        let got = [service.overhead, service.seek, service.rotation, service.transfer];
        for (what, (got, expected)) in got.iter().zip(expected).enumerate() {
            let mut off = (got.0 as f64 - expected).abs();
            if what == 2 && (expected < 4.0 || expected > reference.revolution - 4.0) {
                off = off.min(reference.revolution - off);
            }
            assert!(off <= 2.5, "{}: part {what} of {op:?}: {got:?}, not {expected}", spec.name);
        }
        now.0 += random.below(2) * random.below(20_000_000);
    }
}

#[test]
fn service_times_agree_with_the_slow_model() {
    agrees(small("", ""), 20_000, 300);
    agrees(small("order = 'serpentine-by-zone'", ""), 20_000, 300);
    agrees(small("", "track_skew = 1\ncylinder_skew = 13"), 20_000, 300);
    for name in ["stow-ref", "wow-ref", "hp97560", "hp-c2200a"] {
        agrees(find(name).unwrap(), 20_000, 64);
        agrees(find(name).unwrap(), 500, 4000);
    }
}

#[test]
fn the_seek_curve_passes_through_its_three_points() {
    let spec = find("stow-ref").unwrap();
    let Seek::Fit(fit) = spec.seek else { panic!("a fit") };
    let curve = seek_curve(&spec);
    let full = curve.len();
    assert!((curve[0].1 - fit.one_cylinder_ms).abs() < 1e-6);
    assert!((curve[full - 1].1 - fit.full_ms).abs() < 1e-6);
    // A third of the stroke need not be a whole distance: its neighbours enclose it.
    let third = full / 3;
    assert!(curve[third - 2].1 < fit.third_ms && fit.third_ms < curve[third + 1].1);
    assert!((curve[third - 1].1 - fit.third_ms).abs() < 1e-3);
    assert!(curve.windows(2).all(|pair| pair[0].1 <= pair[1].1), "seek times fall somewhere");
    let hp = seek_curve(&find("hp97560").unwrap());
    assert!((hp[0].1 - 3.64).abs() < 1e-6 && (hp[384].1 - (8.0 + 0.008 * 385.0)).abs() < 1e-6);
    assert!((hp[382].1 - (3.24 + 0.4 * 383.0_f64.sqrt())).abs() < 1e-6);
}
