//! Limits on the plans of untrusted queries. The optimizer replaces column references in filters with the expressions that
//! compute the columns, and repeats parts of expressions. A short query can therefore become arbitrarily large, in one step that
//! cannot be canceled and in memory that is not counted.

use std::collections::HashMap;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue, TableReference, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Distinct, Expr, LogicalPlan, Operator};
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};

/// Maximum parts of all expressions of a query, including the repetitions by the optimizer. Planning takes some microseconds per
/// part.
const MAX_PARTS: u64 = 200_000;

/// Maximum depth of expressions after column references are expanded, little more than the maximum depth in the text. Evaluating
/// and freeing expressions recurses, and planning takes some seconds for an expression of this depth.
const MAX_DEPTH: u64 = 550;

/// Maximum bytes of the constants in the expressions of one operator. Each row of a batch may repeat them, which is 1 GiB.
pub(crate) const MAX_CONSTANT_BYTES: u64 = 32 << 10;

/// Free stack below which walks over plans continue on a new stack.
const STACK_RESERVE_BYTES: usize = 256 << 10;

/// The size of a new stack for walks over plans.
const STACK_BYTES: usize = 4 << 20;

/// Rejects queries with too many or too deep expressions before they are optimized.
#[derive(Debug)]
pub(crate) struct LimitExpressions;

impl AnalyzerRule for LimitExpressions {
    fn name(&self) -> &'static str {
        "limit_expressions"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Total::default().add_plan(&plan, Size::COLUMN)?;
        Ok(plan)
    }
}

/// Rejects queries with long constants after constant expressions are computed.
#[derive(Debug)]
pub(crate) struct LimitConstants;

impl OptimizerRule for LimitConstants {
    fn name(&self) -> &'static str {
        "limit_constants"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        plan.apply_with_subqueries(|operator| {
            let bytes = constant_bytes(operator)?;
            if bytes > MAX_CONSTANT_BYTES {
                return plan_err!(
                    "the query repeats constants of {bytes} bytes in each row; at most {MAX_CONSTANT_BYTES} are allowed"
                );
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Transformed::no(plan))
    }
}

/// Returns the bytes of the constants that each row may repeat.
fn constant_bytes(operator: &LogicalPlan) -> Result<u64> {
    let mut bytes = 0;
    if matches!(operator, LogicalPlan::Values(_)) {
        return Ok(bytes);
    }
    operator.apply_expressions(|expr| {
        expr.apply(|part| match part {
            Expr::Literal(value, _) => {
                bytes += heap_bytes(value);
                Ok(TreeNodeRecursion::Continue)
            }
            // Rows do not repeat lists: they become hash tables.
            Expr::InList(_) => Ok(TreeNodeRecursion::Jump),
            _ => Ok(TreeNodeRecursion::Continue),
        })
    })?;
    Ok(bytes)
}

fn heap_bytes(value: &ScalarValue) -> u64 {
    value.size().saturating_sub(size_of::<ScalarValue>()) as u64
}

/// The size of an expression after column references are expanded.
#[derive(Debug, Clone, Copy)]
struct Size {
    parts: u64,
    depth: u64,
}

impl Size {
    const NONE: Self = Self { parts: 0, depth: 0 };

    /// The size of a column of a table, or of an operator that the optimizer does not move expressions through.
    const COLUMN: Self = Self { parts: 1, depth: 1 };

    fn add(&mut self, other: Self, copies: u64) {
        self.parts = self.parts.saturating_add(other.parts.saturating_mul(copies));
        self.depth = self.depth.max(other.depth);
    }

    fn largest(sizes: impl IntoIterator<Item = Self>) -> Self {
        sizes.into_iter().fold(Self::COLUMN, |largest, size| Self {
            parts: largest.parts.max(size.parts),
            depth: largest.depth.max(size.depth),
        })
    }
}

/// The columns that an operator returns.
struct Output {
    columns: Vec<Size>,
    /// Number of union inputs. Each gets a copy of a filter above the union.
    branches: u64,
}

/// The columns that the expressions of an operator mention.
struct Scope<'p> {
    columns: HashMap<&'p str, Vec<(Option<&'p TableReference>, Size)>>,
    /// The largest column of the query around a subquery.
    outer: Size,
}

impl<'p> Scope<'p> {
    fn new(plan: &'p LogicalPlan, inputs: &[Output], outer: Size) -> Self {
        let mut columns: HashMap<_, Vec<_>> = HashMap::new();
        for (input, output) in plan.inputs().into_iter().zip(inputs) {
            for ((qualifier, field), &size) in input.schema().iter().zip(&output.columns) {
                columns.entry(field.name().as_str()).or_default().push((qualifier, size));
            }
        }
        Self { columns, outer }
    }

    /// Returns the size of a column of the inputs.
    fn find(&self, qualifier: Option<&TableReference>, name: &str) -> Option<Size> {
        let same_name = self.columns.get(name)?.iter();
        let same = same_name.filter(|(q, _)| qualifier.is_none() || *q == qualifier);
        same.map(|&(_, size)| size).max_by_key(|size| size.parts)
    }

    fn column(&self, column: &Column) -> Size {
        self.find(column.relation.as_ref(), &column.name).unwrap_or(Size::COLUMN)
    }

