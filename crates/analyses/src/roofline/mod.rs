//! Distance of operator calls from the limits of the device: operations and bytes from shapes and types, time from
//! the kernels they launched, peaks from a table of devices. `docs/roofline.md` lists the formulas.

mod attention;
mod calls;
mod chains;
mod cost;
mod cpu_calls;
mod derived_peaks;
pub(crate) mod device_peaks;
mod devices;
mod inputs;
mod load;
mod operator_cost;
mod operators;
mod ordered_calls;
mod paged_attention;
mod pointwise;
mod products;
mod shapes;

use query::rust_view::RustView;

pub(super) const ATTENTION: RustView =
    RustView::new("roofline_attention", ordered_calls::INPUTS, attention::attention);
pub(super) const CALLS: RustView = RustView::new("roofline_calls", load::INPUTS, calls::calls);
pub(super) const CHAINS: RustView =
    RustView::new("roofline_chains", ordered_calls::INPUTS, chains::chains);
pub(super) const CHAIN_RUNS: RustView =
    RustView::new("roofline_chain_runs", ordered_calls::INPUTS, chains::chain_runs);
pub(super) const CPU_CALLS: RustView =
    RustView::new("roofline_cpu_calls", cpu_calls::INPUTS, cpu_calls::cpu_calls);
pub(super) const CPU_CHAIN_CALLS: RustView =
    RustView::new("roofline_cpu_chain_calls", cpu_calls::CHAIN_INPUTS, cpu_calls::cpu_chain_calls);
pub(super) const DEVICES: RustView =
    RustView::new("roofline_devices", devices::INPUTS, devices::devices);

#[cfg(test)]
mod tests;
