//! Drops rows of a trace of which only the outline is needed.

use rustc_hash::FxHashSet;
use trace_model::StrId;
use trace_model::vocabulary::{
    COMPOSER_BATCH, COMPOSER_LOADERS, OPTIMIZER_STEP_PREFIX, engine_step, profiler_step,
};

use super::begin_end_event::BeginEndEvent;
use super::columns::Columns;
use super::outline::Link;

/// Rows from which on a trace is thinned.
const MAX_ROWS: u64 = 1 << 18;

impl Columns {
    /// Thins the columns if there is an outline and they have become long.
    pub(crate) fn thin_if_long(&mut self) {
        // Kernels of the range profiler are paired with launches by their numbers.
        if self.outline.is_some() && self.profiler_ranges.is_empty() && self.row_events() > MAX_ROWS
        {
            self.thin();
            if let Some(outline) = &mut self.outline {
                outline.is_thinned = true;
            }
        }
    }

    /// Operators and runtime calls of each lane, dropped ones too.
    pub(crate) fn lane_counts(&self) -> Vec<u64> {
        let outline = self.outline.as_deref();
        let mut counts = outline.map_or_else(Vec::new, |outline| outline.lane_counts.clone());
        counts.resize(self.lanes.len(), 0);
        macro_rules! count {
            ($($table:ident),+) => { $(
                let counted = outline.and_then(|outline| outline.counted.get(stringify!($table)));
                for &thread in self.$table.thread.0.iter().skip(counted.copied().unwrap_or(0)) {
                    counts[thread as usize] += 1;
                }
            )+ };
        }
        count!(cpu_ops, runtime_calls);
        counts
    }

    /// Remembers the begin and end events: pairing consumes them.
    pub(crate) fn outline_begin_end_events(&mut self) {
        let Some(outline) = &mut self.outline else { return };
        let without_args = |event: &BeginEndEvent| BeginEndEvent { args: String::new(), ..*event };
        outline.begin_end_events = self.begin_end_events.iter().map(without_args).collect();
    }

    /// Drops all rows but the first of each name, the first to begin and the last to end, and the marks of steps.
    /// The outline, which must be there, takes what is needed of the others.
    pub(crate) fn thin(&mut self) {
        let lane_counts = self.lane_counts();
        let Some(mut outline) = self.outline.take() else { return };
        outline.lane_counts = lane_counts;
        macro_rules! link {
            ($($table:ident),+) => { $(
                let t = &self.$table;
                let from = outline.counted.get(stringify!($table)).copied().unwrap_or(0);
                for row in from..t.len() {
                    let (id, ts_ns) = (t.correlation.get(row), t.ts_ns.get(row));
                    // 0 is what tracers write for "none".
                    if id > 0 {
                        outline.links.push(Link { id, ts_ns, end_ns: ts_ns + t.dur_ns.get(row) });
                    }
                }
            )+ };
        }
        link!(runtime_calls, kernels, memcpys, memsets, device_syncs);
        let marks: FxHashSet<StrId> =
            self.strings.iter().filter(|(_, text)| is_mark(text)).map(|(id, _)| id).collect();
        macro_rules! thin {
            ($($table:ident),+) => { $(
                let t = &self.$table;
                let rows = representatives(&t.name.0, &t.ts_ns.0, &t.dur_ns.0, &marks);
                self.$table = self.$table.take(&rows);
                outline.counted.insert(stringify!($table), rows.len());
            )+ };
        }
        thin!(cpu_ops, runtime_calls, annotations, python_frames, kernels, memcpys, memsets);
        thin!(device_syncs, spans);
        macro_rules! keep_first {
            ($($table:ident),+) => { $(
                if self.$table.len() > 1 {
                    self.$table = self.$table.take(&[0]);
                }
            )+ };
        }
        keep_first!(collectives, memory_events, counters, flows, instants);
        for event in &mut self.begin_end_events {
            event.args = String::new();
        }
        self.outline = Some(outline);
    }
}

/// Returns true if annotations of this name may mark steps.
fn is_mark(name: &str) -> bool {
    profiler_step(name).is_some()
        || engine_step(name).is_some()
        || name.starts_with(OPTIMIZER_STEP_PREFIX)
        || name == COMPOSER_BATCH
        || COMPOSER_LOADERS.contains(&name)
}

/// The rows to keep, in order.
fn representatives(
    names: &[StrId],
    starts: &[i64],
    durs: &[i64],
    marks: &FxHashSet<StrId>,
) -> Vec<usize> {
    let mut seen: FxHashSet<StrId> = FxHashSet::default();
    let first = (0..starts.len()).min_by_key(|&row| starts[row]);
    let last = (0..starts.len()).max_by_key(|&row| starts[row] + durs[row]);
    let name_of = |row: usize| names.get(row).copied().unwrap_or(StrId::NULL);
    (0..starts.len())
        .filter(|&row| {
            let name = name_of(row);
            seen.insert(name) || marks.contains(&name) || Some(row) == first || Some(row) == last
        })
        .collect()
}
