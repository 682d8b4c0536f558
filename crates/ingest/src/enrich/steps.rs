//! Training steps, and the step of each event.

use rustc_hash::FxHashMap;
use serde::Deserialize;
use trace_model::StrId;
use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::{Step, Steps};
use trace_model::vocabulary::{
    COMPOSER_BATCH, COMPOSER_LOADERS, ENGINE_STEP_PREFIXES, OPTIMIZER_STEP_PREFIX, engine_step,
    profiler_step,
};

use super::operator_sequence::Repetition;
use super::repetition::{self, Recurrence};
use crate::quantity::RawInteger;
use crate::timeline::columns::Columns;
use crate::timeline::trace::FoundSteps;
use crate::warnings::Issue;

/// Fewer optimizer steps than this do not make a series of steps.
const MIN_OPTIMIZER_STEPS: usize = 3;

#[derive(Clone, Copy)]
struct Mark {
    step: i64,
    name: StrId,
    ts_ns: i64,
    dur_ns: i64,
    thread: i32,
    event_id: i64,
}

/// Whether anything of a program was recorded. Traces of other tools hold only ranges of unknown kinds.
fn has_program(columns: &Columns) -> bool {
    let Columns { cpu_ops, runtime_calls, annotations, python_frames, .. } = columns;
    let Columns { kernels, memcpys, memsets, profiler_ranges, .. } = columns;
    let has_host = !(cpu_ops.is_empty() && runtime_calls.is_empty() && annotations.is_empty());
    let has_device = !(kernels.is_empty() && memcpys.is_empty() && memsets.is_empty());
    has_host || has_device || !python_frames.is_empty() || !profiler_ranges.is_empty()
}

/// Finds the steps: by `ProfilerStep#n`, else by Composer's markers, else by those of an inference engine, else
/// from one `Optimizer.step` to the next, else by operators that recur, else the complete recording, `whole` (start and end), as one step if it
/// holds a program.
pub(crate) fn find(columns: &mut Columns, whole: (i64, i64)) -> FoundSteps {
    let (start_ns, end_ns) = whole;
    let mut found = FoundSteps::default();
    let numbers: Vec<Option<i64>> =
        columns.strings.iter().map(|(_, text)| step_number(text)).collect();
    let annotations = &columns.annotations;
    let mut marks = Vec::new();
    let mut last_start = None;
    let mut distinct = std::collections::BTreeSet::new();
    for row in 0..annotations.len() {
        let name = annotations.name.get(row);
        let Some(step) = numbers.get(name.index()).copied().flatten() else { continue };
        let mark = mark(columns, row, step);
        last_start = last_start.max(Some(mark.ts_ns));
        distinct.insert(step);
        if !annotations.on_device.get(row) {
            marks.push(mark);
        }
    }
    found.cut_ns = last_start.filter(|_| distinct.len() >= 2);
    found.steps_end_ns = marks.iter().map(|m| m.ts_ns + m.dur_ns).max();
    let mut source = "profiler_step";
    if marks.is_empty() {
        marks = composer_batches(columns);
        source = "composer";
    }
    if marks.is_empty() {
        marks = engine_steps(columns);
        source = "engine";
    }
    found.marked_steps = marks.len();
    if marks.is_empty() {
        marks = between_optimizer_steps(columns);
        source = "optimizer";
    }
    if marks.is_empty() {
        match repetition::find(columns) {
            Recurrence::Iterations(repetitions) => {
                (marks, source) = (unmarked_steps(&repetitions), "repetition");
            }
            Recurrence::Passes(repetitions) => {
                (marks, source) = (unmarked_steps(&repetitions), "pass");
            }
            Recurrence::Unclear(recurring) => found.recurring = Some(recurring),
            Recurrence::Nothing => {}
        }
    }
    found.real_steps = marks.len();
    if marks.is_empty() && end_ns > start_ns && has_program(columns) {
        let name = StrId::NULL;
        marks.push(Mark {
            step: 0,
            name,
            ts_ns: start_ns,
            dur_ns: end_ns - start_ns,
            thread: NULL_I32,
            event_id: NULL_I64,
        });
        source = "trace";
    }
    let source = columns.strings.intern(source);
    let overlapping = drop_overlapping(&mut marks);
    columns.issues.add_many(Issue::OverlappingStep, overlapping);
    columns.issues.add_many(Issue::RepeatedStep, number_in_order(&mut marks));
    let last = marks.len().saturating_sub(1);
    for (i, mark) in marks.into_iter().enumerate() {
        found.steps.push(Step {
            rank: 0,
            step: mark.step,
            name: mark.name,
            source,
            ts_ns: mark.ts_ns,
            dur_ns: mark.dur_ns,
            ready_ns: NULL_I64,
            thread: mark.thread,
            event_id: mark.event_id,
            is_last: i == last,
        });
    }
    found
}

