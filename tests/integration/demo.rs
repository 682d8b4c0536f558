//! Runs with a known cause: the first finding must name it, and nothing else may come first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use trace_advisor::advisor::{Finding, Severity};
use trace_advisor::{Report, Run};

use crate::support::preview::rules_with_preview;
use trace_demo::{Bottleneck, Options, write_run};

use crate::support::rows;

/// A report, with the median step of the slowest rank.
struct Judged {
    report: Report,
    median_ms: f64,
}

impl Judged {
    fn finding(&self, code: &str) -> Option<&Finding> {
        self.report.findings.iter().find(|f| f.code == code)
    }

    /// The step time saved if the cause that `code` found is removed.
    fn saves_ms(&self, code: &str) -> f64 {
        self.finding(code).and_then(|f| f.gain.ms_per_step).unwrap_or(0.0)
    }
}

/// Simulates a run of eight steps and judges it. Several tests read the same runs: each is judged once.
fn check(bottleneck: Bottleneck, ranks: u32, seed: u64) -> Arc<Judged> {
    type Slot = Arc<OnceLock<Arc<Judged>>>;
    static JUDGED: Mutex<BTreeMap<String, Slot>> = Mutex::new(BTreeMap::new());
    let options = Options { bottleneck, ranks, steps: 8, seed, ..Options::default() };
    let slot = Arc::clone(JUDGED.lock().unwrap().entry(format!("{options:?}")).or_default());
    Arc::clone(slot.get_or_init(|| Arc::new(judge(&options))))
}

fn judge(options: &Options) -> Judged {
    let folder = tempfile::tempdir().unwrap();
    write_run(options, folder.path()).unwrap();
    let run = Run::open(folder.path()).unwrap();
    let query = "SELECT max(median_ns) FROM step_time_summary";
    let median_ms = rows::number(&run.sql(query).unwrap()) / 1e6;
    Judged { report: run.check(&rules_with_preview()).unwrap(), median_ms }
}

const CAUSES: [(Bottleneck, &str); 6] = [
    (Bottleneck::DataLoading, "IN001"),
    (Bottleneck::SmallKernels, "HB001"),
    (Bottleneck::Sync, "SY001"),
    (Bottleneck::Straggler, "CM003"),
    (Bottleneck::Memory, "MM001"),
    (Bottleneck::MemoryLeak, "MM005"),
];

#[test]
fn cause_comes_first() {
    for (bottleneck, code) in CAUSES {
        let ranks = if bottleneck == Bottleneck::Straggler { 4 } else { 2 };
        for seed in [0, 7] {
            let report = check(bottleneck, ranks, seed);
            let report = &report.report;
            assert_eq!(report.headline.first.as_deref(), Some(code), "{bottleneck:?}, seed {seed}");
        }
    }
}

/// From one device to eight machines full of them. Two layers: what a rank costs is what is tried here.
#[test]
fn cause_comes_first_at_any_scale() {
    for (bottleneck, code) in CAUSES {
        for ranks in [1, 8, 64] {
            // A straggler needs someone who waits for it, and with one other rank more steps than chance takes.
            let straggles = bottleneck == Bottleneck::Straggler;
            let (ranks, steps) = if straggles { (ranks.max(2), 8) } else { (ranks, 6) };
            let small = Options { layers: 2, seed: 1, ..Options::default() };
            let Judged { report, .. } = judge(&Options { bottleneck, ranks, steps, ..small });
            let first = report.headline.first.as_deref();
            assert_eq!(
                first,
                Some(code),
                "{bottleneck:?}, {ranks} ranks: {}",
                report.headline.text
            );
            if straggles {
                let ranks = i64::from(ranks);
                assert_eq!(report.findings[0].affected.ranks, [ranks - 1], "the last is late");
            }
        }
    }
}

