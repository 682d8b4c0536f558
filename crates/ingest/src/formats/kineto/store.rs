//! Events become rows: each slice of the text fills its own columns, and slices are joined in order.

use rustc_hash::FxHashMap;
use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::{
    Annotation, Annotations, Collective, Collectives, Counter, Counters, CpuOp, CpuOps, DeviceSync,
    DeviceSyncs, Flow, Flows, Instant, Instants, Kernel, Kernels, Memcpy, Memcpys, MemoryEvent,
    MemoryEvents, Memset, Memsets, PythonFrame, PythonFrames, RuntimeCall, RuntimeCalls, Span,
    Spans,
};
use trace_model::{StrId, Strings};

use super::classify::{Kind, classify, is_annotation_name, kernel_kind, memcpy_kind};
use super::event::{Arg, Event};
use crate::json::RawStr;
use crate::number;
use crate::warnings::{Issue, Issues};

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
    pub(crate) collectives: Collectives,
    pub(crate) memory_events: MemoryEvents,
    pub(crate) counters: Counters,
    pub(crate) flows: Flows,
    pub(crate) instants: Instants,
    pub(crate) spans: Spans,
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
        self.collectives.append(other.collectives, &remap);
        self.memory_events.append(other.memory_events, &remap);
        self.counters.append(other.counters, &remap);
        self.flows.append(other.flows, &remap);
        self.instants.append(other.instants, &remap);
        self.spans.append(other.spans, &remap);
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
        each!(device_syncs, memory_events, flows, instants, spans);
        f(&mut self.collectives.event_id.0, &mut []);
        f(&mut self.counters.event_id.0, &mut []);
    }

    /// Calls `f` with the start times of every table.
    pub(crate) fn for_each_start(&mut self, mut f: impl FnMut(&mut [i64])) {
        macro_rules! each {
            ($($table:ident),+) => { $(f(&mut self.$table.ts_ns.0);)+ };
        }
        each!(cpu_ops, runtime_calls, annotations, python_frames, kernels, memcpys, memsets);
        each!(device_syncs, collectives, memory_events, counters, flows, instants, spans);
    }
}

/// Adds a row and, straight into the column, the arguments that no other column takes. The row comes
/// with an empty `args`, which allocates nothing.
macro_rules! push_with_rest {
    ($self:ident, $table:ident, $row:ident, $event:ident, $taken:expr) => {
        $self.columns.$table.push($row);
        $self.rest.clear();
        $event.args.write_rest($taken, &mut $self.rest);
        $self.columns.$table.args.extend_last(&String::from_utf8_lossy(&$self.rest));
    };
}

/// Fills [`Columns`] from the events of one slice.
pub(crate) struct Filler<'a> {
    pub(crate) columns: Columns,
    known: FxHashMap<&'a [u8], StrId>,
    lane_numbers: FxHashMap<(&'a [u8], &'a [u8]), i32>,
    lanes_by_text: FxHashMap<(StrId, StrId), i32>,
    last_lane: Option<(&'a [u8], &'a [u8], i32)>,
    kinds: FxHashMap<StrId, Kind>,
    annotation_names: FxHashMap<StrId, bool>,
    rest: Vec<u8>,
}

/// What all events with a time have in common.
struct Base {
    event_id: i64,
    name: StrId,
    category: StrId,
    ts_ns: i64,
    dur_ns: i64,
    thread: i32,
}

impl<'a> Filler<'a> {
    pub(crate) fn new() -> Self {
        Self {
            columns: Columns::default(),
            known: FxHashMap::default(),
            lane_numbers: FxHashMap::default(),
            lanes_by_text: FxHashMap::default(),
            last_lane: None,
            kinds: FxHashMap::default(),
            annotation_names: FxHashMap::default(),
            rest: Vec::new(),
        }
    }

