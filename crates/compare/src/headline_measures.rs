//! The headline measures of both runs: throughput, step time, utilization, memory, loading, communication.

use arrow::array::Array;
use serde::Serialize;

use crate::categories::{Group, Parts};
use crate::memory::{DeviceMemory, MemoryDiff};
use crate::run_totals::SelectedSteps;
use crate::verdict::{Sample, Verdict};
use query::Result;
use query::Session;
use query::columns::{floats, ints};

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
                values.extend(value.filter(|_| self.has_rank(*rank)));
            }
        }
        let count = values.len() as f64;
        Ok((count > 0.0).then(|| values.iter().sum::<f64>() / count))
    }

    fn has_rank(self, rank: i64) -> bool {
        self.selected.ranks.contains(&(rank as i32))
    }

    /// Whether a table has a row of the ranks that are compared.
    fn has_rows(self, table: &str) -> Result<bool> {
        for batch in self.session.sql(&format!("SELECT DISTINCT rank FROM {table}"))? {
            if ints(&batch, "rank")?.values().iter().any(|rank| self.has_rank(*rank)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reason why no step can be measured.
    fn why_no_steps(self) -> &'static str {
        if self.selected.is_marked() { ONE_SIDED } else { "no steps are marked" }
    }

    fn why_no_gpu_time(self) -> Result<&'static str> {
        Ok(if self.parts.is_none() {
            self.why_no_steps()
        } else if self.has_rows("device_activities")? {
            "the GPU runs nothing in these steps"
        } else {
            "no GPU activity was recorded"
        })
    }

    fn why_no_communication(self) -> Result<&'static str> {
        Ok(if self.parts.is_none() {
            self.why_no_steps()
        } else if self.has_rows("device_activities")? {
            "the GPU runs nothing in these steps"
        } else if self.selected.is_complete {
            "neither GPU activity nor communication of the host was recorded"
        } else {
            "without GPU activity it is known only for all steps together"
        })
    }

    fn utilization(self) -> Result<Measured> {
        match self.share(Group::Device, "idle") {
            Some(idle) => Ok(Ok(1.0 - idle)),
            None => Ok(Err(self.why_no_gpu_time()?)),
        }
    }

    /// From device activities of the ranks that recorded them, else from ranges on the host.
    fn exposed_communication(self) -> Result<Measured> {
        let mut share = self.share(Group::Device, "communication");
        if share.is_none() && self.mean_of("comm_exposed", "comm_ns")?.is_some_and(|ns| ns > 0.0) {
            share = self.mean_of("comm_exposed", "exposed_ratio")?;
        }
        match share {
            Some(share) => Ok(Ok(share)),
            None => Ok(Err(self.why_no_communication()?)),
        }
    }

    fn why_no_phases(self) -> &'static str {
        if self.parts.is_none() { self.why_no_steps() } else { "its steps have no duration" }
    }

    /// Most memory allocated at once on one device in the whole recording, or the reason why that is not known.
    fn memory_peak(self) -> Result<Measured> {
        let (mut peak, mut has_events, mut has_device) = (None, false, false);
        for batch in self.session.analyze("memory_summary")? {
            let (ranks, devices) = (ints(&batch, "rank")?, ints(&batch, "device")?);
            let bytes = floats(&batch, "peak_allocated_bytes")?;
            for i in (0..batch.num_rows()).filter(|i| self.has_rank(ranks.value(*i))) {
                has_events = true;
                if devices.value(i) >= 0 {
                    has_device = true;
                    let of_device = bytes.is_valid(i).then(|| bytes.value(i));
                    peak = of_device.into_iter().chain(peak).reduce(f64::max);
                }
            }
        }
        Ok(peak.ok_or(match (has_events, has_device) {
            (false, _) => "no memory events were recorded (`profile_memory=True`)",
            (true, false) => "the memory events are of the CPU only",
            (true, true) => "the memory events have no totals (torch 1.9 and older)",
        }))
    }
}

/// The reason for a run with steps that is compared with one without.
const ONE_SIDED: &str = "the other run marks no steps";

