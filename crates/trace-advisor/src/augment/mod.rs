//! The traces of a run with what was found out about them, for trace viewers: counters, the critical
//! path, findings. This says what is added; `ingest` knows how a trace is written.

mod counters;
mod critical_path;
mod findings;
mod lanes;
mod rows;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use advisor::Report;
use ingest::{Copy, EventWriter, Packing};
use trace_model::{Source, Warning};

use self::counters::Counters;
use self::critical_path::CriticalPath;
use self::findings::Findings;
use self::lanes::Lanes;
use crate::{Error, Run};

/// What to add to traces, and where to put them.
#[derive(Debug, Clone)]
pub struct Augmentation<'a> {
    /// Folder to write to; it is made if it is not there.
    pub folder: &'a Path,
    /// Counters: queue length of streams, bandwidth of copies, use of devices.
    pub counters: bool,
    /// The critical path, with arrows where it changes from one lane to another.
    pub critical_path: bool,
    /// Findings to mark.
    pub report: Option<&'a Report>,
    /// Whether copies are compressed.
    pub packing: Packing,
    /// Whether files that are in the way are replaced. The traces themselves never are.
    pub overwrite: bool,
}

/// A trace that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Augmented {
    /// Rank.
    pub rank: i32,
    /// Where it is.
    pub path: PathBuf,
    /// What was added.
    pub added: Added,
    /// What of the original could not be copied as it is.
    pub warnings: Vec<Warning>,
}

/// What was added to a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Added {
    /// Counter tracks.
    pub counters: usize,
    /// Values of counters.
    pub samples: usize,
    /// Segments of the critical path.
    pub segments: usize,
    /// Arrows along it.
    pub arrows: usize,
    /// Findings that concern the rank.
    pub findings: usize,
    /// Time ranges that show them.
    pub ranges: usize,
    /// Events in all.
    pub events: u64,
}

impl Run {
    /// Writes a copy of each trace of the run with tracks added to it. Every original event stays as
    /// it is, byte for byte.
    pub fn augment(&self, wanted: &Augmentation<'_>) -> Result<Vec<Augmented>, Error> {
        self.augment_some(wanted, |_| true)
    }

    /// The same for the trace of one rank; nothing if it has none.
    pub fn augment_rank(
        &self,
        rank: i32,
        wanted: &Augmentation<'_>,
    ) -> Result<Option<Augmented>, Error> {
        Ok(self.augment_some(wanted, |source| source.rank == rank)?.pop())
    }

    fn augment_some(
        &self,
        wanted: &Augmentation<'_>,
        is_wanted: impl Fn(&Source) -> bool,
    ) -> Result<Vec<Augmented>, Error> {
        self.needs_traces()?;
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
                source,
                folder: wanted.folder,
                packing: wanted.packing,
                overwrite: wanted.overwrite,
            };
            let (path, warnings) = ingest::copy_with(&copy, insert)?;
            Ok(Augmented { rank, path, added, warnings })
        };
        let sources = self.info().sources.iter().filter(|s| s.format == "kineto" && is_wanted(s));
        let sources: Vec<&Source> = sources.collect();
        side_by_side(&sources, |source| write(source))
    }
}

/// Applies `work` to all items on all cores; results come in order, and the first error wins.
fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let cores = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let next = AtomicUsize::new(0);
    let mut results: Vec<(usize, Result<R, Error>)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores)
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Vec::new();
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(item) = items.get(at) else { return done };
                        let result = work(item);
                        if result.is_err() {
                            next.store(items.len(), Ordering::Relaxed);
                        }
                        done.push((at, result));
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|w| w.join().expect("a worker that does not panic")).collect()
    });
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
