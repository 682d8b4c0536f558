//! The outline of a trace: what is known of its events although their rows are dropped. It takes memory by what a
//! program does, not by how long it was recorded.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};

use rustc_hash::{FxHashMap, FxHashSet};
use tempfile::{NamedTempFile, TempPath};
use trace_model::StrId;
use trace_model::vocabulary::{
    COMPOSER_BATCH, COMPOSER_LOADERS, OPTIMIZER_STEP_PREFIX, engine_step, profiler_step,
};

use super::columns::{BeginEndEvent, Columns};

/// How much of a trace is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// All events.
    All,
    /// Extent, steps, launches and identity; of longer traces, only some events of each name.
    Outline,
}

/// Rows from which on a trace is thinned.
const MAX_ROWS: u64 = 1 << 18;

/// Facts about events whose rows may be dropped.
#[derive(Debug, Default)]
pub(crate) struct Outline {
    /// Operators and runtime calls by lane, of the rows that were dropped or counted already.
    pub(crate) lane_counts: Vec<u64>,
    /// Calls of the runtime and device activities.
    pub(crate) links: Links,
    /// Begin and end events, without their arguments.
    pub(crate) begin_end_events: Vec<BeginEndEvent>,
    /// Rows were dropped.
    pub(crate) is_thinned: bool,
    /// Rows at the beginning of each table that are counted already.
    counted: FxHashMap<&'static str, usize>,
}

impl Columns {
    /// Thins the columns if there is an outline and they have become long.
    pub(crate) fn thin_if_long(&mut self) {
        // Kernels of the range profiler are paired with launches by their numbers.
        if self.outline.is_some() && self.profiler_ranges.is_empty() && self.row_events() > MAX_ROWS
        {
            self.thin();
            if let Some(outline) = &mut self.outline {
                outline.is_thinned = true;
            }
        }
    }

    /// Operators and runtime calls of each lane, dropped ones too.
    pub(crate) fn lane_counts(&self) -> Vec<u64> {
        let outline = self.outline.as_deref();
        let mut counts = outline.map_or_else(Vec::new, |outline| outline.lane_counts.clone());
        counts.resize(self.lanes.len(), 0);
        macro_rules! count {
            ($($table:ident),+) => { $(
                let counted = outline.and_then(|outline| outline.counted.get(stringify!($table)));
                for &thread in self.$table.thread.0.iter().skip(counted.copied().unwrap_or(0)) {
                    counts[thread as usize] += 1;
                }
            )+ };
        }
        count!(cpu_ops, runtime_calls);
        counts
    }

    /// Remembers the begin and end events: pairing consumes them.
    pub(crate) fn outline_begin_end_events(&mut self) {
        let Some(outline) = &mut self.outline else { return };
        let without_args = |event: &BeginEndEvent| BeginEndEvent { args: String::new(), ..*event };
        outline.begin_end_events = self.begin_end_events.iter().map(without_args).collect();
    }

    /// Drops all rows but the first of each name, the first to begin and the last to end, and the marks of steps.
    /// The outline, which must be there, takes what is needed of the others.
    pub(crate) fn thin(&mut self) {
        let lane_counts = self.lane_counts();
        let Some(mut outline) = self.outline.take() else { return };
        outline.lane_counts = lane_counts;
        macro_rules! link {
            ($($table:ident),+) => { $(
                let t = &self.$table;
                let from = outline.counted.get(stringify!($table)).copied().unwrap_or(0);
                for row in from..t.len() {
                    let (id, ts_ns) = (t.correlation.get(row), t.ts_ns.get(row));
                    // 0 is what tracers write for "none".
                    if id > 0 {
                        outline.links.push(Link { id, ts_ns, end_ns: ts_ns + t.dur_ns.get(row) });
                    }
                }
            )+ };
        }
        link!(runtime_calls, kernels, memcpys, memsets, device_syncs);
        let marks: FxHashSet<StrId> =
            self.strings.iter().filter(|(_, text)| is_mark(text)).map(|(id, _)| id).collect();
        macro_rules! thin {
            ($($table:ident),+) => { $(
                let t = &self.$table;
                let rows = representatives(&t.name.0, &t.ts_ns.0, &t.dur_ns.0, &marks);
                self.$table = self.$table.take(&rows);
                outline.counted.insert(stringify!($table), rows.len());
            )+ };
        }
        thin!(cpu_ops, runtime_calls, annotations, python_frames, kernels, memcpys, memsets);
        thin!(device_syncs, spans);
        macro_rules! keep_first {
            ($($table:ident),+) => { $(
                if self.$table.len() > 1 {
                    self.$table = self.$table.take(&[0]);
                }
            )+ };
        }
        keep_first!(collectives, memory_events, counters, flows, instants);
        for event in &mut self.begin_end_events {
            event.args = String::new();
        }
        self.outline = Some(outline);
    }
}

