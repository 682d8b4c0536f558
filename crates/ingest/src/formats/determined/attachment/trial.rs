//! The trial that is read, its agents and its files.

use std::collections::{BTreeMap, BTreeSet};

use trace_model::StrId;

use super::choice::trial_name;
use super::merge::Merged;
use crate::formats::determined::metrics::Metrics;

/// The metrics of one trial.
#[derive(Debug)]
pub(super) struct Trial {
    /// Null if unknown.
    pub(super) number: i64,
    pub(super) merged: Merged,
    /// In order of name, with their ranks; by the position of their names.
    pub(super) agents: Vec<Agent>,
    pub(super) files: Vec<File>,
}

impl Trial {
    pub(super) fn name(&self) -> String {
        trial_name(self.number)
    }
}

/// A machine that reported.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) name: StrId,
    pub(super) rank: i32,
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Samples of the trial in it.
    pub(super) samples: u64,
    /// Rank of its first agent.
    pub(super) rank: i32,
}

/// The agents in order of their names, each with the first of the ranks on its machine. `ranks` are those of the
/// traces.
pub(super) fn agents(merged: &Merged, ranks: &BTreeSet<i32>) -> Vec<Agent> {
    let ranks: Vec<i32> = ranks.iter().copied().collect();
    let names: BTreeMap<&str, StrId> = merged
        .series
        .iter()
        .map(|series| (merged.strings.get(series.agent), series.agent))
        .collect();
    let count = names.len();
    let rank = |i: usize| match ranks.len() {
        0 => i as i32,
        n => ranks[i * n / count],
    };
    names.into_values().enumerate().map(|(i, name)| Agent { name, rank: rank(i) }).collect()
}

/// Describes a file of the trial.
pub(super) fn file(
    name: String,
    metrics: &Metrics,
    trial: i64,
    merged: &Merged,
    agents: &[Agent],
) -> File {
    let of_trial: Vec<bool> = metrics.series.iter().map(|series| series.trial == trial).collect();
    let points = metrics.points.iter().filter(|point| of_trial[point.series as usize]);
    let first = metrics
        .series
        .iter()
        .filter(|series| series.trial == trial)
        .map(|series| metrics.strings.get(series.agent))
        .min();
    let first =
        first.and_then(|first| agents.iter().find(|agent| merged.strings.get(agent.name) == first));
    let rank = first.or(agents.first()).map_or(0, |agent| agent.rank);
    File { name, bytes: metrics.bytes, samples: points.count() as u64, rank }
}
