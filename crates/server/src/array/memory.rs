//! How much memory this machine, or the control group of this process, has.

/// Bytes; `None`: the system does not say.
pub(super) fn total() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| in_meminfo(&text));
    let group = group_limit();
    match (machine, group) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (machine, group) => machine.or(group),
    }
}

/// `MemTotal`, which is in KiB.
fn in_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The least `memory.max` of this process's control group (version 2) and those above it.
fn group_limit() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = std::path::Path::new("/sys/fs/cgroup").join(group);
    let limit = |folder: &std::path::Path| {
        std::fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse::<u64>().ok()
    };
    folder
        .ancestors()
        .take_while(|folder| folder.starts_with("/sys/fs/cgroup"))
        .filter_map(limit)
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read_in_bytes() {
        let text = "MemTotal:       24602620 kB\nMemFree:         1234 kB\n";
        assert_eq!(in_meminfo(text), Some(24_602_620 * 1024));
        assert_eq!(in_meminfo("MemFree: 3 kB\n"), None);
        assert!(total().is_some_and(|bytes| bytes > 1 << 20), "on this machine");
    }
}
