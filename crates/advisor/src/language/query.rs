//! Queries of rules: the caller runs them.

use std::ops::Range;

use trace_model::{MetricSpec, Scope, Unit};

use crate::language::merge::MergedRule;
use crate::language::problem::{Problem, RuleSource, Span, bytes_within};
use crate::language::rule::Rule;

/// The query of a rule. Run it, make a `MetricTable` whose `view` is `name`, and pass that to
/// [`evaluate`](crate::evaluate).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleQuery {
    /// Name of the rule, and of the metric table to make.
    pub name: String,
    /// The query.
    pub sql: String,
    /// Column that the thresholds apply to; the query must return it.
    pub column: String,
    /// Its unit.
    pub unit: Unit,
    /// Scope of one row.
    pub scope: Scope,
}

impl RuleQuery {
    /// The query of a rule, if it has one.
    pub fn of(rule: &Rule) -> Option<Self> {
        Some(Self {
            name: rule.name.clone(),
            sql: rule.sql.clone()?,
            column: rule.metric.column.clone(),
            unit: rule.metric.unit,
            scope: rule.metric.scope,
        })
    }

    /// The metric of the query, given the columns of its result.
    pub fn metric(&self, columns: Vec<(String, Unit)>) -> MetricSpec {
        MetricSpec {
            view: self.name.clone(),
            column: self.column.clone(),
            unit: self.unit,
            scope: self.scope,
            doc: "Result of the rule's own query.".to_owned(),
            columns,
            requires: Vec::new(),
        }
    }
}

/// A query with its place in a file, to be checked before a run is read.
#[derive(Debug, Clone)]
pub struct StatedQuery {
    /// The query.
    pub query: RuleQuery,
    span: Span,
}

impl StatedQuery {
    pub(crate) fn in_rule(merged: &MergedRule) -> Option<Self> {
        let sql = merged.last_text(|t| t.sql.as_ref())?;
        let query = RuleQuery {
            name: merged.name.clone(),
            sql: sql.text.to_owned(),
            column: merged.last_text(|t| t.column.as_ref())?.text.to_owned(),
            unit: Unit::parse(merged.last_text(|t| t.unit.as_ref())?.text)?,
            scope: Scope::parse(merged.last_text(|t| t.scope.as_ref())?.text)?,
        };
        Some(Self { query, span: sql.span })
    }

    /// A problem at the place of the query in `sources`; `span` counts bytes of the query.
    pub fn problem(
        &self,
        sources: &[RuleSource],
        span: Option<Range<usize>>,
        message: String,
        help: Option<String>,
    ) -> Problem {
        let source = &sources[self.span.file];
        let place = |span| bytes_within(&source.text, &self.span.bytes, &self.query.sql, &span);
        let bytes = span.and_then(place);
        let bytes = bytes.unwrap_or_else(|| self.span.bytes.clone());
        Problem::at(source, bytes, message, help)
    }
}
