//! Classifies events by category and name, in every dialect that occurs.

use trace_model::vocabulary::{
    LIGHTNING_PREFIX, LOADER_PREFIX, PROFILER_STEP_PREFIX, is_device_sync,
};

/// The table of an event with a duration.
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

/// Classifies by category. Old torch wrote `Kernel`, `Operator`, `Runtime`, `Memcpy`; newer ones `kernel`, `cpu_op`,
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

/// Whether an activity in a category of kernels runs nothing: MTIA records waits for events and the recording of
/// events there.
pub(crate) fn is_sync_in_kernels(category: &str, name: &str) -> bool {
    is_device_sync(name) && category.eq_ignore_ascii_case("mtia_ccp_events")
}

/// Whether an operator is a range opened by `record_function`: torch before 1.11 recorded those as operators.
pub(crate) fn is_annotation_name(name: &str) -> bool {
    [PROFILER_STEP_PREFIX, LOADER_PREFIX, "Optimizer.", LIGHTNING_PREFIX]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classify_maps_old_and_new_categories() {
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
}
