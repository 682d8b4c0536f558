//! Puts a run together from mapped traces.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field};
use arrow_select::filter::filter_record_batch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use private_files::Access;
use rayon::prelude::*;
use trace_model::{
    Batches, Dataset, Partition, ScanError, TableSet, TableSource, TableSpec, tables,
};

use super::manifest::{self, GROUP_PREFIX, Manifest, Program, TablePart};
use super::timelines::timelines;
use crate::error::Error;
use crate::input::location::Location;
use crate::input::storage::{File, Folder};
use crate::options::{Options, Progress};
use crate::output::work_folder::TemporaryFolder;
use crate::parquet::bounds::MAX_BYTES;
use crate::parquet::layout::RUN_TABLES;
use crate::parquet::manifest::Partition as StoredPartition;
use crate::parquet::partition::Change;
use crate::parquet::partition_file::{PartitionFile, PartitionProblem};
use crate::parquet::staged::{StagedTrace, file_name};
use crate::parquet::write::has_files_in_rank_order;
use crate::run::discover;
use crate::run::read;
use crate::run::sink::RankSink;
use crate::run::version::FileVersion;
use crate::timeline::placement::Placement;
use crate::timeline::trace::Trace;

/// Files that are opened at once.
const FILES_AT_ONCE: usize = 16;

/// A group whose manifest was read.
#[derive(Debug)]
pub(super) struct Group {
    folder: Folder,
    /// Name or address, for messages.
    name: String,
    pub(super) manifest: Manifest,
    /// For each table file, whether its content has been verified.
    checked: Vec<AtomicBool>,
}

/// The groups in a folder that this program can use, in order of their names.
pub(super) fn list_groups(folder: &Folder, program: &Program) -> Result<Vec<Group>, Error> {
    let folders = folder.folders_if_any()?;
    let mut groups: Vec<(String, Folder)> = Vec::new();
    for below in folders {
        let name = below.name();
        if name.starts_with(GROUP_PREFIX) {
            groups.push((name, below));
        }
    }
    groups.sort_by(|(a, _), (b, _)| a.cmp(b));
    let read = |(name, below): (String, Folder)| -> Result<Option<Group>, Error> {
        let file = below.file_if_any(manifest::FILE)?;
        let Some(file) = file else { return Ok(None) };
        let name = format!("{}/{name}", folder.shown().trim_end_matches('/'));
        let damaged = |reason: String| Error::Mapped { path: name.clone(), reason };
        let read_error = |e| Error::read(format!("{name}/{}", manifest::FILE), e);
        if file.bytes().map_err(read_error)? > MAX_BYTES {
            return Err(damaged(format!("{} is far too long", manifest::FILE)));
        }
        let text = file.read().map_err(read_error)?;
        let manifest = Manifest::parse(&text, program).map_err(damaged)?;
        Ok(manifest.map(|manifest| {
            let checked = manifest.tables.iter().map(|_| AtomicBool::new(false)).collect();
            Group { folder: below, name: name.clone(), manifest, checked }
        }))
    };
    let mut found = Vec::new();
    let mut groups = groups.into_iter();
    loop {
        let some: Vec<_> = groups.by_ref().take(FILES_AT_ONCE).collect();
        if some.is_empty() {
            return Ok(found);
        }
        let read: Vec<_> = some.into_par_iter().map(read).collect::<Result<_, Error>>()?;
        found.extend(read.into_iter().flatten());
    }
}

impl Group {
    fn error(&self, path: &str, problem: PartitionProblem) -> Error {
        match problem {
            PartitionProblem::Damaged(reason) => {
                Error::Mapped { path: format!("{}/{path}", self.name), reason }
            }
            PartitionProblem::Unreadable(e) => Error::read(format!("{}/{path}", self.name), e),
        }
    }

