//! Lanes of events as boxes, thinned out to what a picture can show.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clean::short;
use crate::events::{Event, Kind};
use crate::moments::Moment;

/// Positions in a picture, from its left to its right.
const WIDTH: i64 = 4000;
/// Boxes narrower than this become one box with their neighbors.
const NARROW: i64 = 5;
/// Width of the boxes that stand for many.
const CROWD: i64 = 20;
/// Position, width, row, name, kind and number of events.
pub(crate) type EventBox = (i64, i64, usize, usize, Kind, usize);

/// A group of rows in a picture.
#[derive(Debug, Serialize)]
pub(crate) struct Lane {
    pub(crate) label: String,
    pub(crate) first_row: usize,
    pub(crate) rows: usize,
}

/// Names of boxes, each stored once.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: BTreeMap<String, usize>,
    pub(crate) list: Vec<String>,
}

impl Names {
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.list.len();
        self.list.push(short(name));
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

/// A picture in the making.
pub(crate) struct Canvas<'a> {
    moment: &'a Moment,
    lanes: Vec<Lane>,
    boxes: Vec<EventBox>,
    rows: usize,
}

impl<'a> Canvas<'a> {
    pub(crate) fn new(moment: &'a Moment) -> Self {
        Self { moment, lanes: Vec::new(), boxes: Vec::new(), rows: 0 }
    }

    pub(crate) fn finish(self) -> (Vec<Lane>, Vec<EventBox>) {
        (self.lanes, self.boxes)
    }

    /// Adds a lane with as many rows as its events nest deep.
    pub(crate) fn add(
        &mut self,
        label: &str,
        mut events: Vec<&Event>,
        max_levels: usize,
        names: &mut Names,
    ) {
        if events.is_empty() {
            return;
        }
        events.sort_by_key(|e| (e.ts_ns, std::cmp::Reverse(e.dur_ns), e.id));
        let mut levels: Vec<Vec<&Event>> = Vec::new();
        let mut open: Vec<i64> = Vec::new();
        for event in events {
            while open.last().is_some_and(|end| *end <= event.ts_ns) {
                open.pop();
            }
            let level = if max_levels == 1 { 0 } else { open.len() };
            open.push(event.end_ns());
            if level >= max_levels {
                continue;
            }
            if levels.len() <= level {
                levels.resize_with(level + 1, Vec::new);
            }
            levels[level].push(event);
        }
        let (first_row, count) = (self.rows, levels.len());
        for level in levels {
            self.row(&level, names);
        }
        self.lanes.push(Lane { label: label.to_owned(), first_row, rows: count });
    }

    /// Adds a row of events that follow each other. Those too narrow to be seen are put together.
    fn row(&mut self, events: &[&Event], names: &mut Names) {
        let row = self.rows;
        self.rows += 1;
        let mut crowd: Option<(i64, i64, usize, &Event)> = None;
        let mut boxes = Vec::new();
        for event in events {
            let (x, end) = (self.x(event.ts_ns), self.x(event.end_ns()));
            let width = end - x;
            if width >= NARROW {
                boxes.extend(crowd.take().map(|c| (c.0, c.1, c.2, c.3)));
                boxes.push((x, width, 1, *event));
                continue;
            }
            match &mut crowd {
                Some((from, length, count, longest)) if x - *from < CROWD => {
                    *length = (end - *from).max(*length).max(1);
                    *count += 1;
                    if event.dur_ns > longest.dur_ns {
                        *longest = event;
                    }
                }
                _ => {
                    boxes.extend(crowd.take());
                    crowd = Some((x, width.max(1), 1, event));
                }
            }
        }
        boxes.extend(crowd);
        for (x, width, count, event) in boxes {
            self.boxes.push((x, width, row, names.number(&event.name), event.kind, count));
        }
    }

    fn x(&self, ns: i64) -> i64 {
        let Moment { from_ns, to_ns, .. } = self.moment;
        let at = ns.clamp(*from_ns, *to_ns) - from_ns;
        (i128::from(at) * i128::from(WIDTH) / i128::from(to_ns - from_ns).max(1)) as i64
    }
}
