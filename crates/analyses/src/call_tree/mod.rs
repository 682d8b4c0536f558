//! Call trees: host events nested by the call around them, with the device work that they launched.
//!
//! [`CallForest`] sums up time by operator, module and range; the views of `op`, `module` and `lightning` read these
//! sums. [`PreorderTree`] keeps every call, and makes all calls below a call adjacent; `op_calls` and
//! `op_kernel_sequences` read it.

mod forest;
mod load;
mod nesting;
mod preorder;

#[cfg(test)]
pub(crate) use forest::Activity;
pub(crate) use forest::{CallForest, EventKind, ForestEvent};
pub(crate) use load::{
    CallForests, INPUTS, INPUTS_WITH_MODULE_PATHS, INPUTS_WITH_STEPS, ModuleSource, load_forests,
};
pub(crate) use nesting::OpenSpans;
pub(crate) use preorder::{CallKind, HostCall, LaunchedActivity, NameMark, PreorderTree};

#[cfg(test)]
mod tests;
