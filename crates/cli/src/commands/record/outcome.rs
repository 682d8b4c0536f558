//! What was recorded, and if nothing was, why.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use trace_advisor::query::Range;

use super::injection::Injection;
use crate::render::value::plural;

/// Status that a training process reports.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct TrainingStatus {
    rank: i64,
    step_count: i64,
    trace_count: usize,
    problem: Option<String>,
    /// The writer of the trace, `kineto` or `cuspy`; absent before the recording.
    #[serde(default)]
    writer: Option<String>,
    /// The reason why Cuspy did not record, if the choice was free.
    #[serde(default)]
    writer_reason: Option<String>,
}

impl TrainingStatus {
    /// Returns `Kineto` or `Kineto: <reason>`; `None` without a trace.
    fn writer_with_reason(&self) -> Option<String> {
        let writer = writer_name(self.writer.as_deref().filter(|_| self.trace_count > 0)?);
        Some(match &self.writer_reason {
            Some(reason) => format!("{writer}: {reason}"),
            None => writer.to_owned(),
        })
    }
}

/// Returns the display name of a writer.
fn writer_name(writer: &str) -> &str {
    match writer {
        "kineto" => "Kineto",
        "cuspy" => "Cuspy",
        other => other,
    }
}

/// What a process tells: about its training, or once it has imported PyTorch.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Status {
    Training(TrainingStatus),
    /// With the reason why training cannot be recorded with this PyTorch, if so.
    Torch {
        problem: Option<String>,
    },
}

/// Summary of what the processes of a program recorded.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Whether a process imported PyTorch.
    has_torch: bool,
    /// Why steps cannot be recorded with the PyTorch of the program.
    torch_problems: BTreeSet<String>,
    /// The processes with a training loop.
    trainings: Vec<TrainingStatus>,
    /// Memory snapshots of this program.
    snapshot_count: usize,
}

impl Outcome {
    /// Reads what the processes left. A file that cannot be read counts as a process that told nothing.
    pub(super) fn read(injection: &Injection, folder: &Path) -> Self {
        let mut outcome = Self::default();
        for file in injection.status_files().unwrap_or_default() {
            outcome.has_torch = true;
            let status = std::fs::read(&file).ok();
            match status.and_then(|text| serde_json::from_slice(&text).ok()) {
                Some(Status::Training(training)) => outcome.trainings.push(training),
                Some(Status::Torch { problem }) => outcome.torch_problems.extend(problem),
                None => {}
            }
        }
        outcome.trainings.sort_by_key(|training| (training.rank, training.step_count));
        let entries = folder.read_dir().into_iter().flatten().flatten();
        outcome.snapshot_count =
            entries.filter(|entry| injection.is_snapshot(&entry.path())).count();
        outcome
    }

    /// Returns true if there are traces or memory snapshots to check.
    pub(super) fn has_files(&self) -> bool {
        self.trace_count() + self.snapshot_count > 0
    }

    /// Returns true if nothing was recorded because it cannot be with the PyTorch of the program.
    pub(super) fn is_impossible(&self) -> bool {
        !self.torch_problems.is_empty() && !self.has_files()
    }

    fn trace_count(&self) -> usize {
        self.trainings.iter().map(|training| training.trace_count).sum()
    }

    /// Returns `recorded 2 traces and 1 memory snapshot in run; written by Kineto: <reason why Cuspy did not record>`.
    pub(super) fn summary(&self, folder: &Path) -> String {
        let snapshots = match self.snapshot_count {
            0 => String::new(),
            count => {
                format!(" and {} of a process that ran out of memory", plural(count, "snapshot"))
            }
        };
        let writers: BTreeSet<String> =
            self.trainings.iter().filter_map(TrainingStatus::writer_with_reason).collect();
        let writers: String = Vec::from_iter(writers).join("; by ");
        let written_by =
            if writers.is_empty() { writers } else { format!("; written by {writers}") };
        format!(
            "recorded {}{snapshots} in {}{written_by}",
            plural(self.trace_count(), "trace"),
            folder.display()
        )
    }

    /// Returns the traces that Cuspy did not write, with the reasons.
    pub(super) fn other_writers(&self) -> Vec<String> {
        let others = self.trainings.iter().filter(|t| t.writer.as_deref() != Some("cuspy"));
        let warning = |training: &TrainingStatus| {
            let writer = training.writer_with_reason()?;
            Some(format!("the trace of rank {} is written by {writer}", training.rank))
        };
        others.filter_map(warning).collect()
    }

