//! Hardware counters and execution traces against Holistic Trace Analysis 0.5.0: every value it prints
//! for counters, and its rule for linking, applied to the files themselves.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use serde_json::Value as Json;

use crate::harness::{Case, functions};
use crate::runs;
use crate::support::corpus::corpus;
use crate::support::rows::rows;

/// All tests.
pub(crate) fn cases() -> Vec<Case> {
    functions![
        counters_match_hta,
        flops_by_operator_are_weighted_counters,
        breakdown_without_device_timeline_is_empty_with_warning,
        execution_trace_nodes_match_hta,
    ]
}

/// The values that HTA writes for properties that an event does not have: columns of other kinds of events, and of a call
/// graph that these kernels are not in. They say nothing, which the test checks.
const DEFAULTS: &[(&str, &str)] = &[
    ("pid", "0"),
    ("tid", "0"),
    ("stream", "-1"),
    ("correlation", "-1"),
    ("bytes", "-1"),
    ("memory_bw_gbps", "0.0"),
    ("wait_on_stream", "-1"),
    ("wait_on_cuda_event_record_corr_id", "-1"),
    ("input_dims", "\"-1\""),
    ("input_type", "\"-1\""),
    ("input_strides", "\"-1\""),
    ("external_id", "-1"),
    ("iteration", "-1"),
    ("depth", "-1"),
    ("height", "-1"),
    ("parent", "-1"),
    ("num_kernels", "0"),
    ("kernel_dur_sum", "0.0"),
    ("kernel_span", "0.0"),
    ("first_kernel_start", "-1.0"),
    ("last_kernel_end", "-1.0"),
];

fn counters_match_hta() {
    let corpus = corpus();
    let golden = corpus.join("golden/hta/cupti_counters/cupti_counters_rank0.json");
    let golden: Vec<Json> = serde_json::from_slice(&std::fs::read(golden).unwrap()).unwrap();
    let shared = runs::open("cupti_counters");
    let run = &shared.run;
    let ranges = rows(run, "SELECT * FROM profiler_ranges ORDER BY position");
    let base_us = rows(run, "SELECT base_time_ns / 1000 AS base FROM ranks")[0]["base"].clone();
    let counters = rows(run, "SELECT * FROM cupti_counters");
    let mut by_kernel: BTreeMap<String, Vec<&BTreeMap<String, Json>>> = BTreeMap::new();
    for counter in &counters {
        by_kernel.entry(counter["event_id"].to_string()).or_default().push(counter);
    }

    assert_eq!(ranges.len(), golden.len());
    let mut compared = 0;
    for (ours, theirs) in ranges.iter().zip(&golden) {
        let number = |name: &str| theirs[name].as_f64().unwrap();
        let theirs_stack: Vec<String> = serde_json::from_value(theirs["op_stack"].clone()).unwrap();
        assert_eq!(ours["event_id"], number("index"));
        assert_eq!(ours["name"], theirs["name"]);
        assert_eq!(theirs["cat"], "cuda_profiler_range");
        assert_eq!(ours["ts_ns"], number("ts") * 1e3);
        assert_eq!(ours["dur_ns"], number("dur") * 1e3);
        // HTA does not shift the end to its clock.
        let end_us = base_us.as_f64().unwrap() + number("ts") + number("dur");
        assert_eq!(Json::from(end_us), theirs["end"]);
        assert_eq!(ours["launch"], number("index_runtime"));
        assert_eq!(ours["op_name"], theirs["bottom_level_op"]);
        assert_eq!(ours["top_op_name"], theirs["top_level_op"]);
        let stack: Vec<String> = serde_json::from_str(ours["op_stack"].as_str().unwrap()).unwrap();
        assert_eq!(stack, theirs_stack);

        let ours = &by_kernel[&ours["event_id"].to_string()];
        let names: BTreeSet<&str> = ours.iter().map(|c| c["counter"].as_str().unwrap()).collect();
        for counter in ours {
            assert_eq!(counter["name"], theirs["name"]);
            assert_eq!(counter["launch"], number("index_runtime"));
            assert_eq!(counter["top_level_op"], theirs["top_level_op"]);
            assert_eq!(counter["bottom_level_op"], theirs["bottom_level_op"]);
            let name = counter["counter"].as_str().unwrap();
            assert_eq!(counter["value"], number(name), "{name}");
            compared += 1;
        }
        // Nothing that HTA prints goes unnoticed.
        let compared_above =
            ["index", "cat", "name", "ts", "dur", "end", "index_runtime", "op_stack"];
        for (column, value) in theirs.as_object().unwrap() {
            if let Some((_, default)) = DEFAULTS.iter().find(|(name, _)| name == column) {
                assert_eq!(value.to_string(), *default, "{column}");
            } else {
                assert!(
                    names.contains(column.as_str())
                        || compared_above.contains(&column.as_str())
                        || column.ends_with("_level_op"),
                    "{column} is not compared"
                );
            }
        }
    }
    assert_eq!((ranges.len(), compared), (77, 77 * 9));
}

