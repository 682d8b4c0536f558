//! Compares two runs.

use advisor::{Comparison, RuleSet};
use compare::{DeviceType, Diff, DiffOptions};
use trace_model::RecordBatch;

use crate::error::Error;
use crate::pipeline::Run;

/// Compares two runs: added, removed, slower and faster operators and kernels, and their effect on a step. See
/// [`compare`].
///
/// ```no_run
/// use trace_advisor::compare::DiffOptions;
/// use trace_advisor::{Run, diff};
///
/// let diff = diff(&Run::open("before/")?, &Run::open("after/")?, &DiffOptions::default())?;
/// println!("{}", diff.summary.headline);
/// # Ok::<(), trace_advisor::Error>(())
/// ```
pub fn diff(before: &Run, after: &Run, options: &DiffOptions) -> Result<Diff, Error> {
    Ok(compare::diff(before.session(), after.session(), options)?)
}

/// Evaluates the rules about comparisons on a comparison of two runs.
pub fn evaluate_diff(diff: &Diff, before: &Run, after: &Run, rules: &RuleSet) -> Comparison {
    advisor::evaluate_comparison(rules, &diff.tables, before.info(), after.info())
}

/// Compares calls and time by name as `TraceDiff.compare_traces` of Holistic Trace Analysis does.
pub fn compare_traces(
    before: &Run,
    after: &Run,
    options: &DiffOptions,
    device_type: DeviceType,
) -> Result<RecordBatch, Error> {
    let (before, after) = (before.session(), after.session());
    Ok(compare::compare_traces(before, after, options, device_type)?)
}
