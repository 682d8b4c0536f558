//! Renders a rule as a Markdown page, for `advisor explain` and `docs/rules/`: first what it means and what to do, last
//! the queries.

use std::fmt::Write as _;

use trace_model::Unit;

use crate::language::expr::{self, decimals, in_words};

use crate::evaluation::selftest;
use crate::language::rule::{Condition, Rule, RuleStatus};
use crate::language::severity::{GainMethod, Severity};
use crate::language::text::Text;
use crate::report::finding::Finding;

/// The description of a metric's view. The caller provides it, since this crate does not know views.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ViewNotes {
    /// Completes "one row is ...".
    pub row: String,
    /// Columns with their meaning.
    pub columns: Vec<(String, String)>,
    /// Parameters: name, default value, meaning.
    pub params: Vec<(String, String, String)>,
    /// Reason why the view may have no rows.
    pub when_empty: String,
    /// Recorded data that the view depends on, with the profiler options that record it.
    pub recorded_with: Vec<(String, String)>,
}

/// Name of the file with a rule's page.
pub fn page_name(rule: &Rule) -> String {
    format!("{}-{}.md", rule.code, rule.name)
}

/// The page of a rule.
pub fn explain(rule: &Rule, view: &ViewNotes) -> String {
    let examples = examples(rule);
    let mut sections = vec![head(rule), measured(rule, view)];
    sections.extend(fixes(&examples));
    sections.extend(examples.first().map(example));
    sections.push(thresholds(rule, view));
    let documented = [
        ("Why it matters", &rule.why),
        ("How it is measured", &rule.how),
        ("What is not counted", &rule.not_counted),
    ];
    let documented = documented.into_iter().filter(|(_, text)| !text.is_empty());
    sections.extend(documented.map(|(heading, text)| format!("## {heading}\n\n{text}")));
    sections.extend(false_alarms(rule));
    sections.extend(no_verdict(rule));
    sections.extend(recorded(view));
    sections.push(gain(rule, view));
    sections.push(queries(rule, view));
    if !rule.links.is_empty() {
        let links: Vec<String> = rule.links.iter().map(|link| format!("- <{link}>")).collect();
        sections.push(format!("## Links\n\n{}", links.join("\n")));
    }
    let mut page = sections.join("\n\n");
    page.push('\n');
    page
}

/// A table of contents for pages, by category in the order of codes.
pub fn index(rules: &[Rule]) -> String {
    let mut page = "# Rules\n\nOne page per rule, the same text as `advisor explain CODE`. A rule has one of three \
                    verdicts: pass, fire with a severity, or unknown with a reason. Your own files can change \
                    thresholds and texts, and add rules: see the head of \
                    [rules/default.toml](../../rules/default.toml).\n"
        .to_owned();
    let mut categories: Vec<&str> = Vec::new();
    for rule in rules {
        if !categories.contains(&rule.category.as_str()) {
            categories.push(&rule.category);
        }
    }
    for category in categories {
        let _ = write!(page, "\n## {category}\n\n| rule | finding | fires if |\n|---|---|---|\n");
        for rule in rules.iter().filter(|r| r.category == category) {
            let title = cell(&rule.general_title());
            let limits: Vec<String> = rule
                .checks
                .iter()
                .filter_map(|c| {
                    c.thresholds.last().map(|(_, t)| format!("`{}` {}", c.column, cell(&t.text)))
                })
                .collect();
            let _ = writeln!(
                page,
                "| [{}]({}) {}{} | {title} | {} |",
                rule.code,
                page_name(rule),
                rule.name,
                if rule.status == RuleStatus::Preview { " (preview)" } else { "" },
                limits.join(" or ")
            );
        }
    }
    page
}

fn head(rule: &Rule) -> String {
    let mut text = format!("# {} {}\n\nCategory: {}. ", rule.code, rule.name, rule.category);
    if rule.is_trace_quality() {
        text.push_str("A note about the trace, not advice about the program.");
    } else {
        let _ = write!(text, "Confidence at best: {}.", rule.confidence);
    }
    if rule.status == RuleStatus::Preview {
        text.push_str(
            "\n\nThis rule is in preview: it has fired on no recording of a real program yet. `--preview` evaluates it, \
             and so does `--select` with its code.",
        );
    }
    text
}

