//! The parts of entries, rows and labels, as text.

use trace_model::column::NULL_I64;

use super::list::{self, is_null};
use super::metrics::Labels;
use crate::json::lexer::{LexError, Lexer, RawStr};
use crate::json::number;

/// Keys around the metrics of the agents.
const AVERAGES: [&[u8]; 2] = [b"avgMetrics", b"avg_metrics"];

/// The fields of an entry as text. Each key has one meaning in all forms.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fields<'a> {
    pub(super) result: &'a [u8],
    pub(super) error: &'a [u8],
    pub(super) body: &'a [u8],
    pub(super) batch: &'a [u8],
    /// Batches of a request, or the batches that values belong to.
    pub(super) batches: &'a [u8],
    pub(super) values: &'a [u8],
    pub(super) times: &'a [u8],
    /// Labels of values, or a list of series.
    pub(super) labels: &'a [u8],
    pub(super) metrics: &'a [u8],
    pub(super) group: &'a [u8],
    pub(super) partition: &'a [u8],
    pub(super) trial: &'a [u8],
    pub(super) end_time: &'a [u8],
    /// A row of the old table: it names its times otherwise.
    pub(super) is_row: bool,
    /// Path of a logged request.
    pub(super) path: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(object: &'a [u8]) -> Result<Self, LexError> {
        let mut fields = Self::default();
        Lexer::new(object, 0).object(|lexer, key| {
            let value = lexer.value()?;
            if !is_null(value) {
                fields.set(&key.unescaped(), value);
            }
            Ok(())
        })?;
        Ok(fields)
    }

    /// Takes a value by the name of its key or column; false if it is of no use.
    pub(super) fn set(&mut self, key: &[u8], value: &'a [u8]) -> bool {
        let field = match key {
            b"result" => &mut self.result,
            b"error" => &mut self.error,
            b"body" => &mut self.body,
            b"batch" => &mut self.batch,
            b"batches" => &mut self.batches,
            b"values" => &mut self.values,
            b"timestamps" => &mut self.times,
            b"ts" => {
                self.is_row = true;
                &mut self.times
            }
            b"labels" => &mut self.labels,
            b"metrics" => &mut self.metrics,
            b"group" | b"metric_group" | b"metricGroup" => &mut self.group,
            b"partition_type" | b"partitionType" => &mut self.partition,
            b"trialId" | b"trial_id" => &mut self.trial,
            b"reportTime" | b"endTime" | b"end_time" => &mut self.end_time,
            b"path" => &mut self.path,
            _ => return false,
        };
        *field = value;
        true
    }

    /// Returns whether this is a logged request of another kind.
    pub(super) fn is_another_request(&self) -> bool {
        let path = list::unquote(self.path).split(|&byte| byte == b'?').next().unwrap_or_default();
        !path.is_empty() && !path.ends_with(b"/metrics") && !path.ends_with(b"/available_series")
    }

    pub(super) fn trial(&self) -> i64 {
        trial(self.trial)
    }
}

fn trial(text: &[u8]) -> i64 {
    number::id(text).unwrap_or(NULL_I64)
}

/// The content of `avgMetrics`, if present.
pub(super) fn averages(metrics: &[u8]) -> Option<&[u8]> {
    let mut found = None;
    let read = Lexer::new(metrics, 0).object(|lexer, key| {
        let value = lexer.value()?;
        if AVERAGES.contains(&&*key.unescaped()) && value.starts_with(b"{") {
            found = Some(value);
        }
        Ok(())
    });
    read.ok().and(found)
}

/// The labels of values or of a listed series; `None` without a name.
pub(super) fn labels(object: &[u8]) -> Option<Labels<'_>> {
    let mut labels = Labels::default();
    let text = |value| Lexer::new(value, 0).string().unwrap_or_default();
    let read = Lexer::new(object, 0).object(|lexer, key| {
        let value = lexer.value()?;
        match &*key.unescaped() {
            b"trialId" => labels.trial = trial(value),
            b"name" => labels.name = text(value),
            b"agentId" => labels.agent = text(value),
            b"gpuUuid" => labels.device = text(value),
            b"metricType" => labels.metric_type = text(value),
            _ => {}
        }
        Ok(())
    });
    let is_named = |raw: RawStr<'_>| !raw.bytes.is_empty();
    (read.is_ok() && is_named(labels.name)).then_some(labels)
}
