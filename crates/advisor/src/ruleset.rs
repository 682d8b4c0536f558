//! Rule files in, a checked set of rules out; or every mistake in them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use trace_model::MetricSpec;

use crate::compile::compile;
use crate::layers::{Layered, Text};
use crate::problem::{Problem, Problems, RuleSource, Span, did_you_mean};
use crate::report::Report;
use crate::rule::{EvidenceQuery, Rule, RuleQuery};
use crate::shape::{self, Place};
use crate::suppress::{Date, Ignore};
use crate::table::{IgnoreTable, RuleTable};

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
    rules: Vec<Rule>,
    ignores: Vec<Ignore>,
    has_step_time: bool,
    today: Option<Date>,
}

impl RuleSet {
    /// Reads rule files; later files change what earlier ones say.
    ///
    /// A table for a rule that exists changes only the keys it states. `metrics` is what rules may
    /// speak of.
    ///
    /// # Errors
    /// Every mistake in every file, in order of place.
    pub fn load(sources: &[RuleSource], metrics: &[MetricSpec]) -> Result<Self, Vec<Problem>> {
        let mut problems = Problems::new(sources);
        let mut files = Files::default();
        for (file, source) in sources.iter().enumerate() {
            files.read(file, &source.text, &mut problems);
        }
        let names: Vec<&str> =
            files.rules.keys().chain(&files.unsound).map(String::as_str).collect();
        let mut rules: Vec<Rule> = files
            .rules
            .iter()
            .filter(|(name, _)| !files.unsound.contains(*name))
            .filter_map(|(_, layered)| compile(layered, metrics, &names, &mut problems))
            .collect();
        rules.sort_by(|a, b| (&a.code, &a.name).cmp(&(&b.code, &b.name)));
        link(&mut rules, &files, &mut problems);
        let ignores = ignores(&files, &rules, &mut problems);
        rules.retain(|r| files.rules[&r.name].enabled());
        let problems = problems.finish();
        if !problems.is_empty() {
            return Err(problems);
        }
        let has_step_time = metrics.iter().any(|m| m.view == STEP_TIME_VIEW);
        Ok(Self { rules, ignores, has_step_time, today: None })
    }

    /// Sets the day on which silenced rules are checked for expiry; without, none expires.
    #[must_use]
    pub fn on(mut self, today: Date) -> Self {
        self.today = Some(today);
        self
    }

    /// The rules that are switched on, by code.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule with this code or name.
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

    /// The views whose rows [`crate::advise`] wants, sorted.
    pub fn views(&self) -> Vec<&str> {
        let step_time = self.has_step_time.then_some(STEP_TIME_VIEW);
        let judged = self.rules.iter().filter(|r| r.sql.is_none()).map(Rule::table);
        judged.chain(step_time).collect::<BTreeSet<_>>().into_iter().collect()
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

    /// The queries that rules bring along; their results are handed to [`crate::advise`] as metric
    /// tables named after the rule.
    pub fn queries(&self) -> Vec<RuleQuery> {
        self.rules
            .iter()
            .filter_map(|rule| {
                Some(RuleQuery {
                    name: rule.name.clone(),
                    sql: rule.sql.clone()?,
                    column: rule.metric.column.clone(),
                    unit: rule.metric.unit,
                    scope: rule.metric.scope,
                })
            })
            .collect()
    }
}

/// What the files say, before it is checked rule by rule.
#[derive(Default)]
struct Files {
    rules: BTreeMap<String, Layered>,
    /// Rules with a table that cannot be read: they exist, but nothing more is said about them.
    unsound: BTreeSet<String>,
    ignores: Vec<(Span, String, IgnoreTable)>,
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
                other => {
                    let help = did_you_mean(other, ["rule", "ignore"]).unwrap_or_else(|| {
                        "a file has `[rule.<name>]` and `[ignore.<name>]`".to_owned()
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
                let sound = shape::check(&value, place, file, problems);
                match place {
                    Place::Rule => self.rule(name, span, value, sound, problems),
                    Place::Ignore if sound => {
                        if let Some(table) = decode(value, &span, problems) {
                            self.ignores.push((span, name, table));
                        }
                    }
                    Place::Ignore => {}
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
        let table: Option<RuleTable> = if sound { decode(value, &span, problems) } else { None };
        match table {
            Some(table) => {
                let file = span.file;
                self.rules
                    .entry(name.clone())
                    .or_insert_with(|| Layered { name, span, layers: Vec::new() })
                    .layers
                    .push((file, table));
            }
            None => {
                self.unsound.insert(name);
            }
        }
    }
}

/// A table whose shape was found sound, as a struct.
fn decode<'de, T: Deserialize<'de>>(
    value: Spanned<DeValue<'de>>,
    at: &Span,
    problems: &mut Problems<'_>,
) -> Option<T> {
    T::deserialize(ValueDeserializer::from(value))
        .map_err(|error| {
            let bytes = error.span().unwrap_or_else(|| at.bytes.clone());
            problems.add(&Span { file: at.file, bytes }, error.message().to_owned(), None);
        })
        .ok()
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
    let known: Vec<(String, String)> =
        rules.iter().map(|r| (r.code.clone(), r.name.clone())).collect();
    let mut ignores = Vec::new();
    for (span, name, table) in &files.ignores {
        let code = resolve(&Text { span: span.clone(), text: name }, &known, files, problems);
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
        if let Some(code) = code {
            let reason = table.reason.get_ref().trim().to_owned();
            ignores.push(Ignore { code, reason, until, at: problems.place(span) });
        }
    }
    ignores
}
