//! Checks many runs and counts the verdicts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use trace_advisor::advisor::FiringRates;
use trace_advisor::query::per_item_on;
use trace_advisor::{Cost, Error, Report, RuleSet, Run, ingest};

use super::healthy::Healthy;

/// Verdicts and costs of rules over many runs.
#[derive(Debug, Clone)]
pub struct Survey {
    pub(super) rates: FiringRates,
    /// Code of each rule, and the table that it evaluates.
    pub(super) tables: Vec<(String, String)>,
    pub(super) healthy: Healthy,
    /// Healthy runs that were checked.
    pub(super) checked_healthy: Vec<String>,
    pub(super) unreadable: BTreeMap<String, String>,
    /// Time to compute each table, one per run.
    pub(super) costs: BTreeMap<String, Vec<Duration>>,
    /// Time to compute all tables of a run together.
    pub(super) total_costs: Vec<Duration>,
}

impl Survey {
    /// A survey without runs.
    pub fn new(rules: &RuleSet, healthy: Healthy) -> Self {
        let tables = rules.rules().iter().map(|r| (r.code.clone(), r.table().to_owned())).collect();
        Self {
            rates: FiringRates::new(rules),
            tables,
            healthy,
            checked_healthy: Vec::new(),
            unreadable: BTreeMap::new(),
            costs: BTreeMap::new(),
            total_costs: Vec::new(),
        }
    }

    /// Counts the verdicts of a run, or records why it could not be checked.
    pub fn add(&mut self, run: &str, report: Result<&Report, &str>) {
        match report {
            Ok(report) => {
                let is_healthy = self.healthy.contains(run);
                self.rates.add(report, is_healthy);
                if is_healthy {
                    self.checked_healthy.push(run.to_owned());
                    self.checked_healthy.sort();
                }
            }
            Err(error) => {
                let line = error.lines().next().unwrap_or_default().to_owned();
                self.unreadable.insert(run.to_owned(), line);
            }
        }
    }

    /// The counts.
    pub fn rates(&self) -> &FiringRates {
        &self.rates
    }

    /// Runs listed as healthy that were not checked.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.healthy.runs().filter(|run| !self.checked_healthy.iter().any(|checked| checked == run))
    }

    fn add_costs(&mut self, costs: Vec<Cost>, total: Duration) {
        for Cost { table, elapsed } in costs {
            self.costs.entry(table).or_default().push(elapsed);
        }
        self.total_costs.push(total);
    }
}

/// A run and its name in the survey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedRun {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// Options of a survey.
pub(crate) struct SurveyOptions<'a> {
    /// Number of runs checked at once, all of which are in memory.
    pub(crate) jobs: usize,
    /// Whether to measure what rules cost.
    pub(crate) with_times: bool,
    /// Called when a run is done.
    pub(crate) on_run_done: &'a (dyn Fn() + Sync),
}

/// Checks runs and counts the verdicts.
pub(crate) fn survey(
    runs: &[NamedRun],
    rules: &RuleSet,
    healthy: Healthy,
    options: &SurveyOptions<'_>,
) -> Survey {
    let SurveyOptions { jobs, with_times, on_run_done } = *options;
    let survey = Mutex::new(Survey::new(rules, healthy));
    // Not on rayon's pool, where a job that waits for parts of one run would start on the next run.
    per_item_on(jobs, runs.iter().collect(), |run| {
        add_run(run, rules, with_times, &survey);
        on_run_done();
    });
    survey.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Checks a run, or each of the runs that its path holds, and adds what came of it.
fn add_run(run: &NamedRun, rules: &RuleSet, with_times: bool, survey: &Mutex<Survey>) {
    let checked = check(&run.path, rules, with_times);
    if let Err(Error::Ingest(ingest::Error::SeveralRuns { folder, runs, .. })) = &checked {
        for part in runs {
            let part =
                NamedRun { name: part.path(&run.name), path: PathBuf::from(part.path(folder)) };
            add_run(&part, rules, with_times, survey);
        }
        return;
    }
    let mut survey = survey.lock().unwrap_or_else(PoisonError::into_inner);
    match checked {
        Ok(CheckedRun { report, costs, total_cost }) => {
            survey.add(&run.name, Ok(&report));
            if with_times {
                survey.add_costs(costs, total_cost);
            }
        }
        Err(error) => {
            let path = run.path.display().to_string();
            let error = error.to_string().replace(&path, &run.name);
            survey.add(&run.name, Err(&error));
        }
    }
}

struct CheckedRun {
    report: Report,
    costs: Vec<Cost>,
    total_cost: Duration,
}

fn check(path: &Path, rules: &RuleSet, with_times: bool) -> Result<CheckedRun, Error> {
    let run = Run::open(path)?;
    let report = run.check(rules)?;
    let views = run.stages().into_iter().find(|stage| stage.name == "views");
    let total_cost = views.map_or(Duration::ZERO, |stage| stage.elapsed);
    let costs = if with_times { run.costs(rules)? } else { Vec::new() };
    Ok(CheckedRun { report, costs, total_cost })
}
