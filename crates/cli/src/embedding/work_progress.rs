//! The progress of reading and computing, for others to show.

use std::fmt;
use std::sync::Arc;

use trace_advisor::ingest::Progress;
use trace_advisor::query::ViewProgress;

use crate::progress::{ProgressLine, Stage, Work};

/// Follows the progress of one call. Clones follow the same call.
#[derive(Clone)]
pub struct WorkProgress(Arc<ProgressLine>);

impl WorkProgress {
    /// For a call that reads a run and computes views.
    pub fn of_check() -> Self {
        Self(Arc::new(ProgressLine::new(Stage::QUERY, false)))
    }

    /// For a call that reads two runs and compares them.
    pub fn of_diff() -> Self {
        Self(Arc::new(ProgressLine::new(Stage::DIFF, false)))
    }

    /// The stage at this moment; `None` before the first one.
    pub fn current(&self) -> Option<Work> {
        self.0.current()
    }

    pub(super) fn files(&self) -> &dyn Progress {
        self.0.files()
    }

    pub(super) fn views(&self) -> Arc<dyn ViewProgress> {
        self.0.views()
    }
}

impl fmt::Debug for WorkProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkProgress").field(&self.current()).finish()
    }
}
