use destage_sim::{compare::run_one, options::RunOptions, sources::make_source};
fn main() {
    let mut o = RunOptions::default();
    for a in std::env::args().skip(1) {
        let (n, v) = a.split_once('=').unwrap();
        o.set(n, v).unwrap();
    }
    let t = std::time::Instant::now();
    let r = run_one("x", &o, &make_source).unwrap_or_else(|e| panic!("{e}"));
    let s = t.elapsed().as_secs_f64();
    println!("{:8} iops {:7.1} rt {:8.2} r {:7.2} w {:7.2} full {:.3} occ {:.3}/{:.3}/{:.3} ph {:.3} gh {:.3} dist {:.0} p/d {:.2} r/d {:.2} util {:.2} ev {} {:.2}s {:.0} kreq/s {}",
      o.get("policy"), r.iops, r.response.all.mean_ms, r.response.reads.mean_ms, r.response.writes.mean_ms, r.time_full, r.occupancy.min, r.occupancy.mean, r.occupancy.max, r.hits.write_page, r.hits.write_group, r.destage.mean_distance_pages, r.destage.pages_per_destage, r.destage.runs_per_destage, r.disks[0].utilisation, r.events, s, r.iops*(r.warmup_s+r.measured_s)/s/1e3, r.digest);
    println!("  seek {:.2} rot {:.2} xfer {:.2} ovh {:.2} {:?}", r.disks[0].seek, r.disks[0].rotation, r.disks[0].transfer, r.disks[0].overhead, r.warnings);
}
