//! Evaluates one rule on one row: pass, violation, or unknown. Missing data is never a pass.

use minijinja::Environment;
use trace_model::{MetricTable, Value};

use crate::expr::{Context, Formula, Names, NoValue};
use crate::rule::Rule;
use crate::severity::Severity;
use crate::text::Text;
use crate::threshold::Threshold;

/// The verdict of a rule on a row.
#[derive(Debug, Clone)]
pub(crate) enum RowVerdict<'s> {
    /// No threshold is met.
    Pass,
    /// A threshold is met.
    Violation(Violation),
    /// No verdict, for this reason.
    Unknown(UnknownReason<'s>),
}

/// Why there is no verdict on a row. It becomes a text only where it is shown.
#[derive(Debug, Clone)]
pub(crate) struct UnknownReason<'s> {
    text: Option<&'s Text>,
    missing: Option<NoValue>,
}

impl UnknownReason<'_> {
    /// The reason in words, for the names of the row.
    pub(crate) fn render(&self, env: &Environment<'_>, context: &Context) -> String {
        let text =
            self.text.map(|text| text.render(env, context).unwrap_or_else(|_| text.source()));
        match (text, self.missing.as_ref().map(NoValue::reason)) {
            (Some(text), Some(missing)) => format!("{text} ({missing})"),
            (Some(reason), None) | (None, Some(reason)) => reason,
            (None, None) => String::new(),
        }
    }
}

/// A threshold that is met.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Violation {
    /// The worst severity whose threshold is met.
    pub(crate) severity: Severity,
    /// Distance of the value beyond that threshold, relative to it.
    pub(crate) margin: f64,
    /// The value.
    pub(crate) value: f64,
    /// Index of the rule's check.
    pub(crate) check: usize,
    /// The threshold.
    pub(crate) threshold: Threshold,
}

/// A rule with its expressions compiled.
pub(crate) struct RuleEvaluator<'e, 's> {
    rule: &'s Rule,
    requires: Vec<(Formula<'e, 's>, &'s Text)>,
    only_if: Option<Formula<'e, 's>>,
    doubts: Vec<(Formula<'e, 's>, &'s Text)>,
    gain: Option<Formula<'e, 's>>,
}

impl<'e, 's> RuleEvaluator<'e, 's> {
    /// Expressions were checked when the rules were loaded; one that fails all the same is left out.
    pub(crate) fn new(rule: &'s Rule, env: &'e Environment<'s>) -> Self {
        let compile = |text: &'s str| Formula::new(env, text).ok();
        let all = |list: &'s [crate::rule::Condition]| {
            list.iter().filter_map(|c| Some((compile(&c.expr)?, &c.reason))).collect::<Vec<_>>()
        };
        Self {
            rule,
            requires: all(&rule.requires),
            only_if: rule.only_if.as_deref().and_then(compile),
            doubts: all(&rule.doubts),
            gain: rule.gain.of.as_deref().and_then(compile),
        }
    }

    /// The verdict on a row of `table`.
    pub(crate) fn verdict(
        &self,
        table: &MetricTable,
        row: &[Value],
        names: &dyn Names,
    ) -> RowVerdict<'s> {
        let unknown = |text, missing| RowVerdict::Unknown(UnknownReason { text, missing });
        for &(ref formula, reason) in &self.requires {
            match formula.truth(names) {
                Ok(true) => {}
                Ok(false) => return unknown(Some(reason), None),
                Err(missing) => return unknown(Some(reason), Some(missing)),
            }
        }
        if let Some(formula) = &self.only_if {
            match formula.truth(names) {
                Ok(true) => {}
                Ok(false) => return RowVerdict::Pass,
                Err(missing) => return unknown(None, Some(missing)),
            }
        }
        let mut worst: Option<Violation> = None;
        let mut missing = None;
        for (check, c) in self.rule.checks.iter().enumerate() {
            let Some(value) = table.index(&c.column).and_then(|i| row.get(i)?.as_f64()) else {
                missing.get_or_insert_with(|| NoValue::Null(c.column.clone()));
                continue;
            };
            let met = c.thresholds.iter().find_map(|(severity, threshold)| {
                threshold.margin(value).map(|margin| (*severity, margin, threshold))
            });
            if let Some((severity, margin, threshold)) = met {
                let is_worse = worst.as_ref().is_none_or(|w| {
                    (severity, margin)
                        .partial_cmp(&(w.severity, w.margin))
                        .is_some_and(std::cmp::Ordering::is_gt)
                });
                if is_worse {
                    let threshold = threshold.clone();
                    worst = Some(Violation { severity, margin, value, check, threshold });
                }
            }
        }
        let Some(violation) = worst else {
            return missing.map_or(RowVerdict::Pass, |missing| unknown(None, Some(missing)));
        };
        // A doubt that cannot be computed is not established: the measured value stands.
        let doubt = self.doubts.iter().find(|(formula, _)| formula.truth(names) == Ok(true));
        match doubt {
            Some(&(_, reason)) => unknown(Some(reason), None),
            None => RowVerdict::Violation(violation),
        }
    }

    /// The share of step time that the row's loss amounts to at most, 0 to 1.
    pub(crate) fn ceiling(&self, names: &dyn Names) -> Option<f64> {
        self.gain.as_ref()?.number(names).ok().map(|share| share.clamp(0.0, 1.0))
    }
}
