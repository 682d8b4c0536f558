//! Only their owner can read the files that are derived from traces, and no temporary file outlives a command.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use regex::Regex;
use trace_advisor::ingest::NoProgress;
use trace_advisor::{OpenOptions, Run, default_rules};

use super::layering::rust_files;
use crate::support::process::{alone, output_within};
use crate::support::sandbox::Sandbox;

const PATIENCE: Duration = Duration::from_mins(1);

/// The program with a home and a temporary folder of its own, under a umask that hides nothing.
fn command_without_umask(sandbox: &Sandbox, args: &[&str]) -> Command {
    let plain = sandbox.command(args);
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0 && exec \"$@\"", "sh", plain.get_program().to_str().unwrap()]);
    command.args(args).current_dir(sandbox.path("")).stdin(Stdio::null());
    command.env_remove("ADVISOR_CACHE_DIR").env_remove("ADVISOR_SQL_HISTORY");
    for (variable, folder) in [("HOME", "home"), ("XDG_CACHE_HOME", "cache"), ("TMPDIR", "tmp")] {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
        command.env(variable, sandbox.path(folder));
    }
    command
}

/// All files and folders below a folder.
fn all_below(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(all_below(&path));
        }
        all.push(path);
    }
    all
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// Asserts that nobody but the owner can access these files and folders.
fn assert_private(paths: &[PathBuf]) {
    let open: Vec<_> = paths.iter().filter(|path| mode(path) & 0o077 != 0).collect();
    assert!(open.is_empty(), "others can access {open:?}");
}

fn has_parquet(paths: &[PathBuf]) -> bool {
    paths.iter().any(|path| path.extension().is_some_and(|extension| extension == "parquet"))
}

#[test]
fn cache_is_private_whatever_the_umask() {
    let sandbox = Sandbox::with_run();
    let check = ["check", "run", "--exit-zero", "--memory-limit", "1KB"];
    let output = command_without_umask(&sandbox, &check).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let cached = all_below(&sandbox.path("cache"));
    assert!(has_parquet(&cached), "{cached:?}");
    assert!(
        cached.iter().any(|path| path.file_name().unwrap().to_string_lossy().contains("answers-"))
    );
    assert_private(&cached);
    assert_eq!(all_below(&sandbox.path("tmp")), [""; 0].map(PathBuf::from));
}

#[test]
fn outputs_that_the_user_names_follow_the_umask() {
    let sandbox = Sandbox::with_run();
    let commands: [&[&str]; 2] = [
        &["check", "run", "--exit-zero", "--select", "GU001", "-o", "report.txt"],
        &["export", "run", "-o", "tables"],
    ];
    for args in commands {
        assert!(command_without_umask(&sandbox, args).output().unwrap().status.success());
    }
    assert_eq!(mode(&sandbox.path("report.txt")), 0o666);
    assert_eq!(mode(&sandbox.path("tables")), 0o777);
    for path in all_below(&sandbox.path("tables")) {
        assert_eq!(mode(&path), if path.is_dir() { 0o777 } else { 0o666 }, "{}", path.display());
    }
}

/// A run above the memory limit, without a cache: its tables and the rows of its views are in temporary files.
#[test]
fn temporary_files_are_private_whatever_the_umask() {
    let test = "private_files::temporary_files_are_private_whatever_the_umask";
    alone(test, "umask 0; TMPDIR=$(mktemp -d); export TMPDIR", || {
        let place = std::env::temp_dir();
        let sandbox = Sandbox::new();
        assert!(
            sandbox.run(&["demo", "-o", "run", "--steps", "4", "--layers", "1"]).status.success()
        );
        let of_sandbox = sandbox.path("");
        let temporary = || -> Vec<PathBuf> {
            all_below(&place).into_iter().filter(|path| !path.starts_with(&of_sandbox)).collect()
        };
        let options = OpenOptions { memory_bytes: Some(1), ..OpenOptions::default() };
        let run = Run::open_with(sandbox.path("run"), &options, &NoProgress).unwrap();
        run.check(&default_rules()).unwrap();
        assert!(has_parquet(&temporary()));
        assert_private(&temporary());
        drop((run, sandbox));
        // Nothing is left in it.
        fs::remove_dir(place).unwrap();
    });
}

