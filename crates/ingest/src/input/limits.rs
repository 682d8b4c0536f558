//! Limits that several readers of input share.

/// Enough text to recognize the format of a file, metadata in front of the events included.
pub(crate) const HEAD_BYTES: usize = 64 << 10;
