//! The conventions of the command line: help, completions, colors, quiet, stdin, interruption.

use std::fs;
use std::io::Write as _;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::sandbox::Sandbox;

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

const COMMANDS: [&str; 20] = [
    "check",
    "record",
    "sql",
    "analyze",
    "diff",
    "augment",
    "cut",
    "merge",
    "export",
    "timeline",
    "open",
    "tables",
    "explain",
    "rules",
    "init",
    "schema",
    "demo",
    "cache",
    "completions",
    "man",
];

#[test]
fn help_shows_arguments_and_output_first_and_examples_last() {
    let sandbox = Sandbox::new();
    for command in COMMANDS {
        let output = sandbox.run(&["help", command]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let help = text(&output.stdout);
        let order: Vec<usize> =
            ["Arguments:", "Output:", "Rules:", "Selection:", "Input:", "Logging:", "Examples:"]
                .into_iter()
                .filter_map(|heading| help.find(&format!("\n{heading}\n")))
                .collect();
        assert!(order.is_sorted() && order.len() >= 2, "{command}:\n{help}");
        let examples = help.rsplit_once("Examples:\n").unwrap().1;
        assert!(examples.contains(&format!("advisor {command}")), "{command}:\n{examples}");
    }
}

#[test]
fn short_help_leaves_out_rare_options() {
    let sandbox = Sandbox::new();
    let help = |option: &str| text(&sandbox.run(&["check", option]).stdout).to_owned();
    let (short, long) = (help("-h"), help("--help"));
    for rare in ["--max-json-bytes", "--trial", "--timings", "--color", "--cache-dir"] {
        assert!(!short.contains(rare) && long.contains(rare), "{rare}");
    }
    for common in ["--format", "--select", "--steps", "--baseline", "--quiet"] {
        assert!(short.contains(common), "{common}");
    }
    assert!(short.lines().count() < 70, "{} lines", short.lines().count());
    let open = text(&sandbox.run(&["open", "--help"]).stdout).to_owned();
    assert!(open.contains("--ranks") && !open.contains("--streams"), "{open}");
}

#[test]
fn paths_and_misspelt_commands_are_explained() {
    let sandbox = Sandbox::with_run();
    let mut all = String::new();
    for args in [["run"], ["s3://bucket/run"], ["chek"], ["nothing-like-it"]] {
        all.push_str(&sandbox.transcript(&args));
    }
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/snapshots"),
        prepend_module_to_snapshot => false,
    }, { insta::assert_snapshot!("wrong_commands", all) });
}

#[test]
fn version_names_the_target() {
    let sandbox = Sandbox::new();
    let short = sandbox.run(&["-V"]);
    assert_eq!(text(&short.stdout), concat!("advisor ", env!("CARGO_PKG_VERSION"), "\n"));
    let long = sandbox.run(&["--version"]);
    let long = text(&long.stdout);
    assert!(long.starts_with(concat!("advisor ", env!("CARGO_PKG_VERSION"), " (")), "{long}");
    assert!(long.contains(std::env::consts::ARCH), "{long}");
}

#[test]
fn completions_and_manual_pages_cover_all_commands() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.run(&["completions", shell]);
        assert_eq!(script.status.code(), Some(0), "{}", text(&script.stderr));
        for command in COMMANDS {
            assert!(text(&script.stdout).contains(command), "{shell}: {command}");
        }
    }
    assert_eq!(sandbox.run(&["man", "-o", "man"]).status.code(), Some(0));
    for command in COMMANDS {
        let page = fs::read_to_string(sandbox.path(&format!("man/advisor-{command}.1"))).unwrap();
        assert!(page.starts_with(".ie"), "{command}");
        assert_eq!(text(&sandbox.run(&["man", command]).stdout), page, "{command}");
    }
    let below = sandbox.run(&["man", "cache", "clean"]);
    assert!(text(&below.stdout).contains("older\\-than"), "{}", text(&below.stdout));
    let wrong = sandbox.run(&["man", "chek"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("did you mean `check`?"), "{}", text(&wrong.stderr));
}

