//! Our numbers on real traces against numbers computed by other means: Holistic Trace Analysis, the
//! TensorBoard plugin, scripts of the corpus, published operation counts, measured runs.
//!
//! One test per trace and analysis, so that a filter selects one comparison and a failure prints only its own
//! differences:
//!
//! ```text
//! cargo test -p cli --test golden -- hta::resnet50_workers0::temporal_breakdown
//! ```
//!
//! The tests come from the folders of the corpus. Tests of one trace follow each other and share it, see
//! [`runs`]. With `ADVISOR_SLICE=2/4`, a slice of the suites that `tests/slices.txt` lists runs, and the others as a whole;
//! a filter selects tests of all slices. Without a corpus each suite that needs one is a single ignored test.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod call_tree;
mod compiled;
mod composer;
mod critical;
mod cupti;
mod determined;
mod distributed;
mod effects;
mod export;
mod graphs;
mod harness;
mod hta;
mod hta_diff;
mod hta_paths;
mod idle;
mod kineto_keys;
mod measured_gains;
mod recordings;
mod roofline;
mod rules;
mod runs;
mod steps;
#[path = "../support/mod.rs"]
mod support;
mod tensorboard;
mod validator;

use std::process::ExitCode;

use harness::{Input, Suite};

/// All suites by name.
const SUITES: &[Suite] = &[
    Suite { name: "call_tree", input: Input::Corpus, cases: call_tree::cases },
    Suite { name: "compiled", input: Input::Corpus, cases: compiled::cases },
    Suite { name: "composer", input: Input::Corpus, cases: composer::cases },
    Suite { name: "critical", input: Input::Corpus, cases: critical::cases },
    Suite { name: "cupti", input: Input::Corpus, cases: cupti::cases },
    Suite { name: "determined", input: Input::Corpus, cases: determined::cases },
    Suite { name: "distributed", input: Input::Corpus, cases: distributed::cases },
    Suite { name: "effects", input: Input::Corpus, cases: effects::cases },
    Suite { name: "export", input: Input::Corpus, cases: export::cases },
    Suite { name: "graphs", input: Input::Corpus, cases: graphs::cases },
    Suite { name: "hta", input: Input::Corpus, cases: hta::cases },
    Suite { name: "hta_diff", input: Input::Corpus, cases: hta_diff::cases },
    Suite { name: "hta_paths", input: Input::Corpus, cases: hta_paths::cases },
    Suite { name: "idle", input: Input::Corpus, cases: idle::cases },
    Suite { name: "kineto_keys", input: Input::Corpus, cases: kineto_keys::cases },
    Suite { name: "measured_gains", input: Input::Repository, cases: measured_gains::cases },
    Suite {
        name: "measured_gains",
        input: Input::Corpus,
        cases: measured_gains::cases_with_corpus,
    },
    Suite { name: "recordings", input: Input::Corpus, cases: recordings::cases },
    Suite { name: "roofline", input: Input::Corpus, cases: roofline::cases },
    Suite { name: "rules", input: Input::Corpus, cases: rules::cases },
    Suite { name: "steps", input: Input::Corpus, cases: steps::cases },
    Suite { name: "tensorboard", input: Input::Corpus, cases: tensorboard::cases },
    Suite { name: "validator", input: Input::Corpus, cases: validator::cases },
];

fn main() -> ExitCode {
    harness::run(SUITES)
}
