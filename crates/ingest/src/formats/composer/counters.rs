//! Names and units of the series of Composer's system profiler.
//!
//! Its "GB" of host memory are bytes / 512 and its "kB" of traffic bytes / 8; only GPU memory is in 1e9 bytes.

use rustc_hash::FxHashMap;
use trace_model::StrId;

use crate::quantity::RawDecimal;
use crate::timeline::columns::Columns;
use crate::warnings::Issue;

/// Description of a series.
#[derive(Debug, Clone, PartialEq)]
struct Meaning {
    metric: String,
    unit: &'static str,
    /// Factor for written values.
    factor: f64,
    is_cumulative: bool,
    device: Option<String>,
}

/// The same with interned texts: metric, unit, factor, whether it is cumulative, device.
type Interned = (StrId, StrId, f64, bool, StrId);

/// Names metric, unit and device of all samples that are known, and converts their values.
pub(super) fn name(columns: &mut Columns) {
    let mut known: FxHashMap<(StrId, StrId), Option<Interned>> = FxHashMap::default();
    let Columns { counters, strings, issues, .. } = columns;
    for row in 0..counters.len() {
        let key = (counters.name.get(row), counters.series.get(row));
        let meaning = *known.entry(key).or_insert_with(|| {
            let meaning = meaning(strings.get(key.0), strings.get(key.1))?;
            let device = meaning.device.map_or(StrId::NULL, |device| strings.intern(&device));
            Some((
                strings.intern(&meaning.metric),
                strings.intern(meaning.unit),
                meaning.factor,
                meaning.is_cumulative,
                device,
            ))
        });
        let Some((metric, unit, factor, is_cumulative, device)) = meaning else { continue };
        counters.metric.set(row, metric);
        counters.unit.set(row, unit);
        let value = RawDecimal::new(counters.value.get(row) * factor);
        let sample = value.and_then(|value| value.sample(strings.get(unit)));
        if sample.is_none() {
            issues.add(Issue::NumberOutOfBounds);
        }
        counters.value.set(row, sample.unwrap_or(f64::NAN));
        counters.is_cumulative.set(row, is_cumulative);
        counters.device.set(row, device);
    }
}

fn meaning(name: &str, series: &str) -> Option<Meaning> {
    let now = |metric: &str, unit, factor| Meaning {
        metric: metric.to_owned(),
        unit,
        factor,
        is_cumulative: false,
        device: None,
    };
    let since_boot = |metric: &str, unit, factor, device: &str| Meaning {
        is_cumulative: true,
        device: Some(device.to_owned()),
        ..now(metric, unit, factor)
    };
    if let Some(stat) = name.strip_prefix("memory/cuda/") {
        if stat == "alloc_retries" {
            return Some(now("gpu_alloc_retries", "count", 1.0));
        }
        let stat = stat.strip_suffix("_mem")?;
        return Some(now(&format!("gpu_memory_{stat}"), "bytes", 1e9));
    }
    if let Some(rest) = name.strip_prefix("disk/") {
        let (disk, field) = rest.rsplit_once('/')?;
        let (metric, unit) = match field {
            "read_bytes" => ("disk_read", "bytes"),
            "write_bytes" => ("disk_write", "bytes"),
            "read_count" => ("disk_read_ops", "count"),
            "write_count" => ("disk_write_ops", "count"),
            "read_time" => ("disk_read_time", "ms"),
            "write_time" => ("disk_write_time", "ms"),
            "busy_time" => ("disk_busy_time", "ms"),
            _ => return None,
        };
        return Some(since_boot(metric, unit, 1.0, disk));
    }
    if let Some(rest) = name.strip_prefix("network/") {
        let (card, field) = rest.rsplit_once('/')?;
        let metric = match field {
            "kb_sent" => "net_sent",
            "kb_recv" => "net_recv",
            _ => return None,
        };
        return Some(since_boot(metric, "bytes", 8.0, card));
    }
    match (name, series) {
        ("cpu", "cpu_percent") => Some(now("cpu_util", "percent", 1.0)),
        ("memory/virtual", "used_gb") => Some(now("host_memory_used", "bytes", 512.0)),
        ("memory/virtual", "available_gb") => Some(now("host_memory_free", "bytes", 512.0)),
        ("memory/swap", "used_gb") => Some(now("swap_used", "bytes", 512.0)),
        ("memory/swap", "free_gb") => Some(now("swap_free", "bytes", 512.0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_gives_each_series_one_metric_and_unit() {
        let meaning_of = |name, series| {
            meaning(name, series).map(|m| (m.metric, m.unit, m.factor, m.is_cumulative, m.device))
        };
        let text = str::to_owned;
        assert_eq!(
            meaning_of("memory/virtual", "used_gb"),
            Some((text("host_memory_used"), "bytes", 512.0, false, None))
        );
        assert_eq!(
            meaning_of("network/lo/kb_sent", "kb_sent"),
            Some((text("net_sent"), "bytes", 8.0, true, Some(text("lo"))))
        );
        assert_eq!(
            meaning_of("disk/mapper/root/busy_time", "field_name"),
            Some((text("disk_busy_time"), "ms", 1.0, true, Some(text("mapper/root"))))
        );
        assert_eq!(
            meaning_of("memory/cuda/peak_reserved_mem", "peak_reserved_mem"),
            Some((text("gpu_memory_peak_reserved"), "bytes", 1e9, false, None))
        );
        for (name, series) in [("user/queue", "depth"), ("disk/vda", "x"), ("network/lo/x", "x")] {
            assert_eq!(meaning_of(name, series), None, "{name}");
        }
    }
}
