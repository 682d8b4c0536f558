//! `roofline_calls` and `roofline_devices`: calls and devices as rows.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, StringDictionaryBuilder,
};
use datafusion::arrow::datatypes::Int32Type;
use datafusion::common::exec_datafusion_err;
use datafusion::error::Result;
use trace_model::RecordBatch;

use super::json::Json;
use super::load::{Call, Loaded, Units, load};
use crate::columns::{Names, ints, names};
use crate::devices::{DTYPES, Devices, Peaks};
use crate::native::Inputs;

/// The table of the user before the shipped one.
fn table(inputs: &Inputs<'_>) -> Result<Devices> {
    Devices::with(inputs.text("device_table")?).map_err(|mistakes| {
        let words: Vec<String> = mistakes
            .iter()
            .map(|mistake| format!("line {}: {}", mistake.line, mistake.message))
            .collect();
        exec_datafusion_err!("the table of devices: {}", words.join("; "))
    })
}

/// What a call is measured against.
#[derive(Debug, Clone, Copy, Default)]
struct Bounds {
    dtype: Option<&'static str>,
    /// Data sheet.
    peak_tflops: Option<f64>,
    achievable_tflops: Option<f64>,
    peak_gb_per_s: Option<f64>,
    achievable_gb_per_s: Option<f64>,
    is_compute: Option<bool>,
    /// At achievable rates.
    roofline_ns: Option<f64>,
    /// By the data sheet, with all that a cache can hold in it before and after: nothing can be faster.
    limit_ns: Option<f64>,
}

fn bounds(call: &Call, has_tf32: bool, peaks: Option<&Peaks>) -> Bounds {
    let (cost, units) = (&call.cost, call.units);
    let is_product = cost.kind.is_product();
    let dtype = cost.dtype.name();
    // Products of 32-bit floats: which unit, the kernels' names say.
    let dtype = match (dtype, units) {
        (Some("fp32"), Units::Matrix) if is_product && has_tf32 => Some("tf32"),
        (Some("fp32"), Units::Unknown) if is_product && has_tf32 => None,
        (dtype, _) => dtype,
    };
    let Some(peaks) = peaks else { return Bounds { dtype, ..Bounds::default() } };
    let peak = dtype.filter(|_| is_product).and_then(|dtype| peaks.tflops.get(dtype).copied());
    if (is_product && peak.is_none()) || call.is_fast {
        return Bounds { dtype, peak_tflops: peak, ..Bounds::default() };
    }
    let achievable_tflops = peak.map(|peak| peak * peaks.achievable_tflops_ratio);
    let achievable_gb_per_s = peaks.memory_gb_per_s * peaks.achievable_memory_ratio;
    // 10^12 operations and 10^9 bytes a second, in nanoseconds.
    let compute_ns = |tflops: Option<f64>| tflops.map_or(0.0, |tflops| cost.flops / tflops / 1e3);
    let memory_ns = cost.bytes() / achievable_gb_per_s;
    let uncached = (cost.bytes() - 2.0 * peaks.cache_bytes).max(0.0);
    let by_compute = compute_ns(achievable_tflops);
    Bounds {
        dtype,
        peak_tflops: peak,
        achievable_tflops,
        peak_gb_per_s: Some(peaks.memory_gb_per_s),
        achievable_gb_per_s: Some(achievable_gb_per_s),
        is_compute: Some(by_compute > memory_ns),
        roofline_ns: Some(by_compute.max(memory_ns)),
        limit_ns: Some(compute_ns(peak).max(uncached / peaks.memory_gb_per_s)),
    }
}

