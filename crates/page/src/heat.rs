//! Ranks by steps: five measures, and who waits for whom.

use std::collections::BTreeMap;

use serde::Serialize;
use trace_advisor::trace_model::Row;
use trace_advisor::{Error, Run};

use crate::concurrent::{self, Task};
use crate::encode::floats;
use crate::queries::{query, when_empty};

/// Most ranks and steps that the page carries; more steps are left out at the end.
const MAX_CELLS: usize = 120_000;
/// Pairs of ranks that wait for each other, most time first.
const MAX_PAIRS: usize = 300;

/// Measures of each step of each rank.
#[derive(Debug, Serialize)]
pub(crate) struct Heat {
    ranks: Vec<i64>,
    steps: Vec<i64>,
    /// Steps of the run, of which the first are shown.
    step_count: usize,
    measures: Vec<Measure>,
    /// Waiting rank, the rank it waits for, time, collectives.
    pairs: Vec<(i64, i64, i64, i64)>,
    /// Why no waiting is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_pairs: Option<String>,
}

#[derive(Debug, Serialize)]
struct Measure {
    name: &'static str,
    doc: &'static str,
    /// 32-bit floats, rank by rank, as base64.
    values: String,
}

const WAITING: &str = "Waiting";

/// Measures: name, description, and the query of their values.
const MEASURES: [(&str, &str, &str); 5] = [
    (
        "Step time",
        "until host and device are done with the step",
        "SELECT rank, step, dur_ns AS ns FROM step_time",
    ),
    (
        WAITING,
        "time in collectives waiting for other ranks",
        "SELECT rank, step, wait_ns AS ns FROM comm_wait_by_step WHERE is_complete",
    ),
    (
        "Communication",
        "communicating and not computing",
        "SELECT rank, step, communication_ns AS ns FROM step_breakdown_by_step WHERE step_ns > 0",
    ),
    (
        "Idle",
        "no device of the rank runs anything",
        "SELECT rank, step, min(step_ns - busy_ns) AS ns FROM gpu_utilization_by_step GROUP BY rank, step",
    ),
    (
        "Loading",
        "inside the DataLoader",
        "SELECT rank, step, dataloader_ns AS ns FROM step_breakdown_by_step WHERE step_ns > 0",
    ),
];

/// The measures; `None` for a run without steps, or with nothing to compare.
pub(crate) fn of(run: &Run) -> Result<Option<Heat>, Error> {
    let rows_of =
        |(name, doc, sql)| -> Task<'_, _> { Box::new(move || Ok((name, doc, query(run, sql)?))) };
    // A single rank waits for none that is known.
    let is_one = run.info().ranks.len() < 2;
    let measures = MEASURES.into_iter().filter(|(name, ..)| !(is_one && *name == WAITING));
    let all = concurrent::all(run, measures.map(rows_of))?;
    let times = &all[0].2;
    let mut steps: Vec<i64> = times.named_rows().filter_map(|row| row.integer("step")).collect();
    steps.sort_unstable();
    steps.dedup();
    let mut ranks: Vec<i64> = times.named_rows().filter_map(|row| row.integer("rank")).collect();
    ranks.sort_unstable();
    ranks.dedup();
    // A single step of a single rank is in the head already.
    if steps.is_empty() || ranks.is_empty() || steps.len() * ranks.len() == 1 {
        return Ok(None);
    }
    let step_count = steps.len();
    steps.truncate((MAX_CELLS / ranks.len()).max(1));
    let index = |list: &[i64]| -> BTreeMap<i64, usize> {
        list.iter().enumerate().map(|(i, value)| (*value, i)).collect()
    };
    let (rank_at, step_at) = (index(&ranks), index(&steps));
    let mut measures = Vec::new();
    for (name, doc, table) in &all {
        let mut values = vec![None; ranks.len() * steps.len()];
        let mut is_known = false;
        for row in table.named_rows() {
            let place = row.integer("rank").zip(row.integer("step"));
            let place = place.and_then(|(r, s)| Some((rank_at.get(&r)?, step_at.get(&s)?)));
            if let (Some((r, s)), Some(ns)) = (place, row.number("ns")) {
                values[r * steps.len() + s] = Some(ns);
                is_known |= ns > 0.0;
            }
        }
        if is_known {
            measures.push(Measure { name, doc, values: floats(&values) });
        }
    }
    let (pairs, no_pairs) = pairs(run, ranks.len())?;
    Ok(Some(Heat { ranks, steps, step_count, measures, pairs, no_pairs }))
}

type Pairs = Vec<(i64, i64, i64, i64)>;

/// Who waits for whom, most time first; else why that is not known.
fn pairs(run: &Run, ranks: usize) -> Result<(Pairs, Option<String>), Error> {
    if ranks < 2 {
        return Ok((Vec::new(), None));
    }
    let sql = format!(
        "SELECT rank, cause_rank, CAST(sum(waited_ns) AS BIGINT) AS ns, count(*) AS collectives FROM comm_arrivals \
         WHERE cause_rank IS NOT NULL AND cause_rank <> rank AND waited_ns > 0 AND is_complete \
         GROUP BY rank, cause_rank ORDER BY ns DESC, rank, cause_rank LIMIT {MAX_PAIRS}"
    );
    let table = query(run, &sql)?;
    let pair = |row: Row<'_>| {
        Some((
            row.integer("rank")?,
            row.integer("cause_rank")?,
            row.integer("ns")?,
            row.integer("collectives")?,
        ))
    };
    let pairs: Pairs = table.named_rows().filter_map(pair).collect();
    let why = pairs.is_empty().then(|| when_empty("comm_arrivals"));
    Ok((pairs, why))
}