/// The page that the wheel installs.
#[test]
fn the_manual_page_of_the_wheel_is_that_of_the_program() {
    let page = "crates/python/data/data/share/man/man1/advisor.1";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let printed = Sandbox::new().run(&["man"]);
    let printed = text(&printed.stdout);
    assert_eq!(fs::read_to_string(path).unwrap(), printed, "run `advisor man > {page}`");
}

#[test]
fn color_follows_the_option() {
    let sandbox = Sandbox::with_run();
    let has_color = |args: &[&str]| {
        let output = sandbox.run(args);
        output.stdout.contains(&0x1b) || output.stderr.contains(&0x1b)
    };
    assert!(!has_color(&["check", "run"]));
    assert!(!has_color(&["check", "run", "--color", "never"]));
    assert!(has_color(&["check", "run", "--color", "always"]));
    assert!(has_color(&["--color", "always", "check", "nowhere"]));
    // Data is the same whatever the color.
    let plain = sandbox.run(&["check", "run", "-f", "json"]).stdout;
    assert_eq!(plain, sandbox.run(&["check", "run", "-f", "json", "--color=always"]).stdout);
}

#[test]
fn quiet_leaves_only_errors_on_stderr() {
    let sandbox = Sandbox::with_run();
    sandbox.write("run/notes.json", "{\"a\": 1}");
    let loud = sandbox.run(&["sql", "run", "SELECT 1 AS one"]);
    assert!(text(&loud.stderr).contains("not traces, skipped: notes.json"));
    let quiet = sandbox.run(&["sql", "run", "SELECT 1 AS one", "-q"]);
    assert_eq!((text(&quiet.stderr), &quiet.stdout), ("", &loud.stdout));
    let failed = sandbox.run(&["sql", "nowhere", "SELECT 1 AS one", "-q"]);
    assert_eq!(failed.status.code(), Some(2));
    assert!(text(&failed.stderr).starts_with("error: cannot read nowhere"));
}

