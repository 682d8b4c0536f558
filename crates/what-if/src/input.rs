//! Reads the events of each rank within the analyzed window.

use query::rust_view::Result;
use query::{ViewError, view_error};
use rustc_hash::FxHashMap;

use super::model::{
    Activity, AnalysisWindow, Blocker, BlockerKind, CountedSteps, EventTable, HostEvent, HostRole,
    NodeEdge, RankEvents, TimeClass, TrainingStep, kernel_class, may_block,
};
use query::columns::{Names, get, ints, names};
use query::rust_view::ViewInputs;

/// One rank with events in its window.
#[derive(Debug)]
pub(crate) struct RankTrace {
    pub(crate) events: RankEvents,
    pub(crate) window: AnalysisWindow,
}

/// All ranks, and the names of their events.
#[derive(Debug)]
pub(crate) struct LoadedRanks {
    pub(crate) ranks: Vec<RankTrace>,
    /// By table; an event's `row` is an index into these names.
    names: Vec<Names>,
}

impl LoadedRanks {
    /// Reads the events of each rank in the window that the parameters select.
    pub(crate) fn new(inputs: &ViewInputs<'_>) -> Result<Self> {
        let mut by_rank = RankEventsBuilder::new(inputs)?;
        let mut all_names = Vec::with_capacity(EventTable::ALL.len());
        let mut correlations = FxHashMap::default();
        let records_waits = inputs.batch("device_syncs")?.num_rows() > 0;
        for table in EventTable::ALL {
            let batch = inputs.batch(table.name())?;
            let names = names(batch, "name")?;
            let (rank, id) = (ints(batch, "rank")?, ints(batch, "event_id")?);
            let (ts_ns, dur_ns) = (ints(batch, "ts_ns")?, ints(batch, "dur_ns")?);
            let lane = ints(batch, "thread")?;
            let span = |row: usize| {
                let ts_ns = ts_ns.value(row);
                (ts_ns, ts_ns.saturating_add(dur_ns.value(row).max(0)))
            };
            if matches!(table, EventTable::Kernels | EventTable::Memcpys | EventTable::Memsets) {
                let (device, stream) = (ints(batch, "device")?, ints(batch, "stream")?);
                let (launch, step) = (ints(batch, "launch")?, ints(batch, "step")?);
                let kinds = match table {
                    EventTable::Kernels => Some(self::names(batch, "kind")?),
                    _ => None,
                };
                let copies = table == EventTable::Memcpys;
                let blocking: Vec<bool> =
                    names.texts.iter().map(|name| copies && may_block(name)).collect();
                for row in 0..batch.num_rows() {
                    let (ts_ns, end_ns) = span(row);
                    let class = kinds.as_ref().map_or(TimeClass::Copy, |kinds| {
                        kernel_class(kinds.get(row).unwrap_or_default())
                    });
                    let name = names.ids[row] as usize;
                    by_rank.of(rank.value(row)).activities.push(Activity {
                        ts_ns,
                        end_ns,
                        id: id.value(row),
                        row: row as u32,
                        lane: lane.value(row) as i32,
                        device: get(&device, row).unwrap_or(-1) as i32,
                        stream: get(&stream, row).unwrap_or(-1) as i32,
                        table,
                        class,
                        launch: get(&launch, row),
                        step: get(&step, row),
                        may_block: blocking.get(name).copied().unwrap_or(false),
                    });
                }
            } else {
                let roles: Vec<HostRole> =
                    names.texts.iter().map(|name| HostRole::of(table, name)).collect();
                let loading = match table {
                    EventTable::Annotations => Some(ints(batch, "is_loading")?),
                    _ => None,
                };
                for row in 0..batch.num_rows() {
                    let (ts_ns, end_ns) = span(row);
                    let name = names.ids[row] as usize;
                    let role = roles.get(name).copied().unwrap_or(HostRole::Plain);
                    let loads = loading.as_ref().is_some_and(|l| l.value(row) != 0);
                    by_rank.of(rank.value(row)).host.push(HostEvent {
                        ts_ns,
                        end_ns,
                        id: id.value(row),
                        row: row as u32,
                        lane: lane.value(row) as i32,
                        table,
                        role: if loads { HostRole::Loader } else { role },
                    });
                }
            }
            if table == EventTable::RuntimeCalls && records_waits {
                let correlation = ints(batch, "correlation")?;
                for row in 0..batch.num_rows() {
                    if let Some(correlation) = get(&correlation, row) {
                        correlations.insert((rank.value(row), correlation), id.value(row));
                    }
                }
            }
            all_names.push(names);
        }
        by_rank.waits(inputs, &correlations)?;
        by_rank.graph_edges(inputs)?;
        by_rank.steps(inputs)?;
        let annotations = &all_names[EventTable::Annotations as usize];
        let ranks = by_rank.windows(inputs, annotations)?;
        Ok(Self { ranks, names: all_names })
    }

