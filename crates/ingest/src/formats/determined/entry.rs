//! Entries of the JSON forms, distinguished by their keys: answers of the REST interface, logged requests, rows of
//! the database, objects of the SDK.

use trace_model::column::NULL_I64;

use super::fields::{Fields, averages, labels};
use super::list::{self, items};
use super::metrics::{Labels, Metrics, Precision};
use super::time;
use crate::error::Unreadable;
use crate::input::decompress::{JsonInput, StreamEnd};
use crate::json::lexer::{LexError, Lexer};
use crate::json::number;
use crate::json::stream::Text;
use crate::quantity::RawInteger;
use crate::warnings::Issue;

/// Entries lie in each other no deeper than this: a logged line, its body, what it holds.
const MAX_DEPTH: u32 = 4;
/// Groups that the profiler reports; others are training and validation metrics.
const GROUPS: [&str; 5] = ["gpu", "cpu", "memory", "disk", "network"];

/// The next part of the text.
enum Next {
    Entry,
    Separator,
    Other,
}

impl Metrics {
    /// Reads entries one after the other: on lines of their own or not, in a list or not.
    pub(super) fn read_entries(
        &mut self,
        input: JsonInput,
        advance: &dyn Fn(u64),
    ) -> Result<(), Unreadable> {
        let mut text = Text::new(input, advance)?;
        // An entry that does not end takes all that follows with it. So after one of them each has to
        // be on a line of its own.
        let mut by_line = false;
        loop {
            let next = text.next(|lexer| {
                match lexer.peek()? {
                    b'{' => {}
                    b',' | b'[' | b']' => {
                        lexer.bump();
                        return Ok(Next::Separator);
                    }
                    _ => return Ok(Next::Other),
                }
                let object = if by_line { lexer.value_on_line() } else { lexer.value() }?;
                self.entry(object, 0);
                Ok(Next::Entry)
            })?;
            match next {
                Ok(Next::Entry | Next::Separator) => continue,
                Err(LexError::End) if text.is_blank() => break,
                Ok(Next::Other) | Err(LexError::Syntax) => self.issues.add(Issue::MetricEntry),
                Err(LexError::End) => {
                    by_line = true;
                    self.issues.add(Issue::TruncatedJson);
                }
            }
            let is_found = text.next(|lexer: &mut Lexer<'_>| {
                lexer.skip_to_line()?;
                Ok(())
            });
            if is_found?.is_err() {
                break;
            }
        }
        if text.end() == StreamEnd::Damaged {
            self.issues.add(Issue::TruncatedGzip);
        }
        self.bytes = text.json_bytes();
        Ok(())
    }

    fn entry(&mut self, object: &[u8], depth: u32) {
        let Ok(fields) = Fields::of(object) else {
            return self.issues.add(Issue::MetricEntry);
        };
        if fields.is_another_request() {
            return;
        }
        let inner = [fields.result, fields.body];
        for inner in inner.into_iter().filter(|inner| !inner.is_empty()) {
            self.inner(inner, depth);
        }
        if !fields.error.is_empty() {
            self.error(fields.error);
        } else if !fields.batch.is_empty() {
            self.batch(fields.batch, None);
        } else if !fields.values.is_empty() {
            self.values(&fields, fields.is_row.then_some((true, Precision::Single)));
        } else if fields.batches.starts_with(b"[") {
            self.each(fields.batches, |metrics, batch| {
                metrics.batch(batch, Some((true, Precision::Sent)));
            });
        } else if fields.labels.starts_with(b"[") {
            self.each(fields.labels, Self::list);
        } else if fields.metrics.starts_with(b"[") && depth < MAX_DEPTH {
            self.each(fields.metrics, |metrics, report| metrics.entry(report, depth + 1));
        } else if !fields.metrics.is_empty() {
            self.report(&fields);
        } else if inner.iter().all(|inner| inner.is_empty()) && fields.path.is_empty() {
            self.issues.add(Issue::MetricEntry);
        }
    }

    /// Reads the body of an answer or a logged request; some logs keep bodies as text.
    fn inner(&mut self, inner: &[u8], depth: u32) {
        if depth >= MAX_DEPTH {
            return self.issues.add(Issue::MetricEntry);
        }
        match inner.first() {
            Some(b'{') if inner[1..].trim_ascii() == b"}" => {}
            Some(b'{') => self.entry(inner, depth + 1),
            Some(b'"') => {
                let text = Lexer::new(inner, 0).string().map(|raw| raw.decode().0.into_owned());
                match text {
                    Ok(text) if text.trim_start().starts_with('{') => {
                        self.entry(text.trim().as_bytes(), depth + 1);
                    }
                    _ => {} // the body of another request
                }
            }
            _ => self.issues.add(Issue::MetricEntry),
        }
    }

    /// Calls `read` with each object of a list.
    fn each(&mut self, list: &[u8], mut read: impl FnMut(&mut Self, &[u8])) {
        let mut lexer = Lexer::new(list, 1);
        loop {
            match lexer.peek() {
                Ok(b',') => lexer.bump(),
                Ok(b'{') => match lexer.value() {
                    Ok(object) => read(self, object),
                    Err(_) => return self.issues.add(Issue::MetricEntry),
                },
                Ok(b']') => return,
                _ => return self.issues.add(Issue::MetricEntry),
            }
        }
    }

    /// Values of one series, see [`Metrics::values`].
    fn batch(&mut self, batch: &[u8], from: Option<(bool, Precision)>) {
        match Fields::of(batch) {
            Ok(fields) if !fields.values.is_empty() => self.values(&fields, from),
            _ => self.issues.add(Issue::MetricEntry),
        }
    }

    /// Values of one series with their times and batches. `from`: whether the form is of the old generation and
    /// how exact it is; absent for answers, where batches tell the generation.
    pub(super) fn values(&mut self, fields: &Fields<'_>, from: Option<(bool, Precision)>) {
        let Some(mut labels) = labels(fields.labels) else {
            return self.issues.add(Issue::MetricEntry);
        };
        if labels.trial == NULL_I64 {
            labels.trial = fields.trial();
        }
        let no_batches = fields.batches.is_empty() || list::is_empty(fields.batches);
        let (is_old, precision) = from.unwrap_or((!no_batches, Precision::Single));
        let batches = if no_batches { b"[]" } else { fields.batches };
        let (Some(values), Some(times), Some(mut batches)) =
            (items(fields.values), items(fields.times), items(batches))
        else {
            return self.issues.add(Issue::MetricEntry);
        };
        let series = self.series(&labels, is_old, precision);
        let mut times = times.into_iter();
        let mut is_uneven = false;
        for value in values {
            let Some(time) = times.next() else {
                is_uneven = true;
                break;
            };
            let batch = batches.next().map_or(NULL_I64, |batch| {
                number::integer(batch).and_then(RawInteger::count).unwrap_or(NULL_I64)
            });
            match time::nanoseconds(time) {
                Some(ts_ns) => self.add(series, ts_ns, number::decimal(value), batch),
                None => self.issues.add(Issue::MetricTime),
            }
        }
        if is_uneven || times.next().is_some() || batches.next().is_some() {
            self.issues.add(Issue::MetricLists);
        }
    }

    /// A series that the server lists.
    fn list(&mut self, labels_text: &[u8]) {
        match labels(labels_text) {
            Some(labels) => {
                let series = self.series(&labels, false, Precision::Single);
                self.listed.push(series);
            }
            None => self.issues.add(Issue::MetricEntry),
        }
    }

    /// Values of several series at one time: a request of the new generation, a row of its table, a report of
    /// the SDK.
    pub(super) fn report(&mut self, fields: &Fields<'_>) {
        let group = list::unquote(fields.group);
        let group = String::from_utf8_lossy(group);
        let is_profiling = list::unquote(fields.partition).eq_ignore_ascii_case(b"PROFILING");
        let is_other = !group.is_empty() && !GROUPS.iter().any(|g| group.eq_ignore_ascii_case(g))
            || !fields.partition.is_empty() && !is_profiling;
        if is_other {
            return self.issues.add(Issue::OtherMetrics);
        }
        // In a request the metrics of the trial are one level further down, with trial and time.
        let Ok(inside) = Fields::of(fields.metrics) else {
            return self.issues.add(Issue::MetricEntry);
        };
        let (around, precision) = if inside.end_time.is_empty() || inside.metrics.is_empty() {
            (*fields, Precision::Stored)
        } else {
            (inside, Precision::Sent)
        };
        let Some(ts_ns) = time::nanoseconds(list::unquote(around.end_time)) else {
            return self.issues.add(Issue::MetricTime);
        };
        let trial = around.trial();
        let agents = averages(around.metrics).unwrap_or(around.metrics);
        let read = Lexer::new(agents, 0).object(|lexer, agent| {
            if lexer.peek()? != b'{' {
                lexer.value()?;
                self.issues.add(Issue::MetricEntry);
                return Ok(());
            }
            lexer.object(|lexer, key| {
                if lexer.peek()? != b'{' {
                    let labels = Labels { trial, name: key, agent, ..Labels::default() };
                    self.value(&labels, precision, ts_ns, lexer.value()?);
                    return Ok(());
                }
                lexer.object(|lexer, name| {
                    let labels = Labels { trial, name, agent, device: key, ..Labels::default() };
                    self.value(&labels, precision, ts_ns, lexer.value()?);
                    Ok(())
                })
            })
        });
        if read.is_err() {
            self.issues.add(Issue::MetricEntry);
        }
    }

    fn value(&mut self, labels: &Labels<'_>, precision: Precision, ts_ns: i64, value: &[u8]) {
        let series = self.series(labels, false, precision);
        self.add(series, ts_ns, number::decimal(value), NULL_I64);
    }

    /// Reads an error message of the server.
    fn error(&mut self, error: &[u8]) {
        let mut found: Option<String> = None;
        let _ = Lexer::new(error, 0).object(|lexer, key| {
            let value = lexer.value()?;
            let key = key.unescaped();
            if matches!(&*key, b"message" | b"error" | b"reason") && value.starts_with(b"\"") {
                let text = Lexer::new(value, 0).string()?.decode().0.into_owned();
                // `reason` is one word: more detailed entries come first.
                if *key != *b"reason" || found.is_none() {
                    found = Some(text);
                }
            }
            Ok(())
        });
        let found = found.unwrap_or_else(|| String::from_utf8_lossy(list::unquote(error)).into());
        self.add_error(&found);
    }
}
