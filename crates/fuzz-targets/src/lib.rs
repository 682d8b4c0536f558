//! Functions that accept arbitrary bytes and panic if Trace Advisor breaks one of its promises (`docs/trust.md`).
//!
//! Each [`Target`] turns the bytes into one kind of input, reads it, and checks the result. `fuzz/` runs the targets
//! with libFuzzer for any length of time; `tests/integration/fuzz.rs` runs the seeds and a fixed list of their
//! mutations in every test run. Both use [`mutate`].

mod decoders;
mod export;
pub mod json;
mod mutate;
#[cfg(feature = "report")]
mod report;
mod rules;
mod seeds;
mod tables;

pub use mutate::mutate;
pub use seeds::Seed;

/// One kind of input.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the target, its folder in `fuzz/seeds`, and its program in `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Reads the bytes. Panics if a promise is broken.
    pub run: fn(&[u8]),
    /// Repository paths of recorded files that serve as additional seeds.
    recorded: &'static [&'static str],
    /// Generates seeds with this version of the program.
    made: fn() -> Vec<Seed>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "kineto",
        run: decoders::kineto,
        recorded: &[
            "tests/fixtures/compiled/fused/trace.json.gz",
            "tests/fixtures/h100/decode_graph.json.gz",
        ],
        made: Vec::new,
    },
    Target {
        name: "pickle",
        run: decoders::pickle,
        recorded: &[
            "tests/fixtures/memory/segments_only.pickle",
            "tests/fixtures/memory/torch113.pickle",
            "tests/fixtures/memory/torch20_rank3.pickle",
            "tests/fixtures/memory/torch2_protocol0.pickle",
            "tests/fixtures/memory/torch2_protocol2.pickle",
            "tests/fixtures/memory/torch2_protocol5.pickle",
            "tests/fixtures/memory/unshared.pickle.gz",
        ],
        made: Vec::new,
    },
    Target { name: "determined", run: decoders::determined, recorded: &[], made: Vec::new },
    Target { name: "composer", run: decoders::composer, recorded: &[], made: Vec::new },
    Target {
        name: "flight_recorder",
        run: decoders::flight_recorder,
        recorded: &[
            "tests/fixtures/flight/skip/nccl_trace_rank_0",
            "tests/fixtures/flight/skip_json/fr_trace_rank_0.json",
        ],
        made: Vec::new,
    },
    Target {
        name: "compile_log",
        run: decoders::compile_log,
        recorded: &["tests/fixtures/compiled/fused/torch_trace.log.gz"],
        made: Vec::new,
    },
    Target { name: "export", run: export::run, recorded: &[], made: export::seeds },
    Target { name: "rules", run: rules::run, recorded: &[], made: Vec::new },
    #[cfg(feature = "report")]
    Target {
        name: "report",
        run: report::run,
        recorded: &["fuzz/seeds/kineto/training.json"],
        made: Vec::new,
    },
];

/// Returns the target with this name.
///
/// # Panics
/// If no target has this name.
pub fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).expect("a target of this name")
}
