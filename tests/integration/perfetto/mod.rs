//! Augmented, merged and cut traces open in Perfetto: the real UI in a real browser, which `.ci/perfetto` installs,
//! queried in its own SQL.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use trace_advisor::arrow::array::AsArray;
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Float64Type, Int64Type};
use trace_advisor::ingest::{NoProgress, Options as ReadOptions, Packing};
use trace_advisor::query::{Range, Selection};
use trace_advisor::{Augmentation, Augmented, Cutting, Run, cut, default_rules};
use trace_demo::{Bottleneck, Options, render_rank, write_run};

use crate::support::corpus::corpus;
use crate::support::ports::free_port;

/// The Python that drives the UI: `ADVISOR_PERFETTO`, or where `.ci/perfetto` puts it.
fn python() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "the one place where this test reads it")]
    let set = std::env::var("ADVISOR_PERFETTO").ok();
    let default =
        std::env::home_dir().unwrap_or_default().join(".cache/trace-advisor/perfetto/bin/python");
    let path = set.map_or(default, PathBuf::from);
    assert!(
        path.is_file(),
        "there is no Perfetto UI at {}: set ADVISOR_PERFETTO to what .ci/perfetto prints",
        path.display()
    );
    path
}

/// Loads a trace and runs queries on it; the rows of each.
fn ask(python: &Path, trace: &Path, queries: &[&str]) -> Vec<Vec<Value>> {
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/integration/perfetto/query.py");
    let output = Command::new(python).arg(script).arg(trace).args(queries).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn demo() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let bottleneck = Bottleneck::DataLoading;
    let options = Options { bottleneck, steps: 4, layers: 1, ..Options::default() };
    write_run(&options, folder.path()).unwrap();
    folder
}

fn augment(run: &Run, folder: &Path) -> Vec<Augmented> {
    let report = run.check(&default_rules()).unwrap();
    let wanted = Augmentation {
        folder,
        counters: true,
        critical_path: true,
        report: Some(&report),
        packing: Packing::Same,
        overwrite: false,
    };
    run.augment(&wanted, &NoProgress).unwrap()
}

fn ints(run: &Run, query: &str) -> Vec<Vec<i64>> {
    let batches = run.sql(query).unwrap();
    let rows = batches.iter().flat_map(|batch| {
        let columns: Vec<_> =
            batch.columns().iter().map(|c| cast(c, &DataType::Int64).unwrap()).collect();
        let row =
            move |row| columns.iter().map(|c| c.as_primitive::<Int64Type>().value(row)).collect();
        (0..batch.num_rows()).map(row).collect::<Vec<_>>()
    });
    rows.collect()
}

fn float(run: &Run, query: &str) -> f64 {
    let batches = run.sql(query).unwrap();
    let column = cast(batches[0].column(0), &DataType::Float64).unwrap();
    column.as_primitive::<Float64Type>().value(0)
}

/// All that is in a trace as Perfetto sees it, our additions aside.
const ORIGINAL: &str =
    "SELECT count(*) AS slices, sum(ts % 1000003) AS starts, sum(dur) AS durations,
    sum(length(name)) AS names, count(DISTINCT track_id) AS tracks
    FROM slice WHERE category IS NOT 'trace_advisor'";
const PROBLEMS: &str =
    "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0";
const FLOWS: &str = "SELECT count(*) AS n FROM flow";

/// Slices on the added tracks whose name matches a pattern.
fn track(name: &str) -> String {
    format!(
        "SELECT count(*) AS slices, sum(s.dur) AS durations, min(s.ts) AS start
        FROM slice s JOIN thread_track t ON t.id = s.track_id JOIN thread USING (utid)
        JOIN process USING (upid)
        WHERE thread.name GLOB '{name}' AND process.name = 'Trace Advisor'"
    )
}

fn value_at(counter: &str, ts: i64) -> String {
    format!(
        "SELECT c.value AS value FROM counter c JOIN counter_track t ON t.id = c.track_id
        WHERE t.name = '{counter}' AND c.ts <= {ts} ORDER BY c.ts DESC LIMIT 1"
    )
}

