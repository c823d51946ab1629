//! The DiskSim converter, on made-up text and on the real files where they are.

use std::path::PathBuf;

use destage_disk::disksim::{ConvertError, Source, Sources, convert};
use destage_disk::{
    AheadUntil, Disk, DiskSpec, Seek, SparesPer, TrackOrder, Zones, find, seek_curve, zones,
};

const MODEL: &str = "
# a drive that never was
dm_disk MADE_UP {
   Number of data surfaces = 2,
   Number of cylinders = 30,
   Block count = 1100,
   Mechanical Model = dm_mech_g1 {
      Access time type = trackSwitchPlusRotation,
      Seek type = extracted, # see the file
      Full seek curve = made_up.seek,
      Add. write settling delay = 0.25,
      Head switch time = 0.5,
      Rotation speed (in rpms) = 6000,
      Percent error in rpms = 0.0
   },
   Layout Model = dm_layout_g1 {
      LBN-to-PBN mapping scheme = 1,
      Sparing scheme used = 9,
      Rangesize for sparing = 1,
      Zones = [
         dm_layout_g1_zone {
            First cylinder number = 0,
            Last cylinder number = 9,
            Blocks per track = 24,
            Offset of first block = 3.000000,
            Empty space at zone front = 5,
            Skew for track switch = 4,
            Skew for cylinder switch = 6,
            Number of spares = 7,
            slips = [ 40, 12 ],
            defects = [ ]
         },
         dm_layout_g1_zone {
            First cylinder number = 11,
            Last cylinder number = 29,
            Blocks per track = 20,
            Offset of first block = 0,
            Empty space at zone front = 0,
            Skew for track switch = 3,
            Skew for cylinder switch = 5,
            Number of spares = 0,
            slips = [],
            defects = []
         }
      ]
   }
} # end
";
const SEEK: &str = "Seek distances measured: 3\n1, 1.0\n3,\t2.0\n29, 4.6\n";
const SPECS: &str = "disksim_disk MADE_UP { Model = source made_up.model, Max queue length = 4,
  Read miss over. after read = 0.3, Write miss over. after write = 0.4,
  Bulk sector transfer time = 0.1, Enable caching in buffer = 1, Segment size (in blks) = 64,
  Buffer continuous read = 3, Number of buffer segments = 2, Maximum read-ahead (blks) = 32,
  Fast write level = 1, Maximum number of write segments = 2 }";

fn made_up(model: &str, seek: &str, specs: &str) -> Result<DiskSpec, ConvertError> {
    let source = |file, text| Source { file, text };
    let sources = Sources {
        model: source("made_up.model", model),
        seek: Some(source("made_up.seek", seek)).filter(|s| !s.text.is_empty()),
        specs: Some(source("made_up.diskspecs", specs)).filter(|s| !s.text.is_empty()),
    };
    convert("made-up", sources)
}

#[test]
fn a_model_becomes_a_spec() {
    let spec = made_up(MODEL, SEEK, SPECS).unwrap();
    assert_eq!((spec.heads, spec.rpm, spec.window), (2, 6000.0, 4));
    assert_eq!((spec.head_switch_ms, spec.write_settle_ms), (0.5, 0.25));
    assert_eq!((spec.overhead.read_ms, spec.overhead.write_ms), (0.3, 0.4));
    assert_eq!((spec.order, spec.spares_per), (TrackOrder::SerpentineByZone, SparesPer::Zone));
    let bus = spec.bus.unwrap();
    assert_eq!((bus.read_sector_ms, bus.write_sector_ms, bus.read_start), (0.1, 0.1, 0.0));
    assert_eq!((spec.overhead.read_after_write_ms, spec.read_on_arrival), (None, false));
    let write_back = spec.write_back.unwrap();
    assert_eq!((write_back.capacity_sectors, write_back.appends_only), (128, false));
    let ahead = spec.read_ahead.unwrap();
    assert_eq!((ahead.segments, ahead.segment_sectors, ahead.ahead_sectors), (2, 64, 32));
    let Zones::List(list) = &spec.zones else { panic!("a list") };
    assert_eq!((list[0].cylinders, list[0].sectors_per_track, list[0].unused_front), (10, 24, 5));
    assert_eq!((list[0].track_skew, list[0].cylinder_skew), (Some(4), Some(6)));
    assert_eq!((list[0].offset_sectors, list[0].spare_sectors), (Some(3), 7));
    assert_eq!(list[0].slips, [(12, 1), (40, 1)]);
    assert_eq!((list[0].first_cylinder, list[1].first_cylinder), (None, Some(11)));
    // 10 x 2 x 24 - 5 - 7, then as many of 19 x 2 x 20 as the block count leaves.
    assert_eq!(zones(&spec).iter().map(|z| z.sectors).collect::<Vec<_>>(), [468, 632]);
    let curve = seek_curve(&spec);
    assert_eq!(
        (curve[0], curve[1], curve[2], curve[28]),
        ((1, 1.0), (2, 1.5), (3, 2.0), (29, 4.6))
    );
    let disk = Disk::new(&spec);
    assert_eq!((disk.place_of(0), disk.place_of(6)), ((0, 0, 5), (0, 0, 11)));
    assert_eq!(disk.place_of(7), (0, 0, 13), "sector 12 is slipped");
    assert_eq!(disk.place_of(468), (11, 0, 0));
}

