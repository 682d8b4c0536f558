//! What threads, streams and waits do during a step, as lanes of spans that do not overlap: for drawings other than the
//! page, such as text.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use trace_advisor::advisor::Finding;
use trace_advisor::trace_model::Row;
use trace_advisor::{Error, Run};

use crate::clean::short;
use crate::events::{Event, Kind, ThreadNames};
use crate::moments::{self, Moment, Steps};
use crate::queries::query;
use crate::timeline::{MAX_STREAMS, MAX_THREADS, busiest, events_near, thread_label};

/// Most events of a table that are drawn: those of many steps.
const MAX_EVENTS: usize = 1_000_000;

/// A step of a rank, or another part of a recording without steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepLanes {
    /// The rank.
    pub rank: i64,
    /// The number of the step; `None` if the time range is no step.
    pub step: Option<i64>,
    /// Start, in ns of trace time.
    pub from_ns: i64,
    /// End.
    pub to_ns: i64,
    /// The finding to mark.
    pub finding: Option<DrawnFinding>,
    /// Lanes from top to bottom.
    pub lanes: Vec<Lane>,
    /// False if a GPU is idle and nothing says why: the step is none that analyses count.
    pub is_idle_explained: bool,
}

/// A finding, and where it occurs in the time range that is drawn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrawnFinding {
    /// The code of its rule.
    pub code: String,
    /// Its title.
    pub title: String,
    /// Start and end of an occurrence; `None` if it is about the whole range, or does not occur in it.
    pub mark: Option<(i64, i64)>,
}

/// A lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// What it shows; text from the trace.
    pub label: String,
    /// How to draw it.
    pub content: LaneContent,
    /// Its spans, in order of time.
    pub spans: Vec<Span>,
}

/// How to draw a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneContent {
    /// By kind of activity.
    Activities,
    /// By the share of the time that the spans cover.
    BusyShare,
}

/// A time range in which one thing goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Start, in ns of trace time.
    pub from_ns: i64,
    /// End.
    pub to_ns: i64,
    /// What goes on.
    pub activity: Activity,
}

/// A kind of activity of a host thread or a device, or what an idle device waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// Waiting for the next batch.
    Loading,
    /// An operator on the host.
    Operator,
    /// A named range of the program.
    Range,
    /// A Python function.
    Python,
    /// A call that launches work of the device, and all that leads to it.
    Launch,
    /// Waiting for the device.
    Synchronization,
    /// Another call of the device's runtime.
    OtherCall,
    /// A kernel that computes.
    Computation,
    /// Communication with other devices.
    Communication,
    /// A copy or a fill.
    Copy,
    /// Allocation of device memory.
    Allocation,
    /// First launches, and the start of the runtime.
    StartUp,
    /// Compilation of code.
    Compiling,
    /// The profiler's own work.
    Profiler,
    /// A gap between kernels that depend on each other.
    KernelGap,
    /// Waiting for another stream.
    OtherStream,
    /// Something that the recording does not tell.
    Unknown,
}

impl Activity {
    fn of(event: &Event) -> Self {
        match event.kind {
            Kind::Operator => Self::Operator,
            Kind::Annotation => Self::Range,
            Kind::Python => Self::Python,
            Kind::Call if event.is_launch || event.name.contains("Launch") => Self::Launch,
            Kind::Call => Self::OtherCall,
            Kind::Computation => Self::Computation,
            Kind::Communication => Self::Communication,
            Kind::Copy => Self::Copy,
        }
    }

    /// The cause of an idle gap, see the view `idle_gap_causes`.
    fn of_idle_cause(cause: &str) -> Self {
        match cause {
            "data_loading" => Self::Loading,
            "synchronization" => Self::Synchronization,
            "allocation" => Self::Allocation,
            "copy_api" | "launch_api" | "op_dispatch" | "launch_latency" => Self::Launch,
            "cpu_compute" => Self::Operator,
            "python" => Self::Python,
            "first_launch" | "startup" => Self::StartUp,
            "compiling" => Self::Compiling,
            "profiler" => Self::Profiler,
            "dependency" => Self::KernelGap,
            "other_stream" => Self::OtherStream,
            "collective" => Self::Communication,
            _ => Self::Unknown,
        }
    }

    /// What it counts as inside of another activity of the thread.
    fn inside(self, outer: Self) -> Self {
        match (outer, self) {
            (Self::Loading | Self::Synchronization, _)
            | (Self::Operator, Self::Launch | Self::OtherCall) => outer,
            _ => self,
        }
    }
}

