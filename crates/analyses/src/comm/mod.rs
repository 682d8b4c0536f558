//! Collectives: one entry each per rank, matched across ranks, with who waited for whom.
//!
//! `units` makes one collective of all that a trace says about it, `matches` finds its counterparts on
//! other ranks, `clocks` compares their ends, `judge` says who was late, `phases` and `spent` where the time went.
//! All of it is linear in ranks times collectives, sorting aside.

mod calls;
mod clocks;
pub(crate) mod collectives;
mod load;
mod matches;
mod names;
pub(crate) mod phase_totals;
mod phases;
pub(crate) mod stragglers;
pub(crate) mod views;
mod wait_attribution;

#[cfg(test)]
mod call_tests;
#[cfg(test)]
mod tests;
