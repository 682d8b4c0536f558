//! The languages of reviews, Markdown, workflow commands, JUnit and SVG: what reports and comparisons share.

pub(crate) mod github;
pub(crate) mod junit;
pub(crate) mod markdown;
pub(crate) mod xml;
