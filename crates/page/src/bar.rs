//! The bar of a step by cause, with what the plan saves of each part.

use std::fmt::Write as _;

use trace_advisor::Report;
use trace_advisor::advisor::{Breakdown, Finding, Plan, PlannedFix, Range};

use crate::clean::html;
use crate::words::percent;

/// A part of the bar.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    pub(crate) cause: String,
    pub(crate) ratio: f64,
    /// Share of the bar that the plan saves of it.
    pub(crate) saved: f64,
    /// Codes of the findings whose fixes save that.
    pub(crate) codes: Vec<String>,
}

/// The lengths of both bars as shares of the width, so that a millisecond is as long in one as in the other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    /// The bar as it is.
    pub(crate) now: f64,
    /// The bar without the profiler, from which fixes take their parts.
    unprofiled: f64,
    /// The ends of the interval of the bar as it could be.
    ends: (f64, f64),
}

impl Scale {
    /// `stated`: the fix of the plan up to which its range is stated.
    pub(crate) fn of(span_ms: f64, plan: &Plan, stated: &PlannedFix) -> Self {
        Self::of_ranges(span_ms, &plan.unprofiled_ms, &stated.after_ms)
    }

    fn of_ranges(span_ms: f64, unprofiled_ms: &Range, after_ms: &Range) -> Self {
        let longest = [span_ms, unprofiled_ms.high, after_ms.high].into_iter().fold(1e-9, f64::max);
        let share = |ms: f64| (ms / longest).clamp(0.0, 1.0);
        Self {
            now: share(span_ms),
            unprofiled: share(unprofiled_ms.mid),
            ends: (share(after_ms.low), share(after_ms.high)),
        }
    }
}

/// The parts of the bar. What a fix of the plan up to the stated one saves lies on the causes that its finding is about, in
/// this order; what they cannot hold lies on the largest idle part that is left.
pub(crate) fn parts(
    breakdown: &Breakdown,
    report: &Report,
    stated: Option<&PlannedFix>,
) -> Vec<Part> {
    let mut parts: Vec<Part> = breakdown
        .parts
        .iter()
        .map(|part| Part {
            cause: part.cause.clone(),
            ratio: part.ratio,
            saved: 0.0,
            codes: Vec::new(),
        })
        .collect();
    let (Some(plan), Some(stated)) = (&report.plan, stated) else { return parts };
    for fix in plan.fixes.iter().filter(|fix| fix.position <= stated.position) {
        let finding =
            fix.codes.iter().find_map(|code| report.findings.iter().find(|f| f.code == *code));
        let mut left = saved_ratio(plan, fix);
        let wanted = finding.map(causes).unwrap_or_default();
        let mut order: Vec<usize> = wanted
            .iter()
            .filter_map(|cause| parts.iter().position(|part| part.cause == *cause))
            .collect();
        let mut rest: Vec<usize> = (0..parts.len()).filter(|i| !order.contains(i)).collect();
        rest.sort_by(|a, b| parts[*b].ratio.total_cmp(&parts[*a].ratio));
        order.extend(rest);
        for at in order {
            let part = &mut parts[at];
            let taken = left.min(part.ratio - part.saved);
            if taken > 1e-4 {
                part.saved += taken;
                part.codes.extend(fix.codes.first().cloned());
                left -= taken;
            }
        }
    }
    parts
}

/// The share of the step that a fix of the plan saves.
fn saved_ratio(plan: &Plan, fix: &PlannedFix) -> f64 {
    let before = fix.position.checked_sub(2).and_then(|at| plan.fixes.get(at));
    let before_ms = before.map_or(plan.unprofiled_ms.mid, |fix| fix.after_ms.mid);
    ((before_ms - fix.after_ms.mid) / plan.unprofiled_ms.mid.max(1e-9)).clamp(0.0, 1.0)
}

/// The causes of the breakdown that a finding is about: by its metric, else by its area.
fn causes(finding: &Finding) -> &'static [&'static str] {
    let column = finding.metric.rsplit('.').next().unwrap_or_default();
    let by_column: &[(&str, &[&str])] = &[
        ("dataloader", &["data loading"]),
        ("sync", &["synchronization", "launching"]),
        ("python", &["Python", "Python or waiting", "launching"]),
        ("dispatch", &["launching", "Python"]),
        ("allocation", &["allocation", "launching"]),
        ("exposed", &["communication", "waiting for collectives"]),
        ("copy", &["copies", "synchronization"]),
    ];
    if let Some((_, causes)) = by_column.iter().find(|(word, _)| column.contains(word)) {
        return causes;
    }
    match finding.category.as_str() {
        "input-pipeline" => &["data loading", "copies"],
        "host-bound" => {
            &["launching", "Python", "Python or waiting", "CPU operators", "synchronization"]
        }
        "sync" => &["synchronization", "launching", "Python"],
        "comm" => &["communication", "waiting for collectives"],
        "memory" => &["allocation", "launching"],
        "cpu-compute" => {
            &["other operators", "matmuls", "convolutions", "CPU operators", "computation"]
        }
        "gpu-util" => &["launching", "Python", "gaps between kernels"],
        _ => &["computation"],
    }
}

