//! Files that add to the timelines of a run. Each format has its own attachment, beside what reads its files.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

use trace_model::column::NULL_I64;
use trace_model::tables::{Rank, Ranks, Steps};
use trace_model::{Capability, RunInfo, Strings, TableSet, Warning};

use super::rank_from_name::rank_from_file_name;
use super::rank_trace::{RankData, RankTrace};
use crate::error::Error;
use crate::options::Options;
use crate::warnings::run_warning;

/// All timelines of a run.
pub(crate) type RankTraces = Vec<RankTrace<RankData>>;

/// A kind of files that add to timelines.
pub(crate) struct AttachmentKind {
    /// The files, as a noun phrase in the plural: `execution traces`.
    pub(crate) files: &'static str,
    /// State in which timelines wait for files of this kind.
    pub(crate) needs: TimelineState,
    /// Rows of its files are added in ascending order of ranks.
    pub(crate) adds_rows_by_rank: bool,
    /// Creates an attachment of the files of this kind.
    pub(crate) create: fn(AttachedFiles) -> Box<dyn Attachment>,
}

impl AttachmentKind {
    /// Returns whether two importers have the same attachment.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.files == other.files
    }
}

/// The files of one kind with their contents, in the order in which they were found.
#[derive(Default)]
pub(crate) struct AttachedFiles(Vec<(String, Box<dyn Any + Send>)>);

impl AttachedFiles {
    pub(crate) fn push(&mut self, file: String, content: Box<dyn Any + Send>) {
        self.0.push((file, content));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The contents in the type that the importers of the kind return.
    ///
    /// # Panics
    /// If an importer returned another type: a mistake in the code of the format.
    pub(crate) fn contents<T: Any>(self) -> Vec<(String, T)> {
        let content =
            |content: Box<dyn Any + Send>| *content.downcast().expect("one type of content");
        self.0.into_iter().map(|(file, any)| (file, content(any))).collect()
    }
}

/// State of the timelines of a run while other files are read. What a later state needs, an earlier one cannot give.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimelineState {
    /// Complete and in the sink, as soon as the own file is read.
    #[default]
    Stored,
    /// Complete and in memory.
    InMemory,
    /// In memory, as written: not enriched.
    AsWritten,
}

/// Properties of a run that all attachments can read.
#[derive(Clone, Copy)]
pub(crate) struct RunContext<'a> {
    pub(crate) options: &'a Options,
    /// Name of the run in errors.
    pub(crate) name: &'a str,
    /// The run has timelines, or files of another kind.
    pub(crate) has_other_files: bool,
}

/// The files of one kind, at least one. The reader calls the three methods in this order, each for all kinds.
pub(crate) trait Attachment {
    /// Merges the files into the timelines that they belong to, before one cycle of each rank is chosen. Timelines are in the
    /// state that [`AttachmentKind::needs`] asks for. Returns the timelines of which the cycle is chosen already, and all
    /// others.
    ///
    /// # Errors
    /// If a rank has no cycle of the number that the options ask for.
    fn join(
        &mut self,
        traces: RankTraces,
        _: &Options,
        _: &mut Vec<Warning>,
    ) -> Result<(RankTraces, RankTraces), Error> {
        Ok((Vec::new(), traces))
    }

    /// Gives each file a rank, and links it with the timeline of that rank.
    ///
    /// # Errors
    /// If the run consists of these files and none of them can be used.
    fn assign(
        &mut self,
        traces: &[RankTrace<RankData>],
        run: RunContext<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), Error>;

    /// Adds sources and rows to the run.
    fn add_to(self: Box<Self>, run: &mut RunBuilder);
}

/// The rank that the name of a file states, else that of the only timeline; and which of the two it is.
pub(crate) fn rank_of_file(
    file: &str,
    traces: &[RankTrace<RankData>],
) -> Option<(i32, &'static str)> {
    let named = rank_from_file_name(file).map(|rank| (rank, "file name"));
    named.or(match traces {
        [only] => Some((only.rank, "the only trace")),
        _ => None,
    })
}

/// Ranks of files that neither the file nor its name states: the lowest rank of the timelines is assumed.
pub(crate) struct GuessedRanks {
    rank: i32,
    count: u64,
}

impl GuessedRanks {
    pub(crate) fn new(traces: &[RankTrace<RankData>]) -> Self {
        Self { rank: traces.iter().map(|trace| trace.rank).min().unwrap_or(0), count: 0 }
    }

