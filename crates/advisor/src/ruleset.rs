//! Rule files in, a checked set of rules out; or every mistake in them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use trace_model::MetricSpec;

use crate::compile::compile;
use crate::layers::{Layered, Text};
use crate::policy::{self, Policy, UnknownSelector};
use crate::problem::{Problem, Problems, RuleSource, Span, did_you_mean};
use crate::query::{RuleQuery, StatedQuery};
use crate::report::Report;
use crate::rule::{EvidenceQuery, Rule};
use crate::shape::{self, Place};
use crate::suppress::{Date, Ignore};
use crate::table::{IgnoreTable, PolicyTable, RuleTable};

/// View that says how long a step takes, read even if no rule judges it: gains are also given in
/// milliseconds a step.
pub(crate) const STEP_TIME_VIEW: &str = "step_time_summary";

/// Name of the metric table with the moments that show what a rule found.
pub(crate) fn evidence_table(code: &str) -> String {
    format!("evidence of {code}")
}

/// Rules, merged and checked.
#[derive(Debug, Clone)]
pub struct RuleSet {
    /// Those that judge.
    rules: Vec<Rule>,
    /// Those that were not selected, but put findings of those that judge in doubt.
    watched: Vec<Rule>,
    /// All of them, as the files say.
    all: Vec<Rule>,
    /// Codes of those that do not judge, and why.
    off: BTreeMap<String, Off>,
    policy: Policy,
    ignores: Vec<Ignore>,
    has_step_time: bool,
    today: Option<Date>,
}

/// Why a rule does not judge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Off {
    /// `enabled = false`.
    Disabled,
    /// Others are selected.
    NotSelected,
    /// The policy ignores it.
    Ignored,
}

impl Off {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "switched off",
            Self::NotSelected => "not selected",
            Self::Ignored => "ignored by policy",
        }
    }
}

impl RuleSet {
    /// Reads rule files; later files change what earlier ones say.
    ///
    /// A table for a rule that exists changes only the keys it states. `metrics` is what rules may
    /// speak of; for a rule that brings a query, a metric of a view that is called as the rule says
    /// which columns that has.
    ///
    /// # Errors
    /// Every mistake in every file, in order of place.
    pub fn load(sources: &[RuleSource], metrics: &[MetricSpec]) -> Result<Self, Vec<Problem>> {
        RuleFiles::read(sources).load(metrics)
    }

    fn of(files: RuleFiles<'_>, metrics: &[MetricSpec]) -> Result<Self, Vec<Problem>> {
        let RuleFiles { sources, files, mut problems } = files;
        let names: Vec<&str> =
            files.rules.keys().chain(&files.unsound).map(String::as_str).collect();
        let mut all: Vec<Rule> = Vec::new();
        for (name, layered) in &files.rules {
            if files.unsound.contains(name) {
                // What it seems to lack may be what could not be read.
                let mut others = Problems::new(sources);
                compile(layered, metrics, &names, &mut others);
                let sql = layered.last_text(|t| t.sql.as_ref()).map(|sql| sql.span);
                problems.take(others, |at| *at != layered.span && Some(at) != sql.as_ref());
            } else {
                all.extend(compile(layered, metrics, &names, &mut problems));
            }
        }
        all.sort_by(|a, b| (&a.code, &a.name).cmp(&(&b.code, &b.name)));
        link(&mut all, &files, &mut problems);
        let ignores = ignores(&files, &all, &mut problems);
        let policy = stated_policy(&files, &all, &mut problems);
        let problems = problems.finish();
        if !problems.is_empty() {
            return Err(problems);
        }
        let disabled = all.iter().filter(|r| !files.rules[&r.name].enabled());
        let off = disabled.map(|r| (r.code.clone(), Off::Disabled)).collect();
        let has_step_time = metrics.iter().any(|m| m.view == STEP_TIME_VIEW);
        let (rules, watched) = (Vec::new(), Vec::new());
        let mut set =
            Self { rules, watched, all, off, policy, ignores, has_step_time, today: None };
        // Its selectors have been found to mean something above.
        set.apply();
        Ok(set)
    }

