//! What the recording of a run is, what it cannot show, and how to record what it lacks.

mod instructions;

use schemars::JsonSchema;
use serde::Serialize;
use trace_model::number::{plural, thousands};
use trace_model::time::human;
use trace_model::{MetricTable, Value};

pub use instructions::RecordingInstructions;

use crate::expr::{bytes, decimals, short};
use crate::run_traits::RUN_TRAITS_VIEW;

/// The view whose one row counts what was recorded.
pub(crate) const RECORDING_VIEW: &str = "trace_recording";

/// The view of the rules about memory.
const MEMORY_VIEW: &str = "memory_pressure";
/// Columns of that view, with the owners that they are about.
const MEMORY_OWNERS: [(&str, &str); 4] = [
    ("parameter_bytes", "parameters"),
    ("optimizer_state_bytes", "optimizer state"),
    ("gradient_bytes", "gradients"),
    ("activation_bytes", "activations"),
];
/// Owners that hold less of the peak are left out.
const MIN_OWNER_SHARE: f64 = 0.05;
/// Fewer operators, frames and device activities than this are next to nothing; without steps, and with them.
const MIN_EVENTS: i64 = 50;
const MIN_EVENTS_IN_STEPS: i64 = 10;
/// If a few events alone cover at least this share of the recording, their times are more likely wrong than slow.
const MOSTLY_OUTLIERS_RATIO: f64 = 0.9;
/// Share of warm-up from which on a recording shows nothing else.
const MOSTLY_WARMUP_RATIO: f64 = 0.5;
/// Share of the time in operators from which on the operator that takes most of theirs says where the time goes.
const MOSTLY_OPERATORS_RATIO: f64 = 0.5;
/// Steps from which on an unusual one can be recognized.
const ENOUGH_STEPS: i64 = 3;

/// A description of the recording and its limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Recording {
    /// The most serious limit.
    pub kind: RecordingKind,
    /// Whether the program runs on the CPU alone.
    pub is_on_cpu: bool,
    /// What marks its steps, see the column `source` of the table `steps`; `repetition`: nothing does, and the same operators
    /// recur. Null without steps.
    pub step_source: Option<String>,
    /// How sure the steps are: `high` if the program, its trainer or its engine marks them, `medium` if they lie between calls
    /// of the optimizer, `low` if they are inferred from repeating operators. Null without steps.
    pub step_confidence: Option<String>,
    /// Describes the recording and its most serious limit in one or two sentences.
    pub summary: String,
    /// The part of the summary that says what the recording is; empty if it shows next to nothing.
    pub subject: String,
    /// All limits, most serious first; none if the recording is complete.
    pub limits: Vec<RecordingLimit>,
    /// How to record what it lacks; null if nothing essential is missing.
    pub instructions: Option<RecordingInstructions>,
}

/// A limit of a recording, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecordingKind {
    /// No part of PyTorch's profiler wrote the trace.
    OtherTool,
    /// Hardly anything was recorded.
    AlmostEmpty,
    /// The program uses a device whose activity was not recorded.
    DeviceNotRecorded,
    /// A few events with implausible times make up nearly all of the recording's length.
    OutlierTimes,
    /// Most of the time is warm-up.
    WarmUp,
    /// There are only memory snapshots: who holds memory, not how time is spent.
    MemoryOnly,
    /// There is no profiler trace: marks of a trainer, metrics or files about memory only.
    NoProfilerTrace,
    /// Nothing marks steps, and nothing repeats.
    NoSteps,
    /// There are fewer than three steps.
    FewSteps,
    /// The file ends in the middle.
    Truncated,
    /// The program runs on the CPU, and enough of it was recorded.
    CpuOnly,
    /// Enough was recorded.
    Complete,
}

/// A limit of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecordingLimit {
    /// Kind.
    pub kind: RecordingKind,
    /// What it means, in one sentence.
    pub text: String,
}

