//! `advisor rules stats`: how often each rule fires over many runs, and what it costs.

use std::path::Path;

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::{Stats, StatsFormat};
use crate::failure::helped;
use crate::output::Reader;
use crate::rates::{Healthy, How, Named, json, markdown, runs_below, survey, text};
use crate::render::clean::{clean_json, clean_lines};
use crate::run::warn;
use crate::{Console, Exit, output, rule_files};

/// Runs in memory at once, unless more are asked for: each may be large.
const MAX_JOBS: usize = 4;

pub(crate) fn run(args: &Stats, console: &mut Console) -> anyhow::Result<Exit> {
    let rules = rule_files::load(&args.rules.files, args.rules.no_default_rules)?;
    let healthy = args.healthy.as_deref().map(healthy).transpose()?.unwrap_or_default();
    let runs = runs(args)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Runs that are judged side by side would slow each other down.
    let jobs = args.jobs.unwrap_or(if args.no_times { cores.min(MAX_JOBS) } else { 1 });
    let bar = bar(runs.len(), console.err_is_terminal);
    let how = How { jobs, with_times: !args.no_times, done: &|| bar.inc(1) };
    let survey = survey(&runs, &rules, healthy, &how);
    bar.finish_and_clear();
    if survey.rates().runs == 0 {
        let help = "--each takes each folder below RUN that holds traces as a run of its own";
        return Err(helped("no run could be judged", help));
    }
    let (reader, result) = match args.format {
        StatsFormat::Text => (Reader::Person, text(&survey)),
        StatsFormat::Markdown => (Reader::Program, markdown(&survey)),
        StatsFormat::Json => (Reader::Program, json(&survey)),
    };
    output::to(&args.to, reader, console, |out, terminal| {
        let result = match args.format {
            StatsFormat::Json if terminal => clean_json(&result),
            StatsFormat::Markdown if !terminal => result,
            StatsFormat::Json => result,
            _ => clean_lines(&result).into_owned(),
        };
        Ok(out.write_all(result.as_bytes())?)
    })?;
    for run in survey.missing() {
        warn(&format!("{run} is said to be healthy, but was not judged"), console)?;
    }
    Ok(Exit::Clean)
}

fn bar(runs: usize, is_wanted: bool) -> ProgressBar {
    let target =
        if is_wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(runs as u64), target);
    if let Ok(style) = ProgressStyle::with_template("{spinner} judged {pos} of {len} runs") {
        bar.set_style(style);
    }
    bar
}

fn healthy(path: &Path) -> anyhow::Result<Healthy> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Healthy::parse(&text)
        .map_err(|e| helped(format!("{}: {e}", path.display()), "one run a line, with a reason"))
}

fn runs(args: &Stats) -> anyhow::Result<Vec<Named>> {
    let mut runs = Vec::new();
    for root in &args.paths {
        if !args.each {
            runs.push(Named { name: root.display().to_string(), path: root.clone() });
            continue;
        }
        let below = runs_below(root).with_context(|| format!("cannot list {}", root.display()))?;
        runs.extend(below.into_iter().map(|path| {
            let name = path.strip_prefix(root).unwrap_or(&path);
            let name = if name.as_os_str().is_empty() { root } else { name };
            Named { name: name.display().to_string(), path: path.clone() }
        }));
    }
    Ok(runs)
}
