//! Room for declarations that are kept until the end of the file.

/// Bytes that declarations of several kinds may take together.
#[derive(Debug)]
pub(super) struct Budget {
    left_bytes: usize,
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self { left_bytes: bytes }
    }

    /// Takes bytes. Returns whether there was room for them.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let left_bytes = self.left_bytes.checked_sub(bytes);
        self.left_bytes = left_bytes.unwrap_or(self.left_bytes);
        left_bytes.is_some()
    }

    /// Gives back bytes that were taken.
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.left_bytes += bytes;
    }
}
