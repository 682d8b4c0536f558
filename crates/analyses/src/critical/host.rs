//! Host threads: which one runs the training loop, when it waits for another, and the instants of
//! each that the graph needs.

use super::model::{Calls, Class, HostEvent, RankEvents, Role, Table};
use super::timeline::Timeline;

/// Host time of one rank, and what other parts ask to have nodes for.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) timelines: Vec<Timeline>,
    /// The thread that runs the training loop.
    pub(super) main: Option<usize>,
    /// Threads that the main thread waits for, or that give the device work, by timeline. Others, such as
    /// one that polls, hold nobody and are left out.
    takes_part: Vec<bool>,
    /// Instants that become nodes, by timeline; sorted and unique once [`Host::settle`] is called.
    pub(super) cuts: Vec<Vec<Cut>>,
    /// Stretches in which a thread only waits, by timeline.
    pub(super) waits: Vec<Vec<(i64, i64)>>,
    /// Stretches of other threads between two pieces of work of one burst.
    pub(super) pauses: Vec<Vec<(i64, i64)>>,
    /// From one thread to another.
    pub(super) handoffs: Vec<Handoff>,
}

/// An instant on a host thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cut {
    pub(super) ts: i64,
    /// Work that the main thread may wait for ends here.
    pub(super) returns: bool,
}

/// One thread goes on because another has come to a point.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handoff {
    /// Timeline and instant.
    pub(super) from: (usize, i64),
    pub(super) to: (usize, i64),
    /// What the main thread was doing in between.
    pub(super) class: Class,
}

/// A stretch of a thread's work.
struct Run {
    begin: i64,
    end: i64,
    /// Piece of the main thread in which it begins.
    main: Option<usize>,
}

impl Host {
    pub(super) fn new(events: &RankEvents, calls: &Calls) -> Self {
        let timelines = Timeline::all(&events.host);
        let main = main_thread(events, &timelines);
        let count = timelines.len();
        let mut takes_part = vec![false; count];
        for call in (0..events.activities.len()).filter_map(|i| calls.of(i)) {
            let lane = events.host[call as usize].lane;
            if let Ok(k) = timelines.binary_search_by_key(&lane, |t: &Timeline| t.lane) {
                takes_part[k] = true;
            }
        }
        let mut host = Self {
            timelines,
            main,
            takes_part,
            cuts: vec![Vec::new(); count],
            waits: vec![Vec::new(); count],
            pauses: vec![Vec::new(); count],
            handoffs: Vec::new(),
        };
        let runs: Vec<Vec<Run>> =
            (0..count).map(|k| if Some(k) == main { Vec::new() } else { host.runs(k) }).collect();
        if let Some(main) = main {
            host.takes_part[main] = true;
            host.main_cuts(main);
            host.hand_back(main, &runs);
            host.hand_over(main, &runs);
        }
        for (k, runs) in runs.iter().enumerate() {
            if host.takes_part[k] {
                host.work_cuts(k, runs);
            }
        }
        host
    }

    /// Position of a thread's timeline, if the thread takes part.
    pub(super) fn timeline(&self, lane: i32) -> Option<usize> {
        let k = self.timelines.binary_search_by_key(&lane, |t| t.lane).ok()?;
        self.takes_part[k].then_some(k)
    }

    /// Asks for a node.
    pub(super) fn cut(&mut self, timeline: usize, ts: i64) {
        self.cuts[timeline].push(Cut { ts, returns: false });
    }

    /// The thread only waits from `begin` to `end`.
    pub(super) fn wait(&mut self, timeline: usize, begin: i64, end: i64) {
        self.cut(timeline, begin);
        self.cut(timeline, end);
        self.waits[timeline].push((begin, end));
    }

    /// Sorts what was asked for.
    pub(super) fn settle(&mut self) {
        for cuts in &mut self.cuts {
            cuts.sort_unstable();
            cuts.dedup_by(|b, a| {
                let same = a.ts == b.ts;
                a.returns |= same && b.returns;
                same
            });
        }
        for stretches in self.waits.iter_mut().chain(&mut self.pauses) {
            stretches.sort_unstable();
        }
    }

    /// On the main thread all time counts: nodes where its class changes.
    fn main_cuts(&mut self, k: usize) {
        let timeline = &self.timelines[k];
        let cuts = &mut self.cuts[k];
        let mut class = None;
        for piece in &timeline.pieces {
            if class != Some(piece.class) {
                cuts.push(Cut { ts: piece.ts, returns: false });
                class = Some(piece.class);
            }
        }
        cuts.push(Cut { ts: timeline.begin, returns: false });
        cuts.push(Cut { ts: timeline.end, returns: false });
    }

    /// On other threads only work counts: outside they wait for some.
    fn runs(&self, k: usize) -> Vec<Run> {
        let timeline = &self.timelines[k];
        let main = self.main.map(|m| &self.timelines[m]);
        let mut runs: Vec<Run> = Vec::new();
        for (i, _) in timeline.pieces.iter().enumerate().filter(|(_, p)| p.busy) {
            let (begin, end) = timeline.span(i);
            match runs.last_mut() {
                Some(last) if last.end == begin => last.end = end,
                _ => runs.push(Run { begin, end, main: main.and_then(|m| m.at(begin)) }),
            }
        }
        runs
    }

