//! The report in a sentence: what is found, and what fixing it could return at most.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use trace_model::time::{human, ns_to_ms};

use crate::finding::{Finding, round4};
use crate::prioritize::{Bound, Tree};
use crate::rule::Rule;
use crate::severity::Severity;

/// The report in a sentence, and the numbers in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Headline {
    /// The sentence.
    pub text: String,
    /// Findings worth acting on: neither notes about the trace nor infos.
    pub findings: usize,
    /// Code of the finding to start with; null if there is none.
    pub first: Option<String>,
    /// Percent of step time that all fixes together are sure to return.
    pub gain_low_pct: f64,
    /// Percent of step time that all fixes together may return: never above 100, and never above
    /// what the tree of causes allows.
    pub gain_high_pct: f64,
    /// `gain_high_pct` in milliseconds a step of the slowest rank, if its length is known.
    pub ms_per_step: Option<f64>,
    /// Mean length of a step of the slowest rank, in milliseconds; null where there are no steps.
    pub step_ms: Option<f64>,
    /// What a step would take with all fixes; null where there are no steps, or nothing comes back.
    pub predicted_step_ms: Option<Predicted>,
    /// How many times faster a step would be with `gain_high_pct` returned; null if all of it would.
    pub speedup: Option<f64>,
}

/// A length of a step, from what may come back to what is sure to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Predicted {
    /// With `gain_high_pct` returned, in milliseconds.
    pub low: f64,
    /// With `gain_low_pct` returned.
    pub high: f64,
}

/// Findings that shown gains are added up over: what is only worth knowing promises nothing.
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
            format!("Nothing to report, but {unknown} {} could not be judged.", rules_word(unknown))
        }
        None => "Nothing to report: every rule could be judged.".to_owned(),
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
                        "{count}: up to {high:.1} % of the recorded time can come back{faster}; {start}."
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

fn rules_word(count: usize) -> &'static str {
    if count == 1 { "rule" } else { "rules" }
}
