//! Checks the expressions, texts and tests of a rule against the columns of its metric's view.

use std::collections::BTreeMap;

use minijinja::Environment;
use toml::Spanned;
use trace_model::suggest::nearest_column;
use trace_model::{Capability, MetricSpec, Scope, Unit};

use crate::evaluation::run_traits::{RUN_TRAITS_VIEW, command_names};
use crate::language::expr::{self, EXTRA_NAMES, Formula, RUN, trait_of};
use crate::language::file_schema::{
    CaveatTable, Cell, DoubtTable, RequirementTable, SeverityLimitTable, TestTable,
};
use crate::language::merge::MergedRule;
use crate::language::one_or_more::{CapabilityName, OneOrMore};
use crate::language::problem::{Problems, Span, SpannedStr, did_you_mean};
use crate::language::rule::{Caveat, Condition, Gain, SeverityLimit, Test};
use crate::language::severity::{GainMethod, Severity};
use crate::language::template_syntax::FILTERS;
use crate::language::text::{Text, TextBody, TextPart, join_lines};
use crate::language::text_schema::{TextPartTable, TextPartValue, TextValue};

/// Checks expressions and templates against the columns of the metric's view.
pub(crate) struct RuleChecker<'a, 'p, 'e, 's> {
    pub(crate) env: &'e Environment<'s>,
    pub(crate) metric: &'a MetricSpec,
    /// The source of the columns, for messages: "the view `gpu_utilization`".
    pub(crate) place: &'a str,
    /// The traits of a run that the texts and expressions read.
    pub(crate) traits: TraitNames<'a>,
    pub(crate) problems: &'a mut Problems<'p>,
}

/// The traits of a run, and whether the rule reads any.
pub(crate) struct TraitNames<'a> {
    /// The columns of the view of traits; empty if it is unknown.
    columns: &'a [(String, Unit)],
    /// The names under which commands find the run; these are known of every run.
    command_names: &'static [&'static str],
    pub(crate) are_read: bool,
}

impl<'a> TraitNames<'a> {
    pub(crate) fn new(metrics: &'a [MetricSpec], is_comparison: bool) -> Self {
        let view = metrics.iter().find(|m| m.view == RUN_TRAITS_VIEW);
        let columns = view.map(|m| m.columns.as_slice()).unwrap_or_default();
        Self { columns, command_names: command_names(is_comparison), are_read: false }
    }

    /// Checks the name of a trait: `vendor` for `run.vendor`.
    fn check(&mut self, at: &Span, name: &str, problems: &mut Problems<'_>) {
        if self.command_names.contains(&name) {
            return;
        }
        self.are_read = true;
        let columns = self.columns.iter().map(|(name, _)| name.as_str());
        let known: Vec<&str> = columns.chain(self.command_names.iter().copied()).collect();
        if !self.columns.is_empty() && !known.contains(&name) {
            let help = did_you_mean(name, known.iter().copied())
                .unwrap_or_else(|| format!("its traits: {}", known.join(", ")));
            problems.add(at, format!("a run has no trait `{name}`"), Some(help));
        }
    }

    /// Checks the names that a text without a row reads: all of them are traits.
    pub(crate) fn check_all(&mut self, at: &Span, names: &[String], problems: &mut Problems<'_>) {
        for name in names.iter().filter(|name| name.as_str() != RUN) {
            if let Some(name) = trait_of(name) {
                self.check(at, name, problems);
            } else {
                let help = "a fix may read the traits of the run: `run.vendor`".to_owned();
                problems.add(at, format!("a fix has no column `{name}`"), Some(help));
            }
        }
    }
}

