//! Medians, quantiles and outliers.

pub(crate) use trace_model::statistics::median;

/// An outlier is longer than this many times the 90th percentile.
const OUTLIER_FACTOR: f64 = 5.0;
/// With fewer values than this, none is an outlier.
const MIN_FOR_OUTLIERS: usize = 5;

/// The median of integers, 0 if there are none; of an even number, the mean of the middle two, rounded down.
pub(crate) fn int_median(values: &mut [i64]) -> i64 {
    if values.is_empty() {
        return 0;
    }
    values.sort_unstable();
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { values[middle - 1].midpoint(values[middle]) }
}

/// Index of a quantile among `len` sorted values, rounded down.
pub(crate) fn quantile_index(len: usize, quantile: f64) -> usize {
    (len.saturating_sub(1) as f64 * quantile) as usize
}

/// Flags the values that are far longer than the 90th percentile.
pub(crate) fn outliers(waits: &[f64]) -> Vec<bool> {
    let mut sorted = waits.to_vec();
    sorted.sort_by(f64::total_cmp);
    let most = sorted.get(quantile_index(sorted.len(), 0.9)).copied().unwrap_or(f64::INFINITY);
    let many = waits.len() >= MIN_FOR_OUTLIERS;
    waits.iter().map(|&wait| many && wait > OUTLIER_FACTOR * most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn int_median_is_the_middle_value() {
        assert_eq!(int_median(&mut []), 0);
        assert_eq!(int_median(&mut [3]), 3);
        assert_eq!(int_median(&mut [9, 1, 2]), 2);
        assert_eq!(int_median(&mut [4, 2, 9, 1]), 3);
    }

    #[test]
    fn median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(median(vec![3.0, 1.0, 2.0, 10.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }
}
