//! Partial failures, counted per file and kind.

use trace_model::column::NULL_I32;
use trace_model::tables::{ReadingWarning, ReadingWarnings};
use trace_model::{RecordBatch, Source, StrId, Strings, Warning};

macro_rules! issues {
    ($($variant:ident = $code:literal, $message:literal;)+) => {
        /// Problems with part of a file.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Issue { $($variant,)+ }

        const ISSUES: &[(&str, &str)] = &[$(($code, $message),)+];
    };
}

issues! {
    TruncatedGzip = "truncated-gzip",
        "the compressed data ends early or is damaged: only the data before was read; copy or record the file again";
    TruncatedJson = "truncated-json",
        "the JSON ends in the middle: only complete entries were read; copy or record the file again";
    MalformedEvent = "malformed-event", "not valid JSON: the text was skipped up to the next event";
    NotAnEvent = "not-an-event", "entries of the event list that are not objects were skipped";
    NegativeDuration = "negative-duration", "events that end before they start were dropped";
    MissingDuration = "missing-duration", "complete events (ph X) without a duration were dropped";
    BadTime = "bad-time", "events whose ts or dur is missing, not a number, or too large were dropped";
    FarEvent = "far-event", "events were dropped because they are more than 6 days from most others, or because their durations add up to years";
    EnclosingWork = "enclosing-work", "kernels and copies that last for at least half of the time of their stream and enclose ten others on it were dropped: a stream runs one activity at a time, so their times are wrong";
    BadNumber = "bad-number", "arguments that should be numbers are not: treated as missing";
    NumberOutOfBounds = "number-out-of-bounds",
        "numbers that no device can reach (sizes above 16 TiB, counts above 10^12, percentages above 100, negative amounts): treated as missing";
    BadUtf8 = "bad-utf8", "names with invalid UTF-8 or broken escapes: replaced by U+FFFD";
    UnknownPhase = "unknown-phase", "events of a phase that profilers do not use were dropped";
    OverlappingStep = "overlapping-step",
        "steps that overlap other steps were left out: the steps are those of the thread that marks most";
    RepeatedStep = "repeated-step",
        "steps with the number of an earlier step, or a smaller one, got the next number: several profilers of one process count from zero";
    UnmatchedBeginEnd = "unmatched-begin-end", "begin (B, b) and end (E, e) events without a partner: stored in unpaired_events, because they have no duration";
    MalformedNode = "malformed-node", "not valid JSON: the text was skipped up to the next node";
    NotANode = "not-a-node", "entries of the node list without a numeric id were skipped";
    DuplicateNode = "duplicate-node", "nodes with the id of another node were dropped";
    SnapshotEntry = "malformed-snapshot-entry",
        "segments, blocks or events of a memory snapshot without required entries were skipped";
    SharedEntry = "shared-snapshot-entry",
        "parts of a memory snapshot that are used in several places were read once";
    SnapshotArgs = "long-snapshot-args",
        "further entries of a memory snapshot were left out: nested too deeply, or far too long";
    SnapshotContradiction = "contradicting-snapshot-event",
        "allocations at an address that was still allocated: the earlier allocation is treated as released then";
    TimelineEntry = "malformed-timeline-entry",
        "entries of a memory timeline that are not a time, size or action were skipped";
    MetricEntry = "malformed-metric-entry",
        "entries that Determined's profiler does not write were skipped";
    MetricValue = "bad-metric-value",
        "values that are not finite numbers (NaN, Infinity, text): these samples were dropped";
    MetricTime = "bad-metric-time",
        "samples whose time is not readable, out of range, or without a time zone were dropped";
    MetricLists = "uneven-metric-lists",
        "lists of values, times and batches have different lengths: read up to the shortest";
    MetricTable = "truncated-table",
        "a table ends in the middle: only its complete rows were read; copy or export it again";
    OtherMetrics = "other-metrics",
        "metrics that the profiler did not report (training, validation, custom groups) are not read";
    TruncatedLog = "truncated-log",
        "the log of torch.compile ends in the middle of a record, which was dropped; copy or record the file again";
    MalformedRecord = "malformed-record",
        "lines of a log of torch.compile that PyTorch does not write were skipped";
    LongRecord = "long-record", "records of torch.compile that are far too long were skipped";
    MissingPayload = "missing-payload", "records of torch.compile whose text is missing were skipped";
    MalformedPayload = "malformed-payload", "records of torch.compile whose text is not what PyTorch writes were skipped";
    UnfinishedCompilation = "unfinished-compilation",
        "compilations whose end is not in the log: their duration is unknown";
    FlightRecord = "malformed-flight-record",
        "records of the Flight Recorder without a number or an operation were skipped";
    SharedFlightRecord = "shared-flight-record",
        "records of the Flight Recorder that a dump uses in several places were read once";
    LongFlightRecord = "long-flight-record",
        "sizes or stacks of the Flight Recorder that are far too long were left out";
    UnreadableMetadata = "unreadable-metadata", "a top-level entry other than the events is not valid JSON: ignored";
    DuplicateCorrelation = "duplicate-correlation",
        "several host calls of a process share a correlation id: device work was linked to the last one before it";
    SharedCorrelation = "shared-correlation",
        "calls of several processes share correlation ids: device work was linked to none where times, kinds and devices leave several processes";
    TruncatedPackets = "truncated-packets",
        "the trace ends in the middle of a packet, or is damaged there: only the packets before that point were read; copy or record the file again";
    MalformedPacket = "malformed-packet", "packets, or parts of packets, that are not valid protocol buffers were skipped";
    DamagedBundle = "damaged-bundle", "compressed packets are cut or damaged: only the packets before that point were read";
    ZstdPackets = "zstd-packets", "packets that are compressed with zstd were not read: record without compression";
    LostPackets = "lost-packets",
        "packets were lost while the trace was recorded, and events that refer to them were dropped: record with a larger buffer";
    MissingDeclaration = "missing-declaration",
        "events refer to names or to other events that the trace does not contain: the events were read without them";
    ManyDeclarations = "many-declarations", "the trace declares more names, tracks, counters or edges of graphs than any usual trace: the excess was dropped";
    UnknownClock = "unknown-clock", "events have times on clocks that the trace does not relate to its own clock: these events were dropped";
    ClockWentBack = "clock-went-back", "readings of clocks that went back were dropped: times on these clocks may be off";
    UnknownTrack = "unknown-track", "events are on tracks that the trace does not describe: their process is unknown";
    DeepArgument = "deep-argument", "arguments that are nested too deeply, or are not plain values, were dropped";
    IncrementalCounter = "incremental-counter", "counter samples that are written as differences, or without a value, were dropped";
    UnmatchedEnd = "unmatched-end", "ends of slices without a begin were dropped";
    OperatorTimesOnDevice = "operator-times-on-device",
        "operators have times on the device, measured between two events before and after each (torch before 1.8): they may include waits of the device for the host";
}

/// Code of the warning about a trace of the same recording as another trace.
pub(crate) const SECOND_COPY: &str = "second-copy";

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
            code: strings.intern(&warning.code),
            message: warning.message.clone(),
            warning_count: i64::try_from(warning.count).unwrap_or(i64::MAX),
        });
    }
    rows.into_batch(&strings)
}

/// Counts by issue.
#[derive(Debug, Clone)]
pub(crate) struct Issues {
    counts: [u64; ISSUES.len()],
}

impl Default for Issues {
    fn default() -> Self {
        Self { counts: [0; ISSUES.len()] }
    }
}

impl Issues {
    pub(crate) fn add(&mut self, issue: Issue) {
        self.add_many(issue, 1);
    }

    pub(crate) fn add_many(&mut self, issue: Issue, count: u64) {
        self.counts[issue as usize] += count;
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
                code: code.into(),
                file: file.to_owned(),
                message: message.to_owned(),
                count,
            })
            .collect()
    }
}

/// A warning about a file, or about the run if `file` is empty.
pub(crate) fn run_warning(code: &'static str, file: String, message: String) -> Warning {
    Warning { code: code.into(), file, message, count: 1 }
}
