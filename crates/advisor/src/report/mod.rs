//! What is said about a run: the recording, findings, the plan and the conclusion.

pub(crate) mod breakdown;
pub(crate) mod finding;
pub(crate) mod general_title;
pub(crate) mod headline;
pub mod phrases;
pub(crate) mod plan;
pub(crate) mod recording;
#[expect(clippy::module_inception, reason = "the report itself")]
pub(crate) mod report;
