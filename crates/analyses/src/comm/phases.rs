//! Splits the time of a rank into phases: the device while it computes, else the phase of the host.

/// Number of phases in [`PHASES`].
pub(super) const PHASE_COUNT: usize = 6;
pub(super) const PHASES: [&str; PHASE_COUNT] =
    ["device", "dataloader", "forward", "backward", "optimizer", "other"];
const DEVICE: usize = 0;
const OTHER: usize = PHASE_COUNT - 1;

/// Time per phase in nanoseconds, in the order of [`PHASES`].
pub(super) type PhaseTotals = [i64; PHASE_COUNT];

/// Totals of a rank at the start and at the end of a collective.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TotalsAtCollective {
    pub(super) start: PhaseTotals,
    pub(super) end: PhaseTotals,
}

/// Index of a host phase in [`PHASES`]; unknown names are other time.
pub(super) fn phase_index(phase: &str) -> usize {
    PHASES.iter().position(|&name| name == phase).filter(|&kind| kind != DEVICE).unwrap_or(OTHER)
}

/// Phases of one rank over time.
#[derive(Debug, Default)]
pub(super) struct PhaseTimeline {
    /// Start of an interval, its phase, and the totals up to the start.
    changes: Vec<(i64, usize, PhaseTotals)>,
}

impl PhaseTimeline {
    /// `phases` are host phases `(start, end, phase)` and `busy` are the intervals in which a device computes, both
    /// sorted and disjoint. Time that neither covers is other time.
    pub(super) fn new(phases: &[(i64, i64, usize)], busy: &[(i64, i64)]) -> Self {
        let mut points: Vec<(i64, bool, Option<usize>)> = Vec::new();
        for &(start, end, kind) in phases {
            points.push((start, false, Some(kind)));
            points.push((end, false, None));
        }
        for &(start, end) in busy {
            points.push((start, true, Some(DEVICE)));
            points.push((end, true, None));
        }
        // At the same moment, ends come before starts.
        points.sort_by_key(|&(at, _, kind)| (at, kind.is_some()));
        let (mut host, mut device) = (OTHER, 0_i32);
        let mut changes: Vec<(i64, usize, PhaseTotals)> = Vec::with_capacity(points.len());
        for (at, of_device, starts) in points {
            match (of_device, starts) {
                (true, Some(_)) => device += 1,
                (true, None) => device -= 1,
                (false, kind) => host = kind.unwrap_or(OTHER),
            }
            let now = if device > 0 { DEVICE } else { host };
            match changes.last_mut() {
                Some((last, kind, _)) if *last == at => *kind = now,
                Some((_, kind, _)) if *kind == now => {}
                Some((last, kind, spent)) => {
                    let mut spent = *spent;
                    spent[*kind] += at - *last;
                    changes.push((at, now, spent));
                }
                None => changes.push((at, now, PhaseTotals::default())),
            }
        }
        Self { changes }
    }

    /// Totals up to a moment, counted from the first change; negative before it.
    pub(super) fn totals_until(&self, at: i64) -> PhaseTotals {
        let row = self.changes.partition_point(|&(start, _, _)| start <= at);
        let mut spent = PhaseTotals::default();
        match row.checked_sub(1).map(|row| self.changes[row]) {
            Some((start, kind, so_far)) => {
                spent = so_far;
                spent[kind] += at - start;
            }
            None => spent[OTHER] = at - self.changes.first().map_or(0, |&(start, _, _)| start),
        }
        spent
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Random;
    use super::*;

    fn between(time: &PhaseTimeline, start: i64, end: i64) -> PhaseTotals {
        let (until, before) = (time.totals_until(end), time.totals_until(start));
        std::array::from_fn(|kind| until[kind] - before[kind])
    }

    #[test]
    fn phase_timeline_prefers_the_device_to_the_host() {
        let phases = [(10, 20, phase_index("dataloader")), (20, 60, phase_index("forward"))];
        let time = PhaseTimeline::new(&phases, &[(15, 30), (50, 80)]);
        assert_eq!(between(&time, 0, 100), [45, 5, 20, 0, 0, 30]);
        assert_eq!(between(&time, 12, 18), [3, 3, 0, 0, 0, 0]);
        assert_eq!(between(&time, 90, 95), [0, 0, 0, 0, 0, 5]);
        assert_eq!(between(&PhaseTimeline::default(), 3, 8), [0, 0, 0, 0, 0, 5]);
    }

    #[test]
    fn phase_timeline_equals_counting_each_moment() {
        let mut random = Random(5);
        for _ in 0..200 {
            let mut at = random.below(5);
            let mut phases = Vec::new();
            for _ in 0..random.below(6) {
                let (start, end) = (at, at + 1 + random.below(9));
                phases.push((start, end, 1 + random.below(4) as usize));
                at = end + random.below(3);
            }
            let mut at = random.below(5);
            let mut busy = Vec::new();
            for _ in 0..random.below(6) {
                busy.push((at, at + 1 + random.below(9)));
                at = busy[busy.len() - 1].1 + random.below(3);
            }
            let (start, end) = (random.below(30), 30 + random.below(30));
            let mut expected = PhaseTotals::default();
            for moment in start..end {
                let within = |(from, to): (i64, i64)| from <= moment && moment < to;
                let host = phases.iter().find(|&&(from, to, _)| within((from, to)));
                let kind = if busy.iter().any(|&b| within(b)) {
                    DEVICE
                } else {
                    host.map_or(OTHER, |&(_, _, kind)| kind)
                };
                expected[kind] += 1;
            }
            assert_eq!(between(&PhaseTimeline::new(&phases, &busy), start, end), expected);
        }
    }
}
