//! Tiny runs written by hand: rows with sensible defaults.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::too_many_arguments,
    reason = "each test uses its own part"
)]

mod details;
mod memory_files;
pub mod trainers;

use analyses::{Params, Session};
use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::{
    Annotation, Annotations, Collective, Collectives, Counter, Counters, CpuOp, CpuOps, Device,
    Devices, ExecutionNode, ExecutionNodes, Kernel, Kernels, Memcpy, Memcpys, MemoryEvent,
    MemoryEvents, Memset, Memsets, ProfilerRange, ProfilerRanges, PythonFrame, PythonFrames,
    RangeCounter, RangeCounters, Rank, Ranks, ReadingWarnings, RuntimeCall, RuntimeCalls, Spans,
    Step, Steps, UnpairedEvent, UnpairedEvents,
};
use trace_model::{MetricTable, StrId, Strings, TableSet, Value};

/// A launching call: start and duration; it runs on thread 1.
pub type Launch = Option<(i64, i64)>;

#[derive(Default)]
pub struct Run {
    strings: Strings,
    ranks: Ranks,
    steps: Steps,
    devices: Devices,
    cpu_ops: CpuOps,
    runtime_calls: RuntimeCalls,
    annotations: Annotations,
    python_frames: PythonFrames,
    kernels: Kernels,
    memcpys: Memcpys,
    memsets: Memsets,
    collectives: Collectives,
    memory_events: MemoryEvents,
    profiler_ranges: ProfilerRanges,
    range_counters: RangeCounters,
    execution_nodes: ExecutionNodes,
    counters: Counters,
    unpaired_events: UnpairedEvents,
    spans: Spans,
    reading_warnings: ReadingWarnings,
    files: memory_files::MemoryFiles,
    next_event: i64,
}

impl Run {
    fn id(&mut self) -> i64 {
        self.next_event += 1;
        self.next_event
    }

    fn name(&mut self, text: &str) -> StrId {
        if text.is_empty() { StrId::NULL } else { self.strings.intern(text) }
    }

    /// A rank without steps.
    pub fn rank(&mut self, rank: i32) -> &mut Self {
        self.rank_with_cut(rank, 0, NULL_I64)
    }

    pub fn rank_with_cut(&mut self, rank: i32, step_count: i32, cut_ns: i64) -> &mut Self {
        let (file, vendor, clock) = (self.name("file"), self.name("nvidia"), self.name("single"));
        self.ranks.push(Rank {
            rank,
            file,
            world_size: NULL_I32,
            backend: StrId::NULL,
            host: StrId::NULL,
            vendor,
            start_ns: 0,
            end_ns: 0,
            base_time_ns: NULL_I64,
            clock,
            event_count: 0,
            step_count,
            cut_ns,
            steps_end_ns: NULL_I64,
            has_shapes: false,
            has_stacks: false,
            has_modules: false,
            has_memory: false,
        });
        self
    }

    /// The ranks so far have no device timeline.
    pub fn without_device(&mut self) -> &mut Self {
        let vendor = self.name("cpu");
        self.ranks.vendor.0.fill(vendor);
        self
    }

    /// How the times of all ranks so far relate.
    pub fn clock(&mut self, clock: &str) -> &mut Self {
        let clock = self.name(clock);
        self.ranks.clock.0.fill(clock);
        self
    }

    /// A profiler step; the last one pushed with `is_last` is the last of the rank.
    pub fn step(
        &mut self,
        rank: i32,
        step: i64,
        ts_ns: i64,
        dur_ns: i64,
        is_last: bool,
    ) -> &mut Self {
        self.step_from("profiler_step", rank, step, ts_ns, dur_ns, is_last)
    }

    pub fn step_from(
        &mut self,
        source: &str,
        rank: i32,
        step: i64,
        ts_ns: i64,
        dur_ns: i64,
        is_last: bool,
    ) -> &mut Self {
        let (name, source) = (self.name(&format!("ProfilerStep#{step}")), self.name(source));
        let event_id = self.id();
        if let Some(row) = self.ranks.rank.0.iter().position(|&r| r == rank) {
            let end_ns = &mut self.ranks.steps_end_ns.0[row];
            *end_ns = (*end_ns).max(ts_ns + dur_ns);
        }
        self.steps.push(Step {
            rank,
            step,
            name,
            source,
            ts_ns,
            dur_ns,
            thread: 1,
            event_id,
            is_last,
        });
        self
    }

