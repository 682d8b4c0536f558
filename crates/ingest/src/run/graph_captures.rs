//! Traces of the capture of CUDA and HIP graphs, beside the traces of a run that launches these graphs.
//!
//! vLLM, `SGLang` and xDiT capture their graphs at the start, before the profiler runs; a trace of that time has the operators
//! that the kernels of later replays belong to.

use trace_model::{Source, Warning};

use super::discover::rank_from_file_name;
use super::rank_trace::{RankData, RankTrace};
use super::timeline::Timeline;
use crate::enrich::graphs;
use crate::formats::kineto::trace::Trace;
use crate::warnings::run_warning;

/// The traces of captures, by file.
#[derive(Default)]
pub(crate) struct GraphCaptures {
    traces: Vec<(String, Trace)>,
}

impl GraphCaptures {
    /// Takes the traces that capture graphs and launch none, unless all traces are like that.
    pub(crate) fn take_from<S: Timeline>(traces: &mut Vec<(String, RankData<S>)>) -> Self {
        let is_capture = |data: &RankData<S>| {
            data.pending().is_some_and(|trace| graphs::is_capture_trace(&trace.columns))
        };
        if traces.iter().all(|(_, data)| is_capture(data)) {
            return Self::default();
        }
        let mut captures = Self::default();
        for (file, data) in std::mem::take(traces) {
            match data {
                RankData::Pending(trace) if graphs::is_capture_trace(&trace.columns) => {
                    captures.traces.push((file, *trace));
                }
                data => traces.push((file, data)),
            }
        }
        captures
    }

    /// Gives each capture to the timeline of its rank, whose replays are linked with it.
    pub(crate) fn link<S: Timeline>(
        self,
        traces: &mut [RankTrace<RankData<S>>],
        warnings: &mut Vec<Warning>,
    ) {
        let mut linked = Vec::new();
        for (file, capture) in self.traces {
            let stated = capture
                .rank()
                .or_else(|| rank_from_file_name(&file).map(|rank| (rank, "file name")));
            let only = (traces.len() == 1).then_some(0);
            let at = match stated {
                Some((rank, _)) => traces.iter().position(|trace| trace.rank == rank),
                None => only,
            };
            let Some(at) = at.filter(|&at| traces[at].trace.pending().is_some()) else {
                let message = match stated {
                    Some((rank, _)) => format!(
                        "skipped: captures graphs of rank {rank}, of which there is no trace"
                    ),
                    None => {
                        "skipped: captures graphs, of an unknown rank (put rank<N> into its name)"
                            .to_owned()
                    }
                };
                warnings.push(run_warning("unassigned-graph-capture", file, message));
                continue;
            };
            warnings.extend(capture.warnings());
            let source = Source {
                file,
                format: "graph capture".into(),
                rank: traces[at].rank,
                rank_from: stated.map_or("the only trace", |(_, from)| from).into(),
                json_bytes: capture.json_bytes,
                events: capture.events(),
                shift_ns: 0,
            };
            traces[at].sources.push(source);
            if let RankData::Pending(trace) = &mut traces[at].trace {
                graphs::add_captures(&mut trace.columns, capture);
                linked.push(at);
            }
        }
        linked.sort_unstable();
        linked.dedup();
        for at in linked {
            if let RankData::Pending(trace) = &mut traces[at].trace {
                graphs::link_replays(&mut trace.columns);
            }
        }
    }
}
