//! Findings, ranked.

use std::fmt::Write as _;

use serde::Serialize;
use trace_advisor::advisor::{Finding, Severity};
use trace_advisor::trace_model::number::plural;
use trace_advisor::{Error, Report, Run};

use crate::canvas::Names;
use crate::clean::html;
use crate::finding_card::write_finding;
use crate::moments::{self, Moment};
use crate::queries::or_reason;
use crate::timeline::{self, Picture};

/// Findings with a picture of the timeline.
const MAX_PICTURES: usize = 24;

/// The findings' data that the script draws.
#[derive(Debug, Default, Serialize)]
pub(crate) struct FindingData {
    names: Vec<String>,
    pictures: Vec<Picture>,
}

/// The findings as HTML, and the data of their pictures.
pub(crate) fn section(
    run: &Run,
    report: &Report,
    number: usize,
) -> Result<(String, FindingData), Error> {
    let shown: Vec<&Finding> = report.advice().collect();
    let drawn = or_reason(draw(run, &shown))?;
    let why_none =
        drawn.as_ref().err().map(|reason| format!("Timelines are not available: {reason}."));
    let (drawn, at, names) = drawn.unwrap_or_default();
    let mut data = FindingData::default();
    let mut numbers = Vec::with_capacity(drawn.len());
    for picture in drawn {
        numbers.push(picture.map(|picture| {
            data.pictures.push(picture);
            data.pictures.len() - 1
        }));
    }
    data.names = names.list;
    let picture_of = |i: usize| at.get(i).copied().flatten().and_then(|at: usize| numbers[at]);
    let (infos, counted): (Vec<_>, Vec<_>) =
        shown.iter().enumerate().partition(|(_, finding)| finding.severity == Severity::Info);
    let mut out = String::new();
    if let Some(why) = why_none {
        let _ = writeln!(out, "<p class=\"none\">{}</p>", html(&why));
    }
    if counted.is_empty() {
        // The headline has advice already where it says what takes the time.
        let passed = html(&plural(report.passed.len(), "rule"));
        let _ = if infos.is_empty() && report.time_summary().is_none() {
            writeln!(out, "<p class=\"none\">No findings: {passed} passed.</p>")
        } else {
            writeln!(out, "<p class=\"lead\">Nothing above information: {passed} passed.</p>")
        };
    }
    let write = |list: &[(usize, &&Finding)], out: &mut String| {
        for (i, finding) in list {
            let picture = picture_of(*i).map(|at| (at, &data.pictures[at]));
            write_finding(finding, number, picture, out);
        }
    };
    write(&counted, &mut out);
    if !infos.is_empty() {
        let _ = writeln!(
            out,
            "<details class=\"infos\"><summary>For information <span class=\"n\">{}</span></summary>",
            infos.len()
        );
        write(&infos, &mut out);
        out.push_str("</details>\n");
    }
    Ok((out, data))
}

/// The pictures, the index of each finding's picture, and the names in the pictures.
type Drawn = (Vec<Option<Picture>>, Vec<Option<usize>>, Names);

fn draw(run: &Run, shown: &[&Finding]) -> Result<Drawn, Error> {
    let (moments, at) = chosen_moments(run, shown)?;
    let mut names = Names::default();
    let pictures = timeline::pictures(run, &moments, &mut names)?;
    Ok((pictures, at, names))
}

/// The moments to draw, each once, and which of them each finding shows.
fn chosen_moments(
    run: &Run,
    shown: &[&Finding],
) -> Result<(Vec<Moment>, Vec<Option<usize>>), Error> {
    let steps = moments::Steps::of(run)?;
    let mut chosen: Vec<Moment> = Vec::new();
    let mut at = Vec::with_capacity(shown.len());
    for finding in shown.iter().take(MAX_PICTURES) {
        let moment = moments::of_finding(run, finding, &steps)?;
        at.push(moment.map(|moment| {
            chosen.iter().position(|other| *other == moment).unwrap_or_else(|| {
                chosen.push(moment);
                chosen.len() - 1
            })
        }));
    }
    Ok((chosen, at))
}
