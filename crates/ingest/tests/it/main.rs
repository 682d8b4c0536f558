//! Tests of reading runs and writing traces, on small files written by hand.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod augment;
mod bounds;
mod compiled;
mod composer;
mod determined;
mod execution;
mod export;
mod flight;
mod graphs;
mod kineto;
mod malformed;
mod memory;
mod memory_files;
mod merge;
mod passes;
mod ranges;
mod source;
mod support;
mod writers;
