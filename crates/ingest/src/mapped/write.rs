//! Maps the traces of a shard, group by group.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use rayon::prelude::*;
use trace_model::{TableSet, TableSpec, tables};

use super::manifest::{self, Manifest, MappedFile, Program, TablePart, TimelineRecord};
use super::read::list_groups;
use super::shard::Shard;
use super::timelines::{needs_others, timelines};
use crate::enrich::enrich;
use crate::error::Error;
use crate::formats::importer::{Content, FileError};
use crate::input::decompress::Limit;
use crate::input::location::Location;
use crate::input::storage;
use crate::options::{FileWork, Options, Progress};
use crate::output::destination::{Destination, Draft};
use crate::parquet::manifest::Partition;
use crate::parquet::partition;
use crate::parquet::staged::{StagedTrace, contents};
use crate::run::attachment::TimelineState;
use crate::run::discover::{self, FoundRun, InputFile};
use crate::run::parse::parse_file;
use crate::run::rank_from_name::rank_from_file_name;
use crate::run::version::FileVersion;
use crate::timeline::outline::Detail;

/// JSON of the traces of a group, in bytes: they are in memory at the same time.
const GROUP_JSON_BYTES: u64 = 256 << 20;
/// Maximum number of traces in a group.
const GROUP_TRACES: usize = 256;

/// Maps the traces of one shard of a run that are not mapped yet.
#[derive(Debug)]
pub struct Mapper {
    run: String,
    to: Destination,
    program: Program,
    limit: Limit,
    /// Files that are not read yet.
    files: VecDeque<InputFile>,
    /// Traces that were read, and belong to a later group.
    pending: VecDeque<MappedTrace>,
    summary: MapSummary,
}

/// Summary of the traces that were mapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MapSummary {
    /// Files of the shard.
    pub files: usize,
    /// Those of them that were mapped before.
    pub known_files: usize,
    /// Those that were read now, and are no timeline whose rank is known. They stay as they are for the process that puts
    /// the run together.
    pub left_files: usize,
    /// Groups written now.
    pub groups: usize,
    /// Bytes of JSON read.
    pub json_bytes: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// A file that was read.
#[derive(Debug)]
struct MappedTrace {
    version: FileVersion,
    json_bytes: u64,
    /// `None` if it is not a timeline of a known rank.
    timeline: Option<(Box<StagedTrace>, TableSet)>,
}

impl MappedTrace {
    fn rank(&self) -> Option<i32> {
        self.timeline.as_ref().map(|(trace, _)| trace.rank)
    }
}

/// Traces that were read, to be published with the rows of views over them.
#[derive(Debug)]
pub struct TraceGroup {
    traces: Vec<MappedTrace>,
    tables: TableSet,
}

/// The rows of a view over the tables of a group.
#[derive(Debug)]
pub struct ViewRows {
    /// Name of the view.
    pub view: String,
    /// Schema of the rows.
    pub schema: SchemaRef,
    /// The rows, in any order; all with a column `rank`.
    pub batches: Vec<RecordBatch>,
    /// Whether readers know the schema: then no rows need no file.
    pub is_schema_known: bool,
}

impl Mapper {
    /// Finds the files of a shard that are not in `to` yet, a folder or the address of one. `views` is a fingerprint of the
    /// views whose rows will be published.
    ///
    /// # Errors
    /// If the run or `to` cannot be listed, `to` cannot be created, or the traces of the run cannot be read one by one.
    pub fn open(
        run: &Location,
        to: &Location,
        shard: Shard,
        options: &Options,
        views: &str,
    ) -> Result<Self, Error> {
        let found = discover::find_part(run, options, |files| shard.selects(files))?;
        let shard = timelines(&found)?;
        let program = Program::this(views, options.max_json_bytes);
        let to = Destination::at(to, options.timeout)?;
        let mut known: BTreeSet<FileVersion> = BTreeSet::new();
        for group in list_groups(&to.folder(), &program)? {
            known.extend(group.manifest.files.iter().map(|file| file.version.clone()));
        }
        let mut missing: Vec<String> = Vec::new();
        for &file in &shard {
            if !known.contains(&FileVersion::of(file)?) {
                missing.push(file.file.clone());
            }
        }
        let summary = MapSummary {
            files: shard.len(),
            known_files: shard.len() - missing.len(),
            ..MapSummary::default()
        };
        let FoundRun { name, files, .. } = found;
        let mut by_name: BTreeMap<String, InputFile> =
            files.traces.into_iter().map(|file| (file.file.clone(), file)).collect();
        Ok(Self {
            run: name,
            to,
            program,
            limit: Limit { max_json_bytes: options.max_json_bytes },
            files: missing.iter().filter_map(|file| by_name.remove(file)).collect(),
            pending: VecDeque::new(),
            summary,
        })
    }

