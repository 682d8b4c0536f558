//! Where the time of a step goes: on the device as the report has it, else on the host.

use trace_advisor::advisor::{Breakdown, BreakdownPart};
use trace_advisor::{Error, Report, Run};

use crate::blocks::rounded;
use crate::queries::query;

/// Parts of a step on the host: columns of `step_breakdown`, the names of their causes, and whether work is done.
const PARTS: [(&str, &str, bool); 8] = [
    ("kernel_ratio", "computation", true),
    ("communication_ratio", "communication", true),
    ("memcpy_ratio", "copies", true),
    ("memset_ratio", "fills", true),
    ("cpu_exec_ratio", "CPU operators", true),
    ("dataloader_ratio", "data loading", false),
    ("runtime_ratio", "launching", false),
    ("other_ratio", "other", false),
];

/// The breakdown of the report; without a device that of the mean step of the rank.
pub(crate) fn of(run: &Run, report: &Report, rank: i64) -> Result<Option<Breakdown>, Error> {
    if report.breakdown.is_some() {
        return Ok(report.breakdown.clone());
    }
    let columns = PARTS.map(|(column, ..)| column).join(", ");
    let sql = format!(
        "SELECT step_count, step_ns, {columns} FROM step_breakdown WHERE rank = {rank} AND step_count > 0 AND step_ns > 0"
    );
    let table = query(run, &sql)?;
    let Some(row) = table.first_row() else { return Ok(None) };
    let steps = row.count("step_count");
    let part = |(column, cause, is_busy): (&str, &str, bool)| {
        let ratio = row.number(column).filter(|ratio| *ratio > 1e-6)?;
        Some(BreakdownPart { cause: cause.to_owned(), is_busy, ratio: rounded(ratio) })
    };
    Ok(Some(Breakdown {
        rank,
        is_slowest: false,
        device: Breakdown::HOST,
        window_ns: row.integer("step_ns").unwrap_or(0).saturating_mul(steps),
        steps,
        parts: PARTS.into_iter().filter_map(part).collect(),
    }))
}
