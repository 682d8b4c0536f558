//! The critical path and its what-if scenarios on real traces.
#![allow(clippy::float_cmp, reason = "counts and nanoseconds, exact in doubles here")]

use std::path::Path;

use trace_advisor::Run;
use trace_model::retiming::{
    Edit, EditTarget, FittedEffect, FixEdits, Interval, PredictionError, Retiming, RetimingRequest,
};
use what_if::RetimingRanks;

use crate::harness::{self, Case, functions};
use crate::runs::{self, Params};
use crate::support::corpus;
use crate::support::critical::{gains, leads, path_shares};
use crate::support::rows;

const TRACES: &str = "critical: traces";

/// One test per trace, and tests of single traces.
pub(crate) fn cases() -> Vec<Case> {
    harness::require(TRACES, 51);
    let mut cases = Vec::new();
    for path in corpus::runs(&runs::traces()) {
        let trace = runs::name(&path);
        let retimed = {
            let path = path.clone();
            move || predictions_are_possible(&path)
        };
        cases.push(Case::of_trace(&trace, "predictions_are_possible", retimed));
        let random = {
            let path = path.clone();
            move || random_fixes_keep_to_their_bounds(&path)
        };
        cases.push(Case::of_trace(&trace, "random_fixes_keep_to_their_bounds", random));
        let test = move || path_tiles_the_recording(&path);
        cases.push(Case::of_trace(&trace, "path_tiles_the_recording", test));
    }
    for trace in ["h100_qwen", "mi300_qwen", "mi300_resnet_ddp", "ns_resolution"] {
        let test = move || {
            let share = device_share(&runs::open(trace).run);
            assert!(share > 0.85, "{share}");
        };
        cases.push(Case::of_trace(trace, "device_dominates_the_path", test));
    }
    for trace in ["h100_bert", "mi300_bert", "b200_eager", "resnet50_workers4"] {
        let test = move || {
            let share = device_share(&runs::open(trace).run);
            assert!(share < 0.2, "{share}");
        };
        cases.push(Case::of_trace(trace, "host_dominates_the_path", test));
    }
    for trace in ["cpu_only", "generated/cpu_resnet_nw0", "rank_non_gpu"] {
        let test = move || {
            let query = "SELECT host_ratio + data_loading_ratio + communication_ratio FROM critical_path_causes";
            let shares: f64 =
                numbers(&runs::open(trace).run, query).into_iter().map(|row| row[0]).sum();
            assert!((shares - 1.0).abs() < 1e-9, "{shares}");
        };
        cases.push(Case::of_trace(trace, "path_without_device_is_host_time", test));
    }
    cases.extend(functions![
        predicted_step_without_data_loading_is_measured_with_workers,
        full_launch_queue_makes_launches_follow_kernels,
        gloo_ranks_wait_for_the_straggler,
        graph_replays_and_unlinked_work_are_launch_delay,
        window_is_that_of_the_selected_annotation,
    ]);
    cases
}

/// Numbers that differ from trace to trace, and are the same in each run of the test.
struct Random(u64);

impl Random {
    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        // Knuth's multiplier; the upper bits are the random ones.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn share(&mut self, end: f64) -> f64 {
        end * self.below(1_001) as f64 / 1_000.0
    }

    /// A fix of any kind that changes some of the recording by any amount.
    fn fix(&mut self, index: usize, with_devices: bool) -> FixEdits {
        let (every, first) = (1 + self.below(4), self.below(4));
        let some = format!("event_id % {every} = {}", first % every);
        let target = match self.below(if with_devices { 5 } else { 4 }) {
            0 => EditTarget::Host(format!(
                "SELECT rank, thread, ts_ns, dur_ns FROM cpu_ops WHERE {some}"
            )),
            1 => {
                let kinds = ["operator", "runtime_call", "python", "annotation", "gap"];
                let kept = 1 + self.below(5) as usize;
                EditTarget::HostTime(kinds.into_iter().take(kept).map(str::to_owned).collect())
            }
            2 => EditTarget::Waits(
                "SELECT rank, event_id FROM runtime_calls WHERE name LIKE '%Synchronize'"
                    .to_owned(),
            ),
            3 => EditTarget::StreamGaps(format!("SELECT rank, event_id FROM kernels WHERE {some}")),
            _ => EditTarget::Device(format!("SELECT rank, event_id FROM kernels WHERE {some}")),
        };
        let (one, other) = (self.share(1.1), self.share(1.1));
        let left = [one.min(other), one.max(other)];
        FixEdits {
            name: format!("fix-{index}"),
            edits: vec![Edit {
                target,
                left,
                least: None,
                launched: None,
                workers: None,
                slowdown: [1.0, 1.0],
            }],
            weight: 0.25 * (1 + self.below(4)) as f64,
            is_certain: self.below(2) == 0,
            instead_of: Vec::new(),
            effect: FittedEffect { position: self.share(1.0), scores: [-1.5, 1.5] },
        }
    }
}

