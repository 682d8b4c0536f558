//! Selects a part of a run: ranks, steps, a time range, streams, names. Tables are filtered before any view reads
//! them, so every analysis, query and rule covers the same part.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::DataType;
use regex::Regex;
use trace_model::tables::find;
use trace_model::time::human;
use trace_model::{Batches, Partition, RecordBatch, RunInfo, ScanError, TableSet, TableSource};

use crate::columns::{Names, ints, names};
use crate::rust_view::{Result, ViewError};

/// A part of a run. Fields that are not set select everything.
///
/// * `ranks`: those ranks, in every table.
/// * `steps`: events that belong to one of the steps (device work by the call that launched it).
/// * `between`: events within a time range on the run's clock.
/// * `streams`: device work of those streams; host events stay.
/// * `name`: events whose name matches.
///
/// A selection of steps or of a time range includes all of it: the rule that leaves out the last step does not apply.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Ranks to keep.
    pub ranks: Option<Ranges>,
    /// Step numbers to keep: one range, because a window with holes has no length.
    pub steps: Option<Range>,
    /// Begin and end of the time range in nanoseconds.
    pub between: Option<Range>,
    /// Stream numbers to keep.
    pub streams: Option<Ranges>,
    /// Pattern that names must match, anywhere in the name.
    pub name: Option<Regex>,
}

/// Numbers from a first to a last one, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The smallest.
    pub first: i64,
    /// The largest.
    pub last: i64,
}

/// Several ranges: `0-3,8`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranges(Vec<Range>);

/// A selection that cannot be read, or that selects nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectionError(String);

impl Selection {
    /// Returns whether the whole run is selected.
    pub fn is_everything(&self) -> bool {
        self.ranks.is_none()
            && self.steps.is_none()
            && self.between.is_none()
            && self.streams.is_none()
            && self.name.is_none()
    }

    /// The selected rows of all tables. Selecting ranks, steps or streams that the run does not have is an error,
    /// because an empty result could be mistaken for a good one.
    pub fn apply(&self, tables: &TableSet) -> Result<TableSet, SelectionError> {
        self.check(tables)?;
        let mut selected = TableSet::default();
        for (table, batches) in tables.iter() {
            for batch in batches {
                let batch = self.rows(table, batch).map_err(|e| SelectionError(e.to_string()))?;
                selected.push(table, batch);
            }
        }
        let has_events =
            |tables: &TableSet| EVENT_TABLES.into_iter().any(|table| tables.rows(table) > 0);
        if has_events(tables) && !has_events(&selected) {
            return Err(SelectionError(format!("no event is selected: {self}")));
        }
        Ok(selected)
    }

    /// The same for tables that are not in memory: rows are selected as they are read. `head` holds the tables that
    /// are in memory; they are returned with what [`Selection::describe`] needs.
    pub fn over(
        &self,
        source: Arc<dyn TableSource>,
        head: &TableSet,
    ) -> Result<(Arc<dyn TableSource>, TableSet), SelectionError> {
        const STEPS: (&str, &[&str]) = ("steps", &["step", "source"]);
        let error = |e: ScanError| SelectionError(e.to_string());
        let mut there = head.clone();
        let mut needed = vec![STEPS];
        if self.streams.is_some() {
            needed.extend(DEVICE_TABLES.map(|table| (table, ["stream"].as_slice())));
        }
        for (table, columns) in needed {
            for batch in read(source.as_ref(), table, columns) {
                there.push(table, batch.map_err(error)?);
            }
        }
        self.check(&there)?;
        let source: Arc<dyn TableSource> = Arc::new(Selected { source, selection: self.clone() });
        let mut selected = TableSet::default();
        for (table, batch) in
            head.iter().flat_map(|(t, batches)| batches.iter().map(move |b| (t, b)))
        {
            selected.push(table, self.rows(table, batch).map_err(|e| error(e.into()))?);
        }
        for batch in read(source.as_ref(), STEPS.0, STEPS.1) {
            selected.push(STEPS.0, batch.map_err(error)?);
        }
        Ok((source, selected))
    }

    /// Makes `run` describe the selected part; `tables` are the result of [`Selection::apply`].
    pub fn describe(&self, tables: &TableSet, run: &mut RunInfo) {
        let ranks = numbers(tables, &[("ranks", "rank")]);
        run.ranks.retain(|&rank| ranks.contains(&i64::from(rank)));
        run.sources.retain(|source| ranks.contains(&i64::from(source.rank)));
        let steps = tables.get("steps").iter().map(|batch| marked_steps(batch).len());
        run.steps = steps.max().unwrap_or(0);
        if let Some(Range { first, last }) = self.between {
            run.wall_ns = last.min(run.wall_ns) - first.clamp(0, run.wall_ns);
        }
        run.selection = self.to_string();
    }

