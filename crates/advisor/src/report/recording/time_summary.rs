//! Says what takes the time of a recording, in one or two sentences, so that a report says something if no rule fires.

use trace_model::number::{plural, thousands};
use trace_model::time::human;
use trace_model::{MetricTable, Row};

use crate::language::expr::{decimals, short};

/// The view of the operators and runtime calls that take the time of the host.
pub(crate) const HOST_TIME_VIEW: &str = "trace_host_time";

/// Views of one row per device, which rules read, too.
const BUSY_VIEW: &str = "gpu_utilization";
const ROOFLINE_VIEW: &str = "gpu_roofline";
/// The view of loops that index tensors element by element, with one row per rank.
const LOOP_VIEW: &str = "op_indexing_loops";

/// The summary leaves the host out if a GPU is busy for at least this share of the time.
const BUSY_RATIO: f64 = 0.5;
/// Smaller shares of the host's time are named only if nothing takes more.
const MIN_NAMED_RATIO: f64 = 0.1;
/// If all operators and calls together take less than this share, the summary names none of them.
const MIN_HOST_RATIO: f64 = 0.02;
/// The report states one efficiency for all matmuls if the shapes are known for at least this share of their time.
const MOSTLY_MODELED_RATIO: f64 = 0.9;
/// The summary names loops that index tensors if they take at least this share of the time.
const MIN_LOOP_RATIO: f64 = 0.05;
/// Fewer calls of `cudaFree` outside of operators count as start-up.
const MIN_FREES: i64 = 2;

/// Operators that fill tensors, without `aten::` and the mark of an operation in place.
const FILLS: [&str; 11] = [
    "normal",
    "uniform",
    "random",
    "bernoulli",
    "exponential",
    "randperm",
    "fill",
    "zero",
    "arange",
    "randint",
    "linspace",
];
/// No launch of a kernel takes this long: the call computes on the CPU.
const MIN_CALL_ON_CPU_NS: f64 = 1e6;
/// A first call that takes this many times as long as the others, and this long, contains start-up.
const FIRST_CALL_FACTOR: f64 = 20.0;
const MIN_FIRST_CALL_NS: f64 = 5e6;
/// Operators that compute the most.
const PRODUCTS: [&str; 9] = [
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "matmul",
    "mkldnn_convolution",
    "_slow_conv2d_forward",
    "mv",
    "dot",
];

/// Operators that call others count with them. Shorter ones cost the host more to call than the processor to compute.
const SMALL_OPERATOR_NS: f64 = 20_000.0;
/// Fewer operators are too few to judge their length.
const MIN_OPERATORS: i64 = 20;
/// The thresholds of OP020.
const CALLS_LEAD_RATIO: f64 = 0.6;
const MIN_CALLS: i64 = 200;
/// The view of the work of the processor, with one row per rank.
const CPU_VIEW: &str = "op_cpu_work";

/// What takes the time; `None` if neither host nor device was recorded.
pub(super) fn time_summary(tables: &[MetricTable], lists_gpu: bool) -> Option<String> {
    let device = busiest_device(tables);
    let is_busy = device.as_ref().is_some_and(|device| device.busy_ratio >= BUSY_RATIO);
    let host = HostTime::read(tables, lists_gpu).filter(|_| !is_busy).map(|host| host.text(tables));
    let texts: Vec<String> = device
        .map(|device| device.text)
        .into_iter()
        .chain(host.flatten())
        .chain(small_operators(tables))
        .collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

/// `700 operators take 9.5 us each`, for a program on the CPU whose operators are short.
fn small_operators(tables: &[MetricTable]) -> Option<String> {
    let row = Row::largest(MetricTable::rows_of(tables, CPU_VIEW), "outer_op_count")?;
    let count = row.count("outer_op_count");
    let mean_ns = row.number("op_ns")? / count as f64;
    // OP020 says it with more.
    let leads =
        row.number("call_overhead_ratio").unwrap_or(0.0) >= CALLS_LEAD_RATIO && count >= MIN_CALLS;
    let is_small = count >= MIN_OPERATORS && mean_ns < SMALL_OPERATOR_NS && !leads;
    (is_small && !row.is_true("has_device") && !row.is_true("uses_device")).then(|| {
        format!(
            "{} operators take {} each on average: calling them costs much of that. A larger batch, or `torch.compile`, saves \
             calls.",
            thousands(count),
            human(mean_ns),
        )
    })
}

fn percent(ratio: f64) -> String {
    format!("{} %", decimals(100.0 * ratio, 1))
}

/// The device that is busy for most of its window.
struct BusyDevice {
    busy_ratio: f64,
    text: String,
}

fn busiest_device(tables: &[MetricTable]) -> Option<BusyDevice> {
    let row = Row::largest(MetricTable::rows_of(tables, BUSY_VIEW), "busy_ratio")?;
    let busy_ratio = row.number("busy_ratio")?;
    let window = human(row.number("window_ns")?);
    let device = row.count("device");
    let mut text = format!("GPU {device} is busy for {} of the {window}", percent(busy_ratio));
    let roofline = MetricTable::rows_of(tables, ROOFLINE_VIEW)
        .find(|other| other.get("rank") == row.get("rank") && other.count("device") == device);
    if let Some(kernels) = roofline.and_then(|row| largest_kernels(&row)) {
        text.push_str(", ");
        text.push_str(&kernels);
    }
    text.push('.');
    Some(BusyDevice { busy_ratio, text })
}

/// `matmuls, convolutions and attention for 85 %, at 61 % of the roofline`.
fn largest_kernels(row: &Row<'_>) -> Option<String> {
    let [matmul, norm, gather] =
        ["matmul_ratio", "norm_ratio", "gather_ratio"].map(|name| row.number(name).unwrap_or(0.0));
    let kinds = [
        (matmul, "matmuls, convolutions and attention"),
        (norm, "norms"),
        (gather, "kernels that index or sort"),
    ];
    let (ratio, kind) = kinds.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    if ratio < MIN_NAMED_RATIO {
        return None;
    }
    let mut text = format!("{kind} for {}", percent(ratio));
    // More than the peak means that times or shapes are wrong (TQ009).
    let efficiency = row.number("matmul_efficiency_ratio").filter(|efficiency| *efficiency <= 1.0);
    if matmul >= ratio
        && let Some(efficiency) = efficiency
    {
        let modeled = row.number("matmul_modeled_ratio").unwrap_or(0.0);
        let known = if modeled < MOSTLY_MODELED_RATIO {
            format!(" (as far as shapes are known: {} of their time)", percent(modeled))
        } else {
            String::new()
        };
        text = format!("{text}, at {} of the roofline{known}", percent(efficiency));
    }
    Some(text)
}

/// The rows of [`HOST_TIME_VIEW`] of the rank whose host works most, most time first.
struct HostTime<'a> {
    rows: Vec<Row<'a>>,
    /// The recording lists a GPU of the machine.
    lists_gpu: bool,
}

