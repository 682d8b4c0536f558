//! The simulation of one rank: a host clock, and a clock per stream of its device.
//!
//! The host runs the training loop and spends the time that each operator costs. A launch queues a kernel on a
//! stream, which runs it once it is launched and the previous kernel is done. Where the host has to wait for the
//! device, its clock moves forward. Nothing else makes the device idle, so the cause of each gap is known.

mod step;

use super::model::{Kernel, Model, Op};
use super::options::{Bottleneck, Options};
use super::record::{Call, Exchange, HostKind, Name, Record, Thread};
use super::rng::Rng;

/// Compute stream, as `PyTorch` numbers it under CUPTI.
pub(super) const COMPUTE: u32 = 7;
/// Stream of the process group.
pub(super) const COMM: u32 = 24;
/// Number of the first recorded step.
pub(super) const FIRST_STEP: u32 = 3;
/// Start of the recording on the trace's clock.
pub(super) const START_NS: i64 = 4_395_776_108_000_000;
/// Bytes that each step leaks.
const LEAK_BYTES: i64 = 160 << 20;
/// Maximum of all leaked bytes: with more, the device would be full.
const MOST_LEAKED_BYTES: i64 = DEVICE_BYTES * 12 / 100;
/// Memory of the device.
pub(super) const DEVICE_BYTES: i64 = 85_017_493_504;
/// Python ids of the frames that enclose the recording; `json` writes them.
pub(super) const OUTER_FRAMES: u64 = 2;

/// From the end of a launching call to the earliest start of the kernel.
const LAUNCH_LATENCY_NS: i64 = 2_300;
/// Between two kernels on a stream.
const KERNEL_GAP_NS: i64 = 350;

/// The state of one rank between two steps.
#[derive(Debug)]
pub(super) struct Sim<'m> {
    model: &'m Model,
    bottleneck: Bottleneck,
    stacks: bool,
    ranks: u32,
    straggles: bool,
    recording: bool,
    records: Vec<Record<'m>>,
    rng: Rng,
    clock: i64,
    compute_free: i64,
    comm_free: i64,
    external: u64,
    correlation: u64,
    sequence: u64,
    flow: u64,
    python: u64,
    frames: Vec<u64>,
    allocated: i64,
    /// The part of `allocated` that steps have leaked.
    leaked: i64,
    /// Collectives launched in this step: arrival at the device, elements, ids.
    pending: Vec<Pending>,
    step: OpenStep,
    /// First device activity since the step, its forward pass and its optimizer call began.
    device_starts: [Option<i64>; 3],
}

/// Positions in [`Sim::device_starts`].
const STEP: usize = 0;
const FORWARD: usize = 1;
const OPTIMIZER: usize = 2;

/// The current step: its annotation and its Python frame.
#[derive(Debug, Clone, Copy, Default)]
struct OpenStep {
    annotation: usize,
    frame: usize,
    external: u64,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    arrival: i64,
    elements: u64,
    external: u64,
    annotation: u64,
    correlation: u64,
}

impl<'m> Sim<'m> {
    /// Rank `rank` at the start of the recording. Without `recording`, only the clocks move.
    pub(super) fn new(model: &'m Model, options: &Options, rank: u32, recording: bool) -> Self {
        let mut rng = Rng::new(options.seed, rank);
        let start = START_NS + rng.jitter(6_000, 900);
        Self {
            model,
            bottleneck: options.bottleneck,
            stacks: options.stacks,
            ranks: options.ranks,
            straggles: options.bottleneck == Bottleneck::Straggler && rank + 1 == options.ranks,
            recording,
            records: Vec::new(),
            rng,
            clock: start,
            compute_free: start,
            comm_free: start,
            external: 0,
            correlation: 1_000,
            sequence: 100,
            flow: 0,
            python: OUTER_FRAMES,
            frames: vec![OUTER_FRAMES],
            allocated: DEVICE_BYTES * 30 / 100,
            leaked: 0,
            pending: Vec::new(),
            step: OpenStep::default(),
            device_starts: [None; 3],
        }
    }

    /// The current time of the host.
    pub(super) fn clock(&self) -> i64 {
        self.clock
    }

