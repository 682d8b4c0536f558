//! Errors as texts.

use super::output::buffered;
use crate::diagnostics::{help, print_error};

/// An error as the program prints it, without colors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorText {
    /// The message, with the help below it where there is one.
    pub text: String,
    /// Suggestion that the program prints below the message.
    pub help: Option<String>,
}

impl ErrorText {
    /// Describes an error.
    pub fn of(error: &anyhow::Error) -> Self {
        let (mut console, output) = buffered(None);
        // A buffer takes everything.
        let _ = print_error(error, &mut console);
        let printed = output.errors();
        let text = printed.trim_end();
        Self { text: text.strip_prefix("error: ").unwrap_or(text).to_owned(), help: help(error) }
    }
}
