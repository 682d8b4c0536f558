//! Series, samples and timings of one file of Determined's metrics.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trace_model::column::NULL_I64;
use trace_model::{StrId, Strings, Warning};

use crate::json::lexer::RawStr;
use crate::quantity::RawDecimal;
use crate::warnings::{Issue, Issues};

/// Distinct messages of the server that are counted; further ones are counted together.
const MAX_ERRORS: usize = 8;
/// Characters of such a message that are shown.
const MAX_MESSAGE: usize = 300;

/// Kind of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// State of a machine or a device, sampled.
    System,
    /// Seconds that a part of a batch took; the time is its start.
    Timing,
    /// Throughput.
    Misc,
}

/// Precision of the values of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Precision {
    /// 32-bit floats: the REST interface and the old table.
    Single,
    /// JSON in the database; a 32-bit float if the row was migrated.
    Stored,
    /// As the collector sent it.
    Sent,
}

/// One series of one trial, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Series {
    /// Null if unknown.
    pub(crate) trial: i64,
    pub(crate) kind: Kind,
    pub(crate) name: StrId,
    pub(crate) agent: StrId,
    /// GPU or file system.
    pub(crate) device: StrId,
    /// From the generation up to 0.29, which has batches and other units.
    pub(crate) is_old: bool,
    pub(crate) precision: Precision,
}

/// One sample, or one timing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    /// Number of its series in the file.
    pub(crate) series: u32,
    /// Since 1970.
    pub(crate) ts_ns: i64,
    /// As written.
    pub(crate) value: f64,
    /// Null in the new generation.
    pub(crate) batch: i64,
}

/// The content of one file.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) strings: Strings,
    pub(crate) series: Vec<Series>,
    /// In order of the file.
    pub(crate) points: Vec<Point>,
    /// Series that the server lists, by number.
    pub(crate) listed: Vec<u32>,
    pub(crate) bytes: u64,
    numbers: FxHashMap<Series, u32>,
    errors: BTreeMap<String, u64>,
    pub(super) issues: Issues,
}

/// The labels of a series, as written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Labels<'a> {
    pub(super) trial: i64,
    pub(super) name: RawStr<'a>,
    pub(super) agent: RawStr<'a>,
    pub(super) device: RawStr<'a>,
    pub(super) metric_type: RawStr<'a>,
}

impl Default for Labels<'_> {
    fn default() -> Self {
        let empty = RawStr::default();
        Self { trial: NULL_I64, name: empty, agent: empty, device: empty, metric_type: empty }
    }
}

impl Metrics {
    /// Frees what only reading needs.
    pub(super) fn drop_index(&mut self) {
        self.numbers = FxHashMap::default();
    }

    /// The number of a series, new or known.
    pub(super) fn series(
        &mut self,
        labels: &Labels<'_>,
        is_old: bool,
        precision: Precision,
    ) -> u32 {
        let name = self.intern(labels.name);
        let kind = kind(labels.metric_type.bytes, self.strings.get(name));
        let (agent, device) = (self.intern(labels.agent), self.intern(labels.device));
        let key = Series { trial: labels.trial, kind, name, agent, device, is_old, precision };
        let Self { series, numbers, .. } = self;
        *numbers.entry(key).or_insert_with(|| {
            series.push(key);
            series.len() as u32 - 1
        })
    }

    /// Interns a label. Empty text is null: the server writes it for labels that a series does not have.
    pub(super) fn intern(&mut self, text: RawStr<'_>) -> StrId {
        if text.bytes.is_empty() {
            return StrId::NULL;
        }
        let (text, is_bad) = text.decode();
        if is_bad {
            self.issues.add(Issue::BadUtf8);
        }
        self.strings.intern(&text)
    }

    /// Adds a sample, or counts a value that is not a finite number.
    pub(super) fn add(&mut self, series: u32, ts_ns: i64, value: Option<RawDecimal>, batch: i64) {
        match value.map(RawDecimal::of_unknown_unit) {
            Some(value) => self.points.push(Point { series, ts_ns, value, batch }),
            None => self.issues.add(Issue::MetricValue),
        }
    }

    pub(super) fn add_error(&mut self, message: &str) {
        let message: String = message.chars().take(MAX_MESSAGE).collect();
        let is_new = !self.errors.contains_key(&message);
        let message = if is_new && self.errors.len() >= MAX_ERRORS {
            "further errors".to_owned()
        } else {
            message
        };
        *self.errors.entry(message).or_default() += 1;
    }

    /// Problems in this file.
    pub(crate) fn warnings(&self, file: &str) -> Vec<Warning> {
        let mut warnings = self.issues.warnings(file);
        warnings.extend(self.errors.iter().map(|(message, &count)| Warning {
            code: "determined-error".into(),
            file: file.to_owned(),
            message: format!("Determined answered with an error instead of metrics: {message}"),
            count,
        }));
        warnings
    }
}

/// The kind that the labels say, else that of the name.
fn kind(metric_type: &[u8], name: &str) -> Kind {
    match metric_type.strip_prefix(b"PROFILER_METRIC_TYPE_").unwrap_or_default() {
        b"SYSTEM" => Kind::System,
        b"TIMING" => Kind::Timing,
        b"MISC" => Kind::Misc,
        _ => match name {
            "samples_per_second" => Kind::Misc,
            "dataloader_next"
            | "to_device"
            | "train_batch"
            | "step_lr_schedulers"
            | "from_device"
            | "average_training_metrics"
            | "reduce_metrics" => Kind::Timing,
            _ if name.starts_with("train_batch.") || name.starts_with("callbacks.") => Kind::Timing,
            _ => Kind::System,
        },
    }
}
