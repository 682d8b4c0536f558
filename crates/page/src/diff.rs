//! The page of a comparison: both steps above each other, the verdict with its interval, and what moved.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value as Json;
use trace_advisor::Run;
use trace_advisor::advisor::Comparison;
use trace_advisor::compare::{Category, Diff, Group, Measure, Row};
use trace_advisor::trace_model::Unit;
use trace_advisor::trace_model::number::human_bytes;
use trace_advisor::trace_model::time::human;

use crate::bar;
use crate::blocks::{Block, Pane, Table, TableColumn, number};
use crate::clean::{html, html_with_code, json, short};
use crate::document::{Document, Entry, Options};
use crate::findings::write_finding;
use crate::words;
use crate::words::capitalized;

/// Rows that the page carries.
const MAX_ROWS: usize = 400;

/// The data that the script draws.
#[derive(Serialize)]
struct DiffData {
    panes: Vec<Pane>,
}

/// The page.
pub(crate) fn page(
    before: &Run,
    after: &Run,
    diff: &Diff,
    comparison: &Comparison,
    options: &Options,
) -> String {
    let mut body = String::from("<article class=\"run\" data-run=\"0\" id=\"run\">\n");
    let paths = (before.info().path.as_str(), after.info().path.as_str());
    write_head(diff, paths, &mut body);
    write_steps(diff, &mut body);
    write_measures(diff, &mut body);
    if !comparison.findings.is_empty() {
        body.push_str("<section id=\"findings\" aria-label=\"Findings\">\n<h2>Findings</h2>\n");
        for finding in &comparison.findings {
            write_finding(finding, 0, None, &mut body);
        }
        body.push_str("</section>\n");
    }
    let pane = rows(diff);
    let _ = writeln!(
        body,
        "<section id=\"rows\" class=\"pane\" data-pane=\"rows\" aria-label=\"What moved\">\n<h2>What moved</h2>\n<p class=\"lead\">{}</p>\n</section>",
        html(pane.question)
    );
    write_unknown(comparison, &mut body);
    body.push_str("</article>\n");
    let entry =
        |id: &str, label: &str| Entry { id: id.to_owned(), label: label.to_owned(), count: None };
    let mut contents = vec![
        entry("overview", "Verdict"),
        entry("steps", "Both steps"),
        entry("measures", "Measures"),
    ];
    if !comparison.findings.is_empty() {
        contents.push(Entry {
            count: Some(comparison.findings.len()),
            ..entry("findings", "Findings")
        });
    }
    contents.push(entry("rows", "What moved"));
    let title = format!("{} to {} - Trace Advisor", paths.0, paths.1);
    let data = [json(&DiffData { panes: vec![pane] })];
    Document { title, contents, body, data: &data, options }.render()
}

fn write_head(diff: &Diff, (before, after): (&str, &str), out: &mut String) {
    let verdict = &diff.verdict;
    let _ = writeln!(
        out,
        "<section id=\"overview\" class=\"overview\" aria-label=\"Verdict\">\n<p class=\"path\">{} <span aria-hidden=\"true\">&rarr;</span><span class=\"hidden\">compared with</span> {}</p>\n<h1><span class=\"outcome o-{}\">{}</span> {}</h1>\n<p class=\"meta\">Before: {}. After: {}.</p>",
        html(before),
        html(after),
        verdict.outcome.as_str(),
        html(&capitalized(verdict.outcome.as_str()).replace('.', ":")),
        html_with_code(&verdict.reason),
        html(&diff.summary.before.phrase(diff.summary.unit)),
        html(&diff.summary.after.phrase(diff.summary.unit)),
    );
    let _ = writeln!(
        out,
        "<p class=\"subject\">{}</p>",
        html_with_code(&capitalized(&diff.summary.headline))
    );
    write_interval(diff, out);
    if !diff.summary.notes.is_empty() {
        out.push_str("<ul class=\"cautions\" aria-label=\"Notes\">\n");
        for note in &diff.summary.notes {
            let _ = writeln!(out, "<li>{}</li>", html_with_code(&capitalized(note)));
        }
        out.push_str("</ul>\n");
    }
    out.push_str("</section>\n");
}

