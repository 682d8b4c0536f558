//! Errors as users see them: what went wrong, why, and what to do about it. The help follows from the variant of the
//! error, never from its text.

use std::fmt;
use std::io;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use anstream::adapter::strip_str;
use anstyle::{AnsiColor, Style};
use trace_advisor::advisor::{Problem, RuleSource};
use trace_advisor::ingest::{DistinctRun, ExportProblem, StoreKind, StoreProblem};
use trace_advisor::query::{QueryDiagnostic, QueryHelp};
use trace_advisor::{ingest, query};

use crate::console::{Console, Terminal};
use crate::render::sanitize::{sanitize, without_commands};

const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Runs that an error lists.
const MAX_RUNS: usize = 20;
const HELP: Style = AnsiColor::Cyan.on_default().bold();

/// Mistakes in files that users write, with the text of the files.
#[derive(Debug)]
pub(crate) struct FileProblems {
    /// The kind of files: `rule files`.
    pub(crate) kind: &'static str,
    pub(crate) sources: Vec<RuleSource>,
    pub(crate) problems: Vec<Problem>,
}

impl fmt::Display for FileProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.problems.len();
        write!(f, "{n} {} in {}", if n == 1 { "mistake" } else { "mistakes" }, self.kind)
    }
}

impl std::error::Error for FileProblems {}

/// An error with a suggestion.
#[derive(Debug)]
pub(crate) struct WithHelp {
    pub(crate) message: String,
    pub(crate) help: String,
}

impl fmt::Display for WithHelp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for WithHelp {}

/// An error with a suggestion.
pub(crate) fn with_help(message: impl Into<String>, help: impl Into<String>) -> anyhow::Error {
    WithHelp { message: message.into(), help: help.into() }.into()
}

/// Whether the reader of the output closed it: `advisor tables | head`.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// Prints an error to stderr.
pub(crate) fn print_error(error: &anyhow::Error, console: &mut Console) -> io::Result<()> {
    print_error_with(error, console, QueryHelp::to_string)
}

/// As [`print_error`]; `query_help` are the words that help with an error of a query.
pub(crate) fn print_error_with(
    error: &anyhow::Error,
    console: &mut Console,
    query_help: impl Fn(&QueryHelp) -> String,
) -> io::Result<()> {
    let columns = Terminal::columns_of(console.out_terminal);
    write_error(error, columns, query_help, &mut console.errors)
}

/// What [`print_error`] prints, without colors.
pub(crate) fn error_text(error: &anyhow::Error) -> String {
    let mut text = Vec::new();
    let written = write_error(error, Terminal::DEFAULT_COLUMNS, QueryHelp::to_string, &mut text);
    match written {
        Ok(()) => strip_str(&String::from_utf8_lossy(&text)).to_string(),
        Err(_) => message(error),
    }
}

fn write_error(
    error: &anyhow::Error,
    columns: usize,
    query_help: impl Fn(&QueryHelp) -> String,
    err: &mut dyn io::Write,
) -> io::Result<()> {
    if let Some(problems) = error.downcast_ref::<FileProblems>() {
        writeln!(err, "{}\n", annotated(problems))?;
        return writeln!(err, "{ERROR}error{ERROR:#}: {problems}");
    }
    let query = query_diagnostic(error);
    let help = query.map_or_else(|| help(error), |query| query.help.as_ref().map(query_help));
    let message = on_one_line(&message(error));
    if let Some(QueryDiagnostic { sql, span: Some(span), .. }) = query {
        let mark = annotated_query(sql, span, &message, help.as_deref(), columns);
        return writeln!(err, "{mark}");
    }
    writeln!(err, "{ERROR}error{ERROR:#}: {}", sanitize(&message))?;
    if let Some((folder, runs)) = several_runs(error) {
        print_runs(folder, runs, err)?;
    }
    match help {
        Some(help) => writeln!(err, "{HELP}help{HELP:#}: {}", sanitize(&help)),
        None => Ok(()),
    }
}

/// The runs that an error names because a path holds several, and their folder.
pub(crate) fn several_runs(error: &anyhow::Error) -> Option<(&str, &[DistinctRun])> {
    match error.downcast_ref()? {
        trace_advisor::Error::Ingest(ingest::Error::SeveralRuns { folder, runs, .. }) => {
            Some((folder, runs))
        }
        _ => None,
    }
}

