//! Queries of users, of rules and of this program over a session.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use arrow::compute::concat_batches;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::LogicalPlan;
use trace_model::RecordBatch;
use trace_model::tables::find;

use super::{Session, non_empty};
use crate::cancellation::{Cancellation, Timer};
use crate::error::{Error, Result, UnknownRelation};
use crate::execution::{collect_first_rows, collect_rows, collect_within_limit};
use crate::parallel::per_item;
use crate::plan::query_limits::{self, QueryOrigin};
use crate::plan::references::References;
use crate::prepared::PreparedQuery;
use crate::provider::{parse, read_only};
use crate::query_error::{self, KnownNames};
use crate::view::ViewDef;

/// Tables that a query of a user reads with its common table expressions inlined, as DataFusion does, which takes some
/// milliseconds for each. Of queries that read more, those that are mentioned repeatedly are computed once.
const MAX_INLINED_RELATIONS: u64 = 200;

/// The first rows of a query, see [`Session::first_rows`].
#[derive(Debug)]
pub struct FirstRows {
    /// At least one batch, so that the schema is known.
    pub batches: Vec<RecordBatch>,
    /// Whether the query returns more.
    pub is_cut: bool,
}

impl Session {
    /// The rows of a query over tables and views. `$name` stands for the value of a parameter. Queries
    /// that would change anything are refused. There is at least one batch, so that the schema is known.
    pub fn sql(&self, query: &str) -> Result<Vec<RecordBatch>> {
        self.sql_unless(&Cancellation::new(), query)
    }

    /// As [`Session::sql`], but returns [`Error::Canceled`] as soon as the query is canceled. What it computes ends at
    /// the next batch of rows; a view in Rust is computed to the end.
    pub fn sql_unless(&self, cancellation: &Cancellation, query: &str) -> Result<Vec<RecordBatch>> {
        query_limits::check(query, QueryOrigin::User).map_err(Error::Query)?;
        self.read_relations(cancellation, query, QueryOrigin::User, None)?;
        self.run(cancellation, query, QueryOrigin::User, None)
    }

    /// As [`Session::sql`], for queries that come with the program and are known to run well. They are planned as views
    /// are, in half the time, without DataFusion's rules for forms of SQL that views do not use.
    ///
    /// # Errors
    /// As [`Session::sql`].
    pub fn program_sql(&self, query: &str) -> Result<Vec<RecordBatch>> {
        let cancellation = Cancellation::new();
        let prepared = self.engine.run.find_prepared_text(query);
        self.read_relations(&cancellation, query, QueryOrigin::Program, prepared)?;
        self.run(&cancellation, query, QueryOrigin::Program, prepared)
    }

    /// As [`Session::sql`], for the query of a rule file, which may come from a stranger: functions that make rows from
    /// nothing and recursion are refused, and time and memory are limited. The time of the views that it reads does not
    /// count where they are computed for others, too.
    ///
    /// # Errors
    /// As [`Session::sql`], and [`Error::TimeLimit`].
    pub fn rule_sql(&self, query: &str) -> Result<Vec<RecordBatch>> {
        let prepared = self.engine.run.find_prepared_text(query);
        // A query with a prepared plan comes with the program.
        if prepared.is_none() {
            query_limits::check(query, QueryOrigin::Rule).map_err(Error::Query)?;
        }
        let limit = self.rule_time_limit;
        if self.slow_rules_left.load(Relaxed) == 0 {
            return Err(Error::TimeLimit(limit));
        }
        self.read_relations(&Cancellation::new(), query, QueryOrigin::Rule, prepared)?;
        let timer = Timer::start(limit)?;
        match self.run(&timer.expiry, query, QueryOrigin::Rule, prepared) {
            Err(Error::Canceled) if timer.expiry.is_requested() => {
                let one_less = |left: usize| left.checked_sub(1);
                let _ = self.slow_rules_left.fetch_update(Relaxed, Relaxed, one_less);
                Err(Error::TimeLimit(limit))
            }
            outcome => outcome,
        }
    }

