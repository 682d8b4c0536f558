//! `advisor diff`: a comparison of two runs.

use std::borrow::Borrow;

use serde::Serialize;
use trace_advisor::advisor::{Comparison, DamagedFile};
use trace_advisor::compare::{
    Category, DeviceMemory, DeviceType, Diff, DiffOptions, Difference, Level, Measure, MemoryDiff,
    Outcome, Row, SideOptions, Sort, Steps, Summary, Verdict,
};
use trace_advisor::trace_model::{RecordBatch, Warning, damage};
use trace_advisor::{RuleSet, Run, compare_traces};

use super::check::print_damage;
use crate::args::{
    Audience, DiffArgs, DiffFailOn, DiffFormat, DiffLevel, DiffSort, HtaEvents, RowFormat,
};
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::messages::{warn, warn_about_file};
use crate::output::{write_output, write_page};
use crate::progress::Stage;
use crate::render::diff::{self, DiffReport};
use crate::render::report::relative_path;
use crate::render::rows::{self, RowOptions};
use crate::render::sanitize::sanitize_json;
use crate::rule_files;
use crate::run::{self, finish_without_warnings, open_with_progress};

/// Default change of the median step, as a ratio, that counts as a regression or improvement.
const DEFAULT_LEAST_CHANGE: f64 = 0.05;

/// Version of the JSON. It is raised when a field changes meaning or is removed, not when one is added.
const SCHEMA_VERSION: u32 = 1;

pub(crate) fn run(args: &DiffArgs, console: &mut Console) -> anyhow::Result<Exit> {
    if args.hta.is_some() && (is_review(args) || args.format() == DiffFormat::Html) {
        let help = "use --format text, json, csv, parquet or arrow";
        return Err(with_help("the table of --hta is not available in this format", help));
    }
    let rules = rule_files::load_selected(&args.rules, console)?;
    let progress = console.progress(Stage::DIFF);
    let before = open_with_progress(None, &args.before, &args.read, &progress, console)?;
    let after = open_with_progress(None, &args.after, &args.read, &progress, console)?;
    let exit = if let Some(events) = args.hta {
        let batch = compare_traces(&before, &after, &options(args), device_type(events))?;
        drop(progress);
        write_rows(&batch, args, console)?;
        Exit::Clean
    } else {
        let compared = Compared::of(&before, &after, rules, args)?;
        drop(progress);
        compared.print(args, console)?;
        console.out.flush()?;
        for warning in &compared.comparison.warnings {
            warn(&format!("{}: {}", warning.file, warning.message), console)?;
        }
        if compared.fails(args) { Exit::Findings } else { Exit::Clean }
    };
    for run in [&before, &after] {
        // Files of both runs have the same names.
        let path = &run.info().path;
        for Warning { file, message, count, .. } in run.warnings() {
            let place = if file.is_empty() { path.clone() } else { format!("{path}: {file}") };
            warn_about_file(&place, message, *count, console)?;
        }
        finish_without_warnings(run, &args.read, console)?;
    }
    let mut is_damaged = false;
    for run in [&before, &after].into_iter().filter(|_| !args.damage.allow_damaged) {
        let files = damage::damaged_files(run.info(), run.warnings());
        let files: Vec<DamagedFile> = files.iter().map(DamagedFile::from).collect();
        is_damaged |= print_damage(&run.info().path, &files, console)?;
    }
    Ok(if is_damaged { Exit::Failed } else { exit })
}

/// Returns true for formats that code reviews show.
fn is_review(args: &DiffArgs) -> bool {
    matches!(args.format(), DiffFormat::Markdown | DiffFormat::Github | DiffFormat::Junit)
}

/// Two runs with their comparison.
pub(crate) struct Compared<R> {
    before: R,
    after: R,
    pub(crate) diff: Diff,
    pub(crate) comparison: Comparison,
    rules: RuleSet,
}

impl<R: Borrow<Run>> Compared<R> {
    /// Compares two runs.
    pub(crate) fn of(before: R, after: R, rules: RuleSet, args: &DiffArgs) -> anyhow::Result<Self> {
        let (a, b) = (before.borrow(), after.borrow());
        let diff = trace_advisor::diff(a, b, &options(args))?;
        let comparison = trace_advisor::evaluate_diff(&diff, a, b, &rules);
        if args.fail_on_memory.is_some() && diff.memory.is_none() {
            let help = "record both runs with torch.cuda.memory._record_memory_history() or profile_memory=True";
            return Err(with_help("--fail-on-memory: the runs did not both record memory", help));
        }
        Ok(Self { before, after, diff, comparison, rules })
    }