/// Draws the change of the median step with its interval, beside the change that counts.
fn write_interval(diff: &Diff, out: &mut String) {
    let verdict = &diff.verdict;
    let (Some(change), Some(low), Some(high)) =
        (verdict.change_ratio, verdict.low_ratio, verdict.high_ratio)
    else {
        return;
    };
    let least = verdict.least_change_ratio;
    let reach =
        [change.abs(), low.abs(), high.abs(), least * 1.5].into_iter().fold(0.0, f64::max) * 1.15;
    let x = |ratio: f64| 50.0 + 50.0 * ratio / reach;
    let percent = |ratio: f64| format!("{:+.1} %", ratio * 100.0);
    let label = format!(
        "The median step changes by {}; 95 % interval {} to {}",
        percent(change),
        percent(low),
        percent(high)
    );
    let (left, right) = (x(low), x(high));
    let _ = write!(
        out,
        "<figure class=\"interval\">\n<svg width=\"100%\" height=\"44\" role=\"img\" aria-label=\"{}\">\
         <rect class=\"band\" x=\"{:.2}%\" width=\"{:.2}%\" y=\"0\" height=\"44\"/>\
         <line class=\"zero\" x1=\"50%\" x2=\"50%\" y1=\"0\" y2=\"44\"/>\
         <g class=\"whisker\"><line x1=\"{left:.2}%\" x2=\"{right:.2}%\" y1=\"22\" y2=\"22\"/>\
         <line x1=\"{left:.2}%\" x2=\"{left:.2}%\" y1=\"13\" y2=\"31\"/><line x1=\"{right:.2}%\" x2=\"{right:.2}%\" y1=\"13\" y2=\"31\"/></g>\
         <circle class=\"estimate\" cx=\"{:.2}%\" cy=\"22\" r=\"5.5\"/></svg>\n",
        html(&label),
        x(-least),
        100.0 * least / reach,
        x(change),
    );
    let _ = writeln!(
        out,
        "<figcaption><span>{} faster</span><span>{}. Gray: less than {} counts as unchanged.</span><span>{} slower</span></figcaption>\n</figure>",
        words::percent(reach),
        html(&label),
        words::percent(least),
        words::percent(reach)
    );
}

/// Writes both steps as bars, on one scale.
fn write_steps(diff: &Diff, out: &mut String) {
    let of = |group: Group| -> Vec<&Category> {
        diff.categories.iter().filter(|c| c.group == group && c.unit == "ns").collect()
    };
    let groups = [("On the GPU", of(Group::Device)), ("On the host", of(Group::Host))];
    if groups.iter().all(|(_, parts)| parts.is_empty()) {
        return;
    }
    let sum = |parts: &[&Category], side: fn(&Category) -> f64| {
        parts.iter().map(|c| side(c).max(0.0)).sum::<f64>()
    };
    let longest = groups
        .iter()
        .flat_map(|(_, parts)| [sum(parts, |c| c.before), sum(parts, |c| c.after)])
        .fold(1.0, f64::max);
    out.push_str("<section id=\"steps\" aria-label=\"Both steps\">\n<h2>Both steps</h2>\n<p class=\"lead\">A mean step before and after, on one scale.</p>\n");
    for (title, parts) in groups.iter().filter(|(_, parts)| !parts.is_empty()) {
        let _ = writeln!(out, "<h3>{title}</h3>\n<figure class=\"step\">");
        for (name, side) in
            [("before", (|c| c.before) as fn(&Category) -> f64), ("after", |c| c.after)]
        {
            let whole = sum(parts, side);
            let _ = writeln!(
                out,
                "<p class=\"bar-label\"><strong>{name}</strong> {}</p>",
                html(&human(whole))
            );
            bar::open(&format!("{title}, {name}: {}", human(whole)), 30, out);
            let mut at = 0.0;
            for part in parts {
                let width = side(part).max(0.0) / longest;
                bar::rect(
                    &class(part),
                    at,
                    width,
                    out,
                    &format!("{} {}", part.phrase(), human(side(part))),
                );
                at += width;
            }
            out.push_str("</svg>\n");
        }
        out.push_str("<figcaption><ul class=\"legend\">\n");
        for part in parts {
            let _ = writeln!(
                out,
                "<li><svg class=\"key\" width=\"12\" height=\"12\" aria-hidden=\"true\"><rect class=\"{}\" width=\"12\" height=\"12\"/></svg>{} <span class=\"n\">{} to {} ({}{})</span></li>",
                class(part),
                html(part.phrase()),
                html(&human(part.before)),
                html(&human(part.after)),
                if part.diff() < 0.0 { "" } else { "+" },
                html(&human(part.diff())),
            );
        }
        out.push_str("</ul></figcaption>\n</figure>\n");
    }
    out.push_str("</section>\n");
}

/// The color of a category: that of the same cause in the bar of a step.
fn class(part: &Category) -> String {
    let cause = match (part.group, part.name) {
        (_, "dataloader") => "data loading",
        (Group::Device, "memory") => "copies",
        (Group::Device, "idle") => "idle",
        (_, "device_tail") => "waiting for other streams",
        (_, name) => name,
    };
    bar::class(cause)
}

