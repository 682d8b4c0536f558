//! The manifest of a group of mapped traces.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use trace_model::tables::{self, Step, Steps};
use trace_model::{RecordBatch, StrId, Warning};

use crate::formats::format_named;
use crate::parquet::manifest::Partition;
use crate::parquet::staged::StagedTrace;
use crate::run::identity::TraceIdentity;
use crate::run::version::FileVersion;

/// Name of the manifest in its group.
pub(super) const FILE: &str = "group.json";
/// A longer manifest is not read.
pub(super) const MAX_BYTES: u64 = 256 << 20;
/// Start of the names of groups.
pub(super) const GROUP_PREFIX: &str = "group-";
/// Hexadecimal digits of a key.
const KEY_LEN: usize = 32;
const FORMAT: &str = "trace-advisor mapped ranks";
const VERSION: u32 = 2;

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
        let entry = |name: &String| RANK_ENTRIES.into_iter().find(|entry| entry == name);
        let stated_by = self.stated_by.as_ref().and_then(entry);
        StagedTrace {
            number,
            rank: self.rank,
            shift_ns: self.shift_ns,
            partitions: Vec::new(),
            row: Some(row),
            // The same program wrote the record, so it knows the format.
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

    /// Bytes of its files.
    pub(super) fn content_bytes(&self) -> u64 {
        let files = self.tables.iter().chain(&self.views).chain([&self.ranks]);
        files.map(|file| file.bytes).sum()
    }

    /// The text of `group.json`.
    pub(super) fn to_text(&self) -> serde_json::Result<String> {
        serde_json::to_string(self).map(|text| text + "\n")
    }

    /// Reads `group.json`; the reason if it is not one. `None` if another program wrote it.
    pub(super) fn parse(text: &[u8], program: &Program) -> Result<Option<Self>, String> {
        #[derive(Deserialize)]
        struct Header {
            format: String,
            version: u32,
            program: Program,
        }
        let damaged = |e: serde_json::Error| format!("{FILE} is damaged: {e}");
        let header: Header = serde_json::from_slice(text).map_err(damaged)?;
        if header.format != FORMAT {
            return Err(format!("{FILE} does not describe mapped ranks"));
        }
        if header.version != VERSION || header.program != *program {
            return Ok(None);
        }
        let manifest: Self = serde_json::from_slice(text).map_err(damaged)?;
        manifest.check().map_err(|reason| format!("{FILE} is damaged: {reason}"))?;
        Ok(Some(manifest))
    }

    /// Names of tables and views are part of paths.
    fn check(&self) -> Result<(), String> {
        if let Some(unknown) = self.tables.iter().find(|file| tables::find(&file.table).is_none()) {
            return Err(format!("there is no table {:?}", unknown.table));
        }
        let timelines = self.files.iter().filter_map(|file| file.timeline.as_ref());
        for part in timelines.flat_map(|timeline| &timeline.parts) {
            if self.table(&part.table).is_none() {
                return Err(format!("table {:?} has no file", part.table));
            }
        }
        let is_word = |name: &str| {
            name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        match self.views.iter().find(|view| !is_word(&view.table)) {
            Some(view) => Err(format!("there is no view {:?}", view.table)),
            None => Ok(()),
        }
    }
}

/// The name of the group of these files.
pub(super) fn group_name(program: &Program, files: &[FileVersion]) -> serde_json::Result<String> {
    let text = serde_json::to_vec(&(FORMAT, VERSION, program, files))?;
    let digest = format!("{:x}", Sha256::digest(text));
    Ok(format!("{GROUP_PREFIX}{}", &digest[..KEY_LEN]))
}
