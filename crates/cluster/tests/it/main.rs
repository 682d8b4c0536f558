//! The program `advisor-cluster` as users run it: a scheduler, executors and a client, each a process of its own.

mod errors;
mod faults;
mod reports;
mod storage;
mod support;
