//! Runs the plans that come with a catalog.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use datafusion::error::Result;
use datafusion::execution::TaskContext;

use super::view_query::ViewQuery;
use super::{PlanSource, ViewSchemaProvider, text_digest};
use crate::error::is_out_of_memory;
use crate::execution::{run_prepared_plan, within_limit};
use crate::prepared::{self, InlinedView, PreparedQuery, RelationReader};
use crate::stored_rows::{Rows, StoredRows};

impl ViewSchemaProvider {
    /// The prepared plans of a query of this program or of its rules, if this run can use them.
    pub(crate) fn find_prepared_text(&self, sql: &str) -> Option<&'static PreparedQuery> {
        self.find_prepared(&prepared::text_name(sql), sql, || text_digest(sql)).first().copied()
    }

    /// Runs the plans that [`Self::find_prepared_text`] returned, within the memory of a context. Returns `None` if only the
    /// planner knows what to do.
    pub(crate) async fn run_prepared_text(
        &self,
        prepared: &PreparedQuery,
        context: &Arc<TaskContext>,
    ) -> Result<Option<Rows>> {
        let mut cpu_time = Duration::ZERO;
        let rows = self.run_plans(prepared, context, &mut cpu_time).await?;
        rows.map(|rows| within_limit(context, rows)).transpose()
    }

    /// Computes the rows of views that a prepared query reads.
    pub(crate) async fn store_relations(&self, prepared: &PreparedQuery) -> Result<()> {
        for name in &prepared.relations {
            self.relation(name).await?;
        }
        Ok(())
    }

    /// Runs the prepared plans of a query. Returns `None` if the catalog has no plans that fit this run.
    pub(super) async fn run_prepared(
        &self,
        query: ViewQuery,
        cpu_time: &mut Duration,
    ) -> Result<Option<Rows>> {
        let candidates = self.find_prepared(&query.name(), query.text(), || query.digest());
        let Some(&prepared) = candidates.first() else { return Ok(None) };
        if self.lacks_rows(prepared).await?
            && let Some(schema) = self.catalog.known_schema(&query.name())
        {
            return Ok(Some(Rows { schema, batches: Vec::new() }));
        }
        let Some(prepared) = self.first_fitting(&candidates).await? else { return Ok(None) };
        let state = self.state()?;
        let context = self.context.get_or_init(|| state.task_ctx());
        let rows = self.run_plans(prepared, context, cpu_time).await?;
        // A plan that leaves out relations may return columns that are not nullable; the known schema holds for all runs.
        let schema =
            self.catalog.known_schema(&query.name()).filter(|_| !prepared.empty.is_empty());
        Ok(match (rows, schema) {
            (Some(rows), Some(schema)) => rows.with_schema(schema).ok(),
            (rows, _) => rows,
        })
    }

    /// Runs the plans of a query. Returns `None` if only the planner knows what to do.
    async fn run_plans(
        &self,
        prepared: &PreparedQuery,
        context: &Arc<TaskContext>,
        cpu_time: &mut Duration,
    ) -> Result<Option<Rows>> {
        let mut reader = RelationReader::new(self.state()?, Arc::clone(context));
        for name in &prepared.relations {
            reader.tables.insert(name.clone(), self.relation(name).await?);
        }
        let mut rows = None;
        for (step, plan) in prepared.plans.iter().enumerate() {
            let start = Instant::now();
            let plan = reader.read_executable(plan);
            *cpu_time += start.elapsed();
            // Columns have other types.
            let Ok(plan) = plan else { return Ok(None) };
            match run_prepared_plan(context, plan, cpu_time).await {
                // The planner knows joins that take less memory.
                Err(error) if is_out_of_memory(&error) => return Ok(None),
                outcome => {
                    let outcome = StoredRows::Memory(outcome?);
                    reader.tables.insert(prepared::step_name(step), outcome.table(&[])?);
                    rows = Some(outcome.collect()?);
                }
            }
        }
        Ok(rows)
    }

    /// Finds the prepared plans of a query that inline only views that this session inlines, too.
    fn find_prepared(
        &self,
        name: &str,
        text: &str,
        digest: impl FnOnce() -> Bytes,
    ) -> Vec<&'static PreparedQuery> {
        if self.plan_source != PlanSource::Prepared || self.mentions_changed_param(text) {
            return Vec::new();
        }
        let candidates = self.catalog.prepared_plans(name);
        if candidates.is_empty() {
            return Vec::new();
        }
        let digest = digest();
        let is_inlined = |inlined: &InlinedView| {
            self.catalog.find(&inlined.name).is_some_and(|view| {
                !self.is_stored(view)
                    && !self.mentions_changed_param(&view.text)
                    && ViewQuery::of_sql(view).digest() == inlined.digest
            })
        };
        let fits = |prepared: &&PreparedQuery| {
            prepared.digest == digest && prepared.inlined.iter().all(is_inlined)
        };
        candidates.iter().filter(fits).collect()
    }

    /// Returns whether a query mentions a parameter whose value is not the default.
    fn mentions_changed_param(&self, text: &str) -> bool {
        self.changed_placeholders.iter().any(|placeholder| text.contains(placeholder.as_str()))
    }

    /// The first of the plans of a query for which the relations that they leave out have no rows.
    async fn first_fitting(
        &self,
        candidates: &[&'static PreparedQuery],
    ) -> Result<Option<&'static PreparedQuery>> {
        let may_be_empty =
            |name: &String| self.catalog.find(name).is_some() || self.is_empty_table(name);
        for prepared in candidates {
            // Tables come first: views may have to be computed.
            let mut fits = prepared.empty.iter().all(may_be_empty);
            for name in &prepared.empty {
                fits = fits && self.is_empty_relation(name).await?;
            }
            if fits {
                return Ok(Some(prepared));
            }
        }
        Ok(None)
    }

    /// Returns whether a relation that the query needs is empty, so that the query returns no rows.
    async fn lacks_rows(&self, prepared: &PreparedQuery) -> Result<bool> {
        if prepared.indispensable.iter().any(|name| self.is_empty_table(name)) {
            return Ok(true);
        }
        for name in &prepared.indispensable {
            if self.is_empty_relation(name).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
