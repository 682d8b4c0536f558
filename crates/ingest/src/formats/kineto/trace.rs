//! One trace file: its columns and metadata, and their conversion to tables.

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::{
    Device, Devices, EventCount, EventCounts, Rank, Ranks, Steps, Thread, Threads,
};
use trace_model::{StrId, TableSet, Warning};

use super::columns::Columns;
use super::metadata::Metadata;
use super::outline::Detail;
use super::parallel_reader;
use crate::error::Unreadable;
use crate::input::decompress::JsonInput;
use crate::warnings::Issues;

/// Times from here on are taken as nanoseconds since 1970 (September 2001) rather than since boot.
pub(crate) const EPOCH_NS: i64 = 1_000_000_000_000_000_000;

/// One trace on its own clock. Enrichment completes it.
#[derive(Debug)]
pub(crate) struct Trace {
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
    others: Vec<(String, OtherCounts, Issues)>,
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
}

/// Kernels and launches that could not be paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnpairedRanges {
    pub(crate) ranges: usize,
    pub(crate) launches: usize,
}

/// Events by phase, category and the table that holds them.
type OtherCounts = FxHashMap<(u8, String, Option<&'static str>), i64>;

/// Reads a trace. It must be enriched once all its files are read.
pub(crate) fn parse(
    file: &str,
    input: JsonInput,
    advance: &dyn Fn(u64),
    detail: Detail,
) -> Result<Trace, Unreadable> {
    let document = parallel_reader::read(input, advance, detail)?;
    check_streams(&document.columns)?;
    let metadata = Metadata::parse(&document.metadata);
    Ok(Trace::new(file, document.columns, metadata, document.json_bytes))
}

/// Refuses traces with more devices or streams than any machine has, because views compute every stream of every step.
fn check_streams(columns: &Columns) -> Result<(), Unreadable> {
    const MAX_DEVICES: usize = 1 << 10;
    const MAX_STREAMS: usize = 1 << 14;
    let mut streams = FxHashSet::default();
    let mut last = None;
    macro_rules! each {
        ($($table:ident),+) => { $(
            for stream in columns.$table.device.0.iter().zip(&columns.$table.stream.0) {
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
    pub(crate) fn new(file: &str, columns: Columns, metadata: Metadata, json_bytes: u64) -> Self {
        let (start_ns, end_ns) = extent(&columns);
        Self {
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

    /// Returns whether Composer wrote the file: its processes describe themselves.
    pub(crate) fn is_composers(&self) -> bool {
        let is_sync = |what| self.columns.strings.get(what) == "clock_sync_timestamp_us";
        self.columns.labels.iter().any(|&(_, _, what, _)| is_sync(what))
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

    /// Turns the trace into Arrow batches: `shift_ns` is added to all times.
    pub(crate) fn into_tables(
        self,
        tables: &mut TableSet,
        rank: i32,
        shift_ns: i64,
        base_time_ns: Option<i64>,
        clock: &str,
    ) {
        let Self { mut columns, metadata, mut found, start_ns, end_ns, file, others, .. } = self;
        let vendor = self.is_profiled.then(|| vendor(&columns));
        let mut strings = std::mem::take(&mut columns.strings);
        let shift = |ns: i64| ns + shift_ns;

        let file_id = strings.intern(&file);
        let mut ranks = Ranks::default();
        let opt = |strings: &mut trace_model::Strings, text: Option<&String>| {
            text.map_or(StrId::NULL, |t| strings.intern(t))
        };
        ranks.push(Rank {
            rank,
            file: file_id,
            world_size: metadata.world_size.unwrap_or(NULL_I32),
            backend: opt(&mut strings, metadata.backend.as_ref()),
            host: opt(&mut strings, metadata.host.as_ref()),
            vendor: vendor.map_or(StrId::NULL, |vendor| strings.intern(vendor)),
            start_ns: shift(start_ns),
            end_ns: shift(end_ns),
            base_time_ns: base_time_ns.unwrap_or(NULL_I64),
            clock: strings.intern(clock),
            event_count: columns.events,
            step_count: found.marked_steps as i32,
            cut_ns: found.cut_ns.map_or(NULL_I64, shift),
            steps_end_ns: found.steps_end_ns.map_or(NULL_I64, shift),
            has_shapes: columns.has_shapes,
            has_stacks: columns.has_stacks,
            has_modules: columns.has_modules,
            has_memory: !columns.memory_events.is_empty(),
        });
        tables.push("ranks", ranks.into_batch(&strings));

        let mut devices = Devices::default();
        for d in &metadata.devices {
            devices.push(Device {
                rank,
                device: d.id,
                name: strings.intern(&d.name),
                total_memory_bytes: d.total_memory_bytes.unwrap_or(NULL_I64),
                compute_major: d.compute_major.unwrap_or(NULL_I32),
                compute_minor: d.compute_minor.unwrap_or(NULL_I32),
                sm_count: d.sm_count.unwrap_or(NULL_I32),
                warp_size: d.warp_size.unwrap_or(NULL_I32),
                max_threads_per_sm: d.max_threads_per_sm.unwrap_or(NULL_I32),
            });
        }
        tables.push("devices", devices.into_batch(&strings));
        tables.push("threads", threads(&columns, rank, &mut strings).into_batch(&strings));
        let mut all_counts = EventCounts::default();
        counts(&columns.counts, rank, file_id, &mut strings, &mut all_counts);
        for (file, counts_of_file, _) in others {
            let file_id = strings.intern(&file);
            let ids = counts_of_file.into_iter().map(|((phase, category, table), count)| {
                ((phase, strings.intern(&category), table), count)
            });
            let ids = ids.collect();
            counts(&ids, rank, file_id, &mut strings, &mut all_counts);
        }
        tables.push("event_counts", all_counts.into_batch(&strings));

        columns.for_each_start(|times| times.iter_mut().for_each(|ts| *ts += shift_ns));
        macro_rules! shift_launches {
            ($($table:ident),+) => { $(
                for ts in &mut columns.$table.launch_ts_ns.0 {
                    if *ts != NULL_I64 {
                        *ts += shift_ns;
                    }
                }
            )+ };
        }
        shift_launches!(kernels, memcpys, memsets, device_syncs, profiler_ranges);
        columns.captured_ops.ts_ns.0.iter_mut().for_each(|ts| *ts += shift_ns);
        found.steps.ts_ns.0.iter_mut().for_each(|ts| *ts += shift_ns);
        for ns in found.steps.ready_ns.0.iter_mut().filter(|ns| **ns != NULL_I64) {
            *ns += shift_ns;
        }
        found.steps.rank.0.fill(rank);
        tables.push("steps", found.steps.into_batch(&strings));
        macro_rules! push {
            ($($table:ident),+) => { $(
                columns.$table.rank.0.fill(rank);
                tables.push(stringify!($table), columns.$table.into_batch(&strings));
            )+ };
        }
        push!(cpu_ops, runtime_calls, annotations, python_frames, kernels, memcpys, memsets);
        push!(
            device_syncs,
            graph_matches,
            graph_nodes,
            captured_ops,
            profiler_ranges,
            range_counters
        );
        push!(collectives, memory_events, counters, flows, instants, spans, unpaired_events);
    }
}

fn threads(columns: &Columns, rank: i32, strings: &mut trace_model::Strings) -> Threads {
    let mut thread_names: FxHashMap<(StrId, StrId), StrId> = FxHashMap::default();
    let mut process_names: FxHashMap<StrId, StrId> = FxHashMap::default();
    for &(pid, tid, what, text) in &columns.labels {
        match strings.get(what) {
            "thread_name" => {
                thread_names.insert((pid, tid), text);
            }
            "process_name" => {
                process_names.insert(pid, text);
            }
            _ => {}
        }
    }
    let mut is_device = vec![false; columns.lanes.len()];
    macro_rules! mark {
        ($($table:ident),+) => { $(
            for &thread in &columns.$table.thread.0 {
                is_device[thread as usize] = true;
            }
        )+ };
    }
    mark!(kernels, memcpys, memsets, device_syncs, profiler_ranges);
    let mut threads = Threads::default();
    for (lane, &(pid, tid)) in columns.lanes.iter().enumerate() {
        threads.push(Thread {
            rank,
            thread: lane as i32,
            pid,
            tid,
            process_name: process_names.get(&pid).copied().unwrap_or(StrId::NULL),
            thread_name: thread_names.get(&(pid, tid)).copied().unwrap_or(StrId::NULL),
            is_device: is_device[lane],
        });
    }
    threads
}

fn counts(
    counts: &FxHashMap<(u8, StrId, Option<&'static str>), i64>,
    rank: i32,
    file: StrId,
    strings: &mut trace_model::Strings,
    table: &mut EventCounts,
) {
    let mut rows: Vec<_> = counts.iter().map(|(&key, &count)| (key, count)).collect();
    rows.sort_by(|((phase_a, cat_a, table_a), _), ((phase_b, cat_b, table_b), _)| {
        (phase_a, strings.get(*cat_a), table_a).cmp(&(phase_b, strings.get(*cat_b), table_b))
    });
    for ((phase, category, stored_in), event_count) in rows {
        table.push(EventCount {
            rank,
            file,
            phase: strings.intern(&(phase as char).to_string()),
            category,
            stored_in: stored_in.map_or(StrId::NULL, |t| strings.intern(t)),
            event_count,
        });
    }
}

/// Returns whether a name is that of a runtime function of a vendor.
fn vendor(columns: &Columns) -> &'static str {
    if columns.kernels.is_empty() && columns.memcpys.is_empty() && columns.memsets.is_empty() {
        return "cpu";
    }
    let starts = |prefix: &str| {
        columns
            .runtime_calls
            .name
            .0
            .iter()
            .any(|&name: &StrId| columns.strings.get(name).starts_with(prefix))
    };
    if starts("hip") {
        "amd"
    } else if starts("cu") {
        "nvidia"
    } else if starts("runFunction") {
        "mtia"
    } else {
        "unknown"
    }
}
