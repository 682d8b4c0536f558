//! Clusters of processes on this machine, and the runs that they map.

use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cli::Console;
use cli::demo::{Bottleneck, Options, write_run};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Ranks of the run.
pub(crate) const RANKS: u32 = 6;
/// Time without a sign of life after which an executor is lost: the shortest.
const EXECUTOR_TIMEOUT: &str = "10s";
/// Longest time to wait for anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// A run of a few ranks, of which the last is slow.
pub(crate) fn run() -> &'static Path {
    static RUN: OnceLock<TempDir> = OnceLock::new();
    let run = RUN.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let bottleneck = Bottleneck::Straggler;
        let options =
            Options { bottleneck, ranks: RANKS, steps: 4, layers: 1, ..Options::default() };
        write_run(&options, &folder.path().join("run")).unwrap();
        folder
    });
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| run.path().join("run"))
}

/// Text that several streams write to.
#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What `advisor check` prints about the run: the report, and messages.
fn check(more: &[&str]) -> (String, String) {
    let (out, err) = (Text::default(), Text::default());
    let mut console = Console {
        out: Box::new(out.clone()),
        raw: Box::new(out.clone()),
        err: Box::new(err.clone()),
        errors: Box::new(err.clone()),
        out_terminal: None,
        has_progress: false,
        handles_signals: false,
        runs: Vec::new(),
    };
    let run = run().to_str().unwrap();
    let args = ["advisor", "check", run, "--exit-zero", "--format", "json", "--no-cache"];
    let args = args.iter().chain(more).map(Into::into);
    let exit = cli::run_on(args, &mut console);
    let text = |text: Text| String::from_utf8(text.0.lock().unwrap().clone()).unwrap();
    let (out, err) = (text(out), text(err));
    assert_eq!(exit, cli::Exit::Clean, "{err}");
    (out, err)
}

/// The report of one process, and its messages.
fn report_of_one_process() -> &'static (String, String) {
    static REPORT: OnceLock<(String, String)> = OnceLock::new();
    REPORT.get_or_init(|| check(&[]))
}

/// Compares the report from a directory with that of one process.
pub(crate) fn assert_report_is_that_of_one_process(mapped: &Path) {
    let expected = report_of_one_process();
    assert!(expected.0.contains("straggler"), "{}", expected.0);
    assert_eq!(&check(&["--from", mapped.to_str().unwrap()]), expected);
}

/// The program, with nothing in its environment that speaks of stores.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_advisor-cluster"));
    command.args(args).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_ascii_uppercase();
        if text.starts_with("AWS_") || text.ends_with("_PROXY") {
            command.env_remove(name);
        }
    }
    command
}

/// A port that nothing listens on.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until something holds.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not after {PATIENCE:?}");
        sleep(Duration::from_millis(20));
    }
}

/// A process that is killed when it is dropped. What it prints to stderr is kept in a file.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(mut command: Command, log: PathBuf) -> Self {
        let file = File::options().create(true).append(true).open(&log).unwrap();
        command.stdout(Stdio::null()).stderr(file);
        Self { child: command.spawn().unwrap(), log }
    }

    /// What it printed to stderr.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Ends it as the system does when memory runs out.
    pub(crate) fn kill(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    pub(crate) fn status(&mut self) -> ExitStatus {
        wait_until(&self.log(), || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A scheduler and its executors.
pub(crate) struct Cluster {
    pub(crate) scheduler: Process,
    pub(crate) executors: Vec<Process>,
    pub(crate) port: u16,
    env: Vec<(String, String)>,
    folder: TempDir,
}

impl Cluster {
    pub(crate) fn start(executors: usize) -> Self {
        Self::start_with(executors, &[])
    }

    /// A cluster whose executors, and clients, have more in their environment.
    pub(crate) fn start_with(executors: usize, env: &[(&str, &str)]) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let env = env.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let scheduler = Self::scheduler(port, folder.path());
        let mut cluster = Self { scheduler, executors: Vec::new(), port, env, folder };
        for _ in 0..executors {
            cluster.add_executor();
        }
        cluster
    }

    fn scheduler(port: u16, folder: &Path) -> Process {
        let bind = format!("127.0.0.1:{port}");
        let args = ["scheduler", "--bind", &bind, "--executor-timeout", EXECUTOR_TIMEOUT, "-v"];
        let process =
            Process::start(command(&args), folder.join(format!("scheduler-{}", free_port())));
        wait_until("the scheduler listens", || process.log().contains("scheduler: listens"));
        process
    }

    /// Kills the scheduler, and starts another one in its place.
    pub(crate) fn restart_scheduler(&mut self) {
        self.scheduler.kill();
        self.scheduler = Self::scheduler(self.port, self.folder.path());
    }

    pub(crate) fn add_executor(&mut self) {
        let scheduler = format!("127.0.0.1:{}", self.port);
        let args = ["executor", "--scheduler", &scheduler, "--bind", "127.0.0.1", "-v"];
        let mut command = command(&args);
        command.envs(self.env.iter().cloned());
        let log = self.path(&format!("executor-{}", self.executors.len()));
        self.executors.push(Process::start(command, log));
    }

    /// Tasks that an executor received.
    pub(crate) fn tasks(&self, executor: usize) -> usize {
        self.executors[executor].log().matches("Received task").count()
    }

    /// A path in the folder of the cluster.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn address(&self) -> String {
        format!("df://127.0.0.1:{}", self.port)
    }

    /// The client that maps a run with a rank in each task.
    pub(crate) fn client(&self, run: &str, to: &str) -> Command {
        let address = self.address();
        let args = ["map", run, "--to", to, "--scheduler", &address, "--ranks-per-task", "1"];
        let mut command = command(&args);
        command.envs(self.env.iter().cloned());
        command
    }

    /// Maps the run. Returns what is printed about it.
    pub(crate) fn map(&self, to: &str) -> String {
        let to = self.path(to);
        let output = self.client(run().to_str().unwrap(), to.to_str().unwrap()).output().unwrap();
        let text = stderr(&output);
        assert!(output.status.success(), "{text}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}\n", to.display()));
        text
    }

    /// Starts to map the run, and returns when some of its ranks are mapped.
    pub(crate) fn begin_map(&self, to: &str) -> Process {
        let path = self.path(to);
        let client = self.client(run().to_str().unwrap(), path.to_str().unwrap());
        let mut client = Process::start(client, self.path(&format!("client-{}", free_port())));
        wait_until("a group is mapped", || groups(&path) > 0);
        assert!(!client.has_ended(), "the job was too short: {}", client.log());
        client
    }
}

/// Number of groups in a directory.
pub(crate) fn groups(mapped: &Path) -> usize {
    let Ok(entries) = mapped.read_dir() else { return 0 };
    let names = entries.map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("group-")).count()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
