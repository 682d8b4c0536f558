//! Removes unfinished output when the program is interrupted, by Ctrl-C or a signal that ends it.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use trace_advisor::ingest::{partial_path, remove_partial_exports, remove_partial_files};

/// Exit code of a program that Ctrl-C ended, by convention of shells.
pub(crate) const INTERRUPTED: i32 = 130;

/// Output that is being written.
#[derive(Debug)]
pub(crate) enum Unfinished {
    /// Files that have another name until they are complete.
    Files(Vec<PathBuf>),
    /// A directory of files that have other names until they are complete.
    FilesIn(PathBuf),
    /// A directory that has another name until it is complete.
    Export(PathBuf),
}

impl Unfinished {
    fn remove(&self) {
        // What cannot be removed cannot be reported either.
        match self {
            Self::Files(files) => files.iter().for_each(|file| {
                let _ = std::fs::remove_file(partial_path(file));
            }),
            Self::FilesIn(folder) => remove_partial_files(folder),
            Self::Export(folder) => remove_partial_exports(folder),
        }
    }
}

/// The output that is removed on an interrupt.
static UNFINISHED: Mutex<Option<Unfinished>> = Mutex::new(None);

/// Removes `output` if the program is interrupted from now on, in place of what was being written before.
pub(crate) fn remove_if_interrupted(output: Unfinished) {
    *UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner) = Some(output);
    let remove = || {
        if let Some(output) = UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).take() {
            output.remove();
        }
        #[expect(
            clippy::exit,
            clippy::disallowed_methods,
            reason = "the handler of a signal that ends the program"
        )]
        std::process::exit(INTERRUPTED);
    };
    // Only the first call sets the handler. Without one, the next export removes what is left.
    let _ = ctrlc::set_handler(remove);
}
