//! The forms in which users get metrics of Determined: lines of the wire, answers of the REST interface, rows of the
//! database. All forms of a trial are equal, and faulty ones are reported.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value as Json;

use super::{
    EXACT, NEW, OLD, Points, SINGLE, assert_close, assert_same, count, folder, generation, golden,
    number, open, points, rest, rows, traces, wire,
};
use crate::harness::{Case, functions};

pub(super) fn cases() -> Vec<Case> {
    functions![
        old_trials_are_equal_in_every_form,
        new_trials_are_equal_in_every_form,
        migrated_rows_are_read_in_their_units,
        listed_series_without_samples_are_named,
        file_names_that_determined_marks_give_the_rank,
        duplicate_points_are_read_once,
        newest_or_selected_trial_is_read,
        errors_and_odd_streams_are_reported,
    ]
}

/// The text that `pg_dump` writes for a table, from its rows as CSV.
fn dump(csv_file: &Path, table: &str) -> String {
    let mut reader = csv::Reader::from_path(csv_file).unwrap();
    let quoted =
        |name: &str| if name == "values" { format!("\"{name}\"") } else { name.to_owned() };
    let names: Vec<String> = reader.headers().unwrap().iter().map(quoted).collect();
    let mut text = "--\n-- PostgreSQL database dump\n--\n\nSET client_encoding = 'UTF8';\n\n\
                    COPY public.users (id, name) FROM stdin;\n1\tvalues\t\\N\n\\.\n\n"
        .to_owned();
    writeln!(text, "COPY public.{table} ({}) FROM stdin;", names.join(", ")).unwrap();
    for record in reader.records() {
        let escaped = |value: &str| match value {
            "" => "\\N".to_owned(),
            value => value.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n"),
        };
        let values: Vec<String> = record.unwrap().iter().map(escaped).collect();
        writeln!(text, "{}", values.join("\t")).unwrap();
    }
    text + "\\.\n\n--\n-- PostgreSQL database dump complete\n--\n"
}

/// Every form of the old generation says the same, and as much as it should.
fn old_trials_are_equal_in_every_form() {
    let traces = traces();
    let db = traces.join("db/trial_profiler_metrics.csv");
    let dumps = tempfile::tempdir().unwrap();
    let dumped = dumps.path().join("dump.sql");
    fs::write(&dumped, dump(&db, "trial_profiler_metrics")).unwrap();
    let mut sum = 0;
    for (trial, series, expected) in [(101, 17, 2709), (102, 17, 2093), (103, 21, 793)] {
        let sent = points(&open(&wire(&traces, trial), None).unwrap());
        assert_eq!((sent.len(), count(&sent)), (series, expected), "{trial}");
        sum += expected;
        let answers = folder(&rest(&traces, trial));
        for (form, path) in [
            ("rest", answers.path()),
            ("csv", &db),
            ("jsonl", &traces.join("db/trial_profiler_metrics.jsonl")),
            ("pg_dump", &dumped),
        ] {
            let form_points = points(&open(path, Some(trial)).unwrap());
            assert_same(&form_points, &sent, SINGLE, true, &format!("{trial} {form}"));
        }
    }
    assert_eq!(sum, 5595);
}

fn new_trials_are_equal_in_every_form() {
    let traces = traces();
    let db = traces.join("db/system_metrics.csv");
    let dumps = tempfile::tempdir().unwrap();
    let dumped = dumps.path().join("dump.sql");
    fs::write(&dumped, dump(&db, "system_metrics")).unwrap();
    let mut sum = 0;
    let golden = golden("summary");
    for (trial, series, answered) in [(201, 9, 28), (202, 9, 91), (203, 26, 264)] {
        let sent = points(&open(&wire(&traces, trial), None).unwrap());
        assert_eq!(sent.len(), series, "{trial}");
        sum += count(&sent);
        for (form, path) in
            [("csv", &db), ("jsonl", &traces.join("db/system_metrics.jsonl")), ("pg_dump", &dumped)]
        {
            let rows = points(&open(path, Some(trial)).unwrap());
            assert_same(&rows, &sent, EXACT, true, &format!("{trial} {form}"));
        }
        let answers = folder(&rest(&traces, trial));
        let run = open(answers.path(), None).unwrap();
        let rest = points(&run);
        let golden = &golden[trial.to_string()];
        assert_eq!(rest.len() as i64, golden["rest_series"].as_i64().unwrap());
        assert_eq!(count(&rest), answered);
        // The REST interface has the same series, except the use of file systems.
        let visible: Points =
            sent.into_iter().filter(|(series, _)| !series.starts_with("disk_space_used")).collect();
        assert_same(&rest, &visible, SINGLE, true, &format!("{trial} rest"));
    }
    assert_eq!(sum, 465);
}

