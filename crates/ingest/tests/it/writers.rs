//! Traces of PyTorch 2.15's writers: Cuspy's JSON, and the Python exporter with marks of graph nodes. All fixtures are traces of
//! one program: four steps, each with one launch of a graph on three streams.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use trace_model::Dataset;

use crate::support::{column, gzip, read_files, read_text, trace, warnings};

fn fixture(name: &str) -> Vec<u8> {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/writers");
    std::fs::read(folder.join(name)).unwrap()
}

fn recording(name: &str) -> Dataset {
    let dataset = read_files(&[(name, &fixture(name))]).unwrap();
    assert_eq!(warnings(&dataset), [], "{name}");
    dataset
}

/// Returns the distinct values of a column for each kernel name.
fn by_kernel(dataset: &Dataset, of: &str) -> Vec<String> {
    let names = column(dataset, "kernels", "name");
    let values = column(dataset, "kernels", of);
    let pairs: BTreeSet<String> =
        names.into_iter().zip(values).map(|(name, value)| format!("{name} {value}")).collect();
    pairs.into_iter().collect()
}

const MODULES: [&str; 4] = [
    "gemm_a layers.0.attention.wq",
    "gemm_b layers.0.attention.wo",
    "gemm_c layers.0.feed_forward",
    "ncclDevKernel_AllReduce layers.1.attention",
];

const STREAMS: [&str; 4] = ["gemm_a 21", "gemm_b 22", "gemm_c 23", "ncclDevKernel_AllReduce 21"];

#[test]
fn copies_of_cuspy_are_named_by_their_arguments() {
    let dataset = recording("cuspy.json.gz");
    let peers = "Memcpy PtoP (Device -> Device)";
    let names = [
        peers,
        peers,
        peers,
        peers,
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy HtoD (Pinned -> Device)",
        "Memcpy DtoH (Device -> Pageable)",
        "Memcpy HtoH (Pinned -> Pinned)",
        "Memcpy DtoD (Device -> Device)",
    ];
    assert_eq!(column(&dataset, "memcpys", "name"), names);
    assert_eq!(
        column(&dataset, "memcpys", "kind"),
        ["PtoP", "PtoP", "PtoP", "PtoP", "HtoD", "HtoD", "DtoH", "HtoH", "DtoD"]
    );
    assert_eq!(column(&dataset, "memcpys", "bandwidth_gb_per_s")[4..], ["100"; 5]);
    assert_eq!(column(&dataset, "memsets", "name"), ["Memset (Device)"; 4]);
    for args in column(&dataset, "memcpys", "args") {
        assert!(args.contains("\"channel\":9") && !args.contains("kind"), "{args}");
    }
    for args in column(&dataset, "kernels", "args") {
        assert!(args.contains("\"priority\":-1") && args.contains("\"queued\":0"), "{args}");
    }
}

#[test]
fn copies_that_state_kinds_keep_a_name_that_says_more() {
    let events = r#"{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pinned)","pid":0,"tid":7,"ts":1,"dur":1,"args":{"device":0,"stream":7,"copy kind":"HtoD"}},
        {"ph":"X","cat":"gpu_memcpy","name":"Memcpy","pid":0,"tid":7,"ts":3,"dur":1,"args":{"device":0,"stream":7,"bytes":5}},
        {"ph":"X","cat":"gpu_memset","name":"Memset","pid":0,"tid":7,"ts":5,"dur":1,"args":{"device":0,"stream":7,"bytes":5}}"#;
    let dataset = read_text(trace(events)).unwrap();
    assert_eq!(column(&dataset, "memcpys", "name"), ["Memcpy DtoH (Device -> Pinned)", "Memcpy"]);
    assert_eq!(column(&dataset, "memcpys", "kind"), ["DtoH", "unknown"]);
    assert_eq!(column(&dataset, "memcpys", "bandwidth_gb_per_s"), ["-", "-"]);
    assert_eq!(column(&dataset, "memsets", "name"), ["Memset"]);
    assert!(column(&dataset, "memcpys", "args")[0].contains("\"copy kind\":\"HtoD\""));
}

#[test]
fn copies_of_unknown_direction_are_a_missing_capability() {
    let copy = |name: &str| {
        format!(
            r#"{{"ph":"X","cat":"gpu_memcpy","name":"{name}","pid":0,"tid":7,"ts":1,"dur":1,"args":{{"device":0,"stream":7}}}}"#
        )
    };
    let kernel = r#"{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":5,"dur":1,"args":{"device":0,"stream":7}}"#;
    let holds = |events: &str| {
        let dataset = read_text(trace(events)).unwrap();
        column(&dataset, "capabilities", "capability").contains(&"copy_directions".to_owned())
    };
    assert!(!holds(&copy("Memcpy")));
    assert!(holds(&copy("Memcpy HtoD (Pageable -> Device)")));
    assert!(holds(kernel), "no copy, so nothing is missing");
}

