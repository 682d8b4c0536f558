//! Results as text: reports, rows, and what keeps names from taking over the terminal.

pub(crate) mod diff;
pub(crate) mod report;
pub(crate) mod rows;
pub(crate) mod sanitize;
pub(crate) mod value;
