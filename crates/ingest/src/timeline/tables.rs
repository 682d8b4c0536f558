//! Timelines become Arrow tables.

use rustc_hash::FxHashMap;
use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::{
    Device, Devices, EventCount, EventCounts, Processor, Processors, Rank, Ranks, TableId, Thread,
    Threads, UnprofiledStep, UnprofiledSteps,
};
use trace_model::{StrId, TableSet};

use super::capabilities::push_capabilities;
use super::columns::Columns;
use super::trace::Trace;

impl Trace {
    /// Turns the trace into Arrow batches: `shift_ns` is added to all times.
    pub(crate) fn into_tables(
        self,
        tables: &mut TableSet,
        rank: i32,
        shift_ns: i64,
        base_time_ns: Option<i64>,
        clock: &str,
    ) {
        let held = self.capabilities();
        push_capabilities(tables, held.iter().map(|capability| (rank, capability)));
        let Self { mut columns, metadata, mut found, start_ns, end_ns, file, others, .. } = self;
        let vendor = self.is_profiled.then(|| vendor(&columns));
        let mut strings = std::mem::take(&mut columns.strings);
        let shift = |ns: i64| ns + shift_ns;

        let file_id = strings.intern(&file);
        let mut ranks = Ranks::default();
        let recurring = found.recurring;
        let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
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
            recurring_op_count: recurring.map_or(NULL_I32, |r| count(r.operators)),
            recurrence_count: recurring.map_or(NULL_I32, |r| count(r.repetitions)),
            recurrence_dur_ns: recurring.map_or(NULL_I64, |r| r.dur_ns),
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
        let mut processors = Processors::default();
        if let Some(p) = &metadata.processor {
            processors.push(Processor {
                rank,
                name: opt(&mut strings, p.name.as_ref()),
                core_count: p.core_count.unwrap_or(NULL_I32),
                thread_count: p.thread_count.unwrap_or(NULL_I32),
                flags: opt(&mut strings, p.flags.as_ref()),
            });
        }
        tables.push("processors", processors.into_batch(&strings));
        let mut unprofiled_steps = UnprofiledSteps::default();
        if let Some(times) = metadata.unprofiled_steps {
            let (step_count, mean_dur_ns) = (times.count, times.mean_ns);
            unprofiled_steps.push(UnprofiledStep { rank, step_count, mean_dur_ns });
        }
        tables.push("unprofiled_steps", unprofiled_steps.into_batch(&strings));
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
            graph_edges,
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
    counts: &FxHashMap<(u8, StrId, Option<TableId>), i64>,
    rank: i32,
    file: StrId,
    strings: &mut trace_model::Strings,
    table: &mut EventCounts,
) {
    let mut rows: Vec<_> = counts.iter().map(|(&key, &count)| (key, count)).collect();
    rows.sort_by(|((phase_a, cat_a, table_a), _), ((phase_b, cat_b, table_b), _)| {
        let name = |table: &Option<TableId>| table.map(TableId::as_str);
        (phase_a, strings.get(*cat_a), name(table_a)).cmp(&(
            phase_b,
            strings.get(*cat_b),
            name(table_b),
        ))
    });
    for ((phase, category, stored_in), event_count) in rows {
        table.push(EventCount {
            rank,
            file,
            phase: strings.intern(&(phase as char).to_string()),
            category,
            stored_in: stored_in.map_or(StrId::NULL, |table| strings.intern(table.as_str())),
            event_count,
        });
    }
}

/// The vendor of the device, from the names of runtime functions.
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
