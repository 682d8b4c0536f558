//! Single files: `-o FILE`, and traces in folders.

use std::fs;

use trace_demo::{Options, file_name};

use super::{fails, names, succeeds, text, traces};
use crate::support::sandbox::Sandbox;

/// The commands that write traces, and the files that they write. `out` is a folder.
fn trace_commands(sandbox: &Sandbox) -> Vec<(Vec<&'static str>, Vec<String>)> {
    let inputs = traces(sandbox, "run");
    let copies: Vec<String> = inputs.iter().map(|name| format!("out/{name}")).collect();
    let demo = (0..2).map(|rank| format!("out/{}", file_name(&Options::default(), rank)));
    vec![
        (vec!["merge", "run", "-o", "out/m.json", "--force"], vec!["out/m.json".to_owned()]),
        (vec!["augment", "run", "-o", "out", "--force"], copies.clone()),
        (vec!["cut", "run", "--between", "0ms..9ms", "-o", "out", "--force"], copies),
        (vec!["demo", "-o", "out", "--force", "--layers", "1"], demo.collect()),
    ]
}

/// The commands that write one file, without the file.
const FILE_COMMANDS: [&[&str]; 7] = [
    &["merge", "run", "-o"],
    &["check", "run", "--format", "json", "-o"],
    &["check", "run", "--format", "html", "-o"],
    &["sql", "run", "SELECT 1 AS one", "--format", "parquet", "-o"],
    &["analyze", "gpu_idle_breakdown", "run", "-o"],
    &["diff", "run", "run", "--format", "json", "-o"],
    &["rules", "stats", "run", "-o"],
];

#[test]
fn files_that_exist_are_refused_before_the_run_is_read() {
    let sandbox = Sandbox::new();
    sandbox.write("result", "notes");
    for command in &FILE_COMMANDS[1..] {
        // There is no run.
        let refused = fails(&sandbox, &[*command, &["result"]].concat());
        assert!(refused.contains("result already exists"), "{refused}");
        let refused = fails(&sandbox, &[*command, &["absent/result"]].concat());
        assert!(refused.contains("cannot write absent/result"), "{refused}");
    }
    assert_eq!(fs::read_to_string(sandbox.path("result")).unwrap(), "notes");
}

#[test]
fn the_ending_of_a_file_chooses_its_format() {
    let sandbox = Sandbox::with_run();
    let check = ["check", "run", "--exit-zero", "-o"];
    let sql = ["sql", "run", "SELECT 1 AS one", "-o"];
    let analyze = ["analyze", "step_time", "run", "-o"];
    let diff = ["diff", "run", "run", "-o"];
    let stats = ["rules", "stats", "run", "--no-times", "-o"];
    for (command, file, beginning) in [
        (&check[..], "c.html", "<!doctype html>"),
        (&check, "c.json", "{\n"),
        (&check, "c.jsonl", "{\""),
        (&check, "c.md", "#"),
        (&check, "c.sarif", "{\n"),
        (&check, "c.xml", "<?xml"),
        (&check, "c.csv", "run,"),
        (&check, "upper.JSON", "{\n"),
        (&check, "c", "run:"),
        (&sql, "s.csv", "one\n1\n"),
        (&sql, "s.json", "[{\"one\":1}]"),
        (&sql, "s.parquet", "PAR1"),
        (&sql, "s.arrow", "ARROW1"),
        (&sql, "s.txt", "one\n  1\n"),
        (&sql, "s.out", "one\n  1\n"),
        (&analyze, "a.csv", "rank,step,"),
        (&diff, "d.html", "<!doctype html>"),
        (&diff, "d.json", "{\n"),
        (&diff, "d.csv", "level,"),
        (&stats, "r.json", "{\n"),
    ] {
        succeeds(&sandbox, &[command, &[file]].concat());
        let content = fs::read(sandbox.path(file)).unwrap();
        let start = String::from_utf8_lossy(&content[..content.len().min(100)]).into_owned();
        assert!(start.to_lowercase().starts_with(&beginning.to_lowercase()), "{file}: {start}");
    }
    // What is asked for wins.
    succeeds(&sandbox, &[&check[..], &["text.json", "-f", "text"]].concat());
    assert!(fs::read_to_string(sandbox.path("text.json")).unwrap().starts_with("run:"));
    for (command, file, endings) in [
        (&check[..], "c.svg", ".html, "),
        (&sql, "s.html", ".csv, .json, "),
        (&sql, "s.csv.gz", ".csv, .json, "),
        (&analyze, "a.md", ".csv, .json, "),
        (&diff, "d.sarif", ".html, "),
    ] {
        let said = fails(&sandbox, &[command, &[file]].concat());
        assert!(said.contains("does not write .") && said.contains(endings), "{file}: {said}");
        assert!(!sandbox.path(file).exists(), "{file}");
    }
}

