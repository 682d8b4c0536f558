//! Errors: reasons for which a run cannot be read at all. Problems with part of a run are warnings.

use std::io;
use std::path::PathBuf;

use crate::distinct_run::DistinctRun;

/// A run that could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// Path or address that was being read.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The trace on stdin is too long to be copied.
    #[error("the trace on stdin has more than {max_bytes} bytes")]
    StdinTooLong {
        /// The limit.
        max_bytes: u64,
    },
    /// A store or a server could not be read from.
    #[error("cannot read {address}: {message}")]
    Store {
        /// Address that was being read, without secrets.
        address: String,
        /// The kind of store.
        store: StoreKind,
        /// Kind of the problem.
        problem: StoreProblem,
        /// Description of the problem.
        message: String,
    },
    /// The path looks like an address, but names no store that can be read.
    #[error("cannot read {address}: unknown scheme `{scheme}`")]
    UnknownScheme {
        /// The address, without secrets.
        address: String,
        /// The part before `://`.
        scheme: String,
    },
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Path that was being written.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A store could not be written to.
    #[error("cannot write to {address}: {message}")]
    StoreOutput {
        /// Address that was being written, without secrets.
        address: String,
        /// The kind of store.
        store: StoreKind,
        /// Kind of the problem.
        problem: StoreProblem,
        /// Description of the problem.
        message: String,
    },
    /// A file changed while it was read.
    #[error("{file} changed while it was being read")]
    ChangedFile {
        /// File, relative to the run.
        file: String,
    },
    /// The traces of a run cannot be mapped one by one.
    #[error("{path} cannot be mapped: {reason}")]
    NotMappable {
        /// Path or address of the run.
        path: String,
        /// Reason for it.
        reason: String,
    },
    /// Mapped data cannot be used.
    #[error("{path}: {reason}")]
    Mapped {
        /// Path or address of the group, or of a file in it.
        path: String,
        /// Description of the problem.
        reason: String,
    },
    /// Traces of a run are not mapped.
    #[error("{from} lacks {} of the {total} traces of {run}: {}", missing.len(), listed(missing))]
    Unmapped {
        /// Path or address of the run.
        run: String,
        /// Path or address of the mapped data.
        from: String,
        /// Number of traces that the run has.
        total: usize,
        /// The traces that are missing.
        missing: Vec<String>,
    },
    /// The output file exists.
    #[error("{} {}", path.display(), if *is_source { "is the trace itself" } else { "already exists" })]
    Exists {
        /// Path of the output.
        path: PathBuf,
        /// It is the trace that was to be copied.
        is_source: bool,
    },
    /// The output path is a symbolic link.
    #[error("{} is a symbolic link", path.display())]
    Link {
        /// Path of the output.
        path: PathBuf,
        /// The output is a folder: it never replaces a link.
        is_folder: bool,
    },
    /// The output path is something that a file cannot replace.
    #[error("{} is {kind}, not a regular file", path.display())]
    NotAFile {
        /// Path of the output.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The export to replace holds files that do not belong to it.
    #[error("{} holds more than the export: {}", path.display(), listed(others))]
    OtherFiles {
        /// Path of the export.
        path: PathBuf,
        /// The files and folders that its manifest does not name.
        others: Vec<String>,
    },
    /// The output would be read as part of the run that it is made from.
    #[error("{} would become part of the run {run}", path.display())]
    PartOfRun {
        /// Path of the output.
        path: PathBuf,
        /// Path of the run.
        run: String,
    },
    /// The output path is a file, or a folder that holds something other than an export.
    #[error("{} exists and is not an export", path.display())]
    Occupied {
        /// Path of the output.
        path: PathBuf,
    },
    /// An export, or part of it, cannot be used.
    #[error("the export {path}: {problem}")]
    Export {
        /// Path or address of the export, without secrets.
        path: String,
        /// Reason for which it cannot be used.
        problem: ExportProblem,
    },
    /// The folder holds no file that is a profiler trace.
    #[error("{}: no profiler trace found{}", path.display(), seen(skipped))]
    NoTrace {
        /// Folder or file.
        path: PathBuf,
        /// Other files, with their descriptions.
        skipped: Vec<String>,
    },
    /// The location holds the traces of several runs.
    #[error("{path} holds {} runs, not one", runs.len())]
    SeveralRuns {
        /// Path or address of the location.
        path: String,
        /// Path or address of the folder that the names of the runs are relative to.
        folder: String,
        /// The runs, by their files.
        runs: Vec<DistinctRun>,
    },
    /// The run has no PyTorch Profiler trace, only files of other kinds.
    #[error("{path} has no PyTorch Profiler trace to cut")]
    NothingToCut {
        /// Path or address of the run.
        path: String,
    },
    /// A rank has fewer profile cycles than the number of the one to read.
    #[error("there is no profile cycle {cycle}: rank {rank} has {count}, numbered from 1")]
    NoCycle {
        /// Rank.
        rank: i32,
        /// The cycle to read.
        cycle: usize,
        /// Cycles that the rank has.
        count: usize,
    },
    /// All traces found are unusable.
    #[error("{file}: {reason}")]
    Unusable {
        /// File, relative to the run.
        file: String,
        /// Description of the problem.
        reason: String,
    },
}