/// Slices, counters and arrows of a run, as its traces have them, and as Perfetto sees its merged trace: the
/// processes are the ranks.
fn assert_merged_trace_opens(path: &Path) {
    let run = Run::open(path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("merged_trace.json");
    run.merge(&to, true, &NoProgress).unwrap();
    // Composer writes ends without begins.
    let problems = "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss')
        AND value > 0 AND name <> 'misplaced_end_event'";
    let processes = "SELECT p.pid AS rank, p.name AS name, count(*) AS slices
        FROM slice s JOIN thread_track t ON t.id = s.track_id JOIN thread USING (utid)
        JOIN process p USING (upid) WHERE s.dur > 0 GROUP BY p.pid, p.name ORDER BY p.pid";
    let span = "SELECT max(ts + dur) - min(ts) AS ns FROM slice WHERE dur >= 0";
    let answers = ask(&python(), &to, &[problems, processes, span]);
    assert_eq!(answers[0], Vec::<Value>::new(), "{}", path.display());
    let ours = ints(
        &run,
        "SELECT rank, count(*) AS slices FROM events WHERE dur_ns > 0
            AND stored_in <> 'spans' GROUP BY rank ORDER BY rank",
    );
    assert_eq!(answers[1].len(), ours.len(), "{}: {:?}", path.display(), answers[1]);
    for (theirs, ours) in answers[1].iter().zip(&ours) {
        assert_eq!(theirs["rank"], ours[0]);
        let name = format!("Rank {} training loop process", ours[0]);
        assert_eq!(theirs["name"], Value::from(name));
        // Composer's marks overlap the profiler's steps: those hang open, and are few.
        let (theirs, ours) = (theirs["slices"].as_f64().unwrap(), ours[1] as f64);
        assert!((theirs / ours - 1.0).abs() < 0.01, "{}: {theirs} of {ours}", path.display());
    }
    // One axis: with the copied trace on its own, the span would be decades.
    let wall = run.info().wall_ns as f64;
    let span = answers[2][0]["ns"].as_f64().unwrap();
    assert!((span / wall - 1.0).abs() < 0.2, "{}: {span} {wall}", path.display());
}

#[test]
#[ignore = "needs ADVISOR_PERFETTO"]
fn merged_trace_opens_in_perfetto() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { ranks: 2, steps: 3, layers: 1, ..Options::default() };
    write_run(&options, folder.path()).unwrap();
    assert_merged_trace_opens(folder.path());
}

#[test]
#[ignore = "needs ADVISOR_PERFETTO and ADVISOR_CORPUS"]
fn merged_trace_of_composer_opens_in_perfetto() {
    assert_merged_trace_opens(&corpus().join("traces/composer/ranks2"));
}

