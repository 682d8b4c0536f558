//! Makes the plans that come with a catalog.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::DATAFUSION_VERSION;
use datafusion::error::Result as PlanResult;
use prost::Message as _;
use trace_model::TableSet;

use super::{Engine, Session, Tables};
use crate::catalog::Catalog;
use crate::error::Result;
use crate::params::Params;
use crate::prepared::{PreparedFile, PreparedQuery};
use crate::provider::{PlanSource, ViewQuery};
use crate::view::{ViewDef, in_view};

/// Views that are computed together, each as often as it is read.
#[derive(Debug, Clone, Copy)]
pub struct ViewUse<'a> {
    /// Views whose rows are read, as in [`Session::metric_tables`].
    pub views: &'a [&'a str],
    /// Views that later queries read, as in [`Session::expect`].
    pub later: &'a [&'a str],
}

/// Plans the queries that these uses of views run, for [`Catalog::with_prepared_plans`], and `texts`: other queries of the
/// program and its rules, which read the rows of views. All views should have rows over `tables`. Each of `sparse` lacks some
/// kinds of data: runs that lack the same, and maybe more, get shorter plans, which leave out what reads them.
///
/// The planner orders some of the columns that it adds for joins at random. `previous` is an earlier result, or empty:
/// plans that differ from it only in this are those of the earlier result, so that nothing changes as long as the views
/// and the tables do not.
///
/// # Errors
/// If a view does not exist or fails, a plan cannot be written and read again, or `previous` has another format.
pub fn prepare_plans(
    catalog: &'static Catalog,
    tables: &TableSet,
    sparse: &[TableSet],
    uses: &[ViewUse<'_>],
    texts: &[&str],
    previous: &[u8],
) -> Result<Vec<u8>> {
    let previous = PreparedFile::read(Bytes::copy_from_slice(previous))?;
    let mut queries: Vec<PreparedQuery> = Vec::new();
    let mut add = |recorded: Vec<PreparedQuery>| {
        for query in recorded {
            if !queries.iter().any(|other| other.is_equivalent(&query)) {
                let mut earlier = previous.queries.iter();
                let earlier = earlier.find(|earlier| earlier.is_equivalent(&query)).cloned();
                queries.push(earlier.unwrap_or(query));
            }
        }
    };
    let open = |tables: &TableSet| {
        let (tables, params) = (Tables::Loaded(tables.clone()), Params::default());
        Session::open_with(catalog, &tables, None, &params, PlanSource::Recorded)
    };
    let runs = std::iter::once((tables, false)).chain(sparse.iter().map(|tables| (tables, true)));
    let runs =
        runs.flat_map(|(tables, is_sparse)| uses.iter().map(move |of| (tables, is_sparse, of)));
    for (tables, is_sparse, ViewUse { views, later }) in runs {
        let session = open(tables)?;
        session.expect(later)?;
        let definitions = |names: &[&str]| {
            names.iter().map(|name| catalog.get(name)).collect::<Result<Vec<&'static ViewDef>>>()
        };
        let (views, later) = (definitions(views)?, definitions(later)?);
        let engine = Arc::clone(&session.engine);
        let recorded = session
            .block_on(async move { engine.record(catalog, &views, &later, is_sparse).await });
        add(recorded?.map_err(|e| session.error(e))?);
    }
    // Texts come after all views of the first use.
    let session = open(tables)?;
    let before = uses.first().map_or(&[][..], |first| first.views);
    session.metric_tables(before)?;
    let mut views: Vec<&'static ViewDef> = Vec::new();
    for text in texts {
        let (engine, sql) = (Arc::clone(&session.engine), (*text).to_owned());
        let recorded = session.block_on(async move { engine.run.record_text(&sql).await });
        add(recorded?.map_err(|e| session.error(e))?.into_iter().collect());
        views.extend(
            catalog.views_read_by(text).into_iter().flatten().filter_map(|v| catalog.find(v)),
        );
    }
    let engine = Arc::clone(&session.engine);
    let recorded =
        session.block_on(async move { engine.record(catalog, &[], &views, false).await });
    add(recorded?.map_err(|e| session.error(e))?);
    queries.sort_by(|a, b| a.name.cmp(&b.name).then(b.empty.len().cmp(&a.empty.len())));
    Ok(PreparedFile { engine_version: DATAFUSION_VERSION.to_owned(), queries }.encode_to_vec())
}

impl Engine {
    async fn record(
        &self,
        catalog: &'static Catalog,
        views: &[&'static ViewDef],
        later: &[&'static ViewDef],
        is_sparse: bool,
    ) -> PlanResult<Vec<PreparedQuery>> {
        self.prepare(views, true).await?;
        for view in views {
            self.run.rows(view).await?;
        }
        for view in later {
            self.run.make_ready(view).await?;
        }
        let mut queries = Vec::new();
        for view in catalog.dependency_closure(&[views, later].concat()) {
            let is_wanted = views.iter().any(|wanted| wanted.name == view.name);
            if is_wanted || self.run.is_computed(view) {
                for query in ViewQuery::of(view) {
                    let recorded = self.run.record(query, is_sparse).await;
                    queries.extend(recorded.map_err(|e| in_view(view, e))?);
                }
            }
        }
        Ok(queries)
    }
}