impl<'a> HostTime<'a> {
    fn read(tables: &'a [MetricTable], lists_gpu: bool) -> Option<Self> {
        let rows = MetricTable::rows_of(tables, HOST_TIME_VIEW);
        let busiest = Row::largest(rows.clone(), "host_ratio")?;
        let is_of_rank = |row: &Row<'_>| row.get("rank") == busiest.get("rank");
        let mut rows: Vec<Row<'_>> = rows.filter(is_of_rank).collect();
        let self_ns = |row: &Row<'_>| row.number("self_ns").unwrap_or(0.0);
        rows.sort_by(|a, b| self_ns(b).total_cmp(&self_ns(a)));
        Some(Self { rows, lists_gpu })
    }

    fn text(&self, tables: &[MetricTable]) -> Option<String> {
        let first = self.rows.first()?;
        let host_ratio = first.number("host_ratio")?;
        let window = human(first.number("window_ns")?);
        let thread = match first.count("thread_count") {
            0 | 1 => "",
            _ => " on the busiest thread",
        };
        let named: Vec<&Row<'_>> = self
            .rows
            .iter()
            .filter(|row| row.number("self_ratio").unwrap_or(0.0) >= MIN_NAMED_RATIO)
            .take(2)
            .collect();
        let mut text = match named.as_slice() {
            [] => {
                let host = percent(host_ratio);
                let start = format!(
                    "The host is in operators and runtime calls for {host} of the {window}{thread}"
                );
                if host_ratio < MIN_HOST_RATIO {
                    format!("{start}: the rest of the time, it runs other code or waits.")
                } else {
                    let ratio = percent(first.number("self_ratio")?);
                    format!("{start}; most is in {}, {ratio}.", named_with_calls(first))
                }
            }
            [row] => {
                let ratio = percent(row.number("self_ratio")?);
                format!("{ratio} of the {window}{thread} are in {}.", named_with_calls(row))
            }
            [row, second, ..] => format!(
                "{} of the {window}{thread} are in {}, {} in {}.",
                percent(row.number("self_ratio")?),
                named_with_calls(row),
                percent(second.number("self_ratio")?),
                named_with_calls(second),
            ),
        };
        if let Some(advice) = self
            .indexing_loop(tables)
            .or_else(|| named.first().and_then(|row| advice(row, self.lists_gpu)))
        {
            text.push(' ');
            text.push_str(&advice);
        }
        Some(text)
    }

    /// Loops that index tensors element by element, if they take a part of the time.
    fn indexing_loop(&self, tables: &[MetricTable]) -> Option<String> {
        let first = self.rows.first()?;
        let window_ns = first.number("window_ns")?;
        let is_of_rank = |row: &Row<'_>| row.get("rank") == first.get("rank");
        let row = MetricTable::rows_of(tables, LOOP_VIEW).find(is_of_rank)?;
        let ratio = row.number("loop_ns")? / window_ns;
        (ratio >= MIN_LOOP_RATIO).then(|| {
            format!(
                "{} of `aten::select` in {}, which take {} of the time, index tensors element by element: index once, \
                 with a tensor of indices or on the whole tensor (HB009).",
                plural(row.count("select_count") as usize, "call"),
                plural(row.count("loop_count") as usize, "loop"),
                percent(ratio),
            )
        })
    }
}