/// Sorts marks by start, and drops those that overlap others: steps of a rank follow each other. Of several threads, the one
/// with most marks has the steps. Returns how many were dropped.
fn drop_overlapping(marks: &mut Vec<Mark>) -> u64 {
    marks.sort_by_key(|mark| (mark.ts_ns, std::cmp::Reverse(mark.dur_ns), mark.event_id));
    // Times in whole microseconds let a step end a little after the next one starts.
    let overlap = |a: &Mark, b: &Mark| a.ts_ns + a.dur_ns - b.ts_ns > a.dur_ns.min(b.dur_ns) / 10;
    if !marks.windows(2).any(|pair| overlap(&pair[0], &pair[1])) {
        return 0;
    }
    let marked = marks.len();
    let mut counts: FxHashMap<i32, usize> = FxHashMap::default();
    for mark in marks.iter() {
        *counts.entry(mark.thread).or_default() += 1;
    }
    // The first of equally many, so that the result does not depend on the order of a hash map.
    let most = counts.values().copied().max();
    let thread = marks.iter().map(|mark| mark.thread).find(|t| counts.get(t).copied() == most);
    marks.retain(|mark| Some(mark.thread) == thread);
    let mut last: Option<Mark> = None;
    marks.retain(|mark| {
        let is_kept = last.is_none_or(|last| !overlap(&last, mark));
        if is_kept {
            last = Some(*mark);
        }
        is_kept
    });
    (marked - marks.len()) as u64
}

/// Gives steps whose number is not above that of the step before the next number: views tell the steps of a rank apart by
/// number, and a second profiler of a process counts from zero again. Returns how many got another number.
fn number_in_order(marks: &mut [Mark]) -> u64 {
    let mut next = i64::MIN;
    let mut repeated = 0;
    for mark in marks {
        if mark.step < next {
            mark.step = next;
            repeated += 1;
        }
        next = mark.step + 1;
    }
    repeated
}

fn mark(columns: &Columns, row: usize, step: i64) -> Mark {
    let t = &columns.annotations;
    Mark {
        step,
        name: t.name.get(row),
        ts_ns: t.ts_ns.get(row),
        dur_ns: t.dur_ns.get(row),
        thread: t.thread.get(row),
        event_id: t.event_id.get(row),
    }
}

/// The counters of the training loop that a marker of Composer carries.
#[derive(Deserialize)]
struct Progress {
    batch: Option<i64>,
}

/// The batch that the arguments of a marker name.
fn batch_number(args: &str) -> Option<i64> {
    RawInteger::new(serde_json::from_str::<Progress>(args).ok()?.batch?).count()
}

/// The number of the step that a name marks.
fn step_number(name: &str) -> Option<i64> {
    RawInteger::new(profiler_step(name)?).count()
}

