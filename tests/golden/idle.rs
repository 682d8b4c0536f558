//! Idle time of devices has one cause each: on every real trace the causes add up, and on those that a person read
//! (docs/evidence/case-studies.md) they are what that person found.

use std::path::Path;

use crate::harness::{self, Case};
use crate::runs;
use crate::support::corpus;
use crate::support::rows::rows;

const DEVICES: &str = "idle: devices";

/// Runs that a person read: a column of `gpu_idle_causes`, and its share of the window in percent, from low to high,
/// as docs/evidence/case-studies.md has it from the raw events.
const READINGS: [(&str, &str, f64, f64); 14] = [
    ("resnet50_workers0", "dataloader_ratio", 32.0, 34.5),
    ("resnet50_workers0", "op_dispatch_ratio", 5.0, 7.5),
    // Without the first step, in which the workers start.
    ("resnet50_workers4", "dataloader_ratio", 0.3, 0.6),
    ("resnet50_workers4", "dispatch_ratio", 15.0, 22.0),
    ("h100_bert", "python_ratio", 43.0, 47.0),
    ("h100_bert", "op_dispatch_ratio", 32.0, 37.0),
    ("h100_bert", "launch_api_ratio", 7.5, 9.0),
    ("h100_bert", "launch_latency_ratio", 2.0, 2.6),
    ("h100_qwen", "switch_ratio", 4.5, 5.2),
    // Its step, without the 463 ms before it, for which the device was busy with something that is not recorded.
    ("sglang_decode", "unattributed_ratio", 0.0, 0.5),
    ("sglang_decode", "idle_ratio", 6.0, 7.0),
    ("vllm_decode_graph", "unattributed_ratio", 40.0, 43.0),
    ("mi210_gpu_only", "python_ratio", 0.0, 0.0),
    ("mi210_gpu_only", "op_dispatch_ratio", 0.0, 0.0),
];

/// The same for inputs beside the traces: the file, the column and its share.
const INPUT_READINGS: [(&str, &str, f64, f64); 3] = [
    // 24 products of matrices on the CPU, 320 us each, between copies.
    ("strangers/cpu_matmul_between_copies.json", "cpu_work_ratio", 86.0, 92.0),
    ("strangers/cpu_matmul_between_copies.json", "dispatch_ratio", 0.0, 10.0),
    ("strangers/cpu_matmul_between_copies.json", "creation_ratio", 0.0, 0.0),
];

/// One test per trace, and one per number that a person read.
pub(crate) fn cases() -> Vec<Case> {
    harness::require(DEVICES, 41);
    let mut cases = Vec::new();
    for path in corpus::runs(&runs::traces()) {
        let trace = runs::name(&path);
        let test = {
            let path = path.clone();
            move || time_has_one_owner(&path)
        };
        cases.push(Case::of_trace(&trace, "time_has_one_owner", test));
        cases.push(Case::of_trace(&trace, "causes_add_up", move || causes_add_up(&path)));
    }
    for (trace, column, low, high) in READINGS {
        let test = move || {
            let query = format!("SELECT max({column}) * 100 AS pct FROM gpu_idle_causes");
            let pct = rows(&runs::open(trace).run, &query)[0]["pct"].as_f64().unwrap();
            assert!((low..=high).contains(&pct), "{pct:.2} %, expected {low} to {high} %");
        };
        cases.push(Case::of_trace(trace, column, test));
    }
    for (input, column, low, high) in INPUT_READINGS {
        let test = move || {
            let path = corpus::corpus().join("inputs").join(input);
            let query = format!("SELECT max({column}) * 100 AS pct FROM gpu_idle_causes");
            let pct = rows(&runs::open_path(&path).run, &query)[0]["pct"].as_f64().unwrap();
            assert!((low..=high).contains(&pct), "{pct:.2} %, expected {low} to {high} %");
        };
        cases.push(Case::of_trace(input, column, test));
    }
    cases
}

/// Owners tile the window of each device, and of each rank without one, without holes or overlaps.
fn time_has_one_owner(path: &Path) {
    let run = &runs::open_path(path).run;
    let query = "SELECT w.rank, w.device, w.window_ns, coalesce(o.sum_ns, 0) AS sum_ns,
            coalesce(o.broken_count, 0) AS broken_count
         FROM (
            SELECT rank, device, window_ns FROM device_windows WHERE window_ns > 0
            UNION ALL
            SELECT rank, NULL, dur_ns FROM critical_windows
            WHERE dur_ns > 0 AND rank NOT IN (SELECT DISTINCT rank FROM device_windows)
         ) w
         LEFT JOIN (
            SELECT rank, coalesce(device, -9) AS device, sum(dur_ns) AS sum_ns,
                sum(CASE WHEN dur_ns <= 0 OR ts_ns <> before_ns THEN 1 ELSE 0 END) AS broken_count
            FROM (
                SELECT rank, device, dur_ns, ts_ns,
                    coalesce(lag(ts_ns + dur_ns) OVER (PARTITION BY rank, device ORDER BY ts_ns), ts_ns) AS before_ns
                FROM time_owners
            )
            GROUP BY 1, 2
         ) o ON o.rank = w.rank AND o.device = coalesce(w.device, -9)";
    for row in rows(run, query) {
        assert_eq!(row["sum_ns"], row["window_ns"], "{row:?}");
        assert_eq!(row["broken_count"].as_f64(), Some(0.0), "{row:?}");
    }
}

/// Idle time by the union of the work of a device, by cause, and by row.
fn causes_add_up(path: &Path) {
    let shared = runs::open_path(path);
    let run = &shared.run;
    let query = "SELECT u.rank, u.device, u.idle_ns, c.idle_ns AS sum_ns,
            c.dataloader_ns + c.sync_ns + c.allocation_ns + c.copy_api_ns + c.launch_api_ns + c.op_dispatch_ns
                + c.cpu_compute_ns + c.first_launch_ns + c.startup_ns + c.compiling_ns + c.profiler_ns + c.python_ns + c.launch_latency_ns + c.dependency_ns + c.other_stream_ns + c.collective_ns
                + c.unlinked_ns + c.graph_replay_ns + c.unrecorded_work_ns + c.stream_capture_ns
                + c.recording_end_ns + c.no_host_events_ns AS causes_ns,
            c.dataloader_ns + c.sync_ns + c.host_ns + c.device_wait_ns + c.unattributed_ns AS groups_ns
        FROM gpu_utilization u
        JOIN gpu_idle_causes c ON c.rank = u.rank AND c.device = u.device";
    let devices = rows(run, query);
    for device in &devices {
        assert_eq!(device["idle_ns"], device["sum_ns"], "{device:?}");
        assert_eq!(device["idle_ns"], device["causes_ns"], "{device:?}");
        assert_eq!(device["idle_ns"], device["groups_ns"], "{device:?}");
    }
    let query = "SELECT count(*) AS wrong_count FROM (
            SELECT rank, device, gap_ts_ns, max(gap_end_ns) - gap_ts_ns AS gap_ns, sum(dur_ns) AS parts_ns,
                min(dur_ns) AS least_ns
            FROM idle_gap_causes GROUP BY rank, device, gap_ts_ns
        ) WHERE gap_ns <> parts_ns OR least_ns <= 0";
    assert_eq!(rows(run, query)[0]["wrong_count"], 0.0, "parts of a gap");
    harness::count(DEVICES, devices.len());
}
