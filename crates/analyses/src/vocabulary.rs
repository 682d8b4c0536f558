//! Names that PyTorch and its libraries give to events.

/// Prefixes of host ranges that are collectives, one per communication library: `nccl:all_reduce`.
pub(crate) const COLLECTIVE_PREFIXES: [&str; 6] =
    ["nccl:", "gloo:", "mpi:", "ucc:", "hccl:", "xccl:"];
