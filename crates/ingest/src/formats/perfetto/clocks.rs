//! Converts the times of packets to the trace clock, in nanoseconds.

use rustc_hash::FxHashMap;

use super::schema::ClockSnapshot;
use crate::warnings::{Issue, Issues};

// Ids of Perfetto's built-in clocks.
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;

/// Clock ids that are local to a sequence.
const OF_SEQUENCE: std::ops::RangeInclusive<u32> = 64..=127;

/// Maximum snapshots per clock.
const MAX_SNAPSHOTS: usize = 1 << 16;

/// Maximum clocks per file.
const MAX_CLOCKS: usize = 1 << 16;

/// Sequence and id of a clock. Clocks of the whole trace have sequence 0.
type ClockKey = (u32, u32);

/// A clock other than the trace clock.
#[derive(Debug, Default)]
struct Clock {
    unit_ns: u64,
    /// The time of the last packet, for a clock whose times are relative to the previous packet.
    last_ns: Option<i64>,
    /// Times on this clock in ns, with the offsets in ns to the trace clock; sorted by time.
    offsets: Vec<(i64, i64)>,
}

/// The clocks of a trace.
#[derive(Debug)]
pub(super) struct Clocks {
    trace_clock: u32,
    others: FxHashMap<ClockKey, Clock>,
    /// First snapshot with both the trace clock and the real-time clock: the times of both, in ns.
    calendar: Option<(i64, i64)>,
}

impl Clocks {
    pub(super) fn new() -> Self {
        Self { trace_clock: BOOTTIME, others: FxHashMap::default(), calendar: None }
    }

    /// Returns the offset from trace times to nanoseconds since 1970, if the trace states it.
    pub(super) fn calendar_offset_ns(&self) -> Option<i64> {
        let (trace_ns, calendar_ns) = self.calendar?;
        calendar_ns.checked_sub(trace_ns)
    }

    /// Adds a snapshot from a packet of a sequence.
    pub(super) fn add(&mut self, sequence: u32, snapshot: &ClockSnapshot, issues: &mut Issues) {
        if let Some(clock) = snapshot.trace_clock.filter(|_| self.others.is_empty()) {
            self.trace_clock = clock;
        }
        let unit = |unit_ns: u64| unit_ns.max(1);
        let ns = |timestamp: u64, unit_ns: u64| {
            i64::try_from(timestamp.saturating_mul(unit(unit_ns))).unwrap_or(i64::MAX)
        };
        let of = |clock: u32| snapshot.clocks.iter().find(|reading| reading.clock == clock);
        // The time of the snapshot on the trace clock. If the snapshot lacks that clock, a known clock gives the time.
        let own = of(self.trace_clock).map(|reading| ns(reading.timestamp, reading.unit_ns));
        let own = own.or_else(|| {
            snapshot.clocks.iter().find_map(|reading| {
                let at = ns(reading.timestamp, reading.unit_ns);
                let clock = self.others.get(&key(sequence, reading.clock))?;
                clock.to_trace(at)
            })
        });
        let Some(own_ns) = own else {
            issues.add_many(Issue::UnknownClock, snapshot.clocks.len() as u64);
            return;
        };
        if let Some(calendar) = of(REALTIME) {
            let calendar_ns = ns(calendar.timestamp, calendar.unit_ns);
            self.calendar.get_or_insert((own_ns, calendar_ns));
        }
        for reading in snapshot.clocks.iter().filter(|r| r.clock != self.trace_clock) {
            let clock_ns = ns(reading.timestamp, reading.unit_ns);
            let key = key(sequence, reading.clock);
            let is_known = self.others.contains_key(&key);
            let offset_ns = own_ns.checked_sub(clock_ns);
            let Some(offset_ns) = offset_ns.filter(|_| is_known || self.others.len() < MAX_CLOCKS)
            else {
                issues.add(Issue::UnknownClock);
                continue;
            };
            let clock = self.others.entry(key).or_default();
            clock.unit_ns = unit(reading.unit_ns);
            clock.last_ns = reading.is_incremental.then_some(clock_ns);
            if clock.offsets.last().is_some_and(|&(from_ns, _)| clock_ns < from_ns) {
                issues.add(Issue::ClockWentBack);
            } else if clock.offsets.len() < MAX_SNAPSHOTS {
                clock.offsets.push((clock_ns, offset_ns));
            } else {
                issues.add(Issue::UnknownClock);
            }
        }
    }

    /// Returns the time of a packet on the trace clock; `None` if the packet's clock is unknown or the time is out of range.
    #[inline]
    pub(super) fn trace_ns(
        &mut self,
        sequence: u32,
        clock: Option<u32>,
        timestamp: u64,
    ) -> Option<i64> {
        let number = clock.unwrap_or(self.trace_clock);
        if number == self.trace_clock {
            return i64::try_from(timestamp).ok();
        }
        let clock = self.others.get_mut(&key(sequence, number))?;
        let mut ns = i64::try_from(timestamp.checked_mul(clock.unit_ns)?).ok()?;
        if let Some(last_ns) = &mut clock.last_ns {
            ns = last_ns.checked_add(ns)?;
            *last_ns = ns;
        }
        clock.to_trace(ns)
    }
}

