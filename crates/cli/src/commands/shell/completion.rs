//! What Tab completes: names, keywords and functions of SQL, commands of the shell and their arguments.

use std::collections::BTreeSet;

use trace_advisor::analyses::catalog;
use trace_advisor::trace_model::tables::TABLES;

use crate::commands::shell::command::{Argument, COMMANDS};
use crate::commands::statements::{State, ends_of_statements, walk};

/// Keywords that queries are likely to use.
pub(super) const KEYWORDS: &[&str] = &[
    "ALL",
    "AND",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CROSS",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "FALSE",
    "FILTER",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "ILIKE",
    "IN",
    "INNER",
    "INTERSECT",
    "INTERVAL",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "NULLS",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OVER",
    "PARTITION",
    "RIGHT",
    "ROWS",
    "SELECT",
    "SHOW",
    "THEN",
    "TRUE",
    "TRY_CAST",
    "UNION",
    "USING",
    "VALUES",
    "WHEN",
    "WHERE",
    "WINDOW",
    "WITH",
];
/// Keywords that a statement may begin with.
const FIRST_KEYWORDS: &[&str] = &["DESCRIBE", "EXPLAIN", "SELECT", "SHOW", "VALUES", "WITH"];
/// Keywords that begin the part of a query that names tables.
const BEFORE_RELATIONS: &[&str] = &["FROM", "JOIN", "DESCRIBE"];
/// Keywords that begin another part.
const BEFORE_EXPRESSIONS: &[&str] =
    &["SELECT", "WHERE", "ON", "BY", "HAVING", "USING", "WHEN", "THEN", "LIMIT", "OVER"];

/// The names that queries may use.
pub(super) struct Names {
    /// Tables and views with their columns, sorted.
    relations: Vec<(&'static str, Vec<&'static str>)>,
    functions: Vec<String>,
}

/// What stands for the text from `start` to the cursor.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Completion {
    Words {
        start: usize,
        words: Vec<String>,
    },
    /// Names of files complete it.
    File,
}

impl Names {
    /// The built-in tables and views with their columns, and these functions.
    pub(super) fn new(functions: Vec<String>) -> Self {
        let tables = TABLES.iter().map(|table| {
            (table.name, table.columns.iter().map(|column| column.name).collect::<Vec<_>>())
        });
        let views = catalog().views().iter().map(|view| {
            (view.name.as_str(), view.columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>())
        });
        let mut relations: Vec<_> = tables.chain(views).collect();
        relations.sort_unstable();
        Self { relations, functions }
    }

    /// What completes `text` at the cursor.
    pub(super) fn complete(&self, text: &str, cursor: usize) -> Completion {
        let before = &text[..cursor];
        let statement = ends_of_statements(before).last().map_or(0, |end| end + 1);
        if before[statement..].trim_start().starts_with('\\') {
            return self.complete_command(before, statement);
        }
        let start = start_of_word(before);
        let none = Completion::Words { start, words: Vec::new() };
        // A quote or comment that is open at the cursor reaches it.
        if walk(before).last().is_some_and(|(_, state)| state != State::Code)
            && !before.ends_with(['\'', '"', '/', '\n'])
        {
            return none;
        }
        let end = ends_of_statements(&text[cursor..]).next().map_or(text.len(), |end| cursor + end);
        let place = Place {
            typed: &before[start..],
            before: tokens(&before[statement..start]),
            all: tokens(&text[statement..end]),
        };
        Completion::Words { start, words: self.complete_sql(&place) }
    }

    fn complete_command(&self, before: &str, statement: usize) -> Completion {
        let start = start_of_argument(before);
        let typed = &before[start..];
        let first = before[statement..].split_whitespace().next().unwrap_or_default();
        let starts = |word: &str| word.starts_with(typed);
        let words: Vec<String> = if typed.starts_with('\\') && typed == first {
            COMMANDS.iter().map(|c| c.name).filter(|n| starts(n)).map(str::to_owned).collect()
        } else {
            let command = COMMANDS.iter().find(|command| command.name == first);
            match command.map_or(Argument::None, |command| command.completes) {
                Argument::None => Vec::new(),
                Argument::File => return Completion::File,
                Argument::Relation => self.relations_with(typed),
                Argument::Function => {
                    self.functions.iter().filter(|name| starts(name)).cloned().collect()
                }
                Argument::Word(words) => {
                    words.iter().filter(|w| starts(w)).map(|w| (*w).to_owned()).collect()
                }
            }
        };
        Completion::Words { start, words }
    }

