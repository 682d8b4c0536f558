//! `advisor cut`: what is kept of a trace, compared with the trace, and that the part is a run like any other.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;
use trace_advisor::ingest::{Location, NoProgress, Options};
use trace_advisor::query::{Range, Selection};
use trace_advisor::{CutRun, Cutting, OpenOptions, Run, cut};

use crate::support::corpus::corpus;
use crate::support::rows::lines;
use crate::support::sandbox::Sandbox;
use crate::support::slice;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

fn parse(path: &Path) -> Value {
    let mut text = Vec::new();
    File::open(path).unwrap().read_to_end(&mut text).unwrap();
    if text.starts_with(&[0x1f, 0x8b]) {
        let packed = std::mem::take(&mut text);
        GzDecoder::new(packed.as_slice()).read_to_end(&mut text).unwrap();
    }
    serde_json::from_slice(&text).unwrap()
}

fn events(trace: &Value) -> &[Value] {
    trace.as_array().or_else(|| trace["traceEvents"].as_array()).unwrap()
}

/// A number that may be written as a string.
fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

fn microseconds(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn cut_to(run: &Path, selection: &Selection, folder: &Path) -> CutRun {
    let cutting = Cutting { selection, folder, overwrite: true };
    let location = Location::parse(run).unwrap();
    cut(&location, &Options::default(), &cutting, &NoProgress)
        .unwrap_or_else(|error| panic!("{}: {selection}: {error}", run.display()))
}

fn between(range: Range) -> Selection {
    Selection { between: Some(range), ..Selection::default() }
}

/// Counts and durations of what is selected, and how much of it is linked with what launched it.
fn totals(run: &Path, selection: &Selection) -> Vec<String> {
    let options = OpenOptions { selection: selection.clone(), ..OpenOptions::default() };
    let run = Run::open_with(run, &options, &NoProgress).unwrap();
    let device = ["kernels", "memcpys", "memsets"].map(|table| {
        format!(
            "SELECT '{table}' AS t, rank, count(*) AS n, sum(dur_ns) AS dur, count(launch_ts_ns) AS launches,
                sum(ts_ns - launch_ts_ns) AS delays, count(DISTINCT name) AS names FROM {table} GROUP BY rank"
        )
    });
    let host = ["cpu_ops", "runtime_calls", "annotations", "python_frames", "memory_events"];
    let host = host.map(|table| {
        let dur = if table == "memory_events" { "0" } else { "sum(dur_ns)" };
        format!("SELECT '{table}', rank, count(*), {dur}, 0, 0, 0 FROM {table} GROUP BY rank")
    });
    let query = [device.as_slice(), host.as_slice()].concat().join(" UNION ALL ");
    lines(&run.sql(&format!("SELECT * FROM ({query}) ORDER BY t, rank")).unwrap())
}

/// The launch of an event, if it is a call or an activity of a device.
fn launch(event: &Value) -> Option<i64> {
    let category = event["cat"].as_str()?.to_ascii_lowercase();
    let is_linked = ["kernel", "memcpy", "gpu_memcpy", "memset", "gpu_memset", "cuda_sync"]
        .contains(&category.as_str())
        || ["runtime", "driver"].iter().any(|end| category.ends_with(end));
    integer(&event["args"]["correlation"]).filter(|id| is_linked && *id > 0)
}

/// Checks the part of one trace against the trace; `window` is on its clock, in microseconds.
fn assert_part(whole: &Value, part: &Value, window: (f64, f64), name: &str) {
    if whole.is_object() {
        let others = |trace: &Value| {
            let mut trace = trace.as_object().unwrap().clone();
            trace.remove("traceEvents");
            trace
        };
        assert_eq!(others(whole), others(part), "{name}: properties");
    }
    // Each kept event is one of the trace, unchanged. What remains in `left` is not kept.
    let texts: Vec<String> = events(whole).iter().map(Value::to_string).collect();
    let mut left: HashMap<&str, i64> = HashMap::new();
    for text in &texts {
        *left.entry(text).or_default() += 1;
    }
    for event in events(part) {
        let text = event.to_string();
        let count = left.get_mut(text.as_str()).unwrap_or_else(|| panic!("{name}: {event}"));
        *count -= 1;
        assert!(*count >= 0, "{name}: twice: {event}");
    }
    let all: Vec<(&Value, bool)> =
        events(whole).iter().zip(&texts).map(|(e, text)| (e, left[text.as_str()] > 0)).collect();
    let (first, last) = window;
    let span = |event: &Value| {
        let start = microseconds(&event["ts"])?;
        Some((start, start + microseconds(&event["dur"])?)).filter(|(from, to)| from <= to)
    };
    // A nanosecond of room, because times of this test are doubles.
    let is_inside = |(from, to): (f64, f64), room: f64| from < last - room && to > first + room;
    let phase = |event: &Value| event["ph"].as_str().unwrap_or_default().to_owned();
    let mut launches = BTreeSet::new();
    for &(event, is_left) in all.iter().filter(|(event, _)| phase(event) == "X") {
        if span(event).is_some_and(|span| is_inside(span, 0.0015)) {
            assert!(!is_left, "{name}: overlaps the range, but is not kept: {event}");
            launches.extend(launch(event));
        }
    }
    for &(event, is_left) in all.iter().filter(|(event, _)| phase(event) == "X") {
        if launch(event).is_some_and(|id| launches.contains(&id)) && span(event).is_some() {
            assert!(!is_left, "{name}: of a launch that is kept: {event}");
        }
    }
    for &(event, is_left) in all.iter().filter(|(event, _)| phase(event) == "M") {
        assert!(!is_left, "{name}: describes a process or thread: {event}");
    }
    // And nothing else is there.
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for event in events(part) {
        match phase(event).as_str() {
            "X" => {
                let is_kept = span(event).is_some_and(|(from, to)| from <= last && to >= first)
                    || launch(event).is_some();
                assert!(is_kept, "{name}: outside of the range: {event}");
            }
            "s" | "t" | "f" => {
                let id = format!("{} {} {}", event["cat"], event["name"], event["id"]);
                arrows.entry(id).or_default().insert(phase(event));
            }
            _ => {}
        }
    }
    for (id, ends) in &arrows {
        assert!(ends.contains("s") && ends.len() > 1, "{name}: half an arrow {id}: {ends:?}");
    }
    // Arrows from calls to what they launched are whole.
    let category = |event: &Value| event["cat"].as_str().unwrap_or_default().to_owned();
    let has_start: BTreeSet<i64> = events(whole)
        .iter()
        .filter(|event| phase(event) == "s" && !category(event).starts_with("fwd"))
        .filter_map(|event| integer(&event["id"]))
        .collect();
    for &(event, is_left) in &all {
        let is_launch = matches!(category(event).as_str(), "ac2g" | "async_cpu_to_gpu" | "async");
        let id = integer(&event["id"]).filter(|id| is_launch && launches.contains(id));
        if phase(event) == "f" && id.is_some_and(|id| has_start.contains(&id)) {
            assert!(!is_left, "{name}: the arrow of a launch that is kept: {event}");
        }
    }
}

/// Cuts a part out of a run and checks everything about it.
fn assert_cut(path: &Path, selection: &Selection) {
    let name = format!("{}, {selection}", path.display());
    let folder = tempfile::tempdir().unwrap();
    let run = Run::open(path).unwrap();
    let part = cut_to(path, selection, folder.path());
    assert_eq!(part.warnings, run.warnings(), "{name}");
    let windows = selection.windows(run.tables()).unwrap();
    for written in &part.ranks {
        let source = run.info().sources.iter().find(|s| s.rank == written.rank).unwrap();
        let file = if path.is_dir() { path.join(&source.file) } else { path.to_owned() };
        let stem = source.file.trim_end_matches(".gz").trim_end_matches(".json");
        assert_eq!(written.path, folder.path().join(format!("{stem}.json.gz")), "{name}");
        let (whole, small) = (parse(&file), parse(&written.path));
        assert_eq!(written.kept_events, events(&small).len() as u64, "{name}");
        assert_eq!(written.events, events(&whole).len() as u64, "{name}");
        let (_, window) = windows.iter().find(|(rank, _)| *rank == written.rank).unwrap();
        let own = |ns: i64| ns.saturating_sub(source.shift_ns) as f64 / 1000.0;
        assert_part(&whole, &small, (own(window.first), own(window.last)), &name);
    }
    // The same selection of the part gives the same rows.
    if selection.steps.is_some() {
        assert_eq!(totals(folder.path(), selection), totals(path, selection), "{name}");
    }
    if let (Some(range), Some(between_there)) = (selection.between, part.between) {
        let only = |range| Selection { ranks: selection.ranks.clone(), ..between(range) };
        let there = totals(folder.path(), &between(between_there));
        assert_eq!(there, totals(path, &only(range)), "{name}");
    }
}

/// Parts of a run of some length: in the middle, at its begin, and a short one.
fn parts(path: &Path) -> Vec<Selection> {
    let run = Run::open(path).unwrap();
    let wall_ns = run.info().wall_ns;
    let part = |from: i64, to: i64| {
        between(Range { first: wall_ns / 100 * from, last: wall_ns / 100 * to })
    };
    let mut selections = vec![part(40, 60), part(0, 10)];
    let marked = "SELECT DISTINCT step FROM steps WHERE source = 'profiler_step' ORDER BY step";
    let steps: Vec<i64> =
        lines(&run.sql(marked).unwrap()).iter().map(|step| step.parse().unwrap()).collect();
    if let [_, first, .., last] | [first, last] = steps[..] {
        let steps = Some(Range { first, last: last.min(first + 1) });
        selections.push(Selection { steps, ..Selection::default() });
    }
    selections
}

#[test]
fn part_has_what_is_in_the_range() {
    let h100 = fixtures().join("h100");
    for trace in ["gpt.json.gz", "decode_graph.json.gz", "short_python.json.gz"] {
        let path = h100.join(trace);
        for selection in parts(&path) {
            assert_cut(&path, &selection);
        }
    }
    let ranks = fixtures().join("cpu/ddp_uneven");
    for selection in parts(&ranks) {
        assert_cut(&ranks, &selection);
    }
}

/// Old names of categories, AMD with numbers as strings, several ranks, stacks, graphs, inference.
#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn part_has_what_is_in_the_range_in_traces_of_all_kinds() {
    let traces = corpus().join("traces");
    let recordings = [
        "resnet50_workers0",
        "mi300_resnet_ddp",
        "mi300_bert",
        "h100_bert",
        "two_ranks",
        "generated/ddp_gloo_2rank",
        "generated/ddp_gloo_4rank_straggler",
        "generated/cpu_gpt_stack",
        "generated/cpu_gpt_mem_nw2",
        "nccl_rank",
        "ns_resolution",
        "b200_eager",
        "sglang_decode",
        "vllm_decode_graph",
        "diff_control",
        "cuda_event_sync_multi_stream",
        "critical_path_alexnet",
        "triton_example",
        "amd_minitoy",
        "mi210_gpu_only",
    ];
    let test = "cut::part_has_what_is_in_the_range_in_traces_of_all_kinds";
    for trace in slice::take(test, recordings) {
        let path = traces.join(trace);
        for selection in parts(&path) {
            // Some recordings have nothing in some of these parts.
            let run = OpenOptions { selection: selection.clone(), ..OpenOptions::default() };
            if Run::open_with(&path, &run, &NoProgress).is_ok() {
                assert_cut(&path, &selection);
            }
        }
    }
}

