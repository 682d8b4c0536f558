//! The manifest of a group of mapped traces.

use std::ops::Range;

use arrow_array::Array as _;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use trace_model::column::{NULL_I32, NULL_I64};
use trace_model::tables::{self, Step, Steps};
use trace_model::{RecordBatch, StrId, Warning};

use crate::formats::format_named;
use crate::parquet::bounds::{check_count, check_time, check_warnings};
use crate::parquet::checksum::{check_seal, sealed_json};
use crate::parquet::manifest::Partition;
use crate::parquet::staged::StagedTrace;
use crate::quantity::MAX_DURATION_NS;
use crate::run::identity::TraceIdentity;
use crate::run::version::FileVersion;

/// Name of the manifest in its group.
pub(super) const FILE: &str = "group.json";
/// Start of the names of groups.
pub(super) const GROUP_PREFIX: &str = "group-";
/// Hexadecimal digits of a key.
const KEY_LEN: usize = 32;
const FORMAT: &str = "trace-advisor mapped ranks";
const VERSION: u32 = 3;

/// Path of the rows of `ranks` in a group.
pub(super) const RANKS: &str = "ranks.parquet";

/// Path of the rows of a table in a group.
pub(super) fn table_path(table: &str) -> String {
    format!("tables/{table}.parquet")
}

/// Path of the rows of a view in a group.
pub(super) fn view_path(view: &str) -> String {
    format!("views/{view}.parquet")
}

/// The manifest of a group: its traces, and the files that hold their rows.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    format: String,
    version: u32,
    pub(super) program: Program,
    /// The files that were mapped, in order.
    pub(super) files: Vec<MappedFile>,
    /// The file with the rows of `ranks`, one for each file that is a timeline.
    pub(super) ranks: Partition,
    /// The tables, by name: the rows of all traces.
    pub(super) tables: Vec<Partition>,
    /// The views, by name. Those without rows have no file.
    pub(super) views: Vec<Partition>,
}

/// The program and the settings that determine the content of a group, in addition to its traces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Program {
    version: String,
    /// Fingerprint of the tables.
    tables: String,
    /// Fingerprint of the views and their parameters.
    views: String,
    /// Limit on the JSON of a file, which decides whether it can be read.
    max_json_bytes: u64,
}

impl Program {
    /// This program; `views` is a fingerprint of the views that it computes.
    pub(super) fn this(views: &str, max_json_bytes: u64) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            tables: format!("{:016x}", tables::fingerprint()),
            views: views.to_owned(),
            max_json_bytes,
        }
    }
}

/// A file of a group.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct MappedFile {
    #[serde(flatten)]
    pub(super) version: FileVersion,
    /// `None` if the file is not a timeline of a known rank: it is read as if it were not mapped.
    pub(super) timeline: Option<TimelineRecord>,
}

/// A [`StagedTrace`] without its row of `ranks`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TimelineRecord {
    pub(super) rank: i32,
    shift_ns: i64,
    pub(super) parts: Vec<TablePart>,
    /// Name of its format.
    format: String,
    /// The entry of the trace that states the rank, if one does.
    stated_by: Option<String>,
    world_size: Option<i32>,
    base_time_ns: Option<i64>,
    extent: (i64, i64),
    events: u64,
    lane_count: i32,
    step_count: usize,
    steps: Vec<StepRow>,
    json_bytes: u64,
    identity: TraceIdentity,
    warnings: Vec<Warning>,
}

/// The rows of a trace in the file of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TablePart {
    pub(super) table: String,
    pub(super) rows: u64,
    /// Size of its rows in memory.
    pub(super) memory_bytes: u64,
    /// Row groups of the file.
    pub(super) row_groups: Range<usize>,
}

/// A row of `steps`, without names.
#[derive(Debug, Serialize, Deserialize)]
struct StepRow {
    step: i64,
    ts_ns: i64,
    dur_ns: i64,
    ready_ns: i64,
    thread: i32,
    event_id: i64,
    is_last: bool,
}

