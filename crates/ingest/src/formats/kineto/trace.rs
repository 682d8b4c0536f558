//! PyTorch Profiler (Kineto) traces: one file from text to tables.

pub(crate) mod classify;
pub(crate) mod columns;
mod document;
pub(crate) mod event;
pub(crate) mod events;
mod filler;
mod layout;
mod metadata;
mod rows;
pub(crate) mod splice;
mod tensor_cores;
mod writer;

use rustc_hash::FxHashMap;
use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::{Device, Devices, EventCount, EventCounts, Rank, Ranks, Thread, Threads};
use trace_model::{StrId, TableSet, Warning};

pub use writer::{CATEGORY, EventWriter, Lane};

use self::columns::Columns;
pub(crate) use self::metadata::Metadata;
use crate::enrich::{call_tree, device, halves, ranges, steps};
use crate::formats::Unreadable;
use crate::source::Input;
use crate::warnings::Issues;

/// Times from here on are taken as nanoseconds since 1970 (September 2001) rather than since boot.
pub(crate) const EPOCH_NS: i64 = 1_000_000_000_000_000_000;

/// One trace, read and enriched, on its own clock.
#[derive(Debug)]
pub(crate) struct Trace {
    columns: Columns,
    metadata: Metadata,
    found: steps::Found,
    unpaired: Option<ranges::Unpaired>,
    /// First event and end of the last, as written.
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
    pub(crate) json_bytes: u64,
    file: String,
    /// The profiler spoke, not only the trainer: without it nothing is known of devices.
    pub(crate) is_profiled: bool,
    /// What came from other files: their counts of events, and what was wrong with them.
    others: Vec<(String, OtherCounts, Issues)>,
}

