//! Errors as people read them: what went wrong, why, and what to do about it.

use std::fmt;
use std::io;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use anstyle::{AnsiColor, Style};
use trace_advisor::advisor::{Problem, RuleSource};
use trace_advisor::ingest::{ExportProblem, StoreProblem};

use crate::Console;
use crate::render::clean::clean;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HELP: Style = AnsiColor::Cyan.on_default().bold();

/// Mistakes in files that a user writes, with the text they are in.
#[derive(Debug)]
pub(crate) struct RuleProblems {
    /// Which files: `rule files`.
    pub(crate) kind: &'static str,
    pub(crate) sources: Vec<RuleSource>,
    pub(crate) problems: Vec<Problem>,
}

impl fmt::Display for RuleProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.problems.len();
        write!(f, "{n} {} in {}", if n == 1 { "mistake" } else { "mistakes" }, self.kind)
    }
}

impl std::error::Error for RuleProblems {}

/// An error with a way out.
#[derive(Debug)]
pub(crate) struct Helped {
    pub(crate) message: String,
    pub(crate) help: String,
}

impl fmt::Display for Helped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Helped {}

/// An error with a help line.
pub(crate) fn helped(message: impl Into<String>, help: impl Into<String>) -> anyhow::Error {
    Helped { message: message.into(), help: help.into() }.into()
}

/// Prints an error to the error stream.
pub(crate) fn print(error: &anyhow::Error, console: &mut Console) -> io::Result<()> {
    let err = &mut console.err;
    if let Some(rules) = error.downcast_ref::<RuleProblems>() {
        writeln!(err, "{}\n", annotated(rules))?;
        return writeln!(err, "{ERROR}error{ERROR:#}: {rules}");
    }
    writeln!(err, "{ERROR}error{ERROR:#}: {}", clean(&one_line(&error.to_string())))?;
    let mut said = error.to_string();
    for cause in error.chain().skip(1) {
        let text = cause.to_string();
        // Errors that include their source in their own words need not be told twice.
        if !said.contains(&text) {
            writeln!(err, "  because: {}", clean(&one_line(&text)))?;
        }
        said = text;
    }
    match help(error) {
        Some(help) => writeln!(err, "{HELP}help{HELP:#}: {}", clean(&help)),
        None => Ok(()),
    }
}

fn annotated(rules: &RuleProblems) -> String {
    let renderer = Renderer::styled();
    let texts: Vec<String> = rules
        .problems
        .iter()
        .map(|problem| {
            let text = rules.sources.iter().find(|s| s.name == problem.file).map(|s| &*s.text);
            let text = text.unwrap_or_default();
            let end = problem.span.end.min(text.len());
            let span = problem.span.start.min(end)..end;
            let snippet = Snippet::source(text)
                .path(problem.file.as_str())
                .annotation(AnnotationKind::Primary.span(span));
            let message = clean(&problem.message);
            let mut group = Level::ERROR.primary_title(message.as_ref()).element(snippet);
            let help = problem.help.as_deref().map(clean);
            if let Some(help) = &help {
                group = group.element(Level::HELP.message(help.as_ref()));
            }
            renderer.render(&[group] as &[Group<'_>])
        })
        .collect();
    texts.join("\n\n")
}

fn help(error: &anyhow::Error) -> Option<String> {
    if let Some(helped) = error.downcast_ref::<Helped>() {
        return Some(helped.help.clone());
    }
    match error.downcast_ref::<trace_advisor::Error>()? {
        trace_advisor::Error::Ingest(error) => ingest_help(error),
        trace_advisor::Error::Analysis(error)
        | trace_advisor::Error::RuleQuery { source: error, .. } => analysis_help(error),
        _ => None,
    }
}

fn ingest_help(error: &trace_advisor::ingest::Error) -> Option<String> {
    use trace_advisor::ingest::Error;
    Some(match error {
        Error::UnknownScheme { .. } => {
            "addresses of runs begin with s3://, gs://, az://, abfss:// or https://".to_owned()
        }
        Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            "give a trace file, or the folder with the traces of all ranks; \
             `advisor demo -o run/` makes one to try"
                .to_owned()
        }
        Error::NoTrace { .. } => {
            "traces are what `torch.profiler.profile(...).export_chrome_trace()` or \
             `tensorboard_trace_handler()` writes: *.json or *.json.gz"
                .to_owned()
        }
        Error::Store { address, problem, .. } => return store_help(address, *problem),
        Error::Export { problem: ExportProblem::OtherVersion { .. }, .. } => {
            "export the traces again, with this version".to_owned()
        }
        Error::Occupied { .. } => "give a folder that is empty or not there yet".to_owned(),
        Error::Exists { is_source: true, .. } => "give another folder with -o".to_owned(),
        Error::Exists { .. } => "--force overwrites it".to_owned(),
        _ => return None,
    })
}

fn store_help(address: &str, problem: StoreProblem) -> Option<String> {
    let scheme = address.split("://").next().unwrap_or_default().to_ascii_lowercase();
    let is_s3 = ["s3", "s3a"].contains(&scheme.as_str()) || address.contains(".amazonaws.com");
    let is_web = ["http", "https"].contains(&scheme.as_str());
    let text = match problem {
        StoreProblem::Forbidden if is_s3 => {
            "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION; \
             `eval \"$(aws configure export-credentials --format env)\"` sets those of a profile"
        }
        StoreProblem::Forbidden if scheme == "gs" => {
            "set GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth application-default login`"
        }
        StoreProblem::Forbidden if is_web => "a signed address may have expired",
        StoreProblem::Forbidden => {
            "set AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN \
             or AZURE_USE_AZURE_CLI=true"
        }
        StoreProblem::NotFound => {
            "give the address of a trace, or of the folder with the traces of all ranks"
        }
        StoreProblem::TimedOut => "--timeout SECONDS waits longer",
        StoreProblem::Changed => "read it again when it is no longer written to",
        _ => return None,
    };
    Some(text.to_owned())
}

fn analysis_help(error: &trace_advisor::analyses::Error) -> Option<String> {
    use trace_advisor::analyses::Error;
    Some(match error {
        Error::UnknownView { .. } => "`advisor analyze` lists the analyses".to_owned(),
        Error::Query(_) => {
            "`advisor tables` lists tables and views, `advisor tables NAME` their columns"
                .to_owned()
        }
        _ => return None,
    })
}

/// Messages of others come with line breaks; ours stay on the line they start on.
fn one_line(text: &str) -> String {
    text.split('\n').map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}
