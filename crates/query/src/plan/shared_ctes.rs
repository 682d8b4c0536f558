//! What a query names in `WITH` and reads more than once. DataFusion puts the text of a common table expression in
//! place of each mention, plans it anew and computes it anew; for views it is computed once, as in `PostgreSQL`.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Cte, Ident, ObjectName, Query, Statement, TableAlias, TableFactor, Visit, VisitMut, Visitor,
    VisitorMut, With,
};

/// A query in the order in which it is computed.
pub(crate) struct Split {
    /// Its expressions that are read more than once: the table to make of each, and its query. Later ones read earlier
    /// ones.
    pub(crate) parts: Vec<(String, Parsed)>,
    /// What remains, which reads those tables.
    pub(crate) rest: Parsed,
}

/// Splits a statement; `prefix` tells the tables of different queries apart. One whose names would have to be told
/// apart first (`WITH` inside of `WITH`, recursion, renamed columns) stays whole.
pub(crate) fn split(statement: Parsed, prefix: &str) -> Split {
    let Parsed::Statement(statement) = statement else {
        return Split { parts: Vec::new(), rest: statement };
    };
    let Statement::Query(mut query) = *statement else {
        return Split { parts: Vec::new(), rest: Parsed::Statement(statement) };
    };
    let repeated = repeated(&query);
    let Some(with) = query.with.take_if(|_| !repeated.is_empty()) else {
        return Split { parts: Vec::new(), rest: parsed(query) };
    };

    let mut rename = Rename::default();
    let mut parts = Vec::with_capacity(repeated.len());
    let mut inlined: Vec<Cte> = Vec::new();
    for mut cte in with.cte_tables {
        let _ = VisitMut::visit(&mut cte.query, &mut rename);
        let name = &cte.alias.name.value;
        if repeated.contains(name) {
            let table = format!("{prefix}.{name}");
            rename.tables.insert(name.clone(), table.clone());
            parts.push((table, parsed(with_needed(&with.with_token, &inlined, cte.query))));
        } else {
            inlined.push(cte);
        }
    }
    let _ = VisitMut::visit(&mut query, &mut rename);
    Split { parts, rest: parsed(with_needed(&with.with_token, &inlined, query)) }
}

/// Whether a text in `WITH` is read more than once.
pub(crate) fn repeats(statement: &Parsed) -> bool {
    let Parsed::Statement(statement) = statement else { return false };
    matches!(statement.as_ref(), Statement::Query(query) if !repeated(query).is_empty())
}

fn parsed(query: Box<Query>) -> Parsed {
    Parsed::Statement(Box::new(Statement::Query(query)))
}

/// The names in `WITH` that are mentioned more than once.
fn repeated(query: &Query) -> HashSet<String> {
    let Some(with) = query.with.as_ref().filter(|with| !with.recursive) else {
        return HashSet::new();
    };
    let mut mentions = Mentions::default();
    if query.visit(&mut mentions).is_break() {
        return HashSet::new();
    }
    let is_plain = |cte: &&Cte| cte.alias.columns.is_empty() && cte.from.is_none();
    let names = with.cte_tables.iter().filter(is_plain).map(|cte| &cte.alias.name.value);
    names.filter(|name| mentions.counts.get(*name).is_some_and(|&n| n > 1)).cloned().collect()
}

/// `query` after those of `ctes` that it reads, and that they read.
fn with_needed(token: &AttachedToken, ctes: &[Cte], query: Box<Query>) -> Box<Query> {
    let mut mentions = Mentions::default();
    let _ = query.visit(&mut mentions);
    let mut needed: Vec<Cte> = Vec::new();
    for cte in ctes.iter().rev() {
        if mentions.counts.contains_key(&cte.alias.name.value) {
            let _ = cte.query.visit(&mut mentions);
            needed.push(cte.clone());
        }
    }
    if needed.is_empty() {
        return query;
    }
    needed.reverse();
    let with = With { with_token: token.clone(), recursive: false, cte_tables: needed };
    Box::new(Query { with: Some(with), ..*query })
}

/// How often a query mentions each plain name of a table. Breaks off at `WITH` inside of it.
#[derive(Default)]
struct Mentions {
    counts: HashMap<String, usize>,
    queries_with: usize,
}

impl Visitor for Mentions {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.queries_with += usize::from(query.with.is_some());
        if self.queries_with > 1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        if let Some(name) = plain(name) {
            *self.counts.entry(name.value.clone()).or_default() += 1;
        }
        ControlFlow::Continue(())
    }
}

/// Puts tables in place of names, which stay as aliases.
#[derive(Default)]
struct Rename {
    tables: HashMap<String, String>,
}

impl VisitorMut for Rename {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, .. } = factor
            && let Some(known) = plain(name)
            && let Some(table) = self.tables.get(&known.value)
        {
            alias.get_or_insert_with(|| TableAlias {
                explicit: false,
                name: known.clone(),
                columns: Vec::new(),
                at: None,
            });
            *name = ObjectName::from(Ident::with_quote('"', table));
        }
        ControlFlow::Continue(())
    }
}

/// A name of one part.
fn plain(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::{repeats, split};

    fn lines(sql: &str) -> Vec<String> {
        let statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        let splits = repeats(&statement);
        let split = split(statement, "#1");
        assert_eq!(splits, !split.parts.is_empty());
        let parts = split.parts.iter().map(|(name, query)| format!("{name}: {query}"));
        parts.chain([split.rest.to_string()]).collect()
    }

    #[test]
    fn what_is_read_twice_becomes_a_table_and_takes_along_what_it_reads() {
        let lines = lines(
            "WITH a AS (SELECT x FROM t), b AS (SELECT x FROM a), c AS (SELECT x FROM b), \
             unread AS (SELECT 1), d AS (SELECT c.x FROM c JOIN b ON b.x = c.x) \
             SELECT d.x FROM d JOIN c AS e ON e.x = d.x WHERE d.x IN (SELECT x FROM b)",
        );
        assert_eq!(
            lines,
            [
                "#1.b: WITH a AS (SELECT x FROM t) SELECT x FROM a",
                "#1.c: SELECT x FROM \"#1.b\" b",
                "WITH d AS (SELECT c.x FROM \"#1.c\" c JOIN \"#1.b\" b ON b.x = c.x) \
                 SELECT d.x FROM d JOIN \"#1.c\" AS e ON e.x = d.x WHERE d.x IN (SELECT x FROM \"#1.b\" b)",
            ]
        );
    }

    #[test]
    fn a_name_of_its_own_table_is_the_table() {
        let lines = lines("WITH t AS (SELECT x FROM t) SELECT * FROM t AS a, t AS b");
        assert_eq!(lines, ["#1.t: SELECT x FROM t", "SELECT * FROM \"#1.t\" AS a, \"#1.t\" AS b"]);
    }

    #[test]
    fn what_would_change_its_meaning_stays_whole() {
        for sql in [
            "SELECT 1",
            "SHOW TABLES",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "WITH a (x) AS (SELECT 1) SELECT * FROM a, a AS b",
            "WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT 2 FROM a) SELECT * FROM a, a AS b",
            "WITH a AS (SELECT 1) SELECT * FROM a, (WITH a AS (SELECT 2) SELECT * FROM a)",
        ] {
            assert_eq!(lines(sql).len(), 1, "{sql}");
        }
    }
}
