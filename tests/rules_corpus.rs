//! Rules on real traces: their numbers counted another way, and what must not fire.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/corpus.rs"]
mod support;

use std::path::Path;

use cli::demo::{Bottleneck, Options, write_run};
use support::corpus;
use trace_advisor::advisor::{Finding, Severity};
use trace_advisor::arrow::array::AsArray;
use trace_advisor::arrow::compute::cast;
use trace_advisor::arrow::datatypes::{DataType, Float64Type};
use trace_advisor::{Run, default_rules};

fn findings(run: &Path) -> Vec<Finding> {
    Run::open(run).unwrap().check(&default_rules()).unwrap().findings
}

fn finding<'f>(findings: &'f [Finding], code: &str) -> &'f Finding {
    findings.iter().find(|f| f.code == code).unwrap_or_else(|| panic!("{code} does not fire"))
}

/// The only number of a query.
fn number(run: &Run, query: &str) -> f64 {
    let batches = run.sql(query).unwrap();
    let column = cast(batches[0].column(0), &DataType::Float64).unwrap();
    column.as_primitive::<Float64Type>().value(0)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

#[test]
fn copies_of_resnet50_are_those_of_the_file() {
    let Some(corpus) = corpus() else { return };
    for (name, large_bytes) in
        [("resnet50_workers0", 115_605_504.0), ("resnet50_workers4", 115_605_504.0)]
    {
        let run = Run::open(corpus.join("traces").join(name)).unwrap();
        // 6 batches of 32 images of 3 x 224 x 224 floats.
        assert!(close(6.0 * 32.0 * 3.0 * 224.0 * 224.0 * 4.0, large_bytes));
        let raw = "SELECT sum(bytes) FROM memcpys WHERE name LIKE '%Pageable%' AND bytes > 65536";
        assert!(close(number(&run, raw), large_bytes), "{name}");
        assert!(
            close(number(&run, "SELECT sum(pageable_bytes) FROM gpu_transfers"), large_bytes),
            "{name}"
        );
        // No kernel runs beside these copies: all of their time is exposed.
        let raw = "SELECT sum(dur_ns) FROM memcpys WHERE name LIKE '%Pageable%' AND bytes > 65536";
        let exposed = "SELECT sum(pageable_exposed_ns) FROM gpu_transfers";
        assert!(close(number(&run, raw), number(&run, exposed)), "{name}");
    }
}

#[test]
fn workers_take_the_loader_off_the_training_thread() {
    let Some(corpus) = corpus() else { return };
    let before = findings(&corpus.join("traces/resnet50_workers0"));
    let after = findings(&corpus.join("traces/resnet50_workers4"));
    assert_eq!(finding(&before, "IN002").severity, Severity::Medium);
    assert!(!after.iter().any(|f| f.code == "IN002"));
    // Both update one parameter after the other, and fill gradients with zeros. Without workers the device still works
    // off its queue during the update: there it costs nothing.
    assert_eq!(finding(&before, "OP002").severity, Severity::Info);
    assert_eq!(finding(&after, "OP002").severity, Severity::Medium);
    for findings in [&before, &after] {
        assert_eq!(finding(findings, "MM006").severity, Severity::Low);
    }
}

#[test]
fn transposes_of_layout_are_those_of_the_kernels_names() {
    let Some(corpus) = corpus() else { return };
    let run = Run::open(corpus.join("traces/mi300_resnet_ddp")).unwrap();
    let raw = "SELECT sum(k.dur_ns) FROM kernels k JOIN device_windows w ON w.rank = k.rank AND w.device = k.device \
               WHERE k.name LIKE 'batched_transpose%' AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns";
    assert!(close(number(&run, raw), number(&run, "SELECT layout_ns FROM kernel_families")));
    let findings = run.check(&default_rules()).unwrap().findings;
    assert_eq!(finding(&findings, "KN006").severity, Severity::Medium);
}

#[test]
fn casts_of_an_eager_norm_are_found() {
    let Some(corpus) = corpus() else { return };
    let run = Run::open(corpus.join("traces/h100_qwen")).unwrap();
    let raw = "SELECT count(*) FROM kernels k JOIN cpu_ops o ON o.rank = k.rank AND o.event_id = k.op \
               JOIN device_windows w ON w.rank = k.rank AND w.device = k.device \
               WHERE o.name = 'aten::copy_' AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns \
               AND o.input_types LIKE '%\"float\"%' AND o.input_types LIKE '%BFloat16\"%'";
    let casts = "SELECT cast_count FROM kernel_families";
    assert!(number(&run, raw) > 90.0);
    assert!((number(&run, raw) - number(&run, casts)).abs() <= 5.0, "other types are few");
}

/// Whoever has nothing to mend is told nothing, at any number of ranks.
#[test]
fn a_healthy_run_stays_without_findings() {
    for ranks in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { bottleneck: Bottleneck::None, ranks, ..Options::default() };
        write_run(&options, folder.path()).unwrap();
        let worth: Vec<String> = findings(folder.path())
            .into_iter()
            .filter(|f| f.severity > Severity::Info)
            .map(|f| format!("{} {}", f.code, f.message))
            .collect();
        assert_eq!(worth, [""; 0], "{ranks} ranks");
    }
}
