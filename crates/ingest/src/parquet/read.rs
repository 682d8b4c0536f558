//! Reads exports, completely or in part.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::RecordBatch;
use parquet::errors::ParquetError;
use rayon::prelude::*;
use trace_model::{
    Batches, Dataset, RunInfo, ScanError, TableSet, TableSource, TableSpec, Warning, tables,
};

use super::bounds;
use super::layout::{RUN_TABLES, partition_path};
use super::manifest::{self, Manifest, Partition};
use super::partition_file::{PartitionFile, PartitionProblem};
use crate::error::{Error, ExportProblem};
use crate::input::storage::{File, Folder};

/// An exported run. Opening it reads only the manifest; several threads may read it at once.
#[derive(Debug)]
pub struct Export {
    folder: Folder,
    name: String,
    manifest: Manifest,
    /// The numbers of the partitions of each table, in the order of its rows.
    of_table: BTreeMap<String, Vec<usize>>,
    /// Partitions whose checksum was verified.
    checked: Vec<AtomicBool>,
}

impl Export {
    /// Opens the export in a folder of this machine.
    ///
    /// # Errors
    /// If there is no export, or this version cannot read it.
    pub fn open(folder: &Path) -> Result<Arc<Self>, Error> {
        let name = folder.display().to_string();
        let folder = Folder::Local(folder.to_owned());
        let manifest = folder.file(manifest::FILE)?;
        Self::at(folder, &manifest, &name).map(Arc::new)
    }

    pub(crate) fn at(folder: Folder, manifest: &File, name: &str) -> Result<Self, Error> {
        let broken = |problem| Error::Export { path: name.to_owned(), problem };
        let read_error = |e| Error::read(format!("{name}: {}", manifest::FILE), e);
        if manifest.bytes().map_err(read_error)? > bounds::MAX_BYTES {
            let problem = ExportProblem::Damaged(format!("{} is far too long", manifest::FILE));
            return Err(broken(problem));
        }
        let text = manifest.read().map_err(read_error)?;
        let manifest = Manifest::parse(&text).map_err(broken)?;
        let checked = manifest.partitions.iter().map(|_| AtomicBool::new(false)).collect();
        let mut of_table: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (number, partition) in manifest.partitions.iter().enumerate() {
            of_table.entry(partition.table.clone()).or_default().push(number);
        }
        Ok(Self { folder, name: name.to_owned(), manifest, of_table, checked })
    }

    /// The exported run, with the current path of the export.
    pub fn run(&self) -> RunInfo {
        self.manifest.run(&self.name)
    }

    /// Problems while reading the exported run.
    pub fn warnings(&self) -> Vec<Warning> {
        self.manifest.warnings()
    }

    /// Bytes of its partitions.
    pub fn bytes(&self) -> u64 {
        self.manifest.partitions.iter().map(|partition| partition.bytes).sum()
    }

    /// Bytes that all tables take in memory.
    pub fn table_bytes(&self) -> u64 {
        self.manifest.partitions.iter().map(|partition| partition.memory_bytes).sum()
    }

    /// Rows of a table.
    pub fn rows(&self, table: &str) -> u64 {
        self.of(table).iter().map(|&number| self.manifest.partitions[number].rows).sum()
    }

    /// Reads all tables.
    ///
    /// # Errors
    /// If a partition is missing or changed.
    pub fn read(&self) -> Result<Dataset, Error> {
        self.read_some(|_| true)
    }

    /// Reads these tables, `ranks` and `reading_warnings`; all other tables of the result are empty.
    ///
    /// # Errors
    /// As [`Export::read`].
    pub fn read_tables(&self, tables: &BTreeSet<&str>) -> Result<Dataset, Error> {
        self.read_some(|table| RUN_TABLES.contains(&table) || tables.contains(table))
    }

    /// Reads `ranks` and `reading_warnings`; all other tables of the result are empty.
    ///
    /// # Errors
    /// As [`Export::read`].
    pub fn read_head(&self) -> Result<Dataset, Error> {
        self.read_some(|table| RUN_TABLES.contains(&table))
    }