    /// A kernel on device 0, stream 7, of step `step` (or none: -1).
    pub fn kernel(
        &mut self,
        rank: i32,
        kind: &str,
        ts_ns: i64,
        dur_ns: i64,
        launch: Launch,
    ) -> &mut Self {
        self.kernel_on(rank, kind, (0, 7), ts_ns, dur_ns, launch, None, kind)
    }

    pub fn kernel_in_step(
        &mut self,
        rank: i32,
        step: i64,
        ts_ns: i64,
        dur_ns: i64,
        launch: (i64, i64),
    ) -> &mut Self {
        self.kernel_on(rank, "computation", (0, 7), ts_ns, dur_ns, Some(launch), Some(step), "k")
    }

    pub fn kernel_on(
        &mut self,
        rank: i32,
        kind: &str,
        (device, stream): (i32, i32),
        ts_ns: i64,
        dur_ns: i64,
        launch: Launch,
        step: Option<i64>,
        name: &str,
    ) -> &mut Self {
        let (name, kind) = (self.name(name), self.name(kind));
        let call = launch.map(|(ts, dur)| self.call(rank, "cudaLaunchKernel", ts, dur));
        let launch_name =
            if launch.is_some() { self.name("cudaLaunchKernel") } else { StrId::NULL };
        let event_id = self.id();
        self.kernels.push(Kernel {
            rank,
            event_id,
            name,
            kind,
            ts_ns,
            dur_ns,
            device,
            stream,
            thread: 0,
            correlation: call.unwrap_or(NULL_I64),
            external_id: NULL_I64,
            launch: call.unwrap_or(NULL_I64),
            launch_name,
            launch_ts_ns: launch.map_or(NULL_I64, |l| l.0),
            launch_dur_ns: launch.map_or(NULL_I64, |l| l.1),
            launch_thread: launch.map_or(NULL_I32, |_| 1),
            op: NULL_I64,
            op_name: StrId::NULL,
            annotation: StrId::NULL,
            module: StrId::NULL,
            python_frame: StrId::NULL,
            step: step.unwrap_or(NULL_I64),
            queue_order: NULL_I64,
            grid: StrId::NULL,
            block: StrId::NULL,
            blocks: NULL_I64,
            block_threads: NULL_I64,
            registers: NULL_I32,
            shared_memory_bytes: NULL_I64,
            blocks_per_sm: f64::NAN,
            warps_per_sm: f64::NAN,
            occupancy_ratio: f64::NAN,
            source: StrId::NULL,
            tensor_cores: StrId::NULL,
            args: String::new(),
        });
        self
    }

    /// Whether the last kernel multiplies on tensor cores: yes, no or unknown.
    pub fn on_tensor_cores(&mut self, verdict: &str) -> &mut Self {
        let verdict = self.name(verdict);
        *self.kernels.tensor_cores.0.last_mut().expect("a kernel") = verdict;
        self
    }

    /// Types of the inputs of the last operator, JSON.
    pub fn typed(&mut self, types: &str) -> &mut Self {
        let types = self.name(types);
        *self.cpu_ops.input_types.0.last_mut().expect("an operator") = types;
        self
    }

    /// Shapes of the inputs of the last operator, JSON.
    pub fn shaped_as(&mut self, dims: &str) -> &mut Self {
        let dims = self.name(dims);
        *self.cpu_ops.input_dims.0.last_mut().expect("an operator") = dims;
        self
    }

    /// Autograd's number of the last operator.
    pub fn numbered(&mut self, sequence: i64) -> &mut Self {
        *self.cpu_ops.sequence.0.last_mut().expect("an operator") = sequence;
        self
    }

    /// The last kernel belongs to a step.
    pub fn kernel_of_step(&mut self, step: i64) -> &mut Self {
        *self.kernels.step.0.last_mut().expect("a kernel") = step;
        self
    }

    /// The last kernel was launched by this thread.
    pub fn launched_on(&mut self, thread: i32) -> &mut Self {
        *self.kernels.launch_thread.0.last_mut().expect("a kernel") = thread;
        self
    }

