//! Sets of moments as sorted intervals that neither touch nor overlap. After sorting, each operation is one pass.

/// Start and end in nanoseconds, excluding the end.
pub(crate) type Interval = (i64, i64);

/// The union of intervals in any order.
pub(crate) fn union(mut spans: Vec<Interval>) -> Vec<Interval> {
    spans.retain(|&(start, end)| end > start);
    spans.sort_unstable();
    spans.dedup_by(|next, last| {
        let joins = next.0 <= last.1;
        if joins {
            last.1 = last.1.max(next.1);
        }
        joins
    });
    spans
}

/// The moments of `set` that are not in `taken`.
pub(crate) fn difference(set: &[Interval], taken: &[Interval]) -> Vec<Interval> {
    let mut rest = Vec::new();
    let mut next = 0;
    for &(start, end) in set {
        let mut from = start;
        while next < taken.len() && taken[next].1 <= from {
            next += 1;
        }
        // The last interval taken may reach into the next one of the set, so it is considered again.
        let mut at = next;
        while at < taken.len() && taken[at].0 < end {
            if taken[at].0 > from {
                rest.push((from, taken[at].0));
            }
            from = taken[at].1;
            at += 1;
        }
        next = at.saturating_sub(1).max(next);
        if from < end {
            rest.push((from, end));
        }
    }
    rest
}

/// The union of two sets.
pub(crate) fn union_of_sorted(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let mut all = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let from_a = j == b.len() || (i < a.len() && a[i] <= b[j]);
        let span = if from_a { a[i] } else { b[j] };
        if from_a {
            i += 1;
        } else {
            j += 1;
        }
        match all.last_mut() {
            Some((_, end)) if span.0 <= *end => *end = span.1.max(*end),
            _ => all.push(span),
        }
    }
    all
}

/// Length of the overlap of the set with each window. Windows are sorted and do not overlap.
pub(crate) fn overlap_per_window(set: &[Interval], windows: &[Interval]) -> Vec<i64> {
    let mut next = 0;
    windows
        .iter()
        .map(|&(start, end)| {
            while next < set.len() && set[next].1 <= start {
                next += 1;
            }
            set[next..]
                .iter()
                .take_while(|span| span.0 < end)
                .map(|span| span.1.min(end) - span.0.max(start))
                .filter(|&length| length > 0)
                .sum()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Interval, difference, overlap_per_window, union, union_of_sorted};

    const END: usize = 60;

    fn cells(spans: &[Interval]) -> Vec<bool> {
        (0..END as i64).map(|t| spans.iter().any(|&(a, b)| a <= t && t < b)).collect()
    }

    fn spans() -> impl Strategy<Value = Vec<Interval>> {
        prop::collection::vec((0..50_i64, 0..10_i64).prop_map(|(ts, dur)| (ts, ts + dur)), 0..12)
    }

    /// Sorted, never empty, never touching.
    fn is_proper(set: &[Interval]) -> bool {
        set.iter().all(|&(a, b)| a < b) && set.windows(2).all(|pair| pair[0].1 < pair[1].0)
    }

    proptest! {
        #[test]
        fn operations_equal_a_naive_model(a in spans(), b in spans()) {
            let (u, v) = (union(a.clone()), union(b.clone()));
            prop_assert!(is_proper(&u));
            prop_assert_eq!(cells(&u), cells(&a));
            let (x, y) = (cells(&a), cells(&b));
            let expected: Vec<bool> = x.iter().zip(&y).map(|(&x, &y)| x && !y).collect();
            prop_assert_eq!(cells(&difference(&u, &v)), expected);
            let either: Vec<bool> = x.iter().zip(&y).map(|(&x, &y)| x || y).collect();
            let all = union_of_sorted(&u, &v);
            prop_assert!(is_proper(&all));
            prop_assert_eq!(cells(&all), either);
        }

        #[test]
        fn overlap_per_window_equals_a_naive_model(a in spans(), cuts in prop::collection::btree_set(0..60_i64, 2..6)) {
            let cuts: Vec<i64> = cuts.into_iter().collect();
            let windows: Vec<Interval> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
            let x = cells(&a);
            let naive: Vec<i64> = windows
                .iter()
                .map(|&(from, to)| (from..to).filter(|&t| x[t as usize]).count() as i64)
                .collect();
            prop_assert_eq!(overlap_per_window(&union(a), &windows), naive);
        }
    }
}
