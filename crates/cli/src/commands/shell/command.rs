//! The commands of the shell: lines that begin with a backslash, and words such as `help`.

use clap::ValueEnum as _;
use trace_advisor::trace_model::suggest::nearest;

use crate::args::RowFormat;
use crate::diagnostics::with_help;

/// A command with its argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command<'a> {
    /// Lists or describes tables and views.
    Describe(&'a str),
    /// Lists functions.
    Functions(&'a str),
    /// Turns the expanded display on or off, or toggles it.
    Expanded(Option<bool>),
    /// Turns the time of each query on or off, or toggles it.
    Timing(Option<bool>),
    /// Sets or shows the format of rows.
    Format(Option<RowFormat>),
    /// Writes the rows of the next query to a file; without one, to the terminal again.
    Output { file: &'a str, force: bool },
    /// Runs a file.
    Include(&'a str),
    /// Edits the last query.
    Edit,
    /// Lists the commands.
    Help,
    /// Ends the shell.
    Quit,
}

/// A command as the help lists it.
pub(super) struct Usage {
    pub(super) name: &'static str,
    pub(super) argument: &'static str,
    pub(super) completes: Argument,
    pub(super) help: &'static str,
}

/// Completions for the argument of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Argument {
    None,
    Relation,
    Function,
    File,
    Word(&'static [&'static str]),
}

/// All commands.
pub(super) const COMMANDS: &[Usage] = &[
    Usage {
        name: "\\d",
        argument: "[NAME]",
        completes: Argument::Relation,
        help: "list tables and views, describe one, or list those with a word in their name",
    },
    Usage {
        name: "\\df",
        argument: "[WORD]",
        completes: Argument::Function,
        help: "list functions",
    },
    Usage {
        name: "\\x",
        argument: "[on|off]",
        completes: Argument::Word(&["on", "off"]),
        help: "show each row as a list of its columns",
    },
    Usage {
        name: "\\timing",
        argument: "[on|off]",
        completes: Argument::Word(&["on", "off"]),
        help: "show how long each query takes",
    },
    Usage {
        name: "\\f",
        argument: "[FORMAT]",
        completes: Argument::Word(&["table", "csv", "json"]),
        help: "set the format of rows: table, csv or json",
    },
    Usage {
        name: "\\o",
        argument: "[--force] FILE",
        completes: Argument::File,
        help: "write the rows of the next query to FILE: .csv, .json, .parquet, .arrow, or text",
    },
    Usage {
        name: "\\i",
        argument: "FILE",
        completes: Argument::File,
        help: "run the queries and commands in FILE",
    },
    Usage {
        name: "\\e",
        argument: "",
        completes: Argument::None,
        help: "edit the last query in $EDITOR",
    },
    Usage {
        name: "\\h",
        argument: "",
        completes: Argument::None,
        help: "show this help (also: help)",
    },
    Usage {
        name: "\\q",
        argument: "",
        completes: Argument::None,
        help: "quit (also: exit, quit, Ctrl-D)",
    },
];

/// The command that a line without a backslash stands for: what newcomers and users of other shells type.
pub(super) fn from_word(line: &str) -> Option<String> {
    let line = line.trim().trim_end_matches(';').trim_end();
    Some(match line.to_ascii_lowercase().as_str() {
        "help" | "?" | ".help" => "\\h".to_owned(),
        "exit" | "quit" | ".exit" | ".quit" | ":q" => "\\q".to_owned(),
        ".tables" => "\\d".to_owned(),
        // No query begins with a dot. What it is, the parser says.
        dotted if dotted.starts_with('.') => line.to_owned(),
        _ => return None,
    })
}

/// The command of a line.
pub(super) fn parse(line: &str) -> anyhow::Result<Command<'_>> {
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let argument = argument.trim().trim_end_matches(';').trim_end();
    let command = match name {
        "\\d" | "\\dt" | "\\dv" | ".schema" => Command::Describe(argument),
        "\\df" => Command::Functions(argument),
        "\\x" => Command::Expanded(switch(name, argument)?),
        "\\timing" => Command::Timing(switch(name, argument)?),
        "\\f" => Command::Format(format(argument)?),
        "\\o" => match argument.strip_prefix("--force") {
            Some(file) => Command::Output { file: file.trim_start(), force: true },
            None => Command::Output { file: argument, force: false },
        },
        "\\i" if argument.is_empty() => {
            return Err(with_help("\\i needs a file", "\\i FILE runs its queries and commands"));
        }
        "\\i" => Command::Include(argument),
        "\\e" => Command::Edit,
        "\\h" | "\\?" | "\\help" => Command::Help,
        "\\q" | "\\quit" | "\\exit" => Command::Quit,
        _ => {
            let names = COMMANDS.iter().map(|command| command.name);
            // Names are so short that most are one letter away from each other.
            let near = nearest(name, names).filter(|near| near.len() > 3);
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`\\h` lists the commands".to_owned(),
            };
            return Err(with_help(format!("there is no command `{name}`"), help));
        }
    };
    Ok(command)
}

