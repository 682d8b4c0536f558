//! A sampled metric as a function of time: each value covers the time since the previous sample.

use crate::interval_set::Interval;

/// Samples of one metric, by time.
#[derive(Debug, Clone, Default)]
pub(super) struct SampledSeries {
    pub(super) samples: Vec<(i64, f64)>,
}

impl SampledSeries {
    /// Intervals and their values; the first sample has none.
    fn pieces(&self) -> impl Iterator<Item = (Interval, f64)> + '_ {
        self.samples.windows(2).map(|pair| ((pair[0].0, pair[1].0), pair[1].1))
    }

    /// The mean over the covered part of each window; `None` if samples cover nothing of it. Windows are sorted by
    /// start and end, and may overlap slightly.
    pub(super) fn means(&self, windows: &[Interval]) -> Vec<Option<f64>> {
        let pieces: Vec<(Interval, f64)> = self.pieces().collect();
        let mut next = 0;
        windows
            .iter()
            .map(|&(start, end)| {
                while next < pieces.len() && pieces[next].0.1 <= start {
                    next += 1;
                }
                let (mut sum, mut covered) = (0.0, 0_i64);
                for &((from, to), value) in pieces[next..].iter().take_while(|p| p.0.0 < end) {
                    let length = to.min(end).saturating_sub(from.max(start)).max(0);
                    sum += value * length as f64;
                    covered += length;
                }
                (covered > 0).then(|| sum / covered as f64)
            })
            .collect()
    }

    /// How much of the windows samples cover, and how much of that has a value of at least `least`, in nanoseconds.
    pub(super) fn time_at_least(&self, least: f64, windows: &[Interval]) -> (i64, i64) {
        let pieces: Vec<(Interval, f64)> = self.pieces().collect();
        let (mut covered, mut high, mut next) = (0, 0, 0);
        for &(start, end) in windows {
            while next < pieces.len() && pieces[next].0.1 <= start {
                next += 1;
            }
            for &((from, to), value) in pieces[next..].iter().take_while(|p| p.0.0 < end) {
                let length = to.min(end).saturating_sub(from.max(start)).max(0);
                covered += length;
                high += if value >= least { length } else { 0 };
            }
        }
        (covered, high)
    }

    /// The value that this ratio of the samples does not exceed.
    pub(super) fn quantile(&self, quantile: f64) -> Option<f64> {
        let mut values: Vec<f64> = self.samples.iter().map(|&(_, value)| value).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        values.get((last as f64 * quantile).round() as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::SampledSeries;

    fn series() -> SampledSeries {
        SampledSeries { samples: vec![(0, 99.0), (100, 10.0), (200, 30.0), (300, 50.0)] }
    }

    #[test]
    fn means_weights_values_by_covered_time() {
        let windows = [(-50, 0), (0, 100), (50, 150), (250, 400), (300, 400)];
        assert_eq!(series().means(&windows), [None, Some(10.0), Some(20.0), Some(50.0), None]);
        assert_eq!(SampledSeries::default().means(&windows), [None; 5]);
    }

    #[test]
    fn time_at_least_sums_covered_time() {
        assert_eq!(series().time_at_least(30.0, &[(50, 150), (250, 400)]), (150, 100));
        assert_eq!(series().time_at_least(30.0, &[]), (0, 0));
        assert_eq!(series().quantile(0.99), Some(99.0));
        assert_eq!(series().quantile(0.0), Some(10.0));
    }
}
