//! Every key of a disk spec, for `destage disks keys` and docs/disk-keys.md. A test compares the
//! list, its ranges and its defaults with what the parser does.

/// A key of a spec file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpecKey {
    /// Its tables and itself, with dots between.
    pub key: &'static str,
    /// Unit; `-` if it has none.
    pub unit: &'static str,
    /// What it may be.
    pub range: &'static str,
    /// What it is if it is left out.
    pub default: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

/// The default of a key that must be given, where its table is.
pub const REQUIRED: &str = "required";
const MS: &str = "from 0 to 500";
const NAMES: &str = "text";
const COUNT: &str = "from 0 to 4294967295";
const ONE_UP: &str = "from 1 to 4294967295";
const SEEK: &str = "from 0 to 1000";

const fn key(
    key: &'static str,
    unit: &'static str,
    range: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> SpecKey {
    SpecKey { key, unit, range, default, meaning }
}

/// All keys, in the order of a spec file.
#[rustfmt::skip]
pub const KEYS: &[SpecKey] = &[
    key("name", "-", NAMES, REQUIRED, "name of the model"),
    key("summary", "-", NAMES, REQUIRED, "what drive it is, in a line"),
    key("source", "-", NAMES, REQUIRED, "where each group of numbers is from"),
    key("sector_bytes", "bytes", "256, 512, 1024, 2048, 4096", "512", "size of a sector"),
    key("sectors", "sectors", "from 1 to what the zones hold", "all that the zones hold",
        "sectors that the drive offers; required with linear zones"),
    key("heads", "-", "from 1 to 256", REQUIRED, "surfaces with data"),
    key("rpm", "1/min", "from 1000 to 100000", REQUIRED, "revolutions per minute"),
    key("head_switch_ms", "ms", MS, REQUIRED, "time to change to another head of the cylinder"),
    key("write_settle_ms", "ms", "from -500 to 500", "0",
        "extra time before a write after a seek or head switch"),
    key("jog_ms", "ms", MS, "0", "least time of moving the heads between a write and a read"),
    key("order", "-", "forward, serpentine-by-zone, serpentine", "forward",
        "order in which addresses run over the surfaces"),
    key("spares_per", "-", "track, cylinder, range, zone", "zone",
        "unit at whose end the spare sectors are"),
    key("range_cylinders", "cylinders", ONE_UP, "1",
        "cylinders that share their spares, for spares_per = \"range\""),
    key("window", "commands", "from 1 to 100000", REQUIRED,
        "commands that the drive chooses among"),
    key("scheduler", "-", "fcfs, cscan, sptf", REQUIRED, "how it chooses"),
    key("max_wait_ms", "ms", "from 0 to 4000", "0",
        "age from which the oldest command goes first; 0: never"),
    key("read_on_arrival", "-", "true, false", "false",
        "reads of one track begin with whichever sector comes first"),
    key("bus_mb_per_s", "10^6 bytes/s", "from 0.01 to 1000000", "no limit",
        "rate of a host bus that overlaps the medium; not next to [bus]"),
    key("bus.read_sector_ms", "ms", MS, REQUIRED, "time of a sector to the host"),
    key("bus.write_sector_ms", "ms", MS, REQUIRED, "time of a sector from the host"),
    key("bus.read_start", "-", "from 0 to 1", "0",
        "share of a read in the buffer before its transfer begins"),
    key("bus.read_start_of", "-", "request, track", "request", "what that is a share of"),
    key("bus.reselect_ms", "ms", MS, "0", "time to get the bus back for a read"),
    key("bus.write_lead_ms", "ms", MS, "0", "time before a write's first sector crosses the bus"),
    key("overhead.idle_ms", "ms", MS, "0", "paid by a command that finds the disk idle"),
    key("overhead.per_command_ms", "ms", MS, "0",
        "paid by every command that does not continue the one before"),
    key("overhead.read_ms", "ms", MS, "0", "paid by every read"),
    key("overhead.write_ms", "ms", MS, "0", "paid by every write"),
    key("overhead.read_after_write_ms", "ms", MS, "read_ms", "in its place after a write"),
    key("overhead.write_after_read_ms", "ms", MS, "write_ms", "in its place after a read"),
    key("overhead.hit.read_ms", "ms", MS, REQUIRED,
        "of a read that the buffer serves, after a read"),
    key("overhead.hit.read_after_write_ms", "ms", MS, REQUIRED, "the same after a write"),
    key("overhead.hit.write_ms", "ms", MS, REQUIRED,
        "of a write that the buffer serves, after a write"),
    key("overhead.hit.write_after_read_ms", "ms", MS, REQUIRED, "the same after a read"),
    key("overhead.read_done_ms", "ms", MS, "0", "paid by a read once its data are transferred"),
    key("overhead.write_done_ms", "ms", MS, "0", "paid by a write once it is accepted"),
    key("host.issue", "-", "group, runs", "group",
        "whether its host issued all runs of a destage at once or one by one"),
    key("read_ahead.segments", "-", ONE_UP, REQUIRED, "read-ahead segments; no table: none"),
    key("read_ahead.segment_sectors", "sectors", ONE_UP, REQUIRED, "size of a segment"),
    key("read_ahead.ahead_sectors", "sectors", COUNT, REQUIRED, "read beyond a request while idle"),
    key("read_ahead.until", "-", "end, track, cylinder, next-track", "end", "where it stops"),
    key("read_ahead.keeps_before", "-", "true, false", "false",
        "sectors that pass before a read's first are kept"),
    key("read_ahead.drops_read", "-", "true, false", "false", "what went to the host is not kept"),
    key("write_back.capacity_sectors", "sectors", ONE_UP, REQUIRED,
        "volatile write cache; no table: every write goes to the medium first"),
    key("write_back.appends_only", "-", "true, false", "false",
        "only writes that continue the one before are acknowledged early"),
    key("write_back.extents", "-", COUNT, "0", "stretches that it holds; 0: any number"),
    key("write_back.window", "-", COUNT, "0",
        "oldest stretches of which it writes the nearest; 0: of all"),
    key("write_back.write_sectors", "sectors", COUNT, "0",
        "most that it writes before it looks at the queue; 0: all of a stretch"),
    key("write_back.flush_ms", "ms", "from 0 to 4000", "0", "fixed part of a FLUSH"),
    key("seek.fit.one_cylinder_ms", "ms", SEEK, REQUIRED, "seek to the next cylinder"),
    key("seek.fit.third_ms", "ms", SEEK, REQUIRED,
        "over a third of the stroke; the curve through the three must rise"),
    key("seek.fit.full_ms", "ms", SEEK, REQUIRED, "over the full stroke"),
    key("seek.formula.first_ms", "ms", "list", "empty", "times of distances 1, 2, ..."),
    key("seek.formula.short_until", "cylinders", COUNT, REQUIRED, "longest short seek"),
    key("seek.formula.short_ms", "ms", SEEK, REQUIRED, "constant of short seeks"),
    key("seek.formula.short_sqrt_ms", "ms", "number", REQUIRED,
        "factor of the square root of the distance, for short seeks"),
    key("seek.formula.long_ms", "ms", "number", REQUIRED, "constant of long seeks"),
    key("seek.formula.long_cylinder_ms", "ms", "number", REQUIRED,
        "factor of the distance, for long seeks"),
    key("seek.table.points", "cylinders, ms", "list", REQUIRED,
        "pairs of distance and time, distances ascending"),
    key("zones.linear.count", "-", "from 1 to 1000", REQUIRED, "zones of equally many cylinders"),
    key("zones.linear.outer_sectors", "sectors", "from inner_sectors to 60000", REQUIRED,
        "sectors on an outermost track"),
    key("zones.linear.inner_sectors", "sectors", "from 1 to outer_sectors", REQUIRED,
        "sectors on an innermost track"),
    key("zones.list.first_cylinder", "-", "behind the zone before", "the next one",
        "first cylinder of the zone"),
    key("zones.list.cylinders", "-", "from 1 to 4000000", REQUIRED, "cylinders of the zone"),
    key("zones.list.sectors_per_track", "sectors", "from 1 to 60000", REQUIRED,
        "sectors on a track"),
    key("zones.list.track_skew", "sectors", "from 0 to less than a track",
        "the fewest that cover a head switch", "skew between tracks of a cylinder"),
    key("zones.list.cylinder_skew", "sectors", "from 0 to less than a track",
        "the fewest that cover the switch", "skew between cylinders"),
    key("zones.list.offset_sectors", "sectors", COUNT, "where the head then is",
        "place of the zone's first sector behind the index"),
    key("zones.list.unused_front", "sectors", "from 0 to what the zone holds", "0",
        "sectors at the front without data"),
    key("zones.list.spare_sectors", "sectors", "from 0 to what a unit holds", "0",
        "spare sectors at the end of each unit of spares_per"),
    key("zones.list.slips", "sectors", "list", "empty",
        "defective stretches: first sector from the zone's start, and length"),
];
