//! The head of a run: verdict, cautions, the step as a bar, the bar as it could be, and the plan.

use std::fmt::Write as _;

use trace_advisor::Report;
use trace_advisor::advisor::{Breakdown, Plan, PlannedFix, Recording, Severity, phrases};
use trace_advisor::trace_model::time::human;

use crate::bar::{self, Part};
use crate::clean::{html, html_with_code};
use crate::document::numbered;
use crate::finding_card::anchor;
use crate::words;

/// Writes the head. `number`: of the run on the page.
pub(crate) fn write(report: &Report, step: Option<&Breakdown>, number: usize, out: &mut String) {
    let _ = writeln!(
        out,
        "<section id=\"{}\" class=\"overview\" aria-label=\"Overview\">\n<p class=\"path\">{}</p>\n<h1>{}</h1>\n<p class=\"meta\">{}</p>",
        numbered("overview", number),
        html(&report.run.path),
        html_with_code(&report.headline.text),
        html(&phrases::run_summary(&report.run)),
    );
    write_cautions(report, out);
    let is_severe = report.severe_limit().is_some();
    if let Some(breakdown) = step.filter(|_| !is_severe) {
        write_step(report, breakdown, out);
    }
    if let Some(plan) = report.plan.as_ref().filter(|plan| !plan.fixes.is_empty() && !is_severe) {
        write_plan(report, plan, number, out);
    }
    out.push_str("</section>\n");
}

/// Writes what the recording is and what undermines all findings.
fn write_cautions(report: &Report, out: &mut String) {
    let mut cautions: Vec<String> = Vec::new();
    if let Some(recording) = &report.recording {
        if !recording.subject.is_empty() {
            let _ =
                writeln!(out, "<p class=\"subject\">{}</p>", html_with_code(&recording.subject));
        }
        if let Some(text) = report.time_summary() {
            let _ = writeln!(out, "<p class=\"subject\">{}</p>", html_with_code(text));
        }
        cautions.extend(recording.limits.iter().map(|limit| limit.text.clone()));
    }
    let told = report.recording.as_ref().map(Recording::told_notes).unwrap_or_default();
    let notes = report.notes().filter(|note| note.severity > Severity::Info);
    cautions.extend(
        notes
            .filter(|note| !told.contains(&note.code.as_str()))
            .map(|note| format!("{} ({})", note.title, note.code)),
    );
    if cautions.is_empty() {
        return;
    }
    out.push_str("<ul class=\"cautions\" aria-label=\"Cautions\">\n");
    for caution in cautions {
        let _ = writeln!(out, "<li>{}</li>", html_with_code(&caution));
    }
    out.push_str("</ul>\n");
}

/// Writes the step as a bar, the bar as it could be, and a legend.
fn write_step(report: &Report, breakdown: &Breakdown, out: &mut String) {
    let saving = report.plan.as_ref().and_then(|plan| Some((plan, plan.stated()?)));
    let parts = bar::parts(breakdown, report, saving.map(|(_, stated)| stated));
    let named = |parts: &[Part]| {
        let texts =
            parts.iter().map(|part| format!("{} {}", part.cause, words::percent(part.ratio)));
        texts.collect::<Vec<_>>().join(", ")
    };
    let (what, span_ns) = match breakdown.steps {
        0 => ("The recording", breakdown.window_ns as f64),
        steps => {
            let mean_ns = breakdown.window_ns as f64 / steps as f64;
            ("A step", report.headline.step_ms.map_or(mean_ns, |ms| ms * 1e6))
        }
    };
    let of = match breakdown.steps {
        0 => String::new(),
        steps => format!(" ({})", phrases::mean_of(steps, report.run.steps)),
    };
    let place = if breakdown.is_of_host() {
        "on the CPU".to_owned()
    } else {
        format!("on GPU {}", breakdown.device)
    };
    let place = match report.run.ranks.len() {
        0 | 1 => format!(" {place}"),
        _ if breakdown.is_slowest => format!(" {place} of rank {}, the slowest", breakdown.rank),
        _ => format!(" {place} of rank {}", breakdown.rank),
    };
    out.push_str("<figure class=\"step\">\n");
    let _ = writeln!(
        out,
        "<p class=\"bar-label\"><strong>{what} takes {}</strong>{}{}</p>",
        html(&human(span_ns)),
        html(&place),
        html(&of)
    );
    let scale = saving.map(|(plan, stated)| bar::Scale::of(span_ns / 1e6, plan, stated));
    let now = scale.as_ref().map_or(1.0, |scale| scale.now);
    bar::write_now(&parts, now, &format!("{what} by cause: {}", named(&parts)), out);
    if let (Some((plan, stated)), Some(scale)) = (saving, scale) {
        let after = stated.after_ms;
        let without = if plan.recorded_ms > 1.02 * plan.unprofiled_ms.mid {
            format!(", from {} without the profiler", phrases::ms_range(&plan.unprofiled_ms))
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "<p class=\"bar-label\"><strong>It could take {}</strong>{}{} ({})</p>",
            html(&phrases::ms_range(&after)),
            html(&plan.stated_fixes()),
            html(&without),
            html(&phrases::kind_of_ranges(&plan.measured))
        );
        bar::write_after(&parts, &scale, "The step with these fixes", out);
    }
    out.push_str("<figcaption>\n<ul class=\"legend\">\n");
    // What rounds to nothing would be a color that is nowhere in the bar.
    for part in parts.iter().filter(|part| part.ratio >= 0.0005) {
        let _ = writeln!(
            out,
            "<li><svg class=\"key\" width=\"12\" height=\"12\" aria-hidden=\"true\"><rect class=\"{}\" width=\"12\" height=\"12\"/></svg>{} <span class=\"n\">{}</span></li>",
            bar::class(&part.cause),
            html(&part.cause),
            html(&words::percent(part.ratio))
        );
    }
    if parts.iter().any(|part| part.saved > 0.0) {
        out.push_str("<li><svg class=\"key\" width=\"12\" height=\"12\" aria-hidden=\"true\"><rect class=\"hatched\" width=\"12\" height=\"12\"/></svg>saved by these fixes, on the cause that the finding is about</li>\n");
    }
    out.push_str("</ul>\n</figcaption>\n</figure>\n");
}