#[test]
#[ignore = "needs ADVISOR_PERFETTO"]
fn augmented_trace_opens_in_perfetto() {
    let python = python();
    let folder = demo();
    let run = Run::open(folder.path()).unwrap();
    let out = folder.path().join("out");
    let written = augment(&run, &out);
    let Augmented { path, added, warnings, .. } = &written[0];
    assert_eq!(warnings, &[]);

    let source = &run.info().sources[0];
    let before = ask(&python, &folder.path().join(&source.file), &[ORIGINAL, PROBLEMS, FLOWS]);

    // A moment in the middle of the run, where two counters say something.
    let busiest = ints(
        &run,
        "SELECT ts_ns + dur_ns / 2, queue_length FROM queue_length_series
        WHERE rank = 0 AND stream = 7 AND dur_ns > 1 ORDER BY queue_length DESC, ts_ns LIMIT 1",
    );
    let [at_ns, length] = busiest[0][..] else { panic!("one row of two columns") };
    let utilization = float(
        &run,
        &format!(
            "SELECT 100 * busy_ratio FROM gpu_utilization_series
            WHERE rank = 0 AND ts_ns <= {at_ns} ORDER BY ts_ns DESC LIMIT 1"
        ),
    );
    let at = at_ns - source.shift_ns;
    let findings = "SELECT DISTINCT s.name AS name FROM slice s WHERE s.category = 'trace_advisor'
        AND s.name GLOB 'IN001 *'";
    let counters = "SELECT count(DISTINCT t.id) AS tracks, count(*) AS samples
        FROM counter c JOIN process_counter_track t ON t.id = c.track_id";
    // Arrows lead from lane to lane, and never to a place where nothing runs.
    let arrows = "SELECT count(*) AS n FROM flow f JOIN slice a ON a.id = f.slice_out
        JOIN slice b ON b.id = f.slice_in WHERE a.track_id <> b.track_id AND b.ts >= a.ts";
    let after = ask(
        &python,
        path,
        &[
            ORIGINAL,
            PROBLEMS,
            FLOWS,
            counters,
            &value_at("Queue length stream 7 activities", at),
            &value_at("GPU utilization %", at),
            &track("Critical path"),
            // One track for each rule, named after it.
            &track("[A-Z][A-Z][0-9]* *-*"),
            findings,
            arrows,
        ],
    );

    assert_eq!(after[0], before[0], "the original slices");
    assert!(before[0][0]["slices"].as_i64().unwrap() > 1_000);
    assert_eq!(after[1], before[1], "what Perfetto could not import");

    assert!(added.counters >= 5, "{added:?}");
    assert_eq!(after[3], [json!({"tracks": added.counters, "samples": added.samples})]);
    assert!(length > 1);
    assert_eq!(after[4], [json!({"value": length})]);
    let shown = after[5][0]["value"].as_f64().unwrap();
    assert!((shown - utilization).abs() < 1e-9, "{shown} {utilization}");

    let path =
        ints(&run, "SELECT count(*), sum(dur_ns), min(ts_ns) FROM critical_path WHERE rank = 0");
    let [segments, length_ns, start_ns] = path[0][..] else { panic!("one row of three columns") };
    assert!(segments > 10);
    let wanted =
        json!({"slices": segments, "durations": length_ns, "start": start_ns - source.shift_ns});
    assert_eq!(after[6], [wanted]);

    let flows = |rows: &[Vec<Value>]| rows[2][0]["n"].as_u64().unwrap() as usize;
    assert!(added.arrows > 0);
    assert_eq!(flows(&after) - flows(&before), added.arrows);
    assert_eq!(after[9][0]["n"].as_u64(), Some(flows(&after) as u64));

    assert!(added.findings > 0);
    assert_eq!(after[7][0]["slices"], json!(added.ranges));
    assert_eq!(after[8], [json!({"name": "IN001 Steps wait for the DataLoader"})]);
}

/// Perfetto sees the slices of the part, and each arrow from a call to a kernel with both ends.
#[test]
#[ignore = "needs ADVISOR_PERFETTO"]
fn part_of_a_trace_opens_in_perfetto() {
    let folder = tempfile::tempdir().unwrap();
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/h100/short.json.gz");
    let run = Run::open(&path).unwrap();
    let step = ints(&run, "SELECT max(step) - 1 FROM steps WHERE source = 'profiler_step'")[0][0];
    let steps = Some(Range { first: step, last: step });
    let selection = Selection { steps, ..Selection::default() };
    let cutting = Cutting { selection: &selection, folder: folder.path(), overwrite: false };
    let location = run.location();
    let part = cut(location, &ReadOptions::default(), &cutting, &NoProgress).unwrap();
    let after = Run::open(folder.path()).unwrap();
    let counts = ints(
        &after,
        "SELECT (SELECT count(*) FROM events WHERE stored_in NOT IN ('flows', 'counters')) AS slices,
            (SELECT count(*) FROM kernels) AS kernels,
            (SELECT count(*) FROM flows WHERE phase = 'f') AS arrows",
    );
    let [slices, kernels, arrows] = counts[0][..] else { panic!("one row of three columns") };
    assert!(kernels > 10 && arrows >= kernels);
    let answers = ask(
        &python(),
        &part.ranks[0].path,
        &[
            PROBLEMS,
            "SELECT count(*) AS n FROM slice WHERE dur >= 0",
            FLOWS,
            "SELECT count(*) AS n FROM flow f JOIN slice a ON a.id = f.slice_out
                JOIN slice b ON b.id = f.slice_in WHERE b.category = 'kernel' AND a.category LIKE 'cuda%'",
        ],
    );
    assert_eq!(answers[0], Vec::<Value>::new());
    assert_eq!(answers[1], [json!({"n": slices})]);
    assert_eq!(answers[2], [json!({"n": arrows})]);
    assert_eq!(answers[3], [json!({"n": kernels})]);
}

