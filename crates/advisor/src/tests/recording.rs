//! The description of the recording in a report.

use trace_model::{RunInfo, Source, Value};

use super::{view, with_default};
use crate::evaluate;
use crate::recording::{Recording, RecordingKind};

/// The recording that these counts and traits describe.
fn recording(recorded: &[(&str, Value)], traits: &[(&str, Value)]) -> Recording {
    let tables = [view("trace_recording", &[recorded]), view("run_traits", &[traits])];
    let report = evaluate(&with_default(&[]), &tables, &RunInfo::default(), &[]);
    report.recording.unwrap()
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[test]
fn launches_without_kernels_were_not_recorded() {
    let found = recording(
        &[
            ("profiled_rank_count", Value::Int(1)),
            ("op_count", Value::Int(1206)),
            ("launch_count", Value::Int(260)),
            ("recorded_ns", Value::Int(12_500_000)),
            ("listed_device_count", Value::Int(8)),
            ("listed_device_name", text("NVIDIA A100")),
        ],
        &[("is_training", Value::Bool(false))],
    );
    assert_eq!(found.kind, RecordingKind::DeviceNotRecorded);
    assert!(
        found.summary.starts_with(
            "In 12.5 ms on a machine with 8 x NVIDIA A100, 1,206 operators and 260 launches"
        ),
        "{found:?}"
    );
    let instructions = found.instructions.unwrap();
    assert_eq!(
        (instructions.framework.as_str(), instructions.language.as_str()),
        ("inference", "python")
    );
    assert!(
        instructions.code.contains("ProfilerActivity.CUDA")
            && instructions.code.contains("prof.step()")
    );
}

#[test]
fn operators_of_a_gpu_without_its_activity_need_an_option() {
    let found = recording(
        &[
            ("profiled_rank_count", Value::Int(1)),
            ("op_count", Value::Int(500)),
            ("device_op_count", Value::Int(20)),
            ("device_op_name", text("aten::cudnn_convolution")),
            ("step_count", Value::Int(5)),
        ],
        &[("uses_lightning", Value::Bool(true))],
    );
    assert_eq!(found.kind, RecordingKind::DeviceNotRecorded);
    assert!(
        found.summary.contains("`aten::cudnn_convolution`")
            && found.summary.contains("`ProfilerActivity.CUDA`")
    );
    assert_eq!(found.instructions.unwrap().framework, "Lightning");
}

#[test]
fn recordings_on_the_cpu_say_where_the_time_goes() {
    let counts = [
        ("profiled_rank_count", Value::Int(1)),
        ("op_count", Value::Int(486)),
        ("recorded_ns", Value::Int(225_000_000)),
        ("top_op_name", text("aten::mkldnn_convolution")),
        ("top_op_ratio", Value::Float(0.676)),
        ("op_ratio", Value::Float(0.97)),
    ];
    let found = recording(&counts, &[("is_training", Value::Bool(false))]);
    assert_eq!((found.kind, found.is_on_cpu), (RecordingKind::NoSteps, true));
    assert_eq!(
        found.subject,
        "225 ms of forward passes on the CPU. 67.6 % of the operators' time is in `aten::mkldnn_convolution`."
    );
    assert!(found.instructions.unwrap().code.contains("activities=[ProfilerActivity.CPU],"));
    let with_steps =
        [&counts[..], &[("step_count", Value::Int(3)), ("step_source", text("repetition"))]]
            .concat();
    let found = recording(&with_steps, &[]);
    assert_eq!((found.kind, found.instructions), (RecordingKind::CpuOnly, None));
    assert!(
        found
            .subject
            .starts_with("3 steps of a program on the CPU, inferred from repeating operators."),
        "{}",
        found.subject
    );
}

#[test]
fn warm_up_and_next_to_nothing_are_told_first() {
    let found = recording(
        &[
            ("profiled_rank_count", Value::Int(1)),
            ("op_count", Value::Int(2154)),
            ("device_event_count", Value::Int(534)),
            ("warmup_ratio", Value::Float(0.918)),
            ("warmup_name", text("cudaLaunchKernel")),
            ("recorded_ns", Value::Int(557_000_000)),
        ],
        &[],
    );
    let kinds: Vec<RecordingKind> = found.limits.iter().map(|limit| limit.kind).collect();
    assert_eq!(kinds, [RecordingKind::WarmUp, RecordingKind::NoSteps]);
    assert!(found.summary.starts_with("91.8 % of the 557 ms is warm-up"), "{}", found.summary);
    let found = recording(
        &[
            ("profiled_rank_count", Value::Int(1)),
            ("call_count", Value::Int(7)),
            ("recorded_ns", Value::Int(14_600_000)),
        ],
        &[],
    );
    assert_eq!(found.kind, RecordingKind::AlmostEmpty);
    assert!(
        found
            .summary
            .contains("7 calls of the GPU's runtime, no operator and no GPU activity in 14.6 ms"),
        "{}",
        found.summary
    );
}

#[test]
fn traces_of_other_tools_and_other_files_are_named() {
    let found = recording(
        &[
            ("profiled_rank_count", Value::Int(1)),
            ("foreign_event_count", Value::Int(1200)),
            ("foreign_kinds", text("sched, irq")),
        ],
        &[],
    );
    assert_eq!((found.kind, found.instructions), (RecordingKind::OtherTool, None));
    assert!(
        found.summary.contains("1,200 events (sched, irq) come from another tool"),
        "{}",
        found.summary
    );
    let found = recording(&[("rank_count", Value::Int(1))], &[]);
    assert_eq!(found.kind, RecordingKind::NoProfilerTrace);
    assert!(!found.kind.is_severe());
}

#[test]
fn complete_recordings_have_no_limits() {
    let counts = [
        ("profiled_rank_count", Value::Int(2)),
        ("op_count", Value::Int(9000)),
        ("device_event_count", Value::Int(9000)),
        ("step_count", Value::Int(5)),
        ("step_source", text("profiler_step")),
    ];
    let traits = [("is_training", Value::Bool(true)), ("device_name", text("NVIDIA H100"))];
    let found = recording(&counts, &traits);
    assert_eq!(
        (found.kind, found.limits.len(), found.instructions),
        (RecordingKind::Complete, 0, None)
    );
    assert_eq!(found.summary, "5 steps of training on NVIDIA H100, 2 ranks.");
}

#[test]
fn memory_snapshots_show_who_holds_memory() {
    let source = Source {
        file: "snapshot_rank0.pickle".to_owned(),
        format: "memory snapshot".into(),
        rank: 0,
        rank_from: "file name".into(),
        json_bytes: 1000,
        events: 100,
        shift_ns: 0,
        is_timeline: false,
    };
    let run = RunInfo { sources: vec![source], ..RunInfo::default() };
    let tables = [
        view("trace_recording", &[&[("rank_count", Value::Int(1))]]),
        view("run_traits", &[&[]]),
        view(
            "memory_pressure",
            &[&[
                ("rank", Value::Int(0)),
                ("device", Value::Int(0)),
                ("has_history", Value::Bool(true)),
                ("iteration_count", Value::Int(3)),
                ("peak_bytes", Value::Int(64 << 20)),
                ("activation_bytes", Value::Int(48 << 20)),
                ("parameter_bytes", Value::Int(8 << 20)),
                ("gradient_bytes", Value::Int(1 << 20)),
                ("oom_count", Value::Int(0)),
            ]],
        ),
    ];
    let rules = with_default(&[]);
    let report = evaluate(&rules, &tables, &run, &[]);
    let found = report.recording.as_ref().unwrap();
    assert_eq!(found.kind, RecordingKind::MemoryOnly);
    assert_eq!(
        found.summary,
        "A memory snapshot of 3 iterations, with a peak of 64 MiB: activations 75 %, parameters 12.5 %. It shows who \
         holds memory, not how time is spent."
    );
    assert!(report.is_judged(&rules));
    // Rules about time do not apply.
    let (missing, others) = report.unknown_rules();
    assert!(missing.iter().all(|rule| rule.code.starts_with("MM")), "{missing:?}");
    assert!(others.len() > 80);
}
