//! Copies with more events: valid JSON, every original byte, the same tables and what was added.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::support::{column, gzip, read, trace};
use flate2::read::GzDecoder;
use ingest::{Copy, Error, EventWriter, Lane, Location, NoProgress, Packing, RunReach, copy_with};
use proptest::prelude::*;
use serde_json::Value as Json;
use trace_model::{Dataset, Value};

const LANE: Lane<'static> = Lane { pid: "900", tid: "901" };
/// Rows that `insert` adds. It writes four events more: three of metadata, and the end of the slice.
const ADDED: usize = 5;

fn insert(out: &mut EventWriter<'_>) -> io::Result<()> {
    out.process(LANE.pid, "Ours")?;
    out.thread(LANE, "A \"track\"]}")?;
    out.slice(LANE, "slice", 1_001, 2_002, &[("why", Value::Text("]\"}\n".to_owned()))])?;
    out.mark(LANE, "mark", 7, &[])?;
    out.counter(LANE.pid, "counter", "%", 5, 12.5)?;
    out.arrow("path", 3, (LANE, 1_002), (LANE, 2_000))
}

struct Place(tempfile::TempDir);

impl Place {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("run")).unwrap();
        fs::write(folder.path().join("run").join(name), bytes).unwrap();
        Self(folder)
    }

    fn run(&self) -> PathBuf {
        self.0.path().join("run")
    }

    fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    fn copy(&self, before: &Dataset) -> Result<(PathBuf, Vec<String>), Error> {
        self.copy_to(before, &self.out(), Packing::Same, false)
    }

    fn copy_to(
        &self,
        before: &Dataset,
        folder: &Path,
        packing: Packing,
        overwrite: bool,
    ) -> Result<(PathBuf, Vec<String>), Error> {
        let run = Location::parse(self.run()).unwrap();
        let source = &before.run.sources[0];
        let reach = &RunReach::of(&run, folder)?;
        let copy = Copy { run: &run, reach, source, folder, packing, overwrite };
        let (path, warnings) = copy_with(&copy, &NoProgress, insert)?;
        Ok((path, warnings.iter().map(|w| w.code.to_string()).collect()))
    }
}

fn text_of(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let mut text = Vec::new();
    GzDecoder::new(bytes.as_slice()).read_to_end(&mut text).unwrap();
    text
}

fn is_json(text: &[u8]) -> Result<(), String> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    serde_json::from_slice::<Json>(text)
        .map(|_| ())
        .map_err(|e| format!("{e}: {}", String::from_utf8_lossy(text)))
}

/// Whether `after` holds what `before` does, and what `insert` adds.
fn same_and_more(before: &Dataset, after: &Dataset) -> Result<(), String> {
    let mut added = 0;
    // Where nothing happened, what is added is all that says when the trace begins.
    let is_empty = before.tables.rows("cpu_ops") + before.tables.rows("kernels") == 0;
    for (name, batches) in before.tables.iter() {
        let more = after.tables.get(name);
        match name {
            // Counts of events are the one thing that must change.
            "ranks" if is_empty => {}
            "ranks" => {
                for name in ["start_ns", "end_ns", "base_time_ns", "cut_ns", "has_memory"] {
                    if column(before, "ranks", name) != column(after, "ranks", name) {
                        return Err(format!("ranks.{name} changed"));
                    }
                }
            }
            // A copy is whole, and has nothing to warn of. It holds counters, which the original may lack.
            "event_counts" | "reading_warnings" | "capabilities" => {}
            _ => {
                let (mine, theirs) = (before.tables.rows(name), after.tables.rows(name));
                if mine > 0 && batches[0] != more[0].slice(0, mine) {
                    return Err(format!("{name} changed"));
                }
                if name != "threads" {
                    added += theirs - mine;
                }
            }
        }
    }
    let events = |d: &Dataset| d.run.sources[0].events;
    if (added != ADDED && !is_empty) || events(after) != events(before) + ADDED as u64 + 4 {
        return Err(format!("{added} rows were added"));
    }
    let wanted =
        [("spans", "dur_ns", "2002"), ("spans", "ts_ns", "1001"), ("counters", "ts_ns", "5")];
    for (table, name, value) in wanted {
        let is_known = name == "dur_ns" || !is_empty;
        if is_known && column(after, table, name).last().map(String::as_str) != Some(value) {
            return Err(format!("{table}.{name}: {:?}", column(after, table, name)));
        }
    }
    Ok(())
}

const EVENTS: &str = r#"
  {"ph": "X", "cat": "cpu_op", "name": "a \"]}[{ traceEvents\": [", "pid": 1, "tid": 1, "ts": 1712085511123456.789, "dur": 10.25,
   "args": {"Input Dims": [[1, 2], []], "nested": {"traceEvents": [{"ph": "X"}, "]"]}}},
  {"ph": "X", "cat": "kernel", "name": "k\\", "pid": 0, "tid": 7, "ts": 1712085511123460.001, "dur": 3, "args": {"stream": 7, "x": NaN}},
  {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "python"}}"#;