/// Viewers hold times since 1970 in doubles, which lose nanoseconds: nothing may get lost with them.
#[test]
#[ignore = "needs ADVISOR_PERFETTO"]
fn trace_with_times_since_1970_keeps_all_slices() {
    let python = python();
    let folder = tempfile::tempdir().unwrap();
    let options = Options { steps: 3, layers: 1, ranks: 1, ..Options::default() };
    let text = String::from_utf8(render_rank(&options, 0, Vec::new()).unwrap()).unwrap();
    let text = text.replace("\"ts\": 4395", "\"ts\": 1704395");
    let base = text.find("\"baseTimeNanoseconds\"").unwrap();
    let text = format!("{}\"baseTimeNanoseconds\": 0}}", &text[..base]);
    let trace = folder.path().join("trace.json");
    std::fs::write(&trace, text).unwrap();

    let run = Run::open(&trace).unwrap();
    assert!(run.info().sources[0].shift_ns < -1_700_000_000_000_000_000);
    let written = augment(&run, &folder.path().join("out"));
    let before = ask(&python, &trace, &[ORIGINAL, PROBLEMS]);
    let path = track("Critical path");
    let after = ask(&python, &written[0].path, &[ORIGINAL, PROBLEMS, &path]);
    assert_eq!(after[..2], before[..]);
    assert!(written[0].added.segments > 10);
    assert_eq!(after[2][0]["slices"], json!(written[0].added.segments));
}

/// The UI fetches what `advisor open` serves, and the program ends with that.
#[test]
#[ignore = "needs ADVISOR_PERFETTO"]
fn served_trace_reaches_perfetto() {
    let python = python();
    let folder = demo();
    let run = Run::open(folder.path()).unwrap();
    let trace = folder.path().join(&run.info().sources[1].file);
    // The policy of the UI knows one port only.
    assert!(TcpStream::connect("127.0.0.1:9001").is_err(), "port 9001 is free");
    let port = free_port();
    let mut open = Command::new(env!("CARGO_BIN_EXE_advisor"))
        .args(["open", "--ranks", "1", "--no-browser", "--ui", &format!("http://127.0.0.1:{port}")])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(open.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    let queries = [ORIGINAL, PROBLEMS];
    assert_eq!(ask(&python, Path::new(url.trim()), &queries), ask(&python, &trace, &queries));
    assert!(open.wait().unwrap().success());
}

/// A slice of a `.pftrace` file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slice {
    lane: String,
    start_ns: i64,
    name: String,
    dur_ns: i64,
}

