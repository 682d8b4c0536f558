//! What a byte of unusual input costs: `check` on traces with long names, many devices, streams, threads or files, and
//! deeply nested annotations, each at a size and at four times that size. Fails if the larger one takes more than
//! [`LIMIT`] times the time or memory of the smaller one, beyond what an almost empty trace takes.
//!
//!     cargo bench --workspace --bench input_cost -- [PART OF A NAME ...]
#![allow(clippy::print_stdout, reason = "the ratios are the result")]
#![allow(missing_docs, reason = "not a library")]

#[path = "support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use trace_advisor::{Run, default_rules};

/// Ratio between the sizes of the two traces of a pair.
const GROWTH: usize = 4;

/// A sort, or a larger share of memory that misses the caches, may add this much to four times the cost.
const LIMIT: f64 = 6.0;

/// Differences below this are noise.
const NOISE_S: f64 = 0.02;
const NOISE_BYTES: f64 = 16e6;

/// A kind of trace whose size has one dimension.
struct Case {
    name: &'static str,
    size: usize,
    /// The texts of the files of one run.
    files: fn(usize) -> Vec<String>,
}

const CASES: [Case; 9] = [
    Case {
        name: "one long name",
        size: 10_000_000,
        files: |n| trace(1, |_| event("cpu_op", &"n".repeat(n), 1, 0, 5)),
    },
    Case {
        name: "long names",
        size: 100,
        files: |n| trace(n, |i| event("cpu_op", &format!("{i}{}", "n".repeat(100_000)), 1, i, 1)),
    },
    Case {
        name: "distinct names",
        size: 50_000,
        files: |n| trace(n, |i| event("cpu_op", &format!("op{i}"), 1, i, 1)),
    },
    Case { name: "devices", size: 250, files: |n| trace(n, |i| kernel(i, 7, i)) },
    Case { name: "streams", size: 4_000, files: |n| trace(n, |i| kernel(0, i, i)) },
    Case {
        name: "threads",
        size: 10_000,
        files: |n| trace(n, |i| event("cpu_op", "aten::add", i, i, 1)),
    },
    Case {
        name: "nested operators",
        size: 20_000,
        files: |n| trace(n, |i| event("cpu_op", "aten::add", 1, i, 2 * (n - i))),
    },
    Case {
        name: "nested annotations",
        size: 20_000,
        files: |n| trace(n, |i| event("user_annotation", "part", 1, i, 2 * (n - i))),
    },
    Case { name: "files", size: 100, files },
];

fn event(category: &str, name: &str, thread: usize, at_us: usize, dur_us: usize) -> String {
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":{thread},"ts":{at_us},"dur":{dur_us}}}"#
    )
}

fn kernel(device: usize, stream: usize, at_us: usize) -> String {
    format!(
        r#"{{"ph":"X","cat":"kernel","name":"k","pid":{device},"tid":{stream},"ts":{at_us},"dur":1,"args":{{"device":{device},"stream":{stream},"correlation":{at_us}}}}}"#
    )
}

/// One trace of `n` events.
fn trace(n: usize, event: impl Fn(usize) -> String) -> Vec<String> {
    let mut text = String::from(r#"{"traceEvents":["#);
    for i in 0..n {
        let _ = write!(text, "{}{}", if i > 0 { ",\n" } else { "" }, event(i));
    }
    text.push_str("]}");
    vec![text]
}

/// `n` ranks with a trace of one operator each.
fn files(n: usize) -> Vec<String> {
    let rank = |rank| {
        let operator = event("cpu_op", "aten::add", 1, rank, 5);
        format!(
            r#"{{"distributedInfo":{{"rank":{rank},"world_size":{n}}},"traceEvents":[{operator}]}}"#
        )
    };
    (0..n).map(rank).collect()
}

/// What `check` costs in a process of its own.
#[derive(Clone, Copy)]
struct Cost {
    json_bytes: usize,
    seconds: f64,
    bytes: f64,
}

impl Cost {
    /// The best of three.
    fn of(files: &[String]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (rank, text) in files.iter().enumerate() {
            let file = folder.path().join(format!("rank{rank}.pt.trace.json"));
            std::fs::write(file, text).expect("a file in a temporary folder");
        }
        let json_bytes = files.iter().map(String::len).sum();
        let measured = (0..3).map(|_| measure_apart(folder.path()));
        let least = measured.reduce(|a, b| (a.0.min(b.0), a.1.min(b.1)));
        let (seconds, bytes) = least.expect("three measurements");
        Self { json_bytes, seconds, bytes }
    }

    fn beyond(self, fixed: Self) -> Self {
        Self { seconds: self.seconds - fixed.seconds, bytes: self.bytes - fixed.bytes, ..self }
    }
}

/// Seconds and bytes of a process that checks a run.
fn measure_apart(run: &Path) -> (f64, f64) {
    let this = std::env::current_exe().expect("the path of this program");
    let output = Command::new(this).arg("--check").arg(run).output().expect("a process");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [seconds, bytes] if output.status.success() => (seconds, bytes),
        _ => panic!("check failed: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

fn check(run: &Path) {
    let rules = default_rules();
    let start = Instant::now();
    let report = Run::open(run).and_then(|run| run.check(&rules)).expect("a valid run");
    std::hint::black_box(report.findings.len());
    let seconds = start.elapsed().as_secs_f64();
    println!("{seconds} {}", support::peak_bytes().unwrap_or_default());
}

/// `None` where the smaller one costs too little to tell.
fn ratio(small: f64, large: f64, noise: f64) -> Option<f64> {
    (large > noise * GROWTH as f64).then(|| large / small.max(noise))
}

fn main() -> ExitCode {
    // `cargo bench` adds `--bench`.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [flag, run] = &arguments[..]
        && flag == "--check"
    {
        check(Path::new(run));
        return ExitCode::SUCCESS;
    }
    let is_wanted = |name: &str| {
        arguments.is_empty() || arguments.iter().any(|part| name.contains(part.as_str()))
    };
    let fixed = Cost::of(&files(1));
    println!("an almost empty trace: {:.3} s, {:.0} MB", fixed.seconds, fixed.bytes / 1e6);
    println!(
        "\n| | JSON | beyond an empty trace | | {GROWTH} times the size | |\n|---|--:|--:|--:|--:|--:|"
    );
    let mut is_linear = true;
    for case in CASES.iter().filter(|case| is_wanted(case.name)) {
        let small = Cost::of(&(case.files)(case.size)).beyond(fixed);
        let large = Cost::of(&(case.files)(GROWTH * case.size)).beyond(fixed);
        let time = ratio(small.seconds, large.seconds, NOISE_S);
        let memory = ratio(small.bytes, large.bytes, NOISE_BYTES);
        is_linear &= [time, memory].into_iter().flatten().all(|ratio| ratio <= LIMIT);
        let text =
            |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |r| format!("{r:.1}x"));
        println!(
            "| {} | {:.1} MB | {:.3} s | {:.0} MB | {} time | {} memory |",
            case.name,
            large.json_bytes as f64 / 1e6,
            large.seconds,
            large.bytes / 1e6,
            text(time),
            text(memory),
        );
    }
    if is_linear {
        return ExitCode::SUCCESS;
    }
    println!("four times the input cost more than {LIMIT} times as much");
    ExitCode::FAILURE
}
