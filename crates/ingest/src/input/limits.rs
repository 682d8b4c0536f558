//! Limits that several readers of input share.

/// Enough text to recognize the format of a file, metadata in front of the events included.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// The size of a window or slice in bytes. Unit tests and fuzzers read a few bytes at a time: most of their inputs are
/// shorter than a window, and what happens at its end is what they are for.
pub(crate) const fn window(bytes: usize) -> usize {
    if cfg!(any(test, fuzzing)) { 64 } else { bytes }
}
