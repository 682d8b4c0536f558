//! Host threads: which thread runs the training loop, when it waits for others, and which of their instants become
//! nodes.

use super::model::{EventTable, HostEvent, HostRole, RankEvents, RuntimeCallIndex, TimeClass};
use super::timeline::Timeline;

/// Host time of one rank, and the instants that need nodes.
#[derive(Debug)]
pub(crate) struct HostTimelines {
    pub(crate) timelines: Vec<Timeline>,
    /// The thread that runs the training loop.
    pub(crate) main: Option<usize>,
    /// Threads that the main thread waits for, or that submit device work, by timeline. Others, such as a polling
    /// thread, delay no other thread and are left out.
    is_relevant: Vec<bool>,
    /// Instants that become nodes, by timeline; sorted and unique after [`HostTimelines::sort_node_times`].
    pub(crate) node_times: Vec<Vec<NodeTime>>,
    /// Intervals in which a thread only waits, by timeline.
    pub(crate) waits: Vec<Vec<(i64, i64)>>,
    /// Gaps within a burst of work on threads other than the main thread.
    pub(crate) pauses: Vec<Vec<(i64, i64)>>,
    /// Dependencies between threads.
    pub(crate) handoffs: Vec<Handoff>,
}

/// An instant on a host thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeTime {
    pub(crate) ts_ns: i64,
    /// Work that the main thread may wait for ends here.
    pub(crate) returns: bool,
}

/// One thread continues because another has reached a point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handoff {
    /// Timeline and instant.
    pub(crate) from: (usize, i64),
    pub(crate) to: (usize, i64),
    /// Class of the main thread's time in between.
    pub(crate) class: TimeClass,
}

/// An interval of uninterrupted work on a thread.
struct WorkRun {
    begin_ns: i64,
    end_ns: i64,
    /// Piece of the main thread's timeline in which it begins.
    main: Option<usize>,
}

impl HostTimelines {
    pub(crate) fn new(events: &RankEvents, calls: &RuntimeCallIndex) -> Self {
        let timelines = Timeline::all(&events.host);
        let main = main_thread(events, &timelines);
        let count = timelines.len();
        let mut is_relevant = vec![false; count];
        for call in (0..events.activities.len()).filter_map(|i| calls.of(i)) {
            let lane = events.host[call as usize].lane;
            if let Ok(k) = timelines.binary_search_by_key(&lane, |t: &Timeline| t.lane) {
                is_relevant[k] = true;
            }
        }
        let mut host = Self {
            timelines,
            main,
            is_relevant,
            node_times: vec![Vec::new(); count],
            waits: vec![Vec::new(); count],
            pauses: vec![Vec::new(); count],
            handoffs: Vec::new(),
        };
        let runs: Vec<Vec<WorkRun>> = (0..count)
            .map(|k| if Some(k) == main { Vec::new() } else { host.work_runs(k) })
            .collect();
        if let Some(main) = main {
            host.is_relevant[main] = true;
            host.add_main_node_times(main);
            host.add_waits_for_threads(main, &runs);
            host.add_work_handoffs(main, &runs);
        }
        for (k, runs) in runs.iter().enumerate() {
            if host.is_relevant[k] {
                host.add_work_node_times(k, runs);
            }
        }
        host
    }

    /// Index of a thread's timeline, if the thread is relevant.
    pub(crate) fn timeline(&self, lane: i32) -> Option<usize> {
        let k = self.timelines.binary_search_by_key(&lane, |t| t.lane).ok()?;
        self.is_relevant[k].then_some(k)
    }

    /// Requests a node.
    pub(crate) fn add_node_time(&mut self, timeline: usize, ts_ns: i64) {
        self.node_times[timeline].push(NodeTime { ts_ns, returns: false });
    }