impl StepRow {
    /// Checks that its numbers are possible in a trace that begins at `start_ns`.
    fn check(&self, start_ns: i64, lane_count: i32) -> Result<(), String> {
        let Self { ts_ns, dur_ns, ready_ns, thread, event_id, .. } = *self;
        let times = [Some(ts_ns), Some(ready_ns).filter(|&ns| ns != NULL_I64)];
        let is_far = |ns: &i64| ns.abs_diff(start_ns) > MAX_DURATION_NS.unsigned_abs();
        if let Some(ns) = times.into_iter().flatten().find(is_far) {
            return Err(format!("a step is at {ns} ns, far from the first event"));
        }
        if !(0..=MAX_DURATION_NS).contains(&dur_ns) {
            return Err(format!("a step lasts {dur_ns} ns"));
        }
        if thread != NULL_I32 && !(0..lane_count).contains(&thread) {
            return Err(format!("a step is of thread {thread}, and there are {lane_count}"));
        }
        if event_id != NULL_I64 {
            check_count("a step", "event_id", event_id.unsigned_abs())?;
        }
        Ok(())
    }
}

/// The number in a row of one row; `None` if there is none.
fn integer(row: &RecordBatch, column: &str) -> Option<i64> {
    let column = row.column_by_name(column)?;
    if column.len() != 1 || column.is_null(0) {
        return None;
    }
    let short = || column.as_primitive_opt::<Int32Type>().map(|array| i64::from(array.value(0)));
    column.as_primitive_opt::<Int64Type>().map(|array| array.value(0)).or_else(short)
}

/// Entries of a trace that state its rank.
const RANK_ENTRIES: [&str; 2] = ["distributedInfo", "global_rank"];

impl TimelineRecord {
    pub(super) fn of(trace: &StagedTrace, parts: Vec<TablePart>) -> Self {
        let steps = &trace.steps;
        let row = |at| StepRow {
            step: steps.step.get(at),
            ts_ns: steps.ts_ns.get(at),
            dur_ns: steps.dur_ns.get(at),
            ready_ns: steps.ready_ns.get(at),
            thread: steps.thread.get(at),
            event_id: steps.event_id.get(at),
            is_last: steps.is_last.get(at),
        };
        Self {
            rank: trace.rank,
            shift_ns: trace.shift_ns,
            parts,
            format: trace.format.to_owned(),
            stated_by: trace.stated_rank.map(|(_, entry)| entry.to_owned()),
            world_size: trace.world_size,
            base_time_ns: trace.base_time_ns,
            extent: trace.extent,
            events: trace.events,
            lane_count: trace.lane_count,
            step_count: trace.step_count,
            steps: (0..steps.len()).map(row).collect(),
            json_bytes: trace.json_bytes,
            identity: trace.identity.clone(),
            warnings: trace.warnings.clone(),
        }
    }

    /// Checks that its entries agree with each other, and that they are possible for a trace.
    fn check(&self) -> Result<(), String> {
        const TRACE: &str = "the trace";
        let (start_ns, end_ns) = self.extent;
        check_time(TRACE, "extent", start_ns)?;
        if !(0..=MAX_DURATION_NS).contains(&end_ns.saturating_sub(start_ns)) {
            return Err(format!("the trace lasts from {start_ns} to {end_ns} ns"));
        }
        // The clock of a mapped trace starts with its first event.
        if self.shift_ns != -start_ns {
            return Err(format!("shift_ns is {}, not {}", self.shift_ns, -start_ns));
        }
        check_time(TRACE, "base_time_ns", self.base_time_ns.unwrap_or(0))?;
        check_count(TRACE, "events", self.events)?;
        check_count(TRACE, "json_bytes", self.json_bytes)?;
        check_warnings(&self.warnings)?;
        if format_named(&self.format).is_none() {
            return Err(format!("there is no format {:?}", self.format));
        }
        if let Some(entry) = &self.stated_by
            && !RANK_ENTRIES.contains(&entry.as_str())
        {
            return Err(format!("{entry:?} states no rank"));
        }
        if u64::try_from(self.lane_count) != Ok(self.rows("threads")) {
            return Err(format!("lane_count is {}, not that of threads", self.lane_count));
        }
        if self.steps.len() as u64 != self.rows("steps") || self.step_count > self.steps.len() {
            return Err("its steps are not those of the table steps".to_owned());
        }
        self.steps.iter().try_for_each(|step| step.check(start_ns, self.lane_count))
    }