/// Random fixes keep to their bounds: intervals are in order, no saving is larger than the evidence, no fix of a plan makes it
/// longer, kernels that no fix changes take their time, and a fix alone saves the same whichever others there are.
fn random_fixes_keep_to_their_bounds(path: &Path) {
    let shared = runs::open_path(path);
    let views = shared.views();
    // Of one stream, in a step: kernels of a stream run one after the other.
    let kernels = "SELECT coalesce(max(ns), 0) FROM (
            SELECT
                sum(least(k.ts_ns + k.dur_ns, w.end_ns) - greatest(k.ts_ns, w.start_ns))
                    / greatest(min(w.step_count), 1) AS ns
            FROM kernels k
            JOIN device_windows w ON w.rank = k.rank AND w.device = k.device
            WHERE k.ts_ns < w.end_ns AND k.ts_ns + k.dur_ns > w.start_ns
            GROUP BY k.rank, k.device, k.stream)";
    let kernels_ns = rows::number(&views.sql(kernels));
    let name = runs::name(path);
    let mut random = Random(
        name.bytes().fold(1_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte))),
    );
    let retime = |fixes: Vec<FixEdits>| {
        let request = RetimingRequest {
            fixes,
            curve_positions: vec![0.0, 1.0],
            ..RetimingRequest::default()
        };
        let ranks = || RetimingRanks::load(&views.session, &[]);
        let retimed = what_if::retime(&views.session, &request, ranks).unwrap();
        assert!(retimed.left_out.is_empty(), "{:?}", retimed.left_out);
        retimed.retiming
    };
    let is_ordered = |i: &Interval| i.low <= i.mid && i.mid <= i.high;
    for with_devices in [false, true] {
        let fixes: Vec<FixEdits> = (0..3).map(|index| random.fix(index, with_devices)).collect();
        let retiming = retime(fixes.clone());
        let mut before = retiming.unprofiled_ns;
        for effect in &retiming.fixes {
            let told = format!("{fixes:?}: {effect:?} after {before:?}");
            assert!(is_ordered(&effect.alone_pct) && is_ordered(&effect.next_pct), "{told}");
            let margin_pct = PredictionError::margin_pct(effect.evidence_pct);
            assert!(effect.alone_pct.mid <= effect.evidence_pct.max(0.0) + 1e-6, "{told}");
            assert!(effect.alone_pct.high <= margin_pct.max(0.0) + 1e-6, "{told}");
            if effect.is_planned {
                let after = effect.step_ns;
                assert!(is_ordered(&after) && after.low > 0.0, "{told}");
                assert!(after.low <= before.low + 1.0 && after.high <= before.high + 1.0, "{told}");
                let floor_ns = if with_devices { 0.0 } else { 0.85 * kernels_ns };
                assert!(after.low >= floor_ns, "{told}: kernels take {kernels_ns} ns");
                before = after;
            }
        }
        let first = retime(fixes[..1].to_vec());
        let of_first = |retiming: &Retiming| {
            retiming
                .fixes
                .iter()
                .find(|effect| effect.name == "fix-0")
                .map(|effect| effect.alone_pct)
        };
        assert_eq!(of_first(&first), of_first(&retiming), "{fixes:?}");
    }
}

