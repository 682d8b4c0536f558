//! Properties of kernels and copies that follow from their names.

use trace_model::StrId;
use trace_model::Strings;
use trace_model::vocabulary::{is_communication_kernel, is_memory_kernel};

use super::tensor_cores::tensor_cores;

/// Properties of a kernel that follow from its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelName {
    /// Value of `kernels.kind`.
    pub(crate) kind: StrId,
    /// Value of `kernels.tensor_cores`.
    pub(crate) tensor_cores: StrId,
}

impl KernelName {
    /// Judges a name. The result should be kept for each name.
    pub(crate) fn of(name: StrId, strings: &mut Strings) -> Self {
        Self {
            kind: strings.intern(kernel_kind(strings.get(name))),
            tensor_cores: strings.intern(tensor_cores(strings.get(name))),
        }
    }
}

/// The value of `kernels.kind`: `communication`, `memory` or `computation`.
pub(crate) fn kernel_kind(name: &str) -> &'static str {
    if is_communication_kernel(name) {
        "communication"
    } else if is_memory_kernel(name) {
        "memory"
    } else {
        "computation"
    }
}

/// Direction of a copy whose direction is unknown.
pub(crate) const UNKNOWN_COPY: &str = "unknown";

/// Direction of a copy: AMD writes it in `kind`, NVIDIA in the name.
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
        .unwrap_or(UNKNOWN_COPY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_kind_recognizes_communication_by_name() {
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
}
