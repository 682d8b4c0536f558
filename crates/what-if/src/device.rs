//! Device activities and the constraints on their starts.

use query::id_index::IdIndex;

use super::host::HostTimelines;
use super::model::{
    Blocker, BlockerKind, EventTable, HostEvent, HostRole, RankEvents, RuntimeCallIndex,
};
use super::streams::{LaunchOrder, StreamOrders};

/// A cross-stream wait is inferred if a start comes this much later than all known constraints explain, and at most
/// [`MAX_WAKE_UP_NS`] after an activity of another stream ended.
const UNEXPLAINED_NS: i64 = 10_000;
const MAX_WAKE_UP_NS: i64 = 20_000;
/// An activity that another stream's end explains for all but one part in this many of its delay waited for it.
const MIN_EXPLAINED_RATIO: i64 = 10;

/// Upper limit of the intrinsic launch delay; a longer delay includes a wait.
const MAX_FLOOR_NS: i64 = 50_000;

/// The clocks of host and device differ by some microseconds, and copies from pageable memory return once their data
/// is staged. Device work that seems to end this much after a waiting call has returned was still waited for: at most
/// this long, and at most one part in `MAX_CLOCK_SKEW_DIVISOR` of the call.
const MAX_CLOCK_SKEW_NS: i64 = 100_000;
const MAX_CLOCK_SKEW_DIVISOR: i64 = 20;

/// The latest device time at which work that a waiting call waited for may seem to end.
fn latest_end_ns(call: &HostEvent) -> i64 {
    call.end_ns + MAX_CLOCK_SKEW_NS.min((call.end_ns - call.ts_ns) / MAX_CLOCK_SKEW_DIVISOR)
}

/// A stream's queue is full if the host leads by at least `MIN_QUEUE` launches, and if at least one in
/// `MIN_FULL_LAUNCHES_DIVISOR` launches is within `FULL_SLACK` of the greatest lead.
const MIN_QUEUE: usize = 256;
const MIN_FULL_LAUNCHES_DIVISOR: usize = 20;
const FULL_SLACK: usize = 8;

/// Submissions of work, and waits of device and host. Numbers are indices of activities.
#[derive(Debug, Default)]
pub(crate) struct DeviceConstraints {
    /// Submissions of the host to the device.
    pub(crate) launches: Vec<Submission>,
    /// The activity on the same stream that ended last before this one; [`NO_INDEX`] for the first.
    pub(crate) previous: Vec<u32>,
    /// Edges between nodes of a graph replay: the source, and the activity that starts after it.
    pub(crate) graph_edges: Vec<(u32, u32)>,
    /// Activities whose graph edges are all known. They follow these edges, not the previous activity on their stream, because the
    /// executor of the graph chose the stream.
    pub(crate) has_own_order: Vec<bool>,
    /// Recorded waits of a stream: source, and the activity that starts after it.
    pub(crate) stream_waits: Vec<(u32, u32)>,
    /// Inferred waits of a stream: source, and the activity that starts after it.
    pub(crate) inferred: Vec<(u32, u32)>,
    /// Starts on a full device: the activity of another stream whose end made room, and the activity that starts.
    pub(crate) crowded: Vec<(u32, u32)>,
    /// Waits of the host: source, and the call (index of the host event).
    pub(crate) host_waits: Vec<(u32, u32)>,
    /// Communication on the host that begins after an activity, and may send the results of that activity.
    pub(crate) sent_data: Vec<SentData>,
    /// Waits for a full queue: the activity that makes room, and the call.
    pub(crate) queue_waits: Vec<(u32, u32)>,
    /// Activities that begin before their launching call; their launches are ignored.
    pub(crate) early_start_count: usize,
    /// Activities whose launching call is not in the trace.
    pub(crate) unlinked_count: usize,
    /// Calls that returned after a wait for the device.
    pub(crate) waiting_call_count: usize,
    /// Minimum delay from submission to start, for kernels.
    pub(crate) launch_floor_ns: Option<i64>,
}

