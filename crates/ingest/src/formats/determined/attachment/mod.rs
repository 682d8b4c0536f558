//! Metrics of Determined's profiler in a run: the trial that is read, the rank of each agent, and the place of its
//! samples on the run's clock.

mod choice;
mod merge;
mod tables;
mod target;
mod timings;
mod trial;
mod units;

use std::collections::BTreeSet;

use trace_model::{StrId, Warning};

use self::choice::{choose, list, recorded, trials, warn_of_others};
use self::merge::{Merged, merge};
use self::trial::{Trial, agents, file};
use crate::error::Error;
use crate::formats::determined::metrics::Metrics;
use crate::run::attachment::{Attachment, AttachmentKind, RunBuilder, RunContext, TimelineState};
use crate::run::rank_trace::{RankData, RankTrace};
use crate::warnings::run_warning;

/// Determined's metrics in a run.
pub(crate) struct DeterminedFiles {
    files: Vec<(String, Metrics)>,
    trial: Option<Trial>,
}

/// Why no trial can be read.
struct NoTrial {
    /// The only file; absent if there are several.
    file: Option<String>,
    reason: String,
}

/// The attachment that joins metrics of Determined's profiler with timelines.
pub(crate) static ATTACHMENT: AttachmentKind = AttachmentKind {
    files: "metrics of Determined's profiler",
    needs: TimelineState::Stored,
    adds_rows_by_rank: true,
    create: |files| Box::new(DeterminedFiles { files: files.contents(), trial: None }),
};

impl Attachment for DeterminedFiles {
    /// Chooses the trial.
    fn assign(
        &mut self,
        traces: &[RankTrace<RankData>],
        run: RunContext<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Error> {
        let files = std::mem::take(&mut self.files);
        match read_trial(files, traces, run.options.trial, warnings) {
            Ok(trial) => self.trial = trial,
            Err(NoTrial { file, reason }) if !run.has_other_files => {
                return Err(Error::Unusable {
                    file: file.unwrap_or_else(|| run.name.to_owned()),
                    reason,
                });
            }
            Err(NoTrial { file, reason }) => {
                warnings.push(run_warning("no-metrics", file.unwrap_or_default(), reason));
            }
        }
        Ok(())
    }

    fn add_to(self: Box<Self>, run: &mut RunBuilder) {
        if let Some(trial) = &self.trial {
            tables::add_to(trial, run);
        }
    }
}

/// Merges the files of one trial; `Ok(None)` if there are no files.
fn read_trial(
    files: Vec<(String, Metrics)>,
    traces: &[RankTrace<RankData>],
    requested: Option<i64>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<Trial>, NoTrial> {
    for (file, metrics) in &files {
        warnings.extend(metrics.warnings(file));
    }
    if files.is_empty() {
        return Ok(None);
    }
    let trials = trials(&files);
    let recorded = recorded(traces);
    let Some(number) = choose(&trials, recorded, requested) else {
        let file = if let [(only, _)] = &files[..] { Some(only.clone()) } else { None };
        let reason = match requested {
            Some(requested) if !trials.is_empty() => {
                format!(
                    "there are no metrics of trial {requested}, only of {}",
                    list(trials.keys())
                )
            }
            _ => no_samples(&files),
        };
        return Err(NoTrial { file, reason });
    };
    warn_of_others(&trials, number, requested, recorded, warnings);
    let merged = merge(&files, number, warnings);
    warn_of_unread(&files, number, &merged, warnings);
    let ranks: BTreeSet<i32> = traces.iter().map(|trace| trace.rank).collect();
    let agents = agents(&merged, &ranks);
    let files =
        files.into_iter().map(|(name, metrics)| file(name, &metrics, number, &merged, &agents));
    let files = files.collect();
    Ok(Some(Trial { number, merged, agents, files }))
}

/// Warns of series that the server lists without samples in these files.
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

/// Explains why there is no trial to choose from.
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
