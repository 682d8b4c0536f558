//! The part of slow suites that a run takes: all of each, or the slice that `ADVISOR_SLICE` names.

use std::io::Write as _;

/// Names of the suites that are sliced, by kind.
pub(crate) const SUITES: &str = include_str!("../slices.txt");

/// One of several parts of a suite. Together, the parts are the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    number: usize,
    count: usize,
}

impl Slice {
    /// The slice that `ADVISOR_SLICE` names, or `None` if everything is to run.
    ///
    /// # Panics
    /// If the variable has another form than `2/4` or `all`: a typo must not turn tests off.
    pub(crate) fn chosen() -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "the one place where tests read it")]
        let set = std::env::var("ADVISOR_SLICE").unwrap_or_default();
        Self::parse(&set).unwrap_or_else(|message| panic!("{message}"))
    }

    /// Reads a value of `ADVISOR_SLICE`. Returns `None` if the text stands for everything.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, String> {
        if matches!(text, "" | "all") {
            return Ok(None);
        }
        let slice = text.split_once('/').and_then(|(number, count)| {
            let (number, count) = (number.parse().ok()?, count.parse().ok()?);
            (1..=count).contains(&number).then_some(Self { number, count })
        });
        slice.map(Some).ok_or_else(|| format!("ADVISOR_SLICE is `{text}`: set `2/4`, or `all`"))
    }

    /// Returns true if the slice has the item at this position of its suite. Neighbors are in different slices.
    pub(crate) fn has(self, position: usize) -> bool {
        position % self.count == self.number - 1
    }

    /// Tells how much of a suite runs.
    pub(crate) fn print(self, suite: &str, taken: usize, all: usize, items: &str) {
        let Self { number, count } = self;
        let text = format!(
            "{suite}: slice {number} of {count}, {taken} of {all} {items}; all: ADVISOR_SLICE=all .ci/run"
        );
        // Not captured by the test harness. Nobody reads the line if it cannot be written.
        let _ = writeln!(std::io::stderr(), "{text}");
    }
}

/// Names of the sliced suites of one kind.
pub(crate) fn suites(kind: &str) -> impl Iterator<Item = &'static str> {
    SUITES.lines().filter_map(move |line| line.strip_prefix(kind)?.strip_prefix(' '))
}

/// The recordings over which a test loops, or those of the slice if `tests/slices.txt` lists the test.
///
/// # Panics
/// If a slice of so few recordings is empty: the test would prove nothing.
pub(crate) fn take<T>(test: &str, items: impl IntoIterator<Item = T>) -> Vec<T> {
    let is_sliced = suites("loop").any(|name| name == test);
    let items: Vec<T> = items.into_iter().collect();
    let Some(slice) = Slice::chosen().filter(|_| is_sliced) else { return items };
    let all = items.len();
    let taken = items.into_iter().enumerate().filter(|(position, _)| slice.has(*position));
    let taken: Vec<T> = taken.map(|(_, item)| item).collect();
    assert!(!taken.is_empty(), "{test}: a slice of {all} recordings is empty");
    slice.print(test, taken.len(), all, "recordings");
    taken
}
