//! The headline measures of both runs: throughput, step time, utilization, memory, loading, communication.

use serde::Serialize;

use crate::categories::{Group, Parts};
use crate::columns::{floats, ints};
use crate::run_totals::SelectedSteps;
use crate::verdict::{Sample, Verdict};
use query::Result;
use query::Session;

/// One measure, before and after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measure {
    /// The name: `throughput`, `step_median`, `step_p95`, `gpu_utilization`, `memory_peak`, `data_loading`,
    /// `exposed_communication`.
    pub name: &'static str,
    /// `samples/s`, `steps/s`, `ns`, `bytes` or `ratio`.
    pub unit: &'static str,
    /// Definition of the measure.
    pub doc: &'static str,
    /// Before; absent if that run did not record it.
    pub before: Option<f64>,
    /// After.
    pub after: Option<f64>,
    /// Change over the value before.
    pub change_ratio: Option<f64>,
    /// Whether more is better.
    pub more_is_better: bool,
    /// The reason why a value is absent.
    pub reason: Option<String>,
}

/// One of the two runs.
#[derive(Clone, Copy)]
pub(super) struct MeasuredRun<'a> {
    pub(super) session: &'a Session,
    pub(super) selected: &'a SelectedSteps,
    /// Absent if recordings were compared because only one of the runs has steps.
    pub(super) parts: Option<&'a Parts>,
}

impl MeasuredRun<'_> {
    fn sum(self, group: Group) -> Option<f64> {
        let parts = self.parts?.iter().filter(|((g, _), _)| *g == group);
        let parts: Vec<f64> = parts.map(|(_, ns)| *ns).collect();
        (!parts.is_empty()).then(|| parts.iter().sum::<f64>()).filter(|ns| *ns > 0.0)
    }

    fn part(self, group: Group, name: &str) -> Option<f64> {
        self.parts?.iter().find(|((g, n), _)| *g == group && *n == name).map(|(_, v)| *v)
    }

    fn share(self, group: Group, name: &str) -> Option<f64> {
        let sum = self.sum(group)?;
        Some(self.part(group, name).unwrap_or(0.0) / sum)
    }

    /// Mean of a column over ranks. The column covers the whole run, so there is no mean unless all steps are selected.
    fn mean_of(self, view: &str, column: &str) -> Result<Option<f64>> {
        if !self.selected.is_complete {
            return Ok(None);
        }
        let mut values = Vec::new();
        for batch in self.session.analyze(view)? {
            let ranks = ints(&batch, "rank")?;
            for (rank, value) in ranks.values().iter().zip(&floats(&batch, column)?) {
                values.extend(value.filter(|_| self.selected.ranks.contains(&(*rank as i32))));
            }
        }
        let count = values.len() as f64;
        Ok((count > 0.0).then(|| values.iter().sum::<f64>() / count))
    }
}

