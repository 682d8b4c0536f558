//! Calls of modules and the module hierarchy.

mod call_rows;
mod calls;
mod find_calls;
mod hierarchy;

use query::rust_view::RustView;

use crate::call_tree;

pub(super) use call_rows::{CallRow, call_batch, join_path, op_facts};
pub(super) use find_calls::find_calls;

pub(super) const CALLS: RustView = RustView::new("module_calls", call_tree::INPUTS, calls::calls);
pub(super) const HIERARCHY: RustView =
    RustView::new("module_hierarchy", call_tree::INPUTS_WITH_MODULE_PATHS, hierarchy::hierarchy);
