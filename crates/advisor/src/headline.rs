//! The report in one sentence: the findings, and the largest gain of fixing them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use trace_model::time::{human, ns_to_ms};

use crate::finding::{Finding, round4};
use crate::prioritize::{Bound, Tree};
use crate::rule::Rule;
use crate::severity::Severity;

/// The report in one sentence, and its numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Headline {
    /// The sentence.
    pub text: String,
    /// Number of findings, without notes about the trace and infos.
    pub findings: usize,
    /// Code of the finding to start with; null if there is none.
    pub first: Option<String>,
    /// Percent of step time that all fixes together save for certain.
    pub gain_low_pct: f64,
    /// Percent of step time that all fixes together may save: never above 100, and never above the limit of
    /// the tree of causes.
    pub gain_high_pct: f64,
    /// `gain_high_pct` in milliseconds per step of the slowest rank, if its step time is known.
    pub ms_per_step: Option<f64>,
    /// Mean step time of the slowest rank, in milliseconds; null without steps.
    pub step_ms: Option<f64>,
    /// Step time with all fixes; null without steps, or if nothing is saved.
    pub predicted_step_ms: Option<Predicted>,
    /// Speedup of a step if `gain_high_pct` is saved; null if that is all of it.
    pub speedup: Option<f64>,
}

/// A range of step times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Predicted {
    /// If `gain_high_pct` is saved, in milliseconds.
    pub low: f64,
    /// If `gain_low_pct` is saved, in milliseconds.
    pub high: f64,
}

/// Whether the finding counts in the sum of gains: infos and notes do not.
fn counts(finding: &Finding) -> bool {
    finding.severity > Severity::Info && !finding.is_note
}

/// `ceilings`: largest loss by rule, percent of step time. `step_ns`: step time of the slowest rank.
pub(crate) fn headline(
    findings: &[Finding],
    rules: &[Rule],
    ceilings: &BTreeMap<String, f64>,
    step_ns: Option<f64>,
    unknown: usize,
) -> Headline {
    let counted: Vec<Finding> = findings.iter().filter(|f| counts(f)).cloned().collect();
    let tree = Tree::new(&counted, rules);
    let high = round4(tree.combined(ceilings, Bound::High));
    let low = round4(tree.combined(ceilings, Bound::Low)).min(high);
    let first = counted.first();
    let speedup = (high < 100.0).then(|| round4(1.0 / (1.0 - high / 100.0)));
    let text = match first {
        None if unknown > 0 => {
            format!("Nothing to report, but {unknown} {} no verdict.", rules_have(unknown))
        }
        None => "Nothing to report: every rule has a verdict.".to_owned(),
        Some(first) => {
            let count = match counted.len() {
                1 => "1 finding".to_owned(),
                n => format!("{n} findings"),
            };
            let start = format!("start with {} {}", first.code, first.name);
            if high < 0.05 {
                format!("{count}, none with an estimate in step time: {start}.")
            } else {
                let faster = speedup
                    .filter(|s| *s < 10.0)
                    .map(|s| format!(", {s:.2}x faster"))
                    .unwrap_or_default();
                match step_ns {
                    Some(ns) => {
                        let (now, then) = (human(ns), human(ns * (1.0 - high / 100.0)));
                        format!(
                            "{count}: a step takes {now} and could take {then}{faster} ({high:.1} % less); {start}."
                        )
                    }
                    None => format!(
                        "{count}: up to {high:.1} % of the recorded time can be saved{faster}; {start}."
                    ),
                }
            }
        }
    };
    let after = |pct: f64| step_ns.map(|ns| round4(ns_to_ms(ns * (1.0 - pct / 100.0))));
    let predicted = after(high).zip(after(low)).filter(|_| high > 0.0);
    Headline {
        text,
        findings: counted.len(),
        first: first.map(|f| f.code.clone()),
        gain_low_pct: low,
        gain_high_pct: high,
        ms_per_step: step_ns.filter(|_| high > 0.0).map(|ns| round4(ns_to_ms(ns * high / 100.0))),
        step_ms: step_ns.map(|ns| round4(ns_to_ms(ns))),
        predicted_step_ms: predicted.map(|(low, high)| Predicted { low, high }),
        speedup,
    }
}

fn rules_have(count: usize) -> &'static str {
    if count == 1 { "rule has" } else { "rules have" }
}
