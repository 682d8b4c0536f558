//! Progress as receivers see it: counts that only grow, and reach what was announced.

use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use trace_advisor::ingest::{self, FileWork, Location, NoProgress, Progress};
use trace_advisor::query::{self, ViewProgress};
use trace_advisor::{Augmentation, OpenOptions, Run, default_rules};
use trace_demo::{Options, write_run};

#[derive(Debug, Default)]
struct Recorder {
    work: Mutex<Vec<FileWork>>,
    json_bytes: AtomicU64,
    files: AtomicUsize,
    planned: AtomicUsize,
    computed: AtomicUsize,
}

impl Progress for Recorder {
    fn begin(&self, work: FileWork) {
        self.work.lock().unwrap().push(work);
    }

    fn advance(&self, json_bytes: u64) {
        self.json_bytes.fetch_add(json_bytes, Ordering::SeqCst);
    }

    fn file_done(&self, _: &str) {
        self.files.fetch_add(1, Ordering::SeqCst);
    }
}

impl ViewProgress for Recorder {
    fn planned(&self, views: usize) {
        self.planned.fetch_add(views, Ordering::SeqCst);
    }

    fn computed(&self, _: &str) {
        let computed = self.computed.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(computed <= self.planned.load(Ordering::SeqCst), "more than was announced");
    }
}

impl Recorder {
    /// The last announcement, if it is what was done since `before`.
    fn assert_files(&self, files: usize) {
        let work = self.work.lock().unwrap().pop().expect("an announcement");
        assert_eq!(work.files, files);
        assert_eq!(self.files.swap(0, Ordering::SeqCst), files);
        // What stands around the events of a trace is not counted.
        let read = self.json_bytes.swap(0, Ordering::SeqCst);
        let announced = work.json_bytes;
        assert!(read <= announced && read >= announced / 100 * 99, "{read} of {announced} bytes");
    }

    /// The number of views that were computed, which is what was announced.
    fn views(&self) -> usize {
        let computed = self.computed.load(Ordering::SeqCst);
        assert_eq!(computed, self.planned.load(Ordering::SeqCst));
        computed
    }
}

fn run() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { steps: 4, layers: 1, ranks: 3, ..Options::default() };
    write_run(&options, folder.path()).unwrap();
    folder
}

fn open(folder: &Path, recorder: &Arc<Recorder>, memory_bytes: Option<u64>) -> Run {
    let view_progress = Some(Arc::clone(recorder) as Arc<dyn ViewProgress>);
    let options = OpenOptions { view_progress, memory_bytes, ..OpenOptions::default() };
    Run::open_with(folder, &options, recorder.as_ref()).unwrap()
}

#[test]
fn counts_reach_what_was_announced() {
    let folder = run();
    let recorder = Arc::new(Recorder::default());
    let run = open(folder.path(), &recorder, None);
    recorder.assert_files(3);
    assert_eq!(recorder.views(), 0);

    let report = run.check(&default_rules()).unwrap();
    let after_check = recorder.views();
    assert!(after_check > 20, "{after_check} views");
    run.analyze("step_time").unwrap();
    run.analyze("gpu_kernels").unwrap();
    run.sql("SELECT * FROM gpu_idle_causes").unwrap();
    assert!(recorder.views() > after_check);

    let out = tempfile::tempdir().unwrap();
    let wanted = Augmentation {
        folder: out.path(),
        counters: true,
        critical_path: true,
        report: Some(&report),
        packing: ingest::Packing::Same,
        overwrite: false,
    };
    run.augment(&wanted, recorder.as_ref()).unwrap();
    recorder.assert_files(3);
    run.merge(&out.path().join("merged.json"), false, recorder.as_ref()).unwrap();
    recorder.assert_files(3);
    let to = out.path().join("tables");
    let location = Location::parse(folder.path()).unwrap();
    ingest::export(&location, &ingest::Options::default(), &to, false, recorder.as_ref()).unwrap();
    recorder.assert_files(3);
}

/// A run that is computed in groups of ranks counts each view once for each group.
#[test]
fn counts_of_rank_groups_reach_what_was_announced() {
    let folder = run();
    let recorder = Arc::new(Recorder::default());
    open(folder.path(), &recorder, None).check(&default_rules()).unwrap();
    let views = recorder.views();

    let out = tempfile::tempdir().unwrap();
    let to = out.path().join("tables");
    let location = Location::parse(folder.path()).unwrap();
    ingest::export(&location, &ingest::Options::default(), &to, false, &NoProgress).unwrap();
    let export = ingest::Export::open(&to).unwrap();
    let mut limits = (1..10_000).map(|part| part << 16);
    let limit = limits.find(|limit| query::fits_rank_by_rank(export.as_ref(), *limit)).unwrap();
    let recorder = Arc::new(Recorder::default());
    let run = open(&to, &recorder, Some(limit));
    assert!(!run.is_in_memory());
    run.check(&default_rules()).unwrap();
    assert!(recorder.views() > views, "{} of {views}", recorder.views());
}