impl RecordingKind {
    /// The code of the rule that notes the same limit.
    fn note_code(self) -> Option<&'static str> {
        match self {
            Self::NoSteps | Self::FewSteps => Some("TQ001"),
            Self::OutlierTimes => Some("TQ014"),
            Self::WarmUp => Some("TQ002"),
            Self::Truncated => Some("TQ007"),
            _ => None,
        }
    }

    /// Returns true if too little of the program was recorded to predict gains.
    pub fn is_severe(self) -> bool {
        self <= Self::WarmUp
    }
}

impl Recording {
    /// The codes of notes that say the same as this description.
    pub fn told_notes(&self) -> Vec<&'static str> {
        let inferred = (self.step_source.as_deref() == Some("repetition")).then_some("TQ001");
        self.limits.iter().filter_map(|limit| limit.kind.note_code()).chain(inferred).collect()
    }

    /// Reads the recording from the views; `None` if they were not computed. `formats`: those of the files.
    pub(crate) fn read(tables: &[MetricTable], formats: &[&str]) -> Option<Self> {
        let contents = Contents::read(tables)?;
        let limits = contents.limits(formats);
        let kind = match limits.first() {
            Some(limit) => limit.kind,
            None if contents.is_on_cpu() => RecordingKind::CpuOnly,
            None => RecordingKind::Complete,
        };
        let is_on_cpu = contents.is_on_cpu();
        let shows_program = !kind.is_severe()
            && !matches!(kind, RecordingKind::NoProfilerTrace | RecordingKind::MemoryOnly);
        let subject = match kind {
            RecordingKind::MemoryOnly => contents.memory_subject(),
            _ if shows_program => contents.subject(),
            _ => String::new(),
        };
        let first = limits.first().map_or("", |limit| &limit.text);
        let summary = format!("{subject} {first}").trim().to_owned();
        let is_incomplete = !matches!(kind, RecordingKind::CpuOnly | RecordingKind::Complete);
        let instructions = is_incomplete.then(|| RecordingInstructions::for_run(&contents, kind));
        Some(Self {
            kind,
            is_on_cpu,
            step_source: contents.recorded.text("step_source").map(str::to_owned),
            step_confidence: contents.step_confidence().map(str::to_owned),
            summary,
            subject,
            limits,
            instructions: instructions.flatten(),
        })
    }
}

/// The rows of [`RECORDING_VIEW`] and [`RUN_TRAITS_VIEW`].
struct Contents<'a> {
    recorded: Row<'a>,
    traits: Option<Row<'a>>,
    memory: Option<Row<'a>>,
}

/// The first row of a view.
#[derive(Clone, Copy)]
struct Row<'a> {
    table: &'a MetricTable,
    values: &'a [Value],
}

impl<'a> Row<'a> {
    fn first(tables: &'a [MetricTable], view: &str) -> Option<Self> {
        let table = tables.iter().find(|table| table.view == view)?;
        Some(Self { table, values: table.rows.first()? })
    }

