//! One record of a log: the line that begins it, and what its payload is.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::quantity::MAX_TIME_NS;

/// Kind of a line in the log.
pub(super) enum Line<'a> {
    /// The first line of a record: its object.
    Record(&'a [u8]),
    /// A line of the payload of the record before.
    Payload(&'a [u8]),
    /// Nothing that PyTorch writes.
    Other,
}

impl<'a> Line<'a> {
    /// Recognizes a line without its line break.
    pub(super) fn of(line: &'a [u8]) -> Self {
        match line.first() {
            Some(b'\t') => Self::Payload(&line[1..]),
            _ => object_of_record(line).map_or(Self::Other, Self::Record),
        }
    }
}

/// The object in the first line of a record: `V0521 11:50:39.474000 3054118 torch/_dynamo/utils.py:1864] {...}`. Logs
/// of several ranks in one stream have `[rank0]:` before it.
fn object_of_record(line: &[u8]) -> Option<&[u8]> {
    let line = match line.strip_prefix(b"[rank") {
        Some(rest) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            rest[digits..].strip_prefix(b"]:")?.trim_ascii_start()
        }
        None => line,
    };
    let (level, rest) = line.split_first()?;
    let date = rest.get(..4)?;
    let time = rest.get(4..14)?;
    let is_stamp = b"VDIWEC".contains(level)
        && date.iter().all(u8::is_ascii_digit)
        && time.iter().zip(b" 00:00:00.").all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            _ => byte == shape,
        });
    let at = memchr::memmem::find(rest, b"] ").filter(|_| is_stamp)?;
    let object = &rest[at + 2..];
    object.starts_with(b"{").then_some(object)
}

/// The object of a record, as far as it is read. Each record has one entry that names its kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    #[serde(deserialize_with = "lenient")]
    pub(super) rank: Option<i32>,
    #[serde(deserialize_with = "lenient")]
    pub(super) compiled_autograd_id: Option<i64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) frame_id: Option<i64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) frame_compile_id: Option<i64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) attempt: Option<i64>,
    has_payload: Option<IgnoredAny>,

    /// A file name, and the number that stands for it from here on.
    #[serde(rename = "str", deserialize_with = "lenient")]
    pub(super) file_name: Option<(String, i64)>,
    #[serde(deserialize_with = "lenient")]
    pub(super) dynamo_start: Option<Start>,
    #[serde(deserialize_with = "lenient")]
    pub(super) create_symbol: Option<Symbol>,
    #[serde(deserialize_with = "lenient")]
    pub(super) compilation_metrics: Option<Metrics>,
    #[serde(deserialize_with = "lenient")]
    pub(super) bwd_compilation_metrics: Option<Metrics>,
    #[serde(deserialize_with = "lenient")]
    artifact: Option<Artifact>,
    chromium_event: Option<IgnoredAny>,
    dynamo_output_graph: Option<IgnoredAny>,
    aot_inference_graph: Option<IgnoredAny>,
    aot_forward_graph: Option<IgnoredAny>,
    aot_backward_graph: Option<IgnoredAny>,
    inductor_post_grad_graph: Option<IgnoredAny>,
    inductor_output_code: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Artifact {
    name: String,
}

/// Call stack at the start of the compilation of a frame.
#[derive(Debug, Deserialize)]
pub(super) struct Start {
    /// Outermost first; the last frame is the one that is compiled.
    #[serde(default)]
    pub(super) stack: Vec<StackFrame>,
}

/// A frame of a Python stack.
#[derive(Debug, Deserialize)]
pub(super) struct StackFrame {
    pub(super) line: i64,
    pub(super) name: String,
    /// Number of the file name.
    pub(super) filename: i64,
}

/// A dimension that is not fixed, with the size that it had when the graph was traced.
#[derive(Debug, Deserialize)]
pub(super) struct Symbol {
    pub(super) symbol: String,
    #[serde(deserialize_with = "lenient")]
    val: Option<Value>,
}

impl Symbol {
    /// Size when the graph was traced.
    pub(super) fn size(&self) -> Option<u64> {
        match self.val.as_ref()? {
            Value::String(text) => text.parse().ok(),
            value => value.as_u64(),
        }
    }
}

