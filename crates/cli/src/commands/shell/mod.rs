//! The interactive SQL shell.

mod command;
mod completion;
mod helper;
mod history;
mod interrupt;
mod relations;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::time::Instant;

use anstyle::{Effects, Style};
use anyhow::Context as _;
use clap::ValueEnum as _;
use private_files::Access;
use rustyline::completion::unescape;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{ColorMode, CompletionType, Config, Editor};
use trace_advisor::ingest::TemporaryFolder;
use trace_advisor::query::{Cancellation, Error, QueryHelp};
use trace_advisor::{Run, query};

use crate::args::{FileFormat as _, OutputArgs, RowFormat, RowOutputArgs};
use crate::commands::query::{row_count, row_count_line};
use crate::commands::shell::command::{COMMANDS, Command};
use crate::commands::shell::completion::Names;
use crate::commands::shell::helper::ShellHelper;
use crate::commands::shell::history::HistoryFile;
use crate::commands::shell::interrupt::{Interrupts, show_while_running};
use crate::commands::statements::{Input, has_code, take_inputs};
use crate::console::{Console, Terminal};
use crate::diagnostics::{print_error_with, with_help};
use crate::exit::Exit;
use crate::output::write_output;
use crate::render::rows::{self, RowOptions, TERMINAL_ROWS};
use crate::render::value::plural;
use crate::text_file;

const DIM: Style = Style::new().effects(Effects::DIMMED);
/// Files that run files.
const MAX_NESTED_FILES: usize = 16;

/// Reads queries and commands from the terminal until the user quits.
pub(crate) fn run(run: &Run, args: &RowOutputArgs, console: &mut Console) -> anyhow::Result<Exit> {
    if args.format().is_binary() {
        let help = "advisor sql PATH QUERY --format FORMAT -o FILE";
        return Err(with_help("this format needs a query and a file", help));
    }
    let functions = run.sql_functions();
    let is_plain = anstream::AutoStream::choice(&io::stdout()) == anstream::ColorChoice::Never;
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .completion_show_all_if_ambiguous(true)
        .color_mode(if is_plain { ColorMode::Disabled } else { ColorMode::Enabled });
    let config = history::configure(config)?;
    let entries = FileHistory::with_config(&config);
    let mut editor = Editor::with_history(config, entries)?;
    editor.set_helper(Some(ShellHelper { names: Names::new(functions.clone()) }));
    let mut history = HistoryFile::load(&mut editor, console)?;

    let info = run.info();
    let (ranks, steps) = (plural(info.ranks.len(), "rank"), plural(info.steps, "step"));
    writeln!(console.out, "{ranks}, {steps}. \\d lists tables and views, \\h all commands.")?;
    let mut shell = Shell {
        run,
        interrupts: Interrupts::install()?,
        functions,
        format: args.format(),
        next_file: None,
        is_expanded: false,
        is_wide: args.wide,
        shows_time: true,
        last_query: String::new(),
        to_edit: String::new(),
        nested_files: 0,
    };
    loop {
        console.out.flush()?;
        let text = std::mem::take(&mut shell.to_edit);
        let text = match editor.readline_with_initial("sql> ", (&text, "")) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => {
                writeln!(console.out, "{DIM}\\q or Ctrl-D quits{DIM:#}")?;
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(Exit::Clean),
            Err(error) => return Err(error.into()),
        };
        if text.trim().is_empty() {
            continue;
        }
        history.add(text.trim(), &mut editor, console)?;
        match shell.run_all(&text, console) {
            Ok(Flow::Continue) => {}
            Ok(Flow::Quit) => return Ok(Exit::Clean),
            // The shell goes on after an error.
            Err(error) => {
                console.out.flush()?;
                if is_canceled(&error) {
                    writeln!(console.err, "canceled")?;
                } else {
                    print_error_with(&error, console, help_in_shell)?;
                }
            }
        }
    }
}

/// State of the shell between queries.
struct Shell<'a> {
    run: &'a Run,
    interrupts: Interrupts,
    functions: Vec<String>,
    format: RowFormat,
    /// The file for the rows of the next query.
    next_file: Option<(RowFormat, OutputArgs)>,
    is_expanded: bool,
    is_wide: bool,
    shows_time: bool,
    last_query: String,
    /// Text that the next prompt starts with.
    to_edit: String,
    nested_files: usize,
}

