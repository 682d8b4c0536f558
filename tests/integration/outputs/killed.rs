//! Commands that end at any moment, by SIGKILL or a signal that can be handled.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{names, succeeds};
use crate::support::process::ignores_hangups;
use crate::support::sandbox::Sandbox;

/// The commands that replace an output, with a run still to be put in place of RUN, and the output.
const COMMANDS: [(&[&str], &str); 5] = [
    (&["merge", "RUN", "-o", "out/m.json.gz", "--force"], "out/m.json.gz"),
    (&["augment", "RUN", "-o", "out", "--only", "counters", "--force"], "out"),
    (&["cut", "RUN", "--between", "0ms..40ms", "-o", "out", "--force"], "out"),
    (&["export", "RUN", "-o", "out/tables", "--force"], "out/tables"),
    (
        &[
            "check",
            "RUN",
            "--select",
            "GU001",
            "--format",
            "json",
            "-o",
            "out/report.json",
            "--force",
        ],
        "out/report.json",
    ),
];

fn with_run(command: &[&'static str], run: &'static str) -> Vec<&'static str> {
    command.iter().map(|&word| if word == "RUN" { run } else { word }).collect()
}

/// The files at and below a path, with their content; work folders are left out.
fn files(path: &Path) -> Vec<(String, Vec<u8>)> {
    if path.is_file() {
        return vec![(String::new(), fs::read(path).unwrap())];
    }
    let mut all = Vec::new();
    for name in names(path).into_iter().filter(|name| !name.starts_with(".advisor-")) {
        let below = files(&path.join(&name)).into_iter();
        all.extend(below.map(|(file, content)| (format!("{name}/{file}"), content)));
    }
    all
}

/// Two runs whose files have the same names.
fn two_runs() -> Sandbox {
    let sandbox = Sandbox::new();
    for (run, bottleneck) in [("one", "none"), ("two", "small-kernels")] {
        let demo = ["demo", "-o", run, "--bottleneck", bottleneck, "--steps", "4", "--layers", "3"];
        succeeds(&sandbox, &demo);
    }
    assert_eq!(names(&sandbox.path("one")), names(&sandbox.path("two")));
    sandbox
}

/// Kills each command at `count` moments that are spread over the time that it takes.
fn kill(count: u32) {
    let sandbox = two_runs();
    for (command, output) in COMMANDS {
        fs::create_dir_all(sandbox.path("out")).unwrap();
        let args = |run| with_run(command, run);
        let mut elapsed = Duration::ZERO;
        let [one, two] = ["one", "two"].map(|run| {
            let start = Instant::now();
            succeeds(&sandbox, &args(run));
            elapsed = start.elapsed();
            files(&sandbox.path(output))
        });
        assert_ne!(one, two, "{command:?}");
        let is_begun = || names(&sandbox.path("out")).iter().any(|n| n.starts_with(".advisor-"));
        let mut killed = 0;
        for number in 0..count {
            let run = if number % 2 == 0 { "one" } else { "two" };
            let mut child = sandbox.command(&args(run));
            child.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = child.spawn().unwrap();
            // Half of the time goes to the moments in which something is written. The golden ratio spreads them.
            let part = (f64::from(number) * 0.618_034).fract();
            let mut wait = elapsed.mul_f64(part);
            if number % 4 >= 2 {
                while !is_begun() && child.try_wait().unwrap().is_none() {
                    std::hint::spin_loop();
                }
                wait = elapsed.mul_f64(part * 0.3);
            }
            std::thread::sleep(wait);
            child.kill().unwrap();
            killed += u32::from(child.wait().unwrap().code().is_none());
            // Each file is the old one or the new one; an export is one or the other as a whole.
            let now = files(&sandbox.path(output));
            if output == "out" {
                assert_eq!(now.len(), one.len(), "{command:?}");
                assert!(
                    now.iter().all(|file| one.contains(file) || two.contains(file)),
                    "{command:?}"
                );
            } else {
                assert!(now == one || now == two, "{command:?}");
            }
        }
        assert!(killed >= count / 4, "{command:?}: {killed} of {count} were still running");
        succeeds(&sandbox, &args("one"));
        assert_eq!(files(&sandbox.path(output)), one, "{command:?}");
        let left = names(&sandbox.path("out"));
        assert!(left.iter().all(|name| !name.starts_with(".advisor-")), "{command:?}: {left:?}");
        fs::remove_dir_all(sandbox.path("out")).unwrap();
    }
    assert_eq!(names(&sandbox.path("")), ["one", "two"]);
}

#[test]
fn killed_commands_leave_the_old_output_or_the_new_one() {
    kill(8);
}

#[test]
#[ignore = "takes minutes: 200 kills"]
fn commands_killed_often_leave_the_old_output_or_the_new_one() {
    kill(40);
}

/// Ctrl-C, and what `kill` and the end of a session send.
#[test]
fn interrupted_commands_leave_the_old_output_alone() {
    let sandbox = Sandbox::new();
    succeeds(&sandbox, &["demo", "-o", "one", "--steps", "12", "--layers", "8"]);
    fs::create_dir(sandbox.path("out")).unwrap();
    for (command, _) in COMMANDS.into_iter().filter(|(command, _)| command[0] != "check") {
        // Tests that outlive their terminal start programs that do so, too.
        let hangup = (!ignores_hangups()).then_some("-HUP");
        for signal in ["-INT", "-TERM"].into_iter().chain(hangup) {
            let args = with_run(command, "one");
            let mut child = sandbox.command(&args);
            let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            while names(&sandbox.path("out")).is_empty() {
                assert!(child.try_wait().unwrap().is_none(), "{command:?} ended too soon");
                std::hint::spin_loop();
            }
            let pid = child.id().to_string();
            assert!(
                std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success()
            );
            assert_eq!(child.wait().unwrap().code(), Some(130), "{command:?} {signal}");
            assert_eq!(names(&sandbox.path("out")), [""; 0], "{command:?} {signal}");
        }
    }
}
