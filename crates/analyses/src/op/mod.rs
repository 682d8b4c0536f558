//! The host's calls as one tree, with the device work that each of them and all below it launched.

mod calls;
mod load;
mod sequences;
mod tree;

pub(super) use calls::calls;
pub(super) use sequences::sequences;

/// What both views read.
pub(super) const READS: &[(&str, &str)] = &[("calls", load::CALLS), ("work", load::WORK)];

#[cfg(test)]
mod tests;
