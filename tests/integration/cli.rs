//! Transcripts of the program: exit codes, formats, mistakes. They use rules of their own, so that
//! a new shipped rule changes nothing here.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use flate2::read::GzDecoder;
use serde_json::Value;
use trace_demo::{Options, Run};

use crate::support::sandbox::Sandbox;

const RULES: &str = r#"[rule.slow-loader]
code = "XX001"
category = "input-pipeline"
metric = "step_phases.dataloader_ratio"
high = "> 30 %"
medium = "> 10 %"
gain = { of = "dataloader_idle_ratio", low = 0.5, high = 1.0, method = "measured" }
title = "Steps wait for data"
message = "{{ dataloader_ratio|pct }} of a step is spent loading."
advice = ["Load in the background."]
why = "Nothing runs without data."
tests = [
    { dataloader_ratio = 0.5, dataloader_idle_ratio = 0.4, expect = "high" },
    { dataloader_ratio = 0.01, expect = "pass" },
]
"#;

/// Snapshot of a transcript, in `tests/snapshots/`. Numbers with a fraction are left out: they are
/// the business of the analyses' own tests.
macro_rules! transcript {
    ($name:literal, $text:expr) => {
        insta::with_settings!({
            snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/snapshots"),
            prepend_module_to_snapshot => false,
            filters => vec![
                (r"\d+\.\d+ (%|ms|us|s|MB)", "[n] $1"),
                (r"\d+\.\d+x faster", "[n]x faster"),
                (r"[0-9.]+ (ms|us)/step", "[n]/step"),
                (r"0\.1\.0", "[version]"),
                (r" {20,}saves", "  saves"),
            ],
        }, { insta::assert_snapshot!($name, $text) });
    };
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_run();
    sandbox.write("own.toml", RULES);
    sandbox
}

