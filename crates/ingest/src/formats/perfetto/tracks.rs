//! Tracks, and their lanes in the tables.

use rustc_hash::FxHashMap;

use super::budget::Budget;
use super::schema::{CounterDescriptor, TrackDescriptor};
use super::text::{push_integer, push_natural, push_string};

/// Estimated bytes of a track, without its texts.
const TRACK_BYTES: usize = 256;
/// Estimated bytes of a lane, without its texts.
const LANE_BYTES: usize = 64;
/// Maximum number of parent tracks that are followed.
const MAX_DEPTH: usize = 32;
/// Maximum bytes of the name of a track.
const MAX_NAME: usize = 1 << 12;
/// Maximum bytes of the name of a track in the name of its lane.
const MAX_LANE_NAME: usize = 1 << 8;

/// Process and thread of a lane as in Chrome traces: a number, or a string with quotes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct LaneText {
    pub(super) pid: Box<[u8]>,
    pub(super) tid: Box<[u8]>,
}

impl LaneText {
    fn bytes(&self) -> usize {
        self.pid.len() + self.tid.len()
    }
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
    /// Bytes of the lane that count against the limit of declarations.
    lane_bytes: usize,
}

/// The tracks of a trace.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    by_uuid: FxHashMap<u64, Track>,
    /// The track of each lane.
    lanes: FxHashMap<LaneText, u64>,
    /// Tracks without a lane yet.
    new: Vec<u64>,
}

impl Tracks {
    pub(super) fn get(&self, uuid: u64) -> Option<&Track> {
        self.by_uuid.get(&uuid)
    }

    /// Adds the descriptor of a track. Returns whether it fits into the limit.
    pub(super) fn add(&mut self, descriptor: TrackDescriptor, room: &mut Budget) -> bool {
        let uuid = descriptor.uuid;
        let process = descriptor.process.unwrap_or_default();
        let thread = descriptor.thread.unwrap_or_default();
        let known = self.by_uuid.get(&uuid);
        // The name of a thread becomes the name of its track if the track has no name.
        let is_nameless = known.is_none_or(|track| track.name.is_empty());
        let name = descriptor.name.or(descriptor.static_name).filter(|name| !name.is_empty());
        let name = name.or(thread.name.filter(|_| is_nameless)).map(short_name);
        let process_name = process.name.map(short_name);

        let bytes = |text: &Option<Box<[u8]>>| text.as_ref().map_or(0, |text| text.len());
        let new_bytes = if known.is_some() { 0 } else { TRACK_BYTES };
        if !room.take(new_bytes + bytes(&name) + bytes(&process_name)) {
            return false;
        }
        let track = self.by_uuid.entry(uuid).or_default();
        track.parent = descriptor.parent;
        track.pid = thread.pid.or(process.pid).map(i64::from).or(track.pid);
        track.tid = thread.tid.or(track.tid);
        track.counter = descriptor.counter.or(track.counter);
        if let Some(name) = name {
            room.give_back(std::mem::replace(&mut track.name, name).len());
        }
        if process_name.is_some() {
            room.give_back(bytes(&std::mem::replace(&mut track.process_name, process_name)));
        }
        self.new.push(uuid);
        true
    }

    /// Assigns lanes to new tracks. Must be called before the events of these tracks are converted. Returns the number of lanes that
    /// exceed the limit. These lanes have no names.
    pub(super) fn place_new(&mut self, room: &mut Budget) -> u64 {
        let mut dropped = 0;
        let mut new = std::mem::take(&mut self.new);
        for uuid in new.drain(..) {
            let mut lane = self.lane_of(uuid, room);
            let Some(track) = self.by_uuid.get_mut(&uuid) else { continue };
            room.give_back(std::mem::take(&mut track.lane_bytes));
            if room.take(lane.bytes()) {
                track.lane_bytes = lane.bytes();
            } else {
                dropped += 1;
                let mut tid = Vec::new();
                push_string(&mut tid, &unnamed(uuid));
                lane.tid = tid.into();
            }
            track.lane = lane;
        }
        self.new = new;
        dropped
    }

    fn lane_of(&mut self, uuid: u64, room: &mut Budget) -> LaneText {
        let Some(track) = self.by_uuid.get(&uuid) else { return LaneText::default() };
        let (mut pid, mut tid) = (Vec::new(), Vec::new());
        let name = prefix(&track.name, MAX_LANE_NAME);
        if let Some(number) = self.pid_of(track) {
            push_integer(&mut pid, number);
        }
        match track.tid {
            Some(number) => push_integer(&mut tid, number),
            None if name.is_empty() => push_string(&mut tid, &unnamed(uuid)),
            None => push_string(&mut tid, name),
        }
        let lane = LaneText { pid: pid.into(), tid: tid.into() };
        let is_own = match self.lanes.get(&lane) {
            _ if track.tid.is_some() => true,
            Some(&owner) => owner == uuid,
            None => {
                let has_room = room.take(lane.bytes() + LANE_BYTES);
                if has_room {
                    self.lanes.insert(lane.clone(), uuid);
                }
                has_room
            }
        };
        if is_own {
            return lane;
        }
        // Tracks of the same name may overlap in time, so they need separate lanes.
        let mut name = name.to_vec();
        name.extend_from_slice(b" #");
        push_natural(&mut name, uuid);
        let mut tid = Vec::new();
        push_string(&mut tid, &name);
        LaneText { tid: tid.into(), ..lane }
    }

