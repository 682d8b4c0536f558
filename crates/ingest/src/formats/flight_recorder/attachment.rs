//! Dumps of the Flight Recorder in a run: the rank of each, and its place on the run's clock.

use trace_model::{Capability, Source, Warning};

use crate::error::Error;
use crate::formats::flight_recorder::{Dump, Encoding};
use crate::run::attachment::{
    Attachment, AttachmentKind, GuessedRanks, RankFile, RunBuilder, RunContext, TimelineState,
    rank_of_file,
};
use crate::run::clock::unaligned_clocks;
use crate::run::rank_from_name::trailing_number;
use crate::run::rank_trace::{RankData, RankTrace};
use crate::warnings::run_warning;

/// The dumps of a run: one for each rank.
pub(crate) struct FlightDumps {
    files: Vec<(String, Dump)>,
    assigned: Vec<AssignedDump>,
}

/// A dump with the rank that it was given.
struct AssignedDump {
    dump: Dump,
    file: String,
    rank: i32,
    rank_from: &'static str,
}

impl AssignedDump {
    fn as_rank_file(&self) -> RankFile<'_> {
        let (extent, events) = (self.dump.extent(), self.dump.records.len() as u64);
        RankFile { rank: self.rank, file: &self.file, extent, events }
    }
}

/// The number at the end of a name: `nccl_trace_3`, `fr_trace_12.json.gz`.
fn rank_at_end(file: &str) -> Option<(i32, &'static str)> {
    let name = file.rsplit('/').next()?;
    let stem = name.strip_suffix(".gz").unwrap_or(name);
    let stem =
        [".json", ".pickle", ".pkl"].iter().find_map(|end| stem.strip_suffix(end)).unwrap_or(stem);
    trailing_number(stem).map(|rank| (rank, "file name"))
}

/// The attachment that joins dumps of the Flight Recorder with timelines.
pub(crate) static ATTACHMENT: AttachmentKind = AttachmentKind {
    files: "dumps of the Flight Recorder",
    needs: TimelineState::Stored,
    adds_rows_by_rank: true,
    create: |files| Box::new(FlightDumps { files: files.contents(), assigned: Vec::new() }),
};

impl Attachment for FlightDumps {
    /// Gives each dump its rank: the one that the dump or its name states, else that of the only trace, else the lowest. Of
    /// several dumps of a rank, the latest counts.
    fn assign(
        &mut self,
        traces: &[RankTrace<RankData>],
        _: RunContext<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Error> {
        let mut guessed = GuessedRanks::new(traces);
        for (file, dump) in std::mem::take(&mut self.files) {
            warnings.extend(dump.warnings(&file));
            let stated = dump.rank.map(|rank| (rank, "dump"));
            // The name of a rank is surer than the number at the end, and that than the only trace.
            let named = rank_of_file(&file, &[]).or_else(|| rank_at_end(&file));
            let known = stated.or(named).or_else(|| rank_of_file(&file, traces));
            let (rank, rank_from) = guessed.or_guess(known);
            self.assigned.push(AssignedDump { dump, file, rank, rank_from });
        }
        warnings.extend(guessed.warning_if_unclear(traces, "dumps of the Flight Recorder"));
        self.assigned.sort_by_cached_key(|dump| {
            let end = dump.dump.extent().map(|(_, end)| end);
            (dump.rank, std::cmp::Reverse((end, dump.dump.has_stacks())), dump.file.clone())
        });
        let mut kept: Option<i32> = None;
        let mut earlier = Vec::new();
        self.assigned.retain(|dump| {
            let is_first = kept != Some(dump.rank);
            kept = Some(dump.rank);
            if !is_first {
                earlier.push(dump.file.clone());
            }
            is_first
        });
        for file in earlier {
            let message = "another dump of the Flight Recorder of the same rank is later, or has stacks: this one is not used";
            warnings.push(run_warning("earlier-dump", file, message.to_owned()));
        }
        Ok(())
    }

    fn add_to(self: Box<Self>, run: &mut RunBuilder) {
        let dumps = self.assigned;
        let files: Vec<RankFile<'_>> = dumps.iter().map(AssignedDump::as_rank_file).collect();
        let message = "the run has dumps of the Flight Recorder, but no timeline: they show which collectives ranks \
                       called last, but not how time was spent; add the profiler's traces of the same run to analyze \
                       time";
        run.begin_with(&files, message);
        for AssignedDump { dump, file, rank, rank_from } in dumps {
            if run.zero_ns.is_none() && dump.extent().is_some() {
                let message = "the traces do not state when they were recorded: the times of this dump of the Flight \
                               Recorder are left out";
                run.warnings.push(unaligned_clocks(file.clone(), message));
            }
            let shift_ns = run.zero_ns.map(|zero| -zero);
            run.info.sources.push(Source {
                file: file.clone(),
                format: match dump.encoding {
                    Encoding::Pickle => "flight recorder".into(),
                    Encoding::Json => "flight recorder JSON".into(),
                },
                is_timeline: false,
                rank,
                rank_from: rank_from.into(),
                json_bytes: dump.bytes,
                events: dump.records.len() as u64,
                shift_ns: shift_ns.unwrap_or(0),
            });
            run.capabilities.insert((rank, Capability::FlightRecords));
            dump.into_tables(&mut run.tables, rank, &file, shift_ns);
        }
    }
}
