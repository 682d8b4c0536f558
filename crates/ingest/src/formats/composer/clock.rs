//! The clock of a PyTorch trace that was copied into a Composer trace.
//!
//! Since torch 2.4 times count from a base that Kineto rounds down to a multiple of three mean months; the copy
//! loses it (`baseTimeNanoseconds`). It follows from any moment near the recording.

use super::part::extent;
use crate::timeline::columns::Columns;
use crate::timeline::trace::EPOCH_NS;

/// Three mean months, to which Kineto rounds its base.
const WINDOW_NS: i64 = 7_889_238_000_000_000;

/// Kineto's base for a recording made around `unix_ns`.
pub(crate) fn base_near(unix_ns: i64) -> i64 {
    unix_ns.div_euclid(WINDOW_NS) * WINDOW_NS
}

/// The base that puts a trace with these first and last times into the stretch in which Composer recorded;
/// `None` if no base does.
pub(crate) fn repaired_base(torch: (i64, i64), composer: (i64, i64)) -> Option<i64> {
    let (start, end) = torch;
    if start > EPOCH_NS {
        return Some(0);
    }
    let base = base_near(composer.1);
    // The process may have begun before the last multiple.
    [base, base - WINDOW_NS, base + WINDOW_NS]
        .into_iter()
        .find(|base| start + base <= composer.1 && end + base >= composer.0)
}

/// Puts the copied trace on Composer's clock; false if none fits, and the likeliest base was taken.
pub(super) fn repair(torch: &mut Columns, own: &Columns) -> bool {
    let mut times = (i64::MAX, i64::MIN);
    torch.for_each_start(|starts| {
        for &ts in starts.iter().filter(|&&ts| ts < EPOCH_NS) {
            times = (times.0.min(ts), times.1.max(ts));
        }
    });
    if times.0 > times.1 {
        return true;
    }
    let Some(composer) = extent(own) else { return false };
    let base = repaired_base(times, composer);
    let add = base.unwrap_or_else(|| base_near(composer.1));
    torch.for_each_start(|starts| {
        starts.iter_mut().filter(|ts| **ts < EPOCH_NS).for_each(|ts| *ts += add);
    });
    base.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE_NS: i64 = 1_790_857_026_000_000_000;

    #[test]
    fn repaired_base_is_a_multiple_of_three_mean_months() {
        assert_eq!(BASE_NS % WINDOW_NS, 0);
        let recorded = 1_795_256_067_023_613_000;
        assert_eq!(base_near(recorded), BASE_NS);
        let torch = (4_399_041_059_739_845, 4_399_041_900_000_000);
        let composer = (recorded, recorded + 2_000_000_000);
        assert_eq!(repaired_base(torch, composer), Some(BASE_NS));
    }

    #[test]
    fn repaired_base_allows_processes_older_than_the_last_multiple() {
        let composer = (BASE_NS + 1_000_000_000, BASE_NS + 3_000_000_000);
        let torch = (WINDOW_NS + 1_500_000_000, WINDOW_NS + 2_000_000_000);
        assert_eq!(repaired_base(torch, composer), Some(BASE_NS - WINDOW_NS));
    }

    #[test]
    fn repaired_base_keeps_unix_times_and_rejects_others() {
        let composer = (BASE_NS, BASE_NS + 1_000_000_000);
        assert_eq!(repaired_base((BASE_NS + 5, BASE_NS + 6), composer), Some(0));
        assert_eq!(repaired_base((WINDOW_NS / 2, WINDOW_NS / 2 + 5), composer), None);
    }
}
