//! Operators and modules as they nest on the host, with what each did itself and what those inside it
//! did. The operator views, the module views and Lightning's are sums over the same forest.

mod forest;
mod hierarchy;
mod load;
mod modules;
mod operators;
mod stacks;

use super::Native;

pub(super) const BY_NAME: Native =
    Native { view: "op_by_name", reads: load::READS, compute: operators::by_name };
pub(super) const BY_SHAPE: Native =
    Native { view: "op_by_shape", reads: load::READS, compute: operators::by_shape };
pub(super) const BY_STACK: Native =
    Native { view: "op_by_stack", reads: load::READS, compute: operators::by_stack };
pub(super) const MODULE_CALLS: Native =
    Native { view: "module_calls", reads: load::READS, compute: modules::calls };
pub(super) const MODULE_HIERARCHY: Native =
    Native { view: "module_hierarchy", reads: load::READS_WITH_NAMED, compute: hierarchy::compute };
pub(super) const LIGHTNING_CALLS: Native =
    Native { view: "lightning_calls", reads: load::READS, compute: modules::lightning };

#[cfg(test)]
mod tests;