    /// Grid, block, registers and blocks a multiprocessor of the last kernel.
    pub fn sized(&mut self, grid: &str, block: &str, registers: i32, per_sm: f64) -> &mut Self {
        let (grid, block) = (self.name(grid), self.name(block));
        let kernels = &mut self.kernels;
        *kernels.grid.0.last_mut().expect("a kernel") = grid;
        *kernels.block.0.last_mut().expect("a kernel") = block;
        *kernels.registers.0.last_mut().expect("a kernel") = registers;
        *kernels.blocks_per_sm.0.last_mut().expect("a kernel") = per_sm;
        self
    }

    /// All devices so far are called so.
    pub fn device_named(&mut self, rank: i32, name: &str) -> &mut Self {
        let name = self.name(name);
        for (row, of) in self.devices.rank.0.iter().enumerate() {
            if *of == rank {
                self.devices.name.0[row] = name;
            }
        }
        self
    }

    /// Gives the last kernel what the profiler says of its shape.
    pub fn shaped(&mut self, blocks_per_sm: f64, occupancy_ratio: f64) -> &mut Self {
        *self.kernels.blocks_per_sm.0.last_mut().expect("a kernel") = blocks_per_sm;
        *self.kernels.occupancy_ratio.0.last_mut().expect("a kernel") = occupancy_ratio;
        self
    }

    pub fn memcpy(
        &mut self,
        rank: i32,
        ts_ns: i64,
        dur_ns: i64,
        bytes: i64,
        launch: Launch,
    ) -> &mut Self {
        let (name, kind) = (self.name("Memcpy DtoH (Device -> Pageable)"), self.name("DtoH"));
        let call = launch.map(|(ts, dur)| self.call(rank, "cudaMemcpyAsync", ts, dur));
        let launch_name = if launch.is_some() { self.name("cudaMemcpyAsync") } else { StrId::NULL };
        let event_id = self.id();
        self.memcpys.push(Memcpy {
            rank,
            event_id,
            name,
            kind,
            ts_ns,
            dur_ns,
            device: 0,
            stream: 7,
            thread: 0,
            correlation: call.unwrap_or(NULL_I64),
            external_id: NULL_I64,
            launch: call.unwrap_or(NULL_I64),
            launch_name,
            launch_ts_ns: launch.map_or(NULL_I64, |l| l.0),
            launch_dur_ns: launch.map_or(NULL_I64, |l| l.1),
            launch_thread: launch.map_or(NULL_I32, |_| 1),
            op: NULL_I64,
            op_name: StrId::NULL,
            annotation: StrId::NULL,
            module: StrId::NULL,
            python_frame: StrId::NULL,
            step: NULL_I64,
            queue_order: NULL_I64,
            bytes,
            bandwidth_gb_per_s: f64::NAN,
            source: StrId::NULL,
            args: String::new(),
        });
        self
    }

    pub fn memset(&mut self, rank: i32, ts_ns: i64, dur_ns: i64) -> &mut Self {
        let name = self.name("Memset (Device)");
        let event_id = self.id();
        self.memsets.push(Memset {
            rank,
            event_id,
            name,
            ts_ns,
            dur_ns,
            device: 0,
            stream: 7,
            thread: 0,
            correlation: NULL_I64,
            external_id: NULL_I64,
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
            bytes: 64,
            bandwidth_gb_per_s: f64::NAN,
            source: StrId::NULL,
            args: String::new(),
        });
        self
    }

    /// A runtime call on thread 1; the result is its event id, which serves as correlation too.
    pub fn call(&mut self, rank: i32, name: &str, ts_ns: i64, dur_ns: i64) -> i64 {
        let (name, category) = (self.name(name), self.name("cuda_runtime"));
        let event_id = self.id();
        self.runtime_calls.push(RuntimeCall {
            rank,
            event_id,
            name,
            category,
            ts_ns,
            dur_ns,
            self_dur_ns: dur_ns,
            thread: 1,
            tid: NULL_I64,
            parent: NULL_I64,
            depth: 0,
            step: NULL_I64,
            correlation: event_id,
            external_id: NULL_I64,
            op: NULL_I64,
            device_events: 0,
            source: StrId::NULL,
            args: String::new(),
        });
        event_id
    }

