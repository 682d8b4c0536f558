//! Loads rule files into a checked set of rules, or reports every mistake in them.

use std::collections::{BTreeMap, BTreeSet};

use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use serde::{Deserialize, Serialize};
use trace_model::MetricSpec;

use crate::evaluation::held_capabilities::CAPABILITIES_VIEW;
use crate::evaluation::run_traits::RUN_TRAITS_VIEW;
use crate::language::compile::compile;
use crate::language::fix::{Fix, Prediction, compile_fixes};
use crate::language::ignore::{Date, Ignore};
use crate::language::link::{link, resolve_ignores, resolve_policy};
use crate::language::policy::{self, Policy, UnknownSelector};
use crate::language::problem::{Problem, Problems, RuleSource};
use crate::language::query::RuleQuery;
use crate::language::rule::{Rule, RuleStatus, STEP_TIME_VIEW};
use crate::language::rule_check::TraitNames;
use crate::language::rule_files::RuleFiles;
use crate::report::recording::{HOST_TIME_VIEW, NO_TIMELINE_VIEWS, RECORDING_VIEW};

/// Rules, merged and checked. They are stored as the files state them: without date, names of files, or another policy.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "CheckedRules", into = "CheckedRules")]
pub struct RuleSet {
    /// Active rules.
    rules: Vec<Rule>,
    /// Rules that are not selected, but cast doubt on findings of active rules.
    caveat_rules: Vec<Rule>,
    checked: CheckedRules,
    /// Inactive rules by code, with the reason.
    inactive: BTreeMap<String, Inactive>,
    policy: Policy,
    today: Option<Date>,
    /// Names of the files besides the built-in ones.
    files: Vec<String>,
}

/// The content of rule files.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CheckedRules {
    /// All rules of the files.
    all: Vec<Rule>,
    /// Codes of rules that are switched off.
    disabled: BTreeSet<String>,
    policy: Policy,
    ignores: Vec<Ignore>,
    fixes: Vec<Fix>,
    prediction: Prediction,
    /// The views that describe the run rather than feed one rule, as far as they are known.
    run_views: BTreeSet<String>,
}

/// Reason why a rule is not evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inactive {
    /// `enabled = false`.
    Disabled,
    /// It is in preview.
    Preview,
    /// Other rules are selected.
    NotSelected,
    /// The policy ignores it.
    Ignored,
}

impl Inactive {
    /// As a phrase.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "switched off",
            Self::Preview => "preview: --preview turns it on",
            Self::NotSelected => "not selected",
            Self::Ignored => "ignored by policy",
        }
    }
}

impl RuleSet {
    /// Loads rule files; later files override earlier ones.
    ///
    /// A table for a rule that exists changes only the keys it states. `metrics` are the metrics that rules
    /// may refer to; for a rule with a query, a metric whose view has the rule's name gives the columns of
    /// the query.
    ///
    /// # Errors
    /// Every mistake in every file, in order of place.
    pub fn load(sources: &[RuleSource], metrics: &[MetricSpec]) -> Result<Self, Vec<Problem>> {
        RuleFiles::read(sources).load(metrics)
    }

    fn build(files: RuleFiles<'_>, metrics: &[MetricSpec]) -> Result<Self, Vec<Problem>> {
        let RuleFiles { sources, files, mut problems } = files;
        let names: Vec<&str> =
            files.rules.keys().chain(&files.malformed).map(String::as_str).collect();
        let compiled: Vec<_> = files
            .rules
            .par_iter()
            .map(|(name, layered)| {
                let mut problems = Problems::new(sources);
                let rule = compile(layered, metrics, &names, &mut problems);
                (name, layered, rule, problems)
            })
            .collect();
        let mut all: Vec<Rule> = Vec::new();
        for (name, layered, rule, others) in compiled {
            if files.malformed.contains(name) {
                // Keys that seem to be missing may be among those that could not be read.
                let sql = layered.last_text(|t| t.sql.as_ref()).map(|sql| sql.span);
                problems.take(others, |at| *at != layered.span && Some(at) != sql.as_ref());
            } else {
                problems.take(others, |_| true);
                all.extend(rule);
            }
        }
        all.sort_by(|a, b| (&a.code, &a.name).cmp(&(&b.code, &b.name)));
        link(&mut all, &files, &mut problems);
        let ignores = resolve_ignores(&files, &all, &mut problems);
        let policy = resolve_policy(&files, &all, &mut problems);
        let mut traits = TraitNames::new(metrics, false);
        let prediction = Prediction::of_tables(&files.predictions);
        let fixes = compile_fixes(&files.fixes, &all, &prediction, &mut traits, &mut problems);
        let problems = problems.finish();
        if !problems.is_empty() {
            return Err(problems);
        }
        let disabled = all.iter().filter(|r| !files.rules[&r.name].enabled());
        let disabled = disabled.map(|r| r.code.clone()).collect();
        // The rows of capabilities are no metrics: their view is there where the traits of the run are.
        let is_known = |view: &&str| {
            let known_by = if *view == CAPABILITIES_VIEW { RUN_TRAITS_VIEW } else { view };
            metrics.iter().any(|metric| metric.view == known_by)
        };
        let run_views =
            [STEP_TIME_VIEW, RUN_TRAITS_VIEW, CAPABILITIES_VIEW, RECORDING_VIEW, HOST_TIME_VIEW];
        let run_views = run_views
            .into_iter()
            .chain(NO_TIMELINE_VIEWS)
            .filter(is_known)
            .map(str::to_owned)
            .collect();
        let checked = CheckedRules { all, disabled, policy, ignores, fixes, prediction, run_views };
        Ok(checked.into())
    }

