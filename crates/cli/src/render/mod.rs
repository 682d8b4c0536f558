//! Results as text: reports, comparisons, rows, and the sanitizing of untrusted names.

pub(crate) mod bar;
mod columns;
pub(crate) mod diff;
pub(crate) mod layout;
pub(crate) mod markup;
pub(crate) mod report;
pub(crate) mod rows;
pub(crate) mod sanitize;
mod shorten;
pub(crate) mod terminal_markdown;
pub(crate) mod timeline;
pub(crate) mod value;