#[test]
fn healthy_run_has_no_findings() {
    for seed in [0, 7] {
        let report = check(Bottleneck::None, 2, seed);
        let report = &report.report;
        assert_eq!(report.headline.findings, 0, "{:?}", report.headline.text);
        // A profiler trace does not contain metrics that an agent on the machine samples. This trace also has no hardware counters
        // (GU008 to GU011), no stacks, no all_to_all, no trainer markers, no profiler overhead, and no GPU work before its first
        // step (TQ002). Its matmul with the vocabulary is simulated faster than the data sheet of the device allows (KN002). The run
        // has no memory snapshot.
        let unsaid = [
            "CM011", "GU006", "GU007", "GU008", "GU009", "GU010", "GU011", "IN007", "IN010",
            "KN002", "MM012", "MM013", "MM014", "MM020", "MM021", "MM025", "MM027", "OP005",
            "OP007", "OP008", "TQ002", "TQ005", "VA004",
        ];
        let unknown: Vec<&str> = report.unknown.iter().map(|u| u.code.as_str()).collect();
        assert_eq!(unknown, unsaid, "seed {seed}");
    }
}

#[test]
fn healthy_run_has_no_findings_at_any_scale() {
    for ranks in [1, 2, 8, 64] {
        let Judged { report, .. } =
            judge(&Options { bottleneck: Bottleneck::None, ranks, ..Options::default() });
        let said: Vec<_> = report
            .findings
            .iter()
            .filter(|f| f.severity > Severity::Info)
            .map(|f| format!("{} {}", f.code, f.message))
            .collect();
        assert_eq!(said, [""; 0], "{ranks} ranks");
    }
}

#[test]
fn memory_leak_is_measured_with_its_operator() {
    let report = check(Bottleneck::MemoryLeak, 1, 0);
    let report = &report.report;
    let finding = &report.findings[0];
    assert!((finding.value - 7.0 * f64::from(160 << 20)).abs() < 1.0, "{}", finding.value);
    assert!(finding.message.contains("aten::clone"), "{}", finding.message);
}

#[test]
fn straggler_is_named_with_its_cost() {
    let report = check(Bottleneck::Straggler, 4, 0);
    let report = &report.report;
    let finding = &report.findings[0];
    assert_eq!(finding.affected.ranks, [3]);
    // The same work without the straggler, by the simulation itself.
    let healthy = check(Bottleneck::None, 4, 0);
    let healthy = &healthy.report;
    let step = |report: &Report| report.run.wall_ns as f64 / report.run.steps as f64;
    let measured = 100.0 * (1.0 - step(healthy) / step(report));
    let estimated = finding.fixes[0].alone_pct.mid;
    assert!(
        (estimated - measured).abs() < 6.0,
        "estimated {estimated:.1} %, measured {measured:.1} %"
    );
}

/// `measured` and the prediction for it, at most `tolerance` apart.
fn close(name: &str, predicted: f64, measured: f64, tolerance: f64) {
    let error = predicted / measured - 1.0;
    assert!(
        error.abs() < tolerance,
        "{name}: predicted {predicted:.2} ms, measured {measured:.2} ms, {:+.1} %",
        100.0 * error
    );
}

/// The simulation with and without a bottleneck does the same work otherwise.
#[test]
fn removed_bottleneck_saves_what_was_predicted() {
    let run = |bottleneck, ranks| check(bottleneck, ranks, Options::default().seed);
    for ranks in [1, 4] {
        let healthy = run(Bottleneck::None, ranks);
        for (bottleneck, code) in [
            (Bottleneck::DataLoading, "IN001"),
            (Bottleneck::Sync, "SY001"),
            (Bottleneck::Straggler, "CM003"),
        ] {
            if bottleneck == Bottleneck::Straggler && ranks == 1 {
                continue;
            }
            let slow = run(bottleneck, ranks);
            let predicted = slow.median_ms - slow.saves_ms(code);
            // The prediction takes an overhead of recording off that the simulation does not have.
            close(&format!("{bottleneck:?}, {ranks}"), predicted, healthy.median_ms, 0.15);
        }
        // Kernels of a few microseconds have no counterpart: a step cannot get shorter than its device work.
        let small = run(Bottleneck::SmallKernels, ranks);
        let busy = small.finding("GU001").map_or(0.0, |f| f.value);
        let predicted = small.median_ms - small.saves_ms("HB001");
        assert!(predicted > 0.95 * small.median_ms * busy, "{predicted:.2} ms");
    }
}