/// Events of a trace of steps of 10 ms that each launch kernels which run up to 30 ms later.
fn long_trace(steps: i64, launches: i64, marks: bool) -> String {
    let mut text = String::from(r#"{"baseTimeNanoseconds":1700000000000000000,"traceEvents":["#);
    let mut add = |event: std::fmt::Arguments<'_>| {
        writeln!(text, "{event},").unwrap();
    };
    for step in 0..steps {
        let start = 1_000 + step * 10_000;
        if marks {
            add(format_args!(
                r#"{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{step}","pid":1,"tid":1,"ts":{start},"dur":9990}}"#
            ));
        }
        add(format_args!(
            r#"{{"ph":"B","cat":"mine","name":"phase","pid":1,"tid":2,"ts":{}}},{{"ph":"E","pid":1,"tid":2,"ts":{}}}"#,
            start + 5_000,
            start + 12_000
        ));
        for nth in 0..launches {
            let (id, at) = (step * launches + nth + 1, start + nth * 9_000 / launches);
            let run = start + 1_000 + nth * 9_900 / launches + (nth % 7) * 4_000;
            let name = match nth {
                0 => "aten::embedding",
                _ if nth == launches - 1 => "autograd::engine::evaluate_function: MmBackward0",
                _ => ["aten::mm", "aten::add", "aten::relu"][(nth % 3) as usize],
            };
            add(format_args!(
                r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{at}.000,"dur":0.600,"args":{{"External id":{id}}}}},
{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{at}.100,"dur":0.300,"args":{{"correlation":{id},"External id":{id}}}}},
{{"ph":"s","cat":"ac2g","name":"ac2g","id":{id},"pid":1,"tid":1,"ts":{at}.100}},
{{"ph":"X","cat":"kernel","name":"{name}_kernel","pid":0,"tid":{},"ts":{run}.000,"dur":0.700,"args":{{"device":0,"stream":{},"correlation":{id},"External id":{id}}}}},
{{"ph":"f","bp":"e","cat":"ac2g","name":"ac2g","id":{id},"pid":0,"tid":{},"ts":{run}.000}}"#,
                7 + nth % 7,
                7 + nth % 7,
                7 + nth % 7
            ));
        }
    }
    text.truncate(text.len() - 2);
    text.push_str("],\"traceName\":\"long\"}");
    text
}