fn measured(rule: &Rule, view: &ViewNotes) -> String {
    let name = rule.metric.name();
    let mut text = format!(
        "## What it measures\n\n`{name}`, one value per {}: {}.",
        rule.metric.scope,
        rule.metric.doc.trim_end_matches('.')
    );
    for check in rule.checks.iter().skip(1) {
        let _ = write!(text, "\n\nAlso `{}`{}.", check.column, meaning(&check.column, view));
    }
    if let Some(expr) = &rule.only_if {
        let _ = write!(text, "\n\nIt applies only to rows where `{expr}`.");
    }
    text
}

/// Where the numbers come from: the query of the rule or the view, and that of the time ranges.
fn queries(rule: &Rule, view: &ViewNotes) -> String {
    let mut text = "## Queries\n\n".to_owned();
    let table = rule.table();
    if let Some(sql) = &rule.sql {
        let _ = write!(text, "The metric is\n\n```sql\n{}\n```", sql.trim());
    } else if rule.is_comparison() {
        let _ = write!(
            text,
            "`advisor diff before/ after/` computes `{table}`; one row is {}.",
            view.row
        );
    } else {
        let _ = write!(
            text,
            "`advisor analyze {table} run/` prints the rows, `advisor tables {table} --sql` their query. One row is {}.",
            view.row
        );
    }
    if let Some(sql) = &rule.evidence {
        let _ = write!(text, "\n\nFindings list the longest time ranges of\n\n```sql\n{sql}\n```");
    }
    text
}

/// `: meaning of the column`, if the view has one.
fn meaning(column: &str, view: &ViewNotes) -> String {
    let doc = view.columns.iter().find(|(name, _)| name == column);
    doc.map(|(_, doc)| format!(": {doc}")).unwrap_or_default()
}

/// The findings of the rule's own tests: the one with the most columns first.
fn examples(rule: &Rule) -> Vec<Finding> {
    let fired = rule.tests.iter().filter_map(|test| {
        let finding = selftest::finding(rule, test)?;
        Some((finding.severity > Severity::Info, test.columns.len(), finding))
    });
    let mut fired: Vec<_> = fired.collect();
    // Stable: the first of those with equally many columns.
    fired.sort_by_key(|&(counts, columns, _)| std::cmp::Reverse((counts, columns)));
    fired.into_iter().map(|(_, _, finding)| finding).collect()
}

fn example(finding: &Finding) -> String {
    let label = if finding.is_note() { "note" } else { finding.severity.as_str() };
    let title = format!("{label}[{} {}]: {}", finding.code, finding.name, finding.title);
    let gain = finding.gain.high_pct.filter(|high| *high >= 0.05).map(|high| {
        let low = finding.gain.low_pct.unwrap_or(0.0);
        format!("saves {} to {} %", decimals(low, 1), decimals(high, 1))
    });
    let mut text = match gain {
        Some(gain) if title.chars().count() + gain.len() + 2 <= WIDTH => {
            format!("{title}{gain:>room$}\n", room = WIDTH - title.chars().count())
        }
        Some(gain) => format!("{title}\n{gain:>WIDTH$}\n"),
        None => format!("{title}\n"),
    };
    wrap(&mut text, "   | ", &finding.message);
    let unit = Unit::parse(&finding.unit).unwrap_or(Unit::None);
    let value = format!("{} {}", finding.measure(), in_words(finding.value, unit));
    wrap(&mut text, "   = where: ", &value);
    wrap(&mut text, "   = limit: ", &finding.threshold);
    format!("## Example\n\n```text\n{text}```")
}

/// Width of the example in columns.
const WIDTH: usize = 100;

/// Wraps words into lines, each prefixed with `before`.
fn wrap(out: &mut String, before: &str, text: &str) {
    let mut line = before.to_owned();
    for word in text.split_whitespace() {
        if line.len() > before.len() && line.chars().count() + word.chars().count() >= WIDTH {
            let _ = writeln!(out, "{}", line.trim_end());
            before.clone_into(&mut line);
        }
        line.push_str(word);
        line.push(' ');
    }
    let _ = writeln!(out, "{}", line.trim_end());
}

