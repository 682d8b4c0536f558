//! Composer's profiles against figures computed from them with plain Python: every marker, counter and
//! step of every run, from the merged file and from the folder alike.

mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value as Json;
use trace_advisor::Run;
use trace_advisor::ingest::NoProgress;

use crate::harness::{Case, functions};
use crate::runs;
use crate::support::corpus::corpus;
use crate::support::rows::{Row, rows};

/// Golden file, merged trace, and the folder it was made from.
const RUNS: &[(&str, &str, &str)] = &[
    ("features", "features/composer_profiler/node0.json.gz", "features"),
    (
        "legacy_0.5.0_workers0",
        "legacy_0.5.0/workers0/rank_0/merged_profiler_trace.json.gz",
        "legacy_0.5.0/workers0",
    ),
    (
        "legacy_0.5.0_workers2",
        "legacy_0.5.0/workers2/rank_0/merged_profiler_trace.json.gz",
        "legacy_0.5.0/workers2",
    ),
    (
        "legacy_0.8.2_workers0",
        "legacy_0.8.2/workers0/composer_profiler/merged_trace.json.gz",
        "legacy_0.8.2/workers0",
    ),
    (
        "legacy_0.8.2_workers2",
        "legacy_0.8.2/workers2/composer_profiler/merged_trace.json.gz",
        "legacy_0.8.2/workers2",
    ),
    ("ranks2_live_merge", "ranks2/composer_profiler/merged_trace.json.gz", "ranks2"),
    ("ranks2_offline_merge", "ranks2/composer_profiler/offline_merged.json.gz", "ranks2"),
    ("workers0_plain", "workers0/plain/composer_profiler/merged_trace.json.gz", "workers0/plain"),
    ("workers0_torch", "workers0/torch/composer_profiler/merged_trace.json.gz", "workers0/torch"),
    ("workers2_plain", "workers2/plain/composer_profiler/merged_trace.json.gz", "workers2/plain"),
    ("workers2_torch", "workers2/torch/composer_profiler/merged_trace.json.gz", "workers2/torch"),
    // Its merged file held nothing more and was dropped.
    ("workers0_stack", "workers0/stack/composer_profiler/ep0-ba5-rank0.json.gz", "workers0/stack"),
];

fn number(value: &Json) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

#[track_caller]
fn close(ours: f64, theirs: f64, what: &str) {
    assert!(
        (ours - theirs).abs() <= 1e-9 * theirs.abs().max(1.0),
        "{what}: {ours}, golden {theirs}"
    );
}

/// Compares a run with its golden figures. The name says which run, in which form.
type Compare = fn(name: &str, run: &Run, golden: &Json);

const COMPARISONS: &[(&str, Compare)] = &[
    ("markers", markers_have_pairs_orphans_and_durations),
    ("counters", counters_are_in_true_units),
    ("copied_trace", copied_trace_is_on_the_clock_of_the_markers),
    ("steps", steps_match_batches),
    ("merged_trace", merged_trace_equals_its_files),
    ("step_phases", views::step_phases),
    ("step_shares", views::step_shares),
    ("rebuilt_steps", views::rebuilt_steps),
    ("callbacks", views::callbacks),
    ("machine_metrics", views::machine_metrics),
    ("optimizer", views::optimizer),
];

/// One test per run, form and comparison; and tests of single runs.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, merged, folder) in RUNS {
        let numbers = golden(name);
        for (form, path) in [("merged", merged), ("folder", folder)] {
            for (analysis, compare) in COMPARISONS {
                if !applies(analysis, name, &numbers) {
                    continue;
                }
                let test = format!("{name}::{form}::{analysis}");
                cases.push(Case::of_trace_named(&format!("composer/{path}"), &test, move || {
                    let shared = runs::open(&format!("composer/{path}"));
                    compare(&format!("{name} ({path})"), &shared.run, &golden(name));
                }));
            }
        }
    }
    let of_pytorch = "generated/ddp_gloo_2rank";
    cases.push(Case::of_trace(of_pytorch, "merged_trace", move || {
        merged_trace_equals_its_files(of_pytorch, &runs::open(of_pytorch).run, &Json::Null);
    }));
    cases.extend(functions![
        live_merge_gets_its_ranks_back,
        skewed_ranks_are_aligned_as_composer_does,
        skewed_ranks_merge_to_as_many_events_as_composers,
        truncated_files_give_all_complete_events,
        every_file_is_recognized_as_composers,
    ]);
    cases.extend(views::cases());
    cases
}

