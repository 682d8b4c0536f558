//! Runs of several ranks, from files to views: collectives are counted once, matched by number, and put on one
//! clock.

use std::fmt::Write as _;
use std::path::Path;

use trace_advisor::Run;

use crate::support::rows;

/// One all-reduce as a current torch writes it: five events and a kernel.
fn all_reduce(text: &mut String, nth: i64, call_us: f64, start_us: f64, end_us: f64) {
    let (id, at) = (100 + 10 * nth, |offset: f64| call_us + offset);
    let described = format!(
        r#""Collective name":"allreduce","Process Group Name":"0","Process Group Description":"default_pg","Process Group Ranks":"[0, 1]","Group size":2,"dtype":"Double","In msg nelems":1000,"Out msg nelems":1000,"Seq":{}"#,
        7 + nth
    );
    for (cat, name, from, to, args) in [
        ("cpu_op", "c10d::allreduce_", 0.0, 9.0, format!(r#""External id":{}"#, id + 1)),
        (
            "cpu_op",
            "record_param_comms",
            1.0,
            8.0,
            format!(r#""External id":{},{described}"#, id + 2),
        ),
        ("user_annotation", "nccl:all_reduce", 2.0, 7.0, format!(r#""External id":{}"#, id + 3)),
        (
            "cuda_runtime",
            "cudaLaunchKernelExC",
            3.0,
            5.0,
            format!(r#""External id":{},"correlation":{id}"#, id + 2),
        ),
    ] {
        let (ts, dur) = (at(from), to - from);
        writeln!(
            text,
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":1,"tid":1,"ts":{ts:.3},"dur":{dur:.3},"args":{{{args}}}}},"#
        )
        .unwrap();
    }
    let dur = end_us - start_us;
    writeln!(
        text,
        r#"{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f64_RING_LL(ncclDevKernelArgsStorage<4096ul>)","pid":0,"tid":24,"ts":{start_us:.3},"dur":{dur:.3},"args":{{"External id":{},"device":0,"stream":24,"correlation":{id},{described}}}}},
{{"ph":"X","cat":"gpu_user_annotation","name":"nccl:all_reduce","pid":0,"tid":24,"ts":{start_us:.3},"dur":{dur:.3},"args":{{"External id":{}}}}},"#,
        id + 2,
        id + 3
    )
    .unwrap();
}

/// A rank whose `nth` all-reduce starts and ends as given, on a clock that is `ahead_us` ahead.
fn write_rank(folder: &Path, rank: i64, ahead_us: f64, kernels: &[(f64, f64)]) {
    let mut text = format!(
        r#"{{"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":2}},"baseTimeNanoseconds":1700000000000000000,"traceEvents":["#
    );
    text.push('\n');
    for (nth, (start, end)) in kernels.iter().enumerate() {
        all_reduce(
            &mut text,
            nth as i64,
            start + ahead_us - 20.0,
            start + ahead_us,
            end + ahead_us,
        );
    }
    text.push_str(r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1.0,"dur":2.0,"args":{}}]}"#);
    std::fs::write(folder.join(format!("rank{rank}.pt.trace.json")), text).unwrap();
}

/// Rows of a query as text, one line per row.
fn lines(run: &Run, query: &str) -> Vec<String> {
    rows::lines(&run.sql(query).unwrap())
}

/// Rank 1 arrives 300 us late six times; its clock is 2 ms ahead.
fn two_ranks(folder: &Path) {
    let early: Vec<(f64, f64)> =
        (0..6).map(|i| 1_000.0 * f64::from(i)).map(|t| (t + 500.0, t + 900.0)).collect();
    let late: Vec<(f64, f64)> =
        (0..6).map(|i| 1_000.0 * f64::from(i)).map(|t| (t + 800.0, t + 900.0)).collect();
    write_rank(folder, 0, 0.0, &early);
    write_rank(folder, 1, 2_000.0, &late);
}

#[test]
fn collective_with_several_events_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    two_ranks(folder.path());
    let run = Run::open(folder.path()).unwrap();
    let columns = "name, backend, group_size, sequence, sequence_from, dtype, input_bytes, message_bytes, \
                   kernel_count, timed_on, dur_ns";
    let query = format!(
        "SELECT {columns} FROM comm_collectives WHERE rank = 0 ORDER BY collective LIMIT 2"
    );
    assert_eq!(
        lines(&run, &query),
        [
            "all_reduce nccl 2 7 metadata Double 8000 8000 1 device 400000",
            "all_reduce nccl 2 8 metadata Double 8000 8000 1 device 400000"
        ]
    );
    assert_eq!(lines(&run, "SELECT count(*) FROM comm_collectives"), ["12"]);
    // 8000 bytes in 100 us; for two ranks, what each link carries is the same.
    let query = "SELECT rank, call_count, comm_ns, transfer_ns, algorithm_gb_per_s, bus_gb_per_s FROM comm_by_name ORDER BY rank";
    assert_eq!(lines(&run, query), ["0 6 2400000 600000 0.08 0.08", "1 6 600000 600000 0.08 0.08"]);
}

#[test]
fn clocks_are_aligned_by_ends_of_collectives() {
    let folder = tempfile::tempdir().unwrap();
    two_ranks(folder.path());
    let run = Run::open(folder.path()).unwrap();
    let query = "SELECT rank, clock, aligned_by, collective_count, offset_ns, error_ns FROM comm_clocks ORDER BY rank";
    assert_eq!(
        lines(&run, query),
        ["0 absolute wall clock 6 0 0", "1 absolute collectives 6 2000000 0"]
    );
    let query = "SELECT DISTINCT status, last_rank, last_by, spread_ns, transfer_ns, others_wait_ns FROM comm_matches";
    assert_eq!(lines(&run, query), ["matched 1 arrival 300000 100000 300000"]);
}

#[test]
fn collective_that_a_rank_lacks_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    two_ranks(folder.path());
    let five: Vec<(f64, f64)> =
        (0..5).map(|i| 1_000.0 * f64::from(i)).map(|t| (t + 800.0, t + 900.0)).collect();
    write_rank(folder.path(), 1, 2_000.0, &five);
    let run = Run::open(folder.path()).unwrap();
    let query = "SELECT status, count(*), max(missing_ranks) FROM comm_matches GROUP BY status ORDER BY status";
    assert_eq!(lines(&run, query), ["matched 5 -", "missing ranks 1 1"]);
}