/// `` `aten::normal_` (10 calls) ``, `` `cudaMalloc` (6 calls, in `aten::bmm`) ``.
fn named_with_calls(row: &Row<'_>) -> String {
    let name = short(row.text_or_empty("name"));
    let count = row.count("call_count");
    let calls =
        if count == 1 { "1 call".to_owned() } else { format!("{} calls", thousands(count)) };
    let outside = row.count("outside_count");
    let op = row.text("op_name").map(short);
    let within = match op {
        Some(op) if outside == 0 => format!(", mostly in `{op}`"),
        _ => String::new(),
    };
    format!("`{name}` ({calls}{within})")
}

/// Calls of which the first takes most of the time: start-up.
fn first_call(row: &Row<'_>) -> Option<String> {
    let count = row.count("call_count");
    let (self_ns, longest_ns) = (row.number("self_ns")?, row.number("longest_ns")?);
    let others_ns = (self_ns - longest_ns) / (count - 1).max(1) as f64;
    let is_start = count >= 2
        && row.is_true("longest_is_first")
        && longest_ns >= 0.5 * self_ns
        && longest_ns >= FIRST_CALL_FACTOR * others_ns
        && longest_ns >= MIN_FIRST_CALL_NS;
    is_start.then(|| {
        let others = if count == 2 { "the other" } else { "the others, on average," };
        format!(
            "The first of these calls takes {}, {others} {}: it contains start-up. Record after warm-up.",
            human(longest_ns),
            human(others_ns)
        )
    })
}

/// What to do about the operator or call that takes most of the host's time, where that is known.
fn advice(row: &Row<'_>, lists_gpu: bool) -> Option<String> {
    let name = row.text("name")?;
    if let Some(text) = first_call(row) {
        return Some(text);
    }
    let uses_device = row.count("rank_launch_count") > 0;
    if row.text("kind") == Some("operator") {
        let plain = name.strip_prefix("aten::")?;
        let plain = plain.strip_suffix('_').unwrap_or(plain);
        let call_ns = row.number("self_ns")? / row.count("call_count").max(1) as f64;
        if !uses_device && lists_gpu && call_ns >= MIN_CALL_ON_CPU_NS && FILLS.contains(&plain) {
            return Some(format!(
                "At {} per call, `{name}` fills tensors on the CPU: if they go to the GPU, create them there (`device=\"cuda\"`); \
                 otherwise, once before the loop.",
                human(call_ns),
            ));
        }
        // If no launch was recorded, nothing else tells on which device an operator runs.
        if !uses_device || row.count("launch_count") > 0 {
            return None;
        }
        if FILLS.contains(&plain) {
            return Some(format!(
                "`{name}` launches no kernel, so it fills tensors on the CPU: create them on the GPU (`device=\"cuda\"`), or once \
                 before the loop."
            ));
        }
        return PRODUCTS.contains(&plain).then(|| {
            format!("`{name}` launches no kernel, so it computes on the CPU: move its inputs to the GPU.")
        });
    }
    let call = name.trim_start_matches("cuda").trim_start_matches("hip").trim_start_matches("cu");
    let advice = match call {
        "Free" if row.count("outside_count") >= MIN_FREES => {
            "Outside of operators, these calls give memory back to the driver, as `torch.cuda.empty_cache()` does: leave that out of \
             the loop, so that PyTorch can use the memory again."
        }
        "Free" | "DeviceGetStreamPriorityRange" if row.count("call_count") == 1 => {
            "CUDA and HIP start up in the first calls of their runtime: record after warm-up."
        }
        "DeviceSynchronize" if !uses_device => {
            "No kernel was launched, so the wait is for earlier work, or for the profiler itself, which waits for the GPU when it \
             starts and stops."
        }
        "DeviceSynchronize" | "StreamSynchronize" | "EventSynchronize" => {
            let waits = "The host waits for the GPU in these calls";
            return Some(match row.text("range_name").map(short) {
                Some(range) => format!(
                    "{waits}, in the range `{range}`: the kernels that it launches take this time. If they are your own, compare \
                     them with PyTorch's operators, and profile them (Nsight Compute, `rocprof-compute`)."
                ),
                None => format!("{waits}."),
            });
        }
        "Malloc" | "MallocAsync" | "MemAlloc" => {
            "These calls allocate memory of the GPU, which PyTorch does only until its cache is large enough: record after warm-up."
        }
        "ModuleLoadData" | "ModuleLoadDataEx" | "LibraryLoadData" | "ModuleGetFunction" => {
            "These calls load code onto the GPU, at the first launch of a kernel: record after warm-up."
        }
        "HostAlloc" | "HostMalloc" | "HostRegister" => {
            "These calls pin memory of the host: pin buffers once, before the loop."
        }
        _ => return None,
    };
    Some(advice.to_owned())
}
