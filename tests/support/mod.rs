//! Helpers that both test programs use. The tests of the crate `cluster` include `ports.rs`, too.
#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod corpus;
pub(crate) mod critical;
pub(crate) mod export;
pub(crate) mod manifest;
pub(crate) mod ports;
pub(crate) mod preview;
#[cfg(unix)]
pub(crate) mod process;
pub(crate) mod rows;
pub(crate) mod sandbox;
pub(crate) mod slice;
