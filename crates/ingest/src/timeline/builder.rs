//! Builds the timeline of a rank event by event: for formats that are not JSON.
//!
//! An importer makes lanes, interns names, and passes rows of the tables with the columns that its format has; all other
//! columns come from `null_row()`. The builder numbers events, checks times, counts events by kind, and derives what
//! follows from names and sizes. Links between events come from enrichment, as for every format.

use rustc_hash::FxHashMap;
use trace_model::column::NULL_I64;
use trace_model::tables::{
    Annotation, Collective, Counter, CpuOp, DeviceSync, Flow, Instant, Kernel, Memcpy, MemoryEvent,
    Memset, PythonFrame, RuntimeCall, Span, TableId,
};
use trace_model::vocabulary::PROFILER_STEP_PREFIX;
use trace_model::{Capability, StrId};

use super::columns::Columns;
use super::kernel_name::{KernelName, memcpy_kind};
use super::metadata::Metadata;
use super::trace::Trace;
use crate::error::Unreadable;
use crate::formats::importer::Descriptor;
use crate::quantity::{MAX_DURATION_NS, is_time};
use crate::warnings::Issue;

/// A timeline under construction.
pub(crate) struct TimelineBuilder {
    format: &'static str,
    file: String,
    columns: Columns,
    /// Properties of the process and the machine, as far as the format states them.
    pub(crate) metadata: Metadata,
    lanes: FxHashMap<(StrId, StrId), i32>,
    kernels: FxHashMap<StrId, KernelName>,
}

