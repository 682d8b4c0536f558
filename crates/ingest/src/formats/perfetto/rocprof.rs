//! Traces of `rocprofv3 --output-format pftrace`: track events with their own names of categories and arguments
//! (`generatePerfetto.cpp` of ROCprofiler-SDK). Released versions state the stream in the name of the track
//! (`COMPUTE AGENT [4] STREAM [2] (GPU)`), later versions in an argument.

use std::fmt::Write as _;

use rustc_hash::FxHashSet;
use trace_model::column::NULL_I64;

use super::drafts::{Drafts, Key, Text};
use super::text::{push_natural, push_string};
use crate::formats::kineto::arg::Arg;
use crate::timeline::columns::Columns;

/// HIP functions that take the grid in threads. For kernels that they launch, the tables have the grid in threads, as Chrome traces
/// do.
const LAUNCHES_IN_THREADS: [&str; 2] = ["hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel"];

/// The argument that states a stream.
const STREAM: &[u8] = b"stream_ID";

/// The meaning of a category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A HIP call.
    Call,
    Kernel,
    Copy,
    /// A range or an instant of the program (`ROCTx`).
    Range,
}

impl Role {
    /// Returns the Chrome trace category of this role.
    pub(super) fn category(self) -> &'static [u8] {
        match self {
            Self::Call => b"hip_runtime",
            Self::Kernel => b"kernel",
            Self::Copy => b"gpu_memcpy",
            Self::Range => b"user_annotation",
        }
    }
}

/// Returns the role of a category of `rocprofv3`; `None` for other categories. HSA calls are below HIP calls, and stay spans.
pub(super) fn role(category: &[u8]) -> Option<Role> {
    match category {
        b"hip_api" => Some(Role::Call),
        b"kernel_dispatch" => Some(Role::Kernel),
        b"memory_copy" => Some(Role::Copy),
        b"marker_api" => Some(Role::Range),
        _ => None,
    }
}

/// Renames the arguments from `first` on to their names in Chrome traces. `track` is the name of the track.
pub(super) fn adapt<'w>(
    role: Role,
    name: &[u8],
    track: &[u8],
    first: usize,
    drafts: &mut Drafts<'w>,
) {
    let value_of = |drafts: &Drafts<'w>, wanted: &[u8]| -> Option<u64> {
        let mut args = drafts.args[first..].iter();
        let (_, value) = args.find(|(key, _)| is_key(key, wanted))?;
        trailing_number(drafts.bytes(value))
    };
    if role == Role::Kernel || role == Role::Copy {
        let direction = (role == Role::Copy).then(|| direction(name)).flatten();
        // A copy to the host is an activity of its source device.
        let agent: &[u8] = match (role, direction) {
            (Role::Kernel, _) => b"agent",
            (_, Some("DtoH")) => b"src_agent",
            _ => b"dst_agent",
        };
        if let Some(device) = value_of(drafts, agent) {
            drafts.add_arg(Key::Known(Arg::Device), |text| push_natural(text, device));
        }
        let has_stream = drafts.args[first..].iter().any(|(key, _)| is_key(key, STREAM));
        if let Some(stream) = stream(track).filter(|_| !has_stream) {
            drafts.add_arg(Key::Known(Arg::Stream), |text| push_natural(text, stream));
        }
        if let Some(direction) = direction {
            let push = |text: &mut Vec<u8>| push_string(text, direction.as_bytes());
            drafts.add_arg(Key::Known(Arg::Kind), push);
        }
        // Block and grid are numbers of threads. `set_grids` restores the grids that stay in threads.
        let block = value_of(drafts, b"workgroup_size").filter(|&threads| threads > 0);
        if let Some(block) = block.filter(|_| role == Role::Kernel) {
            if let Some(threads) = value_of(drafts, b"grid_size") {
                let push = |text: &mut Vec<u8>| push_list_of(text, threads.div_ceil(block));
                drafts.add_arg(Key::Known(Arg::Grid), push);
                drafts.has_grids_in_threads = true;
            }
            drafts.add_arg(Key::Known(Arg::Block), |text| push_list_of(text, block));
        }
    }
    for (key, _) in &mut drafts.args[first..] {
        let arg = match key {
            Key::Other(Text::Stored(b"corr_id")) => Arg::Correlation,
            Key::Other(Text::Stored(b"copy_bytes")) => Arg::Bytes,
            Key::Other(Text::Stored(b"LDS_Block_Size" | b"group_segment_size")) => {
                Arg::SharedMemory
            }
            Key::Other(Text::Stored(STREAM)) if role != Role::Call => Arg::Stream,
            _ => continue,
        };
        *key = Key::Known(arg);
    }
}