    /// Overrides the policy of the files.
    ///
    /// # Errors
    /// The selectors that match no rule.
    pub fn with_policy(mut self, policy: &Policy) -> Result<Self, Vec<UnknownSelector>> {
        let policy = policy.or(&self.policy);
        if policy == self.policy {
            return Ok(self);
        }
        self.policy = policy;
        let unknown = self.apply();
        if unknown.is_empty() { Ok(self) } else { Err(unknown) }
    }

    /// Divides the rules into active and inactive ones. Returns selectors that match no rule.
    fn apply(&mut self) -> Vec<UnknownSelector> {
        let mut unknown = Vec::new();
        let mut codes = |selectors: &Option<Vec<String>>| -> BTreeSet<String> {
            let mut codes = BTreeSet::new();
            for selector in selectors.iter().flatten() {
                match policy::resolve_selector(selector, &self.checked.all) {
                    Ok(matches) => codes.extend(matches),
                    Err(error) => unknown.push(error),
                }
            }
            codes
        };
        let (selected, ignored) = (codes(&self.policy.select), codes(&self.policy.ignore));
        let everything = self.policy.select.as_ref().is_none_or(Vec::is_empty);
        let CheckedRules { all, disabled, .. } = &self.checked;
        let takes_preview = self.policy.preview.unwrap_or(false);
        let named = self.policy.select.as_deref().unwrap_or_default();
        let is_named = |rule: &Rule| named.iter().any(|s| *s == rule.code || *s == rule.name);
        self.inactive.clear();
        for rule in all {
            if disabled.contains(&rule.code) {
                self.inactive.insert(rule.code.clone(), Inactive::Disabled);
            } else if ignored.contains(&rule.code) {
                self.inactive.insert(rule.code.clone(), Inactive::Ignored);
            } else if !everything && !selected.contains(&rule.code) {
                self.inactive.insert(rule.code.clone(), Inactive::NotSelected);
            } else if rule.status == RuleStatus::Preview && !takes_preview && !is_named(rule) {
                self.inactive.insert(rule.code.clone(), Inactive::Preview);
            }
        }
        let is_active = |rule: &&Rule| !self.inactive.contains_key(&rule.code);
        self.rules = all.iter().filter(is_active).cloned().collect();
        for rule in &mut self.rules {
            rule.within = nearest_active(rule.within.as_deref(), all, &self.inactive);
        }
        // Deselecting a rule about the trace does not remove its caveats; ignoring the rule does.
        let casts_doubt = |rule: &&Rule| {
            let weakened = |r: &Rule| rule.weakens.iter().any(|w| r.code.starts_with(w.as_str()));
            self.inactive.get(&rule.code) == Some(&Inactive::NotSelected)
                && self.rules.iter().any(weakened)
        };
        self.caveat_rules = all.iter().filter(casts_doubt).cloned().collect();
        unknown
    }

    /// Sets the date against which ignore entries expire; without it, none expires.
    #[must_use]
    pub fn with_date(mut self, today: Date) -> Self {
        self.today = Some(today);
        self
    }

    /// The rules, with the names of the files that they come from besides the built-in ones.
    #[must_use]
    pub fn with_files(mut self, files: Vec<String>) -> Self {
        self.files = files;
        self
    }

