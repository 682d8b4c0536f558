//! Fixes: what people do about findings, declared as edits of the recording.

use std::collections::BTreeMap;

use minijinja::Environment;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use trace_model::Row;
use trace_model::retiming::{Edit, EditTarget, FittedEffect, PredictionError};

use crate::evaluation::effects::HeldCount;
use crate::evaluation::run_traits::RunTraits;
use crate::language::expr::{self, Formula};
use crate::language::file_schema::{EditTable, FixTable, HeldTable, PredictionTable};
use crate::language::problem::{Problems, Span, SpannedStr};
use crate::language::rule::Rule;
use crate::language::rule_check::TraitNames;
use crate::language::severity::Effort;

/// A checked fix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fix {
    /// Kebab-case name: `loader-workers`.
    pub name: String,
    /// `file:line` of the table that defines it.
    pub at: String,
    /// The conditions that must hold before the fix is offered.
    pub requires: Vec<FixRequirement>,
    /// Why the fix needs no conditions; absent if it has some.
    pub unconditional: Option<String>,
    /// What to do, in a few words: a template over the traits of the run.
    pub title: String,
    /// Effort.
    pub effort: Effort,
    /// Codes of the rules that name it: the leading ones, then by code.
    pub rules: Vec<String>,
    /// True if the fix always has an effect where it applies.
    pub is_certain: bool,
    /// Names of fixes that it is an alternative to: only the first of them in the plan is considered.
    pub instead_of: Vec<String>,
    /// Why a step gets slower where the time that the fix adds is longer than what it saves, as a clause.
    pub slower_because: Option<String>,
    /// What it changes in the recording.
    pub edits: Vec<Edit>,
    /// Where in the ranges of the edits its effect is expected, and how far predictions are off.
    pub effect: FittedEffect,
    /// Predictions for programs that the fit of the effect left out, by generation of the devices.
    pub held: Vec<HeldPredictions>,
}

/// Predictions of one fix for programs that were left out of the fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldPredictions {
    /// Generation of the devices.
    pub family: String,
    /// The number of predictions, and of those that held.
    pub count: HeldCount,
}

/// The errors of predictions, and the devices on which they were measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The constants of the scale of errors.
    pub error: PredictionError,
    /// The effect of fixes that were not measured.
    pub other: FittedEffect,
    /// Generations of devices on which pairs were measured.
    pub families: Vec<String>,
}

impl Prediction {
    pub(crate) fn of_tables(tables: &[PredictionTable]) -> Self {
        let mut all = Self::default();
        for table in tables {
            let PredictionTable { base, of_saving, of_range, scores, families } = table;
            let error = &mut all.error;
            error.base = base.unwrap_or(error.base);
            error.of_saving = of_saving.unwrap_or(error.of_saving);
            error.of_range = of_range.unwrap_or(error.of_range);
            all.other.scores = scores.unwrap_or(all.other.scores);
            all.families = families.clone().unwrap_or(all.families);
        }
        all
    }
}

/// A condition of a fix, over the traits of the run. A condition that reads an unknown trait holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixRequirement {
    /// The expression.
    pub expr: String,
    /// Why the fix is left out if the expression is false: a template over the traits of the run.
    pub reason: String,
}

/// A fix that is not offered for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftOutFix {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) reason: String,
    /// Codes of the rules whose problem it would fix.
    pub(crate) rules: Vec<String>,
}

impl Fix {
    /// Whether it depends on traits of the run.
    pub(crate) fn reads_traits(&self) -> bool {
        !self.requires.is_empty() || self.title.contains("run.")
    }

