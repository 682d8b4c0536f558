//! Device activities: what each start had to wait for.

use super::host::Host;
use super::model::{Calls, RankEvents, Role, Table, Wait, WaitKind};
use super::streams::{Launched, Streams};

/// A cross-stream wait that the trace does not record is inferred where a start comes this much later
/// than everything known explains, and this soon after an activity of another stream ended.
const UNEXPLAINED_NS: i64 = 10_000;
const SOON_NS: i64 = 20_000;

/// No launch takes longer by itself: what seems to, waited for something.
const MAX_FLOOR_NS: i64 = 50_000;

/// A stream has a full queue where the host runs ahead by no less, and where that many of its launches
/// are this near to the greatest lead.
const MIN_QUEUE: usize = 256;
const FULL_SHARE: usize = 20;
const FULL_SLACK: usize = 8;

/// What the host submits to the device, and what device and host wait for. Numbers are positions among
/// the activities.
#[derive(Debug, Default)]
pub(super) struct Device {
    /// Submissions: timeline and instant, intrinsic delay, activity.
    pub(super) launches: Vec<Launch>,
    /// The activity before on the same stream: latest to end; [`NONE`] for the first.
    pub(super) previous: Vec<u32>,
    /// A stream waits: source, activity that starts after it.
    pub(super) stream_waits: Vec<(u32, u32)>,
    /// As above, by time.
    pub(super) inferred: Vec<(u32, u32)>,
    /// The device was full: an activity of another stream whose end made room, activity that starts.
    pub(super) crowded: Vec<(u32, u32)>,
    /// The host waits: source, call (position among the host events).
    pub(super) host_waits: Vec<(u32, u32)>,
    /// The queue of a stream is full: activity that makes room, call.
    pub(super) queue_waits: Vec<(u32, u32)>,
    /// Activities that begin before their launching call does: the launch is ignored.
    pub(super) early: usize,
    /// Activities whose launching call is not in the trace.
    pub(super) unlinked: usize,
    /// Calls that returned after a wait for the device.
    pub(super) waiting_calls: usize,
    /// Least delay from submission to start, for kernels.
    pub(super) floor: Option<i64>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Launch {
    pub(super) timeline: usize,
    pub(super) ts: i64,
    pub(super) delay: i64,
    pub(super) activity: u32,
}

impl Device {
    pub(super) fn new(events: &RankEvents, calls: &Calls, host: &mut Host) -> Self {
        let mut device = Self::default();
        let streams = Streams::new(&events.activities);
        device.previous = streams.previous(&events.activities);
        device.submit(events, calls, host);
        device.recorded(events, calls, host);
        device.waiting(events, calls, host, &streams);
        device.queues(events, calls, host, &streams);
        device.infer(events, &streams);
        device
    }

    /// The moment of submission lies inside the launching call: as late as the start allows, given the
    /// least delay seen on idle streams. So a call that takes long itself is host time, not delay.
    fn submit(&mut self, events: &RankEvents, calls: &Calls, host: &mut Host) {
        let mut caused = vec![0_u32; events.host.len()];
        for call in (0..events.activities.len()).filter_map(|i| calls.of(i)) {
            caused[call as usize] += 1;
        }
        let call = |activity: usize| Some(&events.host[calls.of(activity)? as usize]);
        let floors = [Table::Kernels, Table::Memcpys, Table::Memsets].map(|table| {
            let mut idle = Vec::new();
            let mut all = Vec::new();
            for (i, a) in events.activities.iter().enumerate().filter(|(_, a)| a.table == table) {
                let Some(call) = call(i) else { continue };
                let delay = a.ts - call.ts;
                if delay < 0 {
                    continue;
                }
                all.push(delay);
                let before = events.activities.get(self.previous[i] as usize);
                if before.is_none_or(|b| b.end <= call.ts) {
                    idle.push(delay);
                }
            }
            let floor = low(&mut all).into_iter().chain(low(&mut idle)).min();
            floor.map(|floor| floor.min(MAX_FLOOR_NS))
        });
        self.floor = floors[0];
        for (i, a) in events.activities.iter().enumerate() {
            self.unlinked += usize::from(a.launch.is_none());
            let Some(at) = calls.of(i) else { continue };
            let call = &events.host[at as usize];
            let Some(timeline) = host.timeline(call.lane) else { continue };
            if a.ts < call.ts {
                self.early += 1;
                continue;
            }
            let floor = match a.table {
                Table::Memcpys => floors[1],
                Table::Memsets => floors[2],
                _ => floors[0],
            };
            let floor = floor.unwrap_or(0);
            // A graph is submitted as a whole, and a call that waits submits first. Where the stream
            // was busy until just before, nothing shows when in the call that was.
            let waits = call.role == Role::BlockingCopy || (a.may_block && a.end <= call.end);
            let before = events.activities.get(self.previous[i] as usize);
            let busy = before.is_some_and(|b| b.end + floor >= a.ts);
            let at_once = caused[at as usize] > 1 || waits || busy;
            let ts = if at_once { call.ts } else { (a.ts - floor).clamp(call.ts, call.end) };
            host.cut(timeline, ts);
            let delay = floor.min(a.ts - ts);
            self.launches.push(Launch { timeline, ts, delay, activity: i as u32 });
        }
    }

