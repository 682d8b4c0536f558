//! Comparing two runs, and rendering the comparison.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use trace_advisor::Run;
use trace_advisor::trace_model::RecordBatch;

use super::output::{Style, buffered};
use super::work_progress::WorkProgress;
use super::{parse, with_format};
use crate::args::{Command, DiffArgs, DiffFormat};
use crate::cluster;
use crate::commands::diff::Compared;
use crate::rule_files;
use crate::run::open_options;

/// The options of `advisor diff`.
#[derive(Debug)]
pub struct DiffOptions(DiffArgs);

impl DiffOptions {
    /// Parses options such as `--limit=20`.
    ///
    /// # Errors
    /// If there is no such option, or its value is wrong.
    pub fn parse(before: &Path, after: &Path, options: &[OsString]) -> anyhow::Result<Self> {
        let mut arguments = vec![OsString::from("diff")];
        arguments.extend_from_slice(options);
        let paths = [before, after].map(|path| path.as_os_str().to_owned());
        arguments.push(OsString::from("--"));
        arguments.extend(paths);
        match parse(&arguments)? {
            Command::Diff(args) if args.hta.is_none() => Ok(Self(args)),
            _ => Err(anyhow::Error::msg("expected options of `advisor diff`")),
        }
    }

    /// Opens the two runs, first the one before the change.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn open(&self, progress: &WorkProgress) -> anyhow::Result<(Run, Run)> {
        let options = trace_advisor::OpenOptions {
            view_progress: Some(progress.views()),
            ..open_options(&self.0.read)?
        };
        let (read, rules) = (&self.0.read, Some(&self.0.rules.files));
        for run in [&self.0.before, &self.0.after] {
            cluster::map_run(run, &read.mapped, &read.input, rules)?;
        }
        let before = Run::open_with(&self.0.before, &options, progress.files())?;
        let after = Run::open_with(&self.0.after, &options, progress.files())?;
        Ok((before, after))
    }

    /// Compares two open runs.
    ///
    /// # Errors
    /// If a rule file is wrong or the runs cannot be compared.
    pub fn compare(self, before: Arc<Run>, after: Arc<Run>) -> anyhow::Result<ComparedRuns> {
        let (mut console, _) = buffered(None);
        let rules = rule_files::load_selected(&self.0.rules, &mut console)?;
        let compared = Compared::of(before, after, rules, &self.0)?;
        Ok(ComparedRuns { compared, args: self.0 })
    }
}

/// A comparison of two runs.
pub struct ComparedRuns {
    compared: Compared<Arc<Run>>,
    args: DiffArgs,
}

impl ComparedRuns {
    /// The names that one of the runs has, with calls and time before and after; one row per name and level.
    ///
    /// # Errors
    /// If the rows do not fit in a batch.
    pub fn rows(&self) -> anyhow::Result<RecordBatch> {
        Ok(self.compared.diff.batch()?)
    }

    /// Whether `advisor diff` would exit with code 1.
    pub fn has_failed(&self) -> bool {
        self.compared.fails(&self.args)
    }

    /// The comparison in a format of `advisor diff`, with options about the output, such as `--limit=5`.
    ///
    /// # Errors
    /// If there is no such format or option.
    pub fn render(
        &self,
        format: &str,
        options: &[OsString],
        style: Style,
    ) -> anyhow::Result<String> {
        let options = with_format(format, options);
        let DiffOptions(shown) = DiffOptions::parse(&self.args.before, &self.args.after, &options)?;
        let DiffArgs { format, wide, limit, .. } = shown;
        let args = DiffArgs { format, wide, limit, ..self.args.clone() };
        let terminal = style.terminal.filter(|_| args.format() == DiffFormat::Text);
        let (mut console, output) = buffered(terminal);
        self.compared.print(&args, &mut console)?;
        console.out.flush()?;
        output.out(style)
    }
}

impl std::fmt::Debug for ComparedRuns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComparedRuns").field("args", &self.args).finish_non_exhaustive()
    }
}
