//! Queries that return no rows because the relations they read have none. Most runs lack most kinds of data, and planning
//! a query takes milliseconds even if there is nothing to compute.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Join, JoinOperator, ObjectName, Query, Select, SetExpr,
    SetOperator, Statement, TableFactor, TableWithJoins, Visit, Visitor,
};

use super::references::normalized;
use super::visit::visit;

/// The names that decide whether a query has rows.
pub(crate) trait Names {
    /// Whether a table or view is known to have no rows.
    fn is_empty_relation(&self, name: &str) -> bool;

    /// Whether a function may aggregate rows: without `GROUP BY`, it makes one row of none.
    fn is_aggregate(&self, name: &str) -> bool;
}

/// Returns whether a query returns no rows whatever its expressions are. `false` if it may return some.
pub(crate) fn has_no_rows(statement: &Parsed, names: &dyn Names) -> bool {
    let Parsed::Statement(statement) = statement else { return false };
    let Statement::Query(query) = statement.as_ref() else { return false };
    Scope { names, ctes: Vec::new() }.is_empty_query(query)
}

/// The common table expressions in scope, with whether they are empty. The last one of a name counts.
struct Scope<'a> {
    names: &'a dyn Names,
    ctes: Vec<(String, bool)>,
}

impl Scope<'_> {
    fn is_empty_query(&mut self, query: &Query) -> bool {
        let outer = self.ctes.len();
        if let Some(with) = &query.with {
            for cte in &with.cte_tables {
                let is_empty = !with.recursive && self.is_empty_query(&cte.query);
                self.ctes.push((normalized(&cte.alias.name), is_empty));
            }
        }
        let is_empty =
            self.is_empty_body(&query.body) && !is_aggregating(&query.order_by, self.names);
        self.ctes.truncate(outer);
        is_empty
    }

    fn is_empty_body(&mut self, body: &SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => self.is_empty_select(select),
            SetExpr::Query(query) => self.is_empty_query(query),
            SetExpr::SetOperation { op, left, right, .. } => match op {
                SetOperator::Union => self.is_empty_body(left) && self.is_empty_body(right),
                SetOperator::Intersect => self.is_empty_body(left) || self.is_empty_body(right),
                SetOperator::Except | SetOperator::Minus => self.is_empty_body(left),
            },
            _ => false,
        }
    }

    fn is_empty_select(&mut self, select: &Select) -> bool {
        select.from.iter().any(|from| self.is_empty_join(from)) && !self.aggregates_none(select)
    }

    /// Whether a `SELECT` makes a row of none: of aggregates over all rows, or of grouping sets.
    fn aggregates_none(&self, select: &Select) -> bool {
        match &select.group_by {
            GroupByExpr::Expressions(keys, modifiers) if modifiers.is_empty() => {
                let is_set = |key: &Expr| {
                    matches!(key, Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_))
                };
                if !keys.is_empty() {
                    return keys.iter().any(is_set);
                }
            }
            _ => return true,
        }
        select.having.is_some()
            || is_aggregating(&select.projection, self.names)
            || is_aggregating(&select.qualify, self.names)
    }

    fn is_empty_join(&mut self, from: &TableWithJoins) -> bool {
        let first = self.is_empty_factor(&from.relation);
        from.joins.iter().fold(first, |left, join| self.is_empty_with(left, join))
    }

    /// Whether a join has no rows, given whether its left side has none.
    fn is_empty_with(&mut self, left: bool, join: &Join) -> bool {
        let right = self.is_empty_factor(&join.relation);
        match &join.join_operator {
            JoinOperator::Join(_)
            | JoinOperator::Inner(_)
            | JoinOperator::CrossJoin(_)
            | JoinOperator::Semi(_)
            | JoinOperator::LeftSemi(_)
            | JoinOperator::RightSemi(_) => left || right,
            JoinOperator::Left(_)
            | JoinOperator::LeftOuter(_)
            | JoinOperator::Anti(_)
            | JoinOperator::LeftAnti(_) => left,
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::RightAnti(_) => {
                right
            }
            JoinOperator::FullOuter(_) => left && right,
            _ => false,
        }
    }

    fn is_empty_factor(&mut self, factor: &TableFactor) -> bool {
        match factor {
            TableFactor::Table { name, args: None, .. } => self.is_empty_table(name),
            TableFactor::Derived { subquery, .. } => self.is_empty_query(subquery),
            TableFactor::NestedJoin { table_with_joins, .. } => {
                self.is_empty_join(table_with_joins)
            }
            _ => false,
        }
    }

    fn is_empty_table(&self, name: &ObjectName) -> bool {
        let [part] = name.0.as_slice() else { return false };
        let Some(name) = part.as_ident().map(normalized) else { return false };
        match self.ctes.iter().rev().find(|(cte, _)| *cte == name) {
            Some((_, is_empty)) => *is_empty,
            None => self.names.is_empty_relation(&name),
        }
    }
}

