//! Perfetto's traces (`.pftrace`): packets of protocol buffers, plain or compressed.
//!
//! PyTorch's second writer (Cuspy) writes them, and so do `rocprofv3` and programs with Perfetto's SDK. A file is read window
//! by window. One pass in order of the file finds the packets ([`packets`]), and keeps what later packets refer to: interned
//! texts ([`interned`]), tracks, clocks ([`state`]). Then threads convert the events to those of Chrome traces ([`convert`]), whose reader
//! fills the tables: an operator, a kernel or a step means the same in both. Slices are events that begin and events that
//! end: once all are known, [`slices`] pairs them, track by track, as Perfetto does.

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
