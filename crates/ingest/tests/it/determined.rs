//! Determined's metrics: every form with hand-made content, what joins traces, and what is no metric at all.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::support::{column, gzip, read_files, warnings};
use proptest::prelude::*;
use trace_model::Dataset;

/// 2026-11-21 10:12:51 UTC.
pub(crate) const T0_NS: i64 = 1_795_255_971_000_000_000;

fn read_text(text: &str) -> Result<Dataset, ingest::Error> {
    read_files(&[("metrics", text.as_bytes())])
}

fn read_trial(files: &[(&str, &[u8])], trial: i64) -> Result<Dataset, ingest::Error> {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let options = ingest::Options { trial: Some(trial), ..ingest::Options::default() };
    ingest::read_run(folder.path(), &options, &ingest::NoProgress)
}

/// Rows of some columns, side by side.
fn rows(dataset: &Dataset, table: &str, columns: &[&str]) -> Vec<String> {
    if dataset.tables.rows(table) == 0 {
        return Vec::new();
    }
    let columns: Vec<Vec<String>> = columns.iter().map(|c| column(dataset, table, c)).collect();
    (0..columns[0].len())
        .map(|row| columns.iter().map(|c| c[row].as_str()).collect::<Vec<_>>().join(" "))
        .collect()
}

/// `2026-11-21T10:12:51` and so many microseconds.
fn time(us: i64) -> String {
    format!("2026-11-21T10:12:{:02}.{:06}Z", 51 + us / 1_000_000, us % 1_000_000)
}

fn labels(trial: i64, kind: &str, name: &str, agent: &str) -> String {
    format!(
        r#"{{"trialId":{trial},"name":"{name}","agentId":"{agent}","gpuUuid":"","metricType":"PROFILER_METRIC_TYPE_{kind}"}}"#
    )
}

/// One answer of the old generation: values, their times and their batches.
fn answer(labels: &str, points: &[(&str, i64, i64)]) -> String {
    let list = |text: &dyn Fn(&(&str, i64, i64)) -> String| {
        points.iter().map(text).collect::<Vec<_>>().join(",")
    };
    format!(
        r#"{{"result":{{"batch":{{"values":[{}],"batches":[{}],"timestamps":[{}],"labels":{labels}}}}}}}"#,
        list(&|p| p.0.to_owned()),
        list(&|p| p.2.to_string()),
        list(&|p| format!("\"{}\"", time(p.1))),
    )
}

/// A trial with two batches, each fetched, computed and reported.
pub(crate) fn two_batches(trial: i64) -> String {
    let timing = |name, points: &[(&str, i64, i64)]| {
        answer(&labels(trial, "TIMING", name, "agent-a"), points) + "\n"
    };
    timing("dataloader_next", &[("0.000050", 0, 4), ("0.000050", 200, 5), ("0.000050", 400, 6)])
        + &timing("train_batch", &[("0.000100", 60, 5), ("0.000100", 260, 6)])
        + &timing("train_batch.backward", &[("0.000040", 100, 5), ("0.000040", 300, 6)])
        + &timing("from_device", &[("0.000010", 165, 5)])
        + &answer(&labels(trial, "SYSTEM", "cpu_util_simple", "agent-a"), &[("12.5", 100, 5)])
        + "\n"
        + &answer(&labels(trial, "MISC", "samples_per_second", "agent-a"), &[("640", 170, 5)])
}

