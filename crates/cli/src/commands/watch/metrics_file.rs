//! The file that `--prometheus` names. It reports success only if the last round succeeded.

use std::fs;
use std::path::Path;

use super::prometheus::{self, START};
use crate::args::{OutputArgs, WatchArgs};
use crate::console::Console;
use crate::output::{begins_with, check_output, write_text};

/// A file in the text format of Prometheus.
#[derive(Debug)]
pub(super) struct MetricsFile<'a> {
    path: &'a Path,
    /// The path of the run, its label.
    run: String,
    /// Replace the file even if another program wrote it.
    force: bool,
    /// Measurements of the last successful check.
    measures: Option<String>,
    /// The content of the file, if it is known.
    content: Option<String>,
}

impl<'a> MetricsFile<'a> {
    /// The file that the command line names, if it names one.
    ///
    /// # Errors
    /// If a file is there that must not be replaced, or none can be written there.
    pub(super) fn of(args: &'a WatchArgs) -> anyhow::Result<Option<Self>> {
        let Some(path) = &args.prometheus else { return Ok(None) };
        let run = args.run.path.display().to_string();
        let file = Self { path, run, force: args.force, measures: None, content: None };
        check_output(&file.output())?;
        Ok(Some(file))
    }

    /// Takes the measures of a check that succeeded.
    pub(super) fn measure(&mut self, measures: String) {
        self.measures = Some(measures);
    }

    /// Shows the measures, or that the round has failed.
    ///
    /// # Errors
    /// If the file cannot be replaced. It then says at least that the round has failed, or is removed.
    pub(super) fn show(
        &mut self,
        is_good: bool,
        time: u64,
        console: &mut Console,
    ) -> anyhow::Result<()> {
        let failure = prometheus::of_failure(&self.run, time);
        let content = self.measures.as_ref().filter(|_| is_good).unwrap_or(&failure).clone();
        if self.content.as_ref() == Some(&content) {
            return Ok(());
        }
        self.content = None;
        if let Err(error) = write_text(&self.output(), &content, console) {
            // It is shorter than the measures, and may still fit.
            if write_text(&self.output(), &failure, console).is_err() {
                self.remove();
            }
            return Err(error);
        }
        self.content = Some(content);
        Ok(())
    }

    /// Removes the file that an earlier round has written. The caller reports why the file cannot be replaced; one that
    /// cannot be removed either, as on a disk that is read-only, has the same reason.
    fn remove(&self) {
        if begins_with(self.path, START) {
            let _ = fs::remove_file(self.path);
        }
    }

    fn output(&self) -> OutputArgs {
        let force = self.force || begins_with(self.path, START);
        OutputArgs { file: Some(self.path.to_owned()), force }
    }
}