/// Writes the plan: what to fix in which order, and what the step then takes.
fn write_plan(report: &Report, plan: &Plan, number: usize, out: &mut String) {
    let span = phrases::timed_span(plan);
    let _ = writeln!(
        out,
        "<h2>Plan</h2>\n<p class=\"lead\">From timing the recording again under each fix. A {span} takes {} without the profiler; its critical path is mostly {}. The first comes first because {}.</p>",
        html(&phrases::ms_range(&plan.unprofiled_ms)),
        html(phrases::limit(&plan.limit)),
        html_with_code(&plan.first_reason),
    );
    let _ = writeln!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Plan\"><table class=\"plan\">\n<thead><tr><th scope=\"col\">#</th><th scope=\"col\">Fix</th><th scope=\"col\">Effort</th><th scope=\"col\" class=\"num\">Saves</th><th scope=\"col\" class=\"num\">{} then</th><th scope=\"col\" class=\"wide\"><span class=\"hidden\">Length of the {span}</span></th><th scope=\"col\">Then limited by</th></tr></thead>\n<tbody>",
        timed_span(plan)
    );
    for fix in &plan.fixes {
        write_fix(report, plan, fix, number, out);
    }
    out.push_str("</tbody>\n</table></div>\n");
}

/// What the times of a plan are of, as a column says it.
fn timed_span(plan: &Plan) -> &'static str {
    if phrases::timed_span(plan) == "step" { "Step" } else { "Recording" }
}

fn write_fix(report: &Report, plan: &Plan, fix: &PlannedFix, number: usize, out: &mut String) {
    let whole = plan.unprofiled_ms.high.max(fix.after_ms.high).max(1e-9);
    let _ = write!(
        out,
        "<tr><td class=\"num\">{}</td><td>{} <span class=\"codes\">",
        fix.position,
        html_with_code(&fix.title)
    );
    for code in &fix.codes {
        let is_shown = report.findings.iter().any(|f| f.code == *code && !f.is_note());
        let _ = if is_shown {
            write!(out, "<a href=\"#{}\">{}</a> ", html(&anchor(number, code)), html(code))
        } else {
            write!(out, "{} ", html(code))
        };
    }
    let _ = write!(
        out,
        "</span></td><td data-label=\"Effort\">{}</td><td class=\"num\" data-label=\"Saves\">{}</td><td class=\"num\" data-label=\"{} then\">{}</td><td class=\"wide\">",
        html(fix.effort.as_str()),
        html(&phrases::percent_range(fix.saves_pct.low, fix.saves_pct.high)),
        timed_span(plan),
        html(&phrases::ms_range(&fix.after_ms)),
    );
    bar::open(
        &format!("after fix {}: {}", fix.position, phrases::ms_range(&fix.after_ms)),
        14,
        out,
    );
    bar::rect("left", 0.0, fix.after_ms.low / whole, out, "surely left");
    bar::rect(
        "maybe",
        fix.after_ms.low / whole,
        (fix.after_ms.high - fix.after_ms.low) / whole,
        out,
        "likely left",
    );
    let _ = writeln!(
        out,
        "</svg></td><td data-label=\"Then limited by\">{}</td></tr>",
        html(phrases::limit(&fix.limit))
    );
}
