//! A job on many machines with three faults: a rank that computes slowly, a slow link, and a rank that calls another
//! collective than its group.
//!
//! Gradients and parameters are sharded over groups of 16 ranks, on two machines each (`reduce_scatter` after each layer of
//! backward, `all_gather` after the optimizer). Ranks with the same place in these groups add up their shards
//! (`all_reduce`). So a rank that is late holds up its own group first, then one rank of each other group, and these hold
//! up all others.

use super::model::Kernel;
use super::options::{Fault, Options};
use super::rank_records::{
    ALL_GATHER, CALL_NS, GEMM, GRADIENT, OPTIMIZER_NS, REDUCE_SCATTER, RankRecords, kernel,
};
use super::record::{Exchange, HostKind, MeshExchange, MeshGroup, Name, Record, Thread};
use super::rng::Rng;
use super::sim::{COMM, FIRST_STEP, START_NS};

/// Ranks that shard together.
pub(super) const SHARD_RANKS: u32 = 16;
/// Fewer groups cannot tell which link is slow.
pub(super) const MIN_RANKS: u32 = 4 * SHARD_RANKS;

/// Forward pass of a layer; backward takes twice as long.
const FORWARD_NS: i64 = 4_000_000;
/// Percent of that on the rank that computes slowly.
const SLOW_FORWARD: i64 = 250;
/// A `reduce_scatter` or `all_gather` for which all ranks are ready.
const SHARD_NS: i64 = 1_500_000;
/// Percent of that over the slow link.
const SLOW_LINK: i64 = 250;
/// An `all_reduce` for which all ranks are ready.
const REPLICATE_NS: i64 = 500_000;
/// From the end of a collective to the next kernel on its stream.
const GAP_NS: i64 = 1_000;
/// From the end of a step to the first kernel of the next one.
const LEAD_NS: i64 = 100_000;
/// Elements of the shard of a layer.
const SHARD: u64 = 1 << 22;

static ALL_REDUCE: Kernel =
    kernel("ncclDevKernel_AllReduce_Sum_bf16_TREE_LL(ncclDevKernelArgsStorage<4096ul>)");

/// The rank that computes slowly.
pub(super) fn slow_rank(ranks: u32) -> u32 {
    ranks - 1
}

/// The group of 16 ranks with the slow link, between its two machines.
pub(super) fn slow_group(ranks: u32) -> u32 {
    ranks / SHARD_RANKS / 2
}

/// The rank that calls another collective.
pub(super) const DIVERGING_RANK: u32 = SHARD_RANKS + 5;

/// When collectives end, in nanoseconds, which takes all ranks to know.
#[derive(Debug)]
pub(super) struct Faults {
    options: Options,
    steps: Vec<StepTimes>,
}

#[derive(Debug)]
struct StepTimes {
    /// Start of the first kernel, by shard group.
    starts: Vec<i64>,
    /// End of the `reduce_scatter` of each layer, by shard group.
    scatter_ends: Vec<Vec<i64>>,
    /// End of the `all_reduce` of each layer, the same for all ranks.
    reduce_ends: Vec<i64>,
    /// End of the `all_gather`, by shard group.
    gather_ends: Vec<i64>,
}

/// Forward and backward of a layer on one rank.
fn layer_ns(options: &Options, rank: u32, rng: &mut Rng) -> (i64, i64) {
    let is_slow = rank == slow_rank(options.ranks) && options.faults.contains(&Fault::SlowRank);
    let slow = if is_slow { SLOW_FORWARD } else { 100 };
    (rng.jitter(FORWARD_NS * slow / 100, 5), rng.jitter(2 * FORWARD_NS, 5))
}

impl Faults {
    pub(super) fn new(options: &Options) -> Self {
        let ranks = options.ranks;
        let groups = ranks / SHARD_RANKS;
        let shard_ns = |group| {
            let is_slow = group == slow_group(ranks) && options.faults.contains(&Fault::SlowLink);
            SHARD_NS * if is_slow { SLOW_LINK } else { 100 } / 100
        };
        let mut rngs: Vec<Rng> = (0..ranks).map(|rank| Rng::new(options.seed, rank)).collect();
        let mut starts = vec![START_NS + LEAD_NS; groups as usize];
        let mut steps = Vec::new();
        for _ in 0..options.steps {
            // When each rank has computed the gradients of each layer.
            let computed_ns: Vec<Vec<i64>> = (0..ranks)
                .zip(&mut rngs)
                .map(|(rank, rng)| {
                    let layers: Vec<(i64, i64)> =
                        (0..options.layers).map(|_| layer_ns(options, rank, rng)).collect();
                    let start = starts[(rank / SHARD_RANKS) as usize];
                    let mut at = start + layers.iter().map(|(forward, _)| forward).sum::<i64>();
                    let backward = layers.iter().map(|(_, backward)| {
                        at += backward;
                        at
                    });
                    backward.collect()
                })
                .collect();
            let mut free_ns = i64::MIN;
            let (mut scatter_ends, mut reduce_ends) = (Vec::new(), Vec::new());
            for layer in 0..options.layers as usize {
                let ends = (0..groups).map(|group| {
                    let first = (group * SHARD_RANKS) as usize;
                    let of_group = &computed_ns[first..first + SHARD_RANKS as usize];
                    let last = of_group.iter().map(|of_rank| of_rank[layer]).max();
                    last.map_or(free_ns, |last| last.max(free_ns)) + shard_ns(group)
                });
                let ends: Vec<i64> = ends.collect();
                let reduced = ends.iter().max().unwrap_or(&free_ns) + GAP_NS + REPLICATE_NS;
                free_ns = reduced + GAP_NS;
                scatter_ends.push(ends);
                reduce_ends.push(reduced);
            }
            let gather_ends: Vec<i64> = (0..groups)
                .map(|group| free_ns + OPTIMIZER_NS + GAP_NS + shard_ns(group))
                .collect();
            let next = gather_ends.iter().map(|end| end + LEAD_NS).collect();
            let starts = std::mem::replace(&mut starts, next);
            steps.push(StepTimes { starts, scatter_ends, reduce_ends, gather_ends });
        }
        Self { options: options.clone(), steps }
    }

