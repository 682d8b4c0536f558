//! Explains errors in queries of users: the place, the message and a suggestion.

use std::collections::BTreeSet;
use std::ops::Range;

use arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use trace_model::suggest::{column_help, nearest_column};
use trace_model::tables::{self, TABLES};

use crate::catalog::Catalog;
use crate::error::{Error, UnknownRelation, similar};
use crate::plan::references::References;
use crate::query_diagnostic::{QueryDiagnostic, QueryHelp, byte, bytes, bytes_of};

/// Maximum number of tables or functions that an error lists.
const MAX_LISTED: usize = 6;
/// Shorter words are part of too many names of tables.
const MIN_PART: usize = 3;

/// The names that queries may use.
pub(crate) struct KnownNames<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) state: &'a SessionState,
}

impl KnownNames<'_> {
    fn relations(&self) -> impl Iterator<Item = &str> {
        let views = self.catalog.views().iter().map(|view| view.name.as_str());
        TABLES.iter().map(|table| table.name).chain(views)
    }

    fn functions(&self) -> BTreeSet<&str> {
        functions(self.state)
    }

    /// Whether the columns are of this table or view; those of a subquery over it may be others.
    fn has_columns(&self, relation: &str, columns: &[&str]) -> bool {
        let known: BTreeSet<&str> = match (tables::find(relation), self.catalog.find(relation)) {
            (Some(table), _) => table.columns.iter().map(|column| column.name).collect(),
            (_, Some(view)) => view.columns.iter().map(|column| column.name.as_str()).collect(),
            (None, None) => return false,
        };
        columns.iter().all(|column| known.contains(column))
    }
}

/// The names of all functions, sorted.
pub(crate) fn functions(state: &SessionState) -> BTreeSet<&str> {
    let scalar = state.scalar_functions().keys();
    let aggregate = state.aggregate_functions().keys();
    scalar.chain(aggregate).chain(state.window_functions().keys()).map(String::as_str).collect()
}

/// Explains the error of a query.
pub(crate) fn explain(
    error: &DataFusionError,
    sql: &str,
    names: &KnownNames<'_>,
) -> QueryDiagnostic {
    let stated = error.diagnostic().and_then(|diagnostic| diagnostic.span);
    let span =
        stated.and_then(|s| bytes(sql, (s.start.line, s.start.column)..(s.end.line, s.end.column)));
    let (span, message, help) = match root(error) {
        DataFusionError::SQL(inner, _) => return syntax_error(inner, sql),
        DataFusionError::External(inner) => match inner.downcast_ref::<UnknownRelation>() {
            Some(unknown) => {
                let (message, help) = unknown_relation(&unknown.name, names);
                (unknown.span.and_then(|span| bytes_of(sql, span)).or(span), message, help)
            }
            None => (span, inner.to_string(), None),
        },
        DataFusionError::SchemaError(inner, _) => {
            let (message, help) = schema_error(inner, sql, span.clone(), names);
            (span, message, help)
        }
        DataFusionError::Plan(message) | DataFusionError::Internal(message) => {
            let (word, message, help) = plan_error(message, names);
            (span.or_else(|| first_place(sql, word?)), message, help)
        }
        DataFusionError::ArrowError(inner, _) => {
            let (message, help) = arrow_error(inner);
            (span, message, help)
        }
        DataFusionError::ResourcesExhausted(message) => {
            let help = "use --memory-limit to allow more, or --ranks and --steps to read less";
            let message = format!("not enough memory: {}", in_our_words(message));
            (span, message, Some(QueryHelp::Advice(help.to_owned())))
        }
        root => (span, in_our_words(&root.strip_backtrace()), None),
    };
    QueryDiagnostic { sql: sql.to_owned(), span, message, help }
}

impl Error {
    /// The error in one line, for the verdict on a rule. Names the view that failed, if one did.
    pub fn reason(&self) -> String {
        let text = match self {
            Self::View { view, source, .. } => {
                format!("the view `{view}` failed: {}", message(source))
            }
            Self::RustView { view, source } => format!("the view `{view}` failed: {source}"),
            error => error.to_string(),
        };
        text.lines().next().unwrap_or_default().trim().to_owned()
    }
}

/// What went wrong, without the help that a query needs.
fn message(error: &DataFusionError) -> String {
    match root(error) {
        DataFusionError::ArrowError(inner, _) => arrow_error(inner).0,
        DataFusionError::External(inner) => inner.to_string(),
        root => in_our_words(&root.strip_backtrace()),
    }
}

