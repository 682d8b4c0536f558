//! Device time: by kind of work, idle time, kernels, copies.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use trace_model::Value;

use super::compare::{Differences, Numbers, Run, key, keyed, number, numbers, only, rows};

pub(crate) fn temporal_breakdown(run: &Run, expected: &Json, found: &mut Differences) {
    let ours = keyed(&run.view("gpu_temporal_breakdown"), &["rank"]);
    found.same_keys(&ours, rows(expected), &["rank"]);
    for row in rows(expected) {
        let rank = key(row, &["rank"]);
        let Some(mine) = ours.get(&rank) else { continue };
        for (column, theirs) in [
            ("kernel_time_ns", "kernel_time(us)"),
            ("idle_ns", "idle_time(us)"),
            ("compute_ns", "compute_time(us)"),
            ("non_compute_ns", "non_compute_time(us)"),
        ] {
            found.total(&format!("{rank} {theirs}"), mine[column], number(row, theirs));
        }
    }
}

const GAPS: [&str; 3] = ["rank", "stream", "idle_category"];

pub(crate) fn idle_time_breakdown(run: &Run, expected: &Json, found: &mut Differences) {
    let ours = keyed(&run.view("gpu_idle_breakdown"), &GAPS);
    // HTA also lists categories without a gap; we list only what there is.
    let some: Vec<Json> =
        rows(expected).iter().filter(|row| number(row, "idle_time") != 0.0).cloned().collect();
    found.same_keys(&ours, &some, &GAPS);
    for row in &some {
        let what = key(row, &GAPS);
        let Some(mine) = ours.get(&what) else { continue };
        found.total(&what, mine["idle_ns"], number(row, "idle_time"));
        found.printed(&what, mine["idle_ratio"], number(row, "idle_time_ratio"), 2);
    }
}

pub(crate) fn idle_intervals(run: &Run, expected: &Json, found: &mut Differences) {
    let ours = keyed(&run.view("gpu_idle_intervals"), &GAPS);
    // HTA lists the first activity of a stream, which has no interval before it, as `other`.
    let some: Vec<Json> =
        rows(expected).iter().filter(|row| number(row, "count") > 0.0).cloned().collect();
    found.same_keys(&ours, &some, &GAPS);
    for row in &some {
        let what = key(row, &GAPS);
        let Some(mine) = ours.get(&what) else { continue };
        found.exact(&format!("{what} count"), mine["interval_count"], number(row, "count"));
        for (column, theirs) in [
            ("mean_ns", "mean"),
            ("std_ns", "std"),
            ("min_ns", "min"),
            ("p25_ns", "25%"),
            ("p50_ns", "50%"),
            ("p75_ns", "75%"),
            ("max_ns", "max"),
        ] {
            found.printed_time(&format!("{what} {theirs}"), mine[column], number(row, theirs), 2);
        }
    }
}

/// HTA cuts each stretch to whole microseconds before it adds them up: it may miss up to one for each.
pub(crate) fn kernel_types(run: &Run, expected: &Json, found: &mut Differences) {
    let ours = keyed(&run.view("gpu_kernel_breakdown"), &["kernel_type"]);
    let stretches = run.view("activity_segments").rows.len() as f64;
    for row in rows(expected) {
        let kind = key(row, &["kernel_type"]).to_lowercase();
        let mine = ours.get(&kind).map_or(0.0, |mine| mine["sum_ns"]);
        let theirs = number(row, "sum");
        if found.unrounded && (theirs..=theirs + stretches).contains(&(mine / 1e3)) {
            continue;
        }
        found.total(&kind, mine, theirs);
    }
}

/// Sum, maximum, minimum, mean and deviation, which HTA prints under these names.
pub(crate) fn durations(found: &mut Differences, what: &str, mine: &Numbers, row: &Json) {
    for (column, theirs) in [
        ("sum_ns", "sum (us)"),
        ("max_ns", "max (us)"),
        ("min_ns", "min (us)"),
        ("mean_ns", "mean (us)"),
    ] {
        found.exact(&format!("{what} {theirs}"), mine[column] / 1e3, number(row, theirs));
    }
    // HTA gives 0 where a single execution has no deviation. Where all are alike, its rounding has.
    let std_ns = if mine["std_ns"].is_nan() { 0.0 } else { mine["std_ns"] };
    found.time(&format!("{what} stddev"), std_ns, number(row, "stddev"));
}

