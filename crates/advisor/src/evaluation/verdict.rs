//! Evaluates one rule on one row: pass, violation, or unknown. Missing data is never a pass.

use minijinja::Environment;
use trace_model::{Capabilities, Capability, Row};

use crate::evaluation::held_capabilities::missing;
use crate::language::expr::{Context, Formula, Names, NoValue};
use crate::language::rule::{Condition, Rule};
use crate::language::severity::Severity;
use crate::language::text::Text;
use crate::language::threshold::Threshold;

/// The verdict of a rule on a row.
#[derive(Debug, Clone)]
pub(crate) enum RowVerdict<'s> {
    /// No threshold is met.
    Pass,
    /// A threshold is met.
    Violation(Violation),
    /// No verdict, for this reason, and the kinds of data that would give one.
    Unknown { reason: UnknownReason<'s>, needs: Vec<Capability> },
}

/// The reason why a row has no verdict. It is rendered only where it is shown.
#[derive(Debug, Clone)]
pub(crate) enum UnknownReason<'s> {
    /// The rule says why.
    Stated(&'s Text),
    /// The rule says why, and its condition could not be evaluated.
    StatedWithout(&'s Text, NoValue),
    /// This kind of data was not recorded.
    NotRecorded(Capability),
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
            Self::NotRecorded(capability) => capability.reason(),
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
    requires: Vec<(Option<Formula<'e, 's>>, &'s Condition)>,
    only_if: Option<Formula<'e, 's>>,
    doubts: Vec<(Option<Formula<'e, 's>>, &'s Condition)>,
    gain: Option<Formula<'e, 's>>,
}

impl<'e, 's> RuleEvaluator<'e, 's> {
    /// Expressions were checked when the rules were loaded; one that fails all the same is left out.
    pub(crate) fn new(rule: &'s Rule, env: &'e Environment<'s>) -> Self {
        let compile = |text: &'s str| Formula::new(env, text).ok();
        let condition = |condition: &'s Condition| match condition.expr.as_deref() {
            Some(expr) => Some((Some(compile(expr)?), condition)),
            None => Some((None, condition)),
        };
        let all = |list: &'s [Condition]| list.iter().filter_map(condition).collect::<Vec<_>>();
        Self {
            rule,
            requires: all(&rule.requires),
            only_if: rule.only_if.as_deref().and_then(compile),
            doubts: all(&rule.doubts),
            gain: rule.gain.of.as_deref().and_then(compile),
        }
    }

    /// The verdict on a row. `held`: the capabilities that the recording holds for the row, if known.
    pub(crate) fn verdict(
        &self,
        row: Row<'_>,
        names: &dyn Names,
        held: Option<Capabilities>,
    ) -> RowVerdict<'s> {
        for (formula, condition) in &self.requires {
            let holds = match formula {
                Some(formula) => formula.truth(names),
                None => Ok(missing(&condition.needs, held).is_empty()),
            };
            match holds {
                Ok(true) => {}
                Ok(false) => return unknown(condition, held, None),
                Err(no_value) => return unknown(condition, held, Some(no_value)),
            }
        }
        if let Some(formula) = &self.only_if {
            match formula.truth(names) {
                Ok(true) => {}
                Ok(false) => return RowVerdict::Pass,
                Err(no_value) => return without_value(no_value),
            }
        }
        let mut worst: Option<Violation> = None;
        let mut no_value = None;
        for (check, c) in self.rule.checks.iter().enumerate() {
            let Some(value) = row.number(&c.column) else {
                no_value.get_or_insert_with(|| NoValue::Null(c.column.clone()));
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
            return no_value.map_or(RowVerdict::Pass, without_value);
        };
        // A doubt that cannot be computed is not established: the measured value stands.
        let is_established = |formula: &Option<Formula<'_, '_>>| {
            formula.as_ref().is_some_and(|formula| formula.truth(names) == Ok(true))
        };
        match self.doubts.iter().find(|(formula, _)| is_established(formula)) {
            Some((_, condition)) => unknown(condition, held, None),
            None => RowVerdict::Violation(violation),
        }
    }

    /// The share of step time that the row's loss amounts to at most, 0 to 1.
    pub(crate) fn ceiling(&self, names: &dyn Names) -> Option<f64> {
        self.gain.as_ref()?.number(names).ok().map(|share| share.clamp(0.0, 1.0))
    }
}

/// The verdict where a condition decides, or has no value.
fn unknown(
    condition: &Condition,
    held: Option<Capabilities>,
    no_value: Option<NoValue>,
) -> RowVerdict<'_> {
    let needs = missing(&condition.needs, held);
    let need = needs.first().or(condition.needs.first());
    let reason = match (&condition.reason, no_value, need) {
        (Some(reason), None, _) => UnknownReason::Stated(reason),
        (Some(reason), Some(no_value), _) => UnknownReason::StatedWithout(reason, no_value),
        (None, _, Some(need)) => UnknownReason::NotRecorded(*need),
        // A condition without a reason has needs.
        (None, no_value, None) => {
            let failed = || NoValue::Failed("a requirement is not met".to_owned());
            UnknownReason::Missing(no_value.unwrap_or_else(failed))
        }
    };
    RowVerdict::Unknown { reason, needs }
}

fn without_value<'s>(no_value: NoValue) -> RowVerdict<'s> {
    RowVerdict::Unknown { reason: UnknownReason::Missing(no_value), needs: Vec::new() }
}
