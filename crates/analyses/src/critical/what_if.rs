//! Re-times the graph with other weights to predict the duration of a run in which parts of the work cost less.

use super::graph::{EdgeKind, Graph};
use super::model::{RankEvents, TimeClass};

/// Factor for the duration of each class of time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scenario([f64; TimeClass::COUNT]);

/// Built-in scenarios: name and factors.
pub(super) const BUILT_IN_SCENARIOS: &[(&str, &str)] = &[
    ("data_loading_free", "data_loading=0"),
    ("launch_delay_zero", "launch_delay=0"),
    ("communication_free", "communication=0"),
    ("communication_2x_faster", "communication=0.5"),
    ("copies_free", "copy=0"),
    ("host_2x_faster", "host=0.5"),
    ("kernels_2x_faster", "kernel=0.5"),
    ("sync_free", "sync=0"),
];

/// Larger factors say nothing useful about this run.
const MAX_FACTOR: f64 = 1_000.0;

impl Scenario {
    /// Changes nothing.
    pub(super) const UNCHANGED: Self = Self([1.0; TimeClass::COUNT]);

    /// Parses `host=0.5,communication=0`; later factors override earlier ones. The error is a sentence.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut scenario = Self::UNCHANGED;
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
            for class in TimeClass::ALL {
                if class.bound_by() == name || class.host_kind() == Some(name) {
                    scenario.0[class as usize] = factor;
                    known = true;
                }
            }
            if !known {
                return Err(format!(
                    "what_if: there is no class `{name}`; classes are {}",
                    class_names()
                ));
            }
        }
        Ok(scenario)
    }

    #[expect(clippy::float_cmp, reason = "times stay exact where nothing changes")]
    fn scaled(&self, class: TimeClass, ns: i64) -> i64 {
        let factor = self.0[class as usize];
        if factor == 1.0 { ns } else { (ns as f64 * factor).round() as i64 }
    }

    /// Returns whether waits for the device are removed, not only their overhead.
    fn removes_waits(&self) -> bool {
        self.0[TimeClass::Sync as usize] == 0.0
    }
}

/// The prediction of one scenario for one rank.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Prediction {
    pub(super) scenario: String,
    pub(super) factors: String,
    pub(super) window_ns: i64,
    pub(super) predicted_window_ns: i64,
    pub(super) step_count: usize,
    /// Median length of a step.
    pub(super) step_ns: Option<i64>,
    pub(super) predicted_step_ns: Option<i64>,
}

/// Predicts the durations under a scenario.
pub(super) fn predict(
    graph: &Graph,
    clock: &StepClock,
    name: &str,
    text: &str,
    scenario: &Scenario,
) -> Prediction {
    let (times, end_ns) = replay_times(graph, scenario);
    Prediction {
        scenario: name.to_owned(),
        factors: text.to_owned(),
        window_ns: graph.window.end_ns - graph.window.begin_ns,
        predicted_window_ns: end_ns - graph.window.begin_ns,
        step_count: clock.count(),
        step_ns: clock.median(|node| graph.nodes[node as usize].ts_ns),
        predicted_step_ns: clock.median(|node| times[node as usize]),
    }
}

/// Names of the classes that factors can have.
fn class_names() -> String {
    let mut names: Vec<&str> = Vec::new();
    for class in TimeClass::ALL {
        for name in [Some(class.bound_by()), class.host_kind()].into_iter().flatten() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.join(", ")
}

/// The time of each node under a scenario, and the end of the window.
pub(super) fn replay_times(graph: &Graph, scenario: &Scenario) -> (Vec<i64>, i64) {
    let removes_waits = scenario.removes_waits();
    let mut times: Vec<i64> = Vec::with_capacity(graph.nodes.len());
    for (i, node) in graph.nodes.iter().enumerate() {
        let edges = graph.edges_into(i).iter();
        let arrival = edges
            .filter(|e| !(removes_waits && e.kind == EdgeKind::Sync))
            .map(|e| times[e.source as usize].saturating_add(scenario.scaled(e.class, e.weight)))
            .max();
        let arrival = arrival.unwrap_or(graph.window.begin_ns);
        times.push(arrival.saturating_add(scenario.scaled(node.rest_class, node.rest)));
    }
    let recorded = graph.last_node().map_or(graph.window.begin_ns, |last| graph.nodes[last].ts_ns);
    let tail = scenario.scaled(TimeClass::Other, graph.window.end_ns - recorded);
    let last = times.iter().copied().max().unwrap_or(graph.window.begin_ns);
    (times, last.saturating_add(tail))
}

/// Step lengths under given times: from the moment when all work of the previous step was done, on host and device,
/// to that of this step. The first step begins with its mark.
#[derive(Debug)]
pub(super) struct StepClock {
    /// Node that begins the first step, if there are steps.
    begin_node: Option<u32>,
    /// For each step, the nodes of which the last one ends it.
    ends: Vec<Vec<u32>>,
}

impl StepClock {
    pub(super) fn new(graph: &Graph, events: &RankEvents) -> Self {
        let host_node = |lane: Option<i32>, ts_ns: i64| {
            let timeline = lane.and_then(|lane| graph.host.timeline(lane))?;
            graph.host_node(timeline, ts_ns)
        };
        let mut ends: Vec<Vec<u32>> = Vec::new();
        let mut begin_node = None;
        let mut numbers: Vec<(i64, usize)> = Vec::new();
        for step in &events.steps {
            let nodes = (host_node(step.lane, step.ts_ns), host_node(step.lane, step.end_ns));
            let (Some(first), Some(last)) = nodes else { continue };
            begin_node = begin_node.or(Some(first));
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
        Self { begin_node, ends }
    }

    /// Number of steps.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// The median length, if there are steps.
    pub(super) fn median(&self, time: impl Fn(u32) -> i64) -> Option<i64> {
        let mut before = time(self.begin_node?);
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