    fn value(&self, name: &str) -> Option<&'a Value> {
        self.values.get(self.table.index(name)?)
    }

    fn count(&self, name: &str) -> i64 {
        self.value(name).and_then(Value::as_f64).unwrap_or(0.0) as i64
    }

    fn ratio(&self, name: &str) -> Option<f64> {
        self.value(name)?.as_f64()
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        match self.value(name)? {
            Value::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    fn is_true(&self, name: &str) -> bool {
        self.value(name) == Some(&Value::Bool(true))
    }
}

impl<'a> Contents<'a> {
    fn read(tables: &'a [MetricTable]) -> Option<Self> {
        let recorded = Row::first(tables, RECORDING_VIEW)?;
        let [traits, memory] = [RUN_TRAITS_VIEW, MEMORY_VIEW].map(|view| Row::first(tables, view));
        Some(Self { recorded, traits, memory })
    }

    /// Number of events of this kind: a column without its suffix.
    fn count(&self, kind: &str) -> i64 {
        self.recorded.count(&format!("{kind}_count"))
    }

    /// `no launch`, `1 launch`, `260 launches`.
    fn counted(&self, kind: &str, one: &str, many: &str) -> String {
        match self.count(kind) {
            0 => format!("no {one}"),
            1 => format!("1 {one}"),
            count => format!("{} {many}", thousands(count)),
        }
    }

    /// The devices that the trace describes, used or not: `8 x NVIDIA A100`.
    fn listed_devices(&self) -> Option<String> {
        let name = self.recorded.text("listed_device_name")?;
        Some(format!("{} x {name}", self.count("listed_device")))
    }

    fn step_confidence(&self) -> Option<&'static str> {
        Some(match self.recorded.text("step_source")? {
            "repetition" => "low",
            "optimizer" => "medium",
            _ => "high",
        })
    }

    fn has_trait(&self, name: &str) -> bool {
        self.traits.is_some_and(|traits| traits.is_true(name))
    }

    fn trait_text(&self, name: &str) -> Option<&'a str> {
        self.traits?.text(name)
    }

    /// Whether it trains; `None` if that is unknown.
    fn is_training(&self) -> Option<bool> {
        match self.traits?.value("is_training")? {
            Value::Bool(is_training) => Some(*is_training),
            _ => None,
        }
    }

    /// Whether operators ran, and no device.
    fn is_on_cpu(&self) -> bool {
        self.count("device_event") == 0 && self.count("op") > 0 && !self.uses_unrecorded_device()
    }

    fn uses_unrecorded_device(&self) -> bool {
        self.count("device_event") == 0 && (self.count("launch") > 0 || self.count("device_op") > 0)
    }

    fn duration(&self) -> String {
        human(self.recorded.ratio("recorded_ns").unwrap_or(0.0))
    }

    /// `5 steps of training on NVIDIA A100-SXM4-80GB.`
    fn subject(&self) -> String {
        let program = match self.is_training() {
            Some(true) => "training",
            Some(false) if self.is_inference() => "inference",
            Some(false) => "forward passes",
            None => "a program",
        };
        let name = self.trait_text("device_name").or(self.recorded.text("listed_device_name"));
        let device = match (name, self.listed_devices()) {
            (_, Some(devices)) if self.is_on_cpu() => {
                format!(" on the CPU of a machine with {devices}")
            }
            _ if self.is_on_cpu() => " on the CPU".to_owned(),
            (Some(name), _) => format!(" on {name}"),
            (None, _) if self.count("device_event") > 0 => " on a GPU".to_owned(),
            (None, _) => String::new(),
        };
        let extent = match self.count("step") {
            0 => self.duration(),
            count => plural(count as usize, "step"),
        };
        let marks = match self.recorded.text("step_source") {
            Some("repetition") => ", inferred from repeating operators",
            Some("optimizer") => ", inferred from calls of the optimizer",
            _ => "",
        };
        let ranks = match self.count("profiled_rank") {
            0 | 1 => String::new(),
            count => format!(", {count} ranks"),
        };
        let mut text = format!("{extent} of {program}{device}{ranks}{marks}.");
        if self.is_on_cpu() {
            text.push_str(&self.top_operator());
        }
        text
    }

    /// What takes most of the time on the CPU: an operator, or none.
    fn top_operator(&self) -> String {
        let of_wall = self.recorded.ratio("op_ratio").unwrap_or(0.0);
        if of_wall < MOSTLY_OPERATORS_RATIO {
            return format!(" Operators run for {} % of the time.", decimals(100.0 * of_wall, 1));
        }
        let top = self.recorded.text("top_op_name").zip(self.recorded.ratio("top_op_ratio"));
        top.map_or_else(String::new, |(name, ratio)| {
            format!(" {} % of the operators' time is in `{name}`.", decimals(100.0 * ratio, 1))
        })
    }

    /// Returns true if an inference engine or pipeline runs.
    fn is_inference(&self) -> bool {
        ["uses_vllm", "uses_sglang", "uses_xdit", "uses_hf_pipeline"]
            .iter()
            .any(|name| self.has_trait(name))
    }

    /// Why a device that the program uses has no activity in the recording.
    fn unrecorded_device(&self) -> String {
        if self.count("profiler_range") > 0 {
            return "Hardware counters were recorded (`profiler_metrics`), which replaces the timeline of kernels: record again \
                    without them."
                .to_owned();
        }
        if self.count("launch") == 0 {
            return self.device_without_activity();
        }
        let machine = self.listed_devices().map(|devices| format!(" on a machine with {devices}"));
        format!(
            "In {}{}, {} and {} of kernels or graphs were recorded, but no GPU activity: the recording probably \
             ended before the GPU ran them, or its tracing library (CUPTI, roctracer) delivered no activities.",
            self.duration(),
            machine.unwrap_or_default(),
            plural(self.count("op") as usize, "operator"),
            self.counted("launch", "launch", "launches"),
        )
    }

    /// As [`Self::unrecorded_device`], where no call of its runtime was recorded either.
    fn device_without_activity(&self) -> String {
        let name = self.recorded.text("device_op_name");
        let name = name.map(|name| format!(" (`{name}`)")).unwrap_or_default();
        format!(
            "The program uses a GPU{name}, but no GPU activity was recorded: `ProfilerActivity.CUDA` (or that of your device) is \
             probably missing in `activities`, or the tracing library could not start."
        )
    }

    /// The row about memory and the peak, if a history was recorded.
    fn peak(&self) -> Option<(Row<'a>, f64)> {
        let memory = self.memory.filter(|memory| memory.is_true("has_history"))?;
        Some((memory, memory.ratio("peak_bytes")?))
    }

    /// What a memory snapshot cannot show.
    fn memory_limit(&self) -> String {
        let text = match self.peak() {
            Some(_) => "It shows who holds memory, not how time is spent.",
            None => {
                "A memory snapshot without a history: it shows what was held when it was taken, not who allocated it. Call \
                 `torch.cuda.memory._record_memory_history()` before what is to be seen."
            }
        };
        text.to_owned()
    }

    /// `A memory snapshot of 3 iterations, with a peak of 61.8 MiB: activations 85.7 %, temporaries 8.1 %.`
    fn memory_subject(&self) -> String {
        let Some((memory, peak)) = self.peak() else { return String::new() };
        let of = match memory.count("iteration_count") {
            0 => String::new(),
            count => format!(" of {}", plural(count as usize, "iteration")),
        };
        let mut owners: Vec<(&str, f64)> = MEMORY_OWNERS
            .iter()
            .filter_map(|(column, owner)| Some((*owner, memory.ratio(column)? / peak)))
            .filter(|(_, share)| *share >= MIN_OWNER_SHARE)
            .collect();
        owners.sort_by(|a, b| b.1.total_cmp(&a.1));
        let owners: Vec<String> = owners
            .into_iter()
            .map(|(owner, share)| format!("{owner} {} %", decimals(100.0 * share, 1)))
            .collect();
        let owners =
            if owners.is_empty() { String::new() } else { format!(": {}", owners.join(", ")) };
        format!("A memory snapshot{of}, with a peak of {}{owners}.", bytes(peak))
    }

    /// The limits, most serious first.
    fn limits(&self, formats: &[&str]) -> Vec<RecordingLimit> {
        let is_truncated = self.recorded.is_true("is_truncated");
        let mut limits = Vec::new();
        let mut add = |kind, text: String| limits.push(RecordingLimit { kind, text });
        if self.count("profiled_rank") == 0 {
            let mut formats: Vec<&str> = formats.to_vec();
            formats.dedup();
            if formats.iter().any(|format| format.starts_with("memory snapshot")) {
                add(RecordingKind::MemoryOnly, self.memory_limit());
                return limits;
            }
            let what = if formats.is_empty() { "no file".to_owned() } else { formats.join(", ") };
            add(
                RecordingKind::NoProfilerTrace,
                format!(
                    "The run holds no trace of the PyTorch Profiler (only: {what}), so it does not show what the program does."
                ),
            );
            return limits;
        }
        let program = self.count("op") + self.count("frame") + self.count("device_event");
        let foreign = self.count("foreign_event");
        if program == 0 && foreign > self.count("call") + self.count("annotation") {
            let kinds = self.recorded.text("foreign_kinds").map(|kinds| format!(" ({kinds})"));
            let tool = match self.recorded.text("foreign_tool") {
                Some(tool) => format!("{tool}, not from"),
                None => "another tool than".to_owned(),
            };
            add(
                RecordingKind::OtherTool,
                format!(
                    "The {} events{} come from {tool} the PyTorch Profiler, and no operators, Python frames or GPU \
                     activities were recorded: tables and SQL work on them, rules do not apply.",
                    thousands(foreign),
                    kinds.unwrap_or_default(),
                ),
            );
            return limits;
        }
        let least = if self.count("step") > 0 { MIN_EVENTS_IN_STEPS } else { MIN_EVENTS };
        if program < least && self.count("launch") < least {
            let parts = [
                ("call", "call of the GPU's runtime", "calls of the GPU's runtime"),
                ("op", "operator", "operators"),
                ("device_event", "GPU activity", "GPU activities"),
            ];
            let [calls, ops, device] = parts.map(|(kind, one, many)| self.counted(kind, one, many));
            add(
                RecordingKind::AlmostEmpty,
                format!(
                    "Almost nothing was recorded: {calls}, {ops} and {device} in {}.{}",
                    self.duration(),
                    if is_truncated {
                        ""
                    } else {
                        " The profiled code runs almost no PyTorch operators, or the profiler stopped too early."
                    },
                ),
            );
        } else if self.uses_unrecorded_device() {
            add(RecordingKind::DeviceNotRecorded, self.unrecorded_device());
        }
        let outlier_ratio = self.recorded.ratio("outlier_ratio").unwrap_or(0.0);
        if let Some(name) = self.recorded.text("outlier_name")
            && outlier_ratio >= MOSTLY_OUTLIERS_RATIO
        {
            let name = short(name);
            let (events, without, times) = match self.count("outlier") {
                1 => (
                    format!("`{name}` alone makes"),
                    "without it, the recording takes",
                    "Its times",
                ),
                count => (
                    format!("{} (`{name}`) alone make", plural(count as usize, "event")),
                    "without them, it takes",
                    "These times",
                ),
            };
            add(
                RecordingKind::OutlierTimes,
                format!(
                    "{events} the recording {} long; {without} {}. {times} are probably wrong, so shares of the total time are unreliable.",
                    self.duration(),
                    human(self.recorded.ratio("rest_ns").unwrap_or(0.0)),
                ),
            );
        }
        let warmup_ratio = self.recorded.ratio("warmup_ratio").unwrap_or(0.0);
        if warmup_ratio >= MOSTLY_WARMUP_RATIO {
            let name = self.recorded.text("warmup_name").map(|name| format!(", mostly `{name}`"));
            add(
                RecordingKind::WarmUp,
                format!(
                    "{} % of the {} is warm-up (first launches, loading code, allocating device memory{}): the recording shows \
                     start-up rather than steady state.",
                    decimals(100.0 * warmup_ratio, 1),
                    self.duration(),
                    name.unwrap_or_default(),
                ),
            );
        }
        match self.count("step") {
            0 => add(
                RecordingKind::NoSteps,
                "No steps are marked, and none could be inferred from repeating operators, so shares include start-up.".to_owned(),
            ),
            steps if steps < ENOUGH_STEPS => add(
                RecordingKind::FewSteps,
                format!(
                    "With only {}, an outlier cannot be told from a normal step.",
                    plural(steps as usize, "step")
                ),
            ),
            _ => {}
        }
        if is_truncated {
            add(
                RecordingKind::Truncated,
                "The file ends in the middle or is damaged: a part of the recording is missing."
                    .to_owned(),
            );
        }
        limits.sort_by_key(|limit| limit.kind);
        limits
    }
}
