//! Tiny runs written by hand: a builder that fills the columns a test does not name.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    clippy::too_many_arguments,
    reason = "each test uses its own part"
)]

/// Sets a column of the last row of a table.
macro_rules! set_last {
    ($table:expr, $column:ident, $value:expr) => {
        *$table.$column.0.last_mut().expect(concat!("a row with ", stringify!($column))) = $value
    };
}

mod compiled;
mod details;
mod device;
mod flight;
mod host;
mod memory;
mod memory_files;
pub mod trainers;

use query::{Params, Session};
use trace_model::column::NULL_I64;
use trace_model::tables::{
    Annotations, CapturedOps, Collectives, CompiledFrames, CompiledKernels, Counter, Counters,
    CpuOps, Devices, ExecutionNodes, FlightDumps, FlightProcessGroups, FlightRecords, GraphBreaks,
    GraphMatches, GraphNodes, Kernels, Memcpys, MemoryEvents, Memsets, Processors, ProfilerRanges,
    PythonFrames, RangeCounters, Rank, Ranks, ReadingWarnings, RecordedCapabilities,
    RecordedCapability, RuntimeCalls, Spans, Step, Steps, UnpairedEvent, UnpairedEvents,
};
use trace_model::{Capability, MetricTable, StrId, Strings, TableSet, Value};

/// A launching call: start and duration; it runs on thread 1.
pub type Launch = Option<(i64, i64)>;

#[derive(Default)]
pub struct Run {
    strings: Strings,
    ranks: Ranks,
    capabilities: RecordedCapabilities,
    steps: Steps,
    devices: Devices,
    processors: Processors,
    cpu_ops: CpuOps,
    runtime_calls: RuntimeCalls,
    annotations: Annotations,
    python_frames: PythonFrames,
    kernels: Kernels,
    memcpys: Memcpys,
    memsets: Memsets,
    collectives: Collectives,
    memory_events: MemoryEvents,
    profiler_ranges: ProfilerRanges,
    range_counters: RangeCounters,
    execution_nodes: ExecutionNodes,
    compiled_frames: CompiledFrames,
    graph_breaks: GraphBreaks,
    compiled_kernels: CompiledKernels,
    flight_dumps: FlightDumps,
    flight_records: FlightRecords,
    flight_process_groups: FlightProcessGroups,
    counters: Counters,
    graph_nodes: GraphNodes,
    captured_ops: CapturedOps,
    graph_matches: GraphMatches,
    unpaired_events: UnpairedEvents,
    spans: Spans,
    reading_warnings: ReadingWarnings,
    files: memory_files::MemoryFiles,
    next_event: i64,
}

impl Run {
    fn id(&mut self) -> i64 {
        self.next_event += 1;
        self.next_event
    }

    fn name(&mut self, text: &str) -> StrId {
        if text.is_empty() { StrId::NULL } else { self.strings.intern(text) }
    }

    /// A rank without steps.
    pub fn rank(&mut self, rank: i32) -> &mut Self {
        self.rank_with_cut(rank, 0, NULL_I64)
    }

    /// The recording of a rank holds a kind of data.
    pub fn holds(&mut self, rank: i32, capability: Capability) -> &mut Self {
        let capability = self.name(capability.as_str());
        self.capabilities.push(RecordedCapability { rank, capability });
        self
    }

    pub fn rank_with_cut(&mut self, rank: i32, step_count: i32, cut_ns: i64) -> &mut Self {
        let (file, vendor, clock) = (self.name("file"), self.name("nvidia"), self.name("single"));
        self.ranks.push(Rank {
            rank,
            file,
            vendor,
            start_ns: 0,
            end_ns: 0,
            clock,
            event_count: 0,
            step_count,
            cut_ns,
            ..Rank::null_row()
        });
        self
    }

    /// The first event and the end of the last one of all ranks so far.
    pub fn extent(&mut self, start_ns: i64, end_ns: i64) -> &mut Self {
        self.ranks.start_ns.0.fill(start_ns);
        self.ranks.end_ns.0.fill(end_ns);
        self
    }

