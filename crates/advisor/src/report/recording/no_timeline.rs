//! Says what files without a timeline show: dumps of the Flight Recorder, samples of machine metrics, exported memory
//! timelines. One sentence for each kind, so that a report says something if no rule fires.

use trace_model::number::plural;
use trace_model::time::human;
use trace_model::{MetricTable, Row};

use crate::language::expr::{bytes, decimals};

/// The view of all dumps of the Flight Recorder.
const FLIGHT_VIEW: &str = "flight_summary";
/// The view of machines, with one row per machine.
const MACHINES_VIEW: &str = "system_hosts";
/// The view of exported memory timelines, with one row per file.
const MEMORY_TIMELINE_VIEW: &str = "memory_timeline_summary";
/// All views that these sentences read.
pub(crate) const NO_TIMELINE_VIEWS: [&str; 3] = [FLIGHT_VIEW, MACHINES_VIEW, MEMORY_TIMELINE_VIEW];

/// Cores that are busy for at least this share of the time are probably the limit.
const BUSY_CORES_RATIO: f64 = 0.9;
/// A later peak of memory that is higher than this multiple of an earlier one is growth.
const GROWTH_FACTOR: f64 = 1.02;

/// What the files show, in a sentence for each kind; empty if they show nothing of this.
pub(super) fn subject(tables: &[MetricTable]) -> String {
    let texts = [flight_dumps(tables), busy_cores(tables), memory_timeline(tables)];
    texts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// `The dumps of 4 ranks hold 6 collectives: ... none is stuck.`
fn flight_dumps(tables: &[MetricTable]) -> Option<String> {
    let row =
        MetricTable::rows_of(tables, FLIGHT_VIEW).next().filter(|row| row.is_true("has_dump"))?;
    let [dumps, collectives, unfinished] =
        ["dump_count", "collective_count", "unfinished_count"].map(|name| row.count(name));
    let start = format!(
        "The Flight Recorder's dumps of {} hold {}",
        plural(dumps as usize, "rank"),
        plural(collectives as usize, "collective")
    );
    if collectives == 0 {
        return Some(format!("{start}."));
    }
    let faults = ["missing_count", "mismatch_count", "unmatched_count"];
    let has_fault = faults.iter().any(|name| row.count(name) > 0);
    let of_no_dump = match row.count("no_dump_count") {
        0 => String::new(),
        count => format!(" {} left no dump.", plural(count as usize, "rank")),
    };
    Some(match (unfinished, has_fault) {
        (0, false) => {
            let which = if dumps > 1 {
                "the ranks of each process group call the same ones in the same order, and all of them completed"
            } else {
                "all of them completed"
            };
            format!("{start}: {which}, so no rank is stuck.{of_no_dump}")
        }
        (0, true) => format!("{start}, all of which completed.{of_no_dump}"),
        _ => format!("{start}, {unfinished} of which did not complete.{of_no_dump}"),
    })
}

/// `The CPU cores of 2 machines are busy for 100 % of the time (10 samples each): ...`
fn busy_cores(tables: &[MetricTable]) -> Option<String> {
    let rows = MetricTable::rows_of(tables, MACHINES_VIEW);
    let ratio = |row: &Row<'_>| row.number("cpu_util_ratio");
    let rows: Vec<Row<'_>> = rows.filter(|row| ratio(row).is_some()).collect();
    let ratios = || rows.iter().filter_map(ratio);
    let lowest = ratios().min_by(f64::total_cmp)?;
    let highest = ratios().max_by(f64::total_cmp)?;
    let percent = |ratio: f64| decimals(100.0 * ratio, 1);
    let busy = match (percent(lowest), percent(highest)) {
        (low, high) if low == high => format!("{low} %"),
        (low, high) => format!("{low} to {high} %"),
    };
    let samples = rows.iter().map(|row| row.count("cpu_sample_count")).max().unwrap_or(0);
    let samples = plural(samples as usize, "sample");
    let (machines, samples) = match rows.as_slice() {
        [row] => (row.text("agent").unwrap_or("the machine").to_owned(), samples),
        rows => (plural(rows.len(), "machine"), format!("up to {samples} each")),
    };
    let rest = if lowest >= BUSY_CORES_RATIO {
        "the processor is probably the limit. What runs there, a trace of the PyTorch Profiler shows"
    } else {
        "they have room. What the program waits for, a trace of the PyTorch Profiler shows"
    };
    Some(format!(
        "The CPU cores of {machines} are busy for {busy} of the time ({samples}): {rest}."
    ))
}

/// `A memory timeline of 164 ms: at most 214 KiB are held at once, first after 131 ms. ...`
fn memory_timeline(tables: &[MetricTable]) -> Option<String> {
    let row = Row::largest(MetricTable::rows_of(tables, MEMORY_TIMELINE_VIEW), "peak_bytes")?;
    let [peak, end] = ["peak_bytes", "end_bytes"].map(|name| row.number(name));
    let (peak, end) = peak.filter(|&peak| peak > 0.0).zip(end)?;
    let halves = row.number("first_half_peak_bytes").zip(row.number("second_half_peak_bytes"));
    let growth = match halves {
        Some((first, second)) if second > GROWTH_FACTOR * first => {
            let [first, second] = [first, second].map(bytes);
            format!(" Memory grows: the first half of it needs {first}, the second {second}.")
        }
        Some(_) => {
            " Memory does not grow: its second half needs no more than its first.".to_owned()
        }
        None => String::new(),
    };
    Some(format!(
        "A memory timeline of {}: at most {} are held at once, and {} at its end.{growth}",
        human(row.number("dur_ns").unwrap_or(0.0)),
        bytes(peak),
        bytes(end),
    ))
}
