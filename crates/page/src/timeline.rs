//! Pictures of the timeline around moments: host threads, launches and streams, thinned out to what a picture can show.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use trace_advisor::trace_model::Row;
use trace_advisor::{Error, Run};

use crate::canvas::{Canvas, EventBox, Lane, Names};
use crate::cutout;
use crate::events::{Event, Kind, ThreadNames};
use crate::moments::Moment;
use crate::queries::query;

/// Most boxes in a picture, widest first.
const MAX_BOXES: usize = 900;
/// Host threads and streams that a picture shows: the busiest ones.
pub(crate) const MAX_THREADS: usize = 2;
pub(crate) const MAX_STREAMS: usize = 5;
/// Levels of nesting that are shown of a host thread, and of its Python frames.
const MAX_LEVELS: usize = 4;
const MAX_PYTHON_LEVELS: usize = 2;

/// A picture of a moment.
#[derive(Debug, Serialize)]
pub(crate) struct Picture {
    pub(crate) caption: String,
    pub(crate) from_ns: i64,
    pub(crate) to_ns: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mark: Option<(i64, i64)>,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) boxes: Vec<EventBox>,
    /// The trace of it, compressed, as base64.
    pub(crate) cutout: String,
}

/// The pictures of moments; `None` where nothing was recorded.
pub(crate) fn pictures(
    run: &Run,
    moments: &[Moment],
    names: &mut Names,
) -> Result<Vec<Option<Picture>>, Error> {
    if moments.is_empty() {
        return Ok(Vec::new());
    }
    // Python frames are many: those too short to be seen are not even read.
    let of_moment = events_near(run, moments, 500, usize::MAX)?;
    let threads = ThreadNames::of(run)?;
    let drawn = moments.iter().zip(of_moment);
    Ok(drawn.map(|(moment, events)| picture(moment, &events, &threads, names)).collect())
}

/// The events near each of some moments, at most `most` of each table; of Python frames those that last at least a part of
/// the moment: one over `python_least`, or all if that is 0.
pub(crate) fn events_near(
    run: &Run,
    moments: &[Moment],
    python_least: i64,
    most: usize,
) -> Result<Vec<Vec<Event>>, Error> {
    let mut of_moment: Vec<Vec<Event>> = vec![Vec::new(); moments.len()];
    let limit = if most == usize::MAX { String::new() } else { format!(" LIMIT {most}") };
    for (table, kind, columns) in TABLES {
        let least = if *kind == Kind::Python { python_least } else { 0 };
        let sql = format!(
            "SELECT rank, name, ts_ns, dur_ns, event_id, {columns} FROM {table} WHERE {} ORDER BY rank, ts_ns, event_id{limit}",
            condition(moments, least)
        );
        let table = query(run, &sql)?;
        for row in table.named_rows() {
            let Some(event) = event(row, *kind) else { continue };
            for (moment, events) in moments.iter().zip(&mut of_moment) {
                let is_in = event.rank == moment.rank
                    && event.ts_ns < moment.to_ns
                    && event.end_ns() > moment.from_ns;
                if is_in {
                    events.push(event.clone());
                }
            }
        }
    }
    Ok(of_moment)
}

/// Tables of events, with the columns that say where they belong.
const TABLES: &[(&str, Kind, &str)] = &[
    ("cpu_ops", Kind::Operator, "thread"),
    ("annotations", Kind::Annotation, "thread, on_device"),
    ("python_frames", Kind::Python, "thread"),
    ("runtime_calls", Kind::Call, "thread, device_events"),
    ("kernels", Kind::Computation, "kind, stream AS thread, device, launch"),
    ("memcpys", Kind::Copy, "stream AS thread, device, launch"),
    ("memsets", Kind::Copy, "stream AS thread, device, launch"),
];

/// The condition for events near any of the moments, that last at least a part of it: one over `least`.
fn condition(moments: &[Moment], least: i64) -> String {
    let mut ranges: Vec<(i64, i64, i64)> =
        moments.iter().map(|moment| (moment.rank, moment.from_ns, moment.to_ns)).collect();
    ranges.sort_unstable();
    ranges.dedup();
    let mut text = String::new();
    for (i, (rank, from, to)) in ranges.iter().enumerate() {
        let or = if i == 0 { "" } else { " OR " };
        let _ = write!(text, "{or}(rank = {rank} AND ts_ns < {to} AND ts_ns + dur_ns > {from}");
        if least > 0 {
            let _ = write!(text, " AND dur_ns >= {}", to.saturating_sub(*from) / least);
        }
        text.push(')');
    }
    text
}