    /// Names of the files that the rules come from, besides the built-in ones.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// The active rules, by code: those about runs and those about comparisons.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The active rules about runs.
    pub(crate) fn run_rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|r| !r.is_comparison())
    }

    /// The active rules about comparisons.
    pub(crate) fn comparison_rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|r| r.is_comparison())
    }

    /// Rules whose findings are not shown, but lower the confidence of other findings.
    pub(crate) fn caveat_rules(&self) -> &[Rule] {
        &self.caveat_rules
    }

    /// All rules of the files, by code, including inactive ones.
    pub fn all(&self) -> &[Rule] {
        &self.checked.all
    }

    /// The reason why a rule is not evaluated; `None` if it is.
    pub fn inactive(&self, rule: &Rule) -> Option<Inactive> {
        self.inactive.get(&rule.code).copied()
    }

    /// The policy in effect.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The active rule with this code or name.
    pub fn find(&self, code_or_name: &str) -> Option<&Rule> {
        self.rules.iter().find(|r| r.code == code_or_name || r.name == code_or_name)
    }

    /// The errors of predictions, and the devices on which they were measured.
    pub fn prediction(&self) -> &Prediction {
        &self.checked.prediction
    }

    /// The fixes, by name.
    pub fn fixes(&self) -> &[Fix] {
        &self.checked.fixes
    }

    /// The ignore entries.
    pub fn ignores(&self) -> &[Ignore] {
        &self.checked.ignores
    }

    pub(crate) fn today(&self) -> Option<Date> {
        self.today
    }

    /// The views whose rows [`crate::evaluate`] needs, sorted: only those of active rules.
    pub fn views(&self) -> Vec<&str> {
        let rules = || self.run_rules().chain(&self.caveat_rules);
        let is_read_for =
            |fix: &Fix| fix.reads_traits() && rules().any(|r| fix.rules.contains(&r.code));
        let reads_traits = rules().any(|r| r.reads_traits) || self.fixes().iter().any(is_read_for);
        let is_read = |view: &&str| match *view {
            RUN_TRAITS_VIEW => reads_traits,
            CAPABILITIES_VIEW => rules().any(Rule::has_needs),
            _ => true,
        };
        let run_views = self.checked.run_views.iter().map(String::as_str).filter(is_read);
        let judged = rules().filter(|r| r.sql.is_none()).map(Rule::table);
        judged.chain(run_views).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The queries of active rules; [`crate::evaluate`] takes their results as metric tables named after the
    /// rule.
    pub fn queries(&self) -> Vec<RuleQuery> {
        self.run_rules().chain(&self.caveat_rules).filter_map(RuleQuery::of).collect()
    }

    /// The queries that complete a report if all active rules fire, each as SQL or as the name of a view; see
    /// [`crate::Report::follow_ups`]; and those of the edits of all fixes. Sorted.
    pub fn follow_up_queries(&self) -> Vec<&str> {
        let sources = self.rules().iter().filter_map(|rule| rule.source.as_ref());
        let evidence = self.rules().iter().filter_map(|rule| rule.evidence.as_deref());
        let edits = self.fixes().iter().flat_map(|fix| &fix.edits);
        let edits = edits.filter_map(|edit| edit.target.query());
        let queries = sources.map(|metric| metric.view.as_str()).chain(evidence).chain(edits);
        queries.collect::<BTreeSet<_>>().into_iter().collect()
    }
}

impl From<CheckedRules> for RuleSet {
    fn from(checked: CheckedRules) -> Self {
        let mut set = Self {
            rules: Vec::new(),
            caveat_rules: Vec::new(),
            inactive: BTreeMap::new(),
            policy: checked.policy.clone(),
            checked,
            today: None,
            files: Vec::new(),
        };
        // The selectors of the files have been checked.
        set.apply();
        set
    }
}

impl From<RuleSet> for CheckedRules {
    fn from(rules: RuleSet) -> Self {
        rules.checked
    }
}

/// The rule itself if it is active, else the nearest active rule that contains it.
fn nearest_active(
    code: Option<&str>,
    all: &[Rule],
    inactive: &BTreeMap<String, Inactive>,
) -> Option<String> {
    let mut code = code?;
    while inactive.contains_key(code) {
        code = all.iter().find(|r| r.code == code)?.within.as_deref()?;
    }
    Some(code.to_owned())
}

impl RuleFiles<'_> {
    /// Checks the files, see [`RuleSet::load`].
    ///
    /// # Errors
    /// Every mistake in every file, in order of place.
    pub fn load(self, metrics: &[MetricSpec]) -> Result<RuleSet, Vec<Problem>> {
        RuleSet::build(self, metrics)
    }
}