/// Lists the runs at one location: the path of each, what it is, and what tells it from the others.
fn print_runs(folder: &str, runs: &[DistinctRun], err: &mut dyn io::Write) -> io::Result<()> {
    let paths: Vec<String> = runs.iter().map(|run| run.path(folder)).collect();
    let width = paths[..runs.len().min(MAX_RUNS)].iter().map(|path| path.chars().count()).max();
    let width = width.unwrap_or(0);
    for (path, run) in paths.iter().zip(runs).take(MAX_RUNS) {
        let difference = match run.difference.as_str() {
            "" => String::new(),
            difference => format!(" ({difference})"),
        };
        let text = format!("{path:width$}  {}{difference}", run.description);
        writeln!(err, "  {}", sanitize(&text))?;
    }
    match runs.len().saturating_sub(MAX_RUNS) {
        0 => Ok(()),
        more => writeln!(err, "  and {more} more"),
    }
}

/// The message of an error and its causes, joined by colons.
fn message(error: &anyhow::Error) -> String {
    let mut message = error.to_string();
    let mut last = message.clone();
    for cause in error.chain().skip(1) {
        let text = cause.to_string();
        // Many errors include the text of their cause.
        if !last.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        last = text;
    }
    message
}

fn annotated(file_problems: &FileProblems) -> String {
    let renderer = Renderer::styled();
    let texts: Vec<String> = file_problems
        .problems
        .iter()
        .map(|problem| {
            let text = file_problems.sources.iter().find(|s| s.name == problem.file);
            let text = text.map(|s| &*s.text).unwrap_or_default();
            let end = problem.span.end.min(text.len());
            let span = problem.span.start.min(end)..end;
            let snippet = Snippet::source(text)
                .path(problem.file.as_str())
                .annotation(AnnotationKind::Primary.span(span));
            let message = sanitize(&problem.message);
            let mut group = Level::ERROR.primary_title(message.as_ref()).element(snippet);
            let help = problem.help.as_deref().map(sanitize);
            if let Some(help) = &help {
                group = group.element(Level::HELP.message(help.as_ref()));
            }
            without_commands(&renderer.render(&[group] as &[Group<'_>])).into_owned()
        })
        .collect();
    texts.join("\n\n")
}

/// The explanation of an error of a query.
fn query_diagnostic(error: &anyhow::Error) -> Option<&QueryDiagnostic> {
    match error.downcast_ref::<trace_advisor::Error>()? {
        trace_advisor::Error::Analysis(query::Error::Query(diagnostic))
        | trace_advisor::Error::RuleQuery { source: query::Error::Query(diagnostic), .. } => {
            Some(diagnostic)
        }
        _ => None,
    }
}

/// A query with a mark under what is wrong.
fn annotated_query(
    sql: &str,
    span: &Range<usize>,
    message: &str,
    help: Option<&str>,
    columns: usize,
) -> String {
    let snippet =
        Snippet::source(sql).path("query").annotation(AnnotationKind::Primary.span(span.clone()));
    let message = sanitize(message);
    let mut group = Level::ERROR.primary_title(message.as_ref()).element(snippet);
    let help = help.map(sanitize);
    if let Some(help) = &help {
        group = group.element(Level::HELP.message(help.as_ref()));
    }
    let text = Renderer::styled().term_width(columns).render(&[group] as &[Group<'_>]);
    without_commands(&text).into_owned()
}

/// Returns the suggestion for an error, if there is one.
pub(crate) fn help(error: &anyhow::Error) -> Option<String> {
    if let Some(query) = query_diagnostic(error) {
        return query.help.as_ref().map(QueryHelp::to_string);
    }
    if let Some(error) = error.downcast_ref::<WithHelp>() {
        return Some(error.help.clone());
    }
    let help = match error.downcast_ref::<trace_advisor::Error>()? {
        trace_advisor::Error::Ingest(error) => ingest_help(error)?,
        trace_advisor::Error::Analysis(error)
        | trace_advisor::Error::RuleQuery { source: error, .. } => analysis_help(error)?,
        _ => return None,
    };
    Some(help.to_owned())
}

fn ingest_help(error: &ingest::Error) -> Option<&'static str> {
    use ingest::Error;
    Some(match error {
        Error::UnknownScheme { .. } => {
            "addresses begin with s3://, gs://, az://, abfss:// or https://"
        }
        Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            "pass a trace file, or a directory with the traces of all ranks; \
             `advisor demo -o run/` creates one to try"
        }
        Error::SeveralRuns { .. } => {
            "pass one of these paths; check, sql, analyze, tables, export and augment read all of them with --each"
        }
        Error::NoTrace { .. } => {
            "traces are the *.json or *.json.gz files that \
             `torch.profiler.profile(...).export_chrome_trace()` or `tensorboard_trace_handler()` writes"
        }
        Error::Store { store, problem, .. } => return store_help(*store, *problem),
        Error::StoreOutput { store, problem: StoreProblem::Forbidden, .. } => {
            return credentials_help(*store);
        }
        Error::Unmapped { .. } => {
            "`advisor map` with the same version of advisor adds what is missing; see that all shards have run"
        }
        Error::Mapped { .. } => "remove its directory, and run the same `advisor map` again",
        Error::Export { problem, .. } => return export_help(problem),
        Error::Occupied { .. } => "choose a directory that is empty or does not exist yet",
        Error::NothingToCut { .. } => "`advisor merge` writes what Composer recorded as one trace",
        Error::Link { is_folder: false, .. } => {
            "use --force to replace the link itself, or pass the path of its target"
        }
        Error::Link { is_folder: true, .. } => "pass the directory that it points to",
        Error::NotAFile { .. } => "pass the path of a file",
        Error::OtherFiles { .. } => {
            "--force replaces what the export itself consists of: move the rest away, or choose another directory"
        }
        Error::PartOfRun { .. } => {
            "write to a directory outside of the run: all traces in its directory are read as one run"
        }
        Error::StdinTooLong { .. } => {
            "save the trace to a file and pass its path, or raise the limit with --max-json-bytes"
        }
        Error::Exists { is_source: true, .. } => "choose another directory with -o",
        Error::Exists { .. } => "use --force to overwrite it",
        _ => return None,
    })
}

fn export_help(problem: &ExportProblem) -> Option<&'static str> {
    match problem {
        ExportProblem::OtherVersion { .. } => {
            Some("export the traces again with this version of advisor")
        }
        ExportProblem::NoTraces => Some("pass the directory that it was exported from"),
        ExportProblem::AlreadyExport => Some("copy its directory instead"),
        ExportProblem::Damaged(_) => Some("export the traces again"),
        ExportProblem::Unnamed(_) => Some("remove the directory yourself, or choose another one"),
        _ => None,
    }
}

fn store_help(store: StoreKind, problem: StoreProblem) -> Option<&'static str> {
    match problem {
        StoreProblem::Forbidden => credentials_help(store),
        StoreProblem::NotFound => {
            Some("pass the address of a trace, or of a directory with the traces of all ranks")
        }
        StoreProblem::TimedOut => Some("use --timeout SECONDS to wait longer"),
        StoreProblem::Changed => Some("try again when nothing writes to it any more"),
        _ => None,
    }
}

fn credentials_help(store: StoreKind) -> Option<&'static str> {
    match store {
        StoreKind::S3 => Some(
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION; \
             `eval \"$(aws configure export-credentials --format env)\"` sets those of a profile",
        ),
        StoreKind::Google => Some(
            "set GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth application-default login`",
        ),
        StoreKind::Azure => Some(
            "set AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN \
             or AZURE_USE_AZURE_CLI=true",
        ),
        StoreKind::Web => Some("the signature of the address may have expired"),
        _ => None,
    }
}

fn analysis_help(error: &query::Error) -> Option<&'static str> {
    use query::Error;
    match error {
        Error::UnknownView { .. } => Some("`advisor analyze` lists the analyses"),
        _ => None,
    }
}

/// Messages of libraries may contain line breaks; an error is printed on one line.
fn on_one_line(text: &str) -> String {
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}
