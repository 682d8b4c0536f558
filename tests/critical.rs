//! The critical path and its what-if, on real traces and on runs whose cause is known.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::float_cmp, reason = "counts and nanoseconds, exact in doubles here")]

#[path = "support/corpus.rs"]
mod support;

use std::collections::BTreeMap;
use std::path::Path;

use cli::demo::{Bottleneck, Options, write_run};
use query::{Params, Session};
use support::{corpus, numbers, runs};
use trace_advisor::arrow::array::AsArray;
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Float64Type};

fn open(run: &Path, params: Params) -> Option<Session> {
    let dataset = ingest::read_run(run, &ingest::Options::default(), &ingest::NoProgress).ok()?;
    Some(Session::new(analyses::catalog(), dataset.tables, &params).unwrap())
}

fn session(run: &Path) -> Session {
    open(run, Params::default()).unwrap_or_else(|| panic!("{} is no run", run.display()))
}

fn number(session: &Session, query: &str) -> f64 {
    let rows = numbers(session, query);
    assert_eq!((rows.len(), rows[0].len()), (1, 1), "{query}");
    rows[0][0]
}

/// Two columns: a name and a number.
fn shares(session: &Session, query: &str) -> BTreeMap<String, f64> {
    let mut shares = BTreeMap::new();
    for batch in session.sql(query).unwrap() {
        let names = cast(batch.column(0), &DataType::Utf8).unwrap();
        let values = cast(batch.column(1), &DataType::Float64).unwrap();
        for row in 0..batch.num_rows() {
            let value = values.as_primitive::<Float64Type>().value(row);
            shares.insert(names.as_string::<i32>().value(row).to_owned(), value);
        }
    }
    shares
}

fn path_shares(session: &Session, rank: i32) -> BTreeMap<String, f64> {
    let query = format!("SELECT bound_by, ratio FROM critical_path_summary WHERE rank = {rank}");
    shares(session, &query)
}

fn gains(session: &Session, rank: i32) -> BTreeMap<String, f64> {
    let query = format!("SELECT scenario, gain_ratio FROM critical_what_if WHERE rank = {rank}");
    shares(session, &query)
}

/// Whether no other question has a larger gain, among those about a cause that can be removed: that the
/// kernels could be faster is true of every run.
fn leads(gains: &BTreeMap<String, f64>, scenario: &str) -> bool {
    let others = gains.iter().filter(|(name, _)| *name != "kernels_2x_faster");
    others.fold(0.0, |most: f64, (_, &gain)| most.max(gain)) <= gains[scenario]
}

