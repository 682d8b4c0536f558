//! The memory available to this process.

use std::fs;

/// Half of the memory that this process may use; `None` if the system does not report it.
pub(crate) fn half_of_available_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_bytes(&text));
    // Containers: the limit of their control group, if there is one.
    let group = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let group = group.iter().find_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok());
    machine.into_iter().chain(group).min().map(|bytes: u64| bytes / 2)
}

/// `MemTotal` of `/proc/meminfo` in bytes.
fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::total_bytes;

    #[test]
    fn total_bytes_reads_meminfo() {
        let text = "MemTotal:       24599184 kB\nMemFree:        12 kB\n";
        assert_eq!(total_bytes(text), Some(24_599_184 * 1024));
        assert_eq!(total_bytes("MemFree: 12 kB"), None);
    }
}