    /// The time range of each selected rank, in order of ranks: from the start of its first selected step to the end of
    /// its last, within `between`. Ranks that recorded nothing then are left out. Of the tables, `ranks` is needed, and
    /// `steps` to select steps.
    ///
    /// # Errors
    /// If ranks, steps or the time range are none of the run's.
    pub fn windows(&self, tables: &TableSet) -> Result<Vec<(i32, Range)>, SelectionError> {
        self.check(tables)?;
        let error = |e: ViewError| SelectionError(e.to_string());
        let mut windows = Vec::new();
        let mut run_end_ns = 0;
        for batch in tables.get("ranks") {
            let column = |name| ints(batch, name).map_err(error);
            let (ranks, starts, ends) = (column("rank")?, column("start_ns")?, column("end_ns")?);
            for row in 0..batch.num_rows() {
                let rank = ranks.value(row);
                if self.ranks.as_ref().is_some_and(|ranks| !ranks.contain(rank)) {
                    continue;
                }
                let recording = Range { first: starts.value(row), last: ends.value(row) };
                run_end_ns = run_end_ns.max(recording.last);
                let mut window = self.between.unwrap_or(Range { first: i64::MIN, last: i64::MAX });
                if let Some(steps) = self.steps {
                    let of_steps = range_of_steps(tables, rank, steps).map_err(error)?;
                    let Some(of_steps) = of_steps else { continue };
                    window = window.within(of_steps);
                }
                let recorded = window.within(recording);
                if recorded.first <= recorded.last
                    && let Ok(rank) = i32::try_from(rank)
                {
                    windows.push((rank, window));
                }
            }
        }
        windows.sort_unstable_by_key(|(rank, _)| *rank);
        if windows.is_empty() {
            let end = human(run_end_ns as f64);
            return Err(SelectionError(format!(
                "no event is selected: {self}; the run ends after {end}"
            )));
        }
        Ok(windows)
    }

    fn check(&self, tables: &TableSet) -> Result<(), SelectionError> {
        let wanted = [
            ("rank", self.ranks.as_ref(), vec![("ranks", "rank")]),
            ("stream", self.streams.as_ref(), DEVICE_TABLES.map(|t| (t, "stream")).to_vec()),
        ];
        for (what, ranges, columns) in wanted {
            let Some(ranges) = ranges else { continue };
            let there = numbers(tables, &columns);
            if !there.iter().any(|&number| ranges.contain(number)) {
                return Err(none_of(what, &ranges.to_string(), &there));
            }
        }
        if let Some(steps) = self.steps {
            let mut there: Vec<i64> = tables.get("steps").iter().flat_map(marked_steps).collect();
            there.sort_unstable();
            there.dedup();
            if !there.iter().any(|&number| steps.contains(number)) {
                return Err(none_of("step", &steps.to_string(), &there));
            }
        }
        Ok(())
    }

    fn rows(&self, table: &str, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut batch = batch.clone();
        if let Some(ranks) = &self.ranks {
            batch = filter_rows(&batch, "rank", |rank| ranks.contain(rank))?;
        }
        if let Some(streams) = &self.streams
            && DEVICE_TABLES.contains(&table)
        {
            batch = filter_rows(&batch, "stream", |stream| streams.contain(stream))?;
        }
        if let Some(steps) = self.steps
            && batch.column_by_name("step").is_some()
        {
            batch = filter_rows(&batch, "step", |step| steps.contains(step))?;
        }
        if let Some(stretch) = self.between {
            batch = within(table, &batch, stretch)?;
        }
        if let Some(pattern) = &self.name
            && batch.column_by_name("event_id").is_some()
            && !WITHOUT_NAMES.contains(&table)
        {
            batch = named(&batch, pattern)?;
        }
        if table == "ranks" && (self.steps.is_some() || self.between.is_some()) {
            let cut = new_null_array(&DataType::Int64, batch.num_rows());
            batch = replaced(&batch, "cut_ns", cut)?;
        }
        Ok(batch)
    }
}

/// The selected rows of a source.
#[derive(Debug)]
struct Selected {
    source: Arc<dyn TableSource>,
    selection: Selection,
}

impl TableSource for Selected {
    fn partitions(&self, table: &str) -> Vec<Partition> {
        self.source.partitions(table)
    }