/// The lanes of a step: that with this number, else the one in which the finding is worst, else the longest but the first.
/// The inner result is the reason if there is nothing to draw.
///
/// # Errors
/// If the run or a view cannot be read.
pub fn step_lanes(
    run: &Run,
    finding: Option<&Finding>,
    step: Option<i64>,
) -> Result<Result<StepLanes, String>, Error> {
    let steps = Steps::of(run)?;
    let worst = finding.map(|finding| moments::of_finding(run, finding, &steps)).transpose()?;
    let worst = worst.flatten();
    let lowest = run.info().ranks.first().map_or(0, |rank| i64::from(*rank));
    let rank = worst.as_ref().map_or(lowest, |worst| worst.rank);
    let (number, from_ns, to_ns) = match chosen_range(&steps, rank, worst.as_ref(), step) {
        Ok(range) => range,
        Err(reason) => return Ok(Err(reason)),
    };
    let mark = worst.and_then(|worst| worst.mark);
    let overlaps = |&(from, to): &(i64, i64)| from < to_ns && (from >= from_ns || to > from_ns);
    let finding = finding.map(|finding| DrawnFinding {
        code: finding.code.clone(),
        title: finding.title.clone(),
        mark: mark.into_iter().chain(occurrences(finding, rank)).find(overlaps),
    });
    let moment = Moment { rank, from_ns, to_ns, mark: None, caption: String::new() };
    let events = events_near(run, std::slice::from_ref(&moment), 0, MAX_EVENTS)?;
    let events = events.into_iter().next().unwrap_or_default();
    if events.is_empty() {
        return Ok(Err("nothing was recorded at that time".to_owned()));
    }
    if events.len() >= MAX_EVENTS {
        return Ok(Err(
            "it has too many events to draw: choose a part with --between or --steps".to_owned()
        ));
    }
    let mut lanes = host_lanes(run, &moment, &events)?;
    let is_idle_explained = add_device_lanes(run, &moment, &events, &mut lanes)?;
    Ok(Ok(StepLanes { rank, step: number, from_ns, to_ns, finding, lanes, is_idle_explained }))
}

/// The number, the start and the end of the step to draw, or of the range around the finding if that is in no step.
fn chosen_range(
    steps: &Steps,
    rank: i64,
    worst: Option<&Moment>,
    step: Option<i64>,
) -> Result<(Option<i64>, i64, i64), String> {
    let range = |(number, ts, dur): (i64, i64, i64)| (Some(number), ts, ts.saturating_add(dur));
    if let Some(step) = step {
        let numbers = || steps.of_rank(rank).map(|(number, ..)| number);
        let found = steps.of_rank(rank).find(|(number, ..)| *number == step);
        return found.map(range).ok_or_else(|| match (numbers().min(), numbers().max()) {
            (Some(first), Some(last)) => {
                format!("rank {rank} has no step {step}, only steps {first} to {last}")
            }
            _ => format!("rank {rank} has no step {step}: the recording has no steps"),
        });
    }
    if let Some(worst) = worst {
        let ns = worst.mark.map_or(worst.from_ns, |(from, _)| from);
        let is_in = |(_, ts, dur): &(i64, i64, i64)| *ts <= ns && ns < ts.saturating_add(*dur);
        let found = steps.of_rank(rank).find(is_in).map(range);
        return Ok(found.unwrap_or((None, worst.from_ns, worst.to_ns)));
    }
    let found = steps.find(rank, None).map(range);
    let (number, from, to) = found.ok_or("no timeline of the program was recorded")?;
    let is_step = steps.of_rank(rank).next().is_some();
    Ok((number.filter(|_| is_step), from, to))
}

/// The longest time ranges of a finding on a rank, longest first.
fn occurrences(finding: &Finding, rank: i64) -> impl Iterator<Item = (i64, i64)> + '_ {
    let longest = finding.occurrences.iter().flat_map(|seen| &seen.longest);
    let on_rank = longest.filter(move |range| {
        moments::int(&range.columns, "rank").is_none_or(|of_range| of_range == rank)
    });
    on_rank.map(|range| (range.ts_ns, range.ts_ns.saturating_add(range.dur_ns)))
}