/// Whether a part of a query calls a function that aggregates rows.
fn is_aggregating(part: &impl Visit, names: &dyn Names) -> bool {
    visit(part, &mut Aggregates { names }).is_break()
}

/// Stops at a function that aggregates rows.
struct Aggregates<'a> {
    names: &'a dyn Names,
}

impl Visitor for Aggregates<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let Expr::Function(Function { name, over: None, .. }) = expr else {
            return ControlFlow::Continue(());
        };
        let name = name.0.last().and_then(|part| part.as_ident()).map(normalized);
        if name.is_none_or(|name| self.names.is_aggregate(&name)) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::{Names, has_no_rows};

    /// `none` and `nothing` are empty, all else has rows.
    struct Sample;

    impl Names for Sample {
        fn is_empty_relation(&self, name: &str) -> bool {
            matches!(name, "none" | "nothing")
        }

        fn is_aggregate(&self, name: &str) -> bool {
            matches!(name, "count" | "sum")
        }
    }

    fn is_empty(sql: &str) -> bool {
        has_no_rows(&DFParser::parse_sql(sql).unwrap().pop_front().unwrap(), &Sample)
    }

    #[test]
    fn queries_over_empty_relations_have_no_rows() {
        for sql in [
            "SELECT * FROM none",
            "SELECT * FROM None AS a WHERE x > 1 ORDER BY x LIMIT 3",
            "SELECT a.x FROM none a LEFT JOIN some b ON a.x = b.x",
            "SELECT a.x FROM some a RIGHT JOIN none b ON a.x = b.x",
            "SELECT a.x FROM some a JOIN none b ON a.x = b.x LEFT JOIN some c ON c.x = a.x",
            "SELECT 1 FROM some, none",
            "SELECT 1 FROM none a FULL OUTER JOIN nothing b ON a.x = b.x",
            "SELECT a.x FROM none a LEFT ANTI JOIN some b ON a.x = b.x",
            "SELECT x, count(*) FROM none GROUP BY x",
            "SELECT DISTINCT x, sum(x) OVER (PARTITION BY y) FROM none",
            "SELECT x FROM none QUALIFY row_number() OVER (ORDER BY x) = 1",
            "SELECT * FROM none UNION ALL SELECT * FROM nothing",
            "SELECT * FROM none INTERSECT SELECT * FROM some",
            "SELECT * FROM none EXCEPT SELECT * FROM some",
            "WITH a AS (SELECT * FROM none), b AS (SELECT x FROM a JOIN some USING (x)) SELECT * FROM b",
            "WITH none AS (SELECT * FROM none) SELECT * FROM none",
            "SELECT * FROM (SELECT x FROM none) AS a CROSS JOIN (some AS b CROSS JOIN some AS c)",
        ] {
            assert!(is_empty(sql), "{sql}");
        }
    }

    #[test]
    fn queries_that_may_have_rows_are_not_empty() {
        for sql in [
            "SELECT 1",
            "SELECT * FROM some",
            "SELECT a.x FROM some a LEFT JOIN none b ON a.x = b.x",
            "SELECT a.x FROM none a RIGHT JOIN some b ON a.x = b.x",
            "SELECT 1 FROM none a FULL OUTER JOIN some b ON a.x = b.x",
            "SELECT a.x FROM some a LEFT ANTI JOIN none b ON a.x = b.x",
            "SELECT count(*) FROM none",
            "SELECT 1 + coalesce(sum(x), 0) FROM none",
            "SELECT sum(count(*)) OVER () FROM none",
            "SELECT 1 FROM none HAVING true",
            "SELECT 1 FROM none QUALIFY sum(x) > 1",
            "SELECT 1 FROM none ORDER BY sum(x)",
            "SELECT x, count(*) FROM none GROUP BY ROLLUP (x)",
            "SELECT x, count(*) FROM none GROUP BY GROUPING SETS ((x), ())",
            "SELECT * FROM none UNION ALL SELECT * FROM some",
            "SELECT * FROM some EXCEPT SELECT * FROM none",
            "WITH none AS (SELECT 1 AS x) SELECT * FROM none",
            "WITH a AS (SELECT count(*) AS n FROM none) SELECT n FROM a",
            "WITH RECURSIVE a AS (SELECT 1 AS x UNION ALL SELECT x FROM a, none) SELECT * FROM a",
            "SELECT * FROM generate_series(1, 3)",
            "VALUES (1)",
            "SHOW TABLES",
        ] {
            assert!(!is_empty(sql), "{sql}");
        }
    }

    #[test]
    fn an_expression_hides_a_relation_only_where_it_is_in_scope() {
        assert!(is_empty("SELECT * FROM (WITH some AS (SELECT 1) SELECT * FROM some), none"));
        assert!(is_empty(
            "SELECT b.x FROM (WITH none AS (SELECT 1 AS x) SELECT * FROM none) AS a, none AS b"
        ));
    }
}
