//! What a trace calls a collective, an element type and a backend, in one word each.

/// The collective that a name means: `nccl:_all_gather_base`, `c10d::allreduce_`, `_allgather_base` and
/// `_c10d_functional::all_gather_into_tensor` alike. `None` for what moves no data: `wait`, `init`.
pub(super) fn collective(written: &str) -> Option<&'static str> {
    let word = written.rsplit(':').next().unwrap_or(written);
    let bare: String =
        word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    COLLECTIVES.iter().find(|(start, _)| bare.starts_with(start)).map(|&(_, name)| name)
}

/// The collective that a kernel runs, as far as its name says.
pub(super) fn of_kernel(kernel: &str) -> &'static str {
    let bare: String = kernel
        .split(['(', '<'])
        .next()
        .unwrap_or(kernel)
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    OF_KERNELS.iter().find(|(word, _)| bare.contains(word)).map_or("other", |&(_, name)| name)
}

/// Two ranks exchange something; the others of the group know nothing of it.
pub(super) fn is_point_to_point(collective: &str) -> bool {
    matches!(collective, "send" | "recv" | "send_recv")
}

/// It ends on all ranks at about the same time, since none has the result before all have sent.
pub(super) fn ends_together(collective: &str) -> bool {
    matches!(collective, "all_reduce" | "all_gather" | "barrier")
}

/// All ranks hand in equally much, so that the size helps to tell which belong together.
pub(super) fn same_size_everywhere(collective: &str) -> bool {
    matches!(collective, "all_reduce" | "reduce_scatter" | "broadcast" | "reduce")
}

/// The part of `nccl:all_reduce` before the colon; none for `c10d::allreduce_`.
pub(super) fn backend(written: &str) -> Option<&str> {
    let (backend, rest) = written.split_once(':')?;
    (!rest.starts_with(':') && !backend.contains(' ')).then_some(backend)
}

/// The library a kernel belongs to.
pub(super) fn backend_of_kernel(kernel: &str) -> Option<&'static str> {
    let start: String = kernel.chars().take(24).map(|c| c.to_ascii_lowercase()).collect();
    [("rccl", "rccl"), ("nccl", "nccl"), ("hccl", "hccl"), ("hcom", "hccl"), ("oneccl", "oneccl")]
        .iter()
        .find(|(word, _)| start.contains(word))
        .map(|&(_, backend)| backend)
}

/// A backend whose host call is the communication itself; others only enqueue work for a device.
pub(super) fn runs_on_host(backend: &str) -> bool {
    matches!(backend, "gloo" | "mpi")
}

/// Bytes an element takes; `BFloat16`, `c10::BFloat16`, `long int`, `Float8_e4m3fn` and so on.
pub(super) fn width(dtype: &str) -> Option<i64> {
    let bare = dtype.trim().trim_start_matches("c10::").trim_start_matches("at::");
    let bare = bare.to_ascii_lowercase();
    if bare.starts_with("complex") {
        return Some(match bare.as_str() {
            "complex<double>" | "complexdouble" => 16,
            "complex<half>" | "complexhalf" => 4,
            _ => 8,
        });
    }
    match bare.as_str() {
        "double" | "long" | "long int" | "long long" | "int64" | "uint64" | "unsigned long" => {
            Some(8)
        }
        "float" | "int" | "int32" | "uint32" | "unsigned int" => Some(4),
        "half" | "bfloat16" | "short" | "short int" | "int16" | "uint16" | "unsigned short" => {
            Some(2)
        }
        "byte" | "char" | "unsigned char" | "signed char" | "bool" | "int8" | "uint8" => Some(1),
        _ if bare.starts_with("float8") => Some(1),
        _ => None,
    }
}

/// Elements and bytes of the tensors that `Input Dims` and `Input type` describe, and their type if all
/// have the same. Bytes are absent where a type is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tensors {
    pub(super) elements: i64,
    pub(super) bytes: Option<i64>,
    pub(super) dtype: Option<String>,
}

pub(super) fn tensors(dims: &str, types: &str) -> Option<Tensors> {
    let dims: Vec<i64> = shapes(dims)?;
    let types: Vec<&str> = types
        .trim()
        .trim_matches(['[', ']'])
        .split(',')
        .map(|t| t.trim().trim_matches('"'))
        .collect();
    if dims.is_empty() || types.len() != dims.len() {
        return None;
    }
    let bytes = dims
        .iter()
        .zip(&types)
        .map(|(elements, dtype)| elements.checked_mul(width(dtype)?))
        .try_fold(0_i64, |sum, bytes| sum.checked_add(bytes?));
    let one = types.iter().all(|t| t == &types[0]) && width(types[0]).is_some();
    Some(Tensors {
        elements: dims.iter().try_fold(0_i64, |sum, &elements| sum.checked_add(elements))?,
        bytes,
        dtype: one.then(|| types[0].to_owned()),
    })
}

