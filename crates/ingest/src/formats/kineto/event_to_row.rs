//! Converts events to rows, with one function per table.

use trace_model::StrId;
use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::{
    Annotation, Collective, Counter, CpuOp, DeviceSync, Flow, Instant, Kernel, Memcpy, MemoryEvent,
    Memset, ProfilerRange, PythonFrame, RangeCounter, RuntimeCall, Span, TableId,
};

use super::arg::Arg;
use super::classify::Kind;
use super::event::Event;
use super::event_columns::{EventHeader, EventSink};
use crate::json::lexer::RawStr;
use crate::json::number;
use crate::quantity::{RawDecimal, RawInteger};
use crate::timeline::begin_end_event::BeginEndEvent;
use crate::timeline::kernel_name::memcpy_kind;

/// Arguments that all device rows take.
const DEVICE: u64 =
    Arg::Device.bit() | Arg::Stream.bit() | Arg::Correlation.bit() | Arg::ExternalId.bit();

/// Arguments that all launched activity takes.
const LAUNCHED: u64 = DEVICE
    | Arg::GraphId.bit()
    | Arg::GraphNodeId.bit()
    | Arg::OriginalStream.bit()
    | Arg::ModuleFqn.bit();

/// Arguments of a copy in the order in which its name states them.
const COPY_KINDS: [Arg; 3] = [Arg::CopyKind, Arg::SourceKind, Arg::TargetKind];

/// Adds a row and, straight into the column, the arguments that no other column takes. The row comes
/// with an empty `args`, which allocates nothing.
macro_rules! push_with_rest {
    ($self:ident, $table:ident, $row:ident, $event:ident, $taken:expr) => {
        let table = &mut $self.columns.$table;
        let row = table.len();
        table.push_sparse($row);
        table.args.push_sparse_with(row, |out| $event.args.write_rest($taken, out));
    };
}

const fn bits<const COUNT: usize>(args: [Arg; COUNT]) -> u64 {
    let (mut mask, mut at) = (0, 0);
    while at < COUNT {
        mask |= args[at].bit();
        at += 1;
    }
    mask
}

impl EventSink {
    pub(super) fn cpu_op(&mut self, event: &Event<'_>, base: &EventHeader) -> TableId {
        const TAKEN: u64 = Arg::ExternalId.bit()
            | Arg::RecordFunctionId.bit()
            | Arg::Sequence.bit()
            | Arg::FwdThread.bit()
            | Arg::InputDims.bit()
            | Arg::InputTypes.bit()
            | Arg::CallStack.bit();
        let row = CpuOp {
            event_id: base.event_id,
            name: base.name,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            self_dur_ns: base.dur_ns,
            thread: base.thread,
            tid: number::id(event.tid).unwrap_or(NULL_I64),
            external_id: self.id(event, Arg::ExternalId),
            record_function_id: self.record_function_id(event),
            sequence: self.id(event, Arg::Sequence),
            fwd_thread: self.id(event, Arg::FwdThread),
            input_dims: self.json(event, Arg::InputDims),
            input_types: self.json(event, Arg::InputTypes),
            call_stack: self.stack(event),
            ..CpuOp::null_row()
        };
        self.columns.has_shapes |= !row.input_dims.is_null();
        push_with_rest!(self, cpu_ops, row, event, TAKEN);
        TableId::CpuOps
    }

    pub(super) fn runtime_call(&mut self, event: &Event<'_>, base: &EventHeader) -> TableId {
        const TAKEN: u64 = Arg::ExternalId.bit() | Arg::Correlation.bit();
        let row = RuntimeCall {
            event_id: base.event_id,
            name: base.name,
            category: base.category,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            self_dur_ns: base.dur_ns,
            thread: base.thread,
            tid: number::id(event.tid).unwrap_or(NULL_I64),
            correlation: self.id(event, Arg::Correlation),
            external_id: self.id(event, Arg::ExternalId),
            ..RuntimeCall::null_row()
        };
        push_with_rest!(self, runtime_calls, row, event, TAKEN);
        TableId::RuntimeCalls
    }

