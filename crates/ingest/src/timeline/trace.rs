//! The timeline of one rank in memory: its columns and metadata.

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::Warning;
use trace_model::tables::{Steps, TableId};

use super::columns::Columns;
use super::metadata::Metadata;
use crate::enrich::RecurringOperators;
use crate::error::Unreadable;
use crate::warnings::Issues;

/// Times from here on are taken as nanoseconds since 1970 (September 2001) rather than since boot.
pub(crate) const EPOCH_NS: i64 = 1_000_000_000_000_000_000;

/// One trace on its own clock. Enrichment completes it.
#[derive(Debug)]
pub(crate) struct Trace {
    /// Name of the format that it was read from.
    pub(crate) format: &'static str,
    pub(crate) columns: Columns,
    pub(crate) metadata: Metadata,
    pub(crate) found: FoundSteps,
    pub(crate) unpaired: Option<UnpairedRanges>,
    /// First event and end of the last, as written.
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) json_bytes: u64,
    pub(crate) file: String,
    /// The file is from the profiler, not only from the trainer, whose files have no device activity.
    pub(crate) is_profiled: bool,
    /// Parts from other files: their counts of events, and their problems.
    pub(super) others: Vec<(String, OtherCounts, Issues)>,
}

/// The steps of one file, and the moments that the analysed window depends on.
#[derive(Debug, Default)]
pub(crate) struct FoundSteps {
    pub(crate) steps: Steps,
    /// Steps marked by the profiler or the trainer.
    pub(crate) marked_steps: usize,
    /// Steps marked by the profiler, the trainer or the optimizer.
    pub(crate) real_steps: usize,
    /// Latest start of any event that marks a profiler step, if there are two steps or more. As in
    /// HTA, the device's copy of the mark counts too.
    pub(crate) cut_ns: Option<i64>,
    /// End of the last profiler step.
    pub(crate) steps_end_ns: Option<i64>,
    /// Operators that recur, if nothing tells whether in passes or in the layers of one pass.
    pub(crate) recurring: Option<RecurringOperators>,
}

/// Kernels and launches that could not be paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnpairedRanges {
    pub(crate) ranges: usize,
    pub(crate) launches: usize,
}

/// Events by phase, category and the table that holds them.
pub(super) type OtherCounts = FxHashMap<(u8, String, Option<TableId>), i64>;

/// First start and last end of events. Markers and arrows do not count, because some profilers write one far outside
/// the recording. `(0, 0)` without events.
pub(crate) fn extent(columns: &Columns) -> (i64, i64) {
    let mut extent: Option<(i64, i64)> = None;
    macro_rules! each {
        ($($table:ident),+) => { $(
            for (&ts, &dur) in columns.$table.ts_ns.0.iter().zip(&columns.$table.dur_ns.0) {
                let (start, end) = extent.get_or_insert((ts, ts + dur));
                *start = (*start).min(ts);
                *end = (*end).max(ts + dur);
            }
        )+ };
    }
    each!(cpu_ops, runtime_calls, annotations, python_frames, kernels, memcpys, memsets);
    if extent.is_none() {
        each!(device_syncs, profiler_ranges, spans);
    }
    extent.unwrap_or((0, 0))
}

impl Trace {
    pub(crate) fn new(
        format: &'static str,
        file: &str,
        columns: Columns,
        metadata: Metadata,
        json_bytes: u64,
    ) -> Self {
        let (start_ns, end_ns) = extent(&columns);
        Self {
            format,
            columns,
            metadata,
            found: FoundSteps::default(),
            unpaired: None,
            start_ns,
            end_ns,
            json_bytes,
            file: file.to_owned(),
            is_profiled: true,
            others: Vec::new(),
        }
    }

    /// Refuses timelines with more devices or streams than any machine has, because views compute every stream of every step.
    pub(crate) fn check_streams(&self) -> Result<(), Unreadable> {
        const MAX_DEVICES: usize = 1 << 10;
        const MAX_STREAMS: usize = 1 << 14;
        let mut streams = FxHashSet::default();
        let mut last = None;
        macro_rules! each {
            ($($table:ident),+) => { $(
                for stream in self.columns.$table.device.0.iter().zip(&self.columns.$table.stream.0) {
                    if last != Some(stream) {
                        last = Some(stream);
                        streams.insert(stream);
                        if streams.len() > MAX_STREAMS {
                            return Err(Unreadable::TooManyStreams);
                        }
                    }
                }
            )+ };
        }
        each!(kernels, memcpys, memsets, device_syncs, profiler_ranges);
        let devices: FxHashSet<i32> = streams.into_iter().map(|(&device, _)| device).collect();
        if devices.len() > MAX_DEVICES {
            return Err(Unreadable::TooManyDevices);
        }
        Ok(())
    }

