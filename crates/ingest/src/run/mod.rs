//! Assembles the files of a run: finds them, reads the timelines of all ranks, puts them on one clock, and adds
//! the files that belong to them.

pub(crate) mod attachment;
pub(crate) mod clock;
pub(crate) mod discover;
mod distinct_runs;
mod graph_captures;
pub(crate) mod identity;
pub(crate) mod open;
pub(crate) mod outline;
pub(crate) mod parse;
pub(crate) mod plan;
pub(crate) mod rank_from_name;
pub(crate) mod rank_trace;
pub(crate) mod ranks;
pub(crate) mod reach;
pub(crate) mod read;
pub(crate) mod sink;
pub(crate) mod version;
