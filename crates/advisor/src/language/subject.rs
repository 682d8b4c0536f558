//! What a rule is about: it decides whether a rule without a verdict applies to the run at all.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a rule is about.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// Programs that use an accelerator; the rule does not apply to a program on the CPU.
    Gpu,
    /// Programs that run on the CPU.
    Cpu,
    /// Memory snapshots; only such rules apply to a run that holds nothing else.
    MemorySnapshot,
    /// Differences between ranks.
    Ranks,
    /// The run, whatever it runs on.
    Run,
}

/// What a run is, as far as it decides which rules apply to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RunKind {
    /// The program runs on the CPU.
    pub(crate) is_on_cpu: bool,
    /// The run holds memory snapshots only.
    pub(crate) is_memory_only: bool,
}

impl Subject {
    /// Name in rule files and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Cpu => "cpu",
            Self::MemorySnapshot => "memory_snapshot",
            Self::Ranks => "ranks",
            Self::Run => "run",
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl RunKind {
    /// Returns whether a rule about these subjects applies to the run.
    pub(crate) fn has_any(self, subjects: &[Subject]) -> bool {
        if self.is_memory_only {
            return subjects.contains(&Subject::MemorySnapshot);
        }
        let is_about_gpu = |subject: &Subject| {
            // Snapshots are about the memory of a GPU, too.
            matches!(subject, Subject::Gpu | Subject::MemorySnapshot)
        };
        !(self.is_on_cpu && subjects.contains(&Subject::Gpu) && subjects.iter().all(is_about_gpu))
    }
}

#[cfg(test)]
mod tests {
    use super::RunKind;
    use super::Subject::{Cpu, Gpu, MemorySnapshot, Run};

    #[test]
    fn rules_about_other_programs_do_not_apply() {
        let on_cpu = RunKind { is_on_cpu: true, is_memory_only: false };
        let snapshot = RunKind { is_on_cpu: false, is_memory_only: true };
        let on_gpu = RunKind::default();
        for (subjects, expected) in [
            (&[Run][..], [true, false, true]),
            (&[Gpu], [false, false, true]),
            (&[Cpu], [true, false, true]),
            (&[MemorySnapshot], [true, true, true]),
            (&[Gpu, MemorySnapshot], [false, true, true]),
            (&[Gpu, Cpu], [true, false, true]),
        ] {
            let applies = [on_cpu, snapshot, on_gpu].map(|run| run.has_any(subjects));
            assert_eq!(applies, expected, "{subjects:?}");
        }
    }
}