#[test]
fn event_records_and_host_functions_of_a_graph_are_no_device_work() {
    let dataset = recording("cuspy.json.gz");
    let spans = column(&dataset, "spans", "name");
    let count = |name: &str| spans.iter().filter(|span| *span == name).count();
    assert_eq!((count("EventRecord"), count("HostNode: log_step")), (4, 4));
    assert_eq!(column(&dataset, "kernels", "name").len(), 16);
}

#[test]
fn nodes_have_one_number_for_all_writers() {
    // Graph 5, node 100: Cuspy omits the upper half of the id.
    let numbers = by_kernel(&recording("plain.json.gz"), "graph_node_id");
    assert_eq!(numbers[0], format!("gemm_a {}", (5_i64 << 32) + 100));
    for name in ["cuspy.json.gz", "cuspy_lanes.json.gz", "marked_lanes.json.gz"] {
        assert_eq!(by_kernel(&recording(name), "graph_node_id"), numbers, "{name}");
    }
}

#[test]
fn marks_of_nodes_name_their_modules() {
    for name in ["cuspy.json.gz", "cuspy_lanes.json.gz", "marked.json.gz", "marked_lanes.json.gz"] {
        let dataset = recording(name);
        assert_eq!(by_kernel(&dataset, "module"), MODULES, "{name}");
        assert_eq!(column(&dataset, "memsets", "module"), ["layers.1.attention.wq"; 4], "{name}");
    }
    let plain = recording("plain.json.gz");
    assert_eq!(column(&plain, "kernels", "module"), ["-"; 16]);
}

#[test]
fn marks_of_nodes_describe_their_collectives() {
    for name in ["cuspy.json.gz", "cuspy_lanes.json.gz", "marked.json.gz", "marked_lanes.json.gz"] {
        let dataset = recording(name);
        let of = |of: &str| column(&dataset, "collectives", of);
        assert_eq!(of("name"), ["allreduce"; 4], "{name}");
        assert_eq!(of("input_elements"), ["2048"; 4], "{name}");
        assert_eq!(of("group_size"), ["2"; 4], "{name}");
        assert_eq!(of("group_description"), ["tensor parallel"; 4], "{name}");
        assert_eq!(of("stream"), ["21"; 4], "{name}");
    }
    assert_eq!(column(&recording("plain.json.gz"), "collectives", "name").len(), 0);
}

#[test]
fn nodes_that_are_drawn_on_lanes_keep_their_streams() {
    for name in ["cuspy.json.gz", "cuspy_lanes.json.gz", "plain.json.gz", "marked_lanes.json.gz"] {
        let dataset = recording(name);
        assert_eq!(by_kernel(&dataset, "stream"), STREAMS, "{name}");
        let args = column(&dataset, "kernels", "args");
        assert!(args.iter().all(|args| !args.contains("original_stream")), "{name}");
    }
}

/// Returns the edges of the first replay by the names of their nodes, and the number of edges of all replays.
fn edges(dataset: &Dataset) -> (Vec<String>, usize) {
    let mut names = BTreeMap::new();
    for table in ["kernels", "memcpys", "memsets"] {
        let starts = column(dataset, table, "ts_ns");
        let rows =
            column(dataset, table, "event_id").into_iter().zip(column(dataset, table, "name"));
        names.extend(rows.zip(starts).map(|((id, name), start)| (id, (name, start))));
    }
    let sources = column(dataset, "graph_edges", "source");
    let targets = column(dataset, "graph_edges", "target");
    let count = sources.len();
    let mut first: Vec<String> = sources
        .iter()
        .zip(&targets)
        .filter(|(source, _)| names[*source].1.parse::<i64>().unwrap() < 1_000_000)
        .map(|(source, target)| format!("{} to {}", names[source].0, names[target].0))
        .collect();
    first.sort();
    (first, count)
}

#[test]
fn arrows_between_nodes_become_edges_past_event_records_and_host_functions() {
    let (first, count) = edges(&recording("cuspy.json.gz"));
    assert_eq!(
        first,
        [
            "gemm_a to gemm_b",
            "gemm_a to gemm_c",
            "gemm_b to Memcpy PtoP (Device -> Device)",
            // This edge skips an event record.
            "gemm_b to ncclDevKernel_AllReduce",
            "gemm_c to ncclDevKernel_AllReduce",
            // This edge skips a host function.
            "ncclDevKernel_AllReduce to Memset (Device)",
        ]
    );
    assert_eq!(count, 24);
    assert_eq!(edges(&recording("plain.json.gz")).1, 0);
}

