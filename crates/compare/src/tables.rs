//! The comparison as metric tables, for rules: [`trace_model::COMPARISON_VIEWS`].

use std::borrow::Cow;

use trace_model::{COMPARISON_VIEWS, MetricSpec, MetricTable, Scope, Unit, Value};

use crate::level::Level;
use crate::memory::{DeviceMemory, MemoryDiff};
use crate::names;
use crate::rows::Row;
use crate::summary::{Summary, is_unrecorded};
use crate::verdict::{Outcome, Verdict};

/// Number of standard errors that a difference must exceed: there are hundreds of names and few steps.
const MIN_STANDARD_ERRORS: f64 = 3.0;

/// Name, unit and meaning of a column.
type Column = (&'static str, Unit, &'static str);

const STEP_TIME: &[Column] = &[
    ("before_step_count", Unit::Count, "steps before that count"),
    ("after_step_count", Unit::Count, "steps after that count"),
    ("before_median_ns", Unit::Ns, "median step before, each as long as on its slowest rank"),
    ("step_ns", Unit::Ns, "median step after"),
    ("change_ratio", Unit::Ratio, "change of the median step over the median before"),
    ("low_ratio", Unit::Ratio, "lower end of the 95 % interval of the change"),
    ("high_ratio", Unit::Ratio, "upper end of the 95 % interval of the change"),
    (
        "noise_ratio",
        Unit::Ratio,
        "half the width of the interval, at least 2 %: what chance may do",
    ),
    (
        "slower_ratio",
        Unit::Ratio,
        "the change over the step after: what comes back when it is undone",
    ),
    ("verdict", Unit::None, "regression, improvement, unchanged or inconclusive"),
    ("reason", Unit::None, "why, in a sentence"),
];

const OPERATORS: &[Column] = &[
    ("level", Unit::None, "operator, runtime, annotation, python, module, kernel, copy ..."),
    ("what", Unit::None, "the level in words: operator, runtime call, Python function ..."),
    ("name", Unit::None, "name, in the run after if both have it"),
    (
        "short_name",
        Unit::None,
        "of a kernel: without template arguments, parameters and namespaces",
    ),
    ("change", Unit::None, "added, removed, slower, faster, more_calls, fewer_calls or unchanged"),
    (
        "before_ns",
        Unit::Ns,
        "part of the mean step before: time on the device, or of the host alone",
    ),
    ("after_ns", Unit::Ns, "part of the mean step after"),
    (
        "impact_ns",
        Unit::Ns,
        "difference of these; of the host, in runs with work on a device, at most the growth of the mean step",
    ),
    (
        "noise_ns",
        Unit::Ns,
        "three standard errors of the difference, of the durations of single steps",
    ),
    ("step_impact_ratio", Unit::Ratio, "that difference over the mean step before"),
    ("step_ns", Unit::Ns, "mean step after"),
    (
        "spread_ratio",
        Unit::Ratio,
        "half the width of the 95 % interval of the change of the step; absent with fewer than three steps a side",
    ),
    (
        "verdict",
        Unit::None,
        "what became of the step: regression, improvement, unchanged or inconclusive",
    ),
    ("reason", Unit::None, "why the step is judged so, in a sentence"),
    ("top_host", Unit::None, "what on the host got slower most; absent if nothing did"),
    ("top_host_ratio", Unit::Ratio, "its growth over the mean step before"),
    ("top_device", Unit::None, "the kernel or copy that got slower most"),
    ("top_device_ratio", Unit::Ratio, "its growth over the mean step before"),
];

