//! The columns of one file, or of one slice of it. Slices are joined in order.

use rustc_hash::FxHashMap;
use trace_model::tables::{
    Annotation, Annotations, CapturedOps, Collectives, Counters, CpuOps, DeviceSyncs, Flows,
    GraphEdges, GraphMatches, GraphNodes, Instants, Kernels, Memcpys, MemoryEvents, Memsets,
    ProfilerRanges, PythonFrames, RangeCounters, RuntimeCalls, Spans, TableId, UnpairedEvent,
    UnpairedEvents,
};
use trace_model::{Capabilities, StrId, Strings};

use super::begin_end_event::BeginEndEvent;
use super::outline::Outline;
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
    pub(crate) unpaired_events: UnpairedEvents,
    /// Filled by enrichment, as are the next three.
    pub(crate) graph_nodes: GraphNodes,
    pub(crate) captured_ops: CapturedOps,
    pub(crate) graph_matches: GraphMatches,
    pub(crate) graph_edges: GraphEdges,
    /// Begin and end events, to be paired once all are known.
    pub(crate) begin_end_events: Vec<BeginEndEvent>,
    /// `(pid, tid)` by lane number, in order of first appearance.
    pub(crate) lanes: Vec<(StrId, StrId)>,
    /// `(pid, tid, what, text)` of metadata events.
    pub(crate) labels: Vec<(StrId, StrId, StrId, StrId)>,
    /// Number of events by phase, category and table (`None`: dropped).
    pub(crate) counts: FxHashMap<(u8, StrId, Option<TableId>), i64>,
    pub(crate) issues: Issues,
    /// Entries of the event list, understood or not.
    pub(crate) events: i64,
    pub(crate) has_shapes: bool,
    pub(crate) has_stacks: bool,
    pub(crate) has_modules: bool,
    /// Kinds of data that the importer declares, besides those that rows show.
    pub(crate) declared: Capabilities,
    /// Summary of dropped rows; present only if rows may be dropped.
    pub(crate) outline: Option<Box<Outline>>,
}

/// Ids in the columns of the file of the strings and lanes of a slice.
#[derive(Debug, Default)]
pub(crate) struct Known {
    strings: Vec<StrId>,
    lanes: Vec<i32>,
}

