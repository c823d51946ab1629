//! The real traces of `../shared/traces`: every figure of its index. Skipped where they are absent.

use std::path::PathBuf;

use destage_workload::trace::info::TraceInfo;
use destage_workload::trace::replay::{Layout, ReplayOptions, ReplayPace};
use destage_workload::trace::{Op, ReadOptions, Reader};

/// The folder of the traces, or `None` (saying so) if it is not there.
fn folder() -> Option<PathBuf> {
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::env::var_os("DESTAGE_TRACES")
        .map_or_else(|| workspace.join("../shared/traces"), PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no traces at {} (set DESTAGE_TRACES)", folder.display());
    None
}

fn info(name: &str) -> Option<TraceInfo> {
    let path = folder()?.join(name);
    let reader = Reader::open(&path, &ReadOptions::default()).unwrap();
    let info = TraceInfo::of(reader).unwrap();
    println!(
        "{name}: {} {} requests, {:.2} % writes, {:?} s, footprint r/w/all {} {} {}, overwrites \
         {:.4}, first touches {:.4}, sequential {:.4}, {} devices",
        info.format,
        info.requests,
        info.write_share() * 100.0,
        info.duration_ns.map(|ns| ns as f64 / 1e9),
        info.read_footprint_blocks,
        info.write_footprint_blocks,
        info.footprint_blocks,
        info.overwrite_share(),
        info.first_touch_share(),
        info.sequential_share(),
        info.devices.len(),
    );
    assert!(info.ordered && info.bad == 0 && info.empty_requests == 0, "{name}");
    Some(info)
}

/// Checks format, requests, writes in percent and duration, each to the digits the index gives.
fn check(name: &str, format: &str, requests: u64, writes: &str, seconds: f64, digits: usize) {
    let Some(info) = info(name) else { return };
    assert_eq!((info.format, info.requests), (format, requests), "{name}");
    let decimals = writes.split_once('.').map_or(0, |(_, d)| d.len());
    assert_eq!(format!("{:.decimals$}", info.write_share() * 100.0), writes, "{name}");
    let duration = info.duration_ns.unwrap() as f64 / 1e9;
    assert_eq!(format!("{duration:.digits$}"), format!("{seconds:.digits$}"), "{name}");
}

#[test]
fn hplajw() {
    let Some(info) = info("ajw.1week.srt.gz") else { return };
    assert_eq!((info.format, info.requests), ("srt", 44_519));
    assert_eq!(format!("{:.1}", info.write_share() * 100.0), "70.7");
    assert_eq!(format!("{:.1}", info.duration_ns.unwrap() as f64 / 3.6e12), "167.5");
    let disk = &info.devices[0];
    assert_eq!((disk.device, disk.requests, disk.serviced), (0, 42_252, 42_252));
    assert_eq!(format!("{:.3}", disk.service_ns_mean().unwrap() / 1e6), "25.354");
    assert_eq!(format!("{:.0}", info.overwrite_share() * 100.0), "93");
}

#[test]
fn cloud_physics() {
    let name = "cloudPhysicsIO.vscsi.gz";
    check(name, "vscsi1", 113_872, "58.7", 7200.0, 0);
    let Some(info) = info(name) else { return };
    assert_eq!(info.write_footprint_blocks / 256, 815);
    assert_eq!(format!("{:.1}", info.overwrite_share() * 100.0), "68.2");
}

#[test]
fn msr() {
    check("msr_hm_0_first899.csv", "msr", 899, "54.7", 127.0, 0);
}

#[test]
fn financial() {
    let name = "ssdsim_example_fin1_first10k.ascii";
    check(name, "ssdsim", 10_000, "59.2", 259.6, 1);
    let Some(info) = info(name) else { return };
    assert_eq!(info.devices.len(), 22);
}

#[test]
fn dtrs() {
    let name = "DTRS100M.trace.gz";
    check(name, "ssdsim", 127_043, "11.0", 30_000.0, 0);
    let Some(info) = info(name) else { return };
    assert_eq!(format!("{:.2}", info.duration_ns.unwrap() as f64 / 3.6e12), "8.33");
    assert_eq!(format!("{:.0}", info.first_read_share() * 100.0), "70");
}

#[test]
fn web_search() {
    let name = "wsrch-small.trace.gz";
    check(name, "ssdsim", 24_783, "0.02", 60.1, 1);
    let Some(info) = info(name) else { return };
    // "No block reuse": 279 of 93,304 block reads are of a block read before.
    assert!(info.first_read_share() > 0.997);
}

#[test]
fn disksim() {
    let name = "disksim_ascii.trace.gz";
    check(name, "disksim", 100_000, "20.4", 1533.0, 0);
    let Some(info) = info(name) else { return };
    assert_eq!(info.devices.len(), 14);
}

#[test]
fn arc() {
    for (name, requests) in
        [("OLTP.lis.zst", 914_145), ("P3.lis.zst", 238_578), ("P6.lis.zst", 519_711)]
    {
        let Some(info) = info(name) else { return };
        assert_eq!((info.format, info.requests, info.unknown), ("arc", requests, requests));
        assert_eq!(info.duration_ns, None);
    }
}

#[test]
fn measured_disks() {
    let Some(folder) = folder() else { return };
    for (name, requests) in [
        ("atlas10k", 10_000),
        ("cheetah9LP", 10_000),
        ("dec_rz26", 7_980),
        ("hp_c2247a", 9_999),
        ("hp_c2490a", 9_984),
        ("ibm18es", 10_000),
    ] {
        let path = folder.join(format!("disksim/{name}.trace.gz"));
        let mut reader = Reader::open(&path, &ReadOptions::default()).unwrap();
        assert_eq!(reader.format().entry.name, "validation", "{name}");
        let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!(records.len(), requests, "{name}");
        assert!(records.iter().all(|r| r.service.is_some() && r.op != Op::Unknown));
    }
}

#[test]
fn every_trace_replays() {
    let Some(folder) = folder() else { return };
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() || path.ends_with("INDEX.md") {
            continue;
        }
        let replay = ReplayOptions {
            pace: ReplayPace::Closed { outstanding: 1 },
            ..ReplayOptions::default()
        };
        let layout = Layout::scan(&path, &ReadOptions::default(), &replay).unwrap();
        println!("{}: {} pages", path.display(), layout.volume_pages());
        assert!(layout.volume_pages() > 0);
    }
}
