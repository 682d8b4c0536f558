//! Operators and the other calls of the host, with the device work that they launched.

mod by_name;
mod by_shape;
mod by_stack;
mod calls;
mod in_steps;
mod kernel_sequences;
mod load;
mod stacks;
mod totals;

use query::rust_view::RustView;

use crate::call_tree;

pub(super) const BY_NAME: RustView =
    RustView::new("op_by_name", call_tree::INPUTS, by_name::by_name);
pub(super) const BY_SHAPE: RustView =
    RustView::new("op_by_shape", call_tree::INPUTS, by_shape::by_shape);
pub(super) const BY_STACK: RustView =
    RustView::new("op_by_stack", call_tree::INPUTS, by_stack::by_stack);
pub(super) const IN_STEPS: RustView =
    RustView::new("op_in_steps", call_tree::INPUTS_WITH_STEPS, in_steps::in_steps);
pub(super) const CALLS: RustView = RustView::new("op_calls", load::INPUTS, calls::calls);
pub(super) const KERNEL_SEQUENCES: RustView =
    RustView::new("op_kernel_sequences", load::INPUTS, kernel_sequences::kernel_sequences);

#[cfg(test)]
mod tests;
