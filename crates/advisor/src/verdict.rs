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

/// The reason why a row has no verdict. It is rendered only where it is shown.
#[derive(Debug, Clone)]
pub(crate) enum UnknownReason<'s> {
    /// The rule says why.
    Stated(&'s Text),
    /// The rule says why, and its condition could not be evaluated.
    StatedWithout(&'s Text, NoValue),
    /// A value is missing.
    Missing(NoValue),
}

impl UnknownReason<'_> {
    /// The reason in words, for the names of the row.
    pub(crate) fn render(&self, env: &Environment<'_>, context: &Context) -> String {
        let stated = |text: &Text| text.render(env, context).unwrap_or_else(|_| text.source());
        match self {
            Self::Stated(text) => stated(text),
            Self::StatedWithout(text, missing) => {
                format!("{} ({})", stated(text), missing.reason())
            }
            Self::Missing(missing) => missing.reason(),
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
        for (formula, reason) in &self.requires {
            match formula.truth(names) {
                Ok(true) => {}
                Ok(false) => return RowVerdict::Unknown(UnknownReason::Stated(reason)),
                Err(missing) => {
                    return RowVerdict::Unknown(UnknownReason::StatedWithout(reason, missing));
                }
            }
        }
        if let Some(formula) = &self.only_if {
            match formula.truth(names) {
                Ok(true) => {}
                Ok(false) => return RowVerdict::Pass,
                Err(missing) => return RowVerdict::Unknown(UnknownReason::Missing(missing)),
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
            let unknown = |missing| RowVerdict::Unknown(UnknownReason::Missing(missing));
            return missing.map_or(RowVerdict::Pass, unknown);
        };
        // A doubt that cannot be computed is not established: the measured value stands.
        let doubt = self.doubts.iter().find(|(formula, _)| formula.truth(names) == Ok(true));
        match doubt {
            Some((_, reason)) => RowVerdict::Unknown(UnknownReason::Stated(reason)),
            None => RowVerdict::Violation(violation),
        }
    }

    /// The share of step time that the row's loss amounts to at most, 0 to 1.
    pub(crate) fn ceiling(&self, names: &dyn Names) -> Option<f64> {
        self.gain.as_ref()?.number(names).ok().map(|share| share.clamp(0.0, 1.0))
    }
}
