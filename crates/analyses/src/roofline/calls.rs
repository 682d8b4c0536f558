//! `roofline_calls` and `roofline_devices`: calls and devices as rows.

use std::collections::BTreeMap;

use query::rust_view::Result;
use query::view_error;
use trace_model::RecordBatch;

use super::cost::Gemm;
use super::json::Json;
use super::load::{Call, Loaded, Units, load};
use crate::devices::{DTYPES, Devices, Peaks};
use query::BatchBuilder;
use query::columns::{get, ints, names};
use query::rust_view::ViewInputs;

/// The table of the user before the shipped one.
fn table(inputs: &ViewInputs<'_>) -> Result<Devices> {
    Devices::with(inputs.text("device_table")?).map_err(|mistakes| {
        let words: Vec<String> = mistakes
            .iter()
            .map(|mistake| format!("line {}: {}", mistake.line, mistake.message))
            .collect();
        view_error!("the table of devices: {}", words.join("; "))
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

pub(super) fn calls(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let table = table(inputs)?;
    let loaded = load(inputs)?;
    let Loaded { calls, op_names, dims, types, modules, devices } = &loaded;
    let devices: BTreeMap<(i64, i64), (bool, Option<&Peaks>)> = devices
        .iter()
        .map(|(&place, product)| {
            (place, (product.has_tf32, table.find(&product.name, product.sm_count)))
        })
        .collect();
    // Shapes repeat: each is put into words once.
    let mut shapes: Vec<Option<String>> = vec![None; dims.texts.len()];
    for call in calls {
        let id = dims.ids[call.row] as usize;
        if let Some(shapes) = shapes.get_mut(id) {
            shapes.get_or_insert_with(|| in_words(&dims.texts[id]).unwrap_or_default());
        }
    }
    let rows: Vec<Row<'_>> = calls
        .iter()
        .map(|call| {
            let device = devices.get(&(call.rank, call.device));
            let (has_tf32, peaks) = device.copied().unwrap_or_default();
            let shapes = shapes.get(dims.ids[call.row] as usize);
            let shapes = shapes.and_then(Option::as_deref);
            Row { call, bounds: bounds(call, has_tf32, peaks), peaks, shapes }
        })
        .collect();
    BatchBuilder::of(&rows)
        .int32("rank", |r| r.call.rank)
        .int32("device", |r| r.call.device)
        .int32("stream", |r| r.call.stream)
        .int("op", |r| Some(r.call.op))
        .text("name", |r| told(op_names.get(r.call.row)))
        .text("kind", |r| Some(r.call.cost.kind.name()))
        .text("dtype", |r| r.bounds.dtype)
        .text("input_dims", |r| told(dims.get(r.call.row)))
        .text("shapes", |r| told(r.shapes))
        .text("input_types", |r| told(types.get(r.call.row)))
        .text("details", |r| told(Some(r.call.cost.details.as_str())))
        .text("pass", |r| Some(r.call.pass.name()))
        .int("step", |r| r.call.step)
        .text("module", |r| told(modules.texts.get(r.call.module as usize).map(String::as_str)))
        .int("queue_order", |r| Some(r.call.queue_order))
        .int("ts_ns", |r| Some(r.call.ts_ns))
        .int("kernel_ns", |r| Some(r.call.kernel_ns))
        .int("kernel_count", |r| Some(r.call.kernel_count))
        .int("idle_before_ns", |r| Some(r.call.idle_before_ns))
        .float("flops", |r| Some(r.call.cost.flops))
        .float("read_bytes", |r| Some(r.call.cost.read_bytes))
        .float("written_bytes", |r| Some(r.call.cost.written_bytes))
        .float("output_elements", |r| Some(r.call.cost.output_elements))
        .float("gemm_batch", |r| Some(r.gemm()?.batch))
        .float("gemm_m", |r| Some(r.gemm()?.m))
        .float("gemm_n", |r| Some(r.gemm()?.n))
        .float("gemm_k", |r| Some(r.gemm()?.k))
        .flag("is_aligned", |r| Some(r.gemm()?.is_aligned))
        .text("tensor_cores", |r| {
            Some(match r.call.units {
                Units::Matrix => "yes",
                Units::Ordinary => "no",
                Units::Unknown => "unknown",
            })
        })
        .flag("is_fast_convolution", |r| r.call.is_fast)
        .text("peak", |r| told(r.peaks.map(|peaks| peaks.name.as_str())))
        .float("peak_tflops", |r| r.bounds.peak_tflops)
        .float("achievable_tflops", |r| r.bounds.achievable_tflops)
        .float("peak_gb_per_s", |r| r.bounds.peak_gb_per_s)
        .float("achievable_gb_per_s", |r| r.bounds.achievable_gb_per_s)
        .flag("is_compute_bound", |r| r.bounds.is_compute)
        .float("roofline_ns", |r| r.bounds.roofline_ns)
        .float("limit_ns", |r| r.bounds.limit_ns)
        .finish()
}

/// A call and what it is measured against.
struct Row<'a> {
    call: &'a Call,
    bounds: Bounds,
    peaks: Option<&'a Peaks>,
    shapes: Option<&'a str>,
}

impl Row<'_> {
    fn gemm(&self) -> Option<&Gemm> {
        self.call.cost.gemm.as_ref()
    }
}

/// A text that says something.
pub(super) fn told(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
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
pub(super) fn devices(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let table = table(inputs)?;
    let used = inputs.batch("devices")?;
    let (rank, device) = (ints(used, "rank")?, ints(used, "device")?);
    let (sm_count, product) = (ints(used, "sm_count")?, names(used, "name")?);
    let known = |row: usize| table.find(product.get(row)?, get(&sm_count, row));
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
    let sources: BTreeMap<&str, String> = rows
        .iter()
        .filter_map(|(_, peaks, _)| peaks.map(|p| (p.name.as_str(), p.sources.join(", "))))
        .collect();
    let tflops = |peaks: &Peaks, dtype: Option<&str>| peaks.tflops.get(dtype?).copied();
    BatchBuilder::of(&rows)
        .int32("rank", |r| rank.value(r.0))
        .int32("device", |r| device.value(r.0))
        .text("name", |r| told(product.get(r.0)))
        .text("peak", |r| told(r.1.map(|peaks| peaks.name.as_str())))
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
        .text("sources", |r| told(Some(sources.get(r.1?.name.as_str())?)))
        .finish()
}
