//! What is wrong with a query, in our words, and what may have been meant.

use trace_model::tables::TABLES;

use crate::catalog::catalog;
use crate::error::{Error, line_of, similar};

/// What is wrong with a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryMistake {
    /// Line of the query, from 1, where it is known.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to write instead, where that can be said.
    pub help: Option<String>,
}

impl Error {
    /// What is wrong with the query that ended in this error.
    pub fn query_mistake(&self) -> QueryMistake {
        let Self::Query(error) = self else {
            return QueryMistake { line: None, message: self.to_string(), help: None };
        };
        let text = error.strip_backtrace();
        let line = Some(line_of(error)).filter(|l| *l > 1 || error.diagnostic().is_some());
        let text = text.trim_start_matches("Error during planning: ");
        let text = text.trim_start_matches("Schema error: ");
        if let Some(name) = between(text, "table 'run.public.", "' not found") {
            let message = format!("there is no table or view `{name}`");
            let views = catalog().modules().iter().map(|m| m.name.as_str());
            let near = similar(name, TABLES.iter().map(|t| t.name).chain(views));
            let help = near.map_or_else(
                || "`advisor tables` lists tables and views".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            return QueryMistake { line, message, help: Some(help) };
        }
        // The engine offers the nearest name, and then all there are.
        let (text, valid) = text.split_once("Valid fields are ").unwrap_or((text, ""));
        let (message, near) = text.split_once("Did you mean ").unwrap_or((text, ""));
        let (message, near) = (message.trim_end(), near.trim_end());
        let near = near.trim_end_matches(['?', '.']).trim_matches('\'');
        let help = match (near, valid) {
            ("", "") => None,
            ("", valid) => Some(format!("there are {}", valid.trim_end_matches('.'))),
            (near, _) => Some(format!("did you mean `{near}`?")),
        };
        QueryMistake { line, message: message.trim_end_matches('.').to_owned(), help }
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0)
}

#[cfg(test)]
mod tests {
    use trace_model::TableSet;

    use crate::{Params, Session};

    #[test]
    fn mistakes_are_named_with_a_way_out() {
        let session = Session::new(TableSet::default(), Params::default()).unwrap();
        for (query, message, help) in [
            ("SELECT rank FROM kernelz", "there is no table or view `kernelz`", "`kernels`"),
            ("SELECT\n rank,\n naem FROM kernels", "No field named naem", "name`?"),
            ("SELECT nothing_like_it FROM kernels", "No field named nothing_like_it", "there are"),
        ] {
            let mistake = session.sql(query).unwrap_err().query_mistake();
            assert_eq!(mistake.message, message);
            assert!(mistake.help.as_deref().unwrap().contains(help), "{mistake:?}");
        }
        let lines = |query: &str| session.sql(query).unwrap_err().query_mistake().line;
        assert_eq!(lines("SELECT\n rank,\n naem FROM kernels"), Some(3));
        assert_eq!(lines("SELECT rank\nFROM kernelz"), Some(2));
    }
}
