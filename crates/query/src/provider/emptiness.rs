//! Finds views that have no rows because what they read has none. Nothing else that such a view reads is computed.

use std::collections::HashSet;

use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;

use super::ViewSchemaProvider;
use crate::plan::empty_queries;
use crate::stored_rows::StoredRows;
use crate::view::ViewDef;

impl ViewSchemaProvider {
    /// The schema of a query of a view, if it has no rows because what it reads has none. `None` also if the schema is
    /// not known without a plan; `name` is its name among the schemas of the catalog.
    pub(super) async fn schema_if_empty(
        &self,
        state: &SessionState,
        view: &'static ViewDef,
        name: &str,
        query: &Statement,
    ) -> Result<Option<SchemaRef>> {
        let Some(schema) = self.catalog.known_schema(name) else { return Ok(None) };
        let names = EmptyRelations { provider: self, state };
        let is_empty = empty_queries::has_no_rows(query, &EmptyTables(names)) || {
            // Planning would compute these, too.
            self.compute_stored_needs(view).await?;
            empty_queries::has_no_rows(query, &names)
        };
        Ok(is_empty.then_some(schema))
    }

    /// Computes the rows that a view reads, also through views that become part of its plan.
    pub(super) async fn compute_stored_needs(&self, view: &'static ViewDef) -> Result<()> {
        let mut seen: HashSet<&str> = HashSet::new();
        let mut stack = vec![view];
        while let Some(view) = stack.pop() {
            for need in view.needs.iter().filter_map(|need| self.catalog.find(need)) {
                if self.is_stored(need) {
                    Box::pin(self.stored(need)).await?;
                } else if seen.insert(&need.name) {
                    stack.push(need);
                }
            }
        }
        Ok(())
    }

    /// Returns whether a view that becomes part of a plan has no rows because of what it reads.
    pub(super) async fn is_empty_inlined(
        &self,
        state: &SessionState,
        view: &'static ViewDef,
    ) -> Result<bool> {
        let query = self.query(state, view)?;
        Ok(self.schema_if_empty(state, view, &view.name, &query).await?.is_some())
    }

    /// Returns whether a table or the rows of a view are empty.
    pub(super) async fn is_empty_relation(&self, name: &str) -> Result<bool> {
        match self.catalog.find(name) {
            Some(view) => Ok(Box::pin(self.stored(view)).await?.is_empty()),
            None => Ok(self.is_empty_table(name)),
        }
    }

    pub(super) fn is_empty_table(&self, name: &str) -> bool {
        self.tables.contains_key(name) && !self.filled_tables.contains(name)
    }

    /// Returns whether the query of a view in SQL has no rows because of relations that are empty.
    fn is_empty_view(
        &self,
        state: &SessionState,
        view: &ViewDef,
        names: &dyn empty_queries::Names,
    ) -> bool {
        view.rust.is_none()
            && self.query(state, view).is_ok_and(|query| empty_queries::has_no_rows(&query, names))
    }
}

/// The relations that are known to be empty before views are computed: tables, and views that read them.
struct EmptyTables<'a>(EmptyRelations<'a>);

impl empty_queries::Names for EmptyTables<'_> {
    fn is_empty_relation(&self, name: &str) -> bool {
        let EmptyRelations { provider, state } = self.0;
        let Some(view) = provider.catalog.find(name) else { return provider.is_empty_table(name) };
        let lacks_tables = &provider.cell(view).lacks_tables;
        *lacks_tables.get_or_init(|| provider.is_empty_view(state, view, self))
    }

    fn is_aggregate(&self, name: &str) -> bool {
        self.0.is_aggregate(name)
    }
}

/// The relations that are known to be empty once the views are computed that a query reads.
#[derive(Clone, Copy)]
struct EmptyRelations<'a> {
    provider: &'a ViewSchemaProvider,
    state: &'a SessionState,
}

impl empty_queries::Names for EmptyRelations<'_> {
    fn is_empty_relation(&self, name: &str) -> bool {
        let Self { provider, state } = *self;
        let Some(view) = provider.catalog.find(name) else {
            return EmptyTables(*self).is_empty_relation(name);
        };
        match provider.cell(view).stored.get() {
            Some(stored) => stored.as_ref().is_ok_and(StoredRows::is_empty),
            None => provider.is_empty_view(state, view, self),
        }
    }

    fn is_aggregate(&self, name: &str) -> bool {
        self.state.aggregate_functions().contains_key(name)
    }
}

/// Relations of which one is empty, with the views that are part of plans.
pub(super) struct OneEmpty<'a> {
    pub(super) name: &'a str,
    pub(super) provider: &'a ViewSchemaProvider,
    pub(super) state: &'a SessionState,
}

impl empty_queries::Names for OneEmpty<'_> {
    fn is_empty_relation(&self, name: &str) -> bool {
        let Self { provider, state, .. } = *self;
        name == self.name
            || provider.catalog.find(name).is_some_and(|view| {
                !provider.is_stored(view) && provider.is_empty_view(state, view, self)
            })
    }

    fn is_aggregate(&self, name: &str) -> bool {
        self.state.aggregate_functions().contains_key(name)
    }
}
