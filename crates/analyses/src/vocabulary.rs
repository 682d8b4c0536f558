//! Names that PyTorch, communication libraries and trainers give to events. All topics recognize collectives, steps and
//! data loading by the lists in this module.

use trace_model::vocabulary::{COMPOSER_STEP_MARKERS, is_collective_range};

/// Returns whether a host range belongs to a communication library.
pub(crate) fn is_communication_range(name: &str) -> bool {
    is_collective_range(name)
}

/// Returns whether a host range contains a whole step, or more.
pub(crate) fn is_step_marker(name: &str) -> bool {
    name.starts_with("ProfilerStep") || COMPOSER_STEP_MARKERS.contains(&name)
}

/// Returns whether an event is `Optimizer.step`.
pub(crate) fn is_optimizer_step(name: &str) -> bool {
    name.starts_with("Optimizer.step")
}
/// The collective that a name refers to: `nccl:_all_gather_base`, `c10d::allreduce_`, `_allgather_base` and
/// `_c10d_functional::all_gather_into_tensor` alike. `None` for names that move no data: `wait`, `init`.
pub(crate) fn collective_name(written: &str) -> Option<&'static str> {
    let word = written.rsplit(':').next().unwrap_or(written);
    let bare: String =
        word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    COLLECTIVES.iter().find(|(start, _)| bare.starts_with(start)).map(|&(_, name)| name)
}

/// The collective that a kernel runs, or `other` if its name does not tell.
pub(crate) fn kernel_collective(kernel: &str) -> &'static str {
    let bare: String = kernel
        .replace("(anonymous namespace)::", "")
        .split(['(', '<'])
        .next()
        .unwrap_or(kernel)
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    KERNEL_COLLECTIVES
        .iter()
        .find(|(word, _)| bare.contains(word))
        .map_or("other", |&(_, name)| name)
}

/// Returns whether only two ranks of the group take part.
pub(crate) fn is_point_to_point(collective: &str) -> bool {
    matches!(collective, "send" | "recv" | "send_recv")
}

/// Returns whether a collective ends on all ranks at about the same time, because no rank has the result before all
/// have sent.
pub(crate) fn ends_together(collective: &str) -> bool {
    matches!(collective, "all_reduce" | "all_gather" | "barrier")
}

/// Returns whether all ranks contribute the same size, so that the size helps to match calls.
pub(crate) fn same_size_everywhere(collective: &str) -> bool {
    matches!(collective, "all_reduce" | "reduce_scatter" | "broadcast" | "reduce")
}

/// The part of `nccl:all_reduce` before the colon; `None` for `c10d::allreduce_`.
pub(crate) fn backend(written: &str) -> Option<&str> {
    let (backend, rest) = written.split_once(':')?;
    (!rest.starts_with(':') && !backend.contains(' ')).then_some(backend)
}

/// The library that a kernel belongs to.
pub(crate) fn backend_of_kernel(kernel: &str) -> Option<&'static str> {
    let start: String = kernel.chars().take(24).map(|c| c.to_ascii_lowercase()).collect();
    [("rccl", "rccl"), ("nccl", "nccl"), ("hccl", "hccl"), ("hcom", "hccl"), ("oneccl", "oneccl")]
        .iter()
        .find(|(word, _)| start.contains(word))
        .map(|&(_, backend)| backend)
}

/// Prefixes of collective names; longer prefixes come before their own prefixes.
const COLLECTIVES: [(&str, &str); 16] = [
    ("allreducebarrier", "barrier"),
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("broadcast", "broadcast"),
    ("reduce", "reduce"),
    ("gather", "gather"),
    ("scatter", "scatter"),
    ("isend", "send"),
    ("send", "send"),
    ("irecv", "recv"),
    ("recv", "recv"),
    ("barrier", "barrier"),
    ("monitoredbarrier", "barrier"),
    ("coalesced", "coalesced"),
];

