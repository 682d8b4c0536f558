//! Loads the tables of a run: from memory, an export, or the cache.

use std::sync::Arc;

use analyses::catalog;
use ingest::{CacheEntry, DistinctRun, Export, Location, MappedRun, Progress, TemporaryFolder};
use query::Selection;
use trace_model::{Dataset, TableSource};

use crate::error::Error;
use crate::options::OpenOptions;

/// The tables of a run, or their source.
pub(crate) struct LoadedTables {
    pub(crate) dataset: Dataset,
    /// The source of the tables, if they are not in memory.
    pub(crate) source: Option<Arc<dyn TableSource>>,
    /// Whether the run itself is an export.
    pub(crate) is_export: bool,
    /// Temporary export that `source` reads.
    pub(crate) scratch: Option<TemporaryFolder>,
    /// Where to cache the tables, if that is worth it.
    pub(crate) cache_entry: Option<CacheEntry>,
}

/// Runs with less JSON than this are read as fast as their cached tables would be.
const MIN_CACHED_BYTES: u64 = 32 << 20;

impl LoadedTables {
    /// Loads the tables from the cache, an export, or the traces. A run above the memory limit is exported first.
    pub(crate) fn load(
        location: &Location,
        entry: Option<CacheEntry>,
        options: &OpenOptions,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        if let Some(from) = &options.mapped {
            return Self::mapped(location, &Location::parse(from)?, options, progress);
        }
        let cached = entry.as_ref().and_then(CacheEntry::tables);
        // Cached tables that cannot be read are ignored.
        if let Some(export) = cached
            && let Ok(loaded) = Self::from_export(export, location, options)
        {
            return Ok(loaded);
        }
        if let Some(runs) = entry.as_ref().and_then(known_runs) {
            let (path, folder) = (location.to_string(), location.root().to_string());
            return Err(ingest::Error::SeveralRuns { path, folder, runs }.into());
        }
        let opened = ingest::open(location, &options.ingest)?;
        if let Some(export) = opened.export() {
            let loaded = Self::from_export(Arc::clone(export), location, options)?;
            return Ok(Self { is_export: true, ..loaded });
        }
        // A single rank is not divided: it stays in memory as long as its tables leave any room.
        let fits = |limit| {
            let bytes = opened.table_bytes();
            query::fits_in_memory(bytes, limit) || (bytes <= limit && opened.is_one_trace())
        };
        if options.memory_bytes.is_none_or(fits) {
            let dataset = opened.read(&options.ingest, progress);
            let dataset = dataset.inspect_err(|error| remember_runs(entry.as_ref(), error))?;
            let json_bytes: u64 = dataset.run.sources.iter().map(|s| s.json_bytes).sum();
            let is_worth_it = options.selection.is_everything() && json_bytes >= MIN_CACHED_BYTES;
            let cache_entry = entry.filter(|_| is_worth_it);
            return Ok(Self { cache_entry, ..Self::in_memory(dataset, &options.selection)? });
        }
        // A run that has to be exported anyway is exported to the cache.
        if let Some(entry) = entry {
            match entry.export_tables(location, &options.ingest, progress) {
                Ok(export) => return Self::from_export(export, location, options),
                Err(error @ ingest::Error::SeveralRuns { .. }) => {
                    remember_runs(Some(&entry), &error);
                    return Err(error.into());
                }
                // The cache may be full or read-only.
                Err(_) => {}
            }
        }
        let (export, folder) = ingest::export_temporarily(location, &options.ingest, progress)?;
        let loaded = Self::from_export(export, location, options)?;
        Ok(Self { scratch: Some(folder), ..loaded })
    }

    /// The tables of an export: in memory if they fit, else read from the export.
    fn from_export(
        export: Arc<Export>,
        location: &Location,
        options: &OpenOptions,
    ) -> Result<Self, Error> {
        let selection = &options.selection;
        let fits = |limit| {
            let bytes = export.table_bytes();
            let is_divisible = || query::fits_rank_by_rank(export.as_ref(), limit);
            query::fits_in_memory(bytes, limit) || (bytes <= limit && !is_divisible())
        };
        if options.memory_bytes.is_none_or(fits) {
            let query_hint = options.query_hint.as_ref().filter(|_| selection.is_everything());
            let needed = query_hint.and_then(|text| catalog().tables_read_by(text));
            let mut dataset = match needed {
                Some(tables) => export.read_tables(&tables)?,
                None => export.read()?,
            };
            dataset.run.path = location.to_string();
            return Self::in_memory(dataset, selection);
        }
        let mut dataset = export.read_head()?;
        dataset.run.path = location.to_string();
        Self::scanned(dataset, export, selection)
    }

    /// The tables of a run whose ranks were mapped to `from`, read from there.
    fn mapped(
        location: &Location,
        from: &Location,
        options: &OpenOptions,
        progress: &dyn Progress,
    ) -> Result<Self, Error> {
        let views = catalog().fingerprint();
        let (dataset, source) = MappedRun::open(location, from, &options.ingest, &views, progress)?;
        Self::scanned(dataset, source, &options.selection)
    }

    /// Tables that are read from a source. `dataset` has the tables that are in memory.
    fn scanned(
        mut dataset: Dataset,
        mut source: Arc<dyn TableSource>,
        selection: &Selection,
    ) -> Result<Self, Error> {
        if !selection.is_everything() {
            (source, dataset.tables) = selection.over(source, &dataset.tables)?;
            selection.describe(&dataset.tables, &mut dataset.run);
            dataset.tables.take("steps");
        }
        Ok(Self {
            dataset,
            source: Some(source),
            is_export: false,
            scratch: None,
            cache_entry: None,
        })
    }

    fn in_memory(mut dataset: Dataset, selection: &Selection) -> Result<Self, Error> {
        if !selection.is_everything() {
            dataset.tables = selection.apply(&dataset.tables)?;
            selection.describe(&dataset.tables, &mut dataset.run);
        }
        Ok(Self { dataset, source: None, is_export: false, scratch: None, cache_entry: None })
    }
}

/// Name of the runs at one location in a cache entry.
const RUNS: &str = "runs";

/// The runs at the location, if an earlier reading found several.
fn known_runs(entry: &CacheEntry) -> Option<Vec<DistinctRun>> {
    postcard::from_bytes(&entry.load(RUNS, "")?).ok()
}

/// Caches which runs there are, so that the location need not be read to find out again.
fn remember_runs(entry: Option<&CacheEntry>, error: &ingest::Error) {
    if let (Some(entry), ingest::Error::SeveralRuns { runs, .. }) = (entry, error)
        && let Ok(bytes) = postcard::to_stdvec(runs)
    {
        // Without it, the location is read again.
        let _ = entry.store(RUNS, "", &bytes);
    }
}