/// The class of a cause, which gives its color.
pub(crate) fn class(cause: &str) -> String {
    let plain =
        cause.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    format!("c-{}", plain.collect::<String>())
}

/// Writes the bar as it is, as SVG. `scale`: the length of the whole bar as a share of the width.
pub(crate) fn write_now(parts: &[Part], scale: f64, label: &str, out: &mut String) {
    open(label, 40, out);
    let mut x = 0.0;
    for part in parts {
        rect(&class(&part.cause), x, part.ratio * scale, out, &title(part));
        if part.saved > 0.0 {
            let width = part.saved * scale;
            let at = x + part.ratio * scale - width;
            let text = format!(
                "{} of {} can be saved ({})",
                percent(part.saved),
                part.cause,
                part.codes.join(", ")
            );
            rect("hatched", at, width, out, &text);
        }
        x += part.ratio * scale;
    }
    let mut x = 0.0;
    for part in parts {
        if part.ratio * scale >= 0.13 {
            let _ = write!(
                out,
                "<text class=\"on\" x=\"{:.3}%\" y=\"25\" dx=\"8\">{} {}</text>",
                x * 100.0,
                html(&part.cause),
                percent(part.ratio)
            );
        }
        x += part.ratio * scale;
    }
    out.push_str("</svg>\n");
}

/// Writes the bar as it could be: what is left of each part, and the interval of its end.
pub(crate) fn write_after(parts: &[Part], scale: &Scale, label: &str, out: &mut String) {
    open(label, 40, out);
    let mut x = 0.0;
    for part in parts {
        let left = (part.ratio - part.saved).max(0.0) * scale.unprofiled;
        rect(
            &class(&part.cause),
            x,
            left,
            out,
            &format!("{} left of {}", percent(part.ratio - part.saved), part.cause),
        );
        x += left;
    }
    let (low, high) = scale.ends;
    let _ = writeln!(
        out,
        "<g class=\"whisker\"><line x1=\"{0:.3}%\" x2=\"{1:.3}%\" y1=\"20\" y2=\"20\"/><line x1=\"{0:.3}%\" x2=\"{0:.3}%\" y1=\"12\" y2=\"28\"/><line x1=\"{1:.3}%\" x2=\"{1:.3}%\" y1=\"12\" y2=\"28\"/></g></svg>",
        low * 100.0,
        high * 100.0
    );
}

pub(crate) fn open(label: &str, height: u32, out: &mut String) {
    let _ = write!(
        out,
        "<svg class=\"bar\" width=\"100%\" height=\"{height}\" role=\"img\" aria-label=\"{}\">",
        html(label)
    );
}

pub(crate) fn rect(class: &str, x: f64, width: f64, out: &mut String, title: &str) {
    if width <= 0.0 {
        return;
    }
    let _ = write!(
        out,
        "<rect class=\"{class}\" x=\"{:.3}%\" width=\"{:.3}%\" y=\"0\" height=\"100%\"><title>{}</title></rect>",
        x * 100.0,
        width * 100.0,
        html(title)
    );
}

fn title(part: &Part) -> String {
    format!("{} {}", part.cause, percent(part.ratio))
}

#[cfg(test)]
mod tests {
    use trace_advisor::advisor::Range;

    use super::{Part, Scale, class, write_after, write_now};

    /// The ends of the parts in the SVG of a bar, as percent of the width.
    fn ends(svg: &str) -> Vec<f64> {
        let number = |text: &str, name: &str| -> f64 {
            let (_, rest) = text.split_once(&format!("{name}=\"")).unwrap();
            rest.split_once('%').unwrap().0.parse().unwrap()
        };
        let parts = svg.split("<rect").skip(1).filter(|part| !part.contains("hatched"));
        parts.map(|part| number(part, " x") + number(part, " width")).collect()
    }

    #[test]
    fn bars_share_a_scale() {
        let part = |ratio, saved| Part { cause: "a".to_owned(), ratio, saved, codes: Vec::new() };
        let parts = [part(0.75, 0.0), part(0.25, 0.2)];
        // 100 ms as recorded, 80 ms without the profiler, of which fixes save a fifth.
        let unprofiled = Range { low: 75.0, mid: 80.0, high: 85.0 };
        let after = Range { low: 60.0, mid: 64.0, high: 70.0 };
        let scale = Scale::of_ranges(100.0, &unprofiled, &after);
        let (mut now, mut then) = (String::new(), String::new());
        write_now(&parts, scale.now, "", &mut now);
        write_after(&parts, &scale, "", &mut then);
        let last = |svg: &str| ends(svg).pop().unwrap();
        assert!((last(&now) - 100.0).abs() < 0.01, "{now}");
        assert!((last(&then) - 64.0).abs() < 0.01, "{then}");
        assert!(then.contains("x1=\"60.000%\" x2=\"70.000%\""), "{then}");
        // Nothing is wider than the picture, and the longest fills it.
        let wide = Scale::of_ranges(50.0, &unprofiled, &after);
        assert!((wide.now - 50.0 / 85.0).abs() < 1e-9, "{wide:?}");
    }

    #[test]
    fn class_is_a_plain_name() {
        assert_eq!(class("waiting for collectives"), "c-waiting-for-collectives");
        assert_eq!(class("\"><b>"), "c----b-");
    }
}
