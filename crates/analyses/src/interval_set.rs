//! Sets of moments as sorted spans that neither touch nor overlap. Everything is one walk over its inputs.

/// From the first moment to the one after the last.
pub(crate) type Span = (i64, i64);

/// The moments in any of the spans, which come in any order.
pub(crate) fn union(mut spans: Vec<Span>) -> Vec<Span> {
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
pub(crate) fn minus(set: &[Span], taken: &[Span]) -> Vec<Span> {
    let mut rest = Vec::new();
    let mut next = 0;
    for &(start, end) in set {
        let mut from = start;
        while next < taken.len() && taken[next].1 <= from {
            next += 1;
        }
        // The last span taken may reach into the next one of the set: it is looked at again.
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

/// The moments in either set; both are sorted.
pub(crate) fn plus(a: &[Span], b: &[Span]) -> Vec<Span> {
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

/// How much of the set lies in each of the windows, which are sorted and do not overlap.
pub(crate) fn within(set: &[Span], windows: &[Span]) -> Vec<i64> {
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

    use super::{Span, minus, plus, union, within};

    const END: usize = 60;

    fn cells(spans: &[Span]) -> Vec<bool> {
        (0..END as i64).map(|t| spans.iter().any(|&(a, b)| a <= t && t < b)).collect()
    }

    fn spans() -> impl Strategy<Value = Vec<Span>> {
        prop::collection::vec((0..50_i64, 0..10_i64).prop_map(|(ts, dur)| (ts, ts + dur)), 0..12)
    }

    /// Sorted, never empty, never touching.
    fn is_proper(set: &[Span]) -> bool {
        set.iter().all(|&(a, b)| a < b) && set.windows(2).all(|pair| pair[0].1 < pair[1].0)
    }

    proptest! {
        #[test]
        fn sets_are_those_of_a_naive_model(a in spans(), b in spans()) {
            let (u, v) = (union(a.clone()), union(b.clone()));
            prop_assert!(is_proper(&u));
            prop_assert_eq!(cells(&u), cells(&a));
            let (x, y) = (cells(&a), cells(&b));
            let difference: Vec<bool> = x.iter().zip(&y).map(|(&x, &y)| x && !y).collect();
            prop_assert_eq!(cells(&minus(&u, &v)), difference);
            let either: Vec<bool> = x.iter().zip(&y).map(|(&x, &y)| x || y).collect();
            let all = plus(&u, &v);
            prop_assert!(is_proper(&all));
            prop_assert_eq!(cells(&all), either);
        }

        #[test]
        fn windows_cut_sets(a in spans(), cuts in prop::collection::btree_set(0..60_i64, 2..6)) {
            let cuts: Vec<i64> = cuts.into_iter().collect();
            let windows: Vec<Span> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
            let x = cells(&a);
            let naive: Vec<i64> = windows
                .iter()
                .map(|&(from, to)| (from..to).filter(|&t| x[t as usize]).count() as i64)
                .collect();
            prop_assert_eq!(within(&union(a), &windows), naive);
        }
    }
}