pub(crate) fn kernels(run: &Run, expected: &Json, found: &mut Differences) {
    let keys = ["rank", "name"];
    let mut ours = keyed(&run.view("gpu_kernels"), &keys);
    ours.extend(keyed(&run.view("gpu_copies"), &keys));
    found.same_keys(&ours, rows(expected), &keys);
    for row in rows(expected) {
        let name = key(row, &keys);
        let Some(mine) = ours.get(&name) else { continue };
        durations(found, &name, mine, row);
    }
}

/// HTA prints the kernels of each rank; over ranks they are averaged here.
pub(crate) fn kernels_across_ranks(run: &Run, expected: &Json, found: &mut Differences) {
    let ours = keyed(&run.view("gpu_kernels_across_ranks"), &["name"]);
    let mut names: BTreeMap<String, Vec<(i64, f64, f64, f64)>> = BTreeMap::new();
    for row in rows(expected) {
        names.entry(key(row, &["name"])).or_default().push((
            row["rank"].as_i64().unwrap(),
            number(row, "sum (us)"),
            number(row, "min (us)"),
            number(row, "max (us)"),
        ));
    }
    found.same_keys(&ours, rows(expected), &["name"]);
    for (name, ranks) in &names {
        let Some(mine) = ours.get(name) else { continue };
        let n = ranks.len() as f64;
        let sum: f64 = ranks.iter().map(|r| r.1).sum();
        let least = ranks.iter().map(|r| r.1).fold(f64::INFINITY, f64::min);
        let most = ranks.iter().map(|r| r.1).fold(0.0, f64::max);
        let variance = ranks.iter().map(|r| (r.1 - sum / n).powi(2)).sum::<f64>() / (n - 1.0);
        found.exact(&format!("{name} ranks"), mine["rank_count"], n);
        for (column, theirs) in [
            ("sum_ns", sum),
            ("min_ns", ranks.iter().map(|r| r.2).fold(f64::INFINITY, f64::min)),
            ("max_ns", ranks.iter().map(|r| r.3).fold(0.0, f64::max)),
            ("mean_rank_ns", sum / n),
            ("min_rank_ns", least),
            ("max_rank_ns", most),
            ("std_rank_ns", if n > 1.0 { variance.sqrt() } else { f64::NAN }),
        ] {
            found.exact(&format!("{name} {column}"), mine[column] / 1e3, theirs);
        }
        let slowest = ranks.iter().find(|r| (r.1 - most).abs() <= 1e-6 * most).unwrap().0;
        found.exact(&format!("{name} slowest"), mine["slowest_rank"], slowest as f64);
    }
}

/// The names that HTA lists and those that it groups, by their sums: its other columns describe sums of
/// names rather than executions. Of 11 or 12 names it lists 9, we 10: the difference is in its others.
pub(crate) fn top_kernels(run: &Run, expected: &Json, found: &mut Differences) {
    type ByName = BTreeMap<String, f64>;
    let table = run.view_with(&[("duration_ratio", 1.0)], "gpu_top_kernels");
    let [rank, kind, name] = ["rank", "kind", "name"].map(|column| table.index(column).unwrap());
    let mut ours: BTreeMap<String, ByName> = BTreeMap::new();
    for row in &table.rows {
        let sum = numbers(&table, row)["sum_ns"];
        let names = ours.entry(format!("{} {}", row[rank], row[kind])).or_default();
        let name = match &row[name] {
            Value::Null => OTHERS.to_owned(),
            name => name.to_string(),
        };
        names.insert(name, sum);
    }
    let mut theirs: BTreeMap<String, ByName> = BTreeMap::new();
    for row in rows(expected) {
        let kind = key(row, &["kernel_type"]).to_lowercase();
        let names = theirs.entry(format!("{} {kind}", row["rank"])).or_default();
        names.insert(key(row, &["name"]), number(row, "sum (us)") * 1e3);
    }
    for (kind, theirs) in &theirs {
        let mut mine = ours.remove(kind).unwrap_or_default();
        if theirs.contains_key(OTHERS) {
            let more: Vec<String> =
                mine.keys().filter(|name| !theirs.contains_key(*name)).cloned().collect();
            for name in more {
                let sum = mine.remove(&name).unwrap();
                *mine.entry(OTHERS.to_owned()).or_default() += sum;
            }
        }
        for name in mine.keys().filter(|name| !theirs.contains_key(*name)) {
            found.note(format!("{kind} {name}: only we have it"));
        }
        for (name, sum) in theirs {
            found.exact(
                &format!("{kind} {name}"),
                mine.get(name).copied().unwrap_or(f64::NAN),
                *sum,
            );
        }
    }
    for kind in ours.keys() {
        found.note(format!("{kind}: only we have it"));
    }
}

