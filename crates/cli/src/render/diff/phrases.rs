//! Phrases about comparisons that several formats share.

use std::collections::BTreeMap;

use trace_advisor::compare::{
    Category, Change, DeviceMemory, Diff, Difference, Group, Level, Matched, Measure, MemoryHolder,
    Row,
};
use trace_advisor::trace_model::Unit;
use trace_advisor::trace_model::command_line::shell_words;
use trace_advisor::trace_model::time::human;

use super::context::DiffReport;
use crate::render::value::{thousands, value};

/// `mean step`, or `recording` without steps.
pub(super) fn whole(diff: &Diff) -> &'static str {
    match diff.summary.unit {
        trace_advisor::compare::Unit::Step => "mean step",
        trace_advisor::compare::Unit::Recording | trace_advisor::compare::Unit::Memory => {
            "recording"
        }
    }
}

/// `GPU: Tesla V100 -> NVIDIA H100; ranks: 1 -> 2`.
pub(super) fn differences(diff: &Diff) -> Option<String> {
    let phrases: Vec<String> = diff.differences.iter().map(Difference::phrase).collect();
    (!phrases.is_empty()).then(|| phrases.join("; "))
}

/// `GPU utilization`.
pub(super) fn measure_name(measure: &Measure) -> String {
    measure.name.replace("gpu", "GPU").replace('_', " ")
}

/// A value of a measure, or `n/a`.
pub(super) fn number(measure: &Measure, number: Option<f64>) -> String {
    match (number, measure.unit) {
        (None, _) => "n/a".to_owned(),
        (Some(v), "ns") => human(v),
        (Some(v), "bytes") => value(v, Unit::Bytes),
        (Some(v), "ratio") => value(v, Unit::Ratio),
        (Some(v), unit) if v >= 100.0 => format!("{v:.0} {unit}"),
        (Some(v), unit) => format!("{v:.2} {unit}"),
    }
}

/// The change of a measure; of a percentage in points, because a relative one would be mistaken for them.
pub(super) fn measure_change(measure: &Measure) -> String {
    /// Relative changes from here on are easier to read as factors.
    const FACTOR: f64 = 9.0;
    match (measure.before, measure.after, measure.change_ratio) {
        (Some(b), Some(a), _) if measure.unit == "ratio" => {
            format!("{:+.1} points", tenths((a - b) * 100.0))
        }
        (_, _, Some(change)) if change >= FACTOR => format!("{:.0}x", 1.0 + change),
        (_, _, Some(change)) => format!("{:+.1} %", tenths(change * 100.0)),
        _ => String::new(),
    }
}

/// Rounded to one decimal; what is then nothing has no sign of its own.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0 + 0.0
}

/// The measures worth a line: those of which either run has more than nothing, or has nothing to say.
pub(super) fn shown_measures(diff: &Diff) -> impl Iterator<Item = &Measure> {
    diff.before_after.iter().filter(|m| (m.before, m.after) != (Some(0.0), Some(0.0)))
}

/// Why measures are not known: each reason with the measures that it holds for.
pub(super) fn missing_measures(diff: &Diff) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for measure in &diff.before_after {
        let Some(reason) = measure.reason.as_deref() else { continue };
        match reasons.iter_mut().find(|(of, _)| *of == reason) {
            Some((_, names)) => names.push(measure_name(measure)),
            None => reasons.push((reason, vec![measure_name(measure)])),
        }
    }
    let line = |(reason, names): (&str, Vec<String>)| format!("{} ({reason})", names.join(", "));
    reasons.into_iter().map(line).collect()
}

/// The heading of a group of categories.
pub(super) fn group(group: Group) -> &'static str {
    match group {
        Group::Host => "on the host (adds up)",
        Group::Device => "on the GPU (adds up)",
        Group::Idle => "GPU idle, by cause",
        Group::Memory => "GPU memory",
    }
}

/// The values of a category before and after, and its change.
pub(super) fn category_values(category: &Category) -> [String; 3] {
    let unit = if category.unit == "bytes" { Unit::Bytes } else { Unit::Ns };
    let change = category.diff();
    let sign = if change > 0.0 { "+" } else { "" };
    let text = |v: f64| value(v, unit);
    [text(category.before), text(category.after), format!("{sign}{}", text(change))]
}

/// `+1.20 ms`.
pub(super) fn signed(ns: f64) -> String {
    format!("{}{}", if ns > 0.0 { "+" } else { "" }, human(ns))
}

/// The title of the column with [`of_step`].
pub(super) fn of_step_title(diff: &Diff) -> &'static str {
    match diff.summary.unit {
        trace_advisor::compare::Unit::Step => "of the step",
        trace_advisor::compare::Unit::Recording | trace_advisor::compare::Unit::Memory => {
            "of the recording"
        }
    }
}

/// A change over the mean step before: `-28.4 %`. Those of parts that add up, add up too.
pub(super) fn of_step(change_ns: f64, diff: &Diff) -> String {
    let step_ns = diff.summary.before.mean_ns;
    if step_ns > 0.0 {
        format!("{:+.1} %", tenths(change_ns / step_ns * 100.0))
    } else {
        String::new()
    }
}

