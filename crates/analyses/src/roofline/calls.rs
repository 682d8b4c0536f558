//! `roofline_calls`: calls of operators with their cost and the limits of their device.

use std::collections::BTreeMap;

use query::BatchBuilder;
use query::rust_view::{Result, ViewInputs};
use trace_model::RecordBatch;

use super::cost::Gemm;
use super::device_peaks::{DeviceTable, Peaks};
use super::load::{CallTable, MatrixUnit, OperatorCall, load_calls};
use super::shapes::format_shapes;

/// The limits of a call.
#[derive(Debug, Clone, Copy, Default)]
struct Bounds {
    dtype: Option<&'static str>,
    /// From the data sheet.
    peak_tflops: Option<f64>,
    achievable_tflops: Option<f64>,
    peak_gb_per_s: Option<f64>,
    achievable_gb_per_s: Option<f64>,
    is_compute: Option<bool>,
    /// Least time at achievable rates.
    roofline_ns: Option<f64>,
    /// Least time by the data sheet, if the cache holds all it can before and after the call: nothing can be faster.
    limit_ns: Option<f64>,
}

fn bounds(call: &OperatorCall, has_tf32: bool, peaks: Option<&Peaks>) -> Bounds {
    let (cost, matrix_unit) = (&call.cost, call.matrix_unit);
    let is_product = cost.class.is_product();
    let dtype = cost.dtype.name();
    // For products of 32-bit floats, the names of the kernels tell the unit.
    let dtype = match (dtype, matrix_unit) {
        (Some("fp32"), MatrixUnit::Used) if is_product && has_tf32 => Some("tf32"),
        (Some("fp32"), MatrixUnit::Unknown) if is_product && has_tf32 => None,
        (dtype, _) => dtype,
    };
    let Some(peaks) = peaks else { return Bounds { dtype, ..Bounds::default() } };
    let peak = dtype.filter(|_| is_product).and_then(|dtype| peaks.tflops.get(dtype).copied());
    if (is_product && peak.is_none()) || call.is_fast_convolution {
        return Bounds { dtype, peak_tflops: peak, ..Bounds::default() };
    }
    let achievable_tflops = peak.map(|peak| peak * peaks.achievable_tflops_ratio);
    let achievable_gb_per_s = peaks.memory_gb_per_s * peaks.achievable_memory_ratio;
    // In nanoseconds, from 10^12 operations and 10^9 bytes per second.
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
    let table = DeviceTable::from_inputs(inputs)?;
    let loaded = load_calls(inputs)?;
    let CallTable { calls, op_names, dims, types, modules, devices } = &loaded;
    let devices: BTreeMap<(i64, i64), (bool, Option<&Peaks>)> = devices
        .iter()
        .map(|(&device, model)| {
            (device, (model.has_tf32, table.find(&model.name, model.sm_count, model.memory_bytes)))
        })
        .collect();
    // Shapes repeat: each is formatted once.
    let mut shapes: Vec<Option<String>> = vec![None; dims.texts.len()];
    for call in calls {
        let id = dims.ids[call.row] as usize;
        if let Some(shapes) = shapes.get_mut(id) {
            shapes.get_or_insert_with(|| format_shapes(&dims.texts[id]).unwrap_or_default());
        }
    }
    let rows: Vec<CallRow<'_>> = calls
        .iter()
        .filter(|call| {
            let device = devices.get(&(call.rank, call.device));
            !may_be_windowed(call, device.and_then(|(_, peaks)| *peaks))
        })
        .map(|call| {
            let device = devices.get(&(call.rank, call.device));
            let (has_tf32, peaks) = device.copied().unwrap_or_default();
            let shapes = shapes.get(dims.ids[call.row] as usize);
            let shapes = shapes.and_then(Option::as_deref);
            CallRow { call, bounds: bounds(call, has_tf32, peaks), peaks, shapes }
        })
        .collect();
    BatchBuilder::of(&rows)
        .int32("rank", |r| r.call.rank)
        .int32("device", |r| r.call.device)
        .int32("stream", |r| r.call.stream)
        .int("op", |r| Some(r.call.op))
        .text("name", |r| non_empty(op_names.get(r.call.row)))
        .text("kind", |r| Some(r.call.cost.class.name()))
        .text("dtype", |r| r.bounds.dtype)
        .text("input_dims", |r| non_empty(dims.get(r.call.row)))
        .text("shapes", |r| non_empty(r.shapes))
        .text("input_types", |r| non_empty(types.get(r.call.row)))
        .text("details", |r| non_empty(Some(r.call.cost.details.as_str())))
        .text("pass", |r| Some(r.call.pass.name()))
        .int("step", |r| r.call.step)
        .text("module", |r| {
            non_empty(modules.texts.get(r.call.module as usize).map(String::as_str))
        })
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
            Some(match r.call.matrix_unit {
                MatrixUnit::Used => "yes",
                MatrixUnit::Unused => "no",
                MatrixUnit::Unknown => "unknown",
            })
        })
        .flag("is_fast_convolution", |r| r.call.is_fast_convolution)
        .text("peak", |r| non_empty(r.peaks.map(|peaks| peaks.name.as_str())))
        .float("peak_tflops", |r| r.bounds.peak_tflops)
        .float("achievable_tflops", |r| r.bounds.achievable_tflops)
        .float("peak_gb_per_s", |r| r.bounds.peak_gb_per_s)
        .float("achievable_gb_per_s", |r| r.bounds.achievable_gb_per_s)
        .flag("is_compute_bound", |r| r.bounds.is_compute)
        .float("roofline_ns", |r| r.bounds.roofline_ns)
        .float("limit_ns", |r| r.bounds.limit_ns)
        .finish()
}

/// Whether attention over a paged cache may have a sliding window, which no trace tells: a call cannot have read all of the
/// cache if that is faster than the device. No cache of the device holds it, as the other layers are read in between.
fn may_be_windowed(call: &OperatorCall, peaks: Option<&Peaks>) -> bool {
    call.cost.paged.is_some()
        && peaks
            .is_none_or(|peaks| call.cost.bytes() / peaks.memory_gb_per_s > call.kernel_ns as f64)
}

/// A call and its limits.
struct CallRow<'a> {
    call: &'a OperatorCall,
    bounds: Bounds,
    peaks: Option<&'a Peaks>,
    shapes: Option<&'a str>,
}

impl CallRow<'_> {
    fn gemm(&self) -> Option<&Gemm> {
        self.call.cost.gemm.as_ref()
    }
}

/// The text, unless it is empty.
pub(super) fn non_empty(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
