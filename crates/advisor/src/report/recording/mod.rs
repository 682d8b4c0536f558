//! What the recording of a run is, what it cannot show, and how to record what it lacks.

mod instructions;
mod no_timeline;
mod snapshot;
mod time_summary;

use schemars::JsonSchema;
use serde::Serialize;
use trace_model::number::{plural, thousands};
use trace_model::time::human;
use trace_model::{MetricTable, Row, SPLIT_RANK, Warning};

pub use instructions::RecordingInstructions;
pub(crate) use no_timeline::NO_TIMELINE_VIEWS;
pub(crate) use time_summary::HOST_TIME_VIEW;

use crate::evaluation::run_traits::RUN_TRAITS_VIEW;
use crate::language::expr::{decimals, short};

/// The view whose one row counts what was recorded.
pub(crate) const RECORDING_VIEW: &str = "trace_recording";

/// A view of rules about kernels, which names the GPU that they are measured against.
const ROOFLINE_VIEW: &str = "op_below_roofline";

/// The view of the rules about memory.
const MEMORY_VIEW: &str = "memory_pressure";
/// Fewer operators, frames and device activities than this are next to nothing; without steps, and with them.
const MIN_EVENTS: i64 = 50;
const MIN_EVENTS_IN_STEPS: i64 = 10;
/// The same of a program on the CPU without steps, whose start-up cannot be told from its work.
const MIN_EVENTS_ON_CPU: i64 = 100;
/// Fewer operators of a device say nothing about the program.
const MIN_OPS_OF_DEVICE: i64 = 20;
/// If a few events alone cover at least this share of the recording, their times are more likely wrong than slow.
const MOSTLY_OUTLIERS_RATIO: f64 = 0.9;
/// A recording shows start-up only if warm-up takes at least this share of its length, or of the idle time of a device that
/// idles for at least this share of the recording.
const MOSTLY_WARMUP_RATIO: f64 = 0.5;
/// A recording shows the profiler rather than the program if the profiler's own work takes at least this share: about a
/// quarter.
const MOSTLY_PROFILER_RATIO: f64 = 0.24;
/// A recording shows too little of the GPU's work if at least this share of its kernel launches has no GPU activity.
const MOSTLY_LOST_RATIO: f64 = 0.5;
/// The profiler delivered the device work late if at least this share of it was launched before the first work starts.
const MOSTLY_LATE_RATIO: f64 = 0.8;
/// A recording in which a device is busy for at least this share of the time shows its work, however few kernels these are.
const SHOWS_WORK_RATIO: f64 = 0.5;
/// Why a device that ran has no activities.
const NO_ACTIVITIES: &str = "its tracing library (CUPTI, roctracer) delivered no activities.";
/// In steps, fewer than [`MIN_EVENTS`] events show the work if kernels, or operators on the CPU, run for this share of the time.
const SHOWS_STEPS_RATIO: f64 = 0.05;
/// Advice to begin the recording after start-up and the profiler's warm-up.
const RECORD_LATER: &str = "Record again after warm-up, and more steps: \
     `schedule=torch.profiler.schedule(wait=1, warmup=3, active=5)`, with `prof.step()` at the end of each step.";
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
    /// What marks its steps, see the column `source` of the table `steps`; `repetition` and `pass`: nothing does, and the same
    /// operators recur. Null without steps.
    pub step_source: Option<String>,
    /// How sure the steps are: `high` if the program, its trainer or its engine marks them, `medium` if they lie between calls
    /// of the optimizer, `low` if they are inferred from repeating operators, whether a backward pass, a loader, a module or a range is in each
    /// (`repetition`) or not (`pass`). Null without steps.
    pub step_confidence: Option<String>,
    /// Describes the recording and its most serious limit in one or two sentences.
    pub summary: String,
    /// The part of the summary that says what the recording is; empty if it shows next to nothing.
    pub subject: String,
    /// What takes the time, in one or two sentences: what a busy GPU runs, else the operators and runtime calls of the host
    /// with most time. Each share is of the time that the sentence names. Null if neither was recorded.
    pub time_summary: Option<String>,
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
    /// The profiler lost the device work of at least half of the launches of each rank.
    LostWork,
    /// The profiler delivered the device work of each rank in one burst, so its times do not show when it ran.
    WorkInABurst,
    /// A few events with implausible times make up nearly all of the recording's length.
    OutlierTimes,
    /// The profiler's own work takes a quarter of the time or more.
    ProfilerOverhead,
    /// Most of the time is warm-up.
    WarmUp,
    /// There are only memory snapshots or timelines: who holds memory, not how time is spent.
    MemoryOnly,
    /// There is no profiler trace: marks of a trainer, metrics or files about memory only.
    NoProfilerTrace,
    /// Nothing marks steps, and no repetition is clearly a step.
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
            Self::LostWork => Some("TQ015"),
            Self::WorkInABurst => Some("TQ018"),
            Self::OutlierTimes => Some("TQ014"),
            Self::ProfilerOverhead => Some("TQ005"),
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
        let source = self.step_source.as_deref();
        let inferred = matches!(source, Some("repetition" | "pass")).then_some("TQ001");
        self.limits.iter().filter_map(|limit| limit.kind.note_code()).chain(inferred).collect()
    }

    /// What a headline says of a run of memory snapshots, see [`snapshot::headline`].
    pub(crate) fn memory_headline(tables: &[MetricTable]) -> Option<String> {
        let memories = MetricTable::rows_of(tables, MEMORY_VIEW);
        snapshot::headline(Row::largest(memories, "peak_bytes")?)
    }

    /// Reads the recording from the views. Returns `None` if the views were not computed. `formats` and `warnings` are those
    /// of the files of the run.
    pub(crate) fn read(
        tables: &[MetricTable],
        formats: &[&str],
        warnings: &[Warning],
    ) -> Option<Self> {
        let contents = Contents::read(tables, warnings)?;
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
            RecordingKind::MemoryOnly => {
                let text = contents.memory.map_or_else(String::new, snapshot::subject);
                format!("{text} {}", no_timeline::subject(tables)).trim().to_owned()
            }
            RecordingKind::NoProfilerTrace => no_timeline::subject(tables),
            _ if shows_program => contents.subject(),
            _ => String::new(),
        };
        let first = limits.first().map_or("", |limit| &limit.text);
        let summary = format!("{subject} {first}").trim().to_owned();
        // Events whose times are probably wrong make shares meaningless.
        let has_shares = !limits.iter().any(|limit| limit.kind == RecordingKind::OutlierTimes);
        let is_incomplete = !matches!(kind, RecordingKind::CpuOnly | RecordingKind::Complete);
        let instructions = is_incomplete.then(|| RecordingInstructions::for_run(&contents, kind));
        Some(Self {
            kind,
            is_on_cpu,
            step_source: contents.recorded.text("step_source").map(str::to_owned),
            step_confidence: contents.step_confidence().map(str::to_owned),
            summary,
            subject,
            time_summary: time_summary::time_summary(tables, contents.count("listed_device") > 0)
                .filter(|_| has_shares),
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
    below_roofline: Option<Row<'a>>,
    /// Files that were skipped although they hold activities that no file of their rank holds.
    skipped_parts: Vec<&'a str>,
}

impl<'a> Contents<'a> {
    fn read(tables: &'a [MetricTable], warnings: &'a [Warning]) -> Option<Self> {
        let recorded = MetricTable::rows_of(tables, RECORDING_VIEW).next()?;
        let parts = warnings.iter().filter(|warning| warning.code == SPLIT_RANK);
        let [traits, below_roofline] =
            [RUN_TRAITS_VIEW, ROOFLINE_VIEW].map(|view| MetricTable::rows_of(tables, view).next());
        let memory = Row::largest(MetricTable::rows_of(tables, MEMORY_VIEW), "peak_bytes");
        let skipped_parts = parts.map(|warning| warning.file.as_str()).collect();
        Some(Self { recorded, traits, memory, below_roofline, skipped_parts })
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

    /// The entry of the table of devices that fits the GPU, where the trace does not name it.
    fn measured_against(&self) -> Option<&'a str> {
        self.below_roofline?.text("peak")
    }

    fn step_confidence(&self) -> Option<&'static str> {
        Some(match self.recorded.text("step_source")? {
            "repetition" | "pass" => "low",
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
        self.traits?.flag("is_training")
    }

    /// Whether operators ran, and no device.
    fn is_on_cpu(&self) -> bool {
        self.count("device_event") == 0 && self.count("op") > 0 && !self.uses_unrecorded_device()
    }

    fn uses_unrecorded_device(&self) -> bool {
        let has_skipped_part = self.count("op") > 0 && !self.skipped_parts.is_empty();
        self.count("device_event") == 0
            && (self.count("launch") > 0 || self.count("device_op") > 0 || has_skipped_part)
    }

    fn duration(&self) -> String {
        human(self.recorded.number("recorded_ns").unwrap_or(0.0))
    }

    /// `5 steps of training on NVIDIA A100-SXM4-80GB.`
    fn subject(&self) -> String {
        let program = match self.is_training() {
            Some(true) => "training",
            Some(false) if self.is_inference() => "inference",
            Some(false) => "forward passes",
            None => "a program",
        };
        let name = self
            .trait_text("device_name")
            .or(self.recorded.text("listed_device_name"))
            .or(self.measured_against());
        let device = match (name, self.listed_devices()) {
            (_, Some(devices)) if self.is_on_cpu() => {
                format!(" on the CPU of a machine with {devices}")
            }
            _ if self.is_on_cpu() => " on the CPU".to_owned(),
            (Some(name), _) => format!(" on {name}"),
            (None, _) if self.count("device_event") > 0 => " on a GPU".to_owned(),
            (None, _) => String::new(),
        };
        let is_of_passes = self.recorded.text("step_source") == Some("pass");
        let extent = match self.count("step") {
            0 => format!("{} of {program}", self.duration()),
            count if is_of_passes => {
                let pass = human(self.recorded.number("step_ns").unwrap_or(0.0));
                format!("{count} passes of {pass}")
            }
            count => format!("{} of {program}", plural(count as usize, "step")),
        };
        let marks = match self.recorded.text("step_source") {
            Some("repetition" | "pass") => ", inferred from repeating operators",
            Some("optimizer") => ", inferred from calls of the optimizer",
            _ => "",
        };
        let ranks = match self.count("profiled_rank") {
            0 | 1 => String::new(),
            count => format!(", {count} ranks"),
        };
        let warm_up = self.recorded.number("warm_up_step_ns").map_or_else(String::new, |ns| {
            format!("; the first takes {} and is warm-up, which no mean counts", human(ns))
        });
        let mut text = format!("{extent}{device}{ranks}{marks}{warm_up}.");
        if self.is_on_cpu() {
            text.push_str(&self.top_operator());
        }
        text
    }

    /// What takes most of the time on the CPU: an operator, or none.
    fn top_operator(&self) -> String {
        let of_wall = self.recorded.number("op_ratio").unwrap_or(0.0);
        if of_wall < MOSTLY_OPERATORS_RATIO {
            return format!(" Operators run for {} % of the time.", decimals(100.0 * of_wall, 1));
        }
        let top = self.recorded.text("top_op_name").zip(self.recorded.number("top_op_ratio"));
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
        if let [file, others @ ..] = &self.skipped_parts[..] {
            return skipped_device(file, others.len());
        }
        if self.count("profiler_range") > 0 {
            return "Hardware counters were recorded (`profiler_metrics`), which replaces the timeline of kernels: record again \
                    without them."
                .to_owned();
        }
        if self.count("launch") == 0 {
            return self.device_without_activity();
        }
        let machine = self.listed_devices().map(|devices| format!(" on a machine with {devices}"));
        let waited = self.count("waited_launch");
        let them = if waited == self.count("launch") {
            "them".to_owned()
        } else {
            format!("{waited} of them")
        };
        let wait = self.recorded.text("wait_name").filter(|_| waited > 0);
        let reason = match wait {
            // A call that waits for the device, not for one of its streams, waits for all earlier launches.
            Some(wait) if wait.contains("DeviceSynchronize") => {
                format!(", although `{wait}` waits for {them}: {NO_ACTIVITIES}")
            }
            Some(wait) => {
                format!(
                    ", although the host waits for the GPU after {them} (`{wait}`): {NO_ACTIVITIES}"
                )
            }
            None => format!(": the recording ended before the GPU ran them, or {NO_ACTIVITIES}"),
        };
        format!(
            "In {}{}, {} and {} of kernels or graphs were recorded, but no GPU activity{reason}",
            self.duration(),
            machine.unwrap_or_default(),
            plural(self.count("op") as usize, "operator"),
            self.counted("launch", "launch", "launches"),
        )
    }

    /// Why there are no steps.
    fn no_steps(&self) -> String {
        match (self.count("recurring_op"), self.count("recurrence")) {
            (operators, count) if operators > 0 && count > 0 => format!(
                "No steps are marked, so shares include start-up. The same {operators} operators recur {count} times, {} each, in \
                 passes or in the layers of one.",
                human(self.recorded.number("recurrence_dur_ns").unwrap_or(0.0)),
            ),
            _ => "No steps are marked, and none could be inferred from repeating operators, so shares include start-up."
                .to_owned(),
        }
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

    /// What a memory snapshot cannot show.
    fn memory_limit(&self) -> String {
        let text = match self.memory.map(|memory| memory.is_true("has_history")) {
            Some(true) | None => "It shows who holds memory, not how time is spent.",
            Some(false) => {
                "A memory snapshot without a history: it shows what was held when it was taken, not who allocated it. Call \
                 `torch.cuda.memory._record_memory_history()` before what is to be seen."
            }
        };
        text.to_owned()
    }

    /// The limit of a recording that shows the profiler at work.
    fn profiler_limit(&self) -> Option<RecordingLimit> {
        let ratio = self
            .recorded
            .number("profiler_ratio")
            .filter(|ratio| *ratio >= MOSTLY_PROFILER_RATIO)?;
        let name = self.recorded.text("profiler_name").map(|name| format!(", mostly `{name}`"));
        let text = format!(
            "{} % of the time that was recorded is the profiler's own work{}: the recording shows the profiler rather than the program. \
             {RECORD_LATER}{}",
            decimals(100.0 * ratio, 1),
            name.unwrap_or_default(),
            if self.count("frame") > 0 { " Leave `with_stack=True` out." } else { "" },
        );
        Some(RecordingLimit { kind: RecordingKind::ProfilerOverhead, text })
    }

    /// Returns the limit of a recording that lacks most of the device work.
    fn lost_work_limit(&self) -> Option<RecordingLimit> {
        let ratio = self.recorded.number("lost_launch_ratio");
        let ratio = ratio.filter(|ratio| *ratio >= MOSTLY_LOST_RATIO)?;
        let steps = match (self.count("recorded_step"), self.count("step")) {
            (_, 0) => String::new(),
            (recorded, steps) => {
                format!(" Only {recorded} of {} can be analyzed.", plural(steps as usize, "step"))
            }
        };
        let text = format!(
            "{} % of the launches of kernels have no GPU activity in the trace: the profiler lost most of the GPU's work.{steps} Record \
             again, and fewer steps (`active=3`).",
            decimals(100.0 * ratio, 1),
        );
        Some(RecordingLimit { kind: RecordingKind::LostWork, text })
    }

    /// Returns the limit of a recording whose device work was delivered late.
    fn burst_limit(&self) -> Option<RecordingLimit> {
        self.recorded.number("burst_ratio").filter(|ratio| *ratio >= MOSTLY_LATE_RATIO)?;
        let text = format!(
            "The GPU's work starts {} after the first launch, after nearly all launches: the profiler delivered it in one burst, so \
             its times do not show when it ran. Record again, with another version of torch or of the driver, or without graphs.",
            human(self.recorded.number("burst_wait_ns").unwrap_or(0.0)),
        );
        Some(RecordingLimit { kind: RecordingKind::WorkInABurst, text })
    }

    /// The limit of a recording that shows start-up.
    fn warmup_limit(&self) -> Option<RecordingLimit> {
        let ratio = |name: &str| self.recorded.number(name).unwrap_or(0.0);
        let named = |name: &str| {
            self.recorded.text(name).map_or(String::new(), |name| format!(", mostly `{name}`"))
        };
        let of_recording = ratio("warmup_ratio");
        let of_idle = ratio("startup_idle_ratio");
        let text = if of_recording >= MOSTLY_WARMUP_RATIO {
            format!(
                "{} % of the {} is warm-up (first launches, loading code, allocating device memory{}): the recording shows \
                 start-up rather than steady state. {RECORD_LATER}",
                decimals(100.0 * of_recording, 1),
                self.duration(),
                named("warmup_name"),
            )
        } else if of_idle >= MOSTLY_WARMUP_RATIO && ratio("idle_ratio") >= MOSTLY_WARMUP_RATIO {
            format!(
                "The GPU is idle {} % of the time, and {} % of that is start-up (setting the runtime up, loading code, \
                 compiling{}): the recording shows start-up rather than steady state. {RECORD_LATER}",
                decimals(100.0 * ratio("idle_ratio"), 1),
                decimals(100.0 * of_idle, 1),
                named("startup_idle_name"),
            )
        } else {
            return None;
        };
        Some(RecordingLimit { kind: RecordingKind::WarmUp, text })
    }

    /// The limits, most serious first.
    fn limits(&self, formats: &[&str]) -> Vec<RecordingLimit> {
        let is_truncated = self.recorded.is_true("is_truncated");
        let mut limits = Vec::new();
        let mut add = |kind, text: String| limits.push(RecordingLimit { kind, text });
        if self.count("profiled_rank") == 0 {
            let mut formats: Vec<&str> = formats.to_vec();
            formats.dedup();
            if formats.iter().any(|format| format.starts_with("memory ")) {
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
        let busy_ratio = self.recorded.number("busy_ratio");
        let work_ratio = busy_ratio.or(self.recorded.number("op_ratio")).unwrap_or(0.0);
        let shows_steps = self.count("step") > 1 && work_ratio >= SHOWS_STEPS_RATIO;
        let is_of_steps_or_device =
            ["step", "device_event", "launch"].iter().any(|kind| self.count(kind) > 0);
        let least = match (shows_steps, is_of_steps_or_device) {
            (true, _) => MIN_EVENTS_IN_STEPS,
            (false, true) => MIN_EVENTS,
            (false, false) => MIN_EVENTS_ON_CPU,
        };
        let is_busy = busy_ratio.is_some_and(|busy| busy >= SHOWS_WORK_RATIO);
        // A few operators of a device that was not recorded say what to record.
        let names_missing_device =
            self.uses_unrecorded_device() && self.count("op") >= MIN_OPS_OF_DEVICE;
        if program < least && self.count("launch") < least && !is_busy && !names_missing_device {
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
                    } else if self.recorded.is_true("ended_in_warmup") {
                        " The profiler stopped while its schedule was still warming up: call `prof.step()` after each \
                         iteration, and run at least `wait + warmup + active` of them."
                    } else {
                        " The profiled code runs almost no PyTorch operators, or the profiler stopped too early."
                    },
                ),
            );
        } else if self.uses_unrecorded_device() {
            add(RecordingKind::DeviceNotRecorded, self.unrecorded_device());
        }
        let outlier_ratio = self.recorded.number("outlier_ratio").unwrap_or(0.0);
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
                    human(self.recorded.number("rest_ns").unwrap_or(0.0)),
                ),
            );
        }
        limits.extend(self.lost_work_limit());
        limits.extend(self.burst_limit());
        limits.extend(self.profiler_limit());
        limits.extend(self.warmup_limit());
        let mut add = |kind, text: String| limits.push(RecordingLimit { kind, text });
        match self.count("step") {
            0 => add(RecordingKind::NoSteps, self.no_steps()),
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

/// Why a device that was recorded has no activity: its files were skipped.
fn skipped_device(file: &str, others: usize) -> String {
    let (files, verb) = match others {
        0 => (format!("`{file}` holds"), "was"),
        others => (format!("`{file}` and {} hold", plural(others, "other file")), "were"),
    };
    format!(
        "{files} GPU activities, but {verb} skipped: another file of the same rank holds the host at the same time, and parts of \
         one recording are not joined. Record each rank into one file."
    )
}
