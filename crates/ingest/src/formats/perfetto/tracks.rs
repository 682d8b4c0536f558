//! Tracks, and the lanes of the tables that they stand for.

use rustc_hash::FxHashMap;

use super::schema::{CounterDescriptor, TrackDescriptor};
use super::text::{push_integer, push_natural, push_string};

/// Tracks that are kept.
const MAX_TRACKS: usize = 1 << 20;
/// Tracks inside of tracks are followed up to this depth.
const MAX_DEPTH: usize = 32;
/// Bytes of a name that are kept.
const MAX_NAME: usize = 1 << 12;

/// Process and thread of a lane, as Chrome traces write them: a number, or a string with quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct LaneText {
    pub(super) pid: Box<[u8]>,
    pub(super) tid: Box<[u8]>,
}

/// A track.
#[derive(Debug, Default)]
pub(super) struct Track {
    parent: u64,
    pid: Option<i64>,
    tid: Option<i64>,
    pub(super) name: Box<[u8]>,
    process_name: Option<Box<[u8]>>,
    pub(super) counter: Option<CounterDescriptor>,
    pub(super) lane: LaneText,
}

/// The tracks of a trace.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    by_uuid: FxHashMap<u64, Track>,
    /// The track that each lane stands for.
    lanes: FxHashMap<LaneText, u64>,
    /// Tracks without a lane yet.
    new: Vec<u64>,
}

impl Tracks {
    pub(super) fn get(&self, uuid: u64) -> Option<&Track> {
        self.by_uuid.get(&uuid)
    }

    /// Adds what a descriptor says of a track. Returns whether there was room for it.
    pub(super) fn add(&mut self, descriptor: TrackDescriptor) -> bool {
        let uuid = descriptor.uuid;
        if self.by_uuid.len() >= MAX_TRACKS && !self.by_uuid.contains_key(&uuid) {
            return false;
        }
        let track = self.by_uuid.entry(uuid).or_default();
        let short = |mut name: Vec<u8>| {
            name.truncate(MAX_NAME);
            name.into_boxed_slice()
        };
        track.parent = descriptor.parent;
        if let Some(name) = descriptor.name.or(descriptor.static_name) {
            track.name = short(name);
        }
        if let Some(process) = descriptor.process {
            track.pid = process.pid.map(i64::from).or(track.pid);
            track.process_name = process.name.map(short).or(track.process_name.take());
        }
        if let Some(thread) = descriptor.thread {
            track.pid = thread.pid.map(i64::from).or(track.pid);
            track.tid = thread.tid.or(track.tid);
            if let Some(name) = thread.name.filter(|_| track.name.is_empty()) {
                track.name = short(name);
            }
        }
        track.counter = descriptor.counter.or(track.counter);
        self.new.push(uuid);
        true
    }

    /// Gives new tracks their lanes. To be called before their events are converted.
    pub(super) fn place_new(&mut self) {
        let mut new = std::mem::take(&mut self.new);
        for uuid in new.drain(..) {
            let lane = self.lane_of(uuid);
            if let Some(track) = self.by_uuid.get_mut(&uuid) {
                track.lane = lane;
            }
        }
        self.new = new;
    }

    fn lane_of(&mut self, uuid: u64) -> LaneText {
        let Some(track) = self.by_uuid.get(&uuid) else { return LaneText::default() };
        let (mut pid, mut tid) = (Vec::new(), Vec::new());
        if let Some(number) = self.pid_of(track) {
            push_integer(&mut pid, number);
        }
        match track.tid {
            Some(number) => push_integer(&mut tid, number),
            None if track.name.is_empty() => push_string(&mut tid, &unnamed(uuid)),
            None => push_string(&mut tid, &track.name),
        }
        let lane = LaneText { pid: pid.into(), tid: tid.into() };
        if track.tid.is_some() || *self.lanes.entry(lane.clone()).or_insert(uuid) == uuid {
            return lane;
        }
        // Tracks of one name may overlap in time: they are not one lane.
        let mut name = track.name.to_vec();
        name.extend_from_slice(b" #");
        push_natural(&mut name, uuid);
        let mut tid = Vec::new();
        push_string(&mut tid, &name);
        LaneText { tid: tid.into(), ..lane }
    }

    /// The process of a track, or of the tracks around it.
    fn pid_of(&self, track: &Track) -> Option<i64> {
        let mut at = Some(track);
        for _ in 0..MAX_DEPTH {
            let track = at?;
            if track.pid.is_some() {
                return track.pid;
            }
            at = self.by_uuid.get(&track.parent);
        }
        None
    }

    /// Process, thread, what is named, and the name, of all lanes that have names.
    pub(super) fn labels(&self) -> Vec<(&LaneText, &'static str, &[u8])> {
        let mut labels = Vec::new();
        #[expect(clippy::iter_over_hash_type, reason = "the labels are sorted")]
        for track in self.by_uuid.values() {
            if let Some(name) = &track.process_name {
                labels.push((&track.lane, "process_name", &**name));
            } else if !track.name.is_empty() {
                labels.push((&track.lane, "thread_name", &*track.name));
            }
        }
        labels.sort_unstable_by_key(|(lane, what, name)| (&lane.pid, &lane.tid, *what, *name));
        labels
    }
}

/// The name of a track of which only the number is known.
pub(super) fn unnamed(uuid: u64) -> Vec<u8> {
    let mut name = b"track ".to_vec();
    push_natural(&mut name, uuid);
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::perfetto::schema::{ProcessDescriptor, ThreadDescriptor};

    fn lane(tracks: &Tracks, uuid: u64) -> (String, String) {
        let lane = &tracks.get(uuid).unwrap().lane;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&lane.pid), text(&lane.tid))
    }

    #[test]
    fn lanes_are_threads_or_names() {
        let mut tracks = Tracks::default();
        let named = |uuid, parent, name: &str| TrackDescriptor {
            uuid,
            parent,
            name: Some(name.as_bytes().to_vec()),
            ..TrackDescriptor::default()
        };
        tracks.add(TrackDescriptor {
            uuid: 1,
            process: Some(ProcessDescriptor { pid: Some(10), name: Some(b"python".to_vec()) }),
            ..TrackDescriptor::default()
        });
        let thread =
            ThreadDescriptor { pid: Some(10), tid: Some(11), name: Some(b"main".to_vec()) };
        tracks.add(TrackDescriptor {
            uuid: 2,
            parent: 1,
            thread: Some(thread),
            ..TrackDescriptor::default()
        });
        tracks.add(named(3, 1, "requests"));
        tracks.add(named(4, 1, "requests"));
        tracks.add(TrackDescriptor { uuid: 5, ..TrackDescriptor::default() });
        // Parents in a circle end somewhere.
        tracks.add(named(6, 7, "a"));
        tracks.add(named(7, 6, "b"));
        tracks.place_new();
        assert_eq!(lane(&tracks, 2), ("10".into(), "11".into()));
        assert_eq!(lane(&tracks, 3), ("10".into(), "\"requests\"".into()));
        assert_eq!(lane(&tracks, 4), ("10".into(), "\"requests #4\"".into()));
        assert_eq!(lane(&tracks, 5), (String::new(), "\"track 5\"".into()));
        assert_eq!(lane(&tracks, 6), (String::new(), "\"a\"".into()));
        let labels = tracks.labels();
        let labels: Vec<_> = labels.iter().map(|(_, what, name)| (*what, *name)).collect();
        assert!(labels.contains(&("process_name", &b"python"[..])), "{labels:?}");
        assert!(labels.contains(&("thread_name", &b"main"[..])), "{labels:?}");
    }
}
