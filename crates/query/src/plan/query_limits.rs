//! Limits on the text of queries, checked before anything is planned. Planning recurses over the syntax, and so does
//! freeing it: a query that is deep enough would overflow the stack, which ends the program.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParser, Statement as Parsed};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, ObjectName, Query, Select, SetExpr, Spanned as _, TableFactor,
    Visit, Visitor, WindowType,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, Tokenizer};

use crate::plan::visit::visit;
use crate::query_diagnostic::{QueryDiagnostic, QueryHelp, bytes_of};

/// Bytes of a query. The longest view with all that it needs, as `advisor tables VIEW --sql` prints it, has 50 KB.
const MAX_QUERY_BYTES: usize = 128 << 10;

/// How deep expressions, set operations and joins are nested. Operators nest to the left: `a + b + c` is two deep.
const MAX_DEPTH: usize = 500;

/// Tables that a query of a user reads once its common table expressions are inlined: each may mention the one before it
/// twice.
const MAX_RELATIONS: u64 = 200_000;

/// The same for rules and pages. Planning takes some milliseconds for each, during which it cannot be canceled.
const MAX_RELATIONS_OF_STRANGERS: u64 = 1_000;

/// Maximum parts of expressions that the planner copies. It replaces aliases and names of windows with their definitions.
const MAX_COPIED_PARTS: u64 = 1_000_000;

/// The parser does not limit how deep these are nested.
const MAX_NESTED: usize = 50;

/// Stack on which queries are parsed before their depth is known. Memory is used as far as it is needed.
const PARSER_STACK_BYTES: usize = 128 << 20;

/// Functions that make rows from nothing, which rules and pages may not call: rules judge what a trace shows. `range` has a
/// limit: it numbers what is there.
const NOT_OF_STRANGERS: [&str; 1] = ["generate_series"];

/// The writer of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueryOrigin {
    /// The person who runs it.
    User,
    /// A rule file, perhaps of a stranger.
    Rule,
    /// Whoever reaches the server of a page.
    Page,
    /// This program. Its queries have no limits.
    Program,
}

impl QueryOrigin {
    fn is_stranger(self) -> bool {
        matches!(self, Self::Rule | Self::Page)
    }
}

/// Checks a query as far as its text goes; mistakes of syntax are left to the planner.
pub(crate) fn check(sql: &str, origin: QueryOrigin) -> Result<(), Box<QueryDiagnostic>> {
    let refused = match tokens_refused(sql) {
        Some(refused) => Some(refused),
        None => stacker::grow(PARSER_STACK_BYTES, || syntax_refused(sql, origin)),
    };
    match refused {
        None => Ok(()),
        Some(Refused { message, help, span }) => Err(Box::new(QueryDiagnostic {
            sql: sql.to_owned(),
            span: span.and_then(|span| bytes_of(sql, span)),
            message,
            help: help.map(|help| QueryHelp::Advice(help.to_owned())),
        })),
    }
}

/// Why a query is refused.
struct Refused {
    message: String,
    help: Option<&'static str>,
    span: Option<Span>,
}

impl Refused {
    fn too_deep(span: Option<Span>) -> Self {
        Self {
            message: format!(
                "the query is nested too deeply: operators, set operations and joins may be nested {MAX_DEPTH} deep"
            ),
            help: Some("replace many `OR` with `IN (...)`, and many `UNION ALL` with `VALUES`"),
            span,
        }
    }
}

/// Limits what parsing costs.
fn tokens_refused(sql: &str) -> Option<Refused> {
    if sql.len() > MAX_QUERY_BYTES {
        let message =
            format!("the query has {} bytes; at most {MAX_QUERY_BYTES} are allowed", sql.len());
        return Some(Refused { message, help: None, span: None });
    }
    let tokens = Tokenizer::new(&GenericDialect, sql).tokenize_with_location().ok()?;
    let (mut open, mut subscripts, mut prefixes) = (0_usize, 0, 0);
    for token in &tokens {
        match &token.token {
            Token::LParen | Token::LBrace => open += 1,
            Token::RParen | Token::RBrace => open = open.saturating_sub(1),
            Token::LBracket => subscripts += 1,
            Token::Word(word) => {
                let is_prefix = matches!(
                    word.keyword,
                    Keyword::EXPLAIN
                        | Keyword::ARRAY
                        | Keyword::STRUCT
                        | Keyword::MAP
                        | Keyword::INTERVAL
                        | Keyword::PRIOR
                );
                prefixes += usize::from(is_prefix);
            }
            _ => {}
        }
        if open > MAX_NESTED || subscripts > MAX_DEPTH || prefixes > MAX_DEPTH {
            return Some(Refused::too_deep(Some(token.span)));
        }
    }
    None
}

