//! Merged tables -> rules: everything a complete rule needs, checked, all mistakes collected.

use trace_model::suggest::nearest;
use trace_model::{MetricSpec, Scope, Unit};

use crate::checker::Checker;
use crate::expr;
use crate::grade::{Confidence, Severity};
use crate::layers::{Layered, Text};
use crate::problem::{Problems, Span, did_you_mean};
use crate::query::RuleQuery;
use crate::rule::{Check, Rule};
use crate::threshold::{self, Threshold};

/// The rule that the layers add up to; `None` if a mistake leaves no rule to speak of. `within`,
/// `overlaps` and `weakens` are left to the caller, who sees all rules.
pub(crate) fn compile(
    layered: &Layered,
    metrics: &[MetricSpec],
    known_names: &[&str],
    problems: &mut Problems<'_>,
) -> Option<Rule> {
    let mut compiler = Compiler { layered, problems };
    compiler.rule(metrics, known_names)
}

struct Compiler<'a, 'p> {
    layered: &'a Layered,
    problems: &'a mut Problems<'p>,
}

impl Compiler<'_, '_> {
    fn rule(&mut self, metrics: &[MetricSpec], known_names: &[&str]) -> Option<Rule> {
        let layered = self.layered;
        let required: [(&str, Option<Text<'_>>); 5] = [
            ("code", layered.last_text(|t| t.code.as_ref())),
            ("category", layered.last_text(|t| t.category.as_ref())),
            ("title", layered.last_text(|t| t.title.as_ref())),
            ("message", layered.last_text(|t| t.message.as_ref())),
            ("why", layered.last_text(|t| t.why.as_ref())),
        ];
        // A table with neither code nor metric was meant to change another file's rule.
        let judged = layered.last(|t| t.metric.as_ref().or(t.sql.as_ref())).is_some();
        if required[0].1.is_none() && !judged {
            let others = known_names.iter().copied().filter(|n| *n != layered.name);
            let help = did_you_mean(&layered.name, others).unwrap_or_else(|| {
                "to change a rule, name one that an earlier file defines; \
                 a new rule needs at least `code`, `metric` and a threshold"
                    .to_owned()
            });
            let message = format!("there is no rule `{}` to change", layered.name);
            self.problems.add(&layered.span, message, Some(help));
            return None;
        }
        for (key, text) in &required {
            match text {
                Some(t) if t.text.trim().is_empty() => {
                    self.problems.add(&t.span, format!("`{key}` is empty"), None);
                }
                Some(_) => {}
                None => {
                    let message = format!("rule `{}` has no `{key}`", layered.name);
                    self.problems.add(&layered.span, message, None);
                }
            }
        }
        let [code, category, title, message, why] = required.map(|(_, t)| t);
        if let Some(code) = &code {
            self.check_code(code);
        }

        let metric = self.metric(metrics)?;
        let checks = self.checks(&metric);
        let env = expr::environment();
        let place = self.place(&metric);
        let mut checker =
            Checker { env: &env, metric: &metric, place: &place, problems: self.problems };
        for text in [&title, &message].into_iter().flatten() {
            checker.template(text);
        }
        let advice = layered.texts(|t| t.advice.as_ref());
        for text in &advice {
            checker.template(text);
        }
        let requires = checker.conditions(layered.last(|t| t.requires.as_ref()));
        let doubts = checker.conditions(layered.last(|t| t.doubts.as_ref()));
        let only_if = layered.last_text(|t| t.only_if.as_ref());
        if let Some(text) = &only_if {
            checker.expression(text);
        }
        let lower_confidence = checker.lower(layered);
        let gain = checker.gain(layered, metrics);
        let source = checker.source(layered, metrics);
        let tests = checker.tests(layered);
        if advice.is_empty() {
            let message = format!("rule `{}` has no `advice`", layered.name);
            self.problems.add(&layered.span, message, None);
        }

        let owned = |t: Option<Text<'_>>| t.map(|t| t.text.trim().to_owned()).unwrap_or_default();
        Some(Rule {
            code: owned(code),
            name: layered.name.clone(),
            category: owned(category),
            at: self.problems.place(&layered.span),
            sql: layered.last_text(|t| t.sql.as_ref()).map(|t| t.text.to_owned()),
            metric,
            checks,
            requires,
            only_if: only_if.map(|t| t.text.to_owned()),
            doubts,
            gain,
            fixed_rank: self.fixed_rank(),
            confidence: layered
                .last(|t| t.confidence.as_ref())
                .map_or(Confidence::High, |(_, c)| *c),
            lower_confidence,
            within: None,
            refines: layered.refines(),
            overlaps: Vec::new(),
            weakens: Vec::new(),
            source,
            evidence: layered.last_text(|t| t.evidence.as_ref()).map(|t| t.text.trim().to_owned()),
            title: owned(title),
            message: owned(message),
            advice: advice.iter().map(|t| t.text.to_owned()).collect(),
            why: owned(why),
            links: layered.last(|t| t.links.as_ref()).map(|(_, l)| l.clone()).unwrap_or_default(),
            tests,
        })
    }

    fn check_code(&mut self, code: &Text<'_>) {
        let letters = code.text.bytes().take_while(u8::is_ascii_uppercase).count();
        let digits = &code.text[letters..];
        if letters < 2 || digits.len() != 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
            self.problems.add(
                &code.span,
                format!("`{}` is not a rule code", code.text),
                Some("two or more capital letters and three digits: `IN001`".to_owned()),
            );
        }
    }

