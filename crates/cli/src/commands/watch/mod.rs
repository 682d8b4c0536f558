//! `advisor watch`: checks a run whenever its files change, and reports what is new, worse or gone.

mod metrics_file;
mod problems;
mod prometheus;

use std::fs;
use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use trace_advisor::advisor::phrases::gain_share;
use trace_advisor::advisor::{
    Baseline, BaselineComparison, BaselineState, Date, Finding, GoneFinding,
};
use trace_advisor::ingest::{self, Location};
use trace_advisor::{MapOptions, OpenOptions, Report, RuleSet, Run};

use self::metrics_file::MetricsFile;
use self::problems::Problems;
use self::prometheus::Measures;
use super::check::fail_on;
use crate::args::{OutputArgs, ReportFormat, WatchArgs};
use crate::baseline;
use crate::cluster;
use crate::console::Console;
use crate::diagnostics::{is_broken_pipe, with_help};
use crate::exit::Exit;
use crate::messages::print_warnings;
use crate::output::{check_output, write_text};
use crate::progress::Stage;
use crate::render::layout::Layout;
use crate::render::report::{self, ReportContext};
use crate::render::sanitize::sanitize;
use crate::render::value::plural;
use crate::rule_files;
use crate::run::{
    command_options, finish_without_warnings, ingest_options, note_if_exported, open_options,
};

/// Files that changed are read once they have not changed for this long, or for the time between looks if that is shorter.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// A run that keeps changing is checked after so many waits: ranks may arrive for hours.
const MAX_WAITS: usize = 12;

pub(super) fn run(args: &WatchArgs, console: &mut Console) -> anyhow::Result<Exit> {
    if args.run.path.as_os_str() == "-" {
        return Err(with_help("a trace on stdin cannot change", "name a file or a directory"));
    }
    if let Some(report) = report_output(args) {
        check_output(&report)?;
    }
    let metrics = MetricsFile::of(args)?;
    let rules = rule_files::load_selected(&args.rules, console)?;
    let mut watch = Watch {
        args,
        rules: &rules,
        last: last_report(args)?,
        seen: None,
        unwritten_report: None,
        metrics,
        problems: Problems::default(),
    };
    let mut checks = 0;
    loop {
        if let Some(exit) = watch.round(console)? {
            checks += 1;
            if args.checks.is_some_and(|most| checks >= most.get()) {
                return Ok(exit);
            }
        }
        std::thread::sleep(args.every);
    }
}

/// The report that a watch before this one left.
fn last_report(args: &WatchArgs) -> anyhow::Result<Option<Baseline>> {
    let Some(path) = &args.report else { return Ok(None) };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        _ => Ok(Some(baseline::read(path)?.into_baseline())),
    }
}

/// The file of `--report`. What it holds is the report of an earlier watch, or the command has refused it.
fn report_output(args: &WatchArgs) -> Option<OutputArgs> {
    Some(OutputArgs { file: Some(args.report.clone()?), force: true })
}

struct Watch<'a> {
    args: &'a WatchArgs,
    rules: &'a RuleSet,
    /// The report to compare the next one with.
    last: Option<Baseline>,
    /// The version of the run that was checked last.
    seen: Option<String>,
    /// The last report, until its file is written.
    unwritten_report: Option<String>,
    metrics: Option<MetricsFile<'a>>,
    problems: Problems,
}