fn syntax_refused(sql: &str, origin: QueryOrigin) -> Option<Refused> {
    let statements = DFParser::parse_sql(sql).ok()?;
    statements.iter().find_map(|statement| statement_refused(statement, origin))
}

fn statement_refused(statement: &Parsed, origin: QueryOrigin) -> Option<Refused> {
    match statement {
        Parsed::Statement(statement) => {
            let mut limits = Limits::new(origin);
            let _ = visit(statement, &mut limits);
            limits.refused.or_else(|| limits.relations.refused(origin))
        }
        Parsed::Explain(explain) => statement_refused(&explain.statement, origin),
        _ => None,
    }
}

/// The number of tables that a query reads once its common table expressions are inlined.
pub(crate) fn inlined_relations(statement: &Parsed) -> u64 {
    let Parsed::Statement(statement) = statement else { return 0 };
    let mut limits = Limits::new(QueryOrigin::User);
    let _ = visit(statement, &mut limits);
    limits.relations.most
}

struct Limits {
    origin: QueryOrigin,
    /// Of the node that is visited.
    depth: usize,
    relations: Relations,
    /// Number of parts of expressions that the planner copies.
    copied_parts: u64,
    /// Why the walk stopped.
    refused: Option<Refused>,
}

impl Limits {
    fn new(origin: QueryOrigin) -> Self {
        Self { origin, depth: 0, relations: Relations::default(), copied_parts: 0, refused: None }
    }

    fn refuse(&mut self, refused: Refused) -> ControlFlow<()> {
        self.refused = Some(refused);
        ControlFlow::Break(())
    }

    fn enter(&mut self, levels: usize, span: Option<Span>) -> ControlFlow<()> {
        self.depth += levels;
        if self.depth > MAX_DEPTH {
            return self.refuse(Refused::too_deep(span));
        }
        ControlFlow::Continue(())
    }

    fn leave(&mut self, levels: usize) -> ControlFlow<()> {
        self.depth -= levels;
        ControlFlow::Continue(())
    }

    /// Counts parts of expressions that the planner copies.
    fn copy(&mut self, parts: u64) -> ControlFlow<()> {
        self.copied_parts = self.copied_parts.saturating_add(parts);
        if !self.origin.is_stranger() || self.copied_parts <= MAX_COPIED_PARTS {
            return ControlFlow::Continue(());
        }
        let message = format!(
            "the aliases and windows of the query stand for {} parts of expressions (each reference counts); at most {MAX_COPIED_PARTS} are allowed",
            self.copied_parts
        );
        self.refuse(Refused { message, help: None, span: None })
    }

    /// Refuses what only the person who runs the program may use.
    fn refuse_of_strangers(&mut self, what: &str, span: Span) -> ControlFlow<()> {
        let (place, help) = match self.origin {
            QueryOrigin::User | QueryOrigin::Program => return ControlFlow::Continue(()),
            QueryOrigin::Rule => {
                ("the query of a rule", "queries of rules read the tables and views of the run")
            }
            QueryOrigin::Page => ("the query of a page", "`advisor sql` allows it"),
        };
        let message = format!("{what} is not allowed in {place}");
        self.refuse(Refused { message, help: Some(help), span: Some(span) })
    }
}

