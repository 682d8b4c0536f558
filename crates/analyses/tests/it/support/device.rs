//! Rows of the device: kernels, copies, fills, collectives, and what the profiler measured of them.

use trace_model::StrId;
use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::{
    CapturedOp, Collective, Counter, Device, GraphMatch, GraphNode, Kernel, Memcpy, Memset,
    Processor, ProfilerRange, RangeCounter,
};

use super::{Launch, Run};

impl Run {
    /// A step of 1000 ns whose first kernel ends after 100 ns. The second kernel starts 700 ns later; `launch` is the start and the
    /// duration of its launch.
    pub fn step_with_idle_gap(launch: (i64, i64)) -> Self {
        let mut run = Self::default();
        run.rank(0)
            .step(0, 0, 0, 1_000, true)
            .op_on(0, 9, "aten::add", 0, 10)
            .kernel(0, "computation", 0, 100, Some((-20, 10)))
            .kernel(0, "computation", 800, 200, Some(launch));
        run
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
        if call.is_some() {
            set_last!(self.runtime_calls, device_events, 1);
        }
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
            launch: call.unwrap_or(NULL_I64),
            launch_name,
            launch_ts_ns: launch.map_or(NULL_I64, |l| l.0),
            launch_dur_ns: launch.map_or(NULL_I64, |l| l.1),
            launch_thread: launch.map_or(NULL_I32, |_| 1),
            step: step.unwrap_or(NULL_I64),
            ..Kernel::null_row()
        });
        self
    }

    /// Sets if the last kernel multiplies on tensor cores: yes, no or unknown.
    pub fn on_tensor_cores(&mut self, verdict: &str) -> &mut Self {
        let verdict = self.name(verdict);
        set_last!(self.kernels, tensor_cores, verdict);
        self
    }

    /// Gives the last kernel the correlation id of a call. Its launch stays unknown, because calls of other processes may have the
    /// same id.
    pub fn correlated(&mut self, call: i64) -> &mut Self {
        set_last!(self.kernels, correlation, call);
        self
    }

    /// Adds a call with the correlation id of the last kernel.
    pub fn call_with_id_of_launch(&mut self, name: &str, ts_ns: i64, dur_ns: i64) -> &mut Self {
        let kernels = &self.kernels;
        let last = kernels.len() - 1;
        let (rank, correlation) = (kernels.rank.0[last], kernels.correlation.0[last]);
        self.call(rank, name, ts_ns, dur_ns);
        set_last!(self.runtime_calls, correlation, correlation);
        self
    }

    /// The last kernel belongs to a step.
    pub fn with_step(&mut self, step: i64) -> &mut Self {
        set_last!(self.kernels, step, step);
        self
    }

    /// The last kernel was launched by this thread.
    pub fn launched_by_thread(&mut self, thread: i32) -> &mut Self {
        set_last!(self.kernels, launch_thread, thread);
        self
    }

    /// Grid, block, registers and blocks a multiprocessor of the last kernel.
    pub fn with_launch_shape(
        &mut self,
        grid: &str,
        block: &str,
        registers: i32,
        per_sm: f64,
    ) -> &mut Self {
        let (grid, block) = (self.name(grid), self.name(block));
        let kernels = &mut self.kernels;
        set_last!(kernels, grid, grid);
        set_last!(kernels, block, block);
        set_last!(kernels, registers, registers);
        set_last!(kernels, blocks_per_sm, per_sm);
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

    /// The last device has this compute capability and number of multiprocessors.
    pub fn of_chip(&mut self, (major, minor): (i32, i32), sm_count: i32) -> &mut Self {
        set_last!(self.devices, compute_major, major);
        set_last!(self.devices, compute_minor, minor);
        set_last!(self.devices, sm_count, sm_count);
        self
    }

    /// The last kernel is called so.
    pub fn kernel_named(&mut self, name: &str) -> &mut Self {
        let name = self.name(name);
        set_last!(self.kernels, name, name);
        self
    }

    /// Gives the last kernel what the profiler says of its shape.
    pub fn with_occupancy(&mut self, blocks_per_sm: f64, occupancy_ratio: f64) -> &mut Self {
        set_last!(self.kernels, blocks_per_sm, blocks_per_sm);
        set_last!(self.kernels, occupancy_ratio, occupancy_ratio);
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
            launch: call.unwrap_or(NULL_I64),
            launch_name,
            launch_ts_ns: launch.map_or(NULL_I64, |l| l.0),
            launch_dur_ns: launch.map_or(NULL_I64, |l| l.1),
            launch_thread: launch.map_or(NULL_I32, |_| 1),
            bytes,
            ..Memcpy::null_row()
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
            bytes: 64,
            ..Memset::null_row()
        });
        self
    }

    /// The last kernel is launched by the last operator.
    pub fn launched_by_op(&mut self) -> &mut Self {
        let ops = &self.cpu_ops;
        let (op, name) = (ops.event_id.0.last(), ops.name.0.last());
        set_last!(self.kernels, op, *op.expect("an operator"));
        set_last!(self.kernels, op_name, *name.expect("an operator"));
        self
    }

    /// The last kernel and its call are of another thread than most.
    pub fn launched_and_called_by_thread(&mut self, thread: i32) -> &mut Self {
        set_last!(self.kernels, launch_thread, thread);
        set_last!(self.runtime_calls, thread, thread);
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

    /// The last kernel replays a node that the profiler numbers.
    pub fn replays_node(&mut self, graph_id: i64, graph_node_id: i64) -> &mut Self {
        set_last!(self.kernels, graph_id, graph_id);
        set_last!(self.kernels, graph_node_id, graph_node_id);
        self
    }

    /// Sets the module of the last `count` kernels.
    pub fn in_module(&mut self, count: usize, module: &str) -> &mut Self {
        let module = self.name(module);
        for row in self.kernels.len() - count..self.kernels.len() {
            self.kernels.module.set(row, module);
        }
        self
    }

    /// The last kernels, which a graph launched, replay a graph of which no capture is known.
    pub fn without_capture(&mut self, count: usize) -> &mut Self {
        let none = self.name("none");
        let first = self.kernels.len() - count;
        self.graph_matches.push(GraphMatch {
            rank: self.kernels.rank.0[first],
            launch: self.kernels.launch.0[first],
            capture: NULL_I64,
            confidence: none,
            activity_count: count as i64,
            matched_count: 0,
        });
        self
    }

    /// The last kernels, which a graph launched, replay captured calls of this operator.
    pub fn captured_from(&mut self, count: usize, op_name: &str, input_dims: &str) -> &mut Self {
        let rank = *self.kernels.rank.0.last().expect("a kernel");
        let (name, kind, exact) = (self.name(op_name), self.name("kernel"), self.name("exact"));
        let dims = self.name(input_dims);
        let first = self.kernels.len() - count;
        for row in first..self.kernels.len() {
            let node_id = self.graph_nodes.len() as i64;
            self.captured_ops.push(CapturedOp {
                rank,
                op: -1 - node_id,
                name,
                thread: -1,
                input_dims: dims,
                ..CapturedOp::null_row()
            });
            self.graph_nodes.push(GraphNode {
                rank,
                node_id,
                node_order: (row - first) as i64,
                kind,
                name: self.kernels.name.0[row],
                op: -1 - node_id,
                op_name: name,
                ..GraphNode::null_row()
            });
            self.kernels.graph_node.0[row] = node_id;
            self.kernels.op.0[row] = NULL_I64;
            self.kernels.op_name.0[row] = name;
        }
        self.graph_matches.push(GraphMatch {
            rank,
            launch: self.kernels.launch.0[first],
            capture: 0,
            confidence: exact,
            activity_count: count as i64,
            matched_count: count as i64,
        });
        self
    }

    /// A sample of a hardware counter of device 0.
    pub fn hardware_counter(&mut self, rank: i32, name: &str, ts_ns: i64, value: f64) -> &mut Self {
        let (event_id, name, device) = (self.id(), self.name(name), self.name("GPU 0"));
        self.counters.push(Counter {
            rank,
            event_id,
            ts_ns,
            name,
            device,
            value,
            ..Counter::null_row()
        });
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
            set_last!(self.runtime_calls, parent, op);
        }
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
            input_elements: elements,
            ..Collective::null_row()
        });
        self
    }

    /// A kernel measured by the range profiler, launched by operator `op` inside `top` (empty: not
    /// known), with its counters. Launches are 1 us apart.
    pub fn measured_kernel(
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
    /// The processor of a rank.
    pub fn processor(
        &mut self,
        rank: i32,
        core_count: i32,
        thread_count: i32,
        flags: &str,
    ) -> &mut Self {
        let (name, flags) = (self.name("CPU"), self.strings.intern(flags));
        self.processors.push(Processor { rank, name, core_count, thread_count, flags });
        self
    }
}
