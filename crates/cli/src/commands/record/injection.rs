//! The Python files that a recorded program runs, and the environment through which it finds them.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use private_files::Access;
use serde::Serialize;
use trace_advisor::ingest::TemporaryFolder;

use crate::args::TraceWriter;

/// The files, by the name under which Python imports them.
const FILES: [(&str, &str); 3] = [
    ("sitecustomize.py", include_str!("sitecustomize.py")),
    ("_advisor_training_loop.py", include_str!("training_loop.py")),
    ("_advisor_recorder.py", include_str!("../../../../python/trace_advisor/_recorder.py")),
];
/// The folder in which processes tell how far they are.
const STATUS: &str = "status";
/// No message of the profiler's library is this severe: it prints to the stderr of the program otherwise.
const KINETO_SILENT: &str = "99";

/// What the Python files read from the variable `ADVISOR_RECORD`.
#[derive(Debug, Serialize)]
pub(super) struct Settings<'a> {
    pub(super) folder: &'a Path,
    pub(super) first_step: i64,
    pub(super) last_step: i64,
    pub(super) with_stack: bool,
    pub(super) memory_snapshot: bool,
    pub(super) writer: TraceWriter,
}

/// A folder with the Python files, which exists as long as this.
#[derive(Debug)]
pub(super) struct Injection {
    folder: TemporaryFolder,
    settings: String,
    started: SystemTime,
}

impl Injection {
    pub(super) fn new(settings: &Settings<'_>) -> anyhow::Result<Self> {
        let folder = TemporaryFolder::create()?;
        for (name, text) in FILES {
            Access::Owner.write_file(&folder.path().join(name), text.as_bytes())?;
        }
        Access::Owner.create_folder(&folder.path().join(STATUS))?;
        let settings = serde_json::to_string(settings)?;
        Ok(Self { folder, settings, started: SystemTime::now() })
    }

    /// The variables that make every Python process of a program run the files.
    pub(super) fn variables(&self) -> Result<Vec<(&'static str, OsString)>, env::JoinPathsError> {
        let old = env::var_os("PYTHONPATH").filter(|path| !path.is_empty());
        let folders = old.iter().flat_map(env::split_paths);
        let path = env::join_paths([self.folder.path().to_owned()].into_iter().chain(folders))?;
        let mut variables =
            vec![("PYTHONPATH", path), ("ADVISOR_RECORD", self.settings.clone().into())];
        if env::var_os("KINETO_LOG_LEVEL").is_none() {
            variables.push(("KINETO_LOG_LEVEL", KINETO_SILENT.into()));
        }
        Ok(variables)
    }

    /// Whether a file is a memory snapshot of the program: written since it started.
    pub(super) fn is_snapshot(&self, path: &Path) -> bool {
        let written = path.metadata().and_then(|metadata| metadata.modified());
        path.extension().is_some_and(|extension| extension == "pickle")
            && written.is_ok_and(|time| time >= self.started)
    }

    /// The files that processes wrote about themselves.
    pub(super) fn status_files(&self) -> io::Result<Vec<PathBuf>> {
        let entries = self.folder.path().join(STATUS).read_dir()?;
        let mut files: Vec<PathBuf> =
            entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        Ok(files)
    }
}