    /// Opens a file of the group.
    fn open(
        &self,
        path: &str,
        partition: &StoredPartition,
        spec: Option<&TableSpec>,
        is_checked: &AtomicBool,
    ) -> Result<PartitionFile, Error> {
        let file = self.folder.file_if_any(path)?;
        let missing = || PartitionProblem::Damaged("the file is missing".to_owned());
        let file = file.ok_or_else(|| self.error(path, missing()))?;
        PartitionFile::open(&file, partition, spec, is_checked)
            .map_err(|problem| self.error(path, problem))
    }

    /// All rows of a file of the group.
    fn rows(
        &self,
        path: &str,
        partition: &StoredPartition,
        spec: Option<&TableSpec>,
    ) -> Result<Vec<RecordBatch>, Error> {
        let file = self.open(path, partition, spec, &AtomicBool::new(false))?;
        let all: Vec<usize> = (0..file.schema().fields().len()).collect();
        let broken = |e: String| self.error(path, PartitionProblem::Damaged(e));
        let rows = file.rows(&all, None).map_err(|e| broken(e.to_string()))?;
        let mut rows: Vec<RecordBatch> =
            rows.collect::<Result<_, ArrowError>>().map_err(|e| broken(e.to_string()))?;
        if rows.is_empty() {
            rows.push(RecordBatch::new_empty(Arc::clone(file.schema())));
        }
        Ok(rows)
    }

    /// The row of `ranks` of each timeline.
    fn rank_rows(&self) -> Result<Vec<RecordBatch>, Error> {
        let spec = &tables::Ranks::SPEC;
        let rows = self.rows(manifest::RANKS, &self.manifest.ranks, Some(spec))?;
        let schema = Arc::new(spec.schema());
        let mut single = Vec::new();
        for batch in &rows {
            for row in 0..batch.num_rows() {
                let columns = batch.slice(row, 1).columns().to_vec();
                let row = RecordBatch::try_new(Arc::clone(&schema), columns);
                single.push(row.map_err(|e| {
                    self.error(manifest::RANKS, PartitionProblem::Damaged(e.to_string()))
                })?);
            }
        }
        let damaged =
            |reason: String| self.error(manifest::RANKS, PartitionProblem::Damaged(reason));
        let expected = self.manifest.timelines().count();
        if single.len() != expected {
            return Err(damaged(format!("it has {} rows, not {expected}", single.len())));
        }
        for ((file, timeline), row) in self.manifest.timelines().zip(&single) {
            timeline.check_row(row).map_err(|reason| damaged(format!("{file}: {reason}")))?;
        }
        Ok(single)
    }
}

/// The place of a mapped trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Origin {
    /// Position of the group.
    group: usize,
    /// Position of the trace in the group.
    file: usize,
}

/// The tables of a trace.
#[derive(Debug)]
enum TraceTables {
    /// Position of the group, and the rows in its files.
    Mapped(usize, Vec<TablePart>),
    Scratch(ScratchTables),
}

/// The tables of a trace that was not mapped, in a temporary folder.
#[derive(Debug)]
struct ScratchTables {
    folder: PathBuf,
    partitions: Vec<StoredPartition>,
    checked: Vec<AtomicBool>,
}

/// A trace of the run.
#[derive(Debug)]
struct PlacedTrace {
    tables: TraceTables,
    /// Its row of `ranks`.
    row: Option<RecordBatch>,
    rank: i32,
    change: Change,
}

/// A run whose timelines are mapped. Opening it reads the manifests of the groups, and those files of the run that are not
/// timelines.
pub struct MappedRun {
    groups: Arc<[Group]>,
    /// In order of ranks.
    traces: Vec<PlacedTrace>,
    /// Rows from other files, and of the run as a whole.
    pub(super) rest: TableSet,
    /// Whether an export of the run has files for the ranks of `rest`.
    pub(super) splits_by_rank: bool,
    /// The partitions of each table.
    of_table: BTreeMap<&'static str, Vec<Place>>,
    open_files: OpenFiles,
    /// Keeps the files of traces that were not mapped.
    _scratch: TemporaryFolder,
}

impl fmt::Debug for MappedRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedRun").field("groups", &self.groups.len()).finish_non_exhaustive()
    }
}