    /// Announces the files to read.
    pub fn begin(&self, progress: &dyn Progress) {
        progress.begin(FileWork {
            files: self.files.len(),
            file_bytes: self.files.iter().map(|file| file.bytes).sum(),
            json_bytes: self.files.iter().map(|file| file.json_bytes).sum(),
        });
    }

    /// Summary of the traces mapped so far.
    pub fn summary(&self) -> MapSummary {
        self.summary
    }

    /// Reads the next traces. `None` if all are mapped.
    ///
    /// # Errors
    /// If a store does not answer, a file changes while it is read, or a trace turns out to need other files.
    pub fn next_group(&mut self, progress: &dyn Progress) -> Result<Option<TraceGroup>, Error> {
        if self.pending.is_empty() {
            let files = self.next_files();
            self.pending = self.read(&files, progress)?.into();
        }
        let mut traces: Vec<MappedTrace> = Vec::new();
        let mut ranks = BTreeSet::new();
        // Profile cycles of a rank are in groups of their own: rows of views tell ranks apart, and nothing else.
        while let Some(trace) = self.pending.front() {
            if trace.rank().is_some_and(|rank| !ranks.insert(rank)) {
                break;
            }
            traces.extend(self.pending.pop_front());
        }
        if traces.is_empty() {
            return Ok(None);
        }
        let mut tables = TableSet::default();
        let mut timelines: Vec<_> = traces.iter().filter_map(|t| t.timeline.as_ref()).collect();
        timelines.sort_by_key(|(staged, _)| staged.rank);
        for (staged, of_trace) in timelines {
            if let Some(row) = &staged.row {
                tables.push("ranks", row.clone());
            }
            for (name, batches) in of_trace.iter() {
                for batch in batches {
                    tables.push(name, batch.clone());
                }
            }
        }
        Ok(Some(TraceGroup { traces, tables }))
    }

    /// Takes files for one group.
    fn next_files(&mut self) -> Vec<InputFile> {
        let mut files: Vec<InputFile> = Vec::new();
        let mut bytes = 0;
        while let Some(file) = self.files.front() {
            bytes += file.json_bytes;
            if !files.is_empty() && (bytes > GROUP_JSON_BYTES || files.len() == GROUP_TRACES) {
                break;
            }
            files.extend(self.files.pop_front());
        }
        files
    }

    fn read(
        &self,
        files: &[InputFile],
        progress: &dyn Progress,
    ) -> Result<Vec<MappedTrace>, Error> {
        let stored: Vec<&storage::File> = files.iter().map(|file| &file.stored).collect();
        storage::with_prefetch(&stored, progress, |positions| {
            let mut read: Vec<(usize, Result<MappedTrace, Error>)> = positions
                .par_bridge()
                .map(|at| (at, self.read_one(&files[at], progress)))
                .collect();
            read.sort_unstable_by_key(|(at, _)| *at);
            read.into_iter().map(|(_, trace)| trace).collect()
        })
    }

    fn read_one(&self, file: &InputFile, progress: &dyn Progress) -> Result<MappedTrace, Error> {
        let before = FileVersion::of(file)?;
        let timeline = match parse_file(file, self.limit, progress, Detail::All) {
            Ok(Content::Timeline(trace)) => {
                let trace = enrich(*trace);
                let is_known = trace.rank().is_some() || rank_from_file_name(&file.file).is_some();
                is_known.then(|| {
                    let (staged, tables) = StagedTrace::new(0, &file.file, trace);
                    (Box::new(staged), tables)
                })
            }
            Ok(Content::Attached(kind, _)) if kind.needs > TimelineState::Stored => {
                return Err(needs_others(&self.run, kind.files));
            }
            Err(FileError::StoreUnavailable(error)) => {
                return Err(Error::read(format!("{}: {}", self.run, file.file), error));
            }
            // `MappedRun::open` reads the file again and reports the problem.
            Ok(_) | Err(_) => None,
        };
        if FileVersion::of(file)? != before {
            return Err(Error::ChangedFile { file: file.file.clone() });
        }
        Ok(MappedTrace { version: before, json_bytes: file.json_bytes, timeline })
    }