/// Rows of long traces are dropped while they are read: with and without marks of steps, the part is the same.
#[test]
fn part_of_a_long_trace_is_complete() {
    let sandbox = Sandbox::new();
    sandbox.write("long.json", long_trace(100, 560, true));
    let path = sandbox.path("long.json");
    let steps = Selection { steps: Some(Range { first: 70, last: 72 }), ..Selection::default() };
    assert_cut(&path, &steps);
    assert_cut(&path, &between(Range { first: 800_000_000, last: 830_000_000 }));
    let part = cut_to(&path, &steps, &sandbox.path("part"));
    let small = parse(&part.ranks[0].path);
    let named = |name: &str| events(&small).iter().filter(|e| e["name"] == name).count();
    assert_eq!((named("ProfilerStep#70"), named("ProfilerStep#69")), (1, 0));
    // That of the step before reaches into the first one.
    assert_eq!(named("phase"), 4);
    assert_eq!(events(&small).iter().filter(|event| event["ph"] == "E").count(), 4);

    sandbox.write("plain.json", long_trace(100, 560, false));
    let run = Run::open(sandbox.path("plain.json")).unwrap();
    let source = lines(&run.sql("SELECT DISTINCT source FROM steps").unwrap());
    assert_eq!(source, ["repetition"]);
    let selection =
        Selection { steps: Some(Range { first: 30, last: 31 }), ..Selection::default() };
    let windows = selection.windows(run.tables()).unwrap();
    let part = cut_to(&sandbox.path("plain.json"), &selection, &sandbox.path("small"));
    let source = &run.info().sources[0];
    let own = |ns: i64| (ns - source.shift_ns) as f64 / 1000.0;
    let window = (own(windows[0].1.first), own(windows[0].1.last));
    assert_part(&parse(&sandbox.path("plain.json")), &parse(&part.ranks[0].path), window, "plain");
}

