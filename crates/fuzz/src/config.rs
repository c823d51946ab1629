//! Configuration: arrays, disks, experiments, the files of DiskSim, and the small languages of
//! options. What is accepted can be used, and is the same when it is written and read again.

use crate::feed::Feed;
use destage_disk::disksim::{Source, Sources, convert};
use destage_disk::{Disk, DiskOp, DiskSpec};
use destage_engine::units::Instant;
use destage_engine::{limits, policy, rate, readcache};
use destage_server::array::ArrayConfig;
use destage_sim::advise::goal::Goal;
use destage_sim::axis::parse_sweep;
use destage_sim::experiment::Experiment;
use std::path::PathBuf;

/// Most bytes of a text.
const BYTES_MAX: usize = 16 << 10;

const CHECKS: [fn(&str) -> bool; 5] = [array, disk, experiment, disksim, choices];

pub(crate) fn check(data: &[u8]) -> bool {
    let mut feed = Feed::new(&data[..data.len().min(BYTES_MAX)]);
    let check = feed.pick(&CHECKS);
    check(&String::from_utf8_lossy(feed.rest()))
}

fn refused(error: &dyn std::fmt::Display) -> bool {
    assert!(!error.to_string().is_empty());
    false
}

fn array(text: &str) -> bool {
    let path = || PathBuf::from("tank.toml");
    let config = match ArrayConfig::of_text(text, path()) {
        Ok(config) => config,
        Err(error) => return refused(&error),
    };
    let _ = config.dirty_pages_max();
    let written = toml::to_string(&config).expect("every configuration has a TOML form");
    let again = ArrayConfig::of_text(&written, path()).expect("what was written can be read");
    assert_eq!(again, config);
    true
}

fn disk(text: &str) -> bool {
    let spec = match DiskSpec::from_toml(text) {
        Ok(spec) => spec,
        Err(error) => return refused(&error),
    };
    serves(&spec);
    let again = DiskSpec::from_toml(&spec.to_toml()).expect("what was written can be read");
    assert_eq!(again, spec);
    true
}

/// A disk of an accepted spec serves its first and its last page.
fn serves(spec: &DiskSpec) {
    let mut disk = Disk::new(spec);
    let sectors = spec.sectors_per_page().min(disk.sectors() as u32);
    let last = disk.sectors() - u64::from(sectors);
    let mut now = Instant(1);
    for (tag, (lbn, write)) in (0..).zip([(0, true), (last, false), (0, false), (last, true)]) {
        disk.submit(now, DiskOp { lbn, sectors, write, tag });
        let done = disk.start(now).expect("an idle disk starts");
        assert!(done >= now);
        now = done;
        assert_eq!(disk.finish(now).op.tag, tag);
    }
}

fn experiment(text: &str) -> bool {
    let experiment: Experiment = match toml::from_str(text) {
        Ok(experiment) => experiment,
        Err(error) => return refused(&error),
    };
    let options = match experiment.options() {
        Ok(options) => options,
        Err(error) => return refused(&error),
    };
    // Only models that are built in: other names are files.
    let known = destage_disk::registry().iter().any(|known| known.name == options.get("disk"));
    if known && let Err(error) = options.build() {
        return refused(&error);
    }
    let _ = experiment.comparison(options, String::new());
    true
}

/// The files are separated by a line of dashes.
fn disksim(text: &str) -> bool {
    let mut files = text.split("\n---\n").map(|text| Source { file: "drive", text });
    let Some(model) = files.next() else { return false };
    let sources = Sources { model, seek: files.next(), specs: files.next() };
    match convert("drive", sources) {
        Ok(spec) => {
            let again = DiskSpec::from_toml(&spec.to_toml()).expect("a valid spec");
            assert_eq!(again, spec);
            true
        }
        Err(error) => refused(&error),
    }
}

fn choices(text: &str) -> bool {
    let error = |error: Option<&dyn std::fmt::Display>| error.is_none_or(refused);
    let (policy, rate) = (policy::choose(text), rate::choose(text));
    let (cache, limits) = (readcache::choose(text), limits::parse_limits(text));
    if let Ok(rate) = &rate {
        let _ = rate.build(1000);
    }
    let (sweep, goal) = (parse_sweep(text), Goal::parse(text));
    error(policy.as_ref().err().map(|error| error as _))
        | error(rate.as_ref().err().map(|error| error as _))
        | error(cache.as_ref().err().map(|error| error as _))
        | error(limits.as_ref().err().map(|error| error as _))
        | error(sweep.as_ref().err().map(|error| error as _))
        | error(goal.as_ref().err().map(|error| error as _))
}

const ARRAY: &str = "version = 1\ndisks = [\"/dev/sda\", \"/dev/sdb\", \"nbd://host/disk\"]\n\
    nvs = [\"/dev/nvme0n1\"]\nspares = []\npolicy = \"stow\"\nrate = \"linear:90/80\"\n\
    ack = \"nvs\"\non_nvs_loss = \"write-through\"\nqueue_depth = 16\nwindow = 8\n\
    stall_seconds = 30\nsave_seconds = 9\nmax_dirty = 1073741824\nrebuild = \"share=50,min=20\"\n\
    [read_cache]\npolicy = \"lru\"\nbytes = 134217728\n";

const DISKSIM: &str = "dm_disk A {\n Number of data surfaces = 2,\n Number of cylinders = 30,\n \
    Block count = 1100,\n Mechanical Model = dm_mech_g1 {\n Access time type = \
    trackSwitchPlusRotation,\n Seek type = extracted,\n Full seek curve = a.seek,\n Add. write \
    settling delay = 0.25,\n Head switch time = 0.5,\n Rotation speed (in rpms) = 6000,\n Percent \
    error in rpms = 0.0\n },\n Layout Model = dm_layout_g1 {\n LBN-to-PBN mapping scheme = 1,\n \
    Sparing scheme used = 9,\n Rangesize for sparing = 1,\n Zones = [ dm_layout_g1_zone {\n First \
    cylinder number = 0,\n Last cylinder number = 29,\n Blocks per track = 24,\n Offset of first \
    block = 3.0,\n Empty space at zone front = 5,\n Skew for track switch = 4,\n Skew for cylinder \
    switch = 6,\n Number of spares = 7,\n slips = [ 40, 12 ],\n defects = []\n } ]\n }\n}\n\
    \n---\nSeek distances measured: 3\n1, 1.0\n3,\t2.0\n29, 4.6\n\n---\n\
    disksim_disk A { Model = source a.model, Max queue length = 4 }\n";

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let experiment = include_str!("../../../specs/experiments/vdf-rebuild.toml");
    let texts = [
        (0, ARRAY),
        (1, include_str!("../../../specs/disks/stow-ref.toml")),
        (1, include_str!("../../../specs/disks/atlas-iii.toml")),
        (1, include_str!("../../../specs/disks/hp97560.toml")),
        (2, include_str!("../../../specs/experiments/stow-fig9.toml")),
        (2, experiment),
        (3, DISKSIM),
        (4, "stow:window=4"),
        (4, "linear:90/80"),
        (4, "adaptive:low=1"),
        (4, "s3fifo"),
        (4, "share=50,min=20,reads-under=20,window=64,depth=2"),
        (4, "iops=100..300..100"),
        (4, "p99<30ms"),
    ];
    texts.map(|(kind, text)| [&[kind], text.as_bytes()].concat()).to_vec()
}
