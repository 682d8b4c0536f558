//! Panes: one topic of the run each.

mod collectives;
mod coverage;
mod critical_path;
mod held;
mod idle;
mod kernels;
mod loader;
mod memory;
mod operators;
mod snapshots;
mod source;
mod system;

use trace_advisor::trace_model::MetricTable;
use trace_advisor::{Error, Report, Run};

use crate::blocks::{NamedColumn, Pane, Table};
use crate::concurrent::{self, Task};
use crate::queries::{or_reason, query, when_empty};

use coverage::{Blocks, Steps};

/// Points of a curve.
const POINTS: i64 = 300;

/// Memories that never hold this share of what the largest one holds have no curve.
const LEAST_SHARE: f64 = 1e-4;

/// Rows of a table that the page carries.
const MAX_ROWS: usize = 150;

/// What panes are made from.
pub(crate) struct Source<'a> {
    pub(crate) run: &'a Run,
    pub(crate) report: &'a Report,
    /// The rank of panes about one rank.
    pub(crate) rank: i64,
    steps: Steps,
}

/// Makes a pane.
type MakePane = fn(&Source<'_>) -> Result<Pane, Error>;

/// The panes in the order of the page, with their names and titles.
const PANES: [(&str, &str, MakePane); 9] = [
    ("idle", "Idle time", idle::idle),
    ("kernels", "Kernels", kernels::kernels),
    ("operators", "Operators", operators::operators),
    ("path", "Critical path", critical_path::critical_path),
    ("loader", "Input pipeline", loader::loader),
    ("collectives", "Collectives", collectives::collectives),
    ("memory", "Memory", memory::memory),
    ("source", "Source lines", source::source_lines),
    ("system", "System metrics", system::system),
];

/// The panes of a run.
pub(crate) fn all(run: &Run, report: &Report, rank: i64) -> Result<Vec<Pane>, Error> {
    let steps = or_reason(Steps::of(run, rank))?.unwrap_or_default();
    let source = &Source { run, report, rank, steps };
    let panes = PANES.map(|(id, title, make)| -> Task<'_, Pane> {
        Box::new(move || {
            let pane = or_reason(make(source))?;
            Ok(pane.unwrap_or_else(|reason| Pane::missing(id, title, &reason)))
        })
    });
    concurrent::all(run, panes)
}

impl Source<'_> {
    fn query(&self, sql: &str) -> Result<MetricTable, Error> {
        query(self.run, sql)
    }

    /// Whether the run has rows in any of these tables. Without any, views of them need not even be planned.
    fn has_any(&self, tables: &[&str]) -> bool {
        tables.iter().any(|table| self.run.rows(table) > 0)
    }

    /// The first rows of a view for the rank, as a table, in an order; `None` without rows.
    fn table(
        &self,
        title: &str,
        view: &str,
        columns: &[NamedColumn],
        order: &str,
    ) -> Result<Option<Table>, Error> {
        self.table_where(title, view, columns, &format!("rank = {}", self.rank), order)
    }

    /// As [`Source::table`], of the rows that a condition holds for.
    fn table_where(
        &self,
        title: &str,
        view: &str,
        columns: &[NamedColumn],
        condition: &str,
        order: &str,
    ) -> Result<Option<Table>, Error> {
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let sql = format!(
            "SELECT {}, count(*) OVER () AS page_rows FROM {view} WHERE {condition} ORDER BY {order} LIMIT {MAX_ROWS}",
            names.join(", ")
        );
        let table = self.query(&sql)?;
        let Some(first) = table.first_row() else { return Ok(None) };
        let total = first.count("page_rows") as usize;
        let shown =
            format!("SELECT {} FROM {view} WHERE {condition} ORDER BY {order}", names.join(", "));
        Ok(Some(Table { total, ..Table::of(title, view, columns, &table, &shown) }))
    }

    /// A pane about the rank that is shown, of the blocks that there are. Without any, it says why: what `view` says.
    fn pane(
        &self,
        id: &'static str,
        title: &'static str,
        question: &'static str,
        blocks: Blocks,
        view: &str,
    ) -> Pane {
        let pane = self.pane_of_all_ranks(id, title, question, blocks, view);
        let scope =
            if pane.empty.is_some() { String::new() } else { self.shown_rank() + &pane.scope };
        Pane { scope: scope.trim_end().to_owned(), ..pane }
    }

    /// As [`Source::pane`], about all ranks.
    fn pane_of_all_ranks(
        &self,
        id: &'static str,
        title: &'static str,
        question: &'static str,
        blocks: Blocks,
        view: &str,
    ) -> Pane {
        if blocks.is_empty() {
            let empty = Some(when_empty(view));
            return Pane { id, title, question, scope: String::new(), empty, blocks: Vec::new() };
        }
        let counts = coverage::sentence(view, &self.steps);
        let scope = counts.map(|counts| format!("Counts {counts}.")).unwrap_or_default();
        let blocks = blocks.with_captions(view, &self.steps);
        Pane { id, title, question, scope, empty: None, blocks }
    }

    /// `Rank 3, the slowest. `; empty for a run of one rank.
    fn shown_rank(&self) -> String {
        if self.run.info().ranks.len() < 2 {
            return String::new();
        }
        let breakdown = self.report.breakdown.as_ref();
        let is_slowest = breakdown.is_some_and(|b| b.is_slowest && b.rank == self.rank);
        if is_slowest {
            format!("Rank {}, the slowest. ", self.rank)
        } else {
            format!("Rank {}. ", self.rank)
        }
    }
}
