//! Diff: operators of both runs on the thread that the plugin compares, as `advisor diff` sees them.
//!
//! We match the blocks of the two runs in another way, see `docs/from-tensorboard.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use trace_advisor::arrow::array::{Array, AsArray};
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Float64Type};

use super::{Differences, RELATIVE, SLACK_US, compared, find, run_of};
use crate::harness::{self, Case, first_lines};
use crate::runs::{self, Views};
use crate::support::corpus::corpus;

/// `(trace, operator or *, reason)`.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("diff_control", "*: device", NO_LINK),
    ("diff_test", "*: device", NO_LINK),
    ("diff_control", "aten::zeros", NESTED),
    ("diff_control", "aten::view", NESTED),
    ("diff_test", "aten::zeros", NESTED),
    ("h100_qwen", "aten::bmm", DRIVER),
    ("h100_qwen", "aten::matmul", DRIVER),
    ("generated/cpu_gpt_stack", "aten::view", LOST),
    ("generated/cpu_gpt_stack", "aten::reshape", LOST),
    ("generated/cpu_gpt_stack", "ViewBackward0", LOST),
    ("generated/cpu_gpt_stack", "autograd::engine::evaluate_function: ViewBackward0", LOST),
];

const NO_LINK: &str = "external ids of launches are correlation ids there: the plugin finds no kernel of any operator";
const DRIVER: &str = "the plugin does not see launches through the driver (cuLaunchKernel)";
const NESTED: &str =
    "events in whole microseconds that begin and end together nest in either order";
const LOST: &str = "the plugin loses backward operators that no arrow links to a forward one";

/// Operators by name, with calls, microseconds on the host and on devices. A call whose only child has its name
/// is one call, and steps are what is compared where there are any.
const OPERATORS: &str = "
WITH children AS (
    SELECT rank, parent, count(*) AS child_count
    FROM op_calls WHERE kind = 'operator' GROUP BY rank, parent
),
steps_of AS (SELECT rank, thread, ts_ns, ts_ns + dur_ns AS end_ns FROM steps WHERE source = 'profiler_step')
SELECT c.name, count(*), sum(c.dur_ns) / 1e3, sum(c.kernel_dur_ns) / 1e3
FROM op_calls c
JOIN threads t ON t.rank = c.rank AND t.thread = c.thread
LEFT JOIN op_calls p ON p.rank = c.rank AND p.event_id = c.parent
LEFT JOIN children k ON k.rank = c.rank AND k.parent = c.parent
WHERE c.kind = 'operator' AND t.tid = 'TID'
    AND NOT (coalesce(p.kind = 'operator' AND p.name = c.name, false) AND k.child_count = 1)
    AND (
        NOT EXISTS (SELECT 1 FROM steps_of)
        OR EXISTS (SELECT 1 FROM steps_of s WHERE s.rank = c.rank AND s.ts_ns <= c.ts_ns AND c.ts_ns < s.end_ns)
    )
GROUP BY c.name";

/// One side of a comparison that the plugin made.
struct Side {
    path: PathBuf,
    /// The thread that the plugin compares.
    thread: String,
    /// The plugin's operators.
    operators: Vec<Json>,
}

/// One test per trace that the plugin compared with another, over all its comparisons.
pub(super) fn cases() -> Vec<Case> {
    let sides = sides(&corpus());
    harness::require(&compared("diff"), 2_001);
    for (trace, name, _) in EXCEPTIONS {
        assert!(
            sides.contains_key(*trace),
            "no comparison reads {trace}: remove the exception {name}"
        );
    }
    sides
        .into_iter()
        .map(|(trace, sides)| {
            let of = trace.clone();
            Case::of_trace(&trace, "diff", move || compare(&of, &sides))
        })
        .collect()
}

