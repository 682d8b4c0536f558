//! Rust views of kernels.

pub(crate) mod annotations;