/// Two lanes for each of the busiest host threads: what it does, and its calls of the device's runtime.
fn host_lanes(run: &Run, moment: &Moment, events: &[Event]) -> Result<Vec<Lane>, Error> {
    let names = ThreadNames::of(run)?;
    let waits = host_waits(run, moment)?;
    let mut lanes = Vec::new();
    let threads = busiest(events, |e| !e.kind.is_device(), |e| (e.thread, 0), MAX_THREADS);
    for (thread, _) in threads {
        let waits = || waits.iter().filter(|(of, _)| *of == thread).map(|(_, span)| *span);
        let own = || {
            events
                .iter()
                .filter(|e| !e.kind.is_device() && e.thread == thread && !is_around(e, moment))
        };
        let spans = innermost(own().map(span).chain(waits()).collect());
        // A thread whose only events are around the step.
        if spans.is_empty() {
            continue;
        }
        lanes.push(Lane::of_activities(&thread_label(moment.rank, thread, events, &names), spans));
        let calls: Vec<Span> = own().filter(|e| e.kind == Kind::Call).map(span).collect();
        if !calls.is_empty() {
            let is_sync = |span: &Span| span.activity == Activity::Synchronization;
            let spans = innermost(calls.into_iter().chain(waits().filter(is_sync)).collect());
            lanes.push(Lane::of_activities("  launches", spans));
        }
    }
    Ok(lanes)
}

/// Whether a range or a Python frame holds all that is drawn, and so says nothing of it. Marks of steps do.
fn is_around(event: &Event, moment: &Moment) -> bool {
    let covers = event.ts_ns <= moment.from_ns && event.end_ns() >= moment.to_ns;
    match event.kind {
        Kind::Annotation => covers || event.name.starts_with("ProfilerStep#"),
        Kind::Python => covers,
        _ => false,
    }
}

/// When threads load data or wait for the device.
fn host_waits(run: &Run, moment: &Moment) -> Result<Vec<(i64, Span)>, Error> {
    let Moment { rank, from_ns, to_ns, .. } = moment;
    let sql = format!(
        "SELECT thread, cause, ts_ns, end_ns FROM host_waits WHERE rank = {rank} AND ts_ns < {to_ns} \
         AND end_ns > {from_ns} ORDER BY thread, ts_ns, end_ns, cause"
    );
    let table = query(run, &sql)?;
    let wait = |row: Row<'_>| {
        let is_loading = row.text("cause") == Some("dataloader");
        let activity = if is_loading { Activity::Loading } else { Activity::Synchronization };
        let (from_ns, to_ns) = (row.integer("ts_ns")?, row.integer("end_ns")?);
        Some((row.integer("thread")?, Span { from_ns, to_ns, activity }))
    };
    Ok(table.named_rows().filter_map(wait).collect())
}

/// Adds the lanes of the busiest streams, and below those of each device when it is busy and what it waits for. Returns
/// whether that is known wherever a device is idle.
fn add_device_lanes(
    run: &Run,
    moment: &Moment,
    events: &[Event],
    lanes: &mut Vec<Lane>,
) -> Result<bool, Error> {
    let is_device = |e: &Event| e.kind.is_device();
    let mut streams = busiest(events, is_device, |e| (e.device, e.thread), MAX_STREAMS);
    streams.sort_unstable();
    let devices: BTreeSet<i64> = streams.iter().map(|(device, _)| *device).collect();
    let mut waits = if devices.is_empty() { Vec::new() } else { device_waits(run, moment)? };
    let mut is_explained = true;
    for device in devices {
        let name = if device < 0 { "GPU".to_owned() } else { format!("GPU {device}") };
        let spans = |stream: Option<i64>| {
            let is_own = |e: &&Event| {
                is_device(e) && e.device == device && stream.is_none_or(|of| e.thread == of)
            };
            innermost(events.iter().filter(is_own).map(span).collect())
        };
        for (_, stream) in streams.iter().filter(|(of, _)| *of == device) {
            let label = format!("{name} stream {stream}");
            lanes.push(Lane::of_activities(&label, spans(Some(*stream))));
        }
        let busy = spans(None);
        let is_idle = idle_ns(&busy, moment) > 0;
        let content = LaneContent::BusyShare;
        lanes.push(Lane { label: format!("{name} busy"), content, spans: busy });
        let (own, others): (Vec<_>, Vec<_>) = waits.into_iter().partition(|(of, _)| *of == device);
        waits = others;
        let own: Vec<Span> = own.into_iter().map(|(_, span)| span).collect();
        is_explained &= !own.is_empty() || !is_idle;
        if !own.is_empty() {
            lanes.push(Lane::of_activities(&format!("{name} waits"), own));
        }
    }
    Ok(is_explained)
}

