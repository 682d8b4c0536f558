//! Who holds the memory of a device, and how much other programs would need.

mod classify;
mod flame_graph;
mod load;
mod owner_series;
mod owners;
mod segment_map;
mod segments;
mod stacks;
mod usage;
mod what_if;

use query::rust_view::RustView;

pub(super) const OWNERS: RustView = RustView::new("memory_owners", load::INPUTS, owners::owners);
pub(super) const USAGE: RustView = RustView::new("memory_usage", load::INPUTS, usage::usage);
pub(super) const WHAT_IF: RustView =
    RustView::new("memory_what_if", load::INPUTS, what_if::what_if);
pub(super) const OWNER_SERIES: RustView =
    RustView::new("memory_owner_series", load::INPUTS, owner_series::owner_series);
pub(super) const FLAME_GRAPH: RustView =
    RustView::new("memory_flame_graph", flame_graph::INPUTS, flame_graph::flame_graph);
pub(super) const SEGMENT_MAP: RustView =
    RustView::new("memory_segment_map", load::INPUTS, segment_map::segment_map);
