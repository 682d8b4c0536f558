//! What SQL says badly, computed once in Rust: call trees, lines of the program, steps, links from
//! launch to device, queue order. Per file, near-linear in events.

pub(crate) mod call_tree;
pub(crate) mod device;
pub(crate) mod execution;
mod forward;
pub(crate) mod halves;
pub(crate) mod ranges;
mod source;
pub(crate) mod steps;
