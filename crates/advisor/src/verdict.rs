//! One rule, one row: pass, fire, or unknown. Missing data is never a pass.

use minijinja::Environment;
use trace_model::{MetricTable, Value};

use crate::expr::{self, Context, Formula, NoValue};
use crate::grade::Severity;
use crate::rule::Rule;
use crate::threshold::Threshold;

/// What a rule says of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// Nothing to say.
    Pass,
    /// A threshold is met.
    Fire(Fire),
    /// It cannot be said, for this reason.
    Unknown(String),
}

/// A threshold that is met.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fire {
    /// The worst severity whose threshold is met.
    pub(crate) severity: Severity,
    /// How far the value is beyond that threshold, relative to it.
    pub(crate) margin: f64,
    /// The value.
    pub(crate) value: f64,
    /// Which of the rule's checks.
    pub(crate) check: usize,
    /// The threshold.
    pub(crate) threshold: Threshold,
}

/// A rule with its expressions compiled.
pub(crate) struct Judge<'e, 's> {
    rule: &'s Rule,
    env: &'e Environment<'s>,
    requires: Vec<(Formula<'e, 's>, &'s str)>,
    only_if: Option<Formula<'e, 's>>,
    doubts: Vec<(Formula<'e, 's>, &'s str)>,
    gain: Option<Formula<'e, 's>>,
}

impl<'e, 's> Judge<'e, 's> {
    /// Expressions were checked when the rules were loaded; one that fails all the same never holds
    /// (a requirement) or is left out.
    pub(crate) fn new(rule: &'s Rule, env: &'e Environment<'s>) -> Self {
        let compile = |text: &'s str| Formula::new(env, text).ok();
        let all = |list: &'s [crate::rule::Condition]| {
            list.iter()
                .filter_map(|c| Some((compile(&c.expr)?, c.reason.as_str())))
                .collect::<Vec<_>>()
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
    pub(crate) fn verdict(&self, table: &MetricTable, row: &[Value], context: &Context) -> Verdict {
        for (formula, reason) in &self.requires {
            match formula.truth(context) {
                Ok(true) => {}
                Ok(false) => return Verdict::Unknown(self.reason(reason, context)),
                Err(missing) => {
                    let reason = self.reason(reason, context);
                    return Verdict::Unknown(format!("{reason} ({})", missing.reason()));
                }
            }
        }
        if let Some(formula) = &self.only_if {
            match formula.truth(context) {
                Ok(true) => {}
                Ok(false) => return Verdict::Pass,
                Err(missing) => return Verdict::Unknown(missing.reason()),
            }
        }
        let mut worst: Option<Fire> = None;
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
                    worst = Some(Fire { severity, margin, value, check, threshold });
                }
            }
        }
        let Some(fire) = worst else {
            return missing.map_or(Verdict::Pass, Verdict::Unknown);
        };
        // A doubt that cannot be computed is not established: the measured value stands.
        let doubt = self.doubts.iter().find(|(formula, _)| formula.truth(context) == Ok(true));
        match doubt {
            Some((_, reason)) => Verdict::Unknown(self.reason(reason, context)),
            None => Verdict::Fire(fire),
        }
    }

    /// The share of step time that the row's loss amounts to at most, 0 to 1.
    pub(crate) fn ceiling(&self, context: &Context) -> Option<f64> {
        self.gain.as_ref()?.number(context).ok().map(|share| share.clamp(0.0, 1.0))
    }

    fn reason(&self, template: &str, context: &Context) -> String {
        expr::render(self.env, template, context).unwrap_or_else(|_| template.to_owned())
    }
}
