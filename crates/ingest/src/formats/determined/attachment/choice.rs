//! Chooses the trial whose metrics are read.

use std::collections::BTreeMap;

use trace_model::Warning;
use trace_model::column::NULL_I64;

use crate::formats::determined::metrics::Metrics;
use crate::run::rank_trace::{RankData, RankTrace};
use crate::timeline::placement::Timeline;
use crate::warnings::run_warning;

/// First and last sample of a trial, since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct TrialExtent {
    start_ns: i64,
    end_ns: i64,
}

/// First and last sample of each trial.
pub(super) fn trials(files: &[(String, Metrics)]) -> BTreeMap<i64, TrialExtent> {
    let mut trials: BTreeMap<i64, TrialExtent> = BTreeMap::new();
    for (_, metrics) in files {
        for point in &metrics.points {
            let trial = metrics.series[point.series as usize].trial;
            let extent = trials
                .entry(trial)
                .or_insert(TrialExtent { start_ns: point.ts_ns, end_ns: point.ts_ns });
            extent.start_ns = extent.start_ns.min(point.ts_ns);
            extent.end_ns = extent.end_ns.max(point.ts_ns);
        }
    }
    trials
}

/// The time during which the traces were recorded, since 1970, if they state it.
pub(super) fn recorded(traces: &[RankTrace<RankData>]) -> Option<(i64, i64)> {
    let spans = || {
        traces.iter().filter_map(|trace| {
            let base = trace.base_time_ns()?;
            let (start, end) = trace.trace.extent();
            Some((base.saturating_add(start), base.saturating_add(end)))
        })
    };
    spans().map(|(start, _)| start).min().zip(spans().map(|(_, end)| end).max())
}

fn overlaps(extent: TrialExtent, (start_ns, end_ns): (i64, i64)) -> bool {
    extent.start_ns <= end_ns && extent.end_ns >= start_ns
}

/// The trial that was requested, else the only one that ran while the traces were recorded, else the newest.
pub(super) fn choose(
    trials: &BTreeMap<i64, TrialExtent>,
    recorded: Option<(i64, i64)>,
    requested: Option<i64>,
) -> Option<i64> {
    if let Some(requested) = requested {
        return trials.contains_key(&requested).then_some(requested);
    }
    let mut running =
        trials.iter().filter(|(_, extent)| recorded.is_some_and(|span| overlaps(**extent, span)));
    match (running.next(), running.next()) {
        (Some((&trial, _)), None) => Some(trial),
        _ => trials.keys().next_back().copied(),
    }
}

/// Warns of trials that were not read, and of a trial that did not run while the traces were recorded.
pub(super) fn warn_of_others(
    trials: &BTreeMap<i64, TrialExtent>,
    trial: i64,
    requested: Option<i64>,
    recorded: Option<(i64, i64)>,
    warnings: &mut Vec<Warning>,
) {
    let others: Vec<&i64> = trials.keys().filter(|&&other| other != trial).collect();
    if !others.is_empty() && requested.is_none() {
        let message = format!(
            "metrics of {} trials: {} was read, not {} (--trial chooses another)",
            trials.len(),
            trial_name(trial),
            list(others.iter().copied()),
        );
        let warning = run_warning("several-trials", String::new(), message);
        warnings.push(Warning { count: others.len() as u64, ..warning });
    }
    if recorded.is_some_and(|span| !overlaps(trials[&trial], span)) {
        let message = format!(
            "the metrics of {} and the traces are from different times: from different runs, or on clocks that are far apart",
            trial_name(trial)
        );
        warnings.push(run_warning("metrics-of-another-time", String::new(), message));
    }
}

pub(super) fn trial_name(trial: i64) -> String {
    if trial == NULL_I64 {
        "the trial without a number".to_owned()
    } else {
        format!("trial {trial}")
    }
}

/// The first few numbers of trials, for messages.
pub(super) fn list<'a>(trials: impl Iterator<Item = &'a i64>) -> String {
    const SHOWN: usize = 8;
    let trials: Vec<String> = trials
        .map(
            |&trial| {
                if trial == NULL_I64 { "one without a number".into() } else { trial.to_string() }
            },
        )
        .collect();
    let more = if trials.len() > SHOWN { ", ..." } else { "" };
    format!("{}{more}", trials[..trials.len().min(SHOWN)].join(", "))
}
