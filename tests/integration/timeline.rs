//! `advisor timeline`, and the timeline in `advisor check --full`.

use std::fs;
use std::path::Path;
use std::process::Output;

use quick_xml::events::Event;

use crate::support::sandbox::Sandbox;

/// A run of a program on the CPU: two steps with operators on one thread.
const CPU_RUN: &str = r#"{"traceEvents": [
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 7, "tid": 7, "ts": 0, "dur": 1000},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 100, "dur": 800},
    {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#2", "pid": 7, "tid": 7, "ts": 1000, "dur": 1000},
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 1500, "dur": 500}
]}"#;

/// Metrics of Determined, without a trace.
const METRICS: &str = r#"{"result":{"batch":{"values":[57.53],"batches":[],"timestamps":["2026-11-21T10:12:51.606720Z"],"labels":{"trialId":201,"name":"cpu_util_simple","agentId":"agent-a","gpuUuid":"","metricType":"PROFILER_METRIC_TYPE_SYSTEM"}}}}
{"result":{"batch":{"values":[71.69],"batches":[],"timestamps":["2026-11-21T10:13:01.626729Z"],"labels":{"trialId":201,"name":"cpu_util_simple","agentId":"agent-a","gpuUuid":"","metricType":"PROFILER_METRIC_TYPE_SYSTEM"}}}}
"#;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// What a command prints, which has to succeed.
fn printed(output: &Output) -> &str {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn timeline_marks_the_first_finding_in_its_step() {
    let sandbox = Sandbox::with_run();
    let output = sandbox.run(&["timeline", "run"]);
    let drawn = printed(&output);
    assert!(drawn.starts_with("rank "), "{drawn}");
    let line = |start: &str| drawn.lines().find(|line| line.starts_with(start));
    assert!(line("IN001 ").is_some_and(|line| line.contains("^--")), "{drawn}");
    for lane in ["thread ", "  launches ", "GPU 0 stream 7 ", "GPU 0 busy ", "GPU 0 waits "] {
        assert!(line(lane).is_some(), "{lane}: {drawn}");
    }
    // The host loads, and the device waits for it.
    assert!(line("thread ").unwrap().contains("DDDDD"), "{drawn}");
    assert!(line("GPU 0 waits").unwrap().contains("DDDDD"), "{drawn}");
    assert!(line("D data loading").is_some(), "{drawn}");
    assert!(drawn.contains("\n^ IN001: Steps wait for the DataLoader: "), "{drawn}");
    assert!(drawn.is_ascii() && drawn.lines().all(|line| line.len() <= 100), "{drawn}");
    assert_eq!(output.stdout, sandbox.run(&["timeline", "run"]).stdout);
    printed(&sandbox.run(&["timeline", "run", "-o", "drawn.txt"]));
    assert_eq!(fs::read_to_string(sandbox.path("drawn.txt")).unwrap(), drawn);
}

/// The picture is well-formed, the same for the ending of the file and the option, and marks the finding within its lanes.
#[test]
fn timeline_is_a_picture_in_svg_files() {
    let sandbox = Sandbox::with_run();
    printed(&sandbox.run(&["timeline", "run", "-o", "step.svg"]));
    let picture = fs::read_to_string(sandbox.path("step.svg")).unwrap();
    assert_eq!(printed(&sandbox.run(&["timeline", "run", "-f", "svg"])), picture);
    let mut reader = quick_xml::Reader::from_str(&picture);
    let (mut paints, mut texts) = (Vec::new(), Vec::new());
    loop {
        match reader.read_event().unwrap() {
            Event::Empty(tag) if tag.name().as_ref() == b"rect" => {
                let paint = ["class", "fill"].map(|name| tag.try_get_attribute(name).unwrap());
                let paint = paint.into_iter().flatten().next().unwrap();
                paints.push(String::from_utf8(paint.value.into_owned()).unwrap());
            }
            Event::Text(text) => texts.push(String::from_utf8(text.to_vec()).unwrap()),
            Event::Eof => break,
            _ => {}
        }
    }
    // The finding, data loading, operators and kernels.
    for paint in ["mark", "#d1483f", "#4c78c8", "#3a9a53"] {
        assert!(paints.iter().any(|found| found == paint), "{paint}: {paints:?}");
    }
    for text in ["GPU 0 busy", "GPU 0 waits", "data loading"] {
        assert!(texts.iter().any(|found| found == text), "{text}: {texts:?}");
    }
    assert!(texts.iter().any(|text| text.starts_with("IN001: Steps wait")), "{texts:?}");
    let output = sandbox.run(&["timeline", "run", "-o", "step.png"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains(".svg"), "{}", text(&output.stderr));
}

#[test]
fn timeline_has_the_width_that_is_asked_for() {
    let sandbox = Sandbox::with_run();
    for width in [40, 80, 100, 200] {
        let output = sandbox.run(&["timeline", "run", "--width", &width.to_string()]);
        let lengths = printed(&output).lines().map(str::len);
        let widest = lengths.max().unwrap();
        assert!(widest <= width && widest > width - 8, "{width}: {}", printed(&output));
    }
    let output = sandbox.run(&["timeline", "run", "--width", "39"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("not a number from 40 to 200"));
}

#[test]
fn timeline_draws_the_step_rank_and_finding_that_are_chosen() {
    let sandbox = Sandbox::with_run();
    let output = sandbox.run(&["timeline", "run", "--ranks", "1", "--step", "5"]);
    assert!(printed(&output).starts_with("rank 1, step 5: "), "{}", printed(&output));
    for rule in ["IN002", "in002"] {
        let output = sandbox.run(&["timeline", "run", "--finding", rule]);
        assert!(printed(&output).contains("\n^ IN002: "), "{}", printed(&output));
    }
    let failure = |args: &[&str]| {
        let output = sandbox.run(&[&["timeline", "run"], args].concat());
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
        text(&output.stderr).to_owned()
    };
    let message = failure(&["--step", "99"]);
    assert!(message.contains("has no step 99, only steps "), "{message}");
    let message = failure(&["--finding", "XX999"]);
    assert!(message.contains("no finding of the rule `XX999`"), "{message}");
    assert!(message.contains("help: the findings are: IN001, "), "{message}");
}

#[test]
fn timeline_of_a_program_on_the_cpu_has_threads_only() {
    let sandbox = Sandbox::new();
    sandbox.write("cpu.json", CPU_RUN);
    let output = sandbox.run(&["timeline", "cpu.json", "--step", "2", "--width", "40"]);
    let drawn = printed(&output);
    assert!(drawn.starts_with("rank 0, step 2: 1.00 ms"), "{drawn}");
    let lane = drawn.lines().find(|line| line.starts_with("thread 7, main")).unwrap();
    // Half of the step is an operator, and nothing was recorded before.
    let cells = lane.strip_prefix("thread 7, main  ").unwrap();
    assert_eq!(cells, format!("{}{}", " ".repeat(12), "O".repeat(12)));
    assert!(!drawn.contains("GPU") && !drawn.contains("launches"), "{drawn}");
}

#[test]
fn runs_without_a_timeline_say_so() {
    let sandbox = Sandbox::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/memory");
    fs::copy(fixtures.join("torch113.pickle"), sandbox.path("snapshot.pickle")).unwrap();
    fs::create_dir(sandbox.path("metrics")).unwrap();
    sandbox.write("metrics/trial201_metrics_SYSTEM.jsonl", METRICS);
    for (run, reason) in [
        ("snapshot.pickle", "snapshot.pickle has no timeline: it only records memory"),
        ("metrics", "metrics has no timeline: it holds no trace of the PyTorch Profiler"),
    ] {
        let output = sandbox.run(&["timeline", run]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
        assert!(text(&output.stderr).contains(reason), "{}", text(&output.stderr));
        let full = sandbox.run(&["check", run, "--full"]);
        assert!(!text(&full.stdout).contains("a character is"), "{}", text(&full.stdout));
    }
}

#[test]
fn full_report_has_the_timeline_of_its_first_finding() {
    let sandbox = Sandbox::with_run();
    let drawn = sandbox.run(&["timeline", "run"]).stdout;
    let drawn = text(&drawn);
    let check = |more: &[&str]| {
        let cache = sandbox.path("cache");
        let args = [&["check", "run", "--exit-zero"], more].concat();
        let output = sandbox.command(&args).env("ADVISOR_CACHE_DIR", cache).output().unwrap();
        printed(&output).to_owned()
    };
    let full = check(&["--full"]);
    assert_eq!(full.matches(drawn).count(), 1, "{full}");
    let (before, after) = full.split_once(drawn).unwrap();
    assert!(before.contains("[IN001 dataloader-wait]") && !after.contains("[IN001"), "{full}");
    // A cached report has none of the lanes: the run is opened again.
    assert_eq!(check(&["--full"]), full);
    for without in [&[][..], &["--all"], &["--full", "-f", "markdown"]] {
        assert!(!check(without).contains("a character is"), "{without:?}");
    }
}