fn compare(trace: &str, sides: &[Side]) {
    let mut found = Differences::default();
    let mut used = vec![false; EXCEPTIONS.len()];
    for Side { path, thread, operators: theirs } in sides {
        let ours = operators(runs::open_path(path).views_with_last_step(), thread);
        for theirs in theirs {
            let name = theirs["name"].as_str().unwrap();
            for (what, column, key) in
                [("", 0, "calls"), ("", 1, "host_duration"), (": device", 2, "device_duration")]
            {
                let value = ours.get(name).map(|row| row[column]);
                let theirs = theirs[key].as_f64();
                let slack = SLACK_US + 10.0 * RELATIVE * theirs.unwrap_or(0.0);
                let before = found.lines.len();
                found.close(&format!("{trace}: {name} {key}"), value, theirs, slack);
                let excused = EXCEPTIONS.iter().position(|(t, n, _)| {
                    *t == trace && (*n == name || (!what.is_empty() && *n == format!("*{what}")))
                });
                if let (true, Some(excused)) = (found.lines.len() > before, excused) {
                    used[excused] = true;
                    found.lines.pop();
                }
            }
        }
    }
    harness::count(&compared("diff"), found.compared);
    let (count, shown) = (found.lines.len(), first_lines(&found.lines));
    assert!(count == 0, "{count} differences:\n{shown}");
    let obsolete = EXCEPTIONS.iter().zip(used).filter(|((of, ..), used)| *of == trace && !used);
    let obsolete: Vec<&str> = obsolete.map(|((_, name, _), _)| *name).collect();
    assert!(obsolete.is_empty(), "agree now, remove the exceptions: {obsolete:?}");
}

/// Every comparison of the corpus whose traces are there, by trace.
fn sides(corpus: &Path) -> BTreeMap<String, Vec<Side>> {
    let mut found: BTreeMap<String, Vec<Side>> = BTreeMap::new();
    let files = std::fs::read_dir(corpus.join("golden/tb_plugin/diff")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|e| e == "json")) {
        let golden: Json = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        for (run, thread, side) in
            [("base", "base_tree_tid", "left"), ("exp", "exp_tree_tid", "right")]
        {
            if let Some((trace, path)) = trace(corpus, golden[run].as_str().unwrap()) {
                let operators = golden["root_aggs"][side].as_array().unwrap().clone();
                let thread = golden[thread].to_string();
                found.entry(trace).or_default().push(Side {
                    path: run_of(&path),
                    thread,
                    operators,
                });
            }
        }
    }
    found
}

/// A trace of the corpus by the path that the plugin read it from, and its name.
fn trace(corpus: &Path, staged: &str) -> Option<(String, PathBuf)> {
    let (folder, file) = staged.rsplit_once("_stage/")?.1.split_once('/')?;
    let name = match folder {
        "resnet50_num_workers_0" => "resnet50_workers0".to_owned(),
        "resnet50_num_workers_4" => "resnet50_workers4".to_owned(),
        "h100_Qwen_Qwen1.5-0.5B-Chat" => "h100_qwen".to_owned(),
        "mi300_Qwen_Qwen1.5-0.5B-Chat" => "mi300_qwen".to_owned(),
        hta if hta.starts_with("hta_") => hta["hta_".len()..].to_owned(),
        generated => generated.replacen("gen_", "generated/", 1),
    };
    let path = find(&corpus.join("traces").join(&name), file)?;
    Some((name, path))
}

fn operators(views: &Views, tid: &str) -> BTreeMap<String, [f64; 3]> {
    let mut rows = BTreeMap::new();
    for batch in views.sql(&OPERATORS.replace("TID", tid)).iter() {
        let names = cast(batch.column(0), &DataType::Utf8).unwrap();
        let numbers: Vec<_> = batch.columns()[1..]
            .iter()
            .map(|column| cast(column, &DataType::Float64).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let number = |i: usize| numbers[i].as_primitive::<Float64Type>().value(row);
            let name = names.as_string::<i32>();
            assert!(name.is_valid(row));
            rows.insert(name.value(row).to_owned(), [number(0), number(1), number(2)]);
        }
    }
    rows
}
