//! `advisor watch` on a run that grows.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use regex::Regex;

use crate::support::sandbox::Sandbox;

/// A check takes a second on a fast machine, and files have to be unchanged for another one.
const PATIENCE: Duration = Duration::from_mins(2);

/// The traces of the run of a sandbox, which are moved out of it.
fn held_back(sandbox: &Sandbox) -> Vec<PathBuf> {
    let files = fs::read_dir(sandbox.path("run")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    fs::rename(sandbox.path("run"), sandbox.path("later")).unwrap();
    files
}

/// Adds a trace to the run.
fn add(sandbox: &Sandbox, file: &PathBuf) {
    fs::create_dir_all(sandbox.path("run")).unwrap();
    let from = sandbox.path("later").join(file.file_name().unwrap());
    fs::rename(from, file).unwrap();
}

fn start(sandbox: &Sandbox, args: &[&str]) -> Child {
    let mut command = sandbox.command(&[&["watch", "run", "--every", "1s"], args].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a condition holds.
fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The exit code and what is left of the output.
fn finished(mut process: Child) -> (i32, String, String) {
    let (mut out, mut err) = (String::new(), String::new());
    process.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    process.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (process.wait().unwrap().code().unwrap(), out, err)
}

/// The value of a sample, by its name and the labels after that of the run.
fn sample(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[test]
fn watch_reports_what_changes_as_ranks_are_added() {
    let sandbox = Sandbox::with_run();
    let files = held_back(&sandbox);
    let metrics = sandbox.path("m.prom");
    let ranks = || {
        let text = fs::read_to_string(&metrics).unwrap_or_default();
        sample(&text, "advisor_run_ranks{run=\"run\"}")
    };
    let options =
        ["--checks", "2", "--map-to", "mapped", "--report", "last.json", "--prometheus", "m.prom"];
    let mut process = start(&sandbox, &options);
    // The run does not exist yet.
    let mut note = String::new();
    let mut err = BufReader::new(process.stderr.take().unwrap());
    err.read_line(&mut note).unwrap();
    assert!(note.starts_with("note: waiting: "), "{note}");
    add(&sandbox, &files[0]);
    wait_for("the first check", || ranks() == Some(1.0));
    let groups = || {
        let entries = fs::read_dir(sandbox.path("mapped")).unwrap().map(|e| e.unwrap().path());
        let mut groups: Vec<_> = entries
            .map(|path| (path.clone(), path.metadata().unwrap().modified().unwrap()))
            .collect();
        groups.sort();
        groups
    };
    let first = groups();
    assert_eq!(first.len(), 1);
    let report = fs::read_to_string(sandbox.path("last.json")).unwrap();
    add(&sandbox, &files[1]);
    process.stderr = None;
    drop(std::thread::spawn(move || err.lines().count()));
    let mut out = String::new();
    process.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(0), "{out}");

    let time = Regex::new(r"(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC  run: (.*)$").unwrap();
    let headers: Vec<&str> = time.captures_iter(&out).map(|c| c.get(1).unwrap().as_str()).collect();
    assert_eq!(headers.len(), 2, "{out}");
    assert_eq!(headers[0], "first check");
    assert!(headers[1].starts_with("2 ranks, 4 steps; "), "{out}");
    assert!(out.contains("high[IN001 dataloader-wait]"), "the whole report comes first: {out}");

    // What was mapped is not mapped again.
    assert_eq!(groups().len(), 2);
    assert!(groups().contains(&first[0]));

    // The last report is that of a check with the report before as a baseline.
    sandbox.write("before.json", &report);
    let check = sandbox.run(&["check", "run", "--format", "json", "--baseline", "before.json"]);
    let mut expected: serde_json::Value = serde_json::from_slice(&check.stdout).unwrap();
    let mut last: serde_json::Value =
        serde_json::from_slice(&fs::read(sandbox.path("last.json")).unwrap()).unwrap();
    assert_eq!(last["baseline"]["path"], "the last check");
    expected["baseline"]["path"].take();
    last["baseline"]["path"].take();
    assert_eq!(last, expected);

    // All lines are comments or samples, and state what the report and the views do.
    let text = fs::read_to_string(&metrics).unwrap();
    let line =
        r#"^(# (HELP|TYPE) \S+ .+|[a-z_]+\{run="run"(,[a-z_]+="([^"\\]|\\.)*")*\} -?[0-9.e-]+)$"#;
    let line = Regex::new(line).unwrap();
    assert!(text.lines().all(|text| line.is_match(text)), "{text}");
    assert_eq!(sample(&text, "advisor_check_success{run=\"run\"}"), Some(1.0));
    let findings = last["findings"].as_array().unwrap();
    let verdict = |verdict: &str| {
        let name = format!("advisor_rules{{run=\"run\",verdict=\"{verdict}\"}}");
        sample(&text, &name).unwrap() as usize
    };
    assert_eq!(verdict("finding"), findings.len());
    assert_eq!(verdict("passed"), last["passed"].as_array().unwrap().len());
    assert_eq!(verdict("unknown"), last["unknown"].as_array().unwrap().len());
    for rank in 0..2 {
        let name = format!("advisor_rank_step_seconds{{run=\"run\",rank=\"{rank}\"}}");
        assert!(sample(&text, &name).unwrap() > 0.0);
        let part = format!("advisor_rank_step_ratio{{run=\"run\",rank=\"{rank}\",part=");
        let parts = text.lines().filter_map(|line| line.strip_prefix(&part));
        let sum: f64 =
            parts.map(|rest| rest.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "parts of a step add up: {sum}");
    }
}

#[test]
fn a_run_that_keeps_changing_is_checked_nevertheless() {
    let sandbox = Sandbox::with_run();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let file = fs::read_dir(sandbox.path("run")).unwrap().next().unwrap().unwrap().path();
    let touching = std::thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            let file = fs::OpenOptions::new().append(true).open(&file).unwrap();
            file.set_modified(std::time::SystemTime::now()).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let (code, out, err) = finished(start(&sandbox, &["--checks", "1"]));
    stop.send(()).unwrap();
    touching.join().unwrap();
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("run: first check"), "{out}");
}

#[test]
fn watch_continues_from_the_report_of_an_earlier_watch() {
    let sandbox = Sandbox::with_run();
    let args = ["--checks", "1", "--report", "last.json"];
    let (code, first, err) = finished(start(&sandbox, &args));
    assert_eq!(code, 0, "{err}");
    assert!(first.contains("first check\n"), "{first}");
    let check = sandbox.run(&["check", "run", "--format", "json"]);
    assert_eq!(fs::read(sandbox.path("last.json")).unwrap(), check.stdout, "as `check` writes it");
    let (code, again, _) = finished(start(&sandbox, &args));
    assert_eq!(code, 0);
    assert_eq!(again.lines().count(), 1, "nothing changed: {again}");
    assert!(again.contains("2 ranks, 4 steps; ") && again.contains(" unchanged"), "{again}");
}

#[test]
fn a_failed_check_says_so_in_the_measures_and_by_its_exit_code() {
    let sandbox = Sandbox::with_run();
    // Parameters of views are known when the run is opened.
    let args = ["--checks", "2", "--prometheus", "m.prom", "--set", "no_such_parameter=1"];
    let (code, out, err) = finished(start(&sandbox, &args));
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert_eq!(err.matches("no_such_parameter").count(), 1, "the same error is shown once: {err}");
    let text = fs::read_to_string(sandbox.path("m.prom")).unwrap();
    assert_eq!(sample(&text, "advisor_check_success{run=\"run\"}"), Some(0.0));
    assert!(!text.contains("advisor_rules"), "{text}");
}

/// Whether the metrics say that the last check succeeded.
fn success(sandbox: &Sandbox) -> Option<f64> {
    let text = fs::read_to_string(sandbox.path("m.prom")).unwrap_or_default();
    sample(&text, "advisor_check_success{run=\"run\"}")
}

/// Leaves the report and the metrics of a check that succeeded.
fn watch_once(sandbox: &Sandbox) {
    let args = ["--checks", "1", "--report", "last.json", "--prometheus", "m.prom"];
    let (code, _, err) = finished(start(sandbox, &args));
    assert_eq!(code, 0, "{err}");
    assert_eq!(success(sandbox), Some(1.0));
}

/// Changes the time of a trace.
fn touch_a_trace(sandbox: &Sandbox) {
    let trace = fs::read_dir(sandbox.path("run")).unwrap().next().unwrap().unwrap().path();
    let trace = fs::OpenOptions::new().append(true).open(trace).unwrap();
    trace.set_modified(std::time::SystemTime::now()).unwrap();
}

#[test]
fn a_run_that_vanishes_for_a_while_is_no_success_until_it_is_back() {
    let sandbox = Sandbox::with_run();
    let process = start(&sandbox, &["--checks", "2", "--prometheus", "m.prom"]);
    wait_for("the first check", || success(&sandbox) == Some(1.0));
    let checked = fs::read(sandbox.path("m.prom")).unwrap();
    fs::rename(sandbox.path("run"), sandbox.path("away")).unwrap();
    wait_for("the run to be missed", || success(&sandbox) == Some(0.0));
    fs::rename(sandbox.path("away"), sandbox.path("run")).unwrap();
    wait_for("the run to be found", || success(&sandbox) == Some(1.0));
    let again = fs::read(sandbox.path("m.prom")).unwrap();
    assert_eq!(again, checked, "a run that has not changed is not checked again");
    touch_a_trace(&sandbox);
    let (code, out, err) = finished(process);
    assert_eq!(code, 0, "{err}");
    assert_eq!(out.matches(" UTC  run: ").count(), 2, "{out}");
    assert_eq!(err.matches("note: waiting: ").count(), 1, "{err}");
    assert_eq!(success(&sandbox), Some(1.0));
}

#[test]
fn a_report_whose_folder_vanishes_for_a_while_is_written_later() {
    let sandbox = Sandbox::with_run();
    fs::create_dir(sandbox.path("out")).unwrap();
    let report = sandbox.path("out/last.json");
    let mut process = start(&sandbox, &["--checks", "3", "--report", "out/last.json"]);
    wait_for("the first report", || report.exists());
    let first = fs::read(&report).unwrap();
    fs::rename(sandbox.path("out"), sandbox.path("away")).unwrap();
    touch_a_trace(&sandbox);
    let mut error = String::new();
    let mut err = BufReader::new(process.stderr.take().unwrap());
    err.read_line(&mut error).unwrap();
    assert!(error.starts_with("error: cannot write out/last.json: "), "{error}");
    fs::rename(sandbox.path("away"), sandbox.path("out")).unwrap();
    wait_for("the second report", || fs::read(&report).is_ok_and(|text| text != first));
    touch_a_trace(&sandbox);
    let mut out = String::new();
    process.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(0), "{out}");
    assert_eq!(out.matches(" UTC  run: ").count(), 3, "{out}");
}

/// Starts a watch that writes no file of more than `blocks` blocks of 512 bytes: a full disk.
#[cfg(target_os = "linux")]
fn start_on_full_disk(sandbox: &Sandbox, blocks: u32, args: &[&str]) -> Child {
    let program = sandbox.command(&[&["watch", "run", "--every", "1s"], args].concat());
    let limit = format!("trap '' XFSZ; ulimit -S -f {blocks} || exit 99; exec \"$0\" \"$@\"");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &limit]).arg(program.get_program()).args(program.get_args());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(sandbox.path("")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_fails_a_check_and_ends_no_watch() {
    let sandbox = Sandbox::with_run();
    watch_once(&sandbox);
    let report = fs::read(sandbox.path("last.json")).unwrap();
    let args = ["--checks", "2", "--report", "last.json", "--prometheus", "m.prom"];
    let process = start_on_full_disk(&sandbox, 1, &args);
    // The report does not fit, but that the check has failed does.
    wait_for("the failure", || success(&sandbox) == Some(0.0));
    assert_eq!(fs::read(sandbox.path("last.json")).unwrap(), report);
    let pid = process.id().to_string();
    let mut free = std::process::Command::new("prlimit");
    assert!(free.args(["--pid", &pid, "--fsize=unlimited:"]).status().unwrap().success());
    wait_for("the files to be written", || success(&sandbox) == Some(1.0));
    assert_ne!(fs::read(sandbox.path("last.json")).unwrap(), report);
    touch_a_trace(&sandbox);
    let (code, out, err) = finished(process);
    assert_eq!(code, 0, "{err}");
    assert_eq!(out.matches(" UTC  run: ").count(), 2, "what is written later is not checked again");
    assert_eq!(err.matches("cannot write last.json: File too large").count(), 1, "{err}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_success_that_cannot_be_replaced_is_removed() {
    let sandbox = Sandbox::with_run();
    watch_once(&sandbox);
    let args = ["--checks", "1", "--prometheus", "m.prom"];
    let (code, out, err) = finished(start_on_full_disk(&sandbox, 0, &args));
    assert_eq!(code, 2, "{err}");
    assert!(out.contains("run: first check"), "{out}");
    assert!(err.contains("error: cannot write m.prom: File too large"), "{err}");
    assert!(!sandbox.path("m.prom").exists());
}

#[test]
fn metrics_replace_no_file_but_their_own() {
    let sandbox = Sandbox::with_run();
    sandbox.write("m.prom", "notes\n");
    let args = ["--checks", "1", "--prometheus", "m.prom"];
    let (code, out, err) = finished(start(&sandbox, &args));
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("m.prom already exists") && err.contains("--force"), "{err}");
    assert_eq!(fs::read_to_string(sandbox.path("m.prom")).unwrap(), "notes\n");
    let forced = [&args[..], &["--force"]].concat();
    assert_eq!(finished(start(&sandbox, &forced)).0, 0);
    assert_eq!(success(&sandbox), Some(1.0));
    assert_eq!(finished(start(&sandbox, &args)).0, 0, "a watch may be started again");
    #[cfg(unix)]
    {
        fs::rename(sandbox.path("m.prom"), sandbox.path("target.prom")).unwrap();
        std::os::unix::fs::symlink("target.prom", sandbox.path("m.prom")).unwrap();
        let (code, _, err) = finished(start(&sandbox, &args));
        assert_eq!(code, 2, "{err}");
        assert!(sandbox.path("m.prom").is_symlink());
    }
}

#[test]
fn what_cannot_be_watched_or_written_is_refused_at_once() {
    let sandbox = Sandbox::with_run();
    for option in ["--report", "--prometheus"] {
        let (code, _, err) = finished(start(&sandbox, &[option, "absent/file"]));
        assert_eq!(code, 2);
        assert!(err.contains("cannot write absent/file"), "{err}");
    }
    let stdin = sandbox.run(&["watch", "-"]);
    assert_eq!(stdin.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&stdin.stderr).contains("a trace on stdin cannot change"));
    sandbox.write("notes.json", "my notes");
    let (code, _, err) = finished(start(&sandbox, &["--report", "notes.json"]));
    assert_eq!(code, 2);
    assert!(err.contains("notes.json is not a baseline"), "{err}");
}
