//! The history of the shell, kept between sessions.

use std::path::PathBuf;

use private_files::Access;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use crate::commands::shell::helper::ShellHelper;
use crate::console::Console;
use crate::messages::warn;

/// The environment variable that names the history file; an empty value disables it.
const VARIABLE: &str = "ADVISOR_SQL_HISTORY";
/// Number of entries that are kept.
const MAX_ENTRIES: usize = 1_000;

/// The editor with its history.
pub(super) type ShellEditor = Editor<ShellHelper, FileHistory>;

/// The file that the history is kept in.
pub(super) struct HistoryFile {
    /// `None` if it is disabled, or could not be used.
    path: Option<PathBuf>,
}

/// How many entries the history has, and that it has none twice in a row.
pub(super) fn configure(config: rustyline::config::Builder) -> rustyline::Result<Config> {
    Ok(config.max_history_size(MAX_ENTRIES)?.history_ignore_dups(true)?.build())
}

impl HistoryFile {
    /// Loads the history. A failure is only a warning.
    pub(super) fn load(editor: &mut ShellEditor, console: &mut Console) -> anyhow::Result<Self> {
        let mut file = Self { path: path() };
        let Some(path) = file.path.clone().filter(|path| path.exists()) else { return Ok(file) };
        if let Err(error) = editor.load_history(&path) {
            file.disable("read", &error, console)?;
        }
        Ok(file)
    }

    /// Adds an entry, and writes it to the file. A failure is only a warning.
    pub(super) fn add(
        &mut self,
        entry: &str,
        editor: &mut ShellEditor,
        console: &mut Console,
    ) -> anyhow::Result<()> {
        editor.add_history_entry(entry)?;
        let Some(path) = &self.path else { return Ok(()) };
        let folder = path.parent().map_or(Ok(()), |folder| Access::Owner.create_folders(folder));
        let written = folder.map_err(Into::into).and_then(|()| editor.append_history(path));
        written.or_else(|error| self.disable("write", &error, console))
    }

    fn disable(
        &mut self,
        verb: &str,
        error: &rustyline::error::ReadlineError,
        console: &mut Console,
    ) -> anyhow::Result<()> {
        let Some(path) = self.path.take() else { return Ok(()) };
        let path = path.display();
        let text = format!("cannot {verb} the history {path}: {error}; it ends with this session");
        Ok(warn(&text, console)?)
    }
}

/// From the environment, else in the directory for what programs remember, else in that for their data.
fn path() -> Option<PathBuf> {
    match std::env::var_os(VARIABLE) {
        Some(path) if path.is_empty() => None,
        Some(path) => Some(path.into()),
        None => {
            let folder = dirs::state_dir().or_else(dirs::data_local_dir)?;
            Some(folder.join("trace-advisor").join("sql_history"))
        }
    }
}