    /// Names of the rows of a table.
    pub(crate) fn names(&self, table: EventTable) -> &Names {
        &self.names[table as usize]
    }
}

/// Collects events by rank.
struct RankEventsBuilder {
    ranks: Vec<RankEvents>,
    places: FxHashMap<i64, usize>,
    last: (i64, usize),
}

impl RankEventsBuilder {
    fn new(inputs: &ViewInputs<'_>) -> Result<Self> {
        let rank = ints(inputs.batch("ranks")?, "rank")?;
        let mut all =
            Self { ranks: Vec::new(), places: FxHashMap::default(), last: (i64::MIN, usize::MAX) };
        for row in 0..rank.len() {
            all.of(rank.value(row));
        }
        Ok(all)
    }

    fn of(&mut self, rank: i64) -> &mut RankEvents {
        // Rows come rank by rank.
        if self.last.0 != rank || self.last.1 >= self.ranks.len() {
            let next = self.ranks.len();
            let place = *self.places.entry(rank).or_insert(next);
            if place == next {
                self.ranks.push(RankEvents { rank: rank as i32, ..RankEvents::default() });
            }
            self.last = (rank, place);
        }
        &mut self.ranks[self.last.1]
    }

    fn waits(
        &mut self,
        inputs: &ViewInputs<'_>,
        correlations: &FxHashMap<(i64, i64), i64>,
    ) -> Result<()> {
        let batch = inputs.batch("device_syncs")?;
        let (rank, names) = (ints(batch, "rank")?, names(batch, "name")?);
        let (device, stream) = (ints(batch, "device")?, ints(batch, "stream")?);
        let launch = ints(batch, "launch")?;
        let source = ints(batch, "wait_on_stream")?;
        let record = ints(batch, "wait_on_record")?;
        for row in 0..batch.num_rows() {
            let kind = match names.get(row) {
                Some("Stream Sync") => BlockerKind::Stream,
                Some("Event Sync") => BlockerKind::Event,
                Some("Stream Wait Event") => BlockerKind::StreamOnEvent,
                Some("Context Sync") => BlockerKind::Context,
                _ => continue,
            };
            let Some(call) = get(&launch, row) else { continue };
            let rank = rank.value(row);
            let record = get(&record, row);
            self.of(rank).waits.push(Blocker {
                kind,
                call,
                device: get(&device, row).unwrap_or(-1) as i32,
                stream: get(&stream, row).unwrap_or(-1) as i32,
                source_stream: get(&source, row).unwrap_or(-1) as i32,
                record: record.and_then(|id| correlations.get(&(rank, id)).copied()),
            });
        }
        Ok(())
    }

    fn graph_edges(&mut self, inputs: &ViewInputs<'_>) -> Result<()> {
        let batch = inputs.batch("graph_edges")?;
        let (rank, source, target) =
            (ints(batch, "rank")?, ints(batch, "source")?, ints(batch, "target")?);
        let is_complete = ints(batch, "is_complete")?;
        for row in 0..batch.num_rows() {
            let is_complete = is_complete.value(row) != 0;
            let edge =
                NodeEdge { source: source.value(row), target: target.value(row), is_complete };
            self.of(rank.value(row)).graph_edges.push(edge);
        }
        Ok(())
    }