    /// Adds one event.
    pub(crate) fn add(&mut self, event: &Event<'a>) {
        let event_id = self.columns.events;
        self.columns.events += 1;
        let category = self.intern_opt(event.category);
        let table = match event.phase {
            b'X' => self.complete(event, event_id, category),
            b's' | b't' | b'f' => self.flow(event, event_id, category),
            b'i' | b'I' | b'R' | b'n' => self.instant(event, event_id, category),
            b'C' => self.counter(event, event_id),
            b'B' | b'E' => self.half(event, event_id, category),
            b'M' => {
                self.label(event);
                Some("threads")
            }
            _ => {
                self.columns.issues.add(Issue::UnknownPhase);
                None
            }
        };
        *self.columns.counts.entry((event.phase, category, table)).or_default() += 1;
    }

    /// Counts an entry of the event list that is no event.
    pub(crate) fn add_issue(&mut self, issue: Issue) {
        self.columns.events += 1;
        self.columns.issues.add(issue);
    }

    fn complete(
        &mut self,
        event: &Event<'a>,
        event_id: i64,
        category: StrId,
    ) -> Option<&'static str> {
        let Some(dur) = event.dur else {
            self.columns.issues.add(Issue::MissingDuration);
            return None;
        };
        let (Some(ts_ns), Some(dur_ns)) =
            (event.ts.and_then(number::us_to_ns), number::us_to_ns(dur))
        else {
            self.columns.issues.add(Issue::BadTime);
            return None;
        };
        if dur_ns < 0 {
            self.columns.issues.add(Issue::NegativeDuration);
            return None;
        }
        if ts_ns.checked_add(dur_ns).is_none() || out_of_range(ts_ns) {
            self.columns.issues.add(Issue::BadTime);
            return None;
        }
        let name = self.intern_opt(event.name);
        let base = Base {
            event_id,
            name,
            category,
            ts_ns,
            dur_ns,
            thread: self.lane(event.pid, event.tid),
        };
        let kind = self.kind(category, name);
        if event.args.get(Arg::CollectiveName).is_some() {
            self.collective(event, &base, kind);
        }
        Some(match kind {
            Kind::CpuOp => self.cpu_op(event, &base),
            Kind::RuntimeCall => self.runtime_call(event, &base),
            Kind::Annotation => self.annotation(event, &base, false),
            Kind::DeviceAnnotation => self.annotation(event, &base, true),
            Kind::PythonFrame => self.python_frame(event, &base),
            Kind::Kernel => self.kernel(event, &base),
            Kind::Memcpy => self.memcpy(event, &base),
            Kind::Memset => self.memset(event, &base),
            Kind::DeviceSync => self.device_sync(event, &base),
            Kind::Span => self.span(event, &base),
        })
    }

    fn cpu_op(&mut self, event: &Event<'a>, base: &Base) -> &'static str {
        const TAKEN: u64 = Arg::ExternalId.bit()
            | Arg::Sequence.bit()
            | Arg::FwdThread.bit()
            | Arg::InputDims.bit()
            | Arg::InputTypes.bit()
            | Arg::CallStack.bit();
        let row = CpuOp {
            rank: 0,
            event_id: base.event_id,
            name: base.name,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            self_dur_ns: base.dur_ns,
            thread: base.thread,
            tid: number::integer(event.tid).unwrap_or(NULL_I64),
            parent: NULL_I64,
            depth: 0,
            step: NULL_I64,
            external_id: self.int(event, Arg::ExternalId),
            sequence: self.int(event, Arg::Sequence),
            fwd_thread: self.int(event, Arg::FwdThread),
            input_dims: self.json(event, Arg::InputDims),
            input_types: self.json(event, Arg::InputTypes),
            call_stack: self.stack(event),
            args: String::new(),
        };
        self.columns.has_shapes |= !row.input_dims.is_null();
        push_with_rest!(self, cpu_ops, row, event, TAKEN);
        "cpu_ops"
    }

    fn runtime_call(&mut self, event: &Event<'a>, base: &Base) -> &'static str {
        const TAKEN: u64 = Arg::ExternalId.bit() | Arg::Correlation.bit();
        let row = RuntimeCall {
            rank: 0,
            event_id: base.event_id,
            name: base.name,
            category: base.category,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            self_dur_ns: base.dur_ns,
            thread: base.thread,
            tid: number::integer(event.tid).unwrap_or(NULL_I64),
            parent: NULL_I64,
            depth: 0,
            step: NULL_I64,
            correlation: self.int(event, Arg::Correlation),
            external_id: self.int(event, Arg::ExternalId),
            op: NULL_I64,
            device_events: 0,
            args: String::new(),
        };
        push_with_rest!(self, runtime_calls, row, event, TAKEN);
        "runtime_calls"
    }

    fn annotation(&mut self, event: &Event<'a>, base: &Base, on_device: bool) -> &'static str {
        const TAKEN: u64 = Arg::ExternalId.bit()
            | Arg::InputDims.bit()
            | Arg::InputTypes.bit()
            | Arg::CallStack.bit();
        let row = Annotation {
            rank: 0,
            event_id: base.event_id,
            name: base.name,
            on_device,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            self_dur_ns: base.dur_ns,
            thread: base.thread,
            tid: number::integer(event.tid).unwrap_or(NULL_I64),
            parent: NULL_I64,
            depth: 0,
            step: NULL_I64,
            external_id: self.int(event, Arg::ExternalId),
            input_dims: self.json(event, Arg::InputDims),
            input_types: self.json(event, Arg::InputTypes),
            call_stack: self.stack(event),
            args: String::new(),
        };
        push_with_rest!(self, annotations, row, event, TAKEN);
        "annotations"
    }

    fn python_frame(&mut self, event: &Event<'a>, base: &Base) -> &'static str {
        const TAKEN: u64 =
            Arg::PythonId.bit() | Arg::PythonParentId.bit() | Arg::PythonModuleId.bit();
        let row = PythonFrame {
            rank: 0,
            event_id: base.event_id,
            name: base.name,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            self_dur_ns: base.dur_ns,
            thread: base.thread,
            tid: number::integer(event.tid).unwrap_or(NULL_I64),
            parent: NULL_I64,
            depth: 0,
            step: NULL_I64,
            python_id: self.int(event, Arg::PythonId),
            python_parent_id: self.int(event, Arg::PythonParentId),
            module_id: self.int(event, Arg::PythonModuleId),
            args: String::new(),
        };
        self.columns.has_stacks = true;
        self.columns.has_modules |= row.module_id != NULL_I64;
        push_with_rest!(self, python_frames, row, event, TAKEN);
        "python_frames"
    }

    fn kernel(&mut self, event: &Event<'a>, base: &Base) -> &'static str {
        const TAKEN: u64 = DEVICE
            | Arg::Grid.bit()
            | Arg::Block.bit()
            | Arg::Registers.bit()
            | Arg::SharedMemory.bit()
            | Arg::BlocksPerSm.bit()
            | Arg::WarpsPerSm.bit()
            | Arg::Occupancy.bit();
        let (device, stream) = self.placement(event);
        let kind = if event.args.get(Arg::CollectiveName).is_some() {
            "communication"
        } else {
            kernel_kind(self.columns.strings.get(base.name))
        };
        let row = Kernel {
            rank: 0,
            event_id: base.event_id,
            name: base.name,
            kind: self.columns.strings.intern(kind),
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            device,
            stream,
            thread: base.thread,
            correlation: self.int(event, Arg::Correlation),
            external_id: self.int(event, Arg::ExternalId),
            launch: NULL_I64,
            launch_name: StrId::NULL,
            launch_ts_ns: NULL_I64,
            launch_dur_ns: NULL_I64,
            launch_thread: NULL_I32,
            op: NULL_I64,
            op_name: StrId::NULL,
            annotation: StrId::NULL,
            module: StrId::NULL,
            python_frame: StrId::NULL,
            step: NULL_I64,
            queue_order: NULL_I64,
            blocks: self.product(event, Arg::Grid),
            block_threads: self.product(event, Arg::Block),
            registers: self.int32(event, Arg::Registers),
            shared_memory_bytes: self.int(event, Arg::SharedMemory),
            blocks_per_sm: self.float(event, Arg::BlocksPerSm),
            warps_per_sm: self.float(event, Arg::WarpsPerSm),
            occupancy_ratio: self.float(event, Arg::Occupancy) / 100.0,
            args: String::new(),
        };
        push_with_rest!(self, kernels, row, event, TAKEN);
        "kernels"
    }

    fn memcpy(&mut self, event: &Event<'a>, base: &Base) -> &'static str {
        const TAKEN: u64 = DEVICE | Arg::Bytes.bit() | Arg::Bandwidth.bit() | Arg::Kind.bit();
        let (device, stream) = self.placement(event);
        let written = event.args.get(Arg::Kind).map(|raw| String::from_utf8_lossy(raw));
        let written = written.as_deref().map(|text| text.trim_matches('"'));
        let kind = memcpy_kind(written, self.columns.strings.get(base.name));
        let row = Memcpy {
            rank: 0,
            event_id: base.event_id,
            name: base.name,
            kind: self.columns.strings.intern(kind),
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            device,
            stream,
            thread: base.thread,
            correlation: self.int(event, Arg::Correlation),
            external_id: self.int(event, Arg::ExternalId),
            launch: NULL_I64,
            launch_name: StrId::NULL,
            launch_ts_ns: NULL_I64,
            launch_dur_ns: NULL_I64,
            launch_thread: NULL_I32,
            op: NULL_I64,
            op_name: StrId::NULL,
            annotation: StrId::NULL,
            module: StrId::NULL,
            python_frame: StrId::NULL,
            step: NULL_I64,
            queue_order: NULL_I64,
            bytes: self.int(event, Arg::Bytes),
            bandwidth_gb_per_s: self.float(event, Arg::Bandwidth),
            args: String::new(),
        };
        push_with_rest!(self, memcpys, row, event, TAKEN);
        "memcpys"
    }

    fn memset(&mut self, event: &Event<'a>, base: &Base) -> &'static str {
        const TAKEN: u64 = DEVICE | Arg::Bytes.bit() | Arg::Bandwidth.bit();
        let (device, stream) = self.placement(event);
        let row = Memset {
            rank: 0,
            event_id: base.event_id,
            name: base.name,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            device,
            stream,
            thread: base.thread,
            correlation: self.int(event, Arg::Correlation),
            external_id: self.int(event, Arg::ExternalId),
            launch: NULL_I64,
            launch_name: StrId::NULL,
            launch_ts_ns: NULL_I64,
            launch_dur_ns: NULL_I64,
            launch_thread: NULL_I32,
            op: NULL_I64,
            op_name: StrId::NULL,
            annotation: StrId::NULL,
            module: StrId::NULL,
            python_frame: StrId::NULL,
            step: NULL_I64,
            queue_order: NULL_I64,
            bytes: self.int(event, Arg::Bytes),
            bandwidth_gb_per_s: self.float(event, Arg::Bandwidth),
            args: String::new(),
        };
        push_with_rest!(self, memsets, row, event, TAKEN);
        "memsets"
    }

    fn device_sync(&mut self, event: &Event<'a>, base: &Base) -> &'static str {
        const TAKEN: u64 = DEVICE | Arg::WaitOnStream.bit() | Arg::WaitOnRecord.bit();
        let (device, stream) = self.placement(event);
        let row = DeviceSync {
            rank: 0,
            event_id: base.event_id,
            name: base.name,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            device,
            stream: if stream < 0 { NULL_I32 } else { stream },
            thread: base.thread,
            correlation: self.int(event, Arg::Correlation),
            external_id: self.int(event, Arg::ExternalId),
            launch: NULL_I64,
            launch_ts_ns: NULL_I64,
            wait_on_stream: self.int(event, Arg::WaitOnStream),
            wait_on_record: self.int(event, Arg::WaitOnRecord),
            step: NULL_I64,
            args: String::new(),
        };
        push_with_rest!(self, device_syncs, row, event, TAKEN);
        "device_syncs"
    }

    fn span(&mut self, event: &Event<'a>, base: &Base) -> &'static str {
        let row = Span {
            rank: 0,
            event_id: base.event_id,
            name: base.name,
            category: base.category,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            thread: base.thread,
            step: NULL_I64,
            args: String::new(),
        };
        push_with_rest!(self, spans, row, event, 0);
        "spans"
    }

    fn collective(&mut self, event: &Event<'a>, base: &Base, kind: Kind) {
        let on_device = kind == Kind::Kernel;
        let (device, stream) = if on_device { self.placement(event) } else { (NULL_I32, NULL_I32) };
        let row = Collective {
            rank: 0,
            event_id: base.event_id,
            name: self.text(event, Arg::CollectiveName),
            on_device,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            device,
            stream,
            group_name: self.text(event, Arg::GroupName),
            group_description: self.text(event, Arg::GroupDescription),
            group_size: self.int32(event, Arg::GroupSize),
            group_ranks: self.text(event, Arg::GroupRanks),
            dtype: self.text(event, Arg::Dtype),
            input_elements: self.int(event, Arg::InElements),
            output_elements: self.int(event, Arg::OutElements),
            sequence: self.int(event, Arg::CollectiveSequence),
            correlation: self.int(event, Arg::Correlation),
            external_id: self.int(event, Arg::ExternalId),
            step: NULL_I64,
        };
        self.columns.collectives.push(row);
    }

    fn instant(
        &mut self,
        event: &Event<'a>,
        event_id: i64,
        category: StrId,
    ) -> Option<&'static str> {
        const TAKEN: u64 = Arg::Bytes.bit()
            | Arg::Address.bit()
            | Arg::TotalAllocated.bit()
            | Arg::TotalReserved.bit()
            | Arg::DeviceId.bit()
            | Arg::DeviceType.bit();
        let ts_ns = self.point(event)?;
        let name = self.intern_opt(event.name);
        let thread = self.lane(event.pid, event.tid);
        if self.columns.strings.get(name) == "[memory]" && event.args.get(Arg::Bytes).is_some() {
            let bytes = self.int(event, Arg::Bytes);
            if bytes == NULL_I64 {
                return None;
            }
            let row = MemoryEvent {
                rank: 0,
                event_id,
                ts_ns,
                thread,
                step: NULL_I64,
                device_type: self.int32(event, Arg::DeviceType),
                device: self.int32(event, Arg::DeviceId),
                address: self.int(event, Arg::Address),
                bytes,
                total_allocated_bytes: self.int(event, Arg::TotalAllocated),
                total_reserved_bytes: self.int(event, Arg::TotalReserved),
                args: String::new(),
            };
            push_with_rest!(self, memory_events, row, event, TAKEN);
            return Some("memory_events");
        }
        let row = Instant { rank: 0, event_id, name, category, ts_ns, thread, args: String::new() };
        push_with_rest!(self, instants, row, event, 0);
        Some("instants")
    }

    fn flow(&mut self, event: &Event<'a>, event_id: i64, category: StrId) -> Option<&'static str> {
        let ts_ns = self.point(event)?;
        let row = Flow {
            rank: 0,
            event_id,
            id: event.id.and_then(number::integer).unwrap_or(NULL_I64),
            category,
            phase: self.columns.strings.intern(match event.phase {
                b's' => "s",
                b't' => "t",
                _ => "f",
            }),
            ts_ns,
            thread: self.lane(event.pid, event.tid),
        };
        self.columns.flows.push(row);
        Some("flows")
    }

    fn counter(&mut self, event: &Event<'a>, event_id: i64) -> Option<&'static str> {
        let ts_ns = self.point(event)?;
        let name = self.intern_opt(event.name);
        for &(key, value) in &event.args.others {
            let series = self.intern_raw(RawStr { bytes: key, escaped: key.contains(&b'\\') });
            let value = number::float(value).unwrap_or_else(|| {
                self.columns.issues.add(Issue::BadNumber);
                f64::NAN
            });
            self.columns.counters.push(Counter { rank: 0, event_id, ts_ns, name, series, value });
        }
        Some("counters")
    }

    fn half(&mut self, event: &Event<'a>, event_id: i64, category: StrId) -> Option<&'static str> {
        let ts_ns = self.point(event)?;
        let name = self.intern_opt(event.name);
        let thread = self.lane(event.pid, event.tid);
        self.rest.clear();
        event.args.write_rest(0, &mut self.rest);
        let args = String::from_utf8_lossy(&self.rest).into_owned();
        let begin = event.phase == b'B';
        self.columns.halves.push(Half { begin, event_id, name, category, ts_ns, thread, args });
        Some("spans")
    }

    fn label(&mut self, event: &Event<'a>) {
        let what = self.intern_opt(event.name);
        let text = event.args.others.iter().find(|(key, _)| *key == b"name" || *key == b"labels");
        if let Some(&(_, value)) = text {
            let text = self.intern_value(value);
            let (pid, tid) = (self.intern_value(event.pid), self.intern_value(event.tid));
            self.columns.labels.push((pid, tid, what, text));
        }
    }

    /// Start of an event without duration.
    fn point(&mut self, event: &Event<'a>) -> Option<i64> {
        let ts_ns = event.ts.and_then(number::us_to_ns).filter(|&ts| !out_of_range(ts));
        if ts_ns.is_none() {
            self.columns.issues.add(Issue::BadTime);
        }
        ts_ns
    }

    fn kind(&mut self, category: StrId, name: StrId) -> Kind {
        let strings = &self.columns.strings;
        let kind = *self.kinds.entry(category).or_insert_with(|| classify(strings.get(category)));
        if kind == Kind::CpuOp
            && *self
                .annotation_names
                .entry(name)
                .or_insert_with(|| is_annotation_name(strings.get(name)))
        {
            return Kind::Annotation;
        }
        kind
    }

    /// Device and stream: from the arguments, else from the lane (`pid` is the device and `tid` the
    /// stream on device rows).
    fn placement(&mut self, event: &Event<'a>) -> (i32, i32) {
        let device = match self.int32(event, Arg::Device) {
            NULL_I32 => lane_number(event.pid),
            device => device,
        };
        let stream = match self.int32(event, Arg::Stream) {
            NULL_I32 => lane_number(event.tid),
            stream => stream,
        };
        (device, stream)
    }

    #[inline]
    fn lane(&mut self, pid: &'a [u8], tid: &'a [u8]) -> i32 {
        if let Some((last_pid, last_tid, lane)) = self.last_lane
            && last_pid == pid
            && last_tid == tid
        {
            return lane;
        }
        let known = self.lane_numbers.get(&(pid, tid)).copied();
        let lane = known.unwrap_or_else(|| {
            // "7" and 7 are the same lane.
            let key = (self.intern_value(pid), self.intern_value(tid));
            let lanes = &mut self.columns.lanes;
            let lane = *self.lanes_by_text.entry(key).or_insert_with(|| {
                lanes.push(key);
                lanes.len() as i32 - 1
            });
            self.lane_numbers.insert((pid, tid), lane);
            lane
        });
        self.last_lane = Some((pid, tid, lane));
        lane
    }

    fn int(&mut self, event: &Event<'a>, arg: Arg) -> i64 {
        let Some(raw) = event.args.get(arg) else { return NULL_I64 };
        match number::integer(raw) {
            Some(value) if value != NULL_I64 => value,
            _ => {
                if raw != b"null" {
                    self.columns.issues.add(Issue::BadNumber);
                }
                NULL_I64
            }
        }
    }

    fn int32(&mut self, event: &Event<'a>, arg: Arg) -> i32 {
        match self.int(event, arg) {
            NULL_I64 => NULL_I32,
            value => i32::try_from(value).unwrap_or_else(|_| {
                self.columns.issues.add(Issue::BadNumber);
                NULL_I32
            }),
        }
    }

    fn float(&mut self, event: &Event<'a>, arg: Arg) -> f64 {
        let Some(raw) = event.args.get(arg) else { return f64::NAN };
        number::float(raw).unwrap_or_else(|| {
            self.columns.issues.add(Issue::BadNumber);
            f64::NAN
        })
    }

    /// Product of a list of integers: blocks of a grid, threads of a block.
    fn product(&mut self, event: &Event<'a>, arg: Arg) -> i64 {
        let Some(raw) = event.args.get(arg) else { return NULL_I64 };
        let inner = raw.strip_prefix(b"\"").and_then(|r| r.strip_suffix(b"\"")).unwrap_or(raw);
        let inner = inner.strip_prefix(b"[").and_then(|r| r.strip_suffix(b"]")).unwrap_or(inner);
        let product = inner.split(|&b| b == b',').try_fold(1_i64, |product, part| {
            product.checked_mul(number::integer(part.trim_ascii())?)
        });
        product.unwrap_or_else(|| {
            self.columns.issues.add(Issue::BadNumber);
            NULL_I64
        })
    }

    fn stack(&mut self, event: &Event<'a>) -> StrId {
        let stack = self.text(event, Arg::CallStack);
        if self.columns.strings.get(stack).is_empty() {
            return StrId::NULL;
        }
        self.columns.has_stacks = true;
        stack
    }

    /// A string argument; other values as their JSON text.
    fn text(&mut self, event: &Event<'a>, arg: Arg) -> StrId {
        event.args.get(arg).map_or(StrId::NULL, |raw| self.intern_value(raw))
    }

    /// An argument as JSON text.
    fn json(&mut self, event: &Event<'a>, arg: Arg) -> StrId {
        let Some(raw) = event.args.get(arg) else { return StrId::NULL };
        self.intern_raw(RawStr { bytes: raw, escaped: false })
    }

    fn intern_value(&mut self, raw: &'a [u8]) -> StrId {
        match raw {
            [] | b"null" => StrId::NULL,
            [b'"', inner @ .., b'"'] => {
                self.intern_raw(RawStr { bytes: inner, escaped: inner.contains(&b'\\') })
            }
            _ => self.intern_raw(RawStr { bytes: raw, escaped: false }),
        }
    }

    fn intern_opt(&mut self, raw: Option<RawStr<'a>>) -> StrId {
        raw.map_or(StrId::NULL, |raw| self.intern_raw(raw))
    }

    /// Looks the raw bytes up first: decoding and UTF-8 checks are paid once a distinct string.
    #[inline]
    fn intern_raw(&mut self, raw: RawStr<'a>) -> StrId {
        if let Some(&id) = self.known.get(raw.bytes) {
            return id;
        }
        let (text, bad) = raw.decode();
        if bad {
            self.columns.issues.add(Issue::BadUtf8);
        }
        let id = self.columns.strings.intern(&text);
        self.known.insert(raw.bytes, id);
        id
    }
}

/// Arguments that all device rows take.
const DEVICE: u64 =
    Arg::Device.bit() | Arg::Stream.bit() | Arg::Correlation.bit() | Arg::ExternalId.bit();

/// Times beyond this are refused, so that adding a base time can never overflow.
fn out_of_range(ts_ns: i64) -> bool {
    ts_ns.unsigned_abs() > 1 << 62
}

/// `0` or `"stream 7"`.
fn lane_number(raw: &[u8]) -> i32 {
    let digits = raw.strip_prefix(b"\"stream ").and_then(|r| r.strip_suffix(b"\"")).unwrap_or(raw);
    number::integer(digits).and_then(|n| i32::try_from(n).ok()).unwrap_or(NULL_I32)
}
