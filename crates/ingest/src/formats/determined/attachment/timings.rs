//! Timings of an agent: how they lie in each other, and the steps that they make.

use trace_model::column::NULL_I64;
use trace_model::tables::{Step, Steps};
use trace_model::{StrId, Strings};

/// One timing: a part of a batch, or what such parts of a batch took together, from the start of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timing {
    pub(super) name: StrId,
    pub(super) ts_ns: i64,
    pub(super) dur_ns: i64,
    pub(super) batch: i64,
}

impl Timing {
    pub(super) fn end_ns(&self) -> i64 {
        self.ts_ns.saturating_add(self.dur_ns)
    }
}

/// Nesting of a timing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the timing around it.
    pub(super) parent: Option<usize>,
    pub(super) depth: i32,
    pub(super) self_dur_ns: i64,
}

/// Sorts timings by time, outer ones before inner ones.
pub(super) fn sort(timings: &mut [Timing]) {
    timings.sort_by_key(|timing| (timing.ts_ns, std::cmp::Reverse(timing.dur_ns)));
}

/// Nests timings that are in order. A timing that only partly overlaps another is its sibling: the parts that
/// `to_device` adds up lie before and inside of `train_batch`.
pub(super) fn nest(timings: &[Timing]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::with_capacity(timings.len());
    let mut around: Vec<usize> = Vec::new();
    for (i, timing) in timings.iter().enumerate() {
        while let Some(&last) = around.last() {
            let end = timings[last].end_ns();
            if end >= timing.end_ns() && end > timing.ts_ns {
                break;
            }
            around.pop();
        }
        let parent = around.last().copied();
        if let Some(parent) = parent {
            places[parent].self_dur_ns -= timing.dur_ns;
        }
        let depth = around.len() as i32;
        places.push(Place { parent, depth, self_dur_ns: timing.dur_ns });
        around.push(i);
    }
    places
}

/// A step: number, start, end, and which timing is its `train_batch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) number: i64,
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) train_batch: usize,
}

/// The steps that timings in order make: each from the loader's call that fetched the batch to the end of what
/// was timed before the next one. The loader's own label is that of the batch before, so that time tells, and
/// the number is that of `train_batch`. Calls that no batch follows make no step. Without any call of the loader
/// a step begins with its `train_batch`. Also how many were left out because their number was there before.
pub(super) fn steps(timings: &[Timing], strings: &Strings) -> (Vec<Found>, u64) {
    let (loader, train) = (strings.find("dataloader_next"), strings.find("train_batch"));
    let is = |timing: &Timing, name: Option<StrId>| Some(timing.name) == name;
    let has_loader = timings.iter().any(|timing| is(timing, loader));
    let opens = if has_loader { loader } else { train };
    let begins: Vec<usize> = (0..timings.len()).filter(|&i| is(&timings[i], opens)).collect();
    let mut found: Vec<Found> = Vec::new();
    let mut numbers = rustc_hash::FxHashSet::default();
    let mut repeated = 0;
    for (at, &begin) in begins.iter().enumerate() {
        let next = begins.get(at + 1).copied().unwrap_or(timings.len());
        let part = &timings[begin..next];
        let Some(inside) = part.iter().position(|timing| is(timing, train)) else { continue };
        let until = timings.get(next).map_or(i64::MAX, |next| next.ts_ns);
        let end_ns = part.iter().map(Timing::end_ns).max().unwrap_or(until).min(until);
        let train_batch = begin + inside;
        let label = timings[train_batch].batch;
        let number = if label == NULL_I64 { at as i64 } else { label };
        if !numbers.insert(number) {
            repeated += 1;
            continue;
        }
        found.push(Found { number, start_ns: timings[begin].ts_ns, end_ns, train_batch });
    }
    (found, repeated)
}

/// Rows of `steps`.
pub(super) fn rows(
    found: &[Found],
    (rank, thread): (i32, i32),
    first_event: i64,
    shift_ns: i64,
) -> (Steps, Strings) {
    let mut strings = Strings::default();
    let (name, source) = (strings.intern("train_batch"), strings.intern("determined"));
    let mut steps = Steps::default();
    for (i, step) in found.iter().enumerate() {
        steps.push(Step {
            rank,
            step: step.number,
            name,
            source,
            ts_ns: step.start_ns.saturating_add(shift_ns),
            dur_ns: step.end_ns.saturating_sub(step.start_ns),
            ready_ns: NULL_I64,
            thread,
            event_id: first_event + step.train_batch as i64,
            is_last: i + 1 == found.len(),
        });
    }
    (steps, strings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timings(strings: &mut Strings, list: &[(&str, i64, i64, i64)]) -> Vec<Timing> {
        let timing = |&(name, ts_ns, dur_ns, batch)| Timing {
            name: strings.intern(name),
            ts_ns,
            dur_ns,
            batch,
        };
        let mut timings: Vec<Timing> = list.iter().map(timing).collect();
        sort(&mut timings);
        timings
    }

    #[test]
    fn nest_makes_overlapping_timings_siblings() {
        let mut strings = Strings::default();
        let list = [
            ("to_device", 0, 10, 1),
            ("train_batch", 5, 100, 1),
            ("train_batch.backward", 20, 30, 1),
            ("train_batch.sync_optimizers", 50, 5, 1),
            ("from_device", 105, 5, 1),
            ("nothing", 110, 0, 1),
        ];
        let timings = timings(&mut strings, &list);
        let places: Vec<(Option<usize>, i32, i64)> =
            nest(&timings).iter().map(|p| (p.parent, p.depth, p.self_dur_ns)).collect();
        assert_eq!(
            places,
            [
                (None, 0, 10),
                (None, 0, 65),
                (Some(1), 1, 30),
                (Some(1), 1, 5),
                (None, 0, 5),
                (None, 0, 0)
            ]
        );
    }

    #[test]
    fn steps_join_timings_by_time() {
        let mut strings = Strings::default();
        let list = [
            ("train_batch", 0, 10, 2), // its loader's call was not recorded
            ("dataloader_next", 20, 50, 2),
            ("train_batch", 71, 10, 3),
            ("from_device", 81, 5, 3),
            ("dataloader_next", 90, 50, 3), // the end of an epoch: no batch
            ("dataloader_next", 150, 50, 3),
            ("callbacks.Watch.on_training_epoch_start", 201, 5, 3),
            ("train_batch", 210, 10, 4),
            ("dataloader_next", 215, 50, 4), // begins before the batch ends: as clocks go
        ];
        let timings = timings(&mut strings, &list);
        let (found, repeated) = steps(&timings, &strings);
        let found: Vec<(i64, i64, i64)> =
            found.iter().map(|s| (s.number, s.start_ns, s.end_ns)).collect();
        assert_eq!(found, [(3, 20, 86), (4, 150, 215)]);
        assert_eq!(repeated, 0);
    }

    #[test]
    fn steps_are_batches_without_a_loader() {
        let mut strings = Strings::default();
        let list = [
            ("train_batch", 0, 10, 1),
            ("from_device", 10, 2, 1),
            ("train_batch", 20, 10, 1),
            ("train_batch", 40, 10, NULL_I64),
        ];
        let timings = timings(&mut strings, &list);
        let (found, repeated) = steps(&timings, &strings);
        let found: Vec<(i64, i64, i64)> =
            found.iter().map(|s| (s.number, s.start_ns, s.end_ns)).collect();
        assert_eq!(found, [(1, 0, 12), (2, 40, 50)]);
        assert_eq!(repeated, 1);
    }
}
