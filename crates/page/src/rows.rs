//! The rows of a query as values, by the names of their columns.

use trace_advisor::query::rows_to_values;
use trace_advisor::trace_model::{RecordBatch, Unit, Value};
use trace_advisor::{Error, Run, analyses};

/// The rows of a query.
#[derive(Debug)]
pub(crate) struct Rows {
    columns: Vec<String>,
    values: Vec<Vec<Value>>,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'a> {
    columns: &'a [String],
    values: &'a [Value],
}

impl Rows {
    /// Runs a query.
    pub(crate) fn query(run: &Run, sql: &str) -> Result<Self, Error> {
        let batches = run.program_sql(sql)?;
        let schema = batches.first().map(RecordBatch::schema);
        let columns = schema
            .iter()
            .flat_map(|schema| schema.fields().iter().map(|field| field.name().clone()));
        let columns = columns.collect();
        Ok(Self { columns, values: rows_to_values("page", &batches)? })
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        self.values.iter().map(|values| Row { columns: &self.columns, values })
    }

    pub(crate) fn first(&self) -> Option<Row<'_>> {
        self.iter().next()
    }
}

impl<'a> Row<'a> {
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        let at = self.columns.iter().position(|column| column == name)?;
        self.values.get(at)
    }

    pub(crate) fn num(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64()
    }

    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Value::Int(value) => Some(*value),
            Value::Float(value) => Some(*value as i64),
            _ => None,
        }
    }

    pub(crate) fn text(&self, name: &str) -> &'a str {
        match self.get(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }
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
