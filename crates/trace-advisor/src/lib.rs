//! Trace Advisor as a library: open a run and get its findings.
//!
//! ```no_run
//! let rules = trace_advisor::default_rules();
//! let report = trace_advisor::Run::open("run/")?.check(&rules)?;
//! println!("{}", report.headline.text);
//! # Ok::<(), trace_advisor::Error>(())
//! ```
//!
//! Earlier stages are available too: [`Run::tables`], [`Run::sql`] and [`Run::analyze`] return Arrow
//! batches. The parts are re-exported, and so is [`arrow`], in the version they use. The crate prints
//! nothing and reads nothing but the run.

mod augment;
mod check;
mod cut;
mod diff;
mod error;
mod evaluate;
mod loaded_tables;
mod map;
mod options;
mod pages;
mod parallel_map;
mod pipeline;
mod rules;

pub use advisor;
pub use analyses;
pub use arrow;
pub use compare;
pub use ingest;
pub use query;
pub use trace_model;

pub use advisor::{Report, RuleSet, RuleSource};
pub use augment::{Added, Augmentation, Augmented};
pub use check::{Checked, PendingCheck, check, open_check};
pub use cut::{CutRank, CutRun, Cutting, cut};
pub use diff::{compare_traces, diff, evaluate_diff};
pub use error::Error;
pub use evaluate::Stage;
pub use map::{MapOptions, map, map_views, mapped_views, queries_of_check};
pub use options::OpenOptions;
pub use pages::{explain, rule_pages};
pub use pipeline::{Cost, Run};
pub use rules::{default_rules, load_only, load_rules, own_rule_queries};