    /// Checks that it agrees with its row of `ranks`.
    pub(super) fn check_row(&self, row: &RecordBatch) -> Result<(), String> {
        let (start_ns, end_ns) = self.extent;
        let expected = [
            ("rank", Some(i64::from(self.rank))),
            ("world_size", self.world_size.map(i64::from)),
            ("start_ns", start_ns.checked_add(self.shift_ns)),
            ("end_ns", end_ns.checked_add(self.shift_ns)),
            ("event_count", i64::try_from(self.events).ok()),
        ];
        for (column, expected) in expected {
            let stored = integer(row, column);
            if stored != expected {
                let text = |number: Option<i64>| {
                    number.map_or_else(|| "null".to_owned(), |number| number.to_string())
                };
                let (stored, expected) = (text(stored), text(expected));
                return Err(format!("its {column} is {stored}, not {expected} as in {FILE}"));
            }
        }
        Ok(())
    }

    /// Rows of a table.
    fn rows(&self, table: &str) -> u64 {
        self.parts.iter().find(|part| part.table == table).map_or(0, |part| part.rows)
    }

    /// The trace as it was staged. `number` is the position of its file in the run.
    pub(super) fn staged(&self, number: usize, row: RecordBatch) -> StagedTrace {
        let mut steps = Steps::default();
        for row in &self.steps {
            steps.push(Step {
                rank: self.rank,
                step: row.step,
                name: StrId::NULL,
                source: StrId::NULL,
                ts_ns: row.ts_ns,
                dur_ns: row.dur_ns,
                ready_ns: row.ready_ns,
                thread: row.thread,
                event_id: row.event_id,
                is_last: row.is_last,
            });
        }
        // `TimelineRecord::check` refuses other entries and formats.
        let entry = |name: &String| RANK_ENTRIES.into_iter().find(|entry| entry == name);
        let stated_by = self.stated_by.as_ref().and_then(entry);
        StagedTrace {
            number,
            rank: self.rank,
            shift_ns: self.shift_ns,
            partitions: Vec::new(),
            row: Some(row),
            format: format_named(&self.format).map_or("unknown", |format| format.name),
            stated_rank: stated_by.map(|entry| (self.rank, entry)),
            world_size: self.world_size,
            base_time_ns: self.base_time_ns,
            extent: self.extent,
            events: self.events,
            lane_count: self.lane_count,
            step_count: self.step_count,
            steps,
            json_bytes: self.json_bytes,
            identity: self.identity.clone(),
            warnings: self.warnings.clone(),
        }
    }
}

impl Manifest {
    pub(super) fn new(
        program: Program,
        files: Vec<MappedFile>,
        ranks: Partition,
        tables: Vec<Partition>,
        views: Vec<Partition>,
    ) -> Self {
        Self { format: FORMAT.to_owned(), version: VERSION, program, files, ranks, tables, views }
    }

    /// Position of a table.
    pub(super) fn table(&self, name: &str) -> Option<usize> {
        self.tables.binary_search_by(|known| known.table.as_str().cmp(name)).ok()
    }

    /// Its timelines, with the names of their files.
    pub(super) fn timelines(&self) -> impl Iterator<Item = (&str, &TimelineRecord)> {
        self.files.iter().filter_map(|file| Some((&*file.version.file, file.timeline.as_ref()?)))
    }

    /// Bytes of its files.
    pub(super) fn content_bytes(&self) -> u64 {
        let files = self.tables.iter().chain(&self.views).chain([&self.ranks]);
        files.map(|file| file.bytes).sum()
    }

    /// The text of `group.json`.
    pub(super) fn to_text(&self) -> serde_json::Result<String> {
        sealed_json(self)
    }

