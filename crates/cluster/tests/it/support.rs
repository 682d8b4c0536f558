//! Clusters of processes on this machine, and the runs that they map.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

pub(crate) use crate::ports::free_port;

/// Ranks of the run.
pub(crate) const RANKS: usize = 4;
/// Time without a sign of life after which an executor is lost: the shortest.
const EXECUTOR_TIMEOUT: &str = "10s";
/// Longest time to wait for anything.
const PATIENCE: Duration = Duration::from_mins(2);

/// The path that a variable of the environment names.
fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}

/// The folder of the S3 server, `ADVISOR_STORAGE`.
///
/// # Panics
/// If the variable is not set or names nothing.
pub(crate) fn storage() -> PathBuf {
    let path = variable("ADVISOR_STORAGE").expect("set ADVISOR_STORAGE to what .ci/storage prints");
    assert!(path.exists(), "ADVISOR_STORAGE: {} does not exist", path.display());
    path
}

/// The program `advisor`: `ADVISOR_PROGRAM`, by default the one of the same build.
///
/// # Panics
/// If there is no program.
fn program() -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_advisor-cluster")).with_file_name("advisor");
    let path = variable("ADVISOR_PROGRAM").unwrap_or(beside);
    let hint = "run `cargo build --release`, or set ADVISOR_PROGRAM";
    assert!(path.exists(), "{} does not exist: {hint}", path.display());
    path
}

/// Runs the program `advisor`. Returns its stdout and stderr.
pub(crate) fn advisor(args: &[&str], env: &[(&str, &str)]) -> (String, String) {
    let mut command = Command::new(program());
    let output = command.args(args).envs(env.iter().copied()).stdin(Stdio::null()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
}

/// What `advisor check` prints about a run: the report, and messages.
pub(crate) fn check(run: &str, more: &[&str], env: &[(&str, &str)]) -> (String, String) {
    let args = ["check", run, "--exit-zero", "--format", "json", "--no-cache", "--no-config"];
    let report = advisor(&[&args[..], more].concat(), env);
    assert!(report.0.contains("straggler"), "{}", report.0);
    report
}

/// A run of a few ranks, of which the last is slow, and its report.
struct Run {
    folder: TempDir,
    report: (String, String),
}

fn example() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let (ranks, path) = (RANKS.to_string(), folder.path().join("run"));
        let path = path.to_str().unwrap();
        let size = ["--ranks", &ranks, "--steps", "3", "--layers", "1"];
        advisor(&[&["demo", "-o", path, "--bottleneck", "straggler"], &size[..]].concat(), &[]);
        let report = check(path, &[], &[]);
        Run { folder, report }
    })
}

/// The run that tests map.
pub(crate) fn run() -> PathBuf {
    example().folder.path().join("run")
}

/// Compares the report from a directory with that of one process.
pub(crate) fn assert_report_is_that_of_one_process(mapped: &Path) {
    let mapped = check(run().to_str().unwrap(), &["--from", mapped.to_str().unwrap()], &[]);
    assert_eq!(mapped, example().report);
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
    pub(crate) fn start(mut command: Command, log: PathBuf) -> Self {
        let file = File::options().create(true).append(true).open(&log).unwrap();
        command.stdout(Stdio::null()).stderr(file);
        Self { child: command.spawn().unwrap(), log }
    }

    /// The stderr of the process so far.
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
    /// Ranks of a task: half of the run, unless more tasks are needed.
    pub(crate) ranks_per_task: usize,
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
        let mut cluster =
            Self { scheduler, executors: Vec::new(), port, ranks_per_task: RANKS / 2, env, folder };
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
        let executor = Process::start(command, log);
        wait_until("the executor asks for work", || executor.log().contains("poll work loop"));
        self.executors.push(executor);
    }

    /// Tasks that an executor received.
    pub(crate) fn tasks(&self, executor: usize) -> usize {
        self.executors[executor].log().matches("Received task").count()
    }

    /// Returns true if an executor is mapping a shard.
    pub(crate) fn is_at_work(&self, executor: usize) -> bool {
        let log = self.executors[executor].log();
        log.matches("Received task").count() > log.matches("Finished task").count()
    }

    /// A path in the folder of the cluster.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn address(&self) -> String {
        format!("df://127.0.0.1:{}", self.port)
    }

    /// Tasks of a run.
    pub(crate) fn tasks_per_job(&self) -> usize {
        RANKS / self.ranks_per_task
    }

    /// The client that maps a run.
    pub(crate) fn client(&self, run: &str, to: &str) -> Command {
        let (address, ranks) = (self.address(), self.ranks_per_task.to_string());
        let args = ["map", run, "--to", to, "--scheduler", &address, "--ranks-per-task", &ranks];
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
