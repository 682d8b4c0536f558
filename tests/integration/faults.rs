//! A job on many machines with a slow rank, a slow link and a rank that calls another collective: generated, so what each
//! costs is known.

use trace_advisor::{Report, Run};

use crate::support::preview::rules_with_preview;
use trace_demo::{Bottleneck, Fault, Options, write_run};

use crate::support::rows::text_rows as rows;

const RANKS: u32 = 64;

fn generated(faults: &[Fault]) -> (Run, Report) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        bottleneck: Bottleneck::Faults,
        ranks: RANKS,
        faults: faults.to_vec(),
        ..Options::default()
    };
    write_run(&options, folder.path()).unwrap();
    let run = Run::open(folder.path()).unwrap();
    let report = run.check(&rules_with_preview()).unwrap();
    (run, report)
}

/// Titles of the findings about one of the faults.
fn fault_titles(report: &Report) -> Vec<&str> {
    let codes = ["CM003", "CM018", "CM015"];
    let about_faults = codes.iter().filter_map(|code| {
        let finding = report.findings.iter().find(|finding| finding.code == *code)?;
        Some(finding.title.as_str())
    });
    about_faults.collect()
}

fn step_ms(report: &Report) -> f64 {
    report.plan.as_ref().unwrap().recorded_ms
}

#[test]
fn planted_faults_come_first_and_name_ranks() {
    let (run, report) = generated(&Fault::ALL);
    assert_eq!(
        fault_titles(&report),
        [
            "Rank 63 keeps the others waiting",
            "Ranks 32 to 47 exchange data 2.5 times as slowly as similar groups",
            "Rank 21 calls other collectives than its group",
        ]
    );
    assert_eq!(report.headline.first.as_deref(), Some("CM003"));
    // Six steps with four layers, a `reduce_scatter` each, and an `all_gather`.
    let query =
        "SELECT rank, highest_rank, call_count, transfer_ns / 1000, peer_transfer_ns / 1000, slow_group_count
        FROM comm_group_speeds WHERE slowdown > 1.1 OR rank = 0 AND group_description = 'mesh_shard' ORDER BY rank";
    assert_eq!(rows(&run, query), ["0 15 30 45000 45000 1", "32 47 30 112500 45000 1"]);
    // The others wait for rank 63 in groups that it does not belong to.
    let query = "SELECT count(DISTINCT group_name) FROM comm_arrivals WHERE cause_rank = 63 AND waited_ns > 1000000";
    assert_eq!(rows(&run, query), ["17"]);
    let query = "SELECT divergent_name, usual_name, divergent_count FROM comm_balance WHERE divergent_count > 0";
    assert_eq!(rows(&run, query), ["reduce_scatter all_gather 6"]);
}

#[test]
fn without_faults_nothing_of_them_is_found() {
    assert_eq!(fault_titles(&generated(&[]).1), [""; 0]);
}

/// The run with a fault against the one without it.
#[test]
fn gains_are_those_of_a_run_without_the_fault() {
    let healthy = step_ms(&generated(&[]).1);
    for (fault, code) in
        [(Fault::SlowRank, "healthy-straggler"), (Fault::SlowLink, "healthy-group")]
    {
        let (_, report) = generated(&[fault]);
        let saved_pct = 100.0 * (1.0 - healthy / step_ms(&report));
        assert!(saved_pct > 5.0, "{code}: {saved_pct}");
        let plan = report.plan.as_ref().unwrap();
        let fix = plan.fixes.iter().find(|planned| planned.fix == code).unwrap();
        assert_eq!(fix.position, 1, "{code}");
        let predicted = &fix.saves_pct;
        println!(
            "{code}: saves {saved_pct:.1} %, predicted {} to {} %",
            predicted.low, predicted.high
        );
        assert!(
            predicted.low <= saved_pct && saved_pct <= predicted.high,
            "{code}: {saved_pct} % of a step, predicted {predicted:?}"
        );
    }
}