/// Problems with stores, by what the user can do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreProblem {
    /// There is no such bucket, folder or object.
    NotFound,
    /// Access is denied.
    Forbidden,
    /// No server answers at the address, or connections fail repeatedly.
    Unreachable,
    /// The store did not answer in time.
    TimedOut,
    /// The object was replaced or deleted while it was being read.
    Changed,
    /// The address is malformed, or needs something that the store does not support.
    Unsupported,
    /// Anything else.
    Other,
}

/// The kinds of stores that runs are read from, each with its own credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreKind {
    /// Amazon S3, or a store with its API.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage or Data Lake Storage.
    Azure,
    /// A web server.
    Web,
}

/// Schemes of addresses, with the store that each names.
const SCHEMES: [(&str, StoreKind); 10] = [
    ("s3", StoreKind::S3),
    ("s3a", StoreKind::S3),
    ("gs", StoreKind::Google),
    ("az", StoreKind::Azure),
    ("azure", StoreKind::Azure),
    ("adl", StoreKind::Azure),
    ("abfs", StoreKind::Azure),
    ("abfss", StoreKind::Azure),
    ("http", StoreKind::Web),
    ("https", StoreKind::Web),
];

impl StoreKind {
    /// The store that the scheme of an address names.
    pub(crate) fn of_scheme(scheme: &str) -> Option<Self> {
        SCHEMES.iter().find(|(known, _)| scheme.eq_ignore_ascii_case(known)).map(|(_, kind)| *kind)
    }

    /// The store that an address is in. S3 also has https addresses, on hosts of its own.
    pub(crate) fn of_address(address: &str) -> Self {
        let (scheme, rest) = address.split_once("://").unwrap_or_default();
        let host = rest.split(['/', '?', '#', ':']).next().unwrap_or_default();
        match Self::of_scheme(scheme) {
            Some(Self::Web) if host.ends_with(".amazonaws.com") => Self::S3,
            kind => kind.unwrap_or(Self::Web),
        }
    }
}

/// Reasons for which an export cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExportProblem {
    /// Another version of the program wrote it, with other tables.
    #[error(
        "it was written by another version ({program}, layout {layout}), whose tables differ from those of this one \
         ({this_program}, layout {this_layout})"
    )]
    OtherVersion {
        /// Version of the program that wrote it; `?` if the export does not say.
        program: String,
        /// Version of its layout.
        layout: u32,
        /// Version of this program.
        this_program: &'static str,
        /// Version of the layout that this program reads.
        this_layout: u32,
    },
    /// It is to be read as traces, but holds their tables only.
    #[error("it holds tables, not the traces themselves")]
    NoTraces,
    /// It is to be exported again.
    #[error("it cannot be exported again")]
    AlreadyExport,
    /// A file of it is missing or changed.
    #[error("{0}")]
    Damaged(String),
    /// It is to be replaced, but its manifest does not say which files belong to it.
    #[error("its manifest cannot be read: {0}")]
    Unnamed(String),
}

impl Error {
    /// An export cannot stand in for the traces it was made from.
    pub fn only_tables(path: String) -> Self {
        Self::Export { path, problem: ExportProblem::NoTraces }
    }

