//! A limit on the memory of declarations that are kept until the end of the file.

/// The bytes that declarations of several kinds may still take together.
#[derive(Debug)]
pub(super) struct Budget {
    left_bytes: usize,
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self { left_bytes: bytes }
    }

    /// Takes bytes, if enough are left. Returns whether it took them.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let left_bytes = self.left_bytes.checked_sub(bytes);
        self.left_bytes = left_bytes.unwrap_or(self.left_bytes);
        left_bytes.is_some()
    }

    /// Gives back bytes that [`Self::take`] took.
    pub(super) fn give_back(&mut self, bytes: usize) {
        self.left_bytes += bytes;
    }
}