    pub(super) fn annotation(
        &mut self,
        event: &Event<'_>,
        base: &EventHeader,
        on_device: bool,
    ) -> TableId {
        const TAKEN: u64 = Arg::ExternalId.bit()
            | Arg::RecordFunctionId.bit()
            | Arg::InputDims.bit()
            | Arg::InputTypes.bit()
            | Arg::CallStack.bit();
        let row = Annotation {
            event_id: base.event_id,
            name: base.name,
            on_device,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            self_dur_ns: base.dur_ns,
            thread: base.thread,
            tid: number::id(event.tid).unwrap_or(NULL_I64),
            external_id: self.id(event, Arg::ExternalId),
            record_function_id: self.record_function_id(event),
            input_dims: self.json(event, Arg::InputDims),
            input_types: self.json(event, Arg::InputTypes),
            call_stack: self.stack(event),
            ..Annotation::null_row()
        };
        push_with_rest!(self, annotations, row, event, TAKEN);
        TableId::Annotations
    }

    pub(super) fn python_frame(&mut self, event: &Event<'_>, base: &EventHeader) -> TableId {
        const TAKEN: u64 =
            Arg::PythonId.bit() | Arg::PythonParentId.bit() | Arg::PythonModuleId.bit();
        let row = PythonFrame {
            event_id: base.event_id,
            name: base.name,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            self_dur_ns: base.dur_ns,
            thread: base.thread,
            tid: number::id(event.tid).unwrap_or(NULL_I64),
            python_id: self.id(event, Arg::PythonId),
            python_parent_id: self.id(event, Arg::PythonParentId),
            module_id: self.id(event, Arg::PythonModuleId),
            ..PythonFrame::null_row()
        };
        self.columns.has_stacks = true;
        self.columns.has_modules |= row.module_id != NULL_I64;
        push_with_rest!(self, python_frames, row, event, TAKEN);
        TableId::PythonFrames
    }

    pub(super) fn kernel(&mut self, event: &Event<'_>, base: &EventHeader) -> TableId {
        const TAKEN: u64 = LAUNCHED
            | Arg::Grid.bit()
            | Arg::Block.bit()
            | Arg::Registers.bit()
            | Arg::SharedMemory.bit()
            | Arg::BlocksPerSm.bit()
            | Arg::WarpsPerSm.bit()
            | Arg::Occupancy.bit();
        let (device, stream) = self.placement(event);
        let name = self.kernel_name(base.name);
        let kind = match event.args.get(Arg::CollectiveName) {
            Some(_) => self.columns.strings.intern("communication"),
            None => name.kind,
        };
        let (grid, block) = (self.extent(event, Arg::Grid), self.extent(event, Arg::Block));
        let (graph_id, graph_node_id) = self.graph_node(event);
        let row = Kernel {
            event_id: base.event_id,
            name: base.name,
            kind,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            device,
            stream,
            thread: base.thread,
            correlation: self.id(event, Arg::Correlation),
            external_id: self.id(event, Arg::ExternalId),
            module: self.marked_module(event),
            graph_id,
            graph_node_id,
            grid: grid.shape,
            block: block.shape,
            blocks: grid.product,
            block_threads: block.product,
            registers: self.number(event, Arg::Registers),
            shared_memory_bytes: self.bytes(event, Arg::SharedMemory),
            blocks_per_sm: self.decimal(event, Arg::BlocksPerSm, RawDecimal::rate),
            warps_per_sm: self.decimal(event, Arg::WarpsPerSm, RawDecimal::rate),
            occupancy_ratio: self.decimal(event, Arg::Occupancy, RawDecimal::ratio_of_percent),
            tensor_cores: name.tensor_cores,
            ..Kernel::null_row()
        };
        push_with_rest!(self, kernels, row, event, TAKEN);
        TableId::Kernels
    }

