//! Changes to a trace that must not affect the report: it stays identical except for the names and sizes of files.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::LazyLock;

use fastrand::Rng;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use fuzz_targets::json::Json;
use serde_json::Value;
use trace_advisor::{RuleSet, Run, default_rules};

use crate::support::{corpus, slice};

/// Small traces from the corpus: NVIDIA and AMD, events and streams, compiled code, collectives, no device.
const TRACES: [&str; 5] = [
    "amd_minitoy",
    "cuda_event_sync_multi_stream",
    "mi300_torch_compile_triton",
    "critical_path_alexnet",
    "cpu_only",
];

/// Runs with shapes, strides and concrete inputs that rules match: convolutions, attention, experts, small copies.
const WRITTEN: [&str; 9] = [
    "inputs/wild/dtu_mlops.json.gz",
    "inputs/strangers/layout_gain_above_evidence.json",
    "traces/amd_minitoy",
    "traces/mi300_torch_compile_triton",
    "traces/critical_path_alexnet",
    "traces/cpu_only",
    "traces/resnet50_workers0",
    "traces/h100_bert",
    "traces/two_ranks",
];

/// Names and contents of the files of a run.
type Files = Vec<(String, Vec<u8>)>;

static RULES: LazyLock<RuleSet> = LazyLock::new(default_rules);

fn read(folder: &Path) -> Vec<(String, Json)> {
    let mut traces = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut bytes = std::fs::read(&path).unwrap();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let packed = std::mem::take(&mut bytes);
            MultiGzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
        }
        if name.contains(".json") {
            let text = String::from_utf8(bytes).unwrap();
            let trace = Json::parse(&text).unwrap_or_else(|| panic!("{name} is not JSON"));
            traces.push((name.trim_end_matches(".gz").to_owned(), trace));
        }
    }
    assert!(!traces.is_empty(), "no trace in {}", folder.display());
    traces.sort_by(|(a, _), (b, _)| a.cmp(b));
    traces
}

fn files(traces: &[(String, Json)]) -> Files {
    traces.iter().map(|(name, trace)| (name.clone(), trace.text().into_bytes())).collect()
}

/// Returns the report of a run with these files, without their sizes and the path of the run.
fn report(files: &[(String, Vec<u8>)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let report = Run::open(folder.path()).unwrap().check(&RULES).unwrap();
    let path = folder.path().to_str().unwrap();
    let text = serde_json::to_string(&report).unwrap().replace(path, "run");
    let mut report: Value = serde_json::from_str(&text).unwrap();
    for source in report["run"]["sources"].as_array_mut().unwrap() {
        source["json_bytes"] = Value::Null;
    }
    normalize(&mut report);
    let text = serde_json::to_string_pretty(&report).unwrap();
    text.replace(".json.gz", ".json")
}

/// Rounds numbers to 12 digits, because the last digits of a sum depend on the order of its terms.
fn normalize(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let rounded = format!("{:.11e}", number.as_f64().unwrap());
            *value = rounded.parse::<f64>().unwrap().into();
        }
        Value::Array(values) => values.iter_mut().for_each(normalize),
        Value::Object(members) => members.values_mut().for_each(normalize),
        _ => {}
    }
}

/// Panics at the first line where two reports differ.
fn assert_same(changed: &str, expected: &str, what: &str) {
    let lines = changed.lines().zip(expected.lines());
    for (at, (changed, expected)) in lines.enumerate() {
        assert_eq!(changed, expected, "{what}: line {at} of the report");
    }
    assert_eq!(changed.len(), expected.len(), "{what}");
}

/// Returns the list of events of a trace.
fn events(trace: &mut Json) -> &mut Vec<Json> {
    let list =
        if matches!(trace, Json::List(_)) { Some(trace) } else { trace.get_mut("traceEvents") };
    match list {
        Some(Json::List(events)) => events,
        _ => panic!("a trace without events"),
    }
}

fn reverse_keys(trace: &mut Json) {
    trace.visit(&mut |_, value| {
        if let Json::Object(members) = value {
            members.reverse();
        }
    });
}

/// Writes numbers as strings: PyTorch does so in some places, and other writers in more.
fn quote_numbers(trace: &mut Json) {
    for event in events(trace) {
        event.visit(&mut |key, value| {
            let is_quoted = matches!(
                key,
                Some("ts" | "dur" | "External id" | "correlation" | "bytes" | "device" | "stream")
            );
            if let Json::Scalar(text) = value
                && is_quoted
                && text.starts_with(|c: char| c.is_ascii_digit())
            {
                *text = format!("\"{text}\"");
            }
        });
    }
}