/// Adds a method for events with a duration.
macro_rules! timed_event {
    ($(#[doc = $doc:literal])+ $method:ident($table:ident: $row:ident => $id:ident) $($derive:expr)?) => {
        $(#[doc = $doc])+
        ///
        /// `event_id` is overwritten. An event with an impossible time is counted as a problem and left out.
        pub(crate) fn $method(&mut self, mut row: $row) {
            let Some(event_id) = self.timed(row.ts_ns, row.dur_ns, TableId::$id) else { return };
            row.event_id = event_id;
            $(let derive: fn(&mut Self, &mut $row) = $derive;
            derive(self, &mut row);)?
            self.columns.$table.push_sparse(row);
        }
    };
}

/// Adds a method for events without a duration.
macro_rules! event_at_a_moment {
    ($(#[doc = $doc:literal])+ $method:ident($table:ident: $row:ident => $id:ident, $phase:literal)) => {
        $(#[doc = $doc])+
        ///
        /// `event_id` is overwritten. An event with an impossible time is counted as a problem and left out.
        pub(crate) fn $method(&mut self, mut row: $row) {
            let Some(event_id) = self.event($phase, row.ts_ns, TableId::$id) else { return };
            row.event_id = event_id;
            self.columns.$table.push_sparse(row);
        }
    };
}

impl TimelineBuilder {
    /// An empty timeline of a file.
    pub(crate) fn new(format: &'static Descriptor, file: &str) -> Self {
        Self {
            format: format.name,
            file: file.to_owned(),
            columns: Columns::default(),
            metadata: Metadata::default(),
            lanes: FxHashMap::default(),
            kernels: FxHashMap::default(),
        }
    }

    /// The id of a text in this timeline.
    pub(crate) fn intern(&mut self, text: &str) -> StrId {
        self.columns.strings.intern(text)
    }

    /// The number of the lane of a host thread, or of a stream of a device: the column `thread` of all rows.
    pub(crate) fn lane(&mut self, process: &str, thread: &str) -> i32 {
        let lane = (self.intern(process), self.intern(thread));
        let lanes = &mut self.columns.lanes;
        *self.lanes.entry(lane).or_insert_with(|| {
            lanes.push(lane);
            lanes.len() as i32 - 1
        })
    }

    /// Names a lane.
    pub(crate) fn name_lane(&mut self, lane: i32, name: &str) {
        let (process, thread) = self.columns.lanes[lane as usize];
        let (what, name) = (self.intern("thread_name"), self.intern(name));
        self.columns.labels.push((process, thread, what, name));
    }

    /// Declares that the format recorded a kind of data, although no row may show it.
    pub(crate) fn declare(&mut self, capability: Capability) {
        self.columns.declared.insert(capability);
    }

    /// Counts a part of the file that could not be read.
    pub(crate) fn add_issue(&mut self, issue: Issue) {
        self.columns.issues.add(issue);
    }

    timed_event! {
        /// Adds an operator on a host thread.
        op(cpu_ops: CpuOp => CpuOps) |builder, row| {
            row.self_dur_ns = row.dur_ns;
            builder.columns.has_shapes |= !row.input_dims.is_null();
            builder.columns.has_stacks |= !row.call_stack.is_null();
        }
    }
    timed_event! {
        /// Adds a call of the runtime or the driver of a device.
        runtime_call(runtime_calls: RuntimeCall => RuntimeCalls) |_, row| row.self_dur_ns = row.dur_ns
    }
    timed_event! {
        /// Adds a named range.
        annotation(annotations: Annotation => Annotations) |_, row| row.self_dur_ns = row.dur_ns
    }
    timed_event! {
        /// Adds a call of a Python function.
        python_frame(python_frames: PythonFrame => PythonFrames) |builder, row| {
            row.self_dur_ns = row.dur_ns;
            builder.columns.has_stacks = true;
            builder.columns.has_modules |= row.module_id != NULL_I64;
        }
    }
    timed_event! {
        /// Adds a kernel. Kind and use of tensor cores follow from its name unless the row has them.
        kernel(kernels: Kernel => Kernels) |builder, row| {
            let strings = &mut builder.columns.strings;
            let known = builder.kernels.entry(row.name);
            let known = *known.or_insert_with(|| KernelName::of(row.name, strings));
            if row.kind.is_null() {
                row.kind = known.kind;
            }
            if row.tensor_cores.is_null() {
                row.tensor_cores = known.tensor_cores;
            }
        }
    }
    timed_event! {
        /// Adds a copy. Its direction follows from its name unless the row has it.
        memcpy(memcpys: Memcpy => Memcpys) |builder, row| {
            if row.kind.is_null() {
                let kind = memcpy_kind(None, builder.columns.strings.get(row.name));
                row.kind = builder.intern(kind);
            }
        }
    }
    timed_event! {
        /// Adds a fill of memory on a device.
        memset(memsets: Memset => Memsets)
    }
    timed_event! {
        /// Adds a synchronization on a stream.
        sync(device_syncs: DeviceSync => DeviceSyncs)
    }
    timed_event! {
        /// Adds an event with a duration that no other table is for.
        span(spans: Span => Spans)
    }
    event_at_a_moment! {
        /// Adds a sample of a counter.
        counter(counters: Counter => Counters, b'C')
    }
    event_at_a_moment! {
        /// Adds an event without a duration.
        instant(instants: Instant => Instants, b'i')
    }
    event_at_a_moment! {
        /// Adds an allocation or a release.
        memory_event(memory_events: MemoryEvent => MemoryEvents, b'i')
    }

    /// Adds one end of an arrow between two events: `phase` is `s` at its start and `f` at its finish.
    pub(crate) fn flow(&mut self, phase: u8, mut row: Flow) {
        let Some(event_id) = self.event(phase, row.ts_ns, TableId::Flows) else { return };
        row.event_id = event_id;
        row.phase = self.intern(if phase == b's' { "s" } else { "f" });
        self.columns.flows.push_sparse(row);
    }

    /// Describes the event that was added last as a collective.
    pub(crate) fn collective(&mut self, mut row: Collective) {
        row.event_id = self.columns.events - 1;
        self.columns.collectives.push_sparse(row);
    }

    /// Adds a training step, as a range on a host thread.
    pub(crate) fn step(&mut self, number: i64, lane: i32, ts_ns: i64, dur_ns: i64) {
        let name = self.intern(&format!("{PROFILER_STEP_PREFIX}{number}"));
        self.annotation(Annotation { name, thread: lane, ts_ns, dur_ns, ..Annotation::null_row() });
    }

    /// The timeline, not enriched yet. `bytes`: length of the file.
    ///
    /// # Errors
    /// If it has no events, or more devices or streams than any machine.
    pub(crate) fn finish(self, bytes: u64) -> Result<Trace, Unreadable> {
        let Self { format, file, columns, metadata, .. } = self;
        if columns.events == 0 {
            return Err(Unreadable::Empty);
        }
        let trace = Trace::new(format, &file, columns, metadata, bytes);
        trace.check_streams()?;
        Ok(trace)
    }

    /// Counts an event with a duration; the number of the event if its times are possible.
    fn timed(&mut self, ts_ns: i64, dur_ns: i64, table: TableId) -> Option<i64> {
        if dur_ns < 0 {
            return self.reject(b'X', Issue::NegativeDuration);
        }
        if dur_ns > MAX_DURATION_NS {
            return self.reject(b'X', Issue::BadTime);
        }
        self.event(b'X', ts_ns, table)
    }

    /// Counts an event; the number of the event if its time is possible.
    fn event(&mut self, phase: u8, ts_ns: i64, table: TableId) -> Option<i64> {
        if !is_time(ts_ns) {
            return self.reject(phase, Issue::BadTime);
        }
        let event_id = self.columns.events;
        self.columns.events += 1;
        *self.columns.counts.entry((phase, StrId::NULL, Some(table))).or_default() += 1;
        Some(event_id)
    }

    fn reject(&mut self, phase: u8, issue: Issue) -> Option<i64> {
        self.columns.events += 1;
        self.columns.issues.add(issue);
        *self.columns.counts.entry((phase, StrId::NULL, None)).or_default() += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use trace_model::TableSet;
    use trace_model::column::NULL_I64;
    use trace_model::tables::{DeviceSync, Memset};

    use super::*;
    use crate::enrich::enrich;
    use crate::formats::formats;
    use crate::timeline::placement::{Placement, tables_at};

    fn builder() -> TimelineBuilder {
        TimelineBuilder::new(formats()[0], "rank0.db")
    }

    fn tables(trace: Trace) -> TableSet {
        let placement = Placement { rank: 3, shift_ns: 0, base_time_ns: None, clock: "single" };
        tables_at(trace, placement)
    }

    #[test]
    fn rows_are_numbered_derived_and_linked() {
        let mut timeline = builder();
        let (host, stream) = (timeline.lane("10", "11"), timeline.lane("0", "7"));
        assert_eq!(timeline.lane("10", "11"), host);
        timeline.name_lane(host, "main");
        timeline.step(4, host, 0, 1000);
        let name = timeline.intern("aten::mm");
        let input_dims = timeline.intern("[[2,2]]");
        timeline.op(CpuOp {
            name,
            input_dims,
            thread: host,
            ts_ns: 10,
            dur_ns: 100,
            ..CpuOp::null_row()
        });
        let name = timeline.intern("cudaLaunchKernel");
        timeline.runtime_call(RuntimeCall {
            name,
            thread: host,
            ts_ns: 20,
            dur_ns: 5,
            correlation: 1,
            ..RuntimeCall::null_row()
        });
        let name = timeline.intern("ampere_h16816gemm");
        timeline.kernel(Kernel {
            name,
            thread: stream,
            ts_ns: 200,
            dur_ns: 50,
            correlation: 1,
            ..Kernel::null_row()
        });
        let name = timeline.intern("Memcpy HtoD (Pageable -> Device)");
        timeline.memcpy(Memcpy { name, thread: stream, ts_ns: 300, ..Memcpy::null_row() });
        timeline.memset(Memset { thread: stream, ts_ns: 310, ..Memset::null_row() });
        timeline.sync(DeviceSync { thread: stream, ts_ns: 320, ..DeviceSync::null_row() });
        timeline.python_frame(PythonFrame { thread: host, dur_ns: 900, ..PythonFrame::null_row() });
        timeline.span(Span { thread: host, ts_ns: 5, ..Span::null_row() });
        timeline.counter(Counter { ts_ns: 6, value: 1.5, ..Counter::null_row() });
        timeline.instant(Instant { ts_ns: 7, thread: host, ..Instant::null_row() });
        timeline.memory_event(MemoryEvent { ts_ns: 8, thread: host, ..MemoryEvent::null_row() });
        timeline.flow(b's', Flow { ts_ns: 20, thread: host, id: 1, ..Flow::null_row() });
        timeline.flow(b'f', Flow { ts_ns: 200, thread: stream, id: 1, ..Flow::null_row() });
        timeline.collective(Collective { ts_ns: 200, ..Collective::null_row() });
        timeline.declare(Capability::GraphNodes);

        let trace = enrich(timeline.finish(100).unwrap());
        let columns = &trace.columns;
        assert_eq!(columns.events, 14);
        assert_eq!(columns.cpu_ops.event_id.0, [1]);
        let kernels = &columns.kernels;
        assert_eq!(columns.strings.get(kernels.tensor_cores.get(0)), "yes");
        assert_eq!(columns.strings.get(columns.memcpys.kind.get(0)), "HtoD");
        assert_eq!((kernels.launch.get(0), kernels.op.get(0), kernels.step.get(0)), (2, 1, 4));
        assert_eq!(columns.memcpys.launch.get(0), NULL_I64);
        assert_eq!(columns.collectives.event_id.0, [13]);
        let held: Vec<&str> = trace.capabilities().iter().map(Capability::as_str).collect();
        for name in ["operator_shapes", "python_stacks", "launch_links", "steps", "graph_nodes"] {
            assert!(held.contains(&name), "{name}: {held:?}");
        }
        assert!(!held.contains(&"device_properties"), "{held:?}");
        let tables = tables(trace);
        for name in ["spans", "counters", "instants", "memory_events", "memsets", "device_syncs"] {
            assert_eq!(tables.rows(name), 1, "{name}");
        }
        assert_eq!((tables.rows("flows"), tables.rows("threads")), (2, 2));
    }

    #[test]
    fn impossible_times_are_counted_and_left_out() {
        let mut timeline = builder();
        let kernel = |ts_ns, dur_ns| Kernel { ts_ns, dur_ns, ..Kernel::null_row() };
        let thread = timeline.lane("0", "7");
        for (ts_ns, dur_ns) in [(5, -1), (5, i64::MAX), (i64::MAX, 5), (i64::MIN, 5), (5, 5)] {
            timeline.kernel(Kernel { thread, ..kernel(ts_ns, dur_ns) });
        }
        let trace = timeline.finish(0).unwrap();
        assert_eq!((trace.columns.kernels.len(), trace.columns.events), (1, 5));
        let counts: Vec<(String, u64)> =
            trace.warnings().into_iter().map(|w| (w.code.into_owned(), w.count)).collect();
        assert_eq!(counts, [("negative-duration".to_owned(), 1), ("bad-time".to_owned(), 3)]);
        assert!(matches!(builder().finish(0), Err(Unreadable::Empty)));
    }
}
