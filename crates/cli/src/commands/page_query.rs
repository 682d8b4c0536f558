//! Answers the queries of a page that is served.

use page::MAX_ANSWER_ROWS;
use trace_advisor::Run;
use trace_advisor::query::Cancellation;

use crate::commands::statements;
use crate::diagnostics::{error_text, with_help};

/// The rows of a query, or what `advisor sql` says about it, as JSON for the page.
pub(crate) fn answer_query(run: &Run, cancellation: &Cancellation, text: &str) -> String {
    rows(run, cancellation, text)
        .unwrap_or_else(|error| page::answer_of_error(error_text(&error).trim_end()))
}

fn rows(run: &Run, cancellation: &Cancellation, text: &str) -> anyhow::Result<String> {
    let statements = statements::split(text);
    let [query] = statements.as_slice() else {
        let (count, help) = (statements.len(), "run the queries one by one");
        return Err(match count {
            0 => with_help("the query is empty", "for example: SELECT * FROM ranks"),
            _ => with_help(format!("a page runs one query, but there are {count}"), help),
        });
    };
    let rows = run.first_rows(cancellation, query, MAX_ANSWER_ROWS)?;
    Ok(page::answer(query, &rows)?)
}