pub(super) fn calls(inputs: &Inputs<'_>) -> Result<RecordBatch> {
    let table = table(inputs)?;
    let loaded = load(inputs)?;
    let Loaded { calls, op_names, dims, types, modules, devices } = &loaded;
    let peaks = |call: &Call| {
        let product = devices.get(&(call.rank, call.device))?;
        table.find(&product.name, product.sm_count)
    };
    let found: Vec<Option<&Peaks>> = calls.iter().map(peaks).collect();
    let bounds: Vec<Bounds> = calls
        .iter()
        .zip(&found)
        .map(|(call, peaks)| {
            let has_tf32 =
                devices.get(&(call.rank, call.device)).is_some_and(|product| product.has_tf32);
            bounds(call, has_tf32, *peaks)
        })
        .collect();

    let shapes: Vec<Option<String>> = dims.texts.iter().map(|dims| in_words(dims)).collect();
    let short = |value: &dyn Fn(&Call) -> i64| -> ArrayRef {
        Arc::new(calls.iter().map(|call| Some(value(call) as i32)).collect::<Int32Array>())
    };
    let long = |value: &dyn Fn(&Call) -> Option<i64>| -> ArrayRef {
        Arc::new(calls.iter().map(value).collect::<Int64Array>())
    };
    let float = |value: &dyn Fn(&Call) -> Option<f64>| -> ArrayRef {
        Arc::new(calls.iter().map(value).collect::<Float64Array>())
    };
    let bound = |value: &dyn Fn(&Bounds) -> Option<f64>| -> ArrayRef {
        Arc::new(bounds.iter().map(value).collect::<Float64Array>())
    };
    let named = |names: &Names, id: &dyn Fn(&Call) -> u32| {
        texts(calls.iter().map(|call| names.texts.get(id(call) as usize).map(String::as_str)))
    };
    let gemm = |value: &dyn Fn(&super::cost::Gemm) -> f64| {
        float(&|call| call.cost.gemm.as_ref().map(value))
    };
    batch(vec![
        ("rank", short(&|call| call.rank)),
        ("device", short(&|call| call.device)),
        ("stream", short(&|call| call.stream)),
        ("op", long(&|call| Some(call.op))),
        ("name", named(op_names, &|call| op_names.ids[call.row])),
        ("kind", texts(calls.iter().map(|call| Some(call.cost.kind.name())))),
        ("dtype", texts(bounds.iter().map(|bounds| bounds.dtype))),
        ("input_dims", named(dims, &|call| dims.ids[call.row])),
        (
            "shapes",
            texts(calls.iter().map(|call| shapes.get(dims.ids[call.row] as usize)?.as_deref())),
        ),
        ("input_types", named(types, &|call| types.ids[call.row])),
        ("details", texts(calls.iter().map(|call| Some(call.cost.details.as_str())))),
        ("pass", texts(calls.iter().map(|call| Some(call.pass.name())))),
        ("step", long(&|call| call.step)),
        ("module", named(modules, &|call| call.module)),
        ("queue_order", long(&|call| Some(call.queue_order))),
        ("ts_ns", long(&|call| Some(call.ts_ns))),
        ("kernel_ns", long(&|call| Some(call.kernel_ns))),
        ("kernel_count", long(&|call| Some(call.kernel_count))),
        ("idle_before_ns", long(&|call| Some(call.idle_before_ns))),
        ("flops", float(&|call| Some(call.cost.flops))),
        ("read_bytes", float(&|call| Some(call.cost.read_bytes))),
        ("written_bytes", float(&|call| Some(call.cost.written_bytes))),
        ("output_elements", float(&|call| Some(call.cost.output_elements))),
        ("gemm_batch", gemm(&|gemm| gemm.batch)),
        ("gemm_m", gemm(&|gemm| gemm.m)),
        ("gemm_n", gemm(&|gemm| gemm.n)),
        ("gemm_k", gemm(&|gemm| gemm.k)),
        (
            "is_aligned",
            Arc::new(
                calls
                    .iter()
                    .map(|call| call.cost.gemm.as_ref().map(|gemm| gemm.is_aligned))
                    .collect::<BooleanArray>(),
            ),
        ),
        (
            "tensor_cores",
            texts(calls.iter().map(|call| {
                Some(match call.units {
                    Units::Matrix => "yes",
                    Units::Ordinary => "no",
                    Units::Unknown => "unknown",
                })
            })),
        ),
        (
            "is_fast_convolution",
            Arc::new(calls.iter().map(|call| Some(call.is_fast)).collect::<BooleanArray>()),
        ),
        ("peak", texts(found.iter().map(|peaks| peaks.map(|peaks| peaks.name.as_str())))),
        ("peak_tflops", bound(&|bounds| bounds.peak_tflops)),
        ("achievable_tflops", bound(&|bounds| bounds.achievable_tflops)),
        ("peak_gb_per_s", bound(&|bounds| bounds.peak_gb_per_s)),
        ("achievable_gb_per_s", bound(&|bounds| bounds.achievable_gb_per_s)),
        (
            "is_compute_bound",
            Arc::new(bounds.iter().map(|bounds| bounds.is_compute).collect::<BooleanArray>()),
        ),
        ("roofline_ns", bound(&|bounds| bounds.roofline_ns)),
        ("limit_ns", bound(&|bounds| bounds.limit_ns)),
    ])
}