#[test]
fn files_of_users_with_predictable_names_stay() {
    let sandbox = Sandbox::with_run();
    for (args, outputs) in trace_commands(&sandbox) {
        fs::create_dir_all(sandbox.path("out")).unwrap();
        for output in &outputs {
            sandbox.write(&format!("{output}.partial"), "notes");
        }
        succeeds(&sandbox, &args);
        for output in &outputs {
            let partial = sandbox.path(&format!("{output}.partial"));
            assert_eq!(fs::read_to_string(partial).unwrap(), "notes", "{args:?}");
            assert!(sandbox.path(output).metadata().unwrap().len() > 1000, "{args:?}");
        }
        assert_eq!(traces(&sandbox, "out").len(), 2 * outputs.len(), "{args:?}");
        fs::remove_dir_all(sandbox.path("out")).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn planted_links_are_not_written_through() {
    use std::os::unix::fs::symlink;
    let sandbox = Sandbox::with_run();
    let victim = sandbox.path("victim");
    fs::write(&victim, "secret").unwrap();
    for (args, outputs) in trace_commands(&sandbox) {
        fs::create_dir_all(sandbox.path("out")).unwrap();
        for output in &outputs {
            symlink(&victim, sandbox.path(&format!("{output}.partial"))).unwrap();
            symlink(&victim, sandbox.path(output)).unwrap();
        }
        succeeds(&sandbox, &args);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "secret", "{args:?}");
        for output in &outputs {
            assert!(sandbox.path(&format!("{output}.partial")).is_symlink(), "{args:?}");
            assert!(!sandbox.path(output).is_symlink(), "{args:?}");
        }
        fs::remove_dir_all(sandbox.path("out")).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_link_is_refused_or_replaced_itself() {
    use std::os::unix::fs::symlink;
    let sandbox = Sandbox::with_run();
    sandbox.write("victim", "secret");
    let (victim, link) = (sandbox.path("victim"), sandbox.path("link"));
    for command in FILE_COMMANDS {
        symlink(&victim, &link).unwrap();
        let args = [command, &["link"]].concat();
        let said = fails(&sandbox, &args);
        assert!(said.contains("link is a symbolic link") && said.contains("--force"), "{said}");
        assert!(link.is_symlink());
        succeeds(&sandbox, &[&args[..], &["--force"]].concat());
        assert!(link.metadata().unwrap().len() > 6 && !link.is_symlink(), "{args:?}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "secret", "{args:?}");
        fs::remove_file(&link).unwrap();
        // A link to nothing is a link as well.
        symlink("nothing", &link).unwrap();
        fails(&sandbox, &args);
        assert!(!sandbox.path("nothing").exists());
        fs::remove_file(&link).unwrap();
    }
    let names = names(&sandbox.path(""));
    assert_eq!(names, ["run", "victim"]);
}

#[cfg(unix)]
#[test]
fn generated_pages_replace_nothing_else() {
    use std::os::unix::fs::symlink;
    let sandbox = Sandbox::new();
    sandbox.write("victim", "secret");
    let commands: [(&[&str], &str); 3] = [
        (&["man", "-o", "pages"], "pages/advisor.1"),
        (&["rules", "docs", "-o", "pages"], "pages/README.md"),
        (&["init", "pages"], "pages/advisor.toml"),
    ];
    for (args, page) in commands {
        fs::create_dir(sandbox.path("pages")).unwrap();
        symlink(sandbox.path("victim"), sandbox.path(page)).unwrap();
        fails(&sandbox, args);
        assert!(sandbox.path(page).is_symlink());
        fs::remove_file(sandbox.path(page)).unwrap();
        sandbox.write(page, "mine");
        fails(&sandbox, args);
        assert_eq!(fs::read_to_string(sandbox.path(page)).unwrap(), "mine");
        fs::remove_file(sandbox.path(page)).unwrap();
        succeeds(&sandbox, args);
        let whole = fs::read_to_string(sandbox.path(page)).unwrap();
        // Pages of an earlier call are brought up to date.
        if args[0] != "init" {
            sandbox.write(page, format!("{whole}changed"));
            succeeds(&sandbox, args);
            assert_eq!(fs::read_to_string(sandbox.path(page)).unwrap(), whole);
        }
        fs::remove_dir_all(sandbox.path("pages")).unwrap();
    }
    assert_eq!(fs::read_to_string(sandbox.path("victim")).unwrap(), "secret");
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_written_to() {
    use std::os::unix::fs::FileTypeExt as _;
    let sandbox = Sandbox::with_run();
    let rows = ["sql", "run", "SELECT 1 AS one", "--format", "csv", "-o"];
    let to = |file: &'static str| [&rows[..], &[file]].concat();
    assert_eq!(text(&succeeds(&sandbox, &to("/dev/stdout")).stdout), "one\n1\n");
    succeeds(&sandbox, &to("/dev/null"));
    succeeds(&sandbox, &["merge", "run", "-o", "/dev/null"]);
    let full = fails(&sandbox, &to("/dev/full"));
    assert!(full.contains("cannot write /dev/full"), "{full}");

    // A file behind stdout keeps what it has.
    sandbox.write("log", "before\n");
    let log = fs::OpenOptions::new().append(true).open(sandbox.path("log")).unwrap();
    assert!(sandbox.command(&to("/dev/stdout")).stdout(log).status().unwrap().success());
    assert_eq!(fs::read_to_string(sandbox.path("log")).unwrap(), "before\none\n1\n");

    let pipe = sandbox.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    succeeds(&sandbox, &to("pipe"));
    assert_eq!(reader.join().unwrap(), "one\n1\n");
    assert!(fs::symlink_metadata(pipe).unwrap().file_type().is_fifo());
    assert_eq!(names(&sandbox.path("")), ["log", "pipe", "run"]);
}

#[test]
fn folders_are_not_files() {
    let sandbox = Sandbox::with_run();
    fs::create_dir(sandbox.path("folder")).unwrap();
    for command in FILE_COMMANDS {
        let said = fails(&sandbox, &[command, &["folder", "--force"]].concat());
        assert!(said.contains("folder is a directory, not a regular file"), "{said}");
    }
    assert!(names(&sandbox.path("folder")).is_empty());
}

#[cfg(unix)]
#[test]
fn permissions_are_those_of_any_new_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::with_run();
    let run = |args: &[&str]| {
        let shell = ["-c", "umask 027; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_advisor")];
        let mut command = std::process::Command::new("sh");
        command.args(shell).args(args).current_dir(sandbox.path(""));
        command.env("ADVISOR_CACHE_DIR", "").env("ADVISOR_SQL_HISTORY", "");
        let output = command.output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    };
    let mode = |name: &str| sandbox.path(name).metadata().unwrap().permissions().mode() & 0o777;
    for (number, command) in FILE_COMMANDS.into_iter().enumerate() {
        let name = format!("file{number}");
        run(&[command, &[&name]].concat());
        assert_eq!(mode(&name), 0o640, "{command:?}");
    }
    run(&["augment", "run", "-o", "out"]);
    assert_eq!(mode(&format!("out/{}", traces(&sandbox, "out")[0])), 0o640);
    run(&["export", "run", "-o", "tables"]);
    assert_eq!(
        (mode("tables"), mode("tables/kernels"), mode("tables/run.json")),
        (0o750, 0o750, 0o640)
    );

    // What the user has set for a file or an export stays.
    let set = |name: &str, mode| {
        fs::set_permissions(sandbox.path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    set("file0", 0o600);
    set("tables", 0o700);
    run(&[FILE_COMMANDS[0], &["file0", "--force"]].concat());
    run(&["export", "run", "-o", "tables", "--force"]);
    assert_eq!((mode("file0"), mode("tables")), (0o600, 0o700));
}

#[test]
fn two_writers_of_one_file_do_not_mix() {
    let sandbox = Sandbox::with_run();
    succeeds(&sandbox, &["demo", "-o", "other", "--steps", "3", "--layers", "2", "--seed", "7"]);
    let read = |name: &str| fs::read(sandbox.path(name)).unwrap();
    let merge = |run: &str, more: &[&str]| {
        let args = [&["merge", run, "-o", "m.json"], more].concat();
        let mut command = sandbox.command(&args);
        command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        command.spawn().unwrap()
    };
    let contents = ["run", "other"].map(|run| {
        succeeds(&sandbox, &["merge", run, "-o", "whole.json", "--force"]);
        read("whole.json")
    });
    assert_ne!(contents[0], contents[1]);
    for _ in 0..5 {
        let both = [merge("run", &["--force"]), merge("other", &["--force"])];
        for child in both {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
        assert!(contents.contains(&read("m.json")));

        fs::remove_file(sandbox.path("m.json")).unwrap();
        let both = [merge("run", &[]), merge("other", &[])];
        let outputs = both.map(|child| child.wait_with_output().unwrap());
        let codes = outputs.each_ref().map(|output| output.status.code());
        assert!(matches!(codes, [Some(0), Some(2)] | [Some(2), Some(0)]), "{codes:?}");
        let written = usize::from(codes[0] != Some(0));
        assert_eq!(read("m.json"), contents[written]);
        let refused = text(&outputs[1 - written].stderr);
        assert!(refused.contains("m.json already exists"), "{refused}");
        fs::remove_file(sandbox.path("m.json")).unwrap();
    }
    assert_eq!(names(&sandbox.path("")), ["other", "run", "whole.json"]);
}

/// A limit on the size of files stands for a full disk.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_what_was_there() {
    let sandbox = Sandbox::with_run();
    let limited = |args: &[&str]| {
        let shell = "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"";
        let mut command = std::process::Command::new("sh");
        command.args(["-c", shell, env!("CARGO_BIN_EXE_advisor")]).args(args);
        command.current_dir(sandbox.path("")).env("ADVISOR_CACHE_DIR", "");
        command.output().unwrap()
    };
    fs::create_dir(sandbox.path("out")).unwrap();
    for command in FILE_COMMANDS {
        if command[0] == "sql" || command[0] == "analyze" || command[0] == "rules" {
            continue; // These files are smaller than the limit.
        }
        sandbox.write("file", "old");
        let output = limited(&[command, &["file", "--force"]].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
        assert!(said.contains("cannot write file: File too large"), "{command:?}: {said}");
        assert_eq!(fs::read_to_string(sandbox.path("file")).unwrap(), "old");
    }
    succeeds(&sandbox, &["export", "run", "-o", "tables"]);
    let before = fs::read(sandbox.path("tables/run.json")).unwrap();
    for args in [
        &["export", "run", "-o", "tables", "--force"][..],
        &["augment", "run", "-o", "out"],
        &["cut", "run", "--between", "0ms..9ms", "-o", "out"],
        &["demo", "-o", "out"],
    ] {
        let output = limited(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("File too large"), "{args:?}: {said}");
    }
    assert_eq!(fs::read(sandbox.path("tables/run.json")).unwrap(), before);
    assert!(names(&sandbox.path("out")).is_empty());
    assert_eq!(names(&sandbox.path("")), ["file", "out", "run", "tables"]);
}
