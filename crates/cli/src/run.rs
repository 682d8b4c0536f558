//! Opening a run as the command line asks for it.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use trace_advisor::advisor::{Problem, RuleSource};
use trace_advisor::analyses::{DeviceMistake, Params, Selection, catalog, check_devices};
use trace_advisor::ingest::{Cache, Options};
use trace_advisor::trace_model::{RunInfo, Warning};
use trace_advisor::{Checked, OpenOptions, RuleSet, Run, Stage};

use crate::Console;
use crate::args::{CacheChoice, Files, Part, Reading};
use crate::failure::{RuleProblems, helped};
use crate::memory;
use crate::progress::Bar;
use crate::render::clean::clean;

/// Opens the run at `path`.
pub(crate) fn open(path: &Path, reading: &Reading, console: &mut Console) -> anyhow::Result<Run> {
    open_for(None, path, reading, console)
}

/// The same, for nothing but these queries or this view, if they are known.
pub(crate) fn open_for(
    question: Option<String>,
    path: &Path,
    reading: &Reading,
    console: &mut Console,
) -> anyhow::Result<Run> {
    let options = OpenOptions { question, ..open_options(limit(reading), reading)? };
    let run = Run::open_with(path, &options, &Bar::new(console.err_is_terminal))?;
    tell_if_exported(&run, reading, console)?;
    Ok(run)
}

/// Writes what is known as soon as a run is opened.
pub(crate) type Begin<'a> = dyn Fn(&RunInfo, &mut dyn Write) -> io::Result<()> + Sync + 'a;

/// Judges the run at `path`; `begin` writes to standard output before.
pub(crate) fn check(
    path: &Path,
    reading: &Reading,
    rules: &RuleSet,
    begin: Option<&Begin<'_>>,
    console: &mut Console,
) -> anyhow::Result<Checked> {
    let options = open_options(limit(reading), reading)?;
    let bar = Bar::new(console.err_is_terminal);
    let opened = trace_advisor::open_check(path, &options, &bar)?;
    if let Some(begin) = begin {
        bar.clear();
        begin(opened.info(), &mut console.out).and_then(|()| console.out.flush())?;
    }
    let checked = opened.evaluate(rules)?;
    drop(bar);
    if let Some(run) = &checked.run {
        tell_if_exported(run, reading, console)?;
    }
    if let Some(error) = &checked.not_kept {
        not_kept(error, reading, console)?;
    }
    Ok(checked)
}

fn limit(reading: &Reading) -> Option<u64> {
    reading.memory_limit.or_else(memory::half)
}

fn tell_if_exported(run: &Run, reading: &Reading, console: &mut Console) -> io::Result<()> {
    if run.was_exported() {
        let limit = limit(reading).unwrap_or_default();
        writeln!(
            console.err,
            "{} may take more memory than the limit ({:.1} GiB): it was converted to Parquet in {}, which `advisor \
             export` keeps",
            clean(&run.location().to_string()),
            limit as f64 / f64::from(1 << 30),
            std::env::temp_dir().display(),
        )?;
    }
    Ok(())
}

/// Opens the run at `path` with all its tables in memory.
pub(crate) fn open_whole(path: &Path, reading: &Reading, console: &Console) -> anyhow::Result<Run> {
    let options = open_options(None, reading)?;
    Ok(Run::open_with(path, &options, &Bar::new(console.err_is_terminal))?)
}

fn open_options(memory_bytes: Option<u64>, reading: &Reading) -> anyhow::Result<OpenOptions> {
    Ok(OpenOptions {
        ingest: ingest_options(&reading.files),
        params: params(reading)?,
        selection: selection(&reading.part),
        question: None,
        memory_bytes,
        cache: cache(&reading.cache),
    })
}

/// Where things are kept for the next time; nowhere if nobody says where, and the system neither.
fn cache(choice: &CacheChoice) -> Option<Cache> {
    let folder = match (choice.no_cache, &choice.cache_dir, std::env::var_os(CACHE_DIR)) {
        (true, ..) => return None,
        (_, Some(folder), _) => folder.clone(),
        (_, _, Some(folder)) if folder.is_empty() => return None,
        (_, _, Some(folder)) => folder.into(),
        (_, _, None) => dirs::cache_dir()?.join("trace-advisor").join("runs"),
    };
    Some(Cache { folder, max_bytes: Cache::MAX_BYTES })
}

/// The environment variable that names the folder of the cache.
const CACHE_DIR: &str = "ADVISOR_CACHE_DIR";

/// How files are read.
pub(crate) fn ingest_options(files: &Files) -> Options {
    let Files { cycle, trial, max_json_bytes, timeout } = *files;
    Options { cycle, trial, timeout, max_json_bytes: max_json_bytes.unwrap_or_default() }
}

/// The options of a reading as they are given, for commands that are to read the same.
pub(crate) fn options(reading: &Reading) -> Vec<String> {
    let Reading { files, memory_limit, part, set, include_last_step, .. } = reading;
    let Files { cycle, trial, max_json_bytes, timeout } = files;
    let between = Selection { between: part.between, ..Selection::default() }.to_string();
    let values = [
        ("--cycle", cycle.map(|v| v.to_string())),
        ("--trial", trial.map(|v| v.to_string())),
        ("--max-json-bytes", max_json_bytes.map(|v| v.to_string())),
        ("--timeout", timeout.map(|v| v.as_secs_f64().to_string())),
        ("--memory-limit", memory_limit.map(|v| v.to_string())),
        ("--ranks", part.ranks.as_ref().map(ToString::to_string)),
        ("--steps", part.steps.map(|v| v.to_string())),
        ("--between", between.strip_prefix("between ").map(str::to_owned)),
        ("--streams", part.streams.as_ref().map(ToString::to_string)),
        ("--name", part.name.as_ref().map(ToString::to_string)),
    ];
    let set = set.iter().map(|setting| ("--set", Some(setting.clone())));
    let values = values.into_iter().chain(set);
    let mut options: Vec<String> =
        values.filter_map(|(name, value)| Some([name.to_owned(), value?])).flatten().collect();
    if *include_last_step {
        options.push("--include-last-step".to_owned());
    }
    options
}

