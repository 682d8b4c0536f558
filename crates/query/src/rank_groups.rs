//! Which ranks are in memory together, and reading them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::exec_datafusion_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use futures::stream::{self, StreamExt, TryStreamExt};
use trace_model::tables::TABLES;
use trace_model::{RecordBatch, ScanError, TableSource};

use super::outline::Columns;
use crate::schema::bare;
use crate::selection::keep;

/// What tables take with all that is computed from them at a time, in bytes a byte of them.
const WORKING_BYTES: u64 = 4;

/// What a group of several ranks may take: more makes nothing faster, the system only hands out more memory anew.
const MOST_BYTES: u64 = 2 << 30;

/// Whether tables of so many bytes leave room, within a limit, for what is computed from them.
pub fn fits(table_bytes: u64, memory_bytes: u64) -> bool {
    table_bytes.saturating_mul(WORKING_BYTES) <= memory_bytes
}

/// Whether the tables of each rank do, a few ranks at a time.
pub fn fits_by_rank(source: &dyn TableSource, memory_bytes: u64) -> bool {
    groups(source, memory_bytes).is_some()
}

/// Splits all ranks into stretches whose tables fit into memory. None if those of one rank do not: such a run is not split.
pub(super) fn groups(
    source: &dyn TableSource,
    memory_bytes: u64,
) -> Option<Vec<RangeInclusive<i32>>> {
    let mut ranks: BTreeMap<i32, u64> = BTreeMap::new();
    let mut of_all = 0;
    for partition in TABLES.iter().flat_map(|spec| source.partitions(spec.name)) {
        let bytes = partition.rank.map_or(&mut of_all, |rank| ranks.entry(rank).or_default());
        *bytes += partition.bytes;
    }
    let mut groups: Vec<RangeInclusive<i32>> = Vec::new();
    let mut held = u64::MAX;
    for (rank, bytes) in ranks {
        held = held.saturating_add(bytes);
        if !fits(held, memory_bytes.min(MOST_BYTES)) {
            held = bytes + of_all;
            if !fits(held, memory_bytes) {
                return None;
            }
            groups.push(rank..=rank);
        } else if let Some(group) = groups.last_mut() {
            *group = *group.start()..=rank;
        }
    }
    // No row is left out, whatever rank it is of.
    for at in 0..groups.len() {
        let first = if at == 0 { i32::MIN } else { *groups[at].start() };
        let last = groups.get(at + 1).map_or(i32::MAX, |next| next.start() - 1);
        groups[at] = first..=last;
    }
    Some(groups).filter(|groups| !groups.is_empty())
}

/// Tables in memory: some columns of them.
pub(super) type Loaded = BTreeMap<&'static str, (SchemaRef, Vec<RecordBatch>)>;

/// The rows of some ranks, in these columns.
pub(super) async fn load(
    source: &Arc<dyn TableSource>,
    columns: &Columns,
    ranks: &RangeInclusive<i32>,
) -> Result<Loaded> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut loaded = Loaded::new();
    let mut pieces = Vec::new();
    for spec in TABLES {
        let Some(columns) = columns.get(spec.name) else { continue };
        let columns: Arc<[usize]> = columns.iter().copied().collect();
        loaded.insert(spec.name, (Arc::new(bare(spec).project(&columns)?), Vec::new()));
        for (number, partition) in source.partitions(spec.name).into_iter().enumerate() {
            if partition.rank.is_none_or(|rank| ranks.contains(&rank)) {
                let is_of_one = partition.rank.is_some();
                pieces.push(Piece {
                    table: spec.name,
                    columns: columns.clone(),
                    number,
                    is_of_one,
                });
            }
        }
    }
    // Begun when its turn comes.
    let read = |piece: Piece| {
        let (source, ranks, table) = (Arc::clone(source), ranks.clone(), piece.table);
        async move {
            let read = SpawnedTask::spawn_blocking(move || piece.read(source.as_ref(), &ranks));
            let batches = read.join().await.map_err(|e| exec_datafusion_err!("{e}"))?;
            Ok::<_, DataFusionError>((table, batches.map_err(DataFusionError::External)?))
        }
    };
    let pieces: Vec<_> = pieces.into_iter().map(read).collect();
    let mut pieces = stream::iter(pieces).buffered(cores);
    while let Some((table, batches)) = pieces.try_next().await? {
        let Some((schema, rows)) = loaded.get_mut(table) else { continue };
        for batch in batches {
            rows.push(RecordBatch::try_new(Arc::clone(schema), batch.columns().to_vec())?);
        }
    }
    Ok(loaded)
}

/// A partition.
struct Piece {
    table: &'static str,
    columns: Arc<[usize]>,
    number: usize,
    is_of_one: bool,
}

impl Piece {
    fn read(
        &self,
        source: &dyn TableSource,
        ranks: &RangeInclusive<i32>,
    ) -> Result<Vec<RecordBatch>, ScanError> {
        let batches = source.scan(self.table, self.number, &self.columns)?;
        if self.is_of_one {
            return batches.collect();
        }
        let is_wanted = |rank| i32::try_from(rank).is_ok_and(|rank| ranks.contains(&rank));
        batches.map(|batch| Ok(keep(&batch?, "rank", is_wanted)?)).collect()
    }
}

#[cfg(test)]
mod tests {
    use trace_model::{Batches, Partition};

    use super::*;

    #[derive(Debug)]
    struct Ranks(Vec<(i32, u64)>);

    impl TableSource for Ranks {
        fn partitions(&self, table: &str) -> Vec<Partition> {
            let of_rank = |&(rank, bytes): &_| Partition { rank: Some(rank), rows: 1, bytes };
            let of_run = Partition { rank: None, rows: 1, bytes: 1 };
            match table {
                "kernels" => self.0.iter().map(of_rank).collect(),
                "ranks" => vec![of_run],
                _ => Vec::new(),
            }
        }

        fn scan(&self, _: &str, _: usize, _: &[usize]) -> Result<Batches, ScanError> {
            unreachable!("nothing is read")
        }
    }

    fn split(ranks: &[(i32, u64)]) -> Option<Vec<RangeInclusive<i32>>> {
        groups(&Ranks(ranks.to_vec()), 11 * WORKING_BYTES)
    }

    #[test]
    fn groups_are_as_large_as_memory_allows_and_leave_no_rank_out() {
        let even: Vec<(i32, u64)> = (0..5).map(|rank| (rank, 4)).collect();
        assert_eq!(split(&even), Some(vec![i32::MIN..=1, 2..=3, 4..=i32::MAX]));
        assert_eq!(split(&[(7, 10), (9, 1), (12, 2)]), Some(vec![i32::MIN..=8, 9..=i32::MAX]));
        assert_eq!(split(&[(3, 10)]), Some(vec![i32::MIN..=i32::MAX]));
    }

    #[test]
    fn a_rank_that_does_not_fit_and_a_run_without_any_are_not_split() {
        assert_eq!(split(&[(0, 1), (1, 11)]), None);
        assert_eq!(split(&[]), None);
    }
}
