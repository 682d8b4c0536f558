//! Reading speed of traces in Perfetto's format, as a ratio to JSON traces of the same recordings, measured in the same process.
//!
//! The recordings are the corpus runs that PyTorch wrote in both formats. `cargo bench --bench pftrace -- CORPUS` sets the folder
//! of the corpus; the default is `shared` beside the repository.
#![allow(clippy::print_stdout, reason = "the ratio is the result")]

#[path = "support/mod.rs"]
mod support;

use std::path::{Path, PathBuf};

use rayon::ThreadPoolBuilder;

/// Reads a run and returns the number of its events.
fn read(run: &Path) -> u64 {
    let dataset = ingest::read_run(run, &ingest::Options::default(), &ingest::NoProgress);
    dataset.expect("a whole trace").run.sources.iter().map(|source| source.events).sum()
}

fn corpus() -> PathBuf {
    // Cargo adds `--bench`.
    let wanted = std::env::args().skip(1).find(|argument| argument != "--bench");
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    wanted.map_or(default, PathBuf::from)
}

fn main() {
    let corpus = corpus();
    let real = corpus.join("inputs/writers_2026/real");
    let Ok(runs) = real.read_dir() else {
        println!("there is no corpus at {}: pass its folder as an argument", corpus.display());
        return;
    };
    let mut names: Vec<_> = runs.map(|run| run.expect("a folder").file_name()).collect();
    names.sort();
    for threads in [1, 2] {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("a few threads");
        for name in &names {
            let (json, pftrace) =
                (corpus.join("traces").join(name), real.join(name).join("pftrace"));
            pool.install(|| print_ratio(&name.to_string_lossy(), threads, &json, &pftrace));
        }
    }
}

fn print_ratio(name: &str, threads: usize, json: &Path, pftrace: &Path) {
    let events = [json, pftrace].map(|run| read(run) as f64);
    let (json_s, pftrace_s) = support::seconds_in_turn(|| read(json), || read(pftrace));
    let [of_json, of_pftrace] = [events[0] / json_s, events[1] / pftrace_s];
    println!(
        "{name}, {threads} threads: {:.2} million events a second of .pftrace, {:.2} of JSON: {:.2} times",
        of_pftrace / 1e6,
        of_json / 1e6,
        of_pftrace / of_json
    );
}