    fn fixed_rank(&mut self) -> Option<f64> {
        let (file, rank) = self.layered.last(|t| t.fixed_rank.as_ref())?;
        if !(0.0..=100.0).contains(rank.get_ref()) {
            let span = Span { file, bytes: rank.span() };
            self.problems.add(&span, "`fixed_rank` is a percent, 0 to 100", None);
        }
        Some(*rank.get_ref())
    }

    fn metric(&mut self, metrics: &[MetricSpec]) -> Option<MetricSpec> {
        let layered = self.layered;
        let metric = layered.last_text(|t| t.metric.as_ref());
        let sql = layered.last_text(|t| t.sql.as_ref());
        match (metric, sql) {
            (Some(_), Some(sql)) => {
                self.problems.add(&sql.span, "a rule has either `metric` or `sql`, not both", None);
                None
            }
            (Some(name), None) => self.named_metric(&name, metrics),
            (None, Some(sql)) => self.query_metric(&sql, metrics),
            (None, None) => {
                let message = format!("rule `{}` has no `metric`", layered.name);
                let help = "`metric = \"view.column\"`; `advisor tables` lists them".to_owned();
                self.problems.add(&layered.span, message, Some(help));
                None
            }
        }
    }

    fn named_metric(&mut self, name: &Text<'_>, metrics: &[MetricSpec]) -> Option<MetricSpec> {
        if let Some(spec) = metrics.iter().find(|m| m.is_named(name.text)) {
            return Some(spec.clone());
        }
        let names: Vec<String> = metrics.iter().map(MetricSpec::name).collect();
        let (view, column) = name.text.split_once('.').unwrap_or((name.text, ""));
        let siblings: Vec<&str> =
            metrics.iter().filter(|m| m.view == view).map(|m| m.column.as_str()).collect();
        let help = nearest(name.text, names.iter().map(String::as_str))
            .map(|best| format!("did you mean `{best}`?"))
            .or_else(|| {
                (!siblings.is_empty())
                    .then(|| format!("metrics of `{view}`: {}", siblings.join(", ")))
            })
            .unwrap_or_else(|| "`advisor tables` lists views and their metrics".to_owned());
        let is_column =
            metrics.iter().any(|m| m.view == view && m.columns.iter().any(|(c, _)| c == column));
        let message = if is_column {
            format!("`{}` is a column, but not declared as a metric", name.text)
        } else {
            format!("there is no metric `{}`", name.text)
        };
        self.problems.add(&name.span, message, Some(help));
        None
    }