impl PlacedTrace {
    /// Position of its group, if it was mapped.
    fn group(&self) -> Option<usize> {
        match self.tables {
            TraceTables::Mapped(group, _) => Some(group),
            TraceTables::Scratch(_) => None,
        }
    }

    /// Number of tables with rows.
    fn table_count(&self) -> usize {
        match &self.tables {
            TraceTables::Mapped(_, parts) => parts.len(),
            TraceTables::Scratch(tables) => tables.partitions.len(),
        }
    }

    /// Name, number of rows, and size in memory of a table.
    fn table(&self, at: usize) -> (&str, u64, u64) {
        match &self.tables {
            TraceTables::Mapped(_, parts) => {
                let TablePart { table, rows, memory_bytes, .. } = &parts[at];
                (table, *rows, *memory_bytes)
            }
            TraceTables::Scratch(tables) => {
                let StoredPartition { table, rows, memory_bytes, .. } = &tables.partitions[at];
                (table, *rows, *memory_bytes)
            }
        }
    }
}

/// Files of tables that were opened last. The traces of a group share them, and reading their footers takes longer than
/// reading the rows of a short trace.
#[derive(Default)]
struct OpenFiles(Mutex<VecDeque<OpenFile>>);

struct OpenFile {
    group: usize,
    /// Position in the group.
    table: usize,
    file: Arc<PartitionFile>,
    memory_bytes: usize,
}

impl OpenFiles {
    const MAX_FILES: usize = 32;
    const MAX_BYTES: usize = 96 << 20;

    fn get(
        &self,
        (group, table): (usize, usize),
        open: impl FnOnce() -> Result<PartitionFile, Error>,
    ) -> Result<Arc<PartitionFile>, Error> {
        let files = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = files()
            .iter()
            .find(|f| (f.group, f.table) == (group, table))
            .map(|f| Arc::clone(&f.file));
        if let Some(file) = known {
            return Ok(file);
        }
        let file = Arc::new(open()?);
        let mut files = files();
        let memory_bytes = file.memory_bytes();
        files.push_back(OpenFile { group, table, file: Arc::clone(&file), memory_bytes });
        let mut bytes: usize = files.iter().map(|open| open.memory_bytes).sum();
        while files.len() > Self::MAX_FILES || (bytes > Self::MAX_BYTES && files.len() > 1) {
            bytes -= files.pop_front().map_or(0, |open| open.memory_bytes);
        }
        Ok(file)
    }
}

/// A table of a trace in a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredTable {
    pub(super) spec: &'static TableSpec,
    /// The rank of the trace in the run.
    pub(super) rank: i32,
    /// The difference between the rows in the run and those that are stored.
    pub(super) change: Change,
    /// Size of its rows in memory.
    pub(super) memory_bytes: u64,
    /// Position of the trace.
    pub(super) trace: usize,
    /// Position of the table in it.
    at: usize,
}

/// Place of the rows of a partition.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Rows of a trace: its position, and that of the table in it.
    Stored(usize, usize),
    /// The row of `ranks` of a trace.
    RankRow(usize),
    /// A table in memory.
    Rest,
}

