//! Programs that mark no steps: equal passes are told from the equal layers of one pass.

use std::io::Read;
use std::path::PathBuf;

use trace_model::Dataset;

use crate::support::{column, read_text};

/// Recordings of `tests/fixtures/passes/record.py`, as recorded and without shapes.
fn recorded(kind: &str) -> Vec<(String, [Dataset; 2])> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/passes");
    let mut names: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(kind))
        .collect();
    names.sort();
    let read = |name: String| {
        let mut text = String::new();
        let file = std::fs::File::open(folder.join(&name)).unwrap();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
        let plain = text.replace(r#""Input Dims""#, r#""no dims""#);
        (name, [text, plain].map(|text| read_text(text).unwrap()))
    };
    names.into_iter().map(read).collect()
}

fn sources(dataset: &Dataset) -> Vec<String> {
    column(dataset, "steps", "source")
}

#[test]
fn layers_of_one_pass_are_no_passes() {
    let layers = recorded("layers");
    assert_eq!(layers.len(), 11);
    for (name, datasets) in &layers {
        for dataset in datasets {
            assert_eq!(sources(dataset), ["trace"], "{name}");
        }
    }
}

#[test]
fn passes_are_found_if_something_tells_them_from_layers() {
    // The first ones may be warm-up. Of models without a loss, only shapes tell their passes from layers.
    let expected: [(&str, usize, bool); 4] = [
        ("passes_classifier.json.gz", 10, false),
        ("passes_gpt.json.gz", 5, false),
        ("passes_loss.json.gz", 10, true),
        ("passes_random.json.gz", 10, true),
    ];
    let passes = recorded("passes");
    let (blocks, passes): (Vec<_>, Vec<_>) =
        passes.into_iter().partition(|(name, _)| name.starts_with("passes_block"));
    assert_eq!(passes.len(), expected.len());
    for ((name, datasets), (file, count, without_shapes)) in passes.iter().zip(expected) {
        assert_eq!(name, file);
        for (dataset, is_found) in datasets.iter().zip([true, without_shapes]) {
            let sources = sources(dataset);
            let steps = sources.iter().filter(|source| *source == "pass").count();
            assert_eq!(steps == sources.len(), is_found, "{name}: {sources:?}");
            assert!(!is_found || (count - 2..=count).contains(&steps), "{name}: {steps}");
        }
    }
    // Nothing tells ten calls of a block from ten blocks, but that they recur is known.
    for dataset in &blocks[0].1 {
        assert_eq!(sources(dataset), ["trace"]);
        assert_eq!(column(dataset, "ranks", "recurring_op_count"), ["15"]);
        assert_eq!(column(dataset, "ranks", "recurrence_count").len(), 1);
    }
}

/// `count` passes of the operators, 10 us each and 1 us apart, with `pause` us between passes, and further events.
fn repeated(names: &[&str], count: i64, pause: i64, further: impl Fn(i64) -> String) -> Dataset {
    let length = 11 * names.len() as i64 + pause;
    let mut events = Vec::new();
    for pass in 0..count {
        let start = pass * length;
        for (ts, name) in (0..).map(|i| start + 11 * i).zip(names) {
            events.push(format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":10}}"#
            ));
        }
        events.push(further(start + length - pause));
    }
    events.retain(|event| !event.is_empty());
    read_text(format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))).unwrap()
}

#[test]
fn a_pause_or_a_wait_tells_passes_from_layers() {
    let names = ["aten::linear", "aten::gelu", "aten::layer_norm"];
    let nothing = |_| String::new();
    assert_eq!(sources(&repeated(&names, 10, 2, nothing)), ["trace"]);
    assert_eq!(sources(&repeated(&names, 10, 30, nothing)), ["pass"; 10]);
    // Calling a layer may take longer than an operator, and a few pauses decide nothing.
    assert_eq!(sources(&repeated(&names, 10, 6, nothing)), ["trace"]);
    assert_eq!(sources(&repeated(&names, 4, 30, nothing)), ["trace"]);
    let call = |name: &'static str| {
        move |ts: i64| {
            format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":1}}"#
            )
        }
    };
    let waits = repeated(&names, 10, 6, call("cudaDeviceSynchronize"));
    // The first pass is cut off by nothing: each begins after a wait, or with the recording.
    assert!(sources(&waits).iter().all(|source| source == "pass"));
    // Kernels that no operator launches make the pause.
    assert_eq!(sources(&repeated(&names, 10, 30, call("cuLaunchKernel"))), ["trace"]);
    // One operator that recurs is a loop of its own.
    assert_eq!(sources(&repeated(&["aten::bmm"], 10, 30, nothing)), ["trace"]);
}