    /// Marks an interval in which the thread only waits.
    pub(crate) fn wait(&mut self, timeline: usize, begin_ns: i64, end_ns: i64) {
        self.add_node_time(timeline, begin_ns);
        self.add_node_time(timeline, end_ns);
        self.waits[timeline].push((begin_ns, end_ns));
    }

    /// Sorts requested nodes and intervals.
    pub(crate) fn sort_node_times(&mut self) {
        for node_times in &mut self.node_times {
            node_times.sort_unstable();
            node_times.dedup_by(|b, a| {
                let same = a.ts_ns == b.ts_ns;
                a.returns |= same && b.returns;
                same
            });
        }
        for intervals in self.waits.iter_mut().chain(&mut self.pauses) {
            intervals.sort_unstable();
        }
    }

    /// All time of the main thread counts: adds nodes where its class changes.
    fn add_main_node_times(&mut self, k: usize) {
        let timeline = &self.timelines[k];
        let node_times = &mut self.node_times[k];
        let mut class = None;
        for piece in &timeline.pieces {
            if class != Some(piece.class) {
                node_times.push(NodeTime { ts_ns: piece.ts_ns, returns: false });
                class = Some(piece.class);
            }
        }
        node_times.push(NodeTime { ts_ns: timeline.begin_ns, returns: false });
        node_times.push(NodeTime { ts_ns: timeline.end_ns, returns: false });
    }

    /// Only work counts on other threads: between runs of work they wait for more.
    fn work_runs(&self, k: usize) -> Vec<WorkRun> {
        let timeline = &self.timelines[k];
        let main = self.main.map(|m| &self.timelines[m]);
        let mut runs: Vec<WorkRun> = Vec::new();
        for (i, _) in timeline.pieces.iter().enumerate().filter(|(_, p)| p.busy) {
            let (begin_ns, end_ns) = timeline.span(i);
            match runs.last_mut() {
                Some(last) if last.end_ns == begin_ns => last.end_ns = end_ns,
                _ => {
                    runs.push(WorkRun {
                        begin_ns,
                        end_ns,
                        main: main.and_then(|m| m.at(begin_ns)),
                    });
                }
            }
        }
        runs
    }

    fn add_work_node_times(&mut self, k: usize, runs: &[WorkRun]) {
        let timeline = &self.timelines[k];
        let node_times = &mut self.node_times[k];
        let mut class = None;
        for piece in &timeline.pieces {
            if piece.busy && class != Some(piece.class) {
                node_times.push(NodeTime { ts_ns: piece.ts_ns, returns: false });
            }
            class = piece.busy.then_some(piece.class);
        }
        for run in runs {
            node_times.push(NodeTime { ts_ns: run.begin_ns, returns: false });
            node_times.push(NodeTime { ts_ns: run.end_ns, returns: true });
        }
    }

    /// If the main thread did nothing that the profiler recorded while other threads worked most of the time, it
    /// waited for them.
    fn add_waits_for_threads(&mut self, main: usize, runs: &[Vec<WorkRun>]) {
        // Piece of the main thread, thread, end of its work, and length of the work inside the piece.
        let mut inside: Vec<(usize, usize, i64, i64)> = Vec::new();
        let line = &self.timelines[main];
        for (k, runs) in runs.iter().enumerate() {
            for run in runs {
                if let Some((piece, end_ns)) = find_wait_of_main(line, run) {
                    inside.push((piece, k, end_ns, end_ns - run.begin_ns.max(line.span(piece).0)));
                }
            }
        }
        inside.sort_unstable();
        for of_piece in inside.chunk_by(|a, b| a.0 == b.0) {
            let piece = of_piece[0].0;
            let (begin_ns, end_ns) = self.timelines[main].span(piece);
            let class = self.timelines[main].pieces[piece].class;
            let worked: i64 = of_piece.iter().map(|&(.., length)| length).sum();
            if worked < (end_ns - begin_ns) / 2 {
                continue;
            }
            self.wait(main, begin_ns, end_ns);
            for of_thread in of_piece.chunk_by(|a, b| a.1 == b.1) {
                let &(_, k, last, _) = &of_thread[of_thread.len() - 1];
                self.is_relevant[k] = true;
                self.node_times[k].push(NodeTime { ts_ns: last, returns: true });
                self.handoffs.push(Handoff { from: (k, last), to: (main, end_ns), class });
            }
        }
    }

