//! Metrics of Determined's profiler in a run: which trial is read, which rank each agent is, and where its
//! samples lie on the run's clock.

mod merge;
mod tables;
mod target;
mod timings;
mod units;

use std::collections::{BTreeMap, BTreeSet};

use trace_model::column::NULL_I64;
use trace_model::{StrId, Warning};

use self::merge::{Merged, merge};
use crate::error::Error;
use crate::formats::determined::Metrics;
use crate::run::{Member, run_warning};

pub(crate) use self::tables::into_tables;

/// The metrics of one trial.
#[derive(Debug)]
pub(crate) struct Trial {
    /// Absent where nothing says it.
    number: i64,
    merged: Merged,
    /// In order of name, with their ranks; by the position of their names.
    agents: Vec<Agent>,
    files: Vec<File>,
}

impl Trial {
    fn name(&self) -> String {
        name(self.number)
    }
}

/// A machine that reported.
#[derive(Debug)]
struct Agent {
    name: StrId,
    rank: i32,
}

/// A file that was read.
#[derive(Debug)]
struct File {
    name: String,
    bytes: u64,
    /// Samples of the trial in it.
    samples: u64,
    /// Rank of its first agent.
    rank: i32,
}

/// What is known of a trial before it is chosen.
#[derive(Debug, Clone, Copy)]
struct Seen {
    start_ns: i64,
    end_ns: i64,
}

/// Why no trial can be read.
pub(crate) struct Nothing {
    /// The only file; absent if there are several.
    file: Option<String>,
    reason: String,
}

impl Nothing {
    /// As an error of a run in which there is nothing else.
    pub(crate) fn error(self, run: &str) -> Error {
        Error::Unusable { file: self.file.unwrap_or_else(|| run.to_owned()), reason: self.reason }
    }

    /// As a warning, where there is.
    pub(crate) fn warning(self) -> Warning {
        run_warning("no-metrics", self.file.unwrap_or_default(), self.reason)
    }
}