/// Time that spans leave of what is drawn.
fn idle_ns(spans: &[Span], moment: &Moment) -> i64 {
    let Moment { from_ns, to_ns, .. } = *moment;
    let part = |span: &Span| span.to_ns.min(to_ns).saturating_sub(span.from_ns.max(from_ns));
    spans.iter().fold(to_ns.saturating_sub(from_ns), |left, span| left - part(span).max(0))
}

/// What idle devices wait for.
fn device_waits(run: &Run, moment: &Moment) -> Result<Vec<(i64, Span)>, Error> {
    let Moment { rank, from_ns, to_ns, .. } = moment;
    let sql = format!(
        "SELECT device, gap_ts_ns, gap_end_ns, cause, dur_ns FROM idle_gap_causes WHERE rank = {rank} \
         AND gap_ts_ns < {to_ns} AND gap_end_ns > {from_ns} ORDER BY device, gap_ts_ns, ts_ns, cause, state, dur_ns"
    );
    let table = query(run, &sql)?;
    let part = |row: Row<'_>| {
        let gap = (row.integer("device")?, row.integer("gap_ts_ns")?, row.integer("gap_end_ns")?);
        Some((gap, row.integer("dur_ns")?, Activity::of_idle_cause(row.text_or_empty("cause"))))
    };
    Ok(parts_of_gaps(table.named_rows().filter_map(part)))
}

/// The device, the start and the end of an idle gap.
type Gap = (i64, i64, i64);

/// The parts of each gap one after the other, in the order in which they begin: of a part, the view has the first moment and
/// the time, and parts of a gap may alternate.
fn parts_of_gaps(parts: impl Iterator<Item = (Gap, i64, Activity)>) -> Vec<(i64, Span)> {
    let mut spans = Vec::new();
    let mut last: Option<(Gap, i64)> = None;
    for (gap, dur_ns, activity) in parts {
        let (device, start_ns, end_ns) = gap;
        let from_ns = last.filter(|(of, _)| *of == gap).map_or(start_ns, |(_, at)| at);
        let to_ns = from_ns.saturating_add(dur_ns).min(end_ns);
        last = Some((gap, to_ns));
        spans.push((device, Span { from_ns, to_ns, activity }));
    }
    spans
}

impl Lane {
    fn of_activities(label: &str, spans: Vec<Span>) -> Self {
        Self { label: short(label), content: LaneContent::Activities, spans }
    }
}

fn span(event: &Event) -> Span {
    Span { from_ns: event.ts_ns, to_ns: event.end_ns(), activity: Activity::of(event) }
}

/// Spans that do not overlap: each moment has the activity that began last of those that go on.
fn innermost(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| (span.from_ns, Reverse(span.to_ns)));
    let mut flat = Flat { spans: Vec::new(), open: Vec::new(), at_ns: i64::MIN };
    for span in spans {
        flat.close_until(span.from_ns);
        let outer = flat.open.last().map_or(span.activity, |outer| outer.activity);
        flat.open.push(Span { activity: span.activity.inside(outer), ..span });
    }
    flat.close_until(i64::MAX);
    flat.spans
}

/// Spans that do not overlap, in the making.
struct Flat {
    spans: Vec<Span>,
    /// Spans that have begun, the innermost last.
    open: Vec<Span>,
    /// All before is in `spans`.
    at_ns: i64,
}