    /// Writes a group with the rows of views over its tables.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn publish(&mut self, group: TraceGroup, views: &[ViewRows]) -> Result<(), Error> {
        let TraceGroup { traces, .. } = group;
        self.summary.json_bytes += traces.iter().map(|trace| trace.json_bytes).sum::<u64>();
        self.summary.left_files += traces.iter().filter(|trace| trace.rank().is_none()).count();
        let versions: Vec<FileVersion> = traces.iter().map(|trace| trace.version.clone()).collect();
        let draft = self.to.draft()?;
        let content = draft.path().to_owned();
        let name = manifest::group_name(&self.program, &versions)
            .map_err(|e| Error::write(&content, e.into()))?;
        let manifest = self.write_content(traces, views, &draft)?;
        let text = manifest.to_text().map_err(|e| Error::write(&content, e.into()))?;
        let content_bytes = manifest.content_bytes();
        self.to.publish(&draft, &name, (manifest::FILE, &text))?;
        self.summary.groups += 1;
        self.summary.bytes += content_bytes + text.len() as u64;
        Ok(())
    }

    /// Writes everything but the manifest.
    fn write_content(
        &self,
        traces: Vec<MappedTrace>,
        views: &[ViewRows],
        draft: &Draft,
    ) -> Result<Manifest, Error> {
        let (content, access) = (draft.path(), draft.access());
        let mut rows = Vec::new();
        let mut of_tables: BTreeMap<&str, TableParts> = BTreeMap::new();
        let mut staged = Vec::with_capacity(traces.len());
        for (at, MappedTrace { version, timeline, .. }) in traces.into_iter().enumerate() {
            let timeline = timeline.map(|(staged, tables)| {
                rows.extend(staged.row.clone());
                for (spec, batches) in contents(tables) {
                    let table = of_tables.entry(spec.name);
                    let table = table.or_insert_with(|| TableParts { spec, parts: Vec::new() });
                    table.parts.push((at, batches));
                }
                staged
            });
            staged.push((version, timeline));
        }
        let of_tables: Vec<TableParts> = of_tables.into_values().collect();
        let written: Vec<(Partition, Vec<(usize, TablePart)>)> =
            of_tables.par_iter().map(|table| table.write(draft)).collect::<Result<_, _>>()?;
        let mut parts: Vec<Vec<TablePart>> = vec![Vec::new(); staged.len()];
        let mut tables = Vec::with_capacity(written.len());
        for (table, of_traces) in written {
            tables.push(table);
            for (at, part) in of_traces {
                parts[at].push(part);
            }
        }
        let files = staged.into_iter().zip(parts).map(|((version, staged), parts)| {
            let timeline = staged.map(|staged| TimelineRecord::of(&staged, parts));
            MappedFile { version, timeline }
        });
        let files: Vec<MappedFile> = files.collect();
        let path = content.join(manifest::RANKS);
        let ranks = partition::write(&tables::Ranks::SPEC, None, &rows, &path, access)?;
        let write = |rows: &ViewRows| {
            let ViewRows { view, schema, batches, is_schema_known } = rows;
            if *is_schema_known && batches.iter().all(|batch| batch.num_rows() == 0) {
                return Ok(Partition::empty(view));
            }
            let path = content.join(manifest::view_path(view));
            // Headers of views document columns: that need not be repeated.
            let fields =
                schema.fields().iter().map(|f| f.as_ref().clone().with_metadata([].into()));
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            let plain = |batch: &RecordBatch| {
                RecordBatch::try_new(schema.clone(), batch.columns().to_vec())
            };
            let batches: Vec<RecordBatch> = batches
                .iter()
                .map(plain)
                .collect::<Result<_, _>>()
                .map_err(|e| Error::write(&path, io::Error::other(e)))?;
            partition::write_rows(view, &batches, &schema, &path, access)
        };
        let mut views: Vec<Partition> =
            views.par_iter().map(write).collect::<Result<_, Error>>()?;
        views.sort_by(|a, b| a.table.cmp(&b.table));
        Ok(Manifest::new(self.program.clone(), files, ranks, tables, views))
    }
}

/// The rows of a table, by position of the trace.
struct TableParts {
    spec: &'static TableSpec,
    parts: Vec<(usize, Vec<RecordBatch>)>,
}

impl TableParts {
    /// Writes the file of the table. Returns where the rows of each trace are.
    fn write(&self, draft: &Draft) -> Result<(Partition, Vec<(usize, TablePart)>), Error> {
        let batches: Vec<&[RecordBatch]> =
            self.parts.iter().map(|(_, batches)| batches.as_slice()).collect();
        let path = draft.path().join(manifest::table_path(self.spec.name));
        let written = partition::write_parts(self.spec, &batches, &path, draft.access())?;
        let (partition, row_groups) = written;
        let parts = self.parts.iter().zip(row_groups).map(|((at, batches), row_groups)| {
            let (rows, memory_bytes) = partition::size_of(batches);
            let table = self.spec.name.to_owned();
            (*at, TablePart { table, rows, memory_bytes, row_groups })
        });
        Ok((partition, parts.collect()))
    }
}

impl TraceGroup {
    /// The tables of all traces, each on a clock that starts with its first event.
    pub fn tables(&self) -> &TableSet {
        &self.tables
    }
}
