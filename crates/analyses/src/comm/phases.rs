//! What a rank spends its time on: device work while a device computes, else what its host is at.

/// Kinds of time, in the order of [`NAMES`].
pub(super) const KINDS: usize = 6;
pub(super) const NAMES: [&str; KINDS] =
    ["device", "dataloader", "forward", "backward", "optimizer", "other"];
const DEVICE: usize = 0;
const OTHER: usize = KINDS - 1;

/// Time by kind.
pub(super) type Spent = [i64; KINDS];

/// What a rank had spent its time on when a collective began, and when it ended.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AtCall {
    pub(super) start: Spent,
    pub(super) end: Spent,
}

/// What was spent between two moments, from what was spent until each of them.
pub(super) fn difference(until: &Spent, before: &Spent) -> Spent {
    std::array::from_fn(|kind| until[kind] - before[kind])
}

/// The number of a phase of the host.
pub(super) fn kind(phase: &str) -> usize {
    NAMES.iter().position(|&name| name == phase).filter(|&kind| kind != DEVICE).unwrap_or(OTHER)
}

/// One rank's time, cut where the kind changes.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    /// Start, kind from there on, and what was spent before.
    cuts: Vec<(i64, usize, Spent)>,
}

impl Timeline {
    /// From phases of the host `(start, end, kind)` and times in which a device computes, both in order
    /// and without overlap. What neither covers is other time.
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
        // What ends at a moment does so before what starts then.
        points.sort_by_key(|&(at, _, kind)| (at, kind.is_some()));
        let (mut host, mut device) = (OTHER, 0_i32);
        let mut cuts: Vec<(i64, usize, Spent)> = Vec::with_capacity(points.len());
        for (at, of_device, starts) in points {
            match (of_device, starts) {
                (true, Some(_)) => device += 1,
                (true, None) => device -= 1,
                (false, kind) => host = kind.unwrap_or(OTHER),
            }
            let now = if device > 0 { DEVICE } else { host };
            match cuts.last_mut() {
                Some((last, kind, _)) if *last == at => *kind = now,
                Some((_, kind, _)) if *kind == now => {}
                Some((last, kind, spent)) => {
                    let mut spent = *spent;
                    spent[*kind] += at - *last;
                    cuts.push((at, now, spent));
                }
                None => cuts.push((at, now, Spent::default())),
            }
        }
        Self { cuts }
    }

    /// What was spent up to a moment, counted from the first cut; negative before it.
    pub(super) fn before(&self, at: i64) -> Spent {
        let row = self.cuts.partition_point(|&(start, _, _)| start <= at);
        let mut spent = Spent::default();
        match row.checked_sub(1).map(|row| self.cuts[row]) {
            Some((start, kind, so_far)) => {
                spent = so_far;
                spent[kind] += at - start;
            }
            None => spent[OTHER] = at - self.cuts.first().map_or(0, |&(start, _, _)| start),
        }
        spent
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Random;
    use super::*;

    fn between(time: &Timeline, start: i64, end: i64) -> Spent {
        difference(&time.before(end), &time.before(start))
    }

    #[test]
    fn the_device_comes_before_the_host() {
        let phases = [(10, 20, kind("dataloader")), (20, 60, kind("forward"))];
        let time = Timeline::new(&phases, &[(15, 30), (50, 80)]);
        assert_eq!(between(&time, 0, 100), [45, 5, 20, 0, 0, 30]);
        assert_eq!(between(&time, 12, 18), [3, 3, 0, 0, 0, 0]);
        assert_eq!(between(&time, 90, 95), [0, 0, 0, 0, 0, 5]);
        assert_eq!(between(&Timeline::default(), 3, 8), [0, 0, 0, 0, 0, 5]);
    }

    #[test]
    fn it_is_what_counting_moments_says() {
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
            let mut expected = Spent::default();
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
            assert_eq!(between(&Timeline::new(&phases, &busy), start, end), expected);
        }
    }
}
