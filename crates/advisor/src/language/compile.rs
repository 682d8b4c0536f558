//! Turns merged tables into rules: checks that a rule is complete and collects all mistakes.

use trace_model::suggest::nearest;
use trace_model::{COMPARISON_VIEWS, MetricSpec, Scope, Unit};

use crate::language::expr;
use crate::language::merge::MergedRule;
use crate::language::problem::{Problems, Span, SpannedStr, did_you_mean};
use crate::language::query::RuleQuery;
use crate::language::rule::{Check, Rule, RuleStatus};
use crate::language::rule_check::{RuleChecker, TraitNames};
use crate::language::severity::{Confidence, Severity};
use crate::language::subject::Subject;
use crate::language::text::TextPart;
use crate::language::threshold::{self, Threshold};

/// The rule of merged tables; `None` if a mistake leaves no rule. The caller, who has all rules and
/// fixes, fills in `within`, `weakens` and `fixes`.
pub(crate) fn compile(
    merged: &MergedRule,
    metrics: &[MetricSpec],
    known_names: &[&str],
    problems: &mut Problems<'_>,
) -> Option<Rule> {
    let mut compiler = Compiler { merged, problems };
    compiler.rule(metrics, known_names)
}

struct Compiler<'a, 'p> {
    merged: &'a MergedRule,
    problems: &'a mut Problems<'p>,
}

