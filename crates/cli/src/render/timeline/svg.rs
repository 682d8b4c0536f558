//! A step as lanes in an SVG picture, for documents and issues: no script, no font, nothing that is loaded.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};

use page::{Activity, Lane, LaneContent, StepLanes};

use crate::render::markup::xml::xml_text;
use crate::render::shorten::shorten;

use super::grid::Grid;
use super::{notes, title, words};

/// Width of the picture, of the labels on its left and of the margins, in px.
const WIDTH: usize = 1200;
const LABELS: usize = 190;
const MARGIN: usize = 12;
/// Width of the lanes: a cell is a pixel.
const CELLS: usize = WIDTH - LABELS - 2 * MARGIN;
/// Pixels from one number of the scale to the next, at least.
const MIN_TICK_CELLS: i128 = 90;
/// Height of a lane, with the space to the next, and of a line of text.
const LANE: usize = 22;
const LINE: usize = 18;
/// The longest label.
const MAX_LABEL: usize = 28;
/// Width of a character of the legend, about.
const CHARACTER: usize = 7;

/// The colors of both themes.
const STYLE: &str = "\
text { font: 12px sans-serif; fill: #1f2328; } .title { font-weight: 600; } .dim { fill: #59636e; }
.paper { fill: #ffffff; } .tick { stroke: #d1d9e0; } .lane { fill: #f3f4f6; } .mark { fill: #bf8700; fill-opacity: 0.18; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .dim { fill: #9198a1; } .paper { fill: #0d1117; } .tick { stroke: #3d444d; } .lane { fill: #1c222b; }
}";

/// Writes the picture.
pub(crate) fn write(lanes: &StepLanes, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(picture(lanes).as_bytes())
}

fn picture(lanes: &StepLanes) -> String {
    let grid = Grid { from_ns: lanes.from_ns, to_ns: lanes.to_ns, cells: CELLS };
    let left = MARGIN + LABELS;
    let top = 2 * LINE + MARGIN;
    let bottom = top + LANE * lanes.lanes.len();
    let mut body = String::new();
    let mut text = |x: usize, y: usize, class: &str, text: &str| {
        let text = xml_text(text);
        _ = writeln!(body, "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{text}</text>");
    };
    text(MARGIN, LINE, "title", &title(lanes));
    for (cell, label) in grid.ticks(MIN_TICK_CELLS) {
        text(left + cell + 3, top - 4, "dim", &label);
    }
    let labels: Vec<String> = lanes.lanes.iter().map(|lane| lane.label.clone()).collect();
    for (at, label) in shorten(&labels, MAX_LABEL, "...").iter().enumerate() {
        text(MARGIN, top + LANE * at + LANE - 8, "", label);
    }
    let mut shapes = String::new();
    for (cell, _) in grid.ticks(MIN_TICK_CELLS) {
        let x = left + cell;
        _ = writeln!(shapes, "<path class=\"tick\" d=\"M{x}.5 {}V{bottom}\"/>", top - LINE + 4);
    }
    let mut shown = BTreeSet::new();
    for (at, lane) in lanes.lanes.iter().enumerate() {
        write_lane(&mut shapes, &grid, lane, (left, top + LANE * at), &mut shown);
    }
    if let Some((from_ns, to_ns)) = lanes.finding.as_ref().and_then(|finding| finding.mark) {
        let (from, to) = (grid.position(from_ns), grid.position(to_ns));
        let (first, last) = (grid.cell(from), grid.cell((to - 1).max(from)));
        rect(
            &mut shapes,
            Paint::Class("mark"),
            (left + first, top),
            (last - first + 1, bottom - top),
        );
    }
    let mut y = bottom + LINE;
    let mut x = MARGIN;
    for activity in shown {
        let name = words(activity).1;
        let width = 16 + CHARACTER * (name.len() + 2);
        if x + width > WIDTH {
            (x, y) = (MARGIN, y + LINE);
        }
        rect(&mut body, Paint::Color(color(activity)), (x, y - 10), (11, 11));
        _ = writeln!(body, "<text x=\"{}\" y=\"{y}\">{name}</text>", x + 16);
        x += width;
    }
    for note in notes(lanes) {
        y += LINE;
        let note = xml_text(note.trim_start_matches("^ "));
        _ = writeln!(body, "<text x=\"{MARGIN}\" y=\"{y}\" class=\"dim\">{note}</text>");
    }
    let height = y + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n<rect class=\"paper\" width=\"{WIDTH}\" \
         height=\"{height}\"/>\n{shapes}{body}</svg>\n",
        xml_text(&title(lanes))
    )
}