#[test]
fn overheads_bus_and_buffer_become_their_counterparts() {
    let more = "Read miss over. after write = 0.2, Write miss over. after read = 0.4,
        Read hit over. after read = 0.01, Read hit over. after write = 0.02,
        Write hit over. after read = 0.03, Write hit over. after write = 0.04,
        Read completion overhead = 0.05, Write completion overhead = 0.06,
        Time scale for overheads = 2.0, Per-request overhead time = 1.0,
        Immediate buffer read = 1, Hold bus entire read xfer = 1, High (read) water mark = 0.75,";
    let specs = SPECS.replace("Max queue", &format!("{more} Max queue"));
    let spec = made_up(MODEL, SEEK, &specs).unwrap();
    let overhead = spec.overhead;
    assert_eq!((overhead.read_ms, overhead.read_after_write_ms), (1.6, Some(1.4)));
    assert_eq!((overhead.write_ms, overhead.write_after_read_ms), (1.8, None));
    assert_eq!((overhead.read_done_ms, overhead.write_done_ms), (0.1, 0.12));
    let hit = overhead.hit.unwrap();
    assert_eq!((hit.read_ms, hit.read_after_write_ms), (1.02, 1.04));
    assert_eq!((hit.write_after_read_ms, hit.write_ms), (1.06, 1.08));
    assert!(spec.read_on_arrival);
    assert_eq!(spec.bus.unwrap().read_start, 0.75);
    let until = |level: u32| {
        let specs = SPECS.replace("continuous read = 3", &format!("continuous read = {level}"));
        made_up(MODEL, SEEK, &specs).unwrap().read_ahead.unwrap().until
    };
    assert_eq!(until(1), AheadUntil::Track);
    assert_eq!((until(2), until(3)), (AheadUntil::Cylinder, AheadUntil::End));
    assert_eq!(until(4), AheadUntil::NextTrack);
    for level in [1, 2] {
        let fast = SPECS.replace("write level = 1", &format!("write level = {level}"));
        let write_back = made_up(MODEL, SEEK, &fast).unwrap().write_back.unwrap();
        assert!(!write_back.appends_only, "any write is acknowledged early at level {level}");
    }
    let none = SPECS.replace("Fast write level = 1", "Fast write level = 0");
    assert_eq!(made_up(MODEL, SEEK, &none).unwrap().write_back, None);
    let keeps = |immediate: u32| {
        let more = format!("Read any free blocks = 1, Immediate buffer read = {immediate}, Max q");
        let specs = SPECS.replace("Max q", &more);
        made_up(MODEL, SEEK, &specs).unwrap().read_ahead.unwrap().keeps_before
    };
    assert_eq!((keeps(0), keeps(1)), (false, true));
    let no_bus = SPECS.replace("transfer time = 0.1", "transfer time = 0.0");
    assert_eq!(made_up(MODEL, SEEK, &no_bus).unwrap().bus, None);
}

#[test]
fn sparing_schemes_and_seek_formulas_are_understood() {
    let scheme = |number: u32, spares: u32| {
        let model = MODEL
            .replace("scheme used = 9", &format!("scheme used = {number}"))
            .replace("Number of spares = 7", &format!("Number of spares = {spares}"))
            .replace("[ 40, 12 ]", if number == 1 { "[ 3, 12 ]" } else { "[ 12 ]" });
        zones(&made_up(&model, SEEK, "").unwrap())[0].sectors
    };
    assert_eq!(scheme(1, 2), 480 - 5 - 2 * 24);
    assert_eq!(scheme(2, 1), 480 - 5 - 10);
    assert_eq!(scheme(3, 1), 480 - 5 - 20);
    assert_eq!(scheme(7, 0), 480 - 5 - 1);
    assert_eq!(scheme(8, 1), 480 - 5 - 10);
    assert_eq!(scheme(10, 3), 480 - 5 - 3 - 1);
    let hpl = MODEL.replace(
        "Seek type = extracted,",
        "Seek type = hplplus10, HPL seek equation values = [ 20, 3.0, 0.5, 6.0, 0.01, -1.0 ],
         First ten seek times = [ 0.4, 0.8, 1.2, 1.6, 2.0, 2.4, 2.8, 3.2, 3.6, 4.0 ],",
    );
    let spec = made_up(&hpl, "", "").unwrap();
    assert!(matches!(&spec.seek, Seek::Formula(f) if f.short_until == 19));
    let curve = seek_curve(&spec);
    assert_eq!((curve[0].1, curve[9].1, curve[15].1), (0.4, 4.0, 5.0));
    assert_eq!(curve[19].1, 6.2);
}