    /// The rank that is known, else the one that is assumed; and the evidence for it.
    pub(crate) fn or_guess(&mut self, known: Option<(i32, &'static str)>) -> (i32, &'static str) {
        known.unwrap_or_else(|| {
            self.count += 1;
            (self.rank, "order")
        })
    }

    /// The warning about files of which the rank was assumed. `files` names their kind in the plural.
    pub(crate) fn warning(&self, files: &str) -> Warning {
        let message = format!(
            "the rank of these {files} is unknown: rank {} is assumed (put rank<N> into their names)",
            self.rank
        );
        Warning { count: self.count, ..run_warning("guessed-rank", String::new(), message) }
    }

    /// The same, unless a single file was assumed to belong to a run of at most one timeline.
    pub(crate) fn warning_if_unclear(
        &self,
        traces: &[RankTrace<RankData>],
        files: &str,
    ) -> Option<Warning> {
        let is_unclear = self.count > 0 && (traces.len() > 1 || self.count > 1);
        is_unclear.then(|| self.warning(files))
    }
}

/// A file of a run without timelines, as `ranks` describes it.
#[derive(Clone, Copy)]
pub(crate) struct RankFile<'a> {
    pub(crate) rank: i32,
    pub(crate) file: &'a str,
    /// Start and end, in nanoseconds since 1970 or since its own first event, where known.
    pub(crate) extent: Option<(i64, i64)>,
    pub(crate) events: u64,
}

/// A run under construction: the tables of the timelines, then what attachments add.
pub(crate) struct RunBuilder {
    pub(crate) info: RunInfo,
    pub(crate) tables: TableSet,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) timelines: Vec<TimelineSummary>,
    /// The timelines, or an attachment, determined the run's clock.
    pub(crate) has_clock: bool,
    /// Absolute time of zero on the run's clock, where known.
    pub(crate) zero_ns: Option<i64>,
    /// Kinds of data that files beside the timelines hold, by rank.
    pub(crate) capabilities: BTreeSet<(i32, Capability)>,
}

impl RunBuilder {
    /// Returns whether the run has timelines, which have filled `ranks`.
    pub(crate) fn has_timeline(&self) -> bool {
        !self.timelines.is_empty()
    }

    /// Lets files determine the clock and the ranks of a run, unless something else did; `message` says what such a run lacks.
    pub(crate) fn begin_with(&mut self, files: &[RankFile<'_>], message: &str) {
        if self.has_clock || files.is_empty() {
            return;
        }
        let starts = files.iter().filter_map(|file| file.extent.map(|(start, _)| start));
        self.zero_ns = self.zero_ns.or_else(|| starts.min());
        let is_single =
            files.iter().all(|file| file.rank == files[0].rank) && self.info.ranks.is_empty();
        self.add_ranks(files.iter().copied(), is_single);
        self.warnings.push(run_warning("no-timeline", String::new(), message.to_owned()));
    }

    /// Adds the ranks of files that no other file has added. `is_single`: their times relate to those of no other rank.
    pub(crate) fn add_ranks<'a>(
        &mut self,
        files: impl Iterator<Item = RankFile<'a>>,
        is_single: bool,
    ) {
        let mut by_rank: BTreeMap<i32, Vec<RankFile<'a>>> = BTreeMap::new();
        for file in files.filter(|file| !self.info.ranks.contains(&file.rank)) {
            by_rank.entry(file.rank).or_default().push(file);
        }
        let zero = self.zero_ns.unwrap_or(0);
        for (rank, files) in by_rank {
            self.info.ranks.push(rank);
            let extents = || files.iter().filter_map(|file| file.extent);
            let start_ns = extents().map(|(start, _)| start - zero).min().unwrap_or(0);
            let end_ns = extents().map(|(_, end)| end - zero).max().unwrap_or(0);
            self.info.wall_ns = self.info.wall_ns.max(end_ns);
            let mut strings = Strings::default();
            let mut ranks = Ranks::default();
            ranks.push(Rank {
                rank,
                file: strings.intern(files[0].file),
                start_ns,
                end_ns,
                base_time_ns: self.zero_ns.unwrap_or(NULL_I64),
                clock: strings.intern(match (is_single, self.zero_ns) {
                    (true, _) => "single",
                    (false, Some(_)) => "absolute",
                    (false, None) => "relative",
                }),
                event_count: files.iter().map(|file| file.events).sum::<u64>() as i64,
                ..Rank::null_row()
            });
            self.tables.push("ranks", ranks.into_batch(&strings));
        }
    }
}

/// Properties of a timeline that attachments of its rank continue.
pub(crate) struct TimelineSummary {
    pub(crate) rank: i32,
    pub(crate) lane_count: i32,
    /// Rows of `steps`, on the run's clock.
    pub(crate) steps: Steps,
}
