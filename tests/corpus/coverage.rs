//! Every rule fires on a real or generated trace, or it is said here why none shows what it is about.

use std::collections::BTreeSet;

use advisor_cli::demo::{Bottleneck, Options, write_run};
use rayon::prelude::*;
use trace_advisor::{Report, Run, default_rules};

use super::reports;

/// Rules that fire on no trace at hand, and why. Their views are tested on tables made by hand, their
/// verdicts by their own tests. An entry whose rule fires is taken out.
const UNSEEN: [(&str, &str); 8] = [
    ("CM007", "the runs over gloo are on CPUs; none sends tensors of a GPU through it"),
    ("IN010", "where disks and networks were sampled, none was at its limit while the loop waited"),
    (
        "MM003",
        "whoever recorded steps had warmed up: no allocation of the driver lies in a steady step",
    ),
    (
        "MM004",
        "the traces with allocator events end at their peak with little reserved and not in use",
    ),
    ("MM011", "where memory was recorded, it is far below the band or the simulation keeps to it"),
    ("MM012", "no metrics of a machine last long enough for its memory to run out"),
    ("MM014", "the GPUs that were sampled, simulated ones, are half empty"),
    ("TQ008", "of the runs with several ranks all have collectives that align their clocks"),
];

#[test]
fn every_rule_fires_on_a_trace() {
    let Some(reports) = reports() else { return };
    let demos: Vec<Report> = [
        Bottleneck::DataLoading,
        Bottleneck::SmallKernels,
        Bottleneck::Straggler,
        Bottleneck::Sync,
        Bottleneck::Memory,
        Bottleneck::MemoryLeak,
    ]
    .into_par_iter()
    .map(|bottleneck| {
        let folder = tempfile::tempdir().unwrap();
        write_run(&Options { bottleneck, ..Options::default() }, folder.path()).unwrap();
        Run::open(folder.path()).unwrap().check(&default_rules()).unwrap()
    })
    .collect();
    let reports = reports.values().flatten().chain(&demos);
    let fired: BTreeSet<&str> =
        reports.flat_map(|r| &r.findings).map(|finding| finding.code.as_str()).collect();

    let rules = default_rules();
    let codes = rules.rules().iter().map(|rule| rule.code.as_str());
    let unseen: BTreeSet<&str> = codes.filter(|code| !fired.contains(code)).collect();
    let listed: BTreeSet<&str> = UNSEEN.iter().map(|(code, _)| *code).collect();
    let difference: Vec<_> = unseen.symmetric_difference(&listed).collect();
    assert_eq!(difference, [&""; 0], "fires nowhere and is not listed, or is listed and fires");
}
