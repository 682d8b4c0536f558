//! Rows of the host: calls, annotations, operators, Python frames, execution traces.

use trace_model::tables::{Annotation, CpuOp, ExecutionNode, PythonFrame, RuntimeCall};

use super::Run;

impl Run {
    /// Types of the inputs of the last operator, JSON.
    pub fn with_input_types(&mut self, types: &str) -> &mut Self {
        let types = self.name(types);
        set_last!(self.cpu_ops, input_types, types);
        self
    }

    /// Shapes of the inputs of the last operator, JSON.
    pub fn with_input_dims(&mut self, dims: &str) -> &mut Self {
        let dims = self.name(dims);
        set_last!(self.cpu_ops, input_dims, dims);
        self
    }

    /// Autograd's number of the last operator.
    pub fn with_sequence(&mut self, sequence: i64) -> &mut Self {
        set_last!(self.cpu_ops, sequence, sequence);
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
            depth: 0,
            correlation: event_id,
            device_events: 0,
            ..RuntimeCall::null_row()
        });
        event_id
    }

    /// Adds a kernel launch in a step; its work was not recorded.
    pub fn lost_launch(&mut self, rank: i32, step: i64, ts_ns: i64) -> &mut Self {
        self.call(rank, "cudaLaunchKernel", ts_ns, 5);
        set_last!(self.runtime_calls, step, step);
        self
    }

    pub fn annotation(&mut self, rank: i32, name: &str, ts_ns: i64, dur_ns: i64) -> &mut Self {
        let name = self.name(name);
        let event_id = self.id();
        self.annotations.push(Annotation {
            rank,
            event_id,
            name,
            ts_ns,
            dur_ns,
            self_dur_ns: dur_ns,
            thread: 1,
            depth: 0,
            ..Annotation::null_row()
        });
        self
    }

    /// The last annotation is on another thread than most.
    pub fn annotation_on(&mut self, thread: i32) -> &mut Self {
        set_last!(self.annotations, thread, thread);
        self
    }

    /// The last annotation belongs to a step.
    pub fn annotation_in_step(&mut self, step: i64) -> &mut Self {
        set_last!(self.annotations, step, step);
        self
    }

    /// Makes the last annotation the device's, on the lane of the kernels.
    pub fn as_device_annotation(&mut self) -> &mut Self {
        set_last!(self.annotations, on_device, true);
        set_last!(self.annotations, thread, 0);
        self
    }

    /// Puts the last operator into `depth` others.
    pub fn at_depth(&mut self, depth: i32) -> &mut Self {
        set_last!(self.cpu_ops, depth, depth);
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
            depth: 0,
            ..CpuOp::null_row()
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
        set_last!(self.cpu_ops, thread, thread);
        self
    }

    /// Says from which line the last operator was called and the last kernel launched.
    pub fn at_source_line(&mut self, frame: &str, line: &str) -> &mut Self {
        let (stack, source) = (self.name(frame), self.name(line));
        set_last!(self.cpu_ops, call_stack, stack);
        set_last!(self.cpu_ops, source, source);
        set_last!(self.kernels, source, source);
        self
    }

    /// Says from which line the last call was made.
    pub fn call_at_source_line(&mut self, line: &str) -> &mut Self {
        let source = self.name(line);
        set_last!(self.runtime_calls, source, source);
        self
    }

    /// Arguments of the last operator that no column holds.
    pub fn with_args(&mut self, args: &str) -> &mut Self {
        self.cpu_ops.args.extend_last(args);
        self
    }

    /// A Python frame on thread 2.
    pub fn python_frame(&mut self, rank: i32, name: &str, ts_ns: i64, dur_ns: i64) -> &mut Self {
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

    /// Event of the last operator.
    pub fn last_op(&self) -> i64 {
        *self.cpu_ops.event_id.0.last().expect("an operator")
    }

    /// The last operator's node in an execution trace.
    pub fn execution_node(
        &mut self,
        node_id: i64,
        op_schema: &str,
        input_shapes: &str,
    ) -> &mut Self {
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
}
