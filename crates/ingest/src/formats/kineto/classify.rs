//! What kind of thing an event is, by category and name, in every dialect seen.

/// The table an event with a duration goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    CpuOp,
    RuntimeCall,
    Annotation,
    DeviceAnnotation,
    PythonFrame,
    Kernel,
    Memcpy,
    Memset,
    DeviceSync,
    ProfilerRange,
    Span,
}

/// Old torch wrote `Kernel`, `Operator`, `Runtime`, `Memcpy`; newer ones `kernel`, `cpu_op`,
/// `cuda_runtime`, `gpu_memcpy`. Vendors add their own runtimes.
pub(crate) fn classify(category: &str) -> Kind {
    let lower = category.to_ascii_lowercase();
    match lower.as_str() {
        "cpu_op" | "operator" => Kind::CpuOp,
        "user_annotation" => Kind::Annotation,
        "gpu_user_annotation" => Kind::DeviceAnnotation,
        "python_function" | "python" => Kind::PythonFrame,
        "kernel" | "mtia_ccp_events" => Kind::Kernel,
        "memcpy" | "gpu_memcpy" => Kind::Memcpy,
        "memset" | "gpu_memset" => Kind::Memset,
        "cuda_sync" => Kind::DeviceSync,
        "cuda_profiler_range" => Kind::ProfilerRange,
        "runtime" | "driver" => Kind::RuntimeCall,
        other if other.ends_with("_runtime") || other.ends_with("_driver") => Kind::RuntimeCall,
        _ => Kind::Span,
    }
}

/// Ranges opened by `record_function`. Before torch 1.11 they were written as operators.
pub(crate) fn is_annotation_name(name: &str) -> bool {
    ["ProfilerStep#", "enumerate(Data", "Optimizer.", "[pl]["].iter().any(|p| name.starts_with(p))
}

/// Step number of `ProfilerStep#12`.
pub(crate) fn profiler_step(name: &str) -> Option<i64> {
    name.strip_prefix("ProfilerStep#")?.trim().parse().ok()
}

/// `communication`, `memory` or `computation`.
///
/// Communication: NCCL before and after 2.19 (`ncclKernel...`, `ncclDevKernel...`, also behind a
/// `void`), RCCL, HCCL, oneCCL, NVSHMEM, and the all-reduce kernels that inference servers bring
/// along. Memory: HTA's prefixes, for dialects that write copies as kernels.
pub(crate) fn kernel_kind(name: &str) -> &'static str {
    const COMMUNICATION_PREFIXES: [&str; 5] = ["nccl", "rccl", "hccl", "oneccl", "nvshmem"];
    const COMMUNICATION_PARTS: [&str; 4] =
        ["ncclKernel", "ncclDevKernel", "cross_device_reduce", "nvshmemi_"];
    const MEMORY_PREFIXES: [&str; 3] = ["Memcpy", "Memset", "dma"];
    if COMMUNICATION_PREFIXES.iter().any(|p| name.starts_with(p))
        || COMMUNICATION_PARTS.iter().any(|p| name.contains(p))
    {
        "communication"
    } else if MEMORY_PREFIXES.iter().any(|p| name.starts_with(p)) {
        "memory"
    } else {
        "computation"
    }
}

/// Direction of a copy: AMD says it in `kind`, NVIDIA in the name.
pub(crate) fn memcpy_kind(kind: Option<&str>, name: &str) -> &'static str {
    const KINDS: [&str; 5] = ["HtoD", "DtoH", "DtoD", "HtoH", "PtoP"];
    KINDS
        .into_iter()
        .find(|k| kind == Some(k) || name.contains(k))
        .or_else(|| {
            let lower = name.to_ascii_lowercase();
            [("hosttodevice", "HtoD"), ("devicetohost", "DtoH"), ("devicetodevice", "DtoD")]
                .into_iter()
                .find_map(|(text, kind)| lower.contains(text).then_some(kind))
        })
        .unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_categories_meet() {
        assert_eq!(classify("Kernel"), classify("kernel"));
        assert_eq!(classify("Operator"), Kind::CpuOp);
        assert_eq!(classify("Runtime"), Kind::RuntimeCall);
        for runtime in
            ["cuda_runtime", "cuda_driver", "mtia_runtime", "privateuse1_runtime", "hip_runtime"]
        {
            assert_eq!(classify(runtime), Kind::RuntimeCall, "{runtime}");
        }
        assert_eq!(classify("overhead"), Kind::Span);
    }

    #[test]
    fn communication_is_known_by_name() {
        for name in [
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
            "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "void ncclKernel_Broadcast()",
            "ncclGenericKernel",
        ] {
            assert_eq!(kernel_kind(name), "communication", "{name}");
        }
        assert_eq!(kernel_kind("dmaTransfer"), "memory");
        assert_eq!(kernel_kind("ampere_sgemm_128x64_tn"), "computation");
    }

    #[test]
    fn steps_are_numbered() {
        assert_eq!(profiler_step("ProfilerStep#12"), Some(12));
        assert_eq!(profiler_step("ProfilerStep*"), None);
    }
}