/// Elements of each tensor in `[[672],[3,4],[]]`; none if it is no list of lists of numbers.
fn shapes(dims: &str) -> Option<Vec<i64>> {
    let inner = dims.trim().strip_prefix('[')?.strip_suffix(']')?;
    let mut all = Vec::new();
    let mut rest = inner.trim();
    while let Some(start) = rest.strip_prefix('[') {
        let (shape, after) = start.split_once(']')?;
        let mut elements = 1_i64;
        for size in shape.split(',').map(str::trim).filter(|size| !size.is_empty()) {
            elements = elements.checked_mul(size.parse().ok().filter(|&size: &i64| size >= 0)?)?;
        }
        all.push(elements);
        rest = after.trim_start().trim_start_matches(',').trim_start();
    }
    rest.is_empty().then_some(all)
}

/// The ranks of `[0, 1, 2]`; none if the text is cut off or no list.
pub(super) fn ranks(list: &str) -> Option<Vec<i64>> {
    let inner = list.trim().strip_prefix('[')?.strip_suffix(']')?;
    inner.split(',').map(str::trim).filter(|r| !r.is_empty()).map(|r| r.parse().ok()).collect()
}

/// How names begin, the longer word first where one begins another.
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

/// What names of kernels contain.
const OF_KERNELS: [(&str, &str); 9] = [
    ("allreduce", "all_reduce"),
    // The one of vLLM and SGLang.
    ("crossdevicereduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("sendrecv", "send_recv"),
    ("broadcast", "broadcast"),
    ("reduce", "reduce"),
    ("barrier", "barrier"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_for_each_collective() {
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
            assert_eq!(collective(written), expected, "{written}");
        }
    }

    #[test]
    fn kernels_say_what_they_run() {
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
        ] {
            assert_eq!(of_kernel(kernel), expected, "{kernel}");
        }
        assert_eq!(backend_of_kernel("ncclDevKernel_Generic"), Some("nccl"));
        assert_eq!(backend_of_kernel("gemm"), None);
    }

    #[test]
    fn backends_stand_before_one_colon() {
        assert_eq!(backend("nccl:all_reduce"), Some("nccl"));
        assert_eq!(backend("c10d::allreduce_"), None);
        assert_eq!(backend("record_param_comms"), None);
    }

    #[test]
    fn every_element_type_has_a_width() {
        for (dtype, bytes) in [
            ("Double", 8),
            ("double", 8),
            ("Long", 8),
            ("long int", 8),
            ("Float", 4),
            ("float", 4),
            ("Int", 4),
            ("c10::Half", 2),
            ("BFloat16", 2),
            ("Short", 2),
            ("unsigned char", 1),
            ("signed char", 1),
            ("Bool", 1),
            ("Float8_e4m3fn", 1),
            ("c10::Float8_e5m2", 1),
            ("c10::complex<float>", 8),
            ("ComplexDouble", 16),
        ] {
            assert_eq!(width(dtype), Some(bytes), "{dtype}");
        }
        assert_eq!(width("QInt8x"), None);
    }

    #[test]
    fn sizes_come_from_shapes() {
        let found = tensors("[[2,3],[4]]", r#"["float","float"]"#).unwrap();
        assert_eq!(found, Tensors { elements: 10, bytes: Some(40), dtype: Some("float".into()) });
        let mixed = tensors("[[2],[]]", r#"["double", "long int"]"#).unwrap();
        assert_eq!(mixed, Tensors { elements: 3, bytes: Some(24), dtype: None });
        assert_eq!(tensors("[[2]]", r#"["Scalar"]"#).unwrap().bytes, None);
        assert_eq!(tensors("[]", "[]"), None);
        assert_eq!(tensors("[[[1]], []]", r#"["TensorList", ""]"#), None);
        assert_eq!(tensors("[[9223372036854775807,2]]", r#"["float"]"#), None);
    }

    #[test]
    fn ranks_are_a_list() {
        assert_eq!(ranks("[0, 1, 7]"), Some(vec![0, 1, 7]));
        assert_eq!(ranks("[]"), Some(vec![]));
        assert_eq!(ranks("[0, 1, ..., 7]"), None);
        assert_eq!(ranks(""), None);
    }
}