    /// Waits as the profiler recorded them.
    fn recorded(&mut self, events: &RankEvents, calls: &Calls, host: &mut Host) {
        if events.waits.is_empty() {
            return;
        }
        let launched = Launched::new(events, calls);
        // What was launched last before the event was recorded.
        let source = |wait: &Wait| {
            let record = &events.host[calls.get(wait.record?)? as usize];
            launched.before(wait.device, wait.source_stream, record.ts)
        };
        for wait in &events.waits {
            let Some(call) = calls.get(wait.call) else { continue };
            let at = events.host[call as usize].ts;
            match wait.kind {
                WaitKind::StreamOnEvent => {
                    let target = launched.after(wait.device, wait.stream, at);
                    if let (Some(source), Some(target)) = (source(wait), target) {
                        self.stream_waits.push((source, target));
                    }
                }
                WaitKind::Event => {
                    if let Some(source) = source(wait) {
                        self.host_wait(events, host, source, call);
                    }
                }
                WaitKind::Stream => {
                    if let Some(source) = launched.before(wait.device, wait.stream, at) {
                        self.host_wait(events, host, source, call);
                    }
                }
                // By time, with the others.
                WaitKind::Context => {}
            }
        }
    }

    /// Waits that show in the times alone: a waiting call returned after the last activity that it can
    /// have waited for.
    fn waiting(&mut self, events: &RankEvents, calls: &Calls, host: &mut Host, streams: &Streams) {
        let mut known: Vec<u32> = self.host_waits.iter().map(|&(_, call)| call).collect();
        known.sort_unstable();
        let mut own: Vec<(u32, u32)> = Vec::new();
        for i in 0..events.activities.len() {
            own.extend(calls.of(i).map(|call| (call, i as u32)));
        }
        own.sort_unstable();
        let mut by_thread: Vec<(i32, i64, u32)> = own
            .iter()
            .map(|&(call, activity)| {
                let call = &events.host[call as usize];
                (call.lane, call.ts, activity)
            })
            .collect();
        by_thread.sort_unstable();

        for (call, i) in events.host.iter().zip(0_u32..) {
            if known.binary_search(&i).is_ok() || call.table != Table::RuntimeCalls {
                continue;
            }
            let any = || streams.last_end(call.end);
            let source = match call.role {
                Role::DeviceSync => any(),
                Role::EventSync => any().filter(|&s| events.activities[s as usize].end > call.ts),
                Role::StreamSync => {
                    let next =
                        by_thread.partition_point(|&(l, ts, _)| (l, ts) < (call.lane, call.ts));
                    let last = next.checked_sub(1).map(|at| by_thread[at]);
                    let last = last.filter(|&(lane, ..)| lane == call.lane);
                    let own = last.and_then(|(.., activity)| {
                        streams.last_end_on(&events.activities[activity as usize], call.end)
                    });
                    let any = any();
                    let end = |s: Option<u32>| s.map(|s| events.activities[s as usize].end);
                    match (end(own), end(any)) {
                        // The stream that the thread used last, unless only another one explains it.
                        (Some(own_end), Some(any_end))
                            if call.end - own_end <= SOON_NS || call.end - any_end > SOON_NS =>
                        {
                            own
                        }
                        _ => any,
                    }
                }
                Role::Free => any().filter(|&s| {
                    let end = events.activities[s as usize].end;
                    end > call.ts && call.end - end <= SOON_NS
                }),
                role => {
                    let first = own.partition_point(|&(c, _)| c < i);
                    let mine = own[first..].iter().take_while(|&&(c, _)| c == i);
                    let mine = mine.map(|&(_, activity)| activity).filter(|&s| {
                        let a = &events.activities[s as usize];
                        a.end <= call.end && (a.may_block || role == Role::BlockingCopy)
                    });
                    mine.max_by_key(|&s| (events.activities[s as usize].end, s))
                }
            };
            if let Some(source) = source {
                self.host_wait(events, host, source, i);
            }
        }
    }