/// Next action of the shell after an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Continue,
    Quit,
}

impl Shell<'_> {
    /// Runs queries and commands up to the first that fails.
    fn run_all(&mut self, text: &str, console: &mut Console) -> anyhow::Result<Flow> {
        for input in inputs(text) {
            match input {
                Input::Query(query) => {
                    self.last_query.clone_from(&query);
                    self.run_query(&query, console)?;
                }
                Input::Command(line) => {
                    if self.run_command(&line, console)? == Flow::Quit {
                        return Ok(Flow::Quit);
                    }
                }
            }
        }
        Ok(Flow::Continue)
    }

    fn run_query(&mut self, query: &str, console: &mut Console) -> anyhow::Result<()> {
        let start = Instant::now();
        let batches = self.interrupts.cancel_during(|cancellation| {
            let run = || self.run.sql_unless(cancellation, query);
            if console.has_progress { show_while_running(run) } else { run() }
        })?;
        let elapsed = self.shows_time.then(|| start.elapsed());
        let to_file = self.next_file.take();
        let to_terminal = || (self.format, OutputArgs { file: None, force: false });
        let (format, output) = to_file.unwrap_or_else(to_terminal);
        let rows = row_count(&batches);
        let is_shown = output.file.is_none() && console.out_terminal.is_some();
        let limit = (is_shown && format == RowFormat::Table).then_some(TERMINAL_ROWS);
        let options = RowOptions {
            limit,
            is_expanded: self.is_expanded,
            is_wide: self.is_wide || output.file.is_some(),
            ..RowOptions::default()
        };
        self.interrupts.cancel_during(|cancellation| {
            let written = write_output(&output, format.audience(), console, |out, terminal| {
                let mut out = Cancelable { out, cancellation };
                rows::write_with(&batches, format, options, &mut out, terminal)
            });
            if cancellation.is_requested() { Err(canceled()) } else { written }
        })?;
        if let Some(file) = output.file {
            writeln!(console.out, "wrote {} to {}", plural(rows, "row"), file.display())?;
        } else if is_shown {
            writeln!(console.out, "{}", row_count_line(rows, elapsed))?;
        }
        if limit.is_some_and(|limit| rows > limit) {
            writeln!(console.out, "{DIM}`\\o FILE` writes all rows of the next query{DIM:#}")?;
        }
        Ok(())
    }

    fn run_command(&mut self, line: &str, console: &mut Console) -> anyhow::Result<Flow> {
        let columns = Terminal::columns_of(console.out_terminal);
        let state = |is_on: bool| if is_on { "on" } else { "off" };
        match command::parse(line)? {
            Command::Quit => return Ok(Flow::Quit),
            Command::Help => print_help(&mut console.out)?,
            Command::Describe("") => relations::list(columns, &mut console.out)?,
            Command::Describe(name) => relations::find(name, &mut console.out)?,
            Command::Functions(word) => {
                relations::functions(&self.functions, word, columns, &mut console.out)?;
            }
            Command::Expanded(wanted) => {
                self.is_expanded = wanted.unwrap_or(!self.is_expanded);
                writeln!(console.out, "expanded display is {}", state(self.is_expanded))?;
            }
            Command::Timing(wanted) => {
                self.shows_time = wanted.unwrap_or(!self.shows_time);
                writeln!(console.out, "timing is {}", state(self.shows_time))?;
            }
            Command::Format(wanted) => {
                self.format = wanted.unwrap_or(self.format);
                writeln!(console.out, "the format is {}", name_of(self.format))?;
            }
            Command::Output { file: "", .. } => {
                self.next_file = None;
                writeln!(console.out, "rows go to the terminal")?;
            }
            Command::Output { file, force } => self.write_next_to(file, force, console)?,
            Command::Include(file) => return self.include(&path(file), console),
            Command::Edit => self.to_edit = edit(&self.last_query)?,
        }
        Ok(Flow::Continue)
    }

    fn write_next_to(
        &mut self,
        file: &str,
        force: bool,
        console: &mut Console,
    ) -> anyhow::Result<()> {
        let path = path(file);
        if path.exists() && !force {
            let help = format!("`\\o --force {file}` overwrites it");
            return Err(with_help(format!("{file} already exists"), help));
        }
        let format = RowFormat::of_file(&path).unwrap_or(self.format);
        let name = name_of(format);
        writeln!(console.out, "the rows of the next query go to {file}, as {name}")?;
        self.next_file = Some((format, OutputArgs { file: Some(path), force }));
        Ok(())
    }

    fn include(&mut self, file: &Path, console: &mut Console) -> anyhow::Result<Flow> {
        if self.nested_files == MAX_NESTED_FILES {
            anyhow::bail!("{} is nested too deeply", file.display());
        }
        let text = text_file::read(file, "file of queries", text_file::MAX_SQL_BYTES)?;
        self.nested_files += 1;
        let outcome = self.run_all(&text, console);
        self.nested_files -= 1;
        outcome
    }
}