/// Applies a function to the integer part of a number.
fn map_number(value: &mut Json, map: impl Fn(i64) -> i64) {
    if let Json::Scalar(text) = value
        && text.starts_with(|c: char| c.is_ascii_digit())
    {
        let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
        let mapped = map(whole.parse().unwrap_or_else(|_| panic!("{text} is not a number")));
        *text = format!("{mapped}{fraction}");
    }
}

fn shift_times(trace: &mut Json) {
    for event in events(trace) {
        if let Some(ts) = event.get_mut("ts") {
            map_number(ts, |us| us + 3_600_000_000);
        }
    }
}

/// Renumbers processes and threads. Small IDs are kept, because they may be devices and streams.
fn renumber_threads(trace: &mut Json) {
    let renumber = |id| if id < 256 { id } else { id + 1_000_003 };
    for event in events(trace) {
        for key in ["pid", "tid"] {
            if let Some(id) = event.get_mut(key) {
                map_number(id, renumber);
            }
        }
    }
}

/// Renumbers correlations and external IDs.
fn renumber_links(trace: &mut Json) {
    let renumber = |id| if id == 0 { 0 } else { id + 4_000_037 };
    for event in events(trace) {
        let is_launch = event.get("cat").and_then(Json::scalar) == Some("\"ac2g\"");
        event.visit(&mut |key, value| match key {
            Some(
                "correlation" | "External id" | "external id" | "wait_on_cuda_event_record_corr_id",
            ) => {
                map_number(value, renumber);
            }
            Some("id") if is_launch => map_number(value, renumber),
            _ => {}
        });
    }
}

/// Shuffles events. Events with the same start keep their order, because nothing else orders them on a device.
fn shuffle_events(trace: &mut Json) {
    let events = events(trace);
    let mut order: Vec<usize> = (0..events.len()).collect();
    Rng::with_seed(7).shuffle(&mut order);
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, &event) in order.iter().enumerate() {
        let ts = events[event].get("ts").and_then(Json::scalar).unwrap_or_default();
        places.entry(ts).or_default().push(place);
    }
    for places in places.into_values() {
        let mut same: Vec<usize> = places.iter().map(|&place| order[place]).collect();
        same.sort_unstable();
        for (place, event) in places.into_iter().zip(same) {
            order[place] = event;
        }
    }
    *events = order.iter().map(|&event| events[event].clone()).collect();
}

/// Escapes the second letter of each key.
fn escape_keys(trace: &mut Json) {
    trace.visit(&mut |_, value| {
        let Json::Object(members) = value else { return };
        for (key, _) in members {
            let second = key.chars().nth(2).filter(char::is_ascii_alphanumeric);
            if let Some(letter) = second
                && key.is_char_boundary(2)
            {
                key.replace_range(2..3, &format!("\\u{:04x}", u32::from(letter)));
            }
        }
    });
}

/// Name and function of a change.
type Change = (&'static str, fn(&mut Json));

const CHANGES: [Change; 6] = [
    ("other order of keys", reverse_keys),
    ("an hour later", shift_times),
    ("other processes and threads", renumber_threads),
    ("other correlations", renumber_links),
    ("other order of events", shuffle_events),
    // Must be last, because the other changes expect unquoted numbers.
    ("numbers as strings", quote_numbers),
];

fn changed(traces: &[(String, Json)], change: fn(&mut Json)) -> Files {
    let mut traces = traces.to_vec();
    for (_, trace) in &mut traces {
        change(trace);
    }
    files(&traces)
}

/// Adds whitespace and a byte order mark, and compresses the files.
fn rewritten(traces: &[(String, Json)]) -> Files {
    let rewrite = |(name, trace): &(String, Json)| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(b"\xEF\xBB\xBF").unwrap();
        encoder.write_all(trace.text_with_space(" \r\n\t").as_bytes()).unwrap();
        (format!("{name}.gz"), encoder.finish().unwrap())
    };
    traces.iter().map(rewrite).collect()
}

/// Applies all changes at once. If the report differs, applies each change alone to find the cause.
fn assert_nothing_changes(traces: &[(String, Json)], name: &str) {
    let expected = report(&files(traces));
    let mut all = traces.to_vec();
    for (what, change) in CHANGES {
        let before = files(&all);
        for (_, trace) in &mut all {
            change(trace);
        }
        assert!(files(&all) != before, "{name}: {what} changes no byte");
    }
    let together = report(&rewritten(&all));
    if together != expected {
        for (what, change) in CHANGES {
            assert_same(&report(&changed(traces, change)), &expected, &format!("{name}: {what}"));
        }
        let what = format!("{name}: white space, a byte order mark and gzip");
        assert_same(&report(&rewritten(traces)), &expected, &what);
        assert_same(&together, &expected, &format!("{name}: all changes together"));
    }
}