/// The measures, in the order of the report.
pub(super) fn headline_measures(
    before: MeasuredRun<'_>,
    after: MeasuredRun<'_>,
    verdict: &Verdict,
) -> Result<Vec<Measure>> {
    let step = |value: fn(&Sample) -> f64| {
        let of =
            |side: &Option<Sample>| side.as_ref().map(value).filter(|v| *v > 0.0 && v.is_finite());
        (of(&verdict.before), of(&verdict.after))
    };
    let both = |value: &dyn Fn(MeasuredRun<'_>) -> Option<f64>| (value(before), value(after));
    let no_steps = "no steps are marked";
    let mixed = before.parts.is_none();
    let no_device = "no device activity was recorded";

    let samples = (
        before.mean_of("trainer_throughput", "samples_per_s")?,
        after.mean_of("trainer_throughput", "samples_per_s")?,
    );
    let throughput = if samples.0.is_some() && samples.1.is_some() {
        let doc = "samples of all batches over all time accounted for, loading included";
        Measure::new("throughput", "samples/s", doc, samples, true, no_steps)
    } else {
        let doc = "one over the mean step; pauses between steps are left out";
        let rate = step(|s| 1e9 / s.mean_ns);
        Measure::new("throughput", "steps/s", doc, rate, true, no_steps)
    };
    // Absent, not zero, if no step has phases.
    let loading = both(&|run| Some(run.part(Group::Host, "dataloader")? / run.sum(Group::Host)?));
    let memory = both(&|run| run.part(Group::Memory, "peak_allocated"));
    // From device activities of the ranks that recorded them, else from ranges on the host.
    let mut exposed = both(&|run| run.share(Group::Device, "communication"));
    for (value, run) in [(&mut exposed.0, before), (&mut exposed.1, after)] {
        if value.is_none() && run.mean_of("comm_exposed", "comm_ns")?.is_some_and(|ns| ns > 0.0) {
            *value = run.mean_of("comm_exposed", "exposed_ratio")?;
        }
    }
    let mut measures = vec![
        throughput,
        Measure::new(
            "step_median",
            "ns",
            "median step, each as long as on its slowest rank; warm-up left out",
            step(|s| s.median_ns),
            false,
            no_steps,
        ),
        Measure::new(
            "step_p95",
            "ns",
            "the time that 95 % of the steps do not exceed",
            step(|s| s.p95_ns),
            false,
            no_steps,
        ),
        Measure::new(
            "gpu_utilization",
            "ratio",
            "share of the step in which a kernel, copy or fill runs on the devices of a rank; mean over steps and ranks",
            both(&|run| run.share(Group::Device, "idle").map(|idle| 1.0 - idle)),
            true,
            no_device,
        ),
        Measure::new(
            "memory_peak",
            "bytes",
            "most memory allocated on one device",
            memory,
            false,
            "no memory events were recorded (`profile_memory=True`)",
        ),
        Measure::new(
            "data_loading",
            "ratio",
            "share of the step in which the loop waits for the next batch; mean over steps and ranks",
            loading,
            false,
            "nothing says what a step consists of",
        ),
        Measure::new(
            "exposed_communication",
            "ratio",
            "share of the step in which communication goes on and no computation beside it; mean over steps and ranks",
            exposed,
            false,
            "neither device activity nor communication on the host was recorded",
        ),
    ];
    if mixed {
        for measure in measures.iter_mut().filter(|m| m.before.is_none() && m.after.is_none()) {
            measure.reason = Some("only one of the runs marks steps".to_owned());
        }
    }
    Ok(measures)
}

impl Measure {
    fn new(
        name: &'static str,
        unit: &'static str,
        doc: &'static str,
        (before, after): (Option<f64>, Option<f64>),
        more_is_better: bool,
        why_absent: &str,
    ) -> Self {
        let which = match (before.is_some(), after.is_some()) {
            (true, true) => None,
            (false, false) => Some("in either run"),
            (false, true) => Some("in the run before"),
            (true, false) => Some("in the run after"),
        };
        let reason = which.map(|which| format!("{why_absent} {which}"));
        let pair = before.zip(after).filter(|(b, _)| *b > 0.0);
        let change_ratio = pair.map(|(b, a)| a / b - 1.0);
        Self { name, unit, doc, before, after, change_ratio, more_is_better, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::Measure;

    #[test]
    fn new_names_the_run_that_lacks_the_measure() {
        let make =
            |values| Measure::new("memory_peak", "bytes", "", values, false, "nothing recorded");
        let both = make((Some(4.0), Some(6.0)));
        assert!((both.change_ratio.unwrap() - 0.5).abs() < 1e-12 && both.reason.is_none());
        let one = make((None, Some(6.0)));
        assert_eq!(one.reason.as_deref(), Some("nothing recorded in the run before"));
        assert!(one.change_ratio.is_none());
        assert!(make((Some(0.0), Some(6.0))).change_ratio.is_none(), "nothing to divide by");
    }
}
