//! Parallel training, as recorded (`tests/fixtures/fsdp`).

use std::path::Path;

use trace_advisor::{Report, Run};

use crate::support::preview::rules_with_preview;
use trace_demo::{Bottleneck, Options, write_run};

use crate::support::rows::text_rows as rows;

#[test]
fn recorded_fsdp_names_the_layers_whose_gathers_nothing_hides() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/fsdp");
    let run = Run::open(folder).unwrap();
    // Two steps: each layer is gathered in forward and in backward and reduced once; the root is gathered once.
    let query =
        "SELECT module, pass, name, sum(call_count) / 2 AS calls FROM fsdp_layers WHERE rank = 1
        GROUP BY module, pass, name ORDER BY module, pass, name";
    let expected: Vec<String> = ["(root)", "layers.0", "layers.1", "layers.2"]
        .iter()
        .flat_map(|module| {
            let gathered_again = *module != "(root)";
            let of = move |pass: &str, name: &str| format!("{module} {pass} {name} 1");
            let backward = gathered_again.then(|| of("backward", "all_gather"));
            backward.into_iter().chain([of("backward", "all_reduce"), of("forward", "all_gather")])
        })
        .collect();
    assert_eq!(rows(&run, query), expected);
    let report = run.check(&rules_with_preview()).unwrap();
    let finding = report.findings.iter().find(|finding| finding.code == "CM016").unwrap();
    assert!(finding.message.contains("14 all-gathers of 4 modules"), "{}", finding.message);
}

/// A generated run, and its report.
fn generated(bottleneck: Bottleneck, ranks: u32) -> (Run, Report) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { bottleneck, ranks, ..Options::default() };
    write_run(&options, folder.path()).unwrap();
    let run = Run::open(folder.path()).unwrap();
    let report = run.check(&rules_with_preview()).unwrap();
    (run, report)
}

/// Four layers, gathered for 1.5 ms each in forward and in backward; the first gather of each pass cannot overlap.
#[test]
fn gathers_without_prefetch_cost_what_was_planted() {
    let (run, report) = generated(Bottleneck::Sharding, 2);
    let query = "SELECT DISTINCT gather_count / s.steps, gather_exposed_ns / s.steps, first_exposed_ns / s.steps,
            forward_exposed_ns / s.steps
        FROM fsdp_overlap CROSS JOIN (SELECT count(*) AS steps FROM device_steps WHERE rank = 0) s";
    assert_eq!(rows(&run, query), ["8 12000000 3000000 6000000"]);
    let finding = report.findings.iter().find(|finding| finding.code == "CM016").unwrap();
    // 9 ms of a step of 38.2.
    assert!(finding.message.contains("the others cost 23.6 %"), "{}", finding.message);
    assert_eq!(report.headline.first.as_deref(), Some("CM001"));
}

/// The last of four ranks gets two of five shares of the tokens.
#[test]
fn unequal_experts_are_found_on_the_rank_that_was_planted() {
    let (run, report) = generated(Bottleneck::Experts, 4);
    let query = "SELECT rank, token_load, imbalance FROM moe_ranks";
    assert_eq!(rows(&run, query), ["0 0.8 1.6", "1 0.8 1.6", "2 0.8 1.6", "3 1.6 1.6"]);
    let finding = report.findings.iter().find(|finding| finding.code == "CM017").unwrap();
    assert!(finding.title.contains("rank 3"), "{}", finding.title);
}