    /// The first `max_rows` rows of a query that a page sends, which ends when they are there. It has the limits of
    /// [`Session::rule_sql`]; its time includes that of the views that it reads.
    ///
    /// # Errors
    /// As [`Session::sql_unless`], and [`Error::TimeLimit`].
    pub fn first_rows(
        &self,
        cancellation: &Cancellation,
        query: &str,
        max_rows: usize,
    ) -> Result<FirstRows> {
        query_limits::check(query, QueryOrigin::Page).map_err(Error::Query)?;
        let (start, limit) = (Instant::now(), self.rule_time_limit);
        let _timer = Timer::start_for(cancellation.clone(), limit)?;
        match self.run_first_rows(cancellation, query, max_rows) {
            Err(Error::Canceled) if start.elapsed() >= limit => Err(Error::TimeLimit(limit)),
            outcome => outcome,
        }
    }

    fn run_first_rows(
        &self,
        cancellation: &Cancellation,
        query: &str,
        max_rows: usize,
    ) -> Result<FirstRows> {
        let origin = QueryOrigin::Page;
        self.read_relations(cancellation, query, origin, None)?;
        let plan = self.plan(cancellation, query, origin)?;
        let engine = Arc::clone(&self.engine);
        let rows = self.block_on_unless(cancellation, async move {
            collect_first_rows(&engine.state_for(origin), &plan, max_rows).await
        });
        let (rows, is_cut) = rows?.map_err(|e| self.query_error(query, e))?;
        Ok(FirstRows { batches: non_empty(rows), is_cut })
    }

    /// As [`Session::rule_sql`], for several queries, in their order. Over tables in memory they run at the same time, and
    /// share the cores within the time that each may take.
    pub fn rule_sql_of_each(&self, queries: &[&str]) -> Vec<Result<Vec<RecordBatch>>> {
        if self.concurrent_views == 1 {
            return queries.iter().map(|query| self.rule_sql(query)).collect();
        }
        let answers = per_item(queries.to_vec(), |query| self.rule_sql(query));
        // What did not fit beside others may fit alone.
        let alone = |(answer, query): (Result<_>, &&str)| match answer {
            Err(error) if error.is_out_of_memory() => self.rule_sql(query),
            answer => answer,
        };
        answers.into_iter().zip(queries).map(alone).collect()
    }

    /// Makes the views ready that a query reads.
    fn read_relations(
        &self,
        cancellation: &Cancellation,
        query: &str,
        origin: QueryOrigin,
        prepared: Option<&'static PreparedQuery>,
    ) -> Result<()> {
        let (engine, sql) = (Arc::clone(&self.engine), query.to_owned());
        let catalog = self.catalog;
        if let Some(prepared) = prepared {
            let ready = self.block_on_unless(cancellation, async move {
                let names = prepared.relations.iter();
                let views: Vec<_> = names.filter_map(|name| catalog.find(name)).collect();
                engine.prepare(&views, false).await?;
                engine.run.store_relations(prepared).await
            });
            return ready?.map_err(|e| self.query_error(query, e));
        }
        let ready = self.block_on_unless(cancellation, async move {
            let references = References::of(&parse(&engine.state_for(origin), &sql)?);
            let views: Vec<&'static ViewDef> = references
                .relations()
                .filter_map(|(name, count)| Some(std::iter::repeat_n(catalog.find(name)?, count)))
                .flatten()
                .collect();
            let exists = |name: &str| catalog.find(name).is_some() || find(name).is_some();
            if let Some((name, span)) = references.find_unknown(exists) {
                let unknown = UnknownRelation { name: name.to_owned(), span };
                return Err(DataFusionError::External(Box::new(unknown)));
            }
            engine.prepare(&views, false).await?;
            if matches!(origin, QueryOrigin::Rule | QueryOrigin::Page) {
                for view in views {
                    engine.run.make_ready(view).await?;
                }
            }
            Ok(())
        });
        ready?.map_err(|e| self.query_error(query, e))
    }

