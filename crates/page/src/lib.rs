//! The report as one self-contained HTML page: where the step goes, what would bring how much, who is slow, and when.
//!
//! ```no_run
//! use page::Options;
//! use trace_advisor::{Run, default_rules};
//!
//! let run = Run::open("run/")?;
//! let report = run.check(&default_rules())?;
//! let html = page::report(&run, &report, &Options::default())?;
//! # Ok::<(), trace_advisor::Error>(())
//! ```
//!
//! The page opens from a file, without a network. Its content security policy allows the script and the style that it
//! contains, by their hashes, and nothing else. Its text comes from the [`Report`], its numbers from the views of the
//! run; the same run gives the same bytes. The crate reads and prints nothing itself. [`step_lanes`] gives what the timeline of a page
//! is drawn from to other drawings.

mod answer;
mod bar;
mod blocks;
mod canvas;
mod clean;
mod concurrent;
mod cutout;
mod diff;
mod document;
mod encode;
mod events;
mod finding_card;
mod findings;
mod head;
mod heat;
mod index;
mod limits;
mod moments;
mod panes;
mod queries;
mod sections;
mod step;
mod step_lanes;
mod timeline;
mod views;
mod words;

use trace_advisor::advisor::Comparison;
use trace_advisor::compare::Diff;
use trace_advisor::{Error, Report, Run};

pub use answer::{MAX_ANSWER_ROWS, answer, answer_of_error};
pub use document::Options;
pub use index::short_names;
pub use sections::Page;
pub use step_lanes::{Activity, DrawnFinding, Lane, LaneContent, Span, StepLanes, step_lanes};
pub use views::VIEWS;

/// The page of one run.
///
/// # Errors
/// If a view of the run cannot be computed.
pub fn report(run: &Run, report: &Report, options: &Options) -> Result<String, Error> {
    let mut page = Page::new(options);
    page.add(run, report)?;
    Ok(page.finish())
}

/// The page of several runs, with an index of their verdicts. [`Page`] adds them one by one, so that one run is in memory
/// at a time.
///
/// # Errors
/// If a view of a run cannot be computed.
pub fn reports(runs: &[(Run, Report)], options: &Options) -> Result<String, Error> {
    let mut page = Page::new(options);
    for (run, report) in runs {
        page.add(run, report)?;
    }
    Ok(page.finish())
}

/// The page of a comparison of two runs.
pub fn diff(
    before: &Run,
    after: &Run,
    diff: &Diff,
    comparison: &Comparison,
    options: &Options,
) -> String {
    diff::page(before, after, diff, comparison, options)
}
