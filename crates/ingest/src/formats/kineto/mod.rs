//! PyTorch Profiler (Kineto) traces: one file from text to tables.

pub(crate) mod arg;
pub(crate) mod begin_end_event;
pub(crate) mod classify;
pub(crate) mod columns;
pub(crate) mod event;
pub(crate) mod event_columns;
mod event_to_row;
pub(crate) mod key_predictor;
mod legacy_names;
pub(crate) mod metadata;
pub(crate) mod outline;
pub(crate) mod parallel_reader;
mod tensor_cores;
#[cfg(test)]
mod tests;
mod thin;
pub(crate) mod trace;
