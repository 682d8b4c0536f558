//! Lexing of JSON text, numbers as text, and JSON that is read in windows from a stream.

pub(crate) mod lexer;
pub(crate) mod number;
pub(crate) mod stream;
pub(crate) mod time;
