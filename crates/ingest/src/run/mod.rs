//! Assembles the files of a run: finds them, reads the timelines of all ranks, puts them on one clock, and adds
//! the files that belong to them.

mod attachment;
mod clock;
mod compile_logs;
mod composer;
mod determined;
pub(crate) mod discover;
mod distinct_runs;
mod execution_traces;
mod flight_dumps;
mod graph_captures;
pub(crate) mod identity;
mod memory;
pub(crate) mod open;
pub(crate) mod outline;
pub(crate) mod parse;
pub(crate) mod plan;
mod rank_trace;
mod ranks;
pub(crate) mod reach;
pub(crate) mod read;
pub(crate) mod sink;
pub(crate) mod timeline;
pub(crate) mod version;
