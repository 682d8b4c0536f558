//! `advisor diff`: a comparison of two runs.

use serde::Serialize;
use trace_advisor::advisor::Comparison;
use trace_advisor::compare::{
    Category, DeviceType, Diff as Compared, DiffOptions, Level, Measure, Outcome, Row, SideOptions,
    Sort, Steps, Summary, Verdict,
};
use trace_advisor::trace_model::RecordBatch;
use trace_advisor::{Run, compare_traces};

use crate::args::{
    Audience, DiffArgs, DiffFailOn, DiffFormat, DiffLevel, DiffSort, HtaEvents, RowFormat,
};
use crate::console::Console;
use crate::exit::Exit;
use crate::messages::{print_warnings, warn};
use crate::output::write_output;
use crate::render::sanitize::sanitize_json;
use crate::render::{diff as text, rows};
use crate::rule_files;
use crate::run::{finish, open};

/// Default change of the median step, as a ratio, that counts as a regression or improvement.
const DEFAULT_LEAST_CHANGE: f64 = 0.05;

/// Version of the JSON. It is raised when a field changes meaning or is removed, not when one is added.
const SCHEMA_VERSION: u32 = 1;

pub(crate) fn run(args: &DiffArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let rules = rule_files::load_selected(&args.rules)?;
    let before = open(&args.before, &args.read, console)?;
    let after = open(&args.after, &args.read, console)?;
    for run in [&before, &after] {
        print_warnings(run.warnings(), console)?;
    }
    let options = options(args);
    let exit = if let Some(events) = args.hta {
        let batch = compare_traces(&before, &after, &options, device_type(events))?;
        write_rows(&batch, args, console)?;
        Exit::Clean
    } else {
        let diff = trace_advisor::diff(&before, &after, &options)?;
        let comparison = trace_advisor::evaluate_diff(&diff, &rules);
        for warning in &comparison.warnings {
            warn(&format!("{}: {}", warning.file, warning.message), console)?;
        }
        print(&diff, &comparison, (&before, &after), args, console)?;
        exit_code(diff.verdict.outcome, args)
    };
    for run in [&before, &after] {
        finish(run, &args.read, console)?;
    }
    Ok(exit)
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

fn exit_code(outcome: Outcome, args: &DiffArgs) -> Exit {
    let limit = args.fail_on.or(args.fail_on_regression.map(|_| DiffFailOn::Regression));
    let fails = match limit {
        None | Some(DiffFailOn::Never) => false,
        Some(DiffFailOn::Regression) => outcome == Outcome::Regression,
        Some(DiffFailOn::Inconclusive) => {
            matches!(outcome, Outcome::Regression | Outcome::Inconclusive)
        }
    };
    if fails { Exit::Findings } else { Exit::Clean }
}

fn print(
    diff: &Compared,
    comparison: &Comparison,
    (before, after): (&Run, &Run),
    args: &DiffArgs,
    console: &mut Console,
) -> anyhow::Result<()> {
    match args.format {
        DiffFormat::Text => write_output(&args.output, Audience::Human, console, |out, _| {
            let paths = (before.info().path.as_str(), after.info().path.as_str());
            let only_levels = !args.levels.is_empty();
            Ok(text::write_comparison(diff, comparison, paths, only_levels, args.limit, out)?)
        }),
        DiffFormat::Json => {
            let json = Json {
                schema_version: SCHEMA_VERSION,
                tool: Tool { name: "trace-advisor", version: env!("CARGO_PKG_VERSION") },
                before_path: &before.info().path,
                after_path: &after.info().path,
                verdict: &diff.verdict,
                before_after: &diff.before_after,
                comparison,
                summary: &diff.summary,
                categories: &diff.categories,
                rows: &diff.rows[..args.limit.unwrap_or(usize::MAX).min(diff.rows.len())],
            };
            let mut text = serde_json::to_string_pretty(&json)?;
            text.push('\n');
            write_output(&args.output, Audience::Machine, console, |out, is_terminal| {
                let text = if is_terminal { sanitize_json(&text) } else { text };
                Ok(out.write_all(text.as_bytes())?)
            })
        }
        DiffFormat::Csv | DiffFormat::Parquet | DiffFormat::Arrow => {
            write_rows(&diff.batch()?, args, console)
        }
    }
}

fn write_rows(batch: &RecordBatch, args: &DiffArgs, console: &mut Console) -> anyhow::Result<()> {
    let batch = batch.slice(0, args.limit.unwrap_or(usize::MAX).min(batch.num_rows()));
    let format = match args.format {
        DiffFormat::Text => RowFormat::Table,
        DiffFormat::Json => RowFormat::Json,
        DiffFormat::Csv => RowFormat::Csv,
        DiffFormat::Parquet => RowFormat::Parquet,
        DiffFormat::Arrow => RowFormat::Arrow,
    };
    write_output(&args.output, format.audience(), console, |out, is_terminal| {
        rows::write(&[batch], format, out, is_terminal)
    })
}

/// The document that `--format json` prints; its fields are stable within a schema version.
#[derive(Serialize)]
struct Json<'a> {
    schema_version: u32,
    tool: Tool,
    before_path: &'a str,
    after_path: &'a str,
    verdict: &'a Verdict,
    before_after: &'a [Measure],
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