impl Flat {
    /// Adds what the open spans cover before a moment, and closes those that end there.
    fn close_until(&mut self, until_ns: i64) {
        while let Some(&span) = self.open.last() {
            let (from_ns, to_ns) = (span.from_ns.max(self.at_ns), span.to_ns.min(until_ns));
            if from_ns < to_ns {
                self.at_ns = to_ns;
                match self.spans.last_mut() {
                    Some(last) if last.to_ns == from_ns && last.activity == span.activity => {
                        last.to_ns = to_ns;
                    }
                    _ => self.spans.push(Span { from_ns, to_ns, ..span }),
                }
            }
            if span.to_ns > until_ns {
                break;
            }
            self.open.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Activity, Span, chosen_range, innermost, parts_of_gaps};
    use crate::moments::{Moment, Steps};
    use Activity::{
        Computation, Copy, Launch, Loading, Operator, OtherCall, Python, Synchronization,
    };

    fn span((from_ns, to_ns, activity): (i64, i64, Activity)) -> Span {
        Span { from_ns, to_ns, activity }
    }

    fn flat(spans: &[(i64, i64, Activity)]) -> Vec<(i64, i64, Activity)> {
        let flat = innermost(spans.iter().copied().map(span).collect());
        assert!(flat.windows(2).all(|pair| pair[0].to_ns <= pair[1].from_ns), "{flat:?}");
        flat.into_iter().map(|span| (span.from_ns, span.to_ns, span.activity)).collect()
    }

    #[test]
    fn innermost_activity_counts() {
        assert_eq!(
            flat(&[(0, 100, Python), (20, 50, Operator), (50, 60, Operator), (120, 130, Python)]),
            [(0, 20, Python), (20, 60, Operator), (60, 100, Python), (120, 130, Python)]
        );
        // The order of the input does not matter, and what takes no time does not show.
        assert_eq!(
            flat(&[(20, 50, Operator), (60, 60, Launch), (0, 100, Python)]),
            [(0, 20, Python), (20, 50, Operator), (50, 100, Python)]
        );
        // Kernels of a stream may overlap: the later one goes on.
        assert_eq!(
            flat(&[(0, 50, Computation), (40, 70, Copy)]),
            [(0, 40, Computation), (40, 70, Copy)]
        );
        assert_eq!(flat(&[(0, 10, Copy), (0, 10, Computation)]), [(0, 10, Computation)]);
    }

    #[test]
    fn waits_hold_what_is_in_them_and_operators_their_launches() {
        assert_eq!(
            flat(&[(0, 100, Loading), (20, 50, Operator), (30, 40, Launch)]),
            [(0, 100, Loading)]
        );
        assert_eq!(
            flat(&[
                (0, 100, Operator),
                (10, 20, Launch),
                (30, 60, OtherCall),
                (30, 60, Synchronization)
            ]),
            [(0, 30, Operator), (30, 60, Synchronization), (60, 100, Operator)]
        );
        assert_eq!(flat(&[(0, 9, Python), (2, 4, Launch)])[1], (2, 4, Launch));
    }

    #[test]
    fn parts_of_a_gap_fill_it_in_order() {
        let (first, second) = ((0, 100, 160), (0, 200, 210));
        let parts =
            [(first, 40, Loading), (first, 20, Launch), (second, 10, Python), (second, 9, Launch)];
        let spans = parts_of_gaps(parts.into_iter());
        let spans: Vec<_> = spans.iter().map(|(_, s)| (s.from_ns, s.to_ns, s.activity)).collect();
        // No part leaves its gap.
        assert_eq!(
            spans,
            [(100, 140, Loading), (140, 160, Launch), (200, 210, Python), (210, 210, Launch)]
        );
    }

    #[test]
    fn step_is_the_one_with_the_finding_unless_one_is_given() {
        let steps = Steps::of_rows(&[(0, 5, 0, 100, false), (0, 6, 100, 50, false)]);
        let mark = Some((110, 120));
        let worst = Moment { rank: 0, from_ns: 90, to_ns: 140, mark, caption: String::new() };
        let chosen = |worst, step| chosen_range(&steps, 0, worst, step);
        assert_eq!(chosen(Some(&worst), None), Ok((Some(6), 100, 150)));
        assert_eq!(chosen(Some(&worst), Some(5)), Ok((Some(5), 0, 100)));
        // The longest but the first.
        assert_eq!(chosen(None, None), Ok((Some(6), 100, 150)));
        let reason = chosen(None, Some(9)).unwrap_err();
        assert_eq!(reason, "rank 0 has no step 9, only steps 5 to 6");
        let outside = Moment { mark: Some((150, 160)), ..worst.clone() };
        assert_eq!(chosen(Some(&outside), None), Ok((None, 90, 140)));
    }

    #[test]
    fn recordings_without_steps_are_drawn_as_a_whole() {
        let steps = Steps::of_rows(&[(0, 0, 10, 100, true)]);
        assert_eq!(chosen_range(&steps, 0, None, None), Ok((None, 10, 110)));
        let reason = chosen_range(&steps, 0, None, Some(0)).unwrap_err();
        assert_eq!(reason, "rank 0 has no step 0: the recording has no steps");
        let reason = chosen_range(&Steps::of_rows(&[]), 0, None, None).unwrap_err();
        assert_eq!(reason, "no timeline of the program was recorded");
    }
}
