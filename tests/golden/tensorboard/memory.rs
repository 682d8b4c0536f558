//! Memory: operators by memory, the pieces of memory, the curve and its peak.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::Value as Json;
use trace_model::Value;

use super::{Area, Compare, Differences, Worker};

pub(crate) const AREA: Area = Area {
    name: "memory",
    golden: "memory.json",
    comparisons: &[
        ("stats", Compare::Worker(stats)),
        ("stats of aten::where", Compare::Worker(where_stats)),
        ("stats of aten::arange", Compare::Worker(arange_stats)),
        ("calls", Compare::Worker(calls)),
        ("events", Compare::Worker(events)),
        ("largest events", Compare::Worker(largest)),
        ("curve", Compare::Worker(curve)),
        ("peak", Compare::Worker(peak)),
    ],
    exceptions: &[
        ("generated/cpu_gpt_mem_nw2", "stats of aten::where", TWICE),
        ("generated/cpu_gpt_stack", "stats of aten::where", TWICE),
        ("h100_qwen", "stats of aten::arange", TWICE),
    ],
    at_least: 3_000,
};

const TWICE: &str = "the plugin counts twice what a call within a call of the same name allocates";

/// Operators that call themselves among other calls: compared on their own.
const RECURSIVE: [&str; 2] = ["aten::where", "aten::arange"];

/// The plugin prints times of pieces with two decimals of a microsecond.
const SLACK_US: f64 = 0.011;

/// One row of a view, by column.
type Row = BTreeMap<String, Value>;

/// Rows by the plugin's name of the memory.
type Rows = BTreeMap<String, Vec<Row>>;

/// The plugin's numbers of the memory, if there are any.
fn golden(worker: &Worker) -> Option<Json> {
    Some(worker.golden("memory.json")).filter(|golden| !golden.is_null())
}

/// Rows by file and view.
type Views = BTreeMap<(PathBuf, String), Rc<Rows>>;

thread_local! {
    /// Views of one run: several comparisons read the same.
    static VIEWS: RefCell<(String, Views)> = RefCell::default();
}

fn rows(worker: &Worker, view: &str) -> Rc<Rows> {
    VIEWS.with_borrow_mut(|(trace, views)| {
        if *trace != worker.trace {
            views.clear();
            trace.clone_from(&worker.trace);
        }
        let key = (worker.path.clone(), view.to_owned());
        Rc::clone(views.entry(key).or_insert_with(|| Rc::new(read(worker, view))))
    })
}

/// The plugin counts mapped memory as that of the host.
fn read(worker: &Worker, view: &str) -> Rows {
    let table = worker.views().table(view);
    let mut found = Rows::new();
    let names = || table.columns.iter().map(|(name, _)| name.clone());
    for values in &table.rows {
        let row: Row = names().zip(values.iter().cloned()).collect();
        let memory = match number(&row, "device") {
            Some(device) if device >= 0.0 => format!("GPU{device}"),
            _ => "CPU".to_owned(),
        };
        found.entry(memory).or_default().push(row);
    }
    found
}

fn number(row: &Row, column: &str) -> Option<f64> {
    row[column].as_f64()
}