fn check_tiles(session: &Session, name: &str) {
    // No holes, no overlaps, from the start of the window to its end.
    let broken = numbers(
        session,
        "SELECT count(*) FROM (
            SELECT ts_ns, dur_ns,
                lag(ts_ns + dur_ns) OVER (PARTITION BY rank ORDER BY position) AS before
            FROM critical_path
        ) WHERE dur_ns <= 0 OR ts_ns <> before",
    );
    assert_eq!(broken, [[0.0]], "{name}");
    let windows = numbers(
        session,
        "SELECT w.ts_ns, w.end_ns, p.first, p.last, p.total FROM critical_windows w
         LEFT JOIN (
            SELECT rank, min(ts_ns) AS first, max(ts_ns + dur_ns) AS last, sum(dur_ns) AS total
            FROM critical_path GROUP BY rank
         ) p ON p.rank = w.rank",
    );
    for row in &windows {
        let [begin, end, first, last, total] = row[..] else { panic!("{row:?}") };
        if end > begin {
            assert_eq!((first, last, total), (begin, end, end - begin), "{name}");
        }
    }
    // The whole recording: no event of a host or device lies outside.
    let all = numbers(
        session,
        "SELECT min(ts_ns), max(end_ns) FROM (
            SELECT ts_ns, ts_ns + dur_ns AS end_ns FROM cpu_ops
            UNION ALL SELECT ts_ns, ts_ns + dur_ns FROM runtime_calls
            UNION ALL SELECT ts_ns, ts_ns + dur_ns FROM annotations WHERE NOT on_device
            UNION ALL SELECT ts_ns, ts_ns + dur_ns FROM python_frames
            UNION ALL SELECT ts_ns, ts_ns + dur_ns FROM kernels
            UNION ALL SELECT ts_ns, ts_ns + dur_ns FROM memcpys
            UNION ALL SELECT ts_ns, ts_ns + dur_ns FROM memsets
        )",
    );
    let begin = windows.iter().map(|w| w[0]).fold(f64::NAN, f64::min);
    let end = windows.iter().map(|w| w[1]).fold(f64::NAN, f64::max);
    // Where a trainer records in cycles, the window is the longest run of steps.
    let trainer = "SELECT count(*) FROM trainer_phases";
    if numbers(session, trainer)[0][0] > 0.0 {
        assert!(all[0][0] <= begin && begin <= end && end <= all[0][1], "{name}");
    } else {
        assert_eq!(format!("{:?}", [begin, end]), format!("{:?}", &all[0][..]), "{name}");
    }
    // Steps inside the window are tiled as well, if they do not overlap.
    let steps = numbers(
        session,
        "SELECT s.dur_ns, p.dur_ns FROM (
            SELECT rank, step, ts_ns, dur_ns,
                lead(ts_ns) OVER (PARTITION BY rank ORDER BY ts_ns, step) AS next,
                max(ts_ns + dur_ns) OVER (PARTITION BY rank ORDER BY ts_ns, step
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before,
                count(*) OVER (PARTITION BY rank, step) AS same
            FROM steps
         ) s
         JOIN critical_windows w ON w.rank = s.rank
            AND w.ts_ns <= s.ts_ns AND s.ts_ns + s.dur_ns <= w.end_ns
         LEFT JOIN (
            SELECT rank, step, sum(dur_ns) AS dur_ns FROM critical_path_by_step GROUP BY rank, step
         ) p ON p.rank = s.rank AND p.step = s.step
         WHERE s.dur_ns > 0 AND s.same = 1
            AND coalesce(s.next >= s.ts_ns + s.dur_ns, true)
            AND coalesce(s.before <= s.ts_ns, true)",
    );
    for row in steps {
        assert_eq!(row[0], row[1], "{name}: a step");
    }
}

#[test]
fn the_path_tiles_every_recording() {
    let Some(corpus) = corpus() else { return };
    let traces = corpus.join("traces");
    let mut checked = 0;
    for run in runs(&traces) {
        let name = run.strip_prefix(&traces).unwrap().display().to_string();
        // Formats that are not read yet, or files of which none is a trace.
        let Some(session) = open(&run, Params::default()) else { continue };
        check_tiles(&session, &name);
        let worse = number(
            &session,
            "SELECT count(*) FROM critical_what_if WHERE gain_ns < 0 OR gain_ns > window_ns",
        );
        assert_eq!(worse, 0.0, "{name}");
        // What can be said is said: circles at one moment are rare, and nothing else is dropped.
        let dropped =
            numbers(&session, "SELECT sum(dropped_count), sum(edge_count) FROM critical_windows");
        if let [dropped, edges] = dropped[0][..]
            && edges > 1_000.0
        {
            assert!(dropped <= edges / 100.0, "{name}: {dropped} of {edges}");
        }
        checked += 1;
    }
    assert!(checked > 50, "{checked}");
}

/// The same job was recorded with loader workers: that is the free data loading that was predicted.
#[test]
fn free_data_loading_is_what_loader_workers_gave() {
    let Some(corpus) = corpus() else { return };
    let before = session(&corpus.join("traces/resnet50_workers0"));
    let after = session(&corpus.join("traces/resnet50_workers4"));
    let predicted = number(
        &before,
        "SELECT predicted_step_ns FROM critical_what_if WHERE scenario = 'data_loading_free'",
    );
    let measured = number(&after, "SELECT median_ns FROM step_time_summary");
    let error = predicted / measured - 1.0;
    assert!(error.abs() < 0.1, "predicted {predicted} ns, measured {measured} ns");
    assert!(leads(&gains(&before, 0), "data_loading_free"));
    assert!(gains(&after, 0)["data_loading_free"] < 0.02);
    // Twice as fast on the host is what is left to gain there.
    assert!(leads(&gains(&after, 0), "host_2x_faster"));
}

