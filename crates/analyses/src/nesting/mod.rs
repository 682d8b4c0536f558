//! Operators and modules as they nest on the host, with what each did itself and what those inside it
//! did. The operator views, the module views and Lightning's are sums over the same forest.

mod forest;
mod hierarchy;
mod load;
mod modules;
mod operators;
mod stacks;

use super::Native;

pub(super) const BY_NAME: Native = Native::by_rank("op_by_name", load::READS, operators::by_name);
pub(super) const BY_SHAPE: Native =
    Native::by_rank("op_by_shape", load::READS, operators::by_shape);
pub(super) const BY_STACK: Native =
    Native::by_rank("op_by_stack", load::READS, operators::by_stack);
pub(super) const MODULE_CALLS: Native =
    Native::by_rank("module_calls", load::READS, modules::calls);
pub(super) const MODULE_HIERARCHY: Native =
    Native::by_rank("module_hierarchy", load::READS_WITH_NAMED, hierarchy::compute);
pub(super) const LIGHTNING_CALLS: Native =
    Native::by_rank("lightning_calls", load::READS, modules::lightning);

#[cfg(test)]
mod tests;
