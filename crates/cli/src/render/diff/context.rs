//! A comparison with what its renderers need.

use trace_advisor::RuleSet;
use trace_advisor::advisor::Comparison;
use trace_advisor::compare::Diff;

/// A comparison, and what the renderers need besides.
pub(crate) struct DiffReport<'a> {
    pub(crate) diff: &'a Diff,
    /// The findings of the rules about comparisons.
    pub(crate) comparison: &'a Comparison,
    pub(crate) rules: &'a RuleSet,
    /// The paths of the runs, as formats for reviews show them.
    pub(crate) paths: (String, String),
    /// True if the verdict makes the command fail.
    pub(crate) fails: bool,
    /// True if memory that grew makes the command fail.
    pub(crate) fails_on_memory: bool,
    /// Maximum number of rows per section.
    pub(crate) limit: Option<usize>,
    /// Text shows whole names and all columns.
    pub(crate) is_wide: bool,
    /// The options of the command line that decide what the comparison says.
    pub(crate) command_options: Vec<String>,
}
