//! The outline of a trace: what is known of its events although their rows are dropped. It takes memory by what a
//! program does, not by how long it was recorded.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::sync::Arc;

use private_files::TemporaryFile;
use rustc_hash::FxHashMap;

use super::begin_end_event::BeginEndEvent;

/// Level of detail at which a trace is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// All events.
    All,
    /// Extent, steps, launches and identity; of longer traces, only some events of each name.
    Outline,
}

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
    pub(super) counted: FxHashMap<&'static str, usize>,
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
    spilled: Option<Arc<TemporaryFile>>,
}

impl Links {
    /// Links that are held in memory.
    const MAX_RECENT: usize = 1 << 18;

    pub(super) fn push(&mut self, link: Link) {
        self.recent.push(link);
        if self.recent.len() >= Self::MAX_RECENT {
            // Without room on the disk, they stay in memory.
            let _ = self.spill();
        }
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match &self.spilled {
            Some(file) => Arc::clone(file),
            None => Arc::clone(self.spilled.insert(TemporaryFile::create()?)),
        };
        let length = file.bytes()?;
        let mut out = BufWriter::with_capacity(1 << 18, file.writer()?);
        let written = self
            .recent
            .iter()
            .try_for_each(|link| out.write_all(&link.to_bytes()))
            .and_then(|()| out.flush());
        drop(out);
        match written {
            Ok(()) => self.recent.clear(),
            Err(_) => file.truncate(length)?,
        }
        written
    }

    /// Calls `each` with every link.
    ///
    /// # Errors
    /// If the temporary file cannot be read.
    pub(crate) fn for_each(&self, mut each: impl FnMut(Link)) -> io::Result<()> {
        if let Some(file) = &self.spilled {
            let links = file.bytes()? / Link::BYTES as u64;
            let mut reader = BufReader::with_capacity(1 << 18, file.reader());
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
    }
}
