//! An earlier report from disk, to hold new ones against.

use std::path::Path;

use anyhow::Context as _;
use trace_advisor::advisor::Baseline;
use trace_advisor::{Report, RuleSet};

use crate::failure::helped;

/// A file of earlier reports.
pub(crate) struct BaselineFile {
    path: String,
    baseline: Baseline,
}

/// Reads what `advisor check --format json` wrote.
pub(crate) fn read(path: &Path) -> anyhow::Result<BaselineFile> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the baseline {shown}"))?;
    let baseline = Baseline::parse(&text).map_err(|why| {
        let help = "`advisor check run/ --format json -o baseline.json` writes one";
        helped(format!("{shown} is no baseline: {why}"), help)
    })?;
    Ok(BaselineFile { path: shown, baseline })
}

impl BaselineFile {
    /// Holds report `index` of `count` against its own of the file.
    pub(crate) fn hold_against(
        &self,
        report: &mut Report,
        (index, count): (usize, usize),
        rules: &RuleSet,
    ) -> anyhow::Result<()> {
        let Some(old) = self.baseline.of(&report.run.path, index, count) else {
            return Err(helped(
                format!("{} holds no report of {}", self.path, report.run.path),
                "runs are found by path; or give as many runs as the baseline has, in its order",
            ));
        };
        report.apply_baseline(old, &self.path, rules);
        Ok(())
    }
}
