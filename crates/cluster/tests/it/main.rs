//! The program `advisor-cluster` as users run it: a scheduler, executors and a client, each a process of its own.
//!
//! Tests that need more than this repository are ignored with the reason; `.ci/run` runs them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod errors;
mod exposure;
mod faults;
#[cfg(unix)]
mod files;
#[path = "../../../../tests/support/ports.rs"]
mod ports;
mod reports;
mod storage;
mod support;