impl MappedRun {
    /// Puts a run together from what [`super::Mapper`] wrote to `from` for it, with the same `views`. The dataset has
    /// only `ranks` and `reading_warnings`; the source has all tables.
    ///
    /// # Errors
    /// If a timeline of the run is not mapped, or mapped data is damaged; else as [`crate::read_location`].
    pub fn open(
        run: &Location,
        from: &Location,
        options: &Options,
        views: &str,
        progress: &dyn Progress,
    ) -> Result<(Dataset, Arc<Self>), Error> {
        let found = discover::find(run, options)?;
        let files = timelines(&found)?;
        let program = Program::this(views, options.max_json_bytes);
        let groups = list_groups(&from.folder(options.timeout)?, &program)?;
        let mut by_file: HashMap<&FileVersion, Origin> = HashMap::new();
        for (group, of_group) in groups.iter().enumerate() {
            for (file, mapped) in of_group.manifest.files.iter().enumerate() {
                by_file.entry(&mapped.version).or_insert(Origin { group, file });
            }
        }
        let mut origins: HashMap<&str, Origin> = HashMap::new();
        let mut missing = Vec::new();
        for &file in &files {
            match by_file.get(&FileVersion::of(file)?) {
                Some(origin) => {
                    origins.insert(&file.file, *origin);
                }
                None => missing.push(file.file.clone()),
            }
        }
        if !missing.is_empty() {
            return Err(Error::Unmapped {
                run: found.name.clone(),
                from: from.to_string(),
                total: files.len(),
                missing,
            });
        }
        let used: BTreeSet<usize> = origins.values().map(|origin| origin.group).collect();
        let rows: Vec<(usize, Vec<RecordBatch>)> = used
            .into_par_iter()
            .map(|group| Ok((group, groups[group].rank_rows()?)))
            .collect::<Result<_, Error>>()?;
        let rows: HashMap<usize, Vec<RecordBatch>> = rows.into_iter().collect();
        let mut mapped_tables = HashMap::new();
        let mut known: HashMap<usize, StagedTrace> = HashMap::new();
        for (number, file) in found.files.traces.iter().enumerate() {
            let Some(&origin) = origins.get(file.file.as_str()) else { continue };
            let of_group = &groups[origin.group].manifest.files;
            let Some(timeline) = &of_group[origin.file].timeline else { continue };
            let at = of_group[..origin.file].iter().filter(|file| file.timeline.is_some()).count();
            mapped_tables.insert(number, (origin.group, timeline.parts.clone()));
            known.insert(number, timeline.staged(number, rows[&origin.group][at].clone()));
        }
        let scratch = TemporaryFolder::create()?;
        let splits_by_rank = has_files_in_rank_order(&found.files.traces);
        let mut sink =
            MappedSink { known: Mutex::new(known), mapped_tables, scratch, traces: Vec::new() };
        let dataset = read::read(found, options, progress, &mut sink)?;
        let MappedSink { traces, scratch, .. } = sink;
        let mut mapped = Self {
            groups: groups.into(),
            traces,
            rest: dataset.tables.clone(),
            splits_by_rank,
            of_table: BTreeMap::new(),
            open_files: OpenFiles::default(),
            _scratch: scratch,
        };
        mapped.index();
        let mut tables = TableSet::default();
        for row in mapped.traces.iter().filter_map(|trace| trace.row.as_ref()) {
            tables.push("ranks", row.clone());
        }
        for table in RUN_TABLES {
            for batch in dataset.tables.get(table) {
                tables.push(table, batch.clone());
            }
        }
        Ok((Dataset { tables, ..dataset }, Arc::new(mapped)))
    }

    /// Lists the partitions of each table, as an export does: timelines in order of ranks, then all else.
    fn index(&mut self) {
        for (trace, placed) in self.traces.iter().enumerate() {
            if placed.row.is_some() {
                self.of_table.entry("ranks").or_default().push(Place::RankRow(trace));
            }
            for at in 0..placed.table_count() {
                if let Some(spec) = tables::find(placed.table(at).0) {
                    self.of_table.entry(spec.name).or_default().push(Place::Stored(trace, at));
                }
            }
        }
        for spec in tables::TABLES {
            if self.rest.rows(spec.name) > 0 {
                self.of_table.entry(spec.name).or_default().push(Place::Rest);
            }
        }
    }

    /// The tables of traces in files, in the order of an export: by rank, the largest table first.
    pub(super) fn stored_tables(&self) -> Vec<StoredTable> {
        let mut stored = Vec::new();
        for (trace, placed) in self.traces.iter().enumerate() {
            let mut of_trace: Vec<StoredTable> = (0..placed.table_count())
                .filter_map(|at| {
                    let (name, _, memory_bytes) = placed.table(at);
                    let spec = tables::find(name)?;
                    let (rank, change) = (placed.rank, placed.change);
                    Some(StoredTable { spec, rank, change, memory_bytes, trace, at })
                })
                .collect();
            let number = |table: &StoredTable| {
                tables::TABLES.iter().position(|spec| spec.name == table.spec.name)
            };
            of_trace.sort_by_key(|table| (Reverse(table.memory_bytes), number(table)));
            stored.extend(of_trace);
        }
        stored
    }

