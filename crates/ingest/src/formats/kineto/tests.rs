//! Tests with tiny windows and slices: events cross their ends, and guesses of event starts are wrong.

use std::io::Write as _;

use rayon::ThreadPoolBuilder;

use super::parallel_reader::read;
use crate::input::decompress::{JsonInput, Limit, open};
use crate::input::location::Location;
use crate::input::storage::Place;
use crate::options::Options;
use crate::timeline::outline::Detail;

const TEXTS: [&str; 2] = [
    include_str!("../../../../../fuzz/seeds/kineto/training.json"),
    include_str!("../../../../../fuzz/seeds/kineto/awkward.json"),
];

/// Opens the text as a stream.
fn stream(text: &str) -> JsonInput {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let place = Location::parse(file.path()).unwrap().place(&Options::default()).unwrap();
    let Place::File { file: stored, .. } = place else { panic!("a file") };
    open(&stored, Limit { max_json_bytes: 0 }).unwrap()
}

/// Returns operators and kernels as text, the number of events, and the warnings.
fn rows(input: JsonInput, threads: usize) -> Vec<String> {
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let columns = pool.install(|| read(input, &|_| {}, Detail::All)).unwrap().columns;
    let (ops, kernels) = (&columns.cpu_ops, &columns.kernels);
    let ops = ops.name.0.iter().zip(&ops.ts_ns.0).zip(&ops.dur_ns.0);
    let kernels = kernels.name.0.iter().zip(&kernels.ts_ns.0).zip(&kernels.dur_ns.0);
    let row = |((&name, ts), dur)| format!("{} {ts} {dur}", columns.strings.get(name));
    let mut rows: Vec<String> = ops.chain(kernels).map(row).collect();
    rows.push(format!("{} events, {:?}", columns.events, columns.issues.warnings("")));
    rows
}

#[test]
fn rows_do_not_depend_on_where_windows_and_slices_end() {
    for text in TEXTS {
        let expected = rows(JsonInput::Whole(text.as_bytes().to_vec()), 1);
        assert!(expected.len() >= 4, "{expected:?}");
        for shift in 0..64 {
            let shifted = " ".repeat(shift) + text;
            assert_eq!(
                rows(JsonInput::Whole(shifted.clone().into_bytes()), 3),
                expected,
                "{shift}"
            );
            for threads in [1, 3] {
                assert_eq!(rows(stream(&shifted), threads), expected, "{shift}, {threads} threads");
            }
        }
    }
}