impl Watch<'_> {
    /// Looks at the run, checks it if it has changed, and writes the files that are not up to date. Returns the exit code of
    /// the check. What fails is reported, and tried again in the next round.
    ///
    /// # Errors
    /// If stdout or stderr is closed.
    fn round(&mut self, console: &mut Console) -> anyhow::Result<Option<Exit>> {
        self.problems.begin_round();
        let (is_check, is_good) = match self.changed_version() {
            Ok(None) => (false, true),
            Ok(Some(version)) => (true, self.check(version, console)?),
            // A run that does not exist yet or any more, or a store that does not answer.
            Err(error) => {
                self.problems.wait(&error.to_string(), console)?;
                (false, false)
            }
        };
        let is_good = self.write_report(console)? && is_good;
        let is_good = self.show_metrics(is_good, console)? && is_good;
        Ok(is_check.then_some(if is_good { Exit::Clean } else { Exit::Failed }))
    }

    /// The version of the run, once its files have settled, if it is not the one that was checked last.
    fn changed_version(&self) -> Result<Option<String>, trace_advisor::Error> {
        let run = Location::parse(&self.args.run.path)?;
        let options = ingest_options(&self.args.read.input);
        let version = || ingest::run_version(&run, &options);
        let mut now = version()?;
        if self.seen.as_ref() == Some(&now) {
            return Ok(None);
        }
        for _ in 0..MAX_WAITS {
            std::thread::sleep(SETTLED_AFTER.min(self.args.every));
            let next = version()?;
            if next == now {
                break;
            }
            now = next;
        }
        Ok(Some(now))
    }

    /// Checks the run and prints what changed. Returns whether both succeeded.
    fn check(&mut self, version: String, console: &mut Console) -> anyhow::Result<bool> {
        let (report, json, measures) = match self.checked(console) {
            Ok(checked) => checked,
            Err(error) => return self.fail(&error, console),
        };
        let time = unix_seconds();
        match self.print(&report, time, console) {
            Ok(()) => {}
            Err(error) if is_broken_pipe(&error) => return Err(error),
            Err(error) => return self.fail(&error.context("cannot write to stdout"), console),
        }
        self.seen = Some(version);
        // What was just written can be read.
        self.last = Baseline::parse(&json).ok();
        self.unwritten_report = Some(json);
        if let Some(metrics) = &mut self.metrics {
            metrics.measure(prometheus::of_report(&report, &measures, time));
        }
        Ok(true)
    }

    /// Writes the last report, unless it is written. Returns whether it is.
    fn write_report(&mut self, console: &mut Console) -> anyhow::Result<bool> {
        let (Some(output), Some(json)) = (report_output(self.args), &self.unwritten_report) else {
            return Ok(true);
        };
        match write_text(&output, json, console) {
            Ok(()) => {
                self.unwritten_report = None;
                Ok(true)
            }
            Err(error) => self.fail(&error, console),
        }
    }

    /// Brings the metrics up to date. Returns whether they are.
    fn show_metrics(&mut self, is_good: bool, console: &mut Console) -> anyhow::Result<bool> {
        let Some(metrics) = &mut self.metrics else { return Ok(true) };
        match metrics.show(is_good, unix_seconds(), console) {
            Ok(()) => Ok(true),
            Err(error) => self.fail(&error, console),
        }
    }

    /// Reports a failure of this round. Returns false, as what has failed does.
    fn fail(&mut self, error: &anyhow::Error, console: &mut Console) -> anyhow::Result<bool> {
        self.problems.report(error, console)?;
        Ok(false)
    }

    /// The report of the run, compared with the last one, as data and as JSON, and the measures of its ranks if they are
    /// wanted.
    fn checked(&self, console: &mut Console) -> anyhow::Result<(Report, String, Measures)> {
        let Self { args, rules, last, .. } = self;
        let wants_measures = args.prometheus.is_some();
        let later_views = if wants_measures { prometheus::VIEWS } else { &[] };
        let progress = console.progress(Stage::QUERY);
        let mut options = OpenOptions {
            later_views,
            view_progress: Some(progress.views()),
            ..open_options(&args.read)?
        };
        if let Some(to) = &args.map_to {
            let ingest = options.ingest.clone();
            let map = MapOptions { ingest, views: later_views, ..MapOptions::default() };
            trace_advisor::map(&args.run.path, to, rules, &map, progress.files())?;
            options.mapped = Some(to.clone());
        }
        let (read, rule_files) = (&args.read, Some(&args.rules.files));
        progress
            .suspend(|| cluster::map_run(&args.run.path, &read.mapped, &read.input, rule_files))?;
        let run = Run::open_with(&args.run.path, &options, progress.files())?;
        let mut report = run.check(rules)?;
        let measures = if wants_measures { Measures::of(&run)? } else { Measures::default() };
        drop(progress);
        note_if_exported(&run, &args.read, console)?;
        print_warnings(run.warnings(), console)?;
        finish_without_warnings(&run, &args.read, console)?;
        let before = last.as_ref().and_then(|last| last.of(&report.run.path, 0, 1));
        if let Some(before) = before {
            report.apply_baseline(before, "the last check", rules);
        }
        let json = self.write(&report, ReportFormat::Json, Layout::from(None))?;
        Ok((report, json, measures))
    }

    /// Prints a whole report, or what changed since the last one.
    fn print(&self, report: &Report, time: u64, console: &mut Console) -> anyhow::Result<()> {
        let layout = Layout::from(console.out_terminal);
        let out = &mut console.out;
        write!(out, "{}  {}: ", utc(time), sanitize(&report.run.path))?;
        if let Some(changes) = &report.baseline {
            write_changes(report, changes, out)?;
        } else {
            writeln!(out, "first check")?;
            out.write_all(self.write(report, ReportFormat::Text, layout)?.as_bytes())?;
        }
        Ok(out.flush()?)
    }

    /// A report as `advisor check` writes it.
    fn write(
        &self,
        report: &Report,
        format: ReportFormat,
        layout: Layout,
    ) -> anyhow::Result<String> {
        let context = ReportContext {
            rules: self.rules,
            show_all: false,
            is_full: false,
            fail_on: fail_on(self.rules).severity(),
            command_options: self.command_options(),
            folder: std::env::current_dir().unwrap_or_default(),
            query_options: None,
            timelines: Vec::new(),
        };
        let mut text = Vec::new();
        report::write(std::slice::from_ref(report), &context, format, layout, &mut text)?;
        Ok(String::from_utf8(text)?)
    }

    /// The options that decide what a report says.
    fn command_options(&self) -> Vec<String> {
        let mut options = rule_files::command_line_options(&self.args.rules);
        options.extend(command_options(&self.args.read).to_vec());
        options
    }
}

