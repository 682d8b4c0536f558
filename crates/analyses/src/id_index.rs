//! IdIndex by number: where an event or a correlation stands. Profilers number from somewhere on with few holes, so that
//! looking one up is an index; a map from number to place outgrows the caches of the processor.

use arrow::array::Int64Array;
use query::rust_view::Result;
use rustc_hash::FxHashMap;
use trace_model::RecordBatch;

use query::columns::ints;
use query::columns::rows_by_rank;

/// A place for each of some numbers.
#[derive(Debug)]
pub(crate) enum IdIndex {
    /// By what numbers are more than the first.
    Near { first: i64, places: Vec<u32> },
    /// Of numbers that are far apart.
    Far(FxHashMap<i64, u32>),
}

const NONE: u32 = u32::MAX;

/// Numbers that spread over so many times their count are far apart.
const SPREAD: u64 = 64;

impl IdIndex {
    /// Of numbers in any order; the last place counts where a number comes again.
    pub(crate) fn of(numbered: impl Iterator<Item = (i64, u32)> + Clone) -> Self {
        let (mut first, mut last, mut count) = (i64::MAX, i64::MIN, 0_u64);
        for (number, _) in numbered.clone() {
            first = first.min(number);
            last = last.max(number);
            count += 1;
        }
        if count == 0 || last.abs_diff(first) >= count * SPREAD {
            return Self::Far(numbered.collect());
        }
        let mut places = vec![NONE; last.abs_diff(first) as usize + 1];
        for (number, place) in numbered {
            places[number.abs_diff(first) as usize] = place;
        }
        Self::Near { first, places }
    }

    /// Of each number its position.
    pub(crate) fn of_each(numbers: impl Iterator<Item = i64> + Clone) -> Self {
        Self::of(numbers.zip(0..))
    }

    pub(crate) fn get(&self, number: i64) -> Option<u32> {
        match self {
            Self::Near { first, places } => {
                let at = usize::try_from(number.checked_sub(*first)?).ok()?;
                places.get(at).copied().filter(|&place| place != NONE)
            }
            Self::Far(places) => places.get(&number).copied(),
        }
    }
}

/// Rows of a batch by rank and event.
#[derive(Debug)]
pub(crate) struct EventIndex(FxHashMap<i64, IdIndex>);

impl EventIndex {
    /// Of a batch with columns `rank` and `event_id`.
    pub(crate) fn of(batch: &RecordBatch) -> Result<Self> {
        Ok(Self::new(&ints(batch, "rank")?, &ints(batch, "event_id")?))
    }

    fn new(ranks: &Int64Array, events: &Int64Array) -> Self {
        let of_rank = rows_by_rank(ranks, |row| (events.value(row), row as u32));
        let places = |(rank, rows): (i64, Vec<_>)| (rank, IdIndex::of(rows.into_iter()));
        Self(of_rank.into_iter().map(places).collect())
    }

    pub(crate) fn get(&self, rank: i64, event: i64) -> Option<u32> {
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
    fn places_are_those_of_a_map() {
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
            let places = IdIndex::of(pairs(numbers).into_iter());
            let around =
                numbers.iter().flat_map(|&n| [n.saturating_sub(1), n, n.saturating_add(1)]);
            for number in around.chain([i64::MIN, -1, 0, 1, i64::MAX]) {
                assert_eq!(
                    places.get(number),
                    map.get(&number).copied(),
                    "{number} of {numbers:?}"
                );
            }
        }
    }

    #[test]
    fn numbers_with_few_holes_are_near_and_others_take_no_more_room_than_a_map() {
        assert!(matches!(
            IdIndex::of_each([50_000_000, 50_000_010].into_iter()),
            IdIndex::Near { .. }
        ));
        assert!(matches!(IdIndex::of_each([0, 128].into_iter()), IdIndex::Far(_)));
    }

    #[test]
    fn rows_are_found_by_rank_and_event() {
        let ranks = Int64Array::from(vec![0, 0, 1, 1, 1]);
        let events = Int64Array::from(vec![7, 0, 7, i64::MAX, -1]);
        let rows = EventIndex::new(&ranks, &events);
        let found = [(0, 7), (0, 0), (1, 7), (1, i64::MAX), (1, -1)];
        assert_eq!(found.map(|(rank, event)| rows.get(rank, event)), [0, 1, 2, 3, 4].map(Some));
        assert_eq!([(0, 1), (0, -1), (2, 7)].map(|(rank, event)| rows.get(rank, event)), [None; 3]);
    }
}
