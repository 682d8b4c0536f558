//! Dumps of PyTorch's Flight Recorder: pickles and JSON, versions, ranks, damage.

use crate::support::{column, gzip, read_files, trace, warnings};
use trace_model::Dataset;

/// The recorded dump of rank 0 that waits for rank 2.
const RECORDED: &[u8] = include_bytes!("../../../../tests/fixtures/flight/skip/nccl_trace_rank_0");

/// As NCCL writes entries: with times at which it noticed start and end.
fn entry(record_id: i64, fields: &str) -> String {
    format!(
        r#"{{"record_id": {record_id}, "pg_id": 1, "process_group": ["1", "pipeline"], "time_created_ns": {}, "input_sizes": [[2, 3], []], "input_dtypes": ["Float", "Float"], "output_sizes": [[6]], "output_dtypes": ["Half"], "time_discovered_started_ns": 0, "time_discovered_completed_ns": 0, "retired": false, "timeout_ms": 600000, {fields}}}"#,
        1_700_000_000_000_000_000 + record_id * 1_000,
    )
}

fn dump(entries: &[String]) -> String {
    format!(
        r#"{{"comm_lib_version": "2.27.3", "entries": [{}], "pg_config": {{"1": {{"name": "1", "desc": "pipeline", "ranks": "[6, 2]"}}}}, "pg_status": {{}}, "version": "2.10"}}"#,
        entries.join(",")
    )
}