/// `12`, or `12 -> 14.5`.
pub(super) fn calls(row: &Row) -> String {
    let number = |count: f64| {
        let digits = usize::from(count.fract() != 0.0 && count < 100.0);
        format!("{count:.digits$}")
    };
    let (b, a) = (number(row.before.count), number(row.after.count));
    if a == b { a } else { format!("{b} -> {a}") }
}

/// The name of a row, without the parts that all kernels share.
pub(super) fn name(level: Level, name: &str) -> String {
    match level {
        Level::Kernel => {
            let mut name = name.strip_prefix("void ").unwrap_or(name).to_owned();
            for noise in ["at::native::", "(anonymous namespace)::"] {
                name = name.replace(noise, "");
            }
            name
        }
        Level::Annotation if name == "ProfilerStep*" => "nothing recorded but the step".to_owned(),
        Level::None => "nothing recorded".to_owned(),
        _ => name.to_owned(),
    }
}

/// ` (added)`, ` (removed)`.
pub(super) fn change_mark(row: &Row) -> &'static str {
    match row.change {
        Change::Added => " (added)",
        Change::Removed => " (removed)",
        _ => "",
    }
}

/// The name that a row has in the run before, if that is another.
pub(super) fn old_name(row: &Row) -> Option<(&'static str, String)> {
    let old = row.renamed_from.as_ref()?;
    let how = if row.matched == Matched::Normalized { "matched with" } else { "was" };
    Some((how, name(row.level, old)))
}

/// How the peak depends on the batch, if the runs tell.
pub(super) fn batch(device: &DeviceMemory) -> Option<String> {
    let batch = device.batch?;
    let [fixed, more] =
        [batch.fixed_bytes, batch.batch_bytes].map(|b| value(b as f64, Unit::Bytes));
    Some(format!(
        "the inputs take {:.2} times as many bytes as before: {fixed} do not depend on the batch, and a batch of the size \
         before takes {more}",
        batch.batch_ratio
    ))
}

/// `activation in train.py:31 forward`, and the place before if it has another line number.
pub(super) fn holder(holder: &MemoryHolder) -> (String, Option<String>) {
    let owner = holder.owner_phrase();
    let name = match &holder.place {
        Some(place) => format!("{place} ({owner})"),
        None => owner,
    };
    (name, holder.before_place.as_ref().map(|place| format!("was {place}")))
}

/// `12`, or `12 -> 14`.
pub(super) fn allocation_counts(holder: &MemoryHolder) -> String {
    match (holder.before_count, holder.after_count) {
        (before, after) if before == after => thousands(before),
        (before, after) => format!("{} -> {}", thousands(before), thousands(after)),
    }
}

/// `added: 3 kernels, 12 operators; removed: 1 kernel; 2 matched under another name`.
pub(super) fn added_and_removed(diff: &Diff) -> Option<String> {
    let mut clauses = Vec::new();
    for (change, word) in [(Change::Added, "added"), (Change::Removed, "removed")] {
        let mut counts: BTreeMap<Level, usize> = BTreeMap::new();
        let rows = diff.rows.iter().filter(|r| r.change == change && r.level != Level::None);
        for row in rows {
            *counts.entry(row.level).or_default() += 1;
        }
        if !counts.is_empty() {
            let counts: Vec<String> =
                counts.iter().map(|(level, n)| format!("{n} {}", levels(*level, *n))).collect();
            clauses.push(format!("{word}: {}", counts.join(", ")));
        }
    }
    let guesses = diff.rows.iter().filter(|r| r.matched == Matched::Normalized).count();
    if guesses > 0 {
        clauses.push(format!("{guesses} matched under another name"));
    }
    (!clauses.is_empty()).then(|| clauses.join("; "))
}

fn levels(level: Level, count: usize) -> String {
    let word = match level {
        Level::Runtime => "runtime function",
        Level::Python => "Python function",
        Level::DeviceAnnotation => "GPU range",
        Level::Sync => "synchronization",
        level if count != 1 && level == Level::Copy => return "copies".to_owned(),
        level => level.as_str(),
    };
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// The change of the step by what is known of it: `named host and GPU work +2.10 ms, nothing recorded -12.0 ms = -9.90 ms`.
pub(super) fn explained(diff: &Diff) -> Option<String> {
    let explained = diff.summary.explained.filter(|explained| explained.ratio.is_some())?;
    Some(format!(
        "change of the {}: recorded work {}, time with nothing recorded {} = {}",
        whole(diff),
        signed(explained.named_ns),
        signed(explained.unrecorded_ns),
        signed(explained.change_ns)
    ))
}

/// The command that gives the comparison again.
pub(super) fn command(report: &DiffReport<'_>) -> String {
    let (before, after) = (&report.paths.0, &report.paths.1);
    let arguments = ["advisor", "diff", before, after].into_iter();
    shell_words(arguments.chain(report.command_options.iter().map(String::as_str)))
}
