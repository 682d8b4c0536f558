//! What rows of a tiny run may say besides the usual: names of copies, annotations, shapes, warnings.

use trace_model::column::NULL_I32;
use trace_model::tables::{ReadingWarning, Span};

use super::Run;

impl Run {
    /// Name and direction of the last copy.
    pub fn copied(&mut self, name: &str, kind: &str) -> &mut Self {
        let (name, kind) = (self.name(name), self.name(kind));
        *self.memcpys.name.0.last_mut().expect("a copy") = name;
        *self.memcpys.kind.0.last_mut().expect("a copy") = kind;
        self
    }

    /// Annotation around the launch of the last kernel.
    pub fn inside(&mut self, annotation: &str) -> &mut Self {
        let annotation = self.name(annotation);
        *self.kernels.annotation.0.last_mut().expect("a kernel") = annotation;
        self
    }

    /// Shapes of the inputs of the last operator, JSON.
    pub fn with_dims(&mut self, dims: &str) -> &mut Self {
        let dims = self.name(dims);
        *self.cpu_ops.input_dims.0.last_mut().expect("an operator") = dims;
        self
    }

    /// Step and autograd number of the last operator.
    pub fn recorded(&mut self, step: i64, sequence: i64) -> &mut Self {
        *self.cpu_ops.step.0.last_mut().expect("an operator") = step;
        *self.cpu_ops.sequence.0.last_mut().expect("an operator") = sequence;
        self
    }

    /// The last copy is one to the device, by this operator.
    pub fn uploaded_by(&mut self, op: i64) -> &mut Self {
        let kind = self.name("HtoD");
        *self.memcpys.kind.0.last_mut().expect("a copy") = kind;
        *self.memcpys.op.0.last_mut().expect("a copy") = op;
        self
    }

    /// The last operator was called by this one.
    pub fn called_by(&mut self, op: i64) -> &mut Self {
        *self.cpu_ops.parent.0.last_mut().expect("an operator") = op;
        self
    }

    /// The last Python frame is on the thread that launches.
    pub fn on_launch_thread(&mut self) -> &mut Self {
        *self.python_frames.thread.0.last_mut().expect("a frame") = 1;
        self
    }

    /// The job has that many ranks.
    pub fn world(&mut self, world_size: i32) -> &mut Self {
        self.ranks.world_size.0.fill(world_size);
        self
    }

    /// All ranks were recorded with shapes and stacks.
    pub fn with_shapes(&mut self) -> &mut Self {
        self.ranks.has_shapes.0.fill(true);
        self.ranks.has_stacks.0.fill(true);
        self
    }

    /// The last collective is between that many ranks.
    pub fn of_group(&mut self, group_size: i32, dtype: &str) -> &mut Self {
        let dtype = self.name(dtype);
        *self.collectives.group_size.0.last_mut().expect("a collective") = group_size;
        *self.collectives.dtype.0.last_mut().expect("a collective") = dtype;
        self
    }

    /// Overhead of the profiler.
    pub fn overhead(&mut self, rank: i32, name: &str, ts_ns: i64, dur_ns: i64) -> &mut Self {
        let (name, category) = (self.name(name), self.name("overhead"));
        let event_id = self.id();
        self.spans.push(Span { rank, event_id, name, category, ts_ns, dur_ns, ..Span::null_row() });
        self
    }

    /// A warning of reading; rank -1 is the run.
    pub fn warning(&mut self, rank: i32, code: &str, warning_count: i64) -> &mut Self {
        let code = self.name(code);
        let rank = if rank < 0 { NULL_I32 } else { rank };
        self.reading_warnings.push(ReadingWarning {
            rank,
            code,
            warning_count,
            ..ReadingWarning::null_row()
        });
        self
    }
}