/// The queries and commands of a text; its last query may lack a `;`.
fn inputs(text: &str) -> Vec<Input> {
    if let Some(command) = command::from_word(text) {
        return vec![Input::Command(command)];
    }
    let (mut inputs, rest) = take_inputs(text);
    if has_code(&rest) {
        inputs.push(Input::Query(rest.trim().to_owned()));
    }
    inputs
}

fn print_help(out: &mut dyn Write) -> io::Result<()> {
    let usage = |command: &command::Usage| format!("{} {}", command.name, command.argument);
    let width = COMMANDS.iter().map(|command| usage(command).len()).max().unwrap_or(0);
    for command in COMMANDS {
        writeln!(out, "  {:width$}  {}", usage(command), command.help)?;
    }
    writeln!(
        out,
        "Anything else is SQL: a query ends with ; and may span several lines. Tab completes names. Ctrl-C cancels a \
         query."
    )
}

/// Where to look, in the words of the shell.
fn help_in_shell(help: &QueryHelp) -> String {
    match help {
        QueryHelp::Relations => "`\\d` lists tables and views".to_owned(),
        QueryHelp::Columns { text, relation } => {
            format!("{text}: `\\d {relation}` describes them")
        }
        QueryHelp::Functions => "`\\df` lists the functions".to_owned(),
        help => help.to_string(),
    }
}

fn name_of(format: RowFormat) -> String {
    format.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The path of an argument, as Tab completes it: with a backslash before spaces.
fn path(argument: &str) -> PathBuf {
    PathBuf::from(&*unescape(argument, cfg!(unix).then_some('\\')))
}

/// Opens a text in the editor of the user; returns what it is afterwards.
fn edit(text: &str) -> anyhow::Result<String> {
    let set =
        |name| std::env::var_os(name)?.into_string().ok().filter(|command| !command.is_empty());
    let usual = if cfg!(windows) { "notepad" } else { "vi" };
    let command = set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| usual.to_owned());
    let mut words = command.split_whitespace();
    let folder = TemporaryFolder::create()?;
    let file = folder.path().join("query.sql");
    let text = if text.is_empty() { String::new() } else { format!("{text};\n") };
    Access::Owner.write_file(&file, text.as_bytes())?;
    let program = words.next().unwrap_or(usual);
    let status = process::Command::new(program).args(words).arg(&file).status();
    let status = status.with_context(|| format!("cannot start the editor {program}"));
    let status =
        status.map_err(|error| with_help(format!("{error:#}"), "set EDITOR to another"))?;
    anyhow::ensure!(status.success(), "the editor {program} failed: {status}");
    Ok(std::fs::read_to_string(&file)?.trim_end().to_owned())
}

/// Output that ends when the query is canceled.
struct Cancelable<'a> {
    out: &'a mut (dyn Write + Send),
    cancellation: &'a Cancellation,
}

impl Write for Cancelable<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.cancellation.is_requested() {
            return Err(io::Error::other("canceled"));
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn canceled() -> anyhow::Error {
    trace_advisor::Error::from(Error::Canceled).into()
}

fn is_canceled(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<trace_advisor::Error>();
    matches!(error, Some(trace_advisor::Error::Analysis(query::Error::Canceled)))
}