    /// The fix with the title for this run.
    ///
    /// # Errors
    /// The first of its conditions that does not hold, if there is one.
    pub(crate) fn for_run(
        &self,
        traits: &RunTraits,
        env: &Environment<'_>,
    ) -> Result<Self, LeftOutFix> {
        let context = traits.context(Row::default());
        let text = |template: &str| {
            let text =
                expr::render(env, template, &context).unwrap_or_else(|_| template.to_owned());
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let title = text(&self.title);
        let is_violated = |requirement: &&FixRequirement| {
            Formula::new(env, &requirement.expr)
                .is_ok_and(|formula| formula.truth(&context) == Ok(false))
        };
        match self.requires.iter().find(is_violated) {
            Some(requirement) => Err(LeftOutFix {
                name: self.name.clone(),
                title,
                reason: text(&requirement.reason),
                rules: self.rules.clone(),
            }),
            None => Ok(Self { title, ..self.clone() }),
        }
    }
}

/// The tables of one fix in order of loading.
pub(crate) struct MergedFix {
    pub(crate) span: Span,
    pub(crate) layers: Vec<(usize, FixTable)>,
}

impl MergedFix {
    /// The value in the last layer that states it, with the file.
    fn last<'a, T: ?Sized>(
        &'a self,
        get: impl Fn(&'a FixTable) -> Option<&'a T>,
    ) -> Option<(usize, &'a T)> {
        self.layers.iter().rev().find_map(|(file, table)| get(table).map(|v| (*file, v)))
    }
}

/// The fixes of all files, by name.
pub(crate) fn compile_fixes(
    merged: &BTreeMap<String, MergedFix>,
    rules: &[Rule],
    prediction: &Prediction,
    traits: &mut TraitNames<'_>,
    problems: &mut Problems<'_>,
) -> Vec<Fix> {
    let mut fixes = Vec::new();
    for (name, merged) in merged {
        let mut missing = |key: &str| {
            problems.add(&merged.span, format!("fix `{name}` has no `{key}`"), None);
        };
        let title = merged.last(|t| t.title.as_ref());
        let edits = merged.last(|t| t.edits.as_ref());
        for (key, is_stated) in [("title", title.is_some()), ("edits", edits.is_some())] {
            if !is_stated {
                missing(key);
            }
        }
        let (Some((title_file, title)), Some((edit_file, edits))) = (title, edits) else {
            continue;
        };
        let mut codes: Vec<String> =
            rules.iter().filter(|r| r.fixes.contains(name)).map(|r| r.code.clone()).collect();
        if let Some((_, leading)) = merged.last(|t| t.leading_rules.as_ref()) {
            if let Some(other) = leading.iter().find(|code| !codes.contains(code)) {
                let message = format!("rule `{other}` does not name the fix `{name}`");
                problems.add(&merged.span, message, Some("state its `fixes`".to_owned()));
            }
            let place = |code: &String| leading.iter().position(|c| c == code);
            codes.sort_by_key(|code| place(code).unwrap_or(usize::MAX));
        }
        let env = expr::environment();
        let mut check_template = |file: usize, text, what: &str, problems: &mut Problems<'_>| {
            let text = SpannedStr::new(file, text);
            match expr::checked_reads(&env, text.text) {
                Ok(names) => traits.check_all(&text.span, &names, problems),
                Err(mistake) => {
                    let message = format!("the {what} is invalid: {}", mistake.message);
                    problems.add_within(&text, mistake.bytes, message, None);
                }
            }
        };
        check_template(title_file, title, "title", problems);
        let requires = merged.last(|t| t.requires.as_ref());
        for (file, requirement) in
            requires.iter().flat_map(|(file, all)| all.iter().map(|r| (*file, r)))
        {
            check_template(file, &requirement.reason, "reason", problems);
        }
        for (file, requirement) in
            requires.iter().flat_map(|(file, all)| all.iter().map(|r| (*file, r)))
        {
            let text = SpannedStr::new(file, &requirement.expr);
            match Formula::new(&env, text.text) {
                Ok(formula) => traits.check_all(&text.span, formula.reads(), problems),
                Err(mistake) => {
                    let message = format!("the expression is invalid: {}", mistake.message);
                    problems.add_within(&text, mistake.bytes, message, None);
                }
            }
        }
        let unconditional = merged.last(|t| t.unconditional.as_ref()).map(|(_, reason)| reason);
        if unconditional.is_some() && requires.is_some_and(|(_, all)| !all.is_empty()) {
            let message = format!("fix `{name}` has `requires` and `unconditional`");
            problems.add(&merged.span, message, Some("state one of them".to_owned()));
        }
        let edits = edits.iter().filter_map(|table| edit(edit_file, table, problems)).collect();
        fixes.push(Fix {
            name: name.clone(),
            at: problems.place(&merged.span),
            requires: requires
                .iter()
                .flat_map(|(_, all)| all.iter())
                .map(|requirement| FixRequirement {
                    expr: requirement.expr.get_ref().clone(),
                    reason: requirement.reason.get_ref().trim().to_owned(),
                })
                .collect(),
            unconditional: unconditional.map(|reason| reason.trim().to_owned()),
            title: title.get_ref().trim().to_owned(),
            effort: merged.last(|t| t.effort.as_ref()).map_or(Effort::default(), |(_, e)| *e),
            rules: codes,
            is_certain: merged.last(|t| t.certain.as_ref()).is_none_or(|(_, on)| *on),
            instead_of: merged
                .last(|t| t.instead_of.as_ref())
                .map(|(_, names)| names.clone())
                .unwrap_or_default(),
            slower_because: merged.last(|t| t.slower_because.as_ref()).map(|(_, why)| why.clone()),
            edits,
            effect: FittedEffect {
                position: merged
                    .last(|t| t.position.as_ref())
                    .map_or(prediction.other.position, |(_, position)| *position),
                scores: merged
                    .last(|t| t.scores.as_ref())
                    .map_or(prediction.other.scores, |(_, scores)| *scores),
            },
            held: merged.last(|t| t.held.as_ref()).map_or(Vec::new(), |(_, held)| held_of(held)),
        });
    }
    fixes
}