/// Returns the slices of host threads and the activities of GPUs, as Perfetto's engine reads them.
fn slices_of_perfetto(trace: &Path) -> (Vec<Slice>, Vec<Slice>) {
    let slices = "SELECT CAST(s.ts AS TEXT) AS start, s.dur AS dur, s.name AS name, t.type AS type,
            coalesce(CAST(thread.tid AS TEXT), t.name) AS lane
        FROM slice s JOIN track t ON t.id = s.track_id LEFT JOIN thread_track tt ON tt.id = s.track_id
        LEFT JOIN thread USING (utid)";
    let answers = ask(&python(), trace, &[PROBLEMS, slices]);
    // The field that links a call to its kernel is newer than the engine.
    let is_known = |problem: &Value| problem["name"] == "unknown_extension_fields";
    assert!(answers[0].iter().all(is_known), "{:?}", answers[0]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let slice = |row: &Value| {
        let lane = text(&row["lane"]);
        // The lane of a stream: `[07] stream 7`.
        let number = lane.strip_prefix('[').and_then(|lane| lane.split_once(']'));
        let lane = match number {
            Some((number, _)) => number.parse::<i64>().unwrap().to_string(),
            None => lane.clone(),
        };
        let (start_ns, dur_ns) =
            (text(&row["start"]).parse().unwrap(), row["dur"].as_i64().unwrap());
        Slice { lane, start_ns, dur_ns, name: text(&row["name"]) }
    };
    let (of_gpu, of_host): (Vec<&Value>, Vec<&Value>) =
        answers[1].iter().partition(|row| row["type"] == "gpu_render_stage");
    let slices = |rows: Vec<&Value>| rows.into_iter().map(slice).collect();
    (slices(of_host), slices(of_gpu))
}

/// Returns the slices as `advisor` reads them, with PyTorch's name of the kind of each GPU activity.
fn slices_of_ours(trace: &Path) -> Vec<(Slice, Option<String>)> {
    const TABLES: [(&str, &str); 9] = [
        ("cpu_ops", "NULL"),
        ("runtime_calls", "NULL"),
        ("python_frames", "NULL"),
        ("device_syncs", "NULL"),
        (
            "spans",
            "CASE category WHEN 'graph_event_node' THEN 'EventRecord' WHEN 'graph_host_node' THEN 'HostNode' END",
        ),
        ("annotations", "CASE WHEN on_device THEN 'Annotation' END"),
        ("kernels", "'Kernel'"),
        ("memcpys", "'Memcpy'"),
        ("memsets", "'Memset'"),
    ];
    let of_table = |(table, stage): (&str, &str)| {
        format!(
            "SELECT CAST(t.tid AS VARCHAR) AS lane, CAST(e.ts_ns + r.base_time_ns AS VARCHAR) AS start,
                CAST(e.dur_ns AS VARCHAR) AS dur, CAST(e.name AS VARCHAR) AS name, CAST({stage} AS VARCHAR) AS stage
            FROM {table} e JOIN ranks r ON r.rank = e.rank JOIN threads t ON t.rank = e.rank AND t.thread = e.thread"
        )
    };
    let query = TABLES.map(of_table).join(" UNION ALL ");
    let rows = crate::support::rows::rows(&Run::open(trace).unwrap(), &query);
    rows.iter()
        .map(|row| {
            let text = |column: &str| row[column].as_str().map(str::to_owned);
            let number = |column: &str| text(column).unwrap().parse().unwrap();
            let slice = Slice {
                lane: text("lane").unwrap_or_default(),
                start_ns: number("start"),
                dur_ns: number("dur"),
                name: text("name").unwrap_or_default(),
            };
            (slice, text("stage"))
        })
        .collect()
}

/// Compares lane, start, duration and name of all slices. An engine that does not know the names of kernels shows their kind. Slices
/// that Perfetto pairs with the end of another slice are those of `json`, which PyTorch wrote of the same recording.
fn assert_slices_are_those_of_perfetto(trace: &Path, json: &Path) {
    let (mut of_host, mut of_gpu) = slices_of_perfetto(trace);
    let shows_kinds = of_gpu.iter().any(|slice| slice.name == "Kernel");
    let (mut our_host, mut our_gpu) = (Vec::new(), Vec::new());
    for (mut slice, stage) in slices_of_ours(trace) {
        // Old versions of PyTorch used other categories, so their kernels are ordinary slices.
        match stage.filter(|_| !of_gpu.is_empty()) {
            Some(stage) => {
                let has_own_name = matches!(&*stage, "Kernel" | "Annotation");
                if shows_kinds || !has_own_name {
                    slice.name = stage;
                }
                our_gpu.push(slice);
            }
            None => our_host.push(slice),
        }
    }
    for (ours, theirs) in [(&mut our_host, &mut of_host), (&mut our_gpu, &mut of_gpu)] {
        ours.sort();
        theirs.sort();
        assert_eq!(ours.len(), theirs.len(), "{}", trace.display());
        let different: Vec<_> =
            { ours.iter().zip(theirs.iter()) }.filter(|(ours, theirs)| ours != theirs).collect();
        let mispaired_ratio = different.len() as f64 / ours.len().max(1) as f64;
        assert!(mispaired_ratio <= MAX_MISPAIRED_RATIO, "{}: {mispaired_ratio}", trace.display());
        if different.is_empty() {
            continue;
        }
        // PyTorch gives some lanes other numbers in JSON.
        let mut of_json: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
        for (slice, _) in slices_of_ours(json) {
            of_json.entry(slice.name).or_default().push((slice.start_ns, slice.dur_ns));
        }
        let is_near = |a: i64, b: i64| (a - b).abs() <= MAX_ROUNDING_NS;
        for (ours, theirs) in different {
            let place = |slice: &Slice| (slice.lane.clone(), slice.start_ns, slice.name.clone());
            assert_eq!(place(ours), place(theirs), "{}", trace.display());
            let times = &of_json[&ours.name];
            let has_times =
                |&(start, dur): &_| is_near(start, ours.start_ns) && is_near(dur, ours.dur_ns);
            assert!(times.iter().any(has_times), "{}: {ours:?}", trace.display());
        }
    }
}

/// Maximum difference of a time in the two formats: without `baseTimeNanoseconds`, JSON has floating-point numbers of microseconds
/// since 1970.
const MAX_ROUNDING_NS: i64 = 300;

/// Maximum share of slices that Perfetto pairs with the end of another slice: slices of a thread that overlap without nesting, or
/// touch, as many do in `diff_test`, whose times are whole microseconds.
const MAX_MISPAIRED_RATIO: f64 = 0.15;

#[test]
#[ignore = "needs ADVISOR_PERFETTO"]
fn slices_of_the_fixture_are_those_of_perfetto() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/pftrace");
    let [trace, json] = ["torch215.pftrace", "kineto.json.gz"].map(|name| fixtures.join(name));
    assert_slices_are_those_of_perfetto(&trace, &json);
}