const MEMORY: &[Column] = &[
    ("rank", Unit::None, "rank"),
    ("device", Unit::None, "number of the device; negative for the host"),
    ("memory", Unit::None, "cuda:0, cpu ..."),
    ("moment", Unit::None, "peak, or end if one of the recordings has no history"),
    ("before_bytes", Unit::Bytes, "allocated at that moment before"),
    ("after_bytes", Unit::Bytes, "allocated at that moment after"),
    ("change_bytes", Unit::Bytes, "difference of these"),
    ("change_ratio", Unit::Ratio, "that difference over the bytes before"),
    ("top_owner", Unit::None, "the owner that grew most; absent if none did"),
    ("top_owner_bytes", Unit::Bytes, "how much it grew"),
    ("top_place", Unit::None, "the place that allocates most of what was added"),
    ("top_place_bytes", Unit::Bytes, "how much it allocates more"),
    (
        "batch_ratio",
        Unit::Ratio,
        "size of the batch after over that before; absent if it is the same or not known",
    ),
];

/// The metrics of a comparison that rules can refer to.
pub fn metrics() -> Vec<MetricSpec> {
    let tables = [(STEP_TIME, Scope::Run), (OPERATORS, Scope::Operator), (MEMORY, Scope::Device)];
    let mut metrics = Vec::new();
    for (view, (columns, scope)) in COMPARISON_VIEWS.into_iter().zip(tables) {
        for (column, unit, doc) in columns.iter().filter(|(_, unit, _)| *unit != Unit::None) {
            metrics.push(MetricSpec {
                view: view.to_owned(),
                column: (*column).to_owned(),
                unit: *unit,
                scope,
                doc: format!("{doc}."),
                columns: names_of(columns),
                requires: Vec::new(),
            });
        }
    }
    metrics
}

/// The tables of a comparison; without times in both runs, that of memory only has rows. If the runs are not comparable none
/// has: rules then have no verdict either.
pub(super) fn tables(
    verdict: &Verdict,
    times: Option<(&Summary, &[Row])>,
    memory: Option<&MemoryDiff>,
) -> Vec<MetricTable> {
    let is_comparable = verdict.outcome != Outcome::NotComparable;
    let not_comparable = format!("the runs are not comparable: {}", verdict.reason);
    let table = |at: usize, columns: &[Column], rows, when_empty: &str| MetricTable {
        view: COMPARISON_VIEWS[at].to_owned(),
        columns: names_of(columns),
        rows: if is_comparable { rows } else { Vec::new() },
        when_empty: if is_comparable { when_empty } else { &not_comparable }.to_owned(),
    };
    let (steps, names, no_names) = match times {
        Some((summary, rows)) => (
            vec![step_time(verdict)],
            operators(verdict, summary, rows),
            "neither run has a name to compare",
        ),
        None => (Vec::new(), Vec::new(), NO_TIMES),
    };
    vec![
        table(0, STEP_TIME, steps, NO_TIMES),
        table(1, OPERATORS, names, no_names),
        table(
            2,
            MEMORY,
            memory.map_or_else(Vec::new, memory_rows),
            "the runs did not both record memory: a snapshot, or traces with profile_memory=True",
        ),
    ]
}

const NO_TIMES: &str =
    "a run has only memory snapshots, which have no times of steps and operators";

fn memory_rows(memory: &MemoryDiff) -> Vec<Vec<Value>> {
    let int = |value: i64| Value::Int(value);
    let row = |device: &DeviceMemory| {
        let owners = memory.owners(device);
        let growth = |(_, before, after): &(String, i64, i64)| after.saturating_sub(*before);
        let owner = owners.iter().max_by_key(|owner| growth(owner)).filter(|o| growth(o) > 0);
        let place = memory
            .holders_of(device)
            .filter(|holder| holder.place.is_some())
            .max_by_key(|holder| holder.change_bytes())
            .filter(|holder| holder.change_bytes() > 0);
        let name = |name: Option<&str>| name.map_or(Value::Null, text);
        vec![
            int(i64::from(device.rank)),
            int(i64::from(device.device)),
            text(&device.memory),
            text(device.moment),
            int(device.before_bytes),
            int(device.after_bytes),
            int(device.change_bytes()),
            float(device.change_ratio),
            name(owner.map(|(owner, ..)| owner.as_str())),
            owner.map_or(Value::Null, |owner| int(growth(owner))),
            name(place.and_then(|holder| holder.place.as_deref())),
            place.map_or(Value::Null, |holder| int(holder.change_bytes())),
            float(device.batch.map(|batch| batch.batch_ratio)),
        ]
    };
    memory.devices.iter().map(row).collect()
}