    /// Returns true if the step's verdict or the growth of memory fails the command.
    pub(crate) fn fails(&self, args: &DiffArgs) -> bool {
        verdict_fails(self.diff.verdict.outcome, args)
            || memory_fails(self.diff.memory.as_ref(), args)
    }

    /// Prints the comparison in the format that the options name.
    pub(crate) fn print(&self, args: &DiffArgs, console: &mut Console) -> anyhow::Result<()> {
        let Self { diff, comparison, rules, .. } = self;
        let (before, after) = (self.before.borrow(), self.after.borrow());
        // Formats that others read do not name the folders of this machine.
        let folder = if is_review(args) { std::env::current_dir().ok() } else { None };
        let shown = |path: &str| match &folder {
            Some(folder) => relative_path(folder, path),
            None => path.to_owned(),
        };
        let report = DiffReport {
            diff,
            comparison,
            rules,
            paths: (shown(&before.info().path), shown(&after.info().path)),
            fails: verdict_fails(diff.verdict.outcome, args),
            fails_on_memory: memory_fails(diff.memory.as_ref(), args),
            limit: args.limit,
            is_wide: args.wide,
            command_options: command_options(args).iter().map(|o| shown(o)).collect(),
        };
        print(&report, (before, after), args, console)
    }
}

fn options(args: &DiffArgs) -> DiffOptions {
    // HTA compares the first step of the first rank by default.
    let default = if args.hta.is_some() { Steps::First } else { Steps::All };
    let selection = |ranks: &Option<Vec<i32>>, steps: &Option<Steps>| SideOptions {
        ranks: ranks.clone(),
        steps: steps.clone().unwrap_or_else(|| default.clone()),
    };
    DiffOptions {
        before: selection(&args.before_ranks, &args.before_steps),
        after: selection(&args.after_ranks, &args.after_steps),
        levels: args.levels.iter().copied().map(level).collect(),
        short_names: args.short_names,
        tolerance: args.tolerance / 100.0,
        least_change: args
            .fail_on_regression
            .map_or(DEFAULT_LEAST_CHANGE, |percent| percent / 100.0),
        sort: match args.sort {
            DiffSort::Impact => Sort::Impact,
            DiffSort::Time => Sort::Time,
            DiffSort::Count => Sort::Count,
            DiffSort::Name => Sort::Name,
        },
    }
}

fn level(level: DiffLevel) -> Level {
    match level {
        DiffLevel::Operator => Level::Operator,
        DiffLevel::Runtime => Level::Runtime,
        DiffLevel::Annotation => Level::Annotation,
        DiffLevel::Python => Level::Python,
        DiffLevel::Module => Level::Module,
        DiffLevel::Span => Level::Span,
        DiffLevel::Kernel => Level::Kernel,
        DiffLevel::Copy => Level::Copy,
        DiffLevel::Fill => Level::Fill,
        DiffLevel::Sync => Level::Sync,
        DiffLevel::DeviceAnnotation => Level::DeviceAnnotation,
    }
}

fn device_type(events: HtaEvents) -> DeviceType {
    match events {
        HtaEvents::All => DeviceType::All,
        HtaEvents::Cpu => DeviceType::Cpu,
        HtaEvents::Gpu => DeviceType::Gpu,
    }
}

/// Returns true if the command fails because of the verdict on the step.
fn verdict_fails(outcome: Outcome, args: &DiffArgs) -> bool {
    let limit = args.fail_on.or(args.fail_on_regression.map(|_| DiffFailOn::Regression));
    match limit {
        None | Some(DiffFailOn::Never) => false,
        Some(DiffFailOn::Regression) => outcome == Outcome::Regression,
        Some(DiffFailOn::Inconclusive) => {
            matches!(outcome, Outcome::Regression | Outcome::Inconclusive | Outcome::NotComparable)
        }
    }
}

/// Returns true if the memory of a device grew by the limit of `--fail-on-memory` or more.
fn memory_fails(memory: Option<&MemoryDiff>, args: &DiffArgs) -> bool {
    let (Some(percent), Some(memory)) = (args.fail_on_memory, memory) else { return false };
    let grew = |device: &DeviceMemory| match device.change_ratio {
        Some(ratio) => ratio > 0.0 && ratio * 100.0 >= percent,
        None => device.change_bytes() > 0,
    };
    memory.devices.iter().any(grew)
}

