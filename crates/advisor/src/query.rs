//! Queries of rules: the caller runs them.

use trace_model::{MetricSpec, Scope, Unit};

use crate::merge::MergedRule;
use crate::problem::{Problem, RuleSource, Span};
use crate::rule::Rule;

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
    pub(crate) fn of(rule: &Rule) -> Option<Self> {
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

    /// A problem at the place of the query in `sources`; `line` counts within the query, from 1.
    pub fn problem(
        &self,
        sources: &[RuleSource],
        line: Option<usize>,
        message: String,
        help: Option<String>,
    ) -> Problem {
        let source = &sources[self.span.file];
        let bytes = line.and_then(|line| line_in(&source.text, &self.span, line));
        let bytes = bytes.unwrap_or_else(|| self.span.bytes.clone());
        Problem::at(source, bytes, message, help)
    }
}

/// The bytes of a line of a text in three quotes, without the space around it.
fn line_in(text: &str, span: &Span, line: usize) -> Option<std::ops::Range<usize>> {
    let raw = text.get(span.bytes.clone())?;
    let body = raw.strip_prefix("\"\"\"").or_else(|| raw.strip_prefix("'''"))?;
    // TOML leaves out a line break right after the quotes.
    let body = body.strip_prefix("\r\n").or_else(|| body.strip_prefix('\n')).unwrap_or(body);
    let mut start = span.bytes.start + (raw.len() - body.len());
    for (i, content) in body.split_inclusive('\n').enumerate() {
        if i + 1 == line {
            let content = content.trim_end_matches(['\n', '\r', '"', '\'']);
            let indent = content.len() - content.trim_start().len();
            let end = start + content.trim_end().len();
            return (start + indent < end).then_some(start + indent..end);
        }
        start += content.len();
    }
    None
}