#[test]
fn the_device_dominates_where_it_is_busy() {
    let Some(corpus) = corpus() else { return };
    let device = |name: &str| {
        let shares = path_shares(&session(&corpus.join("traces").join(name)), 0);
        let of = |what: &str| shares.get(what).copied().unwrap_or(0.0);
        of("kernel") + of("communication") + of("copy") + of("kernel_kernel_delay")
    };
    for name in ["h100_qwen", "mi300_qwen", "mi300_resnet_ddp", "ns_resolution"] {
        assert!(device(name) > 0.85, "{name}: {}", device(name));
    }
    for name in ["h100_bert", "mi300_bert", "b200_eager", "resnet50_workers4"] {
        assert!(device(name) < 0.15, "{name}: {}", device(name));
    }
    // Its launches block on a full queue: they get faster with the kernels.
    let full = session(&corpus.join("traces/ns_resolution"));
    assert!(gains(&full, 0)["kernels_2x_faster"] > 0.4);
    let queue = "SELECT count(*) FROM critical_edges WHERE kind = 'queue_full' AND is_binding";
    assert!(number(&full, queue) > 1_000.0);
}

#[test]
fn a_run_without_device_has_a_path_too() {
    let Some(corpus) = corpus() else { return };
    for name in ["cpu_only", "generated/cpu_resnet_nw0", "rank_non_gpu"] {
        let session = session(&corpus.join("traces").join(name));
        let shares: f64 =
            numbers(&session, "SELECT host_ratio + data_loading_ratio + communication_ratio FROM critical_path_causes")
                .into_iter()
                .map(|row| row[0])
                .sum();
        assert!((shares - 1.0).abs() < 1e-9, "{name}: {shares}");
    }
    // The straggler loads data, the others wait for it in gloo's all-reduce, on the host.
    let ddp = session(&corpus.join("traces/generated/ddp_gloo_4rank_straggler"));
    for rank in 0..3 {
        assert!(leads(&gains(&ddp, rank), "communication_free"), "rank {rank}");
        assert!(path_shares(&ddp, rank)["communication"] > 0.5, "rank {rank}");
    }
    assert!(leads(&gains(&ddp, 3), "data_loading_free"));
    assert!(path_shares(&ddp, 3)["data_loading"] > 0.4);
}

/// Replayed graphs hide what their kernels wait for; what the trace does not say is called so.
#[test]
fn graphs_and_work_without_launches_are_no_guesswork() {
    let Some(corpus) = corpus() else { return };
    let sglang = session(&corpus.join("traces/sglang_decode"));
    // The first kernels start 463 ms after their launch, and nothing in the trace says why.
    assert!(path_shares(&sglang, 0)["launch_delay"] > 0.9);
    let vllm = path_shares(&session(&corpus.join("traces/vllm_decode_graph")), 0);
    assert!(vllm["kernel"] + vllm["launch_delay"] > 0.9, "{vllm:?}");
    let alone = session(&corpus.join("traces/compare_base"));
    let unlinked = number(&alone, "SELECT unlinked_count FROM critical_windows");
    assert_eq!(unlinked, 16.0);
}

