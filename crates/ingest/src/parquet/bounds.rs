//! Bounds of the numbers in manifests, whose checksum anyone can compute: within them, no sum over a run exceeds 64 bits.

use trace_model::{RunInfo, Source, Warning};

use crate::quantity::{MAX_TIME_NS, is_time};

/// A longer manifest is not read. Enough for about 100,000 ranks.
pub(crate) const MAX_BYTES: u64 = 256 << 20;

/// Maximum number of bytes, rows or events of one file: a million million. A manifest of [`MAX_BYTES`] has fewer than 2^23 such
/// numbers.
const MAX_COUNT: u64 = 1 << 40;

/// Maximum distance between two times.
const MAX_SHIFT_NS: i64 = 2 * MAX_TIME_NS;

/// Returns an error if the entry `field` of `owner` counts more than any file holds.
pub(crate) fn check_count(owner: &str, field: &str, count: u64) -> Result<(), String> {
    if count <= MAX_COUNT {
        return Ok(());
    }
    Err(format!("{field} of {owner} is {count}, more than any file holds"))
}

/// Returns an error if a time is further from zero than those of traces.
pub(crate) fn check_time(owner: &str, field: &str, ns: i64) -> Result<(), String> {
    if is_time(ns) {
        return Ok(());
    }
    Err(format!("{field} of {owner} is {ns}, which is no time of a trace"))
}

/// Returns an error if traces cannot be so far apart, or last so long.
fn check_shift(owner: &str, field: &str, ns: i64) -> Result<(), String> {
    if ns.unsigned_abs() <= MAX_SHIFT_NS.unsigned_abs() {
        return Ok(());
    }
    Err(format!("{field} of {owner} is {ns}, longer than traces are apart"))
}

/// Checks the numbers of warnings.
pub(crate) fn check_warnings(warnings: &[Warning]) -> Result<(), String> {
    warnings.iter().try_for_each(|warning| check_count(&warning.code, "count", warning.count))
}

/// Checks the numbers of a run.
pub(crate) fn check_run(run: &RunInfo) -> Result<(), String> {
    const RUN: &str = "the run";
    if run.wall_ns < 0 {
        return Err(format!("wall_ns of {RUN} is {}, which is negative", run.wall_ns));
    }
    check_shift(RUN, "wall_ns", run.wall_ns)?;
    check_count(RUN, "steps", run.steps as u64)?;
    if !run.ranks.is_sorted() {
        return Err(format!("ranks of {RUN} are not in order"));
    }
    for Source { file, json_bytes, events, shift_ns, .. } in &run.sources {
        check_count(file, "json_bytes", *json_bytes)?;
        check_count(file, "events", *events)?;
        check_shift(file, "shift_ns", *shift_ns)?;
    }
    Ok(())
}
