//! The program and the facade from outside: transcripts of commands, formats, the cache, exports, runs in object
//! stores, comparisons, and the rules that the source itself has to keep.
//!
//! Tests that need more than this repository are ignored with the reason; `-- --include-ignored` runs them, and they
//! fail if what they need is missing.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod baseline;
mod cache;
mod cli;
#[cfg(feature = "cloud")]
mod cloud;
mod command_line;
mod compiled;
mod configuration;
mod cpu_programs;
mod critical;
mod cut;
mod damage;
mod demo;
mod diff;
mod distributed;
mod export;
mod faults;
mod first_screen;
mod flight_recorder;
mod formats;
mod formats_page;
mod fuzz;
mod hardware_counters;
mod import_cycles;
mod incomplete_recordings;
mod layering;
mod manifests;
mod mapped;
mod memory_owners;
mod memory_snapshots;
mod metamorphic;
mod one_build;
mod open;
mod outputs;
mod page;
mod parallelism;
mod perfetto;
mod pftrace;
mod pipelines;
mod policy;
mod printed_commands;
#[cfg(unix)]
mod private_files;
mod progress;
#[cfg(unix)]
mod record;
#[cfg(target_os = "linux")]
mod rule_budgets;
mod runs;
#[cfg(all(unix, feature = "shell"))]
mod shell;
mod slices;
#[cfg(target_os = "linux")]
mod soak;
mod supply_chain;
#[path = "../support/mod.rs"]
mod support;
mod timeline;
mod training_modes;
mod trust;
mod two_writers;
mod watch;
mod writers;
