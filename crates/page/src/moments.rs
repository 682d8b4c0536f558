//! The moment of a finding: the time range in which it is worst, on one rank.

use trace_advisor::advisor::{Columns, Finding};
use trace_advisor::trace_model::time::time_range;
use trace_advisor::trace_model::{Row, Value};
use trace_advisor::{Error, Run};

use crate::queries::{literal, query};

/// Shortest range that is shown: less than a launch takes.
const MIN_SHOWN_NS: i64 = 40_000;

/// A moment to draw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) rank: i64,
    /// What is shown.
    pub(crate) from_ns: i64,
    pub(crate) to_ns: i64,
    /// What is marked in it.
    pub(crate) mark: Option<(i64, i64)>,
    /// What is marked or shown, in words.
    pub(crate) caption: String,
}

/// The steps of the run.
pub(crate) struct Steps {
    /// Rank, number, start, duration, and whether it is no more than the whole recording.
    rows: Vec<(i64, i64, i64, i64, bool)>,
}

impl Steps {
    pub(crate) fn of(run: &Run) -> Result<Self, Error> {
        let sql = "SELECT rank, step, ts_ns, dur_ns, source FROM steps WHERE dur_ns > 0 ORDER BY rank, ts_ns";
        let table = query(run, sql)?;
        let row = |row: Row<'_>| {
            let (rank, step) = (row.integer("rank")?, row.integer("step")?);
            let is_recording = row.text("source") == Some("trace");
            Some((rank, step, row.integer("ts_ns")?, row.integer("dur_ns")?, is_recording))
        };
        Ok(Self { rows: table.named_rows().filter_map(row).collect() })
    }

    /// The step of a rank, else its longest one but the first, which may warm up.
    pub(crate) fn find(&self, rank: i64, step: Option<i64>) -> Option<(i64, i64, i64)> {
        let of_rank = || self.rows.iter().filter(|row| row.0 == rank);
        if let Some(row) = of_rank().find(|row| Some(row.1) == step) {
            return Some((row.1, row.2, row.3));
        }
        let skip = usize::from(of_rank().count() > 1);
        let longest = of_rank().skip(skip).max_by_key(|row| (row.3, std::cmp::Reverse(row.2)));
        longest.map(|row| (row.1, row.2, row.3))
    }

    #[cfg(test)]
    pub(crate) fn of_rows(rows: &[(i64, i64, i64, i64, bool)]) -> Self {
        Self { rows: rows.to_vec() }
    }

    /// The steps of a rank: number, start and duration. A recording that is not divided into steps has none.
    pub(crate) fn of_rank(&self, rank: i64) -> impl Iterator<Item = (i64, i64, i64)> + '_ {
        let rows = self.rows.iter().filter(move |row| row.0 == rank && !row.4);
        rows.map(|row| (row.1, row.2, row.3))
    }
}

fn column<'a>(columns: &'a Columns, name: &str) -> Option<&'a Value> {
    columns.0.iter().find(|(column, _)| column == name).map(|(_, value)| value)
}

pub(crate) fn int(columns: &Columns, name: &str) -> Option<i64> {
    column(columns, name)?.as_f64().map(|value| value as i64)
}

