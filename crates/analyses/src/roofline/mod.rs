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

use super::Native;

pub(super) const CALLS: Native = Native::by_rank("roofline_calls", load::READS, rows::calls);
pub(super) const DEVICES: Native =
    Native::by_rank("roofline_devices", rows::DEVICES, rows::devices);
pub(super) const CHAINS: Native =
    Native::by_rank("roofline_chains", ordered::READS, chains::compute);

pub(super) const ATTENTION: Native =
    Native::by_rank("roofline_attention", ordered::READS, attention::compute);

#[cfg(test)]
mod tests;