    /// The rows of a table of a trace, as they were stored: [`StoredTable::change`] moves them to their place in the run.
    pub(super) fn stored_rows(&self, table: &StoredTable) -> Result<Vec<RecordBatch>, ScanError> {
        let columns: Vec<usize> = (0..table.spec.columns.len()).collect();
        let rows = self.trace_rows(table.trace, table.at, &columns)?;
        Ok(rows.collect::<Result<_, ArrowError>>()?)
    }

    /// Reads columns of a table of a trace.
    fn trace_rows(
        &self,
        trace: usize,
        at: usize,
        columns: &[usize],
    ) -> Result<ParquetRecordBatchReader, ScanError> {
        match &self.traces[trace].tables {
            TraceTables::Mapped(number, parts) => {
                let (group, part) = (&self.groups[*number], &parts[at]);
                let table = group.manifest.table(&part.table).ok_or("there is no such table")?;
                let path = manifest::table_path(&part.table);
                let file = self.open_files.get((*number, table), || {
                    let partition = &group.manifest.tables[table];
                    group.open(&path, partition, tables::find(&part.table), &group.checked[table])
                })?;
                if file.rows_in(part.row_groups.clone()) != Some(part.rows) {
                    let reason = format!("rows of rank {} are missing", self.traces[trace].rank);
                    return Err(group.error(&path, PartitionProblem::Damaged(reason)).into());
                }
                Ok(file.rows_of(columns, part.row_groups.clone())?)
            }
            TraceTables::Scratch(ScratchTables { folder, partitions, checked }) => {
                let partition = &partitions[at];
                let path = folder.join(file_name(&partition.table));
                let (file, spec) = (File::Local(path.clone()), tables::find(&partition.table));
                let file = PartitionFile::open(&file, partition, spec, &checked[at]);
                let file = file.map_err(|problem| {
                    let reason = match problem {
                        PartitionProblem::Damaged(reason) => std::io::Error::other(reason),
                        PartitionProblem::Unreadable(e) => e,
                    };
                    Error::read(path, reason)
                })?;
                Ok(file.rows(columns, None)?)
            }
        }
    }

    /// Ranks of the run in ascending order, as ranges whose traces are in one group.
    fn ranges(&self) -> Option<Vec<(usize, &[PlacedTrace])>> {
        let ranges = self.traces.chunk_by(|a, b| a.group() == b.group());
        ranges.map(|traces| Some((traces.first()?.group()?, traces))).collect()
    }
}

impl TableSource for MappedRun {
    fn partitions(&self, table: &str) -> Vec<Partition> {
        let places = self.of_table.get(table).map_or(&[][..], Vec::as_slice);
        let partition = |place: &Place| match *place {
            Place::Stored(trace, at) => {
                let (_, rows, bytes) = self.traces[trace].table(at);
                Partition { rank: Some(self.traces[trace].rank), rows: rows as usize, bytes }
            }
            Place::RankRow(trace) => {
                let bytes = self.traces[trace].row.as_ref().map(RecordBatch::get_array_memory_size);
                let bytes = bytes.unwrap_or_default() as u64;
                Partition { rank: Some(self.traces[trace].rank), rows: 1, bytes }
            }
            Place::Rest => {
                let batches = self.rest.get(table);
                let bytes = batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
                Partition { rank: None, rows: self.rest.rows(table), bytes: bytes as u64 }
            }
        };
        places.iter().map(partition).collect()
    }