    /// The records of a rank, and when they end.
    pub(super) fn records(&self, rank: u32) -> (Vec<Record<'static>>, i64) {
        let Options { layers, seed, ref faults, .. } = self.options;
        let diverges = rank == DIVERGING_RANK && faults.contains(&Fault::OtherCollective);
        let group = (rank / SHARD_RANKS) as usize;
        let mut rng = Rng::new(seed, rank);
        let mut host = RankRecords::new();
        let mut sequences = [0; 2];
        for (number, times) in (FIRST_STEP..).zip(&self.steps) {
            let step = host.open(HostKind::Annotation, Name::Step(number), Thread::Main);
            let layers: Vec<(i64, i64)> =
                (0..layers).map(|_| layer_ns(&self.options, rank, &mut rng)).collect();
            let mut at = times.starts[group];
            for &(forward, _) in &layers {
                let linear = Name::Plain("aten::linear");
                host.compute(linear, "", &GEMM, (at, forward), Thread::Main);
                at += forward;
            }
            let mut free = i64::MIN;
            for (layer, &(_, backward)) in layers.iter().enumerate() {
                let node = Name::Evaluate("AddmmBackward0");
                host.compute(node, "", &GRADIENT, (at, backward), Thread::Autograd);
                at += backward;
                let (scattered, reduced) =
                    (times.scatter_ends[layer][group], times.reduce_ends[layer]);
                let from = at.max(free);
                reduce_scatter(&mut host, &mut sequences, (from, scattered - from));
                let from = scattered + GAP_NS;
                let exchange = MeshExchange {
                    name: "allreduce",
                    sent: SHARD,
                    received: SHARD,
                    group: MeshGroup::Replicate,
                    sequence: next(&mut sequences[1]),
                };
                host.exchange(
                    ("c10d::allreduce_", "nccl:all_reduce"),
                    Exchange::Mesh(exchange),
                    &ALL_REDUCE,
                    COMM + 4,
                    (from, reduced - from),
                    Thread::Autograd,
                );
                free = reduced + GAP_NS;
            }
            host.optimize(free);
            let (from, end) = (free + OPTIMIZER_NS + GAP_NS, times.gather_ends[group]);
            if diverges {
                reduce_scatter(&mut host, &mut sequences, (from, end - from));
            } else {
                let exchange = MeshExchange {
                    name: "_allgather_base",
                    sent: SHARD,
                    received: SHARD * u64::from(SHARD_RANKS),
                    group: MeshGroup::Shard,
                    sequence: next(&mut sequences[0]),
                };
                host.exchange(
                    ("c10d::_allgather_base_", "nccl:_all_gather_base"),
                    Exchange::Mesh(exchange),
                    &ALL_GATHER,
                    COMM,
                    (from, end - from),
                    Thread::Main,
                );
            }
            host.synchronize(end);
            host.close(step);
        }
        host.clock += CALL_NS;
        (host.records, host.clock)
    }
}

fn reduce_scatter(host: &mut RankRecords, sequences: &mut [u32; 2], time: (i64, i64)) {
    let exchange = MeshExchange {
        name: "_reduce_scatter_base",
        sent: SHARD * u64::from(SHARD_RANKS),
        received: SHARD,
        group: MeshGroup::Shard,
        sequence: next(&mut sequences[0]),
    };
    host.exchange(
        ("c10d::_reduce_scatter_base_", "nccl:_reduce_scatter_base"),
        Exchange::Mesh(exchange),
        &REDUCE_SCATTER,
        COMM,
        time,
        Thread::Autograd,
    );
}

/// The next sequence number of a group.
fn next(sequence: &mut u32) -> u32 {
    *sequence += 1;
    *sequence
}

/// The process group of a rank: its name, description, and ranks.
pub(super) fn members(group: MeshGroup, rank: u32, ranks: u32) -> (u32, &'static str, Vec<u32>) {
    match group {
        MeshGroup::Shard => {
            let number = rank / SHARD_RANKS;
            let first = number * SHARD_RANKS;
            (1 + number, "mesh_shard", (first..first + SHARD_RANKS).collect())
        }
        MeshGroup::Replicate => {
            let place = rank % SHARD_RANKS;
            let of_place = (place..ranks).step_by(SHARD_RANKS as usize);
            (1 + ranks / SHARD_RANKS + place, "mesh_replicate", of_place.collect())
        }
    }
}
