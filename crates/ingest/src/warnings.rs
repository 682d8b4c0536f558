//! Partial failures, counted per file: structured, never silent, never one line per event.

use trace_model::column::NULL_I32;
use trace_model::tables::{ReadingWarning, ReadingWarnings};
use trace_model::{RecordBatch, Source, StrId, Strings, Warning};

macro_rules! issues {
    ($($variant:ident = $code:literal, $message:literal;)+) => {
        /// What can be wrong with part of a file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Issue { $($variant,)+ }

        const ISSUES: &[(&str, &str)] = &[$(($code, $message),)+];
    };
}

issues! {
    TruncatedGzip = "truncated-gzip",
        "the compressed data ends early or is damaged: only what came before was read; copy or record the file again";
    TruncatedJson = "truncated-json",
        "the JSON ends in the middle: only what was complete was read; copy or record the file again";
    MalformedEvent = "malformed-event", "not valid JSON: these stretches were skipped up to the next event";
    NotAnEvent = "not-an-event", "entries of the event list that are no objects were skipped";
    NegativeDuration = "negative-duration", "events that end before they start were set aside";
    MissingDuration = "missing-duration", "complete events (ph X) without a duration were set aside";
    BadTime = "bad-time", "events whose ts or dur is missing, not a number, or too large were set aside";
    BadNumber = "bad-number", "arguments that should be numbers are not: taken as absent";
    BadUtf8 = "bad-utf8", "names with invalid UTF-8 or broken escapes: replaced by U+FFFD";
    UnknownPhase = "unknown-phase", "events of a phase that profilers do not use were set aside";
    UnmatchedBeginEnd = "unmatched-begin-end", "begin (B) and end (E) events without a partner: kept in half_events, as they have no duration";
    MalformedNode = "malformed-node", "not valid JSON: these stretches were skipped up to the next node";
    NotANode = "not-a-node", "entries of the node list without a numeric id were skipped";
    DuplicateNode = "duplicate-node", "nodes with the id of another one were set aside";
    SnapshotEntry = "malformed-snapshot-entry",
        "segments, blocks or events of a memory snapshot without the entries they need were skipped";
    SharedEntry = "shared-snapshot-entry",
        "parts of a memory snapshot that are used in several places were read once";
    SnapshotArgs = "long-snapshot-args",
        "further entries of a memory snapshot were left out: nested too deeply, or far too long";
    SnapshotContradiction = "contradicting-snapshot-event",
        "allocations at an address that was still held: taken as released there";
    TimelineEntry = "malformed-timeline-entry",
        "entries of a memory timeline that are no moment, size or action were skipped";
    MetricEntry = "malformed-metric-entry",
        "entries that are nothing Determined's profiler writes were skipped";
    MetricValue = "bad-metric-value",
        "values that are no finite numbers (NaN, Infinity, text): these samples are absent";
    MetricTime = "bad-metric-time",
        "samples were set aside whose time is not readable, out of range, or without a time zone";
    MetricLists = "uneven-metric-lists",
        "lists of values, times and batches of different length: read as far as all go";
    MetricTable = "truncated-table",
        "a table ends in the middle: only its complete rows were read; copy or export it again";
    OtherMetrics = "other-metrics",
        "metrics that the profiler did not report (training, validation, groups of your own) are not read";
    UnreadableMetadata = "unreadable-metadata", "a top-level entry beside the events is not valid JSON: ignored";
    DuplicateCorrelation = "duplicate-correlation",
        "several host calls share a correlation id: device work was linked to the last";
}

/// The warnings of a run as rows of `reading_warnings`.
pub(crate) fn table(warnings: &[Warning], sources: &[Source]) -> RecordBatch {
    let mut strings = Strings::default();
    let mut rows = ReadingWarnings::default();
    for warning in warnings {
        let source = sources.iter().find(|source| source.file == warning.file);
        rows.push(ReadingWarning {
            rank: source.map_or(NULL_I32, |source| source.rank),
            file: match warning.file.as_str() {
                "" => StrId::NULL,
                file => strings.intern(file),
            },
            code: strings.intern(warning.code),
            message: warning.message.clone(),
            warning_count: i64::try_from(warning.count).unwrap_or(i64::MAX),
        });
    }
    rows.into_batch(&strings)
}

/// Counts by issue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Issues {
    counts: [u64; ISSUES.len()],
}

impl Issues {
    pub(crate) fn add(&mut self, issue: Issue) {
        self.counts[issue as usize] += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
    }

    /// One warning per issue that occurred, in order of declaration.
    pub(crate) fn warnings(&self, file: &str) -> Vec<Warning> {
        ISSUES
            .iter()
            .zip(self.counts)
            .filter(|(_, count)| *count > 0)
            .map(|(&(code, message), count)| Warning {
                code,
                file: file.to_owned(),
                message: message.to_owned(),
                count,
            })
            .collect()
    }
}
