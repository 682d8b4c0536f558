//! Sharded parameters: the layers are gathered one after the other, each when the layer before it has been computed.
//!
//! Nothing hides a gather: in each step, all layers wait for theirs in forward and again in backward. The names are those of
//! `fully_shard`.

use super::options::Options;
use super::rank_records::{ALL_GATHER, GEMM, GRADIENT, REDUCE_SCATTER, RankRecords};
use super::record::{Exchange, HostKind, Name, Record, Thread};
use super::sim::{COMM, FIRST_STEP};

/// Time to gather the parameters of a layer, and to reduce its gradients.
pub(crate) const GATHER_NS: i64 = 1_500_000;
/// Computation of a layer.
pub(crate) const FORWARD_NS: i64 = 2_000_000;
pub(crate) const BACKWARD_NS: i64 = 4_000_000;
/// From the start of a step to its first kernel.
const LEAD_NS: i64 = 60_000;
/// Elements of a layer on each rank.
const SHARD: u64 = 1 << 25;

/// The records of a rank, and when they end. All ranks do the same at the same time.
pub(super) fn records(options: &Options) -> (Vec<Record<'static>>, i64) {
    let mut host = RankRecords::new();
    for number in FIRST_STEP..FIRST_STEP + options.steps {
        let step = host.open(HostKind::Annotation, Name::Step(number), Thread::Main);
        let mut at = host.clock + LEAD_NS;
        for layer in 0..options.layers {
            let pass = Name::Sharding("pre_forward", layer);
            let pass = host.open(HostKind::Annotation, pass, Thread::Main);
            gather(&mut host, layer, at, Thread::Main);
            host.close(pass);
            let time = (at + GATHER_NS, FORWARD_NS);
            host.compute(Name::Plain("aten::linear"), "", &GEMM, time, Thread::Main);
            at += GATHER_NS + FORWARD_NS;
        }
        for layer in (0..options.layers).rev() {
            let pass = Name::Sharding("pre_backward", layer);
            let pass = host.open(HostKind::Annotation, pass, Thread::Autograd);
            gather(&mut host, layer, at, Thread::Autograd);
            host.close(pass);
            let time = (at + GATHER_NS, BACKWARD_NS);
            host.compute(Name::Evaluate("AddmmBackward0"), "", &GRADIENT, time, Thread::Autograd);
            at += GATHER_NS + BACKWARD_NS;
            let reduce = Name::Sharding("post_backward_reduce", layer);
            let reduce = host.open(HostKind::Annotation, reduce, Thread::Autograd);
            host.exchange(
                ("c10d::_reduce_scatter_base_", "nccl:_reduce_scatter_base"),
                Exchange::ReduceScatter(SHARD),
                &REDUCE_SCATTER,
                COMM + 4,
                (at, GATHER_NS),
                Thread::Autograd,
            );
            host.close(reduce);
        }
        host.finish_step(step, at + GATHER_NS);
    }
    (host.records, host.clock)
}

fn gather(host: &mut RankRecords, layer: u32, at: i64, thread: Thread) {
    let range = host.open(HostKind::Annotation, Name::Sharding("all_gather", layer), thread);
    host.exchange(
        ("c10d::_allgather_base_", "nccl:_all_gather_base"),
        Exchange::AllGather(SHARD),
        &ALL_GATHER,
        COMM,
        (at, GATHER_NS),
        thread,
    );
    host.close(range);
}
