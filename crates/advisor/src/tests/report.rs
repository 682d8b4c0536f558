//! Reports from metric rows written by hand.

use trace_model::command_line::CommandOptions;
use trace_model::retiming::{FixEffect, Interval, Retiming, UnknownEffect};
use trace_model::{FailedTable, MetricTable, RunInfo, Source, Value, Warning};

use super::{source, view, with_default};
use crate::{Confidence, Date, Report, Severity, evaluate, evaluate_without};

const SECOND: i64 = 1_000_000_000;

pub(super) fn run() -> RunInfo {
    RunInfo {
        path: "run/".to_owned(),
        ranks: vec![0, 1],
        steps: 6,
        wall_ns: SECOND,
        selection: String::new(),
        command_options: CommandOptions::default(),
        sources: vec![Source {
            file: "rank0.json.gz".to_owned(),
            format: "kineto".into(),
            rank: 0,
            rank_from: "distributedInfo".into(),
            json_bytes: 1_000_000,
            events: 5_000,
            shift_ns: 0,
            is_timeline: true,
        }],
    }
}

pub(super) fn utilization(rank: i64, busy: f64) -> Vec<(&'static str, Value)> {
    let ns = |share: f64| Value::Int((share * 1e9) as i64);
    vec![
        ("rank", Value::Int(rank)),
        ("device", Value::Int(rank)),
        ("window_ns", Value::Int(SECOND)),
        ("kernel_busy_ratio", Value::Float(busy)),
        ("busy_ns", ns(busy)),
        ("busy_ratio", Value::Float(busy)),
        ("idle_ns", ns(1.0 - busy)),
        ("idle_ratio", Value::Float(1.0 - busy)),
        ("unattributed_ratio", Value::Float(0.0)),
        ("mean_blocks_per_sm", Value::Float(12.0)),
        ("step_count", Value::Int(6)),
        ("graph_launch_count", Value::Int(0)),
    ]
}

fn causes(rank: i64, idle: f64, host: f64, sync: f64) -> Vec<(&'static str, Value)> {
    let ns = |share: f64| Value::Int((share * 1e9) as i64);
    vec![
        ("rank", Value::Int(rank)),
        ("device", Value::Int(rank)),
        ("window_ns", Value::Int(SECOND)),
        ("idle_ratio", Value::Float(idle)),
        ("dispatch_ns", ns(host)),
        ("dispatch_ratio", Value::Float(host)),
        ("sync_ns", ns(sync)),
        ("sync_ratio", Value::Float(sync)),
        ("graph_launch_count", Value::Int(0)),
    ]
}

pub(super) fn phases(rank: i64, loading: f64, idle: f64) -> Vec<(&'static str, Value)> {
    let ns = |share: f64| Value::Int((share * 1e8) as i64);
    vec![
        ("rank", Value::Int(rank)),
        ("step_count", Value::Int(6)),
        ("step_ns", Value::Int(SECOND / 10)),
        ("dataloader_ns", ns(loading)),
        ("dataloader_ratio", Value::Float(loading)),
        ("dataloader_idle_ns", ns(idle)),
        ("dataloader_idle_ratio", Value::Float(idle)),
        ("forward_ratio", Value::Float(0.36)),
        ("backward_ratio", Value::Float(0.41)),
        ("backward_ns", ns(0.41)),
        ("optimizer_ratio", Value::Float(0.04)),
        ("has_device", Value::Bool(true)),
        ("dataloader_workers", Value::Text("single-process".to_owned())),
    ]
}

