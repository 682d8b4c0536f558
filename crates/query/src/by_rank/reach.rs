//! Whether the rows of one rank come from rows of that rank alone, read off a plan.

use std::collections::BTreeSet;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan};

/// What the rows of a query depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reach {
    /// On no table.
    Nothing,
    /// Each on rows of one rank. These columns say of which.
    Rank(BTreeSet<usize>),
    /// Some on rows of several ranks, for all that can be told.
    Run,
}

impl Reach {
    /// Of rows of `self` without those columns that `place` has no place for.
    fn moved(self, place: impl Fn(usize) -> Vec<usize>) -> Self {
        match self {
            Self::Rank(columns) => Self::Rank(columns.into_iter().flat_map(place).collect()),
            other => other,
        }
    }

    /// Of rows that belong together by the values of columns: those of one rank if a column says which.
    fn grouped(self, by: &BTreeSet<usize>) -> Self {
        match self {
            Self::Rank(columns) if columns.is_disjoint(by) => Self::Run,
            other => other,
        }
    }

    fn says_rank(&self, column: Option<usize>) -> bool {
        matches!((self, column), (Self::Rank(columns), Some(at)) if columns.contains(&at))
    }
}

/// The reach of a plan whose subqueries have become joins. `of_table` knows that of tables and views.
pub(crate) fn reach(plan: &LogicalPlan, of_table: &dyn Fn(&str) -> Reach) -> Result<Reach> {
    let of = |plan: &LogicalPlan| reach(plan, of_table);
    if plan.expressions().iter().any(has_subquery) {
        return Ok(Reach::Run);
    }
    Ok(match plan {
        LogicalPlan::TableScan(scan) => {
            let reach = of_table(scan.table_name.table());
            let reach = if scan.fetch.is_some() { cut(reach) } else { reach };
            match &scan.projection {
                Some(kept) => reach.moved(|at| positions(kept, at)),
                None => reach,
            }
        }
        LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_) => Reach::Nothing,
        LogicalPlan::Filter(filter) => of(&filter.input)?,
        LogicalPlan::SubqueryAlias(alias) => of(&alias.input)?,
        LogicalPlan::Repartition(split) => of(&split.input)?,
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => of(&sort.input)?,
        LogicalPlan::Sort(sort) => cut(of(&sort.input)?),
        LogicalPlan::Limit(limit) => cut(of(&limit.input)?),
        LogicalPlan::Projection(projection) => {
            let from: Vec<Option<usize>> =
                projection.expr.iter().map(|e| column(e, projection.input.schema())).collect();
            of(&projection.input)?.moved(|at| positions(&from, Some(at)))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let schema = aggregate.input.schema();
            let by: Vec<Option<usize>> =
                aggregate.group_expr.iter().map(|e| column(e, schema)).collect();
            of(&aggregate.input)?
                .grouped(&by.iter().copied().flatten().collect())
                .moved(|at| positions(&by, Some(at)))
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            of(input)?.grouped(&(0..input.schema().fields().len()).collect())
        }
        LogicalPlan::Window(window) => {
            let mut reach = of(&window.input)?;
            for expr in &window.window_expr {
                reach = reach.grouped(&partitions(expr, window.input.schema()));
            }
            reach
        }
        LogicalPlan::Join(join) => joined(join, of(&join.left)?, of(&join.right)?),
        LogicalPlan::Union(union) => {
            let mut inputs = Vec::with_capacity(union.inputs.len());
            for input in &union.inputs {
                inputs.push(of(input)?);
            }
            together(inputs)
        }
        LogicalPlan::Unnest(unnest) => {
            let from = &unnest.dependency_indices;
            of(&unnest.input)?.moved(|at| positions(from, at))
        }
        _ => Reach::Run,
    })
}

fn positions<T: PartialEq + Copy>(among: &[T], wanted: T) -> Vec<usize> {
    (0..among.len()).filter(|&at| among[at] == wanted).collect()
}

/// Of the first rows only: which those are depends on all of them.
fn cut(reach: Reach) -> Reach {
    reach.grouped(&BTreeSet::new())
}

/// The column that an expression is, whatever its name and type.
fn column(expr: &Expr, schema: &DFSchema) -> Option<usize> {
    match expr {
        Expr::Column(column) => schema.maybe_index_of_column(column),
        Expr::Alias(alias) => column(&alias.expr, schema),
        // Ranks stay apart.
        Expr::Cast(cast) if cast.field.data_type().is_numeric() => column(&cast.expr, schema),
        _ => None,
    }
}

/// The columns by which a window function's rows belong together; none for other expressions.
fn partitions(expr: &Expr, schema: &DFSchema) -> BTreeSet<usize> {
    match expr {
        Expr::Alias(alias) => partitions(&alias.expr, schema),
        Expr::WindowFunction(function) => {
            function.params.partition_by.iter().filter_map(|e| column(e, schema)).collect()
        }
        _ => BTreeSet::new(),
    }
}

fn has_subquery(expr: &Expr) -> bool {
    let mut found = false;
    let _ = expr.apply(|expr| {
        found |= matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        );
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

fn joined(join: &Join, left: Reach, right: Reach) -> Reach {
    use JoinType::{
        Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi,
    };
    let (left_schema, right_schema) = (join.left.schema(), join.right.schema());
    let by_rank = join.on.iter().any(|(l, r)| {
        left.says_rank(column(l, left_schema)) && right.says_rank(column(r, right_schema))
    });
    // Rows that depend on nothing are there for each rank again: they may be added to its rows, but not stand alone.
    let keeps_left = matches!(join.join_type, Left | Full | LeftSemi | LeftAnti | LeftMark);
    let keeps_right = matches!(join.join_type, Right | Full | RightSemi | RightAnti | RightMark);
    let fits = match (&left, &right) {
        // `NOT IN`: one row without a value decides for all.
        _ if join.null_aware => false,
        (Reach::Nothing, Reach::Nothing) => return Reach::Nothing,
        (Reach::Rank(_), Reach::Rank(_)) => by_rank,
        (Reach::Nothing, Reach::Rank(_)) => !keeps_left,
        (Reach::Rank(_), Reach::Nothing) => !keeps_right,
        (Reach::Run, _) | (_, Reach::Run) => false,
    };
    if !fits {
        return Reach::Run;
    }
    let width = left_schema.fields().len();
    let columns = |reach: Reach, offset: usize| match reach {
        Reach::Rank(columns) => columns.into_iter().map(|at| at + offset).collect(),
        Reach::Nothing | Reach::Run => BTreeSet::new(),
    };
    Reach::Rank(match join.join_type {
        Inner => &columns(left, 0) | &columns(right, width),
        Left | LeftSemi | LeftAnti | LeftMark => columns(left, 0),
        Right => columns(right, width),
        RightSemi | RightAnti | RightMark => columns(right, 0),
        Full => BTreeSet::new(),
    })
}

/// Of the rows of several queries.
fn together(inputs: Vec<Reach>) -> Reach {
    let mut all: Option<Reach> = None;
    for input in inputs {
        all = Some(match (all, input) {
            (None, input) => input,
            (Some(Reach::Nothing), Reach::Nothing) => Reach::Nothing,
            (Some(Reach::Rank(a)), Reach::Rank(b)) => Reach::Rank(&a & &b),
            _ => Reach::Run,
        });
    }
    all.unwrap_or(Reach::Nothing)
}
