//! Puts the timelines of all ranks on one clock.

use trace_model::{Source, Warning};

use super::attachment::{RunBuilder, TimelineSummary};
use super::rank_trace::RankTrace;
use crate::timeline::placement::{Placement, Timeline};
use crate::warnings::run_warning;

/// Relation of the clocks of all ranks.
struct RunClock {
    is_single: bool,
    /// Absolute time of the first event of the run.
    zero_ns: Option<i64>,
    /// Start of the earliest trace, as written.
    first_start_ns: i64,
    /// All traces overlap, as written.
    overlaps: bool,
}

impl RunClock {
    fn new<T: Timeline>(traces: &[RankTrace<T>]) -> Self {
        let starts = || traces.iter().map(|trace| trace.trace.extent().0);
        let ends = traces.iter().map(|trace| trace.trace.extent().1);
        let absolute_starts = traces
            .iter()
            .filter_map(|trace| trace.base_time_ns().map(|base| base + trace.trace.extent().0));
        Self {
            is_single: traces.len() == 1,
            zero_ns: absolute_starts.min(),
            first_start_ns: starts().min().unwrap_or(0),
            overlaps: starts().max() < ends.min(),
        }
    }

    fn place<T: Timeline>(&self, trace: &RankTrace<T>) -> Placement {
        let start_ns = trace.trace.extent().0;
        let (shift_ns, base_time_ns, clock) = match (trace.base_time_ns(), self.zero_ns) {
            (Some(base), Some(zero)) => {
                let clock = match (self.is_single, trace.is_synchronized) {
                    (true, _) => "single",
                    (false, true) => "synchronized",
                    (false, false) => "absolute",
                };
                (base - zero, Some(zero), clock)
            }
            _ if self.is_single => (-start_ns, None, "single"),
            // Without absolute times, traces that overlap as written probably share a clock.
            _ if self.overlaps && self.zero_ns.is_none() => {
                (-self.first_start_ns, None, "relative")
            }
            _ => (-start_ns, None, "relative"),
        };
        Placement { rank: trace.rank, shift_ns, base_time_ns, clock }
    }
}

/// Determines the placement of each trace, and adds what is known of the run from its timelines to `run`.
pub(crate) fn place<T: Timeline>(
    traces: Vec<RankTrace<T>>,
    run: &mut RunBuilder,
) -> Vec<(T, Placement)> {
    let clock = RunClock::new(&traces);
    let all_absolute = traces.iter().all(|trace| trace.base_time_ns().is_some());
    run.zero_ns = clock.zero_ns;
    run.has_clock = !traces.is_empty();
    let mut placed = Vec::with_capacity(traces.len());
    for trace in traces {
        let placement = clock.place(&trace);
        let RankTrace { trace, rank, sources, .. } = trace;
        let shift_ns = placement.shift_ns;
        run.warnings.extend(trace.warnings());
        run.info.ranks.push(rank);
        run.info.steps = run.info.steps.max(trace.step_count());
        run.info.wall_ns = run.info.wall_ns.max(trace.extent().1 + shift_ns);
        run.info.sources.extend(
            sources
                .into_iter()
                .map(|source| Source { shift_ns: source.shift_ns + shift_ns, ..source }),
        );
        let mut steps = trace.steps().clone();
        steps.ts_ns.0.iter_mut().for_each(|ts_ns| *ts_ns += shift_ns);
        run.timelines.push(TimelineSummary { rank, lane_count: trace.lane_count(), steps });
        placed.push((trace, placement));
    }
    if run.has_clock && !clock.is_single && !all_absolute {
        run.warnings.push(unaligned_clocks(
            String::new(),
            "the traces do not state when they were recorded: times of different ranks cannot be compared",
        ));
    }
    placed
}

/// Warns that times of a file, or of the run, are not on a common clock.
pub(crate) fn unaligned_clocks(file: String, message: &str) -> Warning {
    run_warning("unaligned-clocks", file, message.to_owned())
}
