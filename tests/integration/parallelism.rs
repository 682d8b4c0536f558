//! Parallel training, as recorded (`tests/fixtures/fsdp`).

use std::path::Path;

use trace_advisor::{Run, default_rules};

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
    let report = run.check(&default_rules()).unwrap();
    let finding = report.findings.iter().find(|finding| finding.code == "CM016").unwrap();
    assert!(finding.message.contains("14 all-gathers of 4 modules"), "{}", finding.message);
}