    /// Appends the events of another file of the same process. Both must be on one clock, and the trace must not be
    /// enriched yet.
    pub(crate) fn join(&mut self, file: &str, mut columns: Columns) {
        let counts = std::mem::take(&mut columns.counts);
        let counts = counts.into_iter().map(|((phase, category, table), count)| {
            ((phase, columns.strings.get(category).to_owned(), table), count)
        });
        self.others.push((file.to_owned(), counts.collect(), std::mem::take(&mut columns.issues)));
        self.columns.append(columns);
        (self.start_ns, self.end_ns) = extent(&self.columns);
    }

    /// Adds `base_time_ns` to all times, which are nanoseconds since 1970 from then on. The trace must not be enriched
    /// yet.
    pub(crate) fn make_absolute(&mut self, base_time_ns: i64) {
        self.columns.for_each_start(|times| times.iter_mut().for_each(|ts| *ts += base_time_ns));
        for event in &mut self.columns.begin_end_events {
            event.ts_ns += base_time_ns;
        }
        self.start_ns += base_time_ns;
        self.end_ns += base_time_ns;
        self.metadata.base_time_ns = Some(0);
    }

    /// Returns whether the trace has device activity.
    pub(crate) fn has_device_work(&self) -> bool {
        let columns = &self.columns;
        !(columns.kernels.is_empty() && columns.memcpys.is_empty() && columns.memsets.is_empty())
    }

    /// Returns whether a lane of the trace belongs to this process.
    pub(crate) fn has_lane_of(&self, pid: &str) -> bool {
        self.columns.lanes.iter().any(|&(lane_pid, _)| self.columns.strings.get(lane_pid) == pid)
    }

    /// Rank, and the entry that states it.
    pub(crate) fn rank(&self) -> Option<(i32, &'static str)> {
        self.metadata.rank
    }

    /// The columns of the file.
    pub(crate) fn into_columns(self) -> Columns {
        self.columns
    }

    /// Returns whether the trace has operators of this process.
    pub(crate) fn has_process(&self, pid: i64) -> bool {
        let pid = pid.to_string();
        let lanes = &self.columns.lanes;
        let is_pid: Vec<bool> =
            lanes.iter().map(|&(lane_pid, _)| self.columns.strings.get(lane_pid) == pid).collect();
        self.columns.cpu_ops.thread.0.iter().any(|&thread| is_pid[thread as usize])
    }

    /// Ranks in the job, as the trace states.
    pub(crate) fn world_size(&self) -> Option<i32> {
        self.metadata.world_size
    }

    /// Entries of the event list.
    pub(crate) fn events(&self) -> u64 {
        self.columns.events as u64
    }

    /// Offset from times as written to nanoseconds since 1970; `None` if unknown.
    pub(crate) fn base_time_ns(&self) -> Option<i64> {
        self.metadata.base_time_ns.or_else(|| (self.start_ns > EPOCH_NS).then_some(0))
    }

    /// Problems in this file.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.columns.issues.warnings(&self.file);
        for (file, _, issues) in &self.others {
            warnings.extend(issues.warnings(file));
        }
        let mut warn = |code: &'static str, message, count: usize| {
            let count = count as u64;
            warnings.push(Warning { code: code.into(), file: self.file.clone(), message, count });
        };
        for key in &self.metadata.unreadable {
            let message = format!("the entry {key:?} has an unexpected value: ignored");
            warn("unreadable-metadata", message, 1);
        }
        let ranges = self.columns.profiler_ranges.len();
        if ranges > 0 && self.columns.kernels.is_empty() {
            let message = "kernels were measured by the range profiler (CUPTI), which serializes \
                           them: the trace holds their counters (cupti_counters), but no device \
                           timeline; record without profiler metrics to see device time";
            warn("no-device-timeline", message.to_owned(), ranges);
        }
        if let Some(UnpairedRanges { ranges, launches }) = self.unpaired {
            let message = format!(
                "the range profiler measured {ranges} kernels, but the trace holds {launches} \
                 kernel launches: which launch a kernel belongs to is not known, nor its operator"
            );
            warn("unpaired-ranges", message, ranges);
        }
        warnings
    }
}