/// The options that decide what a comparison says.
fn command_options(args: &DiffArgs) -> Vec<String> {
    let list =
        |ranks: &Vec<i32>| ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let values = [
        ("--before-steps", args.before_steps.as_ref().map(ToString::to_string)),
        ("--after-steps", args.after_steps.as_ref().map(ToString::to_string)),
        ("--before-ranks", args.before_ranks.as_ref().map(list)),
        ("--after-ranks", args.after_ranks.as_ref().map(list)),
        ("--fail-on-regression", args.fail_on_regression.map(|percent| percent.to_string())),
        ("--fail-on-memory", args.fail_on_memory.map(|percent| percent.to_string())),
    ];
    let values = values.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
    let mut options: Vec<String> = values.flatten().collect();
    if args.short_names {
        options.push("--short-names".to_owned());
    }
    options.extend(rule_files::command_line_options(&args.rules));
    options.extend(run::command_options(&args.read).to_vec());
    options
}

fn print(
    report: &DiffReport<'_>,
    (before, after): (&Run, &Run),
    args: &DiffArgs,
    console: &mut Console,
) -> anyhow::Result<()> {
    let DiffReport { diff, comparison, .. } = report;
    match args.format() {
        DiffFormat::Text => {
            write_output(&args.output, Audience::Human, console, |out, terminal| {
                Ok(diff::write_text(report, !args.levels.is_empty(), terminal, out)?)
            })
        }
        DiffFormat::Html => {
            let html = page::diff(before, after, diff, comparison, &page::Options::default());
            write_page(&args.output, &html, console)
        }
        DiffFormat::Markdown => print_review(&diff::markdown(report), args, console),
        DiffFormat::Github => print_review(&diff::github(report), args, console),
        DiffFormat::Junit => print_review(&diff::junit(report), args, console),
        DiffFormat::Json => {
            let json = Json {
                schema_version: SCHEMA_VERSION,
                tool: Tool { name: "trace-advisor", version: env!("CARGO_PKG_VERSION") },
                before_path: &before.info().path,
                after_path: &after.info().path,
                differences: &diff.differences,
                verdict: &diff.verdict,
                before_after: &diff.before_after,
                memory: diff.memory.as_ref(),
                comparison,
                summary: &diff.summary,
                categories: &diff.categories,
                rows: &diff.rows[..args.limit.unwrap_or(usize::MAX).min(diff.rows.len())],
            };
            let mut text = serde_json::to_string_pretty(&json)?;
            text.push('\n');
            write_output(&args.output, Audience::Machine, console, |out, terminal| {
                let text = if terminal.is_some() { sanitize_json(&text) } else { text };
                Ok(out.write_all(text.as_bytes())?)
            })
        }
        DiffFormat::Csv | DiffFormat::Parquet | DiffFormat::Arrow => {
            write_rows(&diff.batch()?, args, console)
        }
    }
}

fn print_review(text: &str, args: &DiffArgs, console: &mut Console) -> anyhow::Result<()> {
    write_output(&args.output, Audience::Machine, console, |out, _| {
        Ok(out.write_all(text.as_bytes())?)
    })
}

fn write_rows(batch: &RecordBatch, args: &DiffArgs, console: &mut Console) -> anyhow::Result<()> {
    let batch = batch.slice(0, args.limit.unwrap_or(usize::MAX).min(batch.num_rows()));
    let format = match args.format() {
        DiffFormat::Json => RowFormat::Json,
        DiffFormat::Csv => RowFormat::Csv,
        DiffFormat::Parquet => RowFormat::Parquet,
        DiffFormat::Arrow => RowFormat::Arrow,
        _ => RowFormat::Table,
    };
    write_output(&args.output, format.audience(), console, |out, terminal| {
        let options = RowOptions { is_wide: args.wide, ..RowOptions::default() };
        rows::write_with(&[batch], format, options, out, terminal)
    })
}

/// The document that `--format json` prints; its fields are stable within a schema version.
#[derive(Serialize)]
struct Json<'a> {
    schema_version: u32,
    tool: Tool,
    before_path: &'a str,
    after_path: &'a str,
    differences: &'a [Difference],
    verdict: &'a Verdict,
    before_after: &'a [Measure],
    memory: Option<&'a MemoryDiff>,
    #[serde(flatten)]
    comparison: &'a Comparison,
    #[serde(flatten)]
    summary: &'a Summary,
    categories: &'a [Category],
    rows: &'a [Row],
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}