    /// Puts a policy on top of that of the files.
    ///
    /// # Errors
    /// The selectors that mean no rule.
    pub fn with_policy(mut self, policy: &Policy) -> Result<Self, Vec<UnknownSelector>> {
        self.policy = policy.over(&self.policy);
        let unknown = self.apply();
        if unknown.is_empty() { Ok(self) } else { Err(unknown) }
    }

    /// Sorts rules into those that judge and those that do not. Returns selectors that mean none.
    fn apply(&mut self) -> Vec<UnknownSelector> {
        let mut unknown = Vec::new();
        let mut codes = |selectors: &Option<Vec<String>>| -> BTreeSet<String> {
            let mut codes = BTreeSet::new();
            for selector in selectors.iter().flatten() {
                match policy::meant(selector, &self.all) {
                    Ok(meant) => codes.extend(meant),
                    Err(error) => unknown.push(error),
                }
            }
            codes
        };
        let (selected, ignored) = (codes(&self.policy.select), codes(&self.policy.ignore));
        let everything = self.policy.select.as_ref().is_none_or(Vec::is_empty);
        self.off.retain(|_, why| *why == Off::Disabled);
        for rule in &self.all {
            if self.off.contains_key(&rule.code) {
                continue;
            }
            if ignored.contains(&rule.code) {
                self.off.insert(rule.code.clone(), Off::Ignored);
            } else if !everything && !selected.contains(&rule.code) {
                self.off.insert(rule.code.clone(), Off::NotSelected);
            }
        }
        let on = |rule: &&Rule| !self.off.contains_key(&rule.code);
        self.rules = self.all.iter().filter(on).cloned().collect();
        for rule in &mut self.rules {
            rule.within = nearest_on(rule.within.as_deref(), &self.all, &self.off);
        }
        // A doubt about the trace does not go away because nobody asked for it. Who ignores the rule
        // says that it does not matter.
        let doubts = |rule: &&Rule| {
            let weakened = |r: &Rule| rule.weakens.iter().any(|w| r.code.starts_with(w.as_str()));
            self.off.get(&rule.code) == Some(&Off::NotSelected) && self.rules.iter().any(weakened)
        };
        self.watched = self.all.iter().filter(doubts).cloned().collect();
        unknown
    }

    /// Sets the day on which silenced rules are checked for expiry; without, none expires.
    #[must_use]
    pub fn on(mut self, today: Date) -> Self {
        self.today = Some(today);
        self
    }