    fn size(&self, expr: &Expr) -> Result<Size> {
        match expr {
            Expr::Column(column) => return Ok(self.column(column)),
            Expr::OuterReferenceColumn(..) => return Ok(self.outer),
            _ => {}
        }
        let mut size = Size::NONE;
        if let Expr::Case(case) = expr {
            // The optimizer also repeats a condition for the branches after it.
            let whens = case.when_then_expr.iter().map(|(when, _)| (when, 3));
            let thens = case.when_then_expr.iter().map(|(_, then)| (then, 1));
            let others = case.expr.iter().chain(&case.else_expr).map(|part| (part, 1));
            for (part, copies) in whens.chain(thens).chain(others) {
                size.add(self.size(part)?, copies);
            }
        } else {
            let copies = copies(expr);
            expr.apply_children(|child| {
                size.add(self.size(child)?, copies);
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(Size { parts: size.parts.saturating_add(1), depth: size.depth + 1 })
    }
}

/// Returns how often the optimizer repeats the parts of an expression: `a BETWEEN 1 AND 2` becomes `a >= 1 AND a <= 2`.
fn copies(expr: &Expr) -> u64 {
    match expr {
        Expr::Between(_) => 2,
        Expr::ScalarFunction(call) if matches!(call.name(), "coalesce" | "nvl") => 2,
        Expr::InList(InList { expr, .. }) if is_of_interval(expr) => 6,
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            // The optimizer makes one copy for each alternative of the pattern.
            Operator::RegexMatch
            | Operator::RegexIMatch
            | Operator::RegexNotMatch
            | Operator::RegexNotIMatch => 4,
            _ if is_of_interval(left) || is_of_interval(right) => 3,
            _ => 1,
        },
        _ => 1,
    }
}

/// Returns whether an expression is a function that maps an interval to one value: `floor(a) = 1` becomes `a >= 1 AND a < 2`.
fn is_of_interval(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if matches!(call.name(), "floor" | "date_part"))
}

/// Counts the parts of all expressions of a query.
#[derive(Default)]
struct Total {
    parts: u64,
}

impl Total {
    /// Adds the expressions of a plan. `outer` is the size of the largest column of the surrounding query.
    fn add_plan(&mut self, plan: &LogicalPlan, outer: Size) -> Result<Output> {
        stacker::maybe_grow(STACK_RESERVE_BYTES, STACK_BYTES, || {
            let inputs = plan.inputs().into_iter().map(|input| self.add_plan(input, outer));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            self.add_operator(plan, &inputs, outer)
        })
    }

    fn add_operator(
        &mut self,
        plan: &LogicalPlan,
        inputs: &[Output],
        outer: Size,
    ) -> Result<Output> {
        let branches = inputs.iter().map(|input| input.branches);
        let branches = match plan {
            LogicalPlan::Union(_) => branches.sum(),
            _ => branches.max().unwrap_or(1),
        };
        let scope = Scope::new(plan, inputs, outer);
        let without_columns = Scope { columns: HashMap::new(), outer: Size::COLUMN };
        let mut computed = Vec::new();
        plan.apply_expressions(|expr| {
            let size = scope.size(expr)?;
            computed.push(size);
            let parts = match plan {
                // The expressions of a projection are expanded only where another operator refers to them.
                LogicalPlan::Projection(_) => without_columns.size(expr)?.parts,
                LogicalPlan::Filter(_) => size.parts.saturating_mul(branches),
                _ => size.parts,
            };
            self.add(Size { parts, ..size })?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        let columns = inputs.iter().flat_map(|input| &input.columns).copied();
        let largest = Size::largest(columns);
        plan.apply_subqueries(|subquery| {
            self.add_plan(subquery, largest)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Output { columns: output_columns(plan, inputs, &scope, computed), branches })
    }

    fn add(&mut self, size: Size) -> Result<()> {
        self.parts = self.parts.saturating_add(size.parts);
        if self.parts > MAX_PARTS {
            return plan_err!(
                "the expressions of the query have {} parts after column references are expanded; at most {MAX_PARTS} are allowed",
                self.parts
            );
        }
        if size.depth > MAX_DEPTH {
            return plan_err!(
                "the query is nested too deeply: expressions may be nested {MAX_DEPTH} deep after column references are expanded"
            );
        }
        Ok(())
    }
}

/// Returns the sizes of the columns that an operator returns, from the sizes of its inputs and of its expressions.
fn output_columns(
    plan: &LogicalPlan,
    inputs: &[Output],
    scope: &Scope<'_>,
    mut computed: Vec<Size>,
) -> Vec<Size> {
    let count = plan.schema().fields().len();
    match plan {
        LogicalPlan::Projection(_) => computed,
        LogicalPlan::Aggregate(aggregate) => {
            let groups = &aggregate.group_expr;
            computed.truncate(groups.len());
            if groups.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
                return vec![Size::largest(computed); count];
            }
            computed.resize(count, Size::COLUMN);
            computed
        }
        LogicalPlan::Distinct(Distinct::On(_)) => vec![Size::largest(computed); count],
        LogicalPlan::SubqueryAlias(_) | LogicalPlan::Union(_) => {
            let column = |at| inputs.iter().filter_map(move |input| input.columns.get(at)).copied();
            (0..count).map(|at| Size::largest(column(at))).collect()
        }
        _ => {
            let find = |qualifier, name| scope.find(qualifier, name).unwrap_or(Size::COLUMN);
            plan.schema().iter().map(|(qualifier, field)| find(qualifier, field.name())).collect()
        }
    }
}