fn unknown_relation(name: &str, names: &KnownNames<'_>) -> (String, Option<QueryHelp>) {
    let about = || -> Vec<String> {
        let about =
            names.relations().filter(|known| name.len() >= MIN_PART && known.contains(name));
        about.take(MAX_LISTED).map(|known| format!("`{known}`")).collect()
    };
    let help = match similar(name, names.relations()) {
        Some(similar) => QueryHelp::did_you_mean(&similar),
        None if about().is_empty() => QueryHelp::Relations,
        None => QueryHelp::Advice(format!("there are {}", about().join(", "))),
    };
    (format!("there is no table or view `{name}`"), Some(help))
}

fn schema_error(
    error: &SchemaError,
    sql: &str,
    span: Option<Range<usize>>,
    names: &KnownNames<'_>,
) -> (String, Option<QueryHelp>) {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let written = span.and_then(|span| sql.get(span)).unwrap_or_default();
            unknown_column(field, valid_fields, written, sql, names)
        }
        SchemaError::AmbiguousReference { field } => {
            let name = &field.name;
            let help = format!("write TABLE.{name}");
            let message = format!("several tables of the query have a column `{name}`");
            (message, Some(QueryHelp::Advice(help)))
        }
        error => (in_our_words(&error.to_string()), None),
    }
}

/// `written` is the name as the query has it.
fn unknown_column(
    column: &Column,
    valid: &[Column],
    written: &str,
    sql: &str,
    names: &KnownNames<'_>,
) -> (String, Option<QueryHelp>) {
    let name = &column.name;
    let tables: BTreeSet<&str> =
        valid.iter().filter_map(|c| Some(c.relation.as_ref()?.table())).collect();
    if let Some(table) = &column.relation
        && !tables.contains(table.table())
        && !tables.is_empty()
    {
        let list: Vec<String> = tables.iter().map(|table| format!("`{table}`")).collect();
        let message = format!("the query reads no table `{}`", table.table());
        return (message, Some(QueryHelp::Advice(format!("it reads {}", list.join(", ")))));
    }
    let is_candidate = |c: &&Column| column.relation.is_none() || c.relation == column.relation;
    let mut candidates: Vec<&str> = Vec::new();
    for candidate in valid.iter().filter(is_candidate) {
        if !candidates.contains(&candidate.name.as_str()) {
            candidates.push(&candidate.name);
        }
    }
    let near = nearest_column(name, &candidates).or_else(|| end_of_event(name, &candidates));
    let help = if near.is_none() && written.ends_with('"') {
        let text = name.replace('\'', "''");
        QueryHelp::Advice(format!("use single quotes for text: '{text}'"))
    } else {
        let text = column_help(name, near, &candidates);
        match only_relation(sql).filter(|relation| names.has_columns(relation, &candidates)) {
            Some(relation) => QueryHelp::Columns { text, relation },
            None => QueryHelp::Advice(text),
        }
    };
    (format!("there is no column `{name}`"), Some(help))
}

/// The end of an event, which has no column of its own, if `name` asks for it.
fn end_of_event(name: &str, columns: &[&str]) -> Option<&'static str> {
    let is_end = ["end", "end_ns", "end_ts", "end_ts_ns", "end_time"].contains(&name);
    (is_end && columns.contains(&"ts_ns") && columns.contains(&"dur_ns"))
        .then_some("ts_ns + dur_ns")
}

/// The table or view that a query reads, if it reads only one.
fn only_relation(sql: &str) -> Option<String> {
    let references = References::parse(sql).ok()?;
    let mut relations = references.unqualified_relations();
    let only = relations.next()?.to_owned();
    relations.next().is_none().then_some(only)
}

/// The word of the query that is wrong, if known, the message and the help.
fn plan_error<'a>(
    message: &'a str,
    names: &KnownNames<'_>,
) -> (Option<&'a str>, String, Option<QueryHelp>) {
    let between = |before: &str, after: char| {
        message.split_once(before).and_then(|(_, rest)| Some(rest.split_once(after)?.0))
    };
    if let Some(name) = between("Invalid function '", '\'') {
        let near = similar(name, names.functions().into_iter());
        let help = near.map_or(QueryHelp::Functions, |near| QueryHelp::did_you_mean(&near));
        return (Some(name), format!("there is no function `{name}`"), Some(help));
    }
    if let Some(path) = between("table '", '\'').filter(|_| message.ends_with("' not found")) {
        let name = path.rsplit('.').next().unwrap_or(path);
        let (message, help) = unknown_relation(name, names);
        return (Some(name), message, help);
    }
    if let Some(call) = between("the given name and argument types '", '\'') {
        let name = call.split('(').next().unwrap_or(call);
        let help = message.split_once("Candidate functions:").map(|(_, candidates)| {
            let candidates = candidates.lines().map(str::trim).filter(|line| !line.is_empty());
            let candidates: Vec<String> =
                candidates.take(MAX_LISTED).map(|c| format!("`{}`", in_our_words(c))).collect();
            QueryHelp::Advice(format!("there are {}", candidates.join(", ")))
        });
        return (Some(name), format!("there is no function `{}`", in_our_words(call)), help);
    }
    if message.starts_with("Column in SELECT must be in GROUP BY")
        && let Some(column) = between("column \"", '"')
    {
        let help = format!("add it to GROUP BY, or use an aggregate such as max({column})");
        let message = format!("`{column}` is neither in GROUP BY nor in an aggregate function");
        return (None, message, Some(QueryHelp::Advice(help)));
    }
    (None, in_our_words(message), None)
}