/// `NaN` is no JSON, but profilers write it.
fn strict(events: &str) -> String {
    events.replace("NaN", "1e3")
}

#[test]
fn copy_with_adds_only_the_new_events() {
    let strict = strict(EVENTS);
    for text in [
        trace(&strict),
        format!("{{\"traceEvents\": [{strict}\n]\n,\n \"traceName\": \"]\", \"more\": [[{{}}]]\n}}\n"),
        format!("{{\"a\": \"traceEvents\", \"traceEvents\": 3, \"trace\\u0045vents\":[{strict}]}}"),
        format!("[{strict}\n]\n"),
        format!("[{strict},\n]"),
        format!("\u{feff}[{strict}]"),
        "{\"schemaVersion\": 1, \"traceEvents\": []}".to_owned(),
        "{\"schemaVersion\": 1, \"traceEvents\": [ \n ], \"baseTimeNanoseconds\": 1712085511000000000}".to_owned(),
    ] {
        for packed in [false, true] {
            let bytes = if packed { gzip(text.as_bytes()) } else { text.clone().into_bytes() };
            let place = Place::new("rank0.json", &bytes);
            let before = read(&place.run().join("rank0.json")).unwrap();
            let (path, warnings) = place.copy(&before).unwrap();
            assert_eq!(warnings, [""; 0]);
            assert_eq!(path, place.out().join("rank0.json"));
            assert_eq!(fs::read(&path).unwrap().starts_with(&[0x1f, 0x8b]), packed);
            let copied = text_of(&path);
            is_json(&copied).unwrap();
            same_and_more(&before, &read(&path).unwrap()).unwrap();

            // One stretch was put in; what is around it is the original.
            let common = copied.iter().zip(text.as_bytes()).take_while(|(a, b)| a == b).count();
            let (head, tail) = text.as_bytes().split_at(common);
            assert!(copied.starts_with(head) && copied.ends_with(tail), "{text}");
        }
    }
}

#[test]
fn copy_with_keeps_non_json_values_of_profilers() {
    let place = Place::new("t.json", trace(EVENTS).as_bytes());
    let before = read(&place.run()).unwrap();
    let (path, _) = place.copy(&before).unwrap();
    assert!(String::from_utf8(text_of(&path)).unwrap().contains("\"x\": NaN"));
    same_and_more(&before, &read(&path).unwrap()).unwrap();
}

/// A recording that broke off anywhere: either it says that it is no trace, or the copy is whole.
#[test]
fn copy_with_completes_every_truncated_trace() {
    let events = strict(EVENTS);
    for text in [
        format!(
            "{{\"schemaVersion\": 1, \"traceEvents\": [{events}\n], \"n\": [1, {{\"a\": \"]\"}}], \"s\": 12 }}"
        ),
        format!("[{events}\n]"),
    ] {
        let first = text.find("traceEvents\": [").map_or(1, |at| at + 15);
        for end in first..text.len() {
            let part = &text.as_bytes()[..end];
            let place = Place::new("t.json", part);
            let before = read(&place.run().join("t.json"));
            let before = before.unwrap_or_else(|e| panic!("{e}: {}", &text[..end]));
            let (path, warnings) = place.copy(&before).unwrap();
            is_json(&text_of(&path)).unwrap();
            same_and_more(&before, &read(&path).unwrap()).unwrap();
            // What is lost is warned of, as reading did.
            if !warnings.is_empty() {
                let codes: Vec<_> = before.warnings.iter().map(|w| w.code.to_string()).collect();
                assert_eq!(warnings, codes, "{}", &text[..end]);
            }
        }
    }
}