    /// The ranks so far have no device timeline.
    pub fn without_device(&mut self) -> &mut Self {
        let vendor = self.name("cpu");
        self.ranks.vendor.0.fill(vendor);
        self
    }

    /// The relation between the clocks of all ranks so far.
    pub fn clock(&mut self, clock: &str) -> &mut Self {
        let clock = self.name(clock);
        self.ranks.clock.0.fill(clock);
        self
    }

    /// A profiler step; the last one pushed with `is_last` is the last of the rank.
    pub fn step(
        &mut self,
        rank: i32,
        step: i64,
        ts_ns: i64,
        dur_ns: i64,
        is_last: bool,
    ) -> &mut Self {
        self.step_from("profiler_step", rank, step, ts_ns, dur_ns, is_last)
    }

    pub fn step_from(
        &mut self,
        source: &str,
        rank: i32,
        step: i64,
        ts_ns: i64,
        dur_ns: i64,
        is_last: bool,
    ) -> &mut Self {
        let (name, source) = (self.name(&format!("ProfilerStep#{step}")), self.name(source));
        let event_id = self.id();
        if let Some(row) = self.ranks.rank.0.iter().position(|&r| r == rank) {
            let end_ns = &mut self.ranks.steps_end_ns.0[row];
            *end_ns = (*end_ns).max(ts_ns + dur_ns);
        }
        self.steps.push(Step {
            rank,
            step,
            name,
            source,
            ts_ns,
            dur_ns,
            ready_ns: NULL_I64,
            thread: 1,
            event_id,
            is_last,
        });
        self
    }

    /// States when the device had done what was launched before the last step.
    pub fn ready_at(&mut self, ready_ns: i64) -> &mut Self {
        set_last!(self.steps, ready_ns, ready_ns);
        self
    }

    pub fn tables(self) -> TableSet {
        let mut tables = TableSet::default();
        macro_rules! push {
            ($($table:ident),+) => { $(tables.push(stringify!($table), self.$table.into_batch(&self.strings));)+ };
        }
        push!(
            ranks,
            capabilities,
            steps,
            devices,
            processors,
            cpu_ops,
            runtime_calls,
            annotations,
            python_frames,
            kernels,
            memcpys,
            memsets,
            collectives,
            memory_events,
            profiler_ranges,
            range_counters,
            execution_nodes,
            compiled_frames,
            graph_breaks,
            compiled_kernels,
            flight_dumps,
            flight_records,
            flight_process_groups,
            counters,
            graph_nodes,
            captured_ops,
            graph_matches,
            unpaired_events,
            spans,
            reading_warnings
        );
        self.files.push(&mut tables, &self.strings);
        tables
    }

    pub fn open(self) -> Session {
        self.open_with(&Params::default())
    }

    pub fn open_with(self, params: &Params) -> Session {
        Session::new(analyses::catalog(), self.tables(), params).expect("a session")
    }
}

/// The rows of `view`, only `columns`, each value as text: `7`, `0.25`, `-`.
pub fn rows(session: &Session, view: &str, columns: &[&str]) -> Vec<String> {
    let table = table(session, view);
    let at: Vec<usize> =
        columns.iter().map(|c| table.index(c).unwrap_or_else(|| panic!("no column {c}"))).collect();
    table
        .rows
        .iter()
        .map(|row| at.iter().map(|&i| text(&row[i])).collect::<Vec<_>>().join(" "))
        .collect()
}

/// The tables of views, none of which may fail.
pub fn tables(session: &Session, views: &[&str]) -> Vec<MetricTable> {
    let tables = session.metric_tables(views).unwrap_or_else(|e| panic!("{views:?}: {e}"));
    tables.into_iter().map(|table| table.unwrap_or_else(|e| panic!("{e}"))).collect()
}

pub fn table(session: &Session, view: &str) -> MetricTable {
    tables(session, &[view]).remove(0)
}

/// Floats to six digits, so that sums may be written as people write them.
fn text(value: &Value) -> String {
    match value {
        Value::Float(v) => ((v * 1e6).round() / 1e6).to_string(),
        other => other.to_string(),
    }
}