/// Draws a lane: neighboring pixels of one activity are one rectangle.
fn write_lane(
    shapes: &mut String,
    grid: &Grid,
    lane: &Lane,
    (left, top): (usize, usize),
    shown: &mut BTreeSet<Activity>,
) {
    let height = LANE - 4;
    rect(shapes, Paint::Class("lane"), (left, top), (CELLS, height));
    let times = grid.times(lane);
    let drawn = times.iter().map(|times| match lane.content {
        LaneContent::BusyShare => {
            // A device that does anything in a pixel has a line there.
            let busy = (grid.share(times) * height as f64).ceil() as usize;
            (busy > 0).then_some((Activity::Computation, busy.min(height)))
        }
        LaneContent::Activities => Grid::longest(times).map(|(activity, _)| (activity, height)),
    });
    let drawn: Vec<Option<(Activity, usize)>> = drawn.collect();
    let mut cell = 0;
    for run in drawn.chunk_by(PartialEq::eq) {
        if let Some((activity, high)) = run[0] {
            if lane.content == LaneContent::Activities {
                shown.insert(activity);
            }
            let place = (left + cell, top + height - high);
            rect(shapes, Paint::Color(color(activity)), place, (run.len(), high));
        }
        cell += run.len();
    }
}

/// How a shape is filled: by the theme, or with the same color in both.
#[derive(Clone, Copy)]
enum Paint {
    Class(&'static str),
    Color(&'static str),
}

fn rect(
    shapes: &mut String,
    paint: Paint,
    (x, y): (usize, usize),
    (width, height): (usize, usize),
) {
    let paint = match paint {
        Paint::Class(class) => format!("class=\"{class}\""),
        Paint::Color(color) => format!("fill=\"{color}\""),
    };
    _ = writeln!(
        shapes,
        "<rect {paint} x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
    );
}

/// The color of an activity: no two are alike, and all show on both papers.
fn color(activity: Activity) -> &'static str {
    match activity {
        Activity::Loading => "#d1483f",
        Activity::Operator => "#4c78c8",
        Activity::Range => "#93b4ea",
        Activity::Python => "#d09a1f",
        Activity::Launch => "#2b97a6",
        Activity::Synchronization => "#f08a4b",
        Activity::OtherCall => "#8ad2dc",
        Activity::Computation => "#3a9a53",
        Activity::Communication => "#8e44ad",
        Activity::Copy => "#d08fe0",
        Activity::Allocation => "#8a5a3c",
        Activity::StartUp => "#6b5fb5",
        Activity::Compiling => "#b5367a",
        Activity::Profiler => "#6e7681",
        Activity::KernelGap => "#e8b0ab",
        Activity::OtherStream => "#c2b280",
        Activity::Unknown => "#a8b0b8",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use page::Activity;

    use super::color;

    #[test]
    fn activities_have_colors_of_their_own() {
        let all = [
            Activity::Loading,
            Activity::Operator,
            Activity::Range,
            Activity::Python,
            Activity::Launch,
            Activity::Synchronization,
            Activity::OtherCall,
            Activity::Computation,
            Activity::Communication,
            Activity::Copy,
            Activity::Allocation,
            Activity::StartUp,
            Activity::Compiling,
            Activity::Profiler,
            Activity::KernelGap,
            Activity::OtherStream,
            Activity::Unknown,
        ];
        let colors: BTreeSet<&str> = all.into_iter().map(color).collect();
        assert_eq!(colors.len(), all.len());
    }
}