fn own(args: &[&'static str]) -> Vec<&'static str> {
    let mut all = vec!["check", "run", "--rules", "own.toml", "--no-default-rules"];
    all.extend(args);
    all
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn check_reports_and_fails() {
    transcript!("check", sandbox().transcript(&own(&[])));
}

#[test]
fn fail_on_decides_the_exit_code() {
    let sandbox = sandbox();
    for (level, code) in
        [("never", 0), ("critical", 0), ("high", 1), ("medium", 1), ("low", 1), ("info", 1)]
    {
        let output = sandbox.run(&own(&["--fail-on", level]));
        assert_eq!(output.status.code(), Some(code), "{level}");
    }
}

#[test]
fn json_report_has_the_promised_fields() {
    let output = sandbox().run(&own(&["--format", "json"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema_version"], 3);
    assert_eq!(report["run"]["ranks"], serde_json::json!([0, 1]));
    assert_eq!(report["run"]["steps"], 4);
    let finding = &report["findings"][0];
    assert_eq!(finding["code"], "XX001");
    assert_eq!(finding["threshold_at"], "own.toml:5");
    for key in [
        "position",
        "name",
        "category",
        "severity",
        "confidence",
        "title",
        "message",
        "metric",
        "value",
        "unit",
        "threshold",
        "scope",
        "affected",
        "gain",
        "evidence",
        "source",
        "advice",
        "fingerprint",
    ] {
        assert!(!finding[key].is_null(), "{key}");
    }
    for key in ["tool", "headline", "unknown", "ignored", "warnings"] {
        assert!(!report[key].is_null(), "{key}");
    }
}

#[test]
fn output_files_have_no_colors_and_are_not_overwritten() {
    let sandbox = sandbox();
    let args = own(&["-o", "report.txt"]);
    assert_eq!(sandbox.run(&args).status.code(), Some(1));
    let report = std::fs::read_to_string(sandbox.path("report.txt")).unwrap();
    assert!(report.contains("[XX001 slow-loader]"));
    assert!(!report.contains('\u{1b}'), "{report:?}");
    assert_eq!(sandbox.run(&args).status.code(), Some(2));
}

#[test]
fn json_of_several_runs_is_an_array() {
    let output = sandbox().run(&["check", "run", "run", "--fail-on", "never", "--format", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reports.as_array().unwrap().len(), 2);
    assert_eq!(reports[0], reports[1]);
}

#[test]
fn run_summary_is_printed_before_the_verdict() {
    let sandbox = sandbox();
    sandbox.write("fails.toml", FAILS);
    let failed = sandbox.run(&["check", "run", "--rules", "fails.toml"]);
    assert_eq!(failed.status.code(), Some(1), "the other rules are judged");
    assert!(text(&failed.stderr).contains("fails-late"), "{}", text(&failed.stderr));
    let begun = text(&failed.stdout).lines().next().unwrap();
    assert!(begun.starts_with("run: "), "{begun}");

    let whole = sandbox.run(&["check", "run", "run", "--exit-zero"]);
    let written = sandbox.run(&["check", "run", "run", "--exit-zero", "-o", "report.txt"]);
    assert!(written.status.success());
    assert!(text(&whole.stdout).starts_with(begun));
    assert_eq!(text(&whole.stdout), std::fs::read_to_string(sandbox.path("report.txt")).unwrap());
}

/// A query that can be planned, but not run.
const FAILS: &str = r#"
[rule.fails-late]
code = "XX001"
category = "own"
sql = "SELECT rank, max(CAST(CAST(name AS VARCHAR) AS BIGINT)) AS most_bytes FROM cpu_ops GROUP BY rank"
column = "most_bytes"
unit = "bytes"
scope = "rank"
high = "> 1 GiB"
title = "Names are no numbers"
message = "{{ most_bytes|bytes }}"
advice = ["Count something else."]
why = "It ends with an error when it is run."
"#;

#[test]
fn check_output_is_deterministic() {
    let sandbox = sandbox();
    for format in ["text", "json"] {
        let args = ["check", "run", "--format", format, "--all"];
        assert_eq!(sandbox.run(&args).stdout, sandbox.run(&args).stdout);
    }
}

#[test]
fn unreadable_runs_are_explained() {
    let sandbox = sandbox();
    std::fs::create_dir(sandbox.path("empty")).unwrap();
    std::fs::create_dir(sandbox.path("other")).unwrap();
    sandbox.write("other/notes.txt", "nothing of use").write("broken.json", "{\"traceEvents\": 7}");
    let mut all = String::new();
    for path in ["nowhere", "hdfs://cluster/run", "empty", "other", "broken.json"] {
        all.push_str(&sandbox.transcript(&["check", path]));
    }
    transcript!("no_trace", all);
}

#[test]
fn errors_in_rule_files_have_a_location() {
    let sandbox = sandbox();
    sandbox.write("bad.toml", RULES.replace("step_phases", "step_fases").replace("why =", "wy ="));
    transcript!(
        "bad_rules",
        sandbox.transcript(&["check", "run", "--rules", "bad.toml", "--no-default-rules"])
    );
    transcript!("no_rules", sandbox.transcript(&["check", "run", "--rules", "nowhere.toml"]));
}

#[test]
fn rules_are_listed_tested_and_explained() {
    let sandbox = sandbox();
    sandbox.write("failing.toml", RULES.replace("expect = \"pass\"", "expect = \"high\""));
    let mut all =
        sandbox.transcript(&["rules", "list", "--rules", "own.toml", "--no-default-rules"]);
    all.push_str(&sandbox.transcript(&["rules", "test", "own.toml", "--no-default-rules"]));
    all.push_str(&sandbox.transcript(&["rules", "test", "failing.toml", "--no-default-rules"]));
    all.push_str(&sandbox.transcript(&[
        "explain",
        "XX01",
        "--rules",
        "own.toml",
        "--no-default-rules",
    ]));
    all.push_str(&sandbox.transcript(&[
        "explain",
        "slow-loader",
        "--rules",
        "own.toml",
        "--no-default-rules",
    ]));
    transcript!("rules", all);
    let schema: Value = serde_json::from_slice(&sandbox.run(&["rules", "schema"]).stdout).unwrap();
    assert!(schema["$schema"].is_string());
}

#[test]
fn rates_count_verdicts_over_runs() {
    let sandbox = sandbox();
    std::fs::create_dir(sandbox.path("broken")).unwrap();
    sandbox.write("broken/rank0.json", "{");
    sandbox.write("healthy.txt", "# Nothing waits.\nother: not here\nrun: simulated\n");
    let rates = ["rules", "stats", "--each", ".", "--rules", "own.toml", "--no-default-rules"];
    let ask = |more: &[&'static str]| [&rates[..], more].concat();
    let mut all = sandbox.transcript(&ask(&["--no-times", "--healthy", "healthy.txt"]));
    let markdown = ["--format", "markdown", "--no-times", "--healthy", "healthy.txt"];
    all.push_str(&sandbox.transcript(&ask(&markdown)));
    let none = ["rules", "stats", "broken", "--rules", "own.toml", "--no-default-rules"];
    all.push_str(&sandbox.transcript(&none));
    transcript!("rates", all);

    let output = sandbox.run(&ask(&["--format", "json"]));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rule = &json["rules"][0];
    assert_eq!((&json["runs"], &rule["above_info_ratio"]), (&1.into(), &1.0.into()));
    assert_eq!(
        (&rule["fired"]["high"], &rule["cost"]["table"]),
        (&1.into(), &"step_phases".into())
    );
    assert!(rule["cost"]["median_ms"].as_f64() > Some(0.0), "{}", rule["cost"]);
    let one = sandbox.run(&ask(&["--no-times", "--format", "json", "--jobs", "1"]));
    let four = sandbox.run(&ask(&["--no-times", "--format", "json", "--jobs", "4"]));
    assert_eq!(one.stdout, four.stdout);
}

#[test]
fn shipped_rules_pass_their_tests_and_are_counted() {
    let output = sandbox().run(&["rules", "test"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let (_, counts) = said.trim_end().rsplit_once(" rules: ").expect(said);
    let numbers = counts.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    let numbers: Vec<usize> = numbers.collect();
    assert!(counts.contains(" of runs, ") && counts.contains(" of comparisons, "), "{counts}");
    assert!(counts.ends_with(" in preview)"), "{counts}");
    assert!(numbers.len() == 4 && numbers[0] == numbers[1..].iter().sum::<usize>(), "{counts}");
}

#[test]
fn explain_without_a_rule_lists_the_rules() {
    let sandbox = sandbox();
    let explained = sandbox.run(&["explain", "--no-config"]);
    assert_eq!(explained.status.code(), Some(0), "{}", text(&explained.stderr));
    let listed = sandbox.run(&["rules", "list", "--no-config"]);
    let hint = "\n`advisor explain CODE` explains a rule.\n";
    assert_eq!(text(&explained.stdout), text(&listed.stdout).to_owned() + hint);
}

#[test]
fn sql_prints_rows_in_every_format() {
    let sandbox = sandbox();
    let query = "SELECT rank, step, source FROM steps WHERE rank = 1 ORDER BY step LIMIT 2";
    let mut all = sandbox.transcript(&["sql", "run", query]);
    all.push_str(&sandbox.transcript(&["sql", "run", query, "-f", "csv"]));
    all.push_str(&sandbox.transcript(&["sql", "run", query, "-f", "json"]));
    all.push_str(&sandbox.transcript(&["sql", "run", "SELECT 1 AS one WHERE false"]));
    all.push_str(&sandbox.transcript(&["sql", "run", "SELECT 1 AS one WHERE false", "-f", "csv"]));
    all.push_str(&sandbox.transcript(&["sql", "run", "SELECT 1 AS one WHERE false", "-f", "json"]));
    transcript!("formats", all);

    for (format, magic) in [("parquet", b"PAR1".as_slice()), ("arrow", b"ARROW1")] {
        let args = ["sql", "run", query, "-f", format, "-o", "out"];
        assert_eq!(sandbox.run(&args).status.code(), Some(0));
        assert!(std::fs::read(sandbox.path("out")).unwrap().starts_with(magic));
        let refused = sandbox.run(&args);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("use --force to overwrite it"));
        let mut forced = args.to_vec();
        forced.push("--force");
        assert_eq!(sandbox.run(&forced).status.code(), Some(0));
        std::fs::remove_file(sandbox.path("out")).unwrap();
    }
}

#[test]
fn sql_refuses_statements_that_write() {
    let sandbox = sandbox();
    for query in [
        "DROP TABLE kernels",
        "CREATE TABLE x AS SELECT 1",
        "INSERT INTO steps SELECT * FROM steps",
        "COPY steps TO 'stolen.csv'",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
        "SET datafusion.execution.batch_size = 1",
    ] {
        let output = sandbox.run(&["sql", "run", query]);
        assert_eq!(output.status.code(), Some(2), "{query}: {}", text(&output.stdout));
    }
    assert!(!sandbox.path("stolen.csv").exists());
}

#[test]
fn sql_reads_queries_from_stdin() {
    let sandbox = sandbox();
    let with_input = |format: &str, input: &str| {
        let mut child = sandbox
            .command(&["sql", "run", "-f", format])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let queries = "SELECT 1 AS a; -- and\nSELECT ';' AS b\n";
    assert_eq!(text(&with_input("table", queries).stdout), "a\n1\n\nb\n;\n");
    assert_eq!(text(&with_input("csv", "SELECT 1 AS a; -- done").stdout), "a\n1\n");
    // Several results in a row are not a file of any of these formats.
    for format in ["csv", "json", "parquet", "arrow"] {
        let output = with_input(format, queries);
        assert_eq!(output.status.code(), Some(2), "{format}");
        let message = "takes the rows of one query, but there are 2";
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{format}");
    }
}

#[test]
fn sql_errors_mark_the_place_and_say_what_helps() {
    let sandbox = sandbox();
    let mut all = String::new();
    for query in [
        "SELECT nam FROM kernels",
        "SELECT duration FROM kernels",
        "SELECT k.dur_n FROM kernels AS k",
        "SELECT kernels.name FROM kernels AS k",
        "SELECT xyzzy FROM kernels",
        "SELECT name\nFROM gpu_kernel",
        "SELECT * FROM run.public.gpu_kernel",
        "DESCRIBE gpu_kernel",
        "SELECT count(* FROM kernels",
        "SELECT 'open FROM kernels",
        "SELECT name FROM kernels WHERE",
        "SELECT name FROM kernels WHERE name = \"foo\"",
        "SELECT quantil(dur_ns) FROM kernels",
        "SELECT foo(dur_ns) FROM kernels",
        "SELECT sum(name) FROM kernels",
        "SELECT name, count(*) FROM kernels",
        "SELECT rank FROM kernels, steps",
        "SELECT dur_ns / 0 FROM kernels",
        "SELECT CAST('abc' AS BIGINT)",
        "SELECT name + 1 FROM kernels",
        "SELECT (SELECT rank FROM ranks)",
        "SELECT * FROM kernels WHERE dur_ns",
        "SELECT * FROM kernels LIMIT 'x'",
    ] {
        all.push_str(&sandbox.transcript(&["sql", "run", query]));
    }
    assert!(!all.contains("ParserError"), "{all}");
    transcript!("sql_errors", all);
}

#[test]
fn wrong_names_suggest_right_ones() {
    let sandbox = sandbox();
    let mut all = String::new();
    for args in [
        ["analyze", "run", "step_fases"].as_slice(),
        &["analyze", "run", "kernels"],
        &["analyze", "kernels"],
        &["analyze", "step_phases"],
        &["tables", "kernles"],
        &["sql", "run", "SELECT * FROM nowhere"],
        &["check", "run", "--set", "nonsense"],
        &["sql", "run", " ; "],
        &["check"],
    ] {
        all.push_str(&sandbox.transcript(args));
    }
    transcript!("wrong_names", all);
}

#[test]
fn wrong_columns_suggest_right_ones_and_list_all() {
    let sandbox = sandbox();
    let said = |args: &[&str]| {
        let output = sandbox.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        text(&output.stderr).to_owned()
    };
    let sql = said(&["sql", "run", "SELECT start_ns FROM kernels"]);
    assert!(sql.contains("did you mean `ts_ns`? The columns are ts_ns, "), "{sql}");
    assert!(sql.contains(" more: `advisor tables kernels` describes them"), "{sql}");
    for near in ["duration", "total_ns"] {
        let sort = said(&["analyze", "gpu_kernels", "run", "--sort", near]);
        assert!(sort.contains("did you mean `sum_ns`? The columns are sum_ns, "), "{sort}");
    }
    let columns = said(&["analyze", "gpu_kernels", "run", "--columns", "end"]);
    assert!(columns.contains("help: the columns are rank, name, kind, "), "{columns}");
    let table = said(&["tables", "gpu_util"]);
    assert!(table.contains("there are gpu_utilization, "), "{table}");
    let relation = said(&["sql", "run", "SELECT * FROM gpu_util"]);
    assert!(relation.contains("there are `gpu_utilization"), "{relation}");
}

#[test]
fn analyze_takes_path_and_name_in_either_order() {
    let sandbox = sandbox();
    let one = sandbox.run(&["analyze", "run", "step_time", "-f", "csv"]);
    let other = sandbox.run(&["analyze", "step_time", "run", "-f", "csv"]);
    assert_eq!(one.status.code(), Some(0), "{}", text(&one.stderr));
    assert_eq!(one.stdout, other.stdout);
    assert!(text(&one.stdout).starts_with("rank,step,"));
    assert_eq!(text(&one.stdout).lines().count(), 1 + 2 * 4);
}

#[test]
fn analyze_lists_views_by_question() {
    let sandbox = sandbox();
    let list = sandbox.run(&["analyze", "--list"]);
    assert_eq!(list.status.code(), Some(0), "{}", text(&list.stderr));
    assert_eq!(list.stdout, sandbox.run(&["analyze"]).stdout);
    let lines: Vec<_> = text(&list.stdout).lines().collect();
    assert!(lines[0] == "Start here" && lines[1].starts_with("  step_time "), "{}", lines[1]);
    let chapter = lines.iter().position(|l| l.ends_with("(TensorBoard: Overview)")).unwrap();
    assert!(lines[chapter + 1].starts_with("  run_capabilities "), "{}", lines[chapter + 1]);
    let mut found = sandbox.transcript(&["analyze", "--list", "fragment"]);
    found.push_str(&sandbox.transcript(&["analyze", "--list", "memory"]));
    found.push_str(&sandbox.transcript(&["analyze", "--list", "nonsense"]));
    transcript!("questions", found);
}

#[test]
fn analyze_without_a_name_gives_an_overview() {
    let sandbox = Sandbox::new();
    let sample = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/run");
    std::fs::create_dir(sandbox.path("run")).unwrap();
    for entry in sample.read_dir().unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), sandbox.path("run").join(entry.file_name())).unwrap();
    }
    let mut all = sandbox.transcript(&["analyze", "run"]);
    all.push_str(&sandbox.transcript(&["analyze", "run", "-f", "csv"]));
    transcript!("overview", all);
}

#[test]
fn analyze_prints_tables_for_people() {
    let sandbox = sandbox();
    let mut all = sandbox.transcript(&["analyze", "gpu_kernels", "run", "--limit", "3"]);
    all.push_str(&sandbox.transcript(&[
        "analyze",
        "gpu_kernels",
        "run",
        "--sort",
        "call_count:asc",
        "--columns",
        "rank,name,call_count",
        "--limit",
        "2",
        "-f",
        "csv",
    ]));
    all.push_str(&sandbox.transcript(&["analyze", "gpu_utilization", "run", "--ranks", "0"]));
    all.push_str(&sandbox.transcript(&["analyze", "gpu_temporal_breakdown", "run"]));
    all.push_str(&sandbox.transcript(&["analyze", "snapshot_oom", "run"]));
    all.push_str(&sandbox.transcript(&["analyze", "gpu_kernels", "run", "--sort", "sum"]));
    all.push_str(&sandbox.transcript(&["tables", "gpu_kernels"]));
    transcript!("tables_for_people", all);
}

#[test]
fn explain_keeps_the_lines_of_a_plan() {
    let output = sandbox().run(&["sql", "run", "EXPLAIN SELECT count(*) AS n FROM steps"]);
    let plan = text(&output.stdout);
    assert!(plan.starts_with("logical_plan\n") && !plan.contains("\\u{a}"), "{plan}");
}

#[test]
fn set_changes_parameters_of_views() {
    let sandbox = sandbox();
    let count = |args: &[&str]| {
        let mut all = vec!["analyze", "run", "kernel_sizes", "-f", "json"];
        all.extend(args);
        let output = sandbox.run(&all);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
        (rows[0]["kernel_count"].as_i64().unwrap(), rows[0]["short_count"].as_i64().unwrap())
    };
    let (all, short) = count(&[]);
    assert!(0 < short && short < all);
    assert_eq!(count(&["--set", "short_kernel_us=0"]), (all, 0));
    assert!(count(&["--include-last-step"]).0 > all);
}

#[test]
fn tables_describes_tables_and_runs() {
    let sandbox = sandbox();
    let overview = sandbox.run(&["tables"]);
    let index = text(&overview.stdout);
    assert!(index.starts_with("Start here\n  step_time  "), "{index}");
    assert!(index.len() < 12_000 && index.lines().all(|line| line.len() <= 120), "{index}");
    let words: std::collections::BTreeSet<&str> = index.split_whitespace().collect();
    let all = sandbox.run(&["tables", "--all"]);
    let names = text(&all.stdout).lines().filter(|line| !line.starts_with(' '));
    let names: Vec<&str> = names.filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    assert!(names.len() > 200 && names.iter().all(|name| words.contains(name)), "{names:?}");
    transcript!("tables", sandbox.transcript(&["tables", "steps"]));
    transcript!("tables_run", sandbox.transcript(&["tables", "run"]));
}

#[test]
fn tables_describes_a_table_of_a_run() {
    let sandbox = sandbox();
    let plain = sandbox.run(&["tables", "kernels"]);
    let held = sandbox.run(&["tables", "run", "kernels"]);
    assert_eq!(held.status.code(), Some(0), "{}", text(&held.stderr));
    assert_eq!(held.stdout, sandbox.run(&["tables", "kernels", "run"]).stdout);
    let count = sandbox.run(&["sql", "run", "SELECT count(*) AS n FROM kernels", "-f", "csv"]);
    let count: usize = text(&count.stdout).trim_start_matches("n\n").trim_end().parse().unwrap();
    let held = text(&held.stdout);
    let last = held.lines().last().unwrap().replace(',', "");
    assert_eq!(last, format!("  {count} rows in this run"), "{held}");
    let marked = |name: &str| {
        let line = held.lines().find(|line| line.trim_start().starts_with(&format!("{name} ")));
        line.unwrap().contains("[no values] ")
    };
    assert!(!marked("dur_ns") && marked("graph_node_id"), "{held}");
    assert_eq!(
        held.replace("[no values] ", "").lines().count(),
        text(&plain.stdout).lines().count() + 1
    );
    let view = sandbox.run(&["tables", "run", "step_time"]);
    assert!(text(&view.stdout).contains(" rows in this run"), "{}", text(&view.stdout));
    let wrong = sandbox.transcript(&["tables", "run", "kernles"]);
    assert!(wrong.contains("did you mean `kernels`?"), "{wrong}");
}

#[test]
fn tables_shows_execution_traces_linked_to_operators() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("job")).unwrap();
    let node = |id: i64, name: &str, rf_id: i64| {
        format!(
            r#"{{"id": {id}, "name": "{name}", "parent": 1, "rf_id": {rf_id}, "op_schema": ""}}"#
        )
    };
    let nodes = |extra: &str| {
        format!(
            r#"{{"schema": "1.0.1", "pid": 1, "start_ts": 1, "nodes": [{}, {}{extra}]}}"#,
            node(2, "aten::mm", 3),
            node(1, "[pytorch|profiler|execution_trace|process]", 0)
        )
    };
    sandbox
        .write("job/et_rank0.json", nodes(""))
        .write("job/et_rank0_again.json", nodes(&format!(", {}", node(4, "aten::add", 9))))
        .write(
            "job/trace.json",
            r#"{"distributedInfo": {"rank": 0}, "traceEvents": [
                {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "args": {"External id": 3}}]}"#,
        );
    transcript!("tables_execution_trace", sandbox.transcript(&["tables", "job"]));
}

#[test]
fn augment_does_not_overwrite() {
    let sandbox = Sandbox::with_run();
    let augment = |more: &[&str]| {
        let mut args = vec!["augment", "run", "-o", "out"];
        args.extend(more);
        sandbox.run(&args)
    };
    let first = augment(&[]);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    let paths: Vec<&str> = text(&first.stdout).lines().collect();
    assert_eq!(paths.len(), 2);
    for (path, rank) in paths.iter().zip(["rank-0.", "rank-1."]) {
        assert!(path.starts_with(&format!("out/{rank}")) && path.ends_with(".json.gz"), "{path}");
        assert!(sandbox.path(path).is_file());
    }
    let said = text(&first.stderr);
    for part in ["rank 0: ", "counters, ", "segments of the critical path, ", "findings, "] {
        assert!(said.contains(part), "{said}");
    }

    let again = augment(&[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("--force"), "{}", text(&again.stderr));
    let onto_itself = sandbox.run(&["augment", "run", "-o", "run", "--force"]);
    assert_eq!(onto_itself.status.code(), Some(2));
    assert!(text(&onto_itself.stderr).contains("is the trace itself"));

    // Only the selected tracks, as plain JSON.
    let some = augment(&["--only", "findings", "--json"]);
    assert_eq!(some.status.code(), Some(0), "{}", text(&some.stderr));
    let path = text(&some.stdout).lines().next().unwrap();
    let trace: Value = serde_json::from_slice(&std::fs::read(sandbox.path(path)).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let ours: Vec<&Value> = events.iter().filter(|e| e["cat"] == "trace_advisor").collect();
    assert!(ours.iter().any(|e| e["ph"] == "B" && e["args"]["code"] == "IN001"));
    assert!(ours.iter().all(|e| e["ph"] != "C"));
    assert!(!text(&some.stderr).contains("critical path"), "{}", text(&some.stderr));
}

#[test]
fn demo_does_not_overwrite() {
    let sandbox = Sandbox::new();
    let args = ["demo", "-o", "new", "--layers", "1", "--steps", "1", "--ranks", "3", "--json"];
    assert_eq!(sandbox.run(&args).status.code(), Some(0));
    assert_eq!(sandbox.path("new").read_dir().unwrap().count(), 3);
    let again = sandbox.run(&args);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("--force"));
    let straggler = ["demo", "-o", "x", "--ranks", "1", "--bottleneck", "straggler"];
    assert_eq!(sandbox.run(&straggler).status.code(), Some(2));
}

#[test]
fn sample_run_is_what_demo_writes() {
    let sample = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/run");
    let options = Options { layers: 3, stacks: true, ..Options::default() };
    let run = Run::new(&options).unwrap();
    let mut bytes = 0;
    for rank in 0..options.ranks {
        let file = std::fs::read(sample.join(run.file_name(rank))).unwrap();
        bytes += file.len();
        let mut json = Vec::new();
        GzDecoder::new(&file[..]).read_to_end(&mut json).unwrap();
        // Not `assert_eq!`: it would print both.
        let same = json == run.render(rank, Vec::new()).unwrap();
        assert!(same, "advisor demo --layers 3 --stacks --force -o examples/run");
    }
    assert!(bytes < 300_000, "{bytes} bytes");
}

/// Names in traces are data: none of their bytes reach a terminal as a command.
#[test]
fn names_are_escaped_for_the_terminal() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "evil.json",
        r#"{"schemaVersion": 1, "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "a\u001b[2J\u009b31m\u202eb", "pid": 1, "tid": 1, "ts": 1, "dur": 5, "args": {"External id": 1}},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 9, "args": {"External id": 2}}
        ]}"#,
    );
    let output = sandbox.run(&["sql", "evil.json", "SELECT name FROM cpu_ops"]);
    assert_eq!(text(&output.stdout), "name\na\\u{1b}[2J\\u{9b}31m\\u{202e}b\n");
    let csv = sandbox.run(&["sql", "evil.json", "SELECT name FROM cpu_ops", "-f", "csv"]);
    assert_eq!(
        text(&csv.stdout),
        "name\na\u{1b}[2J\u{9b}31m\u{202e}b\n",
        "data stays data in a pipe"
    );
    for args in [["check", "evil.json"], ["tables", "evil.json"]] {
        let output = sandbox.run(&args);
        assert!(!text(&output.stdout).contains('\u{1b}'), "{}", text(&output.stdout));
    }
}

#[test]
fn help_has_groups() {
    let output = Sandbox::new().run(&["check", "--help"]);
    let help = text(&output.stdout);
    for group in ["Input:", "Rules:", "Output:", "Logging:"] {
        assert!(help.contains(group), "{group}");
    }
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn selections_limit_sql_and_check() {
    let sandbox = sandbox();
    let mut text = String::new();
    let rows = "SELECT rank, step, count(*) AS kernels FROM kernels GROUP BY rank, step ORDER BY rank, step";
    for part in
        [&["--ranks", "1", "--steps", "5.."][..], &["--between", "2ms..20ms"], &["--name", "^nccl"]]
    {
        text += &sandbox.transcript(&[&["sql", "run", rows], part].concat());
    }
    text += &sandbox.transcript(&own(&["--ranks", "1"]));
    for wrong in [["--ranks", "7"], ["--steps", "x"], ["--between", "1..2"], ["--name", "("]] {
        text += &sandbox.transcript(&[&["sql", "run", rows], &wrong[..]].concat());
    }
    transcript!("part", text);
}