fn gain(rule: &Rule, view: &ViewNotes) -> String {
    let mut text = "## How the gain is computed\n\n".to_owned();
    match (&rule.gain.of, rule.gain.method) {
        (None, _) | (_, GainMethod::None) => text.push_str("No gain in step time is estimated."),
        (Some(of), method) => {
            let from = match method {
                GainMethod::Measured => "The time is measured: a fix saves it",
                GainMethod::Roofline => {
                    "It is modeled: the limit of the hardware compared with the measured time"
                }
                _ => "It is a rule of thumb",
            };
            let of = of.trim();
            let (low, high) = (percent(rule.gain.low), percent(rule.gain.high));
            let _ = write!(text, "{low} to {high} of `{of}`, a share of step time");
            let env = expr::environment();
            let formula = expr::Formula::new(&env, of);
            let reads: Vec<&String> = formula.iter().flat_map(expr::Formula::reads).collect();
            if let [only] = reads.as_slice()
                && only.as_str() == of
            {
                text.push_str(&meaning(only, view));
            }
            text.push_str(". ");
            text.push_str(from);
            text.push_str(". The largest gain of all rows counts: the slowest rank sets the pace.");
            text.push_str(
                " A report states what a fix is predicted to save instead, where the recording can be timed again with it.",
            );
            let others = reads.iter().filter(|name| name.as_str() != of);
            let docs: Vec<String> = others
                .map(|name| (name, meaning(name, view)))
                .filter(|(_, doc)| !doc.is_empty())
                .map(|(name, doc)| format!("- `{name}`{doc}"))
                .collect();
            if !docs.is_empty() {
                let _ = write!(text, "\n\n{}\n", docs.join("\n"));
            }
        }
    }
    if rule.gain.floor > 0.0 {
        let floor = percent(rule.gain.floor);
        let _ = write!(text, "\n\nBelow {floor} of step time the finding is only an info.");
    }
    if let Some(pct) = rule.fixed_priority_pct {
        let _ =
            write!(text, "\n\nThe harm is not time: it is prioritized as {pct} % of step time.");
    }
    if let Some(parent) = &rule.within {
        let relation = if rule.refines { "It details" } else { "Its time is part of that of" };
        let _ = write!(text, "\n\n{relation} {parent}: the time counts once.");
    }
    text
}

fn percent(share: f64) -> String {
    in_words(share, Unit::Ratio)
}

/// The advice of the example, and further advice of the other tests.
fn fixes(examples: &[Finding]) -> Option<String> {
    let first = examples.first()?;
    let list = |advice: &[&String]| -> String {
        advice.iter().map(|a| format!("- {a}")).collect::<Vec<_>>().join("\n")
    };
    let own: Vec<&String> = first.advice.iter().collect();
    let mut others: Vec<&String> = Vec::new();
    for advice in examples.iter().skip(1).flat_map(|f| &f.advice) {
        if !own.contains(&advice) && !others.contains(&advice) && !has_gap(advice) {
            others.push(advice);
        }
    }
    let fixes = match (own.is_empty(), others.is_empty()) {
        (true, true) => return None,
        (false, true) => list(&own),
        (true, false) => list(&others),
        (false, false) => {
            format!("In the example:\n\n{}\n\nIn other cases:\n\n{}", list(&own), list(&others))
        }
    };
    Some(format!("## How to fix it\n\n{fixes}"))
}

/// Whether a text contains a value that its row does not have.
fn has_gap(text: &str) -> bool {
    let mut words = text.split(|c: char| c.is_whitespace() || "=`(),.;:".contains(c));
    words.any(|word| matches!(word, "-" | "none"))
}

fn false_alarms(rule: &Rule) -> Option<String> {
    let mut paragraphs = Vec::new();
    if !rule.false_alarms.is_empty() {
        paragraphs.push(rule.false_alarms.clone());
    }
    if !rule.lower_confidence.is_empty() {
        let mut text = "The confidence is lower\n".to_owned();
        for lower in &rule.lower_confidence {
            let left = lower.to.map_or("one level".to_owned(), |to| format!("at most {to}"));
            let reason = in_general_text(&lower.reason);
            let _ = write!(text, "\n- ({left}) if `{}`: {reason}", lower.when);
        }
        paragraphs.push(text);
    }
    if !rule.unpredicted.is_empty() {
        let mut text = "Where no fix is predicted to save time, the severity is lower\n".to_owned();
        for limit in &rule.unpredicted {
            let reason = in_general_text(&limit.reason);
            let _ = write!(text, "\n- (at most {}) if `{}`: {reason}", limit.to, limit.when);
        }
        paragraphs.push(text);
    }
    (!paragraphs.is_empty())
        .then(|| format!("## When it may be a false alarm\n\n{}", paragraphs.join("\n\n")))
}

/// The conditions under which the verdict is unknown.
fn no_verdict(rule: &Rule) -> Option<String> {
    if rule.requires.is_empty() && rule.doubts.is_empty() {
        return None;
    }
    let mut text = "## When it has no verdict\n".to_owned();
    for condition in &rule.requires {
        let _ = write!(text, "\n- unless {}", condition_in_words(condition));
    }
    for condition in &rule.doubts {
        let _ = write!(text, "\n- if it would fire and {}", condition_in_words(condition));
    }
    Some(text)
}

