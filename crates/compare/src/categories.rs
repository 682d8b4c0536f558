//! The time of a step by category, before and after: on the host and on the device.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::run_totals::SelectedSteps;
use query::Result;
use query::Session;
use query::columns::{floats, ints, texts};

/// The group of a category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Time on the host; its categories add up to the step.
    Host,
    /// States of the devices of a rank; its categories add up to the step.
    Device,
    /// Causes of idle time of a device, per step, from the first complete step to the end of the last.
    Idle,
    /// Allocated memory.
    Memory,
}

/// One part of a step, mean over steps and ranks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Category {
    /// The group it belongs to.
    pub group: Group,
    /// Its name: `dataloader`, `forward`, `idle` ...
    pub name: &'static str,
    /// `ns` or `bytes`.
    pub unit: &'static str,
    /// Before.
    pub before: f64,
    /// After.
    pub after: f64,
    /// Difference over the change of the step; absent if the step hardly changed, and for quantities other than time.
    pub step_change_ratio: Option<f64>,
}

impl Category {
    /// Difference after minus before.
    pub fn diff(&self) -> f64 {
        self.after - self.before
    }

    /// The name in words: `loading data`, `exposed copies`.
    pub fn phrase(&self) -> &'static str {
        match (self.group, self.name) {
            (Group::Host, "dataloader") => "loading data",
            (Group::Host, "other") => "other work of the host",
            (Group::Host, TAIL) => "lag of the GPU",
            (Group::Device, "communication") => "exposed communication",
            (Group::Device, "memory") => "exposed copies",
            (Group::Idle, "dataloader") => "data loading",
            (Group::Idle, "sync") => "synchronization",
            (Group::Idle, "device_wait") => "waits on the GPU",
            (Group::Idle, "unattributed") => "no known cause",
            (Group::Memory, "peak_allocated") => "peak allocated",
            (Group::Memory, "peak_reserved") => "peak reserved",
            // The rest reads well as it is: forward, backward, optimizer, computation, idle, host.
            (_, name) => name,
        }
    }
}

/// Parts below this share of the largest one are summed up.
const SMALL_PART: f64 = 0.05;

/// Number of parts named in a sentence.
const MAX_PARTS: usize = 4;

