//! Traces of the capture of CUDA and HIP graphs, beside the traces of a run that launches these graphs.
//!
//! vLLM, `SGLang` and xDiT capture their graphs at the start, before the profiler runs; a trace of that time has the operators
//! that the kernels of later replays belong to.

use std::collections::BTreeMap;

use trace_model::{Source, Warning};

use super::attachment::rank_of_file;
use super::discover::may_hold_captures;
use super::rank_trace::{RankData, RankTrace};
use crate::enrich::graphs::{self, GraphUse};
use crate::timeline::trace::Trace;
use crate::warnings::run_warning;

/// The traces of captures, by file.
#[derive(Default)]
pub(crate) struct GraphCaptures {
    traces: Vec<(String, Trace)>,
}

impl GraphCaptures {
    /// Takes the traces that capture graphs and launch none, unless all traces are like that. A server may launch each graph
    /// that it has captured to try it: if another trace launches graphs and captures none, also a trace that launches graphs
    /// is one of captures, if its name says so.
    pub(crate) fn take_from(traces: &mut Vec<(String, RankData)>) -> Self {
        let use_of_graphs = |data: &RankData| {
            data.pending().map_or(GraphUse::default(), |trace| GraphUse::of(&trace.columns))
        };
        let uses: Vec<GraphUse> = traces.iter().map(|(_, data)| use_of_graphs(data)).collect();
        let has_replays = uses.iter().any(|used| used.has_launches && !used.has_captures);
        let is_capture = |((file, _), used): (&(String, RankData), &GraphUse)| {
            used.has_captures && (!used.has_launches || (has_replays && may_hold_captures(file)))
        };
        let kinds: Vec<bool> = traces.iter().zip(&uses).map(is_capture).collect();
        if !kinds.contains(&false) {
            return Self::default();
        }
        let mut captures = Self::default();
        for ((file, data), is_capture) in std::mem::take(traces).into_iter().zip(kinds) {
            match data {
                RankData::Pending(trace) if is_capture => captures.traces.push((file, *trace)),
                data => traces.push((file, data)),
            }
        }
        captures
    }

    /// Gives each capture to the timeline of its rank, whose replays are linked with it.
    pub(crate) fn link(self, traces: &mut [RankTrace<RankData>], warnings: &mut Vec<Warning>) {
        let mut by_timeline: BTreeMap<usize, Vec<Trace>> = BTreeMap::new();
        for (file, capture) in self.traces {
            let stated = capture.rank().or_else(|| rank_of_file(&file, traces));
            let is_own = |trace: &RankTrace<RankData>| {
                Some(trace.rank) == stated.map(|(rank, _)| rank) && trace.trace.pending().is_some()
            };
            let Some((at, (rank, rank_from))) = traces.iter().position(is_own).zip(stated) else {
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
            traces[at].sources.push(Source {
                file,
                format: "graph capture".into(),
                is_timeline: false,
                rank,
                rank_from: rank_from.into(),
                json_bytes: capture.json_bytes,
                events: capture.events(),
                shift_ns: 0,
            });
            by_timeline.entry(at).or_default().push(capture);
        }
        for (at, captures) in by_timeline {
            if let RankData::Pending(trace) = &mut traces[at].trace {
                graphs::add_captures(&mut trace.columns, captures);
            }
        }
    }
}
