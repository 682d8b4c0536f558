//! One of several runs that were found where one was expected.

use serde::{Deserialize, Serialize};

/// One of several runs at one location.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DistinctRun {
    /// File, folder or pattern that selects its files, relative to the folder that was searched.
    pub name: String,
    /// Its ranks, steps, devices and start, for people.
    pub description: String,
    /// Why it is not part of the run before it, for people; empty for the first.
    pub difference: String,
}

impl DistinctRun {
    /// The path or address that opens it.
    pub fn path(&self, folder: &str) -> String {
        format!("{}/{}", folder.trim_end_matches('/'), self.name)
    }
}
