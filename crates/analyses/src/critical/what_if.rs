//! The same graph with other weights: how long the run would take if something cost less.

use super::graph::{Graph, Kind};
use super::model::{Class, RankEvents};

/// How much of each class of time is left.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Factors([f64; Class::COUNT]);

/// Built-in questions: name and factors.
pub(super) const SCENARIOS: &[(&str, &str)] = &[
    ("data_loading_free", "data_loading=0"),
    ("launch_delay_zero", "launch_delay=0"),
    ("communication_free", "communication=0"),
    ("communication_2x_faster", "communication=0.5"),
    ("copies_free", "copy=0"),
    ("host_2x_faster", "host=0.5"),
    ("kernels_2x_faster", "kernel=0.5"),
    ("sync_free", "sync=0"),
];

/// Factors above this are no questions about this run any more.
const MAX_FACTOR: f64 = 1_000.0;

impl Factors {
    /// Nothing changes.
    pub(super) const ONE: Self = Self([1.0; Class::COUNT]);

    /// From `host=0.5,communication=0`; what is said later wins. The error is a sentence.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut factors = Self::ONE;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((name, value)) = part.split_once('=') else {
                return Err(format!(
                    "what_if: `{part}` is not of the form class=factor, such as host=0.5"
                ));
            };
            let (name, value) = (name.trim(), value.trim());
            let factor = value.parse().ok().filter(|f| (0.0..=MAX_FACTOR).contains(f));
            let Some(factor) = factor else {
                return Err(format!(
                    "what_if: the factor of {name} must be a number from 0 to {MAX_FACTOR}, not `{value}`"
                ));
            };
            let mut known = false;
            for class in Class::ALL {
                if class.bound_by() == name || class.host_kind() == Some(name) {
                    factors.0[class as usize] = factor;
                    known = true;
                }
            }
            if !known {
                return Err(format!(
                    "what_if: there is no class `{name}`; classes are {}",
                    classes()
                ));
            }
        }
        Ok(factors)
    }

    #[expect(clippy::float_cmp, reason = "times stay exact where nothing changes")]
    fn of(&self, class: Class, ns: i64) -> i64 {
        let factor = self.0[class as usize];
        if factor == 1.0 { ns } else { (ns as f64 * factor).round() as i64 }
    }

    /// Waits for the device are gone, not only their overhead.
    fn without_waits(&self) -> bool {
        self.0[Class::Sync as usize] == 0.0
    }
}

/// What one question gives for one rank.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Prediction {
    pub(super) scenario: String,
    pub(super) factors: String,
    pub(super) window: i64,
    pub(super) predicted_window: i64,
    pub(super) steps: usize,
    /// Median length of a step.
    pub(super) step: Option<i64>,
    pub(super) predicted_step: Option<i64>,
}

/// The answer to one question.
pub(super) fn predict(
    graph: &Graph,
    clock: &StepClock,
    scenario: &str,
    text: &str,
    factors: &Factors,
) -> Prediction {
    let (times, end) = times(graph, factors);
    Prediction {
        scenario: scenario.to_owned(),
        factors: text.to_owned(),
        window: graph.window.end - graph.window.begin,
        predicted_window: end - graph.window.begin,
        steps: clock.count(),
        step: clock.median(|node| graph.nodes[node as usize].ts),
        predicted_step: clock.median(|node| times[node as usize]),
    }
}

/// Names that factors go by.
fn classes() -> String {
    let mut names: Vec<&str> = Vec::new();
    for class in Class::ALL {
        for name in [Some(class.bound_by()), class.host_kind()].into_iter().flatten() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.join(", ")
}

/// When each node would happen, and the end of the window.
pub(super) fn times(graph: &Graph, factors: &Factors) -> (Vec<i64>, i64) {
    let without_waits = factors.without_waits();
    let mut times: Vec<i64> = Vec::with_capacity(graph.nodes.len());
    for (i, node) in graph.nodes.iter().enumerate() {
        let edges = graph.edges_into(i).iter();
        let arrival = edges
            .filter(|e| !(without_waits && e.kind == Kind::Sync))
            .map(|e| times[e.source as usize].saturating_add(factors.of(e.class, e.weight)))
            .max();
        let arrival = arrival.unwrap_or(graph.window.begin);
        times.push(arrival.saturating_add(factors.of(node.rest_class, node.rest)));
    }
    let recorded = graph.last().map_or(graph.window.begin, |last| graph.nodes[last].ts);
    let tail = factors.of(Class::Other, graph.window.end - recorded);
    let last = times.iter().copied().max().unwrap_or(graph.window.begin);
    (times, last.saturating_add(tail))
}

/// The lengths of the steps under given times: from the moment when all work of the step before was
/// done, on host and device, to that of this one. The first begins with its mark.
#[derive(Debug)]
pub(super) struct StepClock {
    /// Node that begins the first step; the window's start where there is none.
    begin: Option<u32>,
    /// Nodes whose last one ends a step.
    ends: Vec<Vec<u32>>,
}

impl StepClock {
    pub(super) fn new(graph: &Graph, events: &RankEvents) -> Self {
        let host_node = |lane: Option<i32>, ts: i64| {
            let timeline = lane.and_then(|lane| graph.host.timeline(lane))?;
            graph.host_node(timeline, ts)
        };
        let mut ends: Vec<Vec<u32>> = Vec::new();
        let mut begin = None;
        let mut numbers: Vec<(i64, usize)> = Vec::new();
        for step in &events.steps {
            let nodes = (host_node(step.lane, step.ts), host_node(step.lane, step.end));
            let (Some(first), Some(last)) = nodes else { continue };
            begin = begin.or(Some(first));
            numbers.push((step.number, ends.len()));
            ends.push(vec![last]);
        }
        numbers.sort_unstable();
        for (activity, &node) in events.activities.iter().zip(&graph.activity_ends) {
            let Some(number) = activity.step else { continue };
            if let Ok(at) = numbers.binary_search_by_key(&number, |&(number, _)| number) {
                ends[numbers[at].1].push(node);
            }
        }
        Self { begin, ends }
    }

    /// Number of steps.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// The median length, if there are steps.
    pub(super) fn median(&self, time: impl Fn(u32) -> i64) -> Option<i64> {
        let mut before = time(self.begin?);
        let mut lengths: Vec<i64> = Vec::with_capacity(self.ends.len());
        for nodes in &self.ends {
            let done = nodes.iter().map(|&node| time(node)).fold(before, i64::max);
            lengths.push(done - before);
            before = done;
        }
        lengths.sort_unstable();
        let upper = *lengths.get(lengths.len() / 2)?;
        let lower = lengths[(lengths.len() - 1) / 2];
        Some(lower.midpoint(upper))
    }
}