    pub fn annotation(&mut self, rank: i32, name: &str, ts_ns: i64, dur_ns: i64) -> &mut Self {
        let name = self.name(name);
        let event_id = self.id();
        self.annotations.push(Annotation {
            rank,
            event_id,
            name,
            on_device: false,
            ts_ns,
            dur_ns,
            self_dur_ns: dur_ns,
            thread: 1,
            tid: NULL_I64,
            parent: NULL_I64,
            depth: 0,
            step: NULL_I64,
            external_id: NULL_I64,
            record_function_id: NULL_I64,
            input_dims: StrId::NULL,
            input_types: StrId::NULL,
            call_stack: StrId::NULL,
            source: StrId::NULL,
            args: String::new(),
        });
        self
    }

    /// Makes the last annotation the device's, on the lane of the kernels.
    pub fn on_device(&mut self) -> &mut Self {
        *self.annotations.on_device.0.last_mut().expect("an annotation") = true;
        *self.annotations.thread.0.last_mut().expect("an annotation") = 0;
        self
    }

    /// Puts the last operator into `depth` others.
    pub fn at_depth(&mut self, depth: i32) -> &mut Self {
        *self.cpu_ops.depth.0.last_mut().expect("an operator") = depth;
        self
    }

    /// The last kernel is launched by the last operator.
    pub fn launched_by_op(&mut self) -> &mut Self {
        let ops = &self.cpu_ops;
        let (op, name) = (ops.event_id.0.last(), ops.name.0.last());
        *self.kernels.op.0.last_mut().expect("a kernel") = *op.expect("an operator");
        *self.kernels.op_name.0.last_mut().expect("a kernel") = *name.expect("an operator");
        self
    }

    pub fn op(&mut self, rank: i32, name: &str, ts_ns: i64, dur_ns: i64) -> &mut Self {
        let name = self.name(name);
        let event_id = self.id();
        self.cpu_ops.push(CpuOp {
            rank,
            event_id,
            name,
            ts_ns,
            dur_ns,
            self_dur_ns: dur_ns,
            thread: 2,
            tid: NULL_I64,
            parent: NULL_I64,
            depth: 0,
            step: NULL_I64,
            external_id: NULL_I64,
            record_function_id: NULL_I64,
            sequence: NULL_I64,
            fwd_thread: NULL_I64,
            input_dims: StrId::NULL,
            input_types: StrId::NULL,
            call_stack: StrId::NULL,
            forward_op: NULL_I64,
            source: StrId::NULL,
            args: String::new(),
        });
        self
    }

    /// An operator on another thread than most.
    pub fn op_on(
        &mut self,
        rank: i32,
        thread: i32,
        name: &str,
        ts_ns: i64,
        dur_ns: i64,
    ) -> &mut Self {
        self.op(rank, name, ts_ns, dur_ns);
        *self.cpu_ops.thread.0.last_mut().expect("an operator") = thread;
        self
    }

    /// The last kernel and its call are of another thread than most.
    pub fn called_on(&mut self, thread: i32) -> &mut Self {
        *self.kernels.launch_thread.0.last_mut().expect("a kernel") = thread;
        *self.runtime_calls.thread.0.last_mut().expect("a launch") = thread;
        self
    }

    /// The last kernels are those of one replayed graph, launched by the call of the first.
    pub fn launched_by_graph(&mut self, count: usize) -> &mut Self {
        let name = self.name("cudaGraphLaunch");
        let first = self.kernels.len() - count;
        let launch = self.kernels.launch.0[first];
        for row in first..self.kernels.len() {
            self.kernels.launch.0[row] = launch;
            self.kernels.launch_name.0[row] = name;
        }
        let calls = &mut self.runtime_calls;
        let call = calls.event_id.0.iter().position(|&id| id == launch).expect("a launch");
        calls.name.0[call] = name;
        calls.device_events.0[call] = count as i32;
        self
    }

