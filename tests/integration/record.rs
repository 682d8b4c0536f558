//! `advisor record` as a program that runs others: exit codes, output, signals. What it records is tested with PyTorch, in
//! `tests/python/training`.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::support::sandbox::Sandbox;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn exit_code_and_output_are_those_of_the_program() {
    let sandbox = Sandbox::new();
    let output = sandbox.run(&["record", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(7), "out\n"));
    let stderr = text(&output.stderr);
    assert!(
        stderr.starts_with("err\nwarning: nothing was recorded: no Python process"),
        "{stderr}"
    );
    assert!(!sandbox.path("run").exists());
    let quiet = sandbox.run(&["record", "--quiet", "--", "sh", "-c", "exit 1"]);
    assert_eq!((quiet.status.code(), text(&quiet.stderr)), (Some(1), ""));
    let killed = sandbox.run(&["record", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(128 + 9));
}

#[test]
fn program_that_cannot_start_gives_the_exit_code_of_shells() {
    let sandbox = Sandbox::new();
    sandbox.write("text", "no program");
    for (program, code) in [("nowhere", 127), ("./text", 126)] {
        let output = sandbox.run(&["record", "--", program]);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(text(&output.stderr).starts_with(&format!("error: cannot run {program}: ")));
    }
}

#[test]
fn files_of_an_earlier_run_are_kept() {
    let sandbox = Sandbox::with_run();
    let record = |options: &[&str]| {
        let program = ["--", "sh", "-c", "echo $ADVISOR_RECORD"];
        let output = sandbox.run(&[&["record"], options, &program].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        (text(&output.stdout).to_owned(), text(&output.stderr).to_owned())
    };
    let count = sandbox.path("run").read_dir().unwrap().count();
    for options in [&[][..], &["-o", "run/"]] {
        let (settings, told) = record(options);
        assert!(settings.contains("/run-2\""), "{settings}");
        assert!(told.contains("is not empty: recording into run-2\n"), "{told}");
    }
    std::fs::create_dir(sandbox.path("run-2")).unwrap();
    assert!(record(&[]).0.contains("/run-2\""));
    sandbox.write("run-2/rank0.json", "");
    sandbox.write("run-3", "");
    assert!(record(&[]).0.contains("/run-4\""));
    let (settings, told) = record(&["--force"]);
    assert!(settings.contains("/run\"") && !told.contains("recording into"), "{settings}{told}");
    assert_eq!(sandbox.path("run").read_dir().unwrap().count(), count);
    let refused = sandbox.run(&["record", "-o", "run-3", "--", "sh", "-c", "touch started"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).starts_with("error: run-3 exists and is not an empty directory"));
    assert!(!sandbox.path("started").exists());
}

#[test]
fn python_files_come_first_on_the_path_of_the_user_and_vanish() {
    let sandbox = Sandbox::new();
    let print = "echo $PYTHONPATH; ls ${PYTHONPATH%%:*}; echo $ADVISOR_RECORD";
    let args = ["record", "--steps", "3-5", "--stacks", "-o", "there", "--", "sh", "-c", print];
    let output = sandbox.command(&args).env("PYTHONPATH", "/mine:/other").output().unwrap();
    let stdout = text(&output.stdout);
    let (path, others) = stdout.split_once('\n').unwrap();
    let (ours, mine) = path.split_once(':').unwrap();
    assert_eq!(mine, "/mine:/other");
    assert!(others.contains("sitecustomize.py"), "{others}");
    let settings = [
        "\"first_step\":3",
        "\"last_step\":5",
        "\"with_stack\":true",
        "\"writer\":\"auto\"",
        "/there\"",
    ];
    for setting in settings {
        assert!(others.contains(setting), "{setting}: {others}");
    }
    assert!(!std::path::Path::new(ours).exists());
}

#[test]
fn writer_of_pytorch_is_chosen_by_name() {
    let sandbox = Sandbox::new();
    for (writer, setting) in [("kineto", r#""writer":"kineto""#), ("cuspy", r#""writer":"cuspy""#)]
    {
        let args = ["record", "--writer", writer, "--", "sh", "-c", "printenv ADVISOR_RECORD"];
        let output = sandbox.run(&args);
        assert!(text(&output.stdout).contains(setting), "{}", text(&output.stdout));
    }
    let output = sandbox.run(&["record", "--writer", "perfetto", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("auto, kineto, cuspy"), "{}", text(&output.stderr));
}

#[test]
fn signals_are_passed_on() {
    let sandbox = Sandbox::new();
    let wait = "trap 'echo usr1; exit 5' USR1; echo ready; while :; do sleep 0.05; done";
    let mut child = sandbox
        .command(&["record", "--", "sh", "-c", wait])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let kill = Command::new("kill").args(["-USR1", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(lines.next().unwrap().unwrap(), "usr1");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}
