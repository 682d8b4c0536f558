//! Metrics: numeric columns of views with a stable meaning. Rules refer only to metrics.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::row::{Row, Value};
use crate::{Capability, Unit};

/// Entity that one value of a metric describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// The run as a whole.
    Run,
    /// One rank.
    Rank,
    /// One device of one rank.
    Device,
    /// One step of one rank.
    Step,
    /// One stream of one device.
    Stream,
    /// One operator.
    Operator,
    /// One kernel name.
    Kernel,
    /// One collective.
    Collective,
    /// One source line on one rank.
    Line,
    /// A machine that an agent or a rank samples, or one device of it: a GPU, a disk.
    Agent,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 10] = [
        Self::Run,
        Self::Rank,
        Self::Device,
        Self::Step,
        Self::Stream,
        Self::Operator,
        Self::Kernel,
        Self::Collective,
        Self::Line,
        Self::Agent,
    ];

    /// Name in SQL headers and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Rank => "rank",
            Self::Device => "device",
            Self::Step => "step",
            Self::Stream => "stream",
            Self::Operator => "operator",
            Self::Kernel => "kernel",
            Self::Collective => "collective",
            Self::Line => "line",
            Self::Agent => "agent",
        }
    }

    /// The inverse of [`Scope::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }

    /// The columns that identify a row of this scope, in order of display.
    pub fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Run => &[],
            Self::Rank => &["rank"],
            Self::Device => &["rank", "device"],
            Self::Step => &["rank", "step"],
            Self::Stream => &["rank", "device", "stream"],
            Self::Operator | Self::Kernel | Self::Collective => &["rank", "name"],
            Self::Line => &["rank", "source"],
            Self::Agent => &["rank", "agent", "device"],
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The metric tables of a comparison of two runs. Views of a run have other names.
pub const COMPARISON_VIEWS: [&str; 3] = ["diff_step_time", "diff_operators", "diff_memory"];

/// A metric, as the header of a view declares it. Its public name is `view.column`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricSpec {
    /// Name of the view: `gpu_utilization`.
    pub view: String,
    /// Name of the column: `busy_ratio`.
    pub column: String,
    /// Unit of the value.
    pub unit: Unit,
    /// Entity that a row describes.
    pub scope: Scope,
    /// One sentence.
    pub doc: String,
    /// All columns of the view with their units, in order. Conditions and messages may use them.
    pub columns: Vec<(String, Unit)>,
    /// Kinds of data without which the view has no rows.
    pub requires: Vec<Capability>,
}

impl MetricSpec {
    /// `view.column`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.view, self.column)
    }

    /// Returns whether `name` is `view.column`.
    pub fn is_named(&self, name: &str) -> bool {
        let column = name.strip_prefix(self.view.as_str()).and_then(|rest| rest.strip_prefix('.'));
        column == Some(&self.column)
    }
}

/// The rows of a view or a query as values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricTable {
    /// View name.
    pub view: String,
    /// Column names and units in order.
    pub columns: Vec<(String, Unit)>,
    /// Values, one per column.
    pub rows: Vec<Vec<Value>>,
    /// Sentence from the view's header that explains an empty view or a null, for the verdict *unknown*.
    pub when_empty: String,
}

/// A table that rules need but that could not be computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedTable {
    /// The view, or the rule whose query failed.
    pub view: String,
    /// The reason in one line, including the name: `the view "kernel_variation" failed: ...`.
    pub reason: String,
}

impl MetricTable {
    /// Position of a column.
    pub fn index(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|(name, _)| name == column)
    }

    /// Its rows, to read by the names of columns.
    pub fn named_rows(&self) -> impl DoubleEndedIterator<Item = Row<'_>> + Clone {
        self.rows.iter().map(|values| Row { columns: &self.columns, values })
    }

    /// The first of its rows.
    pub fn first_row(&self) -> Option<Row<'_>> {
        self.named_rows().next()
    }

    /// The rows of a view; none if it is not among the tables.
    pub fn rows_of<'t>(
        tables: &'t [Self],
        view: &str,
    ) -> impl DoubleEndedIterator<Item = Row<'t>> + Clone + use<'t> {
        let table = tables.iter().find(|table| table.view == view);
        table.into_iter().flat_map(Self::named_rows)
    }
}

#[cfg(test)]
mod tests {
    use super::MetricTable;
    use crate::{Unit, Value};

    #[test]
    fn rows_of_are_those_of_the_view_alone() {
        let table = |view: &str, numbers: &[i64]| MetricTable {
            view: view.to_owned(),
            columns: vec![("step".to_owned(), Unit::None)],
            rows: numbers.iter().map(|number| vec![Value::Int(*number)]).collect(),
            when_empty: String::new(),
        };
        let tables = [table("empty", &[]), table("steps", &[3, 4])];
        let steps = |view: &str| -> Vec<Option<i64>> {
            MetricTable::rows_of(&tables, view).map(|row| row.integer("step")).collect()
        };
        assert_eq!(steps("steps"), [Some(3), Some(4)]);
        assert_eq!(steps("empty"), []);
        assert_eq!(steps("absent"), []);
        assert!(tables[0].first_row().is_none());
        assert_eq!(tables[1].first_row().and_then(|row| row.integer("step")), Some(3));
    }
}