#[test]
#[ignore = "needs ADVISOR_PERFETTO and ADVISOR_CORPUS"]
fn slices_of_pftrace_are_those_of_perfetto() {
    let real = corpus().join("inputs/writers_2026/real");
    for run in real.read_dir().unwrap() {
        for trace in run.unwrap().path().join("pftrace").read_dir().unwrap() {
            let trace = trace.unwrap().path();
            let name = Path::new(trace.file_name().unwrap()).with_extension("json.gz");
            let json = trace.parent().unwrap().with_file_name("cuspy").join(name);
            assert_slices_are_those_of_perfetto(&trace, &json);
        }
    }
}

/// Without a browser: the copies are valid JSON, and our own rules judge them like the originals.
#[test]
fn augmented_run_has_the_same_findings() {
    let folder = demo();
    let out = folder.path().join("out");
    let run = Run::open(folder.path()).unwrap();
    let written = augment(&run, &out);
    assert_eq!(written.len(), 2);
    let after = Run::open(&out).unwrap();
    for (trace, sources) in written.iter().zip(run.info().sources.iter().zip(&after.info().sources))
    {
        let text: Value =
            serde_json::from_reader(GzDecoder::new(File::open(&trace.path).unwrap())).unwrap();
        let events = text["traceEvents"].as_array().unwrap();
        let ours = events.iter().filter(|e| e["cat"] == "trace_advisor").count() as u64;
        assert_eq!(ours, trace.added.events);
        assert_eq!(sources.1.events, sources.0.events + ours);
        assert_eq!(sources.1.shift_ns, sources.0.shift_ns);
    }
    let findings = |run: &Run| {
        let mut report = run.check(&default_rules()).unwrap();
        report.findings.retain(|f| !f.is_note());
        // Advice names the run.
        report.findings.iter_mut().for_each(|f| f.advice.clear());
        serde_json::to_value(report.findings).unwrap()
    };
    assert_eq!(findings(&after), findings(&run));
}
