//! Functions that accept arbitrary bytes and panic if Trace Advisor breaks one of its promises (`docs/trust.md`).
//!
//! Each [`Target`] turns the bytes into one kind of input, reads it, and checks the result. `fuzz/` runs the targets
//! with libFuzzer for any length of time; `tests/integration/fuzz.rs` runs the seeds and a fixed list of their
//! mutations in every test run. Both use [`mutate`].

mod export;
mod files;
pub mod json;
mod mutate;
#[cfg(feature = "report")]
mod report;
mod rules;
mod seeds;
mod tables;

use std::sync::LazyLock;

pub use mutate::mutate;
pub use seeds::Seed;

/// One kind of input.
#[derive(Debug)]
pub struct Target {
    /// Name of the target, and of its folder in `fuzz/seeds`.
    pub name: &'static str,
    run: Run,
    /// Repository paths of recorded files that serve as additional seeds.
    recorded: &'static [&'static str],
    /// Generates seeds with this version of the program.
    made: fn() -> Vec<Seed>,
}

/// The way in which a target reads the bytes.
#[derive(Debug)]
enum Run {
    /// Reads them as a file of a format.
    File(&'static ingest::Format),
    /// Anything else.
    Function(fn(&[u8])),
}

impl Target {
    /// Reads the bytes.
    ///
    /// # Panics
    /// If a promise is broken.
    pub fn run(&self, bytes: &[u8]) {
        match self.run {
            Run::File(format) => files::run(format, bytes),
            Run::Function(function) => function(bytes),
        }
    }
}

/// Recorded files that serve as additional seeds, by target.
const RECORDED: &[(&str, &[&str])] = &[
    (
        "kineto",
        &[
            "tests/fixtures/compiled/fused/trace.json.gz",
            "tests/fixtures/h100/decode_graph.json.gz",
            "tests/fixtures/writers/cuspy.json.gz",
        ],
    ),
    (
        "pickle",
        &[
            "tests/fixtures/memory/segments_only.pickle",
            "tests/fixtures/memory/torch113.pickle",
            "tests/fixtures/memory/torch20_rank3.pickle",
            "tests/fixtures/memory/torch2_protocol0.pickle",
            "tests/fixtures/memory/torch2_protocol2.pickle",
            "tests/fixtures/memory/torch2_protocol5.pickle",
            "tests/fixtures/memory/unshared.pickle.gz",
        ],
    ),
    (
        "flight_recorder",
        &[
            "tests/fixtures/flight/skip/nccl_trace_rank_0",
            "tests/fixtures/flight/skip_json/fr_trace_rank_0.json",
        ],
    ),
    ("perfetto", &["tests/fixtures/pftrace/torch215.pftrace"]),
    ("compile_log", &["tests/fixtures/compiled/fused/torch_trace.log.gz"]),
    ("report", &["fuzz/seeds/kineto/training.json", "fuzz/seeds/kineto/repeated_steps.json"]),
];

/// All targets: the formats that can be read, and other kinds of input.
pub fn targets() -> &'static [Target] {
    static TARGETS: LazyLock<Vec<Target>> = LazyLock::new(|| {
        let target = |name, run, made| {
            let recorded = RECORDED.iter().find(|(of, _)| *of == name);
            Target { name, run, recorded: recorded.map_or(&[], |(_, files)| files), made }
        };
        let formats = ingest::formats().into_iter();
        let mut targets: Vec<Target> =
            formats.map(|format| target(format.fuzz_target, Run::File(format), Vec::new)).collect();
        targets.push(target("export", Run::Function(export::run), export::seeds));
        targets.push(target("rules", Run::Function(rules::run), Vec::new));
        #[cfg(feature = "report")]
        targets.push(target("report", Run::Function(report::run), Vec::new));
        targets
    });
    &TARGETS
}

/// The targets that read files of a format.
pub fn format_targets() -> impl Iterator<Item = &'static Target> {
    targets().iter().filter(|target| matches!(target.run, Run::File(_)))
}

/// Returns the target with this name.
///
/// # Panics
/// If no target has this name.
pub fn target(name: &str) -> &'static Target {
    targets().iter().find(|target| target.name == name).expect("a target of this name")
}
