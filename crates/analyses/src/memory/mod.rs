//! Who holds the memory of a device, and how much other programs would need.

mod classify;
mod load;
mod owners;
mod stacks;
mod usage;
mod what_if;

use query::rust_view::RustView;

pub(super) const OWNERS: RustView = RustView::new("memory_owners", load::INPUTS, owners::owners);
pub(super) const USAGE: RustView = RustView::new("memory_usage", load::INPUTS, usage::usage);
pub(super) const WHAT_IF: RustView =
    RustView::new("memory_what_if", load::INPUTS, what_if::what_if);
