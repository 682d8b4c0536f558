//! Annotations of CUDA graphs of a run. Each file belongs to a rank; the device activities of the rank get the modules of their
//! nodes.

use rustc_hash::FxHashMap;
use trace_model::{Source, StrId, Warning};

use super::MarkedNodes;
use crate::error::Error;
use crate::options::Options;
use crate::run::attachment::{
    Attachment, AttachmentKind, RankTraces, RunBuilder, RunContext, TimelineState, rank_of_file,
};
use crate::run::rank_trace::{RankData, RankTrace};
use crate::timeline::columns::Columns;
use crate::warnings::run_warning;

/// The annotations of a run.
struct RunAnnotations {
    files: Vec<(String, MarkedNodes)>,
    sources: Vec<Source>,
}

/// The attachment that joins annotations with timelines.
pub(crate) static ATTACHMENT: AttachmentKind = AttachmentKind {
    files: "annotations of CUDA graphs",
    needs: TimelineState::InMemory,
    adds_rows_by_rank: false,
    create: |files| Box::new(RunAnnotations { files: files.contents(), sources: Vec::new() }),
};

impl Attachment for RunAnnotations {
    fn join(
        &mut self,
        mut traces: RankTraces,
        _: &Options,
        warnings: &mut Vec<Warning>,
    ) -> Result<(RankTraces, RankTraces), Error> {
        // Without timelines, `assign` reports the files.
        if traces.is_empty() {
            return Ok((Vec::new(), traces));
        }
        for (file, nodes) in std::mem::take(&mut self.files) {
            let Some((rank, rank_from)) = rank_of_file(&file, &traces) else {
                let message = "skipped: the rank of these annotations is unknown (put rank<N> into their name)";
                warnings.push(run_warning("unassigned-annotations", file, message.to_owned()));
                continue;
            };
            let own = traces.iter_mut().filter(|trace| trace.rank == rank);
            let (mut has_timeline, mut named_count) = (false, 0);
            for RankTrace { trace, .. } in own {
                has_timeline = true;
                if let RankData::Pending(trace) = trace {
                    named_count += nodes.name_modules(&mut trace.columns);
                }
            }
            if !has_timeline {
                let message =
                    format!("skipped: annotations of rank {rank}, of which there is no trace");
                warnings.push(run_warning("unassigned-annotations", file, message));
                continue;
            }
            if named_count == 0 && !nodes.modules.is_empty() {
                let message = format!(
                    "none of its {} nodes was replayed in the trace of rank {rank}: recorded by another process, or \
                     without node ids (PyTorch before 2026)",
                    nodes.node_count
                );
                warnings.push(run_warning("unused-annotations", file.clone(), message));
            }
            self.sources.push(nodes.source(file, rank, rank_from));
        }
        Ok((Vec::new(), traces))
    }

    fn assign(
        &mut self,
        _: &[RankTrace<RankData>],
        run: RunContext<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Error> {
        const ALONE: &str =
            "annotations of CUDA graphs hold no times: add the profiler's trace of their replays";
        let mut left = std::mem::take(&mut self.files).into_iter().map(|(file, _)| file);
        if !run.has_other_files
            && let Some(file) = left.next()
        {
            return Err(Error::Unusable { file, reason: ALONE.to_owned() });
        }
        warnings
            .extend(left.map(|file| run_warning("unassigned-annotations", file, ALONE.to_owned())));
        Ok(())
    }

    fn add_to(self: Box<Self>, run: &mut RunBuilder) {
        run.info.sources.extend(self.sources);
    }
}

impl MarkedNodes {
    /// Sets the module of the activities of marked nodes. Returns the number of these activities.
    fn name_modules(&self, columns: &mut Columns) -> usize {
        let strings = &mut columns.strings;
        let modules: FxHashMap<i64, StrId> =
            self.modules.iter().map(|(&node, module)| (node, strings.intern(module))).collect();
        let mut count = 0;
        macro_rules! name_rows {
            ($($table:ident),+) => { $(
                let t = &mut columns.$table;
                for row in 0..t.len() {
                    if let Some(&module) = modules.get(&t.graph_node_id.get(row)) {
                        t.module.set(row, module);
                        count += 1;
                    }
                }
            )+ };
        }
        name_rows!(kernels, memcpys, memsets);
        count
    }

    fn source(&self, file: String, rank: i32, rank_from: &'static str) -> Source {
        Source {
            file,
            format: "kernel annotations".into(),
            is_timeline: false,
            rank,
            rank_from: rank_from.into(),
            json_bytes: self.bytes,
            events: self.node_count,
            shift_ns: 0,
        }
    }
}
