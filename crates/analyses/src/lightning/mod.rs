//! Ranges of Lightning's profiler.

mod calls;

use query::rust_view::RustView;

use crate::call_tree;

pub(super) const CALLS: RustView =
    RustView::new("lightning_calls", call_tree::INPUTS, calls::calls);