impl<'s> RuleChecker<'_, '_, '_, 's> {
    fn names(&mut self, at: &Span, names: &[String], extra: &[&str]) {
        self.trait_names(at, names.iter().filter_map(|name| trait_of(name)));
        if names.iter().any(|name| name == RUN) {
            let help = "name one of its traits: `run.vendor`".to_owned();
            self.problems.add(at, "`run` is no value of its own", Some(help));
        }
        let is_run = |name: &&String| name.as_str() == RUN || trait_of(name).is_some();
        let names: Vec<&String> = names.iter().filter(|name| !is_run(name)).collect();
        // The columns of a rule's query are unknown until it is planned.
        if self.metric.columns.is_empty() {
            return;
        }
        let columns = || self.metric.columns.iter().map(|(c, _)| c.as_str());
        for name in
            names.iter().filter(|n| !columns().any(|c| c == **n) && !extra.contains(&n.as_str()))
        {
            let columns: Vec<&str> = columns().collect();
            let help = match nearest_column(name, &columns) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("its columns: {}", columns.join(", ")),
            };
            let message = format!("{} has no column `{name}`", self.place);
            self.problems.add(at, message, Some(help));
        }
    }

    /// Checks names of traits: `vendor` for `run.vendor`.
    fn trait_names<'n>(&mut self, at: &Span, names: impl Iterator<Item = &'n str>) {
        for name in names {
            self.traits.check(at, name, self.problems);
        }
    }

    pub(crate) fn expression(&mut self, text: &SpannedStr<'s>) {
        self.condition(text, &[]);
    }

    /// Checks an expression that may read the names in `extra` besides the columns.
    fn condition(&mut self, text: &SpannedStr<'s>, extra: &[&str]) {
        match Formula::new(self.env, text.text) {
            Ok(formula) => self.names(&text.span, formula.reads(), extra),
            Err(mistake) => {
                let message = format!("the expression is invalid: {}", mistake.message);
                self.problems.add_within(text, mistake.bytes, message, None);
            }
        }
    }

    /// Checks a text and returns it; a missing one is empty.
    pub(crate) fn text(&mut self, value: Option<(usize, &'s Spanned<TextValue>)>) -> Text {
        let Some((file, value)) = value else { return Text::default() };
        let parts = match value.get_ref() {
            TextValue::Template(text) => {
                let span = Span { file, bytes: value.span() };
                self.template(&SpannedStr { span, text });
                vec![TextPart::template(text)]
            }
            TextValue::Parts(parts) => parts.iter().map(|p| self.text_part(file, p)).collect(),
        };
        Text { parts }
    }

    /// Checks a part of a text, or a piece of advice, and returns it.
    pub(crate) fn text_part(&mut self, file: usize, value: &'s Spanned<TextPartValue>) -> TextPart {
        let span = Span { file, bytes: value.span() };
        let TextPartTable { when, text, first_of } = match value.get_ref() {
            TextPartValue::Template(text) => {
                self.template(&SpannedStr { span, text });
                return TextPart::template(text);
            }
            TextPartValue::Table(table) => table,
        };
        if let Some(when) = when {
            self.condition(&SpannedStr::new(file, when), &EXTRA_NAMES);
        }
        let body = match (text, first_of) {
            (Some(text), None) => {
                self.template(&SpannedStr::new(file, text));
                TextBody::Template(join_lines(text.get_ref()))
            }
            (None, Some(parts)) => {
                TextBody::FirstOf(parts.iter().map(|part| self.text_part(file, part)).collect())
            }
            _ => {
                self.problems.add(&span, "a part of a text has either `text` or `first_of`", None);
                TextBody::Template(String::new())
            }
        };
        TextPart { when: when.as_ref().map(|t| t.get_ref().trim().to_owned()), body }
    }

    pub(crate) fn template(&mut self, text: &SpannedStr<'_>) {
        match expr::checked_reads(self.env, text.text) {
            Ok(names) => self.names(&text.span, &names, &EXTRA_NAMES),
            Err(mistake) => {
                // Mistakes with a location were found after parsing, so minijinja can list the names.
                if mistake.bytes.is_some()
                    && let Ok(names) = expr::template_reads(self.env, text.text)
                {
                    self.names(&text.span, &names, &EXTRA_NAMES);
                }
                let message = format!("the template is invalid: {}", mistake.message);
                let [names @ .., last] = FILTERS;
                let help = if mistake.message.starts_with("unknown filter") {
                    format!("filters are {} and {last}", names.join(", "))
                } else {
                    "texts support `{% if %}`, filters, comparisons and arithmetic".to_owned()
                };
                self.problems.add_within(text, mistake.bytes, message, Some(help));
            }
        }
    }

    pub(crate) fn requirements(
        &mut self,
        stated: Option<(usize, &'s Vec<Spanned<RequirementTable>>)>,
    ) -> Vec<Condition> {
        let Some((file, list)) = stated else { return Vec::new() };
        let check = |table: &'s Spanned<RequirementTable>| {
            let RequirementTable { expr, needs, reason } = table.get_ref();
            let mut missing = |what: &str, help: &str| {
                let span = Span { file, bytes: table.span() };
                self.problems.add(
                    &span,
                    format!("a requirement has {what}"),
                    Some(help.to_owned()),
                );
            };
            match (expr, needs, reason) {
                (None, None, _) => missing("neither `expr` nor `needs`", "state at least one"),
                (_, None, None) => {
                    missing("no `reason`", "it may be left out where `needs` is given");
                }
                _ => {}
            }
            if let Some(expr) = expr {
                self.expression(&SpannedStr::new(file, expr));
            }
            let reason = reason.as_ref().map(|reason| self.text(Some((file, reason))));
            Condition {
                expr: expr.as_ref().map(|expr| expr.get_ref().clone()),
                needs: capabilities(needs.as_ref()),
                reason,
            }
        };
        list.iter().map(check).collect()
    }

    pub(crate) fn doubts(
        &mut self,
        stated: Option<(usize, &'s Vec<DoubtTable>)>,
    ) -> Vec<Condition> {
        let Some((file, list)) = stated else { return Vec::new() };
        let check = |table: &'s DoubtTable| {
            self.expression(&SpannedStr::new(file, &table.expr));
            Condition {
                expr: Some(table.expr.get_ref().clone()),
                needs: capabilities(table.needs.as_ref()),
                reason: Some(self.text(Some((file, &table.reason)))),
            }
        };
        list.iter().map(check).collect()
    }

    pub(crate) fn caveats(&mut self, merged: &'s MergedRule) -> Vec<Caveat> {
        let Some((file, list)) = merged.last(|t| t.lower_confidence.as_ref()) else {
            return Vec::new();
        };
        let check = |caveat: &'s CaveatTable| {
            self.expression(&SpannedStr::new(file, &caveat.when));
            let reason = self.text(Some((file, &caveat.reason)));
            Caveat { when: caveat.when.get_ref().clone(), reason, to: caveat.to }
        };
        list.iter().map(check).collect()
    }

    pub(crate) fn severity_limits(&mut self, merged: &'s MergedRule) -> Vec<SeverityLimit> {
        let Some((file, list)) = merged.last(|t| t.unpredicted.as_ref()) else {
            return Vec::new();
        };
        let check = |limit: &'s SeverityLimitTable| {
            self.expression(&SpannedStr::new(file, &limit.when));
            let reason = self.text(Some((file, &limit.reason)));
            let advice = self.text(limit.advice.as_ref().map(|text| (file, text)));
            SeverityLimit { when: limit.when.get_ref().clone(), to: limit.to, reason, advice }
        };
        list.iter().map(check).collect()
    }

    pub(crate) fn gain(&mut self, merged: &'s MergedRule) -> Gain {
        let Some((file, table)) = merged.last(|t| t.gain.as_ref()) else {
            return Gain::default();
        };
        let (low, high) = (table.low.unwrap_or(0.75), table.high.unwrap_or(1.0));
        let floor = table.floor.unwrap_or(0.0);
        let span = match &table.of {
            Some(of) => {
                let text = SpannedStr::new(file, of);
                self.expression(&text);
                text.span
            }
            None => merged.span.clone(),
        };
        if !(0.0 <= low && low <= high && high <= 1.0 && (0.0..1.0).contains(&floor)) {
            let message = "the gain needs 0 <= low <= high <= 1 and a floor below 1";
            self.problems.add(&span, message, None);
        }
        if table.of.is_none() && table.method != GainMethod::None {
            let message = format!("the gain of rule `{}` has no `of`", merged.name);
            let help =
                "an expression giving a share of step time; or `method = \"none\"`".to_owned();
            self.problems.add(&span, message, Some(help));
        }
        let of = (table.method != GainMethod::None).then_some(table.of.as_ref()).flatten();
        let of = of.map(|t| t.get_ref().clone());
        Gain { of, low, high, method: table.method, floor }
    }

    /// The metric of source lines.
    pub(crate) fn source(
        &mut self,
        merged: &MergedRule,
        metrics: &[MetricSpec],
    ) -> Option<MetricSpec> {
        let name = merged.last_text(|t| t.source.as_ref())?;
        let fits = |m: &&MetricSpec| m.scope == Scope::Line;
        if let Some(metric) = metrics.iter().find(|m| m.is_named(name.text)).filter(fits) {
            return Some(metric.clone());
        }
        let names: Vec<String> = metrics.iter().filter(fits).map(MetricSpec::name).collect();
        let help = did_you_mean(name.text, names.iter().map(String::as_str))
            .unwrap_or_else(|| "such as `source_lines.device_ns`".to_owned());
        let message = format!("`{}` is not a metric of scope line", name.text);
        self.problems.add(&name.span, message, Some(help));
        None
    }

    /// The rule's tests; none if a later file changes the thresholds or conditions.
    pub(crate) fn tests(&mut self, merged: &MergedRule) -> Vec<Test> {
        let Some(layer) = merged.layers.iter().rposition(|(_, t)| t.tests.is_some()) else {
            return Vec::new();
        };
        if merged.layers[layer + 1..].iter().any(|(_, t)| t.changes_verdicts()) {
            return Vec::new();
        }
        let (file, table) = &merged.layers[layer];
        let rows = table.tests.as_deref().unwrap_or_default();
        rows.iter().map(|row| self.test(*file, row)).collect()
    }

    fn test(&mut self, file: usize, row: &Spanned<TestTable>) -> Test {
        let span = Span { file, bytes: row.span() };
        let row = row.get_ref();
        let names: Vec<String> = row.columns.keys().cloned().collect();
        self.names(&span, &names, &[]);
        self.trait_names(&span, row.run.keys().map(String::as_str));
        let verdicts = Severity::WORST_FIRST.map(Severity::as_str).into_iter();
        let mut verdicts = verdicts.chain(["pass", "unknown"]);
        if !verdicts.clone().any(|v| v == row.expect) {
            let help = did_you_mean(&row.expect, verdicts.by_ref())
                .unwrap_or_else(|| "a severity, `pass` or `unknown`".to_owned());
            self.problems.add(&span, format!("cannot expect `{}`", row.expect), Some(help));
        }
        let values = |cells: &BTreeMap<String, Cell>| {
            cells.iter().map(|(name, cell)| (name.clone(), cell.value())).collect()
        };
        Test {
            at: self.problems.place(&span),
            expect: row.expect.clone(),
            expect_gain_pct: row.expect_gain_pct,
            expect_confidence: row.expect_confidence,
            run: values(&row.run),
            lacks: capabilities(row.lacks.as_ref()),
            columns: values(&row.columns),
        }
    }
}

fn capabilities(names: Option<&OneOrMore<CapabilityName>>) -> Vec<Capability> {
    names.map(|names| names.0.iter().map(|name| name.0).collect()).unwrap_or_default()
}
