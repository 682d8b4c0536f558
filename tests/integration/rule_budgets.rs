//! Rule files, queries and views that would exhaust time or memory. Each results in an error or in a rule without a
//! verdict, and the rest of the report is not affected. The program runs with memory and time limits.

use std::collections::BTreeSet;
use std::fs::File;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::sandbox::Sandbox;

/// Time limit for the program. It is generous, because test builds are slow and tests run in parallel.
const TIME: Duration = Duration::from_mins(2);

/// Commands that load the rule file.
const COMMANDS: [&[&str]; 3] = [
    &["rules", "list", "--rules", "rules.toml"],
    &["rules", "test", "rules.toml"],
    &["check", "run", "--rules", "rules.toml"],
];

/// Runs the program with a 4 GB address space, for at most [`TIME`].
fn run(sandbox: &Sandbox, args: &[&str]) -> Output {
    let program = sandbox.command(args);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 4000000 || exit 99; exec \"$0\" \"$@\""]);
    command.arg(program.get_program()).args(program.get_args());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(sandbox.path("")).stdin(Stdio::null());
    let (out, err) = (sandbox.path("out.txt"), sandbox.path("err.txt"));
    command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > TIME {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{args:?} did not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let read = |path| std::fs::read(path).unwrap();
    Output { status, stdout: read(out), stderr: read(err) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that must fail, and returns its stderr.
fn refused(sandbox: &Sandbox, args: &[&str]) -> String {
    let output = run(sandbox, args);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
    errors
}

/// Returns a rule file with one rule, with the given changes to its keys.
fn rule(changes: &[(&str, &str)]) -> String {
    let lines = [
        ("code", "'ZZ001'"),
        ("category", "'test'"),
        ("sql", "'SELECT rank, count(*) AS kernel_count FROM kernels GROUP BY rank'"),
        ("column", "'kernel_count'"),
        ("unit", "'count'"),
        ("scope", "'rank'"),
        ("info", "'> 0'"),
        ("gain", "{ method = 'none' }"),
        ("title", "'Kernels'"),
        ("message", "'{{ kernel_count|count }} kernels.'"),
        ("advice", "['Nothing.']"),
        ("why", "'A test.'"),
    ];
    let mut text = "[rule.of-a-stranger]\n".to_owned();
    for (key, value) in lines {
        let value = changes.iter().find(|(changed, _)| *changed == key).map_or(value, |(_, v)| v);
        text.extend([key, " = ", value, "\n"]);
    }
    text
}

/// Returns a rule file with this query.
fn query_rule(sql: &str) -> String {
    rule(&[("sql", &format!("'''{sql}'''"))])
}

/// Writes the rule file, and returns the report of `check` with it.
fn report(sandbox: &Sandbox, rules: &str, args: &[&str]) -> (Value, Output) {
    sandbox.write("rules.toml", rules);
    let mut all = vec!["check", "run", "--rules", "rules.toml", "--format", "json"];
    all.extend(args);
    let output = run(sandbox, &all);
    let report = serde_json::from_slice(&output.stdout);
    (report.unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr))), output)
}

/// Returns the codes of rules without a verdict, with their reasons.
fn unknown(report: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let unknown = report["unknown"].as_array().unwrap().iter();
    unknown.map(|rule| (text(&rule["code"]), text(&rule["reason"]))).collect()
}

/// Returns the messages of the warnings.
fn warnings(report: &Value) -> String {
    let warnings = report["warnings"].as_array().unwrap().iter();
    let messages: Vec<&str> =
        warnings.map(|warning| warning["message"].as_str().unwrap()).collect();
    messages.join("\n")
}

fn reason(report: &Value, code: &str) -> String {
    let unknown = unknown(report).into_iter().find(|(known, _)| known == code);
    unknown.unwrap_or_else(|| panic!("{code} has a verdict")).1
}

/// Returns the report without the parts that depend on the verdict of the test rule.
fn others(mut report: Value) -> Value {
    for list in ["unknown", "passed", "findings"] {
        let rules = report[list].as_array_mut().unwrap();
        rules.retain(|rule| rule["code"] != "ZZ001" && *rule != "ZZ001");
    }
    for finding in report["findings"].as_array_mut().unwrap() {
        finding["position"].take();
    }
    report["warnings"].take();
    report["headline"].take();
    report
}

