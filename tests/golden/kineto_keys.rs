//! Every argument that Kineto writes, by upstream's catalogue: it has a column, or stays in `args`.

use std::collections::{BTreeMap, BTreeSet};

use trace_advisor::Run;

use crate::harness::{self, Case};
use crate::support::corpus::corpus;
use crate::support::rows::rows;

const KEYS: &str = "kineto_keys: keys of the catalogue";

/// Keys that no column takes: they stay in `args`, where `json_get_str(args, 'channel')` finds them.
const IN_ARGS: [&str; 59] = [
    // Of operators: links that other columns state, and values that only the roofline reads.
    "Input Strides",
    "Concrete Inputs",
    "Ev Idx",
    "Backend",
    "CallFrom",
    "Module Hierarchy",
    "Python thread",
    // Of collectives, beside their sizes and groups.
    "In split size",
    "Out split size",
    "Global rank start",
    "Global rank stride",
    "Rank",
    "Src Rank",
    "Dst Rank",
    "Input Tensors start",
    "Output Tensors start",
    "Is asynchronized op",
    // Of CUDA: the hardware that a kernel ran on, and limits of its occupancy.
    "activeBlocksPerMultiprocessor",
    "allocatedRegistersPerBlock",
    "allocatedSharedMemPerBlock",
    "blockLimitBarriers",
    "blockLimitBlocks",
    "blockLimitRegs",
    "blockLimitSharedMem",
    "blockLimitWarps",
    "limitingFactors",
    "occupancy",
    "cbid",
    "channel",
    "channel_type",
    "context",
    "cuda_sync_kind",
    "event_id",
    "priority",
    "queued",
    "wait_on_cuda_event_id",
    // Both ends of copies between devices.
    "fromContext",
    "fromDevice",
    "inContext",
    "inDevice",
    "toContext",
    "toDevice",
    // Of ROCm and XPU.
    "cid",
    "dst",
    "hsa_queue",
    "kernel",
    "ptr",
    "src",
    "Communicator_id",
    "kernel_id",
    "memory opration id",
    "Number_wait_events",
    "overhead cost",
    "overhead count",
    "Return_code",
    "source_line_number",
    "sycl_invocation_id",
    "sycl_node_id",
    "sycl queue",
];

/// Properties of devices that no view needs: they are not read.
const NOT_READ: [&str; 14] = [
    "maxThreadsPerBlock",
    "regsPerBlock",
    "sharedMemPerBlock",
    "regsPerMultiprocessor",
    "sharedMemPerBlockOptin",
    "sharedMemPerMultiprocessor",
    "maxSharedMemoryPerMultiProcessor",
    "maxComputeUnits",
    "maxWorkGroupSize",
    "maxClockFrequency",
    "maxMemAllocSize",
    "localMemSize",
    "vendor",
    "driverVersion",
];

pub(crate) fn cases() -> Vec<Case> {
    harness::require(KEYS, 120);
    harness::functions![
        every_key_of_events_has_a_column_or_stays_in_args,
        every_property_of_devices_is_read_or_known_to_be_left_out,
    ]
}

/// The keys of the catalogue, by producer.
fn catalogue() -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(corpus().join("spec/kineto_2026.md")).unwrap();
    let (_, lists) = text.split_once("## The catalogue, by producer").unwrap();
    let mut by_producer = BTreeMap::new();
    for line in lists.lines().filter_map(|line| line.strip_prefix("- ")) {
        let (producer, keys) = line.split_once(": ").unwrap();
        // Every second piece is in backquotes.
        let keys = keys.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        by_producer.insert(producer.to_owned(), keys);
    }
    by_producer
}

/// Categories of events that have arguments.
const CATEGORIES: [&str; 7] = [
    "cpu_op",
    "python_function",
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "cuda_sync",
    "cuda_runtime",
];