    fn query_metric(&mut self, sql: &Text<'_>, metrics: &[MetricSpec]) -> Option<MetricSpec> {
        let layered = self.layered;
        let mut need = |key: &str, text: Option<Text<'_>>| {
            if text.is_none() {
                let message = format!("a rule with `sql` needs `{key}`");
                self.problems.add(&sql.span, message, None);
            }
        };
        let column = layered.last_text(|t| t.column.as_ref());
        let unit = layered.last_text(|t| t.unit.as_ref());
        let scope = layered.last_text(|t| t.scope.as_ref());
        need("column", column.clone());
        need("unit", unit.clone());
        need("scope", scope.clone());
        let (column, unit, scope) = (column?, unit?, scope?);
        let parsed_unit = Unit::parse(unit.text);
        if parsed_unit.is_none() {
            let names = Unit::ALL.map(Unit::as_str);
            let help = did_you_mean(unit.text, names)
                .unwrap_or_else(|| format!("one of {}", names[1..].join(", ")));
            self.problems.add(&unit.span, format!("unknown unit `{}`", unit.text), Some(help));
        }
        let parsed_scope = Scope::parse(scope.text);
        if parsed_scope.is_none() {
            let names = Scope::ALL.map(Scope::as_str);
            let help = did_you_mean(scope.text, names)
                .unwrap_or_else(|| format!("one of {}", names.join(", ")));
            self.problems.add(&scope.span, format!("unknown scope `{}`", scope.text), Some(help));
        }
        let query = RuleQuery {
            name: layered.name.clone(),
            sql: sql.text.to_owned(),
            column: column.text.to_owned(),
            unit: parsed_unit?,
            scope: parsed_scope?,
        };
        // Known only to those who have planned the query.
        let columns = metrics.iter().find(|m| m.view == layered.name).map(|m| m.columns.clone());
        Some(query.metric(columns.unwrap_or_default()))
    }

    /// Where the columns of a row come from, in words.
    fn place(&self, metric: &MetricSpec) -> String {
        if self.layered.last(|t| t.sql.as_ref()).is_some() {
            format!("the query of `{}`", metric.view)
        } else {
            format!("the view `{}`", metric.view)
        }
    }

    fn checks(&mut self, metric: &MetricSpec) -> Vec<Check> {
        let layered = self.layered;
        let place = self.place(metric);
        let stated: Vec<(Severity, Text<'_>)> = Severity::WORST_FIRST
            .into_iter()
            .enumerate()
            .filter_map(|(i, s)| layered.last_text(|t| t.thresholds()[i].1).map(|t| (s, t)))
            .collect();
        if stated.is_empty() {
            let message = format!("rule `{}` has no threshold", layered.name);
            let help = "for example `medium = \"> 10 %\"`".to_owned();
            self.problems.add(&layered.span, message, Some(help));
        }
        let mut checks = vec![Check {
            column: metric.column.clone(),
            unit: metric.unit,
            thresholds: self.thresholds(&stated, metric.unit),
        }];
        let (file, also) = match layered.last(|t| t.also.as_ref()) {
            Some((file, also)) => (file, also.as_slice()),
            None => (0, [].as_slice()),
        };
        for entry in also {
            let column = Text::new(file, &entry.column);
            let unit = if metric.columns.is_empty() {
                Some(metric.unit)
            } else {
                metric.columns.iter().find(|(c, _)| c == column.text).map(|(_, unit)| *unit)
            };
            let Some(unit) = unit else {
                self.problems.add(
                    &column.span,
                    format!("{place} has no column `{}`", column.text),
                    did_you_mean(column.text, metric.columns.iter().map(|(c, _)| c.as_str())),
                );
                continue;
            };
            let stated: Vec<(Severity, Text<'_>)> = entry
                .thresholds()
                .into_iter()
                .filter_map(|(s, t)| t.map(|t| (s, Text::new(file, t))))
                .collect();
            if stated.is_empty() {
                self.problems.add(&column.span, "no threshold for this column", None);
            }
            checks.push(Check {
                column: column.text.to_owned(),
                unit,
                thresholds: self.thresholds(&stated, unit),
            });
        }
        checks
    }

    fn thresholds(
        &mut self,
        stated: &[(Severity, Text<'_>)],
        unit: Unit,
    ) -> Vec<(Severity, Threshold)> {
        let mut thresholds: Vec<(Severity, Threshold)> = Vec::new();
        for (severity, text) in stated {
            let shape = match threshold::parse(text.text, unit) {
                Ok(shape) => shape,
                Err(mistake) => {
                    self.problems.add(&text.span, mistake.message, Some(mistake.help));
                    continue;
                }
            };
            if let Some((worse, _)) =
                thresholds.iter().find(|(_, t)| !t.shape.is_stricter_than(shape))
            {
                self.problems.add(
                    &text.span,
                    format!("`{severity}` never decides: `{worse}` is met first"),
                    Some(format!("the threshold of `{worse}` must be the stricter one")),
                );
            }
            let at = self.problems.place(&text.span);
            thresholds
                .push((*severity, Threshold { text: text.text.trim().to_owned(), at, shape }));
        }
        thresholds
    }
}