    /// A burst of work on another thread is caused by the preceding piece of the main thread.
    fn add_work_handoffs(&mut self, main: usize, runs: &[Vec<WorkRun>]) {
        for (k, runs) in runs.iter().enumerate() {
            if !self.is_relevant[k] {
                continue;
            }
            let mut previous: Option<usize> = None;
            let mut before = 0;
            for run in runs {
                let line = &self.timelines[main];
                let start = match run.main {
                    Some(piece) => Some((line.span(piece).0, line.pieces[piece].class)),
                    None if run.begin_ns >= line.end_ns => Some((line.end_ns, TimeClass::Other)),
                    None => None,
                };
                if previous.is_some() && previous == run.main {
                    self.pauses[k].push((before, run.begin_ns));
                } else if let Some((ts_ns, class)) = start {
                    self.node_times[main].push(NodeTime { ts_ns, returns: false });
                    let (from, to) = ((main, ts_ns), (k, run.begin_ns));
                    self.handoffs.push(Handoff { from, to, class });
                }
                (previous, before) = (run.main, run.end_ns);
            }
        }
    }
}

/// The piece of the main thread that may be a wait for `run`, and the end of the wait: the end of the run, or
/// slightly earlier if the main thread continued before the event was closed.
fn find_wait_of_main(main: &Timeline, run: &WorkRun) -> Option<(usize, i64)> {
    let last = main.at(run.end_ns - 1).or_else(|| main.pieces.len().checked_sub(1))?;
    let mut longest: Option<(i64, usize, i64)> = None;
    for piece in (0..=last).rev() {
        let (begin_ns, end_ns) = main.span(piece);
        // Runs of a thread do not overlap, so together they visit each piece once.
        if end_ns <= run.begin_ns
            || (run.end_ns - end_ns).saturating_mul(10) > run.end_ns - run.begin_ns
        {
            break;
        }
        let class = main.pieces[piece].class;
        let idle = matches!(class, TimeClass::Gap | TimeClass::Annotation | TimeClass::Python);
        let length = end_ns - begin_ns;
        if idle
            && (run.end_ns - end_ns).saturating_mul(10) <= length
            && longest.is_none_or(|(l, ..)| l < length)
        {
            longest = Some((length, piece, run.end_ns.min(end_ns)));
        }
    }
    longest.map(|(_, piece, end_ns)| (piece, end_ns))
}

/// The thread with the step marks; else the one with the most time in operators, calls and ranges, with threads of
/// the autograd engine last.
fn main_thread(events: &RankEvents, timelines: &[Timeline]) -> Option<usize> {
    let marks = |lane: i32| events.steps.iter().filter(|s| s.lane == Some(lane)).count();
    let seen = |timeline: &Timeline| -> i64 {
        let spans = timeline.pieces.iter().enumerate();
        spans
            .filter(|(_, p)| !matches!(p.class, TimeClass::Gap | TimeClass::Python))
            .map(|(i, _)| timeline.span(i))
            .map(|(begin_ns, end_ns)| end_ns - begin_ns)
            .sum()
    };
    let backward = |timeline: &Timeline| {
        let of = |e: &HostEvent| e.role == HostRole::Backward && e.table == EventTable::CpuOps;
        timeline.pieces.iter().any(|p| events.host.get(p.event as usize).is_some_and(of))
    };
    let score = |t: &Timeline| (marks(t.lane), !backward(t), seen(t));
    // The first thread wins a tie.
    (0..timelines.len()).rev().max_by_key(|&k| score(&timelines[k]))
}
