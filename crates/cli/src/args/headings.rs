//! Headings of the groups of options in `--help`.

pub(super) const OUTPUT: &str = "Output";
pub(super) const RULES: &str = "Rules";
pub(super) const COMPARISON: &str = "Comparison";
pub(super) const SELECTION: &str = "Selection";
pub(super) const INPUT: &str = "Input";
pub(super) const LOGGING: &str = "Logging";