#[test]
fn templates_that_grow_are_refused_when_they_are_loaded() {
    let sandbox = Sandbox::with_run();
    let bomb = format!("{{% set a = 'x' %}}{}{{{{ a }}}}", "{% set a = a ~ a %}".repeat(28));
    for (key, value, says) in [
        ("message", bomb.as_str(), "`set` is not allowed"),
        ("title", "{% for a in [1]*90 %}{% for b in [1]*90 %}x{% endfor %}{% endfor %}", "`for`"),
        ("message", "{{ 'x' * 100000000 ~ 'x' * 100000000 }}", "`~` is not allowed"),
        ("message", "{{ 'x' * 100000000 + 'x' * 100000000 }}", "only numbers can be multiplied"),
        ("message", "{{ range(100000000)|join }}", "filter join is unknown"),
        ("title", "{{ 'a'|replace('a', 'aaaaaaaa') }}", "filter replace is unknown"),
        ("message", "{% macro m() %}x{% endmacro %}{{ m() }}", "unknown statement macro"),
    ] {
        sandbox.write("rules.toml", rule(&[(key, &format!("\"{value}\""))]));
        for command in COMMANDS {
            let errors = refused(&sandbox, command);
            assert!(errors.contains(says), "{value}: {errors}");
            let line = if key == "title" { "rules.toml:10:" } else { "rules.toml:11:" };
            assert!(errors.contains(line), "{errors}");
        }
    }
    let deep = format!("kernel_count > 0{}", " + 1".repeat(20_000));
    sandbox.write("rules.toml", format!("{}only_if = '{deep}'\n", rule(&[])));
    let errors = refused(&sandbox, &["rules", "test", "rules.toml"]);
    assert!(errors.contains("it has 80016 bytes; at most 8192 are allowed"), "{errors}");
}

