//! Targets for single-file formats: reading any bytes yields tables, counted warnings, or an error.

use std::sync::LazyLock;

use rayon::{ThreadPool, ThreadPoolBuilder};
use trace_model::Dataset;

use crate::tables::{assert_same, folder, read};

/// Reads the bytes as a file with this name.
fn read_file(name: &str, bytes: &[u8]) -> Option<Dataset> {
    read(&folder(&[(name, bytes)]).path().join(name))
}

/// A trace of PyTorch's profiler. A single thread reads each window as one slice; several threads guess where events
/// start. Both must yield the same rows. With `cfg(fuzzing)`, windows and slices are only a few bytes long.
pub(crate) fn kineto(bytes: &[u8]) {
    static POOLS: LazyLock<[ThreadPool; 2]> = LazyLock::new(|| {
        [1, 3].map(|threads| {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build();
            pool.expect("a pool of threads")
        })
    });
    let [one, several] =
        POOLS.each_ref().map(|pool| pool.install(|| read_file("trace.json", bytes)));
    match (one, several) {
        (Some(one), Some(several)) => assert_same(&one, &several),
        (one, several) => assert_eq!(one.is_some(), several.is_some(), "only one of them reads it"),
    }
}

/// A memory snapshot. Bytes that do not look like one are embedded in one, so that the pickle reader always runs.
pub(crate) fn pickle(bytes: &[u8]) {
    read_file("snapshot.pickle", &with_key(bytes, "segments", b"\x80\x02}X\x08\0\0\0segments"));
}

/// A dump of the Flight Recorder, as a pickle or as JSON.
pub(crate) fn flight_recorder(bytes: &[u8]) {
    let start = b"\x80\x02}(X\x0f\0\0\0nccl_comm_state}X\x07\0\0\0entries";
    let bytes = match bytes.first() {
        Some(b'{') => bytes.to_vec(),
        _ => with_key(bytes, "profiling_name", start),
    };
    read_file("nccl_trace_rank_0", &bytes);
}

/// Prepends `start` to the bytes unless they contain `key`.
fn with_key(bytes: &[u8], key: &str, start: &[u8]) -> Vec<u8> {
    let has_key = bytes.windows(key.len()).any(|window| window == key.as_bytes());
    if has_key { bytes.to_vec() } else { [start, bytes].concat() }
}

/// Metrics of Determined: JSON, CSV, or a dump of the database.
pub(crate) fn determined(bytes: &[u8]) {
    read_file("metrics", bytes);
}

/// A trace of Composer's profiler.
pub(crate) fn composer(bytes: &[u8]) {
    read_file("ep0-ba20-rank0.json", bytes);
}

/// A log of `torch.compile`.
pub(crate) fn compile_log(bytes: &[u8]) {
    read_file("torch_trace.log", bytes);
}
