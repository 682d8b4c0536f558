//! Perfetto's traces (`.pftrace`): packets of protocol buffers, plain or compressed.
//!
//! Cuspy, PyTorch's second trace writer, `rocprofv3` and programs with Perfetto's SDK write them. A file is read window by window.
//! One pass in file order finds the packets ([`packets`]) and keeps the declarations that later packets refer to: interned texts
//! ([`interned`]), tracks and clocks ([`state`]). Then threads convert the events to Chrome trace events ([`convert`]), and the
//! reader of Chrome traces fills the tables, so operators, kernels and steps mean the same in both formats. A slice has a begin
//! event and an end event, which [`slices`] pairs once all events are known.

mod annotations;
mod budget;
mod clocks;
mod convert;
mod counters;
mod drafts;
mod graph_arrows;
mod importer;
mod interned;
mod packets;
mod reader;
mod render_stage;
mod rocprof;
mod schema;
mod slices;
mod state;
#[cfg(test)]
mod tests;
mod text;
mod track_event;
mod tracks;
mod wire;

pub(crate) use importer::Perfetto;