#[test]
fn copy_with_reads_damaged_archives_up_to_the_damage() {
    let events: Vec<String> = (0..2_000)
        .map(|i| format!(r#"{{"ph": "X", "cat": "cpu_op", "name": "op{}", "pid": 1, "tid": 1, "ts": {i}.5, "dur": 0.25}}"#, i * i % 977))
        .collect();
    let whole = gzip(trace(&events.join(",\n")).as_bytes());
    let place = Place::new("t.json.gz", &whole[..whole.len() / 2]);
    let before = read(&place.run()).unwrap();
    let ops = before.tables.rows("cpu_ops");
    assert!(0 < ops && ops < 2_000, "{ops}");
    let (path, warnings) = place.copy(&before).unwrap();
    assert_eq!(warnings, ["truncated-gzip", "truncated-json"]);
    is_json(&text_of(&path)).unwrap();
    same_and_more(&before, &read(&path).unwrap()).unwrap();
}

#[test]
fn copy_with_leaves_out_unreadable_events() {
    let good =
        r#"{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 1}"#;
    for events in [
        format!(r#"{good}, {{"ph": "X" "name" 3}}, {good}"#),
        format!(r#"{{"ph" "X"}}, {good}, {good}"#),
        format!(r#"{good} {{"ph" "X"}}, {good}"#),
        format!(r#"{good}, {good}, {{"ph" "X"}}"#),
    ] {
        let place = Place::new("t.json", trace(&events).as_bytes());
        let before = read(&place.run()).unwrap();
        assert_eq!(before.tables.rows("cpu_ops"), 2, "{events}");
        let (path, warnings) = place.copy(&before).unwrap();
        assert_eq!(warnings.last().map(String::as_str), Some("malformed-event"), "{events}");
        is_json(&text_of(&path)).unwrap();
        let after = read(&path).unwrap();
        assert_eq!(column(&after, "cpu_ops", "ts_ns"), column(&before, "cpu_ops", "ts_ns"));
        assert_eq!(after.tables.rows("spans"), 1);
    }
}

#[test]
fn copy_with_copies_long_traces_in_windows() {
    // Longer than two windows, with an event that is longer than one is wide on average.
    let long = "x".repeat(1 << 20);
    let mut text = b"{\"schemaVersion\": 1, \"traceEvents\": [".to_vec();
    for i in 0..40 {
        let comma = if i > 0 { "," } else { "" };
        write!(text, r#"{comma}{{"ph": "X", "cat": "cpu_op", "name": "op{i}", "pid": 1, "tid": 1, "ts": {i}, "dur": 1, "args": {{"s": "{long}"}}}}"#).unwrap();
    }
    text.extend_from_slice(b"], \"baseTimeNanoseconds\": 1712085511000000000}");
    let place = Place::new("t.json.gz", &gzip(&text));
    let before = read(&place.run()).unwrap();
    let (path, _) = place.copy_to(&before, &place.out(), Packing::Plain, false).unwrap();
    assert_eq!(path, place.out().join("t.json"));
    let copied = text_of(&path);
    let at = copied.iter().zip(&text).take_while(|(a, b)| a == b).count();
    assert_eq!(at, text.len() - b"], \"baseTimeNanoseconds\": 1712085511000000000}".len());
    assert!(copied.ends_with(&text[at..]));
    same_and_more(&before, &read(&path).unwrap()).unwrap();
}

#[test]
fn copy_with_never_replaces_sources_or_leaves_partial_files() {
    let place = Place::new("t.json", trace(EVENTS).as_bytes());
    let before = read(&place.run()).unwrap();
    let (path, _) = place.copy(&before).unwrap();
    let written = fs::read(&path).unwrap();

    let error = place.copy(&before).unwrap_err();
    assert!(matches!(error, Error::Exists { is_source: false, .. }), "{error}");
    place.copy_to(&before, &place.out(), Packing::Same, true).unwrap();
    assert_eq!(fs::read(&path).unwrap(), written);

    // A trace is never replaced by its copy.
    let error = place.copy_to(&before, &place.run(), Packing::Same, true).unwrap_err();
    assert!(matches!(error, Error::Exists { is_source: true, .. }), "{error}");

    // A copy that fails leaves nothing behind, and what was there stays.
    let run = Location::parse(place.run()).unwrap();
    let reach = RunReach::of(&run, &place.out()).unwrap();
    let copy = Copy {
        run: &run,
        reach: &reach,
        source: &before.run.sources[0],
        folder: &place.out(),
        packing: Packing::Same,
        overwrite: true,
    };
    let error = copy_with(&copy, &NoProgress, |_| Err(io::Error::other("disk full"))).unwrap_err();
    assert!(error.to_string().ends_with("t.json: disk full"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), written);
    assert_eq!(fs::read_dir(place.out()).unwrap().count(), 1);
}

#[test]
fn copy_with_refuses_changed_sources() {
    let place = Place::new("t.json.gz", &gzip(trace(EVENTS).as_bytes()));
    let before = read(&place.run()).unwrap();
    let longer = format!("{EVENTS}, {EVENTS}");
    fs::write(place.run().join("t.json.gz"), gzip(trace(&longer).as_bytes())).unwrap();
    let error = place.copy(&before).unwrap_err();
    assert!(error.to_string().contains("has grown"), "{error}");
    fs::write(place.run().join("t.json.gz"), b"not a trace").unwrap();
    assert!(matches!(place.copy(&before).unwrap_err(), Error::Unusable { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// One byte wrong anywhere: no panic, and what is written can be read as before.
    #[test]
    fn damage_is_survived(at in 0..1_000_usize, byte in any::<u8>()) {
        let mut text = trace(EVENTS).into_bytes();
        let at = at % text.len();
        text[at] = byte;
        let place = Place::new("t.json", &text);
        if let Ok(before) = read(&place.run().join("t.json"))
            && let Ok((path, _)) = place.copy(&before)
        {
            let after = read(&path).unwrap();
            prop_assert_eq!(after.tables.rows("cpu_ops"), before.tables.rows("cpu_ops"));
            prop_assert_eq!(after.tables.rows("kernels"), before.tables.rows("kernels"));
        }
    }
}