    pub(super) fn memcpy(&mut self, event: &Event<'_>, base: &EventHeader) -> TableId {
        const TAKEN: u64 = LAUNCHED | Arg::Bytes.bit() | Arg::Bandwidth.bit() | Arg::Kind.bit();
        const NAMED: u64 = TAKEN | bits(COPY_KINDS);
        let (device, stream) = self.placement(event);
        let full_name = self.copy_name(event, base.name, COPY_KINDS);
        let taken = if full_name.is_some() { NAMED } else { TAKEN };
        let name = full_name.unwrap_or(base.name);
        let written = event.args.get(Arg::Kind).map(|raw| String::from_utf8_lossy(raw));
        let written = written.as_deref().map(|text| text.trim_matches('"'));
        let kind = memcpy_kind(written, self.columns.strings.get(name));
        let (graph_id, graph_node_id) = self.graph_node(event);
        let bytes = self.bytes(event, Arg::Bytes);
        let row = Memcpy {
            event_id: base.event_id,
            name,
            kind: self.columns.strings.intern(kind),
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            device,
            stream,
            thread: base.thread,
            correlation: self.id(event, Arg::Correlation),
            external_id: self.id(event, Arg::ExternalId),
            module: self.marked_module(event),
            graph_id,
            graph_node_id,
            bytes,
            bandwidth_gb_per_s: self.bandwidth(event, bytes, base.dur_ns),
            ..Memcpy::null_row()
        };
        push_with_rest!(self, memcpys, row, event, taken);
        TableId::Memcpys
    }

    pub(super) fn memset(&mut self, event: &Event<'_>, base: &EventHeader) -> TableId {
        const TAKEN: u64 = LAUNCHED | Arg::Bytes.bit() | Arg::Bandwidth.bit();
        const NAMED: u64 = TAKEN | bits([Arg::MemoryKind]);
        let (device, stream) = self.placement(event);
        let full_name = self.fill_name(event, base.name);
        let taken = if full_name.is_some() { NAMED } else { TAKEN };
        let (graph_id, graph_node_id) = self.graph_node(event);
        let bytes = self.bytes(event, Arg::Bytes);
        let row = Memset {
            event_id: base.event_id,
            name: full_name.unwrap_or(base.name),
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            device,
            stream,
            thread: base.thread,
            correlation: self.id(event, Arg::Correlation),
            external_id: self.id(event, Arg::ExternalId),
            module: self.marked_module(event),
            graph_id,
            graph_node_id,
            bytes,
            bandwidth_gb_per_s: self.bandwidth(event, bytes, base.dur_ns),
            ..Memset::null_row()
        };
        push_with_rest!(self, memsets, row, event, taken);
        TableId::Memsets
    }

    pub(super) fn device_sync(&mut self, event: &Event<'_>, base: &EventHeader) -> TableId {
        const TAKEN: u64 = DEVICE | Arg::WaitOnStream.bit() | Arg::WaitOnRecord.bit();
        let (device, stream) = self.placement(event);
        let row = DeviceSync {
            event_id: base.event_id,
            name: base.name,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            device,
            stream: if stream < 0 { NULL_I32 } else { stream },
            thread: base.thread,
            correlation: self.id(event, Arg::Correlation),
            external_id: self.id(event, Arg::ExternalId),
            wait_on_stream: self.id(event, Arg::WaitOnStream),
            wait_on_record: self.id(event, Arg::WaitOnRecord),
            ..DeviceSync::null_row()
        };
        push_with_rest!(self, device_syncs, row, event, TAKEN);
        TableId::DeviceSyncs
    }

    /// A kernel under the range profiler: its numeric arguments are the counters.
    pub(super) fn profiler_range(&mut self, event: &Event<'_>, base: &EventHeader) -> TableId {
        const TAKEN: u64 = Arg::Device.bit() | Arg::Stream.bit();
        let row = ProfilerRange {
            event_id: base.event_id,
            name: base.name,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            device: self.device(event),
            stream: self.number(event, Arg::Stream),
            thread: base.thread,
            ..ProfilerRange::null_row()
        };
        for &(key, value) in &event.args.others {
            let Some(value) = number::decimal(value) else { continue };
            let name = self.intern_raw(RawStr::escaped_if_needed(key));
            let event_id = base.event_id;
            self.columns.range_counters.push_sparse(RangeCounter {
                rank: 0,
                event_id,
                name,
                value: value.of_unknown_unit(),
            });
        }
        let table = &mut self.columns.profiler_ranges;
        let at = table.len();
        table.push_sparse(row);
        table.args.push_sparse_with(at, |out| {
            event.args.write_rest_where(TAKEN, |value| number::decimal(value).is_none(), out);
        });
        TableId::ProfilerRanges
    }

