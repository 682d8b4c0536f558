//! The formats that can be read: one module per format, and [`guess`] to recognize them.

pub(crate) mod composer;
pub(crate) mod determined;
pub(crate) mod execution;
pub(crate) mod flight_recorder;
pub(crate) mod guess;
pub(crate) mod kineto;
pub(crate) mod memory_timeline;
pub(crate) mod pickle;
pub(crate) mod snapshot;
pub(crate) mod torch_trace;
pub(crate) mod unsupported;