    /// An operator that launches `count` kernels itself.
    pub fn op_with_kernels(
        &mut self,
        rank: i32,
        name: &str,
        ts_ns: i64,
        dur_ns: i64,
        count: i64,
    ) -> &mut Self {
        self.op(rank, name, ts_ns, dur_ns);
        let op = self.next_event;
        for i in 0..count {
            let start_ns = ts_ns + dur_ns + 10 * i;
            self.kernel(rank, "computation", start_ns, 5, Some((ts_ns + i, 1)));
            *self.runtime_calls.parent.0.last_mut().expect("a launch") = op;
        }
        self
    }

    /// Says from which line the last operator was called and the last kernel launched.
    pub fn at_line(&mut self, frame: &str, line: &str) -> &mut Self {
        let (stack, source) = (self.name(frame), self.name(line));
        *self.cpu_ops.call_stack.0.last_mut().expect("an operator") = stack;
        *self.cpu_ops.source.0.last_mut().expect("an operator") = source;
        *self.kernels.source.0.last_mut().expect("a kernel") = source;
        self
    }

    /// Says from which line the last call was made.
    pub fn called_at(&mut self, line: &str) -> &mut Self {
        let source = self.name(line);
        *self.runtime_calls.source.0.last_mut().expect("a call") = source;
        self
    }

    /// Arguments of the last operator that no column holds.
    pub fn with_args(&mut self, args: &str) -> &mut Self {
        self.cpu_ops.args.extend_last(args);
        self
    }

    /// A Python frame on thread 2.
    pub fn frame(&mut self, rank: i32, name: &str, ts_ns: i64, dur_ns: i64) -> &mut Self {
        let name = self.name(name);
        let event_id = self.id();
        self.python_frames.push(PythonFrame {
            rank,
            event_id,
            name,
            ts_ns,
            dur_ns,
            thread: 2,
            ..PythonFrame::null_row()
        });
        self
    }

    /// Describes the last kernel as a collective of a group.
    pub fn as_collective(&mut self, name: &str, group: &str, elements: i64) -> &mut Self {
        let (name, group_name) = (self.name(name), self.name(group));
        let k = &self.kernels;
        let last = k.len() - 1;
        self.collectives.push(Collective {
            rank: k.rank.0[last],
            event_id: k.event_id.0[last],
            name,
            on_device: true,
            ts_ns: k.ts_ns.0[last],
            dur_ns: k.dur_ns.0[last],
            device: 0,
            stream: 7,
            group_name,
            group_description: StrId::NULL,
            group_size: NULL_I32,
            group_ranks: StrId::NULL,
            dtype: StrId::NULL,
            input_elements: elements,
            output_elements: NULL_I64,
            sequence: NULL_I64,
            correlation: NULL_I64,
            external_id: NULL_I64,
            step: NULL_I64,
        });
        self
    }

    pub fn memory(&mut self, rank: i32, ts_ns: i64, allocated: i64, reserved: i64) -> &mut Self {
        let event_id = self.id();
        self.memory_events.push(MemoryEvent {
            rank,
            event_id,
            ts_ns,
            thread: 1,
            device_type: 1,
            device: 0,
            bytes: 1,
            total_allocated_bytes: allocated,
            total_reserved_bytes: reserved,
            ..MemoryEvent::null_row()
        });
        self
    }

    /// An allocation or release on thread 2, that of operators. `memory` is its device type and ordinal,
    /// `totals` what is allocated and reserved after it.
    pub fn memory_event(
        &mut self,
        rank: i32,
        (device_type, device): (i32, i32),
        ts_ns: i64,
        address: i64,
        bytes: i64,
        totals: Option<(i64, i64)>,
    ) -> &mut Self {
        let event_id = self.id();
        let (total_allocated_bytes, total_reserved_bytes) = totals.unwrap_or((NULL_I64, NULL_I64));
        self.memory_events.push(MemoryEvent {
            rank,
            event_id,
            ts_ns,
            thread: 2,
            device_type,
            device,
            address,
            bytes,
            total_allocated_bytes,
            total_reserved_bytes,
            ..MemoryEvent::null_row()
        });
        self
    }

    /// The last memory event falls into a step.
    pub fn in_step(&mut self, step: i64) -> &mut Self {
        *self.memory_events.step.0.last_mut().expect("a memory event") = step;
        self
    }

