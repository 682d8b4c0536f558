//! Lexing of JSON text, numbers as text, one text for equal lists, and JSON that is read in windows from a stream.

pub(crate) mod canonical;
pub(crate) mod lexer;
pub(crate) mod number;
pub(crate) mod stream;
pub(crate) mod time;