/// From the begin of the loader's call that got a batch to the end of `event/batch`. A loader's call without
/// a batch, at the end of an epoch, is in no step.
fn composer_batches(columns: &Columns) -> Vec<Mark> {
    let Some(batch) = columns.strings.find(COMPOSER_BATCH) else { return Vec::new() };
    let loaders = COMPOSER_LOADERS.map(|name| columns.strings.find(name));
    let t = &columns.annotations;
    let mut rows: Vec<usize> = (0..t.len())
        .filter(|&row| {
            let name = t.name.get(row);
            !t.on_device.get(row) && (name == batch || loaders.contains(&Some(name)))
        })
        .collect();
    // In releases 0.7 and 0.8 a batch begins inside the loader's marker.
    rows.sort_by_key(|&row| (t.thread.get(row), t.ts_ns.get(row), t.event_id.get(row)));
    let mut loader: Option<usize> = None;
    let mut marks = Vec::new();
    for row in rows {
        if t.name.get(row) != batch {
            loader = Some(row);
            continue;
        }
        let own = loader.take().filter(|&loader| t.thread.get(loader) == t.thread.get(row));
        let ts_ns = own.map_or(t.ts_ns.get(row), |loader| t.ts_ns.get(loader));
        let end_ns = t.ts_ns.get(row) + t.dur_ns.get(row);
        let step = batch_number(t.args.get(row)).unwrap_or(marks.len() as i64);
        marks.push(Mark { ts_ns, dur_ns: end_ns - ts_ns, ..mark(columns, row, step) });
    }
    marks
}

/// The steps that an inference server marks, by one kind of mark, on the thread that has most of them: engines
/// in one process would overlap, and one server's marks may contain those of another.
fn engine_steps(columns: &Columns) -> Vec<Mark> {
    let kinds: Vec<Option<usize>> =
        columns.strings.iter().map(|(_, text)| engine_step(text)).collect();
    let t = &columns.annotations;
    let rows_of = |kind: usize| -> Vec<usize> {
        let is_kind = |&row: &usize| {
            let mark = kinds.get(t.name.get(row).index()).copied().flatten();
            !t.on_device.get(row) && mark == Some(kind)
        };
        (0..t.len()).filter(is_kind).collect()
    };
    let rows = (0..ENGINE_STEP_PREFIXES.len()).map(rows_of).find(|rows| !rows.is_empty());
    let mut marks = busiest_thread(columns, &rows.unwrap_or_default());
    for (step, mark) in marks.iter_mut().enumerate() {
        mark.step = step as i64;
    }
    marks
}

/// The marks of these annotations on the thread that has most of them, by start.
fn busiest_thread(columns: &Columns, rows: &[usize]) -> Vec<Mark> {
    let mut by_thread: Vec<Vec<Mark>> = Vec::new();
    by_thread.resize_with(columns.lanes.len(), Vec::new);
    for &row in rows {
        by_thread[columns.annotations.thread.get(row) as usize].push(mark(columns, row, 0));
    }
    // The first thread wins a tie, so that the choice does not depend on anything else.
    let mut busiest = by_thread.into_iter().rev().max_by_key(Vec::len).unwrap_or_default();
    busiest.sort_by_key(|m| (m.ts_ns, m.event_id));
    busiest
}

/// Calls of optimizers belong to one step if less than this share of the usual time lies between them: some programs have an
/// optimizer for each parameter.
const SAME_STEP_RATIO: f64 = 0.1;

/// The last optimizer call of each step.
fn last_calls(calls: &[Mark]) -> Vec<Mark> {
    let gap_ns = |pair: &[Mark]| pair[1].ts_ns - (pair[0].ts_ns + pair[0].dur_ns);
    let mut gaps: Vec<i64> = calls.windows(2).map(gap_ns).collect();
    gaps.sort_unstable();
    // With two calls a step, half of the gaps are short; with three, two thirds of them are.
    let Some(&usual_ns) = gaps.get(gaps.len() * 9 / 10) else { return calls.to_vec() };
    let is_last = |at: usize| {
        calls.get(at + 1).is_none_or(|next| {
            gap_ns(&[calls[at], *next]) as f64 >= SAME_STEP_RATIO * usual_ns as f64
        })
    };
    (0..calls.len()).filter(|&at| is_last(at)).map(|at| calls[at]).collect()
}