    /// The innermost operator around the last memory event is one of these: its event and name.
    pub fn in_op(&mut self, op: i64, name: &str) -> &mut Self {
        let name = self.name(name);
        *self.memory_events.op.0.last_mut().expect("a memory event") = op;
        *self.memory_events.op_name.0.last_mut().expect("a memory event") = name;
        self
    }

    /// Event of the last operator.
    pub fn last_op(&self) -> i64 {
        *self.cpu_ops.event_id.0.last().expect("an operator")
    }

    /// A kernel measured by the range profiler, launched by operator `op` inside `top` (empty: not
    /// known), with its counters. Launches are 1 us apart.
    pub fn measured(
        &mut self,
        rank: i32,
        top: &str,
        op: &str,
        counters: &[(&str, f64)],
    ) -> &mut Self {
        let (name, top_op_name, op_name) = (self.name("k"), self.name(top), self.name(op));
        let stack = if op.is_empty() { String::new() } else { format!("[\"{top}\",\"{op}\"]") };
        let op_stack = self.name(&stack);
        let event_id = self.id();
        let position = self.profiler_ranges.len() as i64;
        self.profiler_ranges.push(ProfilerRange {
            rank,
            event_id,
            name,
            position,
            launch_ts_ns: position * 1_000,
            top_op_name,
            op_name,
            op_stack,
            ..ProfilerRange::null_row()
        });
        for &(counter, value) in counters {
            let name = self.name(counter);
            self.range_counters.push(RangeCounter { rank, event_id, name, value });
        }
        self
    }

    /// The last operator's node in an execution trace.
    pub fn node(&mut self, node_id: i64, op_schema: &str, input_shapes: &str) -> &mut Self {
        let (op_schema, input_shapes) = (self.name(op_schema), self.name(input_shapes));
        let ops = &self.cpu_ops;
        let last = ops.len() - 1;
        self.execution_nodes.push(ExecutionNode {
            rank: ops.rank.0[last],
            node_id,
            name: ops.name.0[last],
            event_id: ops.event_id.0[last],
            op_schema,
            input_shapes,
            ..ExecutionNode::null_row()
        });
        self
    }

    pub fn device(&mut self, rank: i32, total_memory_bytes: i64) -> &mut Self {
        let name = self.name("H100");
        self.devices.push(Device {
            rank,
            device: 0,
            name,
            total_memory_bytes,
            compute_major: 9,
            compute_minor: 0,
            sm_count: 132,
            warp_size: 32,
            max_threads_per_sm: 2048,
        });
        self
    }

    pub fn tables(self) -> TableSet {
        let mut tables = TableSet::default();
        macro_rules! push {
            ($($table:ident),+) => { $(tables.push(stringify!($table), self.$table.into_batch(&self.strings));)+ };
        }
        push!(
            ranks,
            steps,
            devices,
            cpu_ops,
            runtime_calls,
            annotations,
            python_frames,
            kernels,
            memcpys,
            memsets,
            collectives,
            memory_events,
            profiler_ranges,
            range_counters,
            execution_nodes,
            counters,
            unpaired_events,
            spans,
            reading_warnings
        );
        self.files.push(&mut tables, &self.strings);
        tables
    }

    pub fn open(self) -> Session {
        self.open_with(Params::default())
    }

    pub fn open_with(self, params: Params) -> Session {
        Session::new(self.tables(), params).expect("a session")
    }
}

/// The rows of `view`, only `columns`, each value as text: `7`, `0.25`, `-`.
pub fn rows(session: &Session, view: &str, columns: &[&str]) -> Vec<String> {
    let table = table(session, view);
    let at: Vec<usize> =
        columns.iter().map(|c| table.index(c).unwrap_or_else(|| panic!("no column {c}"))).collect();
    table
        .rows
        .iter()
        .map(|row| at.iter().map(|&i| text(&row[i])).collect::<Vec<_>>().join(" "))
        .collect()
}

pub fn table(session: &Session, view: &str) -> MetricTable {
    session.metric_tables(&[view]).unwrap_or_else(|e| panic!("{view}: {e}")).remove(0)
}

/// Floats to six digits, so that sums may be written as people write them.
fn text(value: &Value) -> String {
    match value {
        Value::Float(v) => ((v * 1e6).round() / 1e6).to_string(),
        other => other.to_string(),
    }
}
