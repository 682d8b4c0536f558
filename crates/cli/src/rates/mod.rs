//! How often rules fire over many runs, and what each costs: what `advisor rules stats` shows.

mod healthy;
mod render;
mod walk;

pub use healthy::Healthy;
pub use render::{COSTS, json, markdown, text};
pub use walk::runs_below;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use trace_advisor::advisor::FiringRates;
use trace_advisor::{Cost, Report, RuleSet, Run};

/// What many runs say about the rules.
#[derive(Debug, Clone)]
pub struct Survey {
    rates: FiringRates,
    /// Code of a rule, and the table it judges.
    tables: Vec<(String, String)>,
    healthy: Healthy,
    /// Healthy runs that were judged.
    seen: Vec<String>,
    unreadable: BTreeMap<String, String>,
    /// Times by table, one a run.
    costs: BTreeMap<String, Vec<Duration>>,
    /// Time of all tables of a run, asked for together.
    together: Vec<Duration>,
}

impl Survey {
    /// No run yet.
    pub fn new(rules: &RuleSet, healthy: Healthy) -> Self {
        let tables = rules.rules().iter().map(|r| (r.code.clone(), r.table().to_owned())).collect();
        Self {
            rates: FiringRates::new(rules),
            tables,
            healthy,
            seen: Vec::new(),
            unreadable: BTreeMap::new(),
            costs: BTreeMap::new(),
            together: Vec::new(),
        }
    }

    /// Counts a run, or notes why there is nothing to count.
    pub fn add(&mut self, run: &str, report: Result<&Report, &str>) {
        match report {
            Ok(report) => {
                let is_healthy = self.healthy.contains(run);
                self.rates.add(report, is_healthy);
                if is_healthy {
                    self.seen.push(run.to_owned());
                    self.seen.sort();
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

    /// Runs that are said to be healthy and were not judged.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.healthy.runs().filter(|run| !self.seen.iter().any(|seen| seen == run))
    }

    fn charge(&mut self, costs: Vec<Cost>, together: Duration) {
        for Cost { table, elapsed } in costs {
            self.costs.entry(table).or_default().push(elapsed);
        }
        self.together.push(together);
    }
}

/// A run, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// How runs are judged.
pub(crate) struct How<'a> {
    /// So many at a time: no more are in memory.
    pub(crate) jobs: usize,
    /// Whether what rules cost is measured.
    pub(crate) with_times: bool,
    /// Told when a run is done.
    pub(crate) done: &'a (dyn Fn() + Sync),
}

/// Judges runs.
pub(crate) fn survey(runs: &[Named], rules: &RuleSet, healthy: Healthy, how: &How<'_>) -> Survey {
    let How { jobs, with_times, done } = *how;
    let survey = Mutex::new(Survey::new(rules, healthy));
    let next = AtomicUsize::new(0);
    // Threads of our own: a job of rayon's pool that waits for parts of one run would begin the next.
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, runs.len().max(1)) {
            scope.spawn(|| {
                while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let judged = judge(&run.path, rules, with_times);
                    let mut survey = survey.lock().unwrap_or_else(PoisonError::into_inner);
                    match judged {
                        Ok(Judged { report, costs, together }) => {
                            survey.add(&run.name, Ok(&report));
                            if with_times {
                                survey.charge(costs, together);
                            }
                        }
                        Err(error) => {
                            let path = run.path.display().to_string();
                            let error = error.to_string().replace(&path, &run.name);
                            survey.add(&run.name, Err(&error));
                        }
                    }
                    done();
                }
            });
        }
    });
    survey.into_inner().unwrap_or_else(PoisonError::into_inner)
}

struct Judged {
    report: Report,
    costs: Vec<Cost>,
    together: Duration,
}

fn judge(path: &Path, rules: &RuleSet, with_times: bool) -> Result<Judged, trace_advisor::Error> {
    let run = Run::open(path)?;
    let report = run.check(rules)?;
    let views = run.stages().into_iter().find(|stage| stage.name == "views");
    let together = views.map_or(Duration::ZERO, |stage| stage.elapsed);
    let costs = if with_times { run.costs(rules)? } else { Vec::new() };
    Ok(Judged { report, costs, together })
}
