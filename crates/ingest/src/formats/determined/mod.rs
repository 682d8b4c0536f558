//! Metrics of Determined's profiler, in every form that a user gets them in: the answers of its REST interface,
//! the requests that its collectors send, rows of its database, objects of its Python SDK. Two generations of
//! each: up to 0.29 with timings and batches, from 0.30 on means over some seconds.

mod entry;
mod fields;
mod list;
mod recognise;
mod rows;
mod time;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trace_model::column::NULL_I64;
use trace_model::{StrId, Strings, Warning};

pub(crate) use self::recognise::{Form, other, recognise};
use crate::formats::Unreadable;
use crate::json::RawStr;
use crate::source::Input;
use crate::warnings::{Issue, Issues};

/// Messages of the server that are told apart; more are counted together.
const MAX_ERRORS: usize = 8;
/// Characters of such a message that are shown.
const MAX_MESSAGE: usize = 300;

/// What kind of number a series holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// State of a machine or a device, sampled.
    System,
    /// Seconds that a part of a batch took; the time is its start.
    Timing,
    /// Throughput.
    Misc,
}

/// How exactly a form keeps values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Precision {
    /// 32-bit floats: the REST interface and the old table.
    Single,
    /// What the database keeps as JSON; a 32-bit float where the row was migrated.
    Stored,
    /// As the collector sent it.
    Sent,
}

/// One series of one trial, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Series {
    /// Absent where nothing says it.
    pub(crate) trial: i64,
    pub(crate) kind: Kind,
    pub(crate) name: StrId,
    pub(crate) agent: StrId,
    /// GPU or file system.
    pub(crate) device: StrId,
    /// Of the generation up to 0.29, which says the batch; its units are others.
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
    /// Absent in the new generation.
    pub(crate) batch: i64,
}

/// What one file holds.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) strings: Strings,
    pub(crate) series: Vec<Series>,
    /// In order of the file.
    pub(crate) points: Vec<Point>,
    /// Series that the server says there are, by number.
    pub(crate) listed: Vec<u32>,
    pub(crate) bytes: u64,
    numbers: FxHashMap<Series, u32>,
    errors: BTreeMap<String, u64>,
    issues: Issues,
}

/// Reads a file. `advance` is told how many bytes of text were done.
pub(crate) fn read(form: Form, input: Input, advance: &dyn Fn(u64)) -> Result<Metrics, Unreadable> {
    let mut metrics = Metrics::default();
    match form {
        Form::Json => metrics.read_entries(input, advance)?,
        Form::Csv => metrics.read_csv(input, advance)?,
        Form::Dump => metrics.read_dump(input, advance)?,
    }
    metrics.numbers = FxHashMap::default();
    Ok(metrics)
}

/// The labels of a series, as written.
#[derive(Debug, Clone, Copy)]
struct Labels<'a> {
    trial: i64,
    name: RawStr<'a>,
    agent: RawStr<'a>,
    device: RawStr<'a>,
    metric_type: RawStr<'a>,
}

impl Default for Labels<'_> {
    fn default() -> Self {
        let empty = RawStr::default();
        Self { trial: NULL_I64, name: empty, agent: empty, device: empty, metric_type: empty }
    }
}

impl Metrics {
    /// The number of a series, new or known.
    fn series(&mut self, labels: &Labels<'_>, is_old: bool, precision: Precision) -> u32 {
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

    /// Empty text is none: the server writes it for labels that a series does not have.
    fn intern(&mut self, text: RawStr<'_>) -> StrId {
        if text.bytes.is_empty() {
            return StrId::NULL;
        }
        let (text, is_bad) = text.decode();
        if is_bad {
            self.issues.add(Issue::BadUtf8);
        }
        self.strings.intern(&text)
    }

    /// Adds a sample; a value that is no finite number is counted instead.
    fn add(&mut self, series: u32, ts_ns: i64, value: Option<f64>, batch: i64) {
        match value {
            Some(value) => self.points.push(Point { series, ts_ns, value, batch }),
            None => self.issues.add(Issue::MetricValue),
        }
    }

    fn add_error(&mut self, message: &str) {
        let message: String = message.chars().take(MAX_MESSAGE).collect();
        let is_new = !self.errors.contains_key(&message);
        let message = if is_new && self.errors.len() >= MAX_ERRORS {
            "further errors".to_owned()
        } else {
            message
        };
        *self.errors.entry(message).or_default() += 1;
    }

    /// What went wrong in this file.
    pub(crate) fn warnings(&self, file: &str) -> Vec<Warning> {
        let mut warnings = self.issues.warnings(file);
        warnings.extend(self.errors.iter().map(|(message, &count)| Warning {
            code: "determined-error",
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
