//! Names in traces that have a meaning: steps, loaders, optimizers, modules, collectives.

/// Prefix of the range that PyTorch Profiler records for each step: `ProfilerStep#12`.
pub const PROFILER_STEP_PREFIX: &str = "ProfilerStep#";

/// Prefix of the range around a call of an optimizer: `Optimizer.step#AdamW.step`.
pub const OPTIMIZER_STEP_PREFIX: &str = "Optimizer.step#";

/// Prefix of the ranges around calls of PyTorch's data loaders and data pipes: `enumerate(DataLoader)#...`.
pub const LOADER_PREFIX: &str = "enumerate(Data";

/// Prefix of the ranges that Lightning's profiler records: `[pl][module]...`, `[pl][profile]...`.
pub const LIGHTNING_PREFIX: &str = "[pl][";

/// Prefix of the Python frames that are calls of an `nn.Module`: `nn.Module: Linear_0`.
pub const MODULE_PREFIX: &str = "nn.Module: ";

/// Prefix of the operators in which autograd runs a node of the backward pass.
pub const AUTOGRAD_PREFIX: &str = "autograd::engine::evaluate_function: ";

/// Composer's marker of the training of one batch, without its loading.
pub const COMPOSER_BATCH: &str = "event/batch";

/// Composer's markers of a call of the training loader: since version 0.9, and before.
pub const COMPOSER_LOADERS: [&str; 2] = ["event/dataloader", "dataloader/train"];

/// Composer's markers around steps.
pub const COMPOSER_STEP_MARKERS: [&str; 4] =
    ["event/fit", "event/epoch", "event/iteration", COMPOSER_BATCH];

/// Prefixes of the ranges that inference servers record for each step of their engine: `step[DECODE bs=8]`, and
/// `execute_context_0(0)_generation_8(8)`. One server records the second kind inside the first.
pub const ENGINE_STEP_PREFIXES: [&str; 2] = ["step[", "execute_"];

/// Communication libraries whose collectives are ranges on the host, named `<library>:<collective>`.
pub const COLLECTIVE_RANGE_PREFIXES: [&str; 9] =
    ["nccl:", "ncclx:", "nccl2:", "rccl:", "gloo:", "mpi:", "ucc:", "hccl:", "xccl:"];

/// Starts of the names of communication kernels: NCCL, RCCL, HCCL, oneCCL, NVSHMEM.
pub const COMMUNICATION_KERNEL_PREFIXES: [&str; 5] = ["nccl", "rccl", "hccl", "oneccl", "nvshmem"];

/// Parts of the names of communication kernels: NCCL before and since 2.19 (also after a `void`), NVSHMEM.
pub const COMMUNICATION_KERNEL_PARTS: [&str; 3] = ["ncclKernel", "ncclDevKernel", "nvshmemi_"];

/// Words in the names of communication kernels that are no library's, in lower case and without underscores: symmetric
/// memory and multicast of PyTorch, the collectives of vLLM, `SGLang`, TensorRT-LLM, `FlashInfer` and AITER, also where a
/// normalization is fused into them, Transformer Engine's user buffers, `DeepEP`, MSCCL++.
pub const COMMUNICATION_KERNEL_WORDS: [&str; 11] = [
    "allreduce",
    "allgather",
    "reducescatter",
    "multimem",
    "quickreduce",
    "lamport",
    "crossdevice",
    "userbuffers",
    "deepep::",
    "mscclpp",
    "mscclkernel",
];

/// Starts of the names of activities that MTIA records on a stream while it waits or marks a moment: nothing runs.
pub const DEVICE_SYNC_PREFIXES: [&str; 2] = ["event_wait", "event_record"];

/// Starts of the names of kernels that move memory, in dialects that record copies as kernels. As in HTA.
pub const MEMORY_KERNEL_PREFIXES: [&str; 3] = ["Memcpy", "Memset", "dma"];