fn columns(dataset: &Dataset, table: &str, names: &[&str]) -> Vec<String> {
    let columns: Vec<Vec<String>> = names.iter().map(|name| column(dataset, table, name)).collect();
    let rows = columns.first().map_or(0, Vec::len);
    (0..rows)
        .map(|row| columns.iter().map(|c| c[row].as_str()).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn recorded_pickle_is_read() {
    let data = read_files(&[("nccl_trace_rank_3", RECORDED)]).unwrap();
    assert_eq!(data.run.ranks, [3]);
    assert_eq!(warnings(&data), [("no-timeline", 1)]);
    assert_eq!(
        columns(
            &data,
            "flight_records",
            &[
                "rank",
                "record_id",
                "group_name",
                "collective_seq",
                "library",
                "operation",
                "state",
                "is_retired",
                "input_sizes",
                "input_element_count",
                "line",
                "function"
            ]
        )[3..],
        [
            "3 3 0 4 gloo all_gather scheduled true [[4]] 4 28 gather_losses",
            "3 4 0 5 gloo all_reduce scheduled false [[8, 4]] 32 24 reduce_gradients"
        ]
    );
    assert_eq!(
        columns(
            &data,
            "flight_dumps",
            &["file", "version", "has_records", "record_count", "oldest_record_id"]
        ),
        ["nccl_trace_rank_3 2.10 true 5 0"]
    );
}

/// Positions of senders and receivers become ranks: position 0 of [6, 2] is rank 2.
#[test]
fn json_of_nccl_is_read_with_times_and_peers() {
    let entries = [
        entry(0, r#""collective_seq_id": 4, "p2p_seq_id": 0, "op_id": 4, "is_p2p": false, "profiling_name": "nccl:_all_gather_base", "state": "completed", "duration_ms": 0.25"#)
            .replace(r#""time_discovered_started_ns": 0"#, r#""time_discovered_started_ns": 1700000000000000300"#),
        entry(1, r#""collective_seq_id": 4, "p2p_seq_id": 7, "op_id": 5, "is_p2p": true, "profiling_name": "nccl:send 1->0", "state": "started""#),
        entry(2, r#""collective_seq_id": 4, "p2p_seq_id": 8, "op_id": 6, "is_p2p": true, "profiling_name": "nccl:recv 1<-?", "state": "scheduled""#),
    ];
    let data = read_files(&[("fr_trace_6.json", dump(&entries).as_bytes())]).unwrap();
    assert_eq!(data.run.ranks, [6]);
    assert_eq!(
        columns(
            &data,
            "flight_records",
            &[
                "operation",
                "collective_seq",
                "p2p_seq",
                "source_rank",
                "target_rank",
                "ts_ns",
                "started_ts_ns",
                "dur_ns",
                "timeout_dur_ns",
                "input_dtypes",
                "input_element_count",
                "group_ranks"
            ]
        ),
        [
            "_all_gather_base 4 - - - 0 300 250000 600000000000 Float 7 2,6",
            "send - 7 6 2 1000 - - 600000000000 Float 7 2,6",
            "recv - 8 - 6 2000 - - 600000000000 Float 7 2,6"
        ]
    );
    assert_eq!(
        columns(&data, "flight_process_groups", &["rank", "group_name", "member_count"]),
        ["6 1 2"]
    );
    assert_eq!(columns(&data, "flight_dumps", &["library_version"]), ["2.27.3"]);
}

/// Version 1 has one number for both, no `is_p2p`, and no description.
#[test]
fn version_1_is_read() {
    let entries = [
        r#"{"record_id": 0, "pg_id": 0, "seq_id": 1, "profiling_name": "nccl:all_reduce", "state": "completed", "input_sizes": [[2]]}"#,
        r#"{"record_id": 1, "pg_id": 0, "seq_id": 2, "profiling_name": "nccl:send 0->1", "state": "started"}"#,
    ];
    let text = format!(r#"{{"version": "1.5", "entries": [{}]}}"#, entries.join(","));
    let data = read_files(&[("rank0", text.as_bytes())]).unwrap();
    assert_eq!(
        columns(
            &data,
            "flight_records",
            &["group_name", "collective_seq", "p2p_seq", "is_p2p", "source_rank", "target_rank"]
        ),
        ["0 1 - false - -", "0 - 2 true 0 1"]
    );
}

#[test]
fn dumps_beside_a_timeline_are_on_its_clock_and_in_folders() {
    let timeline = trace("").replacen('{', r#"{"baseTimeNanoseconds": 1699999999999999000, "#, 1);
    let timeline = timeline.replace("\"traceEvents\": []", r#""traceEvents": [{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":0.0,"dur":1.0}]"#);
    let entry = entry(
        0,
        r#""collective_seq_id": 4, "p2p_seq_id": 0, "profiling_name": "nccl:barrier", "state": "started""#,
    );
    let data = read_files(&[
        ("rank0.json", timeline.as_bytes()),
        ("dumps/nccl_trace_0.json.gz", &gzip(dump(&[entry]).as_bytes())),
    ])
    .unwrap();
    assert_eq!(
        columns(&data, "flight_records", &["rank", "operation", "ts_ns"]),
        ["0 barrier 1000"]
    );
}

#[test]
fn latest_dump_of_a_rank_counts() {
    let one = entry(0, r#""collective_seq_id": 1, "profiling_name": "nccl:barrier""#);
    let two = entry(1, r#""collective_seq_id": 2, "profiling_name": "nccl:barrier""#);
    let data = read_files(&[
        ("a/trace_rank_0", dump(&[one.clone(), two]).as_bytes()),
        ("b/trace_rank_0", dump(&[one]).as_bytes()),
    ])
    .unwrap();
    assert_eq!(columns(&data, "flight_dumps", &["file", "record_count"]), ["a/trace_rank_0 2"]);
    assert_eq!(warnings(&data), [("earlier-dump", 1), ("no-timeline", 1)]);
}

#[test]
fn entries_without_required_fields_are_counted() {
    let entries = [
        r#"{"collective_seq_id": 1, "profiling_name": "nccl:barrier"}"#.to_owned(),
        r#"{"record_id": 1}"#.to_owned(),
        r#"{"record_id": -1, "profiling_name": "nccl:barrier"}"#.to_owned(),
        "7".to_owned(),
        r#"{"record_id": 2, "profiling_name": "barrier", "input_sizes": [[-1]], "frames": [{}, 3], "timeout_ms": -4, "process_group": 8, "time_created_ns": "x"}"#.to_owned(),
    ];
    let data = read_files(&[("rank0", dump(&entries).as_bytes())]).unwrap();
    assert_eq!(
        columns(
            &data,
            "flight_records",
            &[
                "record_id",
                "library",
                "operation",
                "group_name",
                "input_sizes",
                "ts_ns",
                "timeout_dur_ns"
            ]
        ),
        ["2 - barrier - - - -"]
    );
    assert!(warnings(&data).contains(&("malformed-flight-record", 4)), "{:?}", warnings(&data));
}

#[test]
fn damaged_dumps_are_refused_with_a_reason() {
    let reason = |bytes: &[u8]| match read_files(&[("nccl_trace_rank_0", bytes)]) {
        Err(error) => error.to_string(),
        Ok(data) => panic!("{:?}", warnings(&data)),
    };
    assert!(reason(&RECORDED[..RECORDED.len() / 2]).contains("ends in the middle"));
    let json = dump(&[entry(0, r#""collective_seq_id": 1, "profiling_name": "nccl:barrier""#)]);
    assert!(reason(&json.as_bytes()[..json.len() - 20]).contains("ends in the middle"));
    assert!(
        reason(json.replace("\"pg_id\": 1", "\"pg_id\": x").as_bytes()).contains("not valid JSON")
    );
    // A pickle that calls os.system after the keys of a dump.
    let code =
        b"\x80\x02}(X\x09\0\0\0pg_configq\0X\x07\0\0\0versionq\x01cos\nsystem\nX\x04\0\0\0trueR.";
    assert!(reason(code).contains("os.system"), "{}", reason(code));
    assert!(reason(br#"{"version": "2.1", "collective_seq_id": 1}"#).contains("not a dump"));
}

/// A pickle may use one entry in many places: it becomes one row.
#[test]
fn shared_entries_of_a_pickle_are_read_once() {
    let mut pickle = b"\x80\x02}(X\x07\0\0\0versionX\x04\0\0\x002.10X\x07\0\0\0entries](}(X\x09\0\0\0record_idK\0X\x0e\0\0\0profiling_nameX\x0c\0\0\0nccl:barrieruq\x01".to_vec();
    pickle.extend(b"h\x01".repeat(1_000));
    pickle.extend(b"eu.");
    let data = read_files(&[("nccl_trace_rank_0", &pickle)]).unwrap();
    assert_eq!(columns(&data, "flight_records", &["record_id", "operation"]), ["0 barrier"]);
    assert!(warnings(&data).contains(&("shared-flight-record", 1_000)), "{:?}", warnings(&data));
}

/// One damaged byte never adds records: there are as many as before, or fewer with a warning, or an error names the damage.
#[test]
fn damage_never_adds_records_and_never_hides() {
    let records = |data: &Dataset| data.tables.rows("flight_records");
    let whole = records(&read_files(&[("nccl_trace_rank_0", RECORDED)]).unwrap());
    let mut refused = 0;
    for at in 0..RECORDED.len() {
        let mut damaged = RECORDED.to_vec();
        damaged[at] ^= 0x55;
        match read_files(&[("nccl_trace_rank_0", &damaged)]) {
            Ok(data) if records(&data) == whole => {}
            Ok(data) => {
                assert!(records(&data) < whole, "byte {at}: {} records", records(&data));
                assert!(
                    !data.warnings.is_empty(),
                    "byte {at}: records are missing without a warning"
                );
            }
            Err(error) => {
                assert!(error.to_string().contains("nccl_trace_rank_0"), "byte {at}: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && refused < RECORDED.len(), "{refused} of {} refused", RECORDED.len());
}
