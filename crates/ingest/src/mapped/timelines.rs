//! The files of a run that can be mapped one by one.

use crate::error::Error;
use crate::run::discover::{FoundRun, InputFile};
use crate::run::plan::ReadPlan;

/// The files of a run that are timelines, most likely.
pub(super) fn timelines(found: &FoundRun) -> Result<Vec<&InputFile>, Error> {
    if found.files.export.is_some() {
        let reason = "it is an export, whose ranks can be read as they are";
        return Err(Error::NotMappable { path: found.name.clone(), reason: reason.to_owned() });
    }
    let plan = ReadPlan::new(&found.files.traces);
    if !plan.reads_ranks_alone() {
        let files = plan.waits_for.map_or("captures of graphs", |kind| kind.files);
        return Err(needs_others(&found.name, files));
    }
    Ok(found.files.traces.iter().filter(|file| file.is_rank_timeline()).collect())
}

/// The error of a run whose traces are complete only with these other files.
pub(super) fn needs_others(run: &str, files: &str) -> Error {
    let reason = format!("it has {files}, without which timelines are not complete");
    Error::NotMappable { path: run.to_owned(), reason }
}
