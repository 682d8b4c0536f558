//! Collectives: one row per collective and rank, matched across ranks, with the attribution of waiting time.
//!
//! `calls` merges the events of a collective, `matches` finds its counterparts on other ranks, `clocks` estimates
//! clock offsets from their ends, `wait_attribution` finds the rank that the others wait for, `phases` and
//! `phase_totals` where ranks spend their time. Apart from sorting, the cost is linear in ranks times collectives.

pub(crate) mod argument_text;
mod calls;
mod clocks;
pub(crate) mod collectives;
mod load;
mod matches;
pub(crate) mod phase_totals;
mod phases;
mod stragglers;
pub(crate) mod views;
mod wait_attribution;

#[cfg(test)]
mod call_tests;
#[cfg(test)]
mod tests;
