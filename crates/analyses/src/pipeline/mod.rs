//! Pipeline parallelism: which rank computes which stage, its microbatches, and the time in which it computes none.
//!
//! `messages.sql` finds sends and receives, `microbatches.sql` the passes between them, `stages` orders the ranks,
//! `bubble.sql` adds up where each step goes, and `summary.sql` the mean step of each rank.

mod stages;
mod views;

pub(crate) use views::STAGES;
