//! Numbers of rules on real traces, counted another way from the raw events.

use trace_advisor::Run;
use trace_advisor::advisor::{Finding, Severity};

use crate::harness::{Case, functions};
use crate::runs;
use crate::support::rows;

pub(super) fn cases() -> Vec<Case> {
    functions![
        resnet50_copies_are_those_of_the_file,
        loader_workers_take_copies_off_the_training_thread,
        layout_transposes_are_those_of_kernel_names,
        casts_of_an_eager_norm_are_counted,
    ]
}

fn findings(trace: &str) -> Vec<Finding> {
    runs::report(&runs::traces().join(trace)).as_ref().as_ref().unwrap().findings.clone()
}

fn finding<'f>(findings: &'f [Finding], code: &str) -> &'f Finding {
    findings.iter().find(|f| f.code == code).unwrap_or_else(|| panic!("{code} does not fire"))
}

/// The only number of a query.
fn number(run: &Run, query: &str) -> f64 {
    rows::number(&run.sql(query).unwrap())
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn resnet50_copies_are_those_of_the_file() {
    for (name, large_bytes) in
        [("resnet50_workers0", 96_337_920.0), ("resnet50_workers4", 96_337_920.0)]
    {
        let shared = runs::open(name);
        let run = &shared.run;
        // 5 batches of 32 images of 3 x 224 x 224 floats: the first of 6 steps does not count.
        assert!(close(5.0 * 32.0 * 3.0 * 224.0 * 224.0 * 4.0, large_bytes));
        let raw = "SELECT sum(bytes) FROM memcpys
            WHERE name LIKE '%Pageable%' AND bytes > 65536 AND ts_ns >= (SELECT min(start_ns) FROM device_windows)";
        assert!(close(number(run, raw), large_bytes), "{name}");
        assert!(
            close(number(run, "SELECT sum(pageable_bytes) FROM gpu_transfers"), large_bytes),
            "{name}"
        );
        // No kernel runs during these copies: all of their time is exposed.
        let raw = "SELECT sum(dur_ns) FROM memcpys
            WHERE name LIKE '%Pageable%' AND bytes > 65536 AND ts_ns >= (SELECT min(start_ns) FROM device_windows)";
        let exposed = "SELECT sum(pageable_exposed_ns) FROM gpu_transfers";
        assert!(close(number(run, raw), number(run, exposed)), "{name}");
    }
}

fn loader_workers_take_copies_off_the_training_thread() {
    let before = findings("resnet50_workers0");
    let after = findings("resnet50_workers4");
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

fn layout_transposes_are_those_of_kernel_names() {
    let shared = runs::open("mi300_resnet_ddp");
    let run = &shared.run;
    let raw = "SELECT sum(k.dur_ns) FROM kernels k JOIN device_windows w ON w.rank = k.rank AND w.device = k.device \
               WHERE k.name LIKE 'batched_transpose%' AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns";
    assert!(close(number(run, raw), number(run, "SELECT layout_ns FROM kernel_families")));
    let findings = findings("mi300_resnet_ddp");
    assert_eq!(finding(&findings, "KN006").severity, Severity::Medium);
}

fn casts_of_an_eager_norm_are_counted() {
    let shared = runs::open("h100_qwen");
    let run = &shared.run;
    let raw = "SELECT count(*) FROM kernels k JOIN cpu_ops o ON o.rank = k.rank AND o.event_id = k.op \
               JOIN device_windows w ON w.rank = k.rank AND w.device = k.device \
               WHERE o.name = 'aten::copy_' AND k.ts_ns >= w.start_ns AND k.ts_ns < w.end_ns \
               AND o.input_types LIKE '%\"float\"%' AND o.input_types LIKE '%BFloat16\"%'";
    let casts = "SELECT cast_count FROM kernel_families";
    assert!(number(run, raw) > 90.0);
    assert!((number(run, raw) - number(run, casts)).abs() <= 5.0, "other types are few");
}
