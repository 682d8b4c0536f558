//! Rules in preview, which generated runs show.

use trace_advisor::advisor::{Policy, RuleSet};
use trace_advisor::default_rules;

/// The shipped rules, those in preview included.
pub(crate) fn rules_with_preview() -> RuleSet {
    let policy = Policy { preview: Some(true), ..Policy::default() };
    default_rules().with_policy(&policy).unwrap()
}