/// HTA's name of the group of remaining names; in our view the group has a null name.
const OTHERS: &str = "others";

pub(crate) fn overlap(run: &Run, expected: &Json, found: &mut Differences) {
    let ours = keyed(&run.view("comm_overlap"), &["rank"]);
    for row in rows(expected) {
        let rank = key(row, &["rank"]);
        let mine = ours.get(&rank).map_or(f64::NAN, |mine| mine["overlap_ratio"] * 100.0);
        found.printed(&rank, mine, number(row, "comp_comm_overlap_pctg"), 2);
    }
}

/// The maximum owes nothing to residues of HTA's sums, so it is compared apart.
pub(crate) fn memory_bandwidth(run: &Run, expected: &Json, found: &mut Differences) {
    let table = run.view("memory_bandwidth");
    let mut ours = BTreeMap::new();
    for row in &table.rows {
        let mine = numbers(&table, row);
        let kind = match row[table.index("kind").unwrap()].to_string().as_str() {
            "memset" => "Memset".to_owned(),
            "unknown" => "Memcpy Unknown".to_owned(),
            direction => format!("Memcpy {direction}"),
        };
        ours.insert(format!("{} | {kind}", mine["rank"]), mine);
    }
    let keys = ["rank", "name"];
    found.same_keys(&ours, rows(expected), &keys);
    for row in rows(expected) {
        let what = key(row, &keys);
        let Some(mine) = ours.get(&what) else { continue };
        for (part, columns) in [
            ("max", &[("max_gb_per_s", "max")][..]),
            (
                "",
                &[
                    ("sample_count", "count"),
                    ("mean_gb_per_s", "mean"),
                    ("std_gb_per_s", "std"),
                    ("min_gb_per_s", "min"),
                    ("p25_gb_per_s", "25%"),
                    ("p50_gb_per_s", "50%"),
                    ("p75_gb_per_s", "75%"),
                ],
            ),
        ] {
            found.about(part);
            for (column, theirs) in columns {
                let theirs = number(row, &format!("memory_bw_gbps.{theirs}"));
                found.exact(&format!("{what} {column}"), mine[*column], theirs);
            }
        }
    }
}

/// The device's annotations, with the time of the kernels that each is the innermost around.
pub(crate) fn annotated_kernels(run: &Run, expected: &Json, found: &mut Differences) {
    let keys = ["rank", "s_user_annotation"];
    let mut ours: BTreeMap<String, Numbers> = BTreeMap::new();
    for (name, mine) in keyed(&run.view("annotation_kernels"), &["rank", "name"]) {
        ours.insert(short_name(&name), mine);
    }
    // Without annotations on the device HTA has no result; we say that no kernel has one.
    let some: Vec<Json> =
        rows(expected).iter().filter(|row| row.get("result").is_none()).cloned().collect();
    if some.is_empty() {
        ours.retain(|name, _| !name.ends_with("| "));
    }
    found.same_keys(&ours, &some, &keys);
    for row in &some {
        let what = key(row, &keys);
        let Some(mine) = ours.get(&what) else { continue };
        found.exact(&format!("{what} kernels"), mine["kernel_count"], number(row, "kernels"));
        found.exact(&format!("{what} time"), mine["sum_ns"] / 1e3, number(row, "dur_sum"));
    }
}

/// HTA shortens names: what is in parentheses goes.
fn short_name(name: &str) -> String {
    let mut depth = 0;
    let mut short = String::new();
    for c in name.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            c if depth == 0 => short.push(c),
            _ => {}
        }
    }
    short.strip_suffix('-').map_or(short.clone(), str::to_owned)
}

pub(crate) fn device_annotations(run: &Run, expected: &Json, found: &mut Differences) {
    annotations("true", run, expected, found);
}

pub(crate) fn host_annotations(run: &Run, expected: &Json, found: &mut Differences) {
    annotations("false", run, expected, found);
}

fn annotations(on_device: &str, run: &Run, expected: &Json, found: &mut Differences) {
    let keys = ["rank", "name"];
    let ours = keyed(&only(&run.view("annotation_breakdown"), "on_device", &[on_device]), &keys);
    found.same_keys(&ours, rows(expected), &keys);
    for row in rows(expected) {
        let what = key(row, &keys);
        let Some(mine) = ours.get(&what) else { continue };
        durations(found, &what, mine, row);
    }
}
