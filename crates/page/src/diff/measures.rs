//! The measures of a comparison as a table.

use std::fmt::Write as _;

use trace_advisor::compare::{Diff, Measure};
use trace_advisor::trace_model::number::human_bytes;
use trace_advisor::trace_model::time::human;

use crate::clean::{html, html_with_code};
use crate::words;

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

/// Writes the table.
pub(super) fn write(diff: &Diff, out: &mut String) {
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
            html_with_code(&change),
        );
    }
    out.push_str("</tbody>\n</table></div>\n</section>\n");
}
