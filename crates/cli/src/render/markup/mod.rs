//! The languages of reviews, Markdown, workflow commands and JUnit: what reports and comparisons share.

pub(crate) mod github;
pub(crate) mod junit;
pub(crate) mod markdown;
