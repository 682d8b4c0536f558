//! A step as lanes of characters.
//!
//! ```text
//! rank 0, step 7: 240 ms (1.00..1.24 s); a character is 10.0 ms
//!                 |0        |100 ms   |
//! IN001           ^----------^
//! thread 1, main  DDDDDDDDDDOOOOOOOOWWWW
//!   launches                 ll     WWWW
//! GPU 0 stream 7              CCCCCCCC c
//! GPU 0 busy                  99999999 4
//! GPU 0 waits     DDDDDDDDDDLL
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use page::{Activity, Lane, LaneContent, StepLanes};
use trace_advisor::trace_model::time::human;

use crate::console::Terminal;
use crate::render::bar::level;
use crate::render::layout::Layout;
use crate::render::sanitize::sanitize;
use crate::render::shorten::shorten;

use super::grid::Grid;
use super::{notes, title, words};

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const MARK: Style = AnsiColor::Yellow.on_default().bold();
/// Labels may have a fourth of the line, and at least so many characters: `GPU 0 stream 123`.
const MIN_LABEL: usize = 16;
/// Cells from one number of the scale to the next, at least.
const MIN_TICK_CELLS: i128 = 10;

/// Writes the lanes, with a scale above and a legend below.
pub(crate) fn write(lanes: &StepLanes, mut layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    layout.columns = layout.columns.clamp(*Terminal::COLUMNS.start(), *Terminal::COLUMNS.end());
    let labels = labels(lanes, layout);
    let indent = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0) + 2;
    let grid = Grid { from_ns: lanes.from_ns, to_ns: lanes.to_ns, cells: layout.columns - indent };
    let cell_ns = lanes.to_ns.saturating_sub(lanes.from_ns) as f64 / grid.cells as f64;
    let title = format!("{}; a character is {}", title(lanes), human(cell_ns));
    for line in layout.wrapped(&title, 0) {
        writeln!(out, "{BOLD}{line}{BOLD:#}")?;
    }
    let plain = |style: Style, text: &str| text.chars().map(|c| (c, style)).collect::<Vec<_>>();
    let mut row = |label: &str, cells: &[(char, Style)]| write_row(label, indent, cells, out);
    row("", &plain(DIM, &scale(&grid)))?;
    let mark = lanes.finding.as_ref().and_then(|finding| finding.mark);
    if let Some(mark) = mark {
        row(&labels[0], &plain(MARK, &mark_text(&grid, mark)))?;
    }
    let mut legend = Legend::default();
    for (lane, label) in lanes.lanes.iter().zip(&labels[1..]) {
        let cells = drawn(&grid, lane, layout, &mut legend);
        row(label, &cells)?;
    }
    legend.write(layout, out)?;
    for note in notes(lanes) {
        for line in layout.wrapped(&note, 0) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// The labels of the mark and of all lanes.
fn labels(lanes: &StepLanes, layout: Layout) -> Vec<String> {
    let code = lanes.finding.as_ref().map_or("", |finding| &finding.code);
    let texts = std::iter::once(code).chain(lanes.lanes.iter().map(|lane| lane.label.as_str()));
    let texts: Vec<String> = texts.map(|text| sanitize(text).into_owned()).collect();
    shorten(&texts, MIN_LABEL.max(layout.columns / 4), "...")
}

/// Writes a label and cells, without blanks at the end.
fn write_row(
    label: &str,
    indent: usize,
    cells: &[(char, Style)],
    out: &mut dyn Write,
) -> io::Result<()> {
    let used = cells.iter().rposition(|(c, _)| *c != ' ').map_or(0, |last| last + 1);
    if used == 0 {
        return writeln!(out, "{label}");
    }
    write!(out, "{label:indent$}")?;
    for run in cells[..used].chunk_by(|a, b| a.1 == b.1) {
        let (style, text) = (run[0].1, run.iter().map(|(c, _)| *c).collect::<String>());
        write!(out, "{style}{text}{style:#}")?;
    }
    writeln!(out)
}

/// Times from the start, where cells begin: `|0      |20 ms  |40 ms`.
fn scale(grid: &Grid) -> String {
    let mut text = String::new();
    let ticks = grid.ticks(MIN_TICK_CELLS);
    for (at, (cell, label)) in ticks.iter().enumerate() {
        let end = ticks.get(at + 1).map_or(grid.cells, |next| next.0);
        let label = format!("|{label}");
        text.push_str(&" ".repeat(cell - text.len()));
        text.push_str(if label.len() <= end - cell { &label } else { "|" });
    }
    text
}

/// `^---^` below the cells of a time range, with `<` or `>` where it goes on beyond the picture.
fn mark_text(grid: &Grid, (from_ns, to_ns): (i64, i64)) -> String {
    let (from, to) = (grid.position(from_ns), grid.position(to_ns));
    let (first, last) = (grid.cell(from), grid.cell((to - 1).max(from)));
    let start = if from_ns < grid.from_ns { '<' } else { '^' };
    let end = if to_ns > grid.to_ns { '>' } else { '^' };
    let mut text = " ".repeat(first);
    if first < last {
        text.push(start);
        text.push_str(&"-".repeat(last - first - 1));
        text.push(end);
    } else {
        text.push(if start == '^' { end } else { start });
    }
    text
}

/// The cells of a lane.
fn drawn(grid: &Grid, lane: &Lane, layout: Layout, legend: &mut Legend) -> Vec<(char, Style)> {
    let drawn = |times: &BTreeMap<Activity, i128>| match lane.content {
        LaneContent::BusyShare => {
            let share = grid.share(times);
            legend.has_busy |= share > 0.0;
            (level(share, layout), style(Activity::Computation))
        }
        LaneContent::Activities => Grid::longest(times)
            .map_or((' ', Style::new()), |(activity, time)| {
                (legend.letter(activity, 2 * time < grid.length()), style(activity))
            }),
    };
    grid.times(lane).iter().map(drawn).collect()
}

/// The marks that a picture has.
#[derive(Default)]
struct Legend {
    activities: BTreeSet<Activity>,
    has_small: bool,
    has_busy: bool,
}

impl Legend {
    /// The letter of an activity; a small one if the activity takes less than half of the cell.
    fn letter(&mut self, activity: Activity, is_small: bool) -> char {
        self.activities.insert(activity);
        let letter = words(activity).0;
        self.has_small |= is_small && letter.is_ascii_alphabetic();
        if is_small { letter.to_ascii_lowercase() } else { letter }
    }

    fn write(&self, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
        let entry = |activity: &Activity| {
            let (letter, words) = words(*activity);
            (letter.to_string(), words.to_owned(), style(*activity))
        };
        let mut entries: Vec<(String, String, Style)> = self.activities.iter().map(entry).collect();
        if self.has_small {
            let words = "less than half of the time".to_owned();
            entries.push(("small letter".to_owned(), words, Style::new()));
        }
        if self.has_busy {
            let (range, words) = if layout.has_unicode {
                ("▁ to █", "GPU busy, by share")
            } else {
                ("0 to 9", "GPU busy, in tenths")
            };
            entries.push((range.to_owned(), words.to_owned(), style(Activity::Computation)));
        }
        layout.write_legend(entries, out)
    }
}

fn style(activity: Activity) -> Style {
    let color = match activity {
        Activity::Operator | Activity::Range => AnsiColor::Blue,
        Activity::Launch | Activity::OtherCall => AnsiColor::Cyan,
        Activity::Computation => AnsiColor::Green,
        Activity::Communication | Activity::Copy => AnsiColor::Magenta,
        Activity::Python => AnsiColor::Yellow,
        _ => AnsiColor::Red,
    };
    color.on_default()
}

#[cfg(test)]
mod tests {
    use page::{Activity, DrawnFinding, Lane, LaneContent, Span, StepLanes};

    use super::write;
    use crate::console::Terminal;
    use crate::render::layout::Layout;
    use Activity::{Computation, Copy, Launch, Loading, Operator, Synchronization};

    const MS: i64 = 1_000_000;

    fn lane(label: &str, content: LaneContent, spans: &[(i64, i64, Activity)]) -> Lane {
        let span = |&(from, to, activity): &(i64, i64, Activity)| Span {
            from_ns: from * MS,
            to_ns: to * MS,
            activity,
        };
        Lane { label: label.to_owned(), content, spans: spans.iter().map(span).collect() }
    }

    fn activities(label: &str, spans: &[(i64, i64, Activity)]) -> Lane {
        lane(label, LaneContent::Activities, spans)
    }

    /// A step of 240 ms that begins 1 s after the recording.
    fn step(lanes: Vec<Lane>, mark: Option<(i64, i64)>) -> StepLanes {
        let finding = mark.map(|(from, to)| DrawnFinding {
            code: "IN001".to_owned(),
            title: "Steps wait".to_owned(),
            mark: Some((from * MS, to * MS)),
        });
        StepLanes {
            rank: 0,
            step: Some(7),
            from_ns: 1000 * MS,
            to_ns: 1240 * MS,
            finding,
            lanes,
            is_idle_explained: true,
        }
    }

    /// A training step: 100 ms of loading, then operators and kernels.
    fn training() -> StepLanes {
        let kernels = [(1120, 1123, Copy), (1123, 1200, Computation), (1210, 1214, Computation)];
        let lanes = vec![
            activities(
                "thread 1, main",
                &[(1000, 1100, Loading), (1100, 1180, Operator), (1180, 1220, Synchronization)],
            ),
            activities("  launches", &[(1118, 1122, Launch), (1180, 1220, Synchronization)]),
            activities("GPU 0 stream 7", &kernels),
            lane("GPU 0 busy", LaneContent::BusyShare, &kernels),
            activities("GPU 0 waits", &[(1000, 1100, Loading), (1100, 1120, Launch)]),
        ];
        step(lanes, Some((1000, 1120)))
    }

    fn drawn(lanes: &StepLanes, columns: usize, has_unicode: bool) -> String {
        let layout = Layout::from(Some(Terminal { columns, has_unicode }));
        let mut out = Vec::new();
        write(lanes, layout, &mut out).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert!(has_unicode || text.is_ascii(), "{text}");
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(columns.clamp(40, 200)), "{columns}: {text}");
        assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
        text
    }

    #[test]
    fn narrow_terminals_get_the_whole_step() {
        let expected = "\
rank 0, step 7: 240 ms (1.00..1.24 s); a
character is 10.0 ms
                |0        |100 ms   |
IN001           ^----------^
thread 1, main  DDDDDDDDDDOOOOOOOOWWWW
  launches                 ll     WWWW
GPU 0 stream 7              CCCCCCCC c
GPU 0 busy                  99999999 4
GPU 0 waits     DDDDDDDDDDLL
D data loading  O operator  L launching
W wait for the GPU  C computation
small letter less than half of the time
0 to 9 GPU busy, in tenths
^ IN001: Steps wait: 1.00..1.12 s of the
recording
";
        assert_eq!(drawn(&training(), 40, false), expected);
        // Terminals that are narrower get the same lines.
        assert_eq!(drawn(&training(), 1, false), expected);
    }

    #[test]
    fn terminals_with_unicode_get_levels() {
        assert_eq!(
            drawn(&training(), 80, true),
            "\
rank 0, step 7: 240 ms (1.00..1.24 s); a character is 3.75 ms
                |0           |50 ms       |100 ms       |150 ms      |200 ms
IN001           ^------------------------------^
thread 1, main  DDDDDDDDDDDDDDDDDDDDDDDDDDDOOOOOOOOOOOOOOOOOOOOOWWWWWWWWWWW
  launches                                     LL               WWWWWWWWWWW
GPU 0 stream 7                                  MCCCCCCCCCCCCCCCCCCCCc  Cc
GPU 0 busy                                      █████████████████████▃  █▁
GPU 0 waits     DDDDDDDDDDDDDDDDDDDDDDDDDDDLLLLL
D data loading  O operator  L launching  W wait for the GPU  C computation
M copy or fill  small letter less than half of the time
▁ to █ GPU busy, by share
^ IN001: Steps wait: 1.00..1.12 s of the recording
"
        );
    }

    #[test]
    fn wide_terminals_get_more_detail() {
        let lane_of = |text: &str| text.lines().nth(5).unwrap().to_owned();
        let at_100 = lane_of(&drawn(&training(), 100, true));
        assert_eq!(
            at_100.trim_start_matches("GPU 0 stream 7").trim(),
            format!("M{}   CC", "C".repeat(27))
        );
        let at_200 = lane_of(&drawn(&training(), 200, false));
        let expected = format!("MM{}c       CCCc", "C".repeat(59));
        assert_eq!(at_200.trim_start_matches("GPU 0 stream 7").trim(), expected);
    }

    #[test]
    fn cells_show_what_takes_most_of_them_and_idle_ones_are_blank() {
        // 24 cells of 10 ms: 4 + 5 of 10, 3 + 3 of 10, 6 of 10 in two parts, and one that is over after 1 of 10.
        let spans = [
            (1000, 1004, Copy),
            (1004, 1009, Computation),
            (1010, 1013, Copy),
            (1015, 1018, Computation),
            (1020, 1023, Copy),
            (1023, 1026, Computation),
            (1026, 1029, Copy),
            (1040, 1051, Launch),
        ];
        let text = drawn(&step(vec![activities("thread 1, main", &spans)], None), 40, false);
        let lane = text.lines().find(|line| line.starts_with("thread 1")).unwrap();
        assert_eq!(lane, "thread 1, main  CcM Ll");
    }

    #[test]
    fn programs_on_the_cpu_have_threads_only() {
        let spans = [(1000, 1100, Loading), (1100, 1240, Operator)];
        let lanes = step(vec![activities("thread 1, main", &spans)], None);
        let expected = "\
rank 0, step 7: 240 ms (1.00..1.24 s); a
character is 10.0 ms
                |0        |100 ms   |
thread 1, main  DDDDDDDDDDOOOOOOOOOOOOOO
D data loading  O operator
";
        assert_eq!(drawn(&lanes, 40, false), expected);
    }

    #[test]
    fn marks_show_where_they_go_on() {
        let spans = [(1000, 1240, Operator)];
        let mark = |from, to| {
            let lanes = step(vec![activities("thread 1, main", &spans)], Some((from, to)));
            drawn(&lanes, 40, false).lines().nth(3).unwrap().to_owned()
        };
        assert_eq!(mark(1090, 1300), "IN001                    ^------------->");
        assert_eq!(mark(900, 1240), "IN001           <----------------------^");
        assert_eq!(mark(900, 1001), "IN001           <");
        assert_eq!(mark(1051, 1052), "IN001                ^");
        assert_eq!(mark(1050, 1060), "IN001                ^");
        assert_eq!(mark(1050, 1050), "IN001                ^");
    }

    #[test]
    fn findings_without_a_time_range_and_unknown_waits_are_told() {
        let spans = [(1000, 1240, Operator)];
        let mut lanes = step(vec![activities("thread 1", &spans)], Some((1000, 1010)));
        lanes.finding.as_mut().unwrap().mark = None;
        lanes.is_idle_explained = false;
        let text = drawn(&lanes, 100, false);
        assert!(!text.contains('^'), "{text}");
        assert!(
            text.contains("\nIN001: Steps wait: no single time range of this step\n"),
            "{text}"
        );
        assert!(text.contains("\nWhat the idle GPU waits for is not known here: "), "{text}");
    }

    #[test]
    fn names_from_the_trace_stay_text() {
        let spans = [(1000, 1240, Operator)];
        let mut lanes = step(vec![activities("a\u{1b}[2J\u{202e}\nb", &spans)], Some((0, 1)));
        lanes.finding.as_mut().unwrap().title = "##[error]\u{9b}31m".to_owned();
        let text = drawn(&lanes, 200, false);
        assert!(text.contains("\na\\u{1b}[2J\\u{202e}\\u{a}b  OOO"), "{text}");
        assert!(text.contains("\\u{23}#[error]\\u{9b}31m"), "{text}");
    }

    #[test]
    fn extreme_times_are_drawn() {
        let span = Span { from_ns: i64::MIN, to_ns: i64::MAX, activity: Operator };
        let lane = Lane { spans: vec![span], ..activities("thread 1", &[]) };
        for (from_ns, to_ns) in [(i64::MIN, i64::MAX), (0, 3), (7, 7), (i64::MAX, i64::MAX)] {
            let lanes = StepLanes { from_ns, to_ns, ..step(vec![lane.clone()], Some((0, 1))) };
            for columns in [40, 80, 100, 200] {
                assert!(drawn(&lanes, columns, false).contains("thread 1"));
            }
        }
    }
}
