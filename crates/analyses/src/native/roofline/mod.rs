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

pub(super) const CALLS: Native =
    Native { view: "roofline_calls", reads: load::READS, compute: rows::calls };
pub(super) const DEVICES: Native =
    Native { view: "roofline_devices", reads: rows::DEVICES, compute: rows::devices };
pub(super) const CHAINS: Native =
    Native { view: "roofline_chains", reads: ordered::READS, compute: chains::compute };

pub(super) const ATTENTION: Native =
    Native { view: "roofline_attention", reads: ordered::READS, compute: attention::compute };

#[cfg(test)]
mod tests;