    /// `call` cannot return before `source` has ended. If that ended during the call, the call's own time
    /// did not count.
    fn host_wait(&mut self, events: &RankEvents, host: &mut Host, source: u32, call: u32) {
        let event = &events.host[call as usize];
        let end = events.activities[source as usize].end;
        let Some(timeline) = host.timeline(event.lane) else { return };
        if end > event.end {
            return;
        }
        if end > event.ts {
            host.wait(timeline, event.ts, event.end);
            self.waiting_calls += 1;
        } else {
            host.cut(timeline, event.end);
        }
        self.host_waits.push((source, call));
    }

    /// A stream takes a limited number of launches; the next call returns when one of them is done. Where
    /// that limit lies shows in how far the host ever gets ahead, if it often gets just as far.
    fn queues(&mut self, events: &RankEvents, calls: &Calls, host: &mut Host, streams: &Streams) {
        for stream in &streams.ends {
            let of_stream = &streams.order[stream.first..stream.first + stream.by_end.len()];
            // Call, position on the stream, activities over when it returned.
            let mut launches: Vec<(u32, usize, usize)> = Vec::new();
            for (at, &i) in of_stream.iter().enumerate() {
                let Some(call) = calls.of(i as usize) else { continue };
                let end = events.host[call as usize].end;
                launches.push((call, at, stream.by_end.partition_point(|&(e, _)| e <= end)));
            }
            let lead = |&(_, at, over): &(u32, usize, usize)| (at + 1).saturating_sub(over);
            let capacity = launches.iter().map(lead).max().unwrap_or(0);
            let full = launches.iter().filter(|l| lead(l) + FULL_SLACK >= capacity).count();
            if capacity < MIN_QUEUE || full < launches.len() / FULL_SHARE {
                continue;
            }
            let length = |call: u32| events.host[call as usize].end - events.host[call as usize].ts;
            let mut lengths: Vec<i64> = launches.iter().map(|&(call, ..)| length(call)).collect();
            let unhindered = low(&mut lengths).unwrap_or(0);
            for &(call, at, _) in &launches {
                let Some(room) = at.checked_sub(capacity) else { continue };
                let (end, source) = stream.by_end[room];
                let event = &events.host[call as usize];
                let Some(timeline) = host.timeline(event.lane) else { continue };
                if end - event.ts > unhindered && end <= event.end {
                    host.wait(timeline, event.ts, event.end);
                    self.waiting_calls += 1;
                } else {
                    host.cut(timeline, event.end);
                }
                self.queue_waits.push((source, call));
            }
        }
    }

    /// Most traces record no waits between streams. Where a start comes late without a known reason, and
    /// just after an activity of another stream of the device ended, it waited for that; where it comes
    /// just before one ends, it waited for the room that its last blocks leave.
    fn infer(&mut self, events: &RankEvents, streams: &Streams) {
        let activities = &events.activities;
        let mut known = vec![i64::MIN; activities.len()];
        for (i, &previous) in self.previous.iter().enumerate() {
            if let Some(previous) = activities.get(previous as usize) {
                known[i] = previous.end;
            }
        }
        for launch in &self.launches {
            let known = &mut known[launch.activity as usize];
            *known = (*known).max(launch.ts + launch.delay);
        }
        for &(source, target) in &self.stream_waits {
            let end = activities[source as usize].end;
            if end <= activities[target as usize].ts {
                known[target as usize] = known[target as usize].max(end);
            }
        }
        for (i, a) in activities.iter().enumerate() {
            if a.ts.saturating_sub(known[i]) <= UNEXPLAINED_NS {
                continue;
            }
            let (before, after) = streams.ends_elsewhere(activities, a);
            let end = |s: u32| activities[s as usize].end;
            // Without its launch nothing else ties it to what came before.
            let soon = |s: &u32| a.ts - end(*s) <= SOON_NS || a.launch.is_none();
            if let Some(source) = before.filter(|&s| end(s) > known[i]).filter(soon) {
                self.inferred.push((source, i as u32));
            } else if let Some(source) = after.filter(|&s| end(s) - a.ts <= SOON_NS) {
                self.crowded.push((source, i as u32));
            }
        }
    }
}

/// The value that one in twenty stays below: the least that is not an outlier.
fn low(delays: &mut [i64]) -> Option<i64> {
    let at = delays.len().checked_sub(1)? / 20;
    Some(*delays.select_nth_unstable(at).1)
}