    fn steps(&mut self, inputs: &ViewInputs<'_>) -> Result<()> {
        let batch = inputs.batch("steps")?;
        let (rank, step) = (ints(batch, "rank")?, ints(batch, "step")?);
        let (ts_ns, dur_ns) = (ints(batch, "ts_ns")?, ints(batch, "dur_ns")?);
        let (lane, counted_ns) = (ints(batch, "thread")?, ints(batch, "counted_ns")?);
        for row in 0..batch.num_rows() {
            let ts_ns = ts_ns.value(row);
            self.of(rank.value(row)).steps.push(TrainingStep {
                number: step.value(row),
                ts_ns,
                end_ns: ts_ns.saturating_add(dur_ns.value(row).max(0)),
                lane: get(&lane, row).map(|lane| lane as i32),
                counted_ns: get(&counted_ns, row),
            });
        }
        Ok(())
    }

    /// Clips each rank to the window that the parameters select. Ranks without events in it are left out.
    fn windows(self, inputs: &ViewInputs<'_>, annotations: &Names) -> Result<Vec<RankTrace>> {
        let text = inputs.text("critical_annotation")?;
        let instance = inputs.int("critical_instance")?;
        let mut ranks = Vec::with_capacity(self.ranks.len());
        let mut most = 0;
        let mut events = self.ranks;
        events.sort_by_key(|r| r.rank);
        for mut events in events {
            events.steps.sort_by_key(|step| (step.ts_ns, step.number));
            events.counted = CountedSteps::of(&events.steps);
            let window = if text.is_empty() {
                match events.longest_step_run() {
                    Some((begin_ns, end_ns)) => Some(events.clip(begin_ns, end_ns)),
                    None => events.full_window(),
                }
            } else {
                let mut spans = instances(&events, annotations, text);
                most = most.max(spans.len());
                if instance >= 0 {
                    let at = usize::try_from(instance).unwrap_or(usize::MAX);
                    spans = spans.get(at).copied().into_iter().collect();
                }
                let begin_ns = spans.iter().map(|&(begin_ns, _)| begin_ns).min();
                let end_ns = spans.iter().map(|&(_, end_ns)| end_ns).max();
                let window =
                    begin_ns.zip(end_ns).map(|(begin_ns, end_ns)| events.clip(begin_ns, end_ns));
                events.counted = CountedSteps::of(&events.steps);
                window
            };
            if let Some(window) = window {
                ranks.push(RankTrace { events, window });
            }
        }
        if !text.is_empty() && instance < -1 {
            return Err(view_error!(
                "critical_instance is {instance}: give a position from 0 on, or -1 for all"
            ));
        }
        if !text.is_empty() && ranks.is_empty() {
            let message = match most {
                0 => format!("critical_annotation: no annotation contains `{text}`"),
                most => format!(
                    "critical_instance is {instance}, but `{text}` occurs {most} times: the last is {}",
                    most - 1
                ),
            };
            return Err(ViewError::NoMatch { message, candidates: most });
        }
        Ok(ranks)
    }
}

/// Start and end of each annotation whose name contains `text`, by start.
fn instances(events: &RankEvents, names: &Names, text: &str) -> Vec<(i64, i64)> {
    let matches: Vec<bool> = names.texts.iter().map(|name| name.contains(text)).collect();
    let of_text = |e: &&HostEvent| {
        let name = || names.ids[e.row as usize] as usize;
        e.table == EventTable::Annotations && matches.get(name()).copied().unwrap_or(false)
    };
    let mut found: Vec<(i64, i64, i64)> =
        events.host.iter().filter(of_text).map(|e| (e.ts_ns, e.id, e.end_ns)).collect();
    found.sort_unstable();
    found.into_iter().map(|(ts_ns, _, end_ns)| (ts_ns, end_ns)).collect()
}