    fn scan(&self, table: &str, partition: usize, columns: &[usize]) -> Result<Batches, ScanError> {
        // The selection may depend on any column.
        let all: Vec<usize> =
            find(table).map_or_else(Vec::new, |spec| (0..spec.columns.len()).collect());
        let batches = self.source.scan(table, partition, &all)?;
        let (selection, columns) = (self.selection.clone(), columns.to_vec());
        let table = table.to_owned();
        Ok(Box::new(
            batches.map(move |batch| Ok(selection.rows(&table, &batch?)?.project(&columns)?)),
        ))
    }
}

/// Columns of a table of a source, by their names.
fn read<'a>(
    source: &'a dyn TableSource,
    table: &'a str,
    columns: &[&str],
) -> impl Iterator<Item = Result<RecordBatch, ScanError>> + 'a {
    let spec = find(table).map_or(&[][..], |spec| spec.columns);
    let columns: Vec<usize> =
        (0..spec.len()).filter(|&at| columns.contains(&spec[at].name)).collect();
    (0..source.partitions(table).len()).flat_map(move |partition| {
        let batches: Batches = match source.scan(table, partition, &columns) {
            Ok(batches) => batches,
            Err(error) => Box::new(std::iter::once(Err(error))),
        };
        batches
    })
}

/// Tables of events of which a selection must leave one.
const EVENT_TABLES: [&str; 9] = [
    "cpu_ops",
    "runtime_calls",
    "annotations",
    "python_frames",
    "kernels",
    "memcpys",
    "memsets",
    "spans",
    "memory_events",
];

/// Tables whose rows belong to a stream.
const DEVICE_TABLES: [&str; 4] = ["kernels", "memcpys", "memsets", "device_syncs"];

/// Tables that are not filtered by their own names: steps frame all events, and counters belong to kernels.
const WITHOUT_NAMES: [&str; 2] = ["steps", "range_counters"];

/// Rows within a time range. The rank, and a step that stands for a whole recording, are clipped to the range
/// instead.
fn within(table: &str, batch: &RecordBatch, stretch: Range) -> Result<RecordBatch> {
    let Range { first, last } = stretch;
    if table == "ranks" {
        let start: Int64Array = ints(batch, "start_ns")?.unary(|t: i64| t.clamp(first, last));
        let end: Int64Array = ints(batch, "end_ns")?.unary(|t: i64| t.clamp(first, last));
        let batch = replaced(batch, "start_ns", Arc::new(start))?;
        return replaced(&batch, "end_ns", Arc::new(end));
    }
    if table == "profiler_ranges" {
        // The times of these kernels are synthetic; those of their launches are real.
        return filter_rows(batch, "launch_ts_ns", |start| stretch.contains(start));
    }
    // Captured operators describe the replays of any time.
    if batch.column_by_name("ts_ns").is_none() || table == "captured_ops" {
        return Ok(batch.clone());
    }
    let start = ints(batch, "ts_ns")?;
    let mut starts: Vec<i64> = start.values().to_vec();
    let mut ends = starts.clone();
    if batch.column_by_name("dur_ns").is_some() {
        for (end, dur) in ends.iter_mut().zip(&ints(batch, "dur_ns")?) {
            *end += dur.unwrap_or(0);
        }
    }
    let mut batch = batch.clone();
    if table == "steps" {
        let source = names(&batch, "source")?;
        for row in (0..starts.len()).filter(|&row| source.get(row) == Some("trace")) {
            starts[row] = starts[row].clamp(first, last);
            ends[row] = ends[row].clamp(first, last);
        }
        let durs: Int64Array = starts.iter().zip(&ends).map(|(start, end)| end - start).collect();
        batch = replaced(&batch, "ts_ns", Arc::new(Int64Array::from(starts.clone())))?;
        batch = replaced(&batch, "dur_ns", Arc::new(durs))?;
    }
    let inside = |(&start, &end): (&i64, &i64)| Some(start >= first && end <= last);
    let mask: BooleanArray = starts.iter().zip(&ends).map(inside).collect();
    Ok(filter_record_batch(&batch, &mask)?)
}

/// Rows whose number in `column` is selected; rows without a number are not.
pub(crate) fn filter_rows(
    batch: &RecordBatch,
    column: &str,
    wanted: impl Fn(i64) -> bool,
) -> Result<RecordBatch> {
    let numbers = ints(batch, column)?;
    let mask: BooleanArray = numbers.iter().map(|n| Some(n.is_some_and(&wanted))).collect();
    Ok(filter_record_batch(batch, &mask)?)
}