#[test]
fn cut_says_what_it_wrote() {
    let sandbox = Sandbox::with_run();
    let output = sandbox.run(&["cut", "run", "--steps", "4-5", "-o", "small"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let paths: Vec<&str> = text(&output.stdout).lines().collect();
    assert_eq!(paths.len(), 2);
    for (path, rank) in paths.iter().zip(["small/rank-0.", "small/rank-1."]) {
        assert!(path.starts_with(rank) && path.ends_with(".json.gz"), "{path}");
    }
    let said = text(&output.stderr);
    assert!(said.starts_with("rank 0: ") && said.contains(" events, 0."), "{said}");
    let check = sandbox.run(&["check", "small", "--steps", "4-5"]);
    assert!(matches!(check.status.code(), Some(0 | 1)), "{}", text(&check.stderr));

    // One rank by time, and the same range in the part.
    let output =
        sandbox.run(&["cut", "run", "--ranks", "1", "--between", "5ms..40ms", "-o", "one"]);
    assert_eq!(text(&output.stdout).lines().count(), 1, "{}", text(&output.stderr));
    let said = text(&output.stderr);
    let there = said.lines().find_map(|line| line.split_once("--between ")).unwrap().1;
    let count = |run: &str, range: &str, more: &[&str]| {
        let query = "SELECT count(*) FROM kernels";
        let args = [&["sql", run, query, "--between", range, "--format", "csv"], more].concat();
        text(&sandbox.run(&args).stdout).to_owned()
    };
    let kernels = count("run", "5ms..40ms", &["--ranks", "1"]);
    assert_eq!(count("one", there, &[]), kernels);
    assert_ne!(kernels.lines().last(), Some("0"));
}

#[test]
fn cut_does_not_overwrite() {
    let sandbox = Sandbox::with_run();
    let cut = |more: &[&str]| {
        let output = sandbox.run(&[&["cut", "run", "--steps", "4"], more].concat());
        (output.status.code().unwrap(), text(&output.stderr).to_owned())
    };
    assert_eq!(cut(&["-o", "small"]).0, 0);
    let (code, said) = cut(&["-o", "small"]);
    assert!(code == 2 && said.contains("small is not empty") && said.contains("--force"), "{said}");
    assert_eq!(cut(&["-o", "small", "--force"]).0, 0);
    let (code, said) = cut(&["-o", "run", "--force"]);
    assert!(code == 2 && said.contains("is the trace itself"), "{said}");
    sandbox.write("file.json", "");
    let (code, said) = cut(&["-o", "file.json"]);
    assert!(code == 2 && said.contains("into a directory"), "{said}");
    // Nothing unfinished is left.
    let left = std::fs::read_dir(sandbox.path("small")).unwrap().count();
    assert_eq!(left, 2);
}

#[test]
fn cut_explains_what_is_not_there() {
    let sandbox = Sandbox::with_run();
    for (options, expected) in [
        (
            &["--between", "100s..101s"][..],
            "no event is selected: between 100s..101s; the run ends after",
        ),
        (&["--steps", "90"], "no step is in 90: the run has steps"),
        (&["--steps", "4", "--ranks", "7"], "no rank is in 7: the run has ranks 0 to 1"),
        (&["--steps", "x"], "is not a range"),
        (&["--between", "5"], "is not a time range"),
        (&[], "select it with --between FROM..TO or --steps RANGE"),
        (&["--steps", "4", "--name", "gemm"], "without --name"),
        (&["--steps", "4", "--streams", "7"], "without --streams"),
    ] {
        let output = sandbox.run(&[&["cut", "run", "-o", "small"], options].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
        assert!(!sandbox.path("small").exists(), "{said}");
    }
    // A moment in which nothing runs.
    let event = |ts: i64| {
        format!(r#"{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":{ts},"dur":5}}"#)
    };
    sandbox.write("gap.json", format!("[{},{}]", event(0), event(1000)));
    let output = sandbox.run(&["cut", "gap.json", "--between", "100us..200us", "-o", "small"]);
    let said = text(&output.stderr);
    assert!(said.contains("no event is selected: between 100us..200us"), "{said}");
    assert_eq!(std::fs::read_dir(sandbox.path("small")).unwrap().count(), 0);
    // Ranges of no known kind are events, too.
    let spans = format!("[{},{}]", event(0), event(1000)).replace(r#""cat":"cpu_op","#, "");
    sandbox.write("spans.json", spans);
    let output = sandbox.run(&["cut", "spans.json", "--between", "1ms..", "-o", "small"]);
    assert!(text(&output.stderr).contains("1 of 2 events"), "{}", text(&output.stderr));
}

#[test]
fn cut_of_damaged_traces_warns_as_reading_does() {
    let sandbox = Sandbox::with_run();
    let file = std::fs::read_dir(sandbox.path("run")).unwrap().next().unwrap().unwrap().path();
    let whole = parse(&file).to_string();
    let events = whole.find("traceEvents").unwrap();
    // Cut off in the middle of an event, and broken before.
    let at = whole[..whole.len() * 3 / 4].rfind(r#""dur""#).unwrap();
    let broken = whole[events..at].find(r#"{"args""#).unwrap() + events;
    let damaged = format!("{}{{\"a\": nonsense}},{}", &whole[..broken], &whole[broken..at]);
    std::fs::create_dir(sandbox.path("damaged")).unwrap();
    sandbox.write("damaged/rank0.json", damaged);
    let warnings = |args: &[&str]| {
        let output = sandbox.run(args);
        let lines = text(&output.stderr).lines().filter(|line| line.starts_with("warning"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let reading = warnings(&["sql", "damaged", "SELECT 1"]);
    assert!(reading.iter().filter(|w| w.contains("rank0.json: ")).count() == 2, "{reading:?}");
    assert_eq!(warnings(&["cut", "damaged", "--between", "1ms..20ms", "-o", "small"]), reading);
    // The part itself is whole.
    let of_part = warnings(&["sql", "small", "SELECT 1"]);
    assert!(!of_part.iter().any(|warning| warning.contains("rank0.json")), "{of_part:?}");
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn cut_leaves_out_files_of_other_kinds() {
    let sandbox = Sandbox::new();
    let composer = corpus().join("traces/composer");
    let torch = composer.join("workers0/torch").display().to_string();
    let output = sandbox.run(&["cut", &torch, "--between", "0ms..", "-o", "small"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("left out, not a timeline of PyTorch Profiler"), "{said}");
    let plain = composer.join("workers0/plain").display().to_string();
    let output = sandbox.run(&["cut", &plain, "--between", "10ms..100ms", "-o", "none"]);
    let said = text(&output.stderr);
    assert!(said.contains("no PyTorch Profiler trace to cut"), "{said}");
}
