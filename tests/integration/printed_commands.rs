//! Every command that we print works: in the advice of rules, in the pages of `advisor explain`, in `--help`, and in the
//! documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::thread;

use regex::Regex;
use trace_advisor::{default_rules, explain};
use trace_demo::{Bottleneck, Options, write_run};

use crate::support::sandbox::Sandbox;

/// Commands that cannot run here, by a part of them, with the reason. One that no page prints fails the test.
const NOT_RUN: [(&str, &str); 23] = [
    ("advisor check --format json", "names an option"),
    ("advisor diff --hta", "names an option"),
    ("advisor rules stats --format markdown", "names an option"),
    ("advisor demo --ranks 8", "names an option"),
    ("advisor record", "runs a training program: `record` tests it"),
    ("advisor watch", "runs until it is interrupted: `watch` tests it"),
    ("s3://", "needs an object store"),
    ("metrics/", "needs metrics of Determined: tests of `from-determined.md` read recorded ones"),
    ("101.jsonl", "needs metrics of Determined"),
    ("snapshot.pickle", "needs a memory snapshot: `memory_snapshots` reads recorded ones"),
    ("...", "an outline: a part is left out"),
    ("rules stats --each runs/", "needs a corpus of runs"),
    ("gpu_utilization runs/ --each", "needs a folder of runs: `runs` tests it"),
    ("--ranks 0-3,8", "an example for a run with more ranks"),
    (
        "advisor help COMMAND",
        "COMMAND stands for any command: `command_line` tests the help of all",
    ),
    ("advisor rules <COMMAND>", "names a group of commands"),
    ("--between 123ms..", "a time range of another run"),
    ("advisor sql examples/run", "starts the shell: `shell` tests it"),
    ("< queries.sql", "reads a file that the reader has"),
    ("advisor check run.pq", "reads what the command before it writes"),
    ("advisor check small/", "reads what the command before it writes"),
    ("advisor open small/", "reads what the command before it writes"),
    ("--baseline main.json", "needs an earlier report: `baseline` tests it"),
];

/// Words of the reader's, and what they stand for.
const PLACEHOLDERS: [(&str, &str); 13] = [
    ("RUN", "run/"),
    ("PATH", "run/"),
    ("/scratch/run/", "run/"),
    ("DIR", "mapped"),
    ("I/N", "1/2"),
    ("$SLURM_ARRAY_TASK_ID/32", "1/32"),
    ("BEFORE", "before/"),
    ("AFTER", "after/"),
    ("OUT", "out/"),
    ("VIEW", "gpu_utilization"),
    ("NAME", "kernels"),
    ("CODE", "IN001"),
    ("FILE", "advisor.toml"),
];

/// Splits a command as a shell does, up to a comment, a redirection, a pipe or another command.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    for c in command.chars() {
        match (c, quote) {
            ('"' | '\'', None) => (quote, is_word) = (Some(c), true),
            (c, Some(open)) if c == open => quote = None,
            // A description follows in help.
            (' ', None) if !is_word && !words.is_empty() => return words,
            (' ', None) => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            ('#' | '>' | '|' | '&', None) if !is_word => return words,
            (c, _) => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}

/// The commands in a Markdown page: lines of blocks, and code in text that is more than a name such as `advisor check`.
fn commands_of_page(page: &str) -> Vec<String> {
    let (mut commands, mut text, mut in_block) = (Vec::new(), String::new(), false);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            commands.extend(commands_of_line(line));
        } else {
            text.push_str(line.trim());
            text.push(' ');
        }
    }
    let code = Regex::new("`(advisor [^`]+)`").unwrap();
    let spans = code.captures_iter(&text).map(|found| found[1].to_owned());
    commands.extend(spans.filter(|span| words(span).len() > 2));
    commands
}

/// The commands in a line of a block, which may be a line of a shell session or of a CI file.
fn commands_of_line(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches("$ ").trim_start_matches("- ");
    let line = line.trim_start_matches("run: ").trim_start_matches("Try it: ");
    let commands = line.split(" && ").filter(|part| part.starts_with("advisor "));
    commands.map(str::to_owned).collect()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn markdown_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        // The pages of rules are made from the rules, which are read themselves.
        if path.is_dir() && !path.ends_with("docs/rules") {
            markdown_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
}

/// All commands that are printed, each with the first place that prints it.
fn printed(sandbox: &Sandbox) -> BTreeMap<String, String> {
    let mut files = Vec::new();
    markdown_files(&repository().join("docs"), &mut files);
    files.extend(["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"].map(|f| repository().join(f)));
    files.sort();
    let mut all = BTreeMap::new();
    let mut add = |place: &str, commands: Vec<String>| {
        for command in commands {
            all.entry(command).or_insert_with(|| place.to_owned());
        }
    };
    for file in files {
        add(&file.display().to_string(), commands_of_page(&fs::read_to_string(&file).unwrap()));
    }
    for rule in default_rules().all() {
        add(&format!("explain {}", rule.code), commands_of_page(&explain(rule)));
    }
    let help = |args: &[&str]| {
        let output = sandbox.run(args);
        assert!(output.status.success(), "{args:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let overview = help(&["--help"]);
    let (_, listed) = overview.split_once("Commands:\n").unwrap();
    let names = listed.lines().take_while(|line| !line.is_empty());
    let names = names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    assert!(names.contains("check"), "{overview}");
    for name in names {
        let text = if name == "help" { overview.clone() } else { help(&[name, "--help"]) };
        let lines = text.lines().flat_map(commands_of_line);
        add(&format!("{name} --help"), lines.chain(commands_of_page(&text)).collect());
    }
    all
}

/// A folder with everything that the commands name.
fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    let bottleneck = Bottleneck::DataLoading;
    let options = Options { bottleneck, steps: 30, layers: 1, ..Options::default() };
    for folder in ["run", "my-run", "demo-run", "before", "after", "examples/run"] {
        fs::create_dir_all(sandbox.path(folder)).unwrap();
        write_run(&options, &sandbox.path(folder)).unwrap();
    }
    fs::create_dir_all(sandbox.path("rules")).unwrap();
    for file in fs::read_dir(repository().join("rules")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), sandbox.path("rules").join(file.file_name())).unwrap();
    }
    let setup: [&[&str]; 4] = [
        &["map", "run", "--to", "mapped"],
        &["init"],
        &["export", "run", "--to", "tables"],
        &["check", "before", "--format", "json", "-o", "before.json", "--exit-zero"],
    ];
    for args in setup {
        assert!(sandbox.run(args).status.success(), "{args:?}");
    }
    fs::copy(sandbox.path("before.json"), sandbox.path("baseline.json")).unwrap();
    sandbox
}