/// `check -`, which has read the beginning of a stream that does not end.
fn check_of_endless_stdin(sandbox: &Sandbox) -> (Child, ChildStdin) {
    let mut command = command_without_umask(sandbox, &["check", "-"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A pipe holds less: what is written to it has been read.
    stdin.write_all(&vec![b' '; 4 << 20]).unwrap();
    (child, stdin)
}

fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn copy_of_stdin_has_no_name_and_ends_with_the_program() {
    let sandbox = Sandbox::new();
    for ending in ["-TERM", "-INT", "-KILL"] {
        let (mut child, stdin) = check_of_endless_stdin(&sandbox);
        assert_private(&all_below(&sandbox.path("tmp")));
        signal(&child, ending);
        assert!(!child.wait().unwrap().success());
        drop(stdin);
        assert_eq!(all_below(&sandbox.path("tmp")), [""; 0].map(PathBuf::from), "{ending}");
    }
}

#[test]
fn stdin_without_an_end_is_refused_at_a_limit() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["check", "-", "--max-json-bytes", "1000000"]);
    command.stdin(fs::File::open("/dev/zero").unwrap());
    let output = output_within(command, PATIENCE);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the trace on stdin has more than 1000000 bytes"), "{said}");
    assert!(said.contains("raise the limit with --max-json-bytes"), "{said}");
}

#[test]
fn interrupted_checks_leave_no_temporary_files() {
    let sandbox = Sandbox::new();
    let demo = ["demo", "-o", "run", "--steps", "12", "--layers", "8", "--ranks", "2"];
    assert!(sandbox.run(&demo).status.success());
    for ending in ["-TERM", "-INT"] {
        let args = ["check", "run", "--no-cache", "--memory-limit", "1KB"];
        let mut command = command_without_umask(&sandbox, &args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while !has_parquet(&all_below_while_written(&sandbox.path("tmp"))) {
            assert!(child.try_wait().unwrap().is_none(), "it ended too soon");
            std::thread::sleep(Duration::from_millis(1));
        }
        signal(&child, ending);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{ending}");
        assert_eq!(all_below(&sandbox.path("tmp")), [""; 0].map(PathBuf::from), "{ending}");
    }
}

/// As [`all_below`], while another process moves files.
fn all_below_while_written(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
    let below = |path: PathBuf| {
        let inside = if path.is_dir() { all_below_while_written(&path) } else { Vec::new() };
        inside.into_iter().chain([path])
    };
    entries.flat_map(below).collect()
}

/// Source files that create files or folders without `private_files::Access`, and why.
const CREATORS: [(&str, &str); 10] = [
    ("private-files/src/", "the one place that creates private files and folders"),
    ("fuzz-targets/src/", "files of tests"),
    ("ingest/src/formats/sample.rs", "files of tests"),
    ("ingest/src/output/file.rs", "outputs that the user names"),
    ("ingest/src/output/work_folder.rs", "folders with a random name, of mode 0700"),
    ("ingest/src/trace_writer/", "folders that the user names"),
    ("trace-demo/src/lib.rs", "a folder that the user names"),
    ("cli/src/commands/init.rs", "a folder that the user names"),
    ("cli/src/commands/man.rs", "a folder that the user names"),
    ("cli/src/commands/rules.rs", "a folder that the user names"),
];

#[test]
fn files_are_created_in_few_places() {
    let calls = r"\b(create_dir|create_dir_all|tempdir|tempdir_in|tempfile|tempfile_in|fs::write|fs::copy|hard_link)\(";
    let types = r"\b(File::create|File::create_new|File::options|OpenOptions::new|NamedTempFile|TempDir|DirBuilder)\b";
    let creating = format!("{calls}|{types}");
    let creating = Regex::new(&creating).unwrap();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut used = vec![false; CREATORS.len()];
    for file in rust_files(&crates) {
        let below = file.strip_prefix(&crates).unwrap().to_string_lossy().replace('\\', "/");
        let is_test = below.contains("/tests") || below.ends_with("tests.rs");
        if is_test || !below.contains("/src/") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("\nmod tests {").next().unwrap_or_default();
        let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let Some(line) = code.into_iter().find(|line| creating.is_match(line)) else { continue };
        let at = CREATORS.iter().position(|(place, _)| below.starts_with(place));
        let at = at.unwrap_or_else(|| panic!("{below} creates files: use `Access`\n{line}"));
        used[at] = true;
    }
    let unused = CREATORS.iter().zip(used).filter(|(_, is_used)| !is_used);
    assert_eq!(unused.map(|((place, _), _)| *place).collect::<Vec<_>>(), [""; 0]);
}
