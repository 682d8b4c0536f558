//! A pipeline of stages: one rank each, microbatches, and one stage that is slower than the others.
//!
//! Every pass takes a known time, so the bubble of the schedule, and what the slow stage adds to it, are known. The
//! names are those of `torch.distributed.pipelining`: `PP:1F0` is the forward pass of microbatch 0 on stage 1. Ranks
//! exchange activations and gradients as NCCL messages, on one stream for each neighbor.

use std::collections::BTreeMap;

use super::model::Kernel;
use super::options::{Options, PipelineSchedule};
use super::rank_records::{
    CALL_NS, GEMM, GRADIENT, LAUNCH_NS, OPEN_NS, OPTIMIZER_NS, RankRecords, kernel,
};
use super::record::{Exchange, HostKind, Name, Record, Thread};
use super::sim::{COMM, COMPUTE, FIRST_STEP, START_NS};

/// Computation of a forward pass of one microbatch on one rank, over all of its stages.
pub(super) const FORWARD_NS: i64 = 2_000_000;
/// Of a backward pass.
pub(super) const BACKWARD_NS: i64 = 4_000_000;
/// Share of its time that the slow stage takes, in percent.
pub(super) const SLOW_PCT: i64 = 150;
/// From the end of a pass to the end of its message at the next stage.
const TRANSFER_NS: i64 = 40_000;
const KERNELS_OF_PASS: i64 = 4;

static SEND_RECV: Kernel = kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)");

/// One pass of a microbatch on a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pass {
    is_backward: bool,
    stage: u32,
    microbatch: u32,
}

/// When a pass runs on its rank, and when what it needs arrives; `None` for what comes from the rank itself.
#[derive(Debug, Clone, Copy)]
struct Run {
    pass: Pass,
    arrival: Option<i64>,
    ts: i64,
    end: i64,
}

/// One rank's part of a step.
#[derive(Debug, Clone, Default)]
struct RankStep {
    ts: i64,
    runs: Vec<Run>,
    end: i64,
}

/// A simulated pipeline: the steps of each rank.
#[derive(Debug)]
pub(super) struct Pipeline {
    ranks: u32,
    chunks: u32,
    steps: Vec<Vec<RankStep>>,
}

impl Pipeline {
    /// Simulates all steps of all ranks.
    pub(super) fn new(options: &Options) -> Self {
        let ranks = options.ranks;
        let chunks = if options.schedule == PipelineSchedule::Interleaved { 2 } else { 1 };
        let mut steps = vec![Vec::new(); ranks as usize];
        let mut free = vec![START_NS; ranks as usize];
        for _ in 0..options.steps {
            for (rank, step) in step(options, chunks, &free).into_iter().enumerate() {
                free[rank] = step.end + 30_000;
                steps[rank].push(step);
            }
        }
        Self { ranks, chunks, steps }
    }

    /// The rank that is slow.
    pub(super) fn slow_rank(ranks: u32) -> u32 {
        ranks / 2
    }

    /// The records of a rank, and when they end.
    pub(super) fn records(&self, rank: u32) -> (Vec<Record<'static>>, i64) {
        let mut writer = StageRecords { rank, ranks: self.ranks, ..StageRecords::default() };
        for (number, step) in (FIRST_STEP..).zip(&self.steps[rank as usize]) {
            writer.step(number, step, self.chunks * self.ranks);
        }
        (writer.host.records, writer.host.clock)
    }
}

/// One step of all ranks, each from when it is free.
fn step(options: &Options, chunks: u32, free: &[i64]) -> Vec<RankStep> {
    let (ranks, stages) = (options.ranks, options.ranks * chunks);
    let mut steps: Vec<RankStep> =
        free.iter().map(|&ts| RankStep { ts, ..RankStep::default() }).collect();
    let mut left: Vec<Vec<Pass>> = (0..ranks)
        .map(|rank| {
            let mut order = order(options, chunks, rank);
            order.reverse();
            order
        })
        .collect();
    let mut clocks: Vec<i64> = free.iter().map(|ts| ts + CALL_NS + LAUNCH_NS).collect();
    let mut ends: BTreeMap<Pass, i64> = BTreeMap::new();
    while left.iter().any(|order| !order.is_empty()) {
        for rank in 0..ranks as usize {
            while let Some(&pass) = left[rank].last() {
                let from = match (pass.is_backward, pass.stage) {
                    (false, 0) => None,
                    (false, stage) => Some(Pass { stage: stage - 1, ..pass }),
                    (true, stage) if stage + 1 == stages => {
                        Some(Pass { is_backward: false, ..pass })
                    }
                    (true, stage) => Some(Pass { stage: stage + 1, ..pass }),
                };
                let is_own = from.is_none_or(|from| from.stage % ranks == pass.stage % ranks);
                let ready = match from.map(|from| ends.get(&from)) {
                    Some(None) => break,
                    Some(Some(&end)) => end,
                    None => clocks[rank],
                };
                let arrival = (!is_own).then_some(ready + TRANSFER_NS);
                let ts = clocks[rank].max(arrival.unwrap_or(ready));
                let nominal = if pass.is_backward { BACKWARD_NS } else { FORWARD_NS };
                let is_slow = rank as u32 == Pipeline::slow_rank(ranks) && ranks > 1;
                let pct = if is_slow && !options.equal_stages { SLOW_PCT } else { 100 };
                let end = ts + nominal / i64::from(chunks) * pct / 100;
                clocks[rank] = end;
                ends.insert(pass, end);
                steps[rank].runs.push(Run { pass, arrival, ts, end });
                left[rank].pop();
            }
        }
    }
    for (step, clock) in steps.iter_mut().zip(clocks) {
        step.end = clock + OPTIMIZER_NS;
    }
    steps
}