/// Re-timed without a fix and without overhead, each rank takes what it took; no plan takes time below zero, saves more
/// than there is, or gets slower; and no kernel runs in less than no time.
fn predictions_are_possible(path: &Path) {
    let run = &runs::open_path(path).run;
    let query = "SELECT count(*) FROM critical_what_if WHERE predicted_window_ns < 0 OR predicted_window_ns > window_ns";
    assert_eq!(number(run, query), 0.0);
    let mut params = Params::default();
    params.set("what_if", "kernel=1,host=1");
    let custom = runs::open_path(path).views_with(&params);
    let query = "SELECT count(*) FROM critical_what_if
         WHERE scenario = 'custom' AND predicted_window_ns <> window_ns";
    assert_eq!(rows::number(&custom.sql(query)), 0.0, "an identity changes the recording");
    let report = run.check(&trace_advisor::default_rules()).unwrap();
    let Some(plan) = &report.plan else { return };
    let mut before_ms = plan.unprofiled_ms.mid;
    assert!(plan.unprofiled_ms.low > 0.0 && before_ms <= plan.recorded_ms * 1.000_001, "{plan:?}");
    for fix in &plan.fixes {
        let after = fix.after_ms;
        assert!(0.0 < after.low && after.low <= after.mid && after.mid <= after.high, "{fix:?}");
        assert!(after.mid <= before_ms * 1.000_001, "{fix:?}");
        before_ms = after.mid;
    }
    for finding in &report.findings {
        let gain = &finding.gain;
        let (low, high) = (gain.low_pct.unwrap_or(0.0), gain.high_pct.unwrap_or(0.0));
        assert!(0.0 <= low && low <= high && high <= 100.0, "{}: {gain:?}", finding.code);
    }
}

fn numbers(run: &Run, query: &str) -> Vec<Vec<f64>> {
    rows::numbers(&run.sql(query).unwrap())
}

fn number(run: &Run, query: &str) -> f64 {
    rows::number(&run.sql(query).unwrap())
}

fn check_tiles(run: &Run) {
    // No holes, no overlaps, from the start of the window to its end.
    let broken = numbers(
        run,
        "SELECT count(*) FROM (
            SELECT ts_ns, dur_ns,
                lag(ts_ns + dur_ns) OVER (PARTITION BY rank ORDER BY position) AS before
            FROM critical_path
        ) WHERE dur_ns <= 0 OR ts_ns <> before",
    );
    assert_eq!(broken, [[0.0]]);
    let windows = numbers(
        run,
        "SELECT w.ts_ns, w.end_ns, p.first, p.last, p.total FROM critical_windows w
         LEFT JOIN (
            SELECT rank, min(ts_ns) AS first, max(ts_ns + dur_ns) AS last, sum(dur_ns) AS total
            FROM critical_path GROUP BY rank
         ) p ON p.rank = w.rank",
    );
    for row in &windows {
        let [begin, end, first, last, total] = row[..] else { panic!("{row:?}") };
        if end > begin {
            assert_eq!((first, last, total), (begin, end, end - begin));
        }
    }
    // The whole recording: no event of a host or device lies outside.
    let all = numbers(
        run,
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
    if numbers(run, trainer)[0][0] > 0.0 {
        assert!(all[0][0] <= begin && begin <= end && end <= all[0][1]);
    } else {
        assert_eq!(format!("{:?}", [begin, end]), format!("{:?}", &all[0][..]));
    }
    // Steps inside the window are tiled as well, if they do not overlap.
    let steps = numbers(
        run,
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
        assert_eq!(row[0], row[1], "a step");
    }
}

fn path_tiles_the_recording(path: &Path) {
    let shared = runs::open_path(path);
    let run = &shared.run;
    check_tiles(run);
    let worse = number(
        run,
        "SELECT count(*) FROM critical_what_if WHERE gain_ns < 0 OR gain_ns > window_ns",
    );
    assert_eq!(worse, 0.0);
    // Edges are dropped only in cycles at one moment, which are rare.
    let dropped = numbers(run, "SELECT sum(dropped_count), sum(edge_count) FROM critical_windows");
    if let [dropped, edges] = dropped[0][..]
        && edges > 1_000.0
    {
        assert!(dropped <= edges / 100.0, "{dropped} of {edges}");
    }
    harness::count(TRACES, 1);
}

