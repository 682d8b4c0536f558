//! Turns suites into tests of `libtest-mimic`, which takes the arguments that `cargo test` passes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use libtest_mimic::{Arguments, Trial};

use crate::support::corpus;
use crate::support::slice::{self, Slice};

/// Tests of one kind.
pub(crate) struct Suite {
    /// The first part of the names of its tests.
    pub(crate) name: &'static str,
    pub(crate) input: Input,
    /// Lists the tests. Called only if the input is there.
    pub(crate) cases: fn() -> Vec<Case>,
}

/// The location of the traces of a suite.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// In `tests/fixtures`.
    Repository,
    /// In the folder that `ADVISOR_CORPUS` names.
    Corpus,
}

/// One test.
pub(crate) struct Case {
    /// The trace that the test reads; tests of one trace run one after the other.
    trace: Option<String>,
    name: String,
    run: Box<dyn FnOnce() + Send>,
}

impl Case {
    /// A test of one trace. The name is `trace::analysis`.
    pub(crate) fn of_trace(
        trace: &str,
        analysis: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> Self {
        let name = format!("{trace}::{analysis}");
        Self { trace: Some(trace.to_owned()), name, run: Box::new(run) }
    }

    /// A test of one trace with a name of its own.
    pub(crate) fn of_trace_named(
        trace: &str,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> Self {
        Self { trace: Some(trace.to_owned()), name: name.to_owned(), run: Box::new(run) }
    }

    /// A test of several traces, or of none.
    pub(crate) fn new(name: &str, run: impl FnOnce() + Send + 'static) -> Self {
        Self { trace: None, name: name.to_owned(), run: Box::new(run) }
    }
}

/// Functions as tests of their names.
macro_rules! functions {
    ($($function:ident),+ $(,)?) => {
        vec![$($crate::harness::Case::new(stringify!($function), $function)),+]
    };
}
pub(crate) use functions;

/// Values that the tests of this program compared so far, by suite or analysis.
static COMPARED: Mutex<BTreeMap<String, Progress>> = Mutex::new(BTreeMap::new());

#[derive(Default)]
struct Progress {
    values: usize,
    at_least: usize,
}

/// Declares that all tests together compare at least so many values, or the suite proves nothing. Checked if
/// no test was left out.
pub(crate) fn require(what: &str, at_least: usize) {
    let mut compared = COMPARED.lock().unwrap_or_else(PoisonError::into_inner);
    compared.entry(what.to_owned()).or_default().at_least = at_least;
}

/// Adds values that a test compared.
pub(crate) fn count(what: &str, values: usize) {
    let mut compared = COMPARED.lock().unwrap_or_else(PoisonError::into_inner);
    compared.entry(what.to_owned()).or_default().values += values;
}

/// Differences that one test prints.
const SHOWN: usize = 20;

/// The first of several differences, one per line.
pub(crate) fn first_lines(lines: &[String]) -> String {
    let mut text = String::new();
    for line in lines.iter().take(SHOWN) {
        writeln!(text, "  {line}").unwrap();
    }
    if lines.len() > SHOWN {
        writeln!(text, "  and {} more", lines.len() - SHOWN).unwrap();
    }
    text
}

/// Runs the tests that the arguments select.
pub(crate) fn run(suites: &[Suite]) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let has_corpus = corpus::find().is_some();
    let mut cases: Vec<(&str, Case)> = Vec::new();
    let mut missing = Vec::new();
    for suite in suites {
        if suite.input == Input::Corpus && !has_corpus {
            let trial = Trial::test(suite.name, || {
                corpus::corpus();
                Ok(())
            });
            missing.push(trial.with_kind("needs ADVISOR_CORPUS").with_ignored_flag(true));
        } else {
            cases.extend((suite.cases)().into_iter().map(|case| (suite.name, case)));
        }
    }
    // Tests that read many traces come last: by then most reports are known.
    cases.sort_by(|(_, a), (_, b)| {
        (a.trace.is_none(), &a.trace).cmp(&(b.trace.is_none(), &b.trace))
    });
    // Whoever names tests gets them.
    let names_tests = arguments.filter.is_some() || !arguments.skip.is_empty();
    if let Some(slice) = Slice::chosen().filter(|_| !names_tests) {
        arguments.skip = left_out(&cases, slice);
        arguments.exact = true;
        slice.print("golden", cases.len() - arguments.skip.len(), cases.len(), "tests");
    }
    let trials = cases.into_iter().map(|(suite, case)| {
        Trial::test(format!("{suite}::{}", case.name), move || {
            (case.run)();
            Ok(())
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.chain(missing).collect());
    let is_everything =
        !arguments.list && conclusion.num_filtered_out == 0 && conclusion.num_ignored == 0;
    if is_everything && !has_compared_enough() {
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

/// Names of the tests that are in other slices. Tests of one trace are in one slice, because they share the trace, and so
/// are the tests of one suite that read many traces.
fn left_out(cases: &[(&str, Case)], slice: Slice) -> Vec<String> {
    let sliced: BTreeSet<&str> = slice::suites("golden").collect();
    let sliced: Vec<_> = cases.iter().filter(|(suite, _)| sliced.contains(suite)).collect();
    let unit = |suite: &str, case: &Case| case.trace.clone().ok_or_else(|| suite.to_owned());
    let units: BTreeSet<_> = sliced.iter().map(|(suite, case)| unit(suite, case)).collect();
    let units: BTreeMap<_, usize> = units.into_iter().zip(0..).collect();
    let others = sliced.iter().filter(|(suite, case)| !slice.has(units[&unit(suite, case)]));
    others.map(|(suite, case)| format!("{suite}::{}", case.name)).collect()
}

#[expect(clippy::print_stderr, reason = "the result of all tests together")]
fn has_compared_enough() -> bool {
    let compared = COMPARED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut is_enough = true;
    for (what, progress) in compared.iter().filter(|(_, p)| p.values < p.at_least) {
        let Progress { values, at_least } = progress;
        eprintln!(
            "FAILED: {what}: {values} values compared, at least {at_least} expected: is the corpus complete?"
        );
        is_enough = false;
    }
    is_enough
}