/// Rows whose name matches. The pattern is tested once per distinct name.
fn named(batch: &RecordBatch, pattern: &Regex) -> Result<RecordBatch> {
    if batch.column_by_name("name").is_none() {
        return Ok(batch.slice(0, 0));
    }
    let names = names(batch, "name")?;
    let matching: Vec<bool> = names.texts.iter().map(|text| pattern.is_match(text)).collect();
    let is_meant = |&id: &u32| Some(id != Names::NONE && matching[id as usize]);
    let mask: BooleanArray = names.ids.iter().map(is_meant).collect();
    Ok(filter_record_batch(batch, &mask)?)
}

fn replaced(batch: &RecordBatch, name: &str, with: ArrayRef) -> Result<RecordBatch> {
    let at = batch.schema().index_of(name)?;
    let mut columns = batch.columns().to_vec();
    columns[at] = with;
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

/// The distinct numbers in columns of tables, ascending.
fn numbers(tables: &TableSet, columns: &[(&str, &str)]) -> Vec<i64> {
    let mut found: Vec<i64> = columns
        .iter()
        .flat_map(|(table, column)| tables.get(table).iter().map(move |b| ints(b, column)))
        .filter_map(Result::ok)
        .flat_map(|array| array.iter().flatten().collect::<Vec<_>>())
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// From the start of the first to the end of the last of a rank's selected steps.
fn range_of_steps(tables: &TableSet, rank: i64, steps: Range) -> Result<Option<Range>> {
    let mut range: Option<Range> = None;
    for batch in tables.get("steps") {
        let column = |name| ints(batch, name);
        let (ranks, numbers) = (column("rank")?, column("step")?);
        let (starts, durs) = (column("ts_ns")?, column("dur_ns")?);
        for row in (0..batch.num_rows()).filter(|&row| ranks.value(row) == rank) {
            if steps.contains(numbers.value(row)) {
                let (first, last) = (starts.value(row), starts.value(row) + durs.value(row));
                let range = range.get_or_insert(Range { first, last });
                *range = Range { first: range.first.min(first), last: range.last.max(last) };
            }
        }
    }
    Ok(range)
}

/// The steps that a trace marks; a recording without marks has no selectable steps.
fn marked_steps(batch: &RecordBatch) -> Vec<i64> {
    let (Ok(step), Ok(source)) = (ints(batch, "step"), names(batch, "source")) else {
        return Vec::new();
    };
    let marked = |row: &usize| source.get(*row) != Some("trace");
    (0..batch.num_rows()).filter(marked).map(|row| step.value(row)).collect()
}

fn none_of(what: &str, wanted: &str, there: &[i64]) -> SelectionError {
    let there = match there {
        [] => format!("the run has no {what}s"),
        [only] => format!("the run has {what} {only}"),
        [first, .., last] if there.len() as i64 == last - first + 1 => {
            format!("the run has {what}s {first} to {last}")
        }
        many => {
            let shown: Vec<String> = many.iter().take(20).map(i64::to_string).collect();
            let more = if many.len() > 20 { ", ..." } else { "" };
            format!("the run has {what}s {}{more}", shown.join(", "))
        }
    };
    SelectionError(format!("no {what} is in {wanted}: {there}"))
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.ranks.as_ref().map(|ranks| format!("ranks {ranks}")),
            self.steps.map(|steps| format!("steps {steps}")),
            self.between.map(|between| format!("between {}", between.time_text())),
            self.streams.as_ref().map(|streams| format!("streams {streams}")),
            self.name.as_ref().map(|name| format!("names like {name}")),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// In the largest unit that represents it exactly.
fn time(ns: i64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let exact = units.into_iter().find(|(scale, _)| ns % scale == 0);
    exact.map_or_else(String::new, |(scale, unit)| format!("{}{unit}", ns / scale))
}

impl Range {
    fn contains(self, number: i64) -> bool {
        (self.first..=self.last).contains(&number)
    }

    /// The part that both have; it ends before it begins if there is none.
    fn within(self, other: Self) -> Self {
        Self { first: self.first.max(other.first), last: self.last.min(other.last) }
    }

    /// Reads `3`, `3-5`, `3..5`, `3..` or `..5`, with the numbers read by `number`.
    fn parse(text: &str, number: impl Fn(&str) -> Option<i64>) -> Option<Self> {
        let text = text.trim();
        let read = |part: &str, open: i64| {
            let part = part.trim();
            if part.is_empty() { Some(open) } else { number(part) }
        };
        let (first, last) = if let Some((first, last)) = text.split_once("..") {
            (read(first, i64::MIN)?, read(last, i64::MAX)?)
        } else if let Some((first, last)) = text.split_once('-') {
            (number(first.trim())?, number(last.trim())?)
        } else {
            let only = number(text)?;
            (only, only)
        };
        (first <= last && text != "..").then_some(Self { first, last })
    }

    /// Reads a time range: `10ms..50ms`, `1.5s..`, `..200us`.
    ///
    /// # Errors
    /// If the text is not a time range, or the range ends before it begins.
    pub fn time(text: &str) -> Result<Self, SelectionError> {
        let wrong = || {
            SelectionError(format!(
                "`{text}` is not a time range; write 10ms..50ms, 1.5s.. or ..200us"
            ))
        };
        let (first, last) = text.split_once("..").ok_or_else(wrong)?;
        if let (Some(first), Some(last)) = (nanoseconds(first.trim()), nanoseconds(last.trim()))
            && first > last
        {
            return Err(SelectionError(format!("`{text}` ends before it begins")));
        }
        Self::parse(text, nanoseconds).ok_or_else(wrong)
    }

    /// The range of nanoseconds as [`Range::time`] reads it: `10ms..50ms`.
    pub fn time_text(self) -> String {
        let first = if self.first == i64::MIN { String::new() } else { time(self.first) };
        let last = if self.last == i64::MAX { String::new() } else { time(self.last) };
        format!("{first}..{last}")
    }
}

impl FromStr for Range {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, SelectionError> {
        Self::parse(text, |number| number.parse().ok()).ok_or_else(|| {
            SelectionError(format!("`{text}` is not a range; write 3, 3-5, 3.. or ..5"))
        })
    }
}

impl FromStr for Ranges {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, SelectionError> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self).map_err(
            |_: SelectionError| {
                SelectionError(format!("`{text}` is not a list of ranges; write 3, 0-3,8 or 5.."))
            },
        )
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (first, last) if first == last => write!(f, "{first}"),
            (i64::MIN, last) => write!(f, "..{last}"),
            (first, i64::MAX) => write!(f, "{first}.."),
            (first, last) => write!(f, "{first}-{last}"),
        }
    }
}

