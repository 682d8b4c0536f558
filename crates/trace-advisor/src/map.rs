//! Maps the ranks of a run: what each rank contributes to a check is computed by several processes, which know nothing of
//! each other, and kept for the one that checks the run.

use std::collections::BTreeSet;
use std::path::Path;

use advisor::RuleSet;
use analyses::catalog;
use ingest::{Location, MapSummary, Mapper, Progress, Shard, ViewRows};
use query::{Params, Session};
use trace_model::TableSet;

use crate::error::Error;

/// Options for mapping a run.
#[derive(Debug, Clone)]
pub struct MapOptions {
    /// Options for reading files.
    pub ingest: ingest::Options,
    /// The part of the run to map.
    pub shard: Shard,
    /// Views to compute besides those that rules read.
    pub views: &'static [&'static str],
}

impl Default for MapOptions {
    /// The whole run, with the views that rules read.
    fn default() -> Self {
        Self { ingest: ingest::Options::default(), shard: Shard::ALL, views: &[] }
    }
}

/// Converts the traces of a shard of a run to Parquet, and computes what they contribute to a check with these rules.
/// `to` is a folder, or the address of one in a store; all shards of a run have the same. Parameters of views have their
/// defaults. Traces that are there already
/// are skipped. [`OpenOptions::mapped`](crate::OpenOptions::mapped) reads the result.
///
/// # Errors
/// If the run cannot be read, its traces cannot be read one by one, or `to` cannot be written.
pub fn map(
    run: impl AsRef<Path>,
    to: impl AsRef<Path>,
    rules: &RuleSet,
    options: &MapOptions,
    progress: &dyn Progress,
) -> Result<MapSummary, Error> {
    let MapOptions { ingest, shard, views } = options;
    map_views(run, to, &mapped_views(rules, views)?, *shard, ingest, progress)
}

/// As [`map()`], with the views that [`mapped_views`] returns: rules stay where they are.
///
/// # Errors
/// As [`map()`], and if there is no such view.
pub fn map_views(
    run: impl AsRef<Path>,
    to: impl AsRef<Path>,
    views: &[&str],
    shard: Shard,
    options: &ingest::Options,
    progress: &dyn Progress,
) -> Result<MapSummary, Error> {
    let (run, to) = (Location::parse(run)?, Location::parse(to)?);
    let views = catalog().mappable_views(views)?;
    let mut mapper = Mapper::open(&run, &to, shard, options, &catalog().fingerprint())?;
    mapper.begin(progress);
    while let Some(group) = mapper.next_group(progress)? {
        let rows = view_rows(group.tables(), &views)?;
        mapper.publish(group, &rows)?;
    }
    Ok(mapper.summary())
}

/// The views whose rows [`map()`] computes for a check with these rules, and for `more` views.
///
/// # Errors
/// If there is no such view.
pub fn mapped_views(rules: &RuleSet, more: &[&'static str]) -> Result<Vec<&'static str>, Error> {
    let catalog = catalog();
    let mut read: BTreeSet<&str> = rules.views().into_iter().chain(more.iter().copied()).collect();
    // A query that is not valid fails when the run is checked, and says why.
    let queries = queries_of_check(rules);
    read.extend(queries.iter().filter_map(|query| catalog.views_read_by(query)).flatten());
    let read: Vec<&str> = read.into_iter().collect();
    Ok(catalog.mappable_views(&read)?)
}

/// The queries that a check with these rules runs besides those of views: for rules, and for time ranges and predictions of
/// findings. Sorted; some may be names of views.
pub fn queries_of_check(rules: &RuleSet) -> Vec<String> {
    let of_rules = rules.queries().into_iter().map(|query| query.sql);
    let follow_ups = rules.follow_up_queries().into_iter().map(str::to_owned);
    let of_retiming = what_if::retiming_queries().map(str::to_owned);
    let queries: BTreeSet<String> = of_rules.chain(follow_ups).chain(of_retiming).collect();
    queries.into_iter().collect()
}

/// The rows of views over the tables of some ranks. A view that fails is left out: the process that checks the run computes
/// it again, and says why.
fn view_rows(tables: &TableSet, views: &[&'static str]) -> Result<Vec<ViewRows>, Error> {
    let catalog = catalog();
    let session = Session::new(catalog, tables.clone(), &Params::default())?;
    let rows = session.view_rows(views)?;
    let rows = views.iter().zip(rows).filter_map(|(&view, batches)| {
        let batches = batches.ok()?;
        let schema = batches.first()?.schema();
        schema.column_with_name("rank")?;
        let is_schema_known = catalog.is_schema_known(view);
        Some(ViewRows { view: view.to_owned(), schema, batches, is_schema_known })
    });
    Ok(rows.collect())
}