    fn scan(&self, table: &str, partition: usize, columns: &[usize]) -> Result<Batches, ScanError> {
        let places = self.of_table.get(table).map_or(&[][..], Vec::as_slice);
        let place = places.get(partition).ok_or("there is no such partition")?;
        let project = |batches: &[RecordBatch]| -> Result<Batches, ScanError> {
            let batches: Vec<RecordBatch> = batches
                .iter()
                .map(|batch| batch.project(columns))
                .collect::<Result<_, ArrowError>>()?;
            Ok(Box::new(batches.into_iter().map(Ok)))
        };
        match *place {
            Place::Rest => project(self.rest.get(table)),
            Place::RankRow(trace) => project(self.traces[trace].row.as_slice()),
            Place::Stored(trace, at) => {
                let rows = self.trace_rows(trace, at, columns)?;
                let change = self.traces[trace].change;
                let spec = tables::find(table).ok_or("there is no such table")?;
                let columns = columns.to_vec();
                let changed = move |batch: RecordBatch| {
                    // Batches without columns still have rows.
                    if columns.is_empty() {
                        return Ok(batch);
                    }
                    let arrays = batch.columns().iter().zip(&columns).map(|(array, &column)| {
                        change.apply(spec, column, array).unwrap_or_else(|| array.clone())
                    });
                    RecordBatch::try_new(batch.schema(), arrays.collect())
                };
                Ok(Box::new(
                    rows.map(move |batch| batch.and_then(&changed).map_err(ScanError::from)),
                ))
            }
        }
    }

    fn computed_rows(&self, view: &str) -> Option<Result<Batches, ScanError>> {
        let mut files = VecDeque::new();
        for (group, traces) in self.ranges()? {
            let views = &self.groups[group].manifest.views;
            let at = views.binary_search_by(|known| known.table.as_str().cmp(view)).ok()?;
            let shift = |trace: &PlacedTrace| (i64::from(trace.rank), trace.change.shift_ns);
            let shifts = traces.iter().map(shift).collect();
            // Rows of views without rows are not stored.
            if views[at].bytes > 0 {
                files.push_back(ViewFile { group, at, shifts });
            }
        }
        let rows = ViewFiles { groups: Arc::clone(&self.groups), files, rows: VecDeque::new() };
        Some(Ok(Box::new(rows)))
    }
}

/// The rows of a view of one group.
struct ViewFile {
    group: usize,
    /// Position of the view in the manifest.
    at: usize,
    /// The ranks to read, and what is added to their times.
    shifts: HashMap<i64, i64>,
}

impl ViewFile {
    fn read(&self, groups: &[Group]) -> Result<Vec<RecordBatch>, ScanError> {
        let group = &groups[self.group];
        let partition = &group.manifest.views[self.at];
        let rows = group.rows(&manifest::view_path(&partition.table), partition, None)?;
        let placed = rows.iter().map(|batch| placed_rows(batch, &self.shifts));
        placed.collect::<Result<_, ArrowError>>().map_err(ScanError::from)
    }
}

/// Reads the rows of a view, a few groups at once: opening a file takes a round trip to the store.
struct ViewFiles {
    groups: Arc<[Group]>,
    files: VecDeque<ViewFile>,
    rows: VecDeque<RecordBatch>,
}

impl Iterator for ViewFiles {
    type Item = Result<RecordBatch, ScanError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.rows.is_empty() && !self.files.is_empty() {
            let some: Vec<ViewFile> =
                self.files.drain(..self.files.len().min(FILES_AT_ONCE)).collect();
            let read: Result<Vec<_>, ScanError> =
                some.par_iter().map(|file| file.read(&self.groups)).collect();
            match read {
                Ok(read) => self.rows.extend(read.into_iter().flatten()),
                Err(error) => return Some(Err(error)),
            }
        }
        self.rows.pop_front().map(Ok)
    }
}