/// Substrings of kernel names.
const KERNEL_COLLECTIVES: [(&str, &str); 14] = [
    ("allreduce", "all_reduce"),
    // Custom kernels of vLLM, SGLang and FlashInfer; the kernels of AITER scatter and gather separately.
    ("reducescattercrossdevice", "reduce_scatter"),
    ("crossdevicereduce", "all_reduce"),
    ("quickreduce", "all_reduce"),
    ("lamport", "all_reduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("deepepinternode", "all_to_all"),
    ("deepepintranode", "all_to_all"),
    ("sendrecv", "send_recv"),
    ("broadcast", "broadcast"),
    ("reduce", "reduce"),
    ("barrier", "barrier"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collective_name_unifies_spellings() {
        for (written, expected) in [
            ("nccl:all_reduce", Some("all_reduce")),
            ("allreduce", Some("all_reduce")),
            ("c10d::allreduce_", Some("all_reduce")),
            ("c10d::allreduce_coalesced_", Some("all_reduce")),
            ("_c10d_functional::all_reduce", Some("all_reduce")),
            ("nccl:all_reduce_barrier", Some("barrier")),
            ("nccl:_all_gather_base", Some("all_gather")),
            ("_allgather_base", Some("all_gather")),
            ("c10d::_allgather_base_", Some("all_gather")),
            ("_c10d_functional::all_gather_into_tensor", Some("all_gather")),
            ("gloo:all_gather", Some("all_gather")),
            ("nccl:_reduce_scatter_base", Some("reduce_scatter")),
            ("reduce_scatter_tensor_coalesced", Some("reduce_scatter")),
            ("c10d::alltoall_base_", Some("all_to_all")),
            ("nccl:all_to_all", Some("all_to_all")),
            ("all_to_allv", Some("all_to_all")),
            ("nccl:broadcast", Some("broadcast")),
            ("_broadcast_oop", Some("broadcast")),
            ("nccl:reduce", Some("reduce")),
            ("mpi:gather", Some("gather")),
            ("ucc:scatter", Some("scatter")),
            ("nccl:send 0->1", Some("send")),
            ("nccl:recv 0<-1", Some("recv")),
            ("c10d::recv_any_source_", Some("recv")),
            ("gloo:barrier", Some("barrier")),
            ("c10d::monitored_barrier_", Some("barrier")),
            ("nccl:coalesced", Some("coalesced")),
            ("wait", None),
            ("_c10d_functional::wait_tensor", None),
            ("init", None),
            ("startCoalescing", None),
        ] {
            assert_eq!(collective_name(written), expected, "{written}");
        }
    }

    #[test]
    fn kernel_collective_reads_kernel_names() {
        for (kernel, expected) in [
            (
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                "all_reduce",
            ),
            ("ncclKernel_ReduceScatter_RING_LL_Sum_half(ncclDevComm*)", "reduce_scatter"),
            ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_recv"),
            ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all_gather"),
            ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "other"),
            ("ncclKernel", "other"),
            (
                "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
                "all_reduce",
            ),
            (
                "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
                "all_reduce",
            ),
            (
                "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)",
                "all_to_all",
            ),
        ] {
            assert_eq!(kernel_collective(kernel), expected, "{kernel}");
        }
        assert_eq!(backend_of_kernel("ncclDevKernel_Generic"), Some("nccl"));
        assert_eq!(backend_of_kernel("gemm"), None);
    }

    #[test]
    fn backend_is_the_part_before_a_single_colon() {
        assert_eq!(backend("nccl:all_reduce"), Some("nccl"));
        assert_eq!(backend("c10d::allreduce_"), None);
        assert_eq!(backend("record_param_comms"), None);
    }

    #[test]
    fn is_communication_range_knows_every_library() {
        for name in ["nccl:all_reduce", "gloo:all_to_all", "mpi:gather", "ucc:scatter"] {
            assert!(is_communication_range(name), "{name}");
        }
        assert!(is_communication_range("hccl:x") && is_communication_range("xccl:x"));
        assert!(!is_communication_range("record_param_comms"));
    }
}