/// Chooses the trial: the one that was asked for, else the only one that was running while the traces were
/// recorded, else the newest. `Ok(None)` if there are no files.
pub(crate) fn assign(
    files: Vec<(String, Metrics)>,
    members: &[Member],
    asked: Option<i64>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Trial>, Nothing> {
    for (file, metrics) in &files {
        warnings.extend(metrics.warnings(file));
    }
    if files.is_empty() {
        return Ok(None);
    }
    let nothing = |reason: String| {
        let file = if let [(only, _)] = &files[..] { Some(only.clone()) } else { None };
        Nothing { file, reason }
    };
    let trials = trials(&files);
    let recorded = recorded(members);
    let Some(trial) = choose(&trials, recorded, asked) else {
        return Err(nothing(match asked {
            Some(asked) if !trials.is_empty() => {
                format!("there are no metrics of trial {asked}, only of {}", list(trials.keys()))
            }
            _ => no_samples(&files),
        }));
    };
    warn_of_others(&trials, trial, asked, recorded, warnings);
    let merged = merge(&files, trial, warnings);
    warn_of_unread(&files, trial, &merged, warnings);
    let agents = agents(&merged, members);
    let files =
        files.into_iter().map(|(name, metrics)| file(name, &metrics, trial, &merged, &agents));
    let files = files.collect();
    Ok(Some(Trial { number: trial, merged, agents, files }))
}

/// Names metrics that were not read because folders above them hold some.
pub(crate) fn aside(files: &[String]) -> Option<Warning> {
    const SHOWN: usize = 3;
    if files.is_empty() {
        return None;
    }
    let more = if files.len() > SHOWN { ", ..." } else { "" };
    let message = format!(
        "metrics in folders below other metrics were not read, as they are most likely the same once more: {}{more}",
        files[..files.len().min(SHOWN)].join(", ")
    );
    let warning = run_warning("metrics-below", String::new(), message);
    Some(Warning { count: files.len() as u64, ..warning })
}

/// First and last sample of each trial.
fn trials(files: &[(String, Metrics)]) -> BTreeMap<i64, Seen> {
    let mut trials: BTreeMap<i64, Seen> = BTreeMap::new();
    for (_, metrics) in files {
        for point in &metrics.points {
            let trial = metrics.series[point.series as usize].trial;
            let seen =
                trials.entry(trial).or_insert(Seen { start_ns: point.ts_ns, end_ns: point.ts_ns });
            seen.start_ns = seen.start_ns.min(point.ts_ns);
            seen.end_ns = seen.end_ns.max(point.ts_ns);
        }
    }
    trials
}

/// When the traces were recorded, if they say so.
fn recorded(members: &[Member]) -> Option<(i64, i64)> {
    let spans = || {
        members.iter().filter_map(|member| {
            let base = member.base_time_ns()?;
            Some((
                base.saturating_add(member.trace.start_ns),
                base.saturating_add(member.trace.end_ns),
            ))
        })
    };
    spans().map(|(start, _)| start).min().zip(spans().map(|(_, end)| end).max())
}

fn overlaps(seen: Seen, (start_ns, end_ns): (i64, i64)) -> bool {
    seen.start_ns <= end_ns && seen.end_ns >= start_ns
}

fn choose(
    trials: &BTreeMap<i64, Seen>,
    recorded: Option<(i64, i64)>,
    asked: Option<i64>,
) -> Option<i64> {
    if let Some(asked) = asked {
        return trials.contains_key(&asked).then_some(asked);
    }
    let mut running =
        trials.iter().filter(|(_, seen)| recorded.is_some_and(|span| overlaps(**seen, span)));
    match (running.next(), running.next()) {
        (Some((&trial, _)), None) => Some(trial),
        _ => trials.keys().next_back().copied(),
    }
}

/// Says which trials were not read, and whether the one that was is of the time of the traces.
fn warn_of_others(
    trials: &BTreeMap<i64, Seen>,
    trial: i64,
    asked: Option<i64>,
    recorded: Option<(i64, i64)>,
    warnings: &mut Vec<Warning>,
) {
    let others: Vec<&i64> = trials.keys().filter(|&&other| other != trial).collect();
    if !others.is_empty() && asked.is_none() {
        let message = format!(
            "metrics of {} trials: {} was read, not {} (--trial chooses another)",
            trials.len(),
            name(trial),
            list(others.iter().copied()),
        );
        let warning = run_warning("several-trials", String::new(), message);
        warnings.push(Warning { count: others.len() as u64, ..warning });
    }
    if recorded.is_some_and(|span| !overlaps(trials[&trial], span)) {
        let message = format!(
            "the metrics of {} and the traces are of different times: not of the same run, or of clocks far apart",
            name(trial)
        );
        warnings.push(run_warning("metrics-of-another-time", String::new(), message));
    }
}

/// Says which series the server has of which there are no samples here.
fn warn_of_unread(
    files: &[(String, Metrics)],
    trial: i64,
    merged: &Merged,
    warnings: &mut Vec<Warning>,
) {
    let mut missing: BTreeSet<String> = BTreeSet::new();
    for (_, metrics) in files {
        for &listed in &metrics.listed {
            let series = metrics.series[listed as usize];
            let text = |id: StrId| metrics.strings.get(id);
            if series.trial == trial
                && !merged.has(text(series.name), text(series.agent), text(series.device))
            {
                missing.insert(text(series.name).to_owned());
            }
        }
    }
    if !missing.is_empty() {
        let shown: Vec<&str> = missing.iter().take(8).map(String::as_str).collect();
        let more = if missing.len() > shown.len() { ", ..." } else { "" };
        let message = format!(
            "Determined lists series of which no samples are here: {}{more}",
            shown.join(", ")
        );
        let warning = run_warning("series-without-samples", String::new(), message);
        warnings.push(Warning { count: missing.len() as u64, ..warning });
    }
}

/// Why there is nothing to choose from.
fn no_samples(files: &[(String, Metrics)]) -> String {
    let listed: usize = files.iter().map(|(_, metrics)| metrics.listed.len()).sum();
    let said = files.iter().find_map(|(file, metrics)| {
        metrics.warnings(file).into_iter().find(|warning| warning.code == "determined-error")
    });
    match said {
        Some(warning) => warning.message,
        None if listed > 0 => format!(
            "{listed} series are listed, but there are no samples: save the answers of \
             /api/v1/trials/{{id}}/profiler/metrics too"
        ),
        None => "metrics of Determined's profiler, but not a single sample".to_owned(),
    }
}

/// Agents in order of their names, and their ranks: each reports for the first of its ranks.
fn agents(merged: &Merged, members: &[Member]) -> Vec<Agent> {
    let ranks: BTreeSet<i32> = members.iter().map(|member| member.rank).collect();
    let ranks: Vec<i32> = ranks.into_iter().collect();
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

fn file(name: String, metrics: &Metrics, trial: i64, merged: &Merged, agents: &[Agent]) -> File {
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

fn name(trial: i64) -> String {
    if trial == NULL_I64 {
        "the trial without a number".to_owned()
    } else {
        format!("trial {trial}")
    }
}

/// Some numbers of trials, the first few.
fn list<'a>(trials: impl Iterator<Item = &'a i64>) -> String {
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
