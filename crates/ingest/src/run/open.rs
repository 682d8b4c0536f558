//! Opens a run without reading it: its size decides how it is read.

use std::sync::Arc;

use trace_model::Dataset;

use super::discover::{self, FoundRun};
use super::read;
use super::sink::InMemory;
use crate::error::Error;
use crate::input::location::Location;
use crate::options::{Options, Progress};
use crate::parquet::Export;

/// A run whose files were found: traces, or an export.
#[derive(Debug)]
pub struct RunHandle(Content);

#[derive(Debug)]
enum Content {
    Traces(Box<FoundRun>),
    Export(Arc<Export>),
}

/// Finds the files at a location.
///
/// # Errors
/// If the location cannot be read, holds no trace, or is an export that this version cannot read.
pub fn open(run: &Location, options: &Options) -> Result<RunHandle, Error> {
    let mut run = discover::find(run, options)?;
    Ok(RunHandle(match run.files.export.take() {
        Some((folder, manifest)) => {
            Content::Export(Arc::new(Export::at(folder, &manifest, &run.name)?))
        }
        None => Content::Traces(Box::new(run)),
    }))
}

/// The names of the timelines of a run, in order; their content is not read.
///
/// # Errors
/// If the location cannot be read, or holds no trace.
pub fn trace_names(run: &Location, options: &Options) -> Result<Vec<String>, Error> {
    let found = discover::find(run, options)?;
    if found.files.export.is_some() {
        return Err(Error::only_tables(found.name));
    }
    let is_timeline = |file: &discover::InputFile| file.importer.descriptor().is_timeline();
    let timelines = found.files.traces.into_iter().filter(is_timeline);
    Ok(timelines.map(|trace| trace.file).collect())
}

impl RunHandle {
    /// The export, if the run is one.
    pub fn export(&self) -> Option<&Arc<Export>> {
        match &self.0 {
            Content::Traces(_) => None,
            Content::Export(export) => Some(export),
        }
    }

    /// Bytes that the tables take in memory: exact for exports, estimated from the file size for traces.
    pub fn table_bytes(&self) -> u64 {
        match &self.0 {
            Content::Export(export) => export.table_bytes(),
            Content::Traces(run) => {
                let json_bytes: u64 = run.files.traces.iter().map(|t| t.json_bytes).sum();
                json_bytes / 100 * TABLE_PCT + run.files.traces.len() as u64 * FILE_TABLE_BYTES
            }
        }
    }

    /// Returns whether the run is a single trace, and thus of a single rank.
    pub fn is_one_trace(&self) -> bool {
        matches!(&self.0, Content::Traces(run) if run.files.traces.len() == 1)
    }

    /// Reads all files into memory.
    ///
    /// # Errors
    /// As [`crate::read_run`].
    pub fn read(self, options: &Options, progress: &dyn Progress) -> Result<Dataset, Error> {
        match self.0 {
            Content::Traces(run) => read::read(*run, options, progress, &mut InMemory),
            Content::Export(export) => export.read(),
        }
    }
}

/// Memory for the tables of a file, even if it contains a single event: 6,000 such files take 1.38 GB.
const FILE_TABLE_BYTES: u64 = 230 << 10;
/// Size of tables in percent of the JSON that they come from.
const TABLE_PCT: u64 = 60;