    /// Writing failed.
    pub(crate) fn write(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Write { path: path.into(), source }
    }

    /// Reading failed; errors of stores say so.
    pub(crate) fn read(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        #[cfg(feature = "cloud")]
        if let Some(error) = StoreError::of(&source) {
            return error.at(path.to_string_lossy().into_owned());
        }
        Self::Io { path, source }
    }
}

/// Reasons for which the content of a file cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreadable {
    NotJson,
    NoEvents,
    NoNodes,
    NoRecords,
    Empty,
    TooLong,
    PieceTooLong,
    EventTooLong,
    TooManyDevices,
    TooManyStreams,
}

impl Unreadable {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::NotJson => "not JSON: neither an object nor a list of events",
            Self::NoEvents => "JSON without an event list (\"traceEvents\")",
            Self::NoNodes => "JSON without a node list (\"nodes\")",
            Self::NoRecords => "a log without records of torch.compile",
            Self::Empty => "it contains no events",
            Self::TooLong => {
                "expands to far more data than a trace of its size would: refused as a decompression \
                 bomb (raise the limit with --max-json-bytes if it is genuine)"
            }
            Self::PieceTooLong => "a single event or metadata entry is longer than 256 MiB",
            Self::EventTooLong => "a single event is longer than 64 MiB",
            Self::TooManyDevices => "it contains more than 1,024 devices for one rank",
            Self::TooManyStreams => "it contains more than 16,384 streams for one rank",
        }
    }
}

/// A request to a store failed.
#[cfg(feature = "cloud")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreError {
    pub(crate) problem: StoreProblem,
    pub(crate) message: String,
}

#[cfg(feature = "cloud")]
impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

#[cfg(feature = "cloud")]
impl std::error::Error for StoreError {}

#[cfg(feature = "cloud")]
impl From<StoreError> for io::Error {
    fn from(error: StoreError) -> Self {
        let kind = match error.problem {
            StoreProblem::NotFound => io::ErrorKind::NotFound,
            StoreProblem::Forbidden => io::ErrorKind::PermissionDenied,
            StoreProblem::TimedOut => io::ErrorKind::TimedOut,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

#[cfg(feature = "cloud")]
impl StoreError {
    pub(crate) fn new(problem: StoreProblem, message: impl Into<String>) -> Self {
        Self { problem, message: message.into() }
    }

    /// The object changed while it was read.
    pub(crate) fn changed() -> Self {
        Self::new(StoreProblem::Changed, "the object was replaced while it was being read")
    }

    /// The error of a store inside an I/O error, if there is one.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// The error for an address.
    pub(crate) fn at(&self, address: String) -> Error {
        let store = StoreKind::of_address(&address);
        Error::Store { address, store, problem: self.problem, message: self.message.clone() }
    }

    /// The error for an address that was written to.
    pub(crate) fn at_output(&self, address: String) -> Error {
        let store = StoreKind::of_address(&address);
        Error::StoreOutput { address, store, problem: self.problem, message: self.message.clone() }
    }

    /// Returns whether the store as a whole is unavailable.
    pub(crate) fn is_outage(&self) -> bool {
        matches!(
            self.problem,
            StoreProblem::Unreachable | StoreProblem::TimedOut | StoreProblem::Other
        )
    }

    /// Returns whether a retry may help.
    pub(crate) fn is_transient(&self) -> bool {
        self.is_outage()
    }
}

fn seen(skipped: &[String]) -> String {
    if skipped.is_empty() { String::new() } else { format!(" (looked at {})", listed(skipped)) }
}

/// The first of some names, and how many more there are.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::StoreKind;

    #[test]
    fn store_kind_follows_scheme_and_host() {
        for (address, kind) in [
            ("S3://bucket/run", StoreKind::S3),
            ("gs://bucket", StoreKind::Google),
            ("abfss://files@me.dfs.core.windows.net/x", StoreKind::Azure),
            ("https://bucket.s3.us-east-1.amazonaws.com/a?X-Amz-Signature=1", StoreKind::S3),
            ("https://host/.amazonaws.com", StoreKind::Web),
        ] {
            assert_eq!(StoreKind::of_address(address), kind, "{address}");
        }
    }
}
