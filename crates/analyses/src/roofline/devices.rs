//! `roofline_devices`: the peaks that the table of devices gives for the devices of the run, or the range that is derived for
//! devices that it does not list.

use std::collections::BTreeMap;

use query::BatchBuilder;
use query::columns::{floats, get, ints, names};
use query::rust_view::{InputQueries, Result, ViewInputs};
use trace_model::RecordBatch;

use super::calls::non_empty;
use super::derived_peaks::{DerivedPeaks, RateRange, derive};
use super::device_peaks::{Chip, DTYPES, DeviceTable, Peaks};

pub(super) const INPUTS: InputQueries = &[
    (
        "devices",
        "SELECT rank, device, name, vendor, sm_count, total_memory_bytes, compute_major, compute_minor
         FROM device_properties ORDER BY rank, device",
    ),
    // Long enough that launching and rounding of timestamps do not matter.
    (
        "observed",
        "SELECT rank, device, dtype, max(flops / kernel_ns) / 1000 AS tflops
         FROM roofline_calls
         WHERE kind = 'gemm' AND dtype IS NOT NULL AND flops >= 1e9 AND kernel_ns >= 50000
         GROUP BY rank, device, dtype",
    ),
];

/// Where the rates of a device come from.
enum Source<'a> {
    Listed(&'a Peaks),
    Derived(DerivedPeaks),
    Unknown,
}

impl Source<'_> {
    fn dtypes(&self) -> Vec<Option<&'static str>> {
        let has = |dtype: &&str| match self {
            Self::Listed(peaks) => peaks.tflops.contains_key(*dtype),
            Self::Derived(peaks) => peaks.tflops.contains_key(*dtype),
            Self::Unknown => false,
        };
        match self {
            Self::Unknown => vec![None],
            _ => DTYPES.into_iter().filter(has).map(Some).collect(),
        }
    }

    fn name(&self) -> Option<&'static str> {
        match self {
            Self::Listed(peaks) if peaks.is_own => Some("own file"),
            Self::Listed(_) => Some("table"),
            Self::Derived(_) => Some("derived"),
            Self::Unknown => None,
        }
    }

    fn peak_tflops(&self, dtype: &str) -> Option<RateRange> {
        match self {
            Self::Listed(peaks) => peaks.tflops.get(dtype).copied().map(RateRange::exact),
            Self::Derived(peaks) => peaks.tflops.get(dtype).copied(),
            Self::Unknown => None,
        }
    }

    fn achievable_tflops(&self, dtype: &str) -> Option<RateRange> {
        match self {
            Self::Listed(peaks) => {
                let peak = peaks.tflops.get(dtype)?;
                Some(RateRange::exact(peak * peaks.achievable_tflops_ratio))
            }
            Self::Derived(peaks) => peaks.achievable_tflops(dtype),
            Self::Unknown => None,
        }
    }

    fn peak_gb_per_s(&self) -> Option<RateRange> {
        match self {
            Self::Listed(peaks) => Some(RateRange::exact(peaks.memory_gb_per_s)),
            Self::Derived(peaks) => Some(peaks.gb_per_s),
            Self::Unknown => None,
        }
    }

    fn achievable_gb_per_s(&self) -> Option<RateRange> {
        match self {
            Self::Listed(peaks) => {
                Some(RateRange::exact(peaks.memory_gb_per_s * peaks.achievable_memory_ratio))
            }
            Self::Derived(peaks) => Some(peaks.achievable_gb_per_s()),
            Self::Unknown => None,
        }
    }

    fn listed(&self) -> Option<&Peaks> {
        match self {
            Self::Listed(peaks) => Some(peaks),
            _ => None,
        }
    }

    fn text(&self) -> Option<String> {
        match self {
            Self::Listed(peaks) => Some(peaks.sources.join(", ")),
            Self::Derived(peaks) => Some(peaks.basis.clone()),
            Self::Unknown => None,
        }
    }
}

/// A device, and what is known of it.
struct Device<'a> {
    rank: i64,
    ordinal: i64,
    name: Option<String>,
    source: Source<'a>,
    sources: Option<String>,
    observed: BTreeMap<&'static str, f64>,
}

