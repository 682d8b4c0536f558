//! Opening a run, checking it, and rendering its report.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum as _;
use trace_advisor::{OpenOptions, Report, RuleSet, Run};

use super::output::{Style, buffered};
use super::work_progress::WorkProgress;
use super::{parse, with_format};
use crate::args::{CheckArgs, Command, ReportFormat, TimelineFormat};
use crate::baseline;
use crate::cluster;
use crate::commands::{check, timeline};
use crate::exit::Exit;
use crate::render::layout::Layout;
use crate::render::{report, timeline as drawing};
use crate::run::{command_options, open_options};

/// The options of `advisor check` for one run.
#[derive(Debug)]
pub struct CheckOptions(CheckArgs);

impl CheckOptions {
    /// Parses options such as `--ranks=0-3`.
    ///
    /// # Errors
    /// If there is no such option, or its value is wrong.
    pub fn parse(path: &Path, options: &[OsString]) -> anyhow::Result<Self> {
        let mut arguments = vec![OsString::from("check")];
        arguments.extend_from_slice(options);
        arguments.extend([OsString::from("--"), path.as_os_str().to_owned()]);
        match parse(&arguments)? {
            Command::Check(args) if args.paths.len() == 1 && !args.each.each => Ok(Self(args)),
            _ => Err(anyhow::Error::msg("expected options of `advisor check` for one run")),
        }
    }

    /// Opens the run.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(&self, progress: &WorkProgress) -> anyhow::Result<Run> {
        let (read, rules) = (&self.0.read, Some(&self.0.rules.files));
        cluster::map_run(&self.0.paths[0], &read.mapped, &read.input, rules)?;
        let options = OpenOptions {
            step_time_ns: self.0.step_time,
            view_progress: Some(progress.views()),
            ..open_options(&self.0.read)?
        };
        let run = Run::open_with(&self.0.paths[0], &options, progress.files())?;
        // Without the cache, the next call takes longer, and that is all.
        let _ = run.store_in_cache();
        Ok(run)
    }

    /// Checks a run that was opened with the same options.
    ///
    /// # Errors
    /// If a rule file is wrong, no rule is left, or a view cannot be computed.
    pub fn check(self, run: Arc<Run>) -> anyhow::Result<CheckedRun> {
        let (mut console, _) = buffered(None);
        let rules = check::load_rules(&self.0, &mut console)?;
        let baseline = self.0.baseline.as_deref().map(baseline::read).transpose()?;
        let mut report = run.check(&rules)?;
        if let Some(baseline) = &baseline {
            baseline.apply(&mut report, (0, 1), &rules)?;
        }
        Ok(CheckedRun { run, reports: [report], rules, args: self.0 })
    }
}

/// A report with what is needed to render it.
#[derive(Debug)]
pub struct CheckedRun {
    run: Arc<Run>,
    /// Renderers take a list.
    reports: [Report; 1],
    rules: RuleSet,
    args: CheckArgs,
}

impl CheckedRun {
    /// The report.
    pub fn report(&self) -> &Report {
        &self.reports[0]
    }

    /// Whether `advisor check` would exit with code 1: there are findings of the severity of `fail_on` or above.
    pub fn has_failed(&self) -> bool {
        check::exit_code(&self.reports, check::fail_on(&self.rules)) == Exit::Findings
    }

    /// Asks about a step time that is far from the recording.
    pub fn step_time_doubt(&self) -> Option<String> {
        check::step_time_doubt(self.args.step_time, self.report())
    }

    /// True if at least one rule has a verdict; otherwise `advisor check` exits with code 2.
    pub fn is_judged(&self) -> bool {
        self.report().is_judged(&self.rules)
    }

    /// The report in a format of `advisor check`, with options about the output, such as `--full`.
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
        let CheckOptions(shown) = CheckOptions::parse(&self.args.paths[0], &options)?;
        if shown.format() == ReportFormat::Html {
            return self.html(&page::Options::default());
        }
        let mut context = report::ReportContext {
            show_all: shown.all,
            is_full: shown.full || shown.all || shown.explain,
            query_options: shown.explain.then(|| command_options(&self.args.read).to_vec()),
            ..check::context(&self.args, &self.rules)
        };
        if shown.full && shown.format() == ReportFormat::Text {
            let first = context.shown(self.report()).next();
            context.timelines = vec![timeline::lanes_of_first(&self.run, first)?];
        }
        let mut text = Vec::new();
        let layout = Layout::from(style.terminal);
        report::write(&self.reports, &context, shown.format(), layout, &mut text)?;
        style.apply(text)
    }

    /// A step as lanes of characters or as SVG. Marks the finding of the rule with this code or name, by default the first
    /// finding with a time range.
    ///
    /// # Errors
    /// If there is no such finding, step or format, or the run has no timeline.
    pub fn timeline(
        &self,
        rule: Option<&str>,
        step: Option<i64>,
        format: &str,
        style: Style,
    ) -> anyhow::Result<String> {
        let format = TimelineFormat::from_str(format, false).map_err(anyhow::Error::msg)?;
        let lanes = timeline::lanes(&self.run, self.report(), rule, step)?;
        let mut text = Vec::new();
        match format {
            TimelineFormat::Svg => {
                drawing::write_svg(&lanes, &mut text)?;
                Ok(String::from_utf8(text)?)
            }
            TimelineFormat::Text => {
                drawing::write_text(&lanes, Layout::from(style.terminal), &mut text)?;
                style.apply(text)
            }
        }
    }

    /// A finding of the report in full, as text.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn text_of_finding(&self, position: usize, style: Style) -> anyhow::Result<String> {
        let mut text = Vec::new();
        if let Some(finding) = self.report().findings.get(position) {
            let layout = Layout::from(style.terminal);
            report::write_finding(finding, report::Detail::Full, layout, &mut text)?;
        }
        style.apply(text)
    }

    /// The report as a page.
    ///
    /// # Errors
    /// If a view that the page draws cannot be computed.
    pub fn html(&self, options: &page::Options) -> anyhow::Result<String> {
        Ok(page::report(&self.run, self.report(), options)?)
    }
}