#[test]
fn an_arrow_that_may_mean_two_nodes_of_a_lane_is_no_edge() {
    // All three streams are drawn on one lane, where two kernels start at the same time.
    let (first, _) = edges(&recording("cuspy_lanes.json.gz"));
    assert!(!first.iter().any(|edge| edge.starts_with("gemm_a")), "{first:?}");
    assert!(first.iter().any(|edge| edge == "gemm_c to ncclDevKernel_AllReduce"), "{first:?}");
}

#[test]
fn edges_of_a_node_whose_other_arrows_are_not_understood_are_incomplete() {
    let mut text = String::new();
    let packed = fixture("cuspy.json.gz");
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    let incomplete = |lost: &str| {
        let start = format!(r#""ph":"s","id":{lost}"#);
        assert_eq!(text.matches(&start).count(), 1, "{start}");
        let text = text.replace(&start, r#""ph":"s","id":1099511700000"#);
        let dataset = read_files(&[("rank0.json", text.as_bytes())]).unwrap();
        let flags = column(&dataset, "graph_edges", "is_complete");
        (flags.len(), flags.iter().filter(|flag| *flag == "false").count())
    };
    // The all-reduce depends on two kernels, on one of them through an event record. Without the start of one of these arrows, or
    // of the arrow to the event record, one of its two edges is left.
    for lost in ["1099511627778", "1099511627779", "1099511627782"] {
        assert_eq!(incomplete(lost), (23, 1), "{lost}");
    }
    // The copy depends on one kernel only.
    assert_eq!(incomplete("1099511627780"), (23, 0));
    let whole = column(&recording("cuspy.json.gz"), "graph_edges", "is_complete");
    assert_eq!(whole, ["true"; 24]);
}

#[test]
fn environment_counters_are_samples_of_their_gpu() {
    let dataset = recording("cuspy.json.gz");
    let names = column(&dataset, "counters", "name");
    let power = names.iter().position(|name| name == "Power (W)").unwrap();
    assert_eq!(column(&dataset, "counters", "device")[power], "GPU 0");
    assert_eq!(column(&dataset, "counters", "value")[power], "400");
    let mut distinct = names;
    distinct.sort();
    distinct.dedup();
    assert_eq!(
        distinct,
        [
            "Cycles (Current Kernel)",
            "Memory Clock (MHz)",
            "Power (W)",
            "SM Clock (MHz)",
            "Temperature (C)"
        ]
    );
}

#[test]
fn annotations_beside_a_trace_name_modules() {
    let plain = fixture("plain.json.gz");
    for marks in ["kernel_annotations_rank0_0.json", "kernel_annotations_rank0_fwd_bwd.pkl"] {
        let content = fixture(marks);
        for file in ["rank0.json.gz", "step_14/rank0.json.gz"] {
            let dataset = read_files(&[(file, &plain), (marks, &content)]).unwrap();
            assert_eq!(warnings(&dataset), [], "{marks}, {file}");
            assert_eq!(by_kernel(&dataset, "module"), MODULES, "{marks}, {file}");
            let source = dataset.run.sources.iter().find(|source| !source.is_timeline).unwrap();
            let found = (source.format.as_ref(), source.rank, source.events);
            assert_eq!(found, ("kernel annotations", 0, 5));
        }
    }
}

#[test]
fn annotations_that_fit_no_trace_are_reported() {
    let plain = fixture("plain.json.gz");
    let other = br#"{"98784247908": [{"module_fqn": "layers.0"}]}"#;
    let dataset =
        read_files(&[("rank0.json.gz", &plain), ("kernel_annotations_rank0_0.json", other)])
            .unwrap();
    assert_eq!(warnings(&dataset), [("unused-annotations", 1)]);
    let dataset =
        read_files(&[("rank0.json.gz", &plain), ("kernel_annotations_rank7_0.json", other)])
            .unwrap();
    assert_eq!(warnings(&dataset), [("unassigned-annotations", 1)]);
    assert_eq!(column(&dataset, "kernels", "module"), ["-"; 16]);
    let alone = read_files(&[("kernel_annotations_rank0_0.json", other)]).unwrap_err().to_string();
    assert!(alone.contains("hold no times"), "{alone}");
    // A damaged file is skipped.
    let damaged = gzip(&fixture("kernel_annotations_rank0_0.json")[..100]);
    let dataset =
        read_files(&[("rank0.json.gz", &plain), ("kernel_annotations_rank0_0.json.gz", &damaged)])
            .unwrap();
    assert_eq!(warnings(&dataset), [("unreadable-file", 1)]);
}
