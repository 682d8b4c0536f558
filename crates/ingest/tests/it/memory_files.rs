//! Memory snapshots and memory timelines: every layout, their ranks, their clock, and what is no such file.

use std::path::PathBuf;

use crate::support::{column, gzip, read, read_files, trace, warnings};
use trace_model::Dataset;

pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/memory");
    std::fs::read(folder.join(name)).unwrap()
}

fn alone(name: &str) -> Dataset {
    read_files(&[(name, &fixture(name))]).unwrap()
}

const MIB: i64 = 1 << 20;

/// Rows of some columns, side by side.
fn rows(dataset: &Dataset, table: &str, columns: &[&str]) -> Vec<String> {
    let columns: Vec<Vec<String>> = columns.iter().map(|c| column(dataset, table, c)).collect();
    (0..columns[0].len())
        .map(|row| columns.iter().map(|c| c[row].as_str()).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn snapshot_history_is_replayed_from_its_end() {
    let dataset = alone("torch2_protocol4.pickle");
    assert_eq!(warnings(&dataset), [("no-timeline", 1)]);
    let held = column(&dataset, "capabilities", "capability");
    assert_eq!(held, ["memory_snapshot", "memory_history"]);
    let start = 500 + 3 * MIB;
    let held: Vec<i64> = [8, 8, 0, 8, 12, 12, 9, 9, 9, 9, 9].map(|mib| start + mib * MIB).to_vec();
    let after = column(&dataset, "snapshot_events", "allocated_bytes");
    let expected: Vec<String> = held.iter().map(ToString::to_string).collect();
    assert_eq!(after[..11], expected);
    assert_eq!(after[11..], ["1000", "1000"]);
    let reserved = column(&dataset, "snapshot_events", "reserved_bytes");
    assert_eq!(reserved[6], (20 * MIB).to_string());
    assert_eq!(reserved[7], (22 * MIB).to_string());
    let peak = [
        "device",
        "start_allocated_bytes",
        "end_allocated_bytes",
        "peak_allocated_bytes",
        "peak_position",
        "peak_ts_ns",
        "start_reserved_bytes",
        "end_reserved_bytes",
    ];
    let (end, most) = (500 + 12 * MIB, start + 12 * MIB);
    assert_eq!(
        rows(&dataset, "snapshot_devices", &peak),
        [
            format!("0 {start} {end} {most} 4 400000 {} {}", 20 * MIB, 22 * MIB),
            format!("1 0 1000 1000 0 0 {} {}", 2 * MIB, 2 * MIB),
        ]
    );
    let allocations = [
        "device",
        "bytes",
        "known_from",
        "alloc_position",
        "free_requested_position",
        "free_position",
    ];
    assert_eq!(
        rows(&dataset, "snapshot_allocations", &allocations),
        [
            format!("0 {} alloc 0 1 2", 8 * MIB),
            format!("0 {} alloc 3 - -", 8 * MIB),
            format!("0 {} alloc 4 9 -", 4 * MIB),
            format!("0 {} release - 5 6", 3 * MIB),
            "0 500 block - - -".to_owned(),
            "1 1000 alloc 0 - -".to_owned(),
        ]
    );
    assert_eq!(column(&dataset, "snapshot_events", "args")[0], "{\"user_metadata\":\"step 1\"}");
    assert_eq!(
        column(&dataset, "snapshot_events", "device_free_bytes")[8],
        (512 * MIB).to_string()
    );
    let settings = column(&dataset, "snapshots", "allocator_settings");
    assert!(
        settings[0].contains("\"PYTORCH_CUDA_ALLOC_CONF\":\"max_split_size_mb:128\""),
        "{settings:?}"
    );
    assert!(column(&dataset, "snapshots", "args")[0].contains("external_annotations"));
}

#[test]
fn snapshot_layouts_give_the_same_blocks() {
    let blocks = ["device", "address", "state", "size_bytes", "requested_bytes"];
    let expected = rows(&alone("torch2_protocol4.pickle"), "snapshot_blocks", &blocks);
    assert_eq!(expected.len(), 8);
    assert_eq!(expected[0], format!("0 {} active_allocated 512 500", 0x7F00_0000_0000_i64));
    let names = [
        "torch2_protocol0.pickle",
        "torch2_protocol1.pickle",
        "torch2_protocol2.pickle",
        "torch2_protocol3.pickle",
        "torch2_protocol5.pickle",
        "torch20_rank3.pickle",
        "torch113.pickle",
        "segments_only.pickle",
        "unshared.pickle.gz",
    ];
    for name in names {
        assert_eq!(rows(&alone(name), "snapshot_blocks", &blocks), expected, "{name}");
    }
}

#[test]
fn snapshot_stacks_are_stored_once_with_the_user_line() {
    for name in ["torch2_protocol2.pickle", "torch113.pickle", "unshared.pickle.gz"] {
        let dataset = alone(name);
        // Of eleven frames, <module> and step are shared.
        assert_eq!(dataset.tables.rows("snapshot_stacks"), 8, "{name}");
        assert_eq!(column(&dataset, "snapshots", "stack_count"), ["4"], "{name}");
        let stacks = rows(&dataset, "snapshot_stacks", &["is_whole", "depth", "user_frame"]);
        assert!(stacks.contains(&"true 4 /home/me/model.py:17 forward".to_owned()), "{stacks:?}");
        assert!(stacks.contains(&"true 2 /home/me/train.py:42 step".to_owned()), "{stacks:?}");
        let texts = column(&dataset, "snapshot_stacks", "text");
        let linear = "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/linear.py:125 forward < \
                      /home/me/model.py:17 forward < /home/me/train.py:42 step < \
                      /home/me/train.py:90 <module>";
        assert!(texts.iter().any(|text| text == linear), "{texts:?}");
    }
}

#[test]
fn snapshot_without_a_history_has_allocations_from_blocks() {
    let dataset = alone("segments_only.pickle");
    assert_eq!(column(&dataset, "capabilities", "capability"), ["memory_snapshot"]);
    assert_eq!(column(&dataset, "snapshot_allocations", "known_from"), ["block"; 4]);
    assert_eq!(column(&dataset, "snapshot_devices", "event_count"), ["0", "0"]);
    assert_eq!(column(&dataset, "snapshot_devices", "peak_position"), ["-", "-"]);
    assert_eq!(column(&dataset, "ranks", "base_time_ns"), ["-"]);
}

#[test]
fn snapshot_ranks_come_from_names_and_order_from_times() {
    let file = fixture("torch2_protocol4.pickle");
    let dataset = read_files(&[
        ("rank1_b.pickle", &file),
        ("rank1_a.pickle", &file),
        ("rank0.pickle.gz", &gzip(&file)),
    ])
    .unwrap();
    assert_eq!(dataset.run.ranks, [0, 1]);
    assert_eq!(
        rows(&dataset, "snapshots", &["rank", "snapshot", "file"]),
        ["0 0 rank0.pickle.gz", "1 0 rank1_a.pickle", "1 1 rank1_b.pickle"]
    );
    assert_eq!(column(&dataset, "ranks", "clock"), ["absolute", "absolute"]);
    assert_eq!(warnings(&dataset), [("no-timeline", 1)]);
    let unnamed = read_files(&[("a.pickle", &file), ("b.pickle", &file)]).unwrap();
    assert_eq!(warnings(&unnamed), [("guessed-rank", 2), ("no-timeline", 1)]);
    assert_eq!(column(&unnamed, "snapshots", "snapshot"), ["0", "1"]);
}

#[test]
fn snapshot_beside_a_trace_is_on_its_clock() {
    let text = r#"{"schemaVersion": 1, "distributedInfo": {"rank": 5}, "traceEvents": [
        {"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1700000000000050.5,"dur":5}]}"#;
    let file = fixture("torch2_protocol4.pickle");
    let dataset = read_files(&[("t.json", text.as_bytes()), ("s.pickle", &file)]).unwrap();
    assert_eq!(warnings(&dataset), []);
    assert_eq!(column(&dataset, "snapshots", "rank"), ["5"]);
    assert_eq!(dataset.run.sources[1].rank_from, "the only trace");
    // The first event is 50.5 us before the trace begins.
    assert_eq!(column(&dataset, "snapshot_events", "ts_ns")[..2], ["-50500", "49500"]);
    assert_eq!(dataset.tables.rows("ranks"), 1);

    let text = trace(r#"{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":7,"dur":5}"#);
    let dataset = read_files(&[("t.json", text.as_bytes()), ("s.pickle", &file)]).unwrap();
    assert_eq!(warnings(&dataset), [("unaligned-clocks", 1)]);
    assert_eq!(column(&dataset, "snapshot_events", "ts_ns")[..2], ["0", "100000"]);
}

/// Columns of the snapshot tables that a database contains. It has no pools, settings or annotations.
const SNAPSHOT_COLUMNS: [(&str, &[&str]); 4] = [
    (
        "snapshot_segments",
        &[
            "segment",
            "device",
            "address",
            "total_bytes",
            "active_bytes",
            "kind",
            "is_expandable",
            "stack",
        ],
    ),
    (
        "snapshot_blocks",
        &[
            "segment",
            "block",
            "device",
            "address",
            "state",
            "size_bytes",
            "requested_bytes",
            "stack",
        ],
    ),
    (
        "snapshot_events",
        &[
            "device",
            "position",
            "ts_ns",
            "action",
            "address",
            "bytes",
            "stack",
            "allocated_bytes",
            "args",
        ],
    ),
    (
        "snapshot_devices",
        &["device", "peak_allocated_bytes", "peak_position", "end_reserved_bytes"],
    ),
];

#[test]
fn snapshot_database_has_the_rows_of_its_pickle() {
    let pickle = alone("torch2_protocol4.pickle");
    let database = alone("torch2.sqlite");
    assert_eq!(warnings(&database), warnings(&pickle));
    assert_eq!(database.run.sources[0].format, "memory snapshot");
    for (table, columns) in SNAPSHOT_COLUMNS {
        let expected = rows(&pickle, table, columns);
        assert!(!expected.is_empty(), "{table}");
        assert_eq!(rows(&database, table, columns), expected, "{table}");
    }
    let compressed = read_files(&[("s.db.gz", &gzip(&fixture("torch2.sqlite")))]).unwrap();
    assert_eq!(
        rows(&compressed, "snapshot_devices", &["peak_allocated_bytes"]),
        rows(&pickle, "snapshot_devices", &["peak_allocated_bytes"])
    );
}

/// Returns the bytes of a database that these statements create.
fn database(statements: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch(statements).unwrap();
    drop(connection);
    std::fs::read(path).unwrap()
}

/// Statements that create a snapshot with one block.
const TABLES: &str = "
    CREATE TABLE device_traces(id INTEGER PRIMARY KEY, action, addr, size, time_us, frames);
    CREATE TABLE blocks(segment_id, addr, size, state, frames);
    CREATE TABLE segments(id, total_size, stream);
    INSERT INTO segments VALUES (7, 2048, 0);
    INSERT INTO blocks VALUES (7, 4096, 1024, 'active_allocated', 'main train.py:3');
    INSERT INTO device_traces VALUES (1, 'alloc', 4096, 1024, 1700000000000000, '[{\"name\": \"f\", \"filename\": \"a.py\", \"line\": 3}]');";

#[test]
fn snapshot_database_may_lack_columns_and_rows() {
    let read = |statements: &str| read_files(&[("s.db", &database(statements))]).unwrap();
    let small = read(TABLES);
    assert_eq!(warnings(&small), [("no-timeline", 1)]);
    let columns = ["device", "address", "requested_bytes"];
    assert_eq!(rows(&small, "snapshot_blocks", &columns), ["0 4096 1024"]);
    assert_eq!(column(&small, "snapshot_events", "ts_ns").len(), 1);
    // The tables of pytorch/pytorch#178670 without rows.
    let empty = read(
        "CREATE TABLE device_traces(id integer, time_us integer, size integer, action text);
         CREATE TABLE blocks(a); CREATE TABLE segments(a);",
    );
    assert_eq!(empty.tables.rows("snapshot_events"), 0);
    // The database used a write-ahead log, which is closed.
    let logged = read(&format!("PRAGMA journal_mode = WAL; {TABLES}"));
    assert_eq!(logged.tables.rows("snapshot_blocks"), 1);
    let wrong_types = read(&format!(
        "{TABLES} INSERT INTO device_traces VALUES (2, x'00', 'text', 'text', 1.5, x'80');
         INSERT INTO blocks VALUES (8, 0, 1, 'inactive', NULL), ('seven', 0, 1, 'inactive', NULL);"
    ));
    assert_eq!(warnings(&wrong_types), [("malformed-snapshot-entry", 3), ("no-timeline", 1)]);
    assert_eq!(wrong_types.tables.rows("snapshot_events"), 1);
}

#[test]
fn hostile_snapshot_databases_are_explained() {
    let message = |bytes: &[u8]| read_files(&[("s.db", bytes)]).unwrap_err().to_string();
    let of = |statements: &str| message(&database(statements));
    let without = |table: &str| of(&format!("{TABLES} DROP TABLE {table};"));
    assert!(without("blocks").contains("without the table `blocks`"), "{}", without("blocks"));
    assert!(without("segments").contains("without the table `segments`"));
    let view = of(&format!(
        "{TABLES} DROP TABLE blocks; CREATE VIEW blocks AS
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS size FROM n;"
    ));
    assert!(view.contains("`blocks` is a view"), "{view}");
    let column =
        of("CREATE TABLE device_traces(action, addr, size); CREATE TABLE segments(total_size);
        CREATE TABLE blocks(size, state); INSERT INTO blocks VALUES (1, 'inactive');");
    assert!(column.contains("table `blocks` has no column `segment_id`"), "{column}");
    let no_sizes = of(&format!("{TABLES} UPDATE segments SET total_size = 'text';"));
    assert!(no_sizes.contains("no row of its table `segments` has a size"), "{no_sizes}");
    // Generated columns are not computed, and triggers do not run.
    let computed = database(&format!(
        "{TABLES} DROP TABLE segments;
         CREATE TABLE segments(id, total_size, note AS (hex(zeroblob(400000000))));
         INSERT INTO segments(id, total_size) VALUES (7, 2048);
         CREATE TRIGGER t AFTER INSERT ON segments BEGIN DELETE FROM segments; END;"
    ));
    assert_eq!(read_files(&[("s.db", &computed)]).unwrap().tables.rows("snapshot_segments"), 1);
    let whole = database(TABLES);
    let cut = message(&whole[..whole.len() / 2]);
    assert!(cut.contains("not a valid SQLite database"), "{cut}");
    for at in (0..whole.len()).step_by(97) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x5A;
        // Damage leads to an error or to rows, never to a panic.
        drop(read_files(&[("s.db", &damaged)]));
    }
}

#[test]
fn stacks_of_snapshot_databases_take_bounded_memory() {
    let with_stacks = |stacks: &[String]| {
        let rows: Vec<String> =
            stacks.iter().map(|stack| format!("('alloc', 4096, 1024, '{stack}')")).collect();
        let rows = rows.join(", ");
        let insert =
            format!("INSERT INTO device_traces(action, addr, size, frames) VALUES {rows};");
        read_files(&[("s.db", &database(&format!("{TABLES} {insert}")))])
    };
    let refused = |stacks: &[String]| {
        let message = with_stacks(stacks).unwrap_err().to_string();
        assert!(message.contains("more rows or text than a file of its length"), "{message}");
    };
    // Distinct texts take ten times their length. The table has fewer rows than the reader counts between two memory checks.
    let texts = |stack: usize| {
        let first = 0x10000 + 125_000 * stack;
        let texts: Vec<String> =
            (first..first + 125_000).map(|text| format!("\"{text:x}\"")).collect();
        format!("[{}]", texts.join(","))
    };
    assert!(with_stacks(&[texts(0)]).is_ok());
    refused(&[texts(0), texts(1), texts(2)]);
    let numbers = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    assert!(with_stacks(&[numbers(500_000)]).is_ok());
    refused(&[numbers(600_000)]);
}

/// `torch.xpu.memory` and `torch.mtia` write the same pickles as `torch.cuda.memory`. A process may use any MTIA device.
#[test]
fn snapshots_of_other_devices_have_the_same_memory() {
    let columns = ["peak_allocated_bytes", "peak_position", "end_reserved_bytes"];
    let expected = rows(&alone("torch2_protocol4.pickle"), "snapshot_devices", &columns);
    let xpu = alone("xpu.pickle");
    assert_eq!(warnings(&xpu), [("no-timeline", 1)]);
    assert_eq!(rows(&xpu, "snapshot_devices", &columns), expected);
    let other = alone("device3.pickle");
    assert_eq!(warnings(&other), [("no-timeline", 1)]);
    assert_eq!(column(&other, "snapshot_devices", "device"), ["3"]);
    assert_eq!(rows(&other, "snapshot_devices", &columns), expected[..1]);
}

#[test]
fn files_that_are_not_snapshots_are_explained() {
    let message = |bytes: &[u8]| read_files(&[("x.pickle", bytes)]).unwrap_err().to_string();
    let evil = b"\x80\x04}(\x8c\x08segments\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85Ru.";
    assert!(message(evil).contains("asks to load os.system"), "{}", message(evil));
    let other = message(b"\x80\x04]\x94.");
    assert!(other.contains("a pickle, but neither a memory snapshot"), "{other}");
    let cut = message(&fixture("torch2_protocol4.pickle")[..900]);
    assert!(cut.contains("ends in the middle"), "{cut}");
    let empty = message(b"\x80\x04}(\x8c\x08segmentsK\x01u.");
    assert!(empty.contains("no list of segments"), "{empty}");
    // Named outright, a pickle of something else says so as well.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weights.pkl");
    std::fs::write(&path, b"\x80\x04]\x94.").unwrap();
    assert!(
        read(&path).unwrap_err().to_string().contains("a pickle, but neither a memory snapshot")
    );
    std::fs::write(&path, "<html>\n<head><title>GPU Memory Timeline HTML</title></head>").unwrap();
    assert!(read(&path).unwrap_err().to_string().contains(".raw.json.gz"));
}

/// One dict used as event, block and segment a million times over: a row is made of it once.
#[test]
fn snapshot_sharing_does_not_multiply_rows() {
    let mut bytes =
        b"\x80\x04}(\x8c\x08segments](}\x8c\x0atotal_sizeK\x01se\x8c\x0ddevice_traces](](".to_vec();
    bytes.extend(b"}(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x01\x8c\x04sizeK\x07u\x94");
    for _ in 0..100_000 {
        bytes.extend(b"h\x00");
    }
    bytes.extend(b"e\x94");
    for _ in 0..3_000 {
        bytes.extend(b"h\x01");
    }
    bytes.extend(b"eu.");
    let dataset = read_files(&[("x.pickle", &bytes)]).unwrap();
    assert_eq!(dataset.tables.rows("snapshot_events"), 1);
    assert_eq!(warnings(&dataset), [("shared-snapshot-entry", 103_000), ("no-timeline", 1)]);
}

#[test]
fn snapshot_incomplete_entries_are_counted() {
    let bytes =
        b"\x80\x04}(\x8c\x08segments](}\x8c\x0atotal_sizeK\x01s}K\x05e\x8c\x0ddevice_traces](](\
        }\x8c\x06action\x8c\x05allocs}(\x8c\x06action\x8c\x03oom\x8c\x04sizeK\x07u}e]eu.";
    let dataset = read_files(&[("x.pickle", bytes)]).unwrap();
    assert_eq!(column(&dataset, "snapshot_events", "action"), ["oom"]);
    assert_eq!(warnings(&dataset), [("malformed-snapshot-entry", 4), ("no-timeline", 1)]);
}

const RAW: &[u8] = b"[[-1, 1, 100, 0], [-1, 1, 7, 7], [1700000000000000100, 2, 50, 2], \
    [1700000000000000100, 3, -50, 2], [1700000000000000100, 3, 50, 4], [1700000000000000900, 4, -50, 4]]";
const SIZES: &[u8] = b"[[1700000000000000, 1700000000000001], \
    [[0, 100, 0, 0, 0, 0, 0, 0, 7], [0, 100, 0, 0, 0, 50, 0, 0, 7]]]";

#[test]
fn memory_timeline_reads_both_forms() {
    let sizes = [
        "ts_ns",
        "parameter_bytes",
        "input_bytes",
        "activation_bytes",
        "unknown_bytes",
        "total_bytes",
    ];
    let dataset = read_files(&[("rank2.raw.json.gz", &gzip(RAW))]).unwrap();
    assert_eq!(
        rows(&dataset, "memory_timeline_sizes", &sizes),
        ["0 100 0 0 7 107", "0 100 0 50 7 157", "800 100 0 0 7 107"]
    );
    assert_eq!(column(&dataset, "memory_timeline_events", "ts_ns")[..3], ["-", "-", "0"]);
    assert_eq!(
        column(&dataset, "memory_timeline_events", "action")[3..5],
        ["increment_version"; 2]
    );
    assert_eq!(dataset.run.ranks, [2]);
    assert_eq!(dataset.run.sources[0].format, "memory timeline");

    let dataset = read_files(&[("rank2.json", SIZES)]).unwrap();
    assert_eq!(
        rows(&dataset, "memory_timeline_sizes", &sizes),
        ["0 100 0 0 7 107", "1000 100 0 50 7 157"]
    );
    assert_eq!(column(&dataset, "memory_timelines", "form"), ["sizes"]);
    assert_eq!(warnings(&dataset), [("no-timeline", 1)]);
}

#[test]
fn memory_timeline_reads_truncated_and_unusual_files() {
    let read_text = |text: &[u8]| read_files(&[("t.json", text)]);
    for text in [RAW, SIZES] {
        for end in 3..text.len() {
            if let Ok(dataset) = read_text(&text[..end]) {
                assert!(dataset.tables.rows("memory_timeline_sizes") <= 3);
                assert!(warnings(&dataset).contains(&("truncated-json", 1)), "cut at {end}");
            }
        }
    }
    let odd = read_text(b"[[5, 9, 1, 0], [5, 1, 1, 8], [5, 1, \"x\", 0], [5, 1, 1], [5, 2, 3, 0]]")
        .unwrap();
    assert_eq!(column(&odd, "memory_timeline_sizes", "total_bytes"), ["3"]);
    assert_eq!(warnings(&odd), [("malformed-timeline-entry", 4), ("no-timeline", 1)]);
    let short = read_text(b"[[1, 2, 3], [[0, 1, 2], [0, 1, 2, 3, 4, 5, 6, 7, 8]]]").unwrap();
    assert_eq!(column(&short, "memory_timeline_sizes", "total_bytes"), ["36"]);
    assert_eq!(warnings(&short), [("malformed-timeline-entry", 2), ("no-timeline", 1)]);
    let empty = read_text(b"[[], []]").unwrap();
    assert_eq!(empty.tables.rows("memory_timeline_sizes"), 0);
    assert_eq!(empty.tables.rows("memory_timelines"), 1);
}