    /// 0 is what the profiler writes outside of graphs.
    fn graph_id(&mut self, event: &Event<'_>, arg: Arg) -> i64 {
        match self.id(event, arg) {
            0 => NULL_I64,
            id => id,
        }
    }

    /// Returns the ids of the graph and of the node of a replay. The upper half of a node id is the id of its graph; Cuspy omits
    /// that half.
    fn graph_node(&mut self, event: &Event<'_>) -> (i64, i64) {
        let graph = self.graph_id(event, Arg::GraphId);
        let node = self.graph_id(event, Arg::GraphNodeId);
        let is_half = (1..1 << 32).contains(&node) && (1..1 << 31).contains(&graph);
        (graph, if is_half { (graph << 32) | node } else { node })
    }

    /// Returns the bandwidth of a copy or a fill in GB/s: the written value, or bytes over time for events of Cuspy, which state
    /// kinds of memory but no bandwidth.
    fn bandwidth(&mut self, event: &Event<'_>, bytes: i64, dur_ns: i64) -> f64 {
        let states_kinds =
            event.args.get(Arg::CopyKind).or(event.args.get(Arg::MemoryKind)).is_some();
        if event.args.get(Arg::Bandwidth).is_none()
            && states_kinds
            && bytes != NULL_I64
            && dur_ns > 0
        {
            // One byte a nanosecond is one gigabyte a second.
            return bytes as f64 / dur_ns as f64;
        }
        self.decimal(event, Arg::Bandwidth, RawDecimal::rate)
    }

    /// 0 is what the profiler writes while no execution trace is being recorded.
    fn record_function_id(&mut self, event: &Event<'_>) -> i64 {
        match self.id(event, Arg::RecordFunctionId) {
            id if id > 0 => id,
            _ => NULL_I64,
        }
    }

    pub(super) fn span(&mut self, event: &Event<'_>, base: &EventHeader) -> TableId {
        let row = Span {
            event_id: base.event_id,
            name: base.name,
            category: base.category,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            thread: base.thread,
            ..Span::null_row()
        };
        push_with_rest!(self, spans, row, event, 0);
        TableId::Spans
    }

    pub(super) fn collective(&mut self, event: &Event<'_>, base: &EventHeader, kind: Kind) {
        let on_device = kind == Kind::Kernel;
        let (device, stream) = if on_device { self.placement(event) } else { (NULL_I32, NULL_I32) };
        let row = Collective {
            event_id: base.event_id,
            name: self.text(event, Arg::CollectiveName),
            on_device,
            ts_ns: base.ts_ns,
            dur_ns: base.dur_ns,
            device,
            stream,
            group_name: self.text(event, Arg::GroupName),
            group_description: self.text(event, Arg::GroupDescription),
            group_size: self.number(event, Arg::GroupSize),
            group_ranks: self.text(event, Arg::GroupRanks),
            dtype: self.text(event, Arg::Dtype),
            input_elements: self.count(event, Arg::InElements),
            output_elements: self.count(event, Arg::OutElements),
            sequence: self.id(event, Arg::CollectiveSequence),
            comms_id: self.text(event, Arg::CommsId),
            correlation: self.id(event, Arg::Correlation),
            external_id: self.id(event, Arg::ExternalId),
            ..Collective::null_row()
        };
        self.columns.collectives.push_sparse(row);
    }