impl Visitor for Limits {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(with) = query.with.as_ref().filter(|with| with.recursive) {
            self.refuse_of_strangers("a recursive query", with.with_token.0.span)?;
        }
        if let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &query.order_by) {
            self.copy(longest_column(select).saturating_mul(Parts::of(order).leaves))?;
        }
        self.relations.enter(query);
        self.enter(1 + set_operations(&query.body), None)
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.relations.leave(query);
        self.leave(1 + set_operations(&query.body))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.copy(copied_parts(select))?;
        self.enter(joins(select), None)
    }

    fn post_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.leave(joins(select))
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        self.relations.mention(name);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let function = match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
                last_part(name)
            }
            _ => None,
        };
        match function {
            Some(name) => self.refuse_of_strangers("a table function", name.span),
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let Some(name) = last_part(&function.name)
            && NOT_OF_STRANGERS.contains(&name.value.to_lowercase().as_str())
        {
            self.refuse_of_strangers(&format!("`{}`", name.value), name.span)?;
        }
        // These operators call functions that have no limit.
        if let Expr::BinaryOp {
            op: op @ (BinaryOperator::AtArrow | BinaryOperator::ArrowAt), ..
        } = expr
        {
            self.refuse_of_strangers(&format!("`{op}`"), expr.span())?;
        }
        self.enter(levels(expr), None)
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.leave(levels(expr))
    }
}

/// Returns the number of parts of expressions that the planner copies for one query, except for its `ORDER BY`.
fn copied_parts(select: &Select) -> u64 {
    let mentions = Parts::of(&select.group_by).leaves
        + Parts::of(&select.having).leaves
        + Parts::of(&select.qualify).leaves
        + Parts::of(&select.distinct).leaves;
    let of_columns = longest_column(select).saturating_mul(mentions);
    if select.named_window.is_empty() {
        return of_columns;
    }
    let longest = select.named_window.iter().map(|window| Parts::of(window).all).max();
    let of_windows = longest.unwrap_or_default();
    of_columns.saturating_add(of_windows.saturating_mul(Parts::of(&select.projection).windows))
}

/// Returns the number of parts of the longest expression of the select list.
fn longest_column(select: &Select) -> u64 {
    select.projection.iter().map(|column| Parts::of(column).all).max().unwrap_or_default()
}

/// Counts parts of expressions.
#[derive(Default)]
struct Parts {
    all: u64,
    /// Names and constants. A number may also refer to a column.
    leaves: u64,
    /// Functions over a named window.
    windows: u64,
}

impl Parts {
    fn of(part: &impl Visit) -> Self {
        let mut parts = Self::default();
        let _ = visit(part, &mut parts);
        parts
    }
}