#[test]
fn errors_name_file_and_line() {
    let model = |from: &str, to: &str| {
        assert!(MODEL.contains(from));
        made_up(&MODEL.replacen(from, to, 1), SEEK, SPECS).unwrap_err().to_string()
    };
    for (from, to, expected) in [
        ("Head switch time = 0.5,", "", "made_up.model:7: `dm_mech_g1` lacks `Head switch time`"),
        ("= 0.5", "= fast", "made_up.model:12: `Head switch time` must be a number"),
        ("= extracted", "= magic", "made_up.model:9: `Seek type` must be extracted, curve"),
        ("used = 9", "used = 5", "made_up.model:18: `Sparing scheme used` must be 0 to 4"),
        ("Zones = [", "Zones = {", "made_up.model:20: expected a name, found `{`"),
        ("surfaces = 2", "surfaces", "made_up.model:4: expected `=`, found `,`"),
        ("dm_disk", "dm_disc", "made_up.model:1: no `dm_disk` block"),
        ("per track = 24", "per track = 90000", "made_up.model:3: `sectors_per_track` must be"),
    ] {
        let error = model(from, to);
        assert!(error.starts_with(expected) && !error.contains('\n'), "{error}\n{expected}");
    }
    let seek = |text: &str| made_up(MODEL, text, "").unwrap_err().to_string();
    assert_eq!(seek("1, 1.0\n2 1.5"), "made_up.seek:2: expected `distance, milliseconds`");
    assert!(seek("Seek distances measured: 4\n1, 1.0").starts_with("made_up.seek:1: "));
    assert!(seek("2, 1.0\n1, 2.0").contains("ascending"));
    assert!(made_up(MODEL, "", "").unwrap_err().to_string().contains("second file"));
}

#[test]
fn cut_and_mangled_text_never_panics() {
    for cut in 0..MODEL.len() {
        let _ = made_up(&MODEL[..cut], SEEK, SPECS);
        let mut mangled = MODEL.to_string();
        mangled.replace_range(cut..=cut, ["9", "{", "]", "=", "\u{fffd}"][cut % 5]);
        let _ = made_up(&mangled, SEEK, SPECS);
    }
    for cut in 0..SPECS.len() {
        let _ = made_up(MODEL, SEEK, &SPECS[..cut]);
    }
    let _ = made_up(&"a {b=".repeat(10_000), SEEK, SPECS);
    let _ = made_up(&format!("a {{ b = {}", "[".repeat(100_000)), SEEK, SPECS);
}

/// Where the traces are: `DESTAGE_TRACES`, or next to the workspace.
fn traces() -> PathBuf {
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces");
    std::env::var_os("DESTAGE_TRACES").map_or_else(|| PathBuf::from(shared), PathBuf::from)
}

/// What the built-in specs do not take from these files, as their headers say.
fn by_hand(converted: &mut DiskSpec, built_in: &DiskSpec) {
    if converted.bus.is_none() {
        converted.bus = built_in.bus;
    }
    converted.jog_ms = built_in.jog_ms;
    converted.source.clone_from(&built_in.source);
    if converted.name == "hp-c2490a" {
        let hit = converted.overhead.hit;
        converted.overhead = built_in.overhead;
        converted.overhead.hit = hit;
    }
}

#[test]
fn the_ten_drives_convert_to_the_built_in_specs() {
    let folder = traces().join("disksim");
    if !folder.is_dir() {
        println!("skipped: {} is not here", folder.display());
        return;
    }
    for (name, model, specs) in [
        ("atlas10k", "atlas10k", "atlas10k"),
        ("atlas-iii", "atlas_III", "atlas_III"),
        ("barracuda", "barracuda", "barracuda"),
        ("cheetah4lp", "cheetah4LP", "cheetah4LP"),
        ("cheetah9lp", "cheetah9LP", "cheetah9LP"),
        ("dec-rz26", "dec_rz26_validate", "dec_rz26"),
        ("hp-c2247a", "hp_c2247a_validate", "hp_c2247a"),
        ("hp-c2490a", "hp_c2490a_validate", "hp_c2490a"),
        ("hp-c3323a", "hp_c3323a_validate", "hp_c3323a"),
        ("ibm18es", "ibm18es", "ibm18es"),
    ] {
        let load = |file: String| std::fs::read_to_string(folder.join(file)).ok();
        let (model, seek) =
            (load(format!("{model}.model")).unwrap(), load(format!("{model}.seek")));
        let specs = load(format!("{specs}.diskspecs")).unwrap();
        let sources = Sources {
            model: Source { file: "model", text: &model },
            seek: seek.as_ref().map(|text| Source { file: "seek", text }),
            specs: Some(Source { file: "diskspecs", text: &specs }),
        };
        let built_in = find(name).unwrap();
        let mut converted = convert(name, sources).unwrap_or_else(|e| panic!("{name}: {e}"));
        converted.summary.clone_from(&built_in.summary);
        by_hand(&mut converted, &built_in);
        assert_eq!(converted, built_in, "{name}: convert it again");
    }
}