/// Rows that Determined's migration copied are in GB and Gbit/s: the same points as in the old table.
fn migrated_rows_are_read_in_their_units() {
    let traces = traces();
    let mut sum = 0;
    for trial in OLD {
        let migrated = open(&traces.join("db/system_metrics_migrated.csv"), Some(trial)).unwrap();
        let migrated_points = points(&migrated);
        sum += count(&migrated_points);
        assert!(migrated.warnings().iter().any(|warning| warning.code == "migrated-units"));
        let same =
            points(&open(&traces.join("db/system_metrics_migrated.jsonl"), Some(trial)).unwrap());
        assert_same(&migrated_points, &same, EXACT, true, "csv and jsonl");
        let sent = points(&open(&wire(&traces, trial), None).unwrap());
        for (series, samples) in &migrated_points {
            for (ts_ns, (value, _)) in samples {
                // A row has one time for all its series, and what was sent a few microseconds more each.
                let (near, (expected, _)) =
                    sent[series].iter().min_by_key(|(time, _)| time.abs_diff(*ts_ns)).unwrap();
                assert!(near.abs_diff(*ts_ns) < 100_000, "{series}: {near} {ts_ns}");
                assert_close(*value, *expected, SINGLE, series);
            }
        }
        let query = "SELECT min(value) FROM counters WHERE metric = 'host_memory_free'";
        assert!((24.5e9..24.7e9).contains(&number(&migrated, query)));
    }
    assert_eq!(sum, 191);
}

/// D12: lists of series are recognized; alone they are an error that names the missing samples.
fn listed_series_without_samples_are_named() {
    let traces = traces();
    for (trial, count) in [(101, 17), (102, 17), (103, 21), (201, 7), (202, 7), (203, 22)] {
        let folder_name = traces.join(generation(trial)).join("rest");
        let list = folder_name.join(format!("trial{trial}_available_series.json"));
        let error = open(&list, None).unwrap_err();
        assert!(error.contains(&format!("{count} series are listed")), "{error}");
        let all = folder(&[vec![list.clone()], rest(&traces, trial)].concat());
        let run = open(all.path(), None).unwrap();
        assert!(run.warnings().iter().all(|w| w.code != "series-without-samples"), "{trial}");
        let run = open(folder(&[list, wire(&traces, trial)]).path(), None).unwrap();
        assert!(run.warnings().iter().all(|w| w.code != "series-without-samples"), "{trial}");
    }
    let rest = traces.join("old_generation/rest");
    let part = folder(&[
        rest.join("trial101_available_series.json"),
        rest.join("trial101_metrics_TIMING.jsonl"),
    ]);
    let run = open(part.path(), None).unwrap();
    let warning = run.warnings().iter().find(|w| w.code == "series-without-samples").unwrap();
    assert_eq!(warning.count, 8);
    assert!(warning.message.contains("cpu_util_simple"), "{}", warning.message);
}

/// D13: the ranks that Determined puts into names of traces.
fn file_names_that_determined_marks_give_the_rank() {
    let trace = r#"{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}"#;
    let mut tried = 0;
    for (case, marked) in golden("rank_file_names").as_object().unwrap() {
        let rank: i32 = case.rsplit_once(" rank ").unwrap().1.parse().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(marked.as_str().unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, trace).unwrap();
        // Event files carry no mark: what it says of the rank is nothing.
        let expected = if case.starts_with("events.out") { 0 } else { rank };
        let run = open(folder.path(), None).unwrap();
        assert_eq!(run.info().ranks, [expected], "{case}");
        tried += 1;
    }
    assert_eq!(tried, 12);
}