/// The changes of a group that adds up to the step, largest first; small ones are summed up as `the rest`.
pub(super) fn largest_changes(categories: &[Category], group: Group) -> Vec<(&'static str, f64)> {
    let parts = categories.iter().filter(|c| c.group == group).map(|c| (c.phrase(), c.diff()));
    let mut parts: Vec<(&'static str, f64)> = parts.collect();
    parts.sort_by(|(_, x), (_, y)| y.abs().total_cmp(&x.abs()));
    let least = parts.first().map_or(0.0, |(_, most)| SMALL_PART * most.abs());
    let named = parts.iter().take_while(|(_, diff)| diff.abs() > least).count().min(MAX_PARTS);
    let rest: f64 = parts.drain(named..).map(|(_, diff)| diff).sum();
    if rest.abs() > least / 10.0 {
        parts.push(("the rest", rest));
    }
    parts
}

pub(super) type Parts = BTreeMap<(Group, &'static str), f64>;

/// Names of the parts in the order of the report.
const NAMES: &[(Group, &str)] = &[
    (Group::Host, "dataloader"),
    (Group::Host, "forward"),
    (Group::Host, "backward"),
    (Group::Host, "optimizer"),
    (Group::Host, "other"),
    (Group::Host, TAIL),
    (Group::Device, "computation"),
    (Group::Device, "communication"),
    (Group::Device, "memory"),
    (Group::Device, "idle"),
    (Group::Idle, "dataloader"),
    (Group::Idle, "sync"),
    (Group::Idle, "host"),
    (Group::Idle, "device_wait"),
    (Group::Idle, "unattributed"),
    (Group::Memory, "peak_allocated"),
    (Group::Memory, "peak_reserved"),
];

/// Mean time by which a step extends beyond its end on the host, less the time by which it starts later.
pub(super) const TAIL: &str = "device_tail";

/// The categories that are not zero in both runs, of the groups that both runs have.
pub(super) fn categories(before: &Parts, after: &Parts) -> Vec<Category> {
    let groups = |parts: &Parts| -> Vec<Group> { parts.keys().map(|(group, _)| *group).collect() };
    let (in_before, in_after) = (groups(before), groups(after));
    NAMES
        .iter()
        .filter_map(|&(group, name)| {
            // Without device activity, idle time is unknown: no row instead of a zero.
            if !in_before.contains(&group) || !in_after.contains(&group) {
                return None;
            }
            let (b, a) = (before.get(&(group, name)).copied(), after.get(&(group, name)).copied());
            let (before, after) = (b.unwrap_or(0.0), a.unwrap_or(0.0));
            if before == 0.0 && after == 0.0 {
                return None;
            }
            let unit = if group == Group::Memory { "bytes" } else { "ns" };
            Some(Category { group, name, unit, before, after, step_change_ratio: None })
        })
        .collect()
}

/// The parts of a mean step of a run.
pub(super) fn parts(session: &Session, selected: &SelectedSteps) -> Result<Parts> {
    let mut parts = Parts::new();
    add_phases(session, selected, &mut parts)?;
    add_states(session, selected, &mut parts)?;
    // Causes are known only for the window as a whole.
    if selected.is_complete {
        add_causes(session, selected, &mut parts)?;
    }
    add_memory(session, selected, &mut parts)?;
    Ok(parts)
}

fn add_phases(session: &Session, selected: &SelectedSteps, parts: &mut Parts) -> Result<()> {
    let positions = selected.positions();
    let count = selected.steps.len() as f64;
    let names = [
        ("dataloader", "dataloader_ns"),
        ("forward", "forward_ns"),
        ("backward", "backward_ns"),
        ("optimizer", "optimizer_ns"),
        ("other", "other_ns"),
    ];
    for batch in session.analyze("step_phases_by_step")? {
        let (rank, step) = (ints(&batch, "rank")?, ints(&batch, "step")?);
        for (name, column) in names {
            let values = ints(&batch, column)?;
            for (i, value) in values.iter().enumerate() {
                let key = (rank.value(i) as i32, step.value(i));
                if let (Some(ns), true) = (value, positions.contains_key(&key)) {
                    *parts.entry((Group::Host, name)).or_default() += ns as f64 / count;
                }
            }
        }
    }
    parts.insert((Group::Host, TAIL), selected.mean(|s| s.dur_ns - s.host_ns));
    Ok(())
}

fn add_states(session: &Session, selected: &SelectedSteps, parts: &mut Parts) -> Result<()> {
    let positions = selected.positions();
    let count = selected.steps.len() as f64;
    for batch in session.analyze("diff_device_time")? {
        let (rank, step) = (ints(&batch, "rank")?, ints(&batch, "step")?);
        let (state, dur) = (texts(&batch, "state")?, ints(&batch, "dur_ns")?);
        for i in 0..batch.num_rows() {
            let name = NAMES.iter().find(|n| n.0 == Group::Device && n.1 == state.value(i));
            let key = (rank.value(i) as i32, step.value(i));
            if let (Some(&(group, name)), true) = (name, positions.contains_key(&key)) {
                *parts.entry((group, name)).or_default() += dur.value(i) as f64 / count;
            }
        }
    }
    Ok(())
}

fn add_causes(session: &Session, selected: &SelectedSteps, parts: &mut Parts) -> Result<()> {
    let names = [
        ("dataloader", "dataloader_ns"),
        ("sync", "sync_ns"),
        ("host", "host_ns"),
        ("device_wait", "device_wait_ns"),
        ("unattributed", "unattributed_ns"),
    ];
    let mut devices = 0.0;
    let mut sums: Vec<(&str, f64)> = Vec::new();
    for batch in session.analyze("gpu_idle_causes")? {
        let rank = ints(&batch, "rank")?;
        let steps = ints(&batch, "step_count")?;
        let is_selected: Vec<bool> =
            rank.values().iter().map(|r| selected.ranks.contains(&(*r as i32))).collect();
        devices += is_selected.iter().filter(|m| **m).count() as f64;
        for (name, column) in names {
            let values = floats(&batch, column)?;
            let rows = is_selected.iter().enumerate().filter(|(_, m)| **m);
            let sum: f64 = rows.map(|(i, _)| values.value(i) / steps.value(i).max(1) as f64).sum();
            sums.push((name, sum));
        }
    }
    if devices > 0.0 {
        for (name, sum) in sums {
            *parts.entry((Group::Idle, name)).or_default() += sum / devices;
        }
    }
    Ok(())
}

/// Adds peak memory of the device with the highest peak.
fn add_memory(session: &Session, selected: &SelectedSteps, parts: &mut Parts) -> Result<()> {
    for batch in session.analyze("memory_peak")? {
        let rank = ints(&batch, "rank")?;
        for (name, column) in
            [("peak_allocated", "peak_allocated_bytes"), ("peak_reserved", "peak_reserved_bytes")]
        {
            for (rank, bytes) in rank.values().iter().zip(&floats(&batch, column)?) {
                if let (Some(bytes), true) = (bytes, selected.ranks.contains(&(*rank as i32))) {
                    let peak = parts.entry((Group::Memory, name)).or_default();
                    *peak = peak.max(bytes);
                }
            }
        }
    }
    Ok(())
}
