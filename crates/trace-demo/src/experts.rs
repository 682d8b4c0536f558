//! A mixture of experts over ranks: the router sends the last rank twice as many tokens as each of the others.
//!
//! The others wait for its results in the second all-to-all of each layer.

use super::model::Kernel;
use super::options::Options;
use super::rank_records::{GEMM, GRADIENT, RankRecords, kernel};
use super::record::{Exchange, HostKind, Name, Record, Thread};
use super::sim::{COMM, FIRST_STEP};

/// Attention of a layer in forward; backward takes twice as long.
const ATTENTION_NS: i64 = 1_000_000;
/// Experts of a layer in forward on a rank that gets [`TOKENS`].
pub(crate) const EXPERTS_NS: i64 = 2_000_000;
/// An all-to-all for which all ranks are ready.
const EXCHANGE_NS: i64 = 300_000;
/// From the start of a step to its first kernel.
const LEAD_NS: i64 = 60_000;
/// Tokens of each rank, and those that experts get on all ranks but the last.
pub(crate) const TOKENS: u64 = 8_192;
const WIDTH: u64 = 4_096;

/// As in [`TOKENS`] and [`WIDTH`].
const EVEN_ARGS: &str = "\"Input Dims\": [[8192, 4096], [8, 4096, 14336], [8], [], []], \"Input type\": [\"c10::BFloat16\", \"c10::BFloat16\", \"int\", \"\", \"\"]";
const HOT_ARGS: &str = "\"Input Dims\": [[16384, 4096], [8, 4096, 14336], [8], [], []], \"Input type\": [\"c10::BFloat16\", \"c10::BFloat16\", \"int\", \"\", \"\"]";

static GROUPED: Kernel = kernel(
    "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int> > > > >()",
);
static ALL_TO_ALL: Kernel = kernel("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)");

/// The records of a rank, and when they end.
pub(super) fn records(options: &Options, rank: u32) -> (Vec<Record<'static>>, i64) {
    let is_hot = rank + 1 == options.ranks;
    let (args, load) = if is_hot { (HOT_ARGS, 2) } else { (EVEN_ARGS, 1) };
    let mut host = RankRecords::new();
    for number in FIRST_STEP..FIRST_STEP + options.steps {
        let step = host.open(HostKind::Annotation, Name::Step(number), Thread::Main);
        let mut at = host.clock + LEAD_NS;
        for is_backward in [false, true] {
            let (thread, operator, attention, factor) = if is_backward {
                (Thread::Autograd, Name::Evaluate("AddmmBackward0"), &GRADIENT, 2)
            } else {
                (Thread::Main, Name::Plain("aten::linear"), &GEMM, 1)
            };
            for _ in 0..options.layers {
                host.compute(operator, "", attention, (at, factor * ATTENTION_NS), thread);
                at += factor * ATTENTION_NS;
                exchange(&mut host, (TOKENS, load * TOKENS), (at, EXCHANGE_NS), thread);
                at += EXCHANGE_NS;
                let node = is_backward.then(|| {
                    let node = Name::Evaluate("GroupedMmBackward0");
                    host.open(HostKind::Operator, node, thread)
                });
                let own = factor * EXPERTS_NS * load as i64;
                let name = Name::Plain("aten::_grouped_mm");
                host.compute(name, args, &GROUPED, (at, own), thread);
                if let Some(node) = node {
                    host.close(node);
                }
                // All ranks have their tokens back when the last one has computed its own.
                let end = at + 2 * factor * EXPERTS_NS + EXCHANGE_NS;
                exchange(&mut host, (load * TOKENS, TOKENS), (at + own, end - at - own), thread);
                at = end;
            }
        }
        host.finish_step(step, at);
    }
    (host.records, host.clock)
}

fn exchange(
    host: &mut RankRecords,
    (sent, received): (u64, u64),
    time: (i64, i64),
    thread: Thread,
) {
    host.exchange(
        ("c10d::alltoall_base_", "nccl:all_to_all"),
        Exchange::AllToAll { sent: sent * WIDTH, received: received * WIDTH },
        &ALL_TO_ALL,
        COMM,
        time,
        thread,
    );
}