    fn read_some(&self, wanted: impl Fn(&str) -> bool) -> Result<Dataset, Error> {
        let partitions = self.manifest.partitions.iter().enumerate();
        let wanted: Vec<(usize, &Partition)> =
            partitions.filter(|(_, partition)| wanted(&partition.table)).collect();
        let read: Vec<Vec<RecordBatch>> = wanted
            .par_iter()
            .map(|&(number, partition)| self.read_partition(number, partition))
            .collect::<Result<_, _>>()?;
        let mut tables = TableSet::default();
        for ((_, partition), batches) in wanted.into_iter().zip(read) {
            for batch in batches {
                tables.push(&partition.table, batch);
            }
        }
        Ok(Dataset { tables, run: self.run(), warnings: self.warnings() })
    }

    /// The partitions of a table, by their numbers, in the order of its rows.
    fn of(&self, table: &str) -> &[usize] {
        self.of_table.get(table).map_or(&[], Vec::as_slice)
    }

    /// The batches of a partition, one per row group.
    fn read_partition(
        &self,
        number: usize,
        partition: &Partition,
    ) -> Result<Vec<RecordBatch>, Error> {
        let (spec, content) = self.content(number, partition)?;
        let schema = Arc::new(spec.schema());
        let all: Vec<usize> = (0..spec.columns.len()).collect();
        let batches: Result<Vec<RecordBatch>, ParquetError> = (0..content.groups())
            .into_par_iter()
            .map(|group| {
                let rows = content.rows(&all, Some(group))?;
                let batches: Result<Vec<_>, _> = rows.collect();
                match <[RecordBatch; 1]>::try_from(batches?) {
                    Ok([batch]) => {
                        Ok(RecordBatch::try_new(schema.clone(), batch.columns().to_vec())?)
                    }
                    Err(_) => Err(ParquetError::General("a row group has no rows".to_owned())),
                }
            })
            .collect();
        batches.map_err(|e| self.broken(partition, e.to_string()))
    }

    /// Opens a partition and verifies that it is unchanged.
    fn content(
        &self,
        number: usize,
        partition: &Partition,
    ) -> Result<(&'static TableSpec, PartitionFile), Error> {
        let spec = tables::find(&partition.table);
        let spec =
            spec.ok_or_else(|| self.broken(partition, "there is no such table".to_owned()))?;
        let path = partition_path(&partition.table, partition.rank);
        let file = self.folder.file(&path)?;
        let content = PartitionFile::open(&file, partition, Some(spec), &self.checked[number]);
        let content = content.map_err(|problem| match problem {
            PartitionProblem::Damaged(reason) => self.broken(partition, reason),
            PartitionProblem::Unreadable(e) => Error::read(format!("{}: {path}", self.name), e),
        })?;
        Ok((spec, content))
    }

    fn broken(&self, partition: &Partition, reason: String) -> Error {
        let path = format!(
            "{}/{}",
            self.name.trim_end_matches('/'),
            partition_path(&partition.table, partition.rank)
        );
        Error::Export { path, problem: ExportProblem::Damaged(reason) }
    }
}

impl TableSource for Export {
    fn partitions(&self, table: &str) -> Vec<trace_model::Partition> {
        let known = |&number: &usize| {
            let Partition { rank, rows, memory_bytes: bytes, .. } =
                self.manifest.partitions[number];
            trace_model::Partition { rank, rows: rows as usize, bytes }
        };
        self.of(table).iter().map(known).collect()
    }

    fn scan(&self, table: &str, partition: usize, columns: &[usize]) -> Result<Batches, ScanError> {
        let &number = self.of(table).get(partition).ok_or("there is no such partition")?;
        let (_, content) = self.content(number, &self.manifest.partitions[number])?;
        let rows = content.rows(columns, None)?;
        Ok(Box::new(rows.map(|batch| batch.map_err(ScanError::from))))
    }
}