#[test]
fn deep_queries_are_errors_of_users_and_of_rules() {
    let sandbox = Sandbox::with_run();
    let sum = format!("SELECT {}", vec!["1"; 2_000].join("+"));
    let union = vec!["SELECT 1"; 5_000].join(" UNION ALL ");
    for sql in [&sum, &union] {
        let errors = refused(&sandbox, &["sql", "run", sql]);
        assert!(errors.contains("nested too deeply"), "{errors}");
        assert!(errors.contains("500 deep"), "{errors}");
        sandbox.write("rules.toml", query_rule(sql));
        for command in COMMANDS {
            let errors = refused(&sandbox, command);
            assert!(errors.contains("nested too deeply"), "{errors}");
        }
    }
    let long = format!("SELECT '{}'", "x".repeat(130 << 10));
    sandbox.write("long.sql", &long);
    let mut command = sandbox.command(&["sql", "run"]);
    let output = command.stdin(File::open(sandbox.path("long.sql")).unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    assert!(errors.contains("at most 131072 are allowed"), "{errors}");
}

/// Queries just below the depth limit run without a stack overflow.
#[test]
fn queries_as_deep_as_allowed_run() {
    let sandbox = Sandbox::with_run();
    let sum = format!("SELECT {} AS x FROM ranks", vec!["rank"; 490].join("+"));
    let texts = format!("SELECT length({}) AS x FROM ranks", vec!["'a'"; 480].join("||"));
    let union = vec!["SELECT rank FROM ranks"; 490].join(" UNION ALL ");
    let intersect = vec!["SELECT rank FROM ranks"; 60].join(" INTERSECT ");
    let or: Vec<String> = (0..490).map(|i| format!("rank * 2 = {i}")).collect();
    let or = format!("SELECT rank FROM ranks WHERE {}", or.join(" OR "));
    for sql in [sum, texts, union, intersect, or] {
        let output = run(&sandbox, &["sql", "run", &sql]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{}: {errors}", &sql[..60]);
    }
}

#[test]
fn functions_do_not_take_all_memory() {
    let sandbox = Sandbox::with_run();
    for (sql, function) in [
        ("SELECT lpad('x', 2147483647, 'ab')", "lpad"),
        ("SELECT rpad('x', CAST(1000000000 + rank AS BIGINT), 'ab') FROM ranks", "rpad"),
        ("SELECT repeat('xxxxxxxxxx', 1000000000)", "repeat"),
        ("SELECT length(repeat(name, 1000000)) FROM kernels", "repeat"),
        ("SELECT array_repeat(1, 1000000000)", "array_repeat"),
        ("SELECT range(1, 400000000)", "range"),
        ("SELECT length(replace(repeat('a', 1000000), 'a', repeat('b', 1000)))", "replace"),
    ] {
        let errors = refused(&sandbox, &["sql", "run", sql]);
        assert!(errors.contains(&format!("`{function}` would produce")), "{sql}: {errors}");
        assert!(errors.contains("are allowed"), "{sql}: {errors}");
    }
    let output = run(&sandbox, &["sql", "run", "SELECT lpad('x', 5, 'ab'), range(1, 3)"]);
    assert!(text(&output.stdout).contains("ababx"), "{}", text(&output.stderr));
}

#[test]
fn rules_make_no_rows_from_nothing() {
    let sandbox = Sandbox::with_run();
    for (sql, says) in [
        (
            "SELECT 0 AS rank, count(*) AS kernel_count FROM generate_series(1, 100000000000)",
            "a table function",
        ),
        (
            "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) \
             SELECT 0 AS rank, count(*) AS kernel_count FROM n",
            "a recursive query",
        ),
    ] {
        sandbox.write("rules.toml", query_rule(sql));
        for command in COMMANDS {
            let errors = refused(&sandbox, command);
            let says = format!("{says} is not allowed in the query of a rule");
            assert!(errors.contains(&says) && errors.contains("rules.toml:4:"), "{errors}");
        }
    }
}

/// A query that takes years.
const CROSS_JOIN: &str = "SELECT a.rank, count(*) AS kernel_count FROM runtime_calls a, runtime_calls b, \
                          runtime_calls c, runtime_calls d, runtime_calls e GROUP BY a.rank";

#[test]
fn rules_whose_queries_fail_or_take_too_long_fail_their_test() {
    let sandbox = Sandbox::with_run();
    let not_numbers =
        "SELECT rank, CAST(CAST(name AS VARCHAR) AS BIGINT) AS kernel_count FROM kernels";
    for (sql, says) in [
        (CROSS_JOIN, "the query of `of-a-stranger` took more than 30 s, on a simulated run"),
        (not_numbers, "the query of `of-a-stranger` failed: Cannot cast string"),
    ] {
        sandbox.write("rules.toml", query_rule(sql));
        let output = run(&sandbox, &["rules", "test", "rules.toml"]);
        let out = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{out}{}", text(&output.stderr));
        assert!(out.contains("rules.toml:1: ZZ001 of-a-stranger: "), "{out}");
        assert!(out.to_lowercase().contains(&says.to_lowercase()), "{out}");
        assert!(out.contains("queries: 1, failed: 1\n"), "{out}");
    }
    sandbox.write("rules.toml", rule(&[]));
    let output = run(&sandbox, &["rules", "test", "rules.toml"]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out}{}", text(&output.stderr));
    assert!(out.contains("queries: 1, failed: 0\n"), "{out}");
}

/// Except for the verdict on the rule, the report equals that with a harmless rule.
#[test]
fn query_that_takes_too_long_leaves_its_rule_unknown() {
    let sandbox = Sandbox::with_run();
    let (harmless, expected) = report(&sandbox, &rule(&[]), &[]);
    let start = Instant::now();
    let (slow, output) = report(&sandbox, &query_rule(CROSS_JOIN), &[]);
    assert!(start.elapsed() < Duration::from_secs(100), "{:?}", start.elapsed());
    assert_eq!(output.status.code(), expected.status.code());
    let why = "the query of `of-a-stranger` took more than 30 s";
    assert_eq!(reason(&slow, "ZZ001"), why);
    let warnings = warnings(&slow);
    assert!(warnings.contains(&format!("{why}; one rule has no verdict")), "{warnings}");
    assert_eq!(others(slow), others(harmless));
}

#[test]
fn query_that_fails_leaves_its_rule_unknown() {
    let sandbox = Sandbox::with_run();
    let (harmless, expected) = report(&sandbox, &rule(&[]), &[]);
    for (sql, why) in [
        (
            "SELECT rank, CAST(CAST(name AS VARCHAR) AS BIGINT) AS kernel_count FROM kernels",
            "Cannot cast string",
        ),
        ("SELECT rank, 1 / (dur_ns - dur_ns) AS kernel_count FROM kernels", "division by zero"),
        (
            "SELECT rank, length(repeat('x', 20000000 + rank)) AS kernel_count FROM ranks",
            "`repeat` would produce",
        ),
    ] {
        let (failed, output) = report(&sandbox, &query_rule(sql), &[]);
        assert_eq!(output.status.code(), expected.status.code());
        let reason = reason(&failed, "ZZ001");
        assert!(reason.starts_with("the query of `of-a-stranger` failed: "), "{reason}");
        assert!(reason.to_lowercase().contains(&why.to_lowercase()), "{reason}");
        assert!(warnings(&failed).contains(&reason), "{}", warnings(&failed));
        assert_eq!(others(failed), others(harmless.clone()));
    }
}

/// An invalid device table makes only the roofline fail.
#[test]
fn view_that_fails_leaves_its_rules_unknown() {
    let sandbox = Sandbox::with_run();
    let broken = ["--set", "device_table=nonsense"];
    let (whole, expected) = report(&sandbox, "", &[]);
    let (partly, output) = report(&sandbox, "", &broken);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), expected.status.code(), "{errors}");
    let failed: Vec<(String, String)> = unknown(&partly)
        .into_iter()
        .filter(|(_, reason)| reason.starts_with("the view `") && reason.contains("` failed: "))
        .collect();
    assert!(!failed.is_empty(), "{partly:#}");
    let warning = format!("{}; {} rules have no verdict", failed[0].1, failed.len());
    assert!(warnings(&partly).contains(&warning), "{}", warnings(&partly));
    let without = |report: &Value, list: &str| -> BTreeSet<String> {
        let code = |rule: &Value| rule["code"].as_str().or(rule.as_str()).unwrap().to_owned();
        let codes = report[list].as_array().unwrap().iter().map(code);
        codes.filter(|code| !failed.iter().any(|(known, _)| known == code)).collect()
    };
    for list in ["findings", "passed", "unknown"] {
        assert_eq!(without(&partly, list), without(&whole, list), "{list}");
    }
    // Commands that request the view itself fail with its error.
    refused(&sandbox, &[&["analyze", "op_roofline", "run"][..], &broken].concat());
    refused(&sandbox, &[&["sql", "run", "SELECT * FROM op_roofline"][..], &broken].concat());
    let page = ["check", "run", "--format", "html", "-o", "page.html", "--fail-on", "never"];
    let output = run(&sandbox, &[&page[..], &broken].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(sandbox.path("page.html")).unwrap();
    assert!(
        page.contains("<dt>Operators</dt><dd>The view <code>"),
        "the pane says why it is empty"
    );
    let output = run(&sandbox, &[&["analyze", "run"][..], &broken].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn only_files_of_a_sensible_size_are_read() {
    let sandbox = Sandbox::with_run();
    sandbox.write("large.toml", "#".repeat((1 << 20) + 1));
    let pipe = sandbox.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(sandbox.path("socket")).unwrap();
    for (file, says) in [
        ("/dev/zero", "it is a device, not a regular file"),
        ("pipe", "it is a pipe, not a regular file"),
        ("socket", "it is a socket, not a regular file"),
        ("run", "it is a directory, not a regular file"),
        ("large.toml", "it is larger than 1048576 bytes"),
    ] {
        for (option, what) in [("--rules", "rule file"), ("--devices", "device table")] {
            let errors = refused(&sandbox, &["check", "run", option, file]);
            let says = format!("cannot read the {what} {file}: {says}");
            assert!(errors.contains(&says), "{errors}");
        }
    }
    let errors = refused(&sandbox, &["check", "run", "--baseline", "/dev/zero"]);
    assert!(errors.contains("it is a device, not a regular file"), "{errors}");
    let errors = refused(&sandbox, &["rules", "stats", "run", "--healthy", "pipe"]);
    assert!(errors.contains("it is a pipe, not a regular file"), "{errors}");
}

/// Kernel files report a size of 0, and reading some of them never ends.
#[test]
fn endless_files_of_the_kernel_are_no_traces() {
    let sandbox = Sandbox::new();
    for file in ["/proc/kmsg", "/proc/self/maps"] {
        let errors = refused(&sandbox, &["tables", file]);
        assert!(errors.contains("empty"), "{errors}");
    }
}