impl Columns {
    /// Appends the rows of the next part.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.drain(&mut other, &mut Known::default());
    }

    /// Appends the rows of the next slice of the file. `other` keeps its strings and lanes, which are added to `known`, and
    /// its capacity.
    pub(crate) fn drain(&mut self, other: &mut Self, known: &mut Known) {
        self.strings.absorb(&other.strings, &mut known.strings);
        let remap = known.strings.as_slice();
        let re = |id: StrId| if id.is_null() { id } else { remap[id.index()] };

        let new = &other.lanes[known.lanes.len()..];
        if !new.is_empty() {
            let mut numbers: FxHashMap<(StrId, StrId), i32> =
                self.lanes.iter().enumerate().map(|(i, &lane)| (lane, i as i32)).collect();
            known.lanes.extend(new.iter().map(|&(pid, tid)| {
                let lane = (re(pid), re(tid));
                *numbers.entry(lane).or_insert_with(|| {
                    self.lanes.push(lane);
                    self.lanes.len() as i32 - 1
                })
            }));
        }
        let lanes = known.lanes.as_slice();
        let first = self.events;
        other.for_each_base(|event_ids, threads| {
            for id in event_ids {
                *id += first;
            }
            for thread in threads {
                *thread = lanes[*thread as usize];
            }
        });
        for event in &mut other.begin_end_events {
            event.event_id += first;
            event.name = re(event.name);
            event.category = re(event.category);
            event.async_id = re(event.async_id);
            event.thread = lanes[event.thread as usize];
        }

        self.cpu_ops.drain(&mut other.cpu_ops, remap);
        self.runtime_calls.drain(&mut other.runtime_calls, remap);
        self.annotations.drain(&mut other.annotations, remap);
        self.python_frames.drain(&mut other.python_frames, remap);
        self.kernels.drain(&mut other.kernels, remap);
        self.memcpys.drain(&mut other.memcpys, remap);
        self.memsets.drain(&mut other.memsets, remap);
        self.device_syncs.drain(&mut other.device_syncs, remap);
        self.profiler_ranges.drain(&mut other.profiler_ranges, remap);
        self.range_counters.drain(&mut other.range_counters, remap);
        self.collectives.drain(&mut other.collectives, remap);
        self.memory_events.drain(&mut other.memory_events, remap);
        self.counters.drain(&mut other.counters, remap);
        self.flows.drain(&mut other.flows, remap);
        self.instants.drain(&mut other.instants, remap);
        self.spans.drain(&mut other.spans, remap);
        self.unpaired_events.drain(&mut other.unpaired_events, remap);
        self.begin_end_events.append(&mut other.begin_end_events);
        let labels = other.labels.drain(..);
        self.labels
            .extend(labels.map(|(pid, tid, what, text)| (re(pid), re(tid), re(what), re(text))));
        #[expect(clippy::iter_over_hash_type, reason = "sums do not depend on order")]
        for ((phase, category, table), count) in other.counts.drain() {
            *self.counts.entry((phase, re(category), table)).or_default() += count;
        }
        self.issues.merge(&std::mem::take(&mut other.issues));
        self.events += std::mem::take(&mut other.events);
        self.has_shapes |= other.has_shapes;
        self.has_stacks |= other.has_stacks;
        self.has_modules |= other.has_modules;
        self.declared = self.declared.union(other.declared);
    }

    /// Id of the process of a lane, as written.
    pub(crate) fn process(&self, lane: i32) -> StrId {
        self.lanes.get(lane as usize).map_or(StrId::NULL, |lane| lane.0)
    }

    /// Calls `f` with event ids and lanes of every table (lanes empty where a table has none).
    fn for_each_base(&mut self, mut f: impl FnMut(&mut [i64], &mut [i32])) {
        macro_rules! each {
            ($($table:ident),+) => { $(f(&mut self.$table.event_id.0, &mut self.$table.thread.0);)+ };
        }
        each!(cpu_ops, runtime_calls, annotations, python_frames, kernels, memcpys, memsets);
        each!(device_syncs, profiler_ranges, memory_events, counters, flows, instants, spans);
        each!(unpaired_events);
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
        each!(instants, spans, unpaired_events);
    }

    /// Splits the columns into `parts`; `part_of` is the part of each lane.
    /// Rows without a lane follow their event. Counts and issues of the file stay with the first part.
    pub(crate) fn split(mut self, part_of: &[usize], parts: usize) -> Vec<Self> {
        let mut of_event = vec![0_usize; usize::try_from(self.events).unwrap_or(0)];
        self.for_each_base(|event_ids, threads| {
            for (&id, &thread) in event_ids.iter().zip(threads.iter()) {
                of_event[id as usize] = part_of[thread as usize];
            }
        });
        let mut begin_end_events: Vec<Vec<BeginEndEvent>> = Vec::new();
        begin_end_events.resize_with(parts, Vec::new);
        for event in std::mem::take(&mut self.begin_end_events) {
            begin_end_events[part_of[event.thread as usize]].push(event);
        }
        let mut split: Vec<Self> = begin_end_events
            .into_iter()
            .map(|begin_end_events| Self {
                strings: self.strings.clone(),
                begin_end_events,
                lanes: self.lanes.clone(),
                has_shapes: self.has_shapes,
                has_stacks: self.has_stacks,
                has_modules: self.has_modules,
                declared: self.declared,
                events: self.events,
                ..Self::default()
            })
            .collect();
        macro_rules! each {
            ($($table:ident),+) => { $(
                let mut rows = vec![Vec::new(); parts];
                for (row, &event) in self.$table.event_id.0.iter().enumerate() {
                    rows[of_event[event as usize]].push(row);
                }
                for (part, rows) in split.iter_mut().zip(rows) {
                    part.$table = self.$table.take(&rows);
                }
            )+ };
        }
        each!(cpu_ops, runtime_calls, annotations, python_frames, kernels, memcpys, memsets);
        each!(device_syncs, profiler_ranges, range_counters, collectives, memory_events);
        each!(counters, flows, instants, spans, unpaired_events);
        if let Some(first) = split.first_mut() {
            first.counts = self.counts;
            first.issues = self.issues;
        }
        split.iter_mut().for_each(Self::drop_empty_lanes);
        split
    }

    /// Removes lanes without events.
    pub(crate) fn drop_empty_lanes(&mut self) {
        let mut used = vec![false; self.lanes.len()];
        let mut mark = |threads: &[i32]| threads.iter().for_each(|&t| used[t as usize] = true);
        self.for_each_base(|_, threads| mark(threads));
        self.begin_end_events.iter().for_each(|event| mark(&[event.thread]));
        let mut next = 0..;
        let numbers: Vec<i32> =
            used.iter().map(|&used| if used { next.next().unwrap_or(0) } else { -1 }).collect();
        let mut kept = used.iter();
        self.lanes.retain(|_| kept.next().copied().unwrap_or(false));
        self.renumber_lanes(&numbers);
    }

    /// Adds an annotation from a begin event to the end of its partner.
    pub(crate) fn pair_as_annotation(&mut self, begin: BeginEndEvent, end_ns: i64) {
        let dur_ns = end_ns - begin.ts_ns;
        self.annotations.push_sparse(Annotation {
            event_id: begin.event_id,
            name: begin.name,
            ts_ns: begin.ts_ns,
            dur_ns,
            self_dur_ns: dur_ns,
            thread: begin.thread,
            args: begin.args,
            ..Annotation::null_row()
        });
    }

    /// Adds a begin or end event without a partner to `unpaired_events`.
    pub(crate) fn keep_unpaired(&mut self, event: BeginEndEvent) {
        let BeginEndEvent {
            begin, async_id, event_id, name, category, ts_ns, thread, args, ..
        } = event;
        let phase = match (async_id == StrId::NULL, begin) {
            (true, true) => "B",
            (true, false) => "E",
            (false, true) => "b",
            (false, false) => "e",
        };
        let phase = self.strings.intern(phase);
        let row = UnpairedEvent { rank: 0, event_id, phase, name, category, ts_ns, thread, args };
        self.unpaired_events.push_sparse(row);
    }

    /// Changes the process id of all lanes; lanes that become equal are joined.
    pub(crate) fn rename_process(&mut self, pid: &str) {
        let pid = self.strings.intern(pid);
        self.labels.iter_mut().for_each(|label| label.0 = pid);
        let mut numbers: FxHashMap<StrId, i32> = FxHashMap::default();
        let mut joined = Vec::new();
        let lanes: Vec<i32> = self
            .lanes
            .iter()
            .map(|&(_, tid)| {
                *numbers.entry(tid).or_insert_with(|| {
                    joined.push((pid, tid));
                    joined.len() as i32 - 1
                })
            })
            .collect();
        self.lanes = joined;
        self.renumber_lanes(&lanes);
    }

    fn renumber_lanes(&mut self, numbers: &[i32]) {
        self.for_each_base(|_, threads| {
            for thread in threads {
                *thread = numbers[*thread as usize];
            }
        });
        for event in &mut self.begin_end_events {
            event.thread = numbers[event.thread as usize];
        }
    }

    /// Records in the counts that begin and end events are stored in `table`, not in `spans`.
    pub(crate) fn store_begin_end_in(&mut self, table: TableId) {
        let counts = std::mem::take(&mut self.counts);
        self.counts = counts
            .into_iter()
            .map(|((phase, category, stored_in), count)| {
                let is_begin_or_end = matches!(phase, b'B' | b'E') && stored_in.is_some();
                ((phase, category, if is_begin_or_end { Some(table) } else { stored_in }), count)
            })
            .collect();
    }

    /// Records in the counts that only begins, ends, instants, counters and names were used.
    pub(crate) fn count_only_own_phases(&mut self) {
        let counts = std::mem::take(&mut self.counts);
        #[expect(clippy::iter_over_hash_type, reason = "sums do not depend on order")]
        for ((phase, category, stored_in), count) in counts {
            let is_used = match phase {
                b'B' | b'E' | b'C' | b'M' => true,
                b'i' => stored_in == Some(TableId::Instants),
                _ => false,
            };
            let key = (phase, category, stored_in.filter(|_| is_used));
            *self.counts.entry(key).or_default() += count;
        }
    }

    /// Number of entries of the event list behind these rows.
    pub(crate) fn row_events(&self) -> u64 {
        let mut samples = 0;
        let mut last = None;
        for &id in &self.counters.event_id.0 {
            samples += usize::from(last != Some(id));
            last = Some(id);
        }
        macro_rules! sum {
            ($($table:ident),+) => { 0 $(+ self.$table.len())+ };
        }
        let rows = sum!(
            cpu_ops,
            runtime_calls,
            annotations,
            python_frames,
            kernels,
            memcpys,
            memsets,
            device_syncs,
            profiler_ranges,
            memory_events,
            flows,
            instants,
            spans,
            unpaired_events
        );
        (rows + samples + self.begin_end_events.len() + self.labels.len()) as u64
    }
}
