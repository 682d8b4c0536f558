//! The call tree of every real trace: what calls last is no longer than the call.
#![allow(clippy::float_cmp, reason = "counts, exact in doubles here")]

use crate::harness::Case;
use crate::runs;
use crate::support::corpus;
use crate::support::rows::number;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for path in corpus::runs(&runs::traces()) {
        let trace = runs::name(&path);
        cases.push(Case::of_trace(&trace, "self_times", move || {
            let shared = runs::open_path(&path);
            for table in ["cpu_ops", "runtime_calls", "annotations", "python_frames"] {
                let query = format!(
                    "SELECT count(*) FROM {table} WHERE self_dur_ns < 0 OR self_dur_ns > dur_ns"
                );
                assert_eq!(number(&shared.run.sql(&query).unwrap()), 0.0, "{table}");
            }
        }));
    }
    cases
}
