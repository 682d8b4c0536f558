//! The head of a comparison: the verdict with its interval.

use std::fmt::Write as _;

use trace_advisor::compare::Diff;

use crate::clean::{html, html_with_code, short};
use crate::words::{self, capitalized};

/// Writes the head. The paths of the runs: before, after.
pub(super) fn write(diff: &Diff, (before, after): (&str, &str), out: &mut String) {
    let verdict = &diff.verdict;
    let _ = writeln!(
        out,
        "<section id=\"overview\" class=\"overview\" aria-label=\"Verdict\">\n<p class=\"path\">{} <span aria-hidden=\"true\">&rarr;</span><span class=\"hidden\">compared with</span> {}</p>\n<h1><span class=\"outcome o-{}\">{}</span> {}</h1>\n<p class=\"meta\">Before: {}. After: {}.</p>",
        html(before),
        html(after),
        verdict.outcome.as_str(),
        html(&capitalized(verdict.outcome.phrase()).replace('.', ":")),
        words::unbroken(&html_with_code(&verdict.reason)),
        html(&diff.summary.before.phrase(diff.summary.unit)),
        html(&diff.summary.after.phrase(diff.summary.unit)),
    );
    if !diff.differences.is_empty() {
        let phrases: Vec<String> =
            diff.differences.iter().map(|difference| short(&difference.phrase())).collect();
        let _ = writeln!(out, "<p class=\"meta\">Differs: {}.</p>", html(&phrases.join("; ")));
    }
    let _ = writeln!(
        out,
        "<p class=\"subject\">{}</p>",
        words::unbroken(&html_with_code(&capitalized(&diff.summary.headline)))
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
        words::unbroken(&words::percent(reach)),
        words::unbroken(&html(&label)),
        words::unbroken(&words::percent(least)),
        words::unbroken(&words::percent(reach))
    );
}