/// The order of the passes of a rank.
fn order(options: &Options, chunks: u32, rank: u32) -> Vec<Pass> {
    let (ranks, count) = (options.ranks, options.microbatches);
    let total = count * chunks;
    // Megatron-LM's order: groups of as many microbatches as ranks take turns between the stages of a rank.
    let pass = |is_backward: bool, nth: u32| {
        let (group, within) = (nth / (ranks * chunks), nth % (ranks * chunks));
        let chunk = if is_backward { chunks - 1 - within / ranks } else { within / ranks };
        let (chunk, microbatch) =
            if chunks == 1 { (0, nth) } else { (chunk, group * ranks + within % ranks) };
        Pass { is_backward, stage: chunk * ranks + rank, microbatch }
    };
    let ahead = match options.schedule {
        PipelineSchedule::Gpipe => total,
        PipelineSchedule::OneForwardOneBackward => ranks - rank - 1,
        PipelineSchedule::Interleaved => 2 * (ranks - rank - 1) + (chunks - 1) * ranks,
    }
    .min(total);
    let mut order: Vec<Pass> = (0..ahead).map(|nth| pass(false, nth)).collect();
    for nth in ahead..total {
        order.push(pass(false, nth));
        order.push(pass(true, nth - ahead));
    }
    order.extend((total - ahead..total).map(|nth| pass(true, nth)));
    order
}

/// Turns the runs of a rank into events.
#[derive(Debug, Default)]
struct StageRecords {
    rank: u32,
    ranks: u32,
    host: RankRecords,
    /// When the message stream of each neighbor is free: that of the stage before, and of the stage after.
    streams: [i64; 2],
}

impl StageRecords {
    fn step(&mut self, number: u32, step: &RankStep, stages: u32) {
        self.host.clock = step.ts;
        let slot = self.host.open(HostKind::Annotation, Name::Step(number), Thread::Main);
        for run in &step.runs {
            self.pass(run, stages);
        }
        // The host launches ahead, and waits for the device once a step.
        self.host.finish_step(slot, step.end - OPTIMIZER_NS);
    }

    fn pass(&mut self, run: &Run, stages: u32) {
        let Pass { is_backward, stage, microbatch } = run.pass;
        let before = stage.checked_sub(1);
        let after = Some(stage + 1).filter(|&next| next < stages);
        let (from, to) = if is_backward { (after, before) } else { (before, after) };
        if let (Some(from), Some(arrival)) = (from, run.arrival) {
            self.message(true, from % self.ranks, usize::from(is_backward), arrival);
        }
        let letter = if is_backward { 'B' } else { 'F' };
        let name = Name::Pass { stage, letter, microbatch };
        let slot = self.host.open(HostKind::Annotation, name, Thread::Main);
        let (thread, op, kernel) = if is_backward {
            (Thread::Autograd, Name::Evaluate("AddmmBackward0"), &GRADIENT)
        } else {
            (Thread::Main, Name::Plain("aten::linear"), &GEMM)
        };
        let op = self.host.open(HostKind::Operator, op, thread);
        let part = (run.end - run.ts) / KERNELS_OF_PASS;
        for nth in 0..KERNELS_OF_PASS {
            let ts = run.ts + nth * part;
            let end = if nth + 1 == KERNELS_OF_PASS { run.end } else { ts + part };
            self.host.launch(kernel, COMPUTE, (ts, end - ts), None, thread);
        }
        self.host.close(op);
        self.host.close(slot);
        if let Some(to) = to.filter(|to| to % self.ranks != self.rank) {
            self.message(false, to % self.ranks, usize::from(!is_backward), run.end + TRANSFER_NS);
        }
    }

    /// A receive lasts from its launch to the arrival, a send from the end of its pass.
    fn message(&mut self, receives: bool, peer: u32, neighbor: usize, end: i64) {
        // Three events are around the call.
        let earliest = self.host.clock + 3 * OPEN_NS + CALL_NS + LAUNCH_NS;
        let begin = if receives { earliest } else { end - TRANSFER_NS };
        let ts = begin.max(self.streams[neighbor]).min(end - 1_000);
        self.streams[neighbor] = end;
        let (names, exchange) = if receives {
            (("c10d::recv_", "nccl:recv"), Exchange::Receive(peer))
        } else {
            (("c10d::send", "nccl:send"), Exchange::Send(peer))
        };
        let stream = COMM + neighbor as u32 * 4;
        self.host.exchange(names, exchange, &SEND_RECV, stream, (ts, end - ts), Thread::Main);
    }
}