/// False if the golden figures of a run do not have what a comparison reads.
fn applies(analysis: &str, name: &str, golden: &Json) -> bool {
    // Golden figures of machines and optimizers are not per rank.
    let is_one_process = !name.starts_with("ranks2");
    match analysis {
        "copied_trace" => golden["torch"].is_object(),
        "machine_metrics" => is_one_process && golden["cpu_percent"].is_object(),
        "optimizer" => is_one_process && golden["torch"]["optimizer_self_us"]["n"].is_number(),
        _ => true,
    }
}

fn golden(name: &str) -> Json {
    let path = corpus().join(format!("golden/composer/{name}.json"));
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn markers_have_pairs_orphans_and_durations(what: &str, run: &Run, golden: &Json) {
    let mut compared = 0;
    let pairs = rows(
        run,
        "SELECT name, count(*) AS n, sum(dur_ns) / 1000.0 AS sum, min(dur_ns) / 1000.0 AS min, \
                max(dur_ns) / 1000.0 AS max, median(dur_ns) / 1000.0 AS median \
         FROM annotations WHERE args LIKE '%\"batch\"%' GROUP BY name",
    );
    let pairs: BTreeMap<&str, &Row> =
        pairs.iter().map(|row| (row["name"].as_str().unwrap(), row)).collect();
    for (name, theirs) in golden["durations_us"].as_object().unwrap() {
        let ours = pairs[name.as_str()];
        for key in ["n", "sum", "min", "max"] {
            close(number(&ours[key]), number(&theirs[key]), &format!("{what}: {name} {key}"));
            compared += 1;
        }
    }
    let halves = rows(run, "SELECT name, phase, count(*) AS n FROM unpaired_events GROUP BY 1, 2");
    let halves_of = |name: &str, phase: &str| {
        let row = halves.iter().find(|row| row["name"] == name && row["phase"] == phase);
        row.map_or(0.0, |row| number(&row["n"]))
    };
    for (name, theirs) in golden["marker_counts"].as_object().unwrap() {
        let paired = pairs.get(name.as_str()).map_or(0.0, |row| number(&row["n"]));
        for (ours, key) in [
            (paired, "paired"),
            (halves_of(name, "E"), "orphan_E"),
            (halves_of(name, "B"), "open_B"),
        ] {
            close(ours, number(&theirs[key]), &format!("{what}: {name} {key}"));
            compared += 1;
        }
    }
    let all = &golden["all_markers"];
    let sum = |phase: &str| -> f64 {
        halves.iter().filter(|row| row["phase"] == phase).map(|row| number(&row["n"])).sum()
    };
    close(pairs.values().map(|row| number(&row["n"])).sum(), number(&all["paired"]), what);
    close(sum("E"), number(&all["orphan_E"]), what);
    close(sum("B"), number(&all["open_B"]), what);
    assert!(compared > 40, "{what}: {compared} values");
}

fn counters_are_in_true_units(what: &str, run: &Run, golden: &Json) {
    let series = golden["counter_series"].as_object().unwrap();
    let ours = rows(
        run,
        "SELECT concat(c.name, '|', c.series, '|tid', t.tid) AS key, \
                count(*) AS n, min(c.value) AS min, max(c.value) AS max, avg(c.value) AS mean, \
                max(c.unit) AS unit, max(c.value) - min(c.value) AS delta \
         FROM counters c JOIN threads t ON t.rank = c.rank AND t.thread = c.thread GROUP BY 1",
    );
    let ours: BTreeMap<&str, &Row> =
        ours.iter().map(|row| (row["key"].as_str().unwrap(), row)).collect();
    assert!(series.len() >= 10, "{what}");
    for (key, theirs) in series {
        let row = ours[key.as_str()];
        close(number(&row["n"]), number(&theirs["n"]), &format!("{what}: {key} n"));
        let factor = match row["unit"].as_str() {
            Some("bytes") if key.starts_with("memory/cuda") => 1e9,
            Some("bytes") if key.starts_with("memory/") => 512.0,
            Some("bytes") if key.starts_with("network/") => 8.0,
            _ => 1.0,
        };
        for name in ["min", "max", "mean"] {
            let expected = number(&theirs[name]) * factor;
            close(number(&row[name]), expected, &format!("{what}: {key} {name}"));
        }
        for (name, expected) in
            [("mean", &theirs["mean_bytes_true"]), ("delta", &theirs["delta_bytes_true"])]
        {
            if let Some(expected) = expected.as_f64() {
                close(number(&row[name]), expected, &format!("{what}: {key} {name}"));
            }
        }
    }
}

fn copied_trace_is_on_the_clock_of_the_markers(what: &str, run: &Run, golden: &Json) {
    let torch = golden["torch"].as_object().unwrap();
    let count = |query: &str| number(&rows(run, query)[0]["n"]);
    let ours = count(
        "SELECT (SELECT count(*) FROM cpu_ops) + (SELECT count(*) FROM python_frames) \
              + (SELECT count(*) FROM annotations WHERE args IS NULL OR args NOT LIKE '%\"batch\"%') \
              + (SELECT count(*) FROM spans WHERE category <> 'Trace') AS n",
    );
    // A merge drops the profiler's own range.
    let theirs =
        number(&torch["complete_events"]) - torch["by_cat"]["Trace"].as_f64().unwrap_or(0.0);
    close(ours, theirs, &format!("{what}: complete events"));
    let steps = count("SELECT count(*) AS n FROM annotations WHERE name LIKE 'ProfilerStep#%'");
    close(steps, number(&torch["profiler_steps"]), &format!("{what}: profiler steps"));
    // A call of the loader lies inside the marker of the call that got the batch.
    let inside = count(
        "SELECT count(*) AS n FROM annotations x \
         JOIN annotations m ON m.rank = x.rank AND m.name IN ('event/dataloader', 'dataloader/train') \
            AND m.ts_ns <= x.ts_ns AND m.ts_ns + m.dur_ns >= x.ts_ns + x.dur_ns \
         WHERE x.name LIKE 'enumerate(DataLoader)#%'",
    );
    close(
        inside,
        number(&torch["dataloader_x_inside_loader_marker"]),
        &format!("{what}: loader calls inside their marker"),
    );
    let first = rows(
        run,
        "SELECT (min(x.ts_ns) + max(r.base_time_ns)) / 1000 AS n FROM ( \
            SELECT ts_ns FROM cpu_ops UNION ALL SELECT ts_ns FROM python_frames \
            UNION ALL SELECT ts_ns FROM annotations \
            WHERE args IS NULL OR args NOT LIKE '%\"batch\"%') x CROSS JOIN ranks r",
    );
    let expected = number(&torch["aligned_first_us"]);
    // The golden ones are floats, which cannot hold nanoseconds since 1970. A live merge takes the clocks'
    // difference anew in every cycle; from the files of ranks it is that of the last.
    let tolerance = if what == "ranks2_live_merge (ranks2)" { 300.0 } else { 1.0 };
    let distance = (number(&first[0]["n"]) - expected).abs();
    assert!(distance <= tolerance, "{what}: {first:?}, {expected}");
}

fn steps_match_batches(what: &str, run: &Run, golden: &Json) {
    if rows(run, "SELECT 1 AS n FROM steps WHERE source <> 'composer'").is_empty() {
        let mut compared = 0;
        for (rank, theirs) in golden["per_rank"].as_object().unwrap() {
            let ours = rows(
                run,
                &format!("SELECT step, dur_ns FROM steps WHERE rank = {rank} ORDER BY ts_ns"),
            );
            let theirs = theirs["steps"].as_array().unwrap();
            assert_eq!(ours.len(), theirs.len(), "{what}");
            for (ours, theirs) in ours.iter().zip(theirs) {
                assert_eq!(ours["step"], number(&theirs["batch"]), "{what}");
                let least = number(&theirs["loader_us"]) + number(&theirs["batch_us"]);
                let extra = number(&ours["dur_ns"]) / 1000.0 - least;
                assert!((0.0..2000.0).contains(&extra), "{what}: {ours:?} {theirs}");
                compared += 1;
            }
        }
        assert!(compared > 0, "{what}");
    }
}

fn live_merge_gets_its_ranks_back() {
    let open = |file: &str| runs::open(&format!("composer/ranks2/composer_profiler/{file}"));
    let (live, offline) = (open("merged_trace.json.gz"), open("offline_merged.json.gz"));
    let golden = golden("ranks2_live_merge");
    let (live, offline) = (&live.run, &offline.run);
    let repaired = live.warnings().iter().find(|w| w.code == "repaired-rank").unwrap();
    assert_eq!(Some(repaired.count), golden["bad_pid_events"].as_u64());
    assert!(offline.warnings().iter().all(|w| w.code != "repaired-rank"));
    // Events that last from one cycle to the next differ: each merge measured the clock offset again.
    let query = "SELECT rank, name, count(*) AS n, \
                     sum(CASE WHEN name LIKE '%JSONTraceHandler/event/batch_end' THEN 0 ELSE dur_ns END) AS ns \
                 FROM annotations GROUP BY rank, name ORDER BY rank, name";
    let (live, offline) = (rows(live, query), rows(offline, query));
    assert_eq!(live.len(), offline.len());
    for (live, offline) in live.iter().zip(&offline) {
        assert_eq!(live, offline);
    }
}

fn skewed_ranks_are_aligned_as_composer_does() {
    let golden = golden("derived");
    for path in ["derived/skew", "derived/skew/merged_trace.json"] {
        let run = &runs::open(&format!("composer/{path}")).run;
        for rank in ["0", "1"] {
            let ours = rows(
                run,
                &format!(
                    "SELECT (a.ts_ns + r.base_time_ns) / 1000 AS us FROM annotations a \
                     JOIN ranks r ON r.rank = a.rank \
                     WHERE a.name = 'event/batch' AND a.rank = {rank} ORDER BY a.ts_ns"
                ),
            );
            let theirs = golden["skew"][format!("merged_rank{rank}")].as_array().unwrap();
            let ours: Vec<f64> = ours.iter().map(|row| number(&row["us"])).collect();
            let theirs: Vec<f64> = theirs.iter().map(number).collect();
            assert_eq!(ours.len(), theirs.len(), "{path}, rank {rank}");
            for (ours, theirs) in ours.into_iter().zip(theirs) {
                close(ours, theirs, &format!("{path}, rank {rank}"));
            }
        }
    }
}

fn truncated_files_give_all_complete_events() {
    let golden = golden("derived");
    for name in ["truncated_no_bracket", "truncated_trailing_comma", "truncated_mid_event"] {
        let run = &runs::open(&format!("composer/derived/{name}.json")).run;
        let theirs = &golden[name];
        let source = &run.info().sources[0];
        assert_eq!(Some(source.events), theirs["salvageable_events"].as_u64(), "{name}");
        let count = |query: &str| number(&rows(run, query)[0]["n"]);
        let pairs = count("SELECT count(*) AS n FROM annotations");
        for phase in ["B", "E"] {
            let alone = count(&format!(
                "SELECT count(*) AS n FROM unpaired_events WHERE phase = '{phase}'"
            ));
            close(pairs + alone, number(&theirs[phase]), &format!("{name} {phase}"));
        }
        assert!(run.warnings().iter().any(|w| w.code == "truncated-json"), "{name}");
    }
}

fn merged_trace_equals_its_files(what: &str, run: &Run, _golden: &Json) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("merged.json.gz");
    let merged = run.merge(&to, true, &NoProgress).unwrap();
    assert_eq!(merged.warnings, [], "{what}");
    let again = Run::open(&to).unwrap();
    assert_eq!(again.warnings(), [], "{what}");
    for query in [
        "SELECT rank, name, count(*) AS n, sum(dur_ns) AS ns, min(ts_ns) AS first, \
             max(ts_ns) AS last FROM annotations GROUP BY rank, name ORDER BY rank, name",
        "SELECT rank, name, count(*) AS n, sum(dur_ns) AS ns, min(ts_ns) AS first, \
             max(ts_ns) AS last FROM cpu_ops GROUP BY rank, name ORDER BY rank, name",
        "SELECT rank, phase, name, count(*) AS n, max(ts_ns) AS last FROM unpaired_events \
         GROUP BY rank, phase, name ORDER BY rank, phase, name",
        "SELECT rank, name, series, count(*) AS n, sum(value) AS sum FROM counters \
         GROUP BY rank, name, series ORDER BY rank, name, series",
        "SELECT rank, count(*) AS n, sum(bytes) AS bytes FROM memory_events GROUP BY rank ORDER BY rank",
        "SELECT rank, step, source, ts_ns, dur_ns FROM steps ORDER BY rank, ts_ns",
    ] {
        let (ours, theirs) = (rows(&again, query), rows(run, query));
        assert_eq!(ours.len(), theirs.len(), "{what}: {query}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{what}: {query}");
        }
    }
}

/// Composer's own merge of the same files has as many events.
fn skewed_ranks_merge_to_as_many_events_as_composers() {
    let folder = tempfile::tempdir().unwrap();
    let skewed = runs::open("composer/derived/skew");
    let merged = skewed.run.merge(&folder.path().join("skew.json"), false, &NoProgress).unwrap();
    assert_eq!(Some(merged.events), golden("derived")["skew"]["events_merged"].as_u64());
}

fn every_file_is_recognized_as_composers() {
    let mut formats: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut folders = vec![runs::traces().join("composer")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if is_trace(&path) {
                let run = &runs::open_path(&path).run;
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                let found = run.info().sources.iter().map(|source| source.format.to_string());
                formats.entry(name).or_default().extend(found);
            }
        }
    }
    assert!(formats.len() > 20);
    for (name, formats) in formats {
        let expected = if name.contains(".pt.trace.") { "kineto" } else { "composer" };
        assert_eq!(formats, BTreeSet::from([expected.to_owned()]), "{name}");
    }
}

fn is_trace(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".json") || name.ends_with(".json.gz")
}