    /// Plans and runs a query, or runs its prepared plan.
    fn run(
        &self,
        cancellation: &Cancellation,
        query: &str,
        origin: QueryOrigin,
        prepared: Option<&'static PreparedQuery>,
    ) -> Result<Vec<RecordBatch>> {
        if let Some(prepared) = prepared
            && let Some(rows) = self.run_prepared(cancellation, query, origin, prepared)?
        {
            return Ok(rows);
        }
        if matches!(origin, QueryOrigin::Rule | QueryOrigin::Program) {
            self.engine.run.add_planned_query(query.to_owned());
        }
        let plan = self.plan(cancellation, query, origin)?;
        let engine = Arc::clone(&self.engine);
        let rows = self.block_on_unless(cancellation, async move {
            let state = engine.state_for(origin);
            let rows = match origin {
                QueryOrigin::User | QueryOrigin::Program => {
                    let mut cpu_time = Duration::ZERO;
                    collect_rows(&state, &plan, &mut cpu_time).await
                }
                QueryOrigin::Rule | QueryOrigin::Page => collect_within_limit(&state, &plan).await,
            };
            rows.map(non_empty)
        });
        rows?.map_err(|e| self.query_error(query, e))
    }

    /// Plans a query that only reads.
    fn plan(
        &self,
        cancellation: &Cancellation,
        query: &str,
        origin: QueryOrigin,
    ) -> Result<LogicalPlan> {
        let (engine, sql) = (Arc::clone(&self.engine), query.to_owned());
        let plan = self.block_on_unless(cancellation, async move {
            let state = engine.state_for(origin);
            let statement = parse(&state, &sql)?;
            let is_repetitive = query_limits::inlined_relations(&statement) > MAX_INLINED_RELATIONS;
            if origin == QueryOrigin::User && is_repetitive {
                let mut cpu_time = Duration::ZERO;
                let planned =
                    engine.run.materialize_ctes(&state, statement, &sql, &mut cpu_time, None);
                return Ok(planned.await?.0);
            }
            engine.run.plan(&state, statement, &sql).await
        });
        let plan = plan?.map_err(|e| self.query_error(query, e))?;
        read_only().verify_plan(&plan).map_err(|e| Error::NotReadOnly(e.strip_backtrace()))?;
        Ok(plan)
    }

    /// Runs the prepared plan of a query. Returns `None` if it has to be planned.
    fn run_prepared(
        &self,
        cancellation: &Cancellation,
        query: &str,
        origin: QueryOrigin,
        prepared: &'static PreparedQuery,
    ) -> Result<Option<Vec<RecordBatch>>> {
        let engine = Arc::clone(&self.engine);
        let rows = self.block_on_unless(cancellation, async move {
            let context = engine.state_for(origin).task_ctx();
            engine.run.run_prepared_text(prepared, &context).await
        });
        let rows = rows?.map_err(|e| self.query_error(query, e))?;
        Ok(rows.map(non_empty))
    }

    /// The rows of a query that comes with the program and returns `rank`, limited to some ranks; to none if `ranks` is
    /// empty. In one batch.
    pub fn rows_of_ranks(&self, sql: &str, ranks: &[i64]) -> Result<RecordBatch> {
        let batches = self.program_sql(&limited_to_ranks(sql, ranks))?;
        let schema = batches[0].schema();
        concat_batches(&schema, &batches).map_err(|e| self.error(e.into()))
    }

    /// As [`Session::rows_of_ranks`], for the query of a rule file, see [`Session::rule_sql`].
    pub fn rule_rows_of_ranks(&self, sql: &str, ranks: &[i64]) -> Result<RecordBatch> {
        let batches = self.rule_sql(&limited_to_ranks(sql, ranks))?;
        let schema = batches[0].schema();
        concat_batches(&schema, &batches).map_err(|e| self.error(e.into()))
    }

    /// The error of a query of the user, or of the view that failed.
    fn query_error(&self, sql: &str, error: DataFusionError) -> Error {
        match self.error(error) {
            Error::Engine(error) => {
                let state = self.engine.user_context.state();
                let names = KnownNames { catalog: self.catalog, state: &state };
                Error::Query(Box::new(query_error::explain(&error, sql, &names)))
            }
            error => error,
        }
    }
}

/// A query limited to some ranks; to none if `ranks` is empty.
fn limited_to_ranks<'q>(sql: &'q str, ranks: &[i64]) -> Cow<'q, str> {
    if ranks.is_empty() {
        return Cow::Borrowed(sql);
    }
    let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    let inner = sql.trim().trim_end_matches(';');
    Cow::Owned(format!("SELECT * FROM (\n{inner}\n) WHERE rank IN ({})", ranks.join(", ")))
}