fn text<'a>(row: &'a Row, column: &str) -> Option<&'a str> {
    match &row[column] {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

fn is_mapped(row: &Row) -> bool {
    text(row, "memory") == Some("cpu mapped")
}

fn list(value: &Json) -> &[Json] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn devices(value: &Json) -> impl Iterator<Item = (&String, &Json)> {
    value.as_object().into_iter().flatten()
}

const STATS: [&str; 6] = [
    "increase_bytes",
    "self_increase_bytes",
    "allocation_count",
    "self_allocation_count",
    "allocated_bytes",
    "self_allocated_bytes",
];

/// By operator: the sums of `STATS`. A row of zeros is not listed by the plugin.
fn by_op(rows: Option<&Vec<Row>>) -> BTreeMap<&str, [f64; 6]> {
    let mut sums: BTreeMap<&str, [f64; 6]> = BTreeMap::new();
    for row in rows.into_iter().flatten() {
        let sum = sums.entry(text(row, "name").unwrap()).or_default();
        for (sum, column) in sum.iter_mut().zip(STATS) {
            *sum += number(row, column).unwrap();
        }
    }
    sums.retain(|_, sum| sum.iter().any(|&v| v != 0.0));
    sums
}

fn stats(worker: &Worker, found: &mut Differences) {
    stats_of(worker, found, &|name| !RECURSIVE.contains(&name));
}

fn where_stats(worker: &Worker, found: &mut Differences) {
    stats_of(worker, found, &|name| name == "aten::where");
}

fn arange_stats(worker: &Worker, found: &mut Differences) {
    stats_of(worker, found, &|name| name == "aten::arange");
}

fn stats_of(worker: &Worker, found: &mut Differences, wanted: &dyn Fn(&str) -> bool) {
    let Some(golden) = golden(worker) else { return };
    let ours = rows(worker, "memory_by_op");
    for (memory, theirs) in devices(&golden["stats_bytes"]) {
        let mut ours = by_op(ours.get(memory));
        ours.retain(|name, _| wanted(name));
        let theirs: BTreeMap<&str, &Json> =
            list(theirs).iter().map(|row| (row[0].as_str().unwrap(), row)).collect();
        let theirs =
            theirs.into_iter().filter(|(name, _)| wanted(name)).collect::<BTreeMap<_, _>>();
        for name in ours.keys().filter(|name| !theirs.contains_key(*name)) {
            found.check(false, || format!("{memory} {name}: only ours, {:?}", ours[name]));
        }
        for (name, theirs) in theirs {
            for (i, column) in STATS.iter().enumerate() {
                let ours = ours.get(name).map(|sum| sum[i]);
                let what = format!("{memory} {name} {column}");
                found.close(&what, ours, theirs[i + 2].as_f64(), 0.0);
            }
        }
    }
}

/// The plugin counts a call if something within each call around it allocates: neither all calls nor
/// those that allocate, but between the two.
fn calls(worker: &Worker, found: &mut Differences) {
    let Some(golden) = golden(worker) else { return };
    let ours = rows(worker, "memory_by_op");
    for (memory, theirs) in devices(&golden["stats_bytes"]) {
        for theirs in list(theirs) {
            let (name, count) = (theirs[0].as_str().unwrap(), theirs[1].as_f64().unwrap());
            let of = |column| {
                let rows = ours.get(memory).into_iter().flatten();
                let found = rows.filter(|row| text(row, "name") == Some(name));
                found.filter_map(|row| number(row, column)).reduce(f64::max)
            };
            let (all, allocating) = (of("call_count"), of("memory_call_count"));
            let agree = allocating.is_some_and(|least| least <= count)
                && all.is_some_and(|most| count <= most);
            found.check(agree, || {
                format!("{memory} {name} calls: {allocating:?} <= {count} <= {all:?}")
            });
        }
    }
}

fn events(worker: &Worker, found: &mut Differences) {
    let Some(golden) = golden(worker) else { return };
    let ours = rows(worker, "memory_allocations");
    for (memory, theirs) in devices(&golden["events"]) {
        let pieces = ours.get(memory).map_or(&[][..], Vec::as_slice);
        let has = |row: &Row, column: &str| number(row, column).is_some();
        let count = |wanted: &dyn Fn(&Row) -> bool| -> Option<f64> {
            Some(pieces.iter().filter(|row| wanted(row)).count() as f64)
        };
        let size = pieces.iter().filter_map(|row| number(row, "bytes")).sum();
        for (name, ours) in [
            ("count", count(&|_| true)),
            ("paired", count(&|row| has(row, "ts_ns") && has(row, "release_ts_ns"))),
            ("alloc_only", count(&|row| !has(row, "release_ts_ns"))),
            ("free_only", count(&|row| !has(row, "ts_ns"))),
            ("unknown_op", count(&|row| text(row, "op_name").is_none())),
            ("total_size", Some(size)),
        ] {
            found.close(&format!("{memory} {name}"), ours, theirs[name].as_f64(), 0.0);
        }
    }
}

/// Each of the largest pieces is one of ours: same operator, size and times.
fn largest(worker: &Worker, found: &mut Differences) {
    let Some(golden) = golden(worker) else { return };
    let ours = rows(worker, "memory_allocations");
    let zero = Zero::of(worker, &golden);
    for (memory, theirs) in devices(&golden["events"]) {
        let pieces = ours.get(memory).map_or(&[][..], Vec::as_slice);
        for theirs in list(&theirs["largest"]) {
            let near = |ours: Option<f64>, theirs: &Json| match (ours, theirs.as_f64()) {
                (Some(ours), Some(theirs)) => (zero.us(ours) - theirs).abs() <= SLACK_US,
                (ours, theirs) => ours.is_none() && theirs.is_none(),
            };
            let same = |row: &&Row| {
                number(row, "bytes") == theirs[1].as_f64()
                    && near(number(row, "ts_ns"), &theirs[2])
                    && near(number(row, "release_ts_ns"), &theirs[3])
                    && theirs[0].as_str() == Some(&*shown(row))
            };
            found.check(pieces.iter().any(|row| same(&row)), || {
                format!("{memory} {theirs} is none of ours")
            });
        }
    }
}

/// An operator as the plugin shows it.
fn shown(row: &Row) -> String {
    match (text(row, "op_name"), text(row, "outer_op_name")) {
        (None, _) => "<unknown>".to_owned(),
        (Some(name), Some(outer)) if name.starts_with("aten::empty") => format!("{outer} ({name})"),
        (Some(name), _) => name.to_owned(),
    }
}

/// The zero of the plugin's clock on ours: from the first point of a curve.
struct Zero(f64);

impl Zero {
    fn of(worker: &Worker, golden: &Json) -> Self {
        let ours = rows(worker, "memory_curve");
        let zero = devices(&golden["curve"]).next().and_then(|(memory, curve)| {
            let first = ours.get(memory)?.iter().filter_map(|row| number(row, "ts_ns"));
            Some(first.reduce(f64::min)? / 1e3 - curve["first"][0][0].as_f64()?)
        });
        Self(zero.unwrap_or(0.0))
    }

    fn us(&self, ns: f64) -> f64 {
        ns / 1e3 - self.0
    }
}

/// Maximum points of a curve that the plugin does not downsample.
const MAX_CURVE_POINTS: usize = 10_240;

/// Number of points, and the first and last ten.
fn curve(worker: &Worker, found: &mut Differences) {
    let Some(golden) = golden(worker) else { return };
    let ours = rows(worker, "memory_curve");
    let zero = Zero::of(worker, &golden);
    for (memory, theirs) in devices(&golden["curve"]) {
        let mut points = ours.get(memory).cloned().unwrap_or_default();
        points.sort_by(|a, b| {
            let key = |row: &Row| (number(row, "ts_ns"), number(row, "event_id"));
            key(a).partial_cmp(&key(b)).unwrap()
        });
        // The plugin downsamples longer curves; `peak` compares their maximum.
        if points.len() > MAX_CURVE_POINTS {
            continue;
        }
        found.close(
            &format!("{memory} points"),
            Some(points.len() as f64),
            theirs["points"].as_f64(),
            0.0,
        );
        let (first, last) = (list(&theirs["first"]), list(&theirs["last"]));
        let tail = points.len().saturating_sub(last.len());
        for (ours, theirs) in points.iter().zip(first).chain(points[tail..].iter().zip(last)) {
            let at = number(ours, "ts_ns").map(|ns| zero.us(ns));
            found.close(&format!("{memory} moment"), at, theirs[0].as_f64(), SLACK_US);
            // Mapped memory has no total: the plugin's curve falls to 0 there.
            let allocated =
                if is_mapped(ours) { Some(0.0) } else { number(ours, "allocated_bytes") };
            found.close(&format!("{memory} level"), allocated, theirs[1].as_f64(), 0.0);
            if memory != "CPU" {
                let reserved = number(ours, "reserved_bytes");
                found.close(&format!("{memory} reserved"), reserved, theirs[2].as_f64(), 0.0);
            }
        }
    }
}

fn peak(worker: &Worker, found: &mut Differences) {
    let Some(golden) = golden(worker) else { return };
    let ours = rows(worker, "memory_summary");
    let holders = rows(worker, "memory_peak_holders");
    for (memory, theirs) in devices(&golden["curve"]) {
        let peak = |column| {
            let rows = ours.get(memory).into_iter().flatten();
            rows.filter_map(|row| number(row, column)).reduce(f64::max)
        };
        let (allocated, reserved) = (peak("peak_allocated_bytes"), peak("peak_reserved_bytes"));
        found.close(&format!("{memory} peak"), allocated, theirs["max_allocated"].as_f64(), 0.0);
        // The host reserves nothing; what the plugin shows there is mapped memory.
        if memory != "CPU" {
            found.close(
                &format!("{memory} reserved"),
                reserved,
                theirs["max_reserved"].as_f64(),
                0.0,
            );
        }
        // The holders at the peak add up to it.
        let held = holders.get(memory).into_iter().flatten();
        let held: f64 = held.filter_map(|row| number(row, "bytes")).sum();
        found.close(&format!("{memory} held"), Some(held), theirs["max_allocated"].as_f64(), 0.0);
    }
}
