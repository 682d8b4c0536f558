//! Evaluates one rule on one row: pass, violation, or unknown. Missing data is never a pass.

use minijinja::Environment;
use trace_model::{MetricTable, Value};

use crate::expr::{Context, Formula, NoValue};
use crate::rule::Rule;
use crate::severity::Severity;
use crate::text::Text;
use crate::threshold::Threshold;

/// The verdict of a rule on a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RowVerdict {
    /// No threshold is met.
    Pass,
    /// A threshold is met.
    Violation(Violation),
    /// No verdict, for this reason.
    Unknown(String),
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
    env: &'e Environment<'s>,
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
            env,
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
        context: &Context,
    ) -> RowVerdict {
        for (formula, reason) in &self.requires {
            match formula.truth(context) {
                Ok(true) => {}
                Ok(false) => return RowVerdict::Unknown(self.reason(reason, context)),
                Err(missing) => {
                    let reason = self.reason(reason, context);
                    return RowVerdict::Unknown(format!("{reason} ({})", missing.reason()));
                }
            }
        }
        if let Some(formula) = &self.only_if {
            match formula.truth(context) {
                Ok(true) => {}
                Ok(false) => return RowVerdict::Pass,
                Err(missing) => return RowVerdict::Unknown(missing.reason()),
            }
        }
        let mut worst: Option<Violation> = None;
        let mut missing = None;
        for (check, c) in self.rule.checks.iter().enumerate() {
            let Some(value) = table.index(&c.column).and_then(|i| row.get(i)?.as_f64()) else {
                missing.get_or_insert_with(|| NoValue::Null(c.column.clone()).reason());
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
            return missing.map_or(RowVerdict::Pass, RowVerdict::Unknown);
        };
        // A doubt that cannot be computed is not established: the measured value stands.
        let doubt = self.doubts.iter().find(|(formula, _)| formula.truth(context) == Ok(true));
        match doubt {
            Some((_, reason)) => RowVerdict::Unknown(self.reason(reason, context)),
            None => RowVerdict::Violation(violation),
        }
    }

    /// The share of step time that the row's loss amounts to at most, 0 to 1.
    pub(crate) fn ceiling(&self, context: &Context) -> Option<f64> {
        self.gain.as_ref()?.number(context).ok().map(|share| share.clamp(0.0, 1.0))
    }

    fn reason(&self, text: &Text, context: &Context) -> String {
        text.render(self.env, context).unwrap_or_else(|_| text.source())
    }
}