/// Python's `json.dumps(trace, separators=(",", ":"))`.
fn compact(trace: &Json) -> String {
    trace.text()
}

/// Python's `json.dumps(trace, indent=2)`; lists of numbers have one line per number, too.
fn indented(trace: &Json) -> String {
    trace.text_with_space("\n  ")
}

/// Python's `json.dumps(trace, sort_keys=True)`.
fn with_sorted_keys(trace: &Json) -> String {
    let mut trace = trace.clone();
    trace.visit(&mut |_, value| {
        if let Json::Object(members) = value {
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
    });
    trace.text_with_separators(", ", ": ")
}

/// Returns the trace with the numbers of shapes and strides as decimals.
fn with_decimal_shapes(trace: &Json) -> String {
    let mut trace = trace.clone();
    for event in events(&mut trace) {
        let shapes = event.get_mut("args").and_then(|args| args.get_mut("Input Dims"));
        let Some(shapes) = shapes else { continue };
        shapes.visit(&mut |_, value| {
            if let Json::Scalar(size) = value {
                size.push_str(".0");
            }
        });
    }
    trace.text()
}

/// Name and function of a JSON writer.
type JsonWriter = (&'static str, fn(&Json) -> String);

const WRITERS: [JsonWriter; 4] = [
    ("compact", compact),
    ("indented", indented),
    ("with sorted keys", with_sorted_keys),
    ("with decimal shapes", with_decimal_shapes),
];

/// Compares the reports of the files as recorded with those of other writers, byte by byte except for sizes of files.
fn assert_writers_agree(folder: &Path, name: &str) {
    let mut recorded: Files = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.contains(".json") {
            recorded.push((name, std::fs::read(&path).unwrap()));
        }
    }
    recorded.sort();
    let expected = report(&recorded);
    let traces = read(folder);
    for (what, write) in WRITERS {
        let write = |(name, trace): &(String, Json)| (name.clone(), write(trace).into_bytes());
        let files: Files = traces.iter().map(write).collect();
        assert_same(&report(&files), &expected, &format!("{name}, written {what}"));
    }
}

#[test]
fn the_example_is_reported_the_same_by_all_json_writers() {
    assert_writers_agree(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/run"),
        "examples/run",
    );
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn traces_are_reported_the_same_by_all_json_writers() {
    let test = "metamorphic::traces_are_reported_the_same_by_all_json_writers";
    for name in slice::take(test, WRITTEN) {
        // Only the trace itself: other files of the folder are of other runs.
        let run = tempfile::tempdir().unwrap();
        let trace = corpus::corpus().join(name);
        if trace.is_dir() {
            assert_writers_agree(&trace, name);
            continue;
        }
        std::fs::copy(&trace, run.path().join(trace.file_name().unwrap())).unwrap();
        assert_writers_agree(run.path(), name);
    }
}

fn example() -> Vec<(String, Json)> {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/run"))
}

#[test]
fn the_example_is_reported_the_same_however_it_is_written() {
    assert_nothing_changes(&example(), "examples/run");
}

#[test]
fn the_example_is_reported_the_same_with_its_files_in_another_order() {
    let files = files(&example());
    let [first, second] = &files[..] else { panic!("two files") };
    let named =
        |file: &(String, Vec<u8>), start: &str| (format!("{start}{}", file.0), file.1.clone());
    let report_of = |starts: [&str; 2]| {
        let text = report(&[named(first, starts[0]), named(second, starts[1])]);
        starts.iter().fold(text, |text, start| text.replace(&format!("\"{start}rank-"), "\"rank-"))
    };
    assert_same(&report_of(["b.", "a."]), &report_of(["a.", "b."]), "files in another order");
}

#[test]
fn the_example_is_reported_the_same_with_escaped_keys() {
    let traces = example();
    let escaped = changed(&traces, escape_keys);
    assert_same(&report(&escaped), &report(&files(&traces)), "escaped keys");
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn traces_are_reported_the_same_however_they_are_written() {
    let test = "metamorphic::traces_are_reported_the_same_however_they_are_written";
    for name in slice::take(test, TRACES) {
        assert_nothing_changes(&read(&corpus::corpus().join("traces").join(name)), name);
    }
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn traces_are_reported_the_same_with_escaped_keys() {
    for name in &TRACES[..2] {
        let traces = read(&corpus::corpus().join("traces").join(name));
        let expected = report(&files(&traces));
        assert_same(&report(&changed(&traces, escape_keys)), &expected, name);
    }
}