/// From the end of one `Optimizer.step` to the end of the next, on the thread that has most of them.
fn between_optimizer_steps(columns: &Columns) -> Vec<Mark> {
    let is_step: Vec<bool> =
        columns.strings.iter().map(|(_, text)| text.starts_with(OPTIMIZER_STEP_PREFIX)).collect();
    let t = &columns.annotations;
    let is_end = |&row: &usize| {
        !t.on_device.get(row) && is_step.get(t.name.get(row).index()).copied().unwrap_or(false)
    };
    let rows: Vec<usize> = (0..t.len()).filter(is_end).collect();
    let busiest = last_calls(&busiest_thread(columns, &rows));
    if busiest.len() < MIN_OPTIMIZER_STEPS {
        return Vec::new();
    }
    busiest
        .windows(2)
        .enumerate()
        .map(|(i, pair)| {
            let start = pair[0].ts_ns + pair[0].dur_ns;
            let end = pair[1].ts_ns + pair[1].dur_ns;
            Mark { step: i as i64, ts_ns: start, dur_ns: end - start, ..pair[1] }
        })
        .collect()
}

/// Steps that nothing marks.
fn unmarked_steps(repetitions: &[Repetition]) -> Vec<Mark> {
    let mark = |found: &Repetition| Mark {
        step: found.number,
        name: StrId::NULL,
        ts_ns: found.ts_ns,
        dur_ns: found.end_ns - found.ts_ns,
        thread: found.thread,
        event_id: NULL_I64,
    };
    repetitions.iter().map(mark).collect()
}

/// Device work of a trace, as far as steps depend on it.
struct Work {
    /// Device and stream.
    queue: (i32, i32),
    ts_ns: i64,
    end_ns: i64,
    /// Start and end of the launching call, if the trace holds it.
    launch: Option<(i64, i64)>,
}

/// Fills `ready_ns`: the latest end of the steps before, and of the device work that they launched or that was
/// launched before the first step.
///
/// A step owns what it launches from beginning to end. What no step owns is earlier than the first step if, on a
/// stream on which the first step runs something, it starts before that; elsewhere, if it was launched or started
/// before the step, or ended before anything of the step started. Streams run in order, so the first needs no launch
/// in the trace: the recording often starts with the work of a step that it does not hold.
pub(crate) fn find_ready(columns: &Columns, steps: &mut Steps) {
    let starts = &steps.ts_ns.0;
    let ends: Vec<i64> = starts.iter().zip(&steps.dur_ns.0).map(|(ts, dur)| ts + dur).collect();
    let Some(&first_start_ns) = starts.first() else { return };
    let owner = |work: &Work| {
        let (ts_ns, end_ns) = work.launch?;
        let step = starts.partition_point(|&start| start <= ts_ns).checked_sub(1)?;
        (ts_ns < ends[step] && end_ns <= ends[step]).then_some(step)
    };

    let mut done_ns = ends.clone();
    let mut first_of_queue: FxHashMap<(i32, i32), i64> = FxHashMap::default();
    let mut first_work_ns = i64::MAX;
    for_each_work(columns, |work| {
        let Some(step) = owner(work) else { return };
        done_ns[step] = done_ns[step].max(work.end_ns);
        if step == 0 {
            let first = first_of_queue.entry(work.queue).or_insert(i64::MAX);
            *first = work.ts_ns.min(*first);
            first_work_ns = first_work_ns.min(work.ts_ns);
        }
    });
    // What outlasts the first step holds up none of its work.
    let is_earlier = |work: &Work| {
        if let Some(&first_ns) = first_of_queue.get(&work.queue) {
            return work.ts_ns < first_ns;
        }
        let start_ns = work.launch.map_or(work.ts_ns, |(ts_ns, _)| ts_ns.min(work.ts_ns));
        work.end_ns < first_work_ns || start_ns < first_start_ns && work.end_ns < done_ns[0]
    };
    let mut ready_ns = NULL_I64;
    if !first_of_queue.is_empty() {
        for_each_work(columns, |work| {
            if owner(work).is_none() && is_earlier(work) {
                ready_ns = ready_ns.max(work.end_ns);
            }
        });
    }
    for (step, done_ns) in done_ns.into_iter().enumerate() {
        steps.ready_ns.set(step, ready_ns);
        ready_ns = ready_ns.max(done_ns);
    }
}

