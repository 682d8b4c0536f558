//! What all texts and expressions of rules may read about the run: traits such as `run.vendor` and `run.is_training`, and
//! how commands name the run, such as `run.input`; and the kinds of data that its recording holds.

use std::sync::Arc;

use minijinja::Value as Jinja;
use minijinja::value::Object;
use trace_model::command_line::shell_words;
use trace_model::{Capabilities, MetricTable, Row, RunInfo};

use crate::evaluation::held_capabilities::HeldCapabilities;
use crate::language::expr::{self, Context, RUN, RowNames};
use crate::language::rule::Test;

/// The view whose one row describes the run.
pub(crate) const RUN_TRAITS_VIEW: &str = "run_traits";

/// Path of the run, as a command takes it.
const PATH: &str = "path";
/// Path of the run, and all options with which it was read.
const INPUT: &str = "input";
/// Path of the run, and the options with which it was read, without those that select a part of it.
const WHOLE_INPUT: &str = "whole_input";
/// In a comparison: path of the run before.
const BEFORE_PATH: &str = "before_path";
/// In a comparison: path of the run before, and all options with which it was read.
const BEFORE_INPUT: &str = "before_input";

/// The names under which the commands in a text find the run; `run.` goes before them.
pub(crate) fn command_names(is_comparison: bool) -> &'static [&'static str] {
    let all = &[PATH, INPUT, WHOLE_INPUT, BEFORE_PATH, BEFORE_INPUT];
    if is_comparison { all } else { &all[..3] }
}

/// What is known of a run. A trait that is unknown has no value, like a column of a row without one.
#[derive(Debug)]
pub(crate) struct RunTraits {
    traits: Jinja,
    capabilities: HeldCapabilities,
}

impl RunTraits {
    /// The row of [`RUN_TRAITS_VIEW`], and how commands name the run; without the row nothing else is known.
    pub(crate) fn read(tables: &[MetricTable], run: &RunInfo) -> Self {
        let row = MetricTable::rows_of(tables, RUN_TRAITS_VIEW).next();
        let mut traits = expr::context(row.unwrap_or_default());
        traits.extend(named([PATH, INPUT, WHOLE_INPUT], run));
        Self::of(traits, HeldCapabilities::read(tables))
    }

    /// How commands name the runs of a comparison. What holds for one may not hold for the other.
    pub(crate) fn of_comparison(before: &RunInfo, after: &RunInfo) -> Self {
        let [before_path, before_input, _] = named([BEFORE_PATH, BEFORE_INPUT, ""], before);
        let after = named([PATH, INPUT, WHOLE_INPUT], after);
        let names = after.into_iter().chain([before_path, before_input]).collect();
        Self::of(names, HeldCapabilities::default())
    }

    /// The traits that a test of a rule states.
    pub(crate) fn of_test(test: &Test, is_comparison: bool) -> Self {
        let run = |path: &str| RunInfo { path: path.to_owned(), ..RunInfo::default() };
        if is_comparison {
            return Self::of_comparison(&run("before/"), &run("after/"));
        }
        let stated = test.run.iter().map(|(name, value)| (name.clone(), expr::value(value)));
        let traits = stated.chain(named([PATH, INPUT, WHOLE_INPUT], &run("run/"))).collect();
        Self::of(traits, HeldCapabilities::all_but(&test.lacks))
    }

    fn of(traits: Context, capabilities: HeldCapabilities) -> Self {
        Self { traits: Jinja::from_object(Traits(traits)), capabilities }
    }

    /// Mean step before the profiler started, in ns, of the slowest rank; `None` if it was not timed.
    pub(crate) fn unprofiled_step_ns(&self) -> Option<i64> {
        i64::try_from(self.traits.get_attr("unprofiled_step_ns").ok()?).ok()
    }

    /// Generation of the devices, such as `Hopper`; `CPU` without a device.
    pub(crate) fn device_family(&self) -> Option<String> {
        self.traits.get_attr("device_family").ok()?.as_str().map(str::to_owned)
    }

    /// The capabilities that a rank of the run holds, or without a rank any of its ranks; `None` if unknown.
    pub(crate) fn held_by(&self, rank: Option<i64>) -> Option<Capabilities> {
        self.capabilities.of(rank)
    }

    /// The names that expressions see for a row.
    pub(crate) fn names<'r>(&'r self, row: Row<'r>) -> RowNames<'r> {
        RowNames { row, run: &self.traits }
    }

    /// The names that texts see for a row.
    pub(crate) fn context(&self, row: Row<'_>) -> Context {
        let mut context = expr::context(row);
        context.insert(RUN.to_owned(), self.traits.clone());
        context
    }
}

/// Path, input and whole input of a run, under these names.
fn named(names: [&str; 3], run: &RunInfo) -> [(String, Jinja); 3] {
    let path = || std::iter::once(run.path.as_str());
    let options = &run.command_options;
    let words = [
        shell_words(path()),
        shell_words(path().chain(options.iter())),
        shell_words(path().chain(options.reading.iter().map(String::as_str))),
    ];
    let mut words = words.into_iter();
    names.map(|name| (name.to_owned(), words.next().unwrap_or_default().into()))
}

/// A trait that is not there has no value, rather than being undefined: `is none` holds.
#[derive(Debug)]
struct Traits(Context);

impl Object for Traits {
    fn get_value(self: &Arc<Self>, key: &Jinja) -> Option<Jinja> {
        let known = key.as_str().and_then(|name| self.0.get(name));
        Some(known.cloned().unwrap_or_else(|| Jinja::from(())))
    }
}

#[cfg(test)]
mod tests {
    use trace_model::command_line::CommandOptions;
    use trace_model::{Row, RunInfo};

    use super::RunTraits;
    use crate::language::expr::{environment, render};

    fn run() -> RunInfo {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let command_options = CommandOptions {
            reading: words(&["--cycle", "1"]),
            selection: words(&["--steps", "3-4"]),
        };
        RunInfo { path: "my run".to_owned(), command_options, ..RunInfo::default() }
    }

    #[test]
    fn unknown_trait_is_none() {
        let context = RunTraits::read(&[], &run()).context(Row::default());
        let text = "{{ run.is_training is none }} {{ 1 if run.is_training is not none else 2 }}";
        assert_eq!(render(&environment(), text, &context).as_deref(), Ok("True 2"));
    }

    #[test]
    fn commands_name_the_run_with_its_options() {
        let context = RunTraits::read(&[], &run()).context(Row::default());
        for (text, expected) in [
            ("{{ run.path }}", "\"my run\""),
            ("{{ run.input }}", "\"my run\" --cycle 1 --steps 3-4"),
            ("{{ run.whole_input }}", "\"my run\" --cycle 1"),
        ] {
            assert_eq!(render(&environment(), text, &context).as_deref(), Ok(expected));
        }
        let before = RunInfo { path: "old/".to_owned(), ..RunInfo::default() };
        let context = RunTraits::of_comparison(&before, &run()).context(Row::default());
        let text = "{{ run.before_path }} {{ run.before_input }} {{ run.path }}";
        let expected = "old/ old/ \"my run\"";
        assert_eq!(render(&environment(), text, &context).as_deref(), Ok(expected));
    }
}
