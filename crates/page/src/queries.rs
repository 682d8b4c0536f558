//! Queries of the page, and what the views that they read declare.

use trace_advisor::query::query_table;
use trace_advisor::trace_model::{MetricTable, Unit};
use trace_advisor::{Error, Run, analyses};

/// The rows of a query.
pub(crate) fn query(run: &Run, sql: &str) -> Result<MetricTable, Error> {
    Ok(query_table("page", &run.program_sql(sql)?)?)
}

/// Returns the part of a page, or the reason why a view that it reads failed. Other errors abort the page.
pub(crate) fn or_reason<T>(part: Result<T, Error>) -> Result<Result<T, String>, Error> {
    match part {
        Ok(part) => Ok(Ok(part)),
        Err(error) => error.failed_query().map(Err).ok_or(error),
    }
}

/// Why a view may have no rows.
pub(crate) fn when_empty(view: &str) -> String {
    analyses::catalog().find(view).map(|view| view.when_empty.clone()).unwrap_or_default()
}

/// The description of a column of a view.
pub(crate) fn column_doc(view: &str, column: &str) -> String {
    let view = analyses::catalog().find(view);
    let column = view.and_then(|view| view.columns.iter().find(|c| c.name == column));
    column.map(|column| column.doc.clone()).unwrap_or_default()
}

/// The unit of a column of a view, or of a column that a query computes from the view.
pub(crate) fn column_unit(view: &str, column: &str) -> &'static str {
    let view = analyses::catalog().find(view);
    view.map_or_else(|| Unit::of_undeclared(column), |view| view.unit_of(column)).as_str()
}

/// Text as a literal of SQL.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
