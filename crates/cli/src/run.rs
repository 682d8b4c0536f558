//! Opening a run with the options of the command line.

use std::io;
use std::path::Path;

use trace_advisor::advisor::{Problem, RuleSource};
use trace_advisor::analyses::{DeviceTableError, catalog, check_devices};
use trace_advisor::ingest::{Cache, Options};
use trace_advisor::query::{Params, Range, Selection};
use trace_advisor::trace_model::command_line::CommandOptions;
use trace_advisor::{OpenOptions, Run};

use crate::args::{CacheDirArg, InputArgs, ReadArgs, SelectionArgs};
use crate::cluster;
use crate::console::Console;
use crate::diagnostics::{FileProblems, with_help};
use crate::memory;
use crate::messages::{print_timings, print_warnings, warn};
use crate::progress::{ProgressLine, Stage};
use crate::render::sanitize::sanitize;
use crate::text_file;

/// Opens the run at `path`, with the line that shows the progress of reading it and of the queries that follow. The
/// line has to be dropped before anything is printed.
pub(crate) fn open(
    path: &Path,
    args: &ReadArgs,
    console: &mut Console,
) -> anyhow::Result<(Run, ProgressLine)> {
    open_for_query(None, path, args, console)
}

/// Opens the run at `path` to answer only these queries or this view, if given: other tables need not be read.
pub(crate) fn open_for_query(
    query: Option<String>,
    path: &Path,
    args: &ReadArgs,
    console: &mut Console,
) -> anyhow::Result<(Run, ProgressLine)> {
    let progress = console.progress(Stage::QUERY);
    let run = open_with_progress(query, path, args, &progress, console)?;
    Ok((run, progress))
}

/// Opens the run at `path` as part of work whose progress is shown.
pub(crate) fn open_with_progress(
    query: Option<String>,
    path: &Path,
    args: &ReadArgs,
    progress: &ProgressLine,
    console: &mut Console,
) -> anyhow::Result<Run> {
    let options = OpenOptions {
        query_hint: query,
        view_progress: Some(progress.views()),
        ..open_options(args)?
    };
    progress.suspend(|| cluster::map_run(path, &args.mapped, &args.input, None))?;
    let run = Run::open_with(path, &options, progress.files())?;
    progress.suspend(|| note_if_exported(&run, args, console))?;
    Ok(run)
}

/// Opens the run at `path` with all tables in memory, whatever their size.
pub(crate) fn open_in_memory(
    path: &Path,
    args: &ReadArgs,
    progress: &ProgressLine,
) -> anyhow::Result<Run> {
    let options = OpenOptions { memory_bytes: None, ..open_options(args)? };
    progress.suspend(|| cluster::map_run(path, &args.mapped, &args.input, None))?;
    Ok(Run::open_with(path, &options, progress.files())?)
}

/// The options to open a run with.
pub(crate) fn open_options(args: &ReadArgs) -> anyhow::Result<OpenOptions> {
    Ok(OpenOptions {
        ingest: ingest_options(&args.input),
        params: params(args)?,
        selection: selection(&args.selection),
        query_hint: None,
        memory_bytes: memory_limit_bytes(args),
        mapped: args.mapped.from.clone(),
        step_time_ns: None,
        command_options: command_options(args),
        cache: if args.cache.no_cache { None } else { cache(&args.cache.directory) },
        later_views: &[],
        view_progress: None,
    })
}

/// The options to read files with.
pub(crate) fn ingest_options(args: &InputArgs) -> Options {
    let InputArgs { cycle, trial, max_json_bytes, timeout } = *args;
    Options { cycle, trial, timeout, max_json_bytes: max_json_bytes.unwrap_or_default() }
}

fn memory_limit_bytes(args: &ReadArgs) -> Option<u64> {
    args.memory_limit.or_else(memory::half_of_available_bytes)
}

/// The cache; `None` if its directory is empty, or neither the user nor the system names one.
pub(crate) fn cache(args: &CacheDirArg) -> Option<Cache> {
    let folder = match &args.cache_dir {
        Some(folder) if folder.as_os_str().is_empty() => return None,
        Some(folder) => folder.clone(),
        None => dirs::cache_dir()?.join("trace-advisor").join("runs"),
    };
    Some(Cache { folder, max_bytes: Cache::MAX_BYTES })
}

/// The part of a run to read.
pub(crate) fn selection(args: &SelectionArgs) -> Selection {
    Selection {
        ranks: args.ranks.clone(),
        steps: args.steps,
        between: args.between,
        streams: args.streams.clone(),
        name: args.name.clone(),
    }
}

