//! Traces of `rocprofv3`.

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int32Type;
use trace_model::Dataset;

use super::{Message, annotation, begin, codes, end, ints, read, texts, thread_track, trace};

fn text(name: &str, value: &str) -> Message {
    Message::new().bytes(10, name).bytes(6, value)
}

fn named(uuid: u64, name: &str) -> Message {
    Message::new().message(60, Message::new().varint(1, uuid).bytes(2, name))
}

fn numbers(dataset: &Dataset, table: &str, column: &str) -> Vec<i32> {
    let values = |batch: &trace_model::RecordBatch| {
        batch.column_by_name(column).unwrap().as_primitive::<Int32Type>().values().to_vec()
    };
    dataset.tables.get(table).iter().flat_map(values).collect()
}

#[test]
fn kernels_copies_and_calls_are_recognized() {
    let correlation = annotation("corr_id", 3);
    let kernel = [
        correlation.clone(),
        text("agent", "GPU-4"),
        annotation("stream_ID", 2),
        annotation("workgroup_size", 256),
        annotation("grid_size", 1024),
    ];
    let copy =
        [text("src_agent", "GPU-1"), text("dst_agent", "CPU-0"), annotation("copy_bytes", 64)];
    let packets = [
        thread_track(5),
        named(6, "STREAM [\" 2 \"]"),
        begin(0, 5, "hip_api", "hipLaunchKernel", &[correlation]),
        end(10, 5),
        begin(20, 6, "kernel_dispatch", "Cijk_Ailk", &kernel),
        end(30, 6),
        begin(40, 6, "memory_copy", "MEMORY_COPY_DEVICE_TO_HOST", &copy),
        end(50, 6),
        begin(60, 5, "marker_api", "train step", &[]),
        end(70, 5),
    ];
    let dataset = read(&trace(&packets)).unwrap();
    assert_eq!(codes(&dataset), []);
    assert_eq!(texts(&dataset, "runtime_calls", "name"), ["hipLaunchKernel"]);
    assert_eq!(ints(&dataset, "kernels", "blocks"), [4]);
    assert_eq!(numbers(&dataset, "kernels", "stream"), [2]);
    assert_eq!(ints(&dataset, "kernels", "correlation"), [3]);
    assert_eq!(texts(&dataset, "memcpys", "kind"), ["DtoH"]);
    assert_eq!(ints(&dataset, "memcpys", "bytes"), [64]);
    assert_eq!(texts(&dataset, "annotations", "name"), ["train step"]);
    assert_eq!(texts(&dataset, "ranks", "vendor"), ["amd"]);
}

/// Events as `generatePerfetto.cpp` of released versions of ROCprofiler-SDK writes them.
#[test]
fn released_versions_name_the_stream_in_the_track() {
    let kernel = [
        annotation("corr_id", 3),
        text("agent", "Agent-4"),
        annotation("queue", 1 << 40),
        annotation("private_segment_size", 16),
        annotation("group_segment_size", 4096),
        annotation("workgroup_size", 256),
        annotation("grid_size", 1024),
    ];
    let copy =
        [text("src_agent", "Agent-0"), text("dst_agent", "Agent-4"), annotation("copy_bytes", 64)];
    let packets = [
        named(6, "COMPUTE AGENT [4] STREAM [2] (GPU)"),
        named(7, "COPY to AGENT [4] STREAM [3] (GPU)"),
        named(8, "COMPUTE Agent [4] QUEUE [1] GPU"),
        begin(20, 6, "kernel_dispatch", "Cijk_Ailk", &kernel),
        end(30, 6),
        begin(40, 7, "memory_copy", "MEMORY_COPY_HOST_TO_DEVICE", &copy),
        end(50, 7),
        begin(60, 8, "kernel_dispatch", "Cijk_Ailk", &kernel),
        end(70, 8),
    ];
    let dataset = read(&trace(&packets)).unwrap();
    assert_eq!(codes(&dataset), []);
    assert_eq!(numbers(&dataset, "kernels", "stream"), [2, 1]);
    assert_eq!(numbers(&dataset, "kernels", "device"), [4, 4]);
    assert_eq!(numbers(&dataset, "memcpys", "stream"), [3]);
    assert_eq!(ints(&dataset, "kernels", "shared_memory_bytes"), [4096, 4096]);
}

#[test]
fn grids_are_in_threads_where_the_launching_function_takes_threads() {
    let kernel = |correlation| {
        [
            annotation("corr_id", correlation),
            annotation("workgroup_size", 256),
            annotation("grid_size", 1024),
        ]
    };
    let call = |ts_ns, name, correlation| {
        [begin(ts_ns, 5, "hip_api", name, &[annotation("corr_id", correlation)]), end(ts_ns + 5, 5)]
    };
    let run = |ts_ns, correlation| {
        let begin = begin(ts_ns, 6, "kernel_dispatch", "Cijk_Ailk", &kernel(correlation));
        [begin, end(ts_ns + 5, 6)]
    };
    let packets = [
        vec![thread_track(5), named(6, "COMPUTE AGENT [4] STREAM [2] (GPU)")],
        call(0, "hipExtModuleLaunchKernel", 1).to_vec(),
        call(10, "hipLaunchKernel", 2).to_vec(),
        run(100, 1).to_vec(),
        run(110, 2).to_vec(),
        run(120, 3).to_vec(),
    ]
    .concat();
    let dataset = read(&trace(&packets)).unwrap();
    assert_eq!(codes(&dataset), []);
    assert_eq!(texts(&dataset, "kernels", "grid"), ["[1024]", "[4]", "[4]"]);
    assert_eq!(ints(&dataset, "kernels", "blocks"), [1024, 4, 4]);
    assert_eq!(ints(&dataset, "kernels", "block_threads"), [256, 256, 256]);
}
