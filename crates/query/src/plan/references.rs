//! Names that a query mentions, read off its syntax tree.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use datafusion::error::Result;
use datafusion::sql::parser::{DFParser, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    TableFactor, Visitor,
};
use datafusion::sql::sqlparser::tokenizer::Span;
use trace_model::tables;

use crate::plan::visit::visit;

/// Positions of columns by base table.
pub(crate) type TableColumns = BTreeMap<&'static str, BTreeSet<usize>>;

/// Tables, views and columns that a query mentions.
#[derive(Debug, Default)]
pub(crate) struct References {
    /// How often each table, view or common table expression is mentioned.
    relations: BTreeMap<String, usize>,
    columns: BTreeSet<String>,
    /// Unqualified names of relations that are not functions, with the places where they are first mentioned.
    places: BTreeMap<String, Option<Span>>,
    ctes: BTreeSet<String>,
    /// Relations of which all columns are selected (`SELECT *`).
    starred: BTreeSet<String>,
}

impl References {
    /// Of a query as text. The first statement counts.
    pub(crate) fn parse(sql: &str) -> Result<Self> {
        let statement = DFParser::parse_sql(sql)?.pop_front();
        Ok(statement.map_or_else(Self::default, |statement| Self::of(&statement)))
    }

    /// Of a parsed statement.
    pub(crate) fn of(statement: &Parsed) -> Self {
        let mut found = Self::default();
        match statement {
            Parsed::Statement(statement) => {
                let _ = visit(statement, &mut found);
            }
            Parsed::Explain(explain) => return Self::of(&explain.statement),
            _ => {}
        }
        found
    }

    /// Names of relations, and how often each is mentioned.
    pub(crate) fn relations(&self) -> impl Iterator<Item = (&str, usize)> {
        self.relations.iter().map(|(name, &count)| (name.as_str(), count))
    }

    /// Unqualified names of relations that are not common table expressions.
    pub(crate) fn unqualified_relations(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str).filter(|name| !self.ctes.contains(*name))
    }

    /// The first relation that is neither a common table expression nor accepted by `exists`, and its place.
    pub(crate) fn find_unknown(
        &self,
        exists: impl Fn(&str) -> bool,
    ) -> Option<(&str, Option<Span>)> {
        let is_unknown = |name: &String| !self.ctes.contains(name) && !exists(name);
        let unknown = self.places.iter().find(|(name, _)| is_unknown(name))?;
        Some((unknown.0.as_str(), *unknown.1))
    }

    /// Columns of base tables that the query may read: those whose name it mentions. The rank, the first
    /// column of each table, is always included, because it decides which rows are read.
    pub(crate) fn table_columns(&self) -> TableColumns {
        let mut all = TableColumns::new();
        for name in self.relations.keys() {
            let Some(spec) = tables::find(name) else { continue };
            let is_read = |at: usize| {
                at == 0
                    || self.starred.contains(name)
                    || self.columns.contains(spec.columns[at].name)
            };
            all.insert(spec.name, (0..spec.columns.len()).filter(|&at| is_read(at)).collect());
        }
        all
    }

    fn add_column(&mut self, name: &Ident) {
        self.columns.insert(normalized(name));
    }
}

impl Visitor for References {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.ctes.extend(ctes.map(|cte| normalized(&cte.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, args: None, .. } = factor
            && let [part] = name.0.as_slice()
            && let Some(name) = part.as_ident()
        {
            let place = Some(name.span).filter(|&span| span != Span::empty());
            self.places.entry(normalized(name)).or_insert(place);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        if let Some(name) = name.0.last().and_then(|part| part.as_ident()) {
            *self.relations.entry(normalized(name)).or_default() += 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let factors = select.from.iter().flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        });
        for factor in factors {
            if let TableFactor::Table { name, alias, .. } = factor
                && let Some(name) = name.0.last().and_then(|part| part.as_ident())
            {
                let known_as = alias.as_ref().map_or(name, |alias| &alias.name);
                if select.projection.iter().any(|item| selects_all_of(item, known_as)) {
                    self.starred.insert(normalized(name));
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => self.add_column(name),
            Expr::CompoundIdentifier(names) => names.iter().for_each(|name| self.add_column(name)),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Returns whether an item of a `SELECT` stands for all columns of a relation of this name.
fn selects_all_of(item: &SelectItem, relation: &Ident) -> bool {
    match item {
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            let name = name.0.last().and_then(|part| part.as_ident());
            name.is_none_or(|name| normalized(name) == normalized(relation))
        }
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
        _ => false,
    }
}

/// A name as the planner looks it up: in lower case unless it is quoted.
pub(crate) fn normalized(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::References;

    fn columns(sql: &str, table: &str) -> Vec<&'static str> {
        let spec = trace_model::tables::find(table).unwrap();
        let columns = References::parse(sql).unwrap().table_columns();
        columns[table].iter().map(|&at| spec.columns[at].name).collect()
    }

    #[test]
    fn table_columns_are_those_mentioned_and_the_rank() {
        let sql = "WITH k AS (SELECT k.name, ts_ns FROM Kernels AS k WHERE false AND grid = 'x')
                   SELECT name FROM k ORDER BY dur_ns";
        assert_eq!(columns(sql, "kernels"), ["rank", "name", "ts_ns", "dur_ns", "grid"]);
    }

    #[test]
    fn table_columns_are_all_where_a_star_selects_from_the_table() {
        let all = trace_model::tables::find("steps").unwrap().columns.len();
        assert_eq!(columns("SELECT s.* FROM steps s", "steps").len(), all);
        assert_eq!(columns("SELECT * FROM (SELECT step FROM steps)", "steps"), ["rank", "step"]);
        let joined =
            "SELECT k.* FROM kernels k JOIN Steps s ON s.rank = k.rank AND s.step = k.step";
        assert_eq!(columns(joined, "steps"), ["rank", "step"]);
        assert!(columns(joined, "kernels").len() > 10);
        assert_eq!(columns("SELECT \"steps\".* FROM steps, ranks", "steps").len(), all);
    }

    #[test]
    fn relations_are_counted_in_subqueries_and_statements_about_queries() {
        let found = |sql: &str| -> Vec<(String, usize)> {
            let found = References::parse(sql).unwrap();
            found.relations().map(|(name, count)| (name.to_owned(), count)).collect()
        };
        let one = |name: &str| vec![(name.to_owned(), 1)];
        assert_eq!(found("EXPLAIN SELECT * FROM gpu_kernels"), one("gpu_kernels"));
        assert_eq!(found("DESCRIBE gpu_kernels"), one("gpu_kernels"));
        assert_eq!(
            found("SELECT 1 FROM a WHERE x IN (SELECT y FROM \"B\") UNION ALL SELECT 2 FROM A"),
            [("B".to_owned(), 1), ("a".to_owned(), 2)]
        );
    }
}
