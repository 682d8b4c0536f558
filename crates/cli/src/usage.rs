//! What the parser of the command line has to say: help, versions and mistakes.

use std::path::Path;

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use trace_advisor::ingest::Location;
use trace_advisor::trace_model::command_line::shell_words;
use trace_advisor::trace_model::suggest::nearest;

use crate::args::Args;
use crate::console::Console;
use crate::diagnostics::{print_error, with_help};
use crate::exit::Exit;

/// A mistake in options, without the usage of the command: message and help.
pub(crate) fn mistake(message: &clap::Error) -> (String, Option<String>) {
    let text = message.render().to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or_default();
    let text = text.split("\n\nFor more information").next().unwrap_or_default().trim_end();
    let (message, help) = match text.split_once("\n\n  tip: ") {
        Some((message, help)) => (message, Some(help.to_owned())),
        None => (text, None),
    };
    (message.strip_prefix("error: ").unwrap_or(message).to_owned(), help)
}

/// Prints what the parser has to say: help, or a mistake in the command line.
pub(crate) fn print_message(mut message: clap::Error, console: &mut Console) -> Exit {
    if message.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(word)) = message.get(ContextKind::InvalidSubcommand)
    {
        let word = word.clone();
        if Path::new(&word).exists() || Location::is_address(&word) {
            let command = shell_words(["advisor", "check", &word]);
            let help = format!("did you mean `{command}`?");
            let error = with_help(format!("`{word}` is a path, not a command"), help);
            // The message is lost if the reader is gone.
            let _ = print_error(&error, console);
            return Exit::Failed;
        }
        let program = Args::command();
        let names =
            program.get_subcommands().filter(|c| !c.is_hide_set()).map(clap::Command::get_name);
        match nearest(&word, names) {
            Some(near) => message.insert(
                ContextKind::SuggestedSubcommand,
                ContextValue::Strings(vec![near.to_owned()]),
            ),
            None => message.remove(ContextKind::SuggestedSubcommand),
        };
    }
    let failed = message.use_stderr();
    let to = if failed { &mut console.errors } else { &mut console.out };
    let written = write!(to, "{}", message.render().ansi()).and_then(|()| to.flush());
    match written {
        _ if failed => Exit::Failed,
        Ok(()) => Exit::Clean,
        Err(_) => Exit::Unread,
    }
}