/// The rows of ranks, at their place in the run: `shifts` of each rank is added to its times. Rows of other ranks are left
/// out.
fn placed_rows(rows: &RecordBatch, shifts: &HashMap<i64, i64>) -> Result<RecordBatch, ArrowError> {
    let ranks = rank_numbers(rows)?;
    let is_placed: BooleanArray = ranks
        .iter()
        .map(|rank| Some(rank.is_some_and(|rank| shifts.contains_key(&rank))))
        .collect();
    let (rows, ranks) = if is_placed.true_count() == rows.num_rows() {
        (rows.clone(), ranks)
    } else {
        let rows = filter_record_batch(rows, &is_placed)?;
        let ranks = rank_numbers(&rows)?;
        (rows, ranks)
    };
    if shifts.values().all(|&shift| shift == 0) {
        return Ok(rows);
    }
    let schema = rows.schema();
    let shifted = |(field, array): (&Arc<Field>, &ArrayRef)| -> Result<ArrayRef, ArrowError> {
        let is_time = *field.data_type() == DataType::Int64 && tables::is_timestamp(field.name());
        let Some(times) = array.as_primitive_opt::<Int64Type>().filter(|_| is_time) else {
            return Ok(array.clone());
        };
        let shift = |(row, time): (usize, Option<i64>)| -> Result<Option<i64>, ArrowError> {
            let Some(time) = time else { return Ok(None) };
            let shifted = time.checked_add(shifts[&ranks.value(row)]);
            let far = || ArrowError::ComputeError(format!("{} is out of range", field.name()));
            shifted.map(Some).ok_or_else(far)
        };
        let times: Int64Array = times.iter().enumerate().map(shift).collect::<Result<_, _>>()?;
        Ok(Arc::new(times))
    };
    let arrays: Result<_, _> = schema.fields().iter().zip(rows.columns()).map(shifted).collect();
    RecordBatch::try_new(schema, arrays?)
}

/// The rank of each row.
fn rank_numbers(rows: &RecordBatch) -> Result<Int64Array, ArrowError> {
    let no_ranks = || ArrowError::SchemaError("the rows have no ranks".to_owned());
    let ranks = rows.column_by_name("rank").ok_or_else(no_ranks)?;
    if let Some(ranks) = ranks.as_primitive_opt::<Int64Type>() {
        return Ok(ranks.clone());
    }
    let ranks = ranks.as_primitive_opt::<Int32Type>().ok_or_else(no_ranks)?;
    Ok(ranks.unary(i64::from))
}

/// Takes mapped traces as they are.
struct MappedSink {
    /// Mapped traces by the number of their file.
    known: Mutex<HashMap<usize, StagedTrace>>,
    /// The group and the tables of each mapped trace that is not placed yet, by the number of its file.
    mapped_tables: HashMap<usize, (usize, Vec<TablePart>)>,
    /// Folder for timelines of unknown rank.
    scratch: TemporaryFolder,
    traces: Vec<PlacedTrace>,
}

impl MappedSink {
    fn folder(&self, number: usize) -> PathBuf {
        self.scratch.path().join(number.to_string())
    }
}

impl RankSink for MappedSink {
    type Stored = StagedTrace;

    const JSON_BYTES_AT_ONCE: Option<u64> = Some(96 << 20);

    fn has(&self, number: usize) -> bool {
        self.mapped_tables.contains_key(&number)
    }

    fn take(&self, number: usize) -> Option<StagedTrace> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }

    fn store(&self, number: usize, file: &str, trace: Trace) -> Result<StagedTrace, Error> {
        let (mut staged, tables) = StagedTrace::new(number, file, trace);
        staged.write_tables(&self.folder(number), tables, Access::Owner)?;
        Ok(staged)
    }

    fn place(&mut self, traces: Vec<(StagedTrace, Placement)>) -> Result<TableSet, Error> {
        for (trace, placement) in traces {
            let (row, change) = (trace.row_at(placement), trace.change(placement));
            let tables = match self.mapped_tables.remove(&trace.number) {
                Some((group, parts)) => TraceTables::Mapped(group, parts),
                None => TraceTables::Scratch(ScratchTables {
                    folder: self.folder(trace.number),
                    checked: trace.partitions.iter().map(|_| AtomicBool::new(false)).collect(),
                    partitions: trace.partitions,
                }),
            };
            self.traces.push(PlacedTrace { tables, row, rank: placement.rank, change });
        }
        Ok(TableSet::default())
    }
}