    /// Why traces are missing.
    pub(super) fn problems(&self, steps: Range) -> Vec<String> {
        if self.is_impossible() {
            let problems = self.torch_problems.iter();
            return problems.map(|problem| format!("nothing was recorded: {problem}")).collect();
        }
        if self.trainings.is_empty() {
            let reason = if self.has_torch {
                "no optimizer of PyTorch made a step"
            } else {
                "no Python process imported PyTorch (with `python -I` or `-E`, it cannot be recorded)"
            };
            return vec![format!("nothing was recorded: {reason}")];
        }
        let mut problems: Vec<String> = self.torch_problems.iter().cloned().collect();
        for training in self.trainings.iter().filter(|training| training.trace_count == 0) {
            let rank = training.rank;
            let reason = match &training.problem {
                Some(problem) => problem.clone(),
                None => too_few_steps(training.step_count, steps),
            };
            problems.push(format!("no trace of rank {rank}: {reason}"));
        }
        problems
    }
}

fn too_few_steps(step_count: i64, steps: Range) -> String {
    let made = match usize::try_from(step_count) {
        Ok(0) | Err(_) => "it ended in the first step, or without running exit handlers".to_owned(),
        Ok(count) => format!("it made {}", plural(count, "step")),
    };
    let first = steps.first;
    let hint = match step_count {
        ..=4 => String::new(),
        count => format!("; try --steps {}-{}", (count - 7).max(2), count - 2),
    };
    format!("{made}, and the recording starts with step {first}{hint}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use trace_advisor::query::Range;

    use super::{Outcome, Status, TrainingStatus};

    const STEPS: Range = Range { first: 10, last: 16 };

    fn training(step_count: i64, problem: Option<&str>) -> TrainingStatus {
        let problem = problem.map(str::to_owned);
        TrainingStatus {
            rank: 1,
            step_count,
            trace_count: 0,
            problem,
            writer: None,
            writer_reason: None,
        }
    }

    #[test]
    fn problems_say_what_is_missing() {
        let cases = [
            (false, vec![], "nothing was recorded: no Python process imported PyTorch"),
            (true, vec![], "nothing was recorded: no optimizer of PyTorch made a step"),
            (
                true,
                vec![training(9, None)],
                "no trace of rank 1: it made 9 steps, and the recording starts with step 10; try --steps 2-7",
            ),
            (
                true,
                vec![training(3, None)],
                "no trace of rank 1: it made 3 steps, and the recording starts with step 10",
            ),
            (true, vec![training(8, Some("broken"))], "no trace of rank 1: broken"),
        ];
        for (has_torch, trainings, expected) in cases {
            let outcome = Outcome { has_torch, trainings, ..Outcome::default() };
            assert!(!outcome.has_files() && !outcome.is_impossible());
            let problems = outcome.problems(STEPS);
            assert!(problems[0].starts_with(expected), "{problems:?}");
        }
        let recorded = TrainingStatus { trace_count: 1, ..training(17, None) };
        let outcome = Outcome { has_torch: true, trainings: vec![recorded], ..Outcome::default() };
        assert!(outcome.problems(STEPS).is_empty() && outcome.has_files());
    }

    #[test]
    fn summary_names_the_trace_writer_and_the_reason() {
        let told = r#"{"rank": 0, "step_count": 17, "trace_count": 1, "problem": null, "writer": "kineto",
                       "writer_reason": "PyTorch 2.9.0 does not have Cuspy"}"#;
        let Ok(Status::Training(kineto)) = serde_json::from_str(told) else { panic!() };
        let cuspy = TrainingStatus {
            rank: 1,
            writer: Some("cuspy".to_owned()),
            writer_reason: None,
            ..kineto.clone()
        };
        let outcome = |trainings: Vec<TrainingStatus>| Outcome {
            has_torch: true,
            trainings,
            ..Outcome::default()
        };
        let folder = Path::new("run");
        assert_eq!(
            outcome(vec![kineto.clone()]).summary(folder),
            "recorded 1 trace in run; written by Kineto: PyTorch 2.9.0 does not have Cuspy"
        );
        assert_eq!(
            outcome(vec![cuspy.clone(), cuspy.clone()]).summary(folder),
            "recorded 2 traces in run; written by Cuspy"
        );
        assert_eq!(
            outcome(vec![kineto, cuspy]).other_writers(),
            ["the trace of rank 0 is written by Kineto: PyTorch 2.9.0 does not have Cuspy"]
        );
        // An older recorder does not report its writer.
        let silent = TrainingStatus { trace_count: 1, ..training(17, None) };
        assert_eq!(outcome(vec![silent]).summary(folder), "recorded 1 trace in run");
    }

    #[test]
    fn unsupported_versions_of_pytorch_are_the_reason() {
        let told = r#"{"version": "1.13.1", "problem": "PyTorch 1.13.1 is too old"}"#;
        let Ok(Status::Torch { problem }) = serde_json::from_str(told) else { panic!() };
        let broken = vec![training(0, Some("AttributeError"))];
        for trainings in [vec![], broken] {
            let torch_problems = problem.clone().into_iter().collect();
            let outcome =
                Outcome { has_torch: true, torch_problems, trainings, ..Outcome::default() };
            assert!(outcome.is_impossible());
            assert_eq!(
                outcome.problems(STEPS),
                ["nothing was recorded: PyTorch 1.13.1 is too old"]
            );
        }
    }
}
