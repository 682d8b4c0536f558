//! Stragglers in recorded runs of several ranks: named with their cause, or not at all.

use crate::harness::Case;
use crate::runs;
use crate::support::rows::lines;

/// One test per run.
pub(crate) fn cases() -> Vec<Case> {
    let (straggler, chance) = ("generated/ddp_gloo_4rank_straggler", "generated/ddp_gloo_2rank");
    vec![
        Case::of_trace(straggler, "sleeping_rank_is_named", move || {
            sleeping_rank_is_named(straggler);
        }),
        Case::of_trace(chance, "late_by_chance_is_not_a_finding", move || {
            let report = runs::report(&runs::traces().join(chance));
            let report = report.as_ref().as_ref().unwrap();
            assert!(report.findings.iter().all(|f| f.code != "CM003"));
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