#[test]
fn determined_timings_become_annotations_and_steps() {
    let dataset = read_text(&two_batches(7)).unwrap();
    assert_eq!(warnings(&dataset), []);
    assert_eq!(
        rows(
            &dataset,
            "annotations",
            &["event_id", "name", "ts_ns", "dur_ns", "self_dur_ns", "parent", "depth", "step"]
        ),
        [
            "0 dataloader_next 0 50000 50000 - 0 5",
            "1 train_batch 60000 100000 60000 - 0 5",
            "2 train_batch.backward 100000 40000 40000 1 1 5",
            "3 from_device 165000 10000 10000 - 0 5",
            "4 dataloader_next 200000 50000 50000 - 0 6",
            "5 train_batch 260000 100000 60000 - 0 6",
            "6 train_batch.backward 300000 40000 40000 5 1 6",
            "7 dataloader_next 400000 50000 50000 - 0 -",
        ]
    );
    let args = column(&dataset, "annotations", "args");
    assert_eq!(args[0], r#"{"trial":7,"agent":"agent-a","batch":4}"#);
    assert_eq!(
        rows(
            &dataset,
            "steps",
            &["step", "name", "source", "ts_ns", "dur_ns", "thread", "event_id", "is_last"]
        ),
        [
            "5 train_batch determined 0 175000 0 1 false",
            "6 train_batch determined 200000 160000 0 5 true",
        ]
    );
    assert_eq!(
        rows(
            &dataset,
            "counters",
            &[
                "event_id",
                "name",
                "metric",
                "unit",
                "is_cumulative",
                "ts_ns",
                "agent",
                "device",
                "batch",
                "value",
                "thread"
            ]
        ),
        [
            "8 cpu_util_simple cpu_util percent false 100000 agent-a - 5 12.5 -",
            "9 samples_per_second throughput samples/s false 170000 agent-a - 5 640 -",
        ]
    );
    assert_eq!(
        rows(&dataset, "threads", &["thread", "process_name", "thread_name", "is_device"]),
        ["0 Determined trial 7 agent-a false"]
    );
    assert_eq!(
        rows(
            &dataset,
            "ranks",
            &[
                "rank",
                "vendor",
                "clock",
                "start_ns",
                "end_ns",
                "base_time_ns",
                "event_count",
                "step_count",
                "has_memory"
            ]
        ),
        [format!("0 - single 0 450000 {T0_NS} 10 0 false")]
    );
    assert_eq!(dataset.run.steps, 2);
    assert_eq!(dataset.run.wall_ns, 450_000);
    let source = &dataset.run.sources[0];
    assert_eq!(
        (source.format.as_ref(), source.rank_from.as_ref(), source.events),
        ("determined metrics", "agent order", 10)
    );
    assert_eq!(source.shift_ns, -T0_NS);
}

/// A trace whose one operator starts `us` microseconds after the metrics, on a rank.
fn trace(rank: i32, us: i64) -> String {
    let ts = T0_NS / 1000 + us;
    format!(
        r#"{{"schemaVersion": 1, "distributedInfo": {{"rank": {rank}}}, "traceEvents": [
            {{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": 1, "ts": {ts}, "dur": 100}},
            {{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": {ts}.5, "dur": 50}}]}}"#
    )
}

#[test]
fn determined_metrics_join_a_trace_by_time() {
    let files = [
        ("trace.json", trace(0, 60).into_bytes()),
        ("metrics/trial.jsonl", two_batches(7).into_bytes()),
    ];
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (*name, &text[..])).collect();
    let dataset = read_files(&files).unwrap();
    assert_eq!(warnings(&dataset), []);
    // The trace's zero and the trace's steps stay.
    assert_eq!(rows(&dataset, "steps", &["step", "source", "ts_ns"]), ["3 profiler_step 0"]);
    let annotations =
        rows(&dataset, "annotations", &["event_id", "name", "ts_ns", "thread", "step"]);
    assert_eq!(annotations[0], "0 ProfilerStep#3 0 0 3");
    assert_eq!(
        annotations[1..4],
        ["2 dataloader_next -60000 1 -", "3 train_batch 0 1 3", "4 train_batch.backward 40000 1 3",]
    );
    assert_eq!(
        rows(&dataset, "counters", &["event_id", "ts_ns", "metric"]),
        ["10 40000 cpu_util", "11 110000 throughput",]
    );
    assert_eq!(rows(&dataset, "ranks", &["rank", "start_ns", "event_count"]), ["0 0 2"]);
    assert_eq!(dataset.run.wall_ns, 100_000);
    assert_eq!(dataset.run.sources[1].shift_ns, -T0_NS - 60_000);
}

#[test]
fn determined_reads_the_trial_of_the_trace() {
    let later = two_batches(9).replace("T10:", "T11:");
    let both = [&two_batches(7)[..], &later].join("\n");
    let (near, far) = (trace(0, 60), trace(0, -10_000_000));
    let read = |trace: &str| {
        read_files(&[("a.json", trace.as_bytes()), ("b.jsonl", both.as_bytes())]).unwrap()
    };
    let dataset = read(&near);
    assert_eq!(warnings(&dataset), [("several-trials", 1)]);
    assert!(dataset.warnings[0].message.contains("2 trials: trial 7 was read, not 9"));
    assert_eq!(column(&dataset, "threads", "process_name")[1], "Determined trial 7");
    // None of them did: the newest, and a word about it.
    let dataset = read(&far);
    assert_eq!(warnings(&dataset), [("several-trials", 1), ("metrics-of-another-time", 1)]);
    assert_eq!(column(&dataset, "threads", "process_name")[1], "Determined trial 9");
    // Without a trace the newest; the one that is asked for; none.
    let dataset = read_text(&both).unwrap();
    assert_eq!(column(&dataset, "threads", "process_name"), ["Determined trial 9"]);
    let dataset = read_trial(&[("b.jsonl", both.as_bytes())], 7).unwrap();
    assert_eq!(column(&dataset, "threads", "process_name"), ["Determined trial 7"]);
    let error = read_trial(&[("b.jsonl", both.as_bytes())], 8).unwrap_err().to_string();
    assert!(error.contains("no metrics of trial 8, only of 7, 9"), "{error}");
    let dataset =
        read_trial(&[("a.json", near.as_bytes()), ("b.jsonl", both.as_bytes())], 8).unwrap();
    assert_eq!(warnings(&dataset), [("no-metrics", 1)]);
    assert_eq!(dataset.tables.rows("counters"), 0);
}

#[test]
fn determined_agents_are_spread_over_ranks() {
    let cpu = |agent: &str| answer(&labels(7, "SYSTEM", "cpu_util_simple", agent), &[("1", 60, 1)]);
    let metrics = [cpu("node-b"), cpu("node-a")].join("\n");
    let traces: Vec<String> = (0..4).map(|rank| trace(rank, 60)).collect();
    let mut files: Vec<(String, &[u8])> = traces
        .iter()
        .enumerate()
        .map(|(rank, text)| (format!("t{rank}.json"), text.as_bytes()))
        .collect();
    files.push(("m.jsonl".to_owned(), metrics.as_bytes()));
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, text)| (&name[..], *text)).collect();
    let dataset = read_files(&files).unwrap();
    assert_eq!(rows(&dataset, "counters", &["rank", "agent"]), ["2 node-b", "0 node-a"]);
    assert_eq!(dataset.run.ranks, [0, 1, 2, 3]);
    let alone = read_text(&metrics).unwrap();
    assert_eq!(rows(&alone, "counters", &["rank", "agent"]), ["1 node-b", "0 node-a"]);
    assert_eq!(rows(&alone, "ranks", &["rank", "clock"]), ["0 absolute", "1 absolute"]);
}

#[test]
fn determined_metrics_do_not_join_traces_without_a_date() {
    let relative = r#"{"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 5, "dur": 10}]}"#;
    let metrics = two_batches(7);
    let dataset =
        read_files(&[("a.json", relative.as_bytes()), ("b.jsonl", metrics.as_bytes())]).unwrap();
    assert_eq!(warnings(&dataset), [("unaligned-clocks", 1)]);
    assert_eq!(column(&dataset, "counters", "ts_ns")[0], "100000");
}

/// A report of the new generation, in the forms it has.
#[test]
fn determined_reports_are_read_in_all_forms() {
    let when = "2026-11-21T10:12:52.000000+00:00";
    let inner = r#"{"agent-a":{"/":{"disk_util":32.5},"disk_iops":10}}"#;
    let expected = ["disk_space_used / 32.5", "disk_iops - 10"];
    let body = format!(
        r#"{{"group":"disk","metrics":{{"trialId":5,"trialRunId":1,"reportTime":"{when}","stepsCompleted":null,"metrics":{{"avgMetrics":{inner},"batchMetrics":null}}}}}}"#
    );
    let forms = [
        body.clone(),
        format!(r#"{{"t":1.5,"method":"POST","path":"/api/v1/trials/5/metrics","body":{body}}}"#),
        format!(
            r#"{{"t":1.5,"path":"/api/v1/trials/5/metrics","body":{}}}"#,
            serde_json::to_string(&body).unwrap()
        ),
        format!(
            r#"{{"trial_id":5,"end_time":"{when}","metrics":{inner},"total_batches":null,"partition_type":"PROFILING","metric_group":"disk"}}"#
        ),
        format!(
            r#"{{"trialId":5,"endTime":"{when}","metrics":{inner},"totalBatches":0,"archived":false,"id":1,"trialRunId":1,"group":"disk"}}"#
        ),
        format!(
            r#"{{"trialId":5,"endTime":"{when}","metrics":{{"avg_metrics":{inner}}},"totalBatches":0,"group":"disk"}}"#
        ),
        format!(
            r#"{{"result":{{"metrics":[{{"trialId":5,"endTime":"{when}","metrics":{inner},"group":"disk"}}]}}}}"#
        ),
        format!(
            "trial_id,end_time,metrics,total_batches,partition_type,metric_group\n5,2026-11-21 10:12:52+00,\"{}\",,PROFILING,disk\n",
            inner.replace('"', "\"\"")
        ),
        format!(
            "COPY public.system_metrics (trial_id, end_time, metrics, total_batches, metric_group) FROM stdin;\n\
             5\t2026-11-21 11:12:52+01\t{inner}\t\\N\tdisk\n\\.\n"
        ),
    ];
    for form in forms {
        let dataset = read_text(&form).unwrap_or_else(|error| panic!("{form}: {error}"));
        assert_eq!(warnings(&dataset), [], "{form}");
        assert_eq!(rows(&dataset, "counters", &["metric", "device", "value"]), expected, "{form}");
        assert_eq!(
            column(&dataset, "ranks", "base_time_ns"),
            [(T0_NS + 1_000_000_000).to_string()]
        );
    }
}

#[test]
fn determined_metrics_of_other_sources_are_not_read() {
    let report = |group: &str, metrics: &str| {
        format!(
            r#"{{"trialId":5,"endTime":"2026-11-21T10:12:52Z","metrics":{metrics},"totalBatches":100,"group":"{group}"}}"#
        )
    };
    let text = [
        report("training", r#"{"avg_metrics":{"loss":0.5}}"#),
        report("my group", r#"{"loss":{"a":0.5}}"#),
        report("cpu", r#"{"agent-a":{"cpu_util_simple":50}}"#),
    ];
    let dataset = read_text(&text.join("\n")).unwrap();
    assert_eq!(warnings(&dataset), [("other-metrics", 2)]);
    assert_eq!(dataset.tables.rows("counters"), 1);
    let error = read_text(&text[0]).unwrap_err().to_string();
    assert!(error.contains("not a single sample"), "{error}");
}

#[test]
fn determined_logs_skip_other_requests() {
    let line = |path: &str, body: &str| {
        format!(r#"{{"t":1.5,"method":"POST","path":"{path}","body":{body}}}"#)
    };
    let body = format!(
        r#"{{"batches":[{{"values":[1],"batches":[2],"timestamps":["{}"],"labels":{}}}]}}"#,
        time(0),
        labels(5, "SYSTEM", "cpu_util_simple", "a")
    );
    let text = [
        line("/api/v1/auth/login", r#"{"username":"a","password":""}"#),
        line(
            "/api/v1/trials/5/training_metrics",
            r#"{"trialRunId":1,"metrics":{"avgMetrics":{"loss":1}}}"#,
        ),
        line("/api/v1/trials/5/progress", "0.5"),
        line("/api/v1/trials/5/heartbeat", "null"),
        line("/api/v1/trials/profiler/metrics?a=b", &body),
    ];
    let dataset = read_text(&text.join("\n")).unwrap();
    assert_eq!(warnings(&dataset), []);
    assert_eq!(column(&dataset, "counters", "value"), ["1"]);
}

#[test]
fn determined_unknown_metrics_keep_their_names() {
    let text = answer(&labels(5, "SYSTEM", "gpu_temperature", "agent-a"), &[("61.5", 0, 1)]);
    let dataset = read_text(&text).unwrap();
    assert_eq!(
        rows(&dataset, "counters", &["name", "metric", "unit", "value"]),
        ["gpu_temperature - - 61.5"]
    );
}

#[test]
fn determined_units_follow_the_generation() {
    let row = |name: &str, value: &str, us: i64| {
        format!(
            r#"{{"trial_id":5,"end_time":"{}","metrics":{{"agent-a":{{"{name}":{value}}}}},"metric_group":"x"}}"#,
            time(us)
        )
        .replace("\"x\"", if name.starts_with("net") { "\"network\"" } else { "\"memory\"" })
    };
    let values = |text: &[String]| {
        let dataset = read_text(&text.join("\n")).unwrap();
        let codes: Vec<(String, u64)> =
            warnings(&dataset).into_iter().map(|(code, count)| (code.to_owned(), count)).collect();
        (column(&dataset, "counters", "value"), codes)
    };
    let gb = [row("memory_free", "24.5", 0), row("net_throughput_sent", "2", 10)];
    assert_eq!(
        values(&gb),
        (
            vec!["24500000000".to_owned(), "250000000".to_owned()],
            vec![("migrated-units".to_owned(), 1)]
        )
    );
    let bytes = [row("memory_free", "24500000000", 0), row("net_throughput_sent", "2", 10)];
    assert_eq!(values(&bytes), (vec!["24500000000".to_owned(), "2".to_owned()], vec![]));
    // A trial that was migrated and went on: each sample as its neighbour.
    let both =
        [gb, [row("memory_free", "3e9", 500), row("net_throughput_sent", "7", 510)]].concat();
    let expected = ["24500000000", "3000000000", "250000000", "7"].map(str::to_owned);
    assert_eq!(values(&both).0, expected);
    // Nothing but the network: as the new generation writes it.
    assert_eq!(values(&[row("net_throughput_recv", "2", 0)]).0, ["2"]);
    // Out of range in our unit.
    let text =
        answer(&labels(5, "SYSTEM", "net_throughput_recv", "a"), &[("1e308", 0, 1), ("1", 1, 1)]);
    assert_eq!(column(&read_text(&text).unwrap(), "counters", "value"), ["125000000"]);
}

#[test]
fn determined_copies_of_a_sample_count_once() {
    let exact = r#"{"batches": [{"values": [0.1234567891], "batches": [3], "timestamps": ["2026-11-21T10:12:51.000000+00:00"], "labels": {"trialId": "5", "name": "cpu_util_simple", "agentId": "a", "gpuUuid": "", "metricType": "PROFILER_METRIC_TYPE_SYSTEM"}}]}"#;
    let single = answer(&labels(5, "SYSTEM", "cpu_util_simple", "a"), &[("0.12345679", 0, 3)]);
    let copied = format!(
        r#"{{"trial_id":5,"end_time":"{}","metrics":{{"a":{{"cpu_util_simple":0.12345679}}}},"metric_group":"cpu"}}"#,
        time(40)
    );
    let files = [("a", single.as_bytes()), ("b", exact.as_bytes()), ("c", copied.as_bytes())];
    let dataset = read_files(&files).unwrap();
    assert_eq!(warnings(&dataset), [("duplicate-samples", 2)]);
    assert_eq!(rows(&dataset, "counters", &["value", "batch"]), ["0.1234567891 3"]);
    let events: Vec<u64> = dataset.run.sources.iter().map(|source| source.events).collect();
    assert_eq!(events, [1, 1, 1]);
    // Another value at the same time: the first file, and a warning.
    let other = single.replace("0.12345679", "0.5");
    let dataset = read_files(&[("a", single.as_bytes()), ("b", other.as_bytes())]).unwrap();
    assert_eq!(warnings(&dataset), [("duplicate-samples", 1), ("contradicting-samples", 1)]);
    assert_eq!(column(&dataset, "counters", "value"), ["0.12345679"]);
    // A copy far from its original is a sample of its own.
    let far = copied.replace(&time(40), &time(2000));
    let dataset = read_files(&[("a", single.as_bytes()), ("c", far.as_bytes())]).unwrap();
    assert_eq!(dataset.tables.rows("counters"), 2);
}

#[test]
fn determined_values_that_are_not_numbers_are_counted() {
    let label = labels(5, "SYSTEM", "cpu_util_simple", "agent-a");
    let points = [
        ("\"NaN\"", 0, 1),
        ("NaN", 1, 2),
        ("\"Infinity\"", 2, 3),
        ("-Infinity", 3, 4),
        ("null", 4, 5),
        ("\"text\"", 5, 6),
        ("1e999", 6, 7),
        ("\"12.5\"", 7, 8),
        ("-3", 8, 9),
    ];
    let dataset = read_text(&answer(&label, &points)).unwrap();
    assert_eq!(warnings(&dataset), [("bad-metric-value", 7), ("impossible-metric", 1)]);
    assert_eq!(rows(&dataset, "counters", &["value", "batch"]), ["12.5 8"]);

    let label = labels(5, "TIMING", "train_batch", "agent-a");
    let points = [("-0.5", 0, 1), ("1e300", 1, 2), ("0.5", 2, 3)];
    let dataset = read_text(&answer(&label, &points)).unwrap();
    assert_eq!(warnings(&dataset), [("bad-timing", 2)]);
    assert_eq!(column(&dataset, "annotations", "dur_ns"), ["500000000"]);

    let overflow = [("1", 0, i64::MAX), ("2", 1, -5)];
    let text = answer(&labels(5, "SYSTEM", "cpu_util_simple", "a"), &overflow)
        .replace(&i64::MAX.to_string(), "99999999999999999999999999");
    let dataset = read_text(&text).unwrap();
    assert_eq!(rows(&dataset, "counters", &["value", "batch"]), ["1 -", "2 -"]);
    let text = text.replace("\"trialId\":5", "\"trialId\":99999999999999999999999999");
    let dataset = read_text(&text).unwrap();
    assert_eq!(dataset.tables.rows("counters"), 2);
}

#[test]
fn determined_invalid_times_are_counted() {
    let good = answer(&labels(5, "SYSTEM", "cpu_util_simple", "a"), &[("1", 0, 1), ("2", 1, 2)]);
    for bad in ["", "soon", "2026-11-21 10:12:51", "0001-01-01T00:00:00Z", "9999-01-01T00:00:00Z"] {
        let dataset = read_text(&good.replace(&time(1), bad)).unwrap();
        assert_eq!(warnings(&dataset), [("bad-metric-time", 1)], "{bad}");
        assert_eq!(column(&dataset, "counters", "value"), ["1"], "{bad}");
    }
    // Lists that do not fit each other.
    let dataset =
        read_text(&good.replace("[1,2],\"batches\":[1,2]", "[1,2,3],\"batches\":[1]")).unwrap();
    assert_eq!(warnings(&dataset), [("uneven-metric-lists", 1)]);
    assert_eq!(rows(&dataset, "counters", &["value", "batch"]), ["1 1", "2 -"]);
}

#[test]
fn determined_truncated_files_keep_complete_entries() {
    let text = two_batches(7);
    let whole = |text: &str| text.matches("}}}\n").count() + usize::from(text.ends_with("}}}"));
    for cut in (0..text.len()).step_by(13) {
        let part = &text[..cut];
        match read_text(part) {
            Ok(dataset) => {
                assert!(dataset.run.sources[0].events > 0, "{cut}");
                let is_cut = !part.ends_with('\n') && !part.ends_with("}}}");
                let expected: &[(&str, u64)] = if is_cut { &[("truncated-json", 1)] } else { &[] };
                assert_eq!(warnings(&dataset), expected, "{cut}");
            }
            Err(error) => assert_eq!(whole(part), 0, "{cut} {error}"),
        }
    }
    let packed = gzip(text.repeat(50).as_bytes());
    let dataset = read_files(&[("m.jsonl.gz", &packed[..packed.len() / 2])]).unwrap();
    assert!(warnings(&dataset).contains(&("truncated-gzip", 1)));
}

#[test]
fn determined_broken_line_loses_only_that_line() {
    let text = two_batches(7);
    let lines: Vec<&str> = text.lines().collect();
    let half = &lines[1][..lines[1].len() / 2];
    for broken in [half, "{\"result\": }", "]]] oops", "{\"a\": 1}", "null", "17", "\"text\""] {
        let text = [lines[0], broken, lines[2], lines[3], lines[4], lines[5]].join("\n");
        let dataset = read_text(&text).unwrap();
        let names = column(&dataset, "annotations", "name");
        assert_eq!(names.len(), 3 + 2 + 1, "{broken}");
        assert_eq!(dataset.tables.rows("counters"), 2, "{broken}");
        let [(code, 1)] = warnings(&dataset)[..] else {
            panic!("{broken}: {:?}", warnings(&dataset))
        };
        assert!(matches!(code, "truncated-json" | "malformed-metric-entry"), "{broken}: {code}");
    }
}

#[test]
fn determined_truncated_tables_cause_a_warning() {
    let row = r#"5,2026-11-21 10:12:52+00,"{""a"": {""cpu_util_simple"": 1}}",cpu"#;
    let text = format!("trial_id,end_time,metrics,metric_group\n{row}\n{}", &row[..40]);
    let dataset = read_text(&text).unwrap();
    assert_eq!(warnings(&dataset), [("truncated-table", 1)]);
    assert_eq!(dataset.tables.rows("counters"), 1);

    // As a stream: several members, and a damaged one.
    let packed = [gzip(&text.as_bytes()[..60]), gzip(&text.as_bytes()[60..])].concat();
    let dataset = read_files(&[("m.csv.gz", &packed)]).unwrap();
    assert_eq!(warnings(&dataset), [("truncated-table", 1)]);
    assert_eq!(dataset.tables.rows("counters"), 1);
    let many =
        format!("trial_id,end_time,metrics,metric_group\n{}", format!("{row}\n").repeat(5000));
    let packed = gzip(many.as_bytes());
    let dataset = read_files(&[("m.csv.gz", &packed[..packed.len() / 2])]).unwrap();
    assert!(warnings(&dataset).contains(&("truncated-gzip", 1)), "{:?}", warnings(&dataset));
    assert_eq!(dataset.tables.rows("counters"), 1, "the same sample over and over");

    let row = "5\t2026-11-21 10:12:52+00\t{\"a\": {\"cpu_util_simple\": 1}}\tcpu\n";
    let head =
        "COPY public.system_metrics (trial_id, end_time, metrics, metric_group) FROM stdin;\n";
    let dataset = read_text(&format!("{head}{row}")).unwrap();
    assert_eq!(warnings(&dataset), [("truncated-table", 1)], "no end");
    assert_eq!(dataset.tables.rows("counters"), 1);
    let dataset = read_text(&format!("{head}{row}{}", &row[..30])).unwrap();
    assert_eq!(warnings(&dataset), [("truncated-table", 2)], "half a row, and no end");
    let row = "1\t{1,2\t{1}\t{}\t{}\n";
    let head =
        "COPY public.trial_profiler_metrics (id, \"values\", batches, ts, labels) FROM stdin;\n";
    let error = read_text(&format!("{head}{row}\\.\n")).unwrap_err().to_string();
    assert!(error.contains("not a single sample"), "{error}");
}

#[test]
fn determined_hostile_content_is_bounded() {
    let start = Instant::now();
    // Deep nesting, as a line and as a value.
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let label = labels(5, "SYSTEM", "cpu_util_simple", "a");
    let good = answer(&label, &[("1", 0, 1)]);
    for text in [
        format!("{good}\n{{\"a\": {deep}}}\n{good}"),
        format!(
            "{good}\n{{\"result\":{{\"result\":{{\"result\":{{\"result\":{{\"result\":{good}}}}}}}}}}}}}"
        ),
        format!("{good}\n{}", "{\"a\":".repeat(10_000)),
        format!("{good}\n{}", "{\n".repeat(200_000)),
        format!("{good}\n{}", "\n{\"x".repeat(100_000)),
    ] {
        let dataset = read_text(&text).unwrap();
        assert_eq!(dataset.tables.rows("counters"), 1);
        assert!(!warnings(&dataset).is_empty());
    }
    // Names that are meant to break what prints or parses them.
    let name = r#"\u001b[31m\\\"<script>'; DROP TABLE\u0000\ud800"#;
    let label = labels(5, "TIMING", "train_batch", name);
    let dataset = read_text(&answer(&label, &[("0.5", 0, 1)])).unwrap();
    let args: serde_json::Value =
        serde_json::from_str(&column(&dataset, "annotations", "args")[0]).unwrap();
    assert_eq!(args["agent"], column(&dataset, "threads", "thread_name")[0]);
    assert_eq!(warnings(&dataset), [("bad-utf8", 1)]);
    assert!(start.elapsed() < Duration::from_mins(1), "{:?}", start.elapsed());
}

#[test]
fn determined_reads_a_million_labels() {
    let start = Instant::now();
    let mut text = String::new();
    for i in 0..1_000_000 {
        writeln!(
            text,
            "{{\"batch\":{{\"values\":[{}],\"batches\":[{}],\"timestamps\":[\"2026-11-21T10:12:51Z\"],\"labels\":{{\"trialId\":1,\"name\":\"m{i}\",\"agentId\":\"a{}\"}}}}}}",
            i % 100,
            i % 7,
            i % 1000,
        )
        .unwrap();
    }
    let dataset = read_text(&text).unwrap();
    assert_eq!(dataset.tables.rows("counters"), 1_000_000);
    assert_eq!(dataset.tables.rows("ranks"), 1000);
    assert!(start.elapsed() < Duration::from_mins(2), "{:?}", start.elapsed());
}

#[test]
fn determined_lists_of_series_alone_are_an_error() {
    let text =
        format!("{{\"result\":{{\"labels\":[{}]}}}}", labels(5, "SYSTEM", "cpu_util_simple", "a"));
    let error = read_text(&text).unwrap_err().to_string();
    assert!(error.contains("1 series are listed, but there are no samples"), "{error}");
    let other = answer(&labels(5, "SYSTEM", "disk_iops", "a"), &[("1", 0, 1)]);
    let dataset = read_files(&[("a", text.as_bytes()), ("b", other.as_bytes())]).unwrap();
    assert_eq!(warnings(&dataset), [("series-without-samples", 1)]);
}

#[test]
fn determined_metrics_are_found_beside_above_or_below_traces() {
    let (trace, metrics) = (trace(0, 60), two_batches(7));
    let count = |trace_at: &str, metrics_at: &str| {
        let files = [(trace_at, trace.as_bytes()), (metrics_at, metrics.as_bytes())];
        let dataset = read_files(&files).unwrap();
        (dataset.tables.rows("cpu_ops"), dataset.tables.rows("counters"), warnings(&dataset).len())
    };
    for (trace_at, metrics_at) in [
        ("t.json", "m.jsonl"),
        ("t.json", "metrics/m.jsonl"),
        ("traces/t.json", "m.jsonl"),
        ("traces/t.json", "metrics/m.jsonl"),
        ("a/b/t.json", "m.jsonl"),
        ("a/t.json", "a/metrics/m.jsonl"),
    ] {
        assert_eq!(count(trace_at, metrics_at), (1, 2, 0), "{trace_at} {metrics_at}");
    }
    // Too far from the traces to be theirs; other files below the traces are nobody's business.
    assert_eq!(count("t.json", "a/b/m.jsonl"), (1, 0, 0));
    let other = b"import torch".as_slice();
    let files =
        [("t.json", trace.as_bytes()), ("src/train.py", other), ("src/m.csv", metrics.as_bytes())];
    let dataset = read_files(&files).unwrap();
    assert_eq!((warnings(&dataset).len(), dataset.tables.rows("counters")), (0, 2));
    // The same once more below metrics: named, not read.
    let files = [("m.jsonl", metrics.as_bytes()), ("rest/m.jsonl", metrics.as_bytes())];
    let dataset = read_files(&files).unwrap();
    assert_eq!(warnings(&dataset), [("metrics-below", 1)]);
    assert!(dataset.warnings[0].message.ends_with("rest/m.jsonl"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damage_never_panics(at in 0_usize..2000, byte in any::<u8>(), form in 0..3) {
        let mut text = match form {
            0 => two_batches(7).into_bytes(),
            1 => b"trial_id,end_time,metrics,metric_group\n5,2026-11-21 10:12:52+00,\"{\"\"a\"\": {\"\"cpu_util_simple\"\": 1}}\",cpu\n".to_vec(),
            _ => b"COPY public.trial_profiler_metrics (id, values, batches, ts, labels) FROM stdin;\n1\t{1,2}\t{1,2}\t{\"2026-11-21 10:12:52+00\",\"2026-11-21 10:12:53+00\"}\t{\"name\": \"cpu_util_simple\", \"trialId\": 5}\n\\.\n".to_vec(),
        };
        let at = at % text.len();
        text[at] = byte;
        let _ = read_files(&[("m", &text)]);
    }
}
