//! What a run of torture has counted.

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Power failures.
    pub crashes: u64,
    /// Crashes that were not power failures: the process was killed.
    pub kills: u64,
    /// Starts in a loop, each ended as soon as it served; these are no crashes.
    pub restarts: u64,
    /// Recoveries that were completed.
    pub recoveries: u64,
    /// Requests whose answers were checked.
    pub requests: u64,
    /// Pages destaged.
    pub destaged: u64,
    /// Destages that a crash interrupted and recovery redid.
    pub redone: u64,
    /// Members that failed.
    pub members_failed: u64,
    /// NVS devices that failed.
    pub nvs_failed: u64,
    /// Read errors repaired from redundancy.
    pub repairs: u64,
    /// Records moved to the head of the log.
    pub moved: u64,
    /// Bits that were flipped in a mirrored log.
    pub rotten: u64,
    /// Scrubs.
    pub scrubs: u64,
    /// Rows that they compared.
    pub rows_scrubbed: u64,
    /// New NVS mirrors of which it was checked that they suffice alone.
    pub mirrors_checked: u64,
    /// NVS mirrors put in place of lost ones.
    pub mirrors_begun: u64,
    /// Those that became in sync.
    pub mirrors: u64,
    /// Other logs that the array was to get.
    pub relogs_begun: u64,
    /// Those that it got.
    pub relogs: u64,
    /// Spares put in the place of failed members.
    pub replaced: u64,
    /// Rebuilds that were resumed after a crash.
    pub resumed: u64,
    /// Members that were rebuilt.
    pub rebuilt: u64,
    /// Spares that failed during a rebuild.
    pub spares_failed: u64,
    /// Requests refused because of media that cannot be read.
    pub unreadable: u64,
    /// Destages begun in idle time.
    pub idle_destages: u64,
    /// Pages read from the read cache.
    pub cached: u64,
    /// Devices that were absent, restored, cut short, full, unreadable or corrupt.
    pub mishaps: u64,
    /// Writes of NVS devices that were lost or misdirected, and bits of them that rotted.
    pub deceits: u64,
    /// Starts that were refused for that.
    pub refused: u64,
    /// Destages that could not be computed for a while.
    pub kept: u64,
    /// Clean stops.
    pub stops: u64,
    /// Devices that were reported as full or busy.
    pub waits: u64,
    /// Lives in which something was much slower than all else.
    pub slow: u64,
    /// Creations that a power failure interrupted.
    pub cut_creations: u64,
    /// Starts that used what was left of a log.
    pub losses_accepted: u64,
    /// Starts with other settings than the last one.
    pub other_settings: u64,
    /// Starts without `--degraded`.
    pub plain_starts: u64,
    /// Requests whose clients went away.
    pub withdrawn: u64,
    /// Times that all was destaged while clients kept reading a row of it.
    pub polled: u64,
    /// Copies of the array on which one thing more failed.
    pub supposed: u64,
    /// Those that were reported to accept writes again.
    pub waits_ended: u64,
}

impl Counts {
    /// Adds another run's counts.
    pub fn add(&mut self, other: &Counts) {
        self.crashes += other.crashes;
        self.kills += other.kills;
        self.restarts += other.restarts;
        self.recoveries += other.recoveries;
        self.requests += other.requests;
        self.destaged += other.destaged;
        self.redone += other.redone;
        self.members_failed += other.members_failed;
        self.nvs_failed += other.nvs_failed;
        self.repairs += other.repairs;
        self.moved += other.moved;
        self.rotten += other.rotten;
        self.scrubs += other.scrubs;
        self.rows_scrubbed += other.rows_scrubbed;
        self.mirrors_checked += other.mirrors_checked;
        self.mirrors_begun += other.mirrors_begun;
        self.mirrors += other.mirrors;
        self.relogs_begun += other.relogs_begun;
        self.relogs += other.relogs;
        self.replaced += other.replaced;
        self.resumed += other.resumed;
        self.rebuilt += other.rebuilt;
        self.spares_failed += other.spares_failed;
        self.unreadable += other.unreadable;
        self.idle_destages += other.idle_destages;
        self.cached += other.cached;
        self.mishaps += other.mishaps;
        self.deceits += other.deceits;
        self.refused += other.refused;
        self.kept += other.kept;
        self.stops += other.stops;
        self.waits += other.waits;
        self.slow += other.slow;
        self.cut_creations += other.cut_creations;
        self.losses_accepted += other.losses_accepted;
        self.other_settings += other.other_settings;
        self.plain_starts += other.plain_starts;
        self.withdrawn += other.withdrawn;
        self.polled += other.polled;
        self.supposed += other.supposed;
        self.waits_ended += other.waits_ended;
    }
}
