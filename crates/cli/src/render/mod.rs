//! Results as text: reports, comparisons, rows, and the sanitizing of untrusted names.

pub(crate) mod diff;
pub(crate) mod report;
pub(crate) mod rows;
pub(crate) mod sanitize;
pub(crate) mod value;
