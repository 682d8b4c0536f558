//! Collectives: one entry each per rank, matched across ranks, with who waited for whom.
//!
//! `units` makes one collective of all that a trace says about it, `matches` finds its counterparts on
//! other ranks, `clocks` compares their ends, `judge` says who was late, `phases` and `spent` where the time went.
//! All of it is linear in ranks times collectives, sorting aside.

mod clocks;
pub(crate) mod collectives;
mod judge;
mod load;
mod matches;
mod names;
mod phases;
pub(crate) mod spent;
pub(crate) mod stragglers;
mod units;
pub(crate) mod views;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod unit_tests;