/// `[[64, 32], [32, 16], []]` as `64x32, 32x16`.
pub(super) fn in_words(dims: &str) -> Option<String> {
    let inputs = Json::first(dims)?;
    let shape = |input: &Json| {
        let lengths: Option<Vec<String>> =
            input.list()?.iter().map(|length| Some(length.number()?.to_string())).collect();
        lengths.filter(|lengths| !lengths.is_empty()).map(|lengths| lengths.join("x"))
    };
    let shapes: Vec<String> = inputs.list()?.iter().filter_map(shape).collect();
    Some(shapes.join(", "))
}

pub(super) const DEVICES: &[(&str, &str)] = &[(
    "devices",
    "SELECT rank, device, name, sm_count FROM device_properties ORDER BY rank, device",
)];

/// One row a device and type.
pub(super) fn devices(inputs: &Inputs<'_>) -> Result<RecordBatch> {
    let table = table(inputs)?;
    let used = inputs.batch("devices")?;
    let (rank, device) = (ints(used, "rank")?, ints(used, "device")?);
    let (sm_count, product) = (ints(used, "sm_count")?, names(used, "name")?);
    let known = |row: usize| {
        let count = (!sm_count.is_null(row)).then(|| sm_count.value(row));
        table.find(product.get(row)?, count)
    };
    let rows: Vec<(usize, Option<&Peaks>, Option<&str>)> = (0..used.num_rows())
        .flat_map(|row| {
            let peaks = known(row);
            let has = |dtype: &&str| peaks.is_some_and(|peaks| peaks.tflops.contains_key(*dtype));
            let mut dtypes: Vec<Option<&str>> = DTYPES.into_iter().filter(has).map(Some).collect();
            if peaks.is_none() {
                dtypes.push(None);
            }
            dtypes.into_iter().map(move |dtype| (row, peaks, dtype))
        })
        .collect();
    let float = |value: &dyn Fn(&Peaks, Option<&str>) -> Option<f64>| -> ArrayRef {
        let values = rows.iter().map(|&(_, peaks, dtype)| value(peaks?, dtype));
        Arc::new(values.collect::<Float64Array>())
    };
    let tflops = |peaks: &Peaks, dtype: Option<&str>| peaks.tflops.get(dtype?).copied();
    let short = |values: &Int64Array| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(values.value(row.0) as i32)).collect::<Int32Array>())
    };
    let sources: Vec<Option<String>> =
        rows.iter().map(|(_, peaks, _)| Some(peaks.as_ref()?.sources.join(", "))).collect();
    batch(vec![
        ("rank", short(&rank)),
        ("device", short(&device)),
        ("name", texts(rows.iter().map(|row| product.get(row.0)))),
        ("peak", texts(rows.iter().map(|row| row.1.map(|peaks| peaks.name.as_str())))),
        ("dtype", texts(rows.iter().map(|row| row.2))),
        ("peak_tflops", float(&tflops)),
        (
            "achievable_tflops",
            float(&|peaks, dtype| Some(tflops(peaks, dtype)? * peaks.achievable_tflops_ratio)),
        ),
        ("peak_gb_per_s", float(&|peaks, _| Some(peaks.memory_gb_per_s))),
        (
            "achievable_gb_per_s",
            float(&|peaks, _| Some(peaks.memory_gb_per_s * peaks.achievable_memory_ratio)),
        ),
        ("cache_bytes", float(&|peaks, _| Some(peaks.cache_bytes))),
        ("sources", texts(sources.iter().map(Option::as_deref))),
    ])
}

pub(super) fn texts<'t>(values: impl Iterator<Item = Option<&'t str>>) -> ArrayRef {
    let mut texts = StringDictionaryBuilder::<Int32Type>::new();
    for value in values {
        texts.append_option(value.filter(|value| !value.is_empty()));
    }
    Arc::new(texts.finish())
}

pub(super) fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )?)
}