    /// Returns the process of a track, or of its nearest parent with a process.
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

    /// Returns lane, kind of label and name of all lanes with names.
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

fn short_name(mut name: Vec<u8>) -> Box<[u8]> {
    name.truncate(prefix(&name, MAX_NAME).len());
    name.into_boxed_slice()
}

/// Returns at most `max_bytes` of the beginning of a text, without an incomplete character at the end.
fn prefix(text: &[u8], max_bytes: usize) -> &[u8] {
    const MAX_CHARACTER_BYTES: usize = 4;
    let is_inside = |at: usize| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let mut ends = (0..MAX_CHARACTER_BYTES).map(|back| max_bytes.saturating_sub(back));
    let end = ends.find(|&end| !is_inside(end)).unwrap_or(max_bytes);
    &text[..end.min(text.len())]
}

/// Returns the name of a track of which only the number is known.
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
        let (mut tracks, mut room) = (Tracks::default(), Budget::new(1 << 20));
        let mut add = |descriptor| assert!(tracks.add(descriptor, &mut room));
        let named = |uuid, parent, name: &str| TrackDescriptor {
            uuid,
            parent,
            name: Some(name.as_bytes().to_vec()),
            ..TrackDescriptor::default()
        };
        add(TrackDescriptor {
            uuid: 1,
            process: Some(ProcessDescriptor { pid: Some(10), name: Some(b"python".to_vec()) }),
            ..TrackDescriptor::default()
        });
        let thread =
            ThreadDescriptor { pid: Some(10), tid: Some(11), name: Some(b"main".to_vec()) };
        add(TrackDescriptor {
            uuid: 2,
            parent: 1,
            thread: Some(thread),
            ..TrackDescriptor::default()
        });
        add(named(3, 1, "requests"));
        add(named(4, 1, "requests"));
        add(TrackDescriptor { uuid: 5, ..TrackDescriptor::default() });
        // These parents form a cycle.
        add(named(6, 7, "a"));
        add(named(7, 6, "b"));
        assert_eq!(tracks.place_new(&mut room), 0);
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

    #[test]
    fn names_of_lanes_are_short_and_those_of_tracks_are_longer() {
        let (mut tracks, mut room) = (Tracks::default(), Budget::new(1 << 20));
        let named = |uuid, name: String| TrackDescriptor {
            uuid,
            name: Some(name.into_bytes()),
            ..TrackDescriptor::default()
        };
        tracks.add(named(1, "é".repeat(1000)), &mut room);
        // This name differs only beyond the maximum length of the name of a lane.
        tracks.add(named(2, "é".repeat(999)), &mut room);
        tracks.add(named(3, format!("a{}", "é".repeat(3000))), &mut room);
        tracks.place_new(&mut room);
        assert_eq!(tracks.get(1).unwrap().name.len(), 2000);
        assert_eq!(lane(&tracks, 1).1, format!("\"{}\"", "é".repeat(128)));
        assert_eq!(lane(&tracks, 2).1, format!("\"{} #2\"", "é".repeat(128)));
        assert_eq!(lane(&tracks, 3).1, format!("\"a{}\"", "é".repeat(127)));
        assert_eq!(tracks.get(3).unwrap().name.len(), MAX_NAME - 1, "no half of a character");
    }

    #[test]
    fn tracks_and_lanes_share_the_room() {
        let (mut tracks, mut room) = (Tracks::default(), Budget::new(10_000));
        let named = |uuid, first: char| TrackDescriptor {
            uuid,
            name: Some(format!("{first}{}", "x".repeat(2000)).into_bytes()),
            ..TrackDescriptor::default()
        };
        // A new name of a track replaces the previous name, but all lanes are kept.
        for first in 'a'..='j' {
            assert!(tracks.add(named(1, first), &mut room));
            tracks.place_new(&mut room);
        }
        assert_eq!(tracks.lanes.len(), 10);
        assert!(tracks.add(named(2, 'k'), &mut room));
        assert!(!tracks.add(named(3, 'l'), &mut room));
        assert!(tracks.get(3).is_none());
        for first in 'm'..='z' {
            tracks.add(named(1, first), &mut room);
            tracks.place_new(&mut room);
        }
        assert_eq!(tracks.lanes.len(), 12);
        // If the limit is reached, a lane has no name.
        while room.take(1) {}
        room.give_back(TRACK_BYTES + 2001);
        assert!(tracks.add(named(4, '#'), &mut room));
        assert_eq!(tracks.place_new(&mut room), 1);
        assert_eq!(lane(&tracks, 4).1, "\"track 4\"");
    }
}