/// The same job was recorded with loader workers: that is the free data loading that was predicted.
fn predicted_step_without_data_loading_is_measured_with_workers() {
    let before = runs::open("resnet50_workers0");
    let after = runs::open("resnet50_workers4");
    let predicted = number(
        &before.run,
        "SELECT predicted_step_ns FROM critical_what_if WHERE scenario = 'data_loading_free'",
    );
    let measured = number(&after.run, "SELECT median_ns FROM step_time_summary");
    let error = predicted / measured - 1.0;
    assert!(error.abs() < 0.1, "predicted {predicted} ns, measured {measured} ns");
    assert!(leads(&gains(&before.run, 0), "data_loading_free"));
    let after = gains(&after.run, 0);
    assert!(after["data_loading_free"] < 0.02);
    // A host that is twice as fast is the gain that is left there.
    assert!(leads(&after, "host_2x_faster"));
}

/// The share of the path that is device work, and what device work waits for.
fn device_share(run: &Run) -> f64 {
    let shares = path_shares(run, 0);
    let of = |what: &str| shares.get(what).copied().unwrap_or(0.0);
    of("kernel") + of("communication") + of("copy") + of("kernel_kernel_delay")
}

/// Launches block on a full queue: they get faster with the kernels.
fn full_launch_queue_makes_launches_follow_kernels() {
    let full = runs::open("ns_resolution");
    assert!(gains(&full.run, 0)["kernels_2x_faster"] > 0.4);
    let queue = "SELECT count(*) FROM critical_edges WHERE kind = 'queue_full' AND is_binding";
    assert!(number(&full.run, queue) > 1_000.0);
}

/// The straggler loads data, the others wait for it in gloo's all-reduce, on the host.
fn gloo_ranks_wait_for_the_straggler() {
    let shared = runs::open("generated/ddp_gloo_4rank_straggler");
    let ddp = &shared.run;
    for rank in 0..3 {
        assert!(leads(&gains(ddp, rank), "communication_free"), "rank {rank}");
        assert!(path_shares(ddp, rank)["communication"] > 0.5, "rank {rank}");
    }
    assert!(leads(&gains(ddp, 3), "data_loading_free"));
    assert!(path_shares(ddp, 3)["data_loading"] > 0.4);
}

/// Replayed graphs hide what their kernels wait for: the path calls that launch delay and guesses no cause.
fn graph_replays_and_unlinked_work_are_launch_delay() {
    let sglang = runs::open("sglang_decode");
    // The first kernels start 463 ms after their launch, and nothing in the trace says why.
    assert!(path_shares(&sglang.run, 0)["launch_delay"] > 0.9);
    let vllm = path_shares(&runs::open("vllm_decode_graph").run, 0);
    assert!(vllm["kernel"] + vllm["launch_delay"] > 0.9, "{vllm:?}");
    let alone = runs::open("compare_base");
    let unlinked = number(&alone.run, "SELECT unlinked_count FROM critical_windows");
    assert_eq!(unlinked, 16.0);
}

fn window_is_that_of_the_selected_annotation() {
    let shared = runs::open("h100_qwen");
    let open_at = |text: &str, instance: i64| {
        let mut params = Params::default();
        params.set("critical_annotation", text).set("critical_instance", instance);
        shared.views_with(&params)
    };
    let step = open_at("ProfilerStep", 0);
    let window = rows::numbers(&step.sql("SELECT ts_ns, end_ns FROM critical_windows"));
    let of_step = rows::numbers(&step.sql(
        "SELECT s.ts_ns, greatest(s.ts_ns + s.dur_ns, max(k.ts_ns + k.dur_ns))
         FROM steps s CROSS JOIN kernels k GROUP BY s.ts_ns, s.dur_ns",
    ));
    assert_eq!(window, of_step);
    let total = rows::number(&step.sql("SELECT sum(dur_ns) FROM critical_path"));
    assert_eq!(total, window[0][1] - window[0][0]);
    let message = |text: &str, instance: i64| {
        open_at(text, instance).session.analyze("critical_path").unwrap_err().to_string()
    };
    assert!(message("ProfilerStep", 7).contains("occurs 1 times: the last is 0"));
    assert!(message("NoSuchThing", -1).contains("no annotation contains `NoSuchThing`"));
    assert!(message("ProfilerStep", -2).contains("a position from 0 on"));
}