impl Clock {
    /// Converts a time of this clock to the trace clock, with the last snapshot before it.
    fn to_trace(&self, ns: i64) -> Option<i64> {
        let after = self.offsets.partition_point(|&(from_ns, _)| from_ns <= ns);
        let (_, offset_ns) = self.offsets.get(after.saturating_sub(1))?;
        ns.checked_add(*offset_ns)
    }
}

fn key(sequence: u32, clock: u32) -> ClockKey {
    if OF_SEQUENCE.contains(&clock) { (sequence, clock) } else { (0, clock) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::perfetto::schema::ClockReading;

    fn reading(clock: u32, timestamp: u64) -> ClockReading {
        ClockReading { clock, timestamp, ..ClockReading::default() }
    }

    /// Adds a snapshot in a packet of sequence 1. Returns the warnings.
    fn added(clocks: &mut Clocks, readings: Vec<ClockReading>) -> Vec<(String, u64)> {
        let mut issues = Issues::default();
        clocks.add(1, &ClockSnapshot { clocks: readings, trace_clock: None }, &mut issues);
        let warnings = issues.warnings("").into_iter();
        warnings.map(|warning| (warning.code.into_owned(), warning.count)).collect()
    }

    #[test]
    fn times_are_those_of_the_last_snapshot_before() {
        let mut clocks = Clocks::new();
        assert_eq!(clocks.trace_ns(1, None, 5), Some(5));
        assert_eq!(clocks.trace_ns(1, Some(3), 5), None, "no snapshot yet");
        assert_eq!(added(&mut clocks, vec![reading(BOOTTIME, 100), reading(3, 40)]), []);
        assert_eq!(added(&mut clocks, vec![reading(BOOTTIME, 1000), reading(3, 945)]), []);
        let at = |clocks: &mut Clocks, ns| clocks.trace_ns(7, Some(3), ns);
        assert_eq!(at(&mut clocks, 39), Some(99));
        assert_eq!(at(&mut clocks, 50), Some(110));
        assert_eq!(at(&mut clocks, 950), Some(1005));
        assert_eq!(clocks.trace_ns(1, Some(9), 5), None);
        assert_eq!(clocks.trace_ns(1, None, u64::MAX), None);
        // A snapshot without the trace clock gets its time from a known clock.
        assert_eq!(added(&mut clocks, vec![reading(3, 950), reading(4, 7)]), []);
        assert_eq!(clocks.trace_ns(1, Some(4), 8), Some(1006));
        let alone = added(&mut clocks, vec![reading(9, 1)]);
        assert_eq!(alone, [("unknown-clock".to_owned(), 1)], "nothing to compare with");
    }

    #[test]
    fn a_clock_of_a_sequence_counts_from_the_packet_before() {
        let mut clocks = Clocks::new();
        let incremental =
            ClockReading { clock: 64, timestamp: 20, is_incremental: true, unit_ns: 1000 };
        assert_eq!(added(&mut clocks, vec![reading(BOOTTIME, 500_000), incremental]), []);
        assert_eq!(clocks.trace_ns(1, Some(64), 5), Some(505_000));
        assert_eq!(clocks.trace_ns(1, Some(64), 2), Some(507_000));
        assert_eq!(clocks.trace_ns(2, Some(64), 2), None, "a clock of another sequence");
        assert_eq!(clocks.trace_ns(1, Some(64), u64::MAX), None);
    }

    #[test]
    fn the_calendar_is_that_of_the_first_snapshot_with_both() {
        let mut clocks = Clocks::new();
        assert_eq!(clocks.calendar_offset_ns(), None);
        added(&mut clocks, vec![reading(BOOTTIME, 10), reading(REALTIME, 1010)]);
        added(&mut clocks, vec![reading(BOOTTIME, 20), reading(REALTIME, 5020)]);
        assert_eq!(clocks.calendar_offset_ns(), Some(1000));
    }

    #[test]
    fn snapshots_of_clocks_that_went_back_are_counted_and_left_out() {
        let mut clocks = Clocks::new();
        added(&mut clocks, vec![reading(BOOTTIME, 1000), reading(3, 500)]);
        for clock_ns in [499, 100] {
            let back = added(&mut clocks, vec![reading(BOOTTIME, 2000), reading(3, clock_ns)]);
            assert_eq!(back, [("clock-went-back".to_owned(), 1)]);
        }
        // A repeated time is not a step back.
        assert_eq!(added(&mut clocks, vec![reading(BOOTTIME, 1000), reading(3, 500)]), []);
        assert_eq!(clocks.trace_ns(1, Some(3), 400), Some(900));
        assert_eq!(clocks.trace_ns(1, Some(3), 600), Some(1100));
    }
}