/// Whether annotations of this name may mark steps.
fn is_mark(name: &str) -> bool {
    profiler_step(name).is_some()
        || engine_step(name).is_some()
        || name.starts_with(OPTIMIZER_STEP_PREFIX)
        || name == COMPOSER_BATCH
        || COMPOSER_LOADERS.contains(&name)
}

/// The rows to keep, in order.
fn representatives(
    names: &[StrId],
    starts: &[i64],
    durs: &[i64],
    marks: &FxHashSet<StrId>,
) -> Vec<usize> {
    let mut seen: FxHashSet<StrId> = FxHashSet::default();
    let first = (0..starts.len()).min_by_key(|&row| starts[row]);
    let last = (0..starts.len()).max_by_key(|&row| starts[row] + durs[row]);
    let name_of = |row: usize| names.get(row).copied().unwrap_or(StrId::NULL);
    (0..starts.len())
        .filter(|&row| {
            let name = name_of(row);
            seen.insert(name) || marks.contains(&name) || Some(row) == first || Some(row) == last
        })
        .collect()
}

/// A runtime call or a device activity: the id that both have, and its time as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) id: i64,
    pub(crate) ts_ns: i64,
    pub(crate) end_ns: i64,
}

impl Link {
    const BYTES: usize = 24;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        for (at, value) in [self.id, self.ts_ns, self.end_ns].into_iter().enumerate() {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let value =
            |at: usize| bytes[at * 8..].first_chunk().map_or(0, |value| i64::from_le_bytes(*value));
        Self { id: value(0), ts_ns: value(1), end_ns: value(2) }
    }
}

/// Runtime calls and device activities: a few in memory, many in a temporary file.
#[derive(Debug, Default)]
pub(crate) struct Links {
    recent: Vec<Link>,
    spilled: Option<TempPath>,
}

impl Links {
    /// Links that are held in memory.
    const MAX_RECENT: usize = 1 << 18;

    fn push(&mut self, link: Link) {
        self.recent.push(link);
        if self.recent.len() >= Self::MAX_RECENT {
            // Without room on the disk, they stay in memory.
            let _ = self.spill();
        }
    }

    fn spill(&mut self) -> io::Result<()> {
        let (path, file) = match self.spilled.take() {
            Some(path) => {
                let file = File::options().append(true).open(&path);
                (path, file)
            }
            None => {
                let (file, path) = NamedTempFile::with_prefix("advisor-links-")?.into_parts();
                (path, Ok(file))
            }
        };
        let length = path.metadata()?.len();
        self.spilled = Some(path);
        let file = file?;
        let mut out = BufWriter::with_capacity(1 << 18, &file);
        let written = self
            .recent
            .iter()
            .try_for_each(|link| out.write_all(&link.to_bytes()))
            .and_then(|()| out.flush());
        drop(out);
        match written {
            Ok(()) => self.recent.clear(),
            Err(_) => file.set_len(length)?,
        }
        written
    }

    /// Calls `each` with every link.
    ///
    /// # Errors
    /// If the temporary file cannot be read.
    pub(crate) fn for_each(&self, mut each: impl FnMut(Link)) -> io::Result<()> {
        if let Some(path) = &self.spilled {
            let file = File::open(path)?;
            let links = file.metadata()?.len() / Link::BYTES as u64;
            let mut reader = BufReader::with_capacity(1 << 18, file);
            let mut bytes = [0; Link::BYTES];
            for _ in 0..links {
                reader.read_exact(&mut bytes)?;
                each(Link::from_bytes(bytes));
            }
        }
        self.recent.iter().copied().for_each(each);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Link, Links};

    #[test]
    fn links_are_the_same_from_memory_and_from_disk() {
        let count = Links::MAX_RECENT as i64 * 2 + 5;
        let link = |id: i64| Link { id, ts_ns: -id, end_ns: id << 40 };
        let mut links = Links::default();
        (0..count).for_each(|id| links.push(link(id)));
        assert_eq!(links.recent.len(), 5);
        let mut read = Vec::new();
        links.for_each(|link| read.push(link)).unwrap();
        assert!(read.into_iter().eq((0..count).map(link)));
        let path = links.spilled.as_ref().unwrap().to_path_buf();
        drop(links);
        assert!(!path.exists());
    }
}