fn measure_value(measure: &Measure, value: Option<f64>) -> String {
    match (value, measure.unit) {
        (None, _) => "n/a".to_owned(),
        (Some(v), "ns") => human(v),
        (Some(v), "bytes") => human_bytes(v),
        (Some(v), "ratio") => words::percent(v),
        (Some(v), unit) if v >= 100.0 => format!("{v:.0} {unit}"),
        (Some(v), unit) => format!("{v:.2} {unit}"),
    }
}

fn write_measures(diff: &Diff, out: &mut String) {
    let shown: Vec<&Measure> = diff
        .before_after
        .iter()
        .filter(|m| (m.before, m.after) != (Some(0.0), Some(0.0)))
        .collect();
    if shown.is_empty() {
        return;
    }
    out.push_str("<section id=\"measures\" aria-label=\"Measures\">\n<h2>Measures</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of measures\"><table>\n<thead><tr><th scope=\"col\">Measure</th><th scope=\"col\" class=\"num\">Before</th><th scope=\"col\" class=\"num\">After</th><th scope=\"col\" class=\"num\">Change</th></tr></thead>\n<tbody>\n");
    for measure in shown {
        let change = match (measure.before, measure.after, measure.change_ratio) {
            (Some(b), Some(a), _) if measure.unit == "ratio" => {
                format!("{:+.1} points", (a - b) * 100.0)
            }
            (_, _, Some(change)) => format!("{:+.1} %", change * 100.0),
            _ => measure.reason.clone().unwrap_or_default(),
        };
        let moved = measure.change_ratio.filter(|c| c.abs() >= 0.05);
        let class = match moved {
            Some(change) if (change > 0.0) == measure.more_is_better => " better",
            Some(_) => " worse",
            None => "",
        };
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\"><abbr title=\"{}\">{}</abbr></th><td class=\"num\">{}</td><td class=\"num\">{}</td><td class=\"num{class}\">{}</td></tr>",
            html(measure.doc),
            html(&measure.name.replace("gpu", "GPU").replace('_', " ")),
            html(&measure_value(measure, measure.before)),
            html(&measure_value(measure, measure.after)),
            html(&change),
        );
    }
    out.push_str("</tbody>\n</table></div>\n</section>\n");
}

/// The rows of the comparison as a table.
fn rows(diff: &Diff) -> Pane {
    let column = |label: &str, unit: Unit, doc: &str| TableColumn {
        label: label.to_owned(),
        unit: unit.as_str(),
        doc: doc.to_owned(),
    };
    let cells = |row: &Row| -> Vec<Json> {
        let share = row.step_change_ratio.map_or(Json::Null, number);
        vec![
            Json::from(short(&row.name)),
            Json::from(format!("{:?}", row.level).to_lowercase()),
            Json::from(row.change.as_str().replace('_', " ")),
            number(row.before.dur_ns),
            number(row.after.dur_ns),
            number(row.after.dur_ns - row.before.dur_ns),
            number(row.before.count),
            number(row.after.count),
            share,
            Json::from(row.renamed_from.as_deref().map(short).unwrap_or_default()),
        ]
    };
    let table = Table {
        title: "Operators, kernels and ranges, a mean step".to_owned(),
        columns: vec![
            column("Name", Unit::None, "its name in the run after, if both have it"),
            column("Level", Unit::None, "kind of event"),
            column("Change", Unit::None, "what changed"),
            column("Before", Unit::Ns, "duration a step"),
            column("After", Unit::Ns, "duration a step"),
            column("Difference", Unit::Ns, "after less before"),
            column("Calls before", Unit::Number, "calls a step"),
            column("Calls after", Unit::Number, "calls a step"),
            column("Of the change", Unit::Ratio, "share of the change of the step"),
            column("Renamed from", Unit::None, "its name in the run before, if that is different"),
        ],
        rows: diff.rows.iter().take(MAX_ROWS).map(cells).collect(),
        total: diff.rows.len(),
        sql: String::new(),
    };
    Pane {
        id: "rows",
        title: "What moved",
        question: "Which operators, kernels and ranges got slower or faster, were added or removed?",
        scope: String::new(),
        empty: None,
        blocks: vec![Block::Table(table)],
    }
}

fn write_unknown(comparison: &Comparison, out: &mut String) {
    if comparison.unknown.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<section id=\"limits\" aria-label=\"Rules without a verdict\">\n<h2>Rules without a verdict</h2>\n<dl class=\"notes\">"
    );
    for rule in &comparison.unknown {
        let _ = writeln!(
            out,
            "<dt><span class=\"code-tag\">{}</span> {}</dt><dd>{}</dd>",
            html(&rule.code),
            html(&rule.name),
            html_with_code(&capitalized(&rule.reason))
        );
    }
    out.push_str("</dl>\n</section>\n");
}