/// Metrics of a compilation, as PyTorch reports them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Metrics {
    #[serde(deserialize_with = "lenient")]
    pub(super) co_name: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) co_filename: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) co_firstlineno: Option<i64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) graph_op_count: Option<i64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) guard_count: Option<i64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) fail_reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) recompile_reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    start_time_us: Option<f64>,
    #[serde(deserialize_with = "lenient")]
    start_time: Option<f64>,
    #[serde(deserialize_with = "lenient")]
    duration_us: Option<f64>,
    #[serde(deserialize_with = "lenient")]
    dynamo_cumulative_compile_time_us: Option<f64>,
    #[serde(deserialize_with = "lenient")]
    backward_cumulative_compile_time_us: Option<f64>,
    #[serde(deserialize_with = "lenient")]
    entire_frame_compile_time_s: Option<f64>,
    #[serde(deserialize_with = "lenient")]
    inductor_cumulative_compile_time_us: Option<f64>,
    #[serde(deserialize_with = "lenient")]
    inductor_compile_time_s: Option<f64>,
}

impl Metrics {
    /// Start, in nanoseconds since 1970.
    pub(super) fn start_ns(&self) -> Option<i64> {
        self.start_time_us.and_then(us_to_ns).or_else(|| s_to_ns(self.start_time?))
    }

    /// Duration of the compilation.
    pub(super) fn dur_ns(&self) -> Option<i64> {
        let us = self
            .duration_us
            .or(self.dynamo_cumulative_compile_time_us)
            .or(self.backward_cumulative_compile_time_us);
        us.and_then(us_to_ns).or_else(|| s_to_ns(self.entire_frame_compile_time_s?))
    }

    /// Time in Inductor.
    pub(super) fn inductor_dur_ns(&self) -> Option<i64> {
        let us = self.inductor_cumulative_compile_time_us.and_then(us_to_ns);
        us.or_else(|| s_to_ns(self.inductor_compile_time_s?))
    }
}

/// Begin or end of a stage of the compilation.
#[derive(Debug, Deserialize)]
pub(super) struct StageEvent {
    pub(super) name: String,
    pub(super) ph: String,
    ts: f64,
}

impl StageEvent {
    /// Time, in nanoseconds since 1970.
    pub(super) fn ts_ns(&self) -> Option<i64> {
        us_to_ns(self.ts)
    }
}

/// Result of a lookup in a compile cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheResult {
    Hit,
    Miss,
    Bypass,
}

/// The graph that a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GraphKind {
    /// Calls of PyTorch functions, as Dynamo recorded them.
    PreGrad,
    /// Operators of `ATen`, before Inductor's passes: forward (or inference) or backward.
    Aot { is_backward: bool },
    /// Graph that Inductor generates code for.
    PostGrad,
}

/// Content of a payload that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PayloadKind {
    Stage,
    Graph(GraphKind),
    OutputCode,
    NodeMappings,
    KernelNodes,
    KernelStacks,
    /// Of the cache of compiled graphs.
    GraphCache(CacheResult),
    /// Of the cache of what `AOTAutograd` does before.
    AutogradCache(CacheResult),
    RecompileReasons,
    GraphBreak,
}

impl Record {
    pub(super) fn has_payload(&self) -> bool {
        self.has_payload.is_some()
    }

