//! Damage of trace files that makes a report on the remaining events unreliable.

use std::collections::BTreeMap;

use crate::number::thousands;
use crate::{RunInfo, Warning};

/// Maximum share of invalid events in an undamaged file.
pub const MAX_INVALID_RATIO: f64 = 0.01;

/// Warnings about truncated files.
pub const TRUNCATION_WARNINGS: [&str; 5] =
    ["truncated-gzip", "truncated-json", "truncated-packets", "damaged-bundle", "zstd-packets"];
/// Warnings that count events whose content was dropped.
pub const INVALID_EVENT_WARNINGS: [&str; 10] = [
    "malformed-event",
    "not-an-event",
    "negative-duration",
    "missing-duration",
    "bad-time",
    "far-event",
    "enclosing-work",
    "malformed-packet",
    "lost-packets",
    "unknown-clock",
];

/// A trace file that is truncated or has invalid events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedFile {
    /// Path relative to the run.
    pub file: String,
    /// The file is truncated.
    pub is_truncated: bool,
    /// Entries of the event list whose content was dropped.
    pub invalid_event_count: u64,
    /// Entries of the event list.
    pub event_count: u64,
}

impl DamagedFile {
    /// Describes the damage: `120 of 4,000 events (3 %) are invalid`.
    pub fn description(&self) -> String {
        let Self { is_truncated, invalid_event_count: invalid, event_count: all, .. } = *self;
        let share = 100.0 * invalid as f64 / all.max(1) as f64;
        let shown = if share >= 1.0 { format!("{share:.0} %") } else { "less than 1 %".to_owned() };
        let events = format!(
            "{} of {} events ({shown}) {} invalid",
            thousands(invalid as i64),
            thousands(all as i64),
            if invalid == 1 { "is" } else { "are" },
        );
        match (is_truncated, invalid) {
            (true, 0) => "the file is truncated".to_owned(),
            (true, _) => format!("the file is truncated, and {events}"),
            (false, _) => events,
        }
    }
}

/// Returns the trace files of a run that are truncated or have more than [`MAX_INVALID_RATIO`] invalid events, sorted
/// by name.
pub fn damaged_files(run: &RunInfo, warnings: &[Warning]) -> Vec<DamagedFile> {
    let mut files: BTreeMap<&str, DamagedFile> = BTreeMap::new();
    for source in run.sources.iter().filter(|source| source.is_timeline) {
        // A file with several ranks has one source per rank.
        let file = files.entry(&source.file).or_insert_with(|| DamagedFile {
            file: source.file.clone(),
            is_truncated: false,
            invalid_event_count: 0,
            event_count: 0,
        });
        file.event_count += source.events;
    }
    for warning in warnings {
        let Some(file) = files.get_mut(warning.file.as_str()) else { continue };
        file.is_truncated |= TRUNCATION_WARNINGS.contains(&&*warning.code);
        if INVALID_EVENT_WARNINGS.contains(&&*warning.code) {
            file.invalid_event_count += warning.count;
        }
    }
    let is_damaged = |file: &DamagedFile| {
        let limit = MAX_INVALID_RATIO * file.event_count as f64;
        file.is_truncated || file.invalid_event_count as f64 > limit
    };
    files.into_values().filter(is_damaged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    fn source(file: &str, format: &'static str, events: u64) -> Source {
        Source {
            file: file.to_owned(),
            format: format.into(),
            is_timeline: format != "execution trace",
            rank: 0,
            rank_from: "order".into(),
            json_bytes: 0,
            events,
            shift_ns: 0,
        }
    }

    fn warning(file: &str, code: &'static str, count: u64) -> Warning {
        Warning { code: code.into(), file: file.to_owned(), message: String::new(), count }
    }

    #[test]
    fn files_beyond_the_limit_are_damaged() {
        let run = RunInfo {
            sources: vec![
                source("a", "kineto", 1000),
                source("b", "kineto", 1000),
                source("c", "composer", 600),
                source("c", "composer", 400),
                source("d", "execution trace", 10),
            ],
            ..RunInfo::default()
        };
        let warnings = [
            warning("a", "negative-duration", 10),
            warning("a", "unmatched-begin-end", 500),
            warning("b", "bad-time", 10),
            warning("b", "far-event", 1),
            warning("c", "truncated-packets", 1),
            warning("d", "truncated-json", 1),
        ];
        let damaged = damaged_files(&run, &warnings);
        let texts: Vec<_> =
            damaged.iter().map(|file| (file.file.as_str(), file.description())).collect();
        assert_eq!(
            texts,
            [
                ("b", "11 of 1,000 events (1 %) are invalid".to_owned()),
                ("c", "the file is truncated".to_owned()),
            ]
        );
        assert_eq!(damaged[1].event_count, 1000);
    }
}
