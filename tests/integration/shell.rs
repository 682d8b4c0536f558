//! The SQL shell through a pseudo-terminal, as a user would use it. Each step waits for what the shell prints.

use std::path::Path;
use std::process::Stdio;

use rexpect::reader::Options;
use rexpect::session::{PtySession, spawn_with_options};

use crate::support::sandbox::Sandbox;

/// Long enough for a busy machine. A test that passes takes a second.
const TIMEOUT_MS: u64 = 60_000;
/// More rows than any machine counts within the timeout.
const ENDLESS: &str = "SELECT max(a.dur_ns + f.dur_ns) FROM cpu_ops a, cpu_ops b, cpu_ops c, cpu_ops d, cpu_ops e, cpu_ops f;";

/// A shell on the run of a sandbox.
struct Shell {
    session: PtySession,
}

impl Shell {
    fn start(sandbox: &Sandbox) -> Self {
        Self::start_with(sandbox, &[])
    }

    fn start_with(sandbox: &Sandbox, variables: &[(&str, &Path)]) -> Self {
        let mut command = sandbox.command(&["sql", "run"]);
        command.stdin(Stdio::inherit());
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "VISUAL", "EDITOR"] {
            command.env_remove(name);
        }
        // The terminal of the tests has no size.
        command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").env("COLUMNS", "100");
        command.env("ADVISOR_SQL_HISTORY", sandbox.path("history"));
        command.envs(variables.iter().copied());
        let options = Options::new().timeout_ms(Some(TIMEOUT_MS)).strip_ansi_escape_codes(true);
        let mut shell = Self { session: spawn_with_options(command, options).unwrap() };
        shell.wait_for("2 ranks, 4 steps.");
        shell.wait_for("sql> ");
        shell
    }

    /// Types keys.
    fn keys(&mut self, keys: &str) -> &mut Self {
        self.session.send(keys).unwrap();
        self.session.flush().unwrap();
        self
    }

    /// Types a line and ends it.
    fn line(&mut self, line: &str) -> &mut Self {
        self.keys(line).keys("\r")
    }

    /// Waits for a text. Returns what was printed before it.
    fn wait_for(&mut self, text: &str) -> String {
        self.session.exp_string(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// Waits for the end of what a line prints, then for the prompt: a key that is typed before it may be lost. Returns
    /// what was printed before.
    fn answer(&mut self, end: &str) -> String {
        let before = self.wait_for(end);
        self.wait_for("sql> ");
        before
    }

    fn quit(&mut self) {
        self.line("\\q");
        self.session.exp_eof().unwrap();
    }
}

#[test]
fn tab_completes_tables_columns_keywords_and_commands() {
    let mut shell = Shell::start(&Sandbox::with_run());
    shell.line("\\d gpu_utiliz\t");
    shell.answer("one row is one device of one rank");
    shell.line("sel\t rank fr\t ranks ord\t by rank;");
    shell.answer("(2 rows, ");
    shell.line("SELECT 1 FROM steps AS s WHERE s.dur\t < 0;");
    shell.answer("(0 rows, ");
    shell.line("\\timi\t off");
    shell.answer("timing is off");
    shell.quit();
}

#[test]
fn history_is_kept_between_sessions() {
    let sandbox = Sandbox::with_run();
    let mut first = Shell::start(&sandbox);
    first.line("SELECT 41 + 1 AS answer;");
    first.answer("(1 row, ");
    first.quit();
    let mut second = Shell::start(&sandbox);
    // The line before `\q`.
    second.keys("\u{1b}[A").keys("\u{1b}[A").keys("\r");
    assert!(second.answer("(1 row, ").contains("42"));
    second.quit();
}

#[test]
fn history_that_cannot_be_written_is_a_warning() {
    let sandbox = Sandbox::with_run();
    sandbox.write("file", "");
    let path = sandbox.path("file").join("history");
    let mut shell = Shell::start_with(&sandbox, &[("ADVISOR_SQL_HISTORY", &path)]);
    shell.line("SELECT 1;");
    shell.wait_for("warning: cannot write the history");
    shell.answer("(1 row, ");
    shell.line("SELECT 2;");
    assert!(!shell.answer("(1 row, ").contains("warning"));
    shell.quit();
}

#[test]
fn control_c_cancels_the_query_and_not_the_shell() {
    let mut shell = Shell::start(&Sandbox::with_run());
    shell.line(ENDLESS);
    shell.wait_for("Ctrl-C cancels");
    shell.session.send_control('c').unwrap();
    shell.wait_for("canceled");
    shell.wait_for("sql> ");
    shell.line("SELECT 41 + 1 AS answer;");
    assert!(shell.answer("(1 row, ").contains("42"));
    // At the prompt it discards the line.
    shell.keys("SELECT ");
    shell.wait_for("SELECT ");
    shell.session.send_control('c').unwrap();
    shell.wait_for("\\q or Ctrl-D quits");
    shell.wait_for("sql> ");
    shell.session.send_control('d').unwrap();
    shell.session.exp_eof().unwrap();
}

#[test]
fn queries_span_lines_and_words_of_other_shells_are_understood() {
    let mut shell = Shell::start(&Sandbox::with_run());
    shell.line("SELECT 41 + 1");
    shell.wait_for("end the query with ;");
    shell.line("AS answer;");
    assert!(shell.answer("(1 row, ").contains("42"));
    for word in ["help", "?", ".help", "\\h"] {
        shell.line(word);
        shell.answer("list tables and views, describe one");
    }
    shell.line(".tables");
    shell.wait_for("Tables, as they were recorded");
    shell.answer("lists those with a word in their name");
    shell.line("\\d utilization");
    shell.answer("gpu_utilization_series");
    shell.line("\\foo");
    shell.answer("error: there is no command `\\foo`");
    shell.line("exit");
    shell.session.exp_eof().unwrap();
}

#[test]
fn display_and_timing_can_be_changed() {
    let mut shell = Shell::start(&Sandbox::with_run());
    shell.line("\\x");
    shell.answer("expanded display is on");
    shell.line("SELECT 41 + 1 AS answer;");
    let shown = shell.answer("(1 row, ");
    assert!(shown.contains("answer  42"), "{shown}");
    shell.line("\\timing");
    shell.answer("timing is off");
    shell.line("SELECT 1;");
    shell.answer("(1 row)");
    shell.line("\\x off");
    shell.answer("expanded display is off");
    shell.line("SELECT rank FROM cpu_ops;");
    shell.answer("`\\o FILE` writes all rows");
    shell.line("\\f csv");
    shell.answer("the format is csv");
    shell.line("SELECT 'a,b' AS text;");
    assert!(shell.answer("(1 row)").contains("\"a,b\""));
    shell.quit();
}

#[test]
fn rows_and_queries_can_be_in_files() {
    let sandbox = Sandbox::with_run();
    let mut shell = Shell::start(&sandbox);
    shell.line("\\o rows.csv");
    shell.answer("the rows of the next query go to rows.csv, as csv");
    shell.line("SELECT rank FROM ranks ORDER BY rank;");
    shell.answer("wrote 2 rows to rows.csv");
    assert_eq!(std::fs::read_to_string(sandbox.path("rows.csv")).unwrap(), "rank\n0\n1\n");
    shell.line("\\o rows.csv");
    shell.answer("error: rows.csv already exists");
    sandbox.write("queries.sql", "\\x\nSELECT 41 + 1 AS answer; SELECT nothing; SELECT 'skipped'");
    shell.line("\\i queries.sql");
    shell.wait_for("answer  42");
    let rest = shell.answer("there is no column `nothing`");
    assert!(!rest.contains("skipped"), "{rest}");
    shell.quit();
}

#[test]
fn the_editor_edits_the_last_query() {
    use std::os::unix::fs::PermissionsExt as _;

    let sandbox = Sandbox::with_run();
    let editor = sandbox.path("editor");
    sandbox.write("editor", "#!/bin/sh\nsed -i.old s/41/50/ \"$1\"\n");
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut shell = Shell::start_with(&sandbox, &[("EDITOR", &editor)]);
    shell.line("SELECT 41 + 1 AS answer;");
    shell.answer("(1 row, ");
    shell.line("\\e");
    shell.wait_for("SELECT 50 + 1 AS answer;");
    shell.keys("\r");
    assert!(shell.answer("(1 row, ").contains("51"));
    shell.quit();
}

#[test]
fn errors_mark_the_place_and_suggest_names() {
    let mut shell = Shell::start(&Sandbox::with_run());
    shell.line("SELECT nam FROM kernels;");
    shell.wait_for("error: there is no column `nam`");
    shell.wait_for("query:1:8");
    shell.wait_for("^^^");
    shell.answer("did you mean `name`?");
    shell.line("SELECT 1 FROM no_such_table_at_all;");
    shell.answer("`\\d` lists tables and views");
    shell.line("SELECT 1;");
    shell.answer("(1 row, ");
    shell.quit();
}
