//! Steps of real traces: the first one is as long as the others where they do the same work, and a selection of steps
//! does not change how long they take.

use std::path::Path;

use crate::harness::{self, Case};
use crate::runs::{self, Params, Range, Selection, Session};
use crate::support::corpus;
use crate::support::rows::{lines, rows};

const SELECTED: &str = "steps: selections";

/// Runs whose steps do the same work, with the number of steps that are compared, and the limits of their longest one
/// in milliseconds, from the device work between the ends of two steps in the raw events.
const READINGS: [(&str, f64, f64, f64); 5] = [
    // The recording begins with 39 ms of work of the step before.
    ("diff_test", 6.0, 117.0, 124.0),
    // Nothing was recorded of the step before, and the host is 90 ms or 13 ms ahead.
    ("ns_resolution", 4.0, 95.0, 96.0),
    ("resnet50_workers0", 5.0, 182.0, 183.0),
    ("mi300_resnet_ddp", 3.0, 18.9, 19.0),
    // The first step takes 182 ms, the others 124 to 164: it is warm-up.
    ("resnet50_workers4", 5.0, 163.0, 164.0),
];

pub(crate) fn cases() -> Vec<Case> {
    harness::require(SELECTED, 15);
    let mut cases = Vec::new();
    for path in corpus::runs(&runs::traces()) {
        let trace = runs::name(&path);
        cases.push(Case::of_trace(&trace, "selection_keeps_times", move || {
            selection_keeps_times(&path);
        }));
    }
    for (trace, count, low_ms, high_ms) in READINGS {
        cases.push(Case::of_trace(trace, "steps_compare", move || {
            let row = &rows(
                &runs::open(trace).run,
                "SELECT step_count, max_ns / 1e6 AS max_ms FROM step_time_summary",
            )[0];
            assert_eq!(row["step_count"], count);
            let max_ms = row["max_ms"].as_f64().unwrap();
            assert!((low_ms..=high_ms).contains(&max_ms), "{max_ms} ms");
        }));
    }
    cases
}

/// From the second step on.
fn selection_keeps_times(path: &Path) {
    let shared = runs::open_path(path);
    let numbers = rows(&shared.run, "SELECT DISTINCT step FROM step_time ORDER BY step");
    let [_, second, ..] = &numbers[..] else { return };
    let first = second["step"].as_f64().unwrap() as i64;
    let selection =
        Selection { steps: Some(Range { first, last: i64::MAX }), ..Selection::default() };
    let Ok(tables) = selection.apply(shared.run.tables()) else { return };
    let session = Session::new(analyses::catalog(), tables, &Params::default()).unwrap();
    let query = format!(
        "SELECT rank, step, ts_ns, dur_ns FROM step_time WHERE step >= {first} ORDER BY rank, step"
    );
    let expected = lines(&shared.run.sql(&query).unwrap());
    let selected = lines(&session.sql(&query).unwrap());
    assert_eq!(selected, expected);
    harness::count(SELECTED, 1);
}
