//! Names that HTA recognizes.

/// The meaning of a name for HTA's critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Plain,
    /// A call that puts work on a stream.
    Launch,
    /// A call that waits for the device: its own time has no weight.
    Blocking,
    /// Both: `cudaMemcpyAsync`.
    BlockingLaunch,
    EventRecord,
    StreamWaitCall,
    EventSync,
    ContextSync,
    StreamSync,
    StreamWait,
}

impl Role {
    pub(super) fn of(name: &str) -> Self {
        match name {
            "cudaLaunchKernel"
            | "cudaLaunchKernelExC"
            | "cuLaunchKernel"
            | "cudaMemsetAsync"
            | "runFunction - job_prep_and_submit_for_execution"
            | "hipLaunchKernel"
            | "hipExtModuleLaunchKernel"
            | "hipMemsetAsync"
            | "hipMemcpyAsync"
            | "hipMemcpyWithStream" => Self::Launch,
            "cudaMemcpyAsync" => Self::BlockingLaunch,
            "cudaDeviceSynchronize"
            | "cudaStreamSynchronize"
            | "cudaEventQuery"
            | "cudaEventSynchronize"
            | "cudaMemcpy" => Self::Blocking,
            "cudaEventRecord" => Self::EventRecord,
            "cudaStreamWaitEvent" => Self::StreamWaitCall,
            "Event Sync" => Self::EventSync,
            "Context Sync" => Self::ContextSync,
            "Stream Sync" => Self::StreamSync,
            "Stream Wait Event" => Self::StreamWait,
            _ => Self::Plain,
        }
    }

    pub(super) fn launches(self) -> bool {
        matches!(self, Self::Launch | Self::BlockingLaunch)
    }

    pub(super) fn blocks(self) -> bool {
        matches!(self, Self::Blocking | Self::BlockingLaunch)
    }
}

/// A name as HTA prints it.
#[derive(Debug)]
pub(super) struct ShortName {
    pub(super) text: String,
    pub(super) is_communication: bool,
}

impl ShortName {
    pub(super) fn of(name: &str) -> Self {
        let text = shorten(name);
        Self { is_communication: is_communication(&text), text }
    }
}

/// HTA's short form of a name: without return type, template and call arguments.
fn shorten(name: &str) -> String {
    let copy = ["Memcpy", "Memset", "dma"].iter().any(|prefix| name.starts_with(prefix));
    if copy || !name.contains(['<', '(']) {
        return name.to_owned();
    }
    let mut short = String::with_capacity(name.len());
    for c in name.replace("->", "").chars() {
        let open = match c {
            '>' => '<',
            ')' => '(',
            _ => {
                short.push(c);
                continue;
            }
        };
        // Removes everything back to the bracket, or to the start of the name if there is none.
        short.truncate(short.rfind(open).unwrap_or(0));
    }
    short.rsplit(' ').next().unwrap_or_default().to_owned()
}

/// HTA's communication kernels: `^nccl.*Kernel` on the short name.
fn is_communication(short: &str) -> bool {
    short.strip_prefix("nccl").is_some_and(|rest| rest.contains("Kernel"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorten_matches_hta() {
        for (long, expected) in [
            ("aten::mm", "aten::mm"),
            ("void at::native::add<float, 4>(int, float*)", "at::native::add"),
            ("void f(std::vector<int>, g<(h)1>)", "f"),
            ("auto f() -> int<3>", "int"),
            ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
            ("dataloader.py(3): next", "next"),
            // A closing bracket without an opening one removes everything before it.
            ("f<a)b>c", "c"),
            ("f(a>b)c", "c"),
        ] {
            assert_eq!(shorten(long), expected, "{long}");
        }
    }

    #[test]
    fn is_communication_matches_hta() {
        assert!(is_communication(&shorten(
            "ncclDevKernel_AllReduce_Sum(ncclDevKernelArgsStorage<4096ul>)"
        )));
        assert!(is_communication(&shorten("void ncclKernel<int>()")));
        assert!(!is_communication("rcclKernel"));
        assert!(!is_communication("ncclAllReduce"));
    }
}