fn read<'a>(inputs: &ViewInputs<'_>, table: &'a DeviceTable) -> Result<Vec<Device<'a>>> {
    let seen = inputs.batch("observed")?;
    let (rank, device) = (ints(seen, "rank")?, ints(seen, "device")?);
    let (dtype, tflops) = (names(seen, "dtype")?, floats(seen, "tflops")?);
    let mut observed: BTreeMap<(i64, i64), BTreeMap<&'static str, f64>> = BTreeMap::new();
    for row in 0..seen.num_rows() {
        let dtype = DTYPES.into_iter().find(|known| dtype.get(row) == Some(known));
        if let Some(dtype) = dtype {
            let rates = observed.entry((rank.value(row), device.value(row))).or_default();
            rates.insert(dtype, tflops.value(row));
        }
    }
    let used = inputs.batch("devices")?;
    let (rank, device) = (ints(used, "rank")?, ints(used, "device")?);
    let (model, vendor) = (names(used, "name")?, names(used, "vendor")?);
    let (sm_count, memory) = (ints(used, "sm_count")?, ints(used, "total_memory_bytes")?);
    let (major, minor) = (ints(used, "compute_major")?, ints(used, "compute_minor")?);
    let devices = (0..used.num_rows()).map(|row| {
        let (rank, device) = (rank.value(row), device.value(row));
        let name = model.get(row).unwrap_or_default();
        let sm_count = get(&sm_count, row);
        let observed = observed.remove(&(rank, device)).unwrap_or_default();
        let derived = || {
            let compute = get(&major, row).zip(get(&minor, row))?;
            let sm_count = sm_count.filter(|&count| count > 0)?;
            let is_nvidia = vendor.get(row) == Some("nvidia");
            is_nvidia.then(|| derive(Chip { compute, sm_count }, name, &observed)).flatten()
        };
        let source = match table.find(name, sm_count, get(&memory, row)) {
            Some(peaks) => Source::Listed(peaks),
            None => derived().map_or(Source::Unknown, Source::Derived),
        };
        let name = non_empty(Some(name)).map(str::to_owned);
        Device { rank, ordinal: device, name, sources: source.text(), source, observed }
    });
    Ok(devices.collect())
}

/// One row per device and type.
pub(super) fn devices(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let table = DeviceTable::from_inputs(inputs)?;
    let devices = read(inputs, &table)?;
    let rows: Vec<(&Device<'_>, Option<&str>)> = devices
        .iter()
        .flat_map(|device| device.source.dtypes().into_iter().map(move |dtype| (device, dtype)))
        .collect();
    let peak = |r: &(&Device<'_>, Option<&str>)| r.0.source.peak_tflops(r.1?);
    let achievable = |r: &(&Device<'_>, Option<&str>)| r.0.source.achievable_tflops(r.1?);
    let listed = |r: &(&Device<'_>, Option<&str>), range: Option<RateRange>| {
        range.filter(|_| r.0.source.listed().is_some()).map(|range| range.low)
    };
    BatchBuilder::of(&rows)
        .int32("rank", |r| r.0.rank)
        .int32("device", |r| r.0.ordinal)
        .text("name", |r| r.0.name.as_deref())
        .text("peak", |r| non_empty(r.0.source.listed().map(|peaks| peaks.name.as_str())))
        .text("peak_source", |r| r.0.source.name())
        .text("dtype", |r| r.1)
        .float("peak_tflops", |r| listed(r, peak(r)))
        .float("achievable_tflops", |r| listed(r, achievable(r)))
        .float("peak_gb_per_s", |r| listed(r, r.0.source.peak_gb_per_s()))
        .float("achievable_gb_per_s", |r| listed(r, r.0.source.achievable_gb_per_s()))
        .float("cache_bytes", |r| Some(r.0.source.listed()?.cache_bytes))
        .float("base_clock_mhz", |r| r.0.source.listed()?.base_clock_mhz)
        .float("peak_low_tflops", |r| Some(peak(r)?.low))
        .float("peak_high_tflops", |r| Some(peak(r)?.high))
        .float("achievable_low_tflops", |r| Some(achievable(r)?.low))
        .float("achievable_high_tflops", |r| Some(achievable(r)?.high))
        .float("peak_low_gb_per_s", |r| Some(r.0.source.peak_gb_per_s()?.low))
        .float("peak_high_gb_per_s", |r| Some(r.0.source.peak_gb_per_s()?.high))
        .float("achievable_low_gb_per_s", |r| Some(r.0.source.achievable_gb_per_s()?.low))
        .float("achievable_high_gb_per_s", |r| Some(r.0.source.achievable_gb_per_s()?.high))
        .float("observed_tflops", |r| r.0.observed.get(r.1?).copied())
        .text("sources", |r| non_empty(r.0.sources.as_deref()))
        .finish()
}
