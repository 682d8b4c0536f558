//! Numbers can be reproduced: the query that a finding names gives its number, and the printed query of a view gives its rows.

use std::process::Command;

use serde_json::Value;
use trace_advisor::arrow::array::RecordBatch;
use trace_advisor::arrow::util::display::array_value_to_string;
use trace_advisor::{Run, analyses};

use super::{check, said, sandbox};
use crate::support::sandbox::Sandbox;

fn rows(sandbox: &Sandbox, run: &str, query: &str, options: &[&str]) -> Vec<Value> {
    let mut args = vec!["sql", run, query, "--format", "json"];
    args.extend(options);
    serde_json::from_str(&said(sandbox, &args)).unwrap()
}

/// True if two numbers are equal apart from rounding.
fn near(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-4 * a.abs().max(1.0),
        _ => false,
    }
}

fn numbers_are_those_of_the_queries(sandbox: &Sandbox, run: &str, options: &[&str]) -> usize {
    let mut args = vec!["check", run, "--rules", "own.toml", "--format", "json"];
    args.extend(options);
    let report: Value = serde_json::from_str(&said(sandbox, &args)).unwrap();
    let findings = report["findings"].as_array().unwrap();
    for finding in findings {
        let sql = finding["sql"]["value"].as_str().unwrap();
        let column = finding["metric"].as_str().unwrap().rsplit_once('.').unwrap().1;
        let keys = finding["affected"]["worst"][0]["keys"].as_object().unwrap();
        let rows_found = rows(sandbox, run, sql, options);
        let is_worst = |row: &&Value| keys.iter().all(|(key, value)| row[key] == *value);
        let row =
            rows_found.iter().find(is_worst).unwrap_or_else(|| panic!("{sql}: {rows_found:?}"));
        assert!(near(row[column].as_f64(), finding["value"].as_f64()), "{sql}: {row}");
        if let Some(sql) = finding["sql"]["what_if"].as_str() {
            let row = &rows(sandbox, run, sql, options)[0];
            let share = row.as_object().unwrap().values().next().unwrap().as_f64();
            let pct = finding["gain"]["what_if_pct"].as_f64();
            assert!(near(share.map(|s| s * 100.0), pct), "{sql}: {row}, {pct:?}");
        }
        if let Some(sql) = finding["sql"]["source"].as_str() {
            let lines: Vec<Value> =
                rows(sandbox, run, sql, options).iter().map(|row| row["source"].clone()).collect();
            let found = finding["source"].as_array().unwrap();
            assert_eq!(&lines[..found.len()], found.as_slice(), "{sql}");
        }
        if let Some(sql) = finding["sql"]["seen"].as_str() {
            let moments = rows(sandbox, run, sql, options);
            let seen = &finding["seen"];
            assert_eq!(moments[0]["ts_ns"], seen["longest"][0]["ts_ns"], "{sql}");
            assert_eq!(moments[0]["moment_count"], seen["count"], "{sql}");
            assert_eq!(moments[0]["moments_ns"], seen["sum_ns"], "{sql}");
        }
    }
    findings.len()
}

#[test]
fn numbers_match_their_queries() {
    let sandbox = sandbox();
    assert!(numbers_are_those_of_the_queries(&sandbox, "run", &[]) > 2);
    assert!(numbers_are_those_of_the_queries(&sandbox, "run", &["--ranks", "1"]) > 2);
}

#[test]
#[ignore = "needs ADVISOR_CORPUS"]
fn numbers_of_recorded_runs_match_their_queries() {
    let sandbox = sandbox();
    for run in super::recorded_runs() {
        numbers_are_those_of_the_queries(&sandbox, run.to_str().unwrap(), &[]);
    }
}

#[test]
fn printed_commands_run() {
    let sandbox = sandbox();
    sandbox.write(
        "query.toml",
        r#"
        [rule.busy-kernel]
        code = "XX009"
        category = "kernels"
        sql = "SELECT rank, name, CAST(sum(dur_ns) AS DOUBLE) / 1e9 AS long_ratio FROM kernels GROUP BY rank, name -- all\n;"
        column = "long_ratio"
        unit = "ratio"
        scope = "kernel"
        info = "> 0 %"
        title = "{{ name }}"
        message = "{{ long_ratio|pct }}"
        advice = ["None."]
        why = "It is."
        "#,
    );
    let mut args =
        check(&["run"], "text", &["--explain", "--all", "--steps", "0..", "--include-last-step"]);
    args.extend(["--rules", "query.toml", "--set", "short_kernel_us=50"]);
    let text = said(&sandbox, &args);
    let (mut commands, mut open) = (Vec::<String>::new(), false);
    for line in text.lines() {
        if line.starts_with("advisor sql ") {
            commands.push(line.to_owned());
            open = true;
        } else if line.starts_with(' ') || line.is_empty() {
            open = false;
        } else if open {
            let last = commands.last_mut().unwrap();
            last.push('\n');
            last.push_str(line);
        }
    }
    assert!(commands.len() >= 4, "{text}");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_advisor"));
    for command in commands {
        assert!(
            command.ends_with("--set short_kernel_us=50 --include-last-step --steps 0.."),
            "{command}"
        );
        let script = command.replacen("advisor", program.to_str().unwrap(), 1);
        let output = Command::new("sh")
            .args(["-c", &script])
            .current_dir(sandbox.path(""))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {errors}");
        assert!(String::from_utf8_lossy(&output.stdout).lines().count() > 1, "{script}");
    }
}

/// Rows as sorted texts: an order that a view leaves open does not count.
fn sorted(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cell = |column: &trace_advisor::arrow::array::ArrayRef| {
                array_value_to_string(column, row).unwrap()
            };
            rows.push(batch.columns().iter().map(cell).collect::<Vec<_>>().join("|"));
        }
    }
    rows.sort();
    rows
}

#[test]
fn printed_sql_of_a_view_gives_its_rows() {
    let sandbox = sandbox();
    let run = Run::open(sandbox.path("run")).unwrap();
    let catalog = analyses::catalog();
    // Those that rules judge: all of them take a minute to plan.
    let rules = trace_advisor::default_rules();
    let judged: Vec<_> = rules.views().into_iter().filter_map(|view| catalog.find(view)).collect();
    for module in judged.into_iter().filter(|m| m.rust.is_none()) {
        let query = catalog.inlined_sql(&module.name).unwrap();
        let rows = run.sql(&query).unwrap_or_else(|e| panic!("{}: {e}\n{query}", module.name));
        assert_eq!(sorted(&rows), sorted(&run.analyze(&module.name).unwrap()), "{}", module.name);
    }
    let printed = said(&sandbox, &["tables", "gpu_utilization", "--sql"]);
    assert_eq!(printed, catalog.inlined_sql("gpu_utilization").unwrap());
    for wrong in ["kernels", "gpu_utilisation"] {
        assert_eq!(sandbox.run(&["tables", wrong, "--sql"]).status.code(), Some(2), "{wrong}");
    }
}
