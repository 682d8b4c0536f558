//! Earlier reports from disk, to compare new ones with.

use std::path::Path;

use trace_advisor::advisor::Baseline;
use trace_advisor::{Report, RuleSet};

use crate::diagnostics::with_help;
use crate::text_file;

/// A file of earlier reports.
pub(crate) struct BaselineFile {
    path: String,
    baseline: Baseline,
}

/// Reads a file that `advisor check --format json` wrote.
pub(crate) fn read(path: &Path) -> anyhow::Result<BaselineFile> {
    let shown = path.display().to_string();
    let text = text_file::read(path, "baseline", text_file::MAX_REPORT_BYTES)?;
    let baseline = Baseline::parse(&text).map_err(|reason| {
        let help = "`advisor check run/ --format json -o baseline.json` writes a baseline";
        with_help(format!("{shown} is not a baseline: {reason}"), help)
    })?;
    Ok(BaselineFile { path: shown, baseline })
}

impl BaselineFile {
    /// The reports of the file.
    pub(crate) fn into_baseline(self) -> Baseline {
        self.baseline
    }

    /// Compares report `index` of `count` with the report of the same run in the file.
    pub(crate) fn apply(
        &self,
        report: &mut Report,
        (index, count): (usize, usize),
        rules: &RuleSet,
    ) -> anyhow::Result<()> {
        let Some(old) = self.baseline.of(&report.run.path, index, count) else {
            return Err(with_help(
                format!("{} has no report of {}", self.path, report.run.path),
                "runs are found by path; or pass as many runs as the baseline has, in the same order",
            ));
        };
        report.apply_baseline(old, &self.path, rules);
        Ok(())
    }
}