/// Returns whether a range on the host is a collective: `nccl:all_reduce`.
pub fn is_collective_range(name: &str) -> bool {
    COLLECTIVE_RANGE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The number of a profiler step: 12 for `ProfilerStep#12`.
pub fn profiler_step(name: &str) -> Option<i64> {
    name.strip_prefix(PROFILER_STEP_PREFIX)?.trim().parse().ok()
}

/// The server's kind of mark, an index of [`ENGINE_STEP_PREFIXES`], if a range is a step of an inference engine.
pub fn engine_step(name: &str) -> Option<usize> {
    let kind = ENGINE_STEP_PREFIXES.iter().position(|prefix| name.starts_with(prefix))?;
    let is_step = match kind {
        0 => name.ends_with(']'),
        _ => name.contains("context_") && name.contains("_generation_"),
    };
    is_step.then_some(kind)
}

/// Returns whether a kernel communicates.
pub fn is_communication_kernel(name: &str) -> bool {
    if COMMUNICATION_KERNEL_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || COMMUNICATION_KERNEL_PARTS.iter().any(|part| name.contains(part))
    {
        return true;
    }
    let bare: String = name.chars().filter(|&c| c != '_').map(|c| c.to_ascii_lowercase()).collect();
    COMMUNICATION_KERNEL_WORDS.iter().any(|word| bare.contains(word))
}

/// Returns whether an activity on a stream is a wait or the record of an event, not work.
pub fn is_device_sync(name: &str) -> bool {
    DEVICE_SYNC_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns whether a kernel is a copy or a fill.
pub fn is_memory_kernel(name: &str) -> bool {
    MEMORY_KERNEL_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Communication libraries that run collectives on the host; others only enqueue work for a device.
const HOST_LIBRARIES: [&str; 2] = ["gloo", "mpi"];

/// Returns whether a communication library does its work inside the host call.
pub fn runs_on_host(library: &str) -> bool {
    HOST_LIBRARIES.contains(&library)
}

/// Returns whether a host range is a collective that runs on the host.
pub fn is_host_communication_range(name: &str) -> bool {
    name.split_once(':').is_some_and(|(library, _)| runs_on_host(library))
}

/// Returns whether an event is `__next__` of a PyTorch `DataLoader`.
pub fn is_dataloader_next(name: &str) -> bool {
    name.starts_with("enumerate(DataLoader)#") && name.ends_with(".__next__")
}

/// Returns whether an event is a fetch from a PyTorch `DataLoader` or `DataPipe`.
pub fn is_loader_fetch(name: &str) -> bool {
    name.starts_with("enumerate(DataPipe)#") || is_dataloader_next(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_communication_kernel_recognizes_libraries() {
        for name in [
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
            "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "void ncclKernel_Broadcast()",
            "ncclGenericKernel",
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long)",
            "void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(c10::BFloat16*)",
            "void tensorrt_llm::kernels::oneShotAllReduceKernel<__nv_bfloat16, 8, true>(tensorrt_llm::kernels::AllReduceParams)",
            "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<0, __nv_bfloat16, 8>()",
            "void lamport_style_one_shot_all_reduce_norm_kernel<8, __half>(Params)",
            "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<half>>(half const*)",
            "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
            "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)",
        ] {
            assert!(is_communication_kernel(name), "{name}");
        }
        for name in [
            "ampere_sgemm_128x64_tn",
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(at::native::ReduceOp<float>)",
            "void cub::DeviceReduceKernel<cub::DeviceReducePolicy<int>>(int*)",
        ] {
            assert!(!is_communication_kernel(name), "{name}");
        }
    }

    #[test]
    fn is_device_sync_recognizes_waits_and_records() {
        assert!(is_device_sync("event_wait") && is_device_sync("event_record_3"));
        assert!(!is_device_sync("fbgemm_event_waiter") && !is_device_sync("dma"));
    }

    #[test]
    fn is_collective_range_recognizes_libraries() {
        assert!(is_collective_range("nccl:all_reduce") && is_collective_range("ucc:barrier"));
        assert!(is_collective_range("ncclx:all_gather") && is_collective_range("nccl2:send 0->1"));
        assert!(!is_collective_range("aten::mm") && !is_collective_range("c10d::allreduce_"));
    }

    #[test]
    fn engine_step_knows_the_marks_of_servers() {
        for name in [
            "execute_context_0(0)_generation_1(1)",
            "execute_1024_context_1(sq1024sk1024sqsq1sqsk1)_generation_0(sq0sk0sqsq0sqsk0)",
            "execute_new_context_8(9)_generation_2(2)",
        ] {
            assert_eq!(engine_step(name), Some(1), "{name}");
        }
        assert_eq!(engine_step("step[EXTEND bs=1 toks=12]"), Some(0));
        assert_eq!(engine_step("step[DECODE bs=8]"), Some(0));
        for name in ["execute_model", "step", "Optimizer.step#Adam.step", "step[0"] {
            assert_eq!(engine_step(name), None, "{name}");
        }
    }

    #[test]
    fn profiler_step_parses_numbers() {
        assert_eq!(profiler_step("ProfilerStep#12"), Some(12));
        assert_eq!(profiler_step("ProfilerStep*"), None);
    }

    #[test]
    fn is_loader_fetch_needs_next_for_data_loaders() {
        let iterator = "enumerate(DataLoader)#_SingleProcessDataLoaderIter";
        assert!(is_dataloader_next(&format!("{iterator}.__next__")));
        assert!(!is_loader_fetch(&format!("{iterator}.__init__")));
        assert!(
            is_loader_fetch("enumerate(DataPipe)#Mapper")
                && !is_dataloader_next("enumerate(DataPipe)#x.__next__")
        );
    }

    #[test]
    fn libraries_that_run_on_the_host_are_known() {
        assert!(runs_on_host("gloo") && !runs_on_host("nccl"));
        assert!(is_host_communication_range("gloo:all_reduce"));
    }
}