/// The moment of a finding: its longest time range, else that of its evidence, else the longest call of the kernel or
/// operator that it is about, else a step.
pub(crate) fn of_finding(
    run: &Run,
    finding: &Finding,
    steps: &Steps,
) -> Result<Option<Moment>, Error> {
    let worst = finding.affected.worst.first().map(|row| &row.keys);
    let affected = finding.affected.ranks.first().copied();
    let lowest = run.info().ranks.first().map_or(0, |rank| i64::from(*rank));
    let rank = worst.and_then(|keys| int(keys, "rank")).or(affected).unwrap_or(lowest);
    let longest = finding.occurrences.as_ref().and_then(|seen| seen.longest.first());
    if let Some(range) = longest {
        let rank = int(&range.columns, "rank").unwrap_or(rank);
        return Ok(Some(around(rank, range.ts_ns, range.dur_ns, "its longest occurrence")));
    }
    let evidence = finding.evidence.iter().find_map(|row| Some((row, row.ts_ns?, row.dur_ns?)));
    if let Some((row, ts_ns, dur_ns)) = evidence {
        let rank = int(&row.columns, "rank").unwrap_or(rank);
        return Ok(Some(around(rank, ts_ns, dur_ns, "the evidence")));
    }
    let name = worst.and_then(|keys| match column(keys, "name")? {
        Value::Text(name) => Some(name.clone()),
        _ => None,
    });
    if let Some(name) = name {
        let sql = format!(
            "SELECT ts_ns, dur_ns FROM (SELECT rank, name, ts_ns, dur_ns FROM kernels UNION ALL \
             SELECT rank, name, ts_ns, dur_ns FROM cpu_ops) WHERE rank = {rank} AND name = {} \
             ORDER BY dur_ns DESC, ts_ns LIMIT 1",
            literal(&name)
        );
        let table = query(run, &sql)?;
        let range =
            table.first_row().and_then(|row| Some((row.integer("ts_ns")?, row.integer("dur_ns")?)));
        if let Some((ts_ns, dur_ns)) = range {
            return Ok(Some(around(rank, ts_ns, dur_ns, "the longest call")));
        }
    }
    let step = worst.and_then(|keys| int(keys, "step"));
    if step.is_none()
        && let Some((from, what)) = example(finding)
    {
        let sql = format!(
            "SELECT ts_ns, dur_ns FROM {from} AND rank = {rank} ORDER BY dur_ns DESC, ts_ns LIMIT 1"
        );
        let table = query(run, &sql)?;
        let range =
            table.first_row().and_then(|row| Some((row.integer("ts_ns")?, row.integer("dur_ns")?)));
        if let Some((ts_ns, dur_ns)) = range {
            return Ok(Some(around(rank, ts_ns, dur_ns, what)));
        }
    }
    Ok(steps.find(rank, step).map(|(step, ts_ns, dur_ns)| Moment {
        rank,
        from_ns: ts_ns,
        to_ns: ts_ns + dur_ns,
        mark: None,
        caption: format!("rank {rank}, step {step}, {}", time_range(ts_ns, dur_ns)),
    }))
}

/// What a finding without a moment of its own is about: where its events are, and their name.
fn example(finding: &Finding) -> Option<(&'static str, &'static str)> {
    let metric = finding.metric.as_str();
    let is_about = |words: &[&str]| words.iter().any(|word| metric.contains(word));
    match finding.category.as_str() {
        _ if is_about(&["transfers", "pageable", "pinned"]) => {
            Some(("memcpys WHERE true", "the longest copy"))
        }
        "comm" => Some(("comm_collectives WHERE dur_ns > 0", "the longest collective")),
        "optimizer" => Some((
            "annotations WHERE NOT on_device AND name LIKE 'Optimizer.step%'",
            "the longest optimizer step",
        )),
        "input-pipeline" => Some((
            "annotations WHERE NOT on_device AND name LIKE 'enumerate(DataLoader)%'",
            "the longest wait for a batch",
        )),
        "precision" => Some((
            "kernels WHERE kind = 'computation' AND tensor_cores <> 'yes' \
             AND (lower(name) LIKE '%gemm%' OR lower(name) LIKE '%conv%')",
            "the longest matmul or convolution without tensor cores",
        )),
        _ => None,
    }
}

/// The range with as much around it as shows what leads to it and what follows.
fn around(rank: i64, ts_ns: i64, dur_ns: i64, what: &str) -> Moment {
    let dur_ns = dur_ns.max(0);
    let margin = (dur_ns / 3).max((MIN_SHOWN_NS - dur_ns) / 2).max(1);
    Moment {
        rank,
        // Nothing was recorded before the start.
        from_ns: ts_ns.saturating_sub(margin).max(ts_ns.min(0)),
        to_ns: ts_ns.saturating_add(dur_ns).saturating_add(margin),
        mark: Some((ts_ns, ts_ns.saturating_add(dur_ns))),
        caption: format!("rank {rank}, {}; marked: {what}", time_range(ts_ns, dur_ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::around;

    #[test]
    fn around_shows_what_surrounds_even_an_instant() {
        let moment = around(1, 1_000_000, 0, "x");
        assert_eq!((moment.from_ns, moment.to_ns), (980_000, 1_020_000));
        let moment = around(1, 1_000_000, 300_000, "x");
        assert_eq!((moment.from_ns, moment.to_ns), (900_000, 1_400_000));
        assert!(around(0, i64::MAX, i64::MAX, "x").to_ns > 0);
    }
}
