//! What holds memory as pictures: call stacks at the peak, and the segments of the caching allocator.

use std::collections::BTreeMap;

use trace_advisor::Error;
use trace_advisor::compare::owner_phrase;
use trace_advisor::trace_model::number::{human_bytes, plural};
use trace_advisor::trace_model::{MetricTable, Row};

use super::Source;
use crate::blocks::{Boxes, PlacedBox};
use crate::clean::short;
use crate::words;

/// Positions in a row, from its left to its right.
const WIDTH: f64 = 4000.0;
/// Rows that the call stacks may nest deep.
const MAX_DEPTH: i64 = 24;
/// Rows that the map of segments wraps into.
const MAP_ROWS: i64 = 12;
/// Boxes of a picture.
const MAX_BOXES: usize = 3000;
/// Stands for the stack of allocations without one.
const NO_STACK: &str = "stack not recorded";
/// Narrowest box that is drawn, in positions.
const NARROW: f64 = 2.0;

/// The memory that a row is about: `snapshot 0, cuda:0`, `cpu` of the allocator events of a trace.
pub(super) fn place(row: Row<'_>) -> String {
    let memory = short(row.text_or_empty("memory"));
    row.integer("snapshot").map_or_else(|| memory.clone(), |n| format!("snapshot {n}, {memory}"))
}

/// The call stacks that hold memory at the peak, callers above what they call; of the memory that holds most.
pub(super) fn stacks(source: &Source<'_>) -> Result<Option<Boxes>, Error> {
    let sql = format!(
        "SELECT snapshot, memory, number, depth, bytes, frame FROM memory_flame_graph \
         WHERE rank = {} AND bytes > 0 AND depth < {MAX_DEPTH} ORDER BY snapshot, memory, number",
        source.rank
    );
    let table = source.query(&sql)?;
    let mut totals: BTreeMap<String, f64> = BTreeMap::new();
    for row in table.named_rows().filter(|row| row.integer("depth") == Some(0)) {
        *totals.entry(place(row)).or_default() += row.number("bytes").unwrap_or(0.0);
    }
    let largest = totals.iter().max_by(|a, b| a.1.total_cmp(b.1).then_with(|| b.0.cmp(a.0)));
    let Some((memory, total)) = largest else { return Ok(None) };
    let mut boxes = Vec::new();
    // Where the next frame of each depth begins.
    let mut next: Vec<f64> = vec![0.0];
    let mut depth_count = 0;
    for row in stack_rows(&table, memory) {
        let (Some(depth), Some(bytes)) = (row.integer("depth"), row.number("bytes")) else {
            continue;
        };
        let depth = depth.clamp(0, MAX_DEPTH) as usize;
        next.resize(depth + 1, 0.0);
        let from = next[depth];
        next[depth] = from + bytes;
        next.push(from);
        let width = bytes / total * WIDTH;
        let frame = row.text_or_empty("frame").trim();
        if width < NARROW || boxes.len() >= MAX_BOXES || words::is_unwinder(frame) {
            continue;
        }
        depth_count = depth_count.max(depth + 1);
        // A group has a color of its own.
        let (group, text) = if frame == NO_STACK {
            (NO_STACK.to_owned(), String::new())
        } else {
            (String::new(), short(&words::frame(frame)))
        };
        boxes.push(PlacedBox(
            (from / total * WIDTH).round() as i64,
            width.round() as i64,
            depth,
            group,
            text,
            bytes,
        ));
    }
    Ok(Some(Boxes {
        title: format!("Call stacks at the peak: {memory}"),
        note: format!(
            "Each box is a frame with all that it calls, as wide as what it holds of {}.",
            human_bytes(*total)
        ),
        labels: vec![String::new(); depth_count],
        placed: boxes,
    }))
}

/// The frames of a memory, callers first; what has no stack comes last.
fn stack_rows<'a>(table: &'a MetricTable, memory: &str) -> Vec<Row<'a>> {
    let own = table.named_rows().filter(|row| place(*row) == memory);
    let mut is_without = false;
    let (without, mut with): (Vec<_>, Vec<_>) = own.partition(|row| {
        if row.integer("depth") == Some(0) {
            is_without = row.text_or_empty("frame").trim() == NO_STACK;
        }
        is_without
    });
    with.extend(without);
    with
}

/// The segments of the caching allocator one after the other, wrapped into rows, at the moment that matters most: an
/// allocation that failed, else the peak, else the end.
pub(super) fn map(source: &Source<'_>) -> Result<Option<Boxes>, Error> {
    let sql = format!(
        "SELECT snapshot, memory, moment, segment_address, owner, place, bytes FROM memory_segment_map WHERE rank = {} \
         ORDER BY snapshot, memory, moment, size_class, stream, segment_address, offset_bytes",
        source.rank
    );
    let table = source.query(&sql)?;
    let mut totals: BTreeMap<(i64, String, &str), i64> = BTreeMap::new();
    for row in table.named_rows() {
        let moment = row.text_or_empty("moment");
        let order = ["end", "peak", "oom"].iter().position(|m| *m == moment).unwrap_or(0) as i64;
        let total = totals.entry((-order, place(row), moment)).or_default();
        *total = total.saturating_add(row.integer("bytes").unwrap_or(0));
    }
    let first = totals.keys().next().map(|key| key.0);
    let of_moment = totals.iter().filter(|(key, _)| Some(key.0) == first);
    let Some(((_, memory, moment), total)) = of_moment.max_by_key(|(_, total)| **total) else {
        return Ok(None);
    };
    let line = (*total / MAP_ROWS).max(1);
    let mut boxes: Vec<PlacedBox> = Vec::new();
    let (mut at, mut segment, mut segments) = (0_i64, None, 0_usize);
    for row in table
        .named_rows()
        .filter(|row| row.text_or_empty("moment") == *moment && place(*row) == *memory)
    {
        let address = row.integer("segment_address");
        if segment != Some(address) {
            segment = Some(address);
            segments += 1;
        }
        let bytes = row.integer("bytes").unwrap_or(0).max(0);
        let owner = owner_phrase(row.text_or_empty("owner"));
        let text = match row.text_or_empty("place") {
            "" => format!("segment {segments}"),
            place => format!("{}, segment {segments}", short(place)),
        };
        let (mut from, end) = (at, at.saturating_add(bytes));
        at = end;
        while from < end {
            let number = from / line;
            let stop = end.min(number.saturating_add(1).saturating_mul(line));
            let x = (from - number * line) as f64 / line as f64 * WIDTH;
            let width = (stop - from) as f64 / line as f64 * WIDTH;
            from = stop;
            if width >= NARROW && boxes.len() < MAX_BOXES {
                let (x, width) = (x.round() as i64, width.round() as i64);
                boxes.push(PlacedBox(
                    x,
                    width,
                    number as usize,
                    owner.clone(),
                    text.clone(),
                    bytes as f64,
                ));
            }
        }
    }
    let count = boxes.iter().map(|b| b.2 + 1).max().unwrap_or(0);
    let labels = (0..count).map(|row| human_bytes(row as f64 * line as f64));
    let when = match *moment {
        "oom" => "when an allocation failed",
        "peak" => "at the peak",
        _ => "at the end",
    };
    Ok((count > 0).then(|| Boxes {
        title: format!("Segments of the caching allocator {when}: {memory}"),
        note: format!(
            "{} one after the other, {} in all; free memory between allocations is fragmentation.",
            plural(segments, "segment"),
            human_bytes(*total as f64)
        ),
        labels: labels.collect(),
        placed: boxes,
    }))
}
