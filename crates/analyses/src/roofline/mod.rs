//! How close calls of operators come to what the device can do: operations and bytes from shapes and types, time from
//! the kernels they launched, peaks from a table of devices. `docs/roofline.md` lists the formulas.

mod attention;
mod chains;
mod cost;
mod inputs;
mod json;
mod load;
mod ordered;
mod pointwise;
mod products;
mod rows;

use query::rust_view::RustView;

pub(super) const CALLS: RustView = RustView::new("roofline_calls", load::READS, rows::calls);
pub(super) const DEVICES: RustView =
    RustView::new("roofline_devices", rows::DEVICES, rows::devices);
pub(super) const CHAINS: RustView =
    RustView::new("roofline_chains", ordered::READS, chains::compute);

pub(super) const ATTENTION: RustView =
    RustView::new("roofline_attention", ordered::READS, attention::compute);

#[cfg(test)]
mod tests;