/// The first place of a word in a query.
fn first_place(sql: &str, word: &str) -> Option<Range<usize>> {
    let tokens = Tokenizer::new(&GenericDialect, sql).tokenize_with_location().ok()?;
    let is_word = |token: &&TokenWithSpan| match &token.token {
        Token::Word(found) => found.value.eq_ignore_ascii_case(word),
        _ => false,
    };
    bytes_of(sql, tokens.iter().find(is_word)?.span)
}

fn arrow_error(error: &ArrowError) -> (String, Option<QueryHelp>) {
    let advice = |text: &str| Some(QueryHelp::Advice(text.to_owned()));
    match error {
        ArrowError::DivideByZero => {
            ("division by zero".to_owned(), advice("a / nullif(b, 0) is NULL where b is 0"))
        }
        ArrowError::CastError(message) => {
            (in_our_words(message), advice("try_cast(...) is NULL where a cast fails"))
        }
        error => (in_our_words(&error.to_string()), None),
    }
}

/// Errors of the parser name the place in words: `Expected: ), found: from at Line: 1, Column: 16`.
fn syntax_error(error: &ParserError, sql: &str) -> QueryDiagnostic {
    let text = match error {
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => text.as_str(),
        ParserError::RecursionLimitExceeded => "the query is nested too deeply",
    };
    let (text, place) = match text.rsplit_once(" at Line: ") {
        Some((text, place)) => (text, place.split_once(", Column: ")),
        None => (text, None),
    };
    let place = place.and_then(|(line, column)| {
        Some(Location { line: line.parse().ok()?, column: column.trim().parse().ok()? })
    });
    let found = text.strip_prefix("Expected: ").and_then(|text| text.split_once(", found: "));
    let message = match found {
        Some((expected, "EOF")) => format!("expected {expected}, but the query ends here"),
        Some((expected, found)) if expected.starts_with(char::is_alphanumeric) => {
            format!("expected {expected}, found `{found}`")
        }
        Some((expected, found)) => format!("expected `{expected}`, found `{found}`"),
        None => first_in_lower_case(text),
    };
    let at_end = || {
        let end = sql.trim_end().len();
        matches!(found, Some((_, "EOF"))).then_some(end..end)
    };
    let span = place.and_then(|place| token_at(sql, place)).or_else(at_end);
    QueryDiagnostic { sql: sql.to_owned(), span, message, help: None }
}

/// The bytes of the token that begins at `place`, or of what is left of the line if there are no tokens: a quote is
/// not closed.
fn token_at(sql: &str, place: Location) -> Option<Range<usize>> {
    let tokens = Tokenizer::new(&GenericDialect, sql).tokenize_with_location().unwrap_or_default();
    if let Some(token) = tokens.iter().find(|token| token.span.start == place) {
        return bytes_of(sql, token.span);
    }
    let start = byte(sql, place.line, place.column)?;
    let line = sql[start..].lines().next().unwrap_or_default();
    Some(start..start + line.trim_end().len())
}

/// A message of the engine without the words that say which part of it complains.
fn in_our_words(message: &str) -> String {
    const PREFIXES: [&str; 13] = [
        "Error during planning: ",
        "Internal error: ",
        "Execution error: ",
        "Arrow error: ",
        "Schema error: ",
        "External error: ",
        "Optimizer rule ",
        "This feature is not implemented: ",
        "Resources exhausted: ",
        "SQL error: ",
        "Compute error: ",
        "Invalid argument error: ",
        "type_coercion\ncaused by\n",
    ];
    let mut text = message;
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        text = rest;
    }
    let text = text.split("This issue was likely caused by a bug").next().unwrap_or(text);
    let text = text.replace("Dictionary(Int32, Utf8)", "text").replace("Utf8View", "text");
    first_in_lower_case(text.replace("Utf8", "text").trim_end())
}

/// Messages begin in lower case, unless with a name such as `SUM`.
fn first_in_lower_case(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

/// The error without the context that DataFusion wraps around it.
fn root(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => root(inner),
        DataFusionError::Shared(inner) => root(inner),
        DataFusionError::Collection(errors) => errors.first().map_or(error, root),
        error => error,
    }
}
