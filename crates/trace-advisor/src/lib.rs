//! Trace Advisor as a library: open a run, ask for findings.
//!
//! ```no_run
//! let rules = trace_advisor::default_rules();
//! let report = trace_advisor::Run::open("run/")?.check(&rules)?;
//! println!("{}", report.headline.text);
//! # Ok::<(), trace_advisor::Error>(())
//! ```
//!
//! One may stop earlier and keep the result: [`Run::tables`] are Arrow batches, [`Run::sql`] and
//! [`Run::analyze`] answer with Arrow batches too. The parts are re-exported, and so is [`arrow`],
//! in the version they speak. Nothing is printed, and nothing is read but the run.

mod augment;
mod check;
mod diff;
mod error;
mod pages;
mod pipeline;
mod rules;

pub use advisor;
pub use analyses;
pub use arrow;
pub use ingest;
pub use trace_model;

pub use advisor::{Report, RuleSet, RuleSource};
pub use augment::{Added, Augmentation, Augmented};
pub use check::{Checked, PendingCheck, check, open_check};
pub use diff::{compare_traces, diff, judge};
pub use error::Error;
pub use pages::{explain, rule_pages};
pub use pipeline::{Cost, OpenOptions, Run, Stage};
pub use rules::{default_rules, load_only, load_rules};