/// All forms of a trial in one folder are one trial, in the most exact form.
fn duplicate_points_are_read_once() {
    let traces = traces();
    for trial in OLD.into_iter().chain(NEW) {
        let db = if trial < 200 {
            vec![
                traces.join("db/trial_profiler_metrics.csv"),
                traces.join("db/trial_profiler_metrics.jsonl"),
                traces.join("db/system_metrics_migrated.csv"),
            ]
        } else {
            vec![traces.join("db/system_metrics.csv")]
        };
        let all = folder(&[vec![wire(&traces, trial)], rest(&traces, trial), db].concat());
        let run = open(all.path(), Some(trial)).unwrap();
        let sent = points(&open(&wire(&traces, trial), None).unwrap());
        assert_same(&points(&run), &sent, 0.0, true, &trial.to_string());
        let codes: Vec<&str> = run.warnings().iter().map(|warning| warning.code.as_ref()).collect();
        assert!(codes.contains(&"duplicate-samples"), "{trial} {codes:?}");
        assert!(!codes.contains(&"contradicting-samples"), "{trial} {codes:?}");
    }
}

/// The newest trial is read, or the selected one.
fn newest_or_selected_trial_is_read() {
    let traces = traces();
    let old = traces.join("old_generation");
    let run = open(&old, None).unwrap();
    let warning = run.warnings().iter().find(|w| w.code == "several-trials").unwrap();
    assert!(warning.message.contains("trial 102 was read, not 101"), "{}", warning.message);
    let names = rows(&run, "SELECT DISTINCT process_name FROM threads");
    assert_eq!(names, [["Determined trial 102"]]);
    let run = open(&old, Some(101)).unwrap();
    assert!(run.warnings().iter().all(|w| w.code != "several-trials"));
    assert_eq!(run.info().steps, 235);
    let error = open(&old, Some(7)).unwrap_err();
    assert!(error.contains("no metrics of trial 7, only of 101, 102"), "{error}");
    assert!(error.starts_with(&old.display().to_string()), "{error}");
}

/// D15: what a server or a shell leaves in such files.
fn errors_and_odd_streams_are_reported() {
    let traces = traces();
    let sent = points(&open(&wire(&traces, 201), None).unwrap());
    let lines = fs::read_to_string(rest(&traces, 201)[0].clone()).unwrap();
    let expected: Points =
        sent.into_iter().filter(|(series, _)| !series.starts_with("disk_space_used")).collect();
    let read = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("metrics.json"), text).unwrap();
        open(folder.path(), None)
    };
    // Pretty printed one after the other, in a list, on one line, with Windows' line ends and a mark.
    let objects: Vec<Json> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pretty: Vec<String> =
        objects.iter().map(|object| serde_json::to_string_pretty(object).unwrap()).collect();
    for text in [
        pretty.join("\n"),
        pretty.concat(),
        serde_json::to_string(&objects).unwrap(),
        serde_json::to_string_pretty(&objects).unwrap(),
        lines.replace('\n', ""),
        format!("\u{feff}{}", lines.replace('\n', "\r\n")),
    ] {
        let run = read(&text).unwrap();
        assert_same(&points(&run), &expected, SINGLE, true, &text[..40]);
        assert!(run.warnings().is_empty(), "{:?}", run.warnings());
    }
    // An error in the middle.
    let error = r#"{"error":{"grpcCode":5,"httpCode":404,"message":"trial 999 not found","httpStatus":"Not Found"}}"#;
    let run = read(&format!("{error}\n{lines}{error}\n")).unwrap();
    assert_same(&points(&run), &expected, SINGLE, true, "with errors");
    let [warning] = run.warnings() else { panic!("{:?}", run.warnings()) };
    assert_eq!((warning.code.as_ref(), warning.count), ("determined-error", 2));
    assert!(warning.message.ends_with("trial 999 not found"), "{}", warning.message);
    // Nothing but errors, nothing at all.
    assert!(read(error).unwrap_err().contains("trial 999 not found"));
    assert!(read("").unwrap_err().contains("no profiler trace found"));
    assert!(read("{\"result\":{\"labels\":[]}}").unwrap_err().contains("not a single sample"));
}
