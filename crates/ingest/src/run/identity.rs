//! What a trace says about the process and the program that it was recorded from.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use trace_model::StrId;
use trace_model::vocabulary::{is_collective_range, is_communication_kernel};

use crate::timeline::trace::Trace;

/// Programs with fewer distinct operators than this are not compared.
const MIN_OPERATORS: usize = 20;

/// The process and the program behind a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TraceIdentity {
    /// Id of the process with the most operators, after its host if that is stated.
    pub(crate) process: Option<String>,
    /// Distinct names of the devices of the machine.
    pub(crate) devices: BTreeSet<String>,
    /// Names of operators.
    pub(crate) operators: BTreeSet<String>,
    /// Whether it communicates with other ranks.
    pub(crate) has_collectives: bool,
    /// Whether it holds operators, runtime calls or Python frames.
    pub(crate) has_host_events: bool,
    /// Whether it holds kernels or copies of a device.
    pub(crate) has_device_events: bool,
}

impl TraceIdentity {
    pub(crate) fn new(trace: &Trace) -> Self {
        let columns = &trace.columns;
        let strings = &columns.strings;
        let lane_counts = columns.lane_counts();
        let busiest = (0..lane_counts.len()).max_by_key(|&lane| lane_counts[lane]);
        let process = busiest.filter(|&lane| lane_counts[lane] > 0).map(|lane| {
            let pid = strings.get(columns.lanes[lane].0);
            let host = trace.metadata.host.as_deref().unwrap_or_default();
            format!("{host} {pid}").trim_start().to_owned()
        });
        let distinct = |names: &[StrId]| -> Vec<&str> {
            let names: FxHashSet<StrId> = names.iter().copied().collect();
            names.into_iter().map(|name| strings.get(name)).collect()
        };
        let operators = distinct(&columns.cpu_ops.name.0);
        let has_ranges = operators.iter().any(|name| is_collective_range(name))
            || distinct(&columns.annotations.name.0).into_iter().any(is_collective_range);
        let devices = trace.metadata.devices.iter().map(|device| device.name.clone());
        Self {
            process,
            devices: devices.filter(|name| !name.is_empty()).collect(),
            has_collectives: has_ranges
                || !columns.collectives.is_empty()
                || distinct(&columns.kernels.name.0).into_iter().any(is_communication_kernel),
            has_host_events: !(columns.cpu_ops.is_empty()
                && columns.runtime_calls.is_empty()
                && columns.python_frames.is_empty()),
            has_device_events: trace.has_device_work(),
            operators: operators.into_iter().map(str::to_owned).collect(),
        }
    }

    /// The activities that it holds and the other does not, as words; `None` if the other holds all kinds that it does.
    pub(crate) fn activities_beyond(&self, other: &Self) -> Option<&'static str> {
        if self.has_device_events && !other.has_device_events {
            return Some("GPU activities");
        }
        (self.has_host_events && !other.has_host_events)
            .then_some("operators and calls of the host")
    }

    /// Share of the operators of both that both have; `None` if one has too few to tell.
    pub(crate) fn common_operators_ratio(&self, other: &Self) -> Option<f64> {
        let (a, b) = (&self.operators, &other.operators);
        let is_enough = a.len() >= MIN_OPERATORS && b.len() >= MIN_OPERATORS;
        is_enough.then(|| a.intersection(b).count() as f64 / a.union(b).count() as f64)
    }
}
