//! Device activities sorted by stream, by end, and by launch.

use super::model::{Activity, NO_INDEX, RankEvents, RuntimeCallIndex, sort_runs};

/// Activities by stream, and by end.
pub(crate) struct StreamOrders {
    /// Activities by device, stream and start.
    pub(crate) order: Vec<u32>,
    /// For each stream: `(end, activity)` sorted by end.
    pub(crate) ends: Vec<Ends>,
    /// The same for each device.
    device_ends: Vec<Ends>,
    /// The same for all devices.
    all_ends: Vec<(i64, u32)>,
}

pub(crate) struct Ends {
    device: i32,
    stream: i32,
    /// Start of the stream's range in `order`.
    pub(crate) first: usize,
    pub(crate) by_end: Vec<(i64, u32)>,
}

impl StreamOrders {
    pub(crate) fn new(activities: &[Activity]) -> Self {
        let key = |(i, a): (u32, &Activity)| (a.device, a.stream, a.ts_ns, a.end_ns, a.id, i);
        let mut order: Vec<_> = (0..).zip(activities).map(key).collect();
        sort_runs(&mut order);
        let order: Vec<u32> = order.into_iter().map(|key| key.5).collect();
        let by_end = |of: &[u32]| {
            let mut ends: Vec<_> = of.iter().map(|&i| (activities[i as usize].end_ns, i)).collect();
            // The sort is stable: activities that began first stay first.
            ends.sort_by_key(|&(end_ns, _)| end_ns);
            ends
        };
        let group = |same: &dyn Fn(&Activity, &Activity) -> bool, stream: bool| {
            let mut first = 0;
            let mut groups = Vec::new();
            for of in
                order.chunk_by(|&a, &b| same(&activities[a as usize], &activities[b as usize]))
            {
                let a = &activities[of[0] as usize];
                let stream = if stream { a.stream } else { 0 };
                groups.push(Ends { device: a.device, stream, first, by_end: by_end(of) });
                first += of.len();
            }
            groups
        };
        let ends = group(&|a, b| (a.device, a.stream) == (b.device, b.stream), true);
        let device_ends = group(&|a, b| a.device == b.device, false);
        let all_ends = by_end(&order);
        Self { order, ends, device_ends, all_ends }
    }

    /// For each activity, the one on its stream that ended last before it began.
    pub(crate) fn previous(&self, activities: &[Activity]) -> Vec<u32> {
        let mut previous = vec![NO_INDEX; activities.len()];
        let mut place = vec![0_u32; activities.len()];
        for stream in &self.ends {
            let of_stream = &self.order[stream.first..stream.first + stream.by_end.len()];
            for (at, &i) in of_stream.iter().enumerate() {
                place[i as usize] = at as u32;
            }
            let mut ended = stream.by_end.iter().peekable();
            let mut last = NO_INDEX;
            for (at, &i) in of_stream.iter().enumerate() {
                let ts_ns = activities[i as usize].ts_ns;
                // A zero-length activity that begins at the same moment may come after this one.
                while let Some(&(_, before)) =
                    ended.next_if(|&&(end_ns, b)| end_ns <= ts_ns && place[b as usize] < at as u32)
                {
                    last = before;
                }
                previous[i as usize] = last;
            }
        }
        previous
    }

    pub(crate) fn last_end(&self, ts_ns: i64) -> Option<u32> {
        last(&self.all_ends, ts_ns)
    }

    pub(crate) fn last_end_on(&self, on: &Activity, ts_ns: i64) -> Option<u32> {
        let key = (on.device, on.stream);
        let at = self.ends.binary_search_by_key(&key, |e| (e.device, e.stream)).ok()?;
        last(&self.ends[at].by_end, ts_ns)
    }

    /// On other streams of the device: the activity that ended last before `a` began, and the running activity that
    /// ended first. Looks at a few activities only.
    pub(crate) fn ends_elsewhere(
        &self,
        activities: &[Activity],
        a: &Activity,
    ) -> (Option<u32>, Option<u32>) {
        const LOOK: usize = 8;
        let found = self.device_ends.binary_search_by_key(&a.device, |e| e.device);
        let Ok(at) = found else { return (None, None) };
        let ends = &self.device_ends[at].by_end;
        let (before, after) = ends.split_at(ends.partition_point(|&(end_ns, _)| end_ns <= a.ts_ns));
        let elsewhere = |i: &u32| activities[*i as usize].stream != a.stream;
        let running = |i: &u32| activities[*i as usize].ts_ns < a.ts_ns;
        (
            before.iter().rev().take(LOOK).map(|&(_, i)| i).find(elsewhere),
            after.iter().take(LOOK).map(|&(_, i)| i).find(|i| elsewhere(i) && running(i)),
        )
    }
}

fn last(ends: &[(i64, u32)], ts_ns: i64) -> Option<u32> {
    let next = ends.partition_point(|&(end_ns, _)| end_ns <= ts_ns);
    Some(ends[next.checked_sub(1)?].1)
}

/// `(device, stream, launch time, activity)`, sorted.
pub(crate) struct LaunchOrder(Vec<(i32, i32, i64, u32)>);

impl LaunchOrder {
    pub(crate) fn new(events: &RankEvents, calls: &RuntimeCallIndex) -> Self {
        let mut all: Vec<(i32, i32, i64, u32)> = Vec::new();
        for (i, a) in events.activities.iter().enumerate() {
            let Some(call) = calls.of(i) else { continue };
            all.push((a.device, a.stream, events.host[call as usize].ts_ns, i as u32));
        }
        all.sort_unstable();
        Self(all)
    }

    pub(crate) fn before(&self, device: i32, stream: i32, ts_ns: i64) -> Option<u32> {
        let next = self.0.partition_point(|&(d, s, at, _)| (d, s, at) <= (device, stream, ts_ns));
        let &(d, s, _, i) = self.0.get(next.checked_sub(1)?)?;
        ((d, s) == (device, stream)).then_some(i)
    }

    pub(crate) fn after(&self, device: i32, stream: i32, ts_ns: i64) -> Option<u32> {
        let next = self.0.partition_point(|&(d, s, at, _)| (d, s, at) < (device, stream, ts_ns));
        let &(d, s, _, i) = self.0.get(next)?;
        ((d, s) == (device, stream)).then_some(i)
    }
}
