//! Names and units of Determined's series, as all samplers share them.

/// A metric with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    /// Factor for values, and its condition.
    pub(super) scale: Scale,
}

/// In which unit values come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// As it should be.
    One,
    /// In GB.
    Gigabytes,
    /// In bytes; but in GB in rows that Determined's optional migration copied from the old table.
    BytesOrGigabytes,
    /// In bytes/s; but in Gbit/s in the old generation and in such rows.
    BytesOrGigabits,
}

pub(super) const GIGABYTE: f64 = 1e9;
/// Bytes in a gigabit.
pub(super) const GIGABIT: f64 = 1.25e8;
/// No machine has less free memory than this many bytes, nor more than this many GB.
const GIGABYTES_BELOW: f64 = 1e6;

impl Scale {
    /// Returns whether a value of free memory is in GB.
    pub(super) fn is_gigabytes(self, value: f64) -> bool {
        self == Self::BytesOrGigabytes && value.abs() < GIGABYTES_BELOW
    }
}

/// The metric of a series; `None` if we do not know it.
pub(super) fn metric(name: &str) -> Option<Metric> {
    let (name, unit, scale) = match name {
        "cpu_util_simple" => ("cpu_util", "percent", Scale::One),
        "gpu_util" => ("gpu_util", "percent", Scale::One),
        "gpu_free_memory" => ("gpu_memory_free", "bytes", Scale::One),
        "free_memory" => ("host_memory_free", "bytes", Scale::Gigabytes),
        "memory_free" => ("host_memory_free", "bytes", Scale::BytesOrGigabytes),
        "net_throughput_sent" => ("net_sent", "bytes/s", Scale::BytesOrGigabits),
        "net_throughput_recv" => ("net_recv", "bytes/s", Scale::BytesOrGigabits),
        "disk_throughput_read" => ("disk_read", "bytes/s", Scale::One),
        "disk_throughput_write" => ("disk_write", "bytes/s", Scale::One),
        "disk_iops" => ("disk_iops", "operations/s", Scale::One),
        "disk_util" => ("disk_space_used", "percent", Scale::One),
        "samples_per_second" => ("throughput", "samples/s", Scale::One),
        _ => return None,
    };
    Some(Metric { name, unit, scale })
}