fn step_time(verdict: &Verdict) -> Vec<Value> {
    let (b, a) = (verdict.before.as_ref(), verdict.after.as_ref());
    vec![
        count(b.map(|s| s.steps)),
        count(a.map(|s| s.steps)),
        float(b.map(|s| s.median_ns)),
        float(a.map(|s| s.median_ns)),
        float(verdict.change_ratio),
        float(verdict.low_ratio),
        float(verdict.high_ratio),
        float(verdict.noise_ratio),
        float(verdict.change_ratio.map(|c| c / (1.0 + c))),
        text(verdict.outcome.as_str()),
        text(&verdict.reason),
    ]
}

fn operators(verdict: &Verdict, summary: &Summary, rows: &[Row]) -> Vec<Vec<Value>> {
    let step_ns = summary.before.mean_ns;
    let ratio = |ns: f64| (step_ns > 0.0).then(|| ns / step_ns);
    // Beside a device, the host may wait in a name for what it waited for elsewhere before: such time moves, and comes
    // back only as far as the step grew.
    let has_device_work = rows.iter().any(|r| r.level.is_device_work());
    let step_growth_ns = summary.change_ns().max(0.0);
    let impact_ns = |row: &Row| {
        if has_device_work && !row.level.is_device_work() {
            row.impact_ns().min(step_growth_ns)
        } else {
            row.impact_ns()
        }
    };
    // Time outside named ranges has no name to report.
    let named: Vec<&Row> =
        rows.iter().filter(|r| !is_unrecorded(r) && r.level != Level::None).collect();
    let top = |on_device: bool| {
        let side = named.iter().filter(|r| r.level.is_device_work() == on_device);
        let most = side.max_by(|x, y| x.impact_ns().total_cmp(&y.impact_ns()));
        most.filter(|r| r.impact_ns() > 0.0)
    };
    let (host, device) = (top(false), top(true));
    let name = |row: Option<&&Row>| row.map_or(Value::Null, |r| text(&short_name(r)));
    named
        .iter()
        .map(|row| {
            let (before, after) = if row.level.is_device_work() {
                (row.before.dur_ns, row.after.dur_ns)
            } else {
                (row.before.step_ns, row.after.step_ns)
            };
            vec![
                text(row.level.as_str()),
                text(level_phrase(row.level)),
                text(&row.name),
                text(&short_name(row)),
                text(row.change.as_str()),
                float(Some(before)),
                float(Some(after)),
                float(Some(impact_ns(row))),
                float(Some(MIN_STANDARD_ERRORS * row.before.error_ns.hypot(row.after.error_ns))),
                float(ratio(impact_ns(row))),
                float(Some(summary.after.mean_ns)),
                float(verdict.spread_ratio()),
                text(verdict.outcome.as_str()),
                text(&verdict.reason),
                name(host),
                float(host.and_then(|r| ratio(r.impact_ns()))),
                name(device),
                float(device.and_then(|r| ratio(r.impact_ns()))),
            ]
        })
        .collect()
}

fn short_name(row: &Row) -> Cow<'_, str> {
    if row.level == Level::Kernel { names::shorten(&row.name) } else { Cow::Borrowed(&row.name) }
}

/// The level in words.
fn level_phrase(level: Level) -> &'static str {
    match level {
        Level::Runtime => "runtime call",
        Level::Python => "Python function",
        Level::Sync => "synchronization",
        Level::DeviceAnnotation => "range on the device",
        level => level.as_str(),
    }
}

