//! Common table expressions that a query reads more than once. DataFusion inlines each mention, and plans and computes it
//! again; views compute them once, as `PostgreSQL` does.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Cte, Ident, ObjectName, Query, Statement, TableAlias, TableFactor, VisitMut, Visitor,
    VisitorMut, With,
};

use crate::plan::visit::visit;

/// A query split at its repeated common table expressions, in the order of computation.
pub(crate) struct MaterializedCtes {
    /// Names and queries of temporary tables for the repeated expressions. Later ones read earlier ones.
    pub(crate) tables: Vec<(String, Parsed)>,
    /// The remaining query, which reads those tables.
    pub(crate) query: Parsed,
}

/// Splits a statement; `prefix` distinguishes the tables of different queries. Statements whose names would have to be
/// resolved first (a name that a nested `WITH` defines again, recursion, renamed columns) are not split. The queries of
/// tables may have repeated expressions of their own.
pub(crate) fn split(statement: Parsed, prefix: &str) -> MaterializedCtes {
    let Parsed::Statement(statement) = statement else {
        return MaterializedCtes { tables: Vec::new(), query: statement };
    };
    let Statement::Query(mut query) = *statement else {
        return MaterializedCtes { tables: Vec::new(), query: Parsed::Statement(statement) };
    };
    let repeated = repeated(&query);
    let Some(with) = query.with.take_if(|_| !repeated.is_empty()) else {
        return MaterializedCtes { tables: Vec::new(), query: parsed(query) };
    };

    let mut rename = Rename::default();
    let mut tables = Vec::with_capacity(repeated.len());
    let mut inlined: Vec<Cte> = Vec::new();
    for mut cte in with.cte_tables {
        let _ = VisitMut::visit(&mut cte.query, &mut rename);
        let name = &cte.alias.name.value;
        if repeated.contains(name) {
            let table = format!("{prefix}.{name}");
            rename.tables.insert(name.clone(), table.clone());
            tables.push((table, parsed(with_needed(&with.with_token, &inlined, cte.query))));
        } else {
            inlined.push(cte);
        }
    }
    let _ = VisitMut::visit(&mut query, &mut rename);
    MaterializedCtes { tables, query: parsed(with_needed(&with.with_token, &inlined, query)) }
}

/// Whether a common table expression is read more than once.
pub(crate) fn has_repeated_ctes(statement: &Parsed) -> bool {
    let Parsed::Statement(statement) = statement else { return false };
    matches!(statement.as_ref(), Statement::Query(query) if !repeated(query).is_empty())
}

fn parsed(query: Box<Query>) -> Parsed {
    Parsed::Statement(Box::new(Statement::Query(query)))
}

/// Names of common table expressions that are mentioned more than once, or that repeat expressions of their own.
fn repeated(query: &Query) -> HashSet<String> {
    let Some(with) = query.with.as_ref().filter(|with| !with.recursive) else {
        return HashSet::new();
    };
    let mut mentions = Mentions::default();
    if visit(query, &mut mentions).is_break() {
        return HashSet::new();
    }
    let is_defined_again = |cte: &Cte| mentions.definitions.get(&cte.alias.name.value) != Some(&1);
    if with.cte_tables.iter().any(is_defined_again) {
        return HashSet::new();
    }
    let is_plain = |cte: &&Cte| cte.alias.columns.is_empty() && cte.from.is_none();
    let is_repeated = |cte: &&Cte| {
        mentions.counts.get(&cte.alias.name.value).is_some_and(|&n| n > 1)
            || !repeated(&cte.query).is_empty()
    };
    let plain = with.cte_tables.iter().filter(is_plain);
    plain.filter(is_repeated).map(|cte| cte.alias.name.value.clone()).collect()
}

/// `query` with those of `ctes` that it needs.
fn with_needed(token: &AttachedToken, ctes: &[Cte], mut query: Box<Query>) -> Box<Query> {
    let mut mentions = Mentions::default();
    let _ = visit(&query, &mut mentions);
    let mut needed: Vec<Cte> = Vec::new();
    for cte in ctes.iter().rev() {
        if mentions.counts.contains_key(&cte.alias.name.value) {
            let _ = visit(&cte.query, &mut mentions);
            needed.push(cte.clone());
        }
    }
    if needed.is_empty() {
        return query;
    }
    needed.reverse();
    let own = query.with.take();
    needed.extend(own.into_iter().flat_map(|with| with.cte_tables));
    query.with = Some(With { with_token: token.clone(), recursive: false, cte_tables: needed });
    query
}

/// Number of mentions and of definitions of each unqualified name. Stops at a recursive `WITH`.
#[derive(Default)]
struct Mentions {
    counts: HashMap<String, usize>,
    definitions: HashMap<String, usize>,
}

impl Visitor for Mentions {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let Some(with) = &query.with else { return ControlFlow::Continue(()) };
        for cte in &with.cte_tables {
            *self.definitions.entry(cte.alias.name.value.clone()).or_default() += 1;
        }
        if with.recursive { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        if let Some(name) = plain(name) {
            *self.counts.entry(name.value.clone()).or_default() += 1;
        }
        ControlFlow::Continue(())
    }
}

/// Replaces names by tables; the names become aliases.
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

/// An unqualified name.
fn plain(name: &ObjectName) -> Option<&Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::{has_repeated_ctes, split};

    fn lines(sql: &str) -> Vec<String> {
        let statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        let has_repeated = has_repeated_ctes(&statement);
        let split = split(statement, "#1");
        assert_eq!(has_repeated, !split.tables.is_empty());
        let parts = split.tables.iter().map(|(name, query)| format!("{name}: {query}"));
        parts.chain([split.query.to_string()]).collect()
    }

    #[test]
    fn split_hoists_repeated_ctes_with_their_dependencies() {
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
    fn split_hoists_ctes_that_repeat_expressions_of_their_own() {
        let lines = lines(
            "WITH a AS (SELECT x FROM t), b AS (WITH c AS (SELECT x FROM a) SELECT 1 FROM c, c AS d), \
             e AS (WITH c AS (SELECT x FROM b) SELECT x FROM c) SELECT * FROM e",
        );
        assert_eq!(
            lines,
            [
                "#1.b: WITH a AS (SELECT x FROM t), c AS (SELECT x FROM a) SELECT 1 FROM c, c AS d",
                "WITH e AS (WITH c AS (SELECT x FROM \"#1.b\" b) SELECT x FROM c) SELECT * FROM e",
            ]
        );
    }

    #[test]
    fn split_reads_the_table_where_a_cte_has_its_name() {
        let lines = lines("WITH t AS (SELECT x FROM t) SELECT * FROM t AS a, t AS b");
        assert_eq!(lines, ["#1.t: SELECT x FROM t", "SELECT * FROM \"#1.t\" AS a, \"#1.t\" AS b"]);
    }

    #[test]
    fn split_leaves_queries_alone_whose_meaning_would_change() {
        for sql in [
            "SELECT 1",
            "SHOW TABLES",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "WITH a (x) AS (SELECT 1) SELECT * FROM a, a AS b",
            "WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT 2 FROM a) SELECT * FROM a, a AS b",
            "WITH a AS (SELECT 1) SELECT * FROM a, (WITH a AS (SELECT 2) SELECT * FROM a)",
            "WITH a AS (WITH RECURSIVE b AS (SELECT 1) SELECT * FROM b) SELECT * FROM a, a AS c",
            "WITH a AS (WITH b AS (SELECT 1) SELECT * FROM b) SELECT * FROM a",
        ] {
            assert_eq!(lines(sql).len(), 1, "{sql}");
        }
    }
}