    /// The rules that judge, by code: runs, and comparisons of two.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rules that judge a run.
    pub(crate) fn of_runs(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|r| !r.is_comparison())
    }

    /// The rules that judge a comparison.
    pub(crate) fn of_comparisons(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|r| r.is_comparison())
    }

    /// The rules whose findings are only looked at for the doubts they cast on others'.
    pub(crate) fn watched(&self) -> &[Rule] {
        &self.watched
    }

    /// All rules of the files, by code, also those that do not judge.
    pub fn all(&self) -> &[Rule] {
        &self.all
    }

    /// Why a rule does not judge; `None` if it does.
    pub fn off(&self, rule: &Rule) -> Option<Off> {
        self.off.get(&rule.code).copied()
    }

    /// What is selected, and what counts.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The judging rule with this code or name.
    pub fn find(&self, code_or_name: &str) -> Option<&Rule> {
        self.rules.iter().find(|r| r.code == code_or_name || r.name == code_or_name)
    }

    /// What is silenced.
    pub fn ignores(&self) -> &[Ignore] {
        &self.ignores
    }

    pub(crate) fn today(&self) -> Option<Date> {
        self.today
    }

    /// The views whose rows [`crate::advise`] wants, sorted: none that no judging rule needs.
    pub fn views(&self) -> Vec<&str> {
        let step_time = self.has_step_time.then_some(STEP_TIME_VIEW);
        let judged = self.of_runs().chain(&self.watched).filter(|r| r.sql.is_none());
        judged.map(Rule::table).chain(step_time).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The views that hold second estimates for the findings of a report, sorted. They cost more than
    /// others, and a run without findings needs none: judge first, and again with their rows.
    pub fn what_if_views(&self, report: &Report) -> Vec<&str> {
        let found = |rule: &&Rule| report.findings.iter().any(|f| f.code == rule.code);
        let metrics = self.rules.iter().filter(found).filter_map(|r| r.gain.what_if.as_ref());
        metrics.map(|m| m.view.as_str()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The views that say where in the program the findings of a report come from, sorted. Only traces with
    /// call stacks have rows there: judge first, and again with theirs.
    pub fn source_views(&self, report: &Report) -> Vec<&str> {
        let found = |rule: &&Rule| report.findings.iter().any(|f| f.code == rule.code);
        let metrics = self.rules.iter().filter(found).filter_map(|r| r.source.as_ref());
        metrics.map(|m| m.view.as_str()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The queries for the moments that show the findings of a report. Judge first, and again with their rows.
    pub fn evidence_queries(&self, report: &Report) -> Vec<EvidenceQuery> {
        let queries = report.findings.iter().filter_map(|finding| {
            let (name, rule) = (evidence_table(&finding.code), finding.name.clone());
            Some(EvidenceQuery { name, rule, sql: finding.sql.seen.clone()? })
        });
        queries.collect()
    }

    /// The queries that judging rules bring along; their results are handed to [`crate::advise`] as
    /// metric tables named after the rule.
    pub fn queries(&self) -> Vec<RuleQuery> {
        self.of_runs().chain(&self.watched).filter_map(RuleQuery::of).collect()
    }
}

/// The rule itself if it judges, else the nearest one around it that does.
fn nearest_on(code: Option<&str>, all: &[Rule], off: &BTreeMap<String, Off>) -> Option<String> {
    let mut code = code?;
    while off.contains_key(code) {
        code = all.iter().find(|r| r.code == code)?.within.as_deref()?;
    }
    Some(code.to_owned())
}

/// Rule files that were read, before they are checked: the queries in them say which metrics there are.
pub struct RuleFiles<'a> {
    sources: &'a [RuleSource],
    files: Files,
    problems: Problems<'a>,
}

impl<'a> RuleFiles<'a> {
    /// Reads rule files; what is wrong with them is told when they are checked.
    pub fn read(sources: &'a [RuleSource]) -> Self {
        let mut problems = Problems::new(sources);
        let mut files = Files::default();
        for (file, source) in sources.iter().enumerate() {
            files.read(file, &source.text, &mut problems);
        }
        Self { sources, files, problems }
    }

    /// The queries that rules bring along, whatever else may be wrong with the files.
    pub fn queries(&self) -> Vec<StatedQuery> {
        self.files.rules.values().filter_map(StatedQuery::in_rule).collect()
    }

    /// Checks the files, see [`RuleSet::load`].
    ///
    /// # Errors
    /// Every mistake in every file, in order of place.
    pub fn load(self, metrics: &[MetricSpec]) -> Result<RuleSet, Vec<Problem>> {
        RuleSet::of(self, metrics)
    }
}

impl std::fmt::Debug for RuleFiles<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleFiles").field("rules", &self.files.rules.keys()).finish_non_exhaustive()
    }
}

/// What the files say, before it is checked rule by rule.
#[derive(Default)]
struct Files {
    rules: BTreeMap<String, Layered>,
    /// Rules with a table that cannot be read in part: they exist, but what they lack is not said.
    unsound: BTreeSet<String>,
    ignores: Vec<(Span, String, IgnoreTable)>,
    /// Entries with mistakes: only whether they mean a rule is looked at.
    unread_ignores: Vec<(Span, String)>,
    policies: Vec<(usize, PolicyTable)>,
}

impl Files {
    fn read(&mut self, file: usize, text: &str, problems: &mut Problems<'_>) {
        let (root, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let span = Span { file, bytes: error.span().unwrap_or(0..0) };
            problems.add(&span, format!("not TOML: {}", error.message()), None);
        }
        if !errors.is_empty() {
            return;
        }
        for (key, value) in root.into_inner() {
            let span = Span { file, bytes: key.span() };
            let name: &str = key.get_ref();
            let place = match name {
                "rule" => Place::Rule,
                "ignore" => Place::Ignore,
                "policy" => {
                    let (value, sound) = shape::check(value, Place::Policy, file, problems);
                    let table = decode(value, sound, &span, problems);
                    self.policies.extend(table.map(|table| (file, table)));
                    continue;
                }
                other => {
                    let help = did_you_mean(other, ["rule", "ignore", "policy"]);
                    let help = help.unwrap_or_else(|| {
                        "a file has `[policy]`, `[rule.<name>]` and `[ignore.<name>]`".to_owned()
                    });
                    problems.add(&span, format!("unknown key `{other}`"), Some(help));
                    continue;
                }
            };
            let DeValue::Table(tables) = value.into_inner() else {
                problems.add(&span, format!("`{name}` must be a table: `[{name}.<name>]`"), None);
                continue;
            };
            for (key, value) in tables {
                let span = Span { file, bytes: key.span() };
                let name = key.into_inner().into_owned();
                let (value, sound) = shape::check(value, place, file, problems);
                match place {
                    Place::Rule => self.rule(name, span, value, sound, problems),
                    Place::Ignore if sound => {
                        if let Some(table) = decode(value, sound, &span, problems) {
                            self.ignores.push((span, name, table));
                        }
                    }
                    Place::Ignore | Place::Policy => self.unread_ignores.push((span, name)),
                }
            }
        }
    }

    fn rule(
        &mut self,
        name: String,
        span: Span,
        value: Spanned<DeValue<'_>>,
        sound: bool,
        problems: &mut Problems<'_>,
    ) {
        let kebab = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if !kebab || name.starts_with('-') || name.ends_with('-') || name.is_empty() {
            let help = "lower-case words joined by `-`: `dataloader-wait`".to_owned();
            problems.add(&span, format!("`{name}` is not a rule name"), Some(help));
        }
        let table: Option<RuleTable> = decode(value, sound, &span, problems);
        if !sound || table.is_none() {
            self.unsound.insert(name.clone());
        }
        if let Some(table) = table {
            let file = span.file;
            self.rules
                .entry(name.clone())
                .or_insert_with(|| Layered { name, span, layers: Vec::new() })
                .layers
                .push((file, table));
        }
    }
}

/// A table as a struct. `sound`: nothing was found wrong with its shape; else what is left has been told already.
fn decode<'de, T: Deserialize<'de>>(
    value: Spanned<DeValue<'de>>,
    sound: bool,
    at: &Span,
    problems: &mut Problems<'_>,
) -> Option<T> {
    let table = T::deserialize(ValueDeserializer::from(value));
    if let (Err(error), true) = (&table, sound) {
        let bytes = error.span().unwrap_or_else(|| at.bytes.clone());
        problems.add(&Span { file: at.file, bytes }, error.message().to_owned(), None);
    }
    table.ok()
}

/// Checks codes against each other and resolves the references between rules.
fn link(rules: &mut [Rule], files: &Files, problems: &mut Problems<'_>) {
    let mut codes: BTreeMap<&str, &str> = BTreeMap::new();
    for rule in rules.iter() {
        if let Some(first) = codes.insert(&rule.code, &rule.name) {
            let layered = &files.rules[&rule.name];
            let message = format!("the code `{}` is that of rule `{first}` already", rule.code);
            problems.add(&layered.span, message, None);
        }
    }
    let known: Vec<(String, String)> =
        rules.iter().map(|r| (r.code.clone(), r.name.clone())).collect();
    for rule in rules.iter_mut() {
        let layered = &files.rules[&rule.name];
        rule.within = layered.within().and_then(|t| resolve(&t, &known, files, problems));
        rule.overlaps =
            layered.overlaps().iter().filter_map(|t| resolve(t, &known, files, problems)).collect();
        for prefix in layered.weakens() {
            if known.iter().any(|(code, _)| code.starts_with(prefix.text)) {
                rule.weakens.push(prefix.text.to_owned());
            } else {
                let message = format!("no code begins with `{}`", prefix.text);
                problems.add(&prefix.span, message, None);
            }
        }
    }
    let parents: BTreeMap<&str, &str> =
        rules.iter().filter_map(|r| Some((r.code.as_str(), r.within.as_deref()?))).collect();
    for rule in rules.iter() {
        let mut seen = vec![rule.code.as_str()];
        while let Some(&parent) = parents.get(seen[seen.len() - 1]) {
            if parent == rule.code {
                seen.push(parent);
                let message = format!("`within` goes in a circle: {}", seen.join(" in "));
                if let Some(within) = files.rules[&rule.name].within() {
                    problems.add(&within.span, message, None);
                }
                break;
            }
            if seen.contains(&parent) {
                break; // reported at the rules of the circle
            }
            seen.push(parent);
        }
    }
}

/// The code of the rule that is meant by a code or name.
fn resolve(
    text: &Text<'_>,
    known: &[(String, String)],
    files: &Files,
    problems: &mut Problems<'_>,
) -> Option<String> {
    if let Some((code, _)) =
        known.iter().find(|(code, name)| code == text.text || name == text.text)
    {
        return Some(code.clone());
    }
    // The code of a rule that could not be read may well be the one that is meant.
    if files.unsound.is_empty() {
        let names = known.iter().flat_map(|(code, name)| [code.as_str(), name.as_str()]);
        let help = did_you_mean(text.text, names);
        problems.add(&text.span, format!("there is no rule `{}`", text.text), help);
    }
    None
}

fn ignores(files: &Files, rules: &[Rule], problems: &mut Problems<'_>) -> Vec<Ignore> {
    let mut ignores: Vec<Ignore> = Vec::new();
    for (span, name) in &files.unread_ignores {
        meant(&Text { span: span.clone(), text: name }, rules, files, problems);
    }
    for (span, name, table) in &files.ignores {
        let codes = meant(&Text { span: span.clone(), text: name }, rules, files, problems);
        if table.reason.get_ref().trim().is_empty() {
            let span = Span { file: span.file, bytes: table.reason.span() };
            problems.add(&span, "the reason is empty", None);
        }
        let until = table.until.as_ref().and_then(|until| {
            let date = Date::parse(until.get_ref());
            if date.is_none() {
                let span = Span { file: span.file, bytes: until.span() };
                let help = "a date such as `2027-01-01`".to_owned();
                problems.add(&span, format!("`{}` is not a day", until.get_ref()), Some(help));
            }
            date
        });
        if let Some(codes) = codes {
            let reason = table.reason.get_ref().trim().to_owned();
            // A later file changes what an earlier one says.
            ignores.retain(|i| i.selector != *name);
            let at = problems.place(span);
            ignores.push(Ignore { selector: name.clone(), codes, reason, until, at });
        }
    }
    ignores
}

/// The codes that a selector in a file means; `None` with a problem if it means none.
fn meant(
    text: &Text<'_>,
    rules: &[Rule],
    files: &Files,
    problems: &mut Problems<'_>,
) -> Option<Vec<String>> {
    match policy::meant(text.text, rules) {
        Ok(codes) => Some(codes),
        Err(error) => {
            // A rule that could not be read may well be the one that is meant.
            if files.unsound.is_empty() {
                problems.add(&text.span, error.to_string(), Some(error.help));
            }
            None
        }
    }
}

/// The policy that the files add up to.
fn stated_policy(files: &Files, rules: &[Rule], problems: &mut Problems<'_>) -> Policy {
    let mut policy = Policy::default();
    for (file, table) in &files.policies {
        let mut selectors = |list: &Option<Vec<Spanned<String>>>| {
            let list = list.as_ref()?;
            for text in list {
                meant(&Text::new(*file, text), rules, files, problems);
            }
            Some(list.iter().map(|t| t.get_ref().clone()).collect())
        };
        let (select, ignore) = (selectors(&table.select), selectors(&table.ignore));
        let min_gain_pct = table.min_gain.as_ref().and_then(|text| {
            let percent = policy::percent(text.get_ref());
            if percent.is_none() {
                let text = Text::new(*file, text);
                let message = format!("`{}` is no percent of the step time", text.text);
                problems.add(&text.span, message, Some("for example `1 %`".to_owned()));
            }
            percent
        });
        policy = Policy { select, ignore, min_gain_pct, fail_on: table.fail_on }.over(&policy);
    }
    policy
}