fn held_of(tables: &[HeldTable]) -> Vec<HeldPredictions> {
    let held = |table: &HeldTable| HeldPredictions {
        family: table.family.clone(),
        count: HeldCount { held: table.held, of: table.of },
    };
    tables.iter().map(held).collect()
}

fn edit(file: usize, table: &Spanned<EditTable>, problems: &mut Problems<'_>) -> Option<Edit> {
    let span = Span { file, bytes: table.span() };
    let EditTable {
        device,
        host,
        host_time,
        waits,
        stream_waits,
        stream_gaps,
        ranks,
        left,
        least,
        launched,
        workers,
        slowdown,
    } = table.get_ref();
    let targets = [
        device.clone().map(EditTarget::Device),
        host.clone().map(EditTarget::Host),
        host_time.clone().map(EditTarget::HostTime),
        waits.clone().map(EditTarget::Waits),
        stream_waits.clone().map(EditTarget::StreamWaits),
        stream_gaps.clone().map(EditTarget::StreamGaps),
        ranks.clone().map(EditTarget::Ranks),
    ];
    let mut targets = targets.into_iter().flatten();
    let (Some(target), None) = (targets.next(), targets.next()) else {
        let help =
            "one of `device`, `host`, `host_time`, `waits`, `stream_waits`, `stream_gaps`, `ranks`"
                .to_owned();
        problems.add(&span, "an edit changes exactly one thing", Some(help));
        return None;
    };
    let left = left.unwrap_or([0.0, 0.0]);
    let launched = *launched;
    let slowdown = slowdown.unwrap_or([1.0, 1.0]);
    for share in [Some(left), launched, Some(slowdown)].into_iter().flatten() {
        if !(0.0 <= share[0] && share[0] <= share[1] && share[1] <= Edit::MAX_LEFT) {
            let message = format!(
                "a share that is left is two numbers in order, from 0 to {}",
                Edit::MAX_LEFT
            );
            problems.add(&span, message, None);
        }
    }
    if least.is_some_and(|least| !(0.0..=1.0).contains(&least)) {
        problems.add(&span, "`least` is a share, from 0 to 1", None);
    }
    Some(Edit { target, left, least: *least, launched, workers: *workers, slowdown })
}

#[cfg(test)]
mod tests {
    use trace_model::retiming::FittedEffect;
    use trace_model::{MetricTable, RunInfo, Unit, Value};

    use super::{Fix, FixRequirement, LeftOutFix};
    use crate::evaluation::run_traits::{RUN_TRAITS_VIEW, RunTraits};
    use crate::language::expr::environment;
    use crate::language::severity::Effort;

    fn traits(names: &[(&str, Value)]) -> RunTraits {
        let (names, row): (Vec<_>, Vec<_>) = names
            .iter()
            .map(|(name, value)| (((*name).to_owned(), Unit::None), value.clone()))
            .unzip();
        let table = MetricTable {
            view: RUN_TRAITS_VIEW.to_owned(),
            columns: names,
            rows: vec![row],
            when_empty: String::new(),
        };
        RunTraits::read(&[table], &RunInfo::default())
    }

    fn fix() -> Fix {
        Fix {
            name: "half".to_owned(),
            at: "mine.toml:1".to_owned(),
            requires: vec![FixRequirement {
                expr: "run.has_bf16|default(true)".to_owned(),
                reason: "{{ run.device_name|default('the GPU') }} has no bfloat16".to_owned(),
            }],
            unconditional: None,
            title: "Compute in bfloat16 on\n{{ run.device_name|default('the GPU') }}".to_owned(),
            effort: Effort::Low,
            rules: vec!["PR001".to_owned()],
            is_certain: true,
            instead_of: Vec::new(),
            slower_because: None,
            edits: Vec::new(),
            effect: FittedEffect::default(),
            held: Vec::new(),
        }
    }

    #[test]
    fn fix_is_left_out_if_the_run_rules_it_out() {
        let name = ("device_name", Value::Text("Tesla T4".to_owned()));
        let left_out =
            |traits: &[(&str, Value)]| fix().for_run(&self::traits(traits), &environment());
        let offered = left_out(&[name.clone(), ("has_bf16", Value::Bool(true))]).unwrap();
        assert_eq!(offered.title, "Compute in bfloat16 on Tesla T4");
        let expected = LeftOutFix {
            name: "half".to_owned(),
            title: "Compute in bfloat16 on Tesla T4".to_owned(),
            reason: "Tesla T4 has no bfloat16".to_owned(),
            rules: vec!["PR001".to_owned()],
        };
        assert_eq!(left_out(&[name, ("has_bf16", Value::Bool(false))]), Err(expected));
        // An unknown trait does not leave a fix out.
        assert_eq!(left_out(&[]).unwrap().title, "Compute in bfloat16 on the GPU");
    }
}