/// A range of communication on the host, and the activity that ended last before it began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentData {
    pub(crate) timeline: usize,
    pub(crate) ts_ns: i64,
    pub(crate) activity: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Submission {
    pub(crate) timeline: usize,
    pub(crate) ts_ns: i64,
    pub(crate) delay: i64,
    pub(crate) activity: u32,
}

impl DeviceConstraints {
    pub(crate) fn new(
        events: &RankEvents,
        calls: &RuntimeCallIndex,
        host: &mut HostTimelines,
    ) -> Self {
        let mut device = Self::default();
        let streams = StreamOrders::new(&events.activities);
        device.previous = streams.previous(&events.activities);
        device.add_graph_edges(events);
        device.place_submissions(events, calls, host);
        device.add_recorded_waits(events, calls, host);
        device.add_timed_host_waits(events, calls, host, &streams);
        device.add_queue_waits(events, calls, host, &streams);
        device.add_sent_data(events, host, &streams);
        device.infer_stream_waits(events, &streams);
        device
    }

    /// Adds the edges between graph nodes. Edges whose nodes overlap in the recording, or whose source is outside of the window, are
    /// left out. Their targets keep the order of their stream.
    fn add_graph_edges(&mut self, events: &RankEvents) {
        let activities = &events.activities;
        self.has_own_order = vec![false; activities.len()];
        if events.graph_edges.is_empty() {
            return;
        }
        let ids = IdIndex::of(activities.iter().zip(0..).map(|(a, i)| (a.id, i)));
        let mut is_incomplete = vec![false; activities.len()];
        for edge in &events.graph_edges {
            let Some(target) = ids.get(edge.target) else { continue };
            let has_ended = |source: &u32| {
                activities[*source as usize].end_ns <= activities[target as usize].ts_ns
            };
            let source = ids.get(edge.source).filter(has_ended);
            is_incomplete[target as usize] |= !edge.is_complete || source.is_none();
            if let Some(source) = source {
                self.graph_edges.push((source, target));
            }
        }
        for &(_, target) in &self.graph_edges {
            self.has_own_order[target as usize] = !is_incomplete[target as usize];
        }
    }

    /// Submission happens inside the launching call: as late as the start allows, given the minimum delay seen on
    /// idle streams. A launching call that takes long is therefore host time, not launch delay.
    fn place_submissions(
        &mut self,
        events: &RankEvents,
        calls: &RuntimeCallIndex,
        host: &mut HostTimelines,
    ) {
        let mut caused = vec![0_u32; events.host.len()];
        for call in (0..events.activities.len()).filter_map(|i| calls.of(i)) {
            caused[call as usize] += 1;
        }
        let call = |activity: usize| Some(&events.host[calls.of(activity)? as usize]);
        let floors = [EventTable::Kernels, EventTable::Memcpys, EventTable::Memsets].map(|table| {
            let mut idle = Vec::new();
            let mut all = Vec::new();
            for (i, a) in events.activities.iter().enumerate().filter(|(_, a)| a.table == table) {
                let Some(call) = call(i) else { continue };
                let delay = a.ts_ns - call.ts_ns;
                if delay < 0 {
                    continue;
                }
                all.push(delay);
                let before = events.activities.get(self.previous[i] as usize);
                if before.is_none_or(|b| b.end_ns <= call.ts_ns) {
                    idle.push(delay);
                }
            }
            let floor =
                fifth_percentile(&mut all).into_iter().chain(fifth_percentile(&mut idle)).min();
            floor.map(|floor| floor.min(MAX_FLOOR_NS))
        });
        self.launch_floor_ns = floors[0];
        for (i, a) in events.activities.iter().enumerate() {
            self.unlinked_count += usize::from(a.launch.is_none());
            let Some(at) = calls.of(i) else { continue };
            let call = &events.host[at as usize];
            let Some(timeline) = host.timeline(call.lane) else { continue };
            if a.ts_ns < call.ts_ns {
                self.early_start_count += 1;
                continue;
            }
            let floor = match a.table {
                EventTable::Memcpys => floors[1],
                EventTable::Memsets => floors[2],
                _ => floors[0],
            };
            let floor = floor.unwrap_or(0);
            // A CUDA graph is submitted as a whole, and a blocking call submits first. If the stream was busy until
            // just before the start, the time of submission within the call is unknown.
            let waits = call.role == HostRole::BlockingCopy
                || (a.may_block && a.end_ns <= latest_end_ns(call));
            let before = events.activities.get(self.previous[i] as usize);
            let busy = before.is_some_and(|b| b.end_ns + floor >= a.ts_ns);
            let at_once = caused[at as usize] > 1 || waits || busy;
            let ts_ns =
                if at_once { call.ts_ns } else { (a.ts_ns - floor).clamp(call.ts_ns, call.end_ns) };
            host.add_node_time(timeline, ts_ns);
            let delay = floor.min(a.ts_ns - ts_ns);
            self.launches.push(Submission { timeline, ts_ns, delay, activity: i as u32 });
        }
    }

