//! Explains errors in queries of users: the line, the message and a suggestion.

use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;
use trace_model::tables::TABLES;

use crate::catalog::Catalog;
use crate::error::{Error, UnknownRelation, line_of, similar};

/// An explained error of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryDiagnostic {
    /// Line of the query, from 1, if known.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to write instead, if known.
    pub help: Option<String>,
}

impl Error {
    /// Explains the error of a query over the views of `catalog`.
    pub fn diagnostic(&self, catalog: &Catalog) -> QueryDiagnostic {
        let Self::Query(error) = self else {
            return QueryDiagnostic { line: None, message: self.to_string(), help: None };
        };
        let line = Some(line_of(error)).filter(|l| *l > 1 || error.diagnostic().is_some());
        match root(error) {
            DataFusionError::External(inner) => match inner.downcast_ref::<UnknownRelation>() {
                Some(unknown) => unknown_relation(unknown, catalog),
                None => QueryDiagnostic { line, message: inner.to_string(), help: None },
            },
            DataFusionError::SchemaError(inner, _) => schema_error(inner, line),
            DataFusionError::Plan(message) => {
                QueryDiagnostic { line, message: message.clone(), help: None }
            }
            root => QueryDiagnostic { line, message: root.strip_backtrace(), help: None },
        }
    }
}

fn unknown_relation(unknown: &UnknownRelation, catalog: &Catalog) -> QueryDiagnostic {
    let views = catalog.views().iter().map(|view| view.name.as_str());
    let similar = similar(&unknown.name, TABLES.iter().map(|table| table.name).chain(views));
    let help = similar.map_or_else(
        || "`advisor tables` lists tables and views".to_owned(),
        |similar| format!("did you mean `{similar}`?"),
    );
    QueryDiagnostic { line: unknown.line, message: unknown.to_string(), help: Some(help) }
}

fn schema_error(error: &SchemaError, line: Option<usize>) -> QueryDiagnostic {
    let SchemaError::FieldNotFound { field, valid_fields } = error else {
        return QueryDiagnostic { line, message: error.to_string(), help: None };
    };
    let names: Vec<&str> = valid_fields.iter().map(|field| field.name.as_str()).collect();
    let help = match similar(&field.name, names.iter().copied()) {
        Some(similar) => Some(format!("did you mean `{similar}`?")),
        None if names.is_empty() => None,
        None => Some(format!("there are {}", names.join(", "))),
    };
    QueryDiagnostic { line, message: format!("there is no column `{}`", field.name), help }
}

/// The error without the context that DataFusion wraps around it.
fn root(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => root(inner),
        DataFusionError::Collection(errors) => errors.first().map_or(error, root),
        error => error,
    }
}
