//! `roofline_devices`: the peaks that the table of devices gives for the devices of the run.

use std::collections::BTreeMap;

use query::BatchBuilder;
use query::columns::{get, ints, names};
use query::rust_view::{InputQueries, Result, ViewInputs};
use trace_model::RecordBatch;

use super::calls::non_empty;
use super::device_peaks::{DTYPES, DeviceTable, Peaks};

pub(super) const INPUTS: InputQueries = &[(
    "devices",
    "SELECT rank, device, name, sm_count, total_memory_bytes FROM device_properties ORDER BY rank, device",
)];

/// One row per device and type.
pub(super) fn devices(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let table = DeviceTable::from_inputs(inputs)?;
    let used = inputs.batch("devices")?;
    let (rank, device) = (ints(used, "rank")?, ints(used, "device")?);
    let (sm_count, model) = (ints(used, "sm_count")?, names(used, "name")?);
    let memory = ints(used, "total_memory_bytes")?;
    let peaks_of = |row: usize| {
        table.find(model.get(row).unwrap_or_default(), get(&sm_count, row), get(&memory, row))
    };
    let rows: Vec<(usize, Option<&Peaks>, Option<&str>)> = (0..used.num_rows())
        .flat_map(|row| {
            let peaks = peaks_of(row);
            let has = |dtype: &&str| peaks.is_some_and(|peaks| peaks.tflops.contains_key(*dtype));
            let mut dtypes: Vec<Option<&str>> = DTYPES.into_iter().filter(has).map(Some).collect();
            if peaks.is_none() {
                dtypes.push(None);
            }
            dtypes.into_iter().map(move |dtype| (row, peaks, dtype))
        })
        .collect();
    let sources: BTreeMap<&str, String> = rows
        .iter()
        .filter_map(|(_, peaks, _)| peaks.map(|p| (p.name.as_str(), p.sources.join(", "))))
        .collect();
    let tflops = |peaks: &Peaks, dtype: Option<&str>| peaks.tflops.get(dtype?).copied();
    BatchBuilder::of(&rows)
        .int32("rank", |r| rank.value(r.0))
        .int32("device", |r| device.value(r.0))
        .text("name", |r| non_empty(model.get(r.0)))
        .text("peak", |r| non_empty(r.1.map(|peaks| peaks.name.as_str())))
        .text("dtype", |r| r.2)
        .float("peak_tflops", |r| tflops(r.1?, r.2))
        .float("achievable_tflops", |r| {
            let peaks = r.1?;
            Some(tflops(peaks, r.2)? * peaks.achievable_tflops_ratio)
        })
        .float("peak_gb_per_s", |r| Some(r.1?.memory_gb_per_s))
        .float("achievable_gb_per_s", |r| {
            let peaks = r.1?;
            Some(peaks.memory_gb_per_s * peaks.achievable_memory_ratio)
        })
        .float("cache_bytes", |r| Some(r.1?.cache_bytes))
        .text("sources", |r| non_empty(Some(sources.get(r.1?.name.as_str())?)))
        .finish()
}
