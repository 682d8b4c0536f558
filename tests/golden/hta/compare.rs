//! Reads golden numbers and our views, and notes where they differ.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value as Json;
use trace_model::{MetricTable, Value};

use crate::runs::{Params, SharedRun};

/// HTA's relative precision, after sums of thousands of floats.
const RELATIVE: f64 = 1e-6;

/// The numbers HTA printed for one trace.
pub(crate) struct Golden {
    folder: PathBuf,
    /// HTA worked on fractions of microseconds.
    unrounded: bool,
    /// Distance between the doubles in which HTA holds times of this trace.
    spacing_us: f64,
    rows: f64,
}

impl Golden {
    pub(crate) fn open(folder: &Path) -> Self {
        let mut golden =
            Self { folder: folder.to_owned(), unrounded: false, spacing_us: 0.0, rows: 0.0 };
        for rank in golden.read("load_info").as_ref().map(rows).unwrap_or_default() {
            let start = number(rank, "min_ts_offset");
            if rank["ts_dtype"] == "float64" && start.is_finite() {
                golden.unrounded = true;
                let spacing = start.log2().floor().exp2() * f64::EPSILON;
                golden.spacing_us = golden.spacing_us.max(spacing);
                golden.rows = golden.rows.max(number(rank, "rows"));
            }
        }
        golden
    }

    /// HTA's output; `None` if HTA failed on this trace or had no result.
    pub(crate) fn read(&self, analysis: &str) -> Option<Json> {
        let text = std::fs::read_to_string(self.folder.join(format!("{analysis}.json"))).ok()?;
        let json: Json = serde_json::from_str(&text).unwrap();
        let failed = json.get("error").is_some();
        (!failed && !json.is_null()).then_some(json)
    }
}

/// The same run under several parameters.
pub(crate) struct Run(pub(crate) Arc<SharedRun>);

impl Run {
    pub(crate) fn view(&self, view: &str) -> Arc<MetricTable> {
        self.0.views().table(view)
    }

    pub(crate) fn view_with(&self, params: &[(&str, f64)], view: &str) -> Arc<MetricTable> {
        let mut given = Params::default();
        for &(name, value) in params {
            given.set(name, analyses::catalog().parse_param(name, &value.to_string()).unwrap());
        }
        self.0.views_with(&given).table(view)
    }
}

/// The differences of one analysis of one trace, by part: an exception excuses one part.
pub(crate) struct Differences {
    pub(crate) unrounded: bool,
    spacing_us: f64,
    rows: f64,
    part: &'static str,
    pub(crate) lines: BTreeMap<&'static str, Vec<String>>,
    pub(crate) compared: usize,
}

impl Differences {
    pub(crate) fn new(golden: &Golden) -> Self {
        Self {
            unrounded: golden.unrounded,
            spacing_us: golden.spacing_us,
            rows: golden.rows,
            part: "",
            lines: BTreeMap::new(),
            compared: 0,
        }
    }

    /// The next comparisons are about `part`.
    pub(crate) fn about(&mut self, part: &'static str) {
        self.part = part;
    }

    pub(crate) fn note(&mut self, line: String) {
        self.lines.entry(self.part).or_default().push(line);
    }

    /// A number that does not depend on how HTA holds times.
    pub(crate) fn exact(&mut self, what: &str, ours: f64, theirs: f64) {
        self.within(what, ours, theirs, 0.0);
    }

    /// A number that HTA prints with so many decimals.
    pub(crate) fn printed(&mut self, what: &str, ours: f64, theirs: f64, decimals: i32) {
        let rounding = 0.5 * 10_f64.powi(-decimals);
        self.within(what, ours, theirs, rounding * 1.000_001);
    }

    /// A time that comes from few events; HTA may have rounded each end of it.
    pub(crate) fn time(&mut self, what: &str, ours_ns: f64, theirs_us: f64) {
        self.within(what, ours_ns / 1e3, theirs_us, 2.0 * self.spacing_us + 1e-6);
    }

    /// A time that HTA prints with so many decimals.
    pub(crate) fn printed_time(&mut self, what: &str, ours_ns: f64, theirs_us: f64, decimals: i32) {
        let rounding = 0.5 * 10_f64.powi(-decimals);
        self.within(what, ours_ns / 1e3, theirs_us, rounding * 1.000_001 + 2.0 * self.spacing_us);
    }

    /// A time that is a sum over all of the trace.
    pub(crate) fn total(&mut self, what: &str, ours_ns: f64, theirs_us: f64) {
        self.within(what, ours_ns / 1e3, theirs_us, self.drift_us() + 1e-6);
    }

    /// The largest error of a sum over all of the trace.
    pub(crate) fn drift_us(&self) -> f64 {
        2.0 * self.spacing_us * self.rows.sqrt()
    }

    fn within(&mut self, what: &str, ours: f64, theirs: f64, slack: f64) {
        self.compared += 1;
        let both_absent = ours.is_nan() && theirs.is_nan();
        // A value that only one side has makes the difference NaN, which is within nothing.
        let agree = (ours - theirs).abs() <= slack + RELATIVE * theirs.abs();
        if !both_absent && !agree {
            self.note(format!("{what}: ours {ours}, HTA {theirs}"));
        }
    }

    /// Both sides have rows for the same keys.
    pub(crate) fn same_keys<T>(
        &mut self,
        ours: &BTreeMap<String, T>,
        expected: &[Json],
        keys: &[&str],
    ) {
        let theirs: BTreeSet<String> = expected.iter().map(|row| key(row, keys)).collect();
        self.compared += theirs.len();
        for name in theirs.iter().filter(|name| !ours.contains_key(*name)) {
            self.note(format!("{name}: only HTA has it"));
        }
        for name in ours.keys().filter(|name| !theirs.contains(*name)) {
            self.note(format!("{name}: only we have it"));
        }
    }
}

pub(crate) type Numbers = BTreeMap<String, f64>;

/// Rows of numbers by the texts of `keys`; other values are NaN.
pub(crate) fn keyed(table: &MetricTable, keys: &[&str]) -> BTreeMap<String, Numbers> {
    let at: Vec<usize> = keys.iter().map(|k| table.index(k).unwrap()).collect();
    let text =
        |row: &[Value]| at.iter().map(|&i| row[i].to_string()).collect::<Vec<_>>().join(" | ");
    table.rows.iter().map(|row| (text(row), numbers(table, row))).collect()
}

pub(crate) fn numbers(table: &MetricTable, row: &[Value]) -> Numbers {
    let value = |v: &Value| match v {
        Value::Bool(v) => f64::from(u8::from(*v)),
        other => other.as_f64().unwrap_or(f64::NAN),
    };
    table.columns.iter().zip(row).map(|((name, _), v)| (name.clone(), value(v))).collect()
}

/// The rows whose `column` is one of `values`.
pub(crate) fn only(table: &MetricTable, column: &str, values: &[&str]) -> MetricTable {
    let at = table.index(column).unwrap();
    let mut table = table.clone();
    table.rows.retain(|row| values.contains(&row[at].to_string().as_str()));
    table
}

pub(crate) fn rows(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn key(row: &Json, keys: &[&str]) -> String {
    let text = |k: &&str| match &row[k] {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    keys.iter().map(text).collect::<Vec<_>>().join(" | ")
}

pub(crate) fn number(row: &Json, column: &str) -> f64 {
    row[column].as_f64().unwrap_or(f64::NAN)
}