fn names_of(columns: &[Column]) -> Vec<(String, Unit)> {
    columns.iter().map(|(name, unit, _)| ((*name).to_owned(), *unit)).collect()
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn count(count: Option<usize>) -> Value {
    count.map_or(Value::Null, |n| Value::Int(n as i64))
}

fn float(value: Option<f64>) -> Value {
    value.filter(|v| v.is_finite()).map_or(Value::Null, Value::Float)
}

#[cfg(test)]
mod tests {
    use trace_model::{COMPARISON_VIEWS, Unit, Value};

    use super::{OPERATORS, operators};
    use crate::level::Level;
    use crate::metrics;
    use crate::rows::{Amounts, Row};
    use crate::summary::{self, Side, Summary};
    use crate::verdict::{Outcome, Verdict};

    /// A row whose time in a step goes from `before` to `after` ns.
    fn row(level: Level, name: &str, [before, after]: [f64; 2]) -> Row {
        let amounts = |ns: f64| Amounts { dur_ns: ns, step_ns: ns, ..Amounts::default() };
        Row::of_both(level, name, [amounts(before), amounts(after)])
    }

    /// `impact_ns`, `step_impact_ratio` and `top_host_ratio` of each row, where the mean step goes from `before` to
    /// `after` ns.
    fn impacts([before, after]: [f64; 2], rows: &[Row]) -> Vec<String> {
        let side =
            |ns: f64| Side { ranks: vec![0], steps: 3, mean_ns: ns, median_ns: ns, host_ns: ns };
        let summary = Summary {
            headline: String::new(),
            unit: summary::Unit::Step,
            before: side(before),
            after: side(after),
            change_ratio: None,
            median_change_ratio: None,
            explained: None,
            steps: Vec::new(),
            notes: Vec::new(),
        };
        let verdict = Verdict {
            outcome: Outcome::Unchanged,
            reason: String::new(),
            before: None,
            after: None,
            change_ratio: None,
            low_ratio: None,
            high_ratio: None,
            noise_ratio: None,
            least_change_ratio: 0.05,
        };
        let value = |row: &[Value], name: &str| {
            let at = OPERATORS.iter().position(|(column, ..)| *column == name).unwrap();
            row[at].as_f64().unwrap().to_string()
        };
        let columns = ["impact_ns", "step_impact_ratio", "top_host_ratio"];
        operators(&verdict, &summary, rows)
            .iter()
            .map(|row| columns.map(|column| value(row, column)).join(" "))
            .collect()
    }

    #[test]
    fn host_names_have_no_more_impact_than_the_step_grew_beside_a_device() {
        let wait = row(Level::Runtime, "cudaStreamSynchronize", [0.0, 400.0]);
        let faster = row(Level::Operator, "aten::add_", [100.0, 50.0]);
        let kernel = row(Level::Kernel, "gemm", [800.0, 900.0]);
        let rows = [wait.clone(), faster, kernel];
        let longer = impacts([1000.0, 1020.0], &rows);
        assert_eq!(longer, ["20 0.02 0.4", "-50 -0.05 0.4", "100 0.1 0.4"]);
        let shorter = impacts([1000.0, 980.0], &rows);
        assert_eq!(shorter, ["0 0 0.4", "-50 -0.05 0.4", "100 0.1 0.4"]);
        // A step that grew by more than the name does not limit it.
        assert_eq!(impacts([1000.0, 1500.0], &rows)[0], "400 0.4 0.4");
        // Without work on a device, no time of the host hides behind it.
        assert_eq!(impacts([1000.0, 1020.0], &[wait]), ["400 0.4 0.4"]);
    }

    #[test]
    fn columns_end_in_their_unit_and_views_do_not_clash() {
        for metric in metrics() {
            for (name, unit) in &metric.columns {
                assert!(unit.suffix().is_none_or(|s| name.ends_with(s)), "{name}: {unit:?}");
            }
            assert_ne!(metric.unit, Unit::None);
        }
        for view in COMPARISON_VIEWS {
            assert!(analyses::catalog().find(view).is_none(), "{view}");
        }
    }
}
