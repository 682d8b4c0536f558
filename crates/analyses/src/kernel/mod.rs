//! Native views of kernels.

pub(crate) mod annotations;
