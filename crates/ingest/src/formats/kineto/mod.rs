//! PyTorch Profiler (Kineto) traces: one file from text to the columns of a timeline.

pub(crate) mod arg;
pub(crate) mod classify;
pub(crate) mod event;
pub(crate) mod event_columns;
mod event_to_row;
mod importer;
pub(crate) mod key_predictor;
mod legacy_names;
mod metadata;
pub(crate) mod parallel_reader;
mod stated_rank;
#[cfg(test)]
mod tests;

pub(crate) use importer::{Kineto, read};
pub use stated_rank::stated_rank;