/// Writes how a report differs from the last one.
fn write_changes(
    report: &Report,
    changes: &BaselineComparison,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}", summary(report, changes))?;
    let is_listed =
        |state: &BaselineState| matches!(state, BaselineState::New | BaselineState::Worse);
    for finding in report.advice() {
        if let Some(state) = finding.baseline_state.filter(is_listed) {
            writeln!(out, "  {:5}  {}", state.as_str(), line(finding))?;
        }
    }
    for GoneFinding { code, name, severity, title, .. } in &changes.gone {
        let title = sanitize(title);
        writeln!(out, "  gone   {}[{code} {name}]: {title}", severity.as_str())?;
    }
    Ok(())
}

/// `8 ranks, 24 steps; 1 new, 1 worse, 2 gone, 5 others`.
fn summary(report: &Report, changes: &BaselineComparison) -> String {
    let BaselineComparison { new, worse, unchanged, better, gone, still_unknown, .. } = changes;
    let counts = [
        (*new, "new"),
        (*worse, "worse"),
        (*better, "better"),
        (gone.len(), "gone"),
        (*unchanged, "unchanged"),
        (still_unknown.len(), "unknown now"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let counts = if counts.is_empty() { "no findings".to_owned() } else { counts.join(", ") };
    let (ranks, steps) = (report.run.ranks.len(), report.run.steps);
    format!("{}, {}; {counts}", plural(ranks, "rank"), plural(steps, "step"))
}

/// `high[IN001 dataloader-wait]: The GPU waits for batches, saves 13 to 26 %`.
fn line(finding: &Finding) -> String {
    let Finding { code, name, severity, title, .. } = finding;
    let gain = gain_share(finding);
    let saves = if gain.is_empty() { gain } else { format!(", saves {gain}") };
    format!("{}[{code} {name}]: {}{saves}", severity.as_str(), sanitize(title))
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// `2026-11-26 01:50:12 UTC`.
fn utc(seconds: u64) -> String {
    let of_day = seconds % 86_400;
    let (hours, minutes) = (of_day / 3600, of_day / 60 % 60);
    format!("{} {hours:02}:{minutes:02}:{:02} UTC", Date::from_unix(seconds), of_day % 60)
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn utc_shows_day_and_time() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(1_795_660_212), "2026-11-26 02:30:12 UTC");
    }
}
