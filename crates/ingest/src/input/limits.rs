//! Limits that several readers of input share.

/// Enough text to recognize the format of a file, metadata in front of the events included.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// Returns the size of a window or slice in bytes. Unit tests and fuzzers use tiny windows, because most of their
/// inputs are short and would otherwise never reach the end of a window.
pub(crate) const fn window(bytes: usize) -> usize {
    if cfg!(any(test, fuzzing)) { 64 } else { bytes }
}