impl Compiler<'_, '_> {
    fn rule(&mut self, metrics: &[MetricSpec], known_names: &[&str]) -> Option<Rule> {
        let merged = self.merged;
        let required: [(&str, Option<SpannedStr<'_>>); 3] = [
            ("code", merged.last_text(|t| t.code.as_ref())),
            ("category", merged.last_text(|t| t.category.as_ref())),
            ("why", merged.last_text(|t| t.why.as_ref())),
        ];
        let texts = [
            ("title", merged.last(|t| t.title.as_ref())),
            ("message", merged.last(|t| t.message.as_ref())),
        ];
        // A table with neither code nor metric was meant to change another file's rule.
        let judged = merged.last(|t| t.metric.as_ref().or(t.sql.as_ref())).is_some();
        if required[0].1.is_none() && !judged {
            let others = known_names.iter().copied().filter(|n| *n != merged.name);
            let help = did_you_mean(&merged.name, others).unwrap_or_else(|| {
                "to change a rule, name one that an earlier file defines; \
                 a new rule needs at least `code`, `metric` and a threshold"
                    .to_owned()
            });
            let message = format!("there is no rule `{}` to change", merged.name);
            self.problems.add(&merged.span, message, Some(help));
            return None;
        }
        for (key, text) in &required {
            match text {
                Some(t) if t.text.trim().is_empty() => {
                    self.problems.add(&t.span, format!("`{key}` is empty"), None);
                }
                Some(_) => {}
                None => self.missing_key(key),
            }
        }
        for (key, text) in texts {
            match text {
                Some((file, text)) if text.get_ref().is_empty() => {
                    let span = Span { file, bytes: text.span() };
                    self.problems.add(&span, format!("`{key}` is empty"), None);
                }
                Some(_) => {}
                None => self.missing_key(key),
            }
        }
        let [code, category, why] = required.map(|(_, t)| t);
        if let Some(code) = &code {
            self.check_code(code);
        }

        let metric = self.metric(metrics)?;
        let checks = self.checks(&metric);
        let env = expr::environment();
        let place = self.place(&metric);
        let mut checker = RuleChecker {
            env: &env,
            metric: &metric,
            place: &place,
            traits: TraitNames::new(metrics, COMPARISON_VIEWS.contains(&metric.view.as_str())),
            problems: self.problems,
        };
        let [title, message] = texts.map(|(_, text)| checker.text(text));
        let (file, advice) = merged
            .last(|t| t.advice.as_ref())
            .map_or((0, [].as_slice()), |(file, advice)| (file, advice.as_slice()));
        let advice: Vec<TextPart> =
            advice.iter().map(|part| checker.text_part(file, part)).collect();
        let fix_titles = merged.last(|t| t.fix_titles.as_ref()).into_iter();
        let fix_titles = fix_titles
            .flat_map(|(file, titles)| titles.iter().map(move |(name, text)| (name, (file, text))))
            .map(|(name, text)| (name.clone(), checker.text(Some(text))))
            .collect();
        let requires = checker.requirements(merged.last(|t| t.requires.as_ref()));
        let doubts = checker.doubts(merged.last(|t| t.doubts.as_ref()));
        let only_if = merged.last_text(|t| t.only_if.as_ref());
        if let Some(text) = &only_if {
            checker.expression(text);
        }
        let lower_confidence = checker.caveats(merged);
        let unpredicted = checker.severity_limits(merged);
        let gain = checker.gain(merged);
        let source = checker.source(merged, metrics);
        // A row that states traits does not make the rule need them.
        let reads_traits = checker.traits.are_read;
        let tests = checker.tests(merged);
        if advice.is_empty() {
            self.missing_key("advice");
        }

        let how = self.documentation("how", merged.last_text(|t| t.how.as_ref()));
        let not_counted =
            self.documentation("not_counted", merged.last_text(|t| t.not_counted.as_ref()));
        let false_alarms =
            self.documentation("false_alarms", merged.last_text(|t| t.false_alarms.as_ref()));
        let subject = merged.last(|t| t.subject.as_ref());

        let owned =
            |t: Option<SpannedStr<'_>>| t.map(|t| t.text.trim().to_owned()).unwrap_or_default();
        Some(Rule {
            code: owned(code),
            name: merged.name.clone(),
            category: owned(category),
            subject: subject.map_or_else(|| vec![Subject::Run], |(_, s)| s.0.clone()),
            at: self.problems.place(&merged.span),
            status: merged.last(|t| t.status.as_ref()).map_or(RuleStatus::Stable, |(_, s)| *s),
            sql: merged.last_text(|t| t.sql.as_ref()).map(|t| t.text.to_owned()),
            metric,
            checks,
            requires,
            only_if: only_if.map(|t| t.text.to_owned()),
            doubts,
            gain,
            fixed_priority_pct: self.fixed_priority_pct(),
            confidence: merged
                .last(|t| t.confidence.as_ref())
                .map_or(Confidence::High, |(_, c)| *c),
            lower_confidence,
            unpredicted,
            within: None,
            refines: merged.refines(),
            weakens: Vec::new(),
            fixes: Vec::new(),
            fix_titles,
            source,
            evidence: merged.last_text(|t| t.evidence.as_ref()).map(|t| t.text.trim().to_owned()),
            title,
            message,
            advice,
            why: owned(why),
            how,
            not_counted,
            false_alarms,
            links: merged.last(|t| t.links.as_ref()).map(|(_, l)| l.clone()).unwrap_or_default(),
            reads_traits,
            tests,
        })
    }

    /// A documentation text that may be left out.
    fn documentation(&mut self, key: &str, text: Option<SpannedStr<'_>>) -> String {
        let Some(SpannedStr { span, text }) = text else { return String::new() };
        if text.trim().is_empty() {
            let help = "leave it out if there is nothing to tell".to_owned();
            self.problems.add(&span, format!("`{key}` is empty"), Some(help));
        }
        text.trim().to_owned()
    }

    fn missing_key(&mut self, key: &str) {
        let message = format!("rule `{}` has no `{key}`", self.merged.name);
        self.problems.add(&self.merged.span, message, None);
    }

    fn check_code(&mut self, code: &SpannedStr<'_>) {
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

    fn fixed_priority_pct(&mut self) -> Option<f64> {
        let (file, rank) = self.merged.last(|t| t.fixed_priority_pct.as_ref())?;
        if !(0.0..=100.0).contains(rank.get_ref()) {
            let span = Span { file, bytes: rank.span() };
            self.problems.add(&span, "`fixed_priority_pct` is a percentage, 0 to 100", None);
        }
        Some(*rank.get_ref())
    }

    fn metric(&mut self, metrics: &[MetricSpec]) -> Option<MetricSpec> {
        let merged = self.merged;
        let metric = merged.last_text(|t| t.metric.as_ref());
        let sql = merged.last_text(|t| t.sql.as_ref());
        match (metric, sql) {
            (Some(_), Some(sql)) => {
                self.problems.add(&sql.span, "a rule has either `metric` or `sql`, not both", None);
                None
            }
            (Some(name), None) => self.named_metric(&name, metrics),
            (None, Some(sql)) => self.query_metric(&sql, metrics),
            (None, None) => {
                let message = format!("rule `{}` has no `metric`", merged.name);
                let help = "`metric = \"view.column\"`; `advisor tables` lists them".to_owned();
                self.problems.add(&merged.span, message, Some(help));
                None
            }
        }
    }

    fn named_metric(
        &mut self,
        name: &SpannedStr<'_>,
        metrics: &[MetricSpec],
    ) -> Option<MetricSpec> {
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

    fn query_metric(&mut self, sql: &SpannedStr<'_>, metrics: &[MetricSpec]) -> Option<MetricSpec> {
        let merged = self.merged;
        let mut need = |key: &str, text: Option<SpannedStr<'_>>| {
            if text.is_none() {
                let message = format!("a rule with `sql` needs `{key}`");
                self.problems.add(&sql.span, message, None);
            }
        };
        let column = merged.last_text(|t| t.column.as_ref());
        let unit = merged.last_text(|t| t.unit.as_ref());
        let scope = merged.last_text(|t| t.scope.as_ref());
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
            name: merged.name.clone(),
            sql: sql.text.to_owned(),
            column: column.text.to_owned(),
            unit: parsed_unit?,
            scope: parsed_scope?,
        };
        // Known once the query is planned.
        let columns = metrics.iter().find(|m| m.view == merged.name).map(|m| m.columns.clone());
        Some(query.metric(columns.unwrap_or_default()))
    }

    /// The source of the columns, for messages.
    fn place(&self, metric: &MetricSpec) -> String {
        if self.merged.last(|t| t.sql.as_ref()).is_some() {
            format!("the query of `{}`", metric.view)
        } else {
            format!("the view `{}`", metric.view)
        }
    }

    fn checks(&mut self, metric: &MetricSpec) -> Vec<Check> {
        let merged = self.merged;
        let place = self.place(metric);
        let stated: Vec<(Severity, SpannedStr<'_>)> = Severity::WORST_FIRST
            .into_iter()
            .enumerate()
            .filter_map(|(i, s)| merged.last_text(|t| t.thresholds()[i].1).map(|t| (s, t)))
            .collect();
        if stated.is_empty() {
            let message = format!("rule `{}` has no threshold", merged.name);
            let help = "for example `medium = \"> 10 %\"`".to_owned();
            self.problems.add(&merged.span, message, Some(help));
        }
        let mut checks = vec![Check {
            column: metric.column.clone(),
            unit: metric.unit,
            thresholds: self.thresholds(&stated, metric.unit),
        }];
        let (file, also) = match merged.last(|t| t.also.as_ref()) {
            Some((file, also)) => (file, also.as_slice()),
            None => (0, [].as_slice()),
        };
        for entry in also {
            let column = SpannedStr::new(file, &entry.column);
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
            let stated: Vec<(Severity, SpannedStr<'_>)> = entry
                .thresholds()
                .into_iter()
                .filter_map(|(s, t)| t.map(|t| (s, SpannedStr::new(file, t))))
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
        stated: &[(Severity, SpannedStr<'_>)],
        unit: Unit,
    ) -> Vec<(Severity, Threshold)> {
        let mut thresholds: Vec<(Severity, Threshold)> = Vec::new();
        for (severity, text) in stated {
            let limit = match threshold::parse(text.text, unit) {
                Ok(limit) => limit,
                Err(mistake) => {
                    self.problems.add(&text.span, mistake.message, Some(mistake.help));
                    continue;
                }
            };
            if let Some((worse, _)) =
                thresholds.iter().find(|(_, t)| !t.limit.is_stricter_than(limit))
            {
                self.problems.add(
                    &text.span,
                    format!("`{severity}` never decides: `{worse}` is met first"),
                    Some(format!("the threshold of `{worse}` must be the stricter one")),
                );
            }
            let at = self.problems.place(&text.span);
            thresholds
                .push((*severity, Threshold { text: text.text.trim().to_owned(), at, limit }));
        }
        thresholds
    }
}