/// A value that each reader of the key understands.
fn value(key: &str) -> &str {
    match key {
        "Input Dims" | "Input Strides" => "[[1]]",
        "grid" | "block" => "[1,1,1]",
        "Input type" | "Concrete Inputs" => r#"["float"]"#,
        _ => "7",
    }
}

fn every_key_of_events_has_a_column_or_stays_in_args() {
    let kept: BTreeSet<&str> = IN_ARGS.into_iter().collect();
    let mut seen = BTreeSet::new();
    for (producer, keys) in catalogue() {
        if producer == "device properties" {
            continue;
        }
        for key in keys {
            let mut events: Vec<String> = CATEGORIES
                .iter()
                .enumerate()
                .map(|(at, category)| {
                    format!(
                        r#"{{"ph":"X","cat":"{category}","name":"n{at}","pid":1,"tid":{at},"ts":{at},"dur":1,"args":{{"{key}":{}}}}}"#,
                        value(&key)
                    )
                })
                .collect();
            events.push(format!(
                r#"{{"ph":"i","cat":"cpu_instant_event","name":"[memory]","s":"t","pid":1,"tid":0,"ts":1,"args":{{"{key}":{0},"Bytes":7}}}}"#,
                value(&key)
            ));
            if producer == "collectives" {
                events.push(format!(
                    r#"{{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":1,"tid":9,"ts":1,"dur":1,"args":{{"{key}":{},"Collective name":"allreduce"}}}}"#,
                    value(&key)
                ));
            }
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("trace.json");
            let text = format!(r#"{{"schemaVersion":1,"traceEvents":[{}]}}"#, events.join(","));
            std::fs::write(&file, text).unwrap();
            let run = Run::open(&file).unwrap();
            let of_collectives =
                "SELECT count(*) AS n FROM collectives WHERE comms_id IS NOT NULL OR sequence = 7
                 OR group_size = 7 OR input_elements = 7 OR output_elements = 7 OR group_name = '7'
                 OR group_description = '7' OR group_ranks = '7' OR dtype = '7' OR name = '7'";
            let in_args = "SELECT count(*) AS n FROM events WHERE args LIKE '%\"%'";
            let count = |query| rows(&run, query)[0]["n"].as_f64().unwrap() as usize;
            let has_column = count(in_args) < events.len() || count(of_collectives) > 0;
            let is_kept = kept.contains(key.as_str());
            assert_eq!(
                has_column,
                !is_kept,
                "{producer}: {key}: in args of {} events",
                count(in_args)
            );
            seen.insert(key);
            harness::count(KEYS, 1);
        }
    }
    let unknown: Vec<_> = kept.iter().filter(|key| !seen.contains(**key)).collect();
    assert!(unknown.is_empty(), "not in the catalogue: {unknown:?}");
}

fn every_property_of_devices_is_read_or_known_to_be_left_out() {
    const READ: [&str; 8] = [
        "id",
        "name",
        "totalGlobalMem",
        "computeMajor",
        "computeMinor",
        "maxThreadsPerMultiprocessor",
        "warpSize",
        "numSms",
    ];
    let properties = catalogue().remove("device properties").unwrap();
    for key in properties {
        let is_left_out = NOT_READ.contains(&key.as_str());
        let value = if key == "name" { "\"77\"" } else { "77" };
        let id = if key == "id" { String::new() } else { "\"id\":1,".to_owned() };
        let text = format!(
            r#"{{"schemaVersion":1,"deviceProperties":[{{{id}"{key}":{value}}}],"traceEvents":[
            {{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":1}}]}}"#
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace.json");
        std::fs::write(&file, text).unwrap();
        let run = Run::open(&file).unwrap();
        let devices = rows(&run, "SELECT * FROM devices");
        let is_77 = |value: &serde_json::Value| *value == 77.0 || *value == "77";
        let is_read = devices.iter().any(|device| device.values().any(is_77));
        assert_eq!(is_read, !is_left_out, "{key}: {devices:?}");
        assert_eq!(READ.contains(&key.as_str()), is_read, "{key}");
        harness::count(KEYS, 1);
    }
}
