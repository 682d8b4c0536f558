//! Pickles of plain data, read without running anything: dicts, lists, tuples, sets, text, numbers.
//!
//! A pickle is a program for a stack machine. This one runs the instructions that build plain data, in all protocols (0
//! to 5), and refuses by name those that look up or call something. The result is a [`Graph`] in flat arrays: shared
//! parts stay shared, so that neither a pickle that doubles itself nor one that contains itself costs more than its own
//! length. Nothing here recurses.

mod builder;
mod graph;
mod input;
mod machine;
mod numbers;
mod problem;
#[cfg(test)]
mod tests;

pub(crate) use builder::{GraphBuilder, Part};
pub(crate) use graph::{Cursor, Graph, Kind, ObjectId, Value};
pub(crate) use machine::read;

/// Returns whether text starts like a pickle: with the protocol, or, in protocols 0 and 1, with a dict or list.
pub(crate) fn is_pickle(prefix: &[u8]) -> bool {
    matches!(
        prefix,
        [0x80, 2..=5, ..]
            | [b'(', b'd' | b'l', b'p' | b'g' | b'.', ..]
            | [b'}' | b']', b'q' | b'r' | b'(' | b'.', ..]
    )
}