fn switch(name: &str, argument: &str) -> anyhow::Result<Option<bool>> {
    match argument {
        "" => Ok(None),
        "on" => Ok(Some(true)),
        "off" => Ok(Some(false)),
        other => Err(with_help(
            format!("`{other}` is neither on nor off"),
            format!("`{name}` alone toggles"),
        )),
    }
}

fn format(argument: &str) -> anyhow::Result<Option<RowFormat>> {
    if argument.is_empty() {
        return Ok(None);
    }
    match RowFormat::from_str(argument, true) {
        Ok(format) if format.is_binary() => Err(with_help(
            format!("a terminal cannot show {argument}"),
            format!("`\\o FILE.{argument}` writes the rows of the next query to a file"),
        )),
        Ok(format) => Ok(Some(format)),
        Err(_) => Err(with_help(
            format!("there is no format `{argument}`"),
            "the formats are table, csv and json",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, Command, from_word, parse};
    use crate::args::RowFormat;

    #[test]
    fn parse_knows_every_command_of_the_help() {
        for command in COMMANDS {
            let argument = if command.name == "\\i" { " FILE" } else { "" };
            let line = format!("{}{argument}", command.name);
            assert!(parse(&line).is_ok(), "{line}");
        }
    }

    #[test]
    fn parse_reads_arguments() {
        assert_eq!(parse("\\d  kernels ;").unwrap(), Command::Describe("kernels"));
        assert_eq!(parse("\\x off").unwrap(), Command::Expanded(Some(false)));
        assert_eq!(parse("\\f CSV").unwrap(), Command::Format(Some(RowFormat::Csv)));
        assert_eq!(
            parse("\\o --force my rows.csv").unwrap(),
            Command::Output { file: "my rows.csv", force: true }
        );
    }

    #[test]
    fn parse_refuses_what_it_does_not_know() {
        for line in ["\\foo", "\\x maybe", "\\f parquet", "\\f xml", "\\i", ".mode csv"] {
            assert!(parse(line).is_err(), "{line}");
        }
        let error = parse("\\timeing").unwrap_err();
        assert_eq!(error.to_string(), "there is no command `\\timeing`");
    }

    #[test]
    fn from_word_understands_words_of_other_shells_and_no_sql() {
        assert_eq!(from_word(" Help; ").as_deref(), Some("\\h"));
        assert_eq!(from_word("exit").as_deref(), Some("\\q"));
        assert_eq!(from_word(".tables").as_deref(), Some("\\d"));
        assert_eq!(from_word(".mode csv").as_deref(), Some(".mode csv"));
        assert_eq!(from_word("SELECT 1"), None);
        assert_eq!(from_word("help me"), None);
    }
}
