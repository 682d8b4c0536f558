//! Fixes: what people do about findings, declared as edits of the recording.

use std::collections::BTreeMap;

use minijinja::Environment;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use trace_model::retiming::{Edit, EditTarget};

use crate::expr::{self, Formula};
use crate::file_schema::{EditTable, FixTable};
use crate::problem::{Problems, Span, SpannedStr, did_you_mean};
use crate::rule::Rule;
use crate::run_traits::RunTraits;
use crate::severity::Effort;

/// A checked fix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fix {
    /// Kebab-case name: `loader-workers`.
    pub name: String,
    /// `file:line` of the table that defines it.
    pub at: String,
    /// Condition over the traits of the run; a fix whose condition is unknown applies.
    pub when: Option<String>,
    /// What to do, in a few words: a template over the traits of the run.
    pub title: String,
    /// Effort.
    pub effort: Effort,
    /// Codes of the rules that it mends, most specific first.
    pub rules: Vec<String>,
    /// True if the fix always has an effect where it applies.
    pub is_certain: bool,
    /// Names of fixes that it is an alternative to: only the first of them in the plan is considered.
    pub instead_of: Vec<String>,
    /// What it changes in the recording.
    pub edits: Vec<Edit>,
}

impl Fix {
    /// Whether it depends on traits of the run.
    pub(crate) fn reads_traits(&self) -> bool {
        self.when.is_some() || self.title.contains("run.")
    }

    /// The fix with the title for this run; `None` if it does not apply.
    pub(crate) fn for_run(&self, traits: &RunTraits, env: &Environment<'_>) -> Option<Self> {
        let context = traits.context(&[], &[]);
        let is_excluded = |when: &str| {
            Formula::new(env, when).is_ok_and(|formula| formula.truth(&context) == Ok(false))
        };
        if self.when.as_deref().is_some_and(is_excluded) {
            return None;
        }
        let title = expr::render(env, &self.title, &context).unwrap_or_else(|_| self.title.clone());
        let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(Self { title, ..self.clone() })
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
    problems: &mut Problems<'_>,
) -> Vec<Fix> {
    let mut fixes = Vec::new();
    for (name, merged) in merged {
        let mut missing = |key: &str| {
            problems.add(&merged.span, format!("fix `{name}` has no `{key}`"), None);
        };
        let title = merged.last(|t| t.title.as_ref());
        let codes = merged.last(|t| t.rules.as_ref());
        let edits = merged.last(|t| t.edits.as_ref());
        for (key, is_stated) in
            [("title", title.is_some()), ("rules", codes.is_some()), ("edits", edits.is_some())]
        {
            if !is_stated {
                missing(key);
            }
        }
        let (Some((title_file, title)), Some((file, codes)), Some((edit_file, edits))) =
            (title, codes, edits)
        else {
            continue;
        };
        let codes = codes.iter().filter_map(|code| {
            let text = SpannedStr::new(file, code);
            let rule = rules.iter().find(|r| r.code == text.text || r.name == text.text);
            if rule.is_none() {
                let names = rules.iter().flat_map(|r| [r.code.as_str(), r.name.as_str()]);
                let help = did_you_mean(text.text, names);
                problems.add(&text.span, format!("there is no rule `{}`", text.text), help);
            }
            rule.map(|rule| rule.code.clone())
        });
        let codes = codes.collect();
        let env = expr::environment();
        if let Err(mistake) = expr::checked_reads(&env, title.get_ref()) {
            let message = format!("the title is invalid: {}", mistake.message);
            problems.add_within(&SpannedStr::new(title_file, title), mistake.bytes, message, None);
        }
        let when = merged.last(|t| t.when.as_ref());
        if let Some((file, when)) = when
            && let Err(mistake) = Formula::new(&env, when.get_ref())
        {
            let message = format!("the expression is invalid: {}", mistake.message);
            problems.add_within(&SpannedStr::new(file, when), mistake.bytes, message, None);
        }
        let edits = edits.iter().filter_map(|table| edit(edit_file, table, problems)).collect();
        fixes.push(Fix {
            name: name.clone(),
            at: problems.place(&merged.span),
            when: when.map(|(_, when)| when.get_ref().clone()),
            title: title.get_ref().trim().to_owned(),
            effort: merged.last(|t| t.effort.as_ref()).map_or(Effort::default(), |(_, e)| *e),
            rules: codes,
            is_certain: merged.last(|t| t.certain.as_ref()).is_none_or(|(_, on)| *on),
            instead_of: merged
                .last(|t| t.instead_of.as_ref())
                .map(|(_, names)| names.clone())
                .unwrap_or_default(),
            edits,
        });
    }
    fixes
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
        launched,
        workers,
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
    for share in [Some(left), launched].into_iter().flatten() {
        if !(0.0 <= share[0] && share[0] <= share[1] && share[1] <= Edit::MAX_LEFT) {
            let message = format!(
                "a share that is left is two numbers in order, from 0 to {}",
                Edit::MAX_LEFT
            );
            problems.add(&span, message, None);
        }
    }
    Some(Edit { target, left, launched, workers: *workers })
}