/// Runs a command; the problem, if there is one.
fn problem(sandbox: &Sandbox, command: &str) -> Option<String> {
    let mut args: Vec<String> = words(command).into_iter().skip(1).collect();
    for arg in &mut args {
        if let Some((_, meant)) = PLACEHOLDERS.iter().find(|(word, _)| *word == arg.as_str()) {
            *arg = (*meant).to_owned();
        }
    }
    // What it writes must not be there yet.
    let output = args.iter().position(|arg| ["-o", "--output", "--to"].contains(&arg.as_str()));
    if let Some(written) = output.and_then(|at| args.get_mut(at + 1)) {
        *written = format!("written-{}", written.replace('/', "-"));
        let path = sandbox.path(written);
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    if args[0] == "init" {
        let _ = fs::remove_file(sandbox.path("advisor.toml"));
    }
    let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
    if args[0] == "open" {
        args.retain(|arg| *arg != "--no-browser");
        args.extend(["--no-browser", "--port", "0"]);
        return cannot_open(sandbox, &args);
    }
    let mut run = sandbox.command(&args);
    run.env("ADVISOR_CACHE_DIR", sandbox.path("cache"));
    let output = run.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let works = matches!(output.status.code(), Some(0 | 1)) && !errors.contains("warning");
    (!works).then(|| errors.into_owned())
}

/// Starts to serve a trace, or the page of a report.
fn cannot_open(sandbox: &Sandbox, args: &[&str]) -> Option<String> {
    let mut command = sandbox.command(args);
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut url).unwrap();
    process.kill().unwrap();
    let output = process.wait_with_output().unwrap();
    let served =
        if args.contains(&"--report") { "http://127.0.0.1:" } else { "https://ui.perfetto.dev/" };
    let works = url.starts_with(served);
    (!works).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn printed_commands_work() {
    let sandbox = prepared();
    let all = printed(&sandbox);
    assert!(all.len() > 150, "{}", all.len());
    let reason = |command: &str| {
        let starts_shell = ["advisor sql run/", "advisor sql examples/run"].contains(&command);
        NOT_RUN.iter().find(|(part, _)| starts_shell || command.contains(part))
    };
    for (part, _) in NOT_RUN {
        assert!(all.keys().any(|command| command.contains(part)), "`{part}` is not printed");
    }
    let (writing, reading): (Vec<_>, Vec<_>) =
        all.iter().filter(|(command, _)| reason(command).is_none()).partition(|(command, _)| {
            [" -o ", " --to ", "init"].iter().any(|part| command.contains(part))
        });
    let problems = Mutex::new(Vec::new());
    let try_some = |commands: &[(&String, &String)]| {
        for (command, place) in commands {
            if let Some(problem) = problem(&sandbox, command) {
                problems.lock().unwrap().push(format!("{place}: {command}\n{problem}"));
            }
        }
    };
    let (first, second) = reading.split_at(reading.len() / 2);
    thread::scope(|scope| {
        scope.spawn(|| try_some(first));
        try_some(second);
    });
    // One after the other: they change files that others read.
    try_some(&writing);
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{} fail:\n\n{}", problems.len(), problems.join("\n"));
}

/// The page of a rule shows each command that its advice may contain, so that the test above runs it.
#[test]
fn advised_commands_are_on_the_pages() {
    let command =
        Regex::new(r"`advisor (\w+) \{\{ run\.\w+ \}\}|`advisor (\w+ \w+) \{\{ run").unwrap();
    let texts = fs::read_dir(repository().join("rules")).unwrap();
    let texts = texts.map(|entry| entry.unwrap().path());
    let texts = texts.filter(|path| path.extension().is_some_and(|e| e == "toml"));
    let mut pages = String::new();
    for rule in default_rules().all() {
        pages.push_str(&explain(rule));
    }
    for path in texts {
        let text = fs::read_to_string(&path).unwrap();
        for found in command.captures_iter(&text) {
            let name = found.get(1).or(found.get(2)).unwrap().as_str();
            assert!(pages.contains(&format!("`advisor {name} ")), "{}: {name}", path.display());
        }
    }
}

#[test]
fn words_are_those_of_a_shell() {
    let command = "advisor sql run/ \"SELECT 'a b'\" -o 'x y'  # all of it";
    assert_eq!(words(command), ["advisor", "sql", "run/", "SELECT 'a b'", "-o", "x y"]);
    assert_eq!(words("advisor schema rules > rules.json"), ["advisor", "schema", "rules"]);
    let page = "Run `advisor check` or `advisor check run/\n--all`.\n```sh\n$ advisor init # now\n- run: advisor tables\n```";
    assert_eq!(
        commands_of_page(page),
        ["advisor init # now", "advisor tables", "advisor check run/ --all"]
    );
}