    /// The records since the last call.
    pub(super) fn take_records(&mut self) -> Vec<Record<'m>> {
        std::mem::take(&mut self.records)
    }

    /// Collectives of one step, in order, with their nominal length.
    pub(super) fn collectives(model: &Model) -> Vec<i64> {
        // The first and the last bucket are small. With many ranks, one of them is always slightly late, and the
        // time of the last collective adds to that.
        let edge = model.all_reduce.dur_ns * 2 / 10;
        let mut all = vec![edge];
        all.extend((0..model.blocks).map(|_| model.all_reduce.dur_ns));
        all.push(edge);
        all
    }

    /// Runs the first part of a step, until the last collective is launched. Returns when each collective could
    /// start on this rank, regardless of earlier collectives.
    pub(super) fn forward_backward(&mut self, number: u32) -> Vec<i64> {
        // A healthy step takes the forward kernels' time / 0.35; shares below are per mille of it.
        let step_ns = self.model.forward_ns() * 1000 / 350;
        self.pending.clear();
        let external = self.next_external();
        let annotation =
            self.open(Thread::Main, HostKind::Annotation, Name::Step(number), external);
        let frame = self.enter("train.py(61): train_step");
        self.step = OpenStep { annotation, frame, external };
        self.device_starts = [None; 3];
        self.clock += 2_000;
        self.load(step_ns);
        self.zero_grad(step_ns);
        for _ in 0..2 {
            self.copy_batch(step_ns * 3 / 1000);
        }
        let first_sequence = self.sequence;
        self.forward();
        self.backward(first_sequence);
        self.pending.iter().map(|p| p.arrival).collect()
    }

    /// Runs the rest of the step, given the end of each collective.
    pub(super) fn finish(&mut self, number: u32, ends: &[i64]) {
        let step_ns = self.model.forward_ns() * 1000 / 350;
        for (pending, &end) in std::mem::take(&mut self.pending).into_iter().zip(ends) {
            let ts = pending.arrival.max(self.comm_free + KERNEL_GAP_NS);
            self.comm_free = end;
            self.push(Record::Kernel {
                kernel: &self.model.all_reduce,
                stream: COMM,
                ts,
                dur: end - ts,
                external: pending.external,
                correlation: pending.correlation,
                exchange: Some(Exchange::AllReduce(pending.elements)),
            });
            let name = Name::Plain("nccl:all_reduce");
            let (dur, external) = (end - ts, pending.annotation);
            self.push(Record::DeviceAnnotation { name, stream: COMM, ts, dur, external });
        }
        if self.ranks > 1 {
            self.call(Call::StreamWaitEvent, Thread::Autograd, 1_100, 0);
            self.compute_free = self.compute_free.max(self.comm_free);
        }
        self.clock += 6_000;
        self.free_all();
        if self.bottleneck == Bottleneck::MemoryLeak {
            self.keep();
        }
        self.call(Call::EventRecord, Thread::Main, 1_300, 0);
        let backward_done = self.compute_free;
        self.optimizer(step_ns * 60 / 1000);
        // The training loop lets the host run at most one optimizer step ahead of the device.
        let ts = self.clock;
        self.clock = self.clock.max(backward_done) + 2_500;
        self.runtime(Call::EventSynchronize, Thread::Main, ts, 0, false);
        self.clock += 4_000;

        let OpenStep { annotation, frame, external } = self.step;
        self.leave(frame);
        self.close(annotation);
        self.annotate_compute(Name::Step(number), STEP, external);
        self.clock += 1_500;
    }

    /// Stops the profiler, which waits for the device.
    pub(super) fn stop(&mut self) {
        let ts = self.clock + 15_000;
        self.clock = ts.max(self.compute_free).max(self.comm_free) + 5_000;
        self.runtime(Call::DeviceSynchronize, Thread::Main, ts, 0, false);
    }

    /// Runs an operator tree; kernels take `slow` percent of their nominal time.
    fn op(&mut self, op: &'m Op, budget: i64, thread: Thread, sequence: Option<u64>, slow: i64) {
        let external = self.next_external();
        let ts = self.clock;
        let slot = self.push(Record::Host {
            kind: HostKind::Operator,
            thread,
            name: Name::Plain(op.name),
            args: &op.args,
            sequence,
            external,
            ts,
            end: ts,
        });
        let total = op.total_weight();
        let own = budget * op.weight / total;
        let end = self.clock + budget;
        self.clock += own * 4 / 10;
        for child in &op.children {
            self.op(child, budget * child.total_weight() / total, thread, None, slow);
        }
        for kernel in &op.kernels {
            let call_ns = (own * 3 / 10 / op.kernels.len() as i64).min(6_000);
            self.launch(kernel, thread, call_ns, external, slow);
        }
        self.clock = self.clock.max(end);
        self.close(slot);
    }

    fn launch(
        &mut self,
        kernel: &'m Kernel,
        thread: Thread,
        call_ns: i64,
        external: u64,
        slow: i64,
    ) {
        let ts = self.clock;
        self.clock += self.rng.jitter(call_ns, 150);
        let correlation = self.runtime(Call::LaunchKernel, thread, ts, external, true);
        let nominal = if self.bottleneck == Bottleneck::SmallKernels {
            1_200 + kernel.dur_ns / 9
        } else {
            kernel.dur_ns * slow / 100
        };
        let dur = self.rng.jitter(nominal, 25);
        let ts = self.occupy_compute(dur);
        self.push(Record::Kernel {
            kernel,
            stream: COMPUTE,
            ts,
            dur,
            external,
            correlation,
            exchange: None,
        });
    }

    fn copy(&mut self, to_device: bool, bytes: i64, external: u64) {
        let ts = self.clock;
        self.clock += self.rng.jitter(7_000, 100);
        let correlation = self.runtime(Call::MemcpyAsync, Thread::Main, ts, external, true);
        // 25 GB/s over PCIe, plus a fixed cost.
        let dur = 1_400 + bytes / 25;
        let ts = self.occupy_compute(dur);
        self.push(Record::Copy { to_device, ts, dur, bytes, external, correlation });
    }

    /// A CUDA call that neither launches nor waits.
    fn call(&mut self, call: Call, thread: Thread, dur: i64, external: u64) {
        let ts = self.clock;
        self.clock += dur;
        self.runtime(call, thread, ts, external, false);
    }

    /// Records a CUDA call from `ts` until now.
    fn runtime(
        &mut self,
        call: Call,
        thread: Thread,
        ts: i64,
        external: u64,
        launches: bool,
    ) -> u64 {
        self.correlation += 1;
        let (correlation, end) = (self.correlation, self.clock);
        self.push(Record::Runtime { call, thread, ts, end, external, correlation, launches });
        correlation
    }

    fn peak_bytes(&self) -> i64 {
        let per_mille = match self.bottleneck {
            Bottleneck::Memory => 986,
            Bottleneck::MemoryLeak => 820,
            _ => 880,
        };
        DEVICE_BYTES / 1000 * per_mille + self.leaked
    }

    fn allocate(&mut self, bytes: i64, thread: Thread) {
        let address = 0x7f40_0000_0000 + self.allocated;
        self.allocated += bytes;
        let (ts, allocated) = (self.clock, self.allocated);
        self.push(Record::Memory { thread, ts, bytes, address, allocated });
    }

    /// Frees the activation allocated last.
    fn release(&mut self) {
        let layers = self.model.layers().count() as i64;
        let bytes = (self.peak_bytes() - self.idle_bytes()) / layers / 512 * 512;
        self.free(bytes, Thread::Autograd);
    }

    /// Frees the batch.
    fn free_all(&mut self) {
        for _ in 0..2 {
            self.free(self.model.batch_bytes, Thread::Main);
        }
    }

    fn free(&mut self, bytes: i64, thread: Thread) {
        self.allocated -= bytes;
        let (ts, allocated) = (self.clock, self.allocated);
        let address = 0x7f40_0000_0000 + allocated;
        self.push(Record::Memory { thread, ts, bytes: -bytes, address, allocated });
    }

    /// Bytes allocated before the first activation: weights, optimizer state, batch.
    fn idle_bytes(&self) -> i64 {
        DEVICE_BYTES * 30 / 100 + 2 * self.model.batch_bytes + self.leaked
    }

    fn host_op(&mut self, name: &'static str, dur: i64) {
        let external = self.next_external();
        let slot = self.open(Thread::Main, HostKind::Operator, Name::Plain(name), external);
        self.clock += dur;
        self.close(slot);
    }

    fn open(&mut self, thread: Thread, kind: HostKind, name: Name, external: u64) -> usize {
        let ts = self.clock;
        let (args, sequence) = ("", None);
        self.push(Record::Host { kind, thread, name, args, sequence, external, ts, end: ts })
    }

    fn open_backward(&mut self, name: Name, external: u64, sequence: u64) -> usize {
        let ts = self.clock;
        self.push(Record::Host {
            kind: HostKind::Operator,
            thread: Thread::Autograd,
            name,
            args: "",
            sequence: Some(sequence),
            external,
            ts,
            end: ts,
        })
    }

    fn enter(&mut self, name: &'static str) -> usize {
        self.enter_frame(Name::Plain(name))
    }

    fn enter_module(&mut self, class: &'static str, number: u32) -> usize {
        self.enter_frame(Name::Module(class, number))
    }

    /// Opens a Python frame on the main thread. Returns 0 if stacks are not recorded.
    fn enter_frame(&mut self, name: Name) -> usize {
        if !self.stacks {
            return 0;
        }
        self.python += 1;
        let (id, ts) = (self.python, self.clock);
        let parent = self.frames.last().copied().unwrap_or(OUTER_FRAMES);
        self.frames.push(id);
        1 + self.push(Record::Python { thread: Thread::Main, name, id, parent, ts, end: ts })
    }

    fn leave(&mut self, frame: usize) {
        if frame > 0 {
            self.frames.pop();
            self.close(frame - 1);
        }
    }

    /// Records the annotation on the device: from the first activity launched in it to the last.
    fn annotate_compute(&mut self, name: Name, which: usize, external: u64) {
        if let Some(ts) = self.device_starts[which] {
            let dur = self.compute_free - ts;
            self.push(Record::DeviceAnnotation { name, stream: COMPUTE, ts, dur, external });
        }
    }

    /// Queues work of length `dur` on the compute stream. Returns its start.
    fn occupy_compute(&mut self, dur: i64) -> i64 {
        let ts = (self.clock + LAUNCH_LATENCY_NS).max(self.compute_free + KERNEL_GAP_NS);
        self.compute_free = ts + dur;
        for start in &mut self.device_starts {
            start.get_or_insert(ts);
        }
        ts
    }

    fn next_external(&mut self) -> u64 {
        self.external += 1;
        self.external
    }

    fn push(&mut self, record: Record<'m>) -> usize {
        if self.recording {
            self.records.push(record);
        }
        self.records.len().saturating_sub(1)
    }

    fn close(&mut self, slot: usize) {
        let now = self.clock;
        if let Some(record) = self.records.get_mut(slot) {
            record.close(now);
        }
    }
}