fn for_each_work(columns: &Columns, mut visit: impl FnMut(&Work)) {
    macro_rules! each {
        ($($table:ident),+) => { $(
            let t = &columns.$table;
            for row in 0..t.len() {
                let (ts_ns, launch_ts_ns) = (t.ts_ns.get(row), t.launch_ts_ns.get(row));
                visit(&Work {
                    queue: (t.device.get(row), t.stream.get(row)),
                    ts_ns,
                    end_ns: ts_ns + t.dur_ns.get(row),
                    launch: (launch_ts_ns != NULL_I64)
                        .then(|| (launch_ts_ns, launch_ts_ns + t.launch_dur_ns.get(row))),
                });
            }
        )+ };
    }
    each!(kernels, memcpys, memsets);
}

/// Looks up the step at a moment.
pub(crate) struct Lookup {
    /// `(start, end, step)` by start.
    spans: Vec<(i64, i64, i64)>,
}

impl Lookup {
    pub(crate) fn new(steps: &Steps) -> Self {
        let spans = (0..steps.len())
            .map(|i| {
                (steps.ts_ns.get(i), steps.ts_ns.get(i) + steps.dur_ns.get(i), steps.step.get(i))
            })
            .collect();
        Self { spans }
    }

    /// The step that is running at `ts_ns`; the later one where two overlap.
    pub(crate) fn at(&self, ts_ns: i64) -> i64 {
        self.span(ts_ns).step
    }

    /// As [`Lookup::at`]; `around` caches the last span, which often contains the next time too.
    fn step(&self, ts_ns: i64, around: &mut Span) -> i64 {
        if !(around.start_ns..around.end_ns).contains(&ts_ns) {
            *around = self.span(ts_ns);
        }
        around.step
    }

    /// A stretch of time around `ts_ns` that is all in one step, or in none.
    fn span(&self, ts_ns: i64) -> Span {
        let after = self.spans.partition_point(|&(start, _, _)| start <= ts_ns);
        let next_ns = self.spans.get(after).map_or(i64::MAX, |&(start, ..)| start);
        match after.checked_sub(1).map(|i| self.spans[i]) {
            Some((start_ns, end_ns, step)) if ts_ns < end_ns => {
                Span { start_ns, end_ns: end_ns.min(next_ns), step }
            }
            Some((_, end_ns, _)) => Span { start_ns: end_ns, end_ns: next_ns, step: NULL_I64 },
            None => Span { start_ns: i64::MIN, end_ns: next_ns, step: NULL_I64 },
        }
    }
}

/// From `start_ns` up to `end_ns`, exclusive, `step` runs.
struct Span {
    start_ns: i64,
    end_ns: i64,
    step: i64,
}

impl Span {
    const NONE: Self = Self { start_ns: 0, end_ns: 0, step: NULL_I64 };
}

/// Fills `step` of everything that belongs to a step by time.
pub(crate) fn assign(columns: &mut Columns, steps: &Lookup) {
    macro_rules! each {
        ($($table:ident),+) => { $(
            let t = &mut columns.$table;
            let mut around = Span::NONE;
            t.step.0 = t.ts_ns.0.iter().map(|&ts_ns| steps.step(ts_ns, &mut around)).collect();
        )+ };
    }
    each!(cpu_ops, runtime_calls, annotations, python_frames, kernels, memcpys, memsets);
    each!(device_syncs, collectives, memory_events, spans);
}