    /// Content of the payload; `None` if it is not read.
    pub(super) fn payload_kind(&self) -> Option<PayloadKind> {
        use GraphKind::{Aot, PostGrad, PreGrad};
        use PayloadKind::{AutogradCache, Graph, GraphCache};
        if let Some(artifact) = &self.artifact {
            return Some(match artifact.name.as_str() {
                "before_pre_grad_graph" | "after_pre_grad_graph" | "inductor_pre_grad_graph" => {
                    Graph(PreGrad)
                }
                "after_post_grad_graph" | "inductor_post_grad_graph" => Graph(PostGrad),
                "inductor_provenance_tracking_node_mappings" => PayloadKind::NodeMappings,
                "inductor_triton_kernel_to_post_grad_nodes" => PayloadKind::KernelNodes,
                "inductor_provenance_tracking_kernel_stack_traces" => PayloadKind::KernelStacks,
                "fx_graph_cache_hit" => GraphCache(CacheResult::Hit),
                "fx_graph_cache_miss" => GraphCache(CacheResult::Miss),
                "fx_graph_cache_bypass" => GraphCache(CacheResult::Bypass),
                "aotautograd_cache_hit" => AutogradCache(CacheResult::Hit),
                "aotautograd_cache_miss" => AutogradCache(CacheResult::Miss),
                "aotautograd_cache_bypass" => AutogradCache(CacheResult::Bypass),
                "recompile_reasons" => PayloadKind::RecompileReasons,
                "dynamo_graph_break_reason" => PayloadKind::GraphBreak,
                _ => return None,
            });
        }
        let kinds = [
            (&self.chromium_event, PayloadKind::Stage),
            (&self.dynamo_output_graph, Graph(PreGrad)),
            (&self.aot_inference_graph, Graph(Aot { is_backward: false })),
            (&self.aot_forward_graph, Graph(Aot { is_backward: false })),
            (&self.aot_backward_graph, Graph(Aot { is_backward: true })),
            (&self.inductor_post_grad_graph, Graph(PostGrad)),
            (&self.inductor_output_code, PayloadKind::OutputCode),
        ];
        kinds.into_iter().find(|(entry, _)| entry.is_some()).map(|(_, kind)| kind)
    }
}

/// A value, or `None` if it has another type: a version of PyTorch that writes one entry differently does not make the
/// rest of the record unreadable.
fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(serde_json::from_value(Value::deserialize(deserializer)?).ok())
}

/// Microseconds as nanoseconds; the fraction is exact to what the log wrote.
fn us_to_ns(us: f64) -> Option<i64> {
    const MAX_US: f64 = (MAX_TIME_NS / 1000) as f64;
    let is_time = us.is_finite() && us.abs() < MAX_US;
    is_time.then(|| us.trunc() as i64 * 1000 + (us.fract() * 1e3).round() as i64)
}

fn s_to_ns(s: f64) -> Option<i64> {
    us_to_ns((s * 1e6).round())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_of_record_needs_a_stamp() {
        let object = |line: &str| {
            object_of_record(line.as_bytes()).map(|o| String::from_utf8_lossy(o).into_owned())
        };
        let stamp = "V0521 11:50:39.474000 3054118 /a/b#x/utils.py:1864] ";
        assert_eq!(object(&format!("{stamp}{{\"a\": 1}}")).as_deref(), Some("{\"a\": 1}"));
        assert_eq!(object(&format!("[rank12]:{stamp}{{}}")).as_deref(), Some("{}"));
        for line in [
            "",
            "V",
            "V0521 11:50:39",
            "V0521 11:50:39.474000 3054118 x.py:1] text",
            "X0521 11:50:39.474000 3054118 x.py:1] {}",
            "V05a1 11:50:39.474000 3054118 x.py:1] {}",
            "[rankV0521 11:50:39.474000 1 x.py:1] {}",
        ] {
            assert_eq!(object(line), None, "{line}");
        }
    }

    #[test]
    fn metrics_take_the_most_exact_time() {
        let metrics = |text: &str| serde_json::from_str::<Metrics>(text).unwrap();
        let new = metrics(
            r#"{"start_time_us": 1795527894341711, "start_time": 1.5, "duration_us": 4207447}"#,
        );
        assert_eq!(new.start_ns(), Some(1_795_527_894_341_711_000));
        assert_eq!(new.dur_ns(), Some(4_207_447_000));
        let old =
            metrics(r#"{"start_time": 1747853439.59697, "entire_frame_compile_time_s": 8.540315}"#);
        assert_eq!(old.start_ns(), Some(1_747_853_439_596_970_000));
        assert_eq!(old.dur_ns(), Some(8_540_315_000));
        let other =
            metrics(r#"{"start_time_us": "soon", "co_firstlineno": null, "guard_count": 3}"#);
        assert_eq!((other.start_ns(), other.guard_count), (None, Some(3)));
    }
}