    fn complete_sql(&self, place: &Place<'_>) -> Vec<String> {
        if let [.., Token::Word(owner), Token::Mark('.')] = place.before[..] {
            return self.columns_of(self.relation_called(owner, &place.all), place.typed);
        }
        if place.before.is_empty() {
            return keywords(FIRST_KEYWORDS, place.typed);
        }
        if place.expects_relation() {
            let mut words = common_tables(&place.all);
            words.retain(|name| has_prefix(name, place.typed));
            words.extend(self.relations_with(place.typed));
            return words;
        }
        let named: Vec<&str> = place.all.iter().filter_map(|token| self.relation(token)).collect();
        let keywords = keywords(KEYWORDS, place.typed);
        let mut words = if !named.is_empty() {
            self.columns_of(named, place.typed)
        } else if place.typed.is_empty() || !keywords.is_empty() {
            // All columns would be thousands, and hide the keyword.
            Vec::new()
        } else {
            self.columns_of(self.relations.iter().map(|(name, _)| *name), place.typed)
        };
        if !place.typed.is_empty() {
            let functions = self.functions.iter().filter(|name| has_prefix(name, place.typed));
            words.extend(functions.map(|name| format!("{name}(")));
        }
        words.extend(keywords);
        words
    }

    fn relations_with(&self, prefix: &str) -> Vec<String> {
        let names = self.relations.iter().map(|(name, _)| *name);
        names.filter(|name| has_prefix(name, prefix)).map(str::to_owned).collect()
    }

    /// The columns of some tables and views, sorted.
    fn columns_of<'a>(
        &self,
        relations: impl IntoIterator<Item = &'a str>,
        prefix: &str,
    ) -> Vec<String> {
        let mut columns = BTreeSet::new();
        for relation in relations {
            if let Ok(at) = self.relations.binary_search_by_key(&relation, |(name, _)| name) {
                let all = self.relations[at].1.iter().copied();
                columns.extend(all.filter(|name| has_prefix(name, prefix)));
            }
        }
        columns.into_iter().map(str::to_owned).collect()
    }

    /// The table or view that a token names.
    fn relation(&self, token: &Token<'_>) -> Option<&'static str> {
        let Token::Word(word) = token else { return None };
        let word = word.to_lowercase();
        let at = self.relations.binary_search_by_key(&word.as_str(), |(name, _)| name).ok()?;
        Some(self.relations[at].0)
    }

    /// The table or view that a statement calls `owner`: `kernels k`, `kernels AS k`.
    fn relation_called(&self, owner: &str, statement: &[Token<'_>]) -> Option<&'static str> {
        let is_owner =
            |token: &Token<'_>| matches!(token, Token::Word(w) if w.eq_ignore_ascii_case(owner));
        let aliased = statement.windows(3).find_map(|window| match window {
            [relation, Token::Word(a), alias] if is_keyword(a, &["AS"]) && is_owner(alias) => {
                self.relation(relation)
            }
            [_, relation, alias] if is_owner(alias) => self.relation(relation),
            _ => None,
        });
        aliased.or_else(|| self.relation(&Token::Word(owner)))
    }
}

/// The place of the cursor in a statement.
struct Place<'a> {
    /// The word that ends at the cursor; may be empty.
    typed: &'a str,
    /// The tokens before that word.
    before: Vec<Token<'a>>,
    /// The whole statement.
    all: Vec<Token<'a>>,
}

impl Place<'_> {
    /// Whether a table or view is expected: after `FROM`, `JOIN`, or a comma between tables.
    fn expects_relation(&self) -> bool {
        match self.before.last() {
            Some(Token::Word(word)) => is_keyword(word, BEFORE_RELATIONS),
            Some(Token::Mark(',')) => {
                let last = self.before.iter().rev().find_map(|token| match token {
                    Token::Word(word) if is_keyword(word, BEFORE_RELATIONS) => Some(true),
                    Token::Word(word) if is_keyword(word, BEFORE_EXPRESSIONS) => Some(false),
                    _ => None,
                });
                last == Some(true)
            }
            _ => false,
        }
    }
}

/// A part of SQL that decides what may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Mark(char),
}

/// The words and marks of SQL outside of quotes and comments.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut word = None;
    for (i, state) in walk(text) {
        let byte = text.as_bytes()[i];
        let is_word = state == State::Code && is_word_byte(byte);
        match (is_word, word) {
            (true, None) => word = Some(i),
            (false, Some(start)) => {
                tokens.push(Token::Word(&text[start..i]));
                word = None;
            }
            _ => {}
        }
        if state == State::Code && !is_word && !byte.is_ascii_whitespace() {
            tokens.push(Token::Mark(char::from(byte)));
        }
    }
    tokens.extend(word.map(|start| Token::Word(&text[start..])));
    tokens
}

