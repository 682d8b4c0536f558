//! Copies of the traces of a run with counters, the critical path and findings added, for trace viewers.
//! The content is decided here; `ingest` writes the events.

mod added;
mod counters;
mod critical_path;
mod findings;
mod lanes;
mod rows;

use std::path::{Path, PathBuf};

use advisor::Report;
use ingest::{Copy, EventWriter, FileWork, Packing, Progress, RunReach};
use trace_model::{Source, Warning};

pub use self::added::Added;
use self::counters::Counters;
use self::critical_path::CriticalPath;
use self::findings::Findings;
use self::lanes::Lanes;
use crate::error::Error;
use crate::parallel_map::parallel_map;
use crate::pipeline::Run;

/// Tracks to add to traces, and the folder for the copies.
#[derive(Debug, Clone)]
pub struct Augmentation<'a> {
    /// Folder to write to; it is created if it does not exist.
    pub folder: &'a Path,
    /// Adds counters: queue length of streams, bandwidth of copies, utilization of GPUs.
    pub counters: bool,
    /// Adds the critical path, with arrows where it moves from one lane to another.
    pub critical_path: bool,
    /// Report whose findings are marked.
    pub report: Option<&'a Report>,
    /// Whether copies are compressed.
    pub packing: Packing,
    /// Existing files are overwritten. The original traces never are.
    pub overwrite: bool,
}

/// A copy of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Augmented {
    /// Rank.
    pub rank: i32,
    /// Path of the copy.
    pub path: PathBuf,
    /// Counts of added events.
    pub added: Added,
    /// Parts of the original that could not be copied unchanged.
    pub warnings: Vec<Warning>,
}

impl Run {
    /// Writes a copy of each trace of the run with added tracks. Every original event is copied byte for
    /// byte.
    pub fn augment(
        &self,
        wanted: &Augmentation<'_>,
        progress: &dyn Progress,
    ) -> Result<Vec<Augmented>, Error> {
        self.augment_some(wanted, progress, |_| true)
    }

    /// The same for the trace of one rank; `None` if the rank has no trace.
    pub fn augment_rank(
        &self,
        rank: i32,
        wanted: &Augmentation<'_>,
        progress: &dyn Progress,
    ) -> Result<Option<Augmented>, Error> {
        Ok(self.augment_some(wanted, progress, |source| source.rank == rank)?.pop())
    }

    fn augment_some(
        &self,
        wanted: &Augmentation<'_>,
        progress: &dyn Progress,
        is_wanted: impl Fn(&Source) -> bool,
    ) -> Result<Vec<Augmented>, Error> {
        self.needs_traces()?;
        let reach = RunReach::of(self.location(), wanted.folder)?;
        let lanes = Lanes::read(self)?;
        let counters = wanted.counters.then(|| Counters::read(self)).transpose()?;
        let path = wanted.critical_path.then(|| CriticalPath::read(self)).transpose()?;
        let findings = wanted.report.map(|report| Findings::read(self, report)).transpose()?;
        let write = |source: &Source| {
            let rank = source.rank;
            let mut added = Added::default();
            let insert = |out: &mut EventWriter<'_>| {
                let lanes = lanes.of(rank);
                if path.is_some() || findings.is_some() {
                    out.process(&lanes.own_process(), "Trace Advisor")?;
                }
                if let Some(path) = &path {
                    path.write(&lanes, out, &mut added)?;
                }
                if let Some(findings) = &findings {
                    findings.write(&lanes, out, &mut added)?;
                }
                if let Some(counters) = &counters {
                    counters.write(&lanes, out, &mut added)?;
                }
                added.events = out.events();
                Ok(())
            };
            let copy = Copy {
                run: self.location(),
                reach: &reach,
                source,
                folder: wanted.folder,
                packing: wanted.packing,
                overwrite: wanted.overwrite,
            };
            let (path, warnings) = ingest::copy_with(&copy, progress, insert)?;
            Ok(Augmented { rank, path, added, warnings })
        };
        let sources = self.info().sources.iter().filter(|s| s.format == "kineto" && is_wanted(s));
        let sources: Vec<&Source> = sources.collect();
        let json_bytes = sources.iter().map(|source| source.json_bytes).sum();
        progress.begin(FileWork { files: sources.len(), file_bytes: 0, json_bytes });
        parallel_map(&sources, |source| write(source))
    }
}
