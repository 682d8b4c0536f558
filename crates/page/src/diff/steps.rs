//! Both steps of a comparison above each other.

use std::fmt::Write as _;

use trace_advisor::compare::{Category, Diff, Group};
use trace_advisor::trace_model::time::human;

use crate::bar;
use crate::clean::html;

/// Writes both steps as bars, on one scale.
pub(super) fn write(diff: &Diff, out: &mut String) {
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
        // What cannot be seen in the bars is not in their legend.
        let is_seen = |part: &&&Category| part.before.max(part.after) >= 0.0005 * longest;
        for part in parts.iter().filter(is_seen) {
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
