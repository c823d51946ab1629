//! Plain numbers: what the engine did since it was made. A driver takes differences.

/// Counts of events and sums of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events handled by `step`.
    pub events: u64,
    /// Host read requests.
    pub read_requests: u64,
    /// Host read requests all of whose pages were in NVS or the read cache.
    pub read_request_hits: u64,
    /// Host write requests admitted.
    pub write_requests: u64,
    /// Admitted write requests all of whose pages were in NVS.
    pub write_request_hits: u64,
    /// Pages written by admitted requests.
    pub pages_written: u64,
    /// Written pages that were in NVS.
    pub page_hits: u64,
    /// Written pages whose group was in NVS before the request.
    pub group_hits: u64,
    /// Write requests that waited for space.
    pub stalled_writes: u64,
    /// Groups picked for destage.
    pub destages: u64,
    /// Pages of those groups.
    pub destaged_pages: u64,
    /// Contiguous runs of those pages.
    pub destaged_runs: u64,
    /// Sum over consecutive destages of the distance between their first pages.
    pub destage_distance_pages: u64,
    /// Rows of 4 KiB destaged.
    pub rows: u64,
    /// Rows destaged without reading first.
    pub rows_without_reads: u64,
    /// Pages that destages did not read because the stripe memory had them.
    pub recalled_pages: u64,
    /// Destages begun in idle time, below the rate's low threshold.
    pub idle_destages: u64,
    /// Commands of host reads that came to a disk while it had one of an idle destage.
    pub idle_delayed_reads: u64,
    /// Pages that host reads asked for, where there is a read cache.
    pub read_pages: u64,
    /// Of them, those in NVS.
    pub read_pages_nvs: u64,
    /// Of them, those not in NVS but in the read cache.
    pub read_pages_cached: u64,
    /// Penalties of the others: requests to surviving disks. Over `read_pages` it is the RGR.
    pub read_penalty: u64,
    /// Disk reads issued.
    pub disk_reads: u64,
    /// Disk writes issued.
    pub disk_writes: u64,
}
