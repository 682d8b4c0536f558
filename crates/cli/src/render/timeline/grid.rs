//! A time range, divided into cells.

use std::collections::BTreeMap;

use page::{Activity, Lane};

/// A time range, divided into cells. Positions in it are times from its start, times the number of cells: that way, edges of
/// cells are whole numbers, and each cell is [`Self::length`] long.
pub(super) struct Grid {
    pub(super) from_ns: i64,
    pub(super) to_ns: i64,
    pub(super) cells: usize,
}

impl Grid {
    pub(super) fn length(&self) -> i128 {
        (i128::from(self.to_ns) - i128::from(self.from_ns)).max(1)
    }

    /// The cell that a position falls into.
    pub(super) fn cell(&self, position: i128) -> usize {
        ((position / self.length()) as usize).min(self.cells - 1)
    }

    /// The position of a time, or of the nearest one that is drawn.
    pub(super) fn position(&self, ns: i64) -> i128 {
        let from_start = i128::from(ns) - i128::from(self.from_ns);
        from_start.clamp(0, self.length()) * self.cells as i128
    }

    /// Round times from the start and the cells they fall into, at least so many cells apart.
    pub(super) fn ticks(&self, min_cells: i128) -> Vec<(usize, String)> {
        let tick_ns = nice(self.length() * min_cells / self.cells as i128);
        let (scale, unit) = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")]
            .into_iter()
            .find(|(scale, _)| tick_ns >= *scale)
            .unwrap_or((1, "ns"));
        let mut ticks = Vec::new();
        let mut at_ns = 0;
        while at_ns < self.length() {
            let label = match at_ns / scale {
                0 => "0".to_owned(),
                number => format!("{number} {unit}"),
            };
            ticks.push((self.cell(at_ns * self.cells as i128), label));
            at_ns += tick_ns;
        }
        ticks
    }

    /// The time of each activity of a lane in each cell, as parts of [`Self::length`].
    pub(super) fn times(&self, lane: &Lane) -> Vec<BTreeMap<Activity, i128>> {
        let mut times: Vec<BTreeMap<Activity, i128>> = vec![BTreeMap::new(); self.cells];
        for span in &lane.spans {
            let (mut from, to) = (self.position(span.from_ns), self.position(span.to_ns));
            while from < to {
                let cell = self.cell(from);
                let end = to.min(self.length() * (cell as i128 + 1));
                *times[cell].entry(span.activity).or_default() += end - from;
                from = end;
            }
        }
        times
    }

    /// The share of a cell in which a lane does something.
    pub(super) fn share(&self, times: &BTreeMap<Activity, i128>) -> f64 {
        times.values().sum::<i128>() as f64 / self.length() as f64
    }

    /// What takes most of the time of a cell: of equal times, the first activity.
    pub(super) fn longest(times: &BTreeMap<Activity, i128>) -> Option<(Activity, i128)> {
        times.iter().rev().max_by_key(|(_, time)| **time).map(|(activity, time)| (*activity, *time))
    }
}

/// The smallest of 1, 2, 5, 10, 20, ... that is not smaller.
fn nice(least: i128) -> i128 {
    let mut power = 1;
    loop {
        if let Some(factor) = [1, 2, 5].into_iter().find(|factor| factor * power >= least) {
            return factor * power;
        }
        power *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::nice;

    #[test]
    fn scales_have_round_steps() {
        assert_eq!([0, 1, 3, 6, 20, 21, 41_666_666].map(nice), [1, 1, 5, 10, 20, 50, 50_000_000]);
    }
}