/// `` `step_count >= 5`: only `step_count` steps``, or without an expression the kinds of data that are needed.
fn condition_in_words(condition: &Condition) -> String {
    let is_met = condition.expr.as_ref().map_or_else(
        || {
            let docs: Vec<&str> = condition.needs.iter().map(|need| need.doc()).collect();
            format!("the recording holds {}", docs.join(", and "))
        },
        |expr| format!("`{expr}`"),
    );
    let reason = match (&condition.reason, condition.needs.first()) {
        (Some(reason), _) => in_general_text(reason),
        (None, Some(need)) => need.reason(),
        (None, None) => return is_met,
    };
    format!("{is_met}: {reason}")
}

fn thresholds(rule: &Rule, view: &ViewNotes) -> String {
    let mut text = "## Thresholds\n".to_owned();
    for check in &rule.checks {
        let _ = write!(text, "\n| `{}` | severity | stated in |\n|---|---|---|\n", check.column);
        for (severity, threshold) in &check.thresholds {
            // With the line number the page would change whenever a rule above changes.
            let file = threshold.at.rsplit_once(':').map_or("", |(file, _)| file);
            let _ = writeln!(text, "| {} | {severity} | {file} |", cell(&threshold.text));
        }
    }
    let first = rule.checks.first().and_then(|c| c.thresholds.first());
    let change = first.map(|(s, t)| format!("{s} = \"{}\"", t.text)).unwrap_or_default();
    let _ = write!(
        text,
        "\nTo change them, or to ignore the rule for a while, write into a file for `--rules`:\n\n\
         ```toml\n[rule.{0}]\n{change}    # other keys stay\n\n\
         [ignore.{0}]\nreason = \"known; ticket 812\"\nuntil  = \"2027-01-01\"\n```",
        rule.name
    );
    for (name, default, doc) in &view.params {
        let _ = write!(text, "\n\n`--set {name}={default}` changes a parameter: {doc}.");
    }
    text
}

fn recorded(view: &ViewNotes) -> Option<String> {
    if view.recorded_with.is_empty() && view.when_empty.is_empty() {
        return None;
    }
    let mut text = "## What must be recorded\n".to_owned();
    if !view.when_empty.is_empty() {
        let _ = write!(
            text,
            "\nWithout rows the verdict is *unknown*: {}.\n",
            view.when_empty.trim_end_matches('.')
        );
    }
    if !view.recorded_with.is_empty() {
        text.push_str("\n| data | recorded with |\n|---|---|\n");
        for (what, how) in &view.recorded_with {
            let _ = writeln!(text, "| {what} | {how} |");
        }
    }
    Some(text.trim_end().to_owned())
}

/// A text without a row: names in place of values, alternatives separated by slashes.
fn in_general_text(text: &Text) -> String {
    in_general(&text.source())
}

/// A template without a row, see [`in_general_text`].
fn in_general(template: &str) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some(start) = rest.find('{') {
        text.push_str(&rest[..start]);
        let tail = &rest[start..];
        let (end, shown) = if let Some(inner) = tail.strip_prefix("{{") {
            let end = inner.find("}}").map(|end| end + 4);
            let name = inner.split(['|', '}']).next().unwrap_or_default().trim();
            (end, format!("`{name}`"))
        } else if let Some(inner) = tail.strip_prefix("{%") {
            let end = inner.find("%}").map(|end| end + 4);
            let block = inner.split("%}").next().unwrap_or_default().trim();
            (end, if block.starts_with("el") { " / ".to_owned() } else { String::new() })
        } else {
            (Some(1), "{".to_owned())
        };
        text.push_str(&shown);
        rest = end.and_then(|end| tail.get(end..)).unwrap_or_default();
    }
    text.push_str(rest);
    text.trim().to_owned()
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::{has_gap, in_general};

    #[test]
    fn in_general_shows_names_and_alternatives() {
        assert_eq!(
            in_general("only {{ n_count }} steps, {{ x_ns|dur }}"),
            "only `n_count` steps, `x_ns`"
        );
        assert_eq!(in_general("{% if a %}one{% else %}two{% endif %} {c}"), "one / two {c}");
        assert!(
            has_gap("a batch takes - to load") && has_gap("`num_workers=none`") && has_gap("(-)")
        );
        assert!(!has_gap("re-use two-fold"));
    }
}
