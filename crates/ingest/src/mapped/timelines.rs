//! The files of a run that can be mapped one by one.

use crate::error::Error;
use crate::formats::guess::Format;
use crate::run::discover::{FoundRun, InputFile};
use crate::run::plan::ReadPlan;

/// The files of a run that are timelines, most likely.
pub(super) fn timelines(found: &FoundRun) -> Result<Vec<&InputFile>, Error> {
    if found.files.export.is_some() {
        let reason = "it is an export, whose ranks can be read as they are";
        return Err(Error::NotMappable { path: found.name.clone(), reason: reason.to_owned() });
    }
    let plan = ReadPlan::new(&found.files.traces);
    let kind = match plan {
        _ if plan.reads_ranks_alone() => None,
        ReadPlan { joins_composer: true, .. } => Some("Composer"),
        ReadPlan { links_captures: true, .. } => Some("captures of graphs"),
        ReadPlan { .. } => Some("execution traces"),
    };
    if let Some(kind) = kind {
        return Err(needs_others(&found.name, kind));
    }
    Ok(found.files.traces.iter().filter(|file| file.format == Format::Kineto).collect())
}

/// The error of a run whose traces are complete only with files of this kind.
pub(super) fn needs_others(run: &str, kind: &str) -> Error {
    let reason = format!("it has files of {kind}, which traces need to be complete");
    Error::NotMappable { path: run.to_owned(), reason }
}
