//! The columns of one file, or of one slice of it; slices are joined in order.

use rustc_hash::FxHashMap;
use trace_model::tables::{
    Annotations, Collectives, Counters, CpuOps, DeviceSyncs, Flows, HalfEvents, Instants, Kernels,
    Memcpys, MemoryEvents, Memsets, ProfilerRanges, PythonFrames, RangeCounters, RuntimeCalls,
    Spans,
};
use trace_model::{StrId, Strings};

use crate::warnings::Issues;

/// The columns of one file, or of one slice of it.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) strings: Strings,
    pub(crate) cpu_ops: CpuOps,
    pub(crate) runtime_calls: RuntimeCalls,
    pub(crate) annotations: Annotations,
    pub(crate) python_frames: PythonFrames,
    pub(crate) kernels: Kernels,
    pub(crate) memcpys: Memcpys,
    pub(crate) memsets: Memsets,
    pub(crate) device_syncs: DeviceSyncs,
    pub(crate) profiler_ranges: ProfilerRanges,
    pub(crate) range_counters: RangeCounters,
    pub(crate) collectives: Collectives,
    pub(crate) memory_events: MemoryEvents,
    pub(crate) counters: Counters,
    pub(crate) flows: Flows,
    pub(crate) instants: Instants,
    pub(crate) spans: Spans,
    pub(crate) half_events: HalfEvents,
    /// Begin and end events, to be paired once all are known.
    pub(crate) halves: Vec<Half>,
    /// `(pid, tid)` by lane number, in order of first appearance.
    pub(crate) lanes: Vec<(StrId, StrId)>,
    /// `(pid, tid, what, text)` of metadata events.
    pub(crate) labels: Vec<(StrId, StrId, StrId, StrId)>,
    /// How many events of each phase, category and destination (absent: set aside).
    pub(crate) counts: FxHashMap<(u8, StrId, Option<&'static str>), i64>,
    pub(crate) issues: Issues,
    /// Entries of the event list, understood or not.
    pub(crate) events: i64,
    pub(crate) has_shapes: bool,
    pub(crate) has_stacks: bool,
    pub(crate) has_modules: bool,
}

/// A `B` or `E` event.
#[derive(Debug, Clone)]
pub(crate) struct Half {
    pub(crate) begin: bool,
    pub(crate) event_id: i64,
    pub(crate) name: StrId,
    pub(crate) category: StrId,
    pub(crate) ts_ns: i64,
    pub(crate) thread: i32,
    pub(crate) args: String,
}

impl Columns {
    /// Adds the rows of the slice that follows in the file.
    pub(crate) fn append(&mut self, mut other: Self) {
        if self.events == 0 && self.issues.is_empty() {
            *self = other;
            return;
        }
        let remap = self.strings.absorb(&other.strings);
        let re = |id: StrId| if id.is_null() { id } else { remap[id.index()] };

        let mut numbers: FxHashMap<(StrId, StrId), i32> =
            self.lanes.iter().enumerate().map(|(i, &lane)| (lane, i as i32)).collect();
        let lanes: Vec<i32> = other
            .lanes
            .iter()
            .map(|&(pid, tid)| {
                let lane = (re(pid), re(tid));
                *numbers.entry(lane).or_insert_with(|| {
                    self.lanes.push(lane);
                    self.lanes.len() as i32 - 1
                })
            })
            .collect();
        let first = self.events;
        other.for_each_base(|event_ids, threads| {
            for id in event_ids {
                *id += first;
            }
            for thread in threads {
                *thread = lanes[*thread as usize];
            }
        });
        for half in &mut other.halves {
            half.event_id += first;
            half.name = re(half.name);
            half.category = re(half.category);
            half.thread = lanes[half.thread as usize];
        }

        self.cpu_ops.append(other.cpu_ops, &remap);
        self.runtime_calls.append(other.runtime_calls, &remap);
        self.annotations.append(other.annotations, &remap);
        self.python_frames.append(other.python_frames, &remap);
        self.kernels.append(other.kernels, &remap);
        self.memcpys.append(other.memcpys, &remap);
        self.memsets.append(other.memsets, &remap);
        self.device_syncs.append(other.device_syncs, &remap);
        self.profiler_ranges.append(other.profiler_ranges, &remap);
        self.range_counters.append(other.range_counters, &remap);
        self.collectives.append(other.collectives, &remap);
        self.memory_events.append(other.memory_events, &remap);
        self.counters.append(other.counters, &remap);
        self.flows.append(other.flows, &remap);
        self.instants.append(other.instants, &remap);
        self.spans.append(other.spans, &remap);
        self.half_events.append(other.half_events, &remap);
        self.halves.append(&mut other.halves);
        self.labels.extend(
            other
                .labels
                .iter()
                .map(|&(pid, tid, what, text)| (re(pid), re(tid), re(what), re(text))),
        );
        #[expect(clippy::iter_over_hash_type, reason = "sums do not depend on order")]
        for ((phase, category, table), count) in other.counts {
            *self.counts.entry((phase, re(category), table)).or_default() += count;
        }
        self.issues.merge(&other.issues);
        self.events += other.events;
        self.has_shapes |= other.has_shapes;
        self.has_stacks |= other.has_stacks;
        self.has_modules |= other.has_modules;
    }

    /// Calls `f` with event ids and lanes of every table (lanes empty where a table has none).
    fn for_each_base(&mut self, mut f: impl FnMut(&mut [i64], &mut [i32])) {
        macro_rules! each {
            ($($table:ident),+) => { $(f(&mut self.$table.event_id.0, &mut self.$table.thread.0);)+ };
        }
        each!(cpu_ops, runtime_calls, annotations, python_frames, kernels, memcpys, memsets);
        each!(device_syncs, profiler_ranges, memory_events, counters, flows, instants, spans);
        each!(half_events);
        f(&mut self.range_counters.event_id.0, &mut []);
        f(&mut self.collectives.event_id.0, &mut []);
    }

    /// Calls `f` with the start times of every table.
    pub(crate) fn for_each_start(&mut self, mut f: impl FnMut(&mut [i64])) {
        macro_rules! each {
            ($($table:ident),+) => { $(f(&mut self.$table.ts_ns.0);)+ };
        }
        each!(cpu_ops, runtime_calls, annotations, python_frames, kernels, memcpys, memsets);
        each!(device_syncs, profiler_ranges, collectives, memory_events, counters, flows);
        each!(instants, spans, half_events);
    }
}
