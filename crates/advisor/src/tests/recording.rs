//! The description of the recording in a report.

use trace_model::{MetricTable, RunInfo, SPLIT_RANK, Source, Value, Warning};

use super::{view, with_default};
use crate::evaluate;
use crate::language::severity::Severity;
use crate::report::recording::{Recording, RecordingKind};

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
fn a_skipped_file_of_the_gpu_is_the_reason_for_its_missing_activity() {
    let recorded = [
        ("profiled_rank_count", Value::Int(1)),
        ("op_count", Value::Int(1206)),
        ("launch_count", Value::Int(260)),
        ("recorded_ns", Value::Int(12_500_000)),
    ];
    let tables = [view("trace_recording", &[&recorded]), view("run_traits", &[&[]])];
    let skipped = |file: &str| Warning {
        code: SPLIT_RANK.into(),
        file: file.to_owned(),
        message: String::new(),
        count: 1,
    };
    let told = |warnings: &[Warning]| {
        let report = evaluate(&with_default(&[]), &tables, &RunInfo::default(), warnings);
        let recording = report.recording.unwrap();
        assert_eq!(recording.kind, RecordingKind::DeviceNotRecorded);
        recording.summary
    };
    assert!(told(&[]).contains("CUPTI"));
    let one = told(&[skipped("gpu.json")]);
    assert!(one.contains("`gpu.json` holds GPU activities, but was skipped"), "{one}");
    assert!(!one.contains("CUPTI") && one.contains("Record each rank into one file."), "{one}");
    let two = told(&[skipped("gpu0.json"), skipped("gpu1.json")]);
    assert!(two.contains("`gpu0.json` and 1 other file hold GPU activities, but were"), "{two}");
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
fn recordings_that_lost_device_work_need_another_recording() {
    let counts = [
        ("profiled_rank_count", Value::Int(2)),
        ("op_count", Value::Int(2154)),
        ("device_event_count", Value::Int(234)),
        ("step_count", Value::Int(6)),
        ("recorded_step_count", Value::Int(1)),
    ];
    let of = |ratio: f64| {
        let lost = [("lost_launch_ratio", Value::Float(ratio))];
        recording(&[&counts[..], &lost].concat(), &[])
    };
    let found = of(0.838);
    assert_eq!(found.kind, RecordingKind::LostWork);
    assert!(found.kind.is_severe());
    assert!(
        found.summary.contains("83.8 % of the launches")
            && found.summary.contains("Only 1 of 6 steps can be analyzed"),
        "{}",
        found.summary
    );
    assert_eq!(of(0.329).kind, RecordingKind::Complete);
}

#[test]
fn recordings_of_one_burst_need_another_recording() {
    let of = |ratio: f64| {
        recording(
            &[
                ("profiled_rank_count", Value::Int(1)),
                ("op_count", Value::Int(2154)),
                ("device_event_count", Value::Int(714)),
                ("step_count", Value::Int(6)),
                ("burst_ratio", Value::Float(ratio)),
                ("burst_wait_ns", Value::Int(44_700_000)),
            ],
            &[],
        )
    };
    let found = of(1.0);
    assert_eq!(found.kind, RecordingKind::WorkInABurst);
    assert!(found.kind.is_severe() && found.summary.contains("44.7 ms"), "{}", found.summary);
    assert_eq!(of(0.34).kind, RecordingKind::Complete);
}

#[test]
fn start_up_and_the_profiler_at_work_are_to_be_recorded_again() {
    let counts = [
        ("profiled_rank_count", Value::Int(1)),
        ("op_count", Value::Int(2154)),
        ("device_event_count", Value::Int(534)),
        ("recorded_ns", Value::Int(4_000_000)),
        ("step_count", Value::Int(3)),
        ("idle_ratio", Value::Float(0.9)),
    ];
    let of = |more: &[(&str, Value)]| recording(&[&counts[..], more].concat(), &[]);
    let found = of(&[
        ("profiler_ratio", Value::Float(0.26)),
        ("profiler_name", text("Activity Buffer Request")),
    ]);
    assert_eq!(found.kind, RecordingKind::ProfilerOverhead);
    assert!(found.kind.is_severe());
    assert!(
        found.summary.contains("26 % of the time") && found.summary.contains("warmup=3, active=5"),
        "{}",
        found.summary
    );
    assert_eq!(of(&[("profiler_ratio", Value::Float(0.22))]).kind, RecordingKind::Complete);
    let startup = ("startup_idle_ratio", Value::Float(0.6));
    let found = of(&[startup.clone(), ("startup_idle_name", text("cudaGetDeviceProperties"))]);
    assert_eq!(found.kind, RecordingKind::WarmUp);
    assert!(found.summary.contains("60 % of that is start-up"), "{}", found.summary);
    // A GPU that is busy most of the time shows its work.
    assert_eq!(of(&[startup, ("idle_ratio", Value::Float(0.3))]).kind, RecordingKind::Complete);
}

#[test]
fn idle_time_of_a_recording_of_start_up_is_not_critical() {
    let severity_of_idle_time = |warmup_ratio: f64| {
        let recorded = [
            ("profiled_rank_count", Value::Int(1)),
            ("op_count", Value::Int(2154)),
            ("device_event_count", Value::Int(534)),
            ("recorded_ns", Value::Int(4_000_000_000)),
            ("step_count", Value::Int(3)),
            ("warmup_ratio", Value::Float(warmup_ratio)),
            ("warmup_name", text("cudaFree")),
        ];
        let idle = [
            ("rank", Value::Int(0)),
            ("device", Value::Int(0)),
            ("busy_ratio", Value::Float(0.01)),
            ("idle_ratio", Value::Float(0.99)),
            ("idle_ns", Value::Int(990_000_000)),
            ("unattributed_ratio", Value::Float(0.0)),
            ("window_ns", Value::Int(1_000_000_000)),
            ("graph_launch_count", Value::Int(0)),
            ("step_count", Value::Int(3)),
        ];
        let tables = [view("trace_recording", &[&recorded]), view("gpu_utilization", &[&idle])];
        let report = evaluate(&with_default(&[]), &tables, &RunInfo::default(), &[]);
        report.findings.iter().find(|finding| finding.code == "GU001").unwrap().severity
    };
    assert_eq!(severity_of_idle_time(0.1), Severity::Critical);
    assert_eq!(severity_of_idle_time(0.9), Severity::Medium);
}

#[test]
fn few_kernels_that_fill_the_time_are_not_next_to_nothing() {
    let counts = [
        ("profiled_rank_count", Value::Int(1)),
        ("op_count", Value::Int(5)),
        ("device_event_count", Value::Int(5)),
        ("launch_count", Value::Int(5)),
    ];
    let of = |busy| recording(&[&counts[..], &[("busy_ratio", Value::Float(busy))]].concat(), &[]);
    assert_eq!(of(0.97).kind, RecordingKind::NoSteps);
    assert_eq!(of(0.03).kind, RecordingKind::AlmostEmpty);
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

/// A run of one memory snapshot.
fn of_snapshot() -> RunInfo {
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
    RunInfo { sources: vec![source], ..RunInfo::default() }
}

#[test]
fn memory_snapshots_show_who_holds_memory() {
    let run = of_snapshot();
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
                ("top_owner", text("activation")),
                ("top_owner_bytes", Value::Int(48 << 20)),
                ("top_phase", text("forward")),
                ("top_place", text("net.py:7 forward")),
                ("top_place_bytes", Value::Int(40 << 20)),
                ("has_backward", Value::Bool(true)),
                ("half_batch_peak_bytes", Value::Int(36 << 20)),
                ("checkpointed_peak_bytes", Value::Int(63 << 20)),
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
        "A memory snapshot of 3 iterations, with a peak of 64 MiB: activations 75 %, parameters 12.5 %. Most at the peak: 48 MiB \
         are held by activations, 40 MiB of it allocated in `net.py:7 forward`. With half of the batch, the \
         peak would be about 36 MiB. It shows who holds memory, not how time is spent."
    );
    assert!(
        report
            .headline
            .text
            .starts_with("Of the peak of 64 MiB, 75 % is activations; with half of the batch it would be about 36 MiB."),
        "{}",
        report.headline.text
    );
    assert!(report.is_judged(&rules));
    // Rules about time do not apply.
    let (missing, others) = report.unknown_rules();
    assert!(missing.iter().all(|rule| rule.code.starts_with("MM")), "{missing:?}");
    assert!(others.len() > 80);
}

#[test]
fn a_copy_of_the_model_in_16_bits_is_told_apart_from_parameters_and_casts() {
    let subject = |copy_mib: i64, cast_mib: i64| {
        let row = [
            ("has_history", Value::Bool(true)),
            ("peak_bytes", Value::Int(80 << 20)),
            ("parameter_bytes", Value::Int(48 << 20)),
            ("gradient_bytes", Value::Int(32 << 20)),
            ("half_copy_bytes", Value::Int(copy_mib << 20)),
            ("weight_copy_bytes", Value::Int(cast_mib << 20)),
            ("top_owner", text("parameter")),
            ("top_owner_bytes", Value::Int(48 << 20)),
        ];
        let run = of_snapshot();
        let tables = [
            view("trace_recording", &[&[("rank_count", Value::Int(1))]]),
            view("run_traits", &[&[]]),
            view("memory_pressure", &[&row]),
        ];
        let report = evaluate(&with_default(&[]), &tables, &run, &[]);
        (report.recording.unwrap().subject, report.headline.text)
    };
    let (copied, headline) = subject(16, 0);
    assert!(
        copied.contains(
            "parameters 40 %, gradients 40 %, a second copy of parameters in 16 bits 20 %."
        ),
        "{copied}"
    );
    assert!(copied.contains("Most at the peak: 32 MiB are held by parameters."), "{copied}");
    assert!(copied.contains("32 MiB of the parameters have twins of half their size"), "{copied}");
    let then = "with only one copy of the parameters it would be about 64 MiB";
    assert!(headline.contains(then), "{headline}");
    for (copy_mib, cast_mib) in [(4, 0), (16, 16)] {
        let (other, _) = subject(copy_mib, cast_mib);
        assert!(other.contains("parameters 60 %") && !other.contains("twins"), "{other}");
    }
}

/// The report on a run whose host spends its time as these rows of `trace_host_time` say.
fn silent_report(recorded: &[(&str, Value)], rows: &[&[(&str, Value)]]) -> crate::Report {
    let tables = [
        view("trace_recording", &[recorded]),
        view("run_traits", &[&[]]),
        view("trace_host_time", rows),
    ];
    evaluate(&with_default(&[]), &tables, &RunInfo::default(), &[])
}

fn time_summary(report: &crate::Report) -> Option<&str> {
    report.recording.as_ref()?.time_summary.as_deref()
}

/// A row of `trace_host_time`, of a rank that launched 10 kernels in 4.53 s.
fn host_time(name: &str, kind: &str, call_count: i64, self_ns: i64) -> Vec<(&'static str, Value)> {
    vec![
        ("rank", Value::Int(0)),
        ("name", text(name)),
        ("kind", text(kind)),
        ("call_count", Value::Int(call_count)),
        ("self_ns", Value::Int(self_ns)),
        ("self_ratio", Value::Float(self_ns as f64 / 4.53e9)),
        ("launch_count", Value::Int(0)),
        ("outside_count", Value::Int(0)),
        ("window_ns", Value::Int(4_530_000_000)),
        ("host_ns", Value::Int(4_510_000_000)),
        ("host_ratio", Value::Float(0.996)),
        ("thread_count", Value::Int(1)),
        ("rank_launch_count", Value::Int(10)),
    ]
}

const NOT_RECORDED: [(&str, Value); 4] = [
    ("profiled_rank_count", Value::Int(1)),
    ("op_count", Value::Int(70)),
    ("launch_count", Value::Int(10)),
    ("recorded_ns", Value::Int(4_530_000_000)),
];

#[test]
fn a_recording_without_its_gpu_says_what_the_host_does() {
    let mut copies = host_time("cudaMemcpyAsync", "call", 10, 863_000_000);
    copies.push(("op_name", text("aten::copy_")));
    let fills = host_time("aten::normal_", "operator", 10, 3_620_000_000);
    let report = silent_report(&NOT_RECORDED, &[&copies, &fills]);
    assert_eq!(
        time_summary(&report).unwrap(),
        "79.9 % of the 4.53 s are in `aten::normal_` (10 calls), 19.1 % in `cudaMemcpyAsync` (10 calls, mostly in `aten::copy_`). \
         `aten::normal_` launches no kernel, so it fills tensors on the CPU: create them on the GPU (`device=\"cuda\"`), or once before the loop."
    );
    // Without a launch in the recording, nothing tells where an operator runs.
    let mut fills = host_time("aten::normal_", "operator", 10, 3_620_000_000);
    fills.push(("rank_launch_count", Value::Int(0)));
    let report = silent_report(&NOT_RECORDED, &[&fills]);
    assert_eq!(
        time_summary(&report).unwrap(),
        "79.9 % of the 4.53 s are in `aten::normal_` (10 calls)."
    );
    // On a machine with a GPU, calls that take longer than any launch fill tensors on the CPU.
    let listed =
        [("listed_device_count", Value::Int(1)), ("listed_device_name", text("NVIDIA T4"))];
    let report = silent_report(&[&NOT_RECORDED[..], &listed].concat(), &[&fills]);
    assert!(time_summary(&report).unwrap().ends_with(
        "At 362 ms per call, `aten::normal_` fills tensors on the CPU: if they go to the GPU, create them there (`device=\"cuda\"`); \
         otherwise, once before the loop."
    ));
    let mut frees = host_time("cudaFree", "call", 6, 3_900_000_000);
    frees.push(("outside_count", Value::Int(6)));
    let report = silent_report(&NOT_RECORDED, &[&frees]);
    assert!(time_summary(&report).unwrap().contains("`torch.cuda.empty_cache()`"));
    // Within operators, PyTorch gives memory back because the device has no memory left.
    let report = silent_report(&NOT_RECORDED, &[&host_time("cudaFree", "call", 6, 3_900_000_000)]);
    assert!(!time_summary(&report).unwrap().contains("empty_cache"));
    let small = host_time("aten::mul", "operator", 56, 320_000_000);
    let report = silent_report(&NOT_RECORDED, &[&small]);
    assert_eq!(
        time_summary(&report).unwrap(),
        "The host is in operators and runtime calls for 99.6 % of the 4.53 s; most is in `aten::mul` (56 calls), 7.1 %."
    );
    let outliers =
        [&NOT_RECORDED[..], &[("outlier_ratio", Value::Float(0.99)), ("outlier_name", text("x"))]]
            .concat();
    assert_eq!(time_summary(&silent_report(&outliers, &[&small])), None);
}

#[test]
fn launches_that_the_host_waited_for_ended_before_the_recording() {
    let waited = |count: i64, name: &str| {
        let wait = [("waited_launch_count", Value::Int(count)), ("wait_name", text(name))];
        recording(&[&NOT_RECORDED[..], &wait[..]].concat(), &[]).summary
    };
    let all = waited(10, "cudaDeviceSynchronize");
    assert!(
        all.ends_with(
            "no GPU activity, although `cudaDeviceSynchronize` waits for them: its tracing library (CUPTI, roctracer) delivered no \
             activities."
        ),
        "{all}"
    );
    assert!(waited(4, "cudaStreamSynchronize").contains("waits for the GPU after 4 of them"));
    assert!(recording(&NOT_RECORDED, &[]).summary.contains("ended before the GPU ran them, or"));
}

/// Returns the tables of passes that keep a GPU busy.
fn tables_of_a_busy_gpu(matmul_efficiency_ratio: f64) -> [MetricTable; 4] {
    [
        view(
            "trace_recording",
            &[&[
                ("profiled_rank_count", Value::Int(1)),
                ("op_count", Value::Int(700)),
                ("device_event_count", Value::Int(900)),
                ("step_count", Value::Int(5)),
                ("step_source", text("pass")),
                ("step_ns", Value::Int(3_680_000)),
            ]],
        ),
        view("run_traits", &[&[]]),
        view(
            "gpu_utilization",
            &[&[
                ("rank", Value::Int(0)),
                ("device", Value::Int(0)),
                ("busy_ratio", Value::Float(0.998)),
                ("window_ns", Value::Int(156_000_000)),
            ]],
        ),
        view(
            "gpu_roofline",
            &[&[
                ("rank", Value::Int(0)),
                ("device", Value::Int(0)),
                ("matmul_ratio", Value::Float(0.85)),
                ("matmul_efficiency_ratio", Value::Float(matmul_efficiency_ratio)),
                ("matmul_modeled_ratio", Value::Float(0.97)),
            ]],
        ),
    ]
}

#[test]
fn a_busy_gpu_without_a_finding_is_described() {
    let tables = tables_of_a_busy_gpu(0.61);
    let report = evaluate(&with_default(&[]), &tables, &RunInfo::default(), &[]);
    let recording = report.recording.as_ref().unwrap();
    assert_eq!(
        recording.time_summary.as_deref().unwrap(),
        "GPU 0 is busy for 99.8 % of the 156 ms, matmuls, convolutions and attention for 85 %, at 61 % of the roofline."
    );
    // The answer of a healthy run is its last sentence, and stands there only.
    let headline = &report.headline.text;
    assert!(headline.starts_with(recording.time_summary.as_deref().unwrap()), "{headline}");
    assert_eq!(report.time_summary(), None);
    assert_eq!(recording.step_confidence.as_deref(), Some("low"));
    assert!(recording.subject.starts_with("5 passes of 3.68 ms"), "{}", recording.subject);
    // Times or shapes are wrong.
    let report =
        evaluate(&with_default(&[]), &tables_of_a_busy_gpu(1.06), &RunInfo::default(), &[]);
    assert_eq!(
        report.recording.unwrap().time_summary.unwrap(),
        "GPU 0 is busy for 99.8 % of the 156 ms, matmuls, convolutions and attention for 85 %."
    );
}

#[test]
fn operators_that_recur_are_said_to_be_passes_or_layers() {
    let counts = [
        ("profiled_rank_count", Value::Int(1)),
        ("op_count", Value::Int(486)),
        ("recurring_op_count", Value::Int(15)),
        ("recurrence_count", Value::Int(12)),
        ("recurrence_dur_ns", Value::Int(410_000)),
    ];
    let found = recording(&counts, &[]);
    assert_eq!(found.kind, RecordingKind::NoSteps);
    assert!(
        found.summary.ends_with(
            "The same 15 operators recur 12 times, 410 us each, in passes or in the layers of one."
        ),
        "{}",
        found.summary
    );
}

/// What a run without a timeline shows, by the rows of one view.
fn without_timeline(name: &str, rows: &[&[(&str, Value)]]) -> String {
    let recorded = view("trace_recording", &[&[("rank_count", Value::Int(1))]]);
    let tables = [recorded, view("run_traits", &[&[]]), view(name, rows)];
    let report = evaluate(&with_default(&[]), &tables, &RunInfo::default(), &[]);
    report.recording.unwrap().subject
}

#[test]
fn dumps_of_ranks_that_are_not_stuck_say_so() {
    let dumps = |unfinished: i64, missing: i64, no_dump: i64| {
        let row = [
            ("has_dump", Value::Bool(true)),
            ("dump_count", Value::Int(4)),
            ("collective_count", Value::Int(6)),
            ("unfinished_count", Value::Int(unfinished)),
            ("missing_count", Value::Int(missing)),
            ("no_dump_count", Value::Int(no_dump)),
        ];
        without_timeline("flight_summary", &[&row])
    };
    assert_eq!(
        dumps(0, 0, 0),
        "The Flight Recorder's dumps of 4 ranks hold 6 collectives: the ranks of each process group call the same ones in the \
         same order, and all of them completed, so no rank is stuck."
    );
    assert!(dumps(0, 0, 1).ends_with("so no rank is stuck. 1 rank left no dump."));
    assert!(dumps(2, 1, 0).ends_with("hold 6 collectives, 2 of which did not complete."));
    assert_eq!(without_timeline("flight_summary", &[&[("has_dump", Value::Bool(false))]]), "");
}

#[test]
fn machine_metrics_say_whether_cores_are_the_limit() {
    let machine = |ratio: f64| {
        vec![
            ("agent", text("agent-a")),
            ("cpu_util_ratio", Value::Float(ratio)),
            ("cpu_sample_count", Value::Int(11)),
        ]
    };
    let cores = |ratios: &[f64]| {
        let rows: Vec<_> = ratios.iter().map(|&ratio| machine(ratio)).collect();
        let rows: Vec<&[(&str, Value)]> = rows.iter().map(Vec::as_slice).collect();
        without_timeline("system_hosts", &rows)
    };
    assert_eq!(
        cores(&[0.999]),
        "The CPU cores of agent-a are busy for 99.9 % of the time (11 samples): the processor is probably the limit. What runs \
         there, a trace of the PyTorch Profiler shows."
    );
    assert!(
        cores(&[0.2, 0.95])
            .starts_with("The CPU cores of 2 machines are busy for 20 to 95 % of the time (up to 11 samples each): they have room."),
        "{}",
        cores(&[0.2, 0.95])
    );
    assert_eq!(without_timeline("system_hosts", &[&[("agent", text("agent-a"))]]), "");
}

#[test]
fn memory_timelines_say_their_peak_and_whether_memory_grows() {
    let timeline = |second: i64| {
        let row = [
            ("dur_ns", Value::Int(164_000_000)),
            ("peak_bytes", Value::Int(219_328)),
            ("end_bytes", Value::Int(115_336)),
            ("first_half_peak_bytes", Value::Int(102_400)),
            ("second_half_peak_bytes", Value::Int(second)),
        ];
        without_timeline("memory_timeline_summary", &[&row])
    };
    assert_eq!(
        timeline(102_400),
        "A memory timeline of 164 ms: at most 214.2 KiB are held at once, and 112.6 KiB at its end. Memory does not grow: its \
         second half needs no more than its first."
    );
    assert!(
        timeline(219_328)
            .ends_with("Memory grows: the first half of it needs 100 KiB, the second 214.2 KiB.")
    );
}
