//! Runs that several tests share. Reading a trace and computing its views takes longer than comparing them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub(crate) use query::{Params, Range, Selection, Session};
use trace_advisor::advisor::RuleSet;
use trace_advisor::{Report, Run, default_rules};
use trace_model::{MetricTable, RecordBatch};

use crate::support::corpus::corpus;
use crate::support::preview::rules_with_preview;

/// The number of runs that stay open. Each test thread works on one trace at a time, and some tests read a pair.
const OPEN_RUNS: usize = 6;

/// A run, with the sessions that tests ask.
pub(crate) struct SharedRun {
    /// The run as users open it.
    pub(crate) run: Run,
    views: OnceLock<Views>,
    views_with_last_step: OnceLock<Views>,
    views_of_recording: OnceLock<Views>,
}

impl SharedRun {
    fn open(path: &Path) -> Result<Self, String> {
        let run = Run::open(path).map_err(|error| error.to_string())?;
        Ok(Self {
            run,
            views: OnceLock::new(),
            views_with_last_step: OnceLock::new(),
            views_of_recording: OnceLock::new(),
        })
    }

    /// Views with default parameters.
    pub(crate) fn views(&self) -> &Views {
        self.views.get_or_init(|| self.views_with(&Params::default()))
    }

    /// Views over all steps, the last one included.
    pub(crate) fn views_with_last_step(&self) -> &Views {
        self.views_with_last_step.get_or_init(|| {
            let mut params = Params::default();
            params.set("include_last_step", true);
            self.views_with(&params)
        })
    }

    /// Views over the whole recording, without the rule that leaves out what the last step launched.
    pub(crate) fn views_of_recording(&self) -> &Views {
        self.views_of_recording.get_or_init(|| {
            let everything = Range { first: i64::MIN, last: i64::MAX };
            let selection = Selection { between: Some(everything), ..Selection::default() };
            let tables = selection.apply(self.run.tables()).unwrap();
            Views::new(Session::new(analyses::catalog(), tables, &Params::default()).unwrap())
        })
    }

    /// Views with parameters of one test.
    pub(crate) fn views_with(&self, params: &Params) -> Views {
        Views::new(Session::new(analyses::catalog(), self.run.tables().clone(), params).unwrap())
    }
}

/// A session that answers each question once.
pub(crate) struct Views {
    pub(crate) session: Session,
    tables: Mutex<HashMap<String, Arc<MetricTable>>>,
    answers: Mutex<HashMap<String, Arc<Vec<RecordBatch>>>>,
}

impl Views {
    fn new(session: Session) -> Self {
        Self { session, tables: Mutex::default(), answers: Mutex::default() }
    }

    /// The rows of a query.
    pub(crate) fn sql(&self, query: &str) -> Arc<Vec<RecordBatch>> {
        if let Some(answer) = lock(&self.answers).get(query) {
            return Arc::clone(answer);
        }
        let answer = Arc::new(self.session.sql(query).unwrap_or_else(|e| panic!("{query}: {e}")));
        lock(&self.answers).insert(query.to_owned(), Arc::clone(&answer));
        answer
    }

    /// The rows of a view.
    pub(crate) fn table(&self, view: &str) -> Arc<MetricTable> {
        if let Some(table) = lock(&self.tables).get(view) {
            return Arc::clone(table);
        }
        let tables = self.session.metric_tables(&[view]).unwrap_or_else(|e| panic!("{view}: {e}"));
        let table = tables.into_iter().next().expect("a result for each view");
        let table = Arc::new(table.unwrap_or_else(|e| panic!("{view}: {e}")));
        lock(&self.tables).insert(view.to_owned(), Arc::clone(&table));
        table
    }
}

/// The folder of the traces in the corpus.
pub(crate) fn traces() -> PathBuf {
    corpus().join("traces")
}

/// The name of a run of the corpus: its path below the folder of traces.
pub(crate) fn name(path: &Path) -> String {
    path.strip_prefix(traces()).unwrap_or(path).display().to_string()
}

type Slot = Arc<OnceLock<Result<Arc<SharedRun>, String>>>;

/// Opens a run, or shares it with the tests before.
pub(crate) fn try_open(path: &Path) -> Result<Arc<SharedRun>, String> {
    static OPEN: Mutex<VecDeque<(PathBuf, Slot)>> = Mutex::new(VecDeque::new());
    let slot = {
        let mut open = lock(&OPEN);
        let at = open.iter().position(|(of, _)| of == path);
        let entry = at.and_then(|at| open.remove(at));
        let entry = entry.unwrap_or_else(|| (path.to_owned(), Slot::default()));
        let slot = Arc::clone(&entry.1);
        open.push_front(entry);
        open.truncate(OPEN_RUNS);
        slot
    };
    slot.get_or_init(|| SharedRun::open(path).map(Arc::new)).clone()
}

/// Opens a run by path.
///
/// # Panics
/// If it cannot be read.
pub(crate) fn open_path(path: &Path) -> Arc<SharedRun> {
    try_open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Opens a run of the corpus by name.
pub(crate) fn open(name: &str) -> Arc<SharedRun> {
    open_path(&traces().join(name))
}

type Judged = Arc<Result<Report, String>>;

/// The report of the shipped rules on a run, or the reason why there is none. Each run is judged once.
pub(crate) fn report(path: &Path) -> Judged {
    static REPORTS: Reports = Mutex::new(BTreeMap::new());
    report_by(path, &REPORTS, default_rules)
}

/// The report of all shipped rules, also those in preview.
pub(crate) fn report_with_preview(path: &Path) -> Judged {
    static REPORTS: Reports = Mutex::new(BTreeMap::new());
    report_by(path, &REPORTS, rules_with_preview)
}

type Reports = Mutex<BTreeMap<PathBuf, Arc<OnceLock<Judged>>>>;

fn report_by(path: &Path, reports: &Reports, rules: fn() -> RuleSet) -> Judged {
    let slot = Arc::clone(lock(reports).entry(path.to_owned()).or_default());
    let judge = || {
        let shared = try_open(path)?;
        shared.run.check(&rules()).map_err(|error| error.to_string())
    };
    // Errors name the run, wherever the corpus is.
    let judge = || judge().map_err(|e| e.replace(&path.display().to_string(), &name(path)));
    Arc::clone(slot.get_or_init(|| Arc::new(judge())))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
