//! Pickles of plain data, read without running anything: dicts, lists, tuples, sets, text, numbers.
//!
//! A pickle is a program for a stack machine. Ours knows the instructions that build plain data, in all
//! protocols (0 to 5), and refuses those that look up or call something, naming what they ask for. What
//! it builds is a [`Graph`] in flat arrays: shared parts stay shared, so that neither a pickle that
//! doubles itself nor one that contains itself costs more than its own length. Nothing here recurses.

mod graph;
mod input;
mod machine;
mod numbers;
#[cfg(test)]
mod tests;

pub(crate) use graph::{Graph, Kind, ObjectId, Value};
pub(crate) use machine::read;

/// Why a pickle cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// It ends in the middle.
    Truncated,
    /// Its compressed data is damaged.
    DamagedGzip,
    /// It expands to more than the limit allows.
    TooLong,
    /// It asks for something to be looked up or called: what, and the byte after the instruction.
    Refused(String, u64),
    /// It is no pickle from this byte on.
    Malformed(&'static str, u64),
    /// Building it would take far more memory than data of its length does.
    TooMuch,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Truncated => {
                write!(f, "the pickle ends in the middle: copy or dump it again")
            }
            Self::DamagedGzip => {
                write!(f, "the compressed data ends early or is damaged: copy or dump it again")
            }
            Self::TooLong => write!(
                f,
                "expands to far more data than a pickle of its size would: refused as a decompression \
                 bomb (raise the limit with --max-json-bytes if it is genuine)"
            ),
            Self::Refused(what, at) => write!(
                f,
                "the pickle asks to load {what} (byte {at}), which would run code: refused; only plain \
                 data is read (dicts, lists, text, numbers), as torch.cuda.memory._dump_snapshot writes it"
            ),
            Self::Malformed(what, at) => write!(f, "not a valid pickle: {what} (byte {at})"),
            Self::TooMuch => {
                write!(f, "the pickle would build far more than data of its length does: refused")
            }
        }
    }
}

/// Whether text begins as a pickle does: with the protocol, or, in protocols 0 and 1, with a dict or list.
pub(crate) fn is_pickle(prefix: &[u8]) -> bool {
    matches!(
        prefix,
        [0x80, 2..=5, ..]
            | [b'(', b'd' | b'l', b'p' | b'g' | b'.', ..]
            | [b'}' | b']', b'q' | b'r' | b'(' | b'.', ..]
    )
}
