//! A sampled metric as a function of time: a value is about the time since the sample before.

/// A stretch of time, from its first moment to the one after its last.
pub(super) type Span = (i64, i64);

/// One series: samples by time.
#[derive(Debug, Clone, Default)]
pub(super) struct Series {
    pub(super) samples: Vec<(i64, f64)>,
}

impl Series {
    /// What holds when: nothing before the second sample.
    fn pieces(&self) -> impl Iterator<Item = (Span, f64)> + '_ {
        self.samples.windows(2).map(|pair| ((pair[0].0, pair[1].0), pair[1].1))
    }

    /// The mean over each window, as far as samples cover it; none if they cover nothing of it. Windows come by
    /// start and end; they may overlap a little.
    pub(super) fn means(&self, windows: &[Span]) -> Vec<Option<f64>> {
        let pieces: Vec<(Span, f64)> = self.pieces().collect();
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

    /// How much of the windows samples cover, and how much of that with a value of `least` or more.
    pub(super) fn at_least(&self, least: f64, windows: &[Span]) -> (i64, i64) {
        let pieces: Vec<(Span, f64)> = self.pieces().collect();
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

    /// The value that this share of the samples does not exceed.
    pub(super) fn quantile(&self, quantile: f64) -> Option<f64> {
        let mut values: Vec<f64> = self.samples.iter().map(|&(_, value)| value).collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        values.get((last as f64 * quantile).round() as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Series;

    fn series() -> Series {
        Series { samples: vec![(0, 99.0), (100, 10.0), (200, 30.0), (300, 50.0)] }
    }

    #[test]
    fn a_window_has_the_mean_of_what_covers_it() {
        let windows = [(-50, 0), (0, 100), (50, 150), (250, 400), (300, 400)];
        assert_eq!(series().means(&windows), [None, Some(10.0), Some(20.0), Some(50.0), None]);
        assert_eq!(Series::default().means(&windows), [None; 5]);
    }

    #[test]
    fn windows_are_told_by_height() {
        assert_eq!(series().at_least(30.0, &[(50, 150), (250, 400)]), (150, 100));
        assert_eq!(series().at_least(30.0, &[]), (0, 0));
        assert_eq!(series().quantile(0.99), Some(99.0));
        assert_eq!(series().quantile(0.0), Some(10.0));
    }
}