fn flops_by_operator_are_weighted_counters() {
    let corpus = corpus();
    let golden = corpus.join("golden/hta/cupti_counters/cupti_counters_rank0.json");
    let golden: Vec<Json> = serde_json::from_slice(&std::fs::read(golden).unwrap()).unwrap();
    let mut expected: BTreeMap<String, f64> = BTreeMap::new();
    for row in &golden {
        let operator = row["bottom_level_op"].as_str().unwrap().to_owned();
        for (counter, value) in row.as_object().unwrap() {
            let Some(rest) = counter.strip_prefix("smsp__sass_thread_inst_executed_op_") else {
                continue;
            };
            let weight = if rest[1..].starts_with("fma_") { 2.0 } else { 1.0 };
            *expected.entry(operator.clone()).or_default() += weight * value.as_f64().unwrap();
        }
    }
    let shared = runs::open("cupti_counters");
    let run = &shared.run;
    let ours = rows(run, "SELECT * FROM cupti_flops");
    let found: BTreeMap<String, f64> = ours
        .iter()
        .map(|r| (r["name"].as_str().unwrap().to_owned(), r["flop_count"].as_f64().unwrap()))
        .collect();
    assert_eq!(found, expected);
    let total: f64 = ours.iter().map(|r| r["flop_ratio"].as_f64().unwrap()).sum();
    assert!((total - 1.0).abs() < 1e-9, "{total}");
}

/// HTA raises `IndexError: single positional indexer is out-of-bounds` here.
fn breakdown_without_device_timeline_is_empty_with_warning() {
    let shared = runs::open("cupti_counters");
    let run = &shared.run;
    let breakdown = run.analyze("gpu_temporal_breakdown").unwrap();
    assert!(breakdown.iter().all(|batch| batch.num_rows() == 0));
    let warning = run.warnings().iter().find(|w| w.code == "no-device-timeline").unwrap();
    assert!(warning.message.contains("serializes"), "{}", warning.message);
    assert_eq!(warning.count, 77);
    assert!(runs::report(&runs::traces().join("cupti_counters")).is_ok());
}

fn json(path: &Path) -> Json {
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// HTA gives a `cpu_op` or `user_annotation` the node whose `rf_id` is its `External id`.
fn execution_trace_nodes_match_hta() {
    let corpus = corpus();
    let folder = corpus.join("traces/execution_trace");
    let nodes = json(&folder.join("benchmark_simple_add_et.json.gz"));
    let trace = json(&folder.join("benchmark_simple_add_trace.json.gz"));
    let by_id: BTreeMap<i64, &Json> = nodes["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| (node["rf_id"].as_i64().unwrap(), node))
        .collect();
    let mut expected = Vec::new();
    for (event_id, event) in trace["traceEvents"].as_array().unwrap().iter().enumerate() {
        if event["cat"] == "cpu_op" || event["cat"] == "user_annotation" {
            let node = by_id[&event["args"]["External id"].as_i64().unwrap()];
            let text = |name: &str| match &node[name] {
                Json::String(text) if text.is_empty() => Json::Null,
                Json::Array(list) if list.is_empty() => Json::Null,
                Json::String(text) => Json::from(text.clone()),
                other => other.clone(),
            };
            expected.push((
                event_id as f64,
                event["name"].clone(),
                node["id"].as_f64().unwrap(),
                text("op_schema"),
                text("input_shapes"),
                text("output_types"),
            ));
        }
    }
    let shared = runs::open("execution_trace");
    let run = &shared.run;
    let list = |text: Json| match text.as_str() {
        Some(text) => serde_json::from_str(text).unwrap(),
        None => text,
    };
    let found: Vec<_> = rows(run, "SELECT * FROM op_execution_nodes ORDER BY event_id")
        .into_iter()
        .map(|mut row| {
            let mut take = |name| row.remove(name).unwrap();
            (
                take("event_id").as_f64().unwrap(),
                take("name"),
                take("node_id").as_f64().unwrap(),
                take("op_schema"),
                list(take("input_shapes")),
                list(take("output_types")),
            )
        })
        .collect();
    assert_eq!(found.len(), 36);
    assert_eq!(found, expected);
    assert!(run.warnings().iter().all(|w| w.code != "skipped-file"), "{:?}", run.warnings());
}
