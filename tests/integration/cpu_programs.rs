//! Programs on the CPU, and ranks with GPUs that communicate on it: recorded ones (`tests/fixtures/cpu`) with a description of
//! the processor as `advisor record` writes it, and a generated one.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use flate2::read::GzDecoder;
use trace_advisor::advisor::{Finding, Severity};
use trace_advisor::{Report, Run, default_rules};

/// The report on a recorded program, with an entry about the processor; without one if it is empty.
fn report(name: &str, processor: &str) -> Report {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/cpu");
    let file = std::fs::File::open(fixtures.join(name)).unwrap();
    let mut text = String::new();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    if !processor.is_empty() {
        text = text.replacen('{', &format!(r#"{{"processorProperties": {processor},"#), 1);
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("rank0.pt.trace.json");
    std::fs::write(&trace, text).unwrap();
    Run::open(&trace).unwrap().check(&default_rules()).unwrap()
}

fn finding<'r>(report: &'r Report, code: &str) -> &'r Finding {
    report.findings.iter().find(|f| f.code == code).unwrap_or_else(|| panic!("{code}"))
}

#[test]
fn workers_without_known_cores_are_not_advice_to_start_with() {
    let most = Severity::Medium;
    for (name, severity, message) in [
        ("fed_work.json.gz", Severity::Low, "may cost more than it saves"),
        // The loader takes more than two thirds of a step.
        ("fed_storage.json.gz", most, "How many workers help is up to the number of cores"),
    ] {
        let report = report(name, "");
        let loading = finding(&report, "IN001");
        assert_eq!(loading.severity, severity, "{name}");
        assert!(loading.message.contains(message), "{}", loading.message);
        assert_eq!(loading.gain.high_pct, None);
        let text = &report.headline.text;
        assert!(!text.contains("start with IN"), "{text}");
        assert!(
            text.contains("without a predicted saving: try") && text.contains("measure"),
            "{text}"
        );
    }
}

#[test]
fn workers_are_timed_again_with_the_cores_that_are_left() {
    // Recorded with one thread on two cores: the worker gets the other one. 4.22 ms became 3.69 ms: 12.5 %.
    let idle_core = report("fed_work.json.gz", r#"{"cores": 2, "threads": 1, "flags": []}"#);
    let loading = finding(&idle_core, "IN001");
    assert_eq!(loading.severity, Severity::High);
    let fix = &loading.fixes[0];
    assert_eq!(fix.fix, "cpu-loader-worker");
    assert!(
        fix.title.contains("num_workers=1") && fix.title.contains("torch.set_num_threads(1)"),
        "{}",
        fix.title
    );
    let (low, high) = (loading.gain.low_pct.unwrap(), loading.gain.high_pct.unwrap());
    assert!(low <= 12.5 && 12.5 <= high, "{low} to {high}");
    assert!(idle_core.headline.text.contains("start with IN001"), "{}", idle_core.headline.text);

    // Where operators used both cores, they lose one of them.
    let shared = report("fed_work.json.gz", r#"{"cores": 2, "threads": 2, "flags": []}"#);
    let shared_high = finding(&shared, "IN001").gain.high_pct.unwrap_or(0.0);
    assert!(shared_high <= high, "{shared_high} of {high}");

    // One core only.
    let single = report("fed_work.json.gz", r#"{"cores": 1, "threads": 1, "flags": []}"#);
    let loading = finding(&single, "IN001");
    assert_eq!((loading.severity, loading.gain.high_pct), (Severity::Low, None));
    assert!(loading.message.contains("loader and model share 1 core"), "{}", loading.message);
}

#[test]
fn a_loader_that_takes_most_of_a_step_gets_all_cores() {
    // Measured with four workers: 19.88 ms became 4.18 ms, 79 %.
    let report = report("fed_storage.json.gz", r#"{"cores": 2, "threads": 1, "flags": []}"#);
    let loading = finding(&report, "IN001");
    let fix = &loading.fixes[0];
    assert_eq!(fix.fix, "cpu-loader-workers");
    assert!(fix.title.contains("num_workers=2 and torch.set_num_threads(1)"), "{}", fix.title);
    let (low, high) = (loading.gain.low_pct.unwrap(), loading.gain.high_pct.unwrap());
    assert!(20.0 < low && high < 79.0, "{low} to {high}");
    assert!(loading.advice[0].contains("num_workers=2"), "{}", loading.advice[0]);
}

#[test]
fn load_of_other_processes_comes_before_what_they_delay() {
    // Recorded beside one busy process on two cores: 75.2 ms; alone, 22.0 ms.
    let report = report("trained_beside.json.gz", "");
    assert_eq!(report.findings[0].code, "OP019");
    assert_eq!(report.findings[0].severity, Severity::High);
    let of_chains = report.unknown.iter().find(|rule| rule.code == "OP012").unwrap();
    assert!(of_chains.reason.contains("OP019"), "{}", of_chains.reason);
    assert!(report.findings[0].gain.low_pct.unwrap() > 25.0);
}

#[test]
fn programs_of_other_packages_get_advice_that_helps() {
    // The measured effects are in docs/evidence/measured-gains.md.
    for (program, code, advice) in [
        ("ppo", "OP020", "n_envs"),
        ("lightning_lstm", "IN001", "Leave the loader on the training thread"),
        ("graphs", "IN001", "Leave the loader on the training thread"),
        ("bert", "PR008", "bfloat16"),
        ("vit", "PR008", "bfloat16"),
        ("unet", "PR008", "bfloat16"),
    ] {
        let report = report(&format!("packages/{program}.json.gz"), "");
        let first = &report.findings[0];
        assert_eq!(first.code, code, "{program}");
        assert!(first.advice[0].contains(advice), "{program}: {}", first.advice[0]);
    }
    let bert = report("packages/bert.json.gz", "");
    assert!(finding(&bert, "OP022").advice[0].contains("attention_probs_dropout_prob"));
    let mobilenet = report("packages/mobilenet.json.gz", "");
    let channels = finding(&mobilenet, "OP021");
    assert!(channels.gain.high_pct.unwrap() > 20.0 && channels.severity == Severity::Low);
}

#[test]
fn sixteen_bits_are_advised_on_processors_that_multiply_them() {
    let with = |flags: &str| {
        report("trained.json.gz", &format!(r#"{{"cores": 2, "threads": 1, "flags": [{flags}]}}"#))
    };
    let fast = with(r#""avx512f", "avx512_bf16""#);
    let products = finding(&fast, "PR008");
    assert!(products.gain.high_pct.unwrap() > 1.0);
    let (share, high) = (products.value * 100.0, products.gain.high_pct.unwrap());
    assert!(high < 1.3 * share, "{high} % of {share} %");
    assert!(with(r#""avx512f""#).passed.contains(&"PR008".to_owned()));
    // Not recorded: unknown, with what records it.
    let unknown = report("trained.json.gz", "");
    let rule = unknown.unknown.iter().find(|rule| rule.code == "PR008").unwrap();
    assert!(rule.reason.contains("was not recorded: `advisor record`"), "{}", rule.reason);
}

/// Two ranks whose GPUs compute for 550 of 1,000 us, after which gloo reduces their results for 380 us on another thread.
fn write_gloo_ranks(folder: &Path) {
    for rank in 0..2 {
        let mut events = String::new();
        for step in 0..4 {
            let id = step + 1;
            let us = |offset: i64| 1_000_000 + 1_000 * step + offset;
            write!(
                events,
                r#"
{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{step}","pid":1,"tid":1,"ts":{},"dur":1000,"args":{{}}}},
{{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":{},"dur":500,"args":{{"External id":{id}}}}},
{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{},"dur":10,"args":{{"correlation":{id}}}}},
{{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":{},"dur":550,"args":{{"device":0,"stream":7,"correlation":{id}}}}},
{{"ph":"X","cat":"user_annotation","name":"gloo:all_reduce","pid":1,"tid":2,"ts":{},"dur":380,"args":{{}}}},"#,
                us(0),
                us(10),
                us(20),
                us(40),
                us(600),
            )
            .unwrap();
        }
        let events = events.trim_end_matches(',');
        let info = format!(r#"{{"backend":"gloo","rank":{rank},"world_size":2}}"#);
        let text = format!(r#"{{"distributedInfo":{info},"traceEvents":[{events}]}}"#);
        std::fs::write(folder.join(format!("rank{rank}.pt.trace.json")), text).unwrap();
    }
}

#[test]
fn gloo_between_gpus_comes_before_launches() {
    let folder = tempfile::tempdir().unwrap();
    write_gloo_ranks(folder.path());
    let report = Run::open(folder.path()).unwrap().check(&default_rules()).unwrap();
    assert_eq!(report.headline.first.as_deref(), Some("CM007"), "{}", report.headline.text);
    assert_eq!(report.findings[0].code, "CM007");
    let gloo = &report.findings[0].gain;
    // gloo takes 38 % of a step.
    assert!(gloo.high_pct.unwrap() <= 40.0 && gloo.low_pct.unwrap() > 0.0, "{gloo:?}");
    // A graph launches sooner; gloo still waits for the kernel, and takes as long.
    if let Some(launches) = report.findings.iter().find(|f| f.code == "HB001") {
        assert!(launches.gain.high_pct.unwrap_or(0.0) < 12.0, "{:?}", launches.gain);
    }
}