/// Runs a command with a file as stdin.
fn with_stdin(sandbox: &Sandbox, args: &[&str], stdin: &[u8]) -> Output {
    let mut child = sandbox
        .command(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses its arguments does not read it.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn stdin_is_a_trace() {
    let sandbox = Sandbox::with_run();
    let file = sandbox.path("run").read_dir().unwrap().next().unwrap().unwrap().path();
    let packed = fs::read(&file).unwrap();
    let mut plain = Vec::new();
    let mut reader = flate2::read::GzDecoder::new(packed.as_slice());
    std::io::Read::read_to_end(&mut reader, &mut plain).unwrap();
    let path = file.strip_prefix(sandbox.path("")).unwrap().to_str().unwrap();
    let scratch = sandbox.path("scratch");
    fs::create_dir(&scratch).unwrap();
    let sql = |path: &str, stdin: &[u8]| {
        let args = ["sql", path, "SELECT count(*) AS n, sum(dur_ns) AS ns FROM kernels"];
        let output = with_stdin(&sandbox, &args, stdin);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    let expected = sql(path, b"");
    assert_eq!(sql("-", &packed), expected);
    assert_eq!(sql("-", &plain), expected);

    let checked = with_stdin(&sandbox, &["check", "-", "-f", "json", "--exit-zero"], &packed);
    let report: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(report["run"]["path"], "stdin");
    assert_eq!(report["run"]["sources"][0]["file"], "stdin");
    let analyzed = with_stdin(&sandbox, &["analyze", "step_time", "-", "-f", "csv"], &packed);
    assert!(text(&analyzed.stdout).starts_with("rank,step,"), "{}", text(&analyzed.stderr));
    let described = with_stdin(&sandbox, &["tables", "-"], &packed);
    assert!(text(&described.stdout).contains("stdin  rank 0"), "{}", text(&described.stdout));

    let empty = with_stdin(&sandbox, &["check", "-"], b"");
    assert_eq!((empty.status.code(), text(&empty.stderr)), (Some(2), "error: stdin: empty\n"));
    let none = with_stdin(&sandbox, &["sql", "-"], &packed);
    assert!(text(&none.stderr).contains("missing QUERY"), "{}", text(&none.stderr));
    // The copy is gone.
    let mut command = sandbox.command(&["tables", "-"]);
    command.env("TMPDIR", &scratch).stdin(Stdio::from(fs::File::open(&file).unwrap()));
    assert!(command.output().unwrap().status.success());
    assert_eq!(scratch.read_dir().unwrap().count(), 0);
}

#[test]
fn wrong_files_are_named() {
    let sandbox = Sandbox::new();
    let mut tar = vec![b'a'; 257];
    tar.extend(b"ustar\x0000");
    tar.resize(1024, 0);
    let files: [(&str, &[u8]); 12] = [
        ("empty.json", b""),
        ("cut.json.gz", b"\x1f\x8b\x08"),
        ("run.zip", b"PK\x03\x04\x14\0\0\0"),
        ("run.tar", &tar),
        ("rank0.json.zst", b"\x28\xb5\x2f\xfd\x04\x58"),
        ("rank0.json.xz", b"\xfd7zXZ\0\0\x04"),
        ("report1.nsys-rep", b"\x0a\x0bsome bytes"),
        ("report1.json", b"{\"TraceProcessEvent\":{\"startNs\":\"1\"},\"Type\":48}\n"),
        ("report1.sqlite", b"SQLite format 3\0\x10\0"),
        ("python", b"\x7fELF\x02\x01\x01\0"),
        ("host.xplane.pb", b"\x0a\xa1\xf0\x08\x12\x0e/host:metadata"),
        ("results.json", b"{\"rocprofiler-sdk-tool\":[{\"metadata\":{\"pid\":908}}]}"),
    ];
    let mut all = String::new();
    for (name, bytes) in files {
        sandbox.write(name, bytes);
        all.push_str(&sandbox.transcript(&["check", name]));
    }
    all.push_str(&sandbox.transcript(&["check", "."]));
    insta::with_settings!({
        snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/snapshots"),
        prepend_module_to_snapshot => false,
    }, { insta::assert_snapshot!("wrong_files", all) });
}

#[test]
fn step_times_far_from_the_recording_are_asked_about() {
    let sandbox = Sandbox::with_run();
    let check = |step_time: &str| {
        sandbox.run(&["check", "run", "--exit-zero", "-f", "json", "--step-time", step_time])
    };
    for (given, shown) in [("1us", "1.00 us"), ("900s", "900 s")] {
        let told = text(&check(given).stderr).to_owned();
        let expected =
            format!("warning: --step-time: {shown} is far from the recording: a step of run");
        assert_eq!(told.matches(&expected).count(), 1, "{told}");
        assert!(told.contains("predictions start from"), "{told}");
    }
    let report: serde_json::Value = serde_json::from_slice(&check("1us").stdout).unwrap();
    let recorded = format!("{}ms", report["headline"]["step_ms"]);
    assert_eq!(text(&check(&recorded).stderr), "");
}

#[test]
fn time_ranges_and_limits_are_explained() {
    let sandbox = Sandbox::with_run();
    let told = |args: &[&str]| {
        let output = sandbox.run(&[&["sql", "run", "SELECT 1"], args].concat());
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr).to_owned()
    };
    let range = told(&["--between", "50ms..10ms"]);
    assert!(range.contains("`50ms..10ms` ends before it begins"), "{range}");
    let limit = told(&["--memory-limit", "4"]);
    assert!(limit.contains("4 bytes are too few for any trace: write 4GiB or 4MiB"), "{limit}");
}

#[test]
fn cache_is_shown_and_cleaned() {
    let sandbox = Sandbox::with_run();
    let cache = |args: &[&str]| {
        let output = sandbox.run(&[&["cache"], args, &["--cache-dir", "kept"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    assert_eq!(cache(&["dir"]), "kept\n");
    assert!(cache(&["info"]).contains("runs       0\n"));
    sandbox.run(&["check", "run", "--cache-dir", "kept"]);
    sandbox.write("kept/mine.txt", "not of the cache");
    let info = cache(&["info"]);
    assert!(info.contains("runs       1\n") && info.contains(" of at most 10.0 GiB"), "{info}");
    assert!(info.contains("last use   just now"), "{info}");
    assert_eq!(cache(&["clean", "--older-than", "7d"]), "removed 0 runs, 0 bytes\n");
    assert!(cache(&["clean"]).starts_with("removed 1 run, "));
    assert!(sandbox.path("kept/mine.txt").is_file());
    let disabled = sandbox.run(&["cache", "info"]);
    assert_eq!(disabled.status.code(), Some(2));
    assert!(text(&disabled.stderr).contains("the cache is disabled"));
}

#[test]
fn warnings_follow_the_result_once() {
    let sandbox = Sandbox::with_run();
    sandbox.write("run/notes.json", "{\"a\": 1}");
    for args in [
        &["sql", "run", "SELECT 1 AS one; SELECT 2 AS two"][..],
        &["analyze", "step_time", "run"],
        &["tables", "run"],
        &["diff", "run", "run"],
        &["check", "run", "--exit-zero"],
        &["merge", "run", "-o", "merged.json"],
    ] {
        let command = sandbox.command(args);
        let program = command.get_program().to_str().unwrap().to_owned();
        let line = args.join("' '");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("'{program}' '{line}' 2>&1")]);
        shell.current_dir(sandbox.path("")).env("ADVISOR_CACHE_DIR", "");
        let output = shell.output().unwrap();
        let lines: Vec<&str> = text(&output.stdout).lines().collect();
        let is_warning = |line: &&str| line.starts_with("warning: ");
        let times = if args[0] == "diff" { 2 } else { 1 };
        assert_eq!(lines.iter().copied().filter(is_warning).count(), times, "{lines:#?}");
        assert!(lines[lines.len() - times..].iter().all(is_warning), "{args:?}: {lines:#?}");
    }
}

/// The code of any program whose reader is gone: a missing verdict does not look like a good one.
#[cfg(unix)]
#[test]
fn closed_output_has_one_exit_code() {
    let sandbox = Sandbox::with_run();
    for args in [
        &["check", "run", "--fail-on", "never"][..],
        &["check", "run", "--fail-on", "never", "-f", "json"],
        &["diff", "run", "run"],
        &["sql", "run", "SELECT 1 AS one"],
        &["sql", "run", "SELECT * FROM events", "-f", "csv"],
        &["sql", "run", "SELECT * FROM events", "-f", "json"],
        &["sql", "run", "SELECT * FROM events", "-f", "parquet"],
        &["sql", "run", "SELECT * FROM events", "-f", "arrow"],
        &["analyze", "gpu_kernels", "run"],
        &["tables", "--all"],
        &["rules", "list"],
        &["rules", "test"],
        &["explain", "IN001"],
        &["schema", "report"],
        &["help", "check"],
    ] {
        let mut child =
            sandbox.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(141), "{args:?}: {errors}");
        assert!(!errors.contains("error"), "{args:?}: {errors}");
    }
}

/// Names that are not UTF-8, which other commands read, can be copied too.
#[cfg(target_os = "linux")]
#[test]
fn augment_copies_files_whose_names_are_not_utf8() {
    use std::os::unix::ffi::OsStrExt as _;
    let sandbox = Sandbox::with_run();
    let file = sandbox.path("run").read_dir().unwrap().next().unwrap().unwrap().path();
    let name = std::ffi::OsStr::from_bytes(b"w\xff.json.gz");
    fs::create_dir(sandbox.path("odd")).unwrap();
    fs::copy(&file, sandbox.path("odd").join(name)).unwrap();
    let output = sandbox.run(&["augment", "odd", "-o", "out", "--only", "counters"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "out/w\u{fffd}.json.gz\n");
    assert!(sandbox.path("out/w\u{fffd}.json.gz").is_file());
}

/// Starts a command, sends it a signal once `is_begun`, and returns its exit code.
#[cfg(unix)]
fn interrupt(sandbox: &Sandbox, args: &[&str], is_begun: impl Fn() -> bool) -> Option<i32> {
    let mut child =
        sandbox.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !is_begun() {
        assert!(child.try_wait().unwrap().is_none(), "it ended too soon");
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    child.wait().unwrap().code()
}

#[cfg(unix)]
#[test]
fn interrupted_commands_leave_nothing() {
    let sandbox = Sandbox::new();
    let names = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(sandbox.path(folder)).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned()).collect()
    };
    let demo = ["demo", "-o", "run", "--layers", "12", "--steps", "20", "--stacks", "--ranks", "2"];
    assert_eq!(interrupt(&sandbox, &demo, || !names("run").is_empty()), Some(130));
    assert_eq!(names("run"), [""; 0]);

    let demo = ["demo", "-o", "run", "--layers", "8", "--steps", "12", "--ranks", "2"];
    assert_eq!(sandbox.run(&demo).status.code(), Some(0));
    let is_begun = || names("").iter().any(|name| name.starts_with(".advisor-"));
    assert_eq!(interrupt(&sandbox, &["export", "run", "-o", "run.pq"], is_begun), Some(130));
    assert_eq!(names(""), ["run"]);
}

/// What an interrupted command of an older version left is not read as a trace.
#[test]
fn unfinished_files_are_not_read() {
    let sandbox = Sandbox::with_run();
    sandbox.write("run/rank-9.json.partial", "{\"schemaVersion\": 1, \"traceEvents\": [");
    let work_folder = "run/.advisor-abcdefghijkl.partial";
    fs::create_dir(sandbox.path(work_folder)).unwrap();
    sandbox
        .write(&format!("{work_folder}/capture.json"), "{\"schemaVersion\": 1, \"traceEvents\": [");
    let output = sandbox.run(&["sql", "run", "SELECT count(*) AS ranks FROM ranks", "-f", "csv"]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("ranks\n2\n", ""));
}

#[cfg(unix)]
#[test]
fn open_shows_the_selected_time_first() {
    use std::io::{BufRead as _, BufReader};
    let sandbox = Sandbox::with_run();
    let args = ["open", "run", "--no-browser", "--port", "0", "--between", "2ms..8ms"];
    let mut child =
        sandbox.command(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let (_, viewport) = url.trim().split_once("&visStart=").expect(&url);
    let (start, end) = viewport.split_once("&visEnd=").unwrap();
    let (start, end): (i64, i64) = (start.parse().unwrap(), end.parse().unwrap());
    assert_eq!(end - start, 6_000_000);
    // The trace states times on a clock of its own.
    let file = sandbox.path("run").read_dir().unwrap().map(|e| e.unwrap().path()).min().unwrap();
    let mut trace = String::new();
    let mut reader = flate2::read::GzDecoder::new(fs::File::open(file).unwrap());
    std::io::Read::read_to_string(&mut reader, &mut trace).unwrap();
    let trace: Value = serde_json::from_str(&trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let times = events.iter().filter(|e| e["ph"] == "X").filter_map(|e| e["ts"].as_f64());
    let first_ns = times.fold(f64::INFINITY, f64::min) * 1e3;
    assert!((start as f64 - first_ns - 2e6).abs() < 1e6, "{start} {first_ns}");
}
