//! Programs that run a model in training or evaluation mode, and that clear gradients or do not, recorded on a CPU
//! (`tests/fixtures/modes`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use trace_advisor::{Run, default_rules};

/// Rules about what a program does wrong, by name.
const RULES: [(&str, &str); 2] =
    [("inference-in-training-mode", "OP018"), ("gradients-never-cleared", "OP017")];

#[derive(Deserialize)]
struct Modes {
    /// The rule that has to fire, by program.
    rules: BTreeMap<String, Option<String>>,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/modes").join(name)
}

#[test]
fn wrong_modes_are_found_and_those_that_are_meant_are_not() {
    let modes: Modes =
        serde_json::from_slice(&std::fs::read(fixture("modes.json")).unwrap()).unwrap();
    assert!(modes.rules.len() >= 19);
    for (program, rule) in modes.rules {
        let run = Run::open(fixture(&format!("{program}.json.gz"))).unwrap();
        let report = run.check(&default_rules()).unwrap();
        let found: Vec<&str> = RULES
            .iter()
            .filter(|(_, code)| report.findings.iter().any(|finding| finding.code == *code))
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(found, Vec::from_iter(rule.as_deref()), "{program}");
        if let Some(rule) = rule {
            assert_eq!(report.findings[0].name, rule, "{program}: wrong results go first");
        }
    }
}

#[test]
fn what_may_be_meant_is_said() {
    let finding = |program: &str| {
        let run = Run::open(fixture(&format!("{program}.json.gz"))).unwrap();
        let mut findings = run.check(&default_rules()).unwrap().findings.into_iter();
        findings.find(|finding| finding.code == "OP018").unwrap()
    };
    let both = finding("training_mode");
    assert!(both.message.contains("6 of 6 calls of batch norm"), "{}", both.message);
    assert!(both.message.contains("3 of 3 calls of dropout"), "{}", both.message);
    assert!(!both.message.contains("alternative"), "{}", both.message);
    for (program, expected) in [
        ("training_mode_batch_norm", "calibrated again"),
        ("training_mode_dropout", "Monte Carlo dropout"),
    ] {
        let message = finding(program).message;
        assert!(message.contains(expected), "{program}: {message}");
    }
}
