//! Targets for files: reading any bytes yields tables, counted warnings, or an error.

use std::sync::LazyLock;

use rayon::{ThreadPool, ThreadPoolBuilder};
use trace_model::{Capability, Dataset};

use crate::tables::{assert_same, folder, read};

/// Text that makes bytes look like a file of a format, so that its reader runs: with the key that the text contains.
const BEGINNINGS: &[(&str, &str, &[u8])] = &[
    ("pickle", "segments", b"\x80\x02}X\x08\0\0\0segments"),
    (
        "flight_recorder",
        "profiling_name",
        b"\x80\x02}(X\x0f\0\0\0nccl_comm_state}X\x07\0\0\0entries",
    ),
];

/// Reads the bytes as a file of a format. Of a timeline, a single thread reads each window as one slice; several threads guess
/// where events start. Both must yield the same rows. With `cfg(fuzzing)`, windows and slices are only a few bytes long.
pub(crate) fn run(format: &ingest::Format, bytes: &[u8]) {
    static POOLS: LazyLock<[ThreadPool; 2]> = LazyLock::new(|| {
        [1, 3].map(|threads| {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build();
            pool.expect("a pool of threads")
        })
    });
    let beginning = BEGINNINGS.iter().find(|(target, ..)| *target == format.fuzz_target);
    let bytes = match beginning {
        Some((_, key, beginning)) if !bytes.starts_with(b"{") => with_key(bytes, key, beginning),
        _ => bytes.to_vec(),
    };
    let file = |bytes: &[u8]| -> Option<Dataset> {
        read(&folder(&[(format.file_name, bytes)]).path().join(format.file_name))
    };
    if !format.provides.contains(&Capability::Timeline) {
        file(&bytes);
        return;
    }
    let [one, several] = POOLS.each_ref().map(|pool| pool.install(|| file(&bytes)));
    match (one, several) {
        (Some(one), Some(several)) => assert_same(&one, &several),
        (one, several) => assert_eq!(one.is_some(), several.is_some(), "only one of them reads it"),
    }
}

/// Prepends `start` to the bytes unless they contain `key`.
fn with_key(bytes: &[u8], key: &str, start: &[u8]) -> Vec<u8> {
    let has_key = bytes.windows(key.len()).any(|window| window == key.as_bytes());
    if has_key { bytes.to_vec() } else { [start, bytes].concat() }
}
