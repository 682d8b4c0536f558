//! Writes events in the format of Chrome traces.

use std::io::{self, Write};

use serde_json::to_writer;
use trace_model::Value;

/// Category of everything that is added to a trace.
pub const CATEGORY: &str = "trace_advisor";

/// A track: process and thread ids as the `threads` table has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane<'a> {
    /// Process id.
    pub pid: &'a str,
    /// Thread id.
    pub tid: &'a str,
}

/// Adds events to a trace, one per line. Times are on the clock of the run and are converted exactly to the clock of
/// the trace. Names and texts are escaped.
pub struct EventWriter<'a> {
    out: &'a mut dyn Write,
    comma: bool,
    shift_ns: i64,
    line: Vec<u8>,
    events: u64,
}

impl std::fmt::Debug for EventWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventWriter").field("events", &self.events).finish_non_exhaustive()
    }
}

impl<'a> EventWriter<'a> {
    /// Writes to `out`, after a comma if `comma` is set. `shift_ns` is the offset that was added to the times of this
    /// trace when it was read.
    pub(crate) fn new(out: &'a mut dyn Write, comma: bool, shift_ns: i64) -> Self {
        Self { out, comma, shift_ns, line: Vec::new(), events: 0 }
    }

    /// Events written so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Names a process, and sorts it before others in viewers that support it.
    pub fn process(&mut self, pid: &str, name: &str) -> io::Result<()> {
        let lane = Lane { pid, tid: "" };
        self.head("M", "process_name", lane)?;
        self.args(&[("name", Value::Text(name.to_owned()))])?;
        self.end()?;
        self.head("M", "process_sort_index", lane)?;
        self.args(&[("sort_index", Value::Int(-1))])?;
        self.end()
    }

    /// Names a thread.
    pub fn thread(&mut self, lane: Lane<'_>, name: &str) -> io::Result<()> {
        self.head("M", "thread_name", lane)?;
        self.args(&[("name", Value::Text(name.to_owned()))])?;
        self.end()
    }

    /// An event with a duration. The events of one lane must be in order and must not overlap.
    ///
    /// It is written as two events, begin and end. Viewers hold microseconds since 1970 in a double, with a
    /// precision of a quarter: with a duration, a slice could overlap the next one by that and be dropped.
    pub fn slice(
        &mut self,
        lane: Lane<'_>,
        name: &str,
        ts_ns: i64,
        dur_ns: i64,
        args: &[(&str, Value)],
    ) -> io::Result<()> {
        self.head("B", name, lane)?;
        self.time(ts_ns)?;
        self.args(args)?;
        self.end()?;
        self.head("E", name, lane)?;
        self.time(ts_ns.saturating_add(dur_ns))?;
        self.end()
    }

    /// An instant event of the complete trace.
    pub fn mark(
        &mut self,
        lane: Lane<'_>,
        name: &str,
        ts_ns: i64,
        args: &[(&str, Value)],
    ) -> io::Result<()> {
        self.head("i", name, lane)?;
        self.time(ts_ns)?;
        self.line.extend_from_slice(b",\"s\":\"g\"");
        self.args(args)?;
        self.end()
    }

    /// The value of a counter from this time on. It has one series, named after its unit.
    pub fn counter(
        &mut self,
        pid: &str,
        name: &str,
        unit: &str,
        ts_ns: i64,
        value: f64,
    ) -> io::Result<()> {
        self.head("C", name, Lane { pid, tid: "" })?;
        self.time(ts_ns)?;
        self.args(&[(unit, Value::Float(value))])?;
        self.end()
    }