    /// Adds the waits that the profiler recorded.
    fn add_recorded_waits(
        &mut self,
        events: &RankEvents,
        calls: &RuntimeCallIndex,
        host: &mut HostTimelines,
    ) {
        if events.waits.is_empty() {
            return;
        }
        let launched = LaunchOrder::new(events, calls);
        // The last activity launched before the event was recorded.
        let source = |wait: &Blocker| {
            let record = &events.host[calls.get(wait.record?)? as usize];
            launched.before(wait.device, wait.source_stream, record.ts_ns)
        };
        for wait in &events.waits {
            let Some(call) = calls.get(wait.call) else { continue };
            let at = events.host[call as usize].ts_ns;
            match wait.kind {
                BlockerKind::StreamOnEvent => {
                    let target = launched.after(wait.device, wait.stream, at);
                    if let (Some(source), Some(target)) = (source(wait), target) {
                        self.stream_waits.push((source, target));
                    }
                }
                BlockerKind::Event => {
                    if let Some(source) = source(wait) {
                        self.add_host_wait(events, host, source, call);
                    }
                }
                BlockerKind::Stream => {
                    if let Some(source) = launched.before(wait.device, wait.stream, at) {
                        self.add_host_wait(events, host, source, call);
                    }
                }
                // Inferred from times, below.
                BlockerKind::Context => {}
            }
        }
    }