/// Names of common table expressions: `WITH name AS (`.
fn common_tables(statement: &[Token<'_>]) -> Vec<String> {
    let names = statement.windows(3).filter_map(|window| match window {
        [Token::Word(name), Token::Word(word), Token::Mark('(')] if is_keyword(word, &["AS"]) => {
            Some((*name).to_owned())
        }
        _ => None,
    });
    names.collect()
}

/// Keywords in the case of what was typed.
fn keywords(keywords: &[&str], typed: &str) -> Vec<String> {
    let is_lower = typed.starts_with(|c: char| c.is_ascii_lowercase());
    let matching = keywords.iter().filter(|keyword| has_prefix(keyword, typed));
    matching.map(|k| if is_lower { k.to_lowercase() } else { (*k).to_owned() }).collect()
}

fn is_keyword(word: &str, keywords: &[&str]) -> bool {
    keywords.iter().any(|keyword| keyword.eq_ignore_ascii_case(word))
}

fn has_prefix(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn start_of_word(text: &str) -> usize {
    text.bytes().rposition(|b| !is_word_byte(b)).map_or(0, |at| at + 1)
}

fn start_of_argument(text: &str) -> usize {
    text.rfind(char::is_whitespace).map_or(0, |at| at + 1)
}

/// Whether a byte may be part of a name. All bytes of characters beyond ASCII may.
pub(super) fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::{Completion, Names};

    /// What completes the text at `|`.
    fn complete(text: &str) -> Vec<String> {
        let cursor = text.find('|').unwrap();
        let functions = ["coalesce", "count", "duration_of"].map(str::to_owned).to_vec();
        match Names::new(functions).complete(&text.replace('|', ""), cursor) {
            Completion::Words { words, .. } => words,
            Completion::File => vec!["FILE".to_owned()],
        }
    }

    #[test]
    fn complete_begins_statements_with_keywords() {
        assert_eq!(complete("sel|"), ["select"]);
        assert_eq!(complete("SELECT 1; W|"), ["WITH"]);
        assert!(complete("|").contains(&"SELECT".to_owned()));
    }

    #[test]
    fn complete_knows_tables_and_views_where_one_is_expected() {
        assert_eq!(complete("SELECT * FROM gpu_utilization_s|"), ["gpu_utilization_series"]);
        assert_eq!(
            complete("SELECT * FROM kernels k JOIN step_ti|"),
            complete("DESCRIBE step_ti|")
        );
        assert_eq!(complete("SELECT * FROM kernels k, mem_t|"), Vec::<String>::new());
        assert_eq!(complete("WITH slow AS (SELECT 1) SELECT * FROM slo|"), ["slow"]);
        assert!(complete("FROM |").contains(&"kernels".to_owned()));
    }

    #[test]
    fn complete_prefers_columns_of_the_tables_named() {
        assert_eq!(complete("SELECT dur| FROM steps"), ["dur_ns", "duration_of("]);
        assert_eq!(complete("SELECT gri| FROM kernels"), ["grid"]);
        assert_eq!(complete("SELECT gri| FROM steps"), Vec::<String>::new());
        assert!(complete("SELECT gri|").contains(&"grid".to_owned()));
        assert_eq!(complete("SELECT 1 FROM kernels WHERE gri|"), ["grid"]);
    }

    #[test]
    fn complete_knows_columns_of_aliases() {
        assert_eq!(complete("SELECT k.gri| FROM kernels AS k"), ["grid"]);
        assert_eq!(complete("SELECT k.gri| FROM steps s JOIN kernels k ON true"), ["grid"]);
        assert_eq!(complete("SELECT s.gri| FROM steps s, kernels k"), Vec::<String>::new());
        assert_eq!(complete("SELECT kernels.gri| FROM kernels"), ["grid"]);
    }

    #[test]
    fn complete_knows_functions_and_keywords_in_expressions() {
        assert_eq!(complete("SELECT co| FROM ranks"), ["coalesce(", "count("]);
        assert_eq!(complete("SELECT 1 FROM ranks whe|"), ["when", "where"]);
        assert_eq!(complete("SELECT 1 FROM ranks WHE|"), ["WHEN", "WHERE"]);
        assert_eq!(complete("SELECT rank FR|"), ["FROM"]);
    }

    #[test]
    fn complete_keeps_out_of_quotes_and_comments() {
        assert!(complete("SELECT 'sel|").is_empty());
        assert!(complete("SELECT 1 -- from ker|").is_empty());
        assert_eq!(complete("SELECT 'x' FROM ranks whe|"), ["when", "where"]);
    }

    #[test]
    fn complete_knows_commands_and_their_arguments() {
        assert_eq!(complete("\\ti|"), ["\\timing"]);
        assert_eq!(complete("\\d gpu_utilization_s|"), ["gpu_utilization_series"]);
        assert_eq!(complete("\\x o|"), ["on", "off"]);
        assert_eq!(complete("\\df cou|"), ["count"]);
        assert_eq!(complete("\\i x|"), ["FILE"]);
        assert!(complete("\\q x|").is_empty());
    }
}