    /// Reads `group.json`; the reason if it is not what was written. `None` if another program wrote it.
    pub(super) fn parse(text: &[u8], program: &Program) -> Result<Option<Self>, String> {
        #[derive(Deserialize)]
        struct Header {
            format: String,
            version: u32,
            program: Program,
        }
        let damaged = |reason: String| format!("{FILE} is damaged: {reason}");
        let broken = |e: serde_json::Error| damaged(e.to_string());
        let header: Header = serde_json::from_slice(text).map_err(broken)?;
        if header.format != FORMAT {
            return Err(format!("{FILE} does not describe mapped ranks"));
        }
        if header.version != VERSION {
            return Ok(None);
        }
        check_seal(text).map_err(damaged)?;
        if header.program != *program {
            return Ok(None);
        }
        let manifest: Self = serde_json::from_slice(text).map_err(broken)?;
        manifest.check().map_err(damaged)?;
        Ok(Some(manifest))
    }

    /// Checks that its entries agree with each other, and that no sum of its numbers exceeds 64 bits.
    fn check(&self) -> Result<(), String> {
        if self.ranks.table != tables::Ranks::SPEC.name {
            return Err(format!("{RANKS} holds {:?}", self.ranks.table));
        }
        // Names of tables and views are part of paths.
        if let Some(unknown) = self.tables.iter().find(|file| tables::find(&file.table).is_none()) {
            return Err(format!("there is no table {:?}", unknown.table));
        }
        let is_word = |name: &str| {
            name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        if let Some(view) = self.views.iter().find(|view| !is_word(&view.table)) {
            return Err(format!("there is no view {:?}", view.table));
        }
        for files in [&self.tables, &self.views] {
            if !files.is_sorted_by(|a, b| a.table < b.table) {
                return Err("its files are not in order of their names".to_owned());
            }
        }
        for file in self.tables.iter().chain(&self.views).chain([&self.ranks]) {
            file.check()?;
            if file.rank.is_some() {
                return Err(format!("the rows of {} have a rank", file.table));
            }
        }
        for (file, timeline) in self.timelines() {
            timeline.check().map_err(|reason| format!("{file}: {reason}"))?;
        }
        self.check_parts()
    }

    /// Checks that the rows of each table are those of its traces, one after the other.
    fn check_parts(&self) -> Result<(), String> {
        let mut of_traces: Vec<PartSum> = self.tables.iter().map(|_| PartSum::default()).collect();
        for (file, timeline) in self.timelines() {
            for part in &timeline.parts {
                let table = self.table(&part.table);
                let table = table.ok_or_else(|| format!("table {:?} has no file", part.table))?;
                of_traces[table].add(part).ok_or_else(|| {
                    let TablePart { table, rows, row_groups, .. } = part;
                    format!("{file}: {rows} rows of {table} are not in row groups {row_groups:?}")
                })?;
            }
        }
        for (file, sum) in self.tables.iter().zip(of_traces) {
            let Partition { table, rows, memory_bytes, .. } = file;
            if sum.rows != *rows {
                return Err(format!("{table} has {rows} rows, its traces have {}", sum.rows));
            }
            if sum.memory_bytes != *memory_bytes {
                let of_traces = sum.memory_bytes;
                return Err(format!("memory_bytes of {table}: {memory_bytes}, not {of_traces}"));
            }
        }
        Ok(())
    }
}

/// The rows of a table that belong to the traces so far.
#[derive(Default)]
struct PartSum {
    rows: u64,
    memory_bytes: u64,
    row_groups: usize,
}

impl PartSum {
    /// Adds the rows of the next trace. `None` if they do not follow those before.
    fn add(&mut self, part: &TablePart) -> Option<()> {
        let Range { start, end } = part.row_groups;
        if start != self.row_groups || end < start || (end > start) != (part.rows > 0) {
            return None;
        }
        self.row_groups = end;
        self.rows = self.rows.checked_add(part.rows)?;
        self.memory_bytes = self.memory_bytes.checked_add(part.memory_bytes)?;
        Some(())
    }
}

/// The name of the group of these files.
pub(super) fn group_name(program: &Program, files: &[FileVersion]) -> serde_json::Result<String> {
    let text = serde_json::to_vec(&(FORMAT, VERSION, program, files))?;
    let digest = format!("{:x}", Sha256::digest(text));
    Ok(format!("{GROUP_PREFIX}{}", &digest[..KEY_LEN]))
}
