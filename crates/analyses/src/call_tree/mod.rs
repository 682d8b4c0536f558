//! Operators and modules as they nest on the host, with what each did itself and what those inside it
//! did. The operator views, the module views and Lightning's are sums over the same forest.

mod forest;
mod hierarchy;
mod load;
mod modules;
mod operators;
mod stacks;

use query::rust_view::RustView;

pub(super) const BY_NAME: RustView = RustView::new("op_by_name", load::READS, operators::by_name);
pub(super) const BY_SHAPE: RustView =
    RustView::new("op_by_shape", load::READS, operators::by_shape);
pub(super) const BY_STACK: RustView =
    RustView::new("op_by_stack", load::READS, operators::by_stack);
pub(super) const MODULE_CALLS: RustView =
    RustView::new("module_calls", load::READS, modules::calls);
pub(super) const MODULE_HIERARCHY: RustView =
    RustView::new("module_hierarchy", load::READS_WITH_NAMED, hierarchy::compute);
pub(super) const LIGHTNING_CALLS: RustView =
    RustView::new("lightning_calls", load::READS, modules::lightning);

#[cfg(test)]
mod tests;
