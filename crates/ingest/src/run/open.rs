//! A run that was looked at, but not read yet: how large it is decides how it is read.

use std::sync::Arc;

use trace_model::Dataset;

use crate::error::Error;
use crate::export::Export;
use crate::location::Location;
use crate::run::{self, Run};
use crate::{Options, Progress};

/// A run whose files were found: traces, or an export.
#[derive(Debug)]
pub struct Opened(Inner);

#[derive(Debug)]
enum Inner {
    Traces(Box<Run>),
    Export(Arc<Export>),
}

/// Looks at what is at a location.
///
/// # Errors
/// If it cannot be read, holds no trace, or is an export that this version cannot read.
pub fn open(run: &Location, options: &Options) -> Result<Opened, Error> {
    let mut run = run::find(run, options)?;
    Ok(Opened(match run.found.export.take() {
        Some((folder, manifest)) => {
            Inner::Export(Arc::new(Export::at(folder, &manifest, &run.name)?))
        }
        None => Inner::Traces(Box::new(run)),
    }))
}

impl Opened {
    /// The export, if it is one.
    pub fn export(&self) -> Option<&Arc<Export>> {
        match &self.0 {
            Inner::Traces(_) => None,
            Inner::Export(export) => Some(export),
        }
    }

    /// Bytes that its tables take in memory: known of exports, estimated from the length of traces.
    pub fn table_bytes(&self) -> u64 {
        match &self.0 {
            Inner::Export(export) => export.table_bytes(),
            Inner::Traces(run) => {
                let json_bytes: u64 = run.found.traces.iter().map(|t| t.json_bytes).sum();
                json_bytes / 100 * TABLE_PCT
            }
        }
    }

    /// Whether it is one trace alone, of one rank then.
    pub fn is_one_trace(&self) -> bool {
        matches!(&self.0, Inner::Traces(run) if run.found.traces.len() == 1)
    }

    /// Reads all of it.
    ///
    /// # Errors
    /// As [`crate::read_run`].
    pub fn read(self, options: &Options, progress: &dyn Progress) -> Result<Dataset, Error> {
        match self.0 {
            Inner::Traces(run) => run::read(*run, options, progress),
            Inner::Export(export) => export.read(),
        }
    }
}

/// Percent of the bytes of JSON that tables take.
const TABLE_PCT: u64 = 60;