fn event(row: Row<'_>, kind: Kind) -> Option<Event> {
    if row.is_true("on_device") {
        return None;
    }
    let kind = match row.text_or_empty("kind") {
        "communication" if kind == Kind::Computation => Kind::Communication,
        "memory" if kind == Kind::Computation => Kind::Copy,
        _ => kind,
    };
    Some(Event {
        rank: row.integer("rank")?,
        kind,
        name: row.text_or_empty("name").to_owned(),
        ts_ns: row.integer("ts_ns")?,
        dur_ns: row.integer("dur_ns")?.max(0),
        thread: row.integer("thread").unwrap_or(-1),
        device: row.integer("device").unwrap_or(-1),
        id: row.integer("event_id")?,
        launch: row.integer("launch"),
        is_launch: row.integer("device_events").is_some_and(|count| count > 0),
    })
}

fn picture(
    moment: &Moment,
    events: &[Event],
    threads: &ThreadNames,
    names: &mut Names,
) -> Option<Picture> {
    if events.is_empty() || moment.to_ns <= moment.from_ns {
        return None;
    }
    let mut canvas = Canvas::new(moment);
    for thread in busiest(events, |e| !e.kind.is_device(), |e| (e.thread, 0), MAX_THREADS) {
        let of = |kinds: &[Kind]| -> Vec<&Event> {
            let on_thread = |e: &&Event| !e.kind.is_device() && (e.thread, 0) == thread;
            events.iter().filter(on_thread).filter(|e| kinds.contains(&e.kind)).collect()
        };
        let name = thread_label(moment.rank, thread.0, events, threads);
        let covers = |e: &&&Event| e.ts_ns <= moment.from_ns && e.end_ns() >= moment.to_ns;
        let mut frames = of(&[Kind::Python]);
        frames.retain(|e| !covers(&e));
        canvas.add("Python", frames, MAX_PYTHON_LEVELS, names);
        canvas.add(&name, of(&[Kind::Operator, Kind::Annotation]), MAX_LEVELS, names);
        canvas.add("launches", of(&[Kind::Call]), 1, names);
    }
    let device = |e: &Event| e.kind.is_device();
    let mut streams = busiest(events, device, |e| (e.device, e.thread), MAX_STREAMS);
    streams.sort_unstable();
    for stream in streams {
        let on_stream = |e: &&Event| e.kind.is_device() && (e.device, e.thread) == stream;
        let label = format!("GPU {} stream {}", stream.0, stream.1);
        canvas.add(&label, events.iter().filter(on_stream).collect(), 1, names);
    }
    let (lanes, mut boxes) = canvas.finish();
    if boxes.len() > MAX_BOXES {
        boxes.sort_by_key(|b| (std::cmp::Reverse(b.1), b.2, b.0));
        boxes.truncate(MAX_BOXES);
    }
    boxes.sort_by_key(|b| (b.2, b.0));
    Some(Picture {
        caption: moment.caption.clone(),
        from_ns: moment.from_ns,
        to_ns: moment.to_ns,
        mark: moment.mark,
        lanes,
        boxes,
        cutout: cutout::trace(moment, events, threads),
    })
}

/// The name of a host thread, with what it does as its events show it.
pub(crate) fn thread_label(
    rank: i64,
    thread: i64,
    events: &[Event],
    threads: &ThreadNames,
) -> String {
    let does = |prefix: &str| {
        let mut own = events.iter().filter(|e| !e.kind.is_device() && e.thread == thread);
        own.any(|e| e.name.starts_with(prefix))
    };
    match threads.name(rank, thread) {
        name if does("ProfilerStep#") || does("enumerate(DataLoader)") => format!("{name}, main"),
        name if does("autograd::engine") => format!("{name}, backward"),
        name => name,
    }
}

/// The lanes with most time in them, most first.
pub(crate) fn busiest(
    events: &[Event],
    is_wanted: impl Fn(&Event) -> bool,
    lane: impl Fn(&Event) -> (i64, i64),
    most: usize,
) -> Vec<(i64, i64)> {
    let mut time: BTreeMap<(i64, i64), i64> = BTreeMap::new();
    for event in events.iter().filter(|e| is_wanted(e)) {
        let sum = time.entry(lane(event)).or_default();
        *sum = sum.saturating_add(event.dur_ns);
    }
    let mut lanes: Vec<_> = time.into_iter().collect();
    lanes.sort_by_key(|(lane, ns)| (std::cmp::Reverse(*ns), *lane));
    lanes.into_iter().take(most).map(|(lane, _)| lane).collect()
}
