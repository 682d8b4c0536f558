//! The part of a run that analyses read: steps, events, ranks.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::compare::{Differences, Run, key, keyed, number, only, rows};

pub(crate) fn steps(run: &Run, expected: &Json, found: &mut Differences) {
    let table = only(&run.view("step_selection"), "source", &["profiler_step"]);
    let kept = only(&table, "is_analyzed", &["true"]);
    let at = kept.index("step").unwrap();
    let ours: BTreeSet<String> = kept.rows.iter().map(|row| row[at].to_string()).collect();
    let theirs: BTreeSet<String> = rows(expected).iter().map(Json::to_string).collect();
    found.compared += theirs.len();
    if ours != theirs {
        found.note(format!("ours {ours:?}, HTA {theirs:?}"));
    }
}

/// HTA returns ranks without an order.
pub(crate) fn stragglers(run: &Run, expected: &Json, found: &mut Differences) {
    let table = only(&run.view("comm_potential_stragglers"), "is_candidate", &["true"]);
    let at = table.index("rank").unwrap();
    let ours: BTreeSet<String> = table.rows.iter().map(|row| row[at].to_string()).collect();
    let theirs: BTreeSet<String> = rows(expected).iter().map(Json::to_string).collect();
    found.compared += theirs.len();
    if ours != theirs {
        found.note(format!("ours {ours:?}, HTA {theirs:?}"));
    }
}

/// HTA's categories, by the table that holds them. Old traces call annotations operators too.
pub(crate) fn events(run: &Run, expected: &Json, found: &mut Differences) {
    let ours = keyed(&run.view("trace_window"), &["rank", "stored_in"]);
    for row in rows(expected) {
        let rank = key(row, &["rank"]);
        let mut theirs: BTreeMap<&str, f64> = BTreeMap::new();
        for category in row["cats"].as_object().unwrap().keys() {
            let table = match category.as_str() {
                "kernel" | "Kernel" => "kernels",
                "gpu_memcpy" | "Memcpy" => "memcpys",
                "gpu_memset" | "Memset" => "memsets",
                "cpu_op" | "Operator" => "cpu_ops",
                "cuda_runtime" | "cuda_driver" | "Runtime" => "runtime_calls",
                "user_annotation" | "gpu_user_annotation" => "annotations",
                "python_function" => "python_frames",
                "cuda_sync" => "device_syncs",
                "overhead" | "cuda_profiler_range" => "spans",
                other => panic!("category {other}"),
            };
            *theirs.entry(table).or_default() += number(&row["cats"], category);
        }
        for table in [
            "kernels",
            "memcpys",
            "memsets",
            "cpu_ops",
            "runtime_calls",
            "annotations",
            "python_frames",
            "device_syncs",
        ] {
            let what = format!("{rank} | {table}");
            let count = |what: &str| ours.get(what).map_or(0.0, |mine| mine["analyzed_count"]);
            let mut mine = count(&what);
            if row["cats"].get("Operator").is_some() {
                match table {
                    "annotations" => continue,
                    "cpu_ops" => mine += count(&format!("{rank} | annotations")),
                    _ => {}
                }
            }
            found.exact(&what, mine, theirs.get(table).copied().unwrap_or(0.0));
        }
    }
}