/// Converts grids from blocks to threads for kernels that a function of [`LAUNCHES_IN_THREADS`] launched.
pub(super) fn set_grids(columns: &mut Columns) {
    let names = LAUNCHES_IN_THREADS.map(|name| columns.strings.find(name));
    let calls = &columns.runtime_calls;
    let launches = (0..calls.len()).filter(|&row| names.contains(&Some(calls.name.get(row))));
    let ids: FxHashSet<i64> = launches.map(|row| calls.correlation.get(row)).collect();
    let kernels = &mut columns.kernels;
    let mut grid = String::new();
    for row in 0..kernels.len() {
        let (id, blocks) = (kernels.correlation.get(row), kernels.blocks.get(row));
        let block_threads = kernels.block_threads.get(row);
        if [id, blocks, block_threads].contains(&NULL_I64) || !ids.contains(&id) {
            continue;
        }
        let Some(threads) = blocks.checked_mul(block_threads) else { continue };
        grid.clear();
        // Writing to memory does not fail.
        let _ = write!(grid, "[{threads}]");
        kernels.grid.set(row, columns.strings.intern(&grid));
        kernels.blocks.set(row, threads);
    }
}

fn is_key(key: &Key<'_>, wanted: &[u8]) -> bool {
    matches!(key, Key::Other(Text::Stored(name)) if *name == wanted)
}

/// Appends a list of one number: `[8]`.
fn push_list_of(text: &mut Vec<u8>, number: u64) {
    text.push(b'[');
    push_natural(text, number);
    text.push(b']');
}

/// Returns the direction of a copy from its name, for example `MEMORY_COPY_HOST_TO_DEVICE`.
fn direction(name: &[u8]) -> Option<&'static str> {
    const NAMES: [(&str, &str); 4] = [
        ("HOST_TO_DEVICE", "HtoD"),
        ("DEVICE_TO_HOST", "DtoH"),
        ("DEVICE_TO_DEVICE", "DtoD"),
        ("HOST_TO_HOST", "HtoH"),
    ];
    let is_of = |text: &str| memchr::memmem::find(name, text.as_bytes()).is_some();
    NAMES.into_iter().find_map(|(text, direction)| is_of(text).then_some(direction))
}

/// Returns the stream of a track from its name, or the queue with `--group-by-queue`: 2 for `COPY to AGENT [4] STREAM [2] (GPU)`.
fn stream(track: &[u8]) -> Option<u64> {
    let after = |word: &str| {
        let at = memchr::memmem::find(track, word.as_bytes())?;
        Some(&track[at + word.len()..])
    };
    let rest = after("STREAM [").or_else(|| after("QUEUE ["))?;
    let number = rest[..memchr::memchr(b']', rest)?].trim_ascii();
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Returns the number at the end of a value: 64 for `64`, and 4 for `"GPU-4"`.
fn trailing_number(value: &[u8]) -> Option<u64> {
    let value = value.strip_suffix(b"\"").unwrap_or(value);
    let digits = value.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&value[value.len() - digits..]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_in_numbers() {
        assert_eq!(trailing_number(b"\"GPU-4\""), Some(4));
        assert_eq!(trailing_number(b"64"), Some(64));
        assert_eq!(trailing_number(b"\"GPU\""), None);
        assert_eq!(direction(b"MEMORY_COPY_DEVICE_TO_HOST"), Some("DtoH"));
        assert_eq!(direction(b"MEMORY_COPY_NONE"), None);
    }

    #[test]
    fn tracks_are_named_after_streams_or_queues() {
        assert_eq!(stream(b"COMPUTE AGENT [4] STREAM [2] (GPU)"), Some(2));
        assert_eq!(stream(b"COPY to AGENT [4] STREAM [0] (GPU)"), Some(0));
        assert_eq!(stream(b"COMPUTE AGENT [4] QUEUE [1] GPU"), Some(1));
        for other in ["COPY to AGENT [4] THREAD [0] (GPU)", "STREAM [", "STREAM [x]", ""] {
            assert_eq!(stream(other.as_bytes()), None, "{other}");
        }
    }
}