fn selection(part: &Part) -> Selection {
    Selection {
        ranks: part.ranks.clone(),
        steps: part.steps,
        between: part.between,
        streams: part.streams.clone(),
        name: part.name.clone(),
    }
}

/// Parameters from `--set` and the flags that stand for one.
fn params(reading: &Reading) -> anyhow::Result<Params> {
    let mut params = Params::default();
    if reading.include_last_step {
        params.set("include_last_step", true);
    }
    if let Some(file) = &reading.devices {
        params.set("device_table", device_table(file)?);
    }
    for setting in &reading.set {
        let Some((name, value)) = setting.split_once('=') else {
            let known = catalog().param_names().join(", ");
            return Err(helped(
                format!("--set {setting}: expected NAME=VALUE"),
                format!("there are: {known}"),
            ));
        };
        params.set_text(name.trim(), value.trim()).map_err(trace_advisor::Error::from)?;
    }
    Ok(params)
}

/// The text of a table of devices; its mistakes are shown like those of rule files.
fn device_table(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the table of devices {}", file.display()))?;
    let Err(mistakes) = check_devices(&text) else { return Ok(text) };
    let source = RuleSource { name: file.display().to_string(), text };
    let name = source.name.clone();
    let problem = |mistake: DeviceMistake| Problem {
        file: name.clone(),
        span: mistake.span,
        line: mistake.line,
        column: 1,
        message: mistake.message,
        help: mistake.help,
    };
    let problems = mistakes.into_iter().map(problem).collect();
    Err(RuleProblems { kind: "the table of devices", sources: vec![source], problems }.into())
}

/// What could not be read, on stderr.
pub(crate) fn print_warnings(run: &Run, console: &mut Console) -> io::Result<()> {
    warn_of(run.warnings(), console)
}

/// Warnings, on stderr.
pub(crate) fn warn_of(warnings: &[Warning], console: &mut Console) -> io::Result<()> {
    for warning in warnings {
        warn_about(&warning.file, &warning.message, warning.count, console)?;
    }
    Ok(())
}

/// What is wrong with a file, or with the run where it has no name, and how often.
pub(crate) fn warn_about(
    file: &str,
    message: &str,
    count: u64,
    console: &mut Console,
) -> io::Result<()> {
    let place = if file.is_empty() { String::new() } else { format!("{file}: ") };
    let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
    warn(&format!("{place}{message}{times}"), console)
}

/// One warning on stderr.
pub(crate) fn warn(text: &str, console: &mut Console) -> io::Result<()> {
    const WARNING: anstyle::Style = anstyle::AnsiColor::Yellow.on_default().bold();
    writeln!(console.err, "{WARNING}warning{WARNING:#}: {}", clean(text))
}

/// Once the result is out: where the time went, if that was asked for, and the tables for the next time.
pub(crate) fn finish(run: &Run, reading: &Reading, console: &mut Console) -> anyhow::Result<()> {
    print_timings(&run.stages(), Some(run), reading, console)?;
    keep(run, reading, console)
}

/// Keeps the tables of a run for the next time, once the result is out.
pub(crate) fn keep(run: &Run, reading: &Reading, console: &mut Console) -> anyhow::Result<()> {
    console.out.flush()?;
    console.raw.flush()?;
    match run.keep() {
        Ok(()) => Ok(()),
        Err(error) => not_kept(&error, reading, console),
    }
}

fn not_kept(
    error: &dyn std::fmt::Display,
    reading: &Reading,
    console: &mut Console,
) -> anyhow::Result<()> {
    let folder = cache(&reading.cache).map(|cache| cache.folder).unwrap_or_default();
    let folder = folder.display();
    Ok(warn(&format!("nothing could be kept for the next time in {folder}: {error}"), console)?)
}

/// Where a run's time went, on stderr, if that was asked for.
pub(crate) fn print_timings(
    stages: &[Stage],
    run: Option<&Run>,
    reading: &Reading,
    console: &mut Console,
) -> io::Result<()> {
    if !reading.timings {
        return Ok(());
    }
    for stage in stages {
        print_timing(stage.name, stage.elapsed, console)?;
    }
    let mut views = run.map(Run::view_times).unwrap_or_default();
    views.sort_by_key(|&(name, worked)| (Reverse(worked), name));
    if views.len() > 1 {
        let all = views.iter().map(|&(_, worked)| worked).sum();
        print_timing(&format!("work for {} views", views.len()), all, console)?;
        for (name, worked) in views.into_iter().take(SLOWEST) {
            print_timing(&format!("  {name}"), worked, console)?;
        }
    }
    Ok(())
}

/// What one thing took.
pub(crate) fn print_timing(name: &str, elapsed: Duration, console: &mut Console) -> io::Result<()> {
    writeln!(console.err, "{name:<24} {:>9.1} ms", elapsed.as_secs_f64() * 1e3)
}

/// Views that are named among the timings.
const SLOWEST: usize = 10;
