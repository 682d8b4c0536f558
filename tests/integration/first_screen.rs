//! The first screen of `advisor check` on terminals of several widths, on recordings of simulated and real programs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use cli::{Console, Exit, Terminal};
use trace_demo::{Bottleneck, Options, write_run};

/// Widths of the terminals, and whether they show block characters.
const TERMINALS: [(usize, bool); 3] = [(40, true), (100, true), (200, false)];

/// Output that a test reads after the program wrote it.
#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Screen {
    /// The text without colors.
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap().clone();
        let plain = anstream::adapter::strip_bytes(&bytes).into_vec();
        String::from_utf8(plain).unwrap()
    }
}

/// Runs the program on a terminal.
fn on_terminal(args: &[&str], terminal: Terminal) -> (String, Exit) {
    let (out, err) = (Screen::default(), Screen::default());
    let mut console = Console {
        out: Box::new(out.clone()),
        raw: Box::new(out.clone()),
        err: Box::new(err.clone()),
        errors: Box::new(err.clone()),
        out_terminal: Some(terminal),
        has_progress: false,
        handles_signals: false,
        runs: Vec::new(),
    };
    let args = std::iter::once("advisor").chain(args.iter().copied());
    let exit = cli::run_on(args.map(Into::into), &mut console);
    drop(console);
    (out.text(), exit)
}

/// The screens of all widths, checked for what holds on every screen.
fn screens(run: &Path) -> String {
    let folder = run.parent().unwrap().to_str().unwrap();
    let args = ["check", "--no-cache", run.to_str().unwrap()];
    let narrow = Terminal { columns: TERMINALS[0].0, has_unicode: true };
    let full = on_terminal(&[&args[..], &["--full"]].concat(), narrow).0;
    assert!(full.lines().all(|line| line.chars().count() <= narrow.columns), "{full}");
    let json = on_terminal(&[&args[..], &["-f", "json"]].concat(), narrow).0;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let headline = json["headline"]["text"].as_str().unwrap();
    let mut texts = Vec::new();
    for (columns, has_unicode) in TERMINALS {
        let terminal = Terminal { columns, has_unicode };
        let (text, exit) = on_terminal(&args, terminal);
        assert_ne!(exit, Exit::Failed, "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= columns, "{columns} columns: {line}");
            assert!(has_unicode || line.is_ascii(), "{line}");
        }
        assert!(text.lines().count() <= full.lines().count(), "{full}");
        // The conclusion is the last sentence.
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(&text).ends_with(&words(headline)), "{text}");
        // The fixes of the plan are numbered in its order, with the base of their savings.
        let number = |line: &str| line.get(..4)?.strip_suffix("  ")?.trim().parse().ok();
        let numbers = text.lines().filter_map(number);
        let fixes = json["plan"]["fixes"].as_array().map_or(0, Vec::len);
        assert_eq!(numbers.collect::<Vec<usize>>(), (1..=fixes).collect::<Vec<_>>(), "{text}");
        assert_eq!(text.contains("Savings are shares of"), fixes > 0, "{text}");
        texts.push(format!("== {columns} columns\n{text}"));
    }
    // The folder of the test may have any length, and its name may be wrapped.
    texts.join("\n").replace(&format!("{folder}/"), "")
}

macro_rules! check_screens {
    ($name:literal, $run:expr) => {
        insta::with_settings!({
            snapshot_path => concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/snapshots"),
            prepend_module_to_snapshot => false,
        }, { insta::assert_snapshot!(concat!("first_screen_", $name), screens($run)); });
    };
}

/// A simulated run at a short path.
fn demo(bottleneck: Bottleneck, stacks: bool) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::Builder::new().prefix("ta").rand_bytes(6).tempdir_in("/tmp").unwrap();
    let run = folder.path().join("run");
    std::fs::create_dir(&run).unwrap();
    let options = Options { bottleneck, stacks, layers: 2, steps: 8, ..Options::default() };
    write_run(&options, &run).unwrap();
    (folder, run)
}

/// A recording of a real program, at a short path.
fn fixture(name: &str) -> (tempfile::TempDir, PathBuf) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name);
    let folder = tempfile::Builder::new().prefix("ta").rand_bytes(6).tempdir_in("/tmp").unwrap();
    let run = folder.path().join("run.json.gz");
    std::fs::copy(from, &run).unwrap();
    (folder, run)
}

#[test]
fn data_loading() {
    check_screens!("data_loading", &demo(Bottleneck::DataLoading, true).1);
}

#[test]
fn small_kernels() {
    check_screens!("small_kernels", &demo(Bottleneck::SmallKernels, false).1);
}

#[test]
fn straggler() {
    check_screens!("straggler", &demo(Bottleneck::Straggler, false).1);
}

#[test]
fn healthy() {
    check_screens!("healthy", &demo(Bottleneck::None, false).1);
}

#[test]
fn recorded_gpt2() {
    check_screens!("gpt2", &fixture("gpt2/as_written.json.gz").1);
}

#[test]
fn recorded_resnet_workers0() {
    check_screens!("resnet_workers0", &fixture("h100/resnet_workers0.json.gz").1);
}

#[test]
fn recorded_decode() {
    check_screens!("decode", &fixture("h100/decode.json.gz").1);
}

#[test]
fn recorded_on_cpu() {
    check_screens!("cpu", &fixture("cpu/layers_python.json.gz").1);
}