/// Parameters from `--set`, and from the options that stand for one.
fn params(args: &ReadArgs) -> anyhow::Result<Params> {
    let mut params = Params::default();
    if args.include_last_step {
        params.set("include_last_step", true);
    }
    if let Some(file) = &args.devices {
        params.set("device_table", device_table(file)?);
    }
    for setting in &args.set {
        let Some((name, value)) = setting.split_once('=') else {
            let known = catalog().param_names().join(", ");
            return Err(with_help(
                format!("--set {setting}: expected NAME=VALUE"),
                format!("the parameters are: {known}"),
            ));
        };
        let name = name.trim();
        let value = catalog().parse_param(name, value.trim());
        params.set(name, value.map_err(trace_advisor::Error::from)?);
    }
    Ok(params)
}

/// The text of a device table; its mistakes are shown like those of rule files.
fn device_table(file: &Path) -> anyhow::Result<String> {
    let text = text_file::read(file, "device table", text_file::MAX_WRITTEN_BYTES)?;
    let Err(mistakes) = check_devices(&text) else { return Ok(text) };
    let source = RuleSource { name: file.display().to_string(), text };
    let name = source.name.clone();
    let problem = |mistake: DeviceTableError| Problem {
        file: name.clone(),
        span: mistake.span,
        line: mistake.line,
        column: 1,
        message: mistake.message,
        help: mistake.help,
    };
    let problems = mistakes.into_iter().map(problem).collect();
    Err(FileProblems { kind: "the device table", sources: vec![source], problems }.into())
}

/// The options that reproduce a reading, for commands that are printed for the user to run.
pub(crate) fn command_options(args: &ReadArgs) -> CommandOptions {
    let ReadArgs { input, memory_limit, selection, set, devices, include_last_step, .. } = args;
    let mut reading = with_values([
        ("--cycle", input.cycle.map(|v| v.to_string())),
        ("--trial", input.trial.map(|v| v.to_string())),
        ("--max-json-bytes", input.max_json_bytes.map(|v| v.to_string())),
        ("--timeout", input.timeout.map(|v| v.as_secs_f64().to_string())),
        ("--memory-limit", memory_limit.map(|v| v.to_string())),
        ("--devices", devices.as_ref().map(|file| file.display().to_string())),
    ]);
    reading.extend(with_values(set.iter().map(|setting| ("--set", Some(setting.clone())))));
    if *include_last_step {
        reading.push("--include-last-step".to_owned());
    }
    let selection = with_values([
        ("--ranks", selection.ranks.as_ref().map(ToString::to_string)),
        ("--steps", selection.steps.map(|v| v.to_string())),
        ("--between", selection.between.map(Range::time_text)),
        ("--streams", selection.streams.as_ref().map(ToString::to_string)),
        ("--name", selection.name.as_ref().map(ToString::to_string)),
    ]);
    CommandOptions { reading, selection }
}

/// The options that have a value, each followed by it.
fn with_values<'a>(options: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Vec<String> {
    let given = options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
    given.flatten().collect()
}

/// Notes on stderr that a run larger than the memory limit was converted to a temporary export.
pub(crate) fn note_if_exported(
    run: &Run,
    args: &ReadArgs,
    console: &mut Console,
) -> io::Result<()> {
    if !run.was_exported() {
        return Ok(());
    }
    let limit = memory_limit_bytes(args).unwrap_or_default();
    writeln!(
        console.err,
        "{} may need more memory than the limit ({:.1} GiB), so it was converted to Parquet in {}; use `advisor \
         export` to keep the result",
        sanitize(&run.location().to_string()),
        limit as f64 / f64::from(1 << 30),
        std::env::temp_dir().display(),
    )
}

/// Does what is left once the result is printed: prints the warnings of reading and, with `--timings`, timings, and
/// caches the tables.
pub(crate) fn finish(run: &Run, args: &ReadArgs, console: &mut Console) -> anyhow::Result<()> {
    print_warnings(run.warnings(), console)?;
    finish_without_warnings(run, args, console)
}

/// As [`finish`], for commands that print the warnings themselves.
pub(crate) fn finish_without_warnings(
    run: &Run,
    args: &ReadArgs,
    console: &mut Console,
) -> anyhow::Result<()> {
    if args.timings {
        print_timings(&run.stages(), Some(run), console)?;
    }
    store_in_cache(run, args, console)
}

/// Caches the tables of a run after printing the result. A failure is only a warning.
pub(crate) fn store_in_cache(
    run: &Run,
    args: &ReadArgs,
    console: &mut Console,
) -> anyhow::Result<()> {
    console.out.flush()?;
    console.raw.flush()?;
    match run.store_in_cache() {
        Ok(()) => Ok(()),
        Err(error) => warn_not_cached(&error, args, console),
    }
}

/// Warns that the cache could not be written.
pub(crate) fn warn_not_cached(
    error: &dyn std::fmt::Display,
    args: &ReadArgs,
    console: &mut Console,
) -> anyhow::Result<()> {
    let folder = cache(&args.cache.directory).map(|cache| cache.folder).unwrap_or_default();
    let folder = folder.display();
    Ok(warn(&format!("cannot write to the cache directory {folder}: {error}"), console)?)
}