impl Ranges {
    /// Returns true if a rank, or another number, is in one of the ranges.
    pub fn contains(&self, number: impl Into<i64>) -> bool {
        self.contain(number.into())
    }

    fn contain(&self, number: i64) -> bool {
        self.0.iter().any(|range| range.contains(number))
    }
}

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, range) in self.0.iter().enumerate() {
            write!(f, "{}{range}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// `10ms` in nanoseconds, exactly.
fn nanoseconds(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale: i64 = match &text[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut value = whole.parse::<i64>().ok().filter(|v| *v >= 0)?.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.bytes() {
        place /= 10;
        let digit = i64::from(digit.checked_sub(b'0').filter(|d| *d < 10)?);
        value = value.checked_add(digit * place)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::{Range, Ranges};

    fn time(text: &str) -> Option<(i64, i64)> {
        Range::time(text).ok().map(|r| (r.first, r.last))
    }

    #[test]
    fn ranges_are_read() {
        let ranges: Ranges = "0-3,8".parse().unwrap();
        let kept: Vec<i64> = (0..10).filter(|&n| ranges.contain(n)).collect();
        assert_eq!(kept, [0, 1, 2, 3, 8]);
        assert_eq!(ranges.to_string(), "0-3,8");
        for (text, shown) in [("5..", "5.."), ("..5", "..5"), ("3..5", "3-5"), (" 7 ", "7")] {
            assert_eq!(text.parse::<Range>().unwrap().to_string(), shown);
        }
        for text in ["", "..", "x", "5-3", "1,2", "-", "1-2-3", "1..x"] {
            assert!(text.parse::<Range>().is_err(), "{text}");
        }
        for text in ["", ",", "1,,2", "a"] {
            assert!(text.parse::<Ranges>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_read_exactly() {
        assert_eq!(time("10ms..50ms"), Some((10_000_000, 50_000_000)));
        assert_eq!(time("1.5s.."), Some((1_500_000_000, i64::MAX)));
        assert_eq!(time("..0.123456789s"), Some((i64::MIN, 123_456_789)));
        for text in
            ["10..50", "10ms", "5ms..1ms", "..", "1m..2m", "-1ms..", "99999999999s..", "1.x2s.."]
        {
            assert_eq!(time(text), None, "{text}");
        }
    }
}