impl Visitor for Parts {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.all += 1;
        match expr {
            Expr::Identifier(_) | Expr::Value(_) => self.leaves += 1,
            Expr::Function(call) if matches!(call.over, Some(WindowType::NamedWindow(_))) => {
                self.windows += 1;
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Levels of an expression without those of its parts: a chain of subscripts becomes nested calls.
fn levels(expr: &Expr) -> usize {
    match expr {
        Expr::CompoundFieldAccess { access_chain, .. } => 1 + access_chain.len(),
        Expr::JsonAccess { path, .. } => 1 + path.path.len(),
        _ => 1,
    }
}

/// Set operations of a query, which nest to the left.
fn set_operations(body: &SetExpr) -> usize {
    let mut count = 0;
    let mut parts = vec![body];
    while let Some(part) = parts.pop() {
        if let SetExpr::SetOperation { left, right, .. } = part {
            count += 1;
            parts.extend([left.as_ref(), right.as_ref()]);
        }
    }
    count
}

/// Joins of a query, which nest to the left.
fn joins(select: &Select) -> usize {
    select.from.iter().map(|from| 1 + from.joins.len()).sum()
}

fn last_part(name: &ObjectName) -> Option<&Ident> {
    name.0.last().and_then(|part| part.as_ident())
}

/// Counts the tables that a query reads, common table expressions as often as they are mentioned.
#[derive(Default)]
struct Relations {
    /// Tables that the common table expressions read, by name.
    ctes: HashMap<String, u64>,
    /// The names of those being visited, by address.
    queries: HashMap<usize, String>,
    /// Tables of the queries around the node that is visited.
    counts: Vec<u64>,
    most: u64,
}

impl Relations {
    fn enter(&mut self, query: &Query) {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.queries.insert(address(&cte.query), cte.alias.name.value.to_lowercase());
        }
        self.counts.push(0);
    }

    fn leave(&mut self, query: &Query) {
        let count = self.counts.pop().unwrap_or_default();
        self.most = self.most.max(count);
        if let Some(name) = self.queries.remove(&address(query)) {
            let known = self.ctes.entry(name).or_default();
            *known = count.max(*known);
        } else if let Some(outer) = self.counts.last_mut() {
            *outer = outer.saturating_add(count);
        }
    }

    fn mention(&mut self, name: &ObjectName) {
        let name = last_part(name).map(|name| name.value.to_lowercase());
        let count = name.and_then(|name| self.ctes.get(&name).copied()).unwrap_or_default();
        if let Some(outer) = self.counts.last_mut() {
            *outer = outer.saturating_add(count.max(1));
        }
    }

    fn refused(&self, origin: QueryOrigin) -> Option<Refused> {
        let limit = match origin {
            QueryOrigin::User => MAX_RELATIONS,
            QueryOrigin::Rule | QueryOrigin::Page => MAX_RELATIONS_OF_STRANGERS,
            QueryOrigin::Program => u64::MAX,
        };
        let message = || {
            format!(
                "the query reads {} tables (each reference to a common table expression counts); at most {limit} are allowed",
                self.most
            )
        };
        (self.most > limit).then(|| Refused { message: message(), help: None, span: None })
    }
}

fn address(query: &Query) -> usize {
    std::ptr::from_ref(query).addr()
}

#[cfg(test)]
mod tests {
    use super::{MAX_QUERY_BYTES, QueryOrigin, check};

    fn refusal(sql: &str, origin: QueryOrigin) -> String {
        check(sql, origin).map_or_else(|refused| refused.message, |()| String::new())
    }

    fn user(sql: &str) -> String {
        refusal(sql, QueryOrigin::User)
    }

    #[test]
    fn what_people_write_is_allowed() {
        let list = vec!["'aten::mm'"; 2_000].join(", ");
        for sql in [
            format!("SELECT {}", vec!["1"; 400].join(" + ")),
            vec!["SELECT 1"; 400].join(" UNION ALL "),
            format!("SELECT * FROM kernels WHERE name IN ({list})"),
            format!("SELECT * FROM (VALUES {}) AS t", vec!["(1, 2)"; 5_000].join(", ")),
            "EXPLAIN ANALYZE SELECT * FROM generate_series(1, 10)".to_owned(),
            "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT * FROM n".to_owned(),
            "SELECT 1 +".to_owned(),
            "'".to_owned(),
        ] {
            assert_eq!(user(&sql), "", "{}", &sql[..sql.len().min(80)]);
        }
    }

    #[test]
    fn deep_queries_are_refused_without_an_overflow() {
        let chains = [
            ("SELECT 1".to_owned(), "+1", ""),
            ("SELECT 'a'".to_owned(), "||'a'", ""),
            ("SELECT true".to_owned(), " AND true", ""),
            ("SELECT 1".to_owned(), "::INT", ""),
            ("SELECT a".to_owned(), "[1]", ""),
            ("SELECT a".to_owned(), " IS NULL", ""),
            ("SELECT 1".to_owned(), " UNION ALL SELECT 1", ""),
            ("SELECT 1 FROM a".to_owned(), ", a", ""),
            ("SELECT 1 FROM a".to_owned(), " JOIN a USING (x)", ""),
            (String::new(), "EXPLAIN ", "SELECT 1"),
            ("SELECT CAST(1 AS ".to_owned(), "ARRAY<", ""),
            ("SELECT ".to_owned(), "INTERVAL ", "'1'"),
            ("SELECT CAST(1 AS INT".to_owned(), "[]", ")"),
            ("SELECT ".to_owned(), "(", ""),
            ("SELECT 1 FROM ".to_owned(), "(", ""),
        ];
        for (start, part, end) in chains {
            let count = (MAX_QUERY_BYTES - start.len() - end.len()) / part.len();
            let sql = format!("{start}{}{end}", part.repeat(count));
            let message = user(&sql);
            assert!(message.contains("nested too deeply"), "{start}{part}: {message}");
        }
        // The parser refuses these itself.
        for part in ["NOT ", "-", "- ", "~", "CASE WHEN ", "SELECT (", "EXISTS ("] {
            let count = (MAX_QUERY_BYTES - 20) / part.len();
            user(&format!("SELECT {}1", part.repeat(count)));
        }
    }

    #[test]
    fn long_queries_are_refused() {
        let sql = format!("SELECT '{}'", "x".repeat(MAX_QUERY_BYTES));
        assert_eq!(user(&sql), "the query has 131081 bytes; at most 131072 are allowed");
    }

    #[test]
    fn expressions_that_mention_each_other_twice_are_refused() {
        let ctes: Vec<String> = (1..30)
            .map(|i| format!("t{i} AS (SELECT * FROM t{0} UNION ALL SELECT * FROM t{0})", i - 1))
            .collect();
        let sql = format!("WITH t0 AS (SELECT 1), {} SELECT * FROM t29", ctes.join(", "));
        assert!(user(&sql).starts_with("the query reads 536870912 tables"), "{}", user(&sql));
        let sql = format!("WITH t0 AS (SELECT 1), {} SELECT * FROM t3, t3", ctes[..3].join(", "));
        assert_eq!(user(&sql), "");
        let sql = format!("WITH t0 AS (SELECT 1), {} SELECT * FROM t11", ctes[..11].join(", "));
        assert_eq!(user(&sql), "");
        let in_rule = refusal(&sql, QueryOrigin::Rule);
        assert!(in_rule.starts_with("the query reads 2048 tables"), "{in_rule}");
    }

    #[test]
    fn aliases_and_windows_that_stand_for_too_much_are_refused() {
        let sum = vec!["b"; 400].join(" + ");
        let mentions = vec!["a"; 2_000].join(", ");
        let numbers = vec!["1"; 2_000].join(", ");
        let calls = vec!["sum(b) OVER w"; 2_000].join(", ");
        for sql in [
            format!("SELECT {sum} AS a FROM t GROUP BY a HAVING a IN ({mentions})"),
            format!("SELECT {sum} AS a FROM t QUALIFY a IN ({mentions})"),
            format!("SELECT {sum} AS a FROM t GROUP BY {numbers}"),
            format!("SELECT {sum} AS a FROM t ORDER BY {mentions}"),
            format!("SELECT {calls} FROM t WINDOW w AS (PARTITION BY {sum})"),
        ] {
            for origin in [QueryOrigin::Rule, QueryOrigin::Page] {
                let message = refusal(&sql, origin);
                let says = "the aliases and windows of the query stand for ";
                assert!(message.starts_with(says), "{}: {message}", &sql[sql.len() - 20..]);
                assert!(message.ends_with("at most 1000000 are allowed"), "{message}");
            }
            assert_eq!(user(&sql), "");
        }
        let columns: Vec<String> = (0..40).map(|i| format!("{sum} + {i} AS a{i}")).collect();
        let names: Vec<String> = (0..40).map(|i| format!("a{i}")).collect();
        let sql = format!("SELECT {} FROM t GROUP BY {}", columns.join(", "), names.join(", "));
        assert_eq!(refusal(&sql, QueryOrigin::Rule), "");
    }

    #[test]
    fn operators_of_functions_without_a_limit_are_not_of_strangers() {
        for operator in ["@>", "<@"] {
            let sql = format!("SELECT a {operator} b FROM t");
            let message = refusal(&sql, QueryOrigin::Rule);
            assert_eq!(message, format!("`{operator}` is not allowed in the query of a rule"));
            assert_eq!(user(&sql), "");
        }
    }

    #[test]
    fn rules_make_no_rows_from_nothing() {
        for (sql, part) in [
            ("SELECT * FROM generate_series(1, 100000000000)", "a table function"),
            ("SELECT 1 FROM steps, LATERAL range(1, 5)", "a table function"),
            ("SELECT max(x) FROM (SELECT unnest(generate_series(1, 4)) AS x)", "`generate_series`"),
            ("SELECT Generate_Series(1, 5)", "`Generate_Series`"),
            ("WITH RECURSIVE n AS (SELECT 1) SELECT * FROM n", "a recursive query"),
            ("SELECT * FROM (WITH RECURSIVE n AS (SELECT 1) SELECT * FROM n)", "a recursive query"),
        ] {
            assert_eq!(user(sql), "", "{sql}");
            let message = refusal(sql, QueryOrigin::Rule);
            assert_eq!(message, format!("{part} is not allowed in the query of a rule"), "{sql}");
            let message = refusal(sql, QueryOrigin::Page);
            assert_eq!(message, format!("{part} is not allowed in the query of a page"), "{sql}");
        }
        assert_eq!(
            refusal("SELECT max(bytes), coalesce(1, 2) FROM memcpys", QueryOrigin::Rule),
            ""
        );
    }
}