    /// An arrow from the innermost slice of one lane at one time to that of another lane at another time. `id` must be
    /// unique among arrows of the same name.
    pub fn arrow(
        &mut self,
        name: &str,
        id: u64,
        from: (Lane<'_>, i64),
        to: (Lane<'_>, i64),
    ) -> io::Result<()> {
        for (phase, (lane, ts_ns)) in [("s", from), ("f", to)] {
            self.head(phase, name, lane)?;
            self.time(ts_ns)?;
            write!(self.line, ",\"id\":{id}")?;
            if phase == "f" {
                self.line.extend_from_slice(b",\"bp\":\"e\"");
            }
            self.end()?;
        }
        Ok(())
    }

    fn head(&mut self, phase: &str, name: &str, lane: Lane<'_>) -> io::Result<()> {
        self.line.clear();
        self.line.extend_from_slice(if self.comma { b",\n{" } else { b"\n{" });
        write!(self.line, "\"ph\":\"{phase}\",\"cat\":\"{CATEGORY}\",\"name\":")?;
        to_writer(&mut self.line, name)?;
        self.id("pid", lane.pid)?;
        self.id("tid", lane.tid)
    }

    /// A process or thread id. Tables hold ids without the quotes that some traces write.
    fn id(&mut self, key: &str, id: &str) -> io::Result<()> {
        if id.is_empty() {
            return Ok(());
        }
        write!(self.line, ",\"{key}\":")?;
        match id.parse::<i64>() {
            Ok(number) if number.to_string() == id => write!(self.line, "{number}"),
            _ => Ok(to_writer(&mut self.line, id)?),
        }
    }

    /// Decimal microseconds with all nanoseconds, on the clock of the trace.
    fn time(&mut self, ts_ns: i64) -> io::Result<()> {
        let ns = ts_ns.saturating_sub(self.shift_ns);
        let sign = if ns < 0 { "-" } else { "" };
        let ns = ns.unsigned_abs();
        write!(self.line, ",\"ts\":{sign}{}.{:03}", ns / 1000, ns % 1000)
    }

    fn args(&mut self, args: &[(&str, Value)]) -> io::Result<()> {
        self.line.extend_from_slice(b",\"args\":{");
        for (i, (key, value)) in args.iter().enumerate() {
            if i > 0 {
                self.line.push(b',');
            }
            to_writer(&mut self.line, key)?;
            self.line.push(b':');
            match value {
                Value::Null => self.line.extend_from_slice(b"null"),
                Value::Bool(v) => write!(self.line, "{v}")?,
                Value::Int(v) => write!(self.line, "{v}")?,
                Value::Float(v) => to_writer(&mut self.line, v)?,
                Value::Text(v) => to_writer(&mut self.line, v)?,
            }
        }
        self.line.push(b'}');
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.line.push(b'}');
        self.comma = true;
        self.events += 1;
        self.out.write_all(&self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(
        write: impl FnOnce(&mut EventWriter<'_>) -> io::Result<()>,
        shift_ns: i64,
    ) -> String {
        let mut text = Vec::new();
        write(&mut EventWriter::new(&mut text, false, shift_ns)).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn slice_and_mark_write_times_on_the_clock_of_the_trace() {
        let lane = Lane { pid: "7", tid: "GPU 0" };
        let shift_ns = -1_712_085_511_123_456_000;
        let text = written(|w| w.slice(lane, "a", 789, 5, &[]), shift_ns);
        let (begin, end) = text.trim().split_once(",\n").unwrap();
        assert_eq!(
            begin,
            r#"{"ph":"B","cat":"trace_advisor","name":"a","pid":7,"tid":"GPU 0","ts":1712085511123456.789,"args":{}}"#
        );
        assert!(end.contains(r#""ph":"E""#) && end.ends_with(r#""ts":1712085511123456.794}"#));
        assert!(written(|w| w.mark(lane, "a", 0, &[]), 1_500).contains(r#""ts":-1.500,"#));
        assert!(written(|w| w.mark(lane, "a", 0, &[]), 500).contains(r#""ts":-0.500,"#));
    }

    #[test]
    fn event_writer_escapes_names_and_args() {
        let lane = Lane { pid: "07", tid: "" };
        let args =
            [("a\"b", Value::Text("\u{1b}[31m\n".to_owned())), ("x", Value::Float(f64::NAN))];
        let text = written(|w| w.mark(lane, "\"}],\\", 1_000, &args), 0);
        let event: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(event["name"], "\"}],\\");
        assert_eq!(event["pid"], "07");
        assert_eq!(event["tid"], serde_json::Value::Null);
        assert_eq!(event["args"]["a\"b"], "\u{1b}[31m\n");
        assert!(event["args"]["x"].is_null());
    }
}