#[test]
fn the_window_can_be_that_of_an_annotation() {
    let Some(corpus) = corpus() else { return };
    let run = corpus.join("traces/h100_qwen");
    let open_at = |text: &str, instance: i64| {
        let mut params = Params::default();
        params.set("critical_annotation", text).set("critical_instance", instance);
        open(&run, params).unwrap()
    };
    let step = open_at("ProfilerStep", 0);
    let window = numbers(&step, "SELECT ts_ns, end_ns FROM critical_windows");
    let of_step = numbers(
        &step,
        "SELECT s.ts_ns, greatest(s.ts_ns + s.dur_ns, max(k.ts_ns + k.dur_ns))
         FROM steps s CROSS JOIN kernels k GROUP BY s.ts_ns, s.dur_ns",
    );
    assert_eq!(window, of_step);
    let total = number(&step, "SELECT sum(dur_ns) FROM critical_path");
    assert_eq!(total, window[0][1] - window[0][0]);
    let message = |text: &str, instance: i64| {
        open_at(text, instance).analyze("critical_path").unwrap_err().to_string()
    };
    assert!(message("ProfilerStep", 7).contains("occurs 1 times: the last is 0"));
    assert!(message("NoSuchThing", -1).contains("no annotation contains `NoSuchThing`"));
    assert!(message("ProfilerStep", -2).contains("a position from 0 on"));
}

#[test]
fn a_question_of_ones_own() {
    let folder = demo(Bottleneck::DataLoading, 1, 0);
    let ask = |text: &str| {
        let mut params = Params::default();
        params.set("what_if", text);
        open(folder.path(), params).unwrap()
    };
    let gains = gains(&ask("data_loading=0"), 0);
    assert_eq!(gains["custom"], gains["data_loading_free"]);
    assert!(gains["custom"] > 0.2);
    let error = ask("loading=0").analyze("critical_what_if").unwrap_err().to_string();
    assert!(
        error.contains("there is no class `loading`; classes are data_loading, host"),
        "{error}"
    );
}

fn demo(bottleneck: Bottleneck, ranks: u32, seed: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { bottleneck, ranks, steps: 8, seed, ..Options::default() };
    write_run(&options, folder.path()).unwrap();
    folder
}

/// The simulation knows what each cause costs: the same run without it.
#[test]
fn planted_causes_are_found_and_their_gain_is_what_removing_them_gives() {
    for seed in [0, 7] {
        let healthy = demo(Bottleneck::None, 4, seed);
        let healthy = session(healthy.path());
        let window = |session: &Session, rank: i32| {
            let query = format!("SELECT dur_ns FROM critical_windows WHERE rank = {rank}");
            number(session, &query)
        };
        assert!(path_shares(&healthy, 0)["kernel"] > 0.5);
        for (bottleneck, rank, scenario, cause, least, slack) in [
            (Bottleneck::DataLoading, 0, "data_loading_free", "data_loading", 0.3, 0.05),
            (Bottleneck::SmallKernels, 0, "host_2x_faster", "host", 0.9, 1.0),
            (Bottleneck::Straggler, 0, "communication_free", "communication", 0.4, 0.05),
            (Bottleneck::Sync, 0, "sync_free", "host", 0.2, 0.12),
        ] {
            let folder = demo(bottleneck, 4, seed);
            let slow = session(folder.path());
            let gains = gains(&slow, rank);
            assert!(leads(&gains, scenario), "{bottleneck:?}, seed {seed}: {gains:?}");
            let share = path_shares(&slow, rank)[cause];
            assert!(share > least, "{bottleneck:?}, seed {seed}: {share}");
            let measured = 1.0 - window(&healthy, rank) / window(&slow, rank);
            let error = (gains[scenario] - measured).abs();
            assert!(error < slack, "{bottleneck:?}: predicted {}, is {measured}", gains[scenario]);
        }
        // What a wait exposes is host time right after it: only there.
        let after_sync = |bottleneck| {
            let folder = demo(bottleneck, 2, seed);
            let query = "SELECT after_sync_ratio FROM critical_path_causes WHERE rank = 0";
            number(&session(folder.path()), query)
        };
        assert!(after_sync(Bottleneck::Sync) > 0.15);
        assert!(after_sync(Bottleneck::DataLoading) < 0.05);
        // The rank that straggles is slow by itself, not by waiting for the others.
        let folder = demo(Bottleneck::Straggler, 4, seed);
        assert!(path_shares(&session(folder.path()), 3)["communication"] < 0.1);
    }
}