/// Events by phase, category and the table that holds them.
type OtherCounts = FxHashMap<(u8, String, Option<&'static str>), i64>;

/// Reads a trace as it was written, to be enriched once it is complete.
pub(crate) fn parse(file: &str, input: Input, advance: &dyn Fn(u64)) -> Result<Trace, Unreadable> {
    let document = document::read(input, advance)?;
    let metadata = Metadata::parse(&document.metadata);
    Ok(Trace::new(file, document.columns, metadata, document.json_bytes))
}

/// First start and last end of what happened; markers and arrows do not count (some profilers write
/// one far outside the recording). `(0, 0)` if nothing did.
fn extent(columns: &Columns) -> (i64, i64) {
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

/// First start and last end of operators.
fn operator_extent(columns: &Columns) -> Option<(i64, i64)> {
    let t = &columns.cpu_ops;
    let start = t.ts_ns.0.iter().min()?;
    let end = t.ts_ns.0.iter().zip(&t.dur_ns.0).map(|(ts, dur)| ts + dur).max()?;
    Some((*start, end))
}

impl Trace {
    pub(crate) fn new(file: &str, columns: Columns, metadata: Metadata, json_bytes: u64) -> Self {
        let (start_ns, end_ns) = extent(&columns);
        Self {
            columns,
            metadata,
            found: steps::Found::default(),
            unpaired: None,
            start_ns,
            end_ns,
            json_bytes,
            file: file.to_owned(),
            is_profiled: true,
            others: Vec::new(),
        }
    }

    /// Links the events with each other: halves of spans, the call tree, steps, launches.
    pub(crate) fn enrich(mut self) -> Self {
        let columns = &mut self.columns;
        halves::pair(columns);
        let around = call_tree::build(columns);
        (self.start_ns, self.end_ns) = extent(columns);
        // Where nothing marks steps, the operators' extent is the step, as in TensorBoard: frames of the
        // profiler itself lie outside.
        let whole = operator_extent(columns).unwrap_or((self.start_ns, self.end_ns));
        self.found = steps::find(columns, whole);
        let lookup = steps::Lookup::new(&self.found.steps);
        steps::assign(columns, &lookup);
        device::link(columns, &around, &lookup);
        self.unpaired = ranges::pair(columns, &around, &lookup);
        self
    }

    /// Adds what another file says of the same process, after the events read so far. Both must be on one
    /// clock; not to be called after [`Trace::enrich`].
    pub(crate) fn join(&mut self, file: &str, mut columns: Columns) {
        let counts = std::mem::take(&mut columns.counts);
        let counts = counts.into_iter().map(|((phase, category, table), count)| {
            ((phase, columns.strings.get(category).to_owned(), table), count)
        });
        self.others.push((file.to_owned(), counts.collect(), std::mem::take(&mut columns.issues)));
        self.columns.append(columns);
        (self.start_ns, self.end_ns) = extent(&self.columns);
    }

    /// Adds so much to all times: they are nanoseconds since 1970 from now on. Not to be called after
    /// [`Trace::enrich`].
    pub(crate) fn make_absolute(&mut self, base_time_ns: i64) {
        self.columns.for_each_start(|times| times.iter_mut().for_each(|ts| *ts += base_time_ns));
        for half in &mut self.columns.halves {
            half.ts_ns += base_time_ns;
        }
        self.start_ns += base_time_ns;
        self.end_ns += base_time_ns;
        self.metadata.base_time_ns = Some(0);
    }

    /// Whether a device did anything.
    pub(crate) fn has_device_work(&self) -> bool {
        let columns = &self.columns;
        !(columns.kernels.is_empty() && columns.memcpys.is_empty() && columns.memsets.is_empty())
    }

    /// Whether a lane of the trace is of this process.
    pub(crate) fn has_lane_of(&self, pid: &str) -> bool {
        self.columns.lanes.iter().any(|&(lane_pid, _)| self.columns.strings.get(lane_pid) == pid)
    }

    /// Rank, and what says so.
    pub(crate) fn rank(&self) -> Option<(i32, &'static str)> {
        self.metadata.rank
    }

    /// Whether a process of Composer describes itself here.
    pub(crate) fn is_composers(&self) -> bool {
        let is_sync = |what| self.columns.strings.get(what) == "clock_sync_timestamp_us";
        self.columns.labels.iter().any(|&(_, _, what, _)| is_sync(what))
    }

    /// Gives up what was read.
    pub(crate) fn into_columns(self) -> Columns {
        self.columns
    }

    /// What was read.
    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Whether operators of this process are in the trace.
    pub(crate) fn has_process(&self, pid: i64) -> bool {
        let pid = pid.to_string();
        let lanes = &self.columns.lanes;
        let is_pid: Vec<bool> =
            lanes.iter().map(|&(lane_pid, _)| self.columns.strings.get(lane_pid) == pid).collect();
        self.columns.cpu_ops.thread.0.iter().any(|&thread| is_pid[thread as usize])
    }

    /// Ranks in the job, as the trace says.
    pub(crate) fn world_size(&self) -> Option<i32> {
        self.metadata.world_size
    }

    /// Entries of the event list.
    pub(crate) fn events(&self) -> u64 {
        self.columns.events as u64
    }

    /// Steps found; none if the whole recording stands in for one.
    pub(crate) fn steps(&self) -> usize {
        self.found.real_steps
    }

    /// What must be added to times as written to get nanoseconds since 1970; `None` if unknown.
    pub(crate) fn base_time_ns(&self) -> Option<i64> {
        self.metadata.base_time_ns.or_else(|| (self.start_ns > EPOCH_NS).then_some(0))
    }

    /// What went wrong in this file.
    pub(crate) fn warnings(&self) -> Vec<Warning> {
        let mut warnings = self.columns.issues.warnings(&self.file);
        for (file, _, issues) in &self.others {
            warnings.extend(issues.warnings(file));
        }
        let mut warn = |code, message, count: usize| {
            let count = count as u64;
            warnings.push(Warning { code, file: self.file.clone(), message, count });
        };
        for key in &self.metadata.unreadable {
            let message = format!("the entry {key:?} is not what it should be: ignored");
            warn("unreadable-metadata", message, 1);
        }
        let ranges = self.columns.profiler_ranges.len();
        if ranges > 0 && self.columns.kernels.is_empty() {
            let message = "kernels were measured by the range profiler (CUPTI), which serialises \
                           them: the trace holds their counters (cupti_counters), but no device \
                           timeline; record without profiler metrics to see device time";
            warn("no-device-timeline", message.to_owned(), ranges);
        }
        if let Some(ranges::Unpaired { ranges, launches }) = self.unpaired {
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
        let vendor = self.is_profiled.then(|| device::vendor(&columns));
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
        found.steps.ts_ns.0.iter_mut().for_each(|ts| *ts += shift_ns);
        found.steps.rank.0.fill(rank);
        tables.push("steps", found.steps.into_batch(&strings));
        macro_rules! push {
            ($($table:ident),+) => { $(
                columns.$table.rank.0.fill(rank);
                tables.push(stringify!($table), columns.$table.into_batch(&strings));
            )+ };
        }
        push!(cpu_ops, runtime_calls, annotations, python_frames, kernels, memcpys, memsets);
        push!(device_syncs, profiler_ranges, range_counters);
        push!(collectives, memory_events, counters, flows, instants, spans, half_events);
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
