//! Errors as users see them: what went wrong, why, and what to do about it. The help follows from the variant of the
//! error, never from its text.

use std::fmt;
use std::io;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use anstyle::{AnsiColor, Style};
use trace_advisor::advisor::{Problem, RuleSource};
use trace_advisor::ingest::{ExportProblem, StoreKind, StoreProblem};
use trace_advisor::{ingest, query};

use crate::console::Console;
use crate::render::sanitize::sanitize;

const ERROR: Style = AnsiColor::Red.on_default().bold();
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

/// Prints an error to stderr.
pub(crate) fn print_error(error: &anyhow::Error, console: &mut Console) -> io::Result<()> {
    let err = &mut console.err;
    if let Some(problems) = error.downcast_ref::<FileProblems>() {
        writeln!(err, "{}\n", annotated(problems))?;
        return writeln!(err, "{ERROR}error{ERROR:#}: {problems}");
    }
    writeln!(err, "{ERROR}error{ERROR:#}: {}", sanitize(&on_one_line(&message(error))))?;
    match help(error) {
        Some(help) => writeln!(err, "{HELP}help{HELP:#}: {}", sanitize(&help)),
        None => Ok(()),
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
            renderer.render(&[group] as &[Group<'_>])
        })
        .collect();
    texts.join("\n\n")
}

fn help(error: &anyhow::Error) -> Option<String> {
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
        Error::NoTrace { .. } => {
            "traces are the *.json or *.json.gz files that \
             `torch.profiler.profile(...).export_chrome_trace()` or `tensorboard_trace_handler()` writes"
        }
        Error::Store { store, problem, .. } => return store_help(*store, *problem),
        Error::Export { problem, .. } => return export_help(problem),
        Error::Occupied { .. } => "choose a directory that is empty or does not exist yet",
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
        Error::Query(_) => Some(
            "`advisor tables` lists tables and views, `advisor tables NAME` describes the columns",
        ),
        _ => None,
    }
}

/// Messages of libraries may contain line breaks; an error is printed on one line.
fn on_one_line(text: &str) -> String {
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}