pub(super) fn rows(name: &str, rows: &[Vec<(&'static str, Value)>]) -> MetricTable {
    view(name, &rows.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Two ranks: the second waits for its loader 28 % of a step and has slow launches besides.
pub(super) fn tables() -> Vec<MetricTable> {
    let quality = |steps: i64| {
        vec![
            ("rank", Value::Int(1)),
            ("step_count", Value::Int(steps)),
            ("kernel_count", Value::Int(4000)),
            ("unlinked_ratio", Value::Float(0.08)),
            ("no_launch_ratio", Value::Float(0.08)),
            ("graph_launch_count", Value::Int(0)),
        ]
    };
    vec![
        rows("gpu_utilization", &[utilization(0, 0.9), utilization(1, 0.58)]),
        rows("gpu_idle_causes", &[causes(0, 0.1, 0.02, 0.0), causes(1, 0.42, 0.11, 0.0)]),
        rows("step_phases", &[phases(0, 0.05, 0.01), phases(1, 0.285, 0.28)]),
        rows("trace_quality", &[quality(6)]),
        view("memory_peak", &[]),
    ]
}

pub(super) fn codes(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|f| f.code.as_str()).collect()
}

#[test]
fn report_json_is_stable() {
    let warning = Warning {
        code: "truncated-json".into(),
        file: "rank1.json.gz".to_owned(),
        message: "The file ends in the middle of an event; what came before was read.".to_owned(),
        count: 1,
    };
    let mut report = evaluate(&with_default(&[]), &tables(), &run(), &[warning]);
    "[version]".clone_into(&mut report.tool.version);
    insta::assert_snapshot!(serde_json::to_string_pretty(&report).unwrap());
}

#[test]
fn causes_come_before_what_contains_or_details_them() {
    let report = evaluate(&with_default(&[]), &tables(), &run(), &[]);
    assert_eq!(codes(&report), ["IN001", "HB001", "GU001", "IN002", "TQ004"]);
    let gpu = &report.findings[2];
    assert_eq!(gpu.gain.contains, ["HB001", "IN001", "IN002"]);
    let is_cause: Vec<bool> = report.findings.iter().map(|f| f.is_cause).collect();
    assert_eq!(is_cause, [true, true, false, false, false]);
    assert_eq!(report.findings[0].gain.within, ["GU001"]);
    assert_eq!(report.findings[0].gain.share_pct, Some(28.0));
    // Shares are no prediction.
    assert_eq!(report.headline.gain_high_pct, None);
    assert!(report.headline.text.contains("without a prediction"), "{}", report.headline.text);
    assert_eq!(report.worst(), Some(Severity::High));
}

/// An effect of a fix, as re-timing gives it.
fn effect(name: &str, alone: f64, next: f64, is_planned: bool) -> FixEffect {
    let around = |pct: f64| Interval { low: 0.8 * pct, mid: pct, high: 1.2 * pct };
    FixEffect {
        name: name.to_owned(),
        alone_pct: around(alone),
        next_pct: around(next),
        step_ns: around(1e8 * (1.0 - next / 100.0)),
        is_planned,
        ..FixEffect::default()
    }
}

fn retiming(fixes: Vec<FixEffect>) -> Retiming {
    let unprofiled_ns = Interval { low: 9e7, mid: 1e8, high: 1.1e8 };
    Retiming { step_count: 6, recorded_ns: 1.2e8, unprofiled_ns, fixes, ..Retiming::default() }
}

#[test]
fn findings_are_ordered_by_what_their_fix_saves_next() {
    let rules = with_default(&[]);
    let mut report = evaluate(&rules, &tables(), &run(), &[]);
    let request = report.follow_ups(&rules).retiming.unwrap();
    let names: Vec<&str> = request.fixes.iter().map(|fix| fix.name.as_str()).collect();
    let expected =
        ["compile", "cpu-loader-worker", "cpu-loader-workers", "cuda-graph", "loader-workers"];
    assert_eq!(names, expected);
    // The loader saves less alone, and more once launching is mended.
    let fixes = vec![
        effect("cuda-graph", 30.0, 30.0, true),
        effect("loader-workers", 10.0, 20.0, true),
        effect("compile", 15.0, 0.0, false),
    ];
    report.attach(&rules, &[], Some(&retiming(fixes)));
    assert_eq!(codes(&report), ["HB001", "IN001", "IN002", "GU001", "TQ004"]);
    let loader = &report.findings[1].gain;
    assert_eq!((loader.low_pct, loader.high_pct), (Some(8.0), Some(12.0)));
    assert_eq!((loader.next_low_pct, loader.next_high_pct), (Some(16.0), Some(24.0)));
    assert_eq!(loader.ms_per_step, Some(10.0));
    // The parent has no fix of its own: it promises nothing.
    assert_eq!(report.findings[3].gain.high_pct, None);
    let plan = report.plan.as_ref().unwrap();
    assert_eq!(plan.fixes.iter().map(|f| f.position).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(plan.fixes[0].codes, ["HB001"]);
    assert!((plan.recorded_ms - 120.0).abs() < 1e-9);
    let headline = &report.headline;
    assert!((headline.predicted_step_ms.unwrap().mid - 70.0).abs() < 1e-9);
    // No later fix takes back what the first one saves.
    assert_eq!((headline.gain_low_pct, headline.gain_high_pct), (Some(16.4), Some(42.4)));
    assert_eq!((plan.fixes[0].after_ms.low, plan.fixes[0].after_ms.high), (57.6, 83.6));
    assert!(
        headline.text.contains(
            "a step takes 120 ms (90.0 to 110 ms without the profiler) and could take 57.6 to 83.6 ms"
        ),
        "{}",
        headline.text
    );
}

#[test]
fn finding_whose_fix_saves_nothing_more_comes_last_among_causes() {
    let rules = with_default(&[]);
    let mut report = evaluate(&rules, &tables(), &run(), &[]);
    let fixes =
        vec![effect("cuda-graph", 30.0, 30.0, true), effect("loader-workers", 28.0, 0.0, false)];
    report.attach(&rules, &[], Some(&retiming(fixes)));
    assert_eq!(codes(&report)[..2], ["HB001", "IN001"]);
    let loader = &report.findings[1];
    assert_eq!((loader.gain.low_pct, loader.fixes[0].plan_position), (Some(22.4), None));
}

/// A rule that is high at 30 %, and low where no fix is predicted to save time.
const LIMITED: &str = "[rule.x]\ncode = \"XX001\"\ncategory = \"x\"\nmetric = \"step_phases.dataloader_ratio\"\nhigh = \"> 10 %\"\nfixes = [\"y\"]\n\
    gain = { of = \"dataloader_idle_ratio\", low = 0.5, high = 1.0, method = \"measured\" }\n\
    unpredicted = [{ when = \"step_count >= 3\", to = \"low\", reason = \"Not here.\" }, { when = \"step_count > 99\", to = \"info\", reason = \"Never.\" }]\n\
    title = \"t\"\nmessage = \"m\"\nadvice = [\"a\"]\nwhy = \"w\"\n\
    [fix.y]\ntitle = \"Try y\"\nedits = [{ host_time = [\"gap\"], left = [0.0, 0.5] }]\n";

/// The report of [`LIMITED`] under what its fix saves alone; `None` if it claims nothing.
fn limited(alone_pct: Option<f64>) -> Report {
    let rules = with_default(&[source("x.toml", LIMITED)]);
    let mut report = evaluate(&rules, &[rows("step_phases", &[phases(0, 0.3, 0.3)])], &run(), &[]);
    report.findings.retain(|finding| finding.code == "XX001");
    assert_eq!(report.findings[0].severity, Severity::High);
    let fixes = alone_pct.map(|pct| effect("y", pct, pct.max(0.0), pct > 0.0));
    report.attach(&rules, &[], Some(&retiming(fixes.into_iter().collect())));
    report
}

#[test]
fn severity_is_limited_where_no_fix_is_predicted_to_save_time() {
    for (alone_pct, severity, message, headline) in [
        (Some(10.0), Severity::High, "m", "start with XX001 x."),
        (
            None,
            Severity::Low,
            "m Not here.",
            "1 finding, without a predicted saving: try what XX001 x advises and measure (`advisor diff`).",
        ),
        (
            Some(-10.0),
            Severity::Low,
            "m Not here.",
            "1 finding, without a predicted saving: the fix of XX001 x takes longer here.",
        ),
    ] {
        let report = limited(alone_pct);
        let finding = &report.findings[0];
        assert_eq!((finding.severity, finding.message.as_str()), (severity, message));
        assert_eq!(finding.affected.worst[0].severity, severity);
        assert!(report.headline.text.ends_with(headline), "{}", report.headline.text);
        assert_eq!(report.headline.first.as_deref(), Some("XX001"));
        assert_eq!(report.headline.text.contains("start with"), alone_pct > Some(0.0));
    }
}

#[test]
fn cause_that_takes_most_of_the_time_comes_first_without_a_prediction() {
    let other = "[rule.other]\ncode = \"XX002\"\ncategory = \"x\"\nmetric = \"step_phases.dataloader_ratio\"\nlow = \"> 10 %\"\nfixes = [\"z\"]\n\
        title = \"t\"\nmessage = \"m\"\nadvice = [\"a\"]\nwhy = \"w\"\n\
        [fix.z]\ntitle = \"Try z\"\nedits = [{ host_time = [\"gap\"], left = [0.0, 0.5] }]\n";
    let rules = with_default(&[source("x.toml", LIMITED), source("other.toml", other)]);
    let ordered = |share: f64| {
        let tables = [rows("step_phases", &[phases(0, 0.3, share)])];
        let mut report = evaluate(&rules, &tables, &run(), &[]);
        report.findings.retain(|finding| finding.code.starts_with("XX"));
        report.attach(&rules, &[], Some(&retiming(vec![effect("z", 10.0, 10.0, true)])));
        let codes: Vec<String> = report.findings.iter().map(|f| f.code.clone()).collect();
        (codes.join(" "), report.headline.first.unwrap())
    };
    assert_eq!(ordered(0.3), ("XX001 XX002".to_owned(), "XX001".to_owned()));
    assert_eq!(ordered(0.02), ("XX002 XX001".to_owned(), "XX002".to_owned()));
}

#[test]
fn gain_in_other_steps_is_no_larger_than_the_measured_share() {
    let rules = with_default(&[source("x.toml", LIMITED)]);
    let high = |saved_pct: f64| {
        let mut report =
            evaluate(&rules, &[rows("step_phases", &[phases(0, 0.3, 0.3)])], &run(), &[]);
        report.findings.retain(|finding| finding.code == "XX001");
        let fixes = vec![effect("y", saved_pct, saved_pct, true)];
        report.attach(&rules, &[], Some(&retiming(fixes)));
        report.findings[0].gain.high_pct
    };
    assert_eq!(high(20.0), Some(24.0));
    assert_eq!(high(27.0), Some(30.0));
    // The fix takes other time with it.
    assert_eq!(high(40.0), Some(48.0));
}

#[test]
fn headline_names_harm_that_is_not_time_before_what_to_start_with() {
    let rules = with_default(&[source(
        "x.toml",
        &LIMITED.replace("fix.y", "fix.z").replace("[\"y\"]", "[\"z\"]"),
    )]);
    let harm = "[rule.harm]\ncode = \"XX002\"\ncategory = \"memory\"\nmetric = \"step_phases.dataloader_ratio\"\nhigh = \"> 10 %\"\n\
        gain = { method = \"none\" }\nfixed_priority_pct = 90.0\ntitle = \"t\"\nmessage = \"m\"\nadvice = [\"a\"]\nwhy = \"w\"\n";
    let with_harm = with_default(&[source("x.toml", LIMITED), source("harm.toml", harm)]);
    let mut report =
        evaluate(&with_harm, &[rows("step_phases", &[phases(0, 0.3, 0.3)])], &run(), &[]);
    report.findings.retain(|finding| finding.code.starts_with("XX"));
    let mut alone = report.clone();
    report.attach(&with_harm, &[], Some(&retiming(vec![effect("y", 10.0, 10.0, true)])));
    assert_eq!(codes(&report), ["XX002", "XX001"]);
    let text = &report.headline.text;
    assert!(text.ends_with("look at XX002 harm, then start with XX001 x."), "{text}");
    // For a finding about memory, the advice is to compare peaks.
    alone.findings.retain(|finding| finding.code == "XX002");
    alone.attach(&rules, &[], None);
    let text = &alone.headline.text;
    let expected = "try what XX002 harm advises and compare the peaks (`advisor diff`).";
    assert!(text.ends_with(expected), "{text}");
}

/// A fix with an unknown saving has no number anywhere, and names the missing fact.
#[test]
fn unknown_effect_is_a_reason_and_no_number() {
    let rules = with_default(&[]);
    let mut report = evaluate(&rules, &tables(), &run(), &[]);
    let reason = "replayed kernels have no shapes".to_owned();
    let unknown = FixEffect {
        name: "cuda-graph".to_owned(),
        unknown: Some(UnknownEffect { reason: reason.clone(), time_pct: 97.4 }),
        ..FixEffect::default()
    };
    let fixes = vec![effect("loader-workers", 2.0, 2.0, true), unknown];
    report.attach(&rules, &[], Some(&retiming(fixes)));
    let finding = report.findings.iter().find(|f| f.code == "HB001").unwrap();
    assert_eq!((finding.gain.low_pct, finding.gain.high_pct), (None, None));
    assert_eq!((finding.gain.next_high_pct, finding.gain.ms_per_step), (None, None));
    assert_eq!(finding.gain.unknown, Some(reason.clone()));
    let json = serde_json::to_value(finding).unwrap();
    assert_eq!(json["gain"]["high_pct"], serde_json::Value::Null);
    assert_eq!(json["gain"]["unknown"], reason.as_str());
    assert_eq!(json["unknown_fixes"][0]["fix"], "cuda-graph");
    assert_eq!(json.get("fixes"), None);
    // A finding about nearly all of the time is ahead of a finding that surely saves little.
    assert_eq!(codes(&report)[..2], ["HB001", "IN001"]);
    let plan = report.plan.as_ref().unwrap();
    assert_eq!(plan.fixes.len(), 1);
}

#[test]
fn finding_shows_the_worst_rank_and_counts_the_others() {
    let slow: Vec<_> = (0..12).map(|rank| utilization(rank, 0.6 - rank as f64 / 100.0)).collect();
    let report = evaluate(&with_default(&[]), &[rows("gpu_utilization", &slow)], &run(), &[]);
    let finding = report.findings.iter().find(|f| f.code == "GU001").unwrap();
    assert_eq!(finding.severity, Severity::Critical);
    assert_eq!(finding.affected.worst[0].label, "rank 11, device 11");
    assert_eq!((finding.affected.fired, finding.affected.more), (12, 2));
    assert_eq!(finding.affected.ranks, (0..12).collect::<Vec<i64>>());
    assert_eq!(finding.evidence.len(), crate::MAX_EVIDENCE);
}

#[test]
fn trace_note_lowers_confidence_on_its_ranks() {
    let report = evaluate(&with_default(&[]), &tables(), &run(), &[]);
    let confidence = |code: &str| {
        report.findings.iter().find(|f| f.code == code).map(|f| (f.confidence, f.caveats.len()))
    };
    assert_eq!(confidence("HB001"), Some((Confidence::Medium, 1)));
    assert_eq!(confidence("IN001"), Some((Confidence::High, 0)), "TQ004 does not weaken it");

    let mut other_rank = tables();
    other_rank[3].rows[0][0] = Value::Int(0);
    let report = evaluate(&with_default(&[]), &other_rank, &run(), &[]);
    let launch = report.findings.iter().find(|f| f.code == "HB001").unwrap();
    assert_eq!(launch.confidence, Confidence::High, "the note is about rank 0");
}

#[test]
fn finding_that_costs_next_to_nothing_is_an_info() {
    let rule = "[rule.x]\ncode = \"XX001\"\ncategory = \"x\"\nmetric = \"step_phases.dataloader_ratio\"\nhigh = \"> 10 %\"\n\
                gain = { of = \"dataloader_idle_ratio\", low = 0.5, high = 1.0, method = \"measured\" }\n\
                title = \"t\"\nmessage = \"m\"\nadvice = [\"a\"]\nwhy = \"w\"\n";
    for (idle, severity) in [(0.0009, Severity::Info), (0.001, Severity::High)] {
        let tables = [rows("step_phases", &[phases(0, 0.5, idle)])];
        let report = evaluate(&with_default(&[source("x.toml", rule)]), &tables, &run(), &[]);
        let finding = report.findings.iter().find(|f| f.code == "XX001").unwrap();
        assert_eq!(finding.severity, severity);
    }
}

/// TQ009 on a rank where one of 8,066 kernels starts 227 ns before the one ahead of it has ended, and where many do.
#[test]
fn innocent_note_does_not_lower_confidence() {
    for (ratio, count, expected) in
        [(1e-7, 1, (Confidence::High, 0)), (0.02, 300, (Confidence::Medium, 1))]
    {
        let timing = vec![
            ("rank", Value::Int(0)),
            ("impossible_ratio", Value::Float(ratio)),
            ("early_count", Value::Int(0)),
            ("work_count", Value::Int(8_066)),
            ("overlap_count", Value::Int(count)),
            ("overlap_ns", Value::Int(227)),
            ("overlap_ratio", Value::Float(ratio)),
            ("erratic_count", Value::Int(0)),
        ];
        let tables = [
            rows("gpu_utilization", &[utilization(0, 0.5)]),
            rows("gpu_idle_causes", &[causes(0, 0.5, 0.4, 0.0)]),
            rows("trace_timing", &[timing]),
        ];
        let report = evaluate(&with_default(&[]), &tables, &run(), &[]);
        assert!(codes(&report).contains(&"TQ009"), "{:?}", codes(&report));
        let launch = report.findings.iter().find(|f| f.code == "HB001").unwrap();
        assert_eq!((launch.confidence, launch.caveats.len()), expected);
    }
}

#[test]
fn worst_excludes_notes_and_infos() {
    let quality = [vec![("rank", Value::Int(0)), ("found_step_count", Value::Int(0))]];
    let tables =
        [rows("gpu_utilization", &[utilization(0, 0.95)]), rows("trace_quality", &quality)];
    let report = evaluate(&with_default(&[]), &tables, &run(), &[]);
    assert_eq!(codes(&report), ["TQ001"]);
    assert_eq!(report.worst(), None);
    assert_eq!(report.headline.findings, 0);
}

#[test]
fn gain_without_value_does_not_lower_severity() {
    let mut row = phases(0, 0.3, 0.0);
    row.retain(|(column, _)| *column != "dataloader_idle_ratio");
    let report = evaluate(&with_default(&[]), &[rows("step_phases", &[row])], &run(), &[]);
    let finding = report.findings.iter().find(|f| f.code == "IN001").unwrap();
    assert_eq!((finding.severity, finding.gain.high_pct), (Severity::High, None));
}

#[test]
fn missing_data_is_unknown() {
    let rules = with_default(&[]);
    let report = evaluate(&rules, &[], &RunInfo::default(), &[]);
    assert_eq!(report.unknown.len(), rules.run_rules().count());
    assert!(report.passed.is_empty() && report.findings.is_empty());

    let empty: Vec<MetricTable> = rules.views().iter().map(|v| view(v, &[])).collect();
    let report = evaluate(&rules, &empty, &RunInfo::default(), &[]);
    assert_eq!(report.unknown.len(), rules.run_rules().count());
    assert_eq!(report.unknown[0].reason, "the trace has nothing for kernel_families");
}

#[test]
fn rank_without_data_makes_a_rule_unknown() {
    let mut unknown = utilization(1, 0.95);
    unknown[2].1 = Value::Int(0);
    let tables = [rows("gpu_utilization", &[utilization(0, 0.95), unknown])];
    let report = evaluate(&with_default(&[]), &tables, &run(), &[]);
    let reason = report.unknown.iter().find(|u| u.code == "GU001").map(|u| u.reason.as_str());
    assert_eq!(reason, Some("the trace has no GPU activity (1 of 2 devices)"));
}

#[test]
fn ignore_entries_expire_and_are_reported_when_unused() {
    let own = source(
        "own.toml",
        "[ignore.dataloader-wait]\nreason = 'ticket 1'\nuntil = '2027-01-01'\n\
         [ignore.SY001]\nreason = 'ticket 2'\n",
    );
    let rules = with_default(&[own]);
    let at = |day: &str| {
        let rules = rules.clone().with_date(Date::parse(day).unwrap());
        evaluate(&rules, &tables(), &run(), &[])
    };
    let before = at("2027-01-01");
    assert_eq!(before.ignored.len(), 1);
    assert_eq!(
        (before.ignored[0].code.as_str(), before.ignored[0].at.as_str()),
        ("IN001", "own.toml:1")
    );
    assert!(!codes(&before).contains(&"IN001"));
    let warnings =
        |report: &Report| report.warnings.iter().map(|w| w.code.clone()).collect::<Vec<_>>();
    assert_eq!(warnings(&before), ["ignore-unused"]);

    let after = at("2027-01-02");
    assert!(after.ignored.is_empty());
    assert_eq!(codes(&after)[0], "IN001");
    assert_eq!(warnings(&after), ["ignore-expired", "ignore-unused"]);
}

#[test]
fn fingerprint_depends_on_rule_and_rows_only() {
    let base = evaluate(&with_default(&[]), &tables(), &run(), &[]);
    let mut other = tables();
    other[0] = rows("gpu_utilization", &[utilization(0, 0.95), utilization(1, 0.50)]);
    let values = evaluate(&with_default(&[]), &other, &run(), &[]);
    let fingerprint = |report: &Report| {
        report.findings.iter().find(|f| f.code == "GU001").unwrap().fingerprint.clone()
    };
    assert_eq!(fingerprint(&base), fingerprint(&values));
    other[0] = rows("gpu_utilization", &[utilization(0, 0.5), utilization(1, 0.50)]);
    assert_ne!(fingerprint(&base), fingerprint(&evaluate(&with_default(&[]), &other, &run(), &[])));
}

#[test]
fn headline_gain_is_between_0_and_100() {
    let rules = with_default(&[]);
    // xorshift64: the same runs every time.
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut share = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut highest = 0.0_f64;
    for _ in 0..300 {
        let mut tables = Vec::new();
        for name in rules.views() {
            let mut table = view(name, &[&[], &[]]);
            for row in &mut table.rows {
                for ((column, unit), value) in table.columns.iter().zip(row) {
                    *value = match unit {
                        _ if column == "graph_launch_count" => Value::Int(0),
                        _ if column.ends_with("_name") => Value::Text("cudaMemcpyAsync".into()),
                        trace_model::Unit::Ratio => Value::Float(share()),
                        trace_model::Unit::Ns => Value::Int((share() * 1e9) as i64),
                        _ if column == "has_device" => Value::Bool(share() > 0.2),
                        _ => Value::Int(1 + (share() * 20.0) as i64),
                    };
                }
            }
            tables.push(table);
        }
        let report = evaluate(&rules, &tables, &run(), &[]);
        let headline = &report.headline;
        assert_eq!(headline.gain_high_pct, None, "nothing was timed again");
        for finding in &report.findings {
            let gain = &finding.gain;
            let (low, high) = (gain.low_pct.unwrap_or(0.0), gain.high_pct.unwrap_or(0.0));
            assert!(0.0 <= low && low <= high && high <= 100.0, "{}", finding.code);
            highest = highest.max(high);
            assert!(!finding.message.contains(['{', '[']), "{}", finding.message);
        }
        let positions: Vec<usize> = report.findings.iter().map(|f| f.position).collect();
        assert_eq!(positions, (1..=report.findings.len()).collect::<Vec<_>>());
    }
    assert!(highest > 99.0, "the bound was never near: {highest}");
}

#[test]
fn source_lists_the_lines_with_most_of_the_metric() {
    let rules = with_default(&[]);
    let first = evaluate(&rules, &tables(), &run(), &[]);
    assert_eq!(first.follow_ups(&rules).source_views, ["idle_source_lines", "source_lines"]);
    let loader =
        |report: &Report| report.findings.iter().find(|f| f.code == "IN001").unwrap().clone();
    assert_eq!(loader(&first).source, Vec::<String>::new());

    let line = |rank: i64, source: &str, ns: i64| {
        vec![
            ("rank", Value::Int(rank)),
            ("source", Value::Text(source.to_owned())),
            ("data_loading_ns", Value::Int(ns)),
        ]
    };
    let mut tables = tables();
    tables.push(rows(
        "source_lines",
        &[
            // The loader of rank 1 fires; what rank 0 waits for does not matter.
            line(0, "other.py:1", 1_000_000),
            line(1, "train.py:7", 300),
            line(1, "train.py:9", 600),
            line(1, "valid.py:3", 60),
            line(1, "train.py:12", 0),
            line(1, "rare.py:1", 40),
        ],
    ));
    let mut report = evaluate(&rules, &tables, &run(), &[]);
    report.attach(&rules, &tables, None);
    let found = loader(&report);
    assert_eq!(found.source, ["train.py:9", "train.py:7", "valid.py:3"]);
}

#[test]
fn attach_without_answers_changes_nothing() {
    let rules = with_default(&[]);
    let first = evaluate(&rules, &tables(), &run(), &[]);
    let mut again = first.clone();
    again.attach(&rules, &tables(), None);
    assert_eq!(again, first);
}

/// A table that could not be computed changes only the verdicts of the rules that read it.
#[test]
fn failed_table_leaves_only_its_rules_unknown() {
    let rules = with_default(&[]);
    let view = "gpu_utilization";
    let whole = evaluate(&rules, &tables(), &run(), &[]);
    let rest: Vec<MetricTable> = tables().into_iter().filter(|t| t.view != view).collect();
    let reason = format!("the view `{view}` failed: too large");
    let failed = [FailedTable { view: view.to_owned(), reason: reason.clone() }];
    let partly = evaluate_without(&rules, &rest, &failed, &run(), &[]);
    let of_view = |code: &str| rules.rules().iter().any(|r| r.code == code && r.table() == view);
    let unknown: Vec<_> = partly.unknown.iter().filter(|rule| rule.reason == reason).collect();
    assert!(!unknown.is_empty() && unknown.iter().all(|rule| of_view(&rule.code)));
    assert!(whole.findings.iter().any(|finding| of_view(&finding.code)), "a rule fires on it");
    let codes = |report: &Report| -> Vec<String> {
        let fired = report.findings.iter().map(|f| format!("{} {}", f.code, f.title));
        let passed = report.passed.iter().map(|code| format!("{code} passed"));
        let mut all: Vec<String> = fired.chain(passed).filter(|t| !of_view(&t[..5])).collect();
        all.sort();
        all
    };
    assert_eq!(codes(&partly), codes(&whole));
    let warning = partly.warnings.iter().find(|w| w.code == "view-failed").unwrap();
    assert!(warning.message.starts_with(&reason), "{}", warning.message);
    assert!(warning.message.ends_with("no verdict"), "{}", warning.message);
}