    /// Infers waits of the host from times: a waiting call returned after the last activity that it can have waited
    /// for.
    fn add_timed_host_waits(
        &mut self,
        events: &RankEvents,
        calls: &RuntimeCallIndex,
        host: &mut HostTimelines,
        streams: &StreamOrders,
    ) {
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
                (call.lane, call.ts_ns, activity)
            })
            .collect();
        by_thread.sort_unstable();

        for (call, i) in events.host.iter().zip(0_u32..) {
            if known.binary_search(&i).is_ok() || call.table != EventTable::RuntimeCalls {
                continue;
            }
            // Work that begins after the return cannot have been waited for.
            let before_return = |s: &u32| events.activities[*s as usize].ts_ns < call.end_ns;
            let latest_ns = latest_end_ns(call);
            let any = || {
                let last = streams.last_end(latest_ns).filter(before_return);
                last.or_else(|| streams.last_end(call.end_ns))
            };
            let source = match call.role {
                HostRole::DeviceSync => any(),
                HostRole::EventSync => {
                    any().filter(|&s| events.activities[s as usize].end_ns > call.ts_ns)
                }
                HostRole::StreamSync => {
                    let next = by_thread
                        .partition_point(|&(l, ts_ns, _)| (l, ts_ns) < (call.lane, call.ts_ns));
                    let last = next.checked_sub(1).map(|at| by_thread[at]);
                    let last = last.filter(|&(lane, ..)| lane == call.lane);
                    let own = last.and_then(|(.., activity)| {
                        let on = &events.activities[activity as usize];
                        let last = streams.last_end_on(on, latest_ns).filter(before_return);
                        last.or_else(|| streams.last_end_on(on, call.end_ns))
                    });
                    let any = any();
                    let end_ns = |s: Option<u32>| s.map(|s| events.activities[s as usize].end_ns);
                    match (end_ns(own), end_ns(any)) {
                        // The stream that the thread used last, unless only another stream explains the return.
                        (Some(own_end), Some(any_end))
                            if call.end_ns - own_end <= MAX_WAKE_UP_NS
                                || call.end_ns - any_end > MAX_WAKE_UP_NS =>
                        {
                            own
                        }
                        _ => any,
                    }
                }
                HostRole::Free => any().filter(|&s| {
                    let end_ns = events.activities[s as usize].end_ns;
                    end_ns > call.ts_ns && call.end_ns - end_ns <= MAX_WAKE_UP_NS
                }),
                role => {
                    let first = own.partition_point(|&(c, _)| c < i);
                    let mine = own[first..].iter().take_while(|&&(c, _)| c == i);
                    let mine = mine.map(|&(_, activity)| activity).filter(|&s| {
                        let a = &events.activities[s as usize];
                        a.end_ns <= latest_ns
                            && before_return(&s)
                            && (a.may_block || role == HostRole::BlockingCopy)
                    });
                    mine.max_by_key(|&s| (events.activities[s as usize].end_ns, s))
                }
            };
            if let Some(source) = source {
                self.add_host_wait(events, host, source, i);
            }
        }
    }

    /// `call` cannot return before `source` has ended. If `source` ended during the call, the call's own duration
    /// does not count.
    fn add_host_wait(
        &mut self,
        events: &RankEvents,
        host: &mut HostTimelines,
        source: u32,
        call: u32,
    ) {
        let event = &events.host[call as usize];
        let end_ns = events.activities[source as usize].end_ns;
        let Some(timeline) = host.timeline(event.lane) else { return };
        if end_ns > latest_end_ns(event) || events.activities[source as usize].ts_ns >= event.end_ns
        {
            return;
        }
        if end_ns > event.ts_ns {
            host.wait(timeline, event.ts_ns, event.end_ns);
            self.waiting_call_count += 1;
        } else {
            host.add_node_time(timeline, event.end_ns);
        }
        self.host_waits.push((source, call));
    }

    /// A library that communicates on the host, such as gloo, sends results of a device: a communication cannot begin before
    /// the work that had ended when it began, however early that work was launched.
    fn add_sent_data(
        &mut self,
        events: &RankEvents,
        host: &mut HostTimelines,
        streams: &StreamOrders,
    ) {
        for range in events.host.iter().filter(|e| e.role == HostRole::Communication) {
            let timeline = host.timeline(range.lane);
            let (Some(timeline), Some(activity)) = (timeline, streams.last_end(range.ts_ns)) else {
                continue;
            };
            host.add_node_time(timeline, range.ts_ns);
            self.sent_data.push(SentData { timeline, ts_ns: range.ts_ns, activity });
        }
    }

    /// A stream queue holds a limited number of launches; at the limit, the next call returns when one of them
    /// completes. The limit is estimated as the greatest lead of the host, if the host often reaches it.
    fn add_queue_waits(
        &mut self,
        events: &RankEvents,
        calls: &RuntimeCallIndex,
        host: &mut HostTimelines,
        streams: &StreamOrders,
    ) {
        for stream in &streams.ends {
            let of_stream = &streams.order[stream.first..stream.first + stream.by_end.len()];
            // Call, index on the stream, and number of activities that had ended when the call returned.
            let mut launches: Vec<(u32, usize, usize)> = Vec::new();
            for (at, &i) in of_stream.iter().enumerate() {
                let Some(call) = calls.of(i as usize) else { continue };
                let end_ns = events.host[call as usize].end_ns;
                launches.push((call, at, stream.by_end.partition_point(|&(e, _)| e <= end_ns)));
            }
            let lead = |&(_, at, over): &(u32, usize, usize)| (at + 1).saturating_sub(over);
            let capacity = launches.iter().map(lead).max().unwrap_or(0);
            let full = launches.iter().filter(|l| lead(l) + FULL_SLACK >= capacity).count();
            if capacity < MIN_QUEUE || full < launches.len() / MIN_FULL_LAUNCHES_DIVISOR {
                continue;
            }
            let length =
                |call: u32| events.host[call as usize].end_ns - events.host[call as usize].ts_ns;
            let mut lengths: Vec<i64> = launches.iter().map(|&(call, ..)| length(call)).collect();
            let unhindered = fifth_percentile(&mut lengths).unwrap_or(0);
            for &(call, at, _) in &launches {
                let Some(room) = at.checked_sub(capacity) else { continue };
                let (end_ns, source) = stream.by_end[room];
                let event = &events.host[call as usize];
                let Some(timeline) = host.timeline(event.lane) else { continue };
                if end_ns - event.ts_ns > unhindered && end_ns <= event.end_ns {
                    host.wait(timeline, event.ts_ns, event.end_ns);
                    self.waiting_call_count += 1;
                } else {
                    host.add_node_time(timeline, event.end_ns);
                }
                self.queue_waits.push((source, call));
            }
        }
    }

    /// Most traces record no waits between streams. If a start is unexplained and comes just after an activity of
    /// another stream on the device ended, it waited for that activity. If it comes just before one ends, it waited
    /// for the room that the last blocks of that activity leave.
    fn infer_stream_waits(&mut self, events: &RankEvents, streams: &StreamOrders) {
        let activities = &events.activities;
        let mut known = vec![i64::MIN; activities.len()];
        for (i, &previous) in self.previous.iter().enumerate() {
            if let Some(previous) = activities.get(previous as usize) {
                known[i] = previous.end_ns;
            }
        }
        for launch in &self.launches {
            let known = &mut known[launch.activity as usize];
            *known = (*known).max(launch.ts_ns + launch.delay);
        }
        for &(source, target) in self.stream_waits.iter().chain(&self.graph_edges) {
            let end_ns = activities[source as usize].end_ns;
            if end_ns <= activities[target as usize].ts_ns {
                known[target as usize] = known[target as usize].max(end_ns);
            }
        }
        for (i, a) in activities.iter().enumerate() {
            if a.ts_ns.saturating_sub(known[i]) <= UNEXPLAINED_NS {
                continue;
            }
            let (before, after) = streams.ends_elsewhere(activities, a);
            let end_ns = |s: u32| activities[s as usize].end_ns;
            // Without a launch, nothing else ties the activity to earlier ones. After a long delay, hardly anything else
            // explains the start.
            let delay_ns = a.ts_ns.saturating_sub(known[i]);
            let soon = |s: &u32| {
                let since_ns = a.ts_ns - end_ns(*s);
                since_ns <= (delay_ns / MIN_EXPLAINED_RATIO).max(MAX_WAKE_UP_NS)
                    || a.launch.is_none()
            };
            if let Some(source) = before.filter(|&s| end_ns(s) > known[i]).filter(soon) {
                self.inferred.push((source, i as u32));
            } else if let Some(source) = after.filter(|&s| end_ns(s) - a.ts_ns <= MAX_WAKE_UP_NS) {
                self.crowded.push((source, i as u32));
            }
        }
    }
}

/// The 5th percentile: the minimum without outliers.
fn fifth_percentile(delays: &mut [i64]) -> Option<i64> {
    let at = delays.len().checked_sub(1)? / 20;
    Some(*delays.select_nth_unstable(at).1)
}
