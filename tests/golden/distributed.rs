//! Stragglers in recorded runs of several ranks: named with their cause.

use advisor::Confidence;

use crate::harness::Case;
use crate::runs;
use crate::support::rows::lines;

/// One test per run.
pub(crate) fn cases() -> Vec<Case> {
    let (straggler, slow) = ("generated/ddp_gloo_4rank_straggler", "generated/ddp_gloo_2rank");
    vec![
        Case::of_trace(straggler, "sleeping_rank_is_named", move || {
            sleeping_rank_is_named(straggler);
        }),
        Case::of_trace(slow, "rank_with_slow_operators_is_named", move || {
            let report = runs::report(&runs::traces().join(slow));
            let report = report.as_ref().as_ref().unwrap();
            let finding = report.findings.iter().find(|f| f.code == "CM003").unwrap();
            // The rank is last in 4 of 4 steps, which 1 in 8 pairs of equal ranks is by chance.
            assert!(finding.confidence < Confidence::High, "{:?}", finding.confidence);
            assert_eq!(finding.affected.ranks, [1]);
            let cause = "calls the same operators as often and on the same shapes";
            assert!(finding.message.contains(cause), "{}", finding.message);
        }),
    ]
}

fn sleeping_rank_is_named(trace: &str) {
    let report = runs::report(&runs::traces().join(trace));
    let report = report.as_ref().as_ref().unwrap();
    let finding = report.findings.iter().find(|f| f.code == "CM003").unwrap();
    assert_eq!(finding.affected.ranks, [3]);
    assert!(finding.message.contains("in the DataLoader"), "{}", finding.message);
    // It is last at the broadcasts only: what follows is late because of them.
    let query =
        "SELECT last_ratio < 0.9, cause_ratio, delay_phase FROM comm_stragglers WHERE rank = 3";
    assert_eq!(lines(&runs::open(trace).run.sql(query).unwrap()), ["true 1.0 dataloader"]);
}
