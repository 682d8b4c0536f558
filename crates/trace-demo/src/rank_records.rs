//! Events of one rank, of simulations that know when each kernel runs: the host launches ahead, one call after the other.

use super::model::Kernel;
use super::record::{Call, Exchange, HostKind, Name, Record, Thread};
use super::sim::{COMPUTE, START_NS};

/// Time of the host from the start of an event to what it contains.
pub(super) const OPEN_NS: i64 = 1_000;
/// Time of the host for a call, and from there to the start of a kernel.
pub(super) const CALL_NS: i64 = 6_000;
pub(super) const LAUNCH_NS: i64 = 4_000;
pub(super) const OPTIMIZER_NS: i64 = 600_000;

/// A kernel whose durations the simulation chooses.
pub(super) const fn kernel(name: &'static str) -> Kernel {
    Kernel {
        name,
        dur_ns: 0,
        grid: [16, 32, 1],
        block: [384, 1, 1],
        registers: 168,
        shared_memory_bytes: 213_040,
        occupancy_pct: 19,
    }
}

pub(super) static GEMM: Kernel = kernel("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT");
pub(super) static GRADIENT: Kernel = kernel("nvjet_tst_256x128_64x4_2x1_v_bz_coopA_NNT");
pub(super) static ADAM: Kernel = kernel(
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4> >()",
);

pub(super) static ALL_GATHER: Kernel =
    kernel("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
pub(super) static REDUCE_SCATTER: Kernel =
    kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)");

/// The events so far, and the clock of the host.
#[derive(Debug, Default)]
pub(super) struct RankRecords {
    pub(super) clock: i64,
    external: u64,
    correlation: u64,
    pub(super) records: Vec<Record<'static>>,
}

impl RankRecords {
    /// Nothing, at the start of the recording.
    pub(super) fn new() -> Self {
        Self { clock: START_NS, ..Self::default() }
    }

    /// Begins a host event; [`Self::close`] takes what it returns.
    pub(super) fn open(&mut self, kind: HostKind, name: Name, thread: Thread) -> usize {
        self.open_with(kind, name, thread, "")
    }

    pub(super) fn open_with(
        &mut self,
        kind: HostKind,
        name: Name,
        thread: Thread,
        args: &'static str,
    ) -> usize {
        self.external += 1;
        let (ts, external) = (self.clock, self.external);
        self.clock += OPEN_NS;
        self.records.push(Record::Host {
            kind,
            thread,
            name,
            args,
            sequence: None,
            external,
            ts,
            end: ts,
        });
        self.records.len() - 1
    }

    pub(super) fn close(&mut self, slot: usize) {
        self.clock += 500;
        let at = self.clock;
        self.records[slot].close(at);
    }

    /// A call that launches a kernel, which runs from `ts` for `dur`.
    pub(super) fn launch(
        &mut self,
        kernel: &'static Kernel,
        stream: u32,
        (ts, dur): (i64, i64),
        exchange: Option<Exchange>,
        thread: Thread,
    ) {
        self.correlation += 1;
        let (correlation, external, call_ts) = (self.correlation, self.external, self.clock);
        self.clock += CALL_NS;
        self.records.push(Record::Runtime {
            call: if exchange.is_some() { Call::LaunchKernelExC } else { Call::LaunchKernel },
            thread,
            ts: call_ts,
            end: self.clock,
            external,
            correlation,
            launches: true,
        });
        self.records.push(Record::Kernel {
            kernel,
            stream,
            ts,
            dur,
            external,
            correlation,
            exchange,
        });
    }

    /// An exchange with the events that PyTorch records around it.
    pub(super) fn exchange(
        &mut self,
        (call, range): (&'static str, &'static str),
        exchange: Exchange,
        kernel: &'static Kernel,
        stream: u32,
        time: (i64, i64),
        thread: Thread,
    ) {
        let outer = self.open(HostKind::Operator, Name::Plain(call), thread);
        let name = Name::Plain("record_param_comms");
        let slot = self.open(HostKind::Exchange(exchange), name, thread);
        let inner = self.open(HostKind::Annotation, Name::Plain(range), thread);
        self.launch(kernel, stream, time, Some(exchange), thread);
        self.close(inner);
        self.close(slot);
        self.close(outer);
    }

    /// Launches a kernel for an operator.
    pub(super) fn compute(
        &mut self,
        operator: Name,
        args: &'static str,
        kernel: &'static Kernel,
        time: (i64, i64),
        thread: Thread,
    ) {
        let slot = self.open_with(HostKind::Operator, operator, thread, args);
        self.launch(kernel, COMPUTE, time, None, thread);
        self.close(slot);
    }

    /// Ends a step: the optimizer runs from `at`, and the host waits for it.
    pub(super) fn finish_step(&mut self, step: usize, at: i64) {
        self.optimize(at);
        self.synchronize(at + OPTIMIZER_NS);
        self.close(step);
    }

    /// Runs the optimizer from `at`.
    pub(super) fn optimize(&mut self, at: i64) {
        let name = Name::Plain("Optimizer.step#AdamW.step");
        let optimizer = self.open(HostKind::Annotation, name, Thread::Main);
        self.launch(&ADAM, COMPUTE, (at, OPTIMIZER_NS), None, Thread::Main);
        self.close(optimizer);
    }

    /// Waits for the device, which is done at `end`.
    pub(super) fn synchronize(&mut self, end: i64) {
        let ts = self.clock;
        self.clock = end.max(ts) + CALL_NS;
        self.correlation += 1;
        self.records.push(Record::Runtime {
            call: Call::DeviceSynchronize,
            thread: Thread::Main,
            ts,
            end: self.clock,
            external: 0,
            correlation: self.correlation,
            launches: false,
        });
    }
}
