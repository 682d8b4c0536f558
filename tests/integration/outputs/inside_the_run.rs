//! Outputs that would be read as part of the run that they are made from.

use std::fs;

use super::{fails, names, succeeds, text, traces};
use crate::support::sandbox::Sandbox;

#[test]
fn traces_in_the_run_are_refused() {
    let sandbox = Sandbox::with_run();
    fs::create_dir(sandbox.path("other")).unwrap();
    let before = traces(&sandbox, "run");
    let mut paths = vec!["run/merged.json", "./run/new.txt", "other/../run/merged.json.gz"];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("run", sandbox.path("link")).unwrap();
        paths.push("link/merged.json");
    }
    for to in paths {
        for more in [&[][..], &["--force"]] {
            let said = fails(&sandbox, &[&["merge", "run", "-o", to], more].concat());
            assert!(said.contains(&format!("{to} would become part of the run run")), "{said}");
            assert!(said.contains("write to a directory outside of the run"), "{said}");
        }
    }
    assert_eq!(traces(&sandbox, "run"), before);
    succeeds(&sandbox, &["merge", "run", "-o", "merged.json"]);
    // One file of a run is a run that nothing can be added to.
    let file = format!("run/{}", before[0]);
    succeeds(&sandbox, &["merge", &file, "-o", "run/merged.json"]);
}

#[test]
fn copies_and_cuts_in_the_run_are_refused_where_they_would_be_read() {
    let sandbox = Sandbox::new();
    succeeds(&sandbox, &["demo", "-o", "run", "--json", "--steps", "4", "--layers", "1"]);
    let before = traces(&sandbox, "run");
    let cut = ["cut", "run", "--between", "0ms..9ms", "--force", "-o"];
    let augment = ["augment", "run", "--gz", "--force", "-o"];
    for command in [&cut[..], &augment] {
        let said = fails(&sandbox, &[command, &["run"]].concat());
        assert!(said.contains("would become part of the run run"), "{said}");
        assert_eq!(traces(&sandbox, "run"), before);
    }
    // Folders below traces are not searched for more traces.
    let check = ["check", "run", "--format", "json"];
    let report = succeeds(&sandbox, &check);
    succeeds(&sandbox, &[&augment[..], &["run/augmented"]].concat());
    assert_eq!(text(&succeeds(&sandbox, &check).stdout), text(&report.stdout));

    // Without traces on top, they are.
    fs::create_dir_all(sandbox.path("nested/traces")).unwrap();
    for name in &before {
        let (from, to) = (format!("run/{name}"), format!("nested/traces/{name}"));
        fs::rename(sandbox.path(&from), sandbox.path(&to)).unwrap();
    }
    let said = fails(&sandbox, &["merge", "nested", "-o", "nested/new/merged.json"]);
    assert!(said.contains("would become part of the run nested"), "{said}");
    assert_eq!(names(&sandbox.path("nested")), ["traces"]);
}

#[test]
fn reports_in_the_run_are_refused_only_if_they_look_like_traces() {
    let sandbox = Sandbox::with_run();
    let check = ["check", "run", "--format", "json"];
    let before = succeeds(&sandbox, &check);
    for format in ["text", "jsonl", "csv", "html", "markdown", "junit", "github"] {
        let to = format!("run/report.{format}");
        succeeds(&sandbox, &["check", "run", "--format", format, "-o", &to]);
    }
    // The keys in these two formats make them look like traces.
    for format in ["json", "sarif"] {
        let said = fails(&sandbox, &["check", "run", "--format", format, "-o", "run/report.json"]);
        assert!(said.contains("run/report.json would become part of the run run"), "{said}");
    }
    succeeds(&sandbox, &["sql", "run", "SELECT * FROM kernels", "-f", "csv", "-o", "run/rows.csv"]);
    // Only the warnings about files that are not traces have changed.
    let report = |output: &std::process::Output| -> serde_json::Value {
        let mut report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        report["warnings"].take();
        report
    };
    assert_eq!(report(&succeeds(&sandbox, &check)), report(&before));

    let events = "SELECT 'X' AS ph, name, ts_ns / 1000 AS ts, dur_ns / 1000 AS dur FROM kernels";
    let sql = ["sql", "run", events, "--format", "json", "-o"];
    let said = fails(&sandbox, &[&sql[..], &["run/rows.json"]].concat());
    assert!(said.contains("run/rows.json would become part of the run run"), "{said}");
    assert!(!sandbox.path("run/rows.json").exists());
    succeeds(&sandbox, &[&sql[..], &["rows.json"]].concat());
}

#[test]
fn outputs_among_the_runs_of_each_are_refused() {
    let sandbox = Sandbox::with_run();
    fs::create_dir(sandbox.path("runs")).unwrap();
    fs::rename(sandbox.path("run"), sandbox.path("runs/a")).unwrap();
    for command in ["augment", "export"] {
        let said = fails(&sandbox, &[command, "runs", "--each", "-o", "runs/out"]);
        assert!(said.contains("runs/out would become one of the runs in runs"), "{said}");
        assert_eq!(names(&sandbox.path("runs")), ["a"]);
        succeeds(&sandbox, &[command, "runs", "--each", "-o", command]);
    }
    // An export below a run is not read as part of it.
    let tables = ["tables", "runs/a"];
    let before = succeeds(&sandbox, &tables);
    succeeds(&sandbox, &["export", "runs/a", "-o", "runs/a/tables"]);
    assert_eq!(text(&succeeds(&sandbox, &tables).stdout), text(&before.stdout));
}
