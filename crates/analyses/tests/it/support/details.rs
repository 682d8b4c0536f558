//! Rarely used columns of a tiny run: names of copies, annotations, shapes, warnings.

use trace_model::column::NULL_I32;
use trace_model::tables::{ReadingWarning, Span};

use super::Run;

impl Run {
    /// Name and direction of the last copy.
    pub fn with_direction(&mut self, name: &str, kind: &str) -> &mut Self {
        let (name, kind) = (self.name(name), self.name(kind));
        set_last!(self.memcpys, name, name);
        set_last!(self.memcpys, kind, kind);
        self
    }

    /// Annotation around the launch of the last kernel.
    pub fn in_annotation(&mut self, annotation: &str) -> &mut Self {
        let annotation = self.name(annotation);
        set_last!(self.kernels, annotation, annotation);
        self
    }

    /// Step and autograd number of the last operator.
    pub fn in_step_with_sequence(&mut self, step: i64, sequence: i64) -> &mut Self {
        set_last!(self.cpu_ops, step, step);
        set_last!(self.cpu_ops, sequence, sequence);
        self
    }

    /// The last copy is one to the device, by this operator.
    pub fn upload_of_op(&mut self, op: i64) -> &mut Self {
        let kind = self.name("HtoD");
        set_last!(self.memcpys, kind, kind);
        set_last!(self.memcpys, op, op);
        self
    }

    /// The last operator was called by this one.
    pub fn with_parent_op(&mut self, op: i64) -> &mut Self {
        set_last!(self.cpu_ops, parent, op);
        self
    }

    /// The last Python frame is on the thread that launches.
    pub fn on_launch_thread(&mut self) -> &mut Self {
        set_last!(self.python_frames, thread, 1);
        self
    }

    /// The job has that many ranks.
    pub fn with_world_size(&mut self, world_size: i32) -> &mut Self {
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
    pub fn in_group(&mut self, group_size: i32, dtype: &str) -> &mut Self {
        let dtype = self.name(dtype);
        set_last!(self.collectives, group_size, group_size);
        set_last!(self.collectives, dtype, dtype);
        self
    }

    /// Overhead of the profiler.
    pub fn overhead(&mut self, rank: i32, name: &str, ts_ns: i64, dur_ns: i64) -> &mut Self {
        self.span(rank, "overhead", name, ts_ns, dur_ns)
    }

    /// A range of a category that has no table of its own.
    pub fn span(
        &mut self,
        rank: i32,
        category: &str,
        name: &str,
        ts_ns: i64,
        dur_ns: i64,
    ) -> &mut Self {
        let (name, category) = (self.name(name), self.name(category));
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
