//! Makes the plans that come with a catalog, over a run that has rows for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use datafusion::error::Result;

use super::emptiness::OneEmpty;
use super::view_query::ViewQuery;
use super::{ViewSchemaProvider, parse, text_digest};
use crate::plan::empty_queries;
use crate::plan::references::References;
use crate::prepared::{self, InlinedView, PreparedQuery, Recording};
use crate::row_order::sort_plan;

impl ViewSchemaProvider {
    /// Makes the plans of a query of a view. The views that it reads should be computed if they are to be, and have rows.
    /// With `leave_out_empty`, the plans leave out relations without rows; returns `None` if the query then has no rows, or
    /// reads no such relation.
    pub(crate) async fn record(
        &self,
        query: ViewQuery,
        leave_out_empty: bool,
    ) -> Result<Option<PreparedQuery>> {
        self.compute_stored_needs(query.view).await?;
        let name = query.name().into_owned();
        self.record_sql((name, query.digest()), &query.sql(), query.order(), leave_out_empty).await
    }

    /// Makes the plans of a query of this program or of its rules, which reads the rows of views: they are computed.
    pub(crate) async fn record_text(&self, sql: &str) -> Result<Option<PreparedQuery>> {
        let statement = parse(&*self.state()?, sql)?;
        let names: Vec<String> =
            References::of(&statement).unqualified_relations().map(str::to_owned).collect();
        for view in names.iter().filter_map(|name| self.catalog.find(name)) {
            self.stored(view).await?;
        }
        self.record_sql((prepared::text_name(sql), text_digest(sql)), sql, &[], false).await
    }

    async fn record_sql(
        &self,
        (name, digest): (String, Bytes),
        sql: &str,
        order: &[String],
        leave_out_empty: bool,
    ) -> Result<Option<PreparedQuery>> {
        let state = self.state()?;
        let statement = parse(&state, sql)?;
        let (mut relations, mut inlined) = (BTreeSet::new(), BTreeMap::new());
        let mut names: Vec<String> =
            References::of(&statement).unqualified_relations().map(str::to_owned).collect();
        // Views that the planner takes for empty because of what they read, see `inline`.
        let mut empty_views = Vec::new();
        while let Some(name) = names.pop() {
            match self.catalog.find(&name) {
                Some(view) if !self.is_stored(view) => {
                    if leave_out_empty && self.is_empty_inlined(&state, view).await? {
                        empty_views.push(name.clone());
                    }
                    let digest = ViewQuery::of_sql(view).digest();
                    inlined.insert(name, InlinedView { name: view.name.clone(), digest });
                    names.extend(view.needs.iter().cloned());
                }
                _ => {
                    relations.insert(name);
                }
            }
        }
        let is_indispensable = |name: &&String| {
            let only = OneEmpty { name: name.as_str(), provider: self, state: &state };
            empty_queries::has_no_rows(&statement, &only)
        };
        let indispensable: Vec<String> =
            relations.iter().filter(is_indispensable).cloned().collect();
        let mut empty = Vec::new();
        if leave_out_empty {
            for name in &relations {
                if self.is_empty_relation(name).await? {
                    empty.push(name.clone());
                }
            }
            if empty.is_empty() || indispensable.iter().any(|name| empty.contains(name)) {
                return Ok(None);
            }
        }
        let mut recording =
            Recording::new(Arc::clone(&state), &[&empty[..], &empty_views].concat());
        for name in &relations {
            recording.add_table(name, self.relation(name).await?);
        }
        let mut cpu_time = Duration::ZERO;
        let (plan, _temp_tables) = self
            .materialize_ctes(&state, statement, sql, &mut cpu_time, Some(&mut recording))
            .await?;
        recording.add_plan(&sort_plan(plan, order)?).await?;
        relations.retain(|name| !empty.contains(name));
        Ok(Some(PreparedQuery {
            name,
            digest,
            relations: relations.into_iter().collect(),
            indispensable,
            inlined: inlined.into_values().collect(),
            plans: recording.into_plans(),
            empty,
        }))
    }
}
