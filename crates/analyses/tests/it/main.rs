//! Views on tiny runs written by hand, with expected values worked out on paper; the catalog and the session.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod catalog;
mod compile_views;
mod counter_views;
mod cpu_views;
mod device_views;
mod flight_views;
mod graph_views;
mod hardware_counter_views;
mod hta_views;
mod idle_views;
mod intervals;
mod lost_work_views;
mod mapped_views;
mod memory_file_views;
mod memory_views;
mod overview_views;
mod parallelism_views;
mod roofline_views;
mod rule_views;
mod run_views;
mod selection;
mod serving_views;
mod session;
mod source_views;
mod support;
mod trainer_views;
