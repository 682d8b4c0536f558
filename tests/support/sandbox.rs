//! Runs the program as a user would, in a temporary directory.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;
use trace_demo::{Bottleneck, Options, write_run};

/// A temporary directory to run the program in.
#[derive(Debug)]
pub(crate) struct Sandbox {
    folder: TempDir,
}

impl Sandbox {
    /// An empty folder.
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// A folder that holds the small run `run/`: two ranks, four steps, starved by data loading.
    pub(crate) fn with_run() -> Self {
        static RUN: OnceLock<TempDir> = OnceLock::new();
        let run = RUN.get_or_init(|| {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let bottleneck = Bottleneck::DataLoading;
            let options = Options { bottleneck, steps: 4, layers: 1, ..Options::default() };
            write_run(&options, folder.path()).expect("a run");
            folder
        });
        let sandbox = Self::new();
        let to = sandbox.path("run");
        std::fs::create_dir(&to).expect("a folder");
        for entry in run.path().read_dir().expect("a folder") {
            let entry = entry.expect("an entry");
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
        sandbox
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.path(name), text).expect("a file");
        self
    }

    /// Runs the program here.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the program runs")
    }

    /// The program, not yet started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.command_of(program(), args)
    }

    /// A command of a copy of the program, beside which no other program lies.
    pub(crate) fn command_alone(&self, args: &[&str]) -> Command {
        let copy = self.path("alone/advisor");
        if !copy.exists() {
            std::fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
            let linked = std::fs::hard_link(program(), &copy);
            linked.or_else(|_| std::fs::copy(program(), &copy).map(drop)).expect("a copy");
        }
        self.command_of(&copy, args)
    }

    fn command_of(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path()).stdin(std::process::Stdio::null());
        // Tests are about the program, not about its cache.
        command.env("ADVISOR_CACHE_DIR", "").env("ADVISOR_SQL_HISTORY", "");
        command
    }

    /// The text of a terminal session: the command, its output, its errors, its exit code.
    pub(crate) fn transcript(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let quoted =
            args.iter().map(|a| if a.contains(' ') { format!("'{a}'") } else { (*a).to_owned() });
        let mut text = format!("$ advisor {}\n", quoted.collect::<Vec<_>>().join(" "));
        text.push_str(&String::from_utf8(output.stdout).expect("UTF-8"));
        let errors = String::from_utf8(output.stderr).expect("UTF-8");
        if !errors.is_empty() {
            let _ = write!(text, "[stderr]\n{errors}");
        }
        let _ = writeln!(text, "[exit {}]", output.status.code().expect("an exit code"));
        text
    }
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_advisor"))
}
