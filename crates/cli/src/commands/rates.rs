//! `advisor rules stats`: how often each rule fires over many runs, and what it costs.

use std::path::Path;

use anyhow::Context as _;

use crate::args::{Audience, StatsArgs, StatsFormat};
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::messages::warn;
use crate::output::write_output;
use crate::progress::Stage;
use crate::rates::{Healthy, NamedRun, SurveyOptions, json, markdown, survey, text};
use crate::render::sanitize::{sanitize_json, sanitize_lines};
use crate::rule_files;
use crate::runs::runs_below;
use crate::text_file;

/// Default limit of runs in memory at once, each of which may be large.
const MAX_JOBS: usize = 4;

pub(crate) fn run(args: &StatsArgs, console: &mut Console) -> anyhow::Result<Exit> {
    let rules = rule_files::load(&args.rules, console)?;
    let healthy = args.healthy.as_deref().map(healthy).transpose()?.unwrap_or_default();
    let runs = runs(args)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // Runs that are checked at the same time would slow each other down.
    let jobs = args.jobs.unwrap_or(if args.no_times { cores.min(MAX_JOBS) } else { 1 });
    let progress = console.progress(&[Stage::Check]);
    progress.count(Stage::Check, runs.len());
    let on_run_done = || progress.item_done();
    let options = SurveyOptions { jobs, with_times: !args.no_times, on_run_done: &on_run_done };
    let survey = survey(&runs, &rules, healthy, &options);
    drop(progress);
    if survey.rates().runs == 0 {
        let help = "with --each, each directory below RUN that holds traces is a run of its own";
        return Err(with_help("no run could be checked", help));
    }
    let (audience, result) = match args.format() {
        StatsFormat::Text => (Audience::Human, text(&survey)),
        StatsFormat::Markdown => (Audience::Machine, markdown(&survey)),
        StatsFormat::Json => (Audience::Machine, json(&survey)),
    };
    write_output(&args.output, audience, console, |out, terminal| {
        let is_terminal = terminal.is_some();
        let result = match args.format() {
            StatsFormat::Json if is_terminal => sanitize_json(&result),
            StatsFormat::Markdown if !is_terminal => result,
            StatsFormat::Json => result,
            _ => sanitize_lines(&result).into_owned(),
        };
        Ok(out.write_all(result.as_bytes())?)
    })?;
    for run in survey.missing() {
        warn(&format!("{run} is listed as healthy, but was not checked"), console)?;
    }
    Ok(Exit::Clean)
}

fn healthy(path: &Path) -> anyhow::Result<Healthy> {
    let text = text_file::read(path, "list of healthy runs", text_file::MAX_WRITTEN_BYTES)?;
    Healthy::parse(&text).map_err(|e| {
        with_help(format!("{}: {e}", path.display()), "write one run per line, with a reason")
    })
}

fn runs(args: &StatsArgs) -> anyhow::Result<Vec<NamedRun>> {
    let mut runs = Vec::new();
    for root in &args.paths {
        if !args.each {
            runs.push(NamedRun { name: root.display().to_string(), path: root.clone() });
            continue;
        }
        let below = runs_below(root).with_context(|| format!("cannot list {}", root.display()))?;
        runs.extend(below.into_iter().map(|path| {
            let name = path.strip_prefix(root).unwrap_or(&path);
            let name = if name.as_os_str().is_empty() { root } else { name };
            NamedRun { name: name.display().to_string(), path: path.clone() }
        }));
    }
    Ok(runs)
}
