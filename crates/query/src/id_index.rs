//! Indexes rows by number, such as an event id or a correlation. Profilers number events from some value on with few
//! gaps, so a lookup is an array access; a map from number to position outgrows the CPU caches.

use arrow::array::Int64Array;
use rustc_hash::FxHashMap;
use trace_model::RecordBatch;

use crate::columns::{ints, rows_by_rank};
use crate::rust_view::Result;

/// The position of each of a set of numbers.
#[derive(Debug)]
pub enum IdIndex {
    /// Positions by the difference to the first number.
    Dense {
        /// The smallest number.
        first: i64,
        /// The position of each number from the smallest to the largest one.
        positions: Vec<u32>,
    },
    /// Positions of numbers with large gaps.
    Sparse(FxHashMap<i64, u32>),
}

const NO_POSITION: u32 = u32::MAX;

/// Numbers whose range exceeds this many times their count are sparse.
const MAX_SPREAD: u64 = 64;

impl IdIndex {
    /// An index of numbers in any order. For repeated numbers the last position counts.
    pub fn of(numbered: impl Iterator<Item = (i64, u32)> + Clone) -> Self {
        let (mut first, mut last, mut count) = (i64::MAX, i64::MIN, 0_u64);
        for (number, _) in numbered.clone() {
            first = first.min(number);
            last = last.max(number);
            count += 1;
        }
        if count == 0 || last.abs_diff(first) >= count * MAX_SPREAD {
            return Self::Sparse(numbered.collect());
        }
        let mut positions = vec![NO_POSITION; last.abs_diff(first) as usize + 1];
        for (number, position) in numbered {
            positions[number.abs_diff(first) as usize] = position;
        }
        Self::Dense { first, positions }
    }

    /// An index from each number to its position in the iterator.
    pub fn of_each(numbers: impl Iterator<Item = i64> + Clone) -> Self {
        Self::of(numbers.zip(0..))
    }

    /// The position of a number.
    pub fn get(&self, number: i64) -> Option<u32> {
        match self {
            Self::Dense { first, positions } => {
                let at = usize::try_from(number.checked_sub(*first)?).ok()?;
                positions.get(at).copied().filter(|&position| position != NO_POSITION)
            }
            Self::Sparse(positions) => positions.get(&number).copied(),
        }
    }
}

/// Rows of a batch by rank and event.
#[derive(Debug)]
pub struct EventIndex(FxHashMap<i64, IdIndex>);

impl EventIndex {
    /// Indexes a batch with columns `rank` and `event_id`.
    ///
    /// # Errors
    /// If a column is missing or holds no integers.
    pub fn of(batch: &RecordBatch) -> Result<Self> {
        Ok(Self::new(&ints(batch, "rank")?, &ints(batch, "event_id")?))
    }

    fn new(ranks: &Int64Array, events: &Int64Array) -> Self {
        let of_rank = rows_by_rank(ranks, |row| (events.value(row), row as u32));
        let positions = |(rank, rows): (i64, Vec<_>)| (rank, IdIndex::of(rows.into_iter()));
        Self(of_rank.into_iter().map(positions).collect())
    }

    /// The row of an event of a rank.
    pub fn get(&self, rank: i64, event: i64) -> Option<u32> {
        self.0.get(&rank)?.get(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(numbers: &[i64]) -> Vec<(i64, u32)> {
        numbers.iter().copied().zip(0..).collect()
    }

    #[test]
    fn id_index_finds_what_a_map_finds() {
        let some: &[&[i64]] = &[
            &[],
            &[7],
            &[5, 9, 7, 5, 6],
            &[-3, 4, -1],
            &[i64::MIN, i64::MAX, 0],
            &[i64::MAX, i64::MAX - 1],
            &[1 << 40, (1 << 40) + 3],
            &[0, 1_000_000],
        ];
        for numbers in some {
            let map: FxHashMap<i64, u32> = pairs(numbers).into_iter().collect();
            let positions = IdIndex::of(pairs(numbers).into_iter());
            let around =
                numbers.iter().flat_map(|&n| [n.saturating_sub(1), n, n.saturating_add(1)]);
            for number in around.chain([i64::MIN, -1, 0, 1, i64::MAX]) {
                assert_eq!(
                    positions.get(number),
                    map.get(&number).copied(),
                    "{number} of {numbers:?}"
                );
            }
        }
    }

    #[test]
    fn id_index_is_dense_when_gaps_are_small() {
        assert!(matches!(
            IdIndex::of_each([50_000_000, 50_000_010].into_iter()),
            IdIndex::Dense { .. }
        ));
        assert!(matches!(IdIndex::of_each([0, 128].into_iter()), IdIndex::Sparse(_)));
    }

    #[test]
    fn event_index_finds_rows_by_rank_and_event() {
        let ranks = Int64Array::from(vec![0, 0, 1, 1, 1]);
        let events = Int64Array::from(vec![7, 0, 7, i64::MAX, -1]);
        let rows = EventIndex::new(&ranks, &events);
        let found = [(0, 7), (0, 0), (1, 7), (1, i64::MAX), (1, -1)];
        assert_eq!(found.map(|(rank, event)| rows.get(rank, event)), [0, 1, 2, 3, 4].map(Some));
        assert_eq!([(0, 1), (0, -1), (2, 7)].map(|(rank, event)| rows.get(rank, event)), [None; 3]);
    }
}