/// The measures, in the order of the report.
pub(super) fn headline_measures(
    before: MeasuredRun<'_>,
    after: MeasuredRun<'_>,
    verdict: &Verdict,
) -> Result<Vec<Measure>> {
    let runs = [before, after];
    let step = |value: fn(&Sample) -> f64| {
        [(&verdict.before, before), (&verdict.after, after)].map(|(sample, run)| {
            let value = sample.as_ref().map(value).filter(|v| *v > 0.0 && v.is_finite());
            let why =
                if sample.is_some() { "its steps have no duration" } else { run.why_no_steps() };
            value.ok_or(why)
        })
    };
    let samples = [
        before.mean_of("trainer_throughput", "samples_per_s")?,
        after.mean_of("trainer_throughput", "samples_per_s")?,
    ];
    let throughput = if let [Some(before), Some(after)] = samples {
        let doc = "samples of all batches over all time accounted for, loading included";
        Measure::new("throughput", "samples/s", doc, [Ok(before), Ok(after)], true)
    } else {
        let doc = "one over the mean step; pauses between steps are left out";
        Measure::new("throughput", "steps/s", doc, step(|s| 1e9 / s.mean_ns), true)
    };
    // Absent, not zero, if no step has phases.
    let loading = runs.map(|run| {
        let part = run.part(Group::Host, "dataloader").zip(run.sum(Group::Host));
        part.map(|(part, sum)| part / sum).ok_or_else(|| run.why_no_phases())
    });
    Ok(vec![
        throughput,
        Measure::new(
            "step_median",
            "ns",
            "median step, each as long as on its slowest rank",
            step(|s| s.median_ns),
            false,
        ),
        Measure::new(
            "step_p95",
            "ns",
            "the time that 95 % of the steps do not exceed",
            step(|s| s.p95_ns),
            false,
        ),
        Measure::new(
            "gpu_utilization",
            "ratio",
            "share of the step in which a kernel, copy or fill runs on the devices of a rank; mean over steps and ranks",
            [before.utilization()?, after.utilization()?],
            true,
        ),
        Measure::memory_peak([before.memory_peak()?, after.memory_peak()?]),
        Measure::new(
            "data_loading",
            "ratio",
            "share of the step in which the loop waits for the next batch; mean over steps and ranks",
            loading,
            false,
        ),
        Measure::new(
            "exposed_communication",
            "ratio",
            "share of the step in which communication goes on and no computation beside it; mean over steps and ranks",
            [before.exposed_communication()?, after.exposed_communication()?],
            false,
        ),
    ])
}

/// The value of a measure in one run, or the reason why it has none.
type Measured = std::result::Result<f64, &'static str>;

/// The measures of a comparison of memory alone.
pub(super) fn memory_measures(memory: &MemoryDiff) -> Vec<Measure> {
    let most = |bytes: fn(&DeviceMemory) -> i64| {
        let most = memory.devices.iter().map(bytes).max();
        most.map(|bytes| bytes as f64).ok_or("no memory was recorded")
    };
    vec![Measure::memory_peak([
        most(|device| device.before_bytes),
        most(|device| device.after_bytes),
    ])]
}

impl Measure {
    fn memory_peak(values: [Measured; 2]) -> Self {
        Self::new("memory_peak", "bytes", "most memory allocated on one device", values, false)
    }

    fn new(
        name: &'static str,
        unit: &'static str,
        doc: &'static str,
        [before, after]: [Measured; 2],
        more_is_better: bool,
    ) -> Self {
        let reason = match (before, after) {
            (Ok(_), Ok(_)) => None,
            (Err(before), Err(after)) if before == after => Some(format!("both runs: {before}")),
            (Err(before), Err(after)) => Some(format!("before: {before}; after: {after}")),
            (Err(before), Ok(_)) => Some(format!("before: {before}")),
            (Ok(_), Err(after)) => Some(format!("after: {after}")),
        };
        let (before, after) = (before.ok(), after.ok());
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
        let make = |values| Measure::new("memory_peak", "bytes", "", values, false);
        let both = make([Ok(4.0), Ok(6.0)]);
        assert!((both.change_ratio.unwrap() - 0.5).abs() < 1e-12 && both.reason.is_none());
        let one = make([Err("nothing recorded"), Ok(6.0)]);
        assert_eq!(one.reason.as_deref(), Some("before: nothing recorded"));
        assert!(one.change_ratio.is_none());
        let none = make([Err("nothing recorded"), Err("nothing recorded")]);
        assert_eq!(none.reason.as_deref(), Some("both runs: nothing recorded"));
        let other = make([Err("nothing recorded"), Err("no totals")]);
        assert_eq!(other.reason.as_deref(), Some("before: nothing recorded; after: no totals"));
        assert!(make([Ok(0.0), Ok(6.0)]).change_ratio.is_none(), "nothing to divide by");
    }
}
