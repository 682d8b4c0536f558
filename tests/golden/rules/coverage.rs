//! Every rule fires on a real or generated trace, or it is said here why none shows what it is about.

use std::collections::BTreeSet;

use cli::demo::{Bottleneck, Options, write_run};
use rayon::prelude::*;
use trace_advisor::{Report, Run, default_rules};

use super::reports;
use crate::harness::{Case, functions};

pub(super) fn cases() -> Vec<Case> {
    functions![every_rule_fires_on_a_trace_or_is_listed]
}

/// Rules that fire on no trace at hand, and why. Their views are tested on tables made by hand, their
/// verdicts by their own tests. An entry whose rule fires is taken out.
const UNSEEN: [(&str, &str); 72] = [
    ("CF001", "no trace has an operator that is called with eight shapes from one place"),
    (
        "CG001",
        "no log of torch.compile is beside the traces: tests/integration/compiled.rs has some",
    ),
    (
        "CG002",
        "no log of torch.compile is beside the traces: tests/integration/compiled.rs has some",
    ),
    (
        "CG003",
        "no log of torch.compile is beside the traces: tests/integration/compiled.rs has some",
    ),
    ("CM007", "the runs over gloo are on CPUs; none sends tensors of a GPU through it"),
    ("CM009", "collectives run on streams of their own wherever there are any"),
    ("CM010", "no host waits for the device right after a collective"),
    ("CM011", "no run has an all_to_all from two ranks"),
    ("CM013", "no run accumulates gradients over several batches"),
    ("CM016", "no trace is of fully_shard: tests/integration/parallelism.rs has one"),
    ("CM017", "no trace has grouped matmuls of two ranks"),
    (
        "CM018",
        "no run has four process groups of one kind: tests/integration/faults.rs generates one",
    ),
    ("CP002", "no program fills a large tensor on the host and copies it"),
    (
        "FR001",
        "no dump of the Flight Recorder is beside the traces: tests/integration/flight_recorder.rs has some",
    ),
    (
        "FR002",
        "no dump of the Flight Recorder is beside the traces: tests/integration/flight_recorder.rs has some",
    ),
    (
        "FR003",
        "no dump of the Flight Recorder is beside the traces: tests/integration/flight_recorder.rs has some",
    ),
    (
        "FR004",
        "no dump of the Flight Recorder is beside the traces: tests/integration/flight_recorder.rs has some",
    ),
    ("GU002", "wherever a device is busy its kernels fill it"),
    ("HB007", "nothing is compiled in a steady step"),
    ("HB009", "no program reads a tensor element by element in a loop"),
    ("HB011", "no operator computes on the CPU for long while the device is idle"),
    ("IF001", "no server was recorded while it decoded without graphs"),
    ("IF002", "writing the cache of keys takes little wherever it is seen"),
    ("IN007", "no recording holds the end of an epoch"),
    ("IN010", "where disks and networks were sampled, none was at its limit while the loop waited"),
    ("KN004", "attention is fused wherever there is any"),
    ("KN005", "no attention falls back to plain products"),
    ("KN009", "sizes of products are multiples of eight"),
    ("KN013", "no step has a thousand small products"),
    ("KN015", "no recording is long enough for clocks to fall"),
    ("KN016", "no operator's time varies by that much"),
    (
        "MM003",
        "whoever recorded steps had warmed up: no allocation of the driver lies in a steady step",
    ),
    (
        "MM004",
        "the traces with allocator events end at their peak with little reserved and not in use",
    ),
    ("MM010", "no run has memory of several ranks that differs"),
    ("MM011", "where memory was recorded, it is far below the band or the simulation keeps to it"),
    ("MM012", "no metrics of a machine last long enough for its memory to run out"),
    ("MM014", "the GPUs that were sampled, simulated ones, are half empty"),
    ("MM020", "no snapshot is beside the traces: tests/integration/memory_owners.rs has some"),
    ("MM021", "no snapshot is beside the traces: tests/integration/memory_owners.rs has some"),
    ("MM022", "no snapshot is beside the traces: tests/integration/memory_owners.rs has some"),
    ("MM024", "no snapshot is beside the traces: tests/integration/memory_owners.rs has some"),
    ("MM025", "no snapshot is beside the traces: tests/integration/memory_owners.rs has some"),
    ("MM026", "no snapshot is beside the traces: tests/integration/memory_owners.rs has some"),
    ("MM027", "no snapshot is beside the traces, and none at hand was nearly out of memory"),
    ("OP007", "nobody recorded with anomaly detection on"),
    ("OP008", "gradients are not clipped one by one"),
    ("OP009", "no run looks for unused parameters"),
    ("OP011", "convolutions on the CPU run in oneDNN; tests/fixtures/cpu has some that do not"),
    ("OP014", "no program uses more threads than cores; tests/fixtures/cpu has one"),
    ("OP015", "no program multiplies single rows on the CPU"),
    ("OP016", "no program on the CPU has an optimizer of large parameters"),
    (
        "OP017",
        "no program of the corpus keeps adding to its gradients; tests/fixtures/modes has one",
    ),
    ("OP018", "no inference of the corpus runs in training mode; tests/fixtures/modes has some"),
    (
        "OP019",
        "no program of one rank shares its cores while it is recorded; tests/fixtures/cpu has one that does",
    ),
    ("OP020", "no program on the CPU calls hundreds of tiny operators; tests/fixtures/cpu has one"),
    ("OP023", "no program of the corpus prints tensors; tests/fixtures/cpu has one"),
    ("PP001", "no trace is of a pipeline: tests/integration/pipelines.rs has some"),
    ("PP002", "no trace is of a pipeline: tests/integration/pipelines.rs has some"),
    ("PP003", "no trace is of a pipeline: tests/integration/pipelines.rs has some"),
    ("PR005", "no run has a gradient scaler"),
    ("PR006", "nobody computed on 64-bit floats; tests/fixtures/cpu has runs that do"),
    ("PR007", "no program computes in 16 bits on the CPU"),
    (
        "PR008",
        "no trace describes its processor; tests/integration/cpu_programs.rs adds that to one",
    ),
    ("RG001", "about two runs: tests/integration/diff"),
    ("RG002", "about two runs: tests/integration/diff"),
    ("RG003", "about two runs: tests/integration/diff"),
    ("SY005", "nobody recorded with CUDA_LAUNCH_BLOCKING"),
    ("TQ008", "of the runs with several ranks all have collectives that align their clocks"),
    ("TQ010", "none of these traces holds the capture of a graph; inputs/graph_capture has one"),
    ("TQ011", "all work of these traces was launched in them, or they replay graphs"),
    ("TQ014", "no real trace has a wrong time; tests/integration/damage.rs makes one"),
    ("VA002", "no step is slow at a fixed period"),
];

fn every_rule_fires_on_a_trace_or_is_listed() {
    let reports = reports();
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