    fn work_cuts(&mut self, k: usize, runs: &[Run]) {
        let timeline = &self.timelines[k];
        let cuts = &mut self.cuts[k];
        let mut class = None;
        for piece in &timeline.pieces {
            if piece.busy && class != Some(piece.class) {
                cuts.push(Cut { ts: piece.ts, returns: false });
            }
            class = piece.busy.then_some(piece.class);
        }
        for run in runs {
            cuts.push(Cut { ts: run.begin, returns: false });
            cuts.push(Cut { ts: run.end, returns: true });
        }
    }

    /// Where the main thread did nothing that the profiler saw while others worked most of the time, it
    /// waited for them.
    fn hand_back(&mut self, main: usize, runs: &[Vec<Run>]) {
        // Piece of the main thread, thread, end of its work, length of that inside the piece.
        let mut inside: Vec<(usize, usize, i64, i64)> = Vec::new();
        let line = &self.timelines[main];
        for (k, runs) in runs.iter().enumerate() {
            for run in runs {
                if let Some((piece, end)) = waited_for(line, run) {
                    inside.push((piece, k, end, end - run.begin.max(line.span(piece).0)));
                }
            }
        }
        inside.sort_unstable();
        for of_piece in inside.chunk_by(|a, b| a.0 == b.0) {
            let piece = of_piece[0].0;
            let (begin, end) = self.timelines[main].span(piece);
            let class = self.timelines[main].pieces[piece].class;
            let worked: i64 = of_piece.iter().map(|&(.., length)| length).sum();
            if worked < (end - begin) / 2 {
                continue;
            }
            self.wait(main, begin, end);
            for of_thread in of_piece.chunk_by(|a, b| a.1 == b.1) {
                let &(_, k, last, _) = &of_thread[of_thread.len() - 1];
                self.takes_part[k] = true;
                self.cuts[k].push(Cut { ts: last, returns: true });
                self.handoffs.push(Handoff { from: (k, last), to: (main, end), class });
            }
        }
    }

    /// A burst of work of another thread was caused by the main thread's last step before it.
    fn hand_over(&mut self, main: usize, runs: &[Vec<Run>]) {
        for (k, runs) in runs.iter().enumerate() {
            if !self.takes_part[k] {
                continue;
            }
            let mut previous: Option<usize> = None;
            let mut before = 0;
            for run in runs {
                let line = &self.timelines[main];
                let start = match run.main {
                    Some(piece) => Some((line.span(piece).0, line.pieces[piece].class)),
                    None if run.begin >= line.end => Some((line.end, Class::Other)),
                    None => None,
                };
                if previous.is_some() && previous == run.main {
                    self.pauses[k].push((before, run.begin));
                } else if let Some((ts, class)) = start {
                    self.cuts[main].push(Cut { ts, returns: false });
                    let (from, to) = ((main, ts), (k, run.begin));
                    self.handoffs.push(Handoff { from, to, class });
                }
                (previous, before) = (run.main, run.end);
            }
        }
    }
}

/// The piece of the main thread's time that may be a wait for `run`, and when it was over: at the end of
/// the run, or a little before, where the main thread went on before the event was closed.
fn waited_for(main: &Timeline, run: &Run) -> Option<(usize, i64)> {
    let last = main.at(run.end - 1).or_else(|| main.pieces.len().checked_sub(1))?;
    let mut longest: Option<(i64, usize, i64)> = None;
    for piece in (0..=last).rev() {
        let (begin, end) = main.span(piece);
        // Runs of a thread do not overlap: all of them together look at each piece once.
        if end <= run.begin || (run.end - end).saturating_mul(10) > run.end - run.begin {
            break;
        }
        let class = main.pieces[piece].class;
        let idle = matches!(class, Class::Gap | Class::Annotation | Class::Python);
        let length = end - begin;
        if idle
            && (run.end - end).saturating_mul(10) <= length
            && longest.is_none_or(|(l, ..)| l < length)
        {
            longest = Some((length, piece, run.end.min(end)));
        }
    }
    longest.map(|(_, piece, end)| (piece, end))
}

/// The thread that the steps are marked on; else the one that spends most time in operators, calls and
/// ranges, those of the autograd engine aside.
fn main_thread(events: &RankEvents, timelines: &[Timeline]) -> Option<usize> {
    let marks = |lane: i32| events.steps.iter().filter(|s| s.lane == Some(lane)).count();
    let seen = |timeline: &Timeline| -> i64 {
        let spans = timeline.pieces.iter().enumerate();
        spans
            .filter(|(_, p)| !matches!(p.class, Class::Gap | Class::Python))
            .map(|(i, _)| timeline.span(i))
            .map(|(begin, end)| end - begin)
            .sum()
    };
    let backward = |timeline: &Timeline| {
        let of = |e: &HostEvent| e.role == Role::Backward && e.table == Table::CpuOps;
        timeline.pieces.iter().any(|p| events.host.get(p.event as usize).is_some_and(of))
    };
    let score = |t: &Timeline| (marks(t.lane), !backward(t), seen(t));
    // The first thread wins a tie.
    (0..timelines.len()).rev().max_by_key(|&k| score(&timelines[k]))
}