    pub(super) fn instant(
        &mut self,
        event: &Event<'_>,
        event_id: i64,
        category: StrId,
    ) -> Option<TableId> {
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
            let bytes = self.integer(event, Arg::Bytes, RawInteger::byte_change)?;
            let row = MemoryEvent {
                event_id,
                ts_ns,
                thread,
                device_type: self.number(event, Arg::DeviceType),
                device: self.number(event, Arg::DeviceId),
                address: self.id(event, Arg::Address),
                bytes,
                total_allocated_bytes: self.bytes(event, Arg::TotalAllocated),
                total_reserved_bytes: self.bytes(event, Arg::TotalReserved),
                ..MemoryEvent::null_row()
            };
            push_with_rest!(self, memory_events, row, event, TAKEN);
            return Some(TableId::MemoryEvents);
        }
        let row = Instant { rank: 0, event_id, name, category, ts_ns, thread, args: String::new() };
        push_with_rest!(self, instants, row, event, 0);
        Some(TableId::Instants)
    }

    pub(super) fn flow(
        &mut self,
        event: &Event<'_>,
        event_id: i64,
        category: StrId,
    ) -> Option<TableId> {
        let ts_ns = self.point(event)?;
        let row = Flow {
            event_id,
            id: event.id.and_then(number::id).unwrap_or(NULL_I64),
            category,
            phase: self.columns.strings.intern(match event.phase {
                b's' => "s",
                b't' => "t",
                _ => "f",
            }),
            ts_ns,
            thread: self.lane(event.pid, event.tid),
            ..Flow::null_row()
        };
        self.columns.flows.push_sparse(row);
        Some(TableId::Flows)
    }

    /// The GPU whose hardware counters a process stands for: `GPU 0` for the process `GPU 0 Counters`.
    fn sampled_device(&mut self, pid: &[u8]) -> StrId {
        let name = pid.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b" Counters\""));
        let is_gpu = |name: &&[u8]| {
            name.strip_prefix(b"GPU ").is_some_and(|number| number.iter().all(u8::is_ascii_digit))
        };
        match name.filter(is_gpu) {
            Some(name) => self.intern_raw(RawStr { bytes: name, escaped: false }),
            None => StrId::NULL,
        }
    }

    pub(super) fn counter(&mut self, event: &Event<'_>, event_id: i64) -> Option<TableId> {
        let ts_ns = self.point(event)?;
        let name = self.intern_opt(event.name);
        let thread = self.lane(event.pid, event.tid);
        let device = self.sampled_device(event.pid);
        for &(key, value) in &event.args.others {
            // Hardware counters have one value, without a key.
            let series = match key {
                [] => StrId::NULL,
                _ => self.intern_raw(RawStr::escaped_if_needed(key)),
            };
            let sample = self.converted(number::decimal(value), |raw| Some(raw.of_unknown_unit()));
            let row = Counter {
                event_id,
                ts_ns,
                name,
                series,
                thread,
                device,
                value: sample.unwrap_or(f64::NAN),
                ..Counter::null_row()
            };
            self.columns.counters.push_sparse(row);
        }
        Some(TableId::Counters)
    }

    pub(super) fn begin_or_end(
        &mut self,
        event: &Event<'_>,
        event_id: i64,
        category: StrId,
    ) -> Option<TableId> {
        let ts_ns = self.point(event)?;
        let name = self.intern_opt(event.name);
        let thread = self.lane(event.pid, event.tid);
        let mut args = Vec::new();
        event.args.write_rest(0, &mut args);
        let args = String::from_utf8_lossy(&args).into_owned();
        let begin = matches!(event.phase, b'B' | b'b' | b'S');
        let is_async = !matches!(event.phase, b'B' | b'E');
        let async_id = if is_async { self.async_id(event) } else { StrId::NULL };
        let is_annotation = self.category_kind(category) == Kind::Annotation;
        self.columns.begin_end_events.push(BeginEndEvent {
            begin,
            async_id,
            event_id,
            name,
            category,
            ts_ns,
            thread,
            args,
            is_annotation,
        });
        Some(TableId::Spans)
    }

    /// What an asynchronous event belongs to: its `id`, or `id2`, whose local ids are those of a process.
    fn async_id(&mut self, event: &Event<'_>) -> StrId {
        let id = String::from_utf8_lossy(event.id.unwrap_or_default());
        let process = if id.contains("local") { event.pid } else { b"" };
        let text = format!("{id}{}", String::from_utf8_lossy(process));
        self.columns.strings.intern(&text)
    }

    pub(super) fn label(&mut self, event: &Event<'_>) {
        let what = self.intern_opt(event.name);
        let is_text = |&&(key, _): &&(&[u8], &[u8])| {
            matches!(&*RawStr::escaped_if_needed(key).unescaped(), b"name" | b"labels" | b"value")
        };
        let text = event.args.others.iter().find(is_text);
        if let Some(&(_, value)) = text {
            let text = self.intern_value(value);
            let (pid, tid) = (self.intern_value(event.pid), self.intern_value(event.tid));
            self.columns.labels.push((pid, tid, what, text));
        }
    }
}
